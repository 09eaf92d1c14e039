//! Texts of decoders that keep their caches themselves, and of the Gemma family, for the hooks of [`crate::models`].

/// A text of a source, and the text that its copy has there.
pub type Change = (&'static str, &'static str);

// --- rotary embeddings and the growth of caches ----------------------------------------------------------------------

/// For a model with one of the three functions below.
pub const ROPE_CACHE: Change = (
    "\
        let (query_states, key_states) =
            self.rotary_emb
                .apply_rotary_emb_qkv(&query_states, &key_states, seqlen_offset)?;

        let (key_states, value_states) = match &self.kv_cache {
            None => (key_states, value_states),
            Some((prev_k, prev_v)) => {
                let key_states = Tensor::cat(&[prev_k, &key_states], 2)?;
                let value_states = Tensor::cat(&[prev_v, &value_states], 2)?;
                (key_states, value_states)
            }
        };
",
    "\
        let [query_states, key_states, value_states] = self.rotary_emb.rotate_and_grow(
            [&query_states, &key_states, &value_states],
            seqlen_offset,
            &self.kv_cache,
        )?;
",
);

macro_rules! apply_rope {
    ($visible:literal, $q:literal, $k:literal, $kept:expr, $grown:literal) => {
        (
            concat!(
                "    ",
                $visible,
                "fn apply_rotary_emb_qkv(
        &self,
        q: &Tensor,
        k: &Tensor,
        seqlen_offset: usize,
    ) -> Result<(Tensor, Tensor)> {
        let (_b_sz, _h, seq_len, _n_embd) = q.dims4()?;
        let cos = self.cos.narrow(0, seqlen_offset, seq_len)?;
        let sin = self.sin.narrow(0, seqlen_offset, seq_len)?;
        let q_embed = ",
                $q,
                ", &cos, &sin)?;
        let k_embed = ",
                $k,
                ", &cos, &sin)?;
        Ok((q_embed, k_embed))
    }
"
            ),
            concat!(
                $kept,
                "    /// The queries rotated, and the caches with the keys rotated and the values.
    fn rotate_and_grow(
        &self,
        [q, k, v]: [&Tensor; 3],
        seqlen_offset: usize,
        cache: &Option<(Tensor, Tensor)>,
    ) -> Result<[Tensor; 3]> {
        let (_b_sz, _h, seq_len, _n_embd) = q.dims4()?;
        let cos = self.cos.narrow(0, seqlen_offset, seq_len)?;
        let sin = self.sin.narrow(0, seqlen_offset, seq_len)?;
        let cache = cache.as_ref().map(|(keys, values)| (keys, values));
",
                $grown
            ),
        )
    };
}

pub const APPLY_ROPE: Change = apply_rope!(
    "",
    "candle_nn::rotary_emb::rope(q",
    "candle_nn::rotary_emb::rope(k",
    "",
    "        candle_nn::fused::rope_grow([q, k, v], [&cos, &sin], false, cache)\n    }\n"
);

pub const APPLY_ROPE_PACKED: Change = apply_rope!(
    "",
    "candle_nn::rotary_emb::rope(&q.contiguous()?",
    "candle_nn::rotary_emb::rope(&k.contiguous()?",
    "",
    "        candle_nn::fused::rope_grow([q, k, v], [&cos, &sin], false, cache)\n    }\n"
);

pub const APPLY_ROPE_I: Change = apply_rope!(
    "",
    "candle_nn::rotary_emb::rope_i(q",
    "candle_nn::rotary_emb::rope_i(k",
    "",
    "        candle_nn::fused::rope_grow([q, k, v], [&cos, &sin], true, cache)\n    }\n"
);

/// Phi-3 rotates a part of each head in some of its models. Its function is public, and stays.
pub const APPLY_ROPE_PART: Change = apply_rope!(
    "pub ",
    "self.rope(&q.contiguous()?",
    "self.rope(&k.contiguous()?",
    "    pub fn apply_rotary_emb_qkv(
        &self,
        q: &Tensor,
        k: &Tensor,
        seqlen_offset: usize,
    ) -> Result<(Tensor, Tensor)> {
        let (_b_sz, _h, seq_len, _n_embd) = q.dims4()?;
        let cos = self.cos.narrow(0, seqlen_offset, seq_len)?;
        let sin = self.sin.narrow(0, seqlen_offset, seq_len)?;
        let q_embed = self.rope(&q.contiguous()?, &cos, &sin)?;
        let k_embed = self.rope(&k.contiguous()?, &cos, &sin)?;
        Ok((q_embed, k_embed))
    }

",
    "        if self.partial_dim.is_none() {
            return candle_nn::fused::rope_grow([q, k, v], [&cos, &sin], false, cache);
        }
        let q = self.rope(&q.contiguous()?, &cos, &sin)?;
        let k = self.rope(&k.contiguous()?, &cos, &sin)?;
        match cache {
            None => Ok([q, k, v.clone()]),
            Some((keys, values)) => {
                Ok([q, candle_nn::fused::grow(&[keys, &k], 2)?, candle_nn::fused::grow(&[values, v], 2)?])
            }
        }
    }
"
);

// --- residuals and norms ---------------------------------------------------------------------------------------------

pub const SUM: Change = (
    "\
        let xs = (xs + residual)?;
        let residual = &xs;
        let xs = xs.apply(&self.post_attention_layernorm)?.apply(&self.mlp)?;
",
    "\
        let (residual, xs) = self.post_attention_layernorm.forward_sum(&xs, residual)?;
        let xs = xs.apply(&self.mlp)?;
",
);

/// The same across layers.
pub const SUM_LAYER: Change = (
    "\
        xs: &Tensor,
        attention_mask: Option<&Tensor>,
        seqlen_offset: usize,
    ) -> Result<Tensor> {
        let residual = xs;
        let xs = self.input_layernorm.forward(xs)?;
        let xs = self.self_attn.forward(&xs, attention_mask, seqlen_offset)?;
        let xs = (xs + residual)?;
        let residual = &xs;
        let xs = xs.apply(&self.post_attention_layernorm)?.apply(&self.mlp)?;
        residual + xs
",
    "\
        xs: candle_nn::fused::Input,
        attention_mask: Option<&Tensor>,
        seqlen_offset: usize,
    ) -> Result<candle_nn::fused::Input> {
        let (residual, xs) = self.input_layernorm.forward_of(xs)?;
        let xs = self.self_attn.forward(&xs, attention_mask, seqlen_offset)?;
        let (residual, xs) = self.post_attention_layernorm.forward_sum(&xs, &residual)?;
        let xs = xs.apply(&self.mlp)?;
        Ok(candle_nn::fused::Input { trunk: residual, branch: Some(xs) })
",
);

macro_rules! sum_layers {
    ($begin:literal, $mask:literal, $end:literal, $new_end:literal) => {
        (
            concat!(
                "        let mut xs = ",
                $begin,
                ";\n        for layer in self.layers.iter_mut() {\n            xs = layer.forward(&xs, ",
                $mask,
                ", seqlen_offset)?\n        }\n",
                $end
            ),
            concat!(
                "        let mut xs = candle_nn::fused::Input::from(",
                $begin,
                ");\n        for layer in self.layers.iter_mut() {\n            xs = layer.forward(xs, ",
                $mask,
                ", seqlen_offset)?\n        }\n",
                $new_end
            ),
        )
    };
}

pub const SUM_LAYERS: Change = sum_layers!(
    "self.embed_tokens.forward(input_ids)?",
    "attention_mask.as_ref()",
    "        xs.narrow(1, seq_len - 1, 1)?\n            .apply(&self.norm)?\n            .apply(&self.lm_head)\n",
    "        self.norm.forward_of(xs.narrow(1, seq_len - 1, 1)?)?.1.apply(&self.lm_head)\n"
);

pub const SUM_LAYERS_OF_EMBEDDINGS: Change = sum_layers!(
    "xs.clone()",
    "attn_mask",
    "        xs.narrow(1, seq_len - 1, 1)?\n            .apply(&self.norm)?\n            .apply(&self.lm_head)\n",
    "        self.norm.forward_of(xs.narrow(1, seq_len - 1, 1)?)?.1.apply(&self.lm_head)\n"
);

pub const SUM_LAYERS_ALONE: Change = sum_layers!(
    "self.embed_tokens.forward(input_ids)?",
    "attention_mask.as_ref()",
    "        xs.apply(&self.norm)\n",
    "        Ok(self.norm.forward_of(xs)?.1)\n"
);

// --- Phi-3 -----------------------------------------------------------------------------------------------------------

pub const PHI3_GATE: Change = (
    "        let up_states = (up_states * gate.apply(&self.act_fn))?;\n",
    "        let up_states = candle_nn::fused::gate(self.act_fn, &gate, &up_states)?;\n",
);

pub const QUANTIZED_PHI3_GATE: Change = (
    "        let up_states = (up_states * gate.silu()?)?;\n",
    "        let up_states = candle_nn::fused::silu_gate(&gate, &up_states)?;\n",
);

pub const QUANTIZED_PHI3_SUM: Change = (
    "\
            let ys = xs.apply(&layer.attn_norm)?;
            let ys = layer.forward_attn(&ys, mask.as_ref(), index_pos)?;
            let ys = (ys + residual)?;
            let residual = &ys;
            let ys = ys.apply(&layer.ffn_norm)?;
            let ys = layer.mlp.forward(&ys)?;
",
    "\
            let ys = layer.attn_norm.forward_for_products(&xs)?;
            let ys = layer.forward_attn(&ys, mask.as_ref(), index_pos)?;
            let (residual, ys) = layer.ffn_norm.forward_sum_for_products(&ys, residual)?;
            let ys = layer.mlp.forward(&ys)?;
",
);

pub const QUANTIZED_PHI3_ROPE: Change = (
    "\
        let q = self.apply_rotary_emb(&q, index_pos)?.contiguous()?;
        let k = self.apply_rotary_emb(&k, index_pos)?;

        if index_pos == 0 {
            self.kv_cache.reset();
        }
        let (k, v) = self.kv_cache.append(&k.contiguous()?, &v.contiguous()?)?;

        let k = crate::utils::repeat_kv(k, self.n_head / self.n_kv_head)?;
        let v = crate::utils::repeat_kv(v, self.n_head / self.n_kv_head)?;

        let y = if self.use_flash_attn {
",
    "\
        if index_pos == 0 {
            self.kv_cache.reset();
        }
        let [q, k, v] = self.rotated([&q, &k, &v], index_pos)?;
        let (k, v) = self.kv_cache.append(&k, &v)?;

        let fused = !self.use_flash_attn && candle_nn::fused::has_attention(&q);
        let count = if fused { 1 } else { self.n_head / self.n_kv_head };
        let k = crate::utils::repeat_kv(k, count)?;
        let v = crate::utils::repeat_kv(v, count)?;

        let y = if fused {
            let scale = 1.0 / (self.head_dim as f64).sqrt();
            candle_nn::fused::attention(&q, &k, &v, mask.is_some(), scale)?
        } else if self.use_flash_attn {
",
);

pub const QUANTIZED_PHI3_ANGLES: Change = (
    "\
    fn apply_rotary_emb(&self, xs: &Tensor, index_pos: usize) -> Result<Tensor> {
        let _enter = self.span_rot.enter();
        let (_b_sz, _h, seq_len, _n_embd) = xs.dims4()?;
        let cos = self.cos.narrow(0, index_pos, seq_len)?;
        let sin = self.sin.narrow(0, index_pos, seq_len)?;
        candle_nn::rotary_emb::rope(&xs.contiguous()?, &cos, &sin)
    }
",
    "\
    /// The queries and keys rotated, and the values, all contiguous.
    fn rotated(&self, qkv: [&Tensor; 3], index_pos: usize) -> Result<[Tensor; 3]> {
        let _enter = self.span_rot.enter();
        let (_b_sz, _h, seq_len, _n_embd) = qkv[0].dims4()?;
        let cos = self.cos.narrow(0, index_pos, seq_len)?;
        let sin = self.sin.narrow(0, index_pos, seq_len)?;
        candle_nn::fused::rope_qkv(qkv, [&cos, &sin], false)
    }
",
);

// --- Qwen2, quantized ------------------------------------------------------------------------------------------------

pub const QUANTIZED_QWEN2_ROPE: Change = (
    "\
        let q = self.apply_rotary_emb(&q, index_pos)?;
        let k = self.apply_rotary_emb(&k, index_pos)?;

        let (k, v) = match &self.kv_cache {
            None => (k, v),
            Some((k_cache, v_cache)) => {
                if index_pos == 0 {
                    (k, v)
                } else {
                    let k = Tensor::cat(&[k_cache, &k], 2)?;
                    let v = Tensor::cat(&[v_cache, &v], 2)?;
                    (k, v)
                }
            }
        };
        self.kv_cache = Some((k.clone(), v.clone()));
",
    "\
        let [q, k, v] = self.rotated([&q, &k, &v], index_pos)?;
        self.kv_cache = Some((k.clone(), v.clone()));
        if candle_nn::fused::has_attention(&q) {
            let scale = 1.0 / (self.head_dim as f64).sqrt();
            let y = candle_nn::fused::attention(&q, &k, &v, mask.is_some(), scale)?;
            let y = y.transpose(1, 2)?.reshape(&[b_sz, seq_len, n_embd])?;
            return self.attention_wo.forward(&y);
        }
",
);

pub const QUANTIZED_QWEN2_QKV: Change = (
    "\
        let q = self.attention_wq.forward(x)?;
        let k = self.attention_wk.forward(x)?;
        let v = self.attention_wv.forward(x)?;

        let q = q.broadcast_add(&self.attention_bq)?;
        let k = k.broadcast_add(&self.attention_bk)?;
        let v = v.broadcast_add(&self.attention_bv)?;
",
    "\
        let [q, k, v] = [
            candle_nn::fused::Biased(&self.attention_wq, &self.attention_bq),
            candle_nn::fused::Biased(&self.attention_wk, &self.attention_bk),
            candle_nn::fused::Biased(&self.attention_wv, &self.attention_bv),
        ];
        let [q, k, v] = candle_nn::fused::products([&q, &k, &v], x)?;
",
);

pub const QUANTIZED_QWEN2_SUM: Change = (
    "\
            let x = layer_in;
            let residual = &x;
            let x = layer.attention_norm.forward(&x)?;
            let attn = layer.forward_attn(&x, mask.as_ref(), index_pos)?;
            let x = (attn + residual)?;

            // MLP
            let _enter = layer.span_mlp.enter();
            let residual = &x;
            let x = layer.ffn_norm.forward(&x)?;
            let x = layer.mlp.forward(&x)?;
            let x = (x + residual)?;
            layer_in = x
        }
        let x = self.norm.forward(&layer_in)?;
",
    "\
            let (residual, x) = layer.attention_norm.forward_of(layer_in)?;
            let attn = layer.forward_attn(&x, mask.as_ref(), index_pos)?;
            let (residual, x) = layer.ffn_norm.forward_sum(&attn, &residual)?;

            // MLP
            let _enter = layer.span_mlp.enter();
            let x = layer.mlp.forward(&x)?;
            layer_in = candle_nn::fused::Input { trunk: residual, branch: Some(x) }
        }
        let (_, x) = self.norm.forward_of(layer_in)?;
",
);

pub const QUANTIZED_QWEN2_ANGLES: Change = (
    "\
    fn apply_rotary_emb(&self, x: &Tensor, index_pos: usize) -> Result<Tensor> {
        let _enter = self.span_rot.enter();
        let (_b_sz, _n_head, seq_len, _n_embd) = x.dims4()?;
        let cos = self.cos.narrow(0, index_pos, seq_len)?;
        let sin = self.sin.narrow(0, index_pos, seq_len)?;
        candle_nn::rotary_emb::rope(&x.contiguous()?, &cos, &sin)
    }
",
    "\
    /// The queries rotated, and the caches with the keys rotated and the values.
    fn rotated(&self, qkv: [&Tensor; 3], index_pos: usize) -> Result<[Tensor; 3]> {
        let _enter = self.span_rot.enter();
        let (_b_sz, _n_head, seq_len, _n_embd) = qkv[0].dims4()?;
        let cos = self.cos.narrow(0, index_pos, seq_len)?;
        let sin = self.sin.narrow(0, index_pos, seq_len)?;
        let cache = self.kv_cache.as_ref().filter(|_| index_pos > 0);
        let cache = cache.map(|(keys, values)| (keys, values));
        candle_nn::fused::rope_grow(qkv, [&cos, &sin], false, cache)
    }
",
);

// --- Qwen3 ---------------------------------------------------------------------------------------------------------

pub const QWEN3_LAYER: Change = (
    "\
    fn forward(&mut self, x: &Tensor, mask: Option<&Tensor>, offset: usize) -> Result<Tensor> {
        let h = self.ln1.forward(x)?;
        let h = self.self_attn.forward(&h, mask, offset)?;
        let x = (x + h)?;
        let h2 = self.ln2.forward(&x)?;
        let h2 = h2.apply(&self.mlp)?;
        x + h2
",
    "\
    fn forward(
        &mut self,
        x: candle_nn::fused::Input,
        mask: Option<&Tensor>,
        offset: usize,
    ) -> Result<candle_nn::fused::Input> {
        let (x, h) = self.ln1.forward_of(x)?;
        let h = self.self_attn.forward(&h, mask, offset)?;
        let (x, h2) = self.ln2.forward_sum(&x, &h)?;
        let h2 = h2.apply(&self.mlp)?;
        Ok(candle_nn::fused::Input { trunk: x, branch: Some(h2) })
",
);

pub const QWEN3_MOE_LAYER: Change = (
    "\
    fn forward(&mut self, x: &Tensor, mask: Option<&Tensor>, offset: usize) -> Result<Tensor> {
        let h = self.ln1.forward(x)?;
        let h = self.self_attn.forward(&h, mask, offset)?;
        let x = (x + h)?;
        let h2 = self.ln2.forward(&x)?;
        let h2 = self.feed_forward.forward(&h2, mask.is_some())?;
        x + h2
",
    "\
    fn forward(
        &mut self,
        x: candle_nn::fused::Input,
        mask: Option<&Tensor>,
        offset: usize,
    ) -> Result<candle_nn::fused::Input> {
        let (x, h) = self.ln1.forward_of(x)?;
        let h = self.self_attn.forward(&h, mask, offset)?;
        let (x, h2) = self.ln2.forward_sum(&x, &h)?;
        let h2 = self.feed_forward.forward(&h2, mask.is_some())?;
        Ok(candle_nn::fused::Input { trunk: x, branch: Some(h2) })
",
);

pub const QWEN3_LAYERS: Change = (
    "\
            h = layer.forward(&h, causal.as_ref(), offset)?;
        }
        self.norm.forward(&h)
",
    "\
            h = layer.forward(h, causal.as_ref(), offset)?;
        }
        let (_, h) = self.norm.forward_of(h)?;
        Ok(h)
",
);

pub const QUANTIZED_QWEN3_LAYERS: Change = (
    "\
            h = layer.forward(&h, causal_mask.as_ref(), offset)?;
        }
        let h = self.norm.forward(&h)?;
        let _enter = self.span_output.enter();
        let last_hidden = h.narrow(1, l - 1, 1)?;
",
    "\
            h = layer.forward(h, causal_mask.as_ref(), offset)?;
        }
        let (_, last_hidden) = self.norm.forward_of(h.narrow(1, l - 1, 1)?)?;
        let _enter = self.span_output.enter();
",
);

pub const QWEN3_EMBEDDED: Change = (
    "let mut h = self.embed_tokens.forward(input)?;",
    "let mut h = candle_nn::fused::Input::from(self.embed_tokens.forward(input)?);",
);

// --- Gemma -----------------------------------------------------------------------------------------------------------

/// The factors of a norm are added up once, unless the weights are trained. For a model with [`GEMMA_NORM`].
pub const GEMMA_NORM_FIELDS: Change = (
    "#[derive(Debug, Clone)]\nstruct RmsNorm {\n    weight: Tensor,\n    eps: f64,\n}\n",
    "\
#[derive(Debug, Clone)]
struct RmsNorm {
    weight: Tensor,
    factors: Option<Tensor>,
    eps: f64,
}
",
);

pub const GEMMA_FACTORS: Change = (
    "\
    fn new(dim: usize, eps: f64, vb: VarBuilder) -> Result<Self> {
        let weight = vb.get(dim, \"weight\")?;
        Ok(Self { weight, eps })
    }
}
",
    "\
    fn new(dim: usize, eps: f64, vb: VarBuilder) -> Result<Self> {
        let weight = vb.get(dim, \"weight\")?;
        let factors = if weight.track_op() { None } else { Some((&weight + 1.0)?) };
        Ok(Self { weight, factors, eps })
    }

    fn factors(&self) -> Result<Tensor> {
        match &self.factors {
            Some(factors) => Ok(factors.clone()),
            None => &self.weight + 1.0,
        }
    }
}
",
);

macro_rules! gemma_norm {
    ($factors:literal) => {
        (
            "\
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x_dtype = x.dtype();
        let internal_dtype = match x_dtype {
            DType::F16 | DType::BF16 => DType::F32,
            d => d,
        };
        let hidden_size = x.dim(D::Minus1)?;
        let x = x.to_dtype(internal_dtype)?;
        let norm_x = (x.sqr()?.sum_keepdim(D::Minus1)? / hidden_size as f64)?;
        let x_normed = x.broadcast_div(&(norm_x + self.eps)?.sqrt()?)?;
        x_normed
            .to_dtype(x_dtype)?
            .broadcast_mul(&(&self.weight + 1.0)?)
",
            concat!(
                "\
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let factors = ",
                $factors,
                ";
        if let Some(normed) = candle_nn::fused::rms_norm_once(x, &factors, self.eps)? {
            return Ok(normed);
        }
        let x_dtype = x.dtype();
        let internal_dtype = match x_dtype {
            DType::F16 | DType::BF16 => DType::F32,
            d => d,
        };
        let hidden_size = x.dim(D::Minus1)?;
        let x = x.to_dtype(internal_dtype)?;
        let norm_x = (x.sqr()?.sum_keepdim(D::Minus1)? / hidden_size as f64)?;
        let x_normed = x.broadcast_div(&(norm_x + self.eps)?.sqrt()?)?;
        x_normed
            .to_dtype(x_dtype)?
            .broadcast_mul(&factors)
"
            ),
        )
    };
}

pub const GEMMA_NORM: Change = gemma_norm!("self.factors()?");

/// Its norm has its weights from elsewhere.
pub const RECURRENT_GEMMA_NORM: Change = gemma_norm!("(&self.weight + 1.0)?");

pub const GEMMA_NORM_NEW: Change = (
    "impl Module for RmsNorm {\n",
    "\
impl RmsNorm {
    /// `x + residual`, and the norm of that sum.
    fn forward_sum(&self, x: &Tensor, residual: &Tensor) -> Result<(Tensor, Tensor)> {
        if let Some(done) = candle_nn::fused::add_rms_norm_once(x, residual, &self.factors()?, self.eps)? {
            return Ok(done);
        }
        let sum = (x + residual)?;
        let normed = self.forward(&sum)?;
        Ok((sum, normed))
    }
}

impl Module for RmsNorm {
",
);

pub const GEMMA_SUM: Change = (
    "\
        let xs = (xs + residual)?;
        let residual = &xs;
        let xs = xs.apply(&self.pre_feedforward_layernorm)?;
",
    "\
        let (residual, xs) = self.pre_feedforward_layernorm.forward_sum(&xs, residual)?;
",
);

/// For a model that may cap the scores.
pub const CAPPED_ATTENTION: Change = (
    "\
        let key_states = crate::utils::repeat_kv(key_states, self.num_kv_groups)?.contiguous()?;
        let value_states =
            crate::utils::repeat_kv(value_states, self.num_kv_groups)?.contiguous()?;

        let attn_output = if self.use_flash_attn {
",
    "\
        let fused = !self.use_flash_attn && candle_nn::fused::has_attention(&query_states);
        let count = if fused { 1 } else { self.num_kv_groups };
        let key_states = crate::utils::repeat_kv(key_states, count)?;
        let value_states = crate::utils::repeat_kv(value_states, count)?;
        let (key_states, value_states) =
            if fused { (key_states, value_states) } else { (key_states.contiguous()?, value_states.contiguous()?) };

        let attn_output = if fused {
            let (cap, scale) = (self.attn_logit_softcapping, 1f64 / f64::sqrt(self.head_dim as f64));
            let kv = [&key_states, &value_states];
            candle_nn::fused::capped_attention(&query_states, kv, attention_mask, scale, cap)?
        } else if self.use_flash_attn {
",
);

pub const GEMMA3_ROPE: Change = (
    "\
        let query_states = self.q_norm.forward(&query_states)?;
        let key_states = self.k_norm.forward(&key_states)?;

        let (query_states, key_states) =
            self.rotary_emb
                .apply_rotary_emb_qkv(&query_states, &key_states, seqlen_offset)?;
",
    "\
        let [query_states, key_states, value_states] = if candle_nn::fused::has_attention(&query_states) {
            let [cos, sin] = self.rotary_emb.angles(seqlen_offset, q_len)?;
            let qkv = [&query_states, &key_states, &value_states];
            let factors = [self.q_norm.factors()?, self.k_norm.factors()?];
            let norms = [(&factors[0], self.q_norm.eps), (&factors[1], self.k_norm.eps)]
                .map(|(weight, eps)| candle_nn::fused::HeadNorm { weight, eps });
            candle_nn::fused::norm_rope_qkv(qkv, norms, [&cos, &sin])?
        } else {
            let (query_states, key_states) = self.rotary_emb.apply_rotary_emb_qkv(
                &self.q_norm.forward(&query_states)?,
                &self.k_norm.forward(&key_states)?,
                seqlen_offset,
            )?;
            [query_states, key_states, value_states]
        };
",
);

pub const GEMMA3_ANGLES: Change = (
    "\
        let (_b_sz, _h, seq_len, _n_embd) = q.dims4()?;
        let cos = self.cos.narrow(0, seqlen_offset, seq_len)?;
        let sin = self.sin.narrow(0, seqlen_offset, seq_len)?;
        let q_embed = candle_nn::rotary_emb::rope(&q.contiguous()?, &cos, &sin)?;
        let k_embed = candle_nn::rotary_emb::rope(&k.contiguous()?, &cos, &sin)?;
        Ok((q_embed, k_embed))
    }
",
    "\
        let (_b_sz, _h, seq_len, _n_embd) = q.dims4()?;
        let [cos, sin] = self.angles(seqlen_offset, seq_len)?;
        let q_embed = candle_nn::rotary_emb::rope(&q.contiguous()?, &cos, &sin)?;
        let k_embed = candle_nn::rotary_emb::rope(&k.contiguous()?, &cos, &sin)?;
        Ok((q_embed, k_embed))
    }

    fn angles(&self, offset: usize, count: usize) -> Result<[Tensor; 2]> {
        Ok([self.cos.narrow(0, offset, count)?, self.sin.narrow(0, offset, count)?])
    }
",
);

pub const QUANTIZED_GEMMA3_ROPE: Change = (
    "\
        let q = self.attention_q_norm.forward(&q.contiguous()?)?;
        let k = self.attention_k_norm.forward(&k.contiguous()?)?;

        let (q, k) = self
            .rotary_embedding
            .apply_rotary_emb_qkv(&q, &k, index_pos)?;

        let (k, v) = match &self.kv_cache {
            None => (k, v),
            Some((k_cache, v_cache)) => {
                if index_pos == 0 {
                    (k, v)
                } else {
                    let k = Tensor::cat(&[k_cache, &k], 2)?; // concat on seq dim
                    let v = Tensor::cat(&[v_cache, &v], 2)?;
                    (k, v)
                }
            }
        };
        self.kv_cache = Some((k.clone(), v.clone())); // update cache
",
    "\
        let norms = [self.attention_q_norm.of_heads(), self.attention_k_norm.of_heads()];
        let [cos, sin] = self.rotary_embedding.angles(index_pos, seq_len)?;
        let cache = self.kv_cache.as_ref().filter(|_| index_pos > 0);
        let cache = cache.map(|(keys, values)| (keys, values));
        let [q, k, v] = candle_nn::fused::norm_rope_grow([&q, &k, &v], norms, [&cos, &sin], cache)?;
        self.kv_cache = Some((k.clone(), v.clone())); // update cache
        if candle_nn::fused::has_attention(&q) {
            let mask = mask.map(|mask| mask.to_dtype(DType::U8)).transpose()?;
            let scale = 1.0 / (self.head_dim as f64).sqrt();
            let attn_output = candle_nn::fused::masked_attention(&q, &k, &v, mask.as_ref(), scale)?;
            let attn_output = attn_output.transpose(1, 2)?.reshape((b_sz, seq_len, self.q_dim))?;
            return self.attention_wo.forward(&attn_output);
        }
",
);

pub const QUANTIZED_GEMMA3_ANGLES: Change = (
    "\
    fn apply_rotary_emb_qkv(
        &self,
        q: &Tensor,
        k: &Tensor,
        index_pos: usize,
    ) -> Result<(Tensor, Tensor)> {
        let (_b_sz, _h, seq_len, _n_embd) = q.dims4()?;
        let cos = self.cos.narrow(0, index_pos, seq_len)?;
        let sin = self.sin.narrow(0, index_pos, seq_len)?;
        let q_embed = candle_nn::rotary_emb::rope(&q.contiguous()?, &cos, &sin)?;
        let k_embed = candle_nn::rotary_emb::rope(&k.contiguous()?, &cos, &sin)?;
        Ok((q_embed, k_embed))
    }
",
    "\
    fn angles(&self, index_pos: usize, seq_len: usize) -> Result<[Tensor; 2]> {
        Ok([self.cos.narrow(0, index_pos, seq_len)?, self.sin.narrow(0, index_pos, seq_len)?])
    }
",
);

pub const QUANTIZED_GEMMA3_GATE: Change = (
    "\
        let gate = self.feed_forward_gate.forward(xs)?;
        let up = self.feed_forward_up.forward(xs)?;
        let silu = candle_nn::ops::silu(&gate)?;
        let gated = (silu * up)?;
",
    "\
        let layers: [&dyn candle_nn::fused::Product; 2] = [&self.feed_forward_gate, &self.feed_forward_up];
        let gated = candle_nn::fused::gate_products(candle_nn::Activation::Silu, layers, xs)?;
",
);

pub const QUANTIZED_GEMMA3_SUM: Change = (
    "\
            let x = (x + residual)?;

            // Feed-forward block
            let _enter = layer.span_mlp.enter();
            let residual = &x;
            let x = layer.ffn_norm.forward(&x)?;
",
    "\
            // Feed-forward block
            let _enter = layer.span_mlp.enter();
            let (residual, x) = layer.ffn_norm.forward_sum(&x, residual)?;
",
);
