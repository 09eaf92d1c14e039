//! Attention, each call in one launch on a ROCm device, and the masks for it.
use super::{Product, products};
use candle::{D, DType, Device, Result, Tensor};
#[cfg(feature = "_rocm")]
use candle::{
    Storage,
    op::BackpropOp,
    rocm_backend::{RocmStorage, Scoring, kernels},
};

/// How the scores of keys are made of the products of queries and keys. A number stands for [`Scores`] with this scale.
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    /// The factor of the products.
    pub scale: f64,
    /// A scaled product s becomes `cap * tanh(s / cap)`.
    pub cap: Option<f64>,
    /// Where a call has several queries, they do not see keys more than this number of places before them.
    pub window: Option<usize>,
}

impl From<f64> for Scores {
    fn from(scale: f64) -> Self {
        Self { scale, cap: None, window: None }
    }
}

/// Whether [`attention`] is one launch for the tensors.
pub fn has_attention(q: &Tensor, k: &Tensor, v: &Tensor) -> bool {
    #[cfg(feature = "_rocm")]
    let has_kernel = attends(q, k, v, None);
    #[cfg(not(feature = "_rocm"))]
    let has_kernel = {
        let _ = (q, k, v);
        false
    };
    has_kernel
}

/// Whether there are kernels for a tensor of this kind, whatever its shape.
fn has_attention_of(x: &Tensor) -> bool {
    x.device().is_rocm() && matches!(x.dtype(), DType::F16 | DType::BF16 | DType::F32) && !x.track_op()
}

/// `softmax(scale * q * k^T) * v` of (batch, heads, tokens, d), with as many or fewer heads of keys. With `causal`, the
/// last query sees all keys. The result of a ROCm device has the heads of a token side by side in memory. Without a
/// kernel, the ops make their own mask: a model that calls this function needs none.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool, scores: impl Into<Scores>) -> Result<Tensor> {
    plain_attention([q, k, v], causal, scores.into(), false)
}

/// The same where the result's tokens, (batch, tokens, heads * d), are the input of products with quantized weights.
pub fn attention_for_products(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    causal: bool,
    scores: impl Into<Scores>,
) -> Result<Tensor> {
    plain_attention([q, k, v], causal, scores.into(), true)
}

/// Whether a model must make the mask of a prompt of `tokens` tokens, which hides later tokens and those more than
/// `window` before. A ROCm device only needs a mask where this window hides a token: [`causal_attention`] does without
/// one. A model that gives its window to [`Scores`] passes `None` here.
pub fn needs_mask(tokens: usize, window: impl Into<Option<usize>>, device: &Device) -> bool {
    tokens > 1 && (!device.is_rocm() || window.into().is_some_and(|window| tokens > window))
}

fn plain_attention([q, k, v]: [&Tensor; 3], causal: bool, scores: Scores, for_products: bool) -> Result<Tensor> {
    let is_plain = scores.cap.is_none() && scores.window.is_none();
    if is_plain && q.device().is_metal() && ![q, k, v].iter().any(|t| t.track_op()) {
        return crate::ops::sdpa(q, k, v, None, causal, scores.scale as f32, 1.0);
    }
    scored_attention([q, k, v], None, causal, scores, for_products)
}

/// The keys that the queries see, as 1 in a mask (queries, keys) of u8. The last query sees all keys, but for those
/// more than `window` before it.
fn seen_keys(queries: usize, keys: usize, window: Option<usize>, device: &Device) -> Result<Tensor> {
    let numbers = |from: usize, count: usize| Tensor::arange(from as u32, (from + count) as u32, device);
    let (key, place) = (numbers(queries, keys)?.unsqueeze(0)?, numbers(keys, queries)?.unsqueeze(1)?);
    let seen = key.broadcast_le(&place)?;
    match window.filter(|window| *window < keys) {
        Some(window) => seen.minimum(&(key + window as f64)?.broadcast_ge(&place)?),
        None => Ok(seen),
    }
}

/// Attention on a ROCm device, as (batch, tokens, heads, dv).
#[cfg(feature = "_rocm")]
fn attention_by_tokens(
    [q, k, v]: [&Tensor; 3],
    mask: Option<&Tensor>,
    causal: bool,
    Scores { scale, cap, window }: Scores,
    for_products: bool,
) -> Result<Tensor> {
    // A window that hides nothing would only cost time.
    let left = window.filter(|window| causal && q.dims()[2] > 1 && *window + 1 < k.dims()[2]);
    let ((q, q_l), (k, k_l), (v, v_l)) = (q.storage_and_layout(), k.storage_and_layout(), v.storage_and_layout());
    let of = |storage, argument| RocmStorage::of(storage, "attention", argument);
    let (k, v) = ((of(&k, "k")?, k_l), (of(&v, "v")?, v_l));
    let scoring = Scoring { mask, causal, left, scale: scale as f32, softcap: cap.map(|cap| cap as f32) };
    let (dst, shape) = of(&q, "q")?.sdpa_by_tokens(q_l, k, v, &scoring, for_products)?;
    Ok(Tensor::from_storage(Storage::Rocm(dst), shape, BackpropOp::none(), false))
}

/// Whether attention on a ROCm device takes the tensors.
#[cfg(feature = "_rocm")]
fn attends(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>) -> bool {
    let most = kernels::sys::CRK_ATTENTION_MOST_DIM as usize;
    let is_narrow = [q, v].iter().all(|t| t.dims().last().is_some_and(|d| *d <= most));
    let has_heads = [q, k, v].iter().all(|t| t.rank() == 4);
    let near = |t: &Tensor| t.device().same_device(q.device()) && !t.track_op();
    let fits = |t: &Tensor| near(t) && t.dtype() == q.dtype();
    let fits_scores = |mask: &Tensor| match (q.dims4(), k.dims4()) {
        (Ok((batch, heads, queries, _)), Ok((_, _, keys, _))) => {
            mask.broadcast_as((batch, heads, queries, keys)).is_ok()
        }
        _ => false,
    };
    let has_mask_dtype = |mask: &Tensor| mask.dtype() == q.dtype() || matches!(mask.dtype(), DType::F32 | DType::U8);
    let takes_mask = |mask: &Tensor| near(mask) && has_mask_dtype(mask) && fits_scores(mask);
    has_attention_of(q) && fits(k) && fits(v) && has_heads && is_narrow && mask.is_none_or(takes_mask)
}

/// `softmax(scale * q * k^T + mask) * v` of (batch, heads, tokens, d), with as many or fewer heads of keys and values.
/// The mask broadcasts to the scores. The result has the heads of a token side by side in memory. None where the model
/// must do it with other ops: on other devices, for tensors that are tracked for gradients, of dtypes or of a width for
/// which there is no kernel, for a mask that does not broadcast, and for f32 heads wider than 256, for which the ops
/// are faster on an H200.
pub fn try_attention(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, scale: f64) -> Result<Option<Tensor>> {
    #[cfg(feature = "_rocm")]
    if attends(q, k, v, mask) {
        let is_narrow = q.dtype() != DType::F32 || (q.dim(D::Minus1)? <= 256 && v.dim(D::Minus1)? <= 256);
        if is_narrow {
            return attention_by_tokens([q, k, v], mask, false, scale.into(), false)?.transpose(1, 2).map(Some);
        }
    }
    let _ = (q, k, v, mask, scale);
    Ok(None)
}

/// [`try_attention`] of (batch, tokens, heads * d): the heads of a token lie side by side, in the result too.
pub fn attention_of_heads(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    heads: usize,
    mask: Option<&Tensor>,
    scale: f64,
) -> Result<Option<Tensor>> {
    let split = |x: &Tensor| {
        let (batch, tokens, width) = x.dims3()?;
        x.reshape((batch, tokens, heads, width / heads))?.transpose(1, 2)
    };
    if !q.device().is_rocm() || heads == 0 || [q, k, v].iter().any(|x| x.rank() != 3) {
        return Ok(None);
    }
    let heads = try_attention(&split(q)?, &split(k)?, &split(v)?, mask, scale)?;
    heads.map(|x| x.transpose(1, 2)?.flatten_from(2)).transpose()
}

/// [`attention_of_heads`] of the layers of queries, keys and values of the same `x` (batch, tokens, k).
pub fn self_attention(
    layers: [&dyn Product; 3],
    x: &Tensor,
    heads: usize,
    mask: Option<&Tensor>,
    scale: f64,
) -> Result<Option<Tensor>> {
    if !has_attention_of(x) {
        return Ok(None);
    }
    let [q, k, v] = products(layers, x)?;
    attention_of_heads(&q, &k, &v, heads, mask, scale)
}

/// Heads of keys or values (batch, heads, tokens, d) as [`masked_attention`] takes them: as they are where a kernel may
/// share them among the queries, else each `count` times.
pub fn repeat_heads(x: Tensor, count: usize) -> Result<Tensor> {
    if count == 1 || has_attention_of(&x) { Ok(x) } else { repeated(&x, count) }
}

fn repeated(x: &Tensor, count: usize) -> Result<Tensor> {
    let (batch, heads, tokens, d) = x.dims4()?;
    Tensor::cat(&vec![x; count], 2)?.reshape((batch, heads * count, tokens, d))
}

/// As many heads as `q` has, contiguous.
fn heads_for(q: &Tensor, x: &Tensor) -> Result<Tensor> {
    match q.dim(1)?.checked_div(x.dim(1)?).unwrap_or(1) {
        0 | 1 => x.contiguous(),
        count => repeated(x, count),
    }
}

/// `softmax(scale * q * k^T + mask) * v` of (batch, heads, tokens, d), with as many or fewer heads of keys and values.
/// The mask broadcasts to the scores; one of u8 hides keys where it is 0. A device without [`attention`] computes the
/// ops one after the other.
pub fn masked_attention(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, scale: f64) -> Result<Tensor> {
    scored_attention([q, k, v], mask, false, scale.into(), false)
}

/// [`masked_attention`] of tokens that see themselves and those before them within a window. Without a mask, the last
/// query's place is that of the last key.
pub fn causal_attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    scores: impl Into<Scores>,
) -> Result<Tensor> {
    scored_attention([q, k, v], mask, true, scores.into(), false)
}

/// The same where the result's tokens, (batch, tokens, heads * d), are the input of products with quantized weights.
pub fn causal_attention_for_products(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    scores: impl Into<Scores>,
) -> Result<Tensor> {
    scored_attention([q, k, v], mask, true, scores.into(), true)
}

/// `causal` is for calls without a mask.
fn scored_attention(
    [q, k, v]: [&Tensor; 3],
    mask: Option<&Tensor>,
    causal: bool,
    scores: Scores,
    for_products: bool,
) -> Result<Tensor> {
    let causal = causal && mask.is_none() && q.dim(D::Minus2)? > 1;
    #[cfg(feature = "_rocm")]
    if attends(q, k, v, mask) {
        return attention_by_tokens([q, k, v], mask, causal, scores, for_products)?.transpose(1, 2);
    }
    let _ = for_products;
    let Scores { scale, cap, window } = scores;
    let seen = if causal { Some(seen_keys(q.dim(D::Minus2)?, k.dim(D::Minus2)?, window, q.device())?) } else { None };
    let mask = mask.or(seen.as_ref());
    let scores = (q.contiguous()?.matmul(&heads_for(q, k)?.transpose(2, 3)?)? * scale)?;
    let scores = match cap {
        None => scores,
        Some(cap) => ((scores / cap)?.tanh()? * cap)?,
    };
    let scores = match mask {
        None => scores,
        Some(mask) if mask.dtype() == DType::U8 => {
            let hidden = Tensor::new(f32::NEG_INFINITY, q.device())?.to_dtype(q.dtype())?;
            mask.broadcast_as(scores.shape())?.where_cond(&scores, &hidden.broadcast_as(scores.shape())?)?
        }
        Some(mask) => scores.broadcast_add(mask)?,
    };
    crate::ops::softmax_last_dim(&scores)?.matmul(&heads_for(q, v)?)
}
