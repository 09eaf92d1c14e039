//! Random weights for any model: what a model asks for by a name and a shape is made from that name and that shape.
use candle_core::{DType, Device, Result, Shape, Tensor, bail};
use candle_nn::Init;
use candle_nn::var_builder::SimpleBackend;
use candle_rocm_tests::Numbers;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The weights of a model. Matrices and convolutions keep the magnitude of what goes through them, scales of norms are
/// about 1, biases are small. Every weight is a number that f16 and bf16 represent, so a model has the same weights in
/// every dtype.
#[derive(Clone)]
pub struct Weights {
    /// Whether there is a tensor of this name and this shape.
    there: fn(&str, &Shape) -> bool,
    /// The names and the shapes that were asked for.
    asked: Arc<Mutex<BTreeMap<String, Shape>>>,
}

impl Weights {
    /// The weights for whose names and shapes `there` is true.
    pub fn new(there: fn(&str, &Shape) -> bool) -> Weights {
        Weights { there, asked: Arc::default() }
    }

    /// The names and the shapes that a model asked for.
    pub fn asked(&self) -> BTreeMap<String, Shape> {
        self.asked.lock().expect("no trial panicked with this lock").clone()
    }
}

/// The values of a tensor of this name.
pub fn values(name: &str, shape: &Shape) -> Vec<f32> {
    // The hash FNV-1a.
    let seed = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut numbers = Numbers::new(seed);
    let dims = shape.dims();
    // A value is `middle` plus a whole number from -127 to 127 times `step`.
    let (middle, step) = if ["alpha", "cluster_usage"].iter().any(|end| name.ends_with(end)) {
        // Models divide by these.
        (1.0, 0.0)
    } else if dims.len() >= 2 {
        let fan_in: usize = dims[1..].iter().product();
        (0.0, (3.0 / fan_in as f32).sqrt().log2().round().exp2() / 128.0)
    } else if ["weight", "running_var", "scale", "gamma"].iter().any(|end| name.ends_with(end)) {
        (1.0, 0.0)
    } else {
        (0.0, 2f32.powi(-10))
    };
    let mut values = Vec::with_capacity(shape.elem_count() + 7);
    while values.len() < shape.elem_count() {
        let byte = |byte: u8| f32::from((byte as i8).max(-127));
        let bytes = numbers.bits().to_le_bytes();
        // Near 1, bf16 has steps of 1/128.
        let value = |x: u8| if middle == 0.0 { byte(x) * step } else { middle + (byte(x) / 16.0).round() / 128.0 };
        values.extend(bytes.map(value));
    }
    values.truncate(shape.elem_count());
    values
}

impl SimpleBackend for Weights {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        if shape.elem_count() == 0 || !(self.there)(name, &shape) {
            bail!("there is no {name} of {shape:?}");
        }
        self.asked.lock().expect("no trial panicked with this lock").insert(name.to_string(), shape.clone());
        Tensor::from_vec(values(name, &shape), shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
    }

    /// A model that asks without a shape learns a size from the tensor. That size is 8.
    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        self.get((8, 8).into(), name, Init::Const(0.0), dtype, device)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        ["weight", "bias", "logit_scale", "class_embedding"].iter().any(|end| name.ends_with(end))
    }
}
