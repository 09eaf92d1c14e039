//! The example's Llama beside that of candle-transformers on Candle's CPU device.
use crate::config;
use crate::generate;
use crate::launch::{self, Patience, Rank};
use crate::model::{HALVES_FROM, Llama};
use crate::options::{Options, Source};
use crate::place::Place;
use crate::rendezvous;
use crate::weights::{Files, Random, Weights};
use crate::{OfRanks, Test, config::Split};
use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_rocm_tests::Numbers;
use candle_transformers::models::llama::{Cache, Llama as Reference};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub const TESTS: &[(&str, Test)] =
    &[("folders_that_are_refused", folders_that_are_refused), ("a_single_rank", a_single_rank)];

pub const OF_RANKS: &[(&str, &[usize], OfRanks)] = &[
    ("files_in_f32", &[1, 2, 4], |size| files(size, DType::F32)),
    ("files_in_bf16", &[1, 2, 4], |size| files(size, DType::BF16)),
    ("files_in_f16", &[2], |size| files(size, DType::F16)),
    ("random_weights", &[2, 4], random_weights),
    ("texts", &[1, 2, 4], texts),
    ("sampled_texts", &[2], sampled_texts),
];

const PATIENCE: Patience = Patience { timeout: Duration::from_secs(300), bounded: true };
const PROMPT: [u32; 7] = [3, 90, 17, 17, 64, 1, 42];
const STEPS: [u32; 3] = [8, 77, 31];

/// A folder that is removed with the object.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("candle-rocm-llama-parallel-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A small model in its two variants.
#[derive(Clone, Copy)]
struct Kind {
    vocabulary: usize,
    tied: bool,
    scaled: bool,
    files: usize,
}

const KINDS: [Kind; 2] = [
    // The output layer is split, and angles are those of Llama 3.1.
    Kind { vocabulary: 96, tied: false, scaled: true, files: 2 },
    // It is the embedding, and whole where two ranks do not divide it.
    Kind { vocabulary: 97, tied: true, scaled: false, files: 1 },
];

const WIDTH: usize = 128;
const FEED_FORWARD: usize = 192;

impl Kind {
    fn config_text(&self) -> String {
        let scaling = if self.scaled {
            r#"{"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16, "rope_type": "llama3"}"#
        } else {
            "null"
        };
        format!(
            r#"{{"hidden_size": {WIDTH}, "intermediate_size": {FEED_FORWARD}, "vocab_size": {},
                "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "rms_norm_eps": 1e-5,
                "rope_theta": 10000.0, "rope_scaling": {scaling}, "max_position_embeddings": 64,
                "tie_word_embeddings": {}, "head_dim": 16, "model_type": "llama"}}"#,
            self.vocabulary, self.tied
        )
    }

    /// Numbers that bf16 holds.
    fn tensors(&self) -> Result<HashMap<String, Tensor>> {
        let mut numbers = Numbers::new(5);
        let mut tensors = HashMap::new();
        let mut add = |name: String, dims: &[usize], middle: f32, spread: f32| -> Result<()> {
            let values: Vec<f32> = (0..dims.iter().product()).map(|_| middle + spread * numbers.unit()).collect();
            let tensor = Tensor::from_vec(values, dims, &Device::Cpu)?.to_dtype(DType::BF16)?;
            tensors.insert(format!("{name}.weight"), tensor);
            Ok(())
        };
        let product = |columns: usize| 3f32.sqrt() / (columns as f32).sqrt();
        add("model.embed_tokens".into(), &[self.vocabulary, WIDTH], 0., 1.)?;
        for layer in 0..2 {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            for (part, rows, columns) in [
                ("self_attn.q_proj", WIDTH, WIDTH),
                ("self_attn.k_proj", WIDTH / 2, WIDTH),
                ("self_attn.v_proj", WIDTH / 2, WIDTH),
                ("self_attn.o_proj", WIDTH, WIDTH),
                ("mlp.gate_proj", FEED_FORWARD, WIDTH),
                ("mlp.up_proj", FEED_FORWARD, WIDTH),
                ("mlp.down_proj", WIDTH, FEED_FORWARD),
            ] {
                add(name(part), &[rows, columns], 0., product(columns))?;
            }
            add(name("input_layernorm"), &[WIDTH], 1., 0.2)?;
            add(name("post_attention_layernorm"), &[WIDTH], 1., 0.2)?;
        }
        add("model.norm".into(), &[WIDTH], 1., 0.2)?;
        if !self.tied {
            add("lm_head".into(), &[self.vocabulary, WIDTH], 0., product(WIDTH))?;
        }
        Ok(tensors)
    }

    fn write(&self, folder: &Path) -> Result<()> {
        std::fs::write(folder.join("config.json"), self.config_text())?;
        std::fs::write(folder.join("tokenizer.json"), tokenizer(self.vocabulary))?;
        let tensors = self.tensors()?;
        if self.files == 1 {
            return Ok(candle_core::safetensors::save(&tensors, folder.join("model.safetensors"))?);
        }
        let mut names: Vec<_> = tensors.keys().cloned().collect();
        names.sort();
        let (mut files, mut map) = (vec![HashMap::new(); self.files], HashMap::new());
        for (i, name) in names.into_iter().enumerate() {
            let tensor = tensors[&name].clone();
            files[i % self.files].insert(name.clone(), tensor);
            map.insert(name, format!("model-{}.safetensors", i % self.files));
        }
        for (i, file) in files.iter().enumerate() {
            candle_core::safetensors::save(file, folder.join(format!("model-{i}.safetensors")))?;
        }
        let index = serde_json::json!({ "weight_map": map });
        Ok(std::fs::write(folder.join("model.safetensors.index.json"), index.to_string())?)
    }

    /// The logits of candle-transformers after the prompt and after each step.
    fn reference(&self, folder: &Path, dtype: DType) -> Result<Vec<Vec<f32>>> {
        let config = config::read(&folder.join("config.json"))?;
        let builder = VarBuilder::from_tensors(self.tensors()?, dtype, &Device::Cpu);
        let model = Reference::load(builder, &config)?;
        let mut cache = Cache::new(true, dtype, &config, &Device::Cpu)?;
        let (mut position, mut all) = (0, Vec::new());
        for tokens in [&PROMPT[..], &STEPS[..1], &STEPS[1..2], &STEPS[2..]] {
            let logits = model.forward(&Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?, position, &mut cache)?;
            position += tokens.len();
            all.push(logits.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?);
        }
        Ok(all)
    }
}

/// A tokenizer with a word for each number.
fn tokenizer(vocabulary: usize) -> String {
    let words: serde_json::Map<_, _> = (0..vocabulary).map(|i| (format!("w{i}"), i.into())).collect();
    serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"},
    })
    .to_string()
}

/// The logits of this rank after the prompt and after each step.
fn logits(
    weights: &dyn Weights,
    config: &candle_transformers::models::llama::Config,
    rank: &Rank,
    dtype: DType,
    halves_from: usize,
) -> Result<Vec<Vec<f32>>> {
    let split = Split::new(config, rank.number, rank.size)?;
    let mut model = Llama::load(weights, config, split, rank.comm.as_ref(), (64, dtype, &rank.device))?;
    model.set_halves_from(halves_from);
    let mut all = Vec::new();
    for tokens in [&PROMPT[..], &STEPS[..1], &STEPS[1..2], &STEPS[2..]] {
        let logits = model.forward(&Tensor::new(tokens, &rank.device)?)?;
        if let Some(comm) = &rank.comm {
            comm.wait()?;
        }
        all.push(logits.to_dtype(DType::F32)?.to_vec1()?);
    }
    assert_eq!(model.length(), PROMPT.len() + STEPS.len());
    Ok(all)
}

/// What the ranks give, in their order.
fn of_ranks<T: Send>(size: usize, body: impl Fn(&Rank) -> Result<T> + Sync) -> Result<Vec<T>> {
    let all = Mutex::new(Vec::new());
    let act = |rank: Rank| {
        let result = body(&rank)?;
        all.lock().expect("no panic").push((rank.number, result));
        Ok(())
    };
    if size == 1 {
        let device = launch::open(0)?;
        act(Rank::new(0, 1, device, None, PATIENCE)?)?;
    } else {
        launch::threads(size, PATIENCE, &act)?;
    }
    let mut all = all.into_inner().expect("no panic");
    all.sort_by_key(|(rank, _)| *rank);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

/// The largest difference, as a part of the root mean square of what is expected.
fn difference(found: &[Vec<f32>], expected: &[Vec<f32>]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let mut largest = 0f32;
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.len(), expected.len());
        let mean = (expected.iter().map(|x| x * x).sum::<f32>() / expected.len() as f32).sqrt();
        for (a, b) in found.iter().zip(expected) {
            // NaN must not pass.
            let part = (a - b).abs() / mean;
            largest = if part > largest || part.is_nan() { part } else { largest };
        }
    }
    largest
}

fn files(size: usize, dtype: DType) -> Result<()> {
    for kind in KINDS {
        let folder = Folder::new()?;
        kind.write(&folder.0)?;
        let config = config::read(&folder.0.join("config.json"))?;
        let expected = kind.reference(&folder.0, dtype)?;
        // A prompt as a whole, and in two halves.
        let run = |halves_from: usize| {
            of_ranks(size, |rank| {
                let split = Split::new(&config, rank.number, rank.size)?;
                logits(&Files::open(&folder.0, &split, dtype, &rank.device)?, &config, rank, dtype, halves_from)
            })
        };
        let found = [run(HALVES_FROM)?, run(1)?].concat();
        let bound = match dtype {
            DType::F32 => 1e-4,
            DType::F16 => 0.02,
            _ => 0.12,
        };
        for rank in found {
            let difference = difference(&rank, &expected);
            assert!(difference <= bound, "{dtype:?}, {size} ranks: {difference}");
        }
    }
    Ok(())
}

/// Any number of ranks has the same model. In bf16 the sums of ranks are rounded once more.
fn random_weights(size: usize) -> Result<()> {
    for (dtype, bound, tied) in
        [(DType::F32, 1e-4, false), (DType::F32, 1e-4, true), (DType::BF16, 0.06, false), (DType::BF16, 0.06, true)]
    {
        let mut config = config::shape("tiny")?.config();
        config.tie_word_embeddings = tied;
        let run = |size: usize| {
            of_ranks(size, |rank| {
                let weights = Random {
                    device: rank.device.clone(),
                    dtype,
                    rank: rank.number,
                    size: rank.size,
                    pieces: 4,
                    has_output: !tied,
                };
                logits(&weights, &config, rank, dtype, HALVES_FROM)
            })
        };
        let whole = run(1)?.remove(0);
        for rank in run(size)? {
            let difference = difference(&rank, &whole);
            println!("random weights, {dtype:?}, {size} ranks: differs by {difference:.1e} of the mean");
            assert!(difference <= bound, "{dtype:?}, {size} ranks: {difference}");
        }
    }
    Ok(())
}

fn options(folder: &Path) -> Options {
    Options {
        prompt: "w3 w90 w17".into(),
        tokens: 12,
        dtype: DType::F32,
        context: 64,
        ..Options::of(Source::Folder(folder.to_owned()))
    }
}

/// The tokens of all ranks, and what each wrote.
fn run(options: &Options, size: usize) -> Result<Vec<(Vec<u32>, String)>> {
    let config = generate::config(options)?;
    of_ranks(size, |rank| {
        let mut output = Vec::new();
        let tokens = generate::run(options, &config, rank, &mut output)?;
        Ok((tokens, String::from_utf8(output)?))
    })
}

/// The text is the same with any number of ranks, and rank 0 writes it.
fn texts(size: usize) -> Result<()> {
    for kind in KINDS {
        let folder = Folder::new()?;
        kind.write(&folder.0)?;
        let options = options(&folder.0);
        let (expected, _) = run(&options, 1)?.remove(0);
        assert_eq!(expected.len(), 12);
        let words: Vec<_> = expected.iter().map(|token| format!("w{token}")).collect();
        for (rank, (tokens, text)) in run(&options, size)?.into_iter().enumerate() {
            assert_eq!(tokens, expected, "rank {rank}");
            assert_eq!(text.trim(), if rank == 0 { words.join(" ") } else { String::new() }, "rank {rank}");
        }
        // The context ends a text: 17 tokens are in the cache behind the prompt, and one more is known.
        let long = Options { tokens: 1000, context: 20, ..options.clone() };
        for (tokens, _) in run(&long, size)? {
            assert_eq!(tokens.len(), 20 - 3 + 1);
        }
        // A token that ends texts: steps behind it are under way then.
        let end = expected[4];
        let shorter = expected.iter().position(|token| *token == end).expect("it is there");
        let ends = format!(r#"{{"eos_token_id": {end}, "#);
        std::fs::write(folder.0.join("config.json"), kind.config_text().replacen('{', &ends, 1))?;
        for (tokens, _) in run(&options, size)? {
            assert_eq!(tokens, expected[..shorter]);
        }
        let full = Options { context: 2, ..options };
        let error = run(&full, size).expect_err("the prompt has 3 tokens");
        assert!(format!("{error:#}").contains("the prompt has 3 tokens; 1 to 2 fit"), "{error:#}");
    }
    Ok(())
}

/// All ranks take the token that rank 0 has drawn.
fn sampled_texts(size: usize) -> Result<()> {
    let folder = Folder::new()?;
    KINDS[0].write(&folder.0)?;
    let options = Options { temperature: 1.5, top_p: Some(0.95), ..options(&folder.0) };
    let all = run(&options, size)?;
    assert!(all.iter().all(|(tokens, _)| *tokens == all[0].0));
    let random = Options { prompt_tokens: 5, ..Options::of(Source::Random(config::shape("tiny")?)) };
    let all = run(&Options { tokens: 4, context: 64, ..random }, size)?;
    assert!(all.iter().all(|(tokens, _)| *tokens == all[0].0 && tokens.len() == 4));
    Ok(())
}

fn tiny(ranks: Option<usize>) -> Result<Options> {
    let options = Options::of(Source::Random(config::shape("tiny")?));
    Ok(Options { ranks, prompt_tokens: 5, tokens: 4, context: 64, ..options })
}

/// The tokens of the ranks that a launch runs.
fn launched(place: Option<Place>, options: &Options) -> Result<Vec<Vec<u32>>> {
    let (config, all) = (generate::config(options)?, Mutex::new(Vec::new()));
    let check = |size| Split::new(&config, 0, size).map(drop);
    launch::launch_at(place, options, check, &|rank| {
        let tokens = generate::run(options, &config, &rank, &mut std::io::sink())?;
        all.lock().expect("no panic").push(tokens);
        Ok(())
    })?;
    Ok(all.into_inner().expect("no panic"))
}

fn a_single_rank() -> Result<()> {
    let alone = launched(None, &tiny(None)?)?;
    assert_eq!((alone.len(), alone[0].len()), (1, 4));
    let place = Place { rank: 0, size: 1, local: 0, host: "127.0.0.1".into(), port: 1 };
    assert_eq!(launched(Some(place), &tiny(None)?)?, alone);
    // This process has no launcher.
    let error = launch::launch(&tiny(Some(9))?, |size| bail!("{size} are too many"), &|_| Ok(())).expect_err("9 ranks");
    assert_eq!(error.to_string(), "9 are too many");
    let error = launched(None, &tiny(Some(3))?).expect_err("4 heads of keys");
    assert!(format!("{error:#}").contains("3 ranks: num_attention_heads is 8"), "{error:#}");
    Ok(())
}

/// On a CPU device.
pub fn ranks_that_are_threads() -> Result<()> {
    let all = launched(None, &tiny(Some(2))?)?;
    assert!(all.len() == 2 && all[0] == all[1]);
    assert_eq!(launched(None, &Options { bounded: true, ..tiny(Some(2))? })?, all);
    let place = Place { rank: 0, size: 2, local: 0, host: "127.0.0.1".into(), port: 1 };
    let error = launched(Some(place), &tiny(None)?).expect_err("a launcher's ranks");
    assert!(format!("{error:#}").contains("--ranks 2, and no launcher"), "{error:#}");
    Ok(())
}

/// Ranks that a launcher has started, as threads.
pub fn launched_ranks_meet() -> Result<()> {
    let port = rendezvous::listen("127.0.0.1", 0)?.local_addr()?.port();
    let options = tiny(None)?;
    std::thread::scope(|scope| {
        let ranks = [1, 0].map(|rank| {
            let place = Place { rank, size: 2, local: rank, host: "127.0.0.1".into(), port };
            let options = &options;
            scope.spawn(move || launched(Some(place), options))
        });
        let [one, zero] = ranks.map(|rank| rank.join().expect("no panic"));
        assert_eq!(one?, zero?);
        Ok(())
    })
}

fn folders_that_are_refused() -> Result<()> {
    let folder = Folder::new()?;
    let (kind, config_path) = (KINDS[1], folder.0.join("config.json"));
    kind.write(&folder.0)?;
    let split = |size| Split::new(&config::read(&config_path)?, 0, size);
    let device = Device::Rocm(launch::open(0)?);
    let fails = |result: Result<()>, word: &str| {
        let error = format!("{:#}", result.expect_err(word));
        assert!(error.contains(word), "no {word:?} in {error:?}");
    };
    let change = |from: &str, to: &str| std::fs::write(&config_path, kind.config_text().replace(from, to));
    change("\"head_dim\": 16", "\"head_dim\": 32")?;
    fails(split(1).map(drop), "head_dim is 32");
    change("\"head_dim\": 16", "\"mlp_bias\": true")?;
    fails(split(1).map(drop), "mlp_bias is true");
    change("\"num_attention_heads\": 8", "\"num_attention_heads\": 0")?;
    fails(split(1).map(drop), "at least 1");
    change("{", "")?;
    fails(split(1).map(drop), "config.json");
    change("", "")?;
    fails(split(8).map(drop), "8 ranks: num_key_value_heads is 4");

    // A tensor of other dims than the configuration says, also where only a part of it is read.
    for size in [1, 2] {
        let split = split(size)?;
        let files = Files::open(&folder.0, &split, DType::F32, &device)?;
        let name = "model.layers.0.mlp.up_proj.weight";
        assert_eq!(files.get(name, &[FEED_FORWARD, WIDTH], Some(0))?.dims(), [FEED_FORWARD / size, WIDTH]);
        fails(files.get(name, &[FEED_FORWARD, WIDTH / 2], Some(0)).map(drop), "up_proj");
        fails(files.get("model.layers.9.mlp.up_proj.weight", &[1, 1], Some(0)).map(drop), "layers.9");
    }
    std::fs::remove_file(folder.0.join("model.safetensors"))?;
    fails(Files::open(&folder.0, &split(1)?, DType::F32, &device).map(drop), "has no model.safetensors");
    std::fs::write(folder.0.join("model.safetensors.index.json"), "{}")?;
    fails(Files::open(&folder.0, &split(1)?, DType::F32, &device).map(drop), "no weight_map");
    let index = r#"{"weight_map": {"x": "gone.safetensors"}}"#;
    std::fs::write(folder.0.join("model.safetensors.index.json"), index)?;
    fails(Files::open(&folder.0, &split(1)?, DType::F32, &device).map(drop), "gone.safetensors");
    std::fs::remove_file(&config_path)?;
    fails(split(1).map(drop), "config.json");
    Ok(())
}
