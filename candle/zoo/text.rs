//! Decoders of text.
use crate::Zoo;
use crate::setting::{Flash, VOCABULARY, config};
use candle_transformers::models::*;
use serde_json::{Value, json};

pub fn add(zoo: &mut Zoo) {
    zoo.add("bigcode", |s| {
        let mut config = bigcode::Config::starcoder_1b();
        (config.vocab_size, config.hidden_size, config.n_inner) = (VOCABULARY, 64, Some(128));
        (config.num_hidden_layers, config.num_attention_heads, config.max_position_embeddings) = (2, 4, 64);
        let mut model = bigcode::GPTBigCode::load(s.weights(), config)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("chatglm", |s| {
        let mut config = chatglm::Config::glm3_6b();
        (config.num_layers, config.padded_vocab_size, config.hidden_size) = (2, VOCABULARY, 64);
        (config.ffn_hidden_size, config.kv_channels, config.num_attention_heads) = (128, 16, 4);
        (config.seq_length, config.multi_query_group_num) = (64, 2);
        let mut model = chatglm::Model::new(&config, s.weights())?;
        s.decode(|ids, _| model.forward(ids))
    });
    zoo.add("codegeex4_9b", |s| {
        let mut model = codegeex4_9b::Model::new(&config(glm_fields())?, s.weights())?;
        s.decode(|ids, _| model.forward(ids))
    });
    zoo.add("glm4", |s| {
        let mut model = glm4::Model::new(&config(glm_fields())?, s.weights())?;
        s.decode(|ids, _| model.forward(ids))
    });
    zoo.add("falcon", |s| {
        let config = config(json!({
            "hidden_dropout": 0.0, "attention_dropout": 0.0, "n_head_kv": null, "alibi": false, "multi_query": true,
            "new_decoder_architecture": false, "parallel_attn": true, "bias": false,
        }))?;
        let mut model = falcon::Falcon::load(s.weights(), config)?;
        s.decode(|ids, _| model.forward(ids))
    });
    zoo.flash("gemma", |s| {
        let config = config(json!({ "hidden_act": "gelu_pytorch_tanh" }))?;
        let mut model = gemma::Model::new(s.calls_flash(), &config, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.flash("gemma2", |s| {
        // With flash attention, the model does not cap scores.
        let cap = (s.flash == Flash::Never).then_some(50.0);
        let window = s.window();
        let config = config(json!({
            "hidden_activation": "gelu_pytorch_tanh", "final_logit_softcapping": 30.0, "attn_logit_softcapping": cap,
            "query_pre_attn_scalar": 16, "sliding_window": window,
        }))?;
        let mut model = gemma2::Model::new(s.calls_flash(), &config, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.flash("gemma3", |s| {
        let window = s.window();
        let config = config(json!({
            "hidden_activation": "gelu_pytorch_tanh", "rope_local_base_freq": 1e4, "query_pre_attn_scalar": 16,
            "sliding_window": window, "sliding_window_pattern": 2, "num_key_value_heads": 1,
        }))?;
        let mut model = gemma3::Model::new(s.calls_flash(), &config, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("glm4_new", |s| {
        let config = config(json!({ "partial_rotary_factor": 0.5 }))?;
        let mut model = glm4_new::ModelForCausalLM::new(&config, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.flash("granite", |s| {
        let config = config::<granite::GraniteConfig>(json!({}))?.into_config(s.calls_flash());
        let mut cache = granite::Cache::new(true, s.dtype(), &config, &s.device)?;
        let model = granite::Granite::load(s.weights(), &config)?;
        s.decode(|ids, at| model.forward(ids, at, &mut cache))
    });
    zoo.flash("helium", |s| {
        let mut model =
            helium::Model::new(&config(json!({ "mlp_bias": false, "use_flash_attn": s.calls_flash() }))?, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.flash("llama", |s| {
        let rope = json!({ "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32, "rope_type": "llama3" });
        let config = config::<llama::LlamaConfig>(json!({ "rope_scaling": rope }))?.into_config(s.calls_flash());
        let mut cache = llama::Cache::new(true, s.dtype(), &config, &s.device)?;
        let model = llama::Llama::load(s.weights(), &config)?;
        s.decode(|ids, at| model.forward(ids, at, &mut cache))
    });
    zoo.add("llama2_c", |s| {
        let mut config = llama2_c::Config::tiny_260k();
        config.vocab_size = VOCABULARY;
        let mut cache = llama2_c::Cache::new(true, &config, s.weights().pp("rot"))?;
        let model = llama2_c::Llama::load(s.weights(), config)?;
        s.decode(|ids, at| model.forward(ids, at, &mut cache))
    });
    zoo.flash("mistral", |s| {
        let fields = json!({ "sliding_window": s.window(), "use_flash_attn": s.calls_flash() });
        let mut model = mistral::Model::new(&config(fields)?, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("mixformer", |s| {
        let config = config(json!({
            "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_inner": null, "n_head": 4, "rotary_dim": 8,
            "activation_function": "gelu_new", "pad_vocab_size_multiple": 32,
        }))?;
        let mut model = mixformer::MixFormerSequentialForCausalLM::new(&config, s.weights())?;
        s.decode(|ids, _| model.forward(ids))
    });
    zoo.add("mixformer_v2", |s| {
        let config = config(json!({
            "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_inner": null, "n_head": 4, "rotary_dim": 8,
            "activation_function": "gelu_new", "pad_vocab_size_multiple": 32,
        }))?;
        let mut model = mixformer::MixFormerSequentialForCausalLM::new_v2(&config, s.weights())?;
        s.decode(|ids, _| model.forward(ids))
    });
    zoo.add("olmo", |s| {
        let mut model = olmo::Model::new(&config(json!({ "clip_qkv": 8.0 }))?, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("olmo2", |s| {
        let mut model = olmo2::Model::new(&config(json!({}))?, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("phi", |s| {
        let config = config(json!({ "hidden_act": "gelu_new", "partial_rotary_factor": 0.5, "qk_layernorm": false }))?;
        let mut model = phi::Model::new(&config, s.weights())?;
        s.decode(|ids, _| model.forward(ids))
    });
    zoo.add("phi3", |s| {
        let mut model = phi3::Model::new(&config(json!({}))?, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("qwen2", |s| {
        let mut model = qwen2::ModelForCausalLM::new(&config(json!({ "use_sliding_window": true }))?, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("qwen3", |s| {
        let mut model = qwen3::ModelForCausalLM::new(&config(json!({}))?, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("smollm3", |s| {
        let config = config(json!({ "no_rope_layer_interval": 2 }))?;
        let mut model = smol::smollm3::ModelForCausalLM::new(&config, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.flash("stable_lm", |s| {
        let config = config(json!({ "partial_rotary_factor": 0.5, "use_qkv_bias": true,
            "use_flash_attn": s.calls_flash() }))?;
        let mut model = stable_lm::Model::new(&config, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("starcoder2", |s| {
        let config = config(json!({ "norm_epsilon": 1e-5, "use_bias": true, "hidden_act": "gelu_pytorch_tanh" }))?;
        let mut model = starcoder2::Model::new(&config, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("deepseek2", |s| {
        let config = config(json!({
            "moe_intermediate_size": 32, "n_shared_experts": 1, "n_routed_experts": 4, "first_k_dense_replace": 1,
            "q_lora_rank": 24, "qk_rope_head_dim": 8, "kv_lora_rank": 16, "v_head_dim": 16, "qk_nope_head_dim": 16,
            "n_group": 2, "topk_group": 1, "topk_method": "greedy",
        }))?;
        let mut model = deepseek2::DeepSeekV2::new(&config, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.flash("mixtral", |s| {
        let flash = s.calls_flash();
        let fields = json!({ "num_local_experts": 4, "sliding_window": s.window(), "use_flash_attn": flash });
        let mut model = mixtral::Model::new(&config(fields)?, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("qwen2_moe", |s| {
        let config = config(json!({
            "decoder_sparse_step": 1, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48,
            "num_experts": 4, "norm_topk_prob": true,
        }))?;
        let mut model = qwen2_moe::Model::new(&config, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("qwen3_moe", |s| {
        let config = config(json!({
            "decoder_sparse_step": 1, "moe_intermediate_size": 32, "num_experts": 4, "norm_topk_prob": true,
        }))?;
        let mut model = qwen3_moe::ModelForCausalLM::new(&config, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.flash("granitemoehybrid", |s| {
        let fields = json!({ "layer_types": ["attention", "attention"], "shared_intermediate_size": 96 });
        let config = config::<granitemoehybrid::GraniteMoeHybridConfig>(fields)?.into_config(s.calls_flash());
        let mut cache = granitemoehybrid::GraniteMoeHybridCache::new(true, s.dtype(), &config, &s.device)?;
        let model = granitemoehybrid::GraniteMoeHybrid::load(s.weights(), &config)?;
        s.decode(|ids, at| model.forward(ids, at, &mut cache))
    });
}

/// The fields of a small GLM.
fn glm_fields() -> Value {
    json!({
        "num_layers": 2, "padded_vocab_size": VOCABULARY, "ffn_hidden_size": 128, "kv_channels": 16,
        "seq_length": 64, "layernorm_epsilon": 1e-5, "rmsnorm": true, "post_layer_norm": true,
        "apply_residual_connection_post_layernorm": false, "add_bias_linear": false, "add_qkv_bias": true,
        "bias_dropout_fusion": true, "multi_query_attention": true, "multi_query_group_num": 2,
        "apply_query_key_layer_scaling": true, "attention_softmax_in_fp32": true, "fp32_residual_connection": false,
        "rope_ratio": 500,
    })
}
