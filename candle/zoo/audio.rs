//! Encoders and decoders of sound, and models that hear or speak.
use crate::Zoo;
use crate::setting::{VOCABULARY, config};
use candle_core::{IndexOp, Module};
use candle_transformers::models::*;
use serde_json::json;

pub fn add(zoo: &mut Zoo) {
    zoo.add("dac", |s| {
        let encoder = dac::Encoder::new(8, &[2, 4], 16, s.weights().pp("encoder"))?;
        let quantizer = dac::ResidualVectorQuantizer::new(16, 3, 32, 8, s.weights().pp("quantizer"))?;
        let decoder = dac::Decoder::new(16, 64, &[4, 2], 1, s.weights().pp("decoder"))?;
        let sound = encoder.forward(&s.numbers((1, 1, 64))?)?;
        let decoded = quantizer.from_codes(&s.ids((1, 3, 8), 32)?)?.apply(&decoder)?;
        Ok(vec![sound, decoded])
    });
    zoo.add("encodec", |s| {
        let config = encodec::Config {
            hidden_size: 32,
            num_filters: 8,
            upsampling_ratios: vec![4, 2],
            codebook_size: 32,
            target_bandwidths: vec![30.0],
            ..Default::default()
        };
        let encoder = encodec::Encoder::new(&config, s.weights().pp("encoder"))?;
        let model = encodec::Model::new(&config, s.weights())?;
        Ok(vec![encoder.forward(&s.numbers((1, 1, 64))?)?, model.decode(&s.ids((1, 1, 8), 32)?)?])
    });
    zoo.add("snac", |s| {
        let config = config(json!({
            "sampling_rate": 24000, "encoder_dim": 8, "encoder_rates": [2, 4], "decoder_dim": 32,
            "decoder_rates": [4, 2], "attn_window_size": 4, "codebook_size": 32, "codebook_dim": 8,
            "vq_strides": [2, 1], "noise": false, "depthwise": false,
        }))?;
        let model = snac::Model::new(&config, s.weights())?;
        let sound = s.numbers((1, 1, 64))?.apply(&model.encoder)?;
        Ok(vec![model.decode(&[&s.ids((1, 4), 32)?, &s.ids((1, 8), 32)?])?, sound])
    });
    zoo.add("mimi", |s| {
        let mut config = mimi::Config::v0_1(Some(4));
        (config.seanet.dimension, config.seanet.n_filters, config.seanet.ratios) = (32, 4, vec![4, 2]);
        let transformer = &mut config.transformer;
        (transformer.d_model, transformer.num_heads, transformer.num_layers) = (32, 2, 2);
        (transformer.dim_feedforward, transformer.max_seq_len) = (64, 64);
        (config.quantizer_bins, config.quantizer_dim) = (32, 16);
        (config.sample_rate, config.frame_rate) = (16.0, 1.0);
        let mut model = mimi::Model::new(config, s.weights())?;
        Ok(vec![model.encode_pre_quantize(&s.numbers((1, 1, 128))?)?, model.decode(&s.ids((1, 4, 6), 32)?)?])
    });
    zoo.add("metavoice", |s| {
        use metavoice::{gpt, transformer};
        let mut config = gpt::Config::cfg1b_v0_1();
        (config.block_size, config.n_layer, config.n_head, config.n_embd) = (16, 2, 4, 64);
        (config.vocab_sizes, config.target_vocab_sizes) = (vec![VOCABULARY; 2], vec![VOCABULARY; 3]);
        let second = gpt::Model::new(config, s.weights().pp("second"))?;
        let mut outputs = second.forward(&s.ids((1, 2, 7), VOCABULARY)?)?;
        let mut first = transformer::Model::new(&metavoice_config()?, s.weights().pp("first"))?;
        let speaker = s.numbers((1, 16))?;
        let tokens = s.ids((2, 9), VOCABULARY)?;
        for (at, n) in [(0, 7), (7, 1), (8, 1)] {
            outputs.push(first.forward(&tokens.narrow(1, at, n)?.contiguous()?, &speaker, at)?);
        }
        Ok(outputs)
    });
    zoo.add("parler_tts", |s| {
        let decoder = config(json!({
            "ffn_dim": 128, "activation_function": "gelu", "scale_embedding": false, "num_codebooks": 3,
            "num_cross_attention_key_value_heads": 2, "rope_embeddings": false,
        }))?;
        let mut model = parler_tts::Decoder::new(&decoder, s.weights())?;
        let (prompt, described) = (s.numbers((1, 4, 64))?, s.numbers((1, 6, 64))?);
        let mut outputs = model.forward(&s.ids((1, 3, 1), 90)?, Some(&prompt), None, &described, None, 0)?;
        outputs.extend(model.forward(&s.ids((1, 3, 1), 80)?, None, None, &described, None, 5)?);
        Ok(outputs)
    });
    zoo.add("whisper", |s| {
        let mut model = whisper::model::Whisper::load(&s.weights(), whisper_config()?)?;
        let sound = model.encoder.forward(&s.numbers((1, 8, 32))?, true)?;
        let ids = s.ids((1, 7), VOCABULARY)?;
        let mut outputs = Vec::new();
        for n in [4, 7] {
            let hidden = model.decoder.forward(&ids.i((.., ..n))?, &sound, n == 4)?;
            outputs.push(model.decoder.final_linear(&hidden)?);
        }
        outputs.push(sound);
        Ok(outputs)
    });
    zoo.add("voxtral", |s| {
        use voxtral::*;
        let audio_config = VoxtralEncoderConfig {
            vocab_size: VOCABULARY,
            hidden_size: 64,
            intermediate_size: 256,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            num_key_value_heads: 4,
            head_dim: 16,
            num_mel_bins: 16,
            max_source_positions: 32,
            ..Default::default()
        };
        let text_config = config(json!({}))?;
        let config = VoxtralConfig { audio_config, text_config, audio_token_id: 24, ..Default::default() };
        let model = VoxtralForConditionalGeneration::new(&config, s.weights())?;
        let mut cache = VoxtralCache::new(true, s.dtype(), &config.text_config, &s.device)?;
        let sound = s.numbers((1, 16, 64))?;
        let ids = candle_core::Tensor::new(&[[1u32, 24, 24, 5, 6, 7]], &s.device)?;
        let prompt = model.forward(&ids, Some(&sound), &mut cache, 0)?;
        Ok(vec![prompt, model.forward(&s.ids((1, 1), 20)?, None, &mut cache, 6)?, model.get_audio_embeds(&sound)?])
    });
}

/// The configuration of a small Whisper.
pub fn whisper_config() -> candle_core::Result<whisper::Config> {
    config(json!({
        "num_mel_bins": 8, "max_source_positions": 16, "d_model": 64, "encoder_attention_heads": 4,
        "encoder_layers": 2, "max_target_positions": 16, "decoder_attention_heads": 4, "decoder_layers": 2,
    }))
}

/// The configuration of a small MetaVoice.
pub fn metavoice_config() -> candle_core::Result<metavoice::transformer::Config> {
    config(json!({
        "block_size": 16, "n_layer": 2, "n_head": 4, "dim": 64, "speaker_emb_dim": 16, "intermediate_size": 128,
        "n_local_heads": 2,
    }))
}
