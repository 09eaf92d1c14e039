//! `LogitsProcessor` on a ROCm device: top-k and top-p sampling by the likeliest tokens alone, and sampling of all
//! tokens by sums of their probabilities.
use candle_core::{Device, Result, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use libtest_mimic::{Failed, Trial};

const TOKENS: usize = 2000;
const TEMPERATURE: f64 = 0.8;

/// Top-p samples the same token as from all probabilities, which `sample_f` downloads. Top-k samples one of the k
/// likeliest; Candle's own choice depends on the order in which a partial sort leaves them.
fn samples_as_from_all(device: &Device) -> Result<()> {
    let logits = Tensor::randn(0f32, 2., TOKENS, device)?;
    assert!(candle_nn::fused::likeliest(&logits, TEMPERATURE, None, Some(0.5))?.is_some());
    for p in [0.1, 0.5, 0.95] {
        let sampling = Sampling::TopP { p, temperature: TEMPERATURE };
        let of = |seed| LogitsProcessor::from_sampling(seed, sampling.clone());
        for seed in 0..40 {
            assert_eq!(of(seed).sample(&logits)?, of(seed).sample_f(&logits, |_| {})?, "top-p {p}, seed {seed}");
        }
    }
    let mut ranked: Vec<_> = logits.to_vec1::<f32>()?.into_iter().zip(0u32..).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let k = 5;
    let likeliest: Vec<_> = ranked[..k].iter().map(|(_, token)| *token).collect();
    for sampling in [
        Sampling::TopK { k, temperature: TEMPERATURE },
        Sampling::TopKThenTopP { k, p: 0.9, temperature: TEMPERATURE },
        Sampling::TopKThenTopP { k, p: 1.0, temperature: TEMPERATURE },
    ] {
        let tokens = (0..40)
            .map(|seed| LogitsProcessor::from_sampling(seed, sampling.clone()).sample(&logits))
            .collect::<Result<Vec<_>>>()?;
        assert!(tokens.iter().all(|token| likeliest.contains(token)), "{sampling:?}: {tokens:?}");
        assert!(tokens.iter().any(|token| *token != tokens[0]), "{sampling:?}: always {}", tokens[0]);
    }
    Ok(())
}

/// Sampling of all tokens gives the token that `sample_f` finds among all probabilities. Only a number at the border of
/// two tokens may give the other one.
fn draws_from_sums(device: &Device) -> Result<()> {
    let logits = Tensor::randn(0f32, 2., TOKENS, device)?;
    assert!(candle_nn::fused::draw(&logits, TEMPERATURE, |sum| Ok(sum / 2.))?.is_some());
    for sampling in [Sampling::All { temperature: TEMPERATURE }, Sampling::TopP { p: 1.0, temperature: TEMPERATURE }] {
        let of = |seed| LogitsProcessor::from_sampling(seed, sampling.clone());
        let mut others = 0;
        for seed in 0..200 {
            let (found, expected) = (of(seed).sample(&logits)?, of(seed).sample_f(&logits, |_| {})?);
            others += usize::from(found != expected);
        }
        assert!(others <= 2, "{sampling:?}: {others} of 200 tokens are others");
    }
    // A processor goes on with its numbers.
    let mut both = [0; 2].map(|_| LogitsProcessor::from_sampling(7, Sampling::All { temperature: TEMPERATURE }));
    let [found, expected] = &mut both;
    let same = (0..50).filter(|_| found.sample(&logits).ok() == expected.sample_f(&logits, |_| {}).ok()).count();
    assert!(same >= 49, "{same} of 50 tokens are the same");
    Ok(())
}

pub fn trial() -> Trial {
    Trial::test("sampling", || {
        let device = candle_rocm_tests::device();
        let done = samples_as_from_all(&device).and_then(|()| draws_from_sums(&device));
        done.map_err(|error| Failed::from(error.to_string()))
    })
}
