//! Writes small models of random weights as Candle's own example programs read them, so that the examples run without a
//! download: `cargo run --example models -- DIR`. `candle/run-examples` runs the examples with them.
//!
//! | in DIR | for the example |
//! |---|---|
//! | `mnist/` | mnist-training: digits that are stripes, with their labels |
//! | `llama.gguf`, `tokenizer.json` | quantized |
//! | `stories.bin` | llama2-c |
//! | `hub/`, a cache of the model hub | bert as rocm/bert, whisper as rocm/whisper |
//! | `tone.wav` | whisper: one second of a tone |
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
/// Whisper's special tokens come at this number, then the tokens of time.
const SPECIAL: usize = 400;
const SPECIALS: [&str; 6] =
    ["<|startoftranscript|>", "<|transcribe|>", "<|translate|>", "<|nospeech|>", "<|endoftext|>", "<|notimestamps|>"];
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
    tone(&dir.join("tone.wav"))?;
    hub(&dir, "bert", &tokenizer, &bert_config(), bert()?)?;
    hub(&dir, "whisper", &tokenizer, &whisper_config(), whisper()?)
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
        let scale = (3.0 / dims.last().copied().unwrap_or(1) as f32).sqrt().min(0.5);
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

fn whisper() -> Result<Weights> {
    let mut weights = Weights::new(2);
    for (name, inputs) in [("conv1", 80), ("conv2", WIDTH)] {
        weights.add(&format!("model.encoder.{name}.weight"), &[WIDTH, inputs, 3])?;
        weights.add(&format!("model.encoder.{name}.bias"), &[WIDTH])?;
    }
    weights.add("model.decoder.embed_tokens.weight", &[VOCABULARY, WIDTH])?;
    weights.add("model.decoder.embed_positions.weight", &[WIDTH, WIDTH])?;
    for (side, attentions) in [("encoder", &["self_attn"][..]), ("decoder", &["self_attn", "encoder_attn"])] {
        for layer in 0..LAYERS {
            let name = |part: &str| format!("model.{side}.layers.{layer}.{part}");
            for attention in attentions {
                for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                    weights.linear(&name(&format!("{attention}.{part}")), WIDTH, WIDTH)?;
                }
                weights.norm(&name(&format!("{attention}_layer_norm")))?;
            }
            weights.linear(&name("fc1"), 4 * WIDTH, WIDTH)?;
            weights.linear(&name("fc2"), WIDTH, 4 * WIDTH)?;
            weights.norm(&name("final_layer_norm"))?;
        }
        weights.norm(&format!("model.{side}.layer_norm"))?;
    }
    Ok(weights)
}

fn whisper_config() -> String {
    format!(
        r#"{{"num_mel_bins": 80, "max_source_positions": 1500, "d_model": {WIDTH}, "encoder_attention_heads": {HEADS},
        "encoder_layers": {LAYERS}, "vocab_size": {VOCABULARY}, "max_target_positions": {WIDTH},
        "decoder_attention_heads": {HEADS}, "decoder_layers": {LAYERS}, "suppress_tokens": []}}"#
    )
}

/// A tokenizer whose words are `w0`, `w1`, ..
fn tokenizer() -> String {
    let word = |id: usize| match id {
        0 => "<unk>".to_owned(),
        1 => "<s>".to_owned(),
        2 => "</s>".to_owned(),
        id if (SPECIAL..SPECIAL + SPECIALS.len()).contains(&id) => SPECIALS[id - SPECIAL].to_owned(),
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

/// Adds a model to a cache of the model hub in `dir`.
fn hub(dir: &Path, name: &str, tokenizer: &str, config: &str, weights: Weights) -> Result<()> {
    let model = dir.join(format!("hub/models--rocm--{name}"));
    let snapshot = model.join("snapshots/1");
    fs::create_dir_all(&snapshot)?;
    fs::create_dir_all(model.join("refs"))?;
    fs::write(model.join("refs/main"), "1")?;
    fs::write(snapshot.join("config.json"), config)?;
    fs::write(snapshot.join("tokenizer.json"), tokenizer)?;
    candle_core::safetensors::save(&weights.tensors, snapshot.join("model.safetensors"))?;
    Ok(())
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

/// A WAV file of 16-bit samples at 16 kHz, on one channel.
fn tone(path: &Path) -> Result<()> {
    let samples: Vec<i16> = (0..16000).map(|at| (8000.0 * (at as f32 * 0.17).sin()) as i16).collect();
    let bytes = samples.len() as u32 * 2;
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(b"RIFF")?;
    file.write_all(&(36 + bytes).to_le_bytes())?;
    file.write_all(b"WAVEfmt \x10\0\0\0\x01\0\x01\0")?;
    file.write_all(&16000u32.to_le_bytes())?;
    file.write_all(&32000u32.to_le_bytes())?;
    file.write_all(b"\x02\0\x10\0data")?;
    file.write_all(&bytes.to_le_bytes())?;
    for sample in samples {
        file.write_all(&sample.to_le_bytes())?;
    }
    Ok(file.flush()?)
}
