//! The shape of a model, and how ranks split it.
use anyhow::{Context, Result, bail};
use candle_transformers::models::llama::{Config, Llama3RopeConfig, Llama3RopeType, LlamaConfig};
use std::path::Path;

/// A model for `--random`.
#[derive(Debug)]
pub struct Shape {
    pub name: &'static str,
    pub width: usize,
    pub feed_forward: usize,
    pub vocabulary: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    /// The embedding is the output layer too.
    pub tied: bool,
}

/// Llama 3, but for the first.
pub const SHAPES: &[Shape] = &[
    Shape::new("tiny", [128, 256, 256], [2, 8, 4], false),
    Shape::new("1b", [2048, 8192, 128256], [16, 32, 8], true),
    Shape::new("3b", [3072, 8192, 128256], [28, 24, 8], true),
    Shape::new("8b", [4096, 14336, 128256], [32, 32, 8], false),
    Shape::new("70b", [8192, 28672, 128256], [80, 64, 8], false),
];

pub fn shape(name: &str) -> Result<&'static Shape> {
    SHAPES.iter().find(|shape| shape.name == name).with_context(|| {
        let names: Vec<_> = SHAPES.iter().map(|shape| shape.name).collect();
        format!("--random {name}: there are {}", names.join(", "))
    })
}

impl Shape {
    const fn new(
        name: &'static str,
        [width, feed_forward, vocabulary]: [usize; 3],
        [layers, heads, kv_heads]: [usize; 3],
        tied: bool,
    ) -> Shape {
        Shape { name, width, feed_forward, vocabulary, layers, heads, kv_heads, tied }
    }

    pub fn config(&self) -> Config {
        Config {
            hidden_size: self.width,
            intermediate_size: self.feed_forward,
            vocab_size: self.vocabulary,
            num_hidden_layers: self.layers,
            num_attention_heads: self.heads,
            num_key_value_heads: self.kv_heads,
            use_flash_attn: false,
            rms_norm_eps: 1e-5,
            rope_theta: 500_000.0,
            bos_token_id: None,
            eos_token_id: None,
            rope_scaling: None,
            max_position_embeddings: 8192,
            tie_word_embeddings: self.tied,
        }
    }
}

/// Reads a file of Hugging Face's layout.
pub fn read(path: &Path) -> Result<Config> {
    let of = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(of)?;
    let json: serde_json::Value = serde_json::from_str(&text).with_context(of)?;
    for field in ["attention_bias", "mlp_bias"] {
        if json[field].as_bool() == Some(true) {
            bail!("{}: {field} is true; layers with biases are not known here", path.display());
        }
    }
    let config = serde_json::from_value::<LlamaConfig>(json.clone()).with_context(of)?.into_config(false);
    if config.num_attention_heads == 0 || config.num_key_value_heads == 0 {
        bail!("{}: num_attention_heads and num_key_value_heads are at least 1", path.display());
    }
    let width = config.hidden_size / config.num_attention_heads;
    match json["head_dim"].as_u64() {
        Some(there) if there != width as u64 => {
            bail!("{}: head_dim is {there}; only hidden_size / num_attention_heads = {width} is known", path.display())
        }
        _ => Ok(config),
    }
}

/// What one rank has of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    pub rank: usize,
    pub size: usize,
    pub heads: usize,
    pub kv_heads: usize,
    /// The width of a head.
    pub head: usize,
    /// Columns of the feed-forward layers.
    pub feed_forward: usize,
    /// Rows of the output layer: all of them if the ranks do not divide the vocabulary.
    pub vocabulary: usize,
}

impl Split {
    pub fn new(config: &Config, rank: usize, size: usize) -> Result<Split> {
        if rank >= size {
            bail!("rank {rank} of {size} ranks: it is below the number of ranks");
        }
        let of = |name: &str, count: usize| -> Result<usize> {
            if count == 0 || !count.is_multiple_of(size) {
                bail!("{size} ranks: {name} is {count}, which must be a multiple of the number of ranks");
            }
            Ok(count / size)
        };
        let (heads, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
        if heads == 0 || kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            bail!("num_attention_heads is {heads}, which must be a multiple of num_key_value_heads, {kv_heads}");
        }
        if !config.hidden_size.is_multiple_of(heads) {
            bail!("hidden_size is {}, which must be a multiple of num_attention_heads, {heads}", config.hidden_size);
        }
        let vocabulary = config.vocab_size;
        Ok(Split {
            rank,
            size,
            heads: of("num_attention_heads", heads)?,
            kv_heads: of("num_key_value_heads", kv_heads)?,
            head: config.hidden_size / heads,
            feed_forward: of("intermediate_size", config.intermediate_size)?,
            vocabulary: if vocabulary.is_multiple_of(size) { vocabulary / size } else { vocabulary },
        })
    }
}

/// The angle of each pair of a head at position 1.
pub fn frequencies(config: &Config) -> Vec<f32> {
    let head = config.hidden_size / config.num_attention_heads;
    let plain = (0..head).step_by(2).map(|i| config.rope_theta.powf(i as f32 / head as f32).recip());
    match &config.rope_scaling {
        Some(scaling) if matches!(scaling.rope_type, Llama3RopeType::Llama3) => {
            plain.map(|frequency| scaled(frequency, scaling)).collect()
        }
        _ => plain.collect(),
    }
}

/// Llama 3 slows long waves by `factor`, leaves short ones, and passes from one to the other in between.
fn scaled(frequency: f32, scaling: &Llama3RopeConfig) -> f32 {
    let turns = scaling.original_max_position_embeddings as f32 * frequency / std::f32::consts::TAU;
    let share = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
    let share = share.clamp(0.0, 1.0);
    frequency * (share + (1.0 - share) / scaling.factor)
}
