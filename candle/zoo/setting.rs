//! What a model runs with: a device, a dtype or a format, weights, inputs.
use crate::weights::{Weights, values};
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Error, Result, Shape, Tensor};
use candle_nn::VarBuilder;
use candle_rocm_tests::Numbers;
use candle_transformers::quantized_var_builder;
use serde::de::DeserializeOwned;
use std::cell;
use std::io::Cursor;

/// The dtype of a model, or the format of its quantized weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Weights and activations of this dtype.
    Float(DType),
    /// Weights of this format, activations of f32.
    Quantized(GgmlDType),
    /// The same weights as f32.
    Dequantized(GgmlDType),
}

/// The dtypes of an architecture.
pub const FLOATS: [Kind; 3] = [Kind::Float(DType::F32), Kind::Float(DType::F16), Kind::Float(DType::BF16)];
/// The formats of an architecture with quantized weights: of blocks of 32 with and without rounding to 4 bits, and of
/// blocks of 256.
pub const FORMATS: [Kind; 3] =
    [Kind::Quantized(GgmlDType::Q4_0), Kind::Quantized(GgmlDType::Q8_0), Kind::Quantized(GgmlDType::Q4K)];

impl Kind {
    pub const F16: Kind = Kind::Float(DType::F16);

    /// What the results of this kind are compared with.
    pub fn reference(self) -> Kind {
        match self {
            Kind::Float(_) => Kind::Float(DType::F32),
            Kind::Quantized(format) | Kind::Dequantized(format) => Kind::Dequantized(format),
        }
    }

    /// Half a unit in the last place of a number near 1, for floats.
    pub fn roundoff(self) -> Option<f64> {
        match self {
            Kind::Float(DType::BF16) => Some(2f64.powi(-8)),
            Kind::Float(DType::F16) => Some(2f64.powi(-11)),
            Kind::Float(_) => Some(2f64.powi(-24)),
            _ => None,
        }
    }

    pub fn name(self) -> String {
        match self {
            Kind::Float(dtype) => dtype.as_str().to_string(),
            Kind::Quantized(format) | Kind::Dequantized(format) => format!("{format:?}").to_lowercase(),
        }
    }
}

/// What a model runs with.
pub struct Setting {
    pub kind: Kind,
    pub device: Device,
    pub flash: Flash,
    pub steps: Steps,
    /// Becomes true in [`Setting::decode`].
    pub decodes: cell::Cell<bool>,
}

/// What a decoder reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// A prompt, then a token.
    Whole,
    /// The same, with the prompt in two parts.
    InParts,
    /// The decoder prints the driver's calls for a token (launches.rs).
    Counted,
}

/// Whether a model calls candle-flash-attn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flash {
    Never,
    /// Not on Candle's CPU device, which refuses it.
    OnGpus,
    Always,
}

impl Setting {
    pub fn new(kind: Kind, device: &Device, flash: Flash, steps: Steps) -> Self {
        Self { kind, device: device.clone(), flash, steps, decodes: cell::Cell::new(false) }
    }

    /// The dtype of floating-point inputs.
    pub fn dtype(&self) -> DType {
        if let Kind::Float(dtype) = self.kind { dtype } else { DType::F32 }
    }

    /// A window that hides tokens of a prompt; none of them with flash attention, for which the models have no window.
    pub fn window(&self) -> usize {
        if self.flash == Flash::Never { 4 } else { 16 }
    }

    /// Whether the model calls candle-flash-attn here.
    pub fn calls_flash(&self) -> bool {
        self.flash == Flash::Always || (self.flash == Flash::OnGpus && !self.device.is_cpu())
    }

    /// Random weights under any name.
    pub fn weights(&self) -> VarBuilder<'static> {
        self.weights_if(|_, _| true)
    }

    /// Random weights under the names and of the shapes for which `there` is true. Some models try which there are.
    pub fn weights_if(&self, there: fn(&str, &Shape) -> bool) -> VarBuilder<'static> {
        VarBuilder::from_backend(Box::new(Weights::new(there)), self.dtype(), self.device.clone())
    }

    /// Numbers from -1 to 1 that every dtype represents.
    pub fn numbers(&self, dims: impl Into<Shape>) -> Result<Tensor> {
        let (dims, mut numbers) = (dims.into(), Numbers::new(1));
        let values: Vec<f32> = (0..dims.elem_count()).map(|_| (numbers.below(255) as f32 - 127.0) / 128.0).collect();
        Tensor::from_vec(values, dims, &Device::Cpu)?.to_dtype(self.dtype())?.to_device(&self.device)
    }

    /// Ids below `end`.
    pub fn ids(&self, dims: impl Into<Shape>, end: usize) -> Result<Tensor> {
        let (dims, mut numbers) = (dims.into(), Numbers::new(2));
        let values: Vec<u32> = (0..dims.elem_count()).map(|_| numbers.below(end) as u32).collect();
        Tensor::from_vec(values, dims, &self.device)
    }

    /// Ones: a mask that hides nothing.
    pub fn ones(&self, dims: impl Into<Shape>, dtype: DType) -> Result<Tensor> {
        Tensor::ones(dims, dtype, &self.device)
    }

    /// The results of a decoder for a prompt of seven tokens below `VOCABULARY`, and for the next. It takes the tokens
    /// and the number of those before.
    pub fn decode(&self, mut forward: impl FnMut(&Tensor, usize) -> Result<Tensor>) -> Result<Vec<Tensor>> {
        self.decodes.set(true);
        let parts: &[(usize, usize)] = match self.steps {
            Steps::Whole => &[(0, 7), (7, 1)],
            Steps::InParts => &[(0, 2), (2, 5), (7, 1)],
            Steps::Counted => {
                crate::launches::of_a_token(self, &mut forward)?;
                return Ok(Vec::new());
            }
        };
        let tokens = self.ids((1, 8), VOCABULARY)?;
        parts.iter().map(|&(at, n)| forward(&tokens.narrow(1, at, n)?.contiguous()?, at)).collect()
    }

    /// A tensor of this kind, for a GGUF file. Vectors are f32, and so are matrices whose rows are no whole blocks.
    fn qtensor(&self, name: &str, shape: &Shape, device: &Device) -> Result<QTensor> {
        let (Kind::Quantized(format) | Kind::Dequantized(format)) = self.kind else {
            return Err(Error::Msg(format!("{:?} is no format of quantized weights", self.kind)));
        };
        let floats = Tensor::from_vec(values(name, shape), shape.clone(), device)?;
        let rows_are_blocks = shape.dims().last().is_some_and(|n| n % format.block_size() == 0);
        if shape.rank() < 2 || !rows_are_blocks {
            return QTensor::quantize(&floats, GgmlDType::F32);
        }
        let quantized = QTensor::quantize(&floats, format)?;
        match self.kind {
            Kind::Quantized(_) => Ok(quantized),
            _ => QTensor::quantize(&quantized.dequantize(device)?, GgmlDType::F32),
        }
    }

    /// A GGUF file in memory.
    pub fn gguf(
        &self,
        metadata: &[(String, Value)],
        tensors: impl IntoIterator<Item = (String, Shape)>,
    ) -> Result<(gguf_file::Content, Cursor<Vec<u8>>)> {
        let tensor = |(name, shape): (String, Shape)| {
            let tensor = self.qtensor(&name, &shape, &Device::Cpu)?;
            Ok((name, tensor))
        };
        let tensors = tensors.into_iter().map(tensor).collect::<Result<Vec<_>>>()?;
        let metadata: Vec<_> = metadata.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut file = Cursor::new(Vec::new());
        gguf_file::write(&mut file, &metadata, &tensors)?;
        file.set_position(0);
        Ok((gguf_file::Content::read(&mut file)?, file))
    }

    /// Quantized weights under the names that the architecture without quantization asks for in `load`.
    pub fn quantized_weights<T>(
        &self,
        load: impl FnOnce(VarBuilder<'static>) -> Result<T>,
    ) -> Result<quantized_var_builder::VarBuilder> {
        let weights = Weights::new(|_, _| true);
        load(VarBuilder::from_backend(Box::new(weights.clone()), DType::F32, Device::Cpu))?;
        let (_, file) = self.gguf(&[], weights.asked())?;
        quantized_var_builder::VarBuilder::from_gguf_buffer(file.get_ref(), &self.device)
    }
}

/// The tokens of a decoder.
pub const VOCABULARY: usize = 96;

/// A configuration from these fields, and from usual ones with the names that most configurations have. Most models of
/// candle-transformers read their configuration from such a file.
pub fn config<T: DeserializeOwned>(fields: serde_json::Value) -> Result<T> {
    let mut all = serde_json::json!({
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5,
        "layer_norm_eps": 1e-5,
        "layer_norm_epsilon": 1e-5,
        "norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": false,
        "tie_word_embeddings": false,
        "use_cache": true,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "initializer_range": 0.02,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "type_vocab_size": 2,
        "sliding_window": 4,
        "use_sliding_window": false,
        "max_window_layers": 2,
        "use_flash_attn": false,
        "num_experts_per_tok": 2,
    });
    if let (Some(all), serde_json::Value::Object(fields)) = (all.as_object_mut(), fields) {
        all.extend(fields);
        // A null removes a field.
        all.retain(|_, value| !value.is_null());
    }
    serde_json::from_value(all).map_err(Error::wrap)
}
