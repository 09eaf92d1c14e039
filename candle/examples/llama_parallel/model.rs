//! One rank of a Llama. Layers of queries, keys, values, gate and up are split by rows of their weights, those of the
//! output of attention and of down by columns. So each of the two halves of a layer needs one all-reduce. Norms and the
//! embedding are whole on every rank; so is the output layer if the ranks do not divide the vocabulary.
use crate::config::{Split, frequencies};
use crate::weights::Weights;
use anyhow::{Result, bail};
use candle_core::rocm_backend::rccl::{AllGather, AllReduce, Comm, Pending};
use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{Activation, Embedding, Linear, fused, ops};
use candle_transformers::models::llama::Config;
use std::sync::Arc;

pub struct Llama {
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: Tensor,
    output: Linear,
    /// (context, half of a head): the cosine of the angle for every position.
    cos: Tensor,
    sin: Tensor,
    epsilon: f64,
    sum: Option<AllReduce>,
    ranks: usize,
    halves_from: usize,
    /// Joins the parts of the logits.
    gather: Option<AllGather>,
}

/// A prompt of at least this many tokens for each rank is read in two halves: the all-reduce of one half runs while the
/// other half is computed. For fewer tokens the smaller products cost more time than this saves.
pub const HALVES_FROM: usize = 1536;

/// Tokens on their way through the layers.
struct Part {
    /// (1, tokens, width)
    trunk: Tensor,
    /// The result of the layer before, which the next norm adds.
    branch: Option<Branch>,
    cos: Tensor,
    sin: Tensor,
}

/// The result of half a layer.
enum Branch {
    /// This rank's part of the sum over all ranks.
    Part(Tensor),
    /// The sum, which is under way.
    Pending(Pending),
}

struct Layer {
    split: Split,
    attention_norm: Tensor,
    /// The rows of queries, keys and values, one after the other.
    queries_keys_values: Linear,
    /// The same rows, as a layer each.
    parts: [Linear; 3],
    attention_output: Linear,
    feed_forward_norm: Tensor,
    /// The rows of gate and up, one after the other.
    gate_up: Linear,
    down: Linear,
    cache: Option<(Tensor, Tensor)>,
}

impl Layer {
    fn load(number: usize, weights: &dyn Weights, config: &Config, split: Split) -> Result<Layer> {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let kv_width = config.num_key_value_heads * split.head;
        let name = |part: &str| format!("model.layers.{number}.{part}.weight");
        let norm = |part: &str| weights.get(&name(part), &[width], None);
        let matrix = |part: &str, dims: [usize; 2], dim: usize| weights.get(&name(part), &dims, Some(dim));
        let linear = |part: &str, dims: [usize; 2], dim: usize| -> Result<Linear> {
            Ok(Linear::new(matrix(part, dims, dim)?, None))
        };
        let rows_of = |parts: &[(&str, usize)]| -> Result<Linear> {
            let rows = parts.iter().map(|(part, rows)| matrix(part, [*rows, width], 0)).collect::<Result<Vec<_>>>()?;
            Ok(Linear::new(Tensor::cat(&rows, 0)?, None))
        };
        let queries_keys_values =
            rows_of(&[("self_attn.q_proj", width), ("self_attn.k_proj", kv_width), ("self_attn.v_proj", kv_width)])?;
        let part = |first: usize, heads: usize| -> Result<Linear> {
            let rows = queries_keys_values.weight().narrow(0, first * split.head, heads * split.head)?;
            Ok(Linear::new(rows, None))
        };
        let Split { heads, kv_heads, .. } = split;
        let parts = [part(0, heads)?, part(heads, kv_heads)?, part(heads + kv_heads, kv_heads)?];
        Ok(Layer {
            split,
            attention_norm: norm("input_layernorm")?,
            queries_keys_values,
            parts,
            attention_output: linear("self_attn.o_proj", [width, width], 1)?,
            feed_forward_norm: norm("post_attention_layernorm")?,
            gate_up: rows_of(&[("mlp.gate_proj", inner), ("mlp.up_proj", inner)])?,
            down: linear("mlp.down_proj", [width, inner], 1)?,
            cache: None,
        })
    }

    /// This rank's part of the attention's result: (1, tokens, width).
    fn attend(&mut self, x: &Tensor, angles: [&Tensor; 2]) -> Result<Tensor> {
        let (tokens, head) = (x.dim(1)?, self.split.head);
        let Split { heads, kv_heads, .. } = self.split;
        let cache = self.cache.as_ref().map(|(keys, values)| (keys, values));
        // A single token's heads are rotated in the launch of their products.
        let [q, k, v] = if tokens == 1 {
            let [q, k, v] = &self.parts;
            fused::products_rope_grow([q, k, v], x, [heads, kv_heads], angles, false, cache)?
        } else {
            let all = self.queries_keys_values.forward(x)?.reshape((1, tokens, heads + 2 * kv_heads, head))?;
            // (1, n, tokens, width of a head)
            let part = |first, n| all.narrow(2, first, n)?.transpose(1, 2);
            let (q, k, v) = (part(0, heads)?, part(heads, kv_heads)?, part(heads + kv_heads, kv_heads)?);
            fused::rope_grow([&q, &k, &v], angles, false, cache)?
        };
        self.cache = Some((k.clone(), v.clone()));
        let mixed = fused::attention(&q, &k, &v, tokens > 1, (head as f64).sqrt().recip())?;
        Ok(self.attention_output.forward(&mixed.transpose(1, 2)?.reshape((1, tokens, self.split.heads * head))?)?)
    }

    /// This rank's part of the feed-forward layers' result.
    fn feed(&self, x: &Tensor) -> Result<Tensor> {
        let gated = fused::gate_halves(Activation::Silu, &self.gate_up, x)?;
        Ok(self.down.forward(&gated)?)
    }
}

impl Llama {
    /// Takes this rank's parts of the weights. The model reads at most `context` tokens. `comm` is there if `split` has
    /// more than one rank.
    pub fn load(
        weights: &dyn Weights,
        config: &Config,
        split: Split,
        comm: Option<&Arc<Comm>>,
        (context, dtype, device): (usize, DType, &Device),
    ) -> Result<Llama> {
        let (width, vocabulary) = (config.hidden_size, config.vocab_size);
        if context > config.max_position_embeddings {
            bail!("--context {context}: the model has {} positions", config.max_position_embeddings);
        }
        let embedding = weights.get("model.embed_tokens.weight", &[vocabulary, width], None)?;
        let layer = |number| Layer::load(number, weights, config, split);
        let layers = (0..config.num_hidden_layers).map(layer).collect::<Result<Vec<_>>>()?;
        let is_split = split.vocabulary < vocabulary;
        let output = if config.tie_word_embeddings || !weights.has("lm_head.weight") {
            let first = if is_split { split.rank * split.vocabulary } else { 0 };
            embedding.narrow(0, first, split.vocabulary)?
        } else {
            weights.get("lm_head.weight", &[vocabulary, width], is_split.then_some(0))?
        };
        let frequencies = frequencies(config);
        let half = frequencies.len();
        let table = |of: fn(f32) -> f32| -> Result<Tensor> {
            let angle = |i: usize| of((i / half) as f32 * frequencies[i % half]);
            let values: Vec<f32> = (0..context * half).map(angle).collect();
            Ok(Tensor::from_vec(values, (context, half), device)?.to_dtype(dtype)?)
        };
        if split.size > 1 && comm.is_none() {
            bail!("{} ranks need a communicator", split.size);
        }
        let comm = comm.filter(|_| split.size > 1);
        Ok(Llama {
            embedding: Embedding::new(embedding, width),
            layers,
            norm: weights.get("model.norm.weight", &[width], None)?,
            output: Linear::new(output, None),
            cos: table(f32::cos)?,
            sin: table(f32::sin)?,
            epsilon: config.rms_norm_eps,
            sum: comm.map(|comm| AllReduce::new(comm.clone())),
            ranks: split.size,
            halves_from: HALVES_FROM,
            gather: comm.filter(|_| is_split).map(|comm| AllGather::new(comm.clone())),
        })
    }

    /// Whether the logits have the same bits on all ranks: each rank has the others' parts of them.
    pub fn has_same_logits(&self) -> bool {
        self.gather.is_some()
    }

    /// The number of tokens in the cache.
    pub fn length(&self) -> usize {
        let cache = self.layers.first().and_then(|layer| layer.cache.as_ref());
        cache.map_or(0, |(keys, _)| keys.dims()[2])
    }

    /// Forgets the tokens in the cache.
    pub fn clear(&mut self) {
        self.layers.iter_mut().for_each(|layer| layer.cache = None);
    }

    /// The sum of all ranks' parts. With `beside` it begins here, and the device computes something else meanwhile.
    fn branch(&self, part: Tensor, beside: bool) -> Result<Branch> {
        Ok(match &self.sum {
            Some(sum) if beside => Branch::Pending(sum.start(part)?),
            _ => Branch::Part(part),
        })
    }

    /// Reads prompts of `tokens` tokens for each rank, or more, in two halves; see [`HALVES_FROM`].
    pub fn set_halves_from(&mut self, tokens: usize) {
        self.halves_from = tokens;
    }

    /// Appends `tokens`, a vector of u32, to the text. Returns the logits for the next token, as a vector. All ranks
    /// call this with the same tokens.
    pub fn forward(&mut self, tokens: &Tensor) -> Result<Tensor> {
        let (start, count) = (self.length(), tokens.dims1()?);
        if start + count > self.cos.dims()[0] {
            bail!("{} tokens: the context has room for {}", start + count, self.cos.dims()[0]);
        }
        let halves = self.sum.is_some() && count > 1 && count / self.ranks >= self.halves_from;
        let first = if halves { count / 2 } else { count };
        let part = |from: usize, length: usize| -> Result<Part> {
            let trunk = self.embedding.forward(&tokens.narrow(0, from, length)?)?.unsqueeze(0)?;
            let angles = |table: &Tensor| table.narrow(0, start + from, length);
            Ok(Part { trunk, branch: None, cos: angles(&self.cos)?, sin: angles(&self.sin)? })
        };
        let mut parts = vec![part(0, first)?];
        if halves {
            parts.push(part(first, count - first)?);
        }
        let mut layers = std::mem::take(&mut self.layers);
        let done = layers.iter_mut().try_for_each(|layer| self.pass(layer, &mut parts));
        self.layers = layers;
        done?;
        let Some(Part { trunk, branch, .. }) = parts.pop() else { bail!("no tokens") };
        // Only the last token is needed, and its sum over the ranks.
        let last = |x: &Tensor| x.narrow(1, x.dim(1)? - 1, 1);
        let (trunk, branch) = match branch {
            Some(Branch::Part(part)) => (last(&trunk)?, Some(Branch::Part(last(&part)?))),
            branch => (trunk, branch),
        };
        let normed = last(&self.normed(&trunk, branch, &self.norm)?.1)?;
        let mut logits = self.output.forward(&normed)?.flatten_all()?;
        if let Some(gather) = &self.gather {
            logits = logits.apply_op1_no_bwd(gather)?;
        }
        Ok(logits)
    }

    /// Takes all parts through a layer. The parts are in the order of their tokens.
    fn pass(&self, layer: &mut Layer, parts: &mut [Part]) -> Result<()> {
        let beside = parts.len() > 1;
        for part in &mut *parts {
            let (sum, normed) = self.normed(&part.trunk, part.branch.take(), &layer.attention_norm)?;
            let attended = layer.attend(&normed, [&part.cos, &part.sin])?;
            (part.trunk, part.branch) = (sum, Some(self.branch(attended, beside)?));
        }
        for part in parts {
            let (sum, normed) = self.normed(&part.trunk, part.branch.take(), &layer.feed_forward_norm)?;
            (part.trunk, part.branch) = (sum, Some(self.branch(layer.feed(&normed)?, beside)?));
        }
        Ok(())
    }

    /// The sum of `trunk` and `branch`, and its norm.
    fn normed(&self, trunk: &Tensor, branch: Option<Branch>, weight: &Tensor) -> Result<(Tensor, Tensor)> {
        Ok(match (branch, &self.sum) {
            (Some(Branch::Part(part)), Some(sum)) => sum.add_rms_norm(part, trunk, weight, self.epsilon)?,
            (Some(Branch::Part(whole)), None) => fused::add_rms_norm(&whole, trunk, weight, self.epsilon)?,
            (Some(Branch::Pending(sum)), _) => fused::add_rms_norm(&sum.wait()?, trunk, weight, self.epsilon)?,
            (None, _) => (trunk.clone(), ops::rms_norm(&trunk.contiguous()?, weight, self.epsilon as f32)?),
        })
    }
}
