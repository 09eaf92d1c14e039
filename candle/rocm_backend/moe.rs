//! Mixtures of experts: a part of candle-nn's `moe`.
use candle::backend::BackendStorage;
use candle::op::BackpropOp;
use candle::quantized::{QTensor, rocm::QRocmStorage};
use candle::rocm_backend::kernels::{Buffer, GateOp, Routes, View};
use candle::rocm_backend::{RocmStorage, WrapErr, dtype_of};
use candle::{DType, Layout, Result, Storage, Tensor, bail};

/// Token and expert numbers. Candle stores them as u32 and the launchers read i32; both agree below 2^31, and all
/// numbers are smaller.
fn ids<'a>(storage: &'a Storage, layout: &Layout, op: &'static str, argument: &'static str) -> Result<View<'a>> {
    let storage = RocmStorage::of(storage, op, argument)?;
    storage.expect_dtype(DType::U32, op, argument)?;
    storage.contiguous(layout, op, argument)
}

/// The routing of one call: which tokens go to which experts, with which weights.
struct Tokens<'a> {
    op: &'static str,
    sorted: &'a Tensor,
    experts: &'a Tensor,
    weights: Option<&'a Tensor>,
    topk: usize,
}

impl Tokens<'_> {
    /// The number of results. With weights, the input has one row per result; without, `topk` results share each row.
    fn count(&self, inputs: usize) -> usize {
        inputs.saturating_mul(if self.weights.is_some() { 1 } else { self.topk })
    }

    /// Calls `run` with the buffers of the routing.
    fn with<T>(&self, inputs: usize, run: impl FnOnce(Routes<'_>) -> Result<T>) -> Result<T> {
        let (sorted, sorted_l) = self.sorted.storage_and_layout();
        let (experts, experts_l) = self.experts.storage_and_layout();
        let weights = self.weights.map(|weights| weights.storage_and_layout());
        let topk_weights = match &weights {
            None => None,
            Some((weights, layout)) => {
                let weights = RocmStorage::of(weights, self.op, "topk_weights")?;
                weights.expect_dtype(DType::F32, self.op, "topk_weights")?;
                Some(weights.contiguous(layout, self.op, "topk_weights")?)
            }
        };
        run(Routes {
            tokens: self.count(inputs),
            topk: self.topk,
            sorted_token_ids: ids(&sorted, sorted_l, self.op, "sorted_token_ids")?,
            expert_ids: ids(&experts, experts_l, self.op, "expert_ids")?,
            topk_weights,
        })
    }
}

/// Memory for `rows` times `columns` elements, contents undefined. `x` is on the same device.
fn empty(x: &RocmStorage, rows: usize, columns: usize, dtype: DType) -> Result<Buffer> {
    // Saturates: no device has that much memory, so the allocation fails.
    let bytes = rows.saturating_mul(columns).saturating_mul(dtype.size_in_bytes());
    x.device().handle().alloc(bytes).w()
}

/// The tensor with this memory, on the device of `x`.
fn filled(x: &RocmStorage, memory: Buffer, rows: usize, columns: usize, dtype: DType) -> Tensor {
    tensor(RocmStorage::new(memory, dtype, x.device().clone()), rows, columns)
}

fn tensor(storage: RocmStorage, rows: usize, columns: usize) -> Tensor {
    Tensor::from_storage(Storage::Rocm(storage), (rows, columns), BackpropOp::none(), false)
}

/// Multiplies each token's row of `input` (tokens, k) by the weights (experts, n, k) of its expert, with
/// `crk_moe_gemm`. `input` and `weights` are both f16 or both bf16. Prompts and single tokens take the same path.
pub fn moe_gemm(
    input: &Tensor,
    weights: &Tensor,
    topk_weights: &Option<Tensor>,
    sorted_token_ids: &Tensor,
    experts_ids: &Tensor,
    topk: usize,
    _is_prefill: bool,
) -> Result<Tensor> {
    let (inputs, k) = input.dims2()?;
    let (experts, n, weights_k) = weights.dims3()?;
    if k != weights_k {
        bail!("moe_gemm: x has rows of {k}, weights of {weights_k}")
    }
    if !matches!(input.dtype(), DType::F16 | DType::BF16) {
        bail!("moe_gemm: x is of {:?}, not of F16 or BF16", input.dtype())
    }
    let op = "moe_gemm";
    let tokens = Tokens { op, sorted: sorted_token_ids, experts: experts_ids, weights: topk_weights.as_ref(), topk };
    let count = tokens.count(inputs);
    let ((x, x_l), (w, w_l)) = (input.storage_and_layout(), weights.storage_and_layout());
    let (x, w) = (RocmStorage::of(&x, op, "x")?, RocmStorage::of(&w, op, "weights")?);
    w.expect_dtype(x.dtype(), op, "weights")?;
    let dtype = dtype_of(x.dtype(), op)?;
    let (input, weights) = (x.contiguous(x_l, op, "x")?, w.contiguous(w_l, op, "weights")?);
    let dst = empty(x, count, n, x.dtype())?;
    tokens.with(inputs, |routes| {
        x.device().handle().moe_gemm(dtype, (experts, n, k), routes, weights, input, &dst, None).w()
    })?;
    Ok(filled(x, dst, count, n, x.dtype()))
}

/// Multiplies each token's row of `input` (tokens, k), f32, by the quantized weights (experts, n, k) of its expert. It
/// calls `crk_moe_gguf`, or for prompts `crk_moe_gguf_prefill`, which computes in `dtype`.
#[allow(clippy::too_many_arguments)]
pub fn moe_gemm_gguf(
    input: &Tensor,
    weights: &QTensor,
    topk_weights: &Option<Tensor>,
    sorted_token_ids: &Tensor,
    experts_ids: &Tensor,
    topk: usize,
    is_prefill: bool,
    dtype: DType,
) -> Result<Tensor> {
    let (inputs, k) = input.dims2()?;
    let (experts, n, weights_k) = weights.shape().dims3()?;
    if k != weights_k {
        bail!("moe_gemm_gguf: x has rows of {k}, weights of {weights_k}")
    }
    if input.dtype() != DType::F32 {
        bail!("moe_gemm_gguf: x is of {:?}, not of F32", input.dtype())
    }
    let input = if is_prefill { input.to_dtype(dtype)? } else { input.clone() };
    let quantized = weights.rocm_storage()?;
    let op = "moe_gemm_gguf";
    let tokens = Tokens { op, sorted: sorted_token_ids, experts: experts_ids, weights: topk_weights.as_ref(), topk };
    let count = tokens.count(inputs);
    let (x, x_l) = input.storage_and_layout();
    let x = RocmStorage::of(&x, op, "x")?;
    let x_dtype = dtype_of(x.dtype(), op)?;
    let (quant, handle, shape) = (quantized.quant()?, x.device().handle(), (experts, n, k));
    let dst = empty(x, count, n, DType::F32)?;
    tokens.with(inputs, |routes| {
        let weights = quantized.buffer();
        // Only inputs whose columns are not kept are borrowed.
        let view = || x.contiguous(x_l, op, "x");
        if is_prefill {
            handle.moe_gguf_prefill(quant, x_dtype, shape, routes, weights, view()?, &dst).w()
        } else if let Some(columns) = x.columns_of(x_l)? {
            handle.moe_gguf_columns(quant, shape, routes, weights, &columns, &dst).w()
        } else {
            handle.moe_gguf(quant, x_dtype, shape, routes, weights, view()?, &dst).w()
        }
    })?;
    Ok(filled(x, dst, count, n, DType::F32))
}

/// The sum of the results of [`moe_gemm_gguf`] for a single token. None where `crk_moe_gguf_sum` does not take the
/// tensors.
pub(crate) fn sum_gguf(
    input: &Tensor,
    weights: &QTensor,
    topk_weights: &Tensor,
    sorted_token_ids: &Tensor,
    experts_ids: &Tensor,
    topk: usize,
) -> Result<Option<Tensor>> {
    let (inputs, k) = input.dims2()?;
    let (experts, n, weights_k) = weights.shape().dims3()?;
    let fits = inputs == topk && k == weights_k && k > 0 && input.dtype() == DType::F32;
    if !input.device().is_rocm() || input.track_op() || !fits {
        return Ok(None);
    }
    let (x, x_l) = input.storage_and_layout();
    let tokens = Tokens {
        op: "moe_sum_gguf",
        sorted: sorted_token_ids,
        experts: experts_ids,
        weights: Some(topk_weights),
        topk,
    };
    let (x, quantized) = (RocmStorage::of(&x, tokens.op, "x")?, weights.rocm_storage()?);
    let Some(columns) = x.columns_of(x_l)? else { return Ok(None) };
    let dst = empty(x, 1, n, DType::F32)?;
    tokens.with(inputs, |routes| {
        let (shape, handle) = ((experts, n, k), x.device().handle());
        handle.moe_gguf_sum(quantized.quant()?, shape, routes, quantized.buffer(), &columns, &dst).w()
    })?;
    Ok(Some(filled(x, dst, 1, n, DType::F32)))
}

/// `op(gate) * up` of the experts' products with `input` (tokens, k), f32. The results have the columns of the next
/// product with quantized weights. None where `crk_moe_gguf_gate` does not take the tensors.
pub(crate) fn gate_gguf(
    op: GateOp,
    [gate, up]: [&QTensor; 2],
    input: &Tensor,
    sorted_token_ids: &Tensor,
    experts_ids: &Tensor,
    topk: usize,
) -> Result<Option<Tensor>> {
    if !input.device().is_rocm() || input.track_op() {
        return Ok(None);
    }
    let (inputs, n) = (input.dims2()?.0, gate.shape().dims3()?.1);
    let tokens = Tokens { op: "moe_gate_gguf", sorted: sorted_token_ids, experts: experts_ids, weights: None, topk };
    let (x, x_l) = input.storage_and_layout();
    let x = RocmStorage::of(&x, tokens.op, "x")?;
    let weights = [(gate.rocm_storage()?, gate.shape()), (up.rocm_storage()?, up.shape())];
    let gated = tokens.with(inputs, |routes| QRocmStorage::expert_gate(op, weights, routes, x, x_l))?;
    Ok(gated.map(|gated| tensor(gated, tokens.count(inputs), n)))
}
