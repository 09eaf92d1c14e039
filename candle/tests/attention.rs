//! Fused attention through candle-nn's `sdpa` and the functions of candle-flash-attn, compared with sums of f64.
use candle_core::{DType, Device, Result, Tensor};
use candle_flash_attn as flash;
use candle_nn::ops::sdpa;
use candle_rocm_tests::{Numbers, device, refused, says};
use std::ops::Range;

const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Queries, keys and values of the shapes (batch, heads, tokens, d).
struct Operands {
    q: Tensor,
    k: Tensor,
    v: Tensor,
}

/// Numbers from -1 to 1 of a shape and a dtype.
fn random(numbers: &mut Numbers, dims: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    let values: Vec<f32> = (0..dims.iter().product()).map(|_| numbers.unit()).collect();
    Tensor::from_vec(values, dims, device)?.to_dtype(dtype)
}

impl Operands {
    /// `heads` are those of queries, and of keys and values; `tokens` are queries and keys; `d` are the sizes of a head
    /// of keys and of values.
    fn new(
        dtype: DType,
        batch: usize,
        heads: (usize, usize),
        tokens: (usize, usize),
        d: (usize, usize),
    ) -> Result<Self> {
        let (mut numbers, device) = (Numbers::new(7), device());
        let mut of = |dims: [usize; 4]| random(&mut numbers, &dims, dtype, &device);
        Ok(Operands {
            q: (of([batch, heads.0, tokens.0, d.0])? * 4.0)?,
            k: of([batch, heads.1, tokens.1, d.0])?,
            v: of([batch, heads.1, tokens.1, d.1])?,
        })
    }

    /// The same with the dims of flash attention: (batch, tokens, heads, d), without copies.
    fn tokens_first(&self) -> Result<Operands> {
        let of = |x: &Tensor| x.transpose(1, 2);
        Ok(Operands { q: of(&self.q)?, k: of(&self.k)?, v: of(&self.v)? })
    }

    /// The same with one tensor (tokens, heads, d) for all sequences of the batch, which must have one batch.
    fn packed(&self) -> Result<Operands> {
        let of = |x: &Tensor| x.squeeze(0)?.transpose(0, 1);
        Ok(Operands { q: of(&self.q)?, k: of(&self.k)?, v: of(&self.v)? })
    }
}

/// The elements of a tensor as f64, in order.
fn values(x: &Tensor) -> Result<Vec<f64>> {
    x.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

/// A query, as a rule sees it: its place is that among the keys.
#[derive(Clone, Copy, Debug)]
struct Query {
    batch: usize,
    head: usize,
    token: usize,
    place: isize,
}

/// The tokens of a sequence: its queries and its keys.
type Tokens = (Range<usize>, Range<usize>);

/// The score of a query and a key after all options, from the scaled product. None hides the key.
type Rule<'a> = &'a dyn Fn(Query, usize, f64) -> Option<f64>;

/// The error that crk_attention allows, as shares of the sum of |v| * weight and of the result.
fn allowed(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (2f64.powi(-11), 2f64.powi(-11)),
        DType::BF16 => (2f64.powi(-8), 2f64.powi(-8)),
        _ => (2f64.powi(-20), 2f64.powi(-24)),
    }
}

/// Compares `got` (batch, heads, queries, dv) with attention in f64.
fn check(what: &str, operands: &Operands, scale: f64, sequences: &[Tokens], rule: Rule, got: &Tensor) -> Result<()> {
    let (batch, heads, queries, d) = operands.q.dims4()?;
    let (_, kv_heads, keys, dv) = operands.v.dims4()?;
    let dtype = operands.q.dtype();
    assert_eq!(got.dims(), [batch, heads, queries, dv], "{what}");
    assert_eq!(got.dtype(), dtype, "{what}");
    let (q, k, v, got) = (values(&operands.q)?, values(&operands.k)?, values(&operands.v)?, values(got)?);
    let (of_weights, of_result) = allowed(dtype);
    for (batch, head) in (0..batch).flat_map(|batch| (0..heads).map(move |head| (batch, head))) {
        let kv = batch * kv_heads + head / (heads / kv_heads);
        let k_row = |key: usize| &k[(kv * keys + key) * d..][..d];
        let v_row = |key: usize| &v[(kv * keys + key) * dv..][..dv];
        for (sequence, (of_queries, of_keys)) in sequences.iter().enumerate() {
            for token in of_queries.clone() {
                let at = (batch * heads + head) * queries + token;
                let token = token - of_queries.start;
                let place = (token + of_keys.len()) as isize - of_queries.len() as isize;
                let query = Query { batch: batch.max(sequence), head, token, place };

                let mut seen = Vec::new();
                let mut score_error = 0f64;
                for key in of_keys.clone() {
                    let products = q[at * d..][..d].iter().zip(k_row(key)).map(|(a, b)| a * b * scale);
                    let size: f64 = products.clone().map(f64::abs).sum();
                    score_error = score_error.max(d as f64 * 2f64.powi(-23) * size);
                    seen.extend(rule(query, key - of_keys.start, products.sum()).map(|score| (key, score)));
                }
                let most = seen.iter().fold(f64::NEG_INFINITY, |most, (_, score)| most.max(*score));
                seen.retain(|(_, score)| *score > f64::NEG_INFINITY);
                let sum: f64 = seen.iter().map(|(_, score)| (score - most).exp()).sum();
                for e in 0..dv {
                    let (mut wanted, mut size) = (0.0, 0.0);
                    for (key, score) in &seen {
                        let term = v_row(*key)[e] * (score - most).exp() / sum;
                        (wanted, size) = (wanted + term, size + term.abs());
                    }
                    // 2^-20: functions of f32.
                    let share = of_weights + 2f64.powi(-20) + 2.0 * score_error;
                    let allowed = share * size + 2.0 * of_result * wanted.abs() + 1e-7;
                    let got = got[at * dv + e];
                    let place = format!("{what}, {dtype:?}, sequence {sequence}, {query:?}, element {e}");
                    assert!((got - wanted).abs() <= allowed, "{place}: {got}, not {wanted}, allowed {allowed:.1e}");
                }
            }
        }
    }
    Ok(())
}

/// All tokens as one sequence.
fn whole(operands: &Operands) -> Result<Vec<Tokens>> {
    Ok(vec![(0..operands.q.dim(2)?, 0..operands.k.dim(2)?)])
}

/// The rule of a window, where None is no limit.
fn sees(query: Query, key: usize, left: Option<isize>, right: Option<isize>) -> bool {
    let key = key as isize;
    left.is_none_or(|left| query.place - left <= key) && right.is_none_or(|right| key <= query.place + right)
}

fn capped(score: f64, cap: f64) -> f64 {
    cap * (score / cap).tanh()
}

#[test]
fn sdpa_of_any_shape() -> Result<()> {
    let shapes = [
        (1, (1, 1), (1, 1), (8, 8)),
        (2, (4, 2), (5, 7), (64, 64)),
        (1, (6, 1), (1, 70), (128, 128)),
        // Many keys, which the kernels share out.
        (1, (4, 2), (1, 3000), (64, 64)),
        (1, (2, 2), (17, 17), (72, 40)),
        // Heads that the kernels do not take.
        (2, (2, 1), (3, 9), (20, 12)),
        (1, (2, 2), (2, 5), (1, 3)),
        (1, (3, 3), (4, 4), (100, 100)),
    ];
    for (dtype, (batch, heads, tokens, d)) in DTYPES.iter().flat_map(|dtype| shapes.map(|shape| (*dtype, shape))) {
        let operands = Operands::new(dtype, batch, heads, tokens, d)?;
        let (q, k, v) = (&operands.q, &operands.k, &operands.v);
        let sequences = whole(&operands)?;
        let what = format!("{heads:?} heads, {tokens:?} tokens, heads of {d:?}");
        check(&what, &operands, 0.3, &sequences, &|_, _, score| Some(score), &sdpa(q, k, v, None, false, 0.3, 1.0)?)?;
        let causal = sdpa(q, k, v, None, true, 0.3, 1.0)?;
        let rule = |query, key, score| sees(query, key, None, Some(0)).then_some(score);
        check(&(what.clone() + ", causal"), &operands, 0.3, &sequences, &rule, &causal)?;
        let soft = sdpa(q, k, v, None, false, 0.3, 0.5)?;
        check(&(what + ", softcap"), &operands, 0.3, &sequences, &|_, _, score| Some(capped(score, 0.5)), &soft)?;
    }
    Ok(())
}

#[test]
fn sdpa_of_views() -> Result<()> {
    let operands = Operands::new(DType::F16, 2, (4, 2), (6, 9), (24, 16))?;
    let sequences = whole(&operands)?;
    let rule = |_, _, score| Some(score);
    // Tokens first in memory, elements of a row apart, and a part of a longer cache.
    let turned = |x: &Tensor| x.transpose(1, 2)?.contiguous()?.transpose(1, 2);
    let apart = |x: &Tensor| x.transpose(2, 3)?.contiguous()?.transpose(2, 3);
    let part = |x: &Tensor| Tensor::cat(&[x, x], 2)?.narrow(2, 0, x.dim(2)?);
    for (q, k, v) in [
        (turned(&operands.q)?, turned(&operands.k)?, turned(&operands.v)?),
        (apart(&operands.q)?, apart(&operands.k)?, apart(&operands.v)?),
        (operands.q.clone(), part(&operands.k)?, part(&operands.v)?),
    ] {
        check("views", &operands, 0.5, &sequences, &rule, &sdpa(&q, &k, &v, None, false, 0.5, 1.0)?)?;
    }
    // One row of keys and values for all.
    let one = Operands::new(DType::F32, 1, (2, 1), (3, 5), (8, 8))?;
    let q = Tensor::cat(&[&one.q, &one.q], 0)?;
    let wide = |x: &Tensor| x.broadcast_as((2, 1, 5, 8));
    let got = sdpa(&q, &wide(&one.k)?, &wide(&one.v)?, None, false, 0.5, 1.0)?;
    check("broadcast", &one, 0.5, &whole(&one)?, &rule, &got.narrow(0, 1, 1)?)
}

#[test]
fn sdpa_with_masks() -> Result<()> {
    let (batch, heads, queries, keys) = (2, 4, 6, 9);
    for dtype in DTYPES {
        let operands = Operands::new(dtype, batch, (heads, 2), (queries, keys), (32, 32))?;
        let sequences = whole(&operands)?;
        for dims in [[batch, heads, queries, keys], [batch, 1, 1, keys], [1, 1, queries, keys], [1, heads, queries, 1]]
        {
            for mask_dtype in [dtype, DType::F32, DType::U8] {
                let mut numbers = Numbers::new(11);
                let mask: Vec<f32> = (0..dims.iter().product())
                    .map(|_| match (mask_dtype, numbers.below(3)) {
                        (DType::U8, n) => n as f32,
                        (_, 0) => f32::NEG_INFINITY,
                        _ => numbers.unit(),
                    })
                    .collect();
                let mask = Tensor::from_vec(mask, &dims, operands.q.device())?.to_dtype(mask_dtype)?;
                let all = values(&mask.broadcast_as((batch, heads, queries, keys))?)?;
                let at = |query: Query, key: usize| {
                    all[((query.batch * heads + query.head) * queries + query.token) * keys + key]
                };
                let rule = |query: Query, key: usize, score: f64| match mask_dtype {
                    DType::U8 => (at(query, key) != 0.0).then_some(score),
                    _ => Some(score + at(query, key)),
                };
                let got = sdpa(&operands.q, &operands.k, &operands.v, Some(&mask), false, 0.2, 1.0)?;
                check(&format!("mask {dims:?} of {mask_dtype:?}"), &operands, 0.2, &sequences, &rule, &got)?;
            }
        }
        // Fewer dims than the scores.
        let mask = Tensor::from_vec(vec![0f32; queries * keys], (queries, keys), operands.q.device())?;
        let got = sdpa(&operands.q, &operands.k, &operands.v, Some(&mask), false, 0.2, 1.0)?;
        check("mask of 2 dims", &operands, 0.2, &sequences, &|_, _, score| Some(score), &got)?;
    }
    Ok(())
}

#[test]
fn flash_attn_of_a_batch() -> Result<()> {
    for (dtype, tokens) in DTYPES.iter().flat_map(|dtype| [(5, 9), (9, 5), (1, 40), (33, 33)].map(|t| (*dtype, t))) {
        let operands = Operands::new(dtype, 2, (4, 2), tokens, (40, 40))?;
        let sequences = whole(&operands)?;
        let Operands { q, k, v } = operands.tokens_first()?;
        let slopes = Tensor::new(&[0.5f32, 0.25, 0.125, 0.0625], q.device())?;
        let alibi =
            |query: Query, key: usize| 0.5f64.powi(query.head as i32 + 1) * (query.place - key as isize).abs() as f64;
        let check = |what: &str, rule: Rule, got: Tensor| {
            check(&format!("{what} of {tokens:?}"), &operands, 0.2, &sequences, rule, &got.transpose(1, 2)?)
        };
        let all = |_, _, score| Some(score);
        let causal = |query, key, score| sees(query, key, None, Some(0)).then_some(score);
        let near = |query, key, score| sees(query, key, Some(2), Some(1)).then_some(score);
        check("flash_attn", &all, flash::flash_attn(&q, &k, &v, 0.2, false)?)?;
        check("flash_attn causal", &causal, flash::flash_attn(&q, &k, &v, 0.2, true)?)?;
        check("windowed", &near, flash::flash_attn_windowed(&q, &k, &v, 0.2, Some(2), Some(1))?)?;
        // Above the number of keys, and none.
        check("wide window", &all, flash::flash_attn_windowed(&q, &k, &v, 0.2, Some(1000), Some(tokens.1 + 1))?)?;
        let left = |query, key, score| sees(query, key, Some(1), None).then_some(score);
        check("left window", &left, flash::flash_attn_windowed(&q, &k, &v, 0.2, Some(1), None)?)?;

        let biased = |query, key, score| Some(score - alibi(query, key));
        check("alibi", &biased, flash::flash_attn_alibi(&q, &k, &v, &slopes, 0.2, false)?)?;
        let biased_near = |query, key, score| near(query, key, score).map(|score| score - alibi(query, key));
        let got = flash::flash_attn_alibi_windowed(&q, &k, &v, &slopes, 0.2, Some(2), Some(1))?;
        check("alibi windowed", &biased_near, got)?;
        let got = flash::flash_attn_alibi_windowed_softcap(&q, &k, &v, Some(&slopes), 0.2, Some(2), Some(1), 0.75)?;
        check("alibi, softcap", &|query, key, score| biased_near(query, key, capped(score, 0.75)), got)?;
        let got = flash::flash_attn_alibi_windowed_softcap(&q, &k, &v, None, 0.2, None, Some(0), 0.75)?;
        check("softcap", &|query, key, score| causal(query, key, capped(score, 0.75)), got)?;
    }
    Ok(())
}

/// Lengths of sequences: of queries and of keys. One has neither, one no keys, one more queries than keys.
const LENGTHS: [(usize, usize); 6] = [(3, 7), (0, 0), (1, 33), (2, 0), (8, 5), (17, 17)];

/// The ranges of [`LENGTHS`], and their starts.
type Sequences = (Vec<Tokens>, Vec<u32>, Vec<u32>);

fn sequences() -> Sequences {
    let (mut ranges, mut q, mut k) = (Vec::new(), vec![0], vec![0]);
    let (mut queries, mut keys) = (0, 0);
    for (more_queries, more_keys) in LENGTHS {
        ranges.push((queries..queries + more_queries, keys..keys + more_keys));
        (queries, keys) = (queries + more_queries, keys + more_keys);
        q.push(queries as u32);
        k.push(keys as u32);
    }
    (ranges, q, k)
}

#[test]
fn flash_attn_of_sequences() -> Result<()> {
    let (ranges, starts_q, starts_k) = sequences();
    let tokens = (*starts_q.last().unwrap_or(&0) as usize, *starts_k.last().unwrap_or(&0) as usize);
    for dtype in DTYPES {
        let operands = Operands::new(dtype, 1, (4, 2), tokens, (64, 64))?;
        let Operands { q, k, v } = operands.packed()?;
        let device = q.device();
        let (sq, sk) = (Tensor::new(starts_q.as_slice(), device)?, Tensor::new(starts_k.as_slice(), device)?);
        let slopes = Tensor::new(&[0.5f32, 0.25, 0.125, 0.0625], device)?;
        let alibi =
            |query: Query, key: usize| 0.5f64.powi(query.head as i32 + 1) * (query.place - key as isize).abs() as f64;
        let check = |what: &str, rule: Rule, got: Tensor| {
            check(what, &operands, 0.2, &ranges, rule, &got.transpose(0, 1)?.unsqueeze(0)?)
        };
        let all = |_, _, score| Some(score);
        let causal = |query, key, score| sees(query, key, None, Some(0)).then_some(score);
        let near = |query, key, score| sees(query, key, Some(2), Some(1)).then_some(score);
        let (most_q, most_k) = (17, 33);
        let got = flash::flash_attn_varlen(&q, &k, &v, &sq, &sk, most_q, most_k, 0.2, false)?;
        check("varlen", &all, got)?;
        let got = flash::flash_attn_varlen(&q, &k, &v, &sq, &sk, 100, 200, 0.2, true)?;
        check("varlen causal", &causal, got)?;
        let got = flash::flash_attn_varlen_windowed(&q, &k, &v, &sq, &sk, most_q, most_k, 0.2, Some(2), Some(1))?;
        check("varlen windowed", &near, got)?;
        let biased = |query, key, score| causal(query, key, score).map(|score| score - alibi(query, key));
        let got = flash::flash_attn_varlen_alibi(&q, &k, &v, &slopes, &sq, &sk, most_q, most_k, 0.2, true)?;
        check("varlen alibi", &biased, got)?;
        let (left, right) = (Some(2), Some(1));
        let biased = |query, key, score| near(query, key, score).map(|score| score - alibi(query, key));
        let got =
            flash::flash_attn_varlen_alibi_windowed(&q, &k, &v, &slopes, &sq, &sk, most_q, most_k, 0.2, left, right)?;
        check("varlen alibi windowed", &biased, got)?;
        let got = flash::flash_attn_varlen_alibi_windowed_softcap(
            &q,
            &k,
            &v,
            Some(&slopes),
            &sq,
            &sk,
            most_q,
            most_k,
            0.2,
            left,
            right,
            0.75,
        )?;
        check("varlen softcap", &|query, key, score| biased(query, key, capped(score, 0.75)), got)?;
    }
    Ok(())
}

/// Puts the keys or values (1, heads, tokens, d) of all sequences into a cache of blocks, in the order of `table`.
fn paged(x: &Tensor, block: usize, blocks: usize, table: &[Vec<u32>]) -> Result<Tensor> {
    let (_, heads, tokens, d) = x.dims4()?;
    let from = values(x)?;
    // A cache holds old values in its unused places, which must not matter.
    let mut cache = vec![3f32; blocks * block * heads * d];
    for ((_, keys), blocks) in sequences().0.iter().zip(table) {
        for (i, token) in keys.clone().enumerate() {
            for head in 0..heads {
                let to = ((blocks[i / block] as usize * block + i % block) * heads + head) * d;
                for e in 0..d {
                    cache[to + e] = from[(head * tokens + token) * d + e] as f32;
                }
            }
        }
    }
    Tensor::from_vec(cache, (blocks, block, heads, d), x.device())?.to_dtype(x.dtype())
}

#[test]
fn flash_attn_of_a_paged_cache() -> Result<()> {
    let (ranges, starts_q, starts_k) = sequences();
    let tokens = (*starts_q.last().unwrap_or(&0) as usize, *starts_k.last().unwrap_or(&0) as usize);
    for (dtype, block) in [(DType::F16, 32), (DType::BF16, 16), (DType::F32, 5)] {
        let operands = Operands::new(dtype, 1, (4, 2), tokens, (32, 32))?;
        let device = operands.q.device();
        let columns = 33usize.div_ceil(block);
        // The number is prime to 7.
        let blocks = (LENGTHS.len() * columns + 1..).find(|n| n % 7 != 0).unwrap_or_default();
        // Every sequence has blocks of its own, in no order.
        let table: Vec<Vec<u32>> = (0..LENGTHS.len())
            .map(|s| (0..columns).map(|i| ((s * columns + i) * 7 % blocks) as u32).collect())
            .collect();
        let (k, v) = (paged(&operands.k, block, blocks, &table)?, paged(&operands.v, block, blocks, &table)?);
        let q = operands.packed()?.q;
        let (sq, sk) = (Tensor::new(starts_q.as_slice(), device)?, Tensor::new(starts_k.as_slice(), device)?);
        let table = Tensor::new(table, device)?;
        let span = [
            [[0, 0], [1, 4]],
            [[0, 0], [0, 9]],
            [[0, 0], [30, 33]],
            [[0, 9], [0, 0]],
            [[0, 3], [3, 5]],
            [[2, 9], [12, 40]],
        ];
        let spans: Vec<i32> = span.iter().flatten().flatten().copied().collect();
        let prefixes = Tensor::from_vec(spans, (LENGTHS.len(), 2, 2), device)?;
        for table in [table.clone(), table.to_dtype(DType::I32)?] {
            let run = |prefixes, softcap| {
                let (left, right) = (Some(4), Some(0));
                flash::flash_attn_varlen_paged_windowed(
                    &q, &k, &v, &sq, &sk, &table, prefixes, 17, 33, 0.2, left, right, block, softcap,
                )
            };
            let near = |query, key, score| sees(query, key, Some(4), Some(0)).then_some(score);
            let check = |what: &str, rule: Rule, got: Tensor| {
                check(
                    &format!("{what}, blocks of {block}"),
                    &operands,
                    0.2,
                    &ranges,
                    rule,
                    &got.transpose(0, 1)?.unsqueeze(0)?,
                )
            };
            check("paged", &near, run(None, None)?)?;
            check("paged softcap", &|query, key, score| near(query, key, capped(score, 0.5)), run(None, Some(0.5))?)?;
            let within = |query: Query, key: usize| {
                let both = |[begin, end]: &[i32; 2]| {
                    let within = |x: isize| (*begin as isize..*end as isize).contains(&x);
                    within(query.place) && within(key as isize)
                };
                span[query.batch].iter().any(both)
            };
            let rule = |query, key, score| if within(query, key) { Some(score) } else { near(query, key, score) };
            check("paged prefixes", &rule, run(Some(&prefixes), None)?)?;
        }
    }
    Ok(())
}

#[test]
fn what_flash_attn_refuses() -> Result<()> {
    let operands = Operands::new(DType::F16, 1, (4, 2), (3, 5), (16, 16))?;
    let Operands { q, k, v } = operands.tokens_first()?;
    let device = q.device();
    let on_cpu = |x: &Tensor| x.to_device(&Device::Cpu);
    says!(flash::flash_attn(&on_cpu(&q)?, &on_cpu(&k)?, &on_cpu(&v)?, 1.0, false), "no cpu support for flash-attn");
    says!(sdpa(&on_cpu(&q)?, &on_cpu(&k)?, &on_cpu(&v)?, None, false, 1.0, 1.0), "no cpu impl");
    says!(flash::flash_attn(&q, &k.to_dtype(DType::BF16)?, &v, 1.0, false), "flash-attn: k is of BF16, not of F16");
    let double = |x: &Tensor| x.to_dtype(DType::F64);
    says!(flash::flash_attn(&double(&q)?, &double(&k)?, &double(&v)?, 1.0, false), "crk_attention", "f64");
    // 3 heads, and 2 of keys and values.
    says!(flash::flash_attn(&q.narrow(2, 0, 3)?, &k, &v, 1.0, false), "crk_attention");
    let odd = Operands::new(DType::F16, 1, (1, 1), (3, 5), (20, 20))?.tokens_first()?;
    says!(flash::flash_attn(&odd.q, &odd.k, &odd.v, 1.0, false), "crk_attention", "20");
    let long = Operands::new(DType::F16, 1, (1, 1), (1, 1), (520, 520))?;
    says!(sdpa(&long.q, &long.k, &long.v, None, false, 1.0, 1.0), "crk_attention", "520");
    let apart = q.transpose(2, 3)?.contiguous()?.transpose(2, 3)?;
    says!(flash::flash_attn(&apart, &k, &v, 1.0, false), "crk_attention", "contiguous");
    refused(flash::flash_attn(&q.squeeze(0)?, &k, &v, 1.0, false));

    let slopes = |count: usize, dtype, device: &Device| Tensor::ones(count, dtype, device);
    let with = |slopes: &Tensor| flash::flash_attn_alibi(&q, &k, &v, slopes, 1.0, true);
    says!(with(&slopes(3, DType::F32, device)?), "alibi_slopes", "3", "4");
    says!(with(&slopes(4, DType::F16, device)?), "alibi_slopes", "F16", "F32");
    says!(with(&slopes(4, DType::F32, &Device::Cpu)?), "alibi_slopes", "Cpu");

    let Operands { q, k, v } = operands.packed()?;
    let starts = |numbers: &[u32], device: &Device| Tensor::new(numbers, device);
    let run = |sq: &Tensor, sk: &Tensor| flash::flash_attn_varlen(&q, &k, &v, sq, sk, 3, 5, 1.0, true);
    says!(run(&starts(&[0], device)?, &starts(&[0], device)?), "seqlens_q has 1");
    says!(run(&starts(&[0, 3], device)?, &starts(&[0, 2, 5], device)?), "seqlens_q has 2", "seqlens_k 3");
    says!(run(&starts(&[0, 3], device)?, &starts(&[0, 5], &Device::Cpu)?), "seqlens_k", "Cpu");
    says!(run(&starts(&[0, 3], device)?.to_dtype(DType::I64)?, &starts(&[0, 5], device)?), "seqlens_q", "I64");
    let (sq, sk) = (starts(&[0, 3], device)?, starts(&[0, 5], device)?);
    let cache = |x: &Tensor| x.unsqueeze(0);
    let (pages, values) = (cache(&k)?, cache(&v)?);
    let paged = |table: &Tensor, ranges: Option<&Tensor>, block| {
        flash::flash_attn_varlen_paged_windowed(
            &q,
            &pages,
            &values,
            &sq,
            &sk,
            table,
            ranges,
            3,
            5,
            1.0,
            None,
            Some(0),
            block,
            None,
        )
    };
    let table = Tensor::zeros((1, 1), DType::U32, device)?;
    says!(paged(&table, None, 4), "page_block_size", "4", "5");
    says!(paged(&table.to_dtype(DType::U8)?, None, 5), "block_table", "U8");
    says!(paged(&Tensor::zeros((2, 1), DType::U32, device)?, None, 5), "crk_attention");
    says!(paged(&table, Some(&Tensor::zeros((1, 1, 2), DType::I64, device)?), 5), "mm_prefix_ranges", "I64");
    says!(paged(&table, Some(&Tensor::zeros((2, 1, 2), DType::I32, device)?), 5), "crk_attention");
    paged(&table, Some(&Tensor::zeros((1, 0, 2), DType::I32, device)?), 5)?;
    Ok(())
}
