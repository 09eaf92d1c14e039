//! Tensors that grow in place: caches of keys and values.
use super::layout::layout_of;
use super::{RocmStorage, WrapErr, elements, kernels};
use crate::backend::BackendStorage;
use crate::op::BackpropOp;
use crate::{DType, Device, Layout, Result, Shape, Storage, Tensor};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows by which a cache grows: that many appends copy only the new rows.
const STEP: usize = 256;

/// The room of a storage behind the tensor that it was made for. One dim of the tensor can grow into it.
#[derive(Debug)]
pub(super) struct Room {
    /// The length of that dim which the storage has memory for.
    capacity: usize,
    /// The elements of one row of it.
    row: usize,
    /// The length that tensors have taken. A tensor of this length may take more, and only one of them gets it.
    taken: AtomicUsize,
}

impl Room {
    /// Takes the rows `rows` for the tensor that ends where they begin. False if they do not fit, if the tensor is
    /// another view of the storage, or if they are taken.
    fn take(&self, layout: &Layout, dim: usize, rows: std::ops::Range<usize>) -> bool {
        rows.end <= self.capacity
            && layout.start_offset() == 0
            && elements(&layout.dims()[dim + 1..]) == self.row
            && layout.stride() == strides(layout.dims(), dim, self.capacity)
            && self.taken.compare_exchange(rows.start, rows.end, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// The strides of a tensor whose dim `dim` has room for `capacity`.
fn strides(dims: &[usize], dim: usize, capacity: usize) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * if i == dim { capacity } else { dims[i] };
    }
    strides
}

/// A block of a tensor's rows along a dim, as one copy takes it: `count` lines of `length` elements.
struct Lines {
    count: usize,
    length: usize,
    stride: usize,
    first: usize,
}

impl Lines {
    /// None if the rows of one outer index are not contiguous, or the outer indices are not evenly spaced.
    fn of(layout: &Layout, dim: usize) -> Option<Self> {
        let (dims, strides) = (layout.dims(), layout.stride());
        let (count, length) = (elements(&dims[..dim]), elements(&dims[dim..]));
        // Follows the dims from the last one outwards; those of size 1 may have any stride.
        let (mut next, mut stride) = (1, None);
        for i in (0..dims.len()).rev().filter(|i| dims[*i] != 1) {
            if i < dim && stride.is_none() {
                (next, stride) = (strides[i], Some(strides[i]));
            }
            if strides[i] != next {
                return None;
            }
            next *= dims[i];
        }
        Some(Self { count, length, stride: stride.unwrap_or(length), first: layout.start_offset() })
    }
}

/// Copies `src` into the storage, whose outer indices are `stride` elements apart, from the element `first` on.
fn put(src: &Tensor, dim: usize, dst: &RocmStorage, (stride, first): (usize, usize)) -> Result<()> {
    let (storage, layout) = src.storage_and_layout();
    let src = RocmStorage::of(&storage, "grow", "rows")?;
    let packed;
    let (src, lines) = match Lines::of(layout, dim) {
        Some(lines) => (src, lines),
        None => {
            packed = src.packed(layout)?;
            let (count, length) = (elements(&layout.dims()[..dim]), elements(&layout.dims()[dim..]));
            (&packed, Lines { count, length, stride: length, first: 0 })
        }
    };
    let from = (src.memory(), lines.stride, lines.first);
    let dtype = super::dtype_of(src.dtype(), "grow")?;
    dst.device().handle().copy2d(dtype, (lines.count, lines.length), from, (dst.memory(), stride, first)).w()
}

/// Whether `rows` can follow `cache` along `dim`.
fn fit(cache: &Tensor, rows: &Tensor, dim: usize) -> bool {
    let others = |t: &Tensor| [&t.dims()[..dim], &t.dims()[dim + 1..]].concat();
    let plain = |t: &Tensor| !t.track_op() && t.elem_count() > 0;
    dim < cache.rank()
        && cache.rank() == rows.rank()
        && cache.dtype() == rows.dtype()
        && cache.device().same_device(rows.device())
        && !cache.same_storage(rows)
        && plain(cache)
        && plain(rows)
        && others(cache) == others(rows)
}

/// Takes `count` more rows along `dim` for a cache. The result has them at its end, and nothing is written there yet.
/// It shares the cache's memory if that has room, else the cache is copied to memory with room for 256 rows more, or
/// fewer. Without a cache it is the rows alone, which have the dims `rows`. The result has the dtype `dtype`, as the
/// cache has.
pub(super) fn reserve(
    cache: Option<&Tensor>,
    device: &Device,
    rows: &[usize],
    dim: usize,
    dtype: DType,
) -> Result<Tensor> {
    let count = rows[dim];
    let length = cache.map_or(0, |cache| cache.dims()[dim]);
    let mut dims = rows.to_vec();
    dims[dim] = length + count;
    if let Some(cache) = cache {
        let (storage, layout) = cache.storage_and_layout();
        let storage = RocmStorage::of(&storage, "grow", "cache")?;
        if storage.room.as_ref().is_some_and(|room| room.take(layout, dim, length..length + count)) {
            let layout = Layout::new(Shape::from(dims), layout.stride().to_vec(), 0);
            return Ok(cache.with_layout(layout));
        }
    }
    let (capacity, inner) = ((length + count + 1).next_multiple_of(STEP), elements(&dims[dim + 1..]));
    let mut whole = dims;
    whole[dim] = capacity;
    let mut storage = device.as_rocm_device()?.empty(&Shape::from(whole.clone()), dtype)?;
    storage.room = Some(Room { capacity, row: inner, taken: AtomicUsize::new(length + count) });
    if let Some(cache) = cache {
        put(cache, dim, &storage, (capacity * inner, 0))?;
    }
    let whole = Tensor::from_storage(Storage::Rocm(storage), whole, BackpropOp::none(), false);
    whole.narrow(dim, 0, length + count)
}

/// `cat` of a cache and new rows. The result shares the cache's memory, if that has room: only the rows are copied.
/// Otherwise both are copied to memory with room for 256 rows more, or fewer. The cache stays valid; write neither it
/// nor the result in place afterwards. The result is not contiguous if a dim before `dim` is longer than 1.
///
/// None where the tensors are not on one ROCm device, do not go together, or are tracked for gradients. The caller then
/// uses `Tensor::cat`, which gives the error.
pub fn grow(cache: &Tensor, rows: &Tensor, dim: usize) -> Result<Option<Tensor>> {
    if !cache.device().is_rocm() || !fit(cache, rows, dim) {
        return Ok(None);
    }
    let grown = reserve(Some(cache), rows.device(), rows.dims(), dim, cache.dtype())?;
    {
        let (storage, layout) = grown.storage_and_layout();
        let storage = RocmStorage::of(&storage, "grow", "cache")?;
        let inner = elements(&rows.dims()[dim + 1..]);
        let stride = if dim == 0 { 0 } else { layout.stride()[dim - 1] };
        put(rows, dim, storage, (stride, cache.dims()[dim] * inner))?;
    }
    Ok(Some(grown))
}

/// The norm of each head of queries or keys: its factors and epsilon.
#[derive(Debug, Clone, Copy)]
pub struct HeadNorm<'a> {
    pub weight: &'a Tensor,
    pub eps: f64,
}

/// The caches of keys and values that new rows go to.
#[derive(Debug, Clone, Copy)]
pub enum Caches<'a> {
    /// They grow in place. None begins them.
    Growing(Option<(&'a Tensor, &'a Tensor)>),
    /// The new keys and values overwrite these tensors, which are rows of caches. No other operand has their memory.
    Slots(&'a Tensor, &'a Tensor),
    /// The model has caches of another kind: the new keys and values are tensors of their own, and contiguous.
    Apart,
}

impl<'a> Caches<'a> {
    /// The caches that were given: the new rows go to their memory.
    pub(super) fn given(self) -> Option<(&'a Tensor, &'a Tensor)> {
        match self {
            Caches::Growing(cache) => cache,
            Caches::Slots(keys, values) => Some((keys, values)),
            Caches::Apart => None,
        }
    }

    /// Whether the slots, if these are slots, have the dims of the new keys and values.
    pub(super) fn have_dims(self, [keys, values]: [&[usize]; 2]) -> bool {
        let is_slot = |slot: &Tensor, dims| slot.dims() == dims && slot.stride().last() == Some(&1);
        match self {
            Caches::Slots(k, v) => is_slot(k, keys) && is_slot(v, values),
            _ => true,
        }
    }

    /// The tensors of all keys and values. The new ones have these dims and `dtype`; the caller writes them to the last
    /// rows.
    pub(super) fn room(self, device: &Device, [keys, values]: [&[usize]; 2], dtype: DType) -> Result<(Tensor, Tensor)> {
        let grown = |cache, rows| reserve(cache, device, rows, TOKENS, dtype);
        let empty = |rows: &[usize]| {
            let storage = device.as_rocm_device()?.empty(&Shape::from(rows), dtype)?;
            Result::Ok(Tensor::from_storage(Storage::Rocm(storage), rows, BackpropOp::none(), false))
        };
        Ok(match self {
            Caches::Growing(Some((k, v))) => (grown(Some(k), keys)?, grown(Some(v), values)?),
            Caches::Growing(None) => (grown(None, keys)?, grown(None, values)?),
            Caches::Slots(k, v) => {
                for slot in [k, v] {
                    if let Storage::Rocm(storage) = &mut *slot.storage_mut() {
                        storage.written();
                    }
                }
                (k.clone(), v.clone())
            }
            Caches::Apart => (empty(keys)?, empty(values)?),
        })
    }
}

/// The dim of a cache that counts tokens.
pub(super) const TOKENS: usize = 2;

/// Whether new heads (batch, heads, d) of this dtype and device can follow the heads in `cache`.
pub(super) fn goes_on(cache: &Tensor, [batch, heads, d]: [usize; 3], dtype: DType, device: &Device) -> bool {
    let dims = cache.dims();
    dims.len() == 4
        && [dims[0], dims[1], dims[3]] == [batch, heads, d]
        && cache.dtype() == dtype
        && cache.device().same_device(device)
        && !cache.track_op()
        && cache.elem_count() > 0
}

/// Whether one launch can rotate the tensors and append them. They have one device, and the dtype `dtype` but for `q`,
/// `k` and `v`, which have one dtype.
fn rotates([q, k, v]: [&Tensor; 3], [cos, sin]: [&Tensor; 2], cache: Caches<'_>, dtype: DType) -> bool {
    let all = [q, k, v, cos, sin];
    let rows = |t: &Tensor| {
        t.rank() == 4
            && t.stride()[3] == 1
            && t.dims()[3] == q.dims()[3]
            && t.dtype() == q.dtype()
            && (t.dims()[0], t.dims()[TOKENS]) == (q.dims()[0], q.dims()[TOKENS])
    };
    let follows = |new: &Tensor, cache: &Tensor| {
        let dims = new.dims();
        goes_on(cache, [dims[0], dims[1], dims[3]], dtype, new.device()) && !cache.same_storage(new)
    };
    // The launch counts the pairs of all heads in 31 bits.
    let pairs = || [q, k, v].iter().fold(0, |sum, t| elements(t.dims()).saturating_add(sum)) / 2;
    q.device().is_rocm()
        && matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
        && q.rank() == 4
        && all.iter().all(|t| t.device().same_device(q.device()) && !t.track_op() && t.elem_count() > 0)
        && [q, k, v].iter().all(|t| rows(t))
        && pairs() <= i32::MAX as usize
        && [cos, sin].iter().all(|t| t.is_contiguous() && t.dtype() == dtype)
        && cache.given().is_none_or(|(keys, values)| follows(k, keys) && follows(v, values))
        && cache.have_dims([k.dims(), v.dims()])
}

/// Rotates new queries and keys, and appends the keys and the values to their caches, in one launch. `q` is (batch,
/// heads, tokens, d), `k` and `v` are (batch, kv heads, tokens, d). The last dim of each is contiguous; the other
/// dims may have any strides. [`grow`] along the tokens and `rope` (or `rope_i`, if `interleaved`) give the same
/// results.
///
/// None where the tensors are not on one ROCm device, do not go together, are tracked for gradients, or have more than
/// 2^31 - 1 pairs.
pub fn rope_grow(
    qkv: [&Tensor; 3],
    angles: [&Tensor; 2],
    interleaved: bool,
    cache: Caches<'_>,
) -> Result<Option<[Tensor; 3]>> {
    let dtype = qkv[0].dtype();
    if !rotates(qkv, angles, cache, dtype) {
        return Ok(None);
    }
    let kind = if interleaved { kernels::RopeKind::RopeI } else { kernels::RopeKind::Rope };
    rotate_into(qkv, angles, cache, dtype, |device, rows, cos, sin| {
        device.rope_qkv(kind, super::dtype_of(dtype, "rope_grow")?, rows, cos, sin).w()
    })
    .map(Some)
}

/// The same where queries and keys are normalised first, and all three then get the dtype of the angles. None also
/// where rows have no kernel (`crk_norm_rope_qkv`).
pub fn norm_rope_grow(
    qkv: [&Tensor; 3],
    norms: [HeadNorm<'_>; 2],
    angles: [&Tensor; 2],
    cache: Caches<'_>,
) -> Result<Option<[Tensor; 3]>> {
    let (q, from, dtype) = (qkv[0], qkv[0].dtype(), angles[0].dtype());
    let halves = [DType::F16, DType::BF16];
    let has_kernel = (from == DType::F32 && (dtype == from || halves.contains(&dtype)))
        || (from == dtype && halves.contains(&dtype));
    let is_pack = |bytes: usize| bytes & 15 == 0;
    let (size, d) = (from.size_in_bytes(), q.dims().last().copied().unwrap_or(0));
    let (least, most) = (kernels::sys::CRK_NORM_ROPE_LEAST_BYTES, kernels::sys::CRK_NORM_ROPE_MOST_BYTES);
    let rows = qkv.iter().all(|t| {
        let (layout, row) = (t.layout(), d * size);
        let steps = layout.dims().iter().zip(layout.stride()).rev().skip(1);
        row.is_power_of_two()
            && (least as usize..=most as usize).contains(&row)
            && is_pack(layout.start_offset() * size)
            && steps.filter(|(dim, _)| **dim > 1).all(|(_, step)| is_pack(step * size))
    });
    let factors = |norm: &HeadNorm<'_>| {
        let w = norm.weight;
        w.dtype() == from
            && w.dims() == [d]
            && w.is_contiguous()
            && w.device().same_device(q.device())
            && !w.track_op()
            && is_pack(w.layout().start_offset() * size)
    };
    let whole = angles.iter().all(|t| is_pack(t.layout().start_offset() * dtype.size_in_bytes()));
    let fits = has_kernel
        && rows
        && whole
        && norms[0].eps == norms[1].eps
        && norms.iter().all(factors)
        && rotates(qkv, angles, cache, dtype);
    if !fits {
        return Ok(None);
    }
    let weights = norms.map(|norm| norm.weight.storage_and_layout());
    let alpha = |i: usize| {
        let (storage, layout) = &weights[i];
        RocmStorage::of(storage, "norm_rope_grow", "a norm")?.contiguous(layout, "norm_rope_grow", "a norm")
    };
    let (alphas, eps) = ([alpha(0)?, alpha(1)?], norms[0].eps as f32);
    rotate_into(qkv, angles, cache, dtype, |device, rows, cos, sin| {
        let op = "norm_rope_grow";
        let dtypes = (super::dtype_of(from, op)?, super::dtype_of(dtype, op)?);
        device.norm_rope_qkv(dtypes, rows, (alphas, eps), cos, sin).w()
    })
    .map(Some)
}

type Strided<'a> = kernels::Strided<'a>;

/// Takes room in the caches, and calls `launch` with the rows of queries, keys and values, and the angles. Returns the
/// new queries, and all keys and values, of `dtype`.
fn rotate_into(
    [q, k, v]: [&Tensor; 3],
    [cos, sin]: [&Tensor; 2],
    cache: Caches<'_>,
    dtype: DType,
    launch: impl FnOnce(&kernels::Device, [(Strided<'_>, Strided<'_>); 3], Strided<'_>, Strided<'_>) -> Result<()>,
) -> Result<[Tensor; 3]> {
    let count = q.dims()[TOKENS];
    let device = q.device().as_rocm_device()?;
    let (keys, values) = cache.room(q.device(), [k.dims(), v.dims()], dtype)?;
    let rotated = device.empty(q.shape(), dtype)?;
    let q_l = Layout::contiguous(q.shape());
    {
        let guards = [q, k, v, cos, sin, &keys, &values].map(|t| t.storage_and_layout());
        let of = |i: usize| RocmStorage::of(&guards[i].0, "rope_grow", "an operand");
        let new = |i: usize| {
            let layout = guards[i].1;
            layout_of(&layout.narrow(TOKENS, layout.dims()[TOKENS] - count, count)?)
        };
        let given = |i: usize| layout_of(guards[i].1);
        let (q_src, k_src, v_src, cos_l, sin_l) = (given(0)?, given(1)?, given(2)?, given(3)?, given(4)?);
        let (q_dst, k_dst, v_dst) = (layout_of(&q_l)?, new(5)?, new(6)?);
        let rows = [
            ((&q_src, of(0)?.memory()).into(), (&q_dst, rotated.memory()).into()),
            ((&k_src, of(1)?.memory()).into(), (&k_dst, of(5)?.memory()).into()),
            ((&v_src, of(2)?.memory()).into(), (&v_dst, of(6)?.memory()).into()),
        ];
        let (cos, sin) = ((&cos_l, of(3)?.memory()).into(), (&sin_l, of(4)?.memory()).into());
        launch(device.handle(), rows, cos, sin)?;
    }
    let rotated = Tensor::from_storage(Storage::Rocm(rotated), q.shape(), BackpropOp::none(), false);
    Ok([rotated, keys, values])
}
