//! Decodes with a small quantized Llama of random weights. It writes the model to a GGUF file, reads it back with
//! Candle's loader onto a ROCm device and onto Candle's CPU device, and compares the logits of every step.
//!
//! Run it with `cargo run --release --example llama [-- --tokens N]`. `CANDLE_ROCM_DEVICE=cpu:32` runs it without a
//! GPU. The program fails if the logits differ by more than the formats explain, or are NaN.
use anyhow::{Context, Result, bail};
use candle_core as candle;

use candle::quantized::GgmlDType::{Q4_0, Q4K, Q6K, Q8_0};
use candle::quantized::gguf_file::{self, Content, Value};
use candle::quantized::{GgmlDType, QMatMul, QTensor};
use candle::{Device, Module, Tensor};
use candle_nn::{kv_cache::KvCache, ops, rotary_emb};
use candle_rocm_tests::{Numbers, number_option, open_gpu};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TOKENS: usize = 32;
const MOST_TOKENS: usize = 2000;
const PROMPT: usize = 16;

const VOCABULARY: usize = 512;
const WIDTH: usize = 256;
const LAYERS: usize = 4;
/// Each key and value serves two heads of the queries.
const HEADS: usize = 8;
const KV_HEADS: usize = 4;
const FEED_FORWARD: usize = 768;

/// The largest difference of a logit from the CPU's, relative to the range of the CPU's logits (highest less lowest).
///
/// The weights have the same bits on both devices, but the activations differ. A product first rounds them to 8 bits:
/// here in blocks of 32 values, on Candle's CPU in blocks of 256 for the K formats (q4_K, q6_K). Every product adds
/// this noise, half a percent of its operand, and a token passes through 29 products on its way to the logits.
const BOUND: f32 = 0.03;
/// A tighter test compares with the same model with weights dequantized to f32, where products do not round
/// activations. Both devices approximate it. The ROCm device's root mean square distance from it may be at most this
/// many times that of Candle's CPU. With its smaller blocks it is 0.84 times.
const NOISE_BOUND: f64 = 1.0;

fn main() -> Result<()> {
    let purpose = "Decodes with a small quantized Llama on a ROCm device and on Candle's CPU device side by side.";
    let Some(tokens) = number_option("tokens", purpose, TOKENS)? else { return Ok(()) };
    if !(1..=MOST_TOKENS).contains(&tokens) {
        bail!("--tokens {tokens}: 1 to {MOST_TOKENS}");
    }
    let gpu = open_gpu()?;

    let file = Temporary::new()?;
    println!("{}: {:.1} MB of weights in five formats\n", file.0.display(), write_model(&file.0)? as f64 / 1e6);
    let context = PROMPT + tokens;
    let mut on_gpu = Model::load(&file.0, &gpu, Products::Quantized, context)?;
    let mut on_cpu = Model::load(&file.0, &Device::Cpu, Products::Quantized, context)?;
    let mut exact = Model::load(&file.0, &Device::Cpu, Products::Exact, context)?;

    let mut random = Numbers::new(17);
    let mut input: Vec<u32> = (0..PROMPT).map(|_| random.below(VOCABULARY) as u32).collect();
    println!("token  highest logit: rocm       cpu  largest difference, of the spread");
    let (mut worst, mut same, mut gpu_noise, mut cpu_noise) = (0f32, 0, 0f64, 0f64);
    for step in 0..tokens {
        let (gpu_logits, cpu_logits) = (on_gpu.forward(&input)?, on_cpu.forward(&input)?);
        let exact_logits = exact.forward(&input)?;
        if let Some(at) = gpu_logits.iter().position(|logit| !logit.is_finite()) {
            bail!("step {step}: the logit of token {at} is {}", gpu_logits[at]);
        }
        let (token, cpu_token) = (highest(&gpu_logits), highest(&cpu_logits));
        let spread = cpu_logits[cpu_token] - cpu_logits.iter().copied().fold(f32::INFINITY, f32::min);
        let difference = gpu_logits.iter().zip(&cpu_logits).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max) / spread;
        // Two logits that are closer than the noise may change order.
        let other = if token == cpu_token { String::new() } else { format!("  the cpu's: token {cpu_token}") };
        println!("{token:5} {:20.4}  {:8.4}  {difference:.4}{other}", gpu_logits[token], cpu_logits[cpu_token]);
        let within = difference <= BOUND;
        if !within {
            bail!("step {step}: the logits differ by {difference} of their spread, more than {BOUND}");
        }
        worst = worst.max(difference);
        same += usize::from(token == cpu_token);
        gpu_noise += square_distance(&gpu_logits, &exact_logits);
        cpu_noise += square_distance(&cpu_logits, &exact_logits);
        // Both continue with the ROCm device's choice, so that a close decision does not make two different texts.
        input = vec![token as u32];
    }

    let root = |sum: f64| (sum / (tokens * VOCABULARY) as f64).sqrt();
    let (gpu_noise, cpu_noise) = (root(gpu_noise), root(cpu_noise));
    println!("\nlargest difference: {worst:.4} of the spread; allowed: {BOUND}");
    println!("the same token is highest {same} times of {tokens}");
    println!(
        "distance from f32 products: {gpu_noise:.4} rocm, {cpu_noise:.4} cpu; allowed: {NOISE_BOUND} times the cpu's"
    );
    println!("rocm: {}\ncpu:  {}", on_gpu.speed(), on_cpu.speed());
    let within = gpu_noise <= NOISE_BOUND * cpu_noise;
    if !within {
        bail!("the ROCm device's logits are further from f32 products than the formats explain");
    }
    Ok(())
}

fn highest(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0)
}

fn square_distance(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum()
}

/// A file that is removed when the program ends.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("candle-rocm-llama-{}.gguf", std::process::id()));
        File::create_new(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a model of random weights with llama.cpp's names. Returns the size of its tensors.
fn write_model(path: &Path) -> Result<usize> {
    let mut random = Numbers::new(11);
    let mut tensors = Vec::new();
    let mut add = |name: String, dims: &[usize], dtype: GgmlDType, middle: f32, deviation: f32| -> Result<()> {
        // The deviation of uniformly distributed numbers from -r to r is r / sqrt(3).
        let value = |_| middle + deviation * 3f32.sqrt() * random.unit();
        let values: Vec<f32> = (0..dims.iter().product::<usize>()).map(value).collect();
        let tensor = Tensor::from_vec(values, dims, &Device::Cpu)?;
        tensors.push((format!("{name}.weight"), QTensor::quantize(&tensor, dtype)?));
        Ok(())
    };
    add("token_embd".into(), &[VOCABULARY, WIDTH], Q4_0, 0.0, 1.0)?;
    for layer in 0..LAYERS {
        let kv_width = WIDTH / HEADS * KV_HEADS;
        let products = [
            ("attn_q", WIDTH, WIDTH, Q4K),
            ("attn_k", kv_width, WIDTH, Q8_0),
            ("attn_v", kv_width, WIDTH, Q6K),
            ("attn_output", WIDTH, WIDTH, Q4_0),
            ("ffn_gate", FEED_FORWARD, WIDTH, Q4K),
            ("ffn_up", FEED_FORWARD, WIDTH, Q4_0),
            ("ffn_down", WIDTH, FEED_FORWARD, Q6K),
        ];
        for (name, rows, columns, dtype) in products {
            // Keeps the magnitude of values constant through the product.
            add(format!("blk.{layer}.{name}"), &[rows, columns], dtype, 0.0, 1.0 / (columns as f32).sqrt())?;
        }
        for name in ["attn_norm", "ffn_norm"] {
            add(format!("blk.{layer}.{name}"), &[WIDTH], GgmlDType::F32, 1.0, 0.1)?;
        }
    }
    add("output_norm".into(), &[WIDTH], GgmlDType::F32, 1.0, 0.1)?;
    add("output".into(), &[VOCABULARY, WIDTH], Q8_0, 0.0, 1.0 / (WIDTH as f32).sqrt())?;

    let metadata = [
        ("general.architecture", Value::String("llama".into())),
        ("llama.block_count", Value::U32(LAYERS as u32)),
        ("llama.attention.head_count", Value::U32(HEADS as u32)),
        ("llama.attention.head_count_kv", Value::U32(KV_HEADS as u32)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.rope.freq_base", Value::F32(10_000.0)),
    ];
    let metadata: Vec<_> = metadata.iter().map(|(name, value)| (*name, value)).collect();
    let named: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut file = BufWriter::new(File::create(path)?);
    gguf_file::write(&mut file, &metadata, &named)?;
    file.flush()?;
    Ok(tensors.iter().map(|(_, tensor)| tensor.storage_size_in_bytes()).sum())
}

/// How a model multiplies by its weights.
#[derive(Clone, Copy)]
enum Products {
    /// With quantized weights, rounding activations to 8 bits: the normal case.
    Quantized,
    /// With weights dequantized to f32 beforehand.
    Exact,
}

/// An open GGUF file, and the destination of its tensors.
struct Loader<'a> {
    content: Content,
    file: BufReader<File>,
    device: &'a Device,
    products: Products,
}

impl Loader<'_> {
    fn metadata(&self, name: &str) -> Result<&Value> {
        self.content.metadata.get(name).with_context(|| format!("the file has no {name}"))
    }

    fn tensor(&mut self, name: &str) -> Result<QTensor> {
        Ok(self.content.tensor(&mut self.file, &format!("{name}.weight"), self.device)?)
    }

    fn norm(&mut self, name: &str) -> Result<Tensor> {
        Ok(self.tensor(name)?.dequantize(self.device)?)
    }

    fn product(&mut self, name: &str) -> Result<QMatMul> {
        let weights = self.tensor(name)?;
        Ok(match self.products {
            Products::Quantized => QMatMul::from_qtensor(weights)?,
            Products::Exact => QMatMul::Tensor(weights.dequantize(self.device)?),
        })
    }
}

struct Layer {
    attn_norm: Tensor,
    attn_q: QMatMul,
    attn_k: QMatMul,
    attn_v: QMatMul,
    attn_output: QMatMul,
    ffn_norm: Tensor,
    ffn_gate: QMatMul,
    ffn_up: QMatMul,
    ffn_down: QMatMul,
    cache: KvCache,
}

struct Model {
    device: Device,
    embedding: QTensor,
    layers: Vec<Layer>,
    output_norm: Tensor,
    output: QMatMul,
    /// (context, half of a head): the cosine of the angle for every position.
    cos: Tensor,
    sin: Tensor,
    heads: usize,
    kv_heads: usize,
    epsilon: f32,
    /// The time that each call of `forward` took.
    times: Vec<Duration>,
}

impl Model {
    fn load(path: &Path, device: &Device, products: Products, context: usize) -> Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        let content = Content::read(&mut file)?;
        let mut loader = Loader { content, file, device, products };
        let embedding = loader.tensor("token_embd")?;
        let heads = loader.metadata("llama.attention.head_count")?.to_u32()? as usize;
        let kv_heads = loader.metadata("llama.attention.head_count_kv")?.to_u32()? as usize;
        let epsilon = loader.metadata("llama.attention.layer_norm_rms_epsilon")?.to_f32()?;
        let base = loader.metadata("llama.rope.freq_base")?.to_f32()?;
        let mut layers = Vec::new();
        for layer in 0..loader.metadata("llama.block_count")?.to_u32()? {
            let name = |part: &str| format!("blk.{layer}.{part}");
            layers.push(Layer {
                attn_norm: loader.norm(&name("attn_norm"))?,
                attn_q: loader.product(&name("attn_q"))?,
                attn_k: loader.product(&name("attn_k"))?,
                attn_v: loader.product(&name("attn_v"))?,
                attn_output: loader.product(&name("attn_output"))?,
                ffn_norm: loader.norm(&name("ffn_norm"))?,
                ffn_gate: loader.product(&name("ffn_gate"))?,
                ffn_up: loader.product(&name("ffn_up"))?,
                ffn_down: loader.product(&name("ffn_down"))?,
                cache: KvCache::new(2, context),
            });
        }
        let half = embedding.shape().dims2()?.1 / heads / 2;
        let angle = |i: usize| (i / half) as f32 * base.powf(-((i % half) as f32) / half as f32);
        let table = |of: fn(f32) -> f32| {
            let values: Vec<f32> = (0..context * half).map(|i| of(angle(i))).collect();
            Tensor::from_vec(values, (context, half), device)
        };
        Ok(Self {
            device: device.clone(),
            embedding,
            layers,
            output_norm: loader.norm("output_norm")?,
            output: loader.product("output")?,
            cos: table(f32::cos)?,
            sin: table(f32::sin)?,
            heads,
            kv_heads,
            epsilon,
            times: Vec::new(),
        })
    }

    /// Appends tokens to the text. Returns the logits for the next token.
    fn forward(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let begin = Instant::now();
        let count = tokens.len();
        let start = self.layers.first().map_or(0, |layer| layer.cache.current_seq_len());
        let (cos, sin) = (self.cos.narrow(0, start, count)?, self.sin.narrow(0, start, count)?);
        // A single token sees all tokens before it.
        let mask = if count == 1 { None } else { Some(causal(start, count, &self.device)?) };
        let mut x = self.embedding.embedding(&Tensor::new(tokens, &self.device)?.unsqueeze(0)?)?;
        for layer in &mut self.layers {
            let normed = ops::rms_norm(&x, &layer.attn_norm, self.epsilon)?;
            x = (x + layer.attend(&normed, (self.heads, self.kv_heads), (&cos, &sin), mask.as_ref())?)?;
            let normed = ops::rms_norm(&x, &layer.ffn_norm, self.epsilon)?;
            let gated = (ops::silu(&layer.ffn_gate.forward(&normed)?)? * layer.ffn_up.forward(&normed)?)?;
            x = (x + layer.ffn_down.forward(&gated)?)?;
        }
        let last = x.narrow(1, count - 1, 1)?.contiguous()?;
        let logits = self.output.forward(&ops::rms_norm(&last, &self.output_norm, self.epsilon)?)?;
        let logits = logits.flatten_all()?.to_vec1()?;
        self.times.push(begin.elapsed());
        Ok(logits)
    }

    /// Tokens per second. The prompt's are separate, because they are processed together.
    fn speed(&self) -> String {
        let Some((prompt, decoded)) = self.times.split_first() else { return String::new() };
        let rate = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64().max(1e-9);
        let decoded = rate(decoded.len(), decoded.iter().sum());
        format!("{:.0} tokens/s of the prompt, {decoded:.0} tokens/s decoded", rate(PROMPT, *prompt))
    }
}

impl Layer {
    /// The result of the attention over `x`: (1, tokens, width).
    fn attend(
        &mut self,
        x: &Tensor,
        (heads, kv_heads): (usize, usize),
        (cos, sin): (&Tensor, &Tensor),
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let count = x.dim(1)?;
        // From (1, tokens, n * width of a head) to (1, n, tokens, width of a head).
        let split = |x: Tensor, n: usize| x.reshape((1, count, n, ()))?.transpose(1, 2)?.contiguous();
        let q = rotary_emb::rope_i(&split(self.attn_q.forward(x)?, heads)?, cos, sin)?;
        let k = rotary_emb::rope_i(&split(self.attn_k.forward(x)?, kv_heads)?, cos, sin)?;
        let v = split(self.attn_v.forward(x)?, kv_heads)?;
        let (k, v) = self.cache.append(&k, &v)?;
        let (length, width) = (k.dim(2)?, k.dim(3)?);

        // The heads that share a key are adjacent. So their queries are rows of one product, and no key is repeated.
        let rows = heads / kv_heads * count;
        let scores = (q.reshape((1, kv_heads, rows, width))?.matmul(&k.t()?)? / (width as f64).sqrt())?;
        let scores = scores.reshape((1, heads, count, length))?;
        let scores = match mask {
            Some(mask) => scores.broadcast_add(mask)?,
            None => scores,
        };
        let shares = ops::softmax_last_dim(&scores)?.reshape((1, kv_heads, rows, length))?;
        let mixed = shares.matmul(&v)?.reshape((1, heads, count, width))?.transpose(1, 2)?;
        Ok(self.attn_output.forward(&mixed.reshape((1, count, heads * width))?)?)
    }
}

/// The attention mask (tokens, context): 0 for positions up to the token's own, minus infinity for later ones.
fn causal(start: usize, count: usize, device: &Device) -> Result<Tensor> {
    let length = start + count;
    let value = |i| if i % length > start + i / length { f32::NEG_INFINITY } else { 0.0 };
    let values: Vec<f32> = (0..count * length).map(value).collect();
    Ok(Tensor::from_vec(values, (count, length), device)?)
}
