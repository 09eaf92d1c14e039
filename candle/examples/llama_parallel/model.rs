//! One rank of a Llama. Layers of queries, keys, values, gate and up are split by rows of their weights, those of the
//! output of attention and of down by columns. So each of the two halves of a layer needs one all-reduce. Norms and the
//! embedding are whole on every rank; so is the output layer if the ranks do not divide the vocabulary.
use crate::config::{Split, frequencies};
use crate::weights::Weights;
use anyhow::{Result, bail};
use candle_core::rocm_backend::rccl::{AllGather, AllReduce, Comm};
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
    /// Joins the parts of the logits.
    gather: Option<AllGather>,
}

struct Layer {
    split: Split,
    attention_norm: Tensor,
    queries: Linear,
    keys: Linear,
    values: Linear,
    attention_output: Linear,
    feed_forward_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
    cache: Option<(Tensor, Tensor)>,
}

impl Layer {
    fn load(number: usize, weights: &dyn Weights, config: &Config, split: Split) -> Result<Layer> {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let kv_width = config.num_key_value_heads * split.head;
        let name = |part: &str| format!("model.layers.{number}.{part}.weight");
        let norm = |part: &str| weights.get(&name(part), &[width], None);
        let linear = |part: &str, dims: [usize; 2], dim: usize| -> Result<Linear> {
            Ok(Linear::new(weights.get(&name(part), &dims, Some(dim))?, None))
        };
        Ok(Layer {
            split,
            attention_norm: norm("input_layernorm")?,
            queries: linear("self_attn.q_proj", [width, width], 0)?,
            keys: linear("self_attn.k_proj", [kv_width, width], 0)?,
            values: linear("self_attn.v_proj", [kv_width, width], 0)?,
            attention_output: linear("self_attn.o_proj", [width, width], 1)?,
            feed_forward_norm: norm("post_attention_layernorm")?,
            gate: linear("mlp.gate_proj", [inner, width], 0)?,
            up: linear("mlp.up_proj", [inner, width], 0)?,
            down: linear("mlp.down_proj", [width, inner], 1)?,
            cache: None,
        })
    }

    /// This rank's part of the attention's result: (1, tokens, width).
    fn attend(&mut self, x: &Tensor, angles: [&Tensor; 2]) -> Result<Tensor> {
        let (tokens, head) = (x.dim(1)?, self.split.head);
        // From (1, tokens, n * width of a head) to (1, n, tokens, width of a head).
        let heads = |x: &Tensor, n: usize| x.reshape((1, tokens, n, head))?.transpose(1, 2);
        let [q, k, v] = fused::products([&self.queries, &self.keys, &self.values], x)?;
        let (q, k, v) =
            (heads(&q, self.split.heads)?, heads(&k, self.split.kv_heads)?, heads(&v, self.split.kv_heads)?);
        let cache = self.cache.as_ref().map(|(keys, values)| (keys, values));
        let [q, k, v] = fused::rope_grow([&q, &k, &v], angles, false, cache)?;
        self.cache = Some((k.clone(), v.clone()));
        let mixed = fused::attention(&q, &k, &v, tokens > 1, (head as f64).sqrt().recip())?;
        Ok(self.attention_output.forward(&mixed.transpose(1, 2)?.reshape((1, tokens, self.split.heads * head))?)?)
    }

    /// This rank's part of the feed-forward layers' result.
    fn feed(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.down.forward(&fused::gate_products(Activation::Silu, [&self.gate, &self.up], x)?)?)
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
            gather: comm.filter(|_| is_split).map(|comm| AllGather::new(comm.clone())),
        })
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

    /// The sum of all ranks' parts.
    fn sum(&self, part: Tensor) -> Result<Tensor> {
        if let Some(sum) = &self.sum {
            part.inplace_op1(sum)?;
        }
        Ok(part)
    }

    /// Appends `tokens`, a vector of u32, to the text. Returns the logits for the next token, as a vector of f32. All
    /// ranks call this with the same tokens.
    pub fn forward(&mut self, tokens: &Tensor) -> Result<Tensor> {
        let (start, count) = (self.length(), tokens.dims1()?);
        if start + count > self.cos.dims()[0] {
            bail!("{} tokens: the context has room for {}", start + count, self.cos.dims()[0]);
        }
        let (cos, sin) = (self.cos.narrow(0, start, count)?, self.sin.narrow(0, start, count)?);
        let mut trunk = self.embedding.forward(tokens)?.unsqueeze(0)?;
        // The result of the layer before, which the next norm adds.
        let mut branch: Option<Tensor> = None;
        let mut layers = std::mem::take(&mut self.layers);
        let done = layers.iter_mut().try_for_each(|layer| -> Result<()> {
            let (sum, normed) = self.normed(&trunk, branch.take(), &layer.attention_norm)?;
            let attended = self.sum(layer.attend(&normed, [&cos, &sin])?)?;
            let (sum, normed) = self.normed(&sum, Some(attended), &layer.feed_forward_norm)?;
            (trunk, branch) = (sum, Some(self.sum(layer.feed(&normed)?)?));
            Ok(())
        });
        self.layers = layers;
        done?;
        let last = |x: &Tensor| x.narrow(1, count - 1, 1);
        let (_, normed) = self.normed(&last(&trunk)?, branch.as_ref().map(last).transpose()?, &self.norm)?;
        let mut logits = self.output.forward(&normed)?.flatten_all()?;
        if let Some(gather) = &self.gather {
            logits = logits.apply_op1_no_bwd(gather)?;
        }
        Ok(logits.to_dtype(DType::F32)?)
    }

    /// The sum of `trunk` and `branch`, and its norm.
    fn normed(&self, trunk: &Tensor, branch: Option<Tensor>, weight: &Tensor) -> Result<(Tensor, Tensor)> {
        Ok(match branch {
            Some(branch) => fused::add_rms_norm(&branch, trunk, weight, self.epsilon)?,
            None => (trunk.clone(), ops::rms_norm(&trunk.contiguous()?, weight, self.epsilon as f32)?),
        })
    }
}
