//! The changes to candle-transformers: its models call the functions of `candle_nn::fused`, which are one launch each
//! on a ROCm device and the ops that they replace elsewhere. A line is for every model that is written in these words.

use crate::decoders::*;
use crate::hook::{Hook, SOME, text, twins};
use crate::rules::Backend::Metal;
use crate::rules::Rule::*;

pub const TRANSFORMERS: &[Hook] = &[
    // Attention by candle_nn::ops::sdpa. On Metal, this model has it for single tokens only.
    twins("src/", SOME, Questions, Metal),
    text("src/models/quantized_llama.rs", 1, " && seq_len == 1 {", " && (seq_len == 1 || q.device().is_rocm()) {"),
    text("src/models/quantized_llama.rs", 1, "None,\n                false,", "None,\n                mask.is_some(),"),
    // Attention by sdpa for three more models. Their masks are causal and hide no other keys.
    text("src/models/llama.rs", 1, LLAMA_ATTENTION.0, LLAMA_ATTENTION.1).or(&[0]),
    text("src/models/qwen3.rs", 1, QWEN3_ATTENTION.0, QWEN3_ATTENTION.1).or(&[0]),
    text("src/models/quantized_qwen3.rs", 1, QUANTIZED_QWEN3_ATTENTION.0, QUANTIZED_QWEN3_ATTENTION.1).or(&[0]),
    text("src/models/quantized_qwen3_moe.rs", 1, QWEN3_MOE_ATTENTION.0, QWEN3_MOE_ATTENTION.1).or(&[0]),
    // Attention by sdpa for the models that are written in these words, with heads of keys that are not repeated.
    text("src/models/", SOME, KEY_HEADS.0, KEY_HEADS.1).when(MASKED_ATTENTION.0),
    text("src/models/", SOME, VALUE_HEADS.0, VALUE_HEADS.1).when(MASKED_ATTENTION.0),
    text("src/models/", SOME, KEY_HEADS_PACKED.0, KEY_HEADS_PACKED.1).when(MASKED_ATTENTION.0),
    text("src/models/", SOME, VALUE_HEADS_PACKED.0, VALUE_HEADS_PACKED.1).when(MASKED_ATTENTION.0),
    text("src/models/", SOME, MASKED_ATTENTION.0, MASKED_ATTENTION.1),
    text("src/models/", SOME, CAPPED_ATTENTION.0, CAPPED_ATTENTION.1).when("self.attn_logit_softcapping"),
    // Attention whose heads lie side by side.
    text("src/models/stable_diffusion/attention.rs", 1, DIFFUSION_ATTENTION.0, DIFFUSION_ATTENTION.1).or(&[0]),
    text("src/models/stable_diffusion/attention.rs", 1, IMAGE_ATTENTION.0, IMAGE_ATTENTION.1).or(&[0]),
    text("src/models/whisper/", 2, WHISPER_ATTENTION.0, WHISPER_ATTENTION.1).or(&[0]),
    text("src/models/bert.rs", 1, BERT_ATTENTION.0, BERT_ATTENTION.1).or(&[0]),
    // The kernels work in logarithms to base 2, where the least number would become -infinity.
    text("src/models/bert.rs", 1, "Tensor::try_from(f32::MIN)?", "Tensor::try_from(f32::MIN / 2.)?").or(&[0]),
    text("src/models/vit.rs", 1, VIT_ATTENTION.0, VIT_ATTENTION.1).or(&[0]),
    // Masks of long prompts.
    text("src/utils.rs", 1, HIDING_MASK.0, HIDING_MASK.1).or(&[0]),
    text("src/utils.rs", 1, ADDED_MASK.0, ADDED_MASK.1).or(&[0]),
    // Top-k and top-p sampling.
    text("src/generation/mod.rs", 1, LIKELIEST.0, LIKELIEST.1),
    // Rotary embeddings and the growth of caches, together.
    text("src/models/quantized_llama.rs", 1, QUANTIZED_LLAMA_ROPE.0, QUANTIZED_LLAMA_ROPE.1).when("rope_is_neox"),
    text("src/models/quantized_llama.rs", 1, QUANTIZED_LLAMA_ROPE_END.0, QUANTIZED_LLAMA_ROPE_END.1)
        .when("rope_is_neox"),
    text("src/models/llama.rs", 1, LLAMA_ROPE.0, LLAMA_ROPE.1).or(&[0]),
    text("src/models/llama.rs", 1, LLAMA_ROPE_END.0, LLAMA_ROPE_END.1).or(&[0]),
    text("src/models/qwen3.rs", 1, QWEN3_ROPE.0, QWEN3_ROPE.1).or(&[0]),
    text("src/models/qwen3.rs", 1, ROPE_ANGLES.0, ROPE_ANGLES.1).or(&[0]),
    text("src/models/quantized_qwen3.rs", 1, ROPE_ANGLES_PUB.0, ROPE_ANGLES_PUB.1).or(&[0]),
    text("src/models/quantized_qwen3.rs", 1, WIDE_ANGLES.0, WIDE_ANGLES.1).or(&[0]),
    text("src/models/quantized_qwen3.rs", 1, WIDE_ANGLES_MADE.0, WIDE_ANGLES_MADE.1).or(&[0]),
    text("src/models/quantized_qwen3_moe.rs", 1, QWEN3_MOE_ROPE.0, QWEN3_MOE_ROPE.1).or(&[0]),
    text("src/models/quantized_qwen3_moe.rs", 1, QWEN3_MOE_ROPE_END.0, QWEN3_MOE_ROPE_END.1).or(&[0]),
    text("src/models/", SOME, ROPE_CACHE.0, ROPE_CACHE.1).when(APPLY_ROPE.0),
    text("src/models/", SOME, ROPE_CACHE.0, ROPE_CACHE.1).when(APPLY_ROPE_PACKED.0),
    text("src/models/", SOME, ROPE_CACHE.0, ROPE_CACHE.1).when(APPLY_ROPE_I.0),
    text("src/models/", SOME, ROPE_CACHE.0, ROPE_CACHE.1).when(APPLY_ROPE_PART.0),
    text("src/models/", SOME, APPLY_ROPE.0, APPLY_ROPE.1).when(ROPE_CACHE.0),
    text("src/models/", SOME, APPLY_ROPE_PACKED.0, APPLY_ROPE_PACKED.1).when(ROPE_CACHE.0),
    text("src/models/", SOME, APPLY_ROPE_I.0, APPLY_ROPE_I.1).when(ROPE_CACHE.0),
    text("src/models/phi3.rs", 1, APPLY_ROPE_PART.0, APPLY_ROPE_PART.1),
    text("src/models/quantized_phi3.rs", 1, QUANTIZED_PHI3_ROPE.0, QUANTIZED_PHI3_ROPE.1),
    text("src/models/quantized_phi3.rs", 1, QUANTIZED_PHI3_ANGLES.0, QUANTIZED_PHI3_ANGLES.1),
    text("src/models/quantized_qwen2.rs", 1, QUANTIZED_QWEN2_ROPE.0, QUANTIZED_QWEN2_ROPE.1),
    text("src/models/quantized_qwen2.rs", 1, QUANTIZED_QWEN2_ANGLES.0, QUANTIZED_QWEN2_ANGLES.1),
    text("src/models/gemma3.rs", 1, GEMMA3_ROPE.0, GEMMA3_ROPE.1),
    text("src/models/gemma3.rs", 1, GEMMA3_ANGLES.0, GEMMA3_ANGLES.1),
    text("src/models/quantized_gemma3.rs", 1, QUANTIZED_GEMMA3_ROPE.0, QUANTIZED_GEMMA3_ROPE.1),
    text("src/models/quantized_gemma3.rs", 1, QUANTIZED_GEMMA3_ANGLES.0, QUANTIZED_GEMMA3_ANGLES.1),
    // Caches of keys and values grow in place.
    text("src/models/", SOME, "Tensor::cat(&[prev_k, ", "candle_nn::fused::grow(&[prev_k, "),
    text("src/models/", SOME, "Tensor::cat(&[prev_v, ", "candle_nn::fused::grow(&[prev_v, "),
    text("src/models/", SOME, "Tensor::cat(&[k_cache, ", "candle_nn::fused::grow(&[k_cache, "),
    text("src/models/", SOME, "Tensor::cat(&[v_cache, ", "candle_nn::fused::grow(&[v_cache, "),
    text(
        "src/models/",
        SOME,
        "Tensor::cat(&[cache_k, &k], 2)?.contiguous()?",
        "candle_nn::fused::grow(&[cache_k, &k], 2)?",
    ),
    text(
        "src/models/",
        SOME,
        "Tensor::cat(&[cache_v, &v], 2)?.contiguous()?",
        "candle_nn::fused::grow(&[cache_v, &v], 2)?",
    ),
    // Layers that multiply one input: queries, keys and values; gate and up.
    text("src/models/with_tracing.rs", 1, "impl Module for Linear {\n", LINEAR_WEIGHTS),
    text("src/models/with_tracing.rs", 1, "impl Module for QMatMul {\n", QMATMUL_WEIGHTS),
    text("src/models/quantized_llama.rs", 1, "impl QMatMul {\n", OWN_QMATMUL_WEIGHTS),
    text("src/models/quantized_gemma3.rs", 1, "impl QMatMul {\n", OWN_QMATMUL_WEIGHTS).or(&[0]),
    text("src/quantized_nn.rs", 1, "impl Module for Linear {\n", QUANTIZED_LINEAR_WEIGHTS),
    text("src/models/quantized_qwen2.rs", 1, QUANTIZED_QWEN2_QKV.0, QUANTIZED_QWEN2_QKV.1),
    text("src/models/", SOME, QKV.0, QKV.1),
    text("src/models/", SOME, QKV_PROJ.0, QKV_PROJ.1),
    text("src/models/", SOME, QKV_STATES.0, QKV_STATES.1),
    text("src/models/quantized_lfm2.rs", 1, LFM2_QKV.0, LFM2_QKV.1).or(&[0]),
    text("src/models/", SOME, FEED_FORWARD.0, FEED_FORWARD.1),
    text("src/models/quantized_lfm2.rs", 1, LFM2_FEED_FORWARD.0, LFM2_FEED_FORWARD.1).or(&[0]),
    // Gates.
    text(
        "src/models/",
        SOME,
        "(candle_nn::ops::silu(&self.c_fc1.forward(x)?)? * self.c_fc2.forward(x)?)?",
        "candle_nn::fused::silu_gate(&self.c_fc1.forward(x)?, &self.c_fc2.forward(x)?)?",
    ),
    text("src/models/", SOME, GATE.0, GATE.1),
    text("src/models/", SOME, GATE_OF_X.0, GATE_OF_X.1),
    text("src/models/quantized_qwen3.rs", 1, QWEN3_GATE.0, QWEN3_GATE.1).or(&[0]),
    text("src/models/phi3.rs", 1, PHI3_GATE.0, PHI3_GATE.1),
    text("src/models/quantized_phi3.rs", 1, QUANTIZED_PHI3_GATE.0, QUANTIZED_PHI3_GATE.1),
    text("src/models/quantized_gemma3.rs", 1, QUANTIZED_GEMMA3_GATE.0, QUANTIZED_GEMMA3_GATE.1),
    // Residuals and norms.
    text("src/quantized_nn.rs", 1, QUANTIZED_NORM.0, QUANTIZED_NORM.1),
    text("src/quantized_nn.rs", 1, QUANTIZED_NORM_NEW.0, QUANTIZED_NORM_NEW.1),
    text("src/models/with_tracing.rs", 1, NORM_NEW.0, NORM_NEW.1),
    text("src/models/", SOME, SUM.0, SUM.1).when("Linear, RmsNorm};"),
    text("src/models/helium.rs", 1, SUM_LAYER.0, SUM_LAYER.1),
    text("src/models/helium.rs", 1, SUM_LAYERS.0, SUM_LAYERS.1),
    text("src/models/mistral.rs", 1, SUM_LAYER.0, SUM_LAYER.1),
    text("src/models/mistral.rs", 1, SUM_LAYERS.0, SUM_LAYERS.1),
    text("src/models/phi3.rs", 1, SUM_LAYER.0, SUM_LAYER.1),
    text("src/models/phi3.rs", 1, SUM_LAYERS.0, SUM_LAYERS.1),
    text("src/models/qwen2_moe.rs", 1, SUM_LAYER.0, SUM_LAYER.1),
    text("src/models/qwen2_moe.rs", 1, SUM_LAYERS.0, SUM_LAYERS.1),
    text("src/models/mistral.rs", 1, SUM_LAYERS_OF_EMBEDDINGS.0, SUM_LAYERS_OF_EMBEDDINGS.1),
    text("src/models/qwen2.rs", 1, SUM_LAYER.0, SUM_LAYER.1),
    text("src/models/qwen2.rs", 1, SUM_LAYERS_ALONE.0, SUM_LAYERS_ALONE.1),
    text("src/models/quantized_phi3.rs", 1, QUANTIZED_PHI3_SUM.0, QUANTIZED_PHI3_SUM.1),
    text("src/models/", SOME, GEMMA_NORM.0, GEMMA_NORM.1).when(GEMMA_FACTORS.0),
    text("src/models/", SOME, GEMMA_NORM_FIELDS.0, GEMMA_NORM_FIELDS.1).when(GEMMA_NORM.0),
    text("src/models/", SOME, GEMMA_FACTORS.0, GEMMA_FACTORS.1).when(GEMMA_NORM.0),
    text("src/models/recurrent_gemma.rs", 1, RECURRENT_GEMMA_NORM.0, RECURRENT_GEMMA_NORM.1),
    text("src/models/", SOME, GEMMA_NORM_NEW.0, GEMMA_NORM_NEW.1).when(GEMMA_SUM.0),
    text("src/models/", SOME, GEMMA_SUM.0, GEMMA_SUM.1).when(GEMMA_NORM.0),
    text("src/models/quantized_gemma3.rs", 1, QUANTIZED_GEMMA3_SUM.0, QUANTIZED_GEMMA3_SUM.1),
    text("src/models/qwen3.rs", 1, QWEN3_LAYER.0, QWEN3_LAYER.1),
    text("src/models/qwen3.rs", 1, QWEN3_LAYERS.0, QWEN3_LAYERS.1),
    text("src/models/qwen3.rs", 1, QWEN3_EMBEDDED.0, QWEN3_EMBEDDED.1),
    text("src/models/qwen3_moe.rs", 1, QWEN3_MOE_LAYER.0, QWEN3_MOE_LAYER.1),
    text("src/models/qwen3_moe.rs", 1, QWEN3_LAYERS.0, QWEN3_LAYERS.1),
    text("src/models/qwen3_moe.rs", 1, QWEN3_EMBEDDED.0, QWEN3_EMBEDDED.1),
    text("src/models/quantized_qwen3.rs", 1, QWEN3_LAYER.0, QWEN3_LAYER.1),
    text("src/models/quantized_qwen3.rs", 1, QUANTIZED_QWEN3_LAYERS.0, QUANTIZED_QWEN3_LAYERS.1),
    text("src/models/quantized_qwen3.rs", 1, QWEN3_EMBEDDED.0, QWEN3_EMBEDDED.1),
    text("src/models/quantized_qwen2.rs", 1, QUANTIZED_QWEN2_SUM.0, QUANTIZED_QWEN2_SUM.1),
    text("src/models/quantized_qwen2.rs", 1, QUANTIZED_LLAMA_INPUT.0, QUANTIZED_LLAMA_INPUT.1),
    text("src/models/quantized_llama.rs", 1, QUANTIZED_LLAMA_SUM.0, QUANTIZED_LLAMA_SUM.1).or(&[0]),
    text("src/models/quantized_llama.rs", 1, QUANTIZED_LLAMA_INPUT.0, QUANTIZED_LLAMA_INPUT.1).or(&[0]),
    text("src/models/quantized_qwen3_moe.rs", 1, QUANTIZED_QWEN3_MOE_SUM.0, QUANTIZED_QWEN3_MOE_SUM.1).or(&[0]),
    text("src/models/quantized_qwen3_moe.rs", 1, QUANTIZED_QWEN3_MOE_INPUT.0, QUANTIZED_QWEN3_MOE_INPUT.1).or(&[0]),
    text("src/models/llama.rs", 1, LLAMA_SUM.0, LLAMA_SUM.1).when(LLAMA_BLOCKS.0),
    text("src/models/llama.rs", 1, LLAMA_INPUT.0, LLAMA_INPUT.1).when(LLAMA_BLOCKS.0),
    text("src/models/llama.rs", 1, LLAMA_EMBEDDED.0, LLAMA_EMBEDDED.1).when(LLAMA_BLOCKS.0),
    text("src/models/llama.rs", 2, LLAMA_BLOCKS.0, LLAMA_BLOCKS.1).or(&[0]),
    // Mixtures of experts. The fused kernels take f16 and bf16. The plain path is there for f32, and for other devices
    // of a build for ROCm.
    text("src/models/qwen3_moe.rs", 1, "if cfg!(feature = \"cuda\") {", FUSED_MOE),
    text("src/fused_moe.rs", 2, ROUTES.0, ROUTES.1).or(&[0]),
    text("src/fused_moe.rs", 1, ROUTES_END.0, ROUTES_END.1).or(&[0]),
    text("src/fused_moe.rs", 1, GGUF_ROUTES_END.0, GGUF_ROUTES_END.1).or(&[0]),
    text("src/fused_moe.rs", 1, MOE_GATE.0, MOE_GATE.1).or(&[0]),
    text("src/fused_moe.rs", 1, MOE_UP.0, MOE_UP.1).or(&[0]),
    text("src/fused_moe.rs", 1, "(up * gate.apply(&self.act)?)?.", "candle_nn::fused::gate(self.act, &gate, &up)?.")
        .or(&[0]),
    text("src/fused_moe.rs", 1, GGUF_GATE.0, GGUF_GATE.1).or(&[0]),
    text("src/fused_moe.rs", 1, GGUF_SUM.0, GGUF_SUM.1).or(&[0]),
];

const KEY_HEADS: Change = (
    "crate::utils::repeat_kv(key_states, self.num_kv_groups)?;\n",
    "candle_nn::fused::repeat_heads(key_states, self.num_kv_groups)?;\n",
);

const VALUE_HEADS: Change = (
    "crate::utils::repeat_kv(value_states, self.num_kv_groups)?;\n",
    "candle_nn::fused::repeat_heads(value_states, self.num_kv_groups)?;\n",
);

const KEY_HEADS_PACKED: Change = (
    "crate::utils::repeat_kv(key_states, self.num_kv_groups)?.contiguous()?;\n",
    "candle_nn::fused::repeat_heads(key_states, self.num_kv_groups)?;\n",
);

const VALUE_HEADS_PACKED: Change = (
    "crate::utils::repeat_kv(value_states, self.num_kv_groups)?.contiguous()?;\n",
    "candle_nn::fused::repeat_heads(value_states, self.num_kv_groups)?;\n",
);

const MASKED_ATTENTION: Change = (
    "\
            let attn_weights = (query_states.matmul(&key_states.transpose(2, 3)?)? * scale)?;

            let attn_weights = match attention_mask {
                None => attn_weights,
                Some(mask) => attn_weights.broadcast_add(mask)?,
            };
            let attn_weights = candle_nn::ops::softmax_last_dim(&attn_weights)?;
            attn_weights.matmul(&value_states)?
",
    "\
            candle_nn::fused::masked_attention(&query_states, &key_states, &value_states, attention_mask, scale)?
",
);

const LLAMA_ATTENTION: Change = (
    "\
        let k = self.repeat_kv(k)?;
        let v = self.repeat_kv(v)?;

        let y = if self.use_flash_attn {",
    "\
        let fused = !self.use_flash_attn && candle_nn::fused::has_attention(&q);
        let (k, v) = if fused { (k, v) } else { (self.repeat_kv(k)?, self.repeat_kv(v)?) };

        let y = if fused {
            candle_nn::fused::attention(&q, &k, &v, seq_len > 1, 1.0 / (self.head_dim as f64).sqrt())?
        } else if self.use_flash_attn {",
);

const QWEN3_ATTENTION: Change = (
    "        let on_cpu = x.device().is_cpu();\n\n        #[cfg(not(feature = \"flash-attn\"))]\n",
    "\
        let on_cpu = x.device().is_cpu();
        if candle_nn::fused::has_attention(&q) {
            let scale = 1.0 / (self.head_dim as f64).sqrt();
            let ctx = candle_nn::fused::attention(&q, &k, &v, l > 1, scale)?;
            return ctx.transpose(1, 2)?.reshape((b, l, self.hidden_size))?.apply(&self.o_proj);
        }

        #[cfg(not(feature = \"flash-attn\"))]
",
);

const QUANTIZED_QWEN3_ATTENTION: Change = (
    "        // Per-head Q/K norms (must stay as tensor ops)\n",
    "\
        if candle_nn::fused::has_attention(&q) {
            let [cos, sin] = self.rotary_emb.angles_as(q.dtype(), offset, l)?;
            let norms = [self.q_norm.of_heads(), self.k_norm.of_heads()];
            let cache = self.kv_cache.as_mut().unwrap();
            let (q, k, v) = cache.append_normed([&q, &k, &v], norms, [&cos, &sin])?;
            let scale = 1.0 / (self.head_dim as f64).sqrt();
            let ctx = candle_nn::fused::attention(&q, &k, &v, attn_mask.is_some(), scale)?;
            let ctx = ctx.transpose(1, 2)?.reshape((b, l, self.hidden_size))?;
            return self.o_proj.forward(&ctx);
        }

        // Per-head Q/K norms (must stay as tensor ops)
",
);

const QWEN3_MOE_ATTENTION: Change = (
    "        let k = repeat_kv(k, self.num_kv_groups)?.contiguous()?;\n",
    "\
        if candle_nn::fused::has_attention(&q) {
            let scale = 1.0 / (self.head_dim as f64).sqrt();
            let ctx = candle_nn::fused::attention(&q, &k, &v, mask.is_some(), scale)?;
            let ctx = ctx.transpose(1, 2)?.reshape((b, seq_len, self.n_head * self.head_dim))?;
            return candle_nn::fused::product_of(&self.attention_wo, &ctx, in_dtype);
        }
        let k = repeat_kv(k, self.num_kv_groups)?.contiguous()?;
",
);

const DIFFUSION_ATTENTION: Change = (
    "        let query = self.reshape_heads_to_batch_dim(&query)?;\n",
    "\
        if let Some(xs) =
            candle_nn::fused::attention_of_heads(&query, &key, &value, self.heads, None, self.scale)?
        {
            return self.to_out.forward(&xs);
        }
        let query = self.reshape_heads_to_batch_dim(&query)?;
",
);

const IMAGE_ATTENTION: Change = (
    "        let query_states = self\n            .transpose_for_scores(query_proj)?\n",
    "\
        let scale = 1.0 / (self.channels as f64 / self.num_heads as f64).sqrt();
        if let Some(xs) = candle_nn::fused::attention_of_heads(
            &query_proj,
            &key_proj,
            &value_proj,
            self.num_heads,
            None,
            scale,
        )? {
            let xs = self.proj_attn.forward(&xs)?.t()?.reshape((batch, channel, height, width))?;
            return (xs + residual)? / self.config.rescale_output_factor;
        }
        let query_states = self
            .transpose_for_scores(query_proj)?
",
);

const WHISPER_ATTENTION: Change = (
    "        let scale = ((n_state / self.n_head) as f64).powf(-0.25);\n",
    "\
        let scale = ((n_state / self.n_head) as f64).powf(-0.25);
        let mask_of_tokens = mask.map(|mask| mask.i((0..n_ctx, 0..n_ctx))).transpose()?;
        let mask_of_tokens = mask_of_tokens.as_ref();
        if let Some(wv) =
            candle_nn::fused::attention_of_heads(q, k, v, self.n_head, mask_of_tokens, scale * scale)?
        {
            return Ok(wv);
        }
",
);

const BERT_ATTENTION: Change = (
    "        let query_layer = self.transpose_for_scores(&query_layer)?;\n",
    "\
        let scale = 1.0 / (self.attention_head_size as f64).sqrt();
        if let Some(context_layer) = candle_nn::fused::attention_of_heads(
            &query_layer,
            &key_layer,
            &value_layer,
            self.num_attention_heads,
            Some(attention_mask),
            scale,
        )? {
            return Ok(context_layer);
        }
        let query_layer = self.transpose_for_scores(&query_layer)?;
",
);

const VIT_ATTENTION: Change = (
    "        let query = self.transpose_for_scores(&query)?.contiguous()?;\n",
    "\
        let scale = 1.0 / f64::sqrt(self.attention_head_size as f64);
        if let Some(xs) =
            candle_nn::fused::attention_of_heads(&query, &key, &value, self.num_attention_heads, None, scale)?
        {
            return Ok(xs);
        }
        let query = self.transpose_for_scores(&query)?.contiguous()?;
",
);

const HIDING_MASK: Change = (
    "    let kv_len = index_pos + seq_len;\n    let mask: Vec<u8> = (0..seq_len)\n",
    "\
    if let Some(hidden) = candle_nn::fused::hidden_keys(seq_len, index_pos, None, device)? {
        return Ok(hidden);
    }
    let kv_len = index_pos + seq_len;
    let mask: Vec<u8> = (0..seq_len)
",
);

const ADDED_MASK: Change = (
    "    let minf = f32::NEG_INFINITY;\n    let mask: Vec<_> = (0..tgt)\n",
    "\
    if let Some(hidden) = candle_nn::fused::hidden_keys(tgt, offset, sw, device)? {
        let number = |number: f32| Tensor::new(number, device)?.to_dtype(dtype)?.broadcast_as(hidden.shape());
        let mask = hidden.where_cond(&number(f32::NEG_INFINITY)?, &number(0.)?)?;
        return mask.reshape((1, 1, tgt, tgt + offset));
    }
    let minf = f32::NEG_INFINITY;
    let mask: Vec<_> = (0..tgt)
",
);

const LIKELIEST: Change = (
    "\
    pub fn sample(&mut self, logits: &Tensor) -> Result<u32> {
        self.sample_f(logits, |_| {})
",
    "\
    /// Samples from the likeliest tokens, where the device finds them.
    fn sample_likeliest(&mut self, logits: &Tensor) -> Result<Option<u32>> {
        let (temperature, k, p) = match &self.sampling {
            Sampling::TopK { k, temperature } => (*temperature, Some(*k), None),
            Sampling::TopP { p, temperature } => (*temperature, None, Some(*p as f32)),
            Sampling::TopKThenTopP { k, p, temperature } => (*temperature, Some(*k), Some(*p as f32)),
            _ => return Ok(None),
        };
        let logits = logits.to_dtype(DType::F32)?;
        let Some(likeliest) = candle_nn::fused::likeliest(&logits, temperature, k, p)? else {
            return Ok(None);
        };
        let index = self.sample_multinomial(&likeliest.probabilities)?;
        Ok(Some(likeliest.tokens[index as usize]))
    }

    pub fn sample(&mut self, logits: &Tensor) -> Result<u32> {
        match self.sample_likeliest(logits)? {
            Some(token) => Ok(token),
            None => self.sample_f(logits, |_| {}),
        }
",
);

const LINEAR_WEIGHTS: &str = "\
impl candle_nn::fused::Product for Linear {
    fn weights(&self) -> candle_nn::fused::Weights<'_> {
        self.inner.weights()
    }
}

impl Module for Linear {
";

const QMATMUL_WEIGHTS: &str = "\
impl candle_nn::fused::Product for QMatMul {
    fn weights(&self) -> candle_nn::fused::Weights<'_> {
        self.inner.weights()
    }
}

impl Module for QMatMul {
";

/// Some models have a `QMatMul` of their own, which is no module.
const OWN_QMATMUL_WEIGHTS: &str = "\
impl candle_nn::fused::Product for QMatMul {
    fn weights(&self) -> candle_nn::fused::Weights<'_> {
        self.inner.weights()
    }
}

impl Module for QMatMul {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        QMatMul::forward(self, xs)
    }
}

impl QMatMul {
";

const QUANTIZED_LINEAR_WEIGHTS: &str = "\
impl candle_nn::fused::Product for Linear {
    fn weights(&self) -> candle_nn::fused::Weights<'_> {
        match (self.weight.weights(), &self.bias) {
            (candle_nn::fused::Weights::Quantized(weights, None), bias) => {
                candle_nn::fused::Weights::Quantized(weights, bias.as_ref())
            }
            _ => candle_nn::fused::Weights::Other,
        }
    }
}

impl Module for Linear {
";

const QKV: Change = (
    "\
        let q = self.attention_wq.forward(x)?;
        let k = self.attention_wk.forward(x)?;
        let v = self.attention_wv.forward(x)?;
",
    "\
        let [q, k, v] = candle_nn::fused::products(
            [&self.attention_wq, &self.attention_wk, &self.attention_wv],
            x,
        )?;
",
);

const QKV_STATES: Change = (
    "\
        let query_states = self.q_proj.forward(xs)?;
        let key_states = self.k_proj.forward(xs)?;
        let value_states = self.v_proj.forward(xs)?;
",
    "\
        let [query_states, key_states, value_states] =
            candle_nn::fused::products([&self.q_proj, &self.k_proj, &self.v_proj], xs)?;
",
);

const LFM2_QKV: Change = (
    "\
        let q = self.wq.forward(xs)?;
        let k = self.wk.forward(xs)?;
        let v = self.wv.forward(xs)?;
",
    "        let [q, k, v] = candle_nn::fused::products([&self.wq, &self.wk, &self.wv], xs)?;\n",
);

const QKV_PROJ: Change = (
    "\
        let q = self.q_proj.forward(x)?;
        let k = self.k_proj.forward(x)?;
        let v = self.v_proj.forward(x)?;
",
    "\
        let [q, k, v] = candle_nn::fused::products([&self.q_proj, &self.k_proj, &self.v_proj], x)?;
",
);

const FEED_FORWARD: Change = (
    "\
        let w1 = self.feed_forward_w1.forward(xs)?;
        let w3 = self.feed_forward_w3.forward(xs)?;
        self.feed_forward_w2
            .forward(&(candle_nn::ops::silu(&w1)? * w3)?)
",
    "\
        let silu = candle_nn::Activation::Silu;
        let gated = candle_nn::fused::gate_products(silu, [&self.feed_forward_w1, &self.feed_forward_w3], xs)?;
        self.feed_forward_w2.forward(&gated)
",
);

const LFM2_FEED_FORWARD: Change = (
    "\
        let w1 = self.w1.forward(xs)?;
        let w3 = self.w3.forward(xs)?;
        self.w2.forward(&(candle_nn::ops::silu(&w1)? * w3)?)
",
    "\
        let gated = candle_nn::fused::gate_products(candle_nn::Activation::Silu, [&self.w1, &self.w3], xs)?;
        self.w2.forward(&gated)
",
);

const GATE: Change = (
    "\
        let lhs = xs.apply(&self.gate_proj)?.apply(&self.act_fn)?;
        let rhs = xs.apply(&self.up_proj)?;
        (lhs * rhs)?.apply(&self.down_proj)",
    "\
        candle_nn::fused::gate_products(self.act_fn, [&self.gate_proj, &self.up_proj], xs)?.apply(&self.down_proj)",
);

const GATE_OF_X: Change = (
    "\
        let lhs = x.apply(&self.gate_proj)?.apply(&self.act_fn)?;
        let rhs = x.apply(&self.up_proj)?;
        (lhs * rhs)?.apply(&self.down_proj)",
    "\
        candle_nn::fused::gate_products(self.act_fn, [&self.gate_proj, &self.up_proj], x)?.apply(&self.down_proj)",
);

const QWEN3_GATE: Change = (
    "\
        let gate = self.gate_proj.forward(x)?.apply(&self.act_fn)?;
        let up = self.up_proj.forward(x)?;
        let gated = (gate * up)?;",
    "\
        let gated = candle_nn::fused::gate_products(self.act_fn, [&self.gate_proj, &self.up_proj], x)?;",
);

const QUANTIZED_NORM: Change = (
    "candle_nn::ops::rms_norm(x, &self.weight, self.eps as f32)",
    "candle_nn::fused::rms_norm_for_products(x, &self.weight, self.eps as f32)",
);

const QUANTIZED_NORM_NEW: Change = (
    "impl RmsNorm {\n",
    "\
impl RmsNorm {
    /// A layer's input, and its norm.
    pub fn forward_of(&self, input: candle_nn::fused::Input) -> Result<(Tensor, Tensor)> {
        input.normed(|x| self.forward(x), |x, residual| self.forward_sum(x, residual))
    }

    /// As the norm of each head of queries or keys.
    pub fn of_heads(&self) -> candle_nn::fused::HeadNorm<'_> {
        candle_nn::fused::HeadNorm { weight: &self.weight, eps: self.eps }
    }

    /// `x + residual`, and the norm of that sum.
    pub fn forward_sum(&self, x: &Tensor, residual: &Tensor) -> Result<(Tensor, Tensor)> {
        let _enter = self.span.enter();
        candle_nn::fused::add_rms_norm_for_products(x, residual, &self.weight, self.eps)
    }

",
);

const NORM_NEW: Change = (
    "impl RmsNorm {\n",
    "\
impl RmsNorm {
    /// A layer's input, and its norm.
    pub fn forward_of(&self, input: candle_nn::fused::Input) -> Result<(Tensor, Tensor)> {
        input.normed(|x| self.forward(x), |x, residual| self.forward_sum(x, residual))
    }

    /// As the norm of each head of queries or keys.
    pub fn of_heads(&self) -> candle_nn::fused::HeadNorm<'_> {
        self.inner.of_heads()
    }

    /// `x + residual`, and the norm of that sum.
    pub fn forward_sum(&self, x: &Tensor, residual: &Tensor) -> Result<(Tensor, Tensor)> {
        let _enter = self.span.enter();
        self.inner.forward_sum(x, residual)
    }

",
);

const QUANTIZED_LLAMA_SUM: Change = (
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
            let x = layer.mlp_or_moe.forward(&x)?;
            let x = (x + residual)?;
            layer_in = x
        }
        let x = self.norm.forward(&layer_in)?;",
    "\
            let (residual, x) = layer.attention_norm.forward_of(layer_in)?;
            let attn = layer.forward_attn(&x, mask.as_ref(), index_pos)?;
            let (residual, x) = layer.ffn_norm.forward_sum(&attn, &residual)?;

            // MLP
            let _enter = layer.span_mlp.enter();
            let x = layer.mlp_or_moe.forward(&x)?;
            layer_in = candle_nn::fused::Input { trunk: residual, branch: Some(x) }
        }
        let (_, x) = self.norm.forward_of(layer_in)?;",
);

const QUANTIZED_LLAMA_INPUT: Change = (
    "let mut layer_in = self.tok_embeddings.forward(x)?;",
    "let mut layer_in = candle_nn::fused::Input::from(self.tok_embeddings.forward(x)?);",
);

const QUANTIZED_QWEN3_MOE_SUM: Change = (
    "\
            let x = xs;
            let residual = &x;

            let x = layer.attention_norm.forward(&x)?;
            let attn = layer.forward_attn(&x, causal_mask.as_ref(), offset)?;
            let x = (attn + residual)?;

            // MLP
            let residual = &x;
            let x = layer.ffn_norm.forward(&x)?;
            let x = layer.mlp.forward(&x, causal_mask.is_some())?;
            let x = (x + residual)?;
            xs = x
        }

        let xs = xs.narrow(1, l - 1, 1)?;
        let xs = self.norm.forward(&xs)?;
",
    "\
            let (residual, x) = layer.attention_norm.forward_of(xs)?;
            let attn = layer.forward_attn(&x, causal_mask.as_ref(), offset)?;
            let (residual, x) = layer.ffn_norm.forward_sum(&attn, &residual)?;

            // MLP
            let x = layer.mlp.forward(&x, causal_mask.is_some())?;
            xs = candle_nn::fused::Input { trunk: residual, branch: Some(x) }
        }

        let (_, xs) = self.norm.forward_of(xs.narrow(1, l - 1, 1)?)?;
",
);

const QUANTIZED_QWEN3_MOE_INPUT: Change = (
    "let mut xs = self.tok_embeddings.forward(x)?;",
    "let mut xs = candle_nn::fused::Input::from(self.tok_embeddings.forward(x)?);",
);

const LLAMA_SUM: Change = (
    "\
        x: &Tensor,
        index_pos: usize,
        block_idx: usize,
        cache: &mut Cache,
    ) -> Result<Tensor> {
        let _enter = self.span.enter();
        let residual = x;
        let x = self.rms_1.forward(x)?;
        let x = (self.attn.forward(&x, index_pos, block_idx, cache)? + residual)?;
        let residual = &x;
        let x = (self.mlp.forward(&self.rms_2.forward(&x)?)? + residual)?;
        Ok(x)
",
    "\
        x: candle_nn::fused::Input,
        index_pos: usize,
        block_idx: usize,
        cache: &mut Cache,
    ) -> Result<candle_nn::fused::Input> {
        let _enter = self.span.enter();
        let (residual, x) = self.rms_1.forward_of(x)?;
        let x = self.attn.forward(&x, index_pos, block_idx, cache)?;
        let (residual, x) = self.rms_2.forward_sum(&x, &residual)?;
        let x = self.mlp.forward(&x)?;
        Ok(candle_nn::fused::Input { trunk: residual, branch: Some(x) })
",
);

const LLAMA_INPUT: Change =
    ("let mut x = self.wte.forward(x)?;", "let mut x = candle_nn::fused::Input::from(self.wte.forward(x)?);");

const LLAMA_EMBEDDED: Change =
    ("let mut x = input_embed.clone();", "let mut x = candle_nn::fused::Input::from(input_embed.clone());");

const LLAMA_BLOCKS: Change = (
    "\
            x = block.forward(&x, index_pos, block_idx, cache)?;
        }
        let x = self.ln_f.forward(&x)?;
        let x = x.i((.., seq_len - 1, ..))?.contiguous()?;
",
    "\
            x = block.forward(x, index_pos, block_idx, cache)?;
        }
        let (_, x) = self.ln_f.forward_of(x.narrow(1, seq_len - 1, 1)?)?;
        let x = x.i((.., 0, ..))?.contiguous()?;
",
);

const FUSED_MOE: &str = "\
if cfg!(feature = \"cuda\")
                    || (vb.device().is_rocm() && matches!(vb.dtype(), DType::F16 | DType::BF16))
                {";

const ROUTES: Change = (
    "\
        let router_logits = self.gate.forward(&xs)?;

        let routing_weights =
            candle_nn::ops::softmax_last_dim(&router_logits.to_dtype(DType::F32)?)?;
",
    "\
        let (topk_weights, expert_ids, sorted_token_ids) = if xs.device().is_rocm() {
            let topk = self.num_experts_per_tok;
            let routes = candle_nn::fused::route_of(&self.gate, &xs, topk, self.norm_topk_prob)?;
            (routes.weights, routes.experts, routes.tokens)
        } else {
        let router_logits = self.gate.forward(&xs)?;
        let routing_weights =
            candle_nn::ops::softmax_last_dim(&router_logits.to_dtype(DType::F32)?)?;
",
);

const ROUTES_END: Change = (
    "        };\n\n        //out (M, top_k, N)\n",
    "        };\n        (topk_weights, expert_ids, sorted_token_ids)\n        };\n\n        //out (M, top_k, N)\n",
);

const GGUF_ROUTES_END: Change = (
    "        };\n\n        let ys = {\n",
    "        };\n        (topk_weights, expert_ids, sorted_token_ids)\n        };\n\n        let ys = {\n",
);

const GGUF_GATE: Change = (
    "\
            let gate = moe::moe_gemm_gguf(
                &xs,
                &self.gate_experts,
                &None,
                &sorted_token_ids,
                &expert_ids,
                self.num_experts_per_tok,
                is_prefill,
                self.dtype,
            )?;
            let up = moe::moe_gemm_gguf(
                &xs,
                &self.up_experts,
                &None,
                &sorted_token_ids,
                &expert_ids,
                self.num_experts_per_tok,
                is_prefill,
                self.dtype,
            )?;

            let down_inputs = (up * gate.apply(&self.act)?)?;
",
    "\
            let down_inputs = candle_nn::fused::expert_gate(
                self.act,
                [&self.gate_experts, &self.up_experts],
                &xs,
                &sorted_token_ids,
                &expert_ids,
                self.num_experts_per_tok,
                is_prefill,
                self.dtype,
            )?;
",
);

const GGUF_SUM: Change = (
    "\
            moe::moe_gemm_gguf(
                &down_inputs,
                &self.down_experts,
                &Some(topk_weights),
                &sorted_token_ids,
                &expert_ids,
                self.num_experts_per_tok,
                is_prefill,
                self.dtype,
            )?
        };
        let mut ys = ys.reshape((num_tokens, (), hidden_dim))?.sum(D::Minus2)?;
",
    "\
            candle_nn::fused::expert_sum(
                &down_inputs,
                &self.down_experts,
                topk_weights,
                &sorted_token_ids,
                &expert_ids,
                self.num_experts_per_tok,
                is_prefill,
                self.dtype,
            )?
        };
        let mut ys = ys.reshape((num_tokens, hidden_dim))?;
",
);

const MOE_GATE: Change = (
    "            .narrow(candle::D::Minus1, 0, self.w_size_n)?\n            .contiguous()?;\n",
    "            .narrow(candle::D::Minus1, 0, self.w_size_n)?;\n",
);

const MOE_UP: Change = (
    "            .narrow(candle::D::Minus1, self.w_size_n, self.w_size_n)?\n            .contiguous()?;\n",
    "            .narrow(candle::D::Minus1, self.w_size_n, self.w_size_n)?;\n",
);

const QUANTIZED_LLAMA_ROPE: Change = (
    "\
            .contiguous()?;

        let q = self.apply_rotary_emb(&q, index_pos)?;
        let k = self.apply_rotary_emb(&k, index_pos)?;

",
    "\
            ;
        let (q, k, v) = if q.device().is_rocm() {
            let cos = self.cos.narrow(0, index_pos, seq_len)?;
            let sin = self.sin.narrow(0, index_pos, seq_len)?;
            let cache = self.kv_cache.as_ref().filter(|_| index_pos != 0).map(|(k, v)| (k, v));
            let interleaved = !self.rope_is_neox;
            candle_nn::fused::rope_grow([&q, &k, &v], [&cos, &sin], interleaved, cache)?.into()
        } else {
        let v = v.contiguous()?;
        let q = self.apply_rotary_emb(&q, index_pos)?;
        let k = self.apply_rotary_emb(&k, index_pos)?;

",
);

const QUANTIZED_LLAMA_ROPE_END: Change = (
    "        };\n        self.kv_cache = Some((k.clone(), v.clone()));\n",
    "        };\n        (q, k, v)\n        };\n        self.kv_cache = Some((k.clone(), v.clone()));\n",
);

const LLAMA_ROPE: Change = (
    "\
            .transpose(1, 2)?
            .contiguous()?;
        let k = k
            .reshape((b_sz, seq_len, self.num_key_value_heads, self.head_dim))?
            .transpose(1, 2)?
            .contiguous()?;
        let mut v = v
            .reshape((b_sz, seq_len, self.num_key_value_heads, self.head_dim))?
            .transpose(1, 2)?;

        let q = self.apply_rotary_emb(&q, index_pos, cache)?;
        let mut k = self.apply_rotary_emb(&k, index_pos, cache)?;

",
    "\
            .transpose(1, 2)?;
        let k = k
            .reshape((b_sz, seq_len, self.num_key_value_heads, self.head_dim))?
            .transpose(1, 2)?;
        let mut v = v
            .reshape((b_sz, seq_len, self.num_key_value_heads, self.head_dim))?
            .transpose(1, 2)?;

        let grown = cache.kvs[block_idx].as_ref().map_or(0, |(k, _)| k.dims()[2]) + seq_len;
        let fused = cache.use_kv_cache && q.device().is_rocm() && grown <= self.max_position_embeddings;
        let (q, k, v) = if fused {
            let (cos, sin) = (cache.cos.narrow(0, index_pos, seq_len)?, cache.sin.narrow(0, index_pos, seq_len)?);
            let kept = cache.kvs[block_idx].as_ref().map(|(k, v)| (k, v));
            let [q, k, v] = candle_nn::fused::rope_grow([&q, &k, &v], [&cos, &sin], false, kept)?;
            cache.kvs[block_idx] = Some((k.clone(), v.clone()));
            (q, k, v)
        } else {
        let (q, k) = (q.contiguous()?, k.contiguous()?);
        let q = self.apply_rotary_emb(&q, index_pos, cache)?;
        let mut k = self.apply_rotary_emb(&k, index_pos, cache)?;

",
);

const LLAMA_ROPE_END: Change = (
    "            cache.kvs[block_idx] = Some((k.clone(), v.clone()))\n        }\n",
    "            cache.kvs[block_idx] = Some((k.clone(), v.clone()))\n        }\n        (q, k, v)\n        };\n",
);

const QWEN3_ROPE: Change = (
    "\
        // 3. Per-head RMSNorm
        let q_flat = q.flatten(0, 2)?;
        let k_flat = k.flatten(0, 2)?;
        let q_flat = self.q_norm.forward(&q_flat)?;
        let k_flat = self.k_norm.forward(&k_flat)?;
        let q = q_flat.reshape((b, self.num_heads, l, self.head_dim))?;
        let k = k_flat.reshape((b, self.num_kv_heads, l, self.head_dim))?;

        // 4. RoPE
        let (q, k) = self.rotary_emb.apply(&q, &k, offset)?;

        // 5. Accumulate KV cache
        let (k, v) = self.kv_cache.append(&k, &v)?;
",
    "\
        let (q, k, v) = if q.device().is_rocm() {
            let [cos, sin] = self.rotary_emb.angles(offset, l)?;
            let norms = [self.q_norm.of_heads(), self.k_norm.of_heads()];
            self.kv_cache.append_normed([&q, &k, &v], norms, [&cos, &sin])?
        } else {
            // 3. Per-head RMSNorm
            let q_flat = q.flatten(0, 2)?;
            let k_flat = k.flatten(0, 2)?;
            let q_flat = self.q_norm.forward(&q_flat)?;
            let k_flat = self.k_norm.forward(&k_flat)?;
            let q = q_flat.reshape((b, self.num_heads, l, self.head_dim))?;
            let k = k_flat.reshape((b, self.num_kv_heads, l, self.head_dim))?;

            // 4. RoPE
            let (q, k) = self.rotary_emb.apply(&q, &k, offset)?;

            // 5. Accumulate KV cache
            let (k, v) = self.kv_cache.append(&k, &v)?;
            (q, k, v)
        };
",
);

const QWEN3_MOE_ROPE: Change = (
    "\
            .transpose(1, 2)?
            .contiguous()?;
        let k = k
            .reshape((1, seq_len, self.n_kv_head, self.head_dim))?
            .transpose(1, 2)?
            .contiguous()?;
        let v = v
            .reshape((1, seq_len, self.n_kv_head, self.head_dim))?
            .transpose(1, 2)?
            .contiguous()?;

        let (q, k) = if let (Some(q_norm), Some(k_norm)) = (&self.q_norm, &self.k_norm) {
",
    "\
            .transpose(1, 2)?;
        let k = k
            .reshape((1, seq_len, self.n_kv_head, self.head_dim))?
            .transpose(1, 2)?;
        let v = v
            .reshape((1, seq_len, self.n_kv_head, self.head_dim))?
            .transpose(1, 2)?;

        let norms = self.q_norm.as_ref().zip(self.k_norm.as_ref()).filter(|_| q.device().is_rocm());
        let (q, k, v) = if let Some((q_norm, k_norm)) = norms {
            let [cos, sin] = self.rotary_emb.angles(input_pos, seq_len)?;
            let norms = [q_norm.of_heads(), k_norm.of_heads()];
            self.kv_cache.append_normed([&q, &k, &v], norms, [&cos, &sin])?
        } else {
        let (q, k, v) = (q.contiguous()?, k.contiguous()?, v.contiguous()?);
        let (q, k) = if let (Some(q_norm), Some(k_norm)) = (&self.q_norm, &self.k_norm) {
",
);

const QWEN3_MOE_ROPE_END: Change = (
    "\
        let (q, k) = self.rotary_emb.apply(&q, &k, input_pos)?;

        let (k, v) = self.kv_cache.append(&k, &v)?;
",
    "\
        let (q, k) = self.rotary_emb.apply(&q, &k, input_pos)?;

        let (k, v) = self.kv_cache.append(&k, &v)?;
        (q, k, v)
        };
",
);

const ROPE_ANGLES: Change = (
    "    /// Apply RoPE (q, k shape: B x H x L x D)\n    pub(crate) fn apply(",
    "    \
    /// The cosines and sines of `len` positions. Candle 0.9.2 has no attention that asks for them.
    #[allow(dead_code)]
    pub(crate) fn angles(&self, offset: usize, len: usize) -> Result<[Tensor; 2]> {
        Ok([self.cos.narrow(0, offset, len)?, self.sin.narrow(0, offset, len)?])
    }

    /// Apply RoPE (q, k shape: B x H x L x D)
    pub(crate) fn apply(",
);

/// The angles are f16 or bf16, and the activations f32: each layer would convert them for each token.
const WIDE_ANGLES: Change = (
    "    half_d: usize,\n}\n\nimpl RotaryEmbedding {\n",
    "    \
    half_d: usize,
    /// The cosines and sines in f32.
    wide: [Tensor; 2],
}

impl RotaryEmbedding {
    /// The cosines and sines of `len` positions, in a dtype.
    fn angles_as(&self, dtype: DType, offset: usize, len: usize) -> Result<[Tensor; 2]> {
        let [cos, sin] = if dtype == DType::F32 { &self.wide } else { &[self.cos.clone(), self.sin.clone()] };
        Ok([cos.narrow(0, offset, len)?.to_dtype(dtype)?, sin.narrow(0, offset, len)?.to_dtype(dtype)?])
    }

",
);

const WIDE_ANGLES_MADE: Change = (
    "        Ok(Self {\n            sin: sin_t,\n            cos: cos_t,\n",
    "        Ok(Self {
            wide: [cos_t.to_dtype(DType::F32)?, sin_t.to_dtype(DType::F32)?],
            sin: sin_t,
            cos: cos_t,
",
);

const ROPE_ANGLES_PUB: Change = (
    "    /// Apply RoPE (q, k shape: B x H x L x D)\n    pub fn apply(",
    "    \
    /// The cosines and sines of `len` positions.
    pub fn angles(&self, offset: usize, len: usize) -> Result<[Tensor; 2]> {
        Ok([self.cos.narrow(0, offset, len)?, self.sin.narrow(0, offset, len)?])
    }

    /// Apply RoPE (q, k shape: B x H x L x D)
    pub fn apply(",
);
