//! Ops that models do together. On a ROCm device most of them are one launch. On every other device, and where a tensor
//! is tracked for gradients, they are the separate ops. Results have the same bits as those of the separate ops, but
//! for gates (two units in the last place), norms of rows that are not contiguous, [`route`], attention,
//! [`rms_norm_once`], [`add_rms_norm_once`], [`batch_norm_once`], [`group_norm_once`] and products of dense layers.
use crate::Activation;
use candle::quantized::QTensor;
use candle::{D, DType, Result, Tensor};

#[cfg(feature = "_rocm")]
use candle::{
    Storage,
    op::BackpropOp,
    rocm_backend::{Caches, RocmStorage, kernels, kernels::GateOp},
};

mod attention;
mod products;
pub use attention::*;
pub use products::*;

/// Whether the fused kernels take the tensors.
#[cfg(feature = "_rocm")]
fn takes(tensors: &[&Tensor]) -> bool {
    let first = tensors[0];
    first.device().is_rocm()
        && matches!(first.dtype(), DType::F16 | DType::BF16 | DType::F32 | DType::F64)
        && tensors.iter().all(|t| t.device().same_device(first.device()) && t.dtype() == first.dtype() && !t.track_op())
}

#[cfg(feature = "_rocm")]
fn of(storage: RocmStorage, like: &Tensor) -> Tensor {
    Tensor::from_storage(Storage::Rocm(storage), like.shape(), BackpropOp::none(), false)
}

/// `cat` of a cache and new rows along `dim`. On a ROCm device the cache grows in place where it has room
/// (`candle::rocm_backend::grow`), and the result may not be contiguous.
pub fn grow<A: AsRef<Tensor>>(args: &[A; 2], dim: usize) -> Result<Tensor> {
    #[cfg(feature = "_rocm")]
    if let Some(grown) = candle::rocm_backend::grow(args[0].as_ref(), args[1].as_ref(), dim)? {
        return Ok(grown);
    }
    Tensor::cat(args, dim)
}

/// [`grow`] for a model that makes the result contiguous. On a ROCm device it is so only if it did not grow in place.
pub fn grow_contiguous<A: AsRef<Tensor>>(args: &[A; 2], dim: usize) -> Result<Tensor> {
    let grown = grow(args, dim)?;
    if grown.device().is_rocm() { Ok(grown) } else { grown.contiguous() }
}

/// Rotates new queries and keys (batch, heads, tokens, d), and appends the keys and the values to their caches. `cos`
/// and `sin` have a row for each new token. `interleaved` says that pairs are neighbours, as for `rope_i`. A ROCm
/// device does all this in one launch, and its caches grow in place as by [`grow`].
pub fn rope_grow(
    [q, k, v]: [&Tensor; 3],
    [cos, sin]: [&Tensor; 2],
    interleaved: bool,
    cache: Option<(&Tensor, &Tensor)>,
) -> Result<[Tensor; 3]> {
    #[cfg(feature = "_rocm")]
    if let Some(done) = candle::rocm_backend::rope_grow([q, k, v], [cos, sin], interleaved, Caches::Growing(cache))? {
        return Ok(done);
    }
    let [q, k, v] = rotated([q, k, v], [cos, sin], interleaved)?;
    match cache {
        None => Ok([q, k, v]),
        Some((keys, values)) => Ok([q, grow(&[keys, &k], 2)?, grow(&[values, &v], 2)?]),
    }
}

/// [`rope_grow`] with the angles of all places: the new tokens have those from `offset` on.
pub fn rope_grow_at(
    qkv: [&Tensor; 3],
    [cos, sin]: [&Tensor; 2],
    offset: usize,
    interleaved: bool,
    cache: &Option<(Tensor, Tensor)>,
) -> Result<[Tensor; 3]> {
    let tokens = qkv[0].dim(2)?;
    let (cos, sin) = (cos.narrow(0, offset, tokens)?, sin.narrow(0, offset, tokens)?);
    rope_grow(qkv, [&cos, &sin], interleaved, cache.as_ref().map(|(keys, values)| (keys, values)))
}

fn rotated([q, k, v]: [&Tensor; 3], [cos, sin]: [&Tensor; 2], interleaved: bool) -> Result<[Tensor; 3]> {
    let rope = if interleaved { crate::rotary_emb::rope_i } else { crate::rotary_emb::rope };
    let rotate = |x: &Tensor| rope(&x.contiguous()?, &cos.contiguous()?, &sin.contiguous()?);
    Ok([rotate(q)?, rotate(k)?, v.contiguous()?])
}

/// [`rope_grow`] for a model with caches of another kind: the new queries, keys and values alone, all contiguous.
pub fn rope_qkv(qkv: [&Tensor; 3], angles: [&Tensor; 2], interleaved: bool) -> Result<[Tensor; 3]> {
    #[cfg(feature = "_rocm")]
    if let Some(done) = candle::rocm_backend::rope_grow(qkv, angles, interleaved, Caches::Apart)? {
        return Ok(done);
    }
    rotated(qkv, angles, interleaved)
}

/// An RMS norm: its factors and epsilon.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    pub weight: &'a Tensor,
    pub eps: f64,
}

/// The norms of the heads of `x` (batch, heads, tokens, d).
fn normed_heads(x: &Tensor, norm: Norm<'_>) -> Result<Tensor> {
    let flat = x.flatten(0, 2)?;
    crate::ops::rms_norm(&flat.contiguous()?, norm.weight, norm.eps as f32)?.reshape(x.shape())
}

/// [`rope_grow`] of queries and keys whose heads are normalised first. Everything then gets the dtype of the angles,
/// which is that of the caches.
pub fn norm_rope_grow(
    qkv: [&Tensor; 3],
    norms: [Norm<'_>; 2],
    angles: [&Tensor; 2],
    cache: Option<(&Tensor, &Tensor)>,
) -> Result<[Tensor; 3]> {
    #[cfg(feature = "_rocm")]
    if let Some(done) = normed_and_rotated(qkv, norms, angles, Caches::Growing(cache))? {
        return Ok(done);
    }
    let [q, k, v] = normed(qkv, norms, angles[0].dtype())?;
    rope_grow([&q, &k, &v], angles, false, cache)
}

/// [`norm_rope_grow`] for a model with caches of another kind: the new queries, keys and values alone, all contiguous.
pub fn norm_rope_qkv(qkv: [&Tensor; 3], norms: [Norm<'_>; 2], angles: [&Tensor; 2]) -> Result<[Tensor; 3]> {
    #[cfg(feature = "_rocm")]
    if let Some(done) = normed_and_rotated(qkv, norms, angles, Caches::Apart)? {
        return Ok(done);
    }
    let [q, k, v] = normed(qkv, norms, angles[0].dtype())?;
    rope_qkv([&q, &k, &v], angles, false)
}

/// [`norm_rope_qkv`] or, without norms, [`rope_qkv`]. A ROCm device writes the keys and values to `slots`, which are
/// rows of caches, in the same launch. The first result says whether it did.
pub(crate) fn rope_into(
    qkv: [&Tensor; 3],
    norms: Option<[Norm<'_>; 2]>,
    angles: [&Tensor; 2],
    slots: Option<(Tensor, Tensor)>,
) -> Result<(bool, [Tensor; 3])> {
    #[cfg(feature = "_rocm")]
    if let Some((keys, values)) = &slots {
        let caches = Caches::Slots(keys, values);
        let done = match norms {
            Some(norms) => normed_and_rotated(qkv, norms, angles, caches)?,
            None => candle::rocm_backend::rope_grow(qkv, angles, false, caches)?,
        };
        if let Some(done) = done {
            return Ok((true, done));
        }
    }
    let _ = slots;
    let done = match norms {
        Some(norms) => norm_rope_qkv(qkv, norms, angles)?,
        None => rope_qkv(qkv, angles, false)?,
    };
    Ok((false, done))
}

#[cfg(feature = "_rocm")]
fn normed_and_rotated(
    qkv: [&Tensor; 3],
    norms: [Norm<'_>; 2],
    angles: [&Tensor; 2],
    caches: Caches<'_>,
) -> Result<Option<[Tensor; 3]>> {
    let norms = norms.map(|norm| candle::rocm_backend::HeadNorm { weight: norm.weight, eps: norm.eps });
    candle::rocm_backend::norm_rope_grow(qkv, norms, angles, caches)
}

fn normed([q, k, v]: [&Tensor; 3], norms: [Norm<'_>; 2], dtype: DType) -> Result<[Tensor; 3]> {
    let (q, k) = (normed_heads(q, norms[0])?, normed_heads(k, norms[1])?);
    Ok([q.to_dtype(dtype)?, k.to_dtype(dtype)?, v.to_dtype(dtype)?])
}

#[cfg(feature = "_rocm")]
fn gate_op(activation: Activation) -> Option<GateOp> {
    Some(match activation {
        Activation::Silu | Activation::Swish => GateOp::Silu,
        Activation::NewGelu | Activation::GeluPytorchTanh => GateOp::Gelu,
        Activation::Gelu => GateOp::GeluErf,
        Activation::Relu => GateOp::Relu,
        Activation::Sigmoid => GateOp::Sigmoid,
        _ => return None,
    })
}

/// Takes the tensors: the memory of `gate` is free before the last op.
fn gate_of(activation: Activation, gate: Tensor, up: Tensor, for_products: bool) -> Result<Tensor> {
    #[cfg(feature = "_rocm")]
    if let Some(op) = gate_op(activation) {
        if gate.dims() == up.dims() && takes(&[&gate, &up]) {
            let ((g, g_l), (u, u_l)) = (gate.storage_and_layout(), up.storage_and_layout());
            let (g, u) = (RocmStorage::of(&g, "gate", "gate")?, RocmStorage::of(&u, "gate", "up")?);
            return Ok(of(g.gate(op, g_l, (u, u_l), for_products)?, &gate));
        }
    }
    let _ = for_products;
    let activated = gate.apply(&activation)?;
    drop(gate);
    activated * up
}

/// `activation(gate) * up`.
pub fn gate(activation: Activation, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gate_of(activation, gate.clone(), up.clone(), false)
}

/// `activation(x * gate) * (x * up)` of the tokens' experts, as the input of another product with quantized weights.
/// The arguments are those of [`crate::moe::moe_gemm_gguf`] without weights of the experts.
#[allow(clippy::too_many_arguments)]
pub fn expert_gate(
    activation: Activation,
    [gate, up]: [&QTensor; 2],
    x: &Tensor,
    sorted_token_ids: &Tensor,
    expert_ids: &Tensor,
    topk: usize,
    is_prefill: bool,
    dtype: DType,
) -> Result<Tensor> {
    #[cfg(feature = "_rocm")]
    if let (false, Some(op)) = (is_prefill, gate_op(activation)) {
        if let Some(gated) = crate::moe::gate_gguf(op, [gate, up], x, sorted_token_ids, expert_ids, topk)? {
            return Ok(gated);
        }
    }
    let product = |weights: &QTensor| {
        crate::moe::moe_gemm_gguf(x, weights, &None, sorted_token_ids, expert_ids, topk, is_prefill, dtype)
    };
    gate_of(activation, product(gate)?, product(up)?, !is_prefill)
}

/// The sum over each token's experts of their products with the rows of `x` (tokens * topk, k), times the weights of
/// the experts. The arguments are those of [`crate::moe::moe_gemm_gguf`].
#[allow(clippy::too_many_arguments)]
pub fn expert_sum(
    x: &Tensor,
    weights: &QTensor,
    topk_weights: Tensor,
    sorted_token_ids: &Tensor,
    expert_ids: &Tensor,
    topk: usize,
    is_prefill: bool,
    dtype: DType,
) -> Result<Tensor> {
    #[cfg(feature = "_rocm")]
    if !is_prefill {
        if let Some(sum) = crate::moe::sum_gguf(x, weights, &topk_weights, sorted_token_ids, expert_ids, topk)? {
            return Ok(sum);
        }
    }
    let scales = Some(topk_weights);
    let ys = crate::moe::moe_gemm_gguf(x, weights, &scales, sorted_token_ids, expert_ids, topk, is_prefill, dtype)?;
    let (results, n) = ys.dims2()?;
    ys.reshape((results / topk.max(1), topk, n))?.sum(1)
}

/// Whether the fused kernels take `x`, with `other` of its shape, and the factors of its norm.
#[cfg(feature = "_rocm")]
fn takes_norm(x: &Tensor, other: &Tensor, weight: &Tensor) -> bool {
    x.dims() == other.dims()
        && [x, other, weight].iter().all(|t| t.is_contiguous())
        && weight.elem_count() == x.dims().last().copied().unwrap_or(0)
        && takes(&[x, other, weight])
}

/// The weights beside the residual are those of a norm of `x` before the sum.
#[cfg(feature = "_rocm")]
fn norm(
    x: &Tensor,
    residual: Option<(&Tensor, Option<&Tensor>)>,
    weight: &Tensor,
    eps: f64,
    for_products: bool,
) -> Result<Option<(Option<Tensor>, Tensor)>> {
    let (residual, first) = residual.unzip();
    let (other, first) = (residual.unwrap_or(x), first.flatten());
    if !takes_norm(x, other, weight) || !takes_norm(x, other, first.unwrap_or(weight)) {
        return Ok(None);
    }
    let ((x_s, x_l), (w, w_l)) = (x.storage_and_layout(), weight.storage_and_layout());
    let [residual, first] = [residual, first].map(|t| t.map(|t| t.storage_and_layout()));
    let (x_s, w) = (RocmStorage::of(&x_s, "norm", "x")?, RocmStorage::of(&w, "norm", "weight")?);
    let first = match &first {
        Some((storage, layout)) => Some((RocmStorage::of(storage, "norm", "first")?, *layout)),
        None => None,
    };
    let residual = match &residual {
        Some((storage, layout)) => Some(((RocmStorage::of(storage, "norm", "residual")?, *layout), first)),
        None => None,
    };
    let (sum, normed) = x_s.add_rms_norm(x_l, residual, (w, w_l), eps as f32, for_products)?;
    Ok(Some((sum.map(|sum| of(sum, x)), of(normed, x))))
}

/// `x + residual`, and the RMS norm of that sum.
pub fn add_rms_norm(x: &Tensor, residual: &Tensor, weight: &Tensor, eps: f64) -> Result<(Tensor, Tensor)> {
    #[cfg(feature = "_rocm")]
    if let Some((Some(sum), normed)) = norm(x, Some((residual, None)), weight, eps, false)? {
        return Ok((sum, normed));
    }
    let sum = (x + residual)?;
    // The tensors are parts, made by `Input::narrow`. Other devices add first, and their part of the sum is not
    // contiguous: Candle's norm of it has gradients.
    let is_part = x.device().is_rocm() && !(x.is_contiguous() && residual.is_contiguous());
    let normed = if is_part && weight.track_op() {
        crate::ops::rms_norm_slow(&sum, weight, eps as f32)?
    } else {
        crate::ops::rms_norm(&sum.contiguous()?, weight, eps as f32)?
    };
    Ok((sum, normed))
}

/// The same where the norm is the input of products with quantized weights.
pub fn add_rms_norm_for_products(x: &Tensor, residual: &Tensor, weight: &Tensor, eps: f64) -> Result<(Tensor, Tensor)> {
    #[cfg(feature = "_rocm")]
    if let Some((Some(sum), normed)) = norm(x, Some((residual, None)), weight, eps, true)? {
        return Ok((sum, normed));
    }
    add_rms_norm(x, residual, weight, eps)
}

/// The RMS norm `first` of `x`, plus `residual`, and the RMS norm `second` of that sum. `for_products`: the last norm
/// is the input of products with quantized weights. None where they must be separate ops: on other devices than a ROCm
/// one, for tensors that are tracked, of several dtypes or not contiguous, and for norms with different epsilons.
pub fn norm_add_rms_norm(
    x: &Tensor,
    residual: &Tensor,
    [first, second]: [Norm<'_>; 2],
    for_products: bool,
) -> Result<Option<(Tensor, Tensor)>> {
    #[cfg(feature = "_rocm")]
    if first.eps == second.eps {
        let done = norm(x, Some((residual, Some(first.weight))), second.weight, first.eps, for_products)?;
        return Ok(done.and_then(|(sum, normed)| Some((sum?, normed))));
    }
    let _ = (x, residual, first, second, for_products);
    Ok(None)
}

/// `ops::rms_norm` whose result is the input of products with quantized weights.
pub fn rms_norm_for_products(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    #[cfg(feature = "_rocm")]
    if let Some((_, normed)) = norm(x, None, weight, eps.into(), true)? {
        return Ok(normed);
    }
    crate::ops::rms_norm(x, weight, eps)
}

/// The RMS norm of models that write it as several ops, which round more often. None on other devices than a ROCm one
/// and for tensors that are tracked.
pub fn rms_norm_once(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Option<Tensor>> {
    #[cfg(feature = "_rocm")]
    if takes(&[x, weight]) {
        return Ok(Some(crate::ops::rms_norm(&x.contiguous()?, weight, eps as f32)?));
    }
    let _ = (x, weight, eps);
    Ok(None)
}

/// `x + residual`, and [`rms_norm_once`] of that sum. None in the same cases.
pub fn add_rms_norm_once(x: &Tensor, residual: &Tensor, weight: &Tensor, eps: f64) -> Result<Option<(Tensor, Tensor)>> {
    #[cfg(feature = "_rocm")]
    if takes(&[x, residual, weight]) {
        return add_rms_norm(x, residual, weight, eps).map(Some);
    }
    let _ = (x, residual, weight, eps);
    Ok(None)
}

/// The group norm of (batch, channels, ..): `(x - mean) / sqrt(variance + eps) * weight + bias`, with mean and variance
/// of each group of channels of an image. With `silu`, silu of that. None where it must be several ops, which round
/// more often: on other devices than a ROCm one, for tensors that are tracked, of several dtypes or not contiguous, and
/// for shapes that do not fit.
pub fn group_norm_once(
    x: &Tensor,
    groups: usize,
    silu: bool,
    [weight, bias]: [&Tensor; 2],
    eps: f64,
) -> Result<Option<Tensor>> {
    #[cfg(feature = "_rocm")]
    {
        let parameters = [weight, bias];
        let go = x.rank() >= 2
            && x.is_contiguous()
            && x.dims()[1].checked_rem(groups) == Some(0)
            && parameters.iter().all(|t| t.dims() == [x.dims()[1]] && t.is_contiguous())
            && takes(&[x, weight, bias]);
        if go {
            let (storage, layout) = x.storage_and_layout();
            let guards = parameters.map(|t| t.storage_and_layout());
            let part = |k: usize, name| {
                Ok::<_, candle::Error>((RocmStorage::of(&guards[k].0, "group_norm", name)?, guards[k].1))
            };
            let x_s = RocmStorage::of(&storage, "group_norm", "x")?;
            let affine = [part(0, "weight")?, part(1, "bias")?];
            return Ok(Some(of(x_s.group_norm(layout, (groups, silu), affine, eps)?, x)));
        }
    }
    let _ = (x, groups, silu, weight, bias, eps);
    Ok(None)
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` of (batch, channels, ..), a batch norm with given statistics. Each of
/// the four has an element per channel. None where the norm must be several ops, which round more often: on other
/// devices than a ROCm one, for tensors that are tracked, of several dtypes or not contiguous, and for shapes that do
/// not fit.
pub fn batch_norm_once(
    x: &Tensor,
    [mean, var]: [&Tensor; 2],
    affine: Option<[&Tensor; 2]>,
    eps: f64,
) -> Result<Option<Tensor>> {
    #[cfg(feature = "_rocm")]
    {
        let [weight, bias] = affine.unwrap_or([mean, var]);
        let parameters = [mean, var, weight, bias];
        let go = x.rank() >= 2
            && x.is_contiguous()
            && parameters.iter().all(|t| t.dims() == [x.dims()[1]] && t.is_contiguous())
            && takes(&[x, mean, var, weight, bias]);
        if go {
            let (storage, layout) = x.storage_and_layout();
            let guards = parameters.map(|t| t.storage_and_layout());
            let part = |k: usize, name| {
                Ok::<_, candle::Error>((RocmStorage::of(&guards[k].0, "batch_norm", name)?, guards[k].1))
            };
            let affine = match affine {
                Some(_) => Some([part(2, "weight")?, part(3, "bias")?]),
                None => None,
            };
            let x_s = RocmStorage::of(&storage, "batch_norm", "x")?;
            return Ok(Some(of(x_s.batch_norm(layout, [part(0, "mean")?, part(1, "var")?], affine, eps)?, x)));
        }
    }
    let _ = (x, mean, var, affine, eps);
    Ok(None)
}

/// The input of a layer: the sum of what went around the layer before and what came out of it. The norm at the layer's
/// begin adds them.
pub struct Input {
    trunk: Tensor,
    branch: Option<Tensor>,
    /// The weight and epsilon of the branch's own norm, if that is not done yet. Only a ROCm device has such branches.
    norm: Option<(Tensor, f64)>,
}

impl From<Tensor> for Input {
    fn from(trunk: Tensor) -> Self {
        Self { trunk, branch: None, norm: None }
    }
}

impl Input {
    pub fn new(trunk: Tensor, branch: Tensor) -> Self {
        Self { trunk, branch: Some(branch), norm: None }
    }

    /// The branch is the norm of `x`, which `forward` makes. A ROCm device leaves that norm to [`Input::normed`], which
    /// makes both norms in one launch.
    pub fn of_norm(
        trunk: Tensor,
        x: Tensor,
        norm: Norm<'_>,
        forward: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        #[cfg(feature = "_rocm")]
        if takes_norm(&x, &trunk, norm.weight) {
            return Ok(Self { trunk, branch: Some(x), norm: Some((norm.weight.clone(), norm.eps)) });
        }
        let _ = norm;
        Ok(Self::new(trunk, forward(&x)?))
    }

    /// The sum, and its norm. `norm` has the parameters of that norm; `forward` makes it of a sum, and `forward_sum`
    /// makes sum and norm of the branch and the trunk. `for_products`: as for [`norm_add_rms_norm`].
    pub fn normed(
        self,
        norm: Norm<'_>,
        for_products: bool,
        forward: impl FnOnce(&Tensor) -> Result<Tensor>,
        forward_sum: impl FnOnce(&Tensor, &Tensor) -> Result<(Tensor, Tensor)>,
    ) -> Result<(Tensor, Tensor)> {
        let Some(branch) = self.branch else {
            let normed = forward(&self.trunk)?;
            return Ok((self.trunk, normed));
        };
        let Some((weight, eps)) = self.norm else {
            return forward_sum(&branch, &self.trunk);
        };
        let norms = [Norm { weight: &weight, eps }, norm];
        if let Some(done) = norm_add_rms_norm(&branch, &self.trunk, norms, for_products)? {
            return Ok(done);
        }
        forward_sum(&crate::ops::rms_norm(&branch.contiguous()?, &weight, eps as f32)?, &self.trunk)
    }

    /// A part of it along `dim`. Other devices, and tracked tensors, add first, as the models do: the ops of a norm
    /// depend on whether the part is contiguous.
    pub fn narrow(&self, dim: usize, start: usize, len: usize) -> Result<Self> {
        match &self.branch {
            None => Ok(self.trunk.narrow(dim, start, len)?.into()),
            Some(branch) if self.trunk.device().is_rocm() && !branch.track_op() && !self.trunk.track_op() => {
                let part = |t: &Tensor| t.narrow(dim, start, len);
                Ok(Self { trunk: part(&self.trunk)?, branch: Some(part(branch)?), norm: self.norm.clone() })
            }
            Some(branch) => Ok((branch + &self.trunk)?.narrow(dim, start, len)?.into()),
        }
    }
}

/// Tokens that a text may go on with, and their probabilities.
pub struct Likeliest {
    /// In ascending order.
    pub tokens: Vec<u32>,
    /// They add up to less than 1 where other tokens are left out.
    pub probabilities: Vec<f32>,
}

/// The first number of the likeliest tokens that [`likeliest`] downloads, if `k` does not say how many. It downloads 16
/// times as many where they do not reach `p`.
const FIRST_LIKELIEST: usize = 1024;

/// The likeliest tokens of `softmax(logits / temperature)`: at most `k`, and of these the fewest whose probabilities
/// reach `p`, as Candle's top-k and top-p sampling choose them. The device sorts; no other token is downloaded. None
/// where Candle must do it: on other devices, for logits that are no vector of f32, where neither `k` nor `p` leaves a
/// token out.
///
/// A draw by top-p alone gives Candle's own token for a seed. With top-k, Candle draws from the tokens in the order in
/// which a partial sort leaves them, and here they are in ascending order. The distribution is the same, but a seed
/// gives other tokens.
pub fn likeliest(logits: &Tensor, temperature: f64, k: Option<usize>, p: Option<f32>) -> Result<Option<Likeliest>> {
    let is_taken = logits.device().is_rocm() && logits.rank() == 1 && logits.dtype() == DType::F32;
    let (k, p) = (k.filter(|k| *k < logits.elem_count()), p.filter(|p| *p < 1.0));
    if !is_taken || (k.is_none() && p.is_none()) || k == Some(0) || p.is_some_and(|p| p <= 0.0) {
        return Ok(None);
    }
    let (sorted, ids) = crate::ops::softmax_last_dim(&(logits / temperature)?)?.sort_last_dim(false)?;
    let most = k.unwrap_or(logits.elem_count());
    let mut count = k.unwrap_or(FIRST_LIKELIEST).min(most);
    let (sorted, kept) = loop {
        let sorted = sorted.narrow(0, 0, count)?.to_vec1::<f32>()?;
        let (mut sum, mut kept) = (0.0, 0);
        while kept < count && p.is_none_or(|p| sum < p) {
            sum += sorted[kept];
            kept += 1;
        }
        if p.is_none_or(|p| sum >= p) || count == most {
            break (sorted, kept);
        }
        count = (count * 16).min(most);
    };
    let ids = ids.narrow(0, 0, count)?.to_vec1::<u32>()?;
    let mut pairs: Vec<_> = ids.into_iter().zip(sorted).take(kept).collect();
    pairs.sort_by_key(|(token, _)| *token);
    let (tokens, probabilities) = pairs.into_iter().unzip();
    Ok(Some(Likeliest { tokens, probabilities }))
}

/// [`draw`] downloads one sum for so many probabilities. A vocabulary of 65 536 tokens has 256 sums.
const DRAWN_TOGETHER: usize = 256;

/// A token of `softmax(logits / temperature)`. `number` gets the sum of all probabilities, about 1, and returns a
/// number from 0 to below it; the token is the first one up to which the probabilities add up to more. The device adds
/// the probabilities of neighbouring tokens, so only their sums are downloaded, and the probabilities of one sum. None
/// where Candle must do it: on other devices, for logits that are no vector of f32, and where the sum is no positive
/// number.
///
/// A number gives Candle's own token, unless it lies at the border of two tokens: sums are rounded in another way.
pub fn draw(logits: &Tensor, temperature: f64, number: impl FnOnce(f32) -> Result<f32>) -> Result<Option<u32>> {
    let count = logits.elem_count();
    if !logits.device().is_rocm() || logits.rank() != 1 || logits.dtype() != DType::F32 || count == 0 {
        return Ok(None);
    }
    let probabilities = crate::ops::softmax_last_dim(&(logits / temperature)?)?;
    let blocks = count.div_ceil(DRAWN_TOGETHER);
    let whole = probabilities.pad_with_zeros(0, 0, blocks * DRAWN_TOGETHER - count)?;
    let sums = whole.reshape((blocks, DRAWN_TOGETHER))?.sum(1)?.to_vec1::<f32>()?;
    let total = sums.iter().map(|sum| f64::from(*sum)).sum::<f64>() as f32;
    if !(total > 0.0 && total.is_finite()) {
        return Ok(None);
    }
    let mut left = f64::from(number(total)?);
    let block = first_beyond(&sums, &mut left);
    let length = DRAWN_TOGETHER.min(count - block * DRAWN_TOGETHER);
    let some = probabilities.narrow(0, block * DRAWN_TOGETHER, length)?.to_vec1::<f32>()?;
    Ok(Some((block * DRAWN_TOGETHER + first_beyond(&some, &mut left)) as u32))
}

/// The first number up to which `numbers` add up to more than `left`, from which those before it are subtracted. Where
/// rounding leaves none, the last one above 0.
fn first_beyond(numbers: &[f32], left: &mut f64) -> usize {
    let (mut found, mut rest) = (0, *left);
    for (i, number) in numbers.iter().enumerate().filter(|(_, number)| **number > 0.0) {
        (found, *left) = (i, rest);
        rest -= f64::from(*number);
        if rest < 0.0 {
            break;
        }
    }
    found
}

/// The experts of some tokens.
pub struct Routes {
    /// (tokens, topk): the weights of a token's experts, largest first.
    pub weights: Tensor,
    /// (tokens * topk): the experts in order.
    pub experts: Tensor,
    /// (tokens * topk): the number of the token and expert, token * topk + expert, in the order of the experts.
    pub tokens: Tensor,
}

#[cfg(feature = "_rocm")]
fn routes([weights, experts, of]: [RocmStorage; 3], (tokens, topk): (usize, usize)) -> Routes {
    let tensor =
        |storage, shape: &[usize]| Tensor::from_storage(Storage::Rocm(storage), shape, BackpropOp::none(), false);
    Routes {
        weights: tensor(weights, &[tokens, topk]),
        experts: tensor(experts, &[tokens * topk]),
        tokens: tensor(of, &[tokens * topk]),
    }
}

/// Whether `crk_moe_route` chooses so many of so many experts.
#[cfg(feature = "_rocm")]
fn has_routes(experts: usize, topk: usize) -> bool {
    use kernels::sys::{CRK_MOST_ROUTED_EXPERTS, CRK_MOST_ROUTED_TOPK};
    experts <= CRK_MOST_ROUTED_EXPERTS as usize && topk <= experts.min(CRK_MOST_ROUTED_TOPK as usize)
}

/// `route` of the products of `layer` with tokens `x` (tokens, k). One token and a dense layer without a bias are one
/// launch on a ROCm device.
pub fn route_of(layer: &dyn Product, x: &Tensor, topk: usize, normalise: bool) -> Result<Routes> {
    #[cfg(feature = "_rocm")]
    if let Some([(weights, None)]) = products::of_a_row([layer], x).as_deref() {
        let experts = weights.dims()[0];
        let fits = x.rank() == 2 && x.dtype() != DType::F64 && weights.is_contiguous();
        if fits && experts > 0 && topk > 0 && has_routes(experts, topk) {
            let ((x, x_l), (matrix, matrix_l)) = (x.storage_and_layout(), weights.storage_and_layout());
            let matrix = RocmStorage::of(&matrix, "route", "weights")?;
            let of_x = RocmStorage::of(&x, "route", "x")?;
            return Ok(routes(of_x.row_route(x_l, (matrix, matrix_l), topk, normalise)?, (1, topk)));
        }
    }
    route(&layer.forward(x)?, topk, normalise)
}

/// Chooses the `topk` experts of each token by the softmax of its `logits` (tokens, experts). With `normalise`, a
/// token's weights add up to 1.
pub fn route(logits: &Tensor, topk: usize, normalise: bool) -> Result<Routes> {
    #[cfg(feature = "_rocm")]
    if logits.device().is_rocm() && !logits.track_op() {
        let logits = logits.to_dtype(DType::F32)?.contiguous()?;
        let (tokens, experts) = logits.dims2()?;
        if has_routes(experts, topk) {
            let (storage, layout) = logits.storage_and_layout();
            let storage = RocmStorage::of(&storage, "route", "logits")?;
            return Ok(routes(storage.route(layout, (experts, tokens, topk), normalise)?, (tokens, topk)));
        }
    }
    let p = crate::ops::softmax_last_dim(&logits.to_dtype(DType::F32)?)?;
    let ids = p.arg_sort_last_dim(false)?.narrow(D::Minus1, 0, topk)?.contiguous()?;
    let mut weights = p.gather(&ids, D::Minus1)?;
    if normalise {
        weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
    }
    let (experts, tokens) = ids.flatten_all()?.sort_last_dim(true)?;
    Ok(Routes { weights, experts, tokens })
}
