//! GGUF files of kilobytes: small tokenizers, and models of random weights.
use candle_core::quantized::gguf_file::{self, Content, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Result, Tensor};
use candle_rocm_tests::Numbers;
use std::fs::{self, File};
use std::io::{BufWriter, Cursor, Write};
use std::path::{Path, PathBuf};

/// A folder that is removed at the end of its test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("candle-rocm-chat-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A tokenizer, as the fields of a file have it.
#[derive(Clone, Default)]
pub struct Vocabulary {
    pub model: &'static str,
    pub pre: Option<&'static str>,
    pub texts: Vec<String>,
    pub kinds: Vec<i32>,
    pub scores: Vec<f32>,
    pub merges: Vec<String>,
    pub eos: u32,
    pub template: Option<&'static str>,
}

const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const BYTE: i32 = 6;

impl Vocabulary {
    fn add(&mut self, text: &str, kind: i32, score: f32) -> u32 {
        self.texts.push(text.to_owned());
        self.kinds.push(kind);
        self.scores.push(score);
        self.texts.len() as u32 - 1
    }

    /// Bytes as GPT-2 writes them, a few merges, and the special tokens of ChatML.
    pub fn byte_level(pre: Option<&'static str>) -> Vocabulary {
        let mut chars: Vec<(u8, char)> =
            crate::tokenizer::byte_chars().into_iter().map(|(c, byte)| (byte, c)).collect();
        chars.sort_unstable();
        let mut vocabulary = Vocabulary { model: "gpt2", pre, ..Default::default() };
        for (_, char) in chars {
            vocabulary.add(&char.to_string(), NORMAL, 0.0);
        }
        // `Ġ` is a space, `Ċ` a new line, and `Ã¼` is ü.
        for merge in ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ", "Ã ¼", "ð Ł", "1 2", "12 3", "' s"]
        {
            vocabulary.merges.push(merge.to_owned());
            vocabulary.add(&merge.replace(' ', ""), NORMAL, 0.0);
        }
        vocabulary.add("<|im_start|>", CONTROL, 0.0);
        vocabulary.eos = vocabulary.add("<|im_end|>", CONTROL, 0.0);
        vocabulary.add("<think>", USER_DEFINED, 0.0);
        vocabulary
    }

    /// Pieces with scores, and a token for every byte, as SentencePiece makes them.
    pub fn scored() -> Vocabulary {
        let mut vocabulary = Vocabulary { model: "llama", eos: 2, ..Default::default() };
        vocabulary.add("<unk>", UNKNOWN, 0.0);
        vocabulary.add("<s>", CONTROL, 0.0);
        vocabulary.add("</s>", CONTROL, 0.0);
        for byte in 0..=255 {
            vocabulary.add(&format!("<0x{byte:02X}>"), BYTE, 0.0);
        }
        // The pair `bc` has a better score than `ab`, so `abc` is `a` and `bc`.
        for (at, text) in ["bc", "ab", "he", "ll", "hell", "hello", "▁hello", "▁w", "▁▁", "ü"].into_iter().enumerate()
        {
            vocabulary.add(text, NORMAL, -(at as f32));
        }
        for text in "▁abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:!?'ä".chars() {
            vocabulary.add(&text.to_string(), NORMAL, -1000.0);
        }
        vocabulary.add("[INST]", USER_DEFINED, 0.0);
        vocabulary.add("[/INST]", USER_DEFINED, 0.0);
        vocabulary
    }

    pub fn id(&self, text: &str) -> u32 {
        self.texts.iter().position(|other| other == text).expect("the vocabulary has it") as u32
    }

    fn fields(&self) -> Vec<(String, Value)> {
        let texts = |texts: &[String]| Value::Array(texts.iter().cloned().map(Value::String).collect());
        let mut fields = vec![
            ("tokenizer.ggml.model".to_owned(), Value::String(self.model.into())),
            ("tokenizer.ggml.tokens".to_owned(), texts(&self.texts)),
            (
                "tokenizer.ggml.token_type".to_owned(),
                Value::Array(self.kinds.iter().copied().map(Value::I32).collect()),
            ),
            ("tokenizer.ggml.eos_token_id".to_owned(), Value::U32(self.eos)),
        ];
        if self.model == "llama" {
            let scores = self.scores.iter().copied().map(Value::F32).collect();
            fields.push(("tokenizer.ggml.scores".to_owned(), Value::Array(scores)));
        } else {
            fields.push(("tokenizer.ggml.merges".to_owned(), texts(&self.merges)));
        }
        for (name, text) in [("tokenizer.ggml.pre", self.pre), ("tokenizer.chat_template", self.template)] {
            fields.extend(text.map(|text| (name.to_owned(), Value::String(text.into()))));
        }
        fields
    }

    /// A file of the tokenizer alone, in memory.
    pub fn content(&self) -> Result<Content> {
        let fields = self.fields();
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let mut file = Cursor::new(Vec::new());
        gguf_file::write(&mut file, &fields, &[])?;
        file.set_position(0);
        Content::read(&mut file)
    }
}

const WIDTH: usize = 64;
const HEADS: usize = 2;
const FORWARD: usize = 96;
const LAYERS: usize = 2;
/// All of them are used, so that rounding does not choose others.
const EXPERTS: usize = 2;
pub const CONTEXT: usize = 128;

/// Writes a model. It generates tokens of printable characters of ASCII only.
pub fn write(path: &Path, architecture: &str, vocabulary: &Vocabulary) -> Result<()> {
    write_as(path, architecture, vocabulary, GgmlDType::Q8_0)
}

/// Writes a model whose matrices have this format.
pub fn write_as(path: &Path, architecture: &str, vocabulary: &Vocabulary, format: GgmlDType) -> Result<()> {
    let key_heads = if ["phi2", "smollm3"].contains(&architecture) { HEADS } else { 1 };
    // The code of SmolLM3 is for this width alone.
    let head = if architecture == "smollm3" { 128 } else { 32 };
    // The feed-forward layers of some have the gate and the other product in one.
    let up = if ["glm4", "phi3"].contains(&architecture) { 2 * FORWARD } else { FORWARD };
    let mut tensors = Vec::new();
    let mut add = |name: &str, dims: &[usize]| -> Result<()> {
        let has_blocks = dims.len() > 1 && dims[dims.len() - 1] >= format.block_size();
        let kind = if has_blocks { format } else { GgmlDType::F32 };
        tensors.push((name.to_owned(), QTensor::quantize(&random(name, dims, vocabulary, architecture)?, kind)?));
        Ok(())
    };
    add("token_embd.weight", &[vocabulary.texts.len(), WIDTH])?;
    add("output.weight", &[vocabulary.texts.len(), WIDTH])?;
    add("output.bias", &[vocabulary.texts.len()])?;
    add("output_norm.weight", &[WIDTH])?;
    add("output_norm.bias", &[WIDTH])?;
    for layer in 0..LAYERS {
        for norm in ["attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"] {
            add(&format!("blk.{layer}.{norm}.weight"), &[WIDTH])?;
            add(&format!("blk.{layer}.{norm}.bias"), &[WIDTH])?;
        }
        for norm in ["attn_q_norm", "attn_k_norm"] {
            add(&format!("blk.{layer}.{norm}.weight"), &[head])?;
        }
        if architecture == "qwen3moe" {
            add(&format!("blk.{layer}.ffn_gate_inp.weight"), &[EXPERTS, WIDTH])?;
            for (name, rows, columns) in [("gate", FORWARD, WIDTH), ("up", FORWARD, WIDTH), ("down", WIDTH, FORWARD)] {
                add(&format!("blk.{layer}.ffn_{name}_exps.weight"), &[EXPERTS, rows, columns])?;
            }
        }
        for (name, rows, columns) in [
            ("attn_q", HEADS * head, WIDTH),
            ("attn_k", key_heads * head, WIDTH),
            ("attn_v", key_heads * head, WIDTH),
            ("attn_qkv", (HEADS + 2 * key_heads) * head, WIDTH),
            ("attn_output", WIDTH, HEADS * head),
            ("ffn_gate", FORWARD, WIDTH),
            ("ffn_up", up, WIDTH),
            ("ffn_down", WIDTH, FORWARD),
            ("shortconv.in_proj", 3 * WIDTH, WIDTH),
            ("shortconv.out_proj", WIDTH, WIDTH),
            ("shortconv.conv", WIDTH, 3),
        ] {
            let is_there = match name {
                "attn_qkv" => ["phi2", "phi3"].contains(&architecture),
                "shortconv.in_proj" | "shortconv.out_proj" | "shortconv.conv" => architecture == "lfm2",
                _ => true,
            };
            if is_there {
                add(&format!("blk.{layer}.{name}.weight"), &[rows, columns])?;
                add(&format!("blk.{layer}.{name}.bias"), &[rows])?;
            }
        }
    }

    let number = |name: &str, value: usize| (format!("{architecture}.{name}"), Value::U32(value as u32));
    let float = |name: &str, value| (format!("{architecture}.{name}"), Value::F32(value));
    let mut fields = vec![
        ("general.architecture".to_owned(), Value::String(architecture.into())),
        number("attention.head_count", HEADS),
        number("attention.key_length", head),
        number("attention.value_length", head),
        number("attention.sliding_window", 64),
        float("attention.layer_norm_rms_epsilon", 1e-5),
        float("attention.layer_norm_epsilon", 1e-5),
        number("block_count", LAYERS),
        number("context_length", CONTEXT),
        number("embedding_length", WIDTH),
        number("feed_forward_length", FORWARD),
        number("vocab_size", vocabulary.texts.len()),
        number("rope.dimension_count", head),
        float("rope.freq_base", 10_000.0),
        number("shortconv.l_cache", 3),
        number("expert_count", if architecture == "qwen3moe" { EXPERTS } else { 0 }),
        number("expert_used_count", EXPERTS),
        number("expert_feed_forward_length", FORWARD),
    ];
    // Of LFM2's layers the first is a convolution.
    let heads = [Value::U32(0), Value::U32(key_heads as u32)];
    fields.push(if architecture == "lfm2" {
        ("lfm2.attention.head_count_kv".to_owned(), Value::Array(heads.into()))
    } else {
        number("attention.head_count_kv", key_heads)
    });
    fields.extend(vocabulary.fields());
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut file = BufWriter::new(File::create(path)?);
    gguf_file::write(&mut file, &fields, &tensors)?;
    Ok(file.flush()?)
}

/// Weights that keep the magnitude of what goes through them. Those of the output are 0 for tokens that are not to be
/// generated.
fn random(name: &str, dims: &[usize], vocabulary: &Vocabulary, architecture: &str) -> Result<Tensor> {
    // SmolLM3 has the same weights at both ends. Small ones keep it from repeating its last token.
    let is_tied = architecture == "smollm3" && name == "token_embd.weight";
    let seed = name.bytes().fold(7u64, |seed, byte| seed.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
    let mut numbers = Numbers::new(seed);
    let columns = dims[dims.len() - 1];
    let (middle, scale) = match dims {
        [_] if name.ends_with("norm.weight") => (1.0, 0.1),
        [_] => (0.0, 0.01),
        _ if is_tied => (0.0, 0.2),
        _ if name == "token_embd.weight" => (0.0, 1.7),
        _ => (0.0, (3.0 / columns as f32).sqrt()),
    };
    let mut values: Vec<f32> = (0..dims.iter().product::<usize>()).map(|_| middle + scale * numbers.unit()).collect();
    if is_tied || name.starts_with("output.") {
        let size = values.len() / vocabulary.texts.len();
        for (row, text) in values.chunks_mut(size).zip(&vocabulary.texts) {
            if text.len() != 1 || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
                row.fill(0.0);
            }
        }
    }
    Tensor::from_vec(values, dims, &Device::Cpu)
}
