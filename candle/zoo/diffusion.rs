//! Makers of images: denoisers, and the encoders and decoders of their latent images.
use crate::Zoo;
use crate::setting::{Setting, VOCABULARY, config};
use candle_core::{DType, Module, Result, Tensor};
use candle_transformers::models::*;
use serde_json::json;

pub fn add(zoo: &mut Zoo) {
    zoo.add("flux", |s| {
        let config = flux_config();
        flux_forward(s, &config, &flux::model::Flux::new(&config, s.weights())?)
    });
    zoo.add("flux autoencoder", |s| {
        let config = flux::autoencoder::Config {
            resolution: 32,
            in_channels: 3,
            ch: 32,
            out_ch: 3,
            ch_mult: vec![1, 2],
            num_res_blocks: 1,
            z_channels: 4,
            scale_factor: 0.36,
            shift_factor: 0.11,
        };
        let encoder = flux::autoencoder::Encoder::new(&config, s.weights().pp("encoder"))?;
        let model = flux::autoencoder::AutoEncoder::new(&config, s.weights())?;
        Ok(vec![encoder.forward(&s.numbers((1, 3, 16, 16))?)?, model.decode(&s.numbers((1, 4, 8, 8))?)?])
    });
    zoo.flash("mmdit", |s| {
        // The whole model embeds the time in f16 only, so this is all but its embeddings.
        let model = mmdit::model::MMDiTCore::new(3, 64, 2, 2, 4, s.calls_flash(), s.weights())?;
        let (image, text) = (s.numbers((1, 16, 64))?, s.numbers((1, 5, 64))?);
        Ok(vec![model.forward(&text, &image, &s.numbers((1, 64))?, None)?])
    });
    zoo.add("stable_diffusion unet_2d", |s| {
        use stable_diffusion::unet_2d::{BlockConfig, UNet2DConditionModel, UNet2DConditionModelConfig};
        let block = |out_channels, use_cross_attn| BlockConfig { out_channels, use_cross_attn, attention_head_dim: 4 };
        let config = UNet2DConditionModelConfig {
            blocks: vec![block(32, Some(1)), block(64, None)],
            layers_per_block: 1,
            norm_num_groups: 8,
            cross_attention_dim: 48,
            ..Default::default()
        };
        let model = UNet2DConditionModel::new(s.weights(), 4, 4, false, config)?;
        Ok(vec![model.forward(&s.numbers((1, 4, 16, 16))?, 500.0, &s.numbers((1, 5, 48))?)?])
    });
    zoo.slow("stable_diffusion clip", |s| {
        let config = stable_diffusion::clip::Config::v1_5();
        let model = stable_diffusion::clip::ClipTextTransformer::new(s.weights(), &config)?;
        Ok(vec![model.forward_with_mask(&s.ids((1, 77), VOCABULARY)?, 77)?])
    });
    zoo.add("stable_diffusion vae", |s| {
        let config = stable_diffusion::vae::AutoEncoderKLConfig {
            block_out_channels: vec![32, 64],
            layers_per_block: 1,
            norm_num_groups: 8,
            ..Default::default()
        };
        let model = stable_diffusion::vae::AutoEncoderKL::new(s.weights(), 3, 3, config)?;
        Ok(vec![model.decode(&s.numbers((1, 4, 8, 8))?)?])
    });
    zoo.add("wuerstchen prior", |s| {
        let model = wuerstchen::prior::WPrior::new(4, 64, 48, 16, 2, 4, false, s.weights().pp("one"))?;
        let time = Tensor::new(&[0.5f32], &s.device)?.to_dtype(s.dtype())?;
        Ok(vec![model.forward(&s.numbers((1, 4, 6, 6))?, &time, &s.numbers((1, 5, 48))?)?])
    });
    zoo.add("wuerstchen paella_vq", |s| {
        let model = wuerstchen::paella_vq::PaellaVQ::new(s.weights())?;
        Ok(vec![model.encode(&s.numbers((1, 3, 8, 8))?)?, model.decode(&s.numbers((1, 4, 2, 2))?)?])
    });
    zoo.add("z_image", |s| {
        let config = config(json!({
            "in_channels": 4, "dim": 64, "n_layers": 2, "n_refiner_layers": 1, "n_heads": 2, "n_kv_heads": 2,
            "cap_feat_dim": 48, "axes_dims": [8, 12, 12], "axes_lens": [64, 32, 32],
        }))?;
        let model = z_image::ZImageTransformer2DModel::new(&config, s.weights())?;
        let time = Tensor::new(&[0.5f32], &s.device)?.to_dtype(s.dtype())?;
        let (image, text) = (s.numbers((1, 4, 1, 8, 8))?, s.numbers((1, 5, 48))?);
        Ok(vec![model.forward(&image, &time, &text, &s.ones((1, 5), DType::U8)?)?])
    });
    zoo.add("z_image text_encoder", |s| {
        let model = z_image::ZImageTextEncoder::new(&config(json!({ "num_hidden_layers": 3 }))?, s.weights())?;
        Ok(vec![model.forward(&s.ids((1, 7), VOCABULARY)?)?])
    });
    zoo.add("z_image vae", |s| {
        let config = config(json!({
            "latent_channels": 4, "block_out_channels": [32, 64], "layers_per_block": 1, "norm_num_groups": 8,
        }))?;
        let encoder = z_image::vae::Encoder::new(&config, s.weights().pp("encoder"))?;
        let model = z_image::AutoEncoderKL::new(&config, s.weights())?;
        Ok(vec![encoder.forward(&s.numbers((1, 3, 16, 16))?)?, model.decode(&s.numbers((1, 4, 8, 8))?)?])
    });
}

/// The results of a small Flux, quantized or not.
pub fn flux_forward(s: &Setting, config: &flux::model::Config, model: &dyn flux::WithForward) -> Result<Vec<Tensor>> {
    let (image, text) = (s.numbers((1, 16, config.in_channels))?, s.numbers((1, 5, config.context_in_dim))?);
    let place = |i: u32| [0.0, (i / 4) as f32, (i % 4) as f32];
    let places: Vec<f32> = (0..16).flat_map(place).collect();
    let image_places = Tensor::from_vec(places, (1, 16, 3), &s.device)?.to_dtype(s.dtype())?;
    let text_places = Tensor::zeros((1, 5, 3), s.dtype(), &s.device)?;
    let time = Tensor::new(&[0.5f32], &s.device)?.to_dtype(s.dtype())?;
    let vector = s.numbers((1, config.vec_in_dim))?;
    Ok(vec![model.forward(&image, &image_places, &text, &text_places, &time, &vector, Some(&time))?])
}

/// The configuration of a small Flux.
pub fn flux_config() -> flux::model::Config {
    flux::model::Config {
        in_channels: 16,
        vec_in_dim: 32,
        context_in_dim: 48,
        hidden_size: 64,
        mlp_ratio: 2.0,
        num_heads: 2,
        depth: 1,
        depth_single_blocks: 1,
        axes_dim: vec![8, 12, 12],
        theta: 10_000,
        qkv_bias: true,
        guidance_embed: true,
    }
}
