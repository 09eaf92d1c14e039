//! Encoders of text, alone, with a decoder, or with an encoder of images.
use crate::Zoo;
use crate::setting::{VOCABULARY, config};
use candle_core::{DType, Module};
use candle_transformers::models::*;
use serde_json::{Value, json};

pub fn add(zoo: &mut Zoo) {
    zoo.add("bert", |s| {
        let config = config(json!({ "hidden_act": "gelu" }))?;
        let model = bert::BertForMaskedLM::load(s.weights(), &config)?;
        let ids = s.ids((2, 7), VOCABULARY)?;
        Ok(vec![model.forward(&ids, &ids.zeros_like()?, None)?])
    });
    zoo.add("debertav2", |s| {
        let config = config(json!({
            "hidden_act": "gelu", "relative_attention": true, "max_relative_positions": -1, "position_buckets": 8,
            "position_biased_input": false, "pos_att_type": "p2c|c2p", "share_att_key": true,
            "norm_rel_ebd": "layer_norm", "type_vocab_size": 0,
        }))?;
        let model = debertav2::DebertaV2Model::load(s.weights(), &config)?;
        Ok(vec![model.forward(&s.ids((2, 7), VOCABULARY)?, None, None)?])
    });
    zoo.add("distilbert", |s| {
        let config = config(json!({
            "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "activation": "gelu", "model_type": null,
        }))?;
        let model = distilbert::DistilBertForMaskedLM::load(s.weights(), &config)?;
        let hidden = s.ones((7, 7), DType::U8)?.zeros_like()?;
        Ok(vec![model.forward(&s.ids((2, 7), VOCABULARY)?, &hidden)?])
    });
    zoo.add("jina_bert", |s| {
        let config = config(json!({ "hidden_act": "gelu", "position_embedding_type": "alibi" }))?;
        let model = jina_bert::BertModel::new(s.weights(), &config)?;
        Ok(vec![model.forward(&s.ids((2, 7), VOCABULARY)?)?])
    });
    zoo.add("modernbert", |s| {
        let config = config(json!({
            "global_attn_every_n_layers": 2, "global_rope_theta": 1e4, "local_attention": 4, "local_rope_theta": 1e4,
        }))?;
        let model = modernbert::ModernBertForMaskedLM::load(s.weights(), &config)?;
        Ok(vec![model.forward(&s.ids((2, 7), VOCABULARY)?, &s.ones((2, 7), DType::U32)?)?])
    });
    zoo.add("nomic_bert", |s| {
        let config = config(json!({
            "n_embd": 64, "n_head": 4, "n_layer": 2, "n_inner": 128, "n_positions": 64, "rotary_emb_fraction": 1.0,
            "rotary_emb_base": 1000.0, "rotary_emb_interleaved": false, "qkv_proj_bias": false, "mlp_fc1_bias": false,
            "mlp_fc2_bias": false, "activation_function": "swiglu", "prenorm": false, "model_type": null,
        }))?;
        let model = nomic_bert::NomicBertModel::load(s.weights(), &config)?;
        let mask = s.ones((2, 7), DType::U8)?;
        let hidden = model.forward(&s.ids((2, 7), VOCABULARY)?, None, Some(&mask))?;
        let pooled = nomic_bert::mean_pooling(&hidden, &mask.to_dtype(s.dtype())?)?;
        Ok(vec![nomic_bert::l2_normalize(&pooled)?, hidden])
    });
    zoo.add("stella_en_v5 1.5B", |s| {
        let mut config = stella_en_v5::Config::new_1_5_b_v5(stella_en_v5::EmbedDim::Dim256);
        (config.vocab_size, config.hidden_size, config.intermediate_size) = (VOCABULARY, 64, 128);
        (config.num_hidden_layers, config.num_attention_heads, config.max_position_embeddings) = (2, 4, 64);
        config.embed_head.in_features = 64;
        let mut model = stella_en_v5::EmbeddingModel::new(&config, s.weights(), s.weights().to_dtype(DType::F32))?;
        Ok(vec![model.forward_norm(&s.ids((2, 7), VOCABULARY)?, &s.ones((2, 7), DType::U32)?)?])
    });
    zoo.add("stella_en_v5 400M", |s| {
        let mut config = stella_en_v5::Config::new_400_m_v5(stella_en_v5::EmbedDim::Dim256);
        (config.vocab_size, config.hidden_size, config.intermediate_size) = (VOCABULARY, 64, 128);
        (config.num_hidden_layers, config.num_attention_heads, config.max_position_embeddings) = (2, 4, 64);
        config.embed_head.in_features = 64;
        let mut model = stella_en_v5::EmbeddingModel::new(&config, s.weights(), s.weights().to_dtype(DType::F32))?;
        Ok(vec![model.forward_norm(&s.ids((2, 7), VOCABULARY)?, &s.ones((2, 7), DType::U32)?)?])
    });
    zoo.add("xlm_roberta", |s| {
        let config = config(json!({ "hidden_act": "gelu", "position_embedding_type": "absolute" }))?;
        let model = xlm_roberta::XLMRobertaForMaskedLM::new(&config, s.weights())?;
        let ids = s.ids((2, 7), VOCABULARY)?;
        Ok(vec![model.forward(&ids, &s.ones((2, 7), DType::U32)?, &ids.zeros_like()?, None, None, None)?])
    });
    zoo.add("t5", |s| {
        let mut model = t5::T5ForConditionalGeneration::load(s.weights(), &config(t5_fields(json!({})))?)?;
        let hidden = model.encode(&s.ids((1, 6), VOCABULARY)?)?;
        let mut outputs = s.decode(|ids, _| model.decode(ids, &hidden))?;
        outputs.push(hidden);
        Ok(outputs)
    });
    zoo.add("t5 encoder", |s| {
        let mut model = t5::T5EncoderModel::load(s.weights(), &config(t5_fields(json!({})))?)?;
        Ok(vec![model.forward(&s.ids((2, 6), VOCABULARY)?)?])
    });
    zoo.add("marian", |s| {
        let mut config = marian::Config::opus_mt_fr_en();
        (config.vocab_size, config.decoder_vocab_size, config.max_position_embeddings) = (VOCABULARY, None, 64);
        (config.encoder_layers, config.encoder_ffn_dim, config.encoder_attention_heads) = (2, 128, 4);
        (config.decoder_layers, config.decoder_ffn_dim, config.decoder_attention_heads) = (2, 128, 4);
        (config.d_model, config.pad_token_id) = (64, 0);
        let mut model = marian::MTModel::new(&config, s.weights())?;
        let hidden = model.encoder().forward(&s.ids((1, 6), VOCABULARY)?, 0)?;
        let mut outputs = s.decode(|ids, at| model.decode(ids, &hidden, at))?;
        outputs.push(hidden);
        Ok(outputs)
    });
    zoo.add("blip", |s| {
        let mut model = blip::BlipForConditionalGeneration::new(&blip_config(), s.weights())?;
        let image = model.vision_model().forward(&s.numbers((1, 3, 32, 32))?)?;
        let mut outputs = s.decode(|ids, _| model.text_decoder().forward(ids, &image))?;
        outputs.push(image);
        Ok(outputs)
    });
    zoo.add("clip", |s| {
        use candle_transformers::models::clip::{ClipConfig, ClipModel};
        let mut config = ClipConfig::vit_base_patch32();
        let text = &mut config.text_config;
        (text.vocab_size, text.embed_dim, text.intermediate_size) = (VOCABULARY, 64, 128);
        (text.max_position_embeddings, text.num_hidden_layers, text.num_attention_heads) = (16, 2, 4);
        text.projection_dim = 32;
        let vision = &mut config.vision_config;
        (vision.embed_dim, vision.intermediate_size, vision.num_hidden_layers) = (64, 128, 2);
        (vision.num_attention_heads, vision.projection_dim) = (4, 32);
        (vision.image_size, vision.patch_size, config.image_size) = (32, 8, 32);
        let model = ClipModel::new(s.weights(), &config)?;
        let (text, image) = (s.ids((2, 7), VOCABULARY)?, s.numbers((2, 3, 32, 32))?);
        let (per_text, per_image) = model.forward(&image, &text)?;
        Ok(vec![per_text, per_image, model.get_text_features(&text)?, model.get_image_features(&image)?])
    });
    zoo.add("chinese_clip", |s| {
        let mut config = chinese_clip::ChineseClipConfig::clip_vit_base_patch16();
        let text = &mut config.text_config;
        (text.vocab_size, text.hidden_size, text.intermediate_size) = (VOCABULARY, 64, 128);
        (text.max_position_embeddings, text.num_hidden_layers, text.num_attention_heads) = (16, 2, 4);
        let vision = &mut config.vision_config;
        (vision.hidden_size, vision.intermediate_size, vision.num_hidden_layers) = (64, 128, 2);
        (vision.num_attention_heads, vision.projection_dim) = (4, 32);
        (vision.image_size, vision.patch_size, config.image_size, config.projection_dim) = (32, 8, 32, 32);
        let model = chinese_clip::ChineseClipModel::new(s.weights(), &config)?;
        let (text, image) = (s.ids((2, 7), VOCABULARY)?, s.numbers((2, 3, 32, 32))?);
        let (per_text, per_image) = model.forward(&image, &text, None, None)?;
        Ok(vec![per_text, per_image, model.get_text_features(&text, None, None)?, model.get_image_features(&image)?])
    });
    zoo.add("openclip", |s| {
        let mut config = openclip::text_model::Config::vit_base_patch32();
        (config.vocab_size, config.embed_dim, config.intermediate_size) = (VOCABULARY, 64, 128);
        (config.max_position_embeddings, config.num_hidden_layers, config.num_attention_heads) = (16, 2, 4);
        let model = openclip::text_model::OpenClipTextTransformer::new(s.weights(), &config)?;
        Ok(vec![model.forward(&s.ids((2, 7), VOCABULARY)?)?])
    });
    zoo.add("siglip", |s| {
        let vision = json!({ "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
            "num_attention_heads": 4, "image_size": 32, "patch_size": 8 });
        let text = json!({ "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 16 });
        let config = config(json!({ "text_config": text, "vision_config": vision }))?;
        let model = siglip::Model::new(&config, s.weights())?;
        let (text, image) = (s.ids((2, 7), VOCABULARY)?, s.numbers((2, 3, 32, 32))?);
        let (per_text, per_image) = model.forward(&image, &text)?;
        Ok(vec![per_text, per_image, model.get_text_features(&text)?, model.get_image_features(&image)?])
    });
}

/// The fields of a small T5, and these.
pub fn t5_fields(fields: Value) -> Value {
    let mut all = json!({
        "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "relative_attention_num_buckets": 8,
        "dropout_rate": 0.0, "layer_norm_epsilon": 1e-6, "initializer_factor": 1.0, "is_encoder_decoder": true,
        "feed_forward_proj": "gated-gelu",
    });
    if let (Some(all), Value::Object(fields)) = (all.as_object_mut(), fields) {
        all.extend(fields);
    }
    all
}

/// The configuration of a small BLIP.
pub fn blip_config() -> blip::Config {
    let mut config = blip::Config::image_captioning_large();
    let text = &mut config.text_config;
    (text.vocab_size, text.hidden_size, text.encoder_hidden_size, text.intermediate_size) = (VOCABULARY, 64, 64, 128);
    (text.num_hidden_layers, text.num_attention_heads, text.max_position_embeddings) = (2, 4, 64);
    let vision = &mut config.vision_config;
    (vision.hidden_size, vision.intermediate_size, vision.num_hidden_layers) = (64, 128, 2);
    (vision.num_attention_heads, vision.image_size, vision.patch_size) = (4, 32, 8);
    config
}
