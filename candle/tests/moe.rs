//! Mixtures of experts through candle-nn's functions, compared with plain sums on the CPU.
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::fused;
use candle_nn::moe::{moe_gemm, moe_gemm_gguf};
use candle_rocm_tests::{Numbers, device, says};

const EXPERTS: usize = 8;
/// Experts without any token: the first, one in the middle, the last.
const IDLE: [usize; 3] = [0, 4, 7];
/// The rows of an expert's weights.
const N: usize = 33;
/// The formats with products. Candle's CUDA kernels support the last six.
const FORMATS: [GgmlDType; 10] = [
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

/// The rows of a tensor, as f32 on the CPU.
fn rows(x: &Tensor) -> Result<Vec<Vec<f32>>> {
    x.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.to_vec2()
}

/// Tokens and their experts: `topk` tokens for each of `inputs`.
struct Routing {
    inputs: usize,
    topk: usize,
    /// The expert of each token, and the factor for its result.
    experts: Vec<u32>,
    scales: Vec<f32>,
    /// The same in the form that candle-nn takes.
    sorted: Tensor,
    experts_ids: Tensor,
    topk_weights: Tensor,
}

impl Routing {
    fn new(numbers: &mut Numbers, inputs: usize, topk: usize, device: &Device) -> Result<Routing> {
        let busy: Vec<u32> = (0..EXPERTS).filter(|e| !IDLE.contains(e)).map(|e| e as u32).collect();
        let mut experts = Vec::new();
        for _ in 0..inputs {
            let first = numbers.below(busy.len());
            experts.extend((0..topk).map(|i| busy[(first + i) % busy.len()]));
        }
        let scales: Vec<f32> = experts.iter().map(|_| numbers.unit()).collect();
        // Sorted as a model does it.
        let (experts_ids, sorted) = Tensor::new(experts.as_slice(), device)?.sort_last_dim(true)?;
        let topk_weights = Tensor::from_vec(scales.clone(), (inputs, topk), device)?;
        Ok(Routing { inputs, topk, experts, scales, sorted, experts_ids, topk_weights })
    }

    /// The number of input rows. A model's first product has one row for all experts of an input. Its second product
    /// has one row per token, and uses the experts' weights.
    fn input_rows(&self, second: bool) -> usize {
        self.inputs * if second { self.topk } else { 1 }
    }

    fn weights(&self, second: bool) -> Option<Tensor> {
        second.then(|| self.topk_weights.clone())
    }

    /// Compares `got` with plain sums. Each may differ by `bound` of the sum that it would have if every weight were
    /// the largest of its row, and by `half_ulp` of itself.
    fn compare(
        &self,
        second: bool,
        x: &[Vec<f32>],
        weights: &Tensor,
        got: &Tensor,
        (bound, half_ulp): (f64, f64),
    ) -> Result<()> {
        let (tokens, n) = (self.experts.len(), weights.dim(1)?);
        assert_eq!(got.dims(), [tokens, n]);
        let (weights, got) = (weights.to_dtype(DType::F32)?.to_vec3::<f32>()?, rows(got)?);
        for token in 0..tokens {
            let (expert, input) = (self.experts[token] as usize, if second { token } else { token / self.topk });
            let scale = if second { f64::from(self.scales[token]) } else { 1.0 };
            let magnitude: f64 = x[input].iter().map(|x| f64::from(x.abs())).sum();
            for (row, got) in weights[expert].iter().zip(&got[token]) {
                let sum: f64 = row.iter().zip(&x[input]).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                let largest = row.iter().fold(0f64, |most, w| most.max(f64::from(w.abs())));
                let (expected, got) = (scale * sum, f64::from(*got));
                let allowed = bound * scale.abs() * largest * magnitude + half_ulp * expected.abs();
                assert!((got - expected).abs() <= allowed, "token {token}: {got} is not {expected} +- {allowed}");
            }
        }
        Ok(())
    }
}

/// The numbers of inputs, and of experts per input, in decode steps and prompts.
const SHAPES: [(usize, usize); 6] = [(1, 1), (1, 2), (3, 2), (5, 3), (37, 2), (129, 1)];

fn numbers(dims: impl Into<candle_core::Shape>, numbers: &mut Numbers) -> Result<Tensor> {
    let dims = dims.into();
    let values: Vec<f32> = (0..dims.elem_count()).map(|_| numbers.unit()).collect();
    Tensor::from_vec(values, dims, &Device::Cpu)
}

/// Rows of small whole numbers that fit in 8 bits, with a scale of 1 for each 32. Integer products then round no
/// activation.
fn whole_numbers(count: usize, k: usize, numbers: &mut Numbers) -> Result<Tensor> {
    let value = |i| match i % 32 {
        0 => 127.0,
        1 => -127.0,
        _ => numbers.below(127) as f32 - 63.0,
    };
    Tensor::from_vec((0..count * k).map(value).collect::<Vec<_>>(), (count, k), &Device::Cpu)
}

#[test]
fn products_of_floats() -> Result<()> {
    let (device, mut random) = (device(), Numbers::new(1));
    for (dtype, half_ulp) in [(DType::F16, 2f64.powi(-11)), (DType::BF16, 2f64.powi(-8))] {
        for k in [8, 72, 256] {
            let weights = numbers((EXPERTS, N, k), &mut random)?.to_dtype(dtype)?;
            for (inputs, topk) in SHAPES {
                let routing = Routing::new(&mut random, inputs, topk, &device)?;
                for second in [false, true] {
                    let x = numbers((routing.input_rows(second), k), &mut random)?.to_dtype(dtype)?;
                    for is_prefill in [false, true] {
                        let (sorted, ids) = (&routing.sorted, &routing.experts_ids);
                        let (w, x_there) = (weights.to_device(&device)?, x.to_device(&device)?);
                        let scales = routing.weights(second);
                        let got = moe_gemm(&x_there, &w, &scales, sorted, ids, topk, is_prefill)?;
                        assert_eq!(got.dtype(), dtype);
                        routing.compare(second, &rows(&x)?, &weights, &got, (1e-5, half_ulp))?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Runs `product` for every format, shape and kind of call. `numbers_of` returns the dtype that a format's weights are
/// rounded to first, and the bound for the results.
fn each_quantized(
    product: impl Fn(&Tensor, &QTensor, &Option<Tensor>, &Routing) -> Result<Tensor>,
    numbers_of: impl Fn(GgmlDType) -> (DType, f64),
) -> Result<()> {
    let (device, mut random) = (device(), Numbers::new(2));
    for format in FORMATS {
        let (k, (rounded, bound)) = (2 * format.block_size(), numbers_of(format));
        let weights = numbers((EXPERTS, N, k), &mut random)?;
        let there = QTensor::quantize_onto(&weights, format, &device)?;
        let weights = QTensor::quantize(&weights, format)?.dequantize(&Device::Cpu)?.to_dtype(rounded)?;
        for (inputs, topk) in SHAPES {
            let routing = Routing::new(&mut random, inputs, topk, &device)?;
            for second in [false, true] {
                let x = whole_numbers(routing.input_rows(second), k, &mut random)?;
                let got = product(&x.to_device(&device)?, &there, &routing.weights(second), &routing)?;
                assert_eq!(got.dtype(), DType::F32);
                routing.compare(second, &rows(&x)?, &weights, &got, (bound, 0.0))?;
            }
        }
    }
    Ok(())
}

#[test]
fn quantized_products_of_a_decode_step() -> Result<()> {
    let product = |x: &Tensor, w: &QTensor, scales: &Option<Tensor>, r: &Routing| {
        moe_gemm_gguf(x, w, scales, &r.sorted, &r.experts_ids, r.topk, false, DType::F16)
    };
    each_quantized(product, |_| (DType::F32, 1e-5))
}

/// One token, whose results are summed in the product's launch, and several.
#[test]
fn sums_of_experts() -> Result<()> {
    let (device, mut random) = (device(), Numbers::new(7));
    for format in FORMATS {
        let k = 2 * format.block_size();
        let weights = QTensor::quantize_onto(&numbers((EXPERTS, N, k), &mut random)?, format, &device)?;
        for (inputs, topk) in SHAPES {
            let r = Routing::new(&mut random, inputs, topk, &device)?;
            let x = whole_numbers(r.input_rows(true), k, &mut random)?.to_device(&device)?;
            let scales = r.topk_weights.clone();
            let each =
                moe_gemm_gguf(&x, &weights, &r.weights(true), &r.sorted, &r.experts_ids, topk, false, DType::F16)?;
            let expected = rows(&each.reshape((inputs, topk, N))?.sum(1)?)?;
            for _ in 0..2 {
                let got = fused::expert_sum(
                    &x,
                    &weights,
                    scales.clone(),
                    &r.sorted,
                    &r.experts_ids,
                    topk,
                    false,
                    DType::F16,
                )?;
                assert_eq!((got.dims(), got.dtype()), (&[inputs, N][..], DType::F32));
                for (got, expected) in rows(&got)?.concat().iter().zip(expected.concat()) {
                    assert!((got - expected).abs() <= 1e-5 * (1.0 + expected.abs()), "{got} is not {expected}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn quantized_products_of_a_prompt() -> Result<()> {
    for (dtype, half_ulp) in [(DType::F16, 2f64.powi(-11)), (DType::BF16, 2f64.powi(-8))] {
        let product = |x: &Tensor, w: &QTensor, scales: &Option<Tensor>, r: &Routing| {
            moe_gemm_gguf(x, w, scales, &r.sorted, &r.experts_ids, r.topk, true, dtype)
        };
        // The weights are rounded to the dtype. For the K formats this happens in f16 steps: half a unit in the last
        // place of the scaled code, of the minimum, and of their difference, which bf16 rounds again. The scaled code
        // spans from the row's smallest to its largest weight, so it reaches twice the largest magnitude.
        let in_steps = 4.0 * 2f64.powi(-11) + if dtype == DType::BF16 { half_ulp } else { 0.0 };
        each_quantized(product, |format| match format.block_size() {
            32 => (dtype, 1e-5),
            _ => (DType::F32, in_steps),
        })?;
    }
    Ok(())
}

#[test]
fn products_by_ids() -> Result<()> {
    let (device, mut random) = (device(), Numbers::new(5));
    let (batch, topk) = (5, 3);
    for format in FORMATS {
        let k = 2 * format.block_size();
        let weights = numbers((EXPERTS, N, k), &mut random)?;
        let there = QTensor::quantize_onto(&weights, format, &device)?;
        let weights = QTensor::quantize(&weights, format)?.dequantize(&Device::Cpu)?;
        let ids: Vec<u32> = (0..batch * topk).map(|_| random.below(EXPERTS) as u32).collect();
        let ids = Tensor::from_vec(ids, (batch, topk), &Device::Cpu)?;
        for (inputs, dtype, half_ulp) in [
            (1, DType::F32, 0.0),
            (topk, DType::F32, 0.0),
            (topk, DType::F16, 2f64.powi(-11)),
            (1, DType::BF16, 2f64.powi(-8)),
        ] {
            let x = whole_numbers(batch * inputs, k, &mut random)?;
            let x_there = x.reshape((batch, inputs, k))?.to_device(&device)?.to_dtype(dtype)?;
            let got = there.indexed_moe_forward(&x_there, &ids.to_device(&device)?)?;
            assert_eq!((got.dims(), got.dtype()), (&[batch, topk, N][..], dtype));
            // Multiplies every expert's rows by every row of x on the CPU. The ids select the results.
            let all = weights.reshape((EXPERTS * N, k))?.matmul(&x.t()?)?.reshape((EXPERTS, N, batch * inputs))?;
            let (all, x, got) = (all.to_vec3::<f32>()?, rows(&x)?, got.to_dtype(DType::F32)?.to_vec3::<f32>()?);
            for (b, experts) in ids.to_vec2::<u32>()?.iter().enumerate() {
                for (t, &expert) in experts.iter().enumerate() {
                    let row = b * inputs + t % inputs;
                    let bound = 2e-5 * x[row].iter().map(|x| f64::from(x.abs())).sum::<f64>();
                    for (n, got) in got[b][t].iter().enumerate() {
                        let (expected, got) = (f64::from(all[expert as usize][n][row]), f64::from(*got));
                        let allowed = bound + half_ulp * expected.abs();
                        assert!((got - expected).abs() <= allowed, "{format:?}: {got} is not {expected} +- {allowed}");
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn products_by_ids_refuse_what_does_not_fit() -> Result<()> {
    let (device, cpu) = (device(), Device::Cpu);
    let k = 256;
    let weights =
        |device: &Device| QTensor::quantize(&Tensor::zeros((EXPERTS, N, k), DType::F32, device)?, GgmlDType::Q4K);
    let (w, w_cpu) = (weights(&device)?, weights(&cpu)?);
    let (x, ids) = (Tensor::zeros((3, 1, k), DType::F32, &device)?, Tensor::zeros((3, 2), DType::U32, &device)?);
    assert_eq!(w.indexed_moe_forward(&x, &ids)?.dims(), [3, 2, N]);
    says!(w.indexed_moe_forward(&x.to_device(&cpu)?, &ids), "weights are on Rocm", "x on Cpu", "ids on Rocm");
    says!(w.indexed_moe_forward(&x, &ids.to_device(&cpu)?), "weights are on Rocm", "x on Rocm", "ids on Cpu");
    says!(w_cpu.indexed_moe_forward(&x, &ids), "weights are on Cpu", "x on Rocm");
    says!(w.indexed_moe_forward(&x, &ids.to_dtype(DType::I64)?), "indexed_moe: ids", "I64", "U32");
    says!(w.indexed_moe_forward(&x.to_dtype(DType::F64)?, &ids), "F64", "indexed_moe");
    says!(w.indexed_moe_forward(&x.narrow(2, 0, k / 2)?, &ids), "indexed_moe", "256", "128");
    says!(w.indexed_moe_forward(&x.narrow(0, 0, 2)?, &ids), "indexed_moe", "[2, 1, 256]", "[3, 2]");
    says!(w.indexed_moe_forward(&x.squeeze(1)?, &ids), "rank", "2");
    says!(w.indexed_moe_forward(&x.broadcast_as((3, 2, k))?, &ids), "indexed_moe: x is not contiguous");
    says!(w.indexed_moe_forward(&x.repeat((1, 3, 1))?, &ids), "CRK_INVALID_ARGUMENT", "inputs", "3");
    let floats = QTensor::quantize(&Tensor::zeros((EXPERTS, N, k), DType::F32, &device)?, GgmlDType::F16)?;
    says!(floats.indexed_moe_forward(&x, &ids), "no kernel", "F16");
    says!(QMatMul::from_qtensor(floats)?.indexed_moe_forward(&x, &ids), "indexed_moe_forward", "plain floats");
    Ok(())
}

#[test]
fn a_product_of_views_and_of_no_tokens() -> Result<()> {
    let (device, mut random) = (device(), Numbers::new(3));
    let (k, topk) = (64, 2);
    let routing = Routing::new(&mut random, 3, topk, &device)?;
    let weights = numbers((EXPERTS + 1, N, k), &mut random)?.to_dtype(DType::F16)?;
    let x = numbers((5, k), &mut random)?.to_dtype(DType::F16)?;
    // Contiguous tensors that do not begin at the start of their storage.
    let (w_there, x_there) =
        (weights.to_device(&device)?.narrow(0, 1, EXPERTS)?, x.to_device(&device)?.narrow(0, 2, 3)?);
    let got = moe_gemm(&x_there, &w_there, &None, &routing.sorted, &routing.experts_ids, topk, true)?;
    let (w, x) = (weights.narrow(0, 1, EXPERTS)?, x.narrow(0, 2, 3)?);
    routing.compare(false, &rows(&x)?, &w, &got, (1e-5, 2f64.powi(-11)))?;

    let (none, no_ids) = (x_there.narrow(0, 0, 0)?, routing.sorted.narrow(0, 0, 0)?);
    assert_eq!(moe_gemm(&none, &w_there, &None, &no_ids, &no_ids, topk, true)?.dims(), [0, N]);
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Result<()> {
    let (device, cpu) = (device(), Device::Cpu);
    let (k, topk) = (256, 2);
    let r = Routing::new(&mut Numbers::new(4), 3, topk, &device)?;
    let zeros = |dims: &[usize], dtype| Tensor::zeros(dims, dtype, &device);
    let (x, w) = (zeros(&[3, k], DType::F16)?, zeros(&[EXPERTS, N, k], DType::F16)?);
    let gemm = |x: &Tensor, w: &Tensor| moe_gemm(x, w, &None, &r.sorted, &r.experts_ids, topk, true);
    assert_eq!(gemm(&x, &w)?.dims(), [6, N]);
    says!(gemm(&zeros(&[3, k / 2], DType::F16)?, &w), "256", "128");
    says!(gemm(&zeros(&[3 * k], DType::F16)?, &w), "rank", "1");
    says!(gemm(&x, &zeros(&[N, k], DType::F16)?), "rank", "2");
    says!(gemm(&zeros(&[3, k], DType::F32)?, &w), "moe_gemm: x", "F32", "F16 or BF16");
    says!(gemm(&x, &zeros(&[EXPERTS, N, k], DType::BF16)?), "moe_gemm: weights", "BF16", "F16");
    says!(gemm(&zeros(&[k, 3], DType::F16)?.t()?, &w), "moe_gemm: x is not contiguous", "[1, 3]");
    says!(gemm(&zeros(&[3, 12], DType::F16)?, &zeros(&[EXPERTS, N, 12], DType::F16)?), "k is 12");
    says!(gemm(&x.to_device(&cpu)?, &w), "moe_gemm: x is on Cpu");
    says!(gemm(&x, &w.to_device(&cpu)?), "moe_gemm: weights is on Cpu");

    let ids = |sorted: &Tensor, experts: &Tensor, topk| moe_gemm(&x, &w, &None, sorted, experts, topk, true);
    says!(ids(&r.sorted.to_device(&cpu)?, &r.experts_ids, topk), "moe_gemm: sorted_token_ids is on Cpu");
    says!(ids(&r.sorted, &r.experts_ids.to_device(&cpu)?, topk), "moe_gemm: expert_ids is on Cpu");
    says!(ids(&r.sorted.to_dtype(DType::I64)?, &r.experts_ids, topk), "moe_gemm: sorted_token_ids", "U32", "I64");
    says!(ids(&r.sorted.narrow(0, 0, 5)?, &r.experts_ids, topk), "CRK_OUT_OF_BOUNDS", "sorted_token_ids");
    says!(ids(&r.sorted, &r.experts_ids, 4), "CRK_OUT_OF_BOUNDS");
    says!(ids(&r.sorted, &r.experts_ids, 0), "topk");
    says!(ids(&r.sorted, &r.experts_ids, usize::MAX), "CRK_OUT_OF_MEMORY");
    let scaled = |scales: Tensor| moe_gemm(&x, &w, &Some(scales), &r.sorted, &r.experts_ids, topk, true);
    says!(scaled(r.topk_weights.to_dtype(DType::F16)?), "moe_gemm: topk_weights", "F32", "F16");
    says!(scaled(r.topk_weights.to_device(&cpu)?), "moe_gemm: topk_weights is on Cpu");
    says!(scaled(r.topk_weights.flatten_all()?.narrow(0, 0, 2)?), "CRK_OUT_OF_BOUNDS", "topk_weights");

    let x = zeros(&[3, k], DType::F32)?;
    let blocks = |dims: &[usize], format| QTensor::quantize(&zeros(dims, DType::F32)?, format);
    let w = blocks(&[EXPERTS, N, k], GgmlDType::Q4K)?;
    let gguf = |x: &Tensor, w: &QTensor, is_prefill, dtype| {
        moe_gemm_gguf(x, w, &None, &r.sorted, &r.experts_ids, topk, is_prefill, dtype)
    };
    assert_eq!(gguf(&x, &w, true, DType::BF16)?.dims(), [6, N]);
    says!(gguf(&x.to_dtype(DType::F16)?, &w, true, DType::F16), "moe_gemm_gguf: x", "F32", "F16");
    says!(gguf(&x, &w, true, DType::F32), "CRK_UNSUPPORTED", "f32");
    says!(gguf(&zeros(&[3, k / 2], DType::F32)?, &w, false, DType::F16), "256", "128");
    says!(gguf(&x, &blocks(&[N, k], GgmlDType::Q4K)?, false, DType::F16), "rank", "2");
    says!(gguf(&x, &blocks(&[EXPERTS, N, k], GgmlDType::Q8K)?, false, DType::F16), "CRK_UNSUPPORTED", "q8_K");
    says!(gguf(&x, &blocks(&[EXPERTS, N, k], GgmlDType::F16)?, false, DType::F16), "no kernel", "F16");
    let on_cpu = QTensor::quantize(&Tensor::zeros((EXPERTS, N, k), DType::F32, &cpu)?, GgmlDType::Q4K)?;
    says!(gguf(&x, &on_cpu, false, DType::F16), "Cpu", "rocm");
    says!(gguf(&x.to_device(&cpu)?, &w, false, DType::F16), "moe_gemm_gguf: x is on Cpu");
    Ok(())
}

#[test]
fn an_expert_out_of_range_is_told_at_the_next_synchronisation() -> Result<()> {
    // A device with its own stream, so that no other test's synchronisation takes the report.
    let device = Device::new_rocm_with_stream(0)?;
    let (x, w) = (Tensor::ones((1, 8), DType::F16, &device)?, Tensor::ones((2, 1, 8), DType::F16, &device)?);
    let (sorted, experts) = (Tensor::new(&[0u32, 1], &device)?, Tensor::new(&[1u32, 2], &device)?);
    let got = moe_gemm(&x, &w, &None, &sorted, &experts, 2, true)?;
    says!(device.synchronize(), "CRK_OUT_OF_RANGE", "moe_gemm", "2");
    assert_eq!(rows(&got)?[0], [8.0]);
    Ok(())
}
