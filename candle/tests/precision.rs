//! The rounding errors of quantized products beside those of Candle's CPU device. The reference is the product of the
//! dequantized weights in f64.
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::moe::moe_gemm_gguf;
use candle_rocm_tests::{Numbers, device};

const EXPERTS: usize = 2;
/// The rows of an expert's weights, and their length.
const N: usize = 32;
const K: usize = 512;
/// Rows of activations per case.
const INPUTS: usize = 64;

/// The kinds of activations: on both sides of 0, as after a norm, and positive, as after an activation function.
const SIGNS: [&str; 2] = ["any sign", "positive"];

/// The formats. Each has the largest error that is allowed for each kind of activations, as a share of the CPU device's
/// error. The codes and scales of q4_0 to q5_1 are the CPU device's own, so an error of 1 is the least. The offset of
/// q4_0 and q5_0 multiplies a sum that is rounded to f16, which shows where sums are large. For q8_0 and the K types
/// the CPU device may round activations in blocks of 256, here the blocks have 32.
const FORMATS: [(GgmlDType, [f64; 2]); 10] = [
    (GgmlDType::Q4_0, [1.005, 1.08]),
    (GgmlDType::Q4_1, [1.002, 1.002]),
    (GgmlDType::Q5_0, [1.005, 1.07]),
    (GgmlDType::Q5_1, [1.002, 1.002]),
    (GgmlDType::Q8_0, [1.002, 1.002]),
    (GgmlDType::Q2K, [0.9, 1.0]),
    (GgmlDType::Q3K, [0.9, 0.9]),
    (GgmlDType::Q4K, [0.9, 1.0]),
    (GgmlDType::Q5K, [0.9, 1.0]),
    (GgmlDType::Q6K, [0.9, 0.9]),
];

/// A sum of uniform numbers, close to a normal distribution.
fn normal(numbers: &mut Numbers) -> f32 {
    (0..6).map(|_| numbers.unit()).sum::<f32>() * 0.7
}

/// The values of a tensor of f32, as f64.
fn values(x: &Tensor) -> Result<Vec<f64>> {
    let values = x.to_device(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>()?;
    Ok(values.into_iter().map(f64::from).collect())
}

/// Activations and the weights of the experts on one device.
struct Operands {
    x: Tensor,
    experts: Vec<QMatMul>,
    /// All experts in one tensor.
    weights: QTensor,
}

impl Operands {
    fn new(x: &Tensor, weights: &Tensor, format: GgmlDType, device: &Device) -> Result<Operands> {
        let quantize = |weights: &Tensor| QTensor::quantize(&weights.to_device(device)?, format);
        let expert = |e| QMatMul::from_qtensor(quantize(&weights.get(e)?)?);
        let experts = (0..EXPERTS).map(expert).collect::<Result<_>>()?;
        Ok(Operands { x: x.to_device(device)?, experts, weights: quantize(weights)? })
    }

    /// The products of each expert with all rows of x, `columns` rows at a time: (experts, inputs, n).
    fn products(&self, columns: usize) -> Result<Vec<f64>> {
        let mut all = Vec::new();
        for expert in &self.experts {
            for first in (0..INPUTS).step_by(columns) {
                all.extend(values(&expert.forward(&self.x.narrow(0, first, columns.min(INPUTS - first))?)?)?);
            }
        }
        Ok(all)
    }

    /// The same by the products of mixtures of experts, `inputs` rows of x at a time. Every row goes to all experts.
    fn mixtures(&self, inputs: usize) -> Result<Vec<f64>> {
        let mut all = vec![Vec::new(); EXPERTS];
        for first in (0..INPUTS).step_by(inputs) {
            let x = self.x.narrow(0, first, inputs)?;
            let ids: Vec<u32> = (0..inputs).flat_map(|_| 0..EXPERTS as u32).collect();
            let (ids, sorted) = Tensor::new(ids, x.device())?.sort_last_dim(true)?;
            let y = moe_gemm_gguf(&x, &self.weights, &None, &sorted, &ids, EXPERTS, false, DType::F32)?;
            let y = values(&y)?;
            for (token, row) in y.chunks(N).enumerate() {
                all[token % EXPERTS].extend_from_slice(row);
            }
        }
        Ok(all.concat())
    }

    /// The same by `indexed_moe_forward`.
    fn indexed(&self) -> Result<Vec<f64>> {
        let ids: Vec<u32> = (0..INPUTS).flat_map(|_| 0..EXPERTS as u32).collect();
        let ids = Tensor::from_vec(ids, (INPUTS, EXPERTS), self.x.device())?;
        let y = self.weights.indexed_moe_forward(&self.x.reshape((INPUTS, 1, K))?, &ids)?;
        values(&y.transpose(0, 1)?.contiguous()?)
    }
}

/// The root of the mean square of the differences.
fn error(got: &[f64], exact: &[f64]) -> f64 {
    assert_eq!(got.len(), exact.len());
    (got.iter().zip(exact).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / exact.len() as f64).sqrt()
}

#[test]
fn errors_are_not_above_the_cpu_devices() -> Result<()> {
    let (device, mut numbers) = (device(), Numbers::new(28));
    let mut too_large = Vec::new();
    for (format, bounds) in FORMATS {
        for (sign, bound) in SIGNS.into_iter().zip(bounds) {
            let x = (0..INPUTS * K).map(|_| normal(&mut numbers));
            let x = Tensor::from_iter(x, &Device::Cpu)?.reshape((INPUTS, K))?;
            let x = if sign == "positive" { x.abs()? } else { x };
            let weights = (0..EXPERTS * N * K).map(|_| normal(&mut numbers));
            let weights = Tensor::from_iter(weights, &Device::Cpu)?.reshape((EXPERTS, N, K))?;
            let cpu = Operands::new(&x, &weights, format, &Device::Cpu)?;
            let there = Operands::new(&x, &weights, format, &device)?;
            let numbers = cpu.weights.dequantize(&Device::Cpu)?.to_dtype(DType::F64)?;
            let exact = x.to_dtype(DType::F64)?.broadcast_left(EXPERTS)?.matmul(&numbers.transpose(1, 2)?)?;
            let exact = exact.flatten_all()?.to_vec1::<f64>()?;
            let theirs = error(&cpu.products(INPUTS)?, &exact);
            let ways = [
                ("1 column", there.products(1)?),
                ("3 columns", there.products(3)?),
                ("8 columns", there.products(8)?),
                ("64 columns", there.products(64)?),
                ("1 token per expert", there.mixtures(1)?),
                ("4 tokens per expert", there.mixtures(4)?),
                ("8 tokens per expert", there.mixtures(8)?),
                ("indexed experts", there.indexed()?),
            ];
            for (way, got) in ways {
                let ratio = error(&got, &exact) / theirs;
                let line = format!("{format:?}, {way}, x of {sign}: {ratio:.4} of the cpu's error");
                println!("{line}");
                if ratio.is_nan() || ratio > bound {
                    too_large.push(format!("{line}, at most {bound} is allowed"));
                }
            }
        }
    }
    assert!(too_large.is_empty(), "{}", too_large.join("\n"));
    Ok(())
}
