//! Tokens per second of a small Llama, after its results were compared with the CPU device.
mod model;

use super::private::clean;
use super::{Depth, progress};
use crate::Result;
use crate::measure::Clock;
use candle_rocm_sys::{Buffer, DType, Device, Layout, ReduceOp};
use model::{Model, Size};
use serde::Serialize;

#[derive(Serialize)]
pub struct Llama {
    pub model: Size,
    pub weights: &'static str,
    pub weight_bytes: usize,
    /// Both of the comparison: the device, the largest difference over the largest logit, and its limit.
    pub compared_with: String,
    pub difference: f64,
    pub difference_limit: f64,
    /// Absent where the results are wrong.
    pub speed: Option<Speed>,
}

#[derive(Serialize)]
pub struct Speed {
    pub context_tokens: usize,
    pub decode_tokens_per_s: f64,
    pub decode_in_a_graph: bool,
    pub decode_weights_gb_per_s: f64,
    pub prompt_tokens: usize,
    pub prompt_tokens_per_s: f64,
}

/// The model whose results are compared.
const COMPARED: Size = Size { layers: 2, hidden: 256, heads: 8, kv_heads: 2, ffn: 512, vocabulary: 512 };
/// Its prompt: more columns than the kernels for vectors take.
const COMPARED_PROMPT: usize = 12;
/// The kernels round activations to 8 bits. Sums in another order move some of them to the next code, which changes a
/// product by far more than the order does. An H100 differs from the CPU device by 1e-2.
const LIMIT: f64 = 3e-2;

const FULL: Size = Size { layers: 16, hidden: 2048, heads: 32, kv_heads: 8, ffn: 8192, vocabulary: 32000 };
const SMALL: Size = Size { layers: 4, hidden: 512, heads: 8, kv_heads: 2, ffn: 1024, vocabulary: 4096 };

/// The logits of a prompt, and of one more token.
fn logits(device: &Device) -> Result<Vec<f32>> {
    let model = Model::new(device, COMPARED, COMPARED_PROMPT + 1, 7)?;
    let ids: Vec<u32> = (0..COMPARED_PROMPT as u32).map(|i| i * 37 % COMPARED.vocabulary as u32).collect();
    let prompt = model.step(&device.upload(&ids)?, COMPARED_PROMPT, 0)?;
    let next = model.step(&device.upload(&[5u32])?, 1, COMPARED_PROMPT)?;
    Ok([prompt.download::<f32>()?, next.download::<f32>()?].concat())
}

/// The largest difference over the largest magnitude; NaN where there is a NaN.
fn difference(got: &[f32], expected: &[f32]) -> f64 {
    let largest = expected.iter().fold(0f64, |most, x| most.max(f64::from(x.abs())));
    let apart = got.iter().zip(expected).map(|(a, b)| f64::from((a - b).abs()));
    // f64::max would drop a NaN.
    apart.fold(0f64, |most, x| if x.is_nan() || x > most { x } else { most }) / largest
}

pub fn measure(device: &Device, name: &str, clock: &Clock<'_>, depth: Depth) -> Result<Llama> {
    let bar = progress::bar("llama", 4);
    bar.set_message("compares its results");
    let other = if name == "cpu:32" { "cpu:64" } else { "cpu:32" };
    let reference =
        Device::open_named(other).map_err(|error| format!("{other}, for the comparison of results: {error}"))?;
    let difference = difference(&logits(device)?, &logits(&reference)?);
    bar.inc(1);
    let size = match depth {
        Depth::Quick => COMPARED,
        Depth::Cpu => SMALL,
        Depth::Full => FULL,
    };
    let speed = if difference <= LIMIT { Some(speed(device, clock, size, depth, &bar)?) } else { None };
    bar.finish_with_message("");
    Ok(Llama {
        model: size,
        weights: "q4_0",
        weight_bytes: size.weight_bytes(),
        compared_with: clean(other),
        difference,
        difference_limit: LIMIT,
        speed,
    })
}

fn speed(device: &Device, clock: &Clock<'_>, size: Size, depth: Depth, bar: &indicatif::ProgressBar) -> Result<Speed> {
    let (context, prompt) = match depth {
        Depth::Quick => (16, 16),
        Depth::Cpu => (32, 32),
        Depth::Full => (128, 256),
    };
    bar.set_message("fills its weights");
    let model = Model::new(device, size, prompt.max(context) + 1, 11)?;
    let ids: Vec<u32> = (0..prompt).map(|i| (i * 37 % size.vocabulary) as u32).collect();
    let (ids, id) = (device.upload(&ids)?, device.upload(&[1u32])?);
    bar.inc(1);

    bar.set_message("a prompt");
    let prompts = clock.time(|_| model.step(&ids, prompt, 0).map(drop))?;
    bar.inc(1);

    bar.set_message("a token");
    let next = device.alloc(4)?;
    let decode = || decode(device, &model, (&id, &next), context);
    decode()?; // allocates what the graph needs
    let graph = device.capture(decode).ok();
    let token = match &graph {
        // SAFETY: the model's memory, `id` and `next` are live.
        Some((graph, ())) => clock.time(|_| Ok(unsafe { graph.launch() }?))?,
        None => clock.time(|_| decode())?,
    };
    bar.inc(1);
    Ok(Speed {
        context_tokens: context,
        decode_tokens_per_s: 1.0 / token.median,
        decode_in_a_graph: graph.is_some(),
        decode_weights_gb_per_s: size.weight_bytes() as f64 / token.median * 1e-9,
        prompt_tokens: prompt,
        prompt_tokens_per_s: prompt as f64 / prompts.median,
    })
}

/// A step of one token, and the choice of the next.
fn decode(device: &Device, model: &Model, (id, next): (&Buffer, &Buffer), past: usize) -> Result<()> {
    let logits = model.step(id, 1, past)?;
    let row = Layout::contiguous(&[1, logits.bytes() / 4])?;
    Ok(device.reduce(ReduceOp::Argmax, DType::F32, &row, &logits, &[1], next)?)
}
