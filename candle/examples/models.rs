//! Writes small models of random weights as Candle's own example programs read them, so that the examples run without a
//! download: `cargo run --example models -- DIR`. `candle/run-examples` runs the examples with them.
//!
//! | in DIR | for the example |
//! |---|---|
//! | `mnist/` | mnist-training: digits that are stripes, with their labels |
//! | `llama.gguf`, `tokenizer.json` | quantized |
//! | `stories.bin` | llama2-c |
//! | `resnet18.safetensors` | resnet |
//! | `.cache/huggingface/hub/`, if DIR is the home folder | bert as rocm/bert |
use anyhow::{Context, Result};
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use candle_rocm_tests::Numbers;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const VOCABULARY: usize = 512;
const WIDTH: usize = 64;
const INNER: usize = 128;
const HEADS: usize = 4;
const LAYERS: usize = 2;

fn main() -> Result<()> {
    let dir = PathBuf::from(std::env::args_os().nth(1).context("usage: models DIR")?);
    fs::create_dir_all(&dir)?;
    let tokenizer = tokenizer();
    fs::write(dir.join("tokenizer.json"), &tokenizer)?;
    digits(&dir.join("mnist"))?;
    quantized_llama(&dir.join("llama.gguf"))?;
    stories(&dir.join("stories.bin"))?;
    resnet()?.save(&dir.join("resnet18.safetensors"))?;
    hub(&dir, "bert", &tokenizer, &bert_config(), bert()?)
}

/// Random weights by their names.
struct Weights {
    numbers: Numbers,
    tensors: HashMap<String, Tensor>,
}

impl Weights {
    fn new(seed: u64) -> Weights {
        Weights { numbers: Numbers::new(seed), tensors: HashMap::new() }
    }

    /// Numbers around `middle`, for which products keep the size of their operand.
    fn random(&mut self, dims: &[usize], middle: f32) -> Result<Tensor> {
        // A kernel's windows are its last three dims.
        let inputs: usize = if dims.len() == 4 { dims[1..].iter().product() } else { dims[dims.len() - 1] };
        let scale = (3.0 / inputs as f32).sqrt().min(0.5);
        let count = dims.iter().product();
        let values: Vec<f32> = (0..count).map(|_| middle + scale * self.numbers.unit()).collect();
        Ok(Tensor::from_vec(values, dims, &Device::Cpu)?)
    }

    fn add(&mut self, name: &str, dims: &[usize]) -> Result<()> {
        let tensor = self.random(dims, 0.0)?;
        self.tensors.insert(name.to_owned(), tensor);
        Ok(())
    }

    fn linear(&mut self, name: &str, outputs: usize, inputs: usize) -> Result<()> {
        self.add(&format!("{name}.weight"), &[outputs, inputs])?;
        self.add(&format!("{name}.bias"), &[outputs])
    }

    fn norm(&mut self, name: &str) -> Result<()> {
        let weight = self.random(&[WIDTH], 1.0)?;
        self.tensors.insert(format!("{name}.weight"), weight);
        self.add(&format!("{name}.bias"), &[WIDTH])
    }

    /// A convolution and the normalisation after it.
    fn convolution(&mut self, name: &str, norm: &str, dims: &[usize]) -> Result<()> {
        self.add(&format!("{name}.weight"), dims)?;
        for (part, middle) in [("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)] {
            let values = self.random(&dims[..1], middle)?;
            self.tensors.insert(format!("{norm}.{part}"), values);
        }
        Ok(())
    }

    fn save(&self, path: &Path) -> Result<()> {
        Ok(candle_core::safetensors::save(&self.tensors, path)?)
    }
}

fn bert() -> Result<Weights> {
    let mut weights = Weights::new(1);
    for (name, rows) in [("word", VOCABULARY), ("position", WIDTH), ("token_type", 2)] {
        weights.add(&format!("embeddings.{name}_embeddings.weight"), &[rows, WIDTH])?;
    }
    weights.norm("embeddings.LayerNorm")?;
    for layer in 0..LAYERS {
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        for part in ["self.query", "self.key", "self.value", "output.dense"] {
            weights.linear(&name(&format!("attention.{part}")), WIDTH, WIDTH)?;
        }
        weights.norm(&name("attention.output.LayerNorm"))?;
        weights.linear(&name("intermediate.dense"), INNER, WIDTH)?;
        weights.linear(&name("output.dense"), WIDTH, INNER)?;
        weights.norm(&name("output.LayerNorm"))?;
    }
    Ok(weights)
}

fn bert_config() -> String {
    format!(
        r#"{{"vocab_size": {VOCABULARY}, "hidden_size": {WIDTH}, "num_hidden_layers": {LAYERS},
        "num_attention_heads": {HEADS}, "intermediate_size": {INNER}, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "max_position_embeddings": {WIDTH}, "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
        "pad_token_id": 0, "position_embedding_type": "absolute", "use_cache": true, "model_type": "bert"}}"#
    )
}

/// ResNet-18 of 1000 classes.
fn resnet() -> Result<Weights> {
    let mut weights = Weights::new(2);
    weights.convolution("conv1", "bn1", &[64, 3, 7, 7])?;
    for layer in 1..5 {
        let outputs = 32 << layer;
        let inputs = if layer == 1 { outputs } else { outputs / 2 };
        for block in 0..2 {
            let name = |part: &str| format!("layer{layer}.{block}.{part}");
            let first = if block == 0 { inputs } else { outputs };
            weights.convolution(&name("conv1"), &name("bn1"), &[outputs, first, 3, 3])?;
            weights.convolution(&name("conv2"), &name("bn2"), &[outputs, outputs, 3, 3])?;
            if first != outputs {
                weights.convolution(&name("downsample.0"), &name("downsample.1"), &[outputs, first, 1, 1])?;
            }
        }
    }
    weights.linear("fc", 1000, 512)?;
    Ok(weights)
}

/// A tokenizer whose words are `w0`, `w1`, ..
fn tokenizer() -> String {
    let word = |id: usize| match id {
        0 => "<unk>".to_owned(),
        1 => "<s>".to_owned(),
        2 => "</s>".to_owned(),
        id => format!("w{id}"),
    };
    let vocabulary: Vec<String> = (0..VOCABULARY).map(|id| format!("\"{}\": {id}", word(id))).collect();
    format!(
        r#"{{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {{"type": "WhitespaceSplit"}}, "post_processor": null, "decoder": null,
        "model": {{"type": "WordLevel", "unk_token": "<unk>", "vocab": {{{}}}}}}}"#,
        vocabulary.join(", ")
    )
}

/// Adds a model to the cache of the model hub in the home folder `dir`.
fn hub(dir: &Path, name: &str, tokenizer: &str, config: &str, weights: Weights) -> Result<()> {
    let model = dir.join(format!(".cache/huggingface/hub/models--rocm--{name}"));
    let snapshot = model.join("snapshots/1");
    fs::create_dir_all(&snapshot)?;
    fs::create_dir_all(model.join("refs"))?;
    fs::write(model.join("refs/main"), "1")?;
    fs::write(snapshot.join("config.json"), config)?;
    fs::write(snapshot.join("tokenizer.json"), tokenizer)?;
    weights.save(&snapshot.join("model.safetensors"))
}

/// A Llama with llama.cpp's names, in q4_0 and q8_0.
fn quantized_llama(path: &Path) -> Result<()> {
    let mut weights = Weights::new(3);
    let mut tensors = Vec::new();
    let mut add = |name: String, dims: &[usize], dtype, middle| -> Result<()> {
        let tensor = weights.random(dims, middle)?;
        tensors.push((name, QTensor::quantize(&tensor, dtype)?));
        Ok(())
    };
    add("token_embd.weight".into(), &[VOCABULARY, WIDTH], GgmlDType::Q8_0, 0.0)?;
    add("output_norm.weight".into(), &[WIDTH], GgmlDType::F32, 1.0)?;
    for layer in 0..LAYERS {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        for part in ["attn_q", "attn_k", "attn_v", "attn_output"] {
            add(name(part), &[WIDTH, WIDTH], GgmlDType::Q4_0, 0.0)?;
        }
        add(name("ffn_gate"), &[INNER, WIDTH], GgmlDType::Q4_0, 0.0)?;
        add(name("ffn_up"), &[INNER, WIDTH], GgmlDType::Q4_0, 0.0)?;
        add(name("ffn_down"), &[WIDTH, INNER], GgmlDType::Q8_0, 0.0)?;
        add(name("attn_norm"), &[WIDTH], GgmlDType::F32, 1.0)?;
        add(name("ffn_norm"), &[WIDTH], GgmlDType::F32, 1.0)?;
    }
    let number = |value: usize| Value::U32(value as u32);
    let metadata = [
        ("llama.attention.head_count", number(HEADS)),
        ("llama.attention.head_count_kv", number(HEADS)),
        ("llama.block_count", number(LAYERS)),
        ("llama.embedding_length", number(WIDTH)),
        ("llama.rope.dimension_count", number(WIDTH / HEADS)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
    ];
    let metadata: Vec<_> = metadata.iter().map(|(name, value)| (*name, value)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut file = BufWriter::new(File::create(path)?);
    gguf_file::write(&mut file, &metadata, &tensors)?;
    Ok(file.flush()?)
}

/// A Llama as llama2.c writes it: seven sizes, then the weights in a fixed order, in f32.
fn stories(path: &Path) -> Result<()> {
    let (layers, tokens, half_head) = (LAYERS, 256, WIDTH / HEADS / 2);
    let sizes = [WIDTH, INNER, layers, HEADS, HEADS, VOCABULARY, tokens];
    let mut weights = Weights::new(4);
    let mut file = BufWriter::new(File::create(path)?);
    for size in sizes {
        file.write_all(&(size as i32).to_le_bytes())?;
    }
    let matrix = [layers, WIDTH, WIDTH];
    let wide = [layers, INNER, WIDTH];
    let tensors: [(&[usize], f32); 11] = [
        (&[VOCABULARY, WIDTH], 0.0),
        (&[layers, WIDTH], 1.0),
        (&matrix, 0.0),
        (&matrix, 0.0),
        (&matrix, 0.0),
        (&matrix, 0.0),
        (&[layers, WIDTH], 1.0),
        (&wide, 0.0),
        (&[layers, WIDTH, INNER], 0.0),
        (&wide, 0.0),
        (&[WIDTH], 1.0),
    ];
    for (dims, middle) in tensors {
        for value in weights.random(dims, middle)?.flatten_all()?.to_vec1::<f32>()? {
            file.write_all(&value.to_le_bytes())?;
        }
    }
    // The cosines and the sines of the rotary embedding.
    for part in [f32::cos, f32::sin] {
        for at in 0..tokens * half_head {
            let frequency = 10000f32.powf(-((at % half_head) as f32) / half_head as f32);
            file.write_all(&part((at / half_head) as f32 * frequency).to_le_bytes())?;
        }
    }
    Ok(file.flush()?)
}

/// Images of 28 x 28 as MNIST has them: digit d is light in the rows from 2 d + 3 to 2 d + 6, above noise.
fn digits(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    let mut numbers = Numbers::new(5);
    for (name, count) in [("train", 640u32), ("t10k", 128)] {
        let (mut images, mut labels) = (Vec::new(), Vec::new());
        for field in [2051, count, 28, 28] {
            images.extend(u32::to_be_bytes(field));
        }
        for field in [2049, count] {
            labels.extend(u32::to_be_bytes(field));
        }
        for _ in 0..count {
            let digit = numbers.below(10);
            let light = 2 * digit + 3..2 * digit + 7;
            images
                .extend((0..784).map(|at| numbers.below(64) as u8 + if light.contains(&(at / 28)) { 160 } else { 0 }));
            labels.push(digit as u8);
        }
        fs::write(dir.join(format!("{name}-images-idx3-ubyte")), images)?;
        fs::write(dir.join(format!("{name}-labels-idx1-ubyte")), labels)?;
    }
    Ok(())
}
