//! Typical steps of a model, for the tests of the driver calls that they make.
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{D, DType, Device, Module, Result, Tensor};

/// An element-wise chain over contiguous, broadcast and transposed operands.
pub fn chain(x: &Tensor, row: &Tensor) -> Result<Tensor> {
    let y = x.broadcast_add(row)?.gelu()?.affine(0.5, 1.0)?;
    let z = (y.t()? * x.t()?)?.contiguous()?.t()?.tanh()?;
    z.to_dtype(DType::F16)?.to_dtype(DType::F32)?.broadcast_mul(row)
}

/// One layer of a decoder, for one token.
pub struct Layer {
    norm: Tensor,
    qkv: QMatMul,
    out: QMatMul,
    cos: Tensor,
    sin: Tensor,
    keys: Tensor,
    values: Tensor,
}

/// The width of a layer.
pub const DIM: usize = 256;
const HEADS: usize = 4;
const HEAD_DIM: usize = DIM / HEADS;
const PAST: usize = 7;

impl Layer {
    /// A layer of random weights.
    pub fn new(device: &Device) -> Result<Layer> {
        let quantized = |rows: usize, dtype| {
            QMatMul::from_qtensor(QTensor::quantize(&Tensor::randn(0f32, 0.1, (rows, DIM), device)?, dtype)?)
        };
        Ok(Layer {
            norm: Tensor::ones(DIM, DType::F32, device)?,
            qkv: quantized(3 * DIM, GgmlDType::Q4K)?,
            out: quantized(DIM, GgmlDType::Q8_0)?,
            cos: Tensor::rand(0f32, 1., (1, HEAD_DIM / 2), device)?,
            sin: Tensor::rand(0f32, 1., (1, HEAD_DIM / 2), device)?,
            keys: Tensor::randn(0f32, 1., (1, HEADS, PAST + 1, HEAD_DIM), device)?,
            values: Tensor::randn(0f32, 1., (1, HEADS, PAST + 1, HEAD_DIM), device)?,
        })
    }

    /// The result of the layer for a token (1, DIM).
    pub fn step(&self, x: &Tensor) -> Result<Tensor> {
        let normed = candle_nn::ops::rms_norm(x, &self.norm, 1e-5)?;
        let qkv = self.qkv.forward(&normed)?.reshape((1, 1, 3 * HEADS, HEAD_DIM))?.transpose(1, 2)?;
        let part = |i: usize| qkv.narrow(1, i * HEADS, HEADS)?.contiguous();
        let rope = |x: &Tensor| candle_nn::rotary_emb::rope(x, &self.cos, &self.sin);
        self.keys.slice_set(&rope(&part(1)?)?, 2, PAST)?;
        self.values.slice_set(&part(2)?, 2, PAST)?;
        let scores = rope(&part(0)?)?.matmul(&self.keys.t()?)?.affine(1.0 / (HEAD_DIM as f64).sqrt(), 0.0)?;
        let mixed = candle_nn::ops::softmax(&scores, D::Minus1)?.matmul(&self.values)?;
        let mixed = mixed.transpose(1, 2)?.reshape((1, DIM))?;
        x.add(&self.out.forward(&mixed)?)?.silu()
    }
}
