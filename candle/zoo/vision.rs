//! Encoders and classifiers of images, and models of depth, segments and written text.
use crate::Zoo;
use crate::setting::{VOCABULARY, config};
use candle_core::{Module, ModuleT, Shape};
use candle_transformers::models::*;
use serde_json::json;

pub fn add(zoo: &mut Zoo) {
    transformers(zoo);
    convolutions(zoo);
    segments(zoo);
}

fn transformers(zoo: &mut Zoo) {
    zoo.add("beit", |s| {
        let model = beit::BeitVisionTransformer::new(s.weights(), 1, 32, 2)?;
        Ok(vec![model.forward(&s.numbers((1, 3, 384, 384))?)?])
    });
    zoo.add("dinov2", |s| {
        let model = dinov2::DinoVisionTransformer::new(s.weights(), 2, 32, 2)?;
        let image = s.numbers((1, 3, 56, 56))?;
        Ok(vec![model.forward(&image)?, model.get_intermediate_layers(&image, &[0, 1], true, false, true)?])
    });
    zoo.add("dinov2reg4", |s| {
        let model = dinov2reg4::DinoVisionTransformer::new(s.weights(), 1, 16, 1)?;
        Ok(vec![model.forward(&s.numbers((1, 3, 518, 518))?)?])
    });
    zoo.add("eva2", |s| {
        let model = eva2::EVA2VisionTransformer::new(s.weights(), 1, 64, 1)?;
        Ok(vec![model.forward(&s.numbers((1, 3, 448, 448))?)?])
    });
    zoo.add("vit", |s| {
        let model = vit::Model::new(&vit_config()?, 10, s.weights())?;
        Ok(vec![model.forward(&s.numbers((2, 3, 32, 32))?)?])
    });
    zoo.slow("hiera", |s| {
        // A block has its own `proj` if its width changes.
        let weights = s.weights_if(|name, shape| {
            let is_own = name.starts_with("blocks.") && name.ends_with(".proj.weight") && !name.contains("attn");
            !is_own || shape.dims()[0] != shape.dims()[1]
        });
        let model = hiera::hiera(&hiera::Config::tiny(), 10, weights)?;
        Ok(vec![model.forward(&s.numbers((1, 3, 224, 224))?)?])
    });
    zoo.add("efficientvit", |s| {
        let model = efficientvit::efficientvit(&efficientvit::Config::m0(), 10, s.weights())?;
        Ok(vec![model.forward(&s.numbers((1, 3, 224, 224))?)?])
    });
    zoo.add("depth_anything_v2", |s| {
        // 56 pixels are 4 patches of 14.
        let config = depth_anything_v2::DepthAnythingV2Config::new(
            [8, 16, 24, 32],
            32,
            16,
            false,
            false,
            vec![0, 1, 2, 3],
            56,
            4,
        );
        let encoder = dinov2::DinoVisionTransformer::new(s.weights().pp("pretrained"), 4, 32, 2)?;
        let model = depth_anything_v2::DepthAnythingV2::new(encoder.into(), config, s.weights())?;
        Ok(vec![model.forward(&s.numbers((1, 3, 56, 56))?)?])
    });
    zoo.add("trocr", |s| {
        let decoder = config(json!({
            "d_model": 64, "cross_attention_hidden_size": 64, "decoder_layers": 2, "decoder_attention_heads": 4,
            "decoder_ffn_dim": 128, "activation_function": "gelu", "dropout": 0.0, "attention_dropout": 0.0,
            "activation_dropout": 0.0, "decoder_start_token_id": 2, "init_std": 0.02, "decoder_layerdrop": 0.0,
            "scale_embedding": false, "decoder_vocab_size": VOCABULARY,
        }))?;
        let mut model = trocr::TrOCRModel::new(&vit_config()?, &decoder, s.weights())?;
        let image = model.encoder().forward(&s.numbers((1, 3, 32, 32))?)?;
        let mut outputs = crate::states::steps(s, |ids| model.decode(ids, &image, 0))?;
        outputs.push(image);
        Ok(outputs)
    });
}

fn convolutions(zoo: &mut Zoo) {
    zoo.slow("convmixer", |s| {
        let model = convmixer::c1024_20(10, s.weights())?;
        Ok(vec![model.forward(&s.numbers((1, 3, 28, 28))?)?])
    });
    zoo.add("convnext", |s| {
        let model = convnext::convnext(&convnext::Config::atto(), 10, s.weights())?;
        Ok(vec![model.forward(&s.numbers((1, 3, 32, 32))?)?])
    });
    zoo.add("efficientnet", |s| {
        let model = efficientnet::EfficientNet::new(s.weights(), efficientnet::MBConvConfig::b0()[..4].to_vec(), 10)?;
        Ok(vec![model.forward(&s.numbers((1, 3, 32, 32))?)?])
    });
    zoo.add("fastvit", |s| {
        let config = fastvit::Config { exp_ratio: 2, in_channels: 16, blocks: [1; 4], attn: true, lkc_use_act: true };
        let model = fastvit::fastvit(&config, 10, s.weights_if(has_of_fastvit))?;
        Ok(vec![model.forward(&s.numbers((1, 3, 128, 128))?)?])
    });
    zoo.add("mobileclip", |s| {
        let mut config = mobileclip::MobileClipConfig::s1();
        let text = &mut config.text_config;
        (text.vocab_size, text.embed_dim, text.intermediate_size) = (VOCABULARY, 64, 128);
        (text.max_position_embeddings, text.num_hidden_layers, text.num_attention_heads) = (16, 2, 4);
        text.projection_dim = 512;
        (config.vision_config.in_channels, config.vision_config.blocks) = (16, [1; 4]);
        let model = mobileclip::MobileClipModel::new(s.weights_if(has_of_fastvit), &config)?;
        // One image: for more, Candle's CPU device gets the products of the transposed view wrong.
        let (text, image) = (s.ids((2, 7), VOCABULARY)?, s.numbers((1, 3, 128, 128))?);
        let (per_text, per_image) = model.forward(&image, &text)?;
        Ok(vec![per_text, per_image, model.get_text_features(&text)?, model.get_image_features(&image)?])
    });
    zoo.add("mobilenetv4", |s| {
        let model = mobilenetv4::mobilenetv4(&mobilenetv4::Config::small(), 10, s.weights())?;
        Ok(vec![model.forward(&s.numbers((1, 3, 32, 32))?)?])
    });
    zoo.add("mobileone", |s| {
        let model = mobileone::mobileone(&mobileone::Config::s0(), 10, s.weights())?;
        Ok(vec![model.forward(&s.numbers((1, 3, 64, 64))?)?])
    });
    zoo.add("repvgg", |s| {
        let model = repvgg::repvgg(&repvgg::Config::a0(), 10, s.weights())?;
        Ok(vec![model.forward(&s.numbers((1, 3, 32, 32))?)?])
    });
    zoo.add("resnet", |s| {
        let model = resnet::resnet18(10, s.weights())?;
        Ok(vec![model.forward(&s.numbers((1, 3, 32, 32))?)?])
    });
    zoo.slow("resnet of bottlenecks", |s| {
        let model = resnet::resnet50(10, s.weights())?;
        Ok(vec![model.forward(&s.numbers((1, 3, 64, 64))?)?])
    });
    zoo.slow("vgg", |s| {
        let model = vgg::Vgg::new(s.weights(), vgg::Models::Vgg13)?;
        Ok(vec![model.forward_t(&s.numbers((3, 224, 224))?, false)?])
    });
}

fn segments(zoo: &mut Zoo) {
    zoo.add("segformer", |s| {
        let config = config(json!({
            "num_channels": 3, "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [4, 1],
            "hidden_sizes": [16, 32], "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2], "hidden_act": "gelu", "decoder_hidden_size": 32,
        }))?;
        let segments = segformer::SemanticSegmentationModel::new(&config, 5, s.weights())?;
        let classes = segformer::ImageClassificationModel::new(&config, 5, s.weights())?;
        let image = s.numbers((1, 3, 64, 64))?;
        Ok(vec![segments.forward(&image)?, classes.forward(&image)?])
    });
    zoo.add("segment_anything", |s| {
        use candle_transformers::models::segment_anything::*;
        let encoder = image_encoder::ImageEncoderViT::new(
            128,
            16,
            3,
            32,
            2,
            2,
            32,
            true,
            true,
            true,
            3,
            &[1],
            s.weights().pp("image_encoder"),
        )?;
        let prompts = prompt_encoder::PromptEncoder::new(32, (8, 8), (128, 128), 8, s.weights().pp("prompt_encoder"))?;
        let decoder = mask_decoder::MaskDecoder::new(32, 3, 3, 32, s.weights().pp("mask_decoder"))?;
        let image = encoder.forward(&s.numbers((1, 3, 128, 128))?)?;
        let (points, labels) = ((s.numbers((1, 2, 2))? * 64.0)?, s.ones((1, 2), s.dtype())?);
        let (sparse, dense) = prompts.forward(Some((&points, &labels)), None, None)?;
        let (masks, quality) = decoder.forward(&image, &prompts.get_dense_pe()?, &sparse, &dense, true)?;
        Ok(vec![masks, quality, image])
    });
}

/// Whether FastViT's networks have a tensor of this name. They try, and take what is there.
fn has_of_fastvit(name: &str, _: &Shape) -> bool {
    let is_mixer = name.contains(".norm.") || name.contains(".mixer.");
    let is_one_wide = name.contains("stem.2.") || name.contains("proj.1.");
    !(name.contains("conv_scale") && is_one_wide
        || name.contains("identity") && !is_mixer
        || name.contains("stages.0.downsample")
        || name.contains("pos_emb") && !name.contains("stages.3."))
}

/// The configuration of a small ViT.
fn vit_config() -> candle_core::Result<vit::Config> {
    config(json!({
        "hidden_act": "gelu", "image_size": 32, "patch_size": 8, "num_channels": 3, "qkv_bias": true,
    }))
}
