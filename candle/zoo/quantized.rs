//! Models with quantized weights.
use crate::setting::{Setting, VOCABULARY, config};
use crate::{Zoo, audio, diffusion, encoders, states};
use candle_core::quantized::gguf_file::{Content, Value as Field};
use candle_core::{DType, IndexOp, Module, Result, Shape};
use candle_transformers::models::*;
use serde_json::{Value, json};
use std::io::Cursor;

pub fn add(zoo: &mut Zoo) {
    files(zoo);
    named_as_floats(zoo);
}

/// Models that read files with the names of llama.cpp.
fn files(zoo: &mut Zoo) {
    zoo.quantized("quantized_llama", |s| {
        let (content, mut file) = file(s, "llama", false)?;
        let mut model = quantized_llama::ModelWeights::from_gguf(content, &mut file, &s.device)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.quantized("quantized_llama of experts", |s| {
        let (content, mut file) = file(s, "llama", true)?;
        let mut model = quantized_llama::ModelWeights::from_gguf(content, &mut file, &s.device)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.quantized("quantized_qwen2", |s| {
        let (content, mut file) = file(s, "qwen2", false)?;
        let mut model = quantized_qwen2::ModelWeights::from_gguf(content, &mut file, &s.device)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.quantized("quantized_qwen3", |s| {
        let (content, mut file) = file(s, "qwen3", false)?;
        let mut model = quantized_qwen3::ModelWeights::from_gguf(content, &mut file, &s.device)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.quantized("quantized_gemma3", |s| {
        let (content, mut file) = file(s, "gemma3", false)?;
        let mut model = quantized_gemma3::ModelWeights::from_gguf(content, &mut file, &s.device)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.quantized("quantized_glm4", |s| {
        let (content, mut file) = file(s, "glm4", false)?;
        let mut model = quantized_glm4::ModelWeights::from_gguf(content, &mut file, &s.device, DType::F32)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.quantized("quantized_phi", |s| {
        let (content, mut file) = file(s, "phi2", false)?;
        let mut model = quantized_phi::ModelWeights::from_gguf(content, &mut file, &s.device)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.quantized("quantized_phi3", |s| {
        let (content, mut file) = file(s, "phi3", false)?;
        let mut model = quantized_phi3::ModelWeights::from_gguf(false, content, &mut file, &s.device)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.quantized("quantized_lfm2", |s| {
        let (content, mut file) = file(s, "lfm2", false)?;
        let mut model = quantized_lfm2::ModelWeights::from_gguf(content, &mut file, &s.device)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
}

/// The width of a quantized model: a block of the K types.
const WIDTH: usize = 256;
/// The experts of a mixture.
const EXPERTS: usize = 4;
/// The heads of attention, their width, and those of keys and values.
const HEADS: usize = 4;
const HEAD: usize = 64;
const KEY_HEADS: usize = 2;
/// The width of a feed-forward network.
const FORWARD: usize = 256;

/// A file with llama.cpp's names of tensors. Every architecture finds its own among them; those of few are for these
/// only.
fn file(s: &Setting, architecture: &str, experts: bool) -> Result<(Content, Cursor<Vec<u8>>)> {
    let key_heads = if architecture == "phi2" { HEADS } else { KEY_HEADS };
    // Some architectures join the two products.
    let up = if ["glm4", "phi3"].contains(&architecture) { 2 * FORWARD } else { FORWARD };
    let mut tensors: Vec<(String, Shape)> = Vec::new();
    let mut add = |name: String, dims: &[usize]| tensors.push((name, dims.into()));
    for (name, rows) in [("token_embd", VOCABULARY), ("output", VOCABULARY)] {
        add(format!("{name}.weight"), &[rows, WIDTH]);
    }
    add("output.bias".into(), &[VOCABULARY]);
    add("output_norm.weight".into(), &[WIDTH]);
    add("output_norm.bias".into(), &[WIDTH]);
    for block in ["blk.0", "blk.1"] {
        for norm in ["attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"] {
            add(format!("{block}.{norm}.weight"), &[WIDTH]);
            add(format!("{block}.{norm}.bias"), &[WIDTH]);
        }
        for norm in ["attn_q_norm", "attn_k_norm"] {
            add(format!("{block}.{norm}.weight"), &[HEAD]);
        }
        let products = [
            ("attn_q", HEADS * HEAD, WIDTH),
            ("attn_k", key_heads * HEAD, WIDTH),
            ("attn_v", key_heads * HEAD, WIDTH),
            ("attn_qkv", (HEADS + 2 * key_heads) * HEAD, WIDTH),
            ("attn_output", WIDTH, HEADS * HEAD),
            ("ffn_gate", FORWARD, WIDTH),
            ("ffn_up", up, WIDTH),
            ("ffn_down", WIDTH, FORWARD),
            ("ffn_gate_inp", EXPERTS, WIDTH),
            ("shortconv.in_proj", 3 * WIDTH, WIDTH),
            ("shortconv.out_proj", WIDTH, WIDTH),
            ("shortconv.conv", WIDTH, 3),
        ];
        for (name, rows, columns) in products {
            let of = match name {
                "attn_qkv" => &["phi2", "phi3"][..],
                "shortconv.in_proj" | "shortconv.out_proj" | "shortconv.conv" => &["lfm2"],
                _ => &[architecture],
            };
            if !of.contains(&architecture) {
                continue;
            }
            add(format!("{block}.{name}.weight"), &[rows, columns]);
            add(format!("{block}.{name}.bias"), &[rows]);
        }
        for expert in 0..if experts { EXPERTS } else { 0 } {
            for (name, rows, columns) in [("gate", FORWARD, WIDTH), ("up", FORWARD, WIDTH), ("down", WIDTH, FORWARD)] {
                add(format!("{block}.ffn_{name}.{expert}.weight"), &[rows, columns]);
            }
        }
    }
    let field = |name: &str, value| (format!("{architecture}.{name}"), value);
    let number = |name: &str, value: usize| field(name, Field::U32(value as u32));
    let mut metadata = vec![
        ("general.architecture".into(), Field::String(architecture.into())),
        number("attention.head_count", HEADS),
        number("attention.key_length", HEAD),
        number("attention.value_length", HEAD),
        number("attention.sliding_window", 4),
        field("attention.layer_norm_rms_epsilon", Field::F32(1e-5)),
        field("attention.layer_norm_epsilon", Field::F32(1e-5)),
        number("block_count", 2),
        number("context_length", 64),
        number("embedding_length", WIDTH),
        number("feed_forward_length", FORWARD),
        number("vocab_size", VOCABULARY),
        number("rope.dimension_count", HEAD),
        field("rope.freq_base", Field::F32(10_000.0)),
        number("shortconv.l_cache", 3),
    ];
    // Of LFM2's layers the first is a convolution.
    metadata.push(if architecture == "lfm2" {
        field("attention.head_count_kv", Field::Array(vec![Field::U32(0), Field::U32(KEY_HEADS as u32)]))
    } else {
        number("attention.head_count_kv", key_heads)
    });
    if experts {
        metadata.push(number("expert_count", EXPERTS));
        metadata.push(number("expert_used_count", 2));
    }
    s.gguf(&metadata, tensors)
}

/// Models whose tensors have the names of the model without quantization.
fn named_as_floats(zoo: &mut Zoo) {
    zoo.quantized("quantized_blip", |s| {
        let mut config = encoders::blip_config();
        (config.text_config.hidden_size, config.text_config.encoder_hidden_size) = (WIDTH, WIDTH);
        config.vision_config.hidden_size = WIDTH;
        let weights = s.quantized_weights(|vb| blip::BlipForConditionalGeneration::new(&config, vb))?;
        let mut model = quantized_blip::BlipForConditionalGeneration::new(&config, weights)?;
        let image = model.vision_model().forward(&s.numbers((1, 3, 32, 32))?)?;
        let mut outputs = s.decode(|ids, _| model.text_decoder().forward(ids, &image))?;
        outputs.push(image);
        Ok(outputs)
    });
    zoo.quantized("quantized_llama2_c", |s| {
        let mut config = llama2_c::Config::tiny_260k();
        (config.vocab_size, config.dim, config.hidden_dim) = (VOCABULARY, WIDTH, FORWARD);
        (config.n_layers, config.seq_len) = (2, 64);
        let weights = s.quantized_weights(|vb| {
            llama2_c::Cache::new(true, &config, vb.pp("rot"))?;
            llama2_c::Llama::load(vb, config.clone())
        })?;
        let cache = s.weights().pp("rot");
        let mut cache = llama2_c::Cache::new(true, &config, cache)?;
        let model = quantized_llama2_c::QLlama::load(weights, config)?;
        s.decode(|ids, at| model.forward(ids, at, &mut cache))
    });
    zoo.quantized("quantized_metavoice", |s| {
        let mut config = audio::metavoice_config()?;
        (config.dim, config.intermediate_size, config.speaker_emb_dim) = (WIDTH, Some(FORWARD), WIDTH);
        let weights = s.quantized_weights(|vb| metavoice::transformer::Model::new(&config, vb))?;
        let mut model = quantized_metavoice::transformer::Model::new(&config, weights)?;
        let (speaker, tokens) = (s.numbers((1, WIDTH))?, s.ids((2, 8), VOCABULARY)?);
        [(0, 7), (7, 1)]
            .iter()
            .map(|&(at, n)| model.forward(&tokens.narrow(1, at, n)?.contiguous()?, &speaker, at))
            .collect()
    });
    zoo.quantized("quantized_mistral", |s| {
        let config = config(wide(json!({ "sliding_window": 4 })))?;
        let weights = s.quantized_weights(|vb| mistral::Model::new(&config, vb))?;
        let mut model = quantized_mistral::Model::new(&config, weights)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.quantized("quantized_mixformer", |s| {
        let config = mixformer_config()?;
        let weights = s.quantized_weights(|vb| mixformer::MixFormerSequentialForCausalLM::new(&config, vb))?;
        let mut model = quantized_mixformer::MixFormerSequentialForCausalLM::new(&config, weights)?;
        s.decode(|ids, _| model.forward(ids))
    });
    zoo.quantized("quantized_mixformer_v2", |s| {
        let config = mixformer_config()?;
        let weights = s.quantized_weights(|vb| mixformer::MixFormerSequentialForCausalLM::new_v2(&config, vb))?;
        let mut model = quantized_mixformer::MixFormerSequentialForCausalLM::new_v2(&config, weights)?;
        s.decode(|ids, _| model.forward(ids))
    });
    zoo.quantized("quantized_recurrent_gemma", |s| {
        let mut config = states::recurrent_gemma_config()?;
        (config.hidden_size, config.intermediate_size, config.head_dim) = (WIDTH, FORWARD, HEAD);
        config.lru_width = Some(WIDTH);
        let weights = s.quantized_weights(|vb| recurrent_gemma::Model::new(&config, vb))?;
        let mut model = quantized_recurrent_gemma::Model::new(&config, weights)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.quantized("quantized_rwkv_v5", |s| {
        let config = rwkv_config()?;
        let weights = s.quantized_weights(|vb| rwkv_v5::Model::new(&config, vb))?;
        let model = quantized_rwkv_v5::Model::new(&config, weights)?;
        let mut state = rwkv_v5::State::new(1, &config, &s.device)?;
        states::steps(s, |ids| model.forward(ids, &mut state))
    });
    zoo.quantized("quantized_rwkv_v6", |s| {
        let config = rwkv_config()?;
        let weights = s.quantized_weights(|vb| rwkv_v6::Model::new(&config, vb))?;
        let model = quantized_rwkv_v6::Model::new(&config, weights)?;
        let mut state = rwkv_v5::State::new(1, &config, &s.device)?;
        states::steps(s, |ids| model.forward(ids, &mut state))
    });
    zoo.quantized("quantized_stable_lm", |s| {
        let config = config(wide(json!({ "partial_rotary_factor": 0.5, "use_qkv_bias": true })))?;
        let weights = s.quantized_weights(|vb| stable_lm::Model::new(&config, vb))?;
        let mut model = quantized_stable_lm::Model::new(&config, weights)?;
        s.decode(|ids, at| model.forward(ids, at))
    });
    zoo.quantized("quantized_t5", |s| {
        let fields = json!({ "d_model": WIDTH, "d_kv": 16, "num_heads": 16, "d_ff": FORWARD, "num_layers": 1 });
        let floats = config(encoders::t5_fields(fields.clone()))?;
        let weights = s.quantized_weights(|vb| t5::T5ForConditionalGeneration::load(vb, &floats))?;
        let config = config(encoders::t5_fields(fields))?;
        let mut model = quantized_t5::T5ForConditionalGeneration::load(weights, &config)?;
        let hidden = model.encode(&s.ids((1, 6), VOCABULARY)?)?;
        let mut outputs = s.decode(|ids, _| model.decode(ids, &hidden))?;
        outputs.push(hidden);
        Ok(outputs)
    });
    zoo.quantized("quantized_whisper", |s| {
        let mut config = audio::whisper_config()?;
        (config.d_model, config.encoder_layers, config.decoder_layers) = (WIDTH, 1, 1);
        let weights = s.quantized_weights(|vb| whisper::model::Whisper::load(&vb, config.clone()))?;
        let mut model = whisper::quantized_model::Whisper::load(&weights, config)?;
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
    zoo.quantized("quantized_flux", |s| {
        let mut config = diffusion::flux_config();
        (config.hidden_size, config.num_heads, config.in_channels) = (WIDTH, 8, 32);
        (config.vec_in_dim, config.context_in_dim) = (WIDTH, WIDTH);
        let weights = s.quantized_weights(|vb| flux::model::Flux::new(&config, vb))?;
        diffusion::flux_forward(s, &config, &flux::quantized_model::Flux::new(&config, weights)?)
    });
}

/// Fields of a decoder as wide as a block of the K types.
fn wide(mut fields: Value) -> Value {
    let wide = json!({
        "hidden_size": WIDTH, "intermediate_size": FORWARD, "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_HEADS, "head_dim": HEAD,
    });
    if let (Some(fields), Value::Object(wide)) = (fields.as_object_mut(), wide) {
        fields.extend(wide);
    }
    fields
}

fn mixformer_config() -> Result<mixformer::Config> {
    config(json!({
        "n_positions": 64, "n_embd": WIDTH, "n_layer": 2, "n_inner": FORWARD, "n_head": HEADS, "rotary_dim": 32,
        "activation_function": "gelu_new", "pad_vocab_size_multiple": 32,
    }))
}

fn rwkv_config() -> Result<rwkv_v5::Config> {
    let mut config = states::rwkv_config()?;
    (config.hidden_size, config.attention_hidden_size, config.head_size) = (WIDTH, WIDTH, HEAD);
    (config.intermediate_size, config.num_attention_heads, config.num_hidden_layers) = (Some(FORWARD), HEAD, 1);
    Ok(config)
}
