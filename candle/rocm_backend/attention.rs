//! Fused attention: candle-nn's `sdpa`, and what candle-flash-attn shares with it.
use super::layout::layout_of;
use super::nn::columns_beside;
use super::storage::dtype_of;
use super::{RocmStorage, WrapErr, elements, kernels};
use crate::backend::{BackendDevice, BackendStorage};
use crate::{Layout, Result, Shape, Storage, Tensor};
use candle_rocm_sys::{Attention, Strided, View};
use std::ops::Deref;

/// The operands of a call of [`kernels::Device::attention`], and memory for its result.
pub struct AttentionOperands<'a> {
    dtype: kernels::DType,
    storages: [&'a RocmStorage; 3],
    layouts: [kernels::Layout; 4],
    dst: RocmStorage,
}

impl<'a> AttentionOperands<'a> {
    /// `q`, `k` and `v` have the layouts (batch, heads, tokens, d), `k` and `v` of a paged cache (blocks, heads, block,
    /// d). `dst` is the layout of a result without gaps, with its dims in the same order.
    pub fn new(
        op: &'static str,
        q: (&'a RocmStorage, &Layout),
        k: (&'a RocmStorage, &Layout),
        v: (&'a RocmStorage, &Layout),
        dst: &Layout,
    ) -> Result<Self> {
        k.0.expect_dtype(q.0.dtype(), op, "k")?;
        v.0.expect_dtype(q.0.dtype(), op, "v")?;
        Ok(Self {
            dtype: dtype_of(q.0.dtype(), op)?,
            storages: [q.0, k.0, v.0],
            layouts: [layout_of(q.1)?, layout_of(k.1)?, layout_of(v.1)?, layout_of(dst)?],
            dst: q.0.device().empty_of(elements(dst.dims()), q.0.dtype())?,
        })
    }

    /// The call, without anything that is optional. Its fields are the program's to use, as [`RocmStorage::buffer`] is.
    pub fn call(&self, scale: f32) -> Attention<'_> {
        self.storages.iter().chain([&&self.dst]).for_each(|storage| storage.kept.lend());
        self.own_call(scale)
    }

    fn own_call(&self, scale: f32) -> Attention<'_> {
        let ([q, k, v], [q_l, k_l, v_l, dst_l]) = (self.storages, &self.layouts);
        let (q, k, v) = ((q_l, q.memory()), (k_l, k.memory()), (v_l, v.memory()));
        Attention::new(self.dtype, q, k, v, (dst_l, self.dst.memory()), scale)
    }

    /// The result, once the call is made.
    pub fn into_result(mut self) -> RocmStorage {
        self.dst.written();
        self.dst
    }
}

/// How scores are made of the products of queries and keys, and the keys that a query sees.
pub struct Scoring<'a> {
    /// It broadcasts to (batch, heads, queries, keys). A mask of u8 hides keys where it is 0, others are added to the
    /// scores.
    pub mask: Option<&'a Tensor>,
    /// The last query sees all keys, and each one before it a key less.
    pub causal: bool,
    /// The keys that a query sees before its own place; all if `None`.
    pub left: Option<usize>,
    /// The factor of the products.
    pub scale: f32,
    /// A score s becomes `softcap * tanh(s / softcap)`.
    pub softcap: Option<f32>,
}

/// The result of attention and its shape.
type Attended = Result<(RocmStorage, Shape)>;

/// How the result lies in memory, and whether it is also the input of quantized products.
enum Order {
    /// (batch, heads, queries, dv)
    Heads,
    /// (batch, queries, heads, dv)
    Tokens { for_products: bool },
}

/// A tensor that an op has beside its operands. Made by [`side_tensor`].
pub struct SideTensor<'a, S> {
    storage: S,
    layout: &'a Layout,
    converted: kernels::Layout,
    op: &'static str,
    argument: &'static str,
}

/// Borrows a tensor's storage. Fails if it is not on a ROCm device. The type of the guard differs among Candle's
/// releases.
pub fn side_tensor<'a>(
    tensor: &'a Tensor,
    op: &'static str,
    argument: &'static str,
) -> Result<SideTensor<'a, impl Deref<Target = Storage> + 'a>> {
    let (storage, layout) = tensor.storage_and_layout();
    RocmStorage::of(&storage, op, argument)?;
    Ok(SideTensor { storage, layout, converted: layout_of(layout)?, op, argument })
}

impl<S: Deref<Target = Storage>> SideTensor<'_, S> {
    /// Its memory with its layout.
    pub fn strided(&self) -> Result<Strided<'_>> {
        Ok((&self.converted, RocmStorage::of(&self.storage, self.op, self.argument)?.buffer()).into())
    }

    /// Its memory without a layout. Fails if it is not contiguous.
    pub fn view(&self) -> Result<View<'_>> {
        RocmStorage::of(&self.storage, self.op, self.argument)?.contiguous(self.layout, self.op, self.argument)
    }
}

/// The sizes of heads that the kernels take are multiples of this.
const GRAIN: usize = 8;

/// An operand whose rows the kernels can read: the tensor itself, or a copy.
struct Rows<'a> {
    given: &'a RocmStorage,
    copied: Option<RocmStorage>,
    layout: Layout,
}

impl<'a> Rows<'a> {
    /// Makes a copy if the elements of a row are apart, or if their number is no multiple of [`GRAIN`]. The copy then
    /// has zeros at the end of each row.
    fn new(given: &'a RocmStorage, layout: &Layout) -> Result<Self> {
        let (b, heads, tokens, d) = layout.shape().dims4()?;
        let padded = d.next_multiple_of(GRAIN);
        let is_contiguous = layout.stride()[3] == 1;
        if padded == d && is_contiguous {
            return Ok(Self { given, copied: None, layout: layout.clone() });
        }
        let mut copied = given.packed(layout)?;
        let shape = Shape::from((b, heads, tokens, padded));
        if padded != d {
            let mut wide = given.device().zeros_impl(&shape, given.dtype())?;
            copied.copy2d(&mut wide, elements(&[b, heads, tokens]), d, d, padded, 0, 0)?;
            copied = wide;
        }
        Ok(Self { given, copied: Some(copied), layout: Layout::contiguous(shape) })
    }

    fn operand(&self) -> (&RocmStorage, &Layout) {
        (self.copied.as_ref().unwrap_or(self.given), &self.layout)
    }
}

impl RocmStorage {
    /// A storage that must be on a ROCm device.
    pub fn of<'a>(storage: &'a Storage, op: &str, argument: &str) -> Result<&'a RocmStorage> {
        match storage {
            Storage::Rocm(storage) => Ok(storage),
            _ => crate::bail!("{op}: {argument} is on {:?}, not on a rocm device", storage.device().location()),
        }
    }

    /// `softmax(scale * q * k^T) * v` of (batch, heads, queries, d), (batch, kv heads, keys, d) and (batch, kv heads,
    /// keys, dv). If d or dv is no multiple of 8, the tensors are copied.
    pub fn sdpa(&self, layout: &Layout, k: (&Self, &Layout), v: (&Self, &Layout), scoring: &Scoring) -> Attended {
        self.attend(layout, k, v, scoring, Order::Heads)
    }

    /// The same for a result of (batch, queries, heads, dv). `for_products`: as in [`RocmStorage::add_rms_norm`].
    pub fn sdpa_by_tokens(
        &self,
        layout: &Layout,
        k: (&Self, &Layout),
        v: (&Self, &Layout),
        scoring: &Scoring,
        for_products: bool,
    ) -> Attended {
        self.attend(layout, k, v, scoring, Order::Tokens { for_products })
    }

    fn attend(
        &self,
        layout: &Layout,
        (k, k_l): (&Self, &Layout),
        (v, v_l): (&Self, &Layout),
        scoring: &Scoring,
        order: Order,
    ) -> Attended {
        let op = "sdpa";
        let by_tokens = matches!(order, Order::Tokens { .. });
        let ((b, heads, queries, _), (_, _, keys, _)) = (layout.shape().dims4()?, k_l.shape().dims4()?);
        let (q, k, v) = (Rows::new(self, layout)?, Rows::new(k, k_l)?, Rows::new(v, v_l)?);
        let (dv, padded) = (v_l.dims()[3], v.layout.dims()[3]);
        let dims = |last| if by_tokens { (b, queries, heads, last) } else { (b, heads, queries, last) };
        let mut dst_l = Layout::contiguous(dims(padded));
        if by_tokens {
            dst_l = dst_l.transpose(1, 2)?;
        }
        let operands = AttentionOperands::new(op, q.operand(), k.operand(), v.operand(), &dst_l)?;

        let mask = scoring.mask.map(|mask| mask.broadcast_as((b, heads, queries, keys))).transpose()?;
        let side = mask.as_ref().map(|mask| side_tensor(mask, op, "mask")).transpose()?;
        let mask = match (&mask, &side) {
            (Some(mask), Some(side)) => Some((dtype_of(mask.dtype(), op)?, side.strided()?)),
            _ => None,
        };
        let wanted = matches!(order, Order::Tokens { for_products: true }) && padded == dv;
        let columns = columns_beside(self.device(), wanted, self.dtype(), (b * queries, heads * dv))?;
        let blocks = columns.as_ref().map(|columns| (&*columns.blocks).into());
        let Scoring { causal, left, scale, softcap, .. } = *scoring;
        let call = Attention { softcap, causal, left, mask, columns: blocks, ..operands.own_call(scale) };
        self.device().handle().attention(&call).w()?;

        let shape = Shape::from(dims(dv));
        let result = operands.into_result().with_columns(columns);
        if padded == dv {
            return Ok((result, shape));
        }
        let mut narrow = self.device().empty(&shape, self.dtype())?;
        result.copy2d(&mut narrow, elements(&[b, heads, queries]), dv, padded, dv, 0, 0)?;
        Ok((narrow, shape))
    }
}
