//! Decoders of text that see or hear.
use crate::Zoo;
use crate::setting::{VOCABULARY, config};
use candle_core::{DType, Module, Result, Tensor};
use candle_transformers::models::*;
use serde_json::{Value, json};

pub fn add(zoo: &mut Zoo) {
    zoo.add("paligemma", |s| {
        let mut model = paligemma::Model::new(&paligemma_config()?, s.weights())?;
        let prompt = model.setup(&s.numbers((1, 3, 32, 32))?, &s.ids((1, 5), VOCABULARY)?)?;
        Ok(vec![prompt, model.forward(&s.ids((1, 1), VOCABULARY)?)?])
    });
    zoo.add("colpali", |s| {
        let mut model = colpali::Model::new(&paligemma_config()?, s.weights())?;
        let text = s.ids((1, 5), VOCABULARY)?;
        Ok(vec![model.forward_images(&s.numbers((1, 3, 32, 32))?, &text)?, model.forward_text(&text)?])
    });
    zoo.add("gemma4", |s| {
        let text = fields(json!({
            "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 4, "global_head_dim": 32,
            "layer_types": ["sliding_attention", "full_attention"], "num_global_key_value_heads": 1,
            "tie_word_embeddings": true,
        }));
        let vision = json!({
            "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 4, "head_dim": 16, "patch_size": 4, "position_embedding_size": 16,
            "pooling_kernel_size": 2, "default_output_length": 4,
        });
        let audio = json!({
            "input_feat_size": 16, "hidden_size": 64, "output_proj_dims": 48, "num_attention_heads": 4,
            "num_hidden_layers": 2, "attention_chunk_size": 4, "attention_context_left": 5,
            "subsampling_conv_channels": [8, 4], "conv_kernel_size": 3,
        });
        let config = config(json!({
            "text_config": text, "vision_config": vision, "audio_config": audio, "image_token_id": 90,
            "audio_token_id": 91, "video_token_id": 92,
        }))?;
        let mut model = gemma4::Model::new(&config, s.weights())?;
        // Four tokens of an image, then four of sound.
        let ids = Tensor::new(&[[1u32, 90, 90, 90, 90, 91, 91, 91, 91, 7]], &s.device)?;
        let (image, sound) = (s.numbers((1, 3, 16, 16))?, s.numbers((1, 16, 16))?);
        let hidden = s.ones((1, 16), s.dtype())?.zeros_like()?;
        let seen = model.forward_multimodal(&ids, Some(&[image]), Some(&sound), Some(&hidden), 0)?;
        model.clear_kv_cache();
        let mut outputs = s.decode(|ids, at| model.forward(ids, at))?;
        outputs.push(seen);
        Ok(outputs)
    });
    zoo.add("llava", |s| {
        let config = config(json!({
            "architectures": [], "image_aspect_ratio": "square", "image_crop_resolution": 32,
            "image_grid_pinpoints": [], "image_split_resolution": 32, "mm_hidden_size": 64,
            "mm_patch_merge_type": "flat", "mm_projector_type": "mlp2x_gelu", "mm_use_im_start_end": false,
            "mm_vision_select_feature": "patch", "mm_vision_select_layer": -2, "mm_vision_tower": null,
            "model_type": "llava", "tokenizer_model_max_length": null, "torch_dtype": "float32",
            "image_token_index": 90,
        }))?;
        let vision = clip::vision_model::ClipVisionConfig {
            embed_dim: 64,
            activation: clip::text_model::Activation::QuickGelu,
            intermediate_size: 128,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            projection_dim: 32,
            num_channels: 3,
            image_size: 32,
            patch_size: 8,
        };
        let model = llava::LLaVA::load(s.weights(), &config, Some(vision))?;
        let ids = Tensor::new(&[[1i64, 5, 90, 6, 7]], &s.device)?;
        let embedded = model.prepare_inputs_labels_for_multimodal(&ids, &[s.numbers((1, 3, 32, 32))?], &[(32, 32)])?;
        let mut cache = llama::Cache::new(true, s.dtype(), &config.to_llama_config(), &s.device)?;
        Ok(vec![model.forward(&embedded, 0, &mut cache)?])
    });
    zoo.add("moondream", |s| {
        let mut model = moondream::Model::new(&moondream_config()?, s.weights())?;
        let image = model.vision_encoder().forward(&s.numbers((1, 3, 28, 28))?)?;
        let first = Tensor::new(&[[1u32]], &s.device)?;
        let prompt = model.text_model().forward_with_img(&first, &s.ids((1, 5), VOCABULARY)?, &image)?;
        Ok(vec![prompt, model.text_model().forward(&s.ids((1, 1), VOCABULARY)?)?, image])
    });
    zoo.add("pixtral", |s| {
        let config = config(json!({
            "projector_hidden_act": "gelu", "image_token_index": 90, "image_seq_length": 16,
            "text_config": fields(json!({ "sliding_window": null })),
            "vision_config": fields(json!({ "image_size": 32, "patch_size": 8, "num_channels": 3 })),
        }))?;
        let mut model = pixtral::Model::new(&config, s.weights())?;
        let image = model.encode_image(&s.numbers((1, 3, 32, 32))?.to_dtype(DType::F32)?)?;
        let prompt = model.lm_forward_embeds(&image.to_dtype(s.dtype())?)?;
        Ok(vec![image, prompt, model.lm_forward(&s.ids((1, 1), VOCABULARY)?)?])
    });
    zoo.add("qwen3_vl", |s| {
        let vision = json!({
            "depth": 2, "hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 64, "num_heads": 2,
            "in_chans": 3, "patch_size": 4, "num_position_embeddings": 16, "deepstack_visual_indexes": [0],
        });
        let config = config(json!({
            "text_config": fields(json!({ "sliding_window": null })), "vision_config": vision, "image_token_id": 90,
            "video_token_id": 91, "vision_start_token_id": 92, "vision_end_token_id": 93,
        }))?;
        let model = qwen3_vl::Qwen3VLModel::new(&config, s.weights())?;
        // Sixteen patches give four tokens.
        let ids = Tensor::new(&[[1u32, 92, 90, 90, 90, 90, 93, 7]], &s.device)?;
        let patches = s.numbers((16, 3 * 2 * 4 * 4))?;
        let grid = Tensor::new(&[[1u32, 4, 4]], &s.device)?;
        let span = vec![vec![(2, 6)]];
        let prompt = model.forward(&ids, Some(patches), None, Some(grid), None, vec![8], span, vec![vec![]], &[0])?;
        let next =
            model.forward(&s.ids((1, 1), 80)?, None, None, None, None, vec![1], vec![vec![]], vec![vec![]], &[8])?;
        Ok(vec![prompt, next])
    });
    zoo.add("paddleocr_vl", |s| {
        let vision = json!({
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
            "image_size": 16, "patch_size": 4,
        });
        let config = config(json!({
            "vision_config": vision, "image_token_id": 90, "video_token_id": 91, "vision_start_token_id": 92,
            "vision_end_token_id": 93, "layer_norm_eps": null, "use_bias": false,
            "rope_scaling": { "mrope_section": [2, 3, 3] },
        }))?;
        let mut model = paddleocr_vl::PaddleOCRVLModel::new(&config, s.weights())?;
        let image = s.numbers((1, 3, 16, 16))?;
        let grid = Tensor::new(&[[1u32, 4, 4]], &s.device)?;
        let ids = Tensor::new(&[[1u32, 92, 90, 90, 90, 90, 93, 7]], &s.device)?;
        let prompt = model.forward(&ids, Some(&image), Some(&grid), 0)?;
        Ok(vec![prompt, model.forward(&s.ids((1, 1), 80)?, None, None, 8)?, model.encode_image(&image, &grid)?])
    });
}

/// The usual fields of a decoder with these.
fn fields(fields: Value) -> Value {
    config(fields).unwrap_or_default()
}

/// The configuration of a small PaliGemma.
fn paligemma_config() -> Result<paligemma::Config> {
    let vision = json!({ "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "image_size": 32, "patch_size": 8 });
    let text = fields(json!({ "hidden_act": "gelu_pytorch_tanh" }));
    config(json!({ "vision_config": vision, "text_config": text, "projection_dim": 64 }))
}

/// The configuration of a small Moondream, whose patches have 588 numbers and 1152 features.
pub fn moondream_config() -> Result<moondream::Config> {
    let text = json!({
        "vocab_size": VOCABULARY, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_inner": null, "n_head": 4,
        "rotary_dim": 8, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": false,
        "pad_vocab_size_multiple": 32,
    });
    let vision = json!({
        "image_embedding_dim": 1152, "model_dim": 64, "hidden_dim": 128, "hidden_features": 96, "embed_len": 4,
        "embed_dim": 1152, "num_blocks": 1, "num_heads": 4, "act": "gelu_pytorch_tanh",
    });
    config(json!({ "phi_config": text, "vision_config": vision }))
}
