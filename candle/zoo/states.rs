//! Recurrent models: state spaces, linear attention, gated convolutions.
use crate::Zoo;
use crate::setting::{Setting, VOCABULARY, config};
use candle_core::{Result, Tensor};
use candle_transformers::models::*;
use serde_json::json;

/// The results for five tokens, one at a time.
pub fn steps(s: &Setting, mut forward: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    let tokens = s.ids((1, 5), VOCABULARY)?;
    (0..5).map(|at| forward(&tokens.narrow(1, at, 1)?.contiguous()?)).collect()
}

pub fn add(zoo: &mut Zoo) {
    zoo.add("based", |s| {
        let config = config(json!({
            "n_embd": 64, "n_inner": 128, "n_layer": 2, "n_head": 4, "alt_mixer_layers": [0],
            "alt_mixer_2_layers": [1], "alt_mixer_2": { "num_heads": 4, "window_size": 4 },
            "alt_mixer": { "num_heads": 4, "feature_dim": 8, "feature_map": { "input_dim": 8 } },
        }))?;
        let mut model = based::Model::new(&config, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("mamba", |s| {
        let config = config(json!({ "d_model": 64, "n_layer": 2, "pad_vocab_size_multiple": 8 }))?;
        let model = mamba::Model::new(&config, s.weights())?;
        let mut state = mamba::State::new(1, &config, s.dtype(), &s.device)?;
        steps(s, |ids| model.forward(&ids.squeeze(1)?, &mut state))
    });
    zoo.add("mamba2", |s| {
        let config = config(json!({
            "state_size": 16, "n_groups": 2, "pad_vocab_size_multiple": 8,
        }))?;
        let model = mamba2::Model::new(&config, s.weights())?;
        let mut state = mamba2::State::new(1, &config, s.dtype(), &s.device)?;
        let prompt = model.forward_prefill(&s.ids((1, 8), VOCABULARY)?, &mut state, 4)?;
        let mut outputs = steps(s, |ids| model.forward(&ids.squeeze(1)?, &mut state))?;
        outputs.push(prompt);
        Ok(outputs)
    });
    zoo.add("rwkv_v5", |s| {
        let config = rwkv_config()?;
        let model = rwkv_v5::Model::new(&config, s.weights())?;
        let mut state = rwkv_v5::State::new(1, &config, &s.device)?;
        steps(s, |ids| model.forward(ids, &mut state))
    });
    zoo.add("rwkv_v6", |s| {
        let config = rwkv_config()?;
        let model = rwkv_v6::Model::new(&config, s.weights())?;
        let mut state = rwkv_v5::State::new(1, &config, &s.device)?;
        steps(s, |ids| model.forward(ids, &mut state))
    });
    zoo.add("rwkv_v7", |s| {
        let config = config(json!({ "version": "V7", "head_size": 16, "intermediate_size": null }))?;
        let model = rwkv_v7::Model::new(&config, s.weights())?;
        let mut state = rwkv_v7::State::new_with_dtype(&config, &s.device, s.dtype())?;
        let prompt = model.forward_seq(&[1, 2, 3, 4], &mut state)?;
        Ok(vec![prompt, model.forward(&Tensor::new(&[[5u32]], &s.device)?, &mut state, &[5])?])
    });
    zoo.add("recurrent_gemma", |s| {
        let mut model = recurrent_gemma::Model::new(&recurrent_gemma_config()?, s.weights())?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.add("lfm2", |s| {
        let config = config::<lfm2::Lfm2Config>(json!({
            "conv_L_cache": 3, "layer_types": ["conv", "full_attention"], "block_multiple_of": 32,
        }))?;
        let config = config.into_config(false);
        let model = lfm2::Model::new(&config, s.weights())?;
        let mut cache = lfm2::Cache::new(true, s.dtype(), &config, &s.device)?;
        s.decode(|ids, at| model.forward(ids, at, &mut cache))
    });
}

/// The configuration of a small RWKV 5 or 6.
pub fn rwkv_config() -> Result<rwkv_v5::Config> {
    config(json!({
        "attention_hidden_size": 64, "num_attention_heads": 16, "head_size": 16, "intermediate_size": 128,
        "rescale_every": 6,
    }))
}

/// The configuration of a small RecurrentGemma.
pub fn recurrent_gemma_config() -> Result<recurrent_gemma::Config> {
    config(json!({
        "lru_width": 64, "attention_window_size": 8, "conv1d_width": 4, "logits_soft_cap": 30.0,
        "hidden_activation": "gelu_pytorch_tanh", "partial_rotary_factor": 0.5, "num_key_value_heads": 1,
        "block_types": ["recurrent", "attention"],
    }))
}
