//! The heads of one token: products with the weights of queries, keys and values, rotary embeddings, and the growth of
//! caches, in one launch.
use super::grow::{Caches, TOKENS, goes_on};
use super::layout::layout_of;
use super::{RocmStorage, WrapErr, dtype_of, elements, kernels};
use crate::op::BackpropOp;
use crate::{DType, Layout, Result, Shape, Storage, Tensor};

/// The heads of one token: its queries, and its keys and values, which go to caches.
#[derive(Debug, Clone, Copy)]
pub struct Heads<'a> {
    /// The heads of queries, keys and values.
    pub counts: [usize; 3],
    /// Elements of a head.
    pub d: usize,
    /// Whether neighbours are a pair that is rotated, as for `rope_i`.
    pub interleaved: bool,
    /// The cosines and sines of the token's place, (1, d / 2) each.
    pub angles: [&'a Tensor; 2],
    /// Where the keys and the values go.
    pub cache: Caches<'a>,
}

/// Where the heads of queries, keys and values go: the first one, and the elements from one head to the next.
pub(crate) type Places<'a> = [(kernels::View<'a>, usize); 3];

impl Heads<'_> {
    pub(crate) fn kind(&self) -> kernels::RopeKind {
        if self.interleaved { kernels::RopeKind::RopeI } else { kernels::RopeKind::Rope }
    }

    fn dims(&self, part: usize) -> [usize; 4] {
        [1, self.counts[part], 1, self.d]
    }

    /// Whether the token, the angles and the caches go together.
    fn fit(&self, token: &Tensor) -> bool {
        let like = |t: &Tensor| t.dtype() == token.dtype() && t.device().same_device(token.device()) && !t.track_op();
        let follows = |cache: &Tensor, part: usize| {
            goes_on(cache, [1, self.counts[part], self.d], token.dtype(), token.device()) && !cache.same_storage(token)
        };
        token.device().is_rocm()
            && like(token)
            && matches!(token.dtype(), DType::F16 | DType::BF16 | DType::F32 | DType::F64)
            && self.counts.iter().all(|heads| *heads > 0 && heads.saturating_mul(self.d) <= i32::MAX as usize)
            && self.d > 0
            && self.d & 1 == 0
            && self.angles.iter().all(|t| t.dims() == [1, self.d / 2] && t.is_contiguous() && like(t))
            && self.cache.given().is_none_or(|(keys, values)| follows(keys, 1) && follows(values, 2))
            && self.cache.have_dims([&self.dims(1), &self.dims(2)])
    }

    /// Takes room in the caches and calls `launch`. Returns the queries, and all keys and values. None where
    /// something does not fit.
    pub(crate) fn make(
        &self,
        token: &Tensor,
        launch: impl FnOnce(&kernels::Device, Places<'_>, [kernels::View<'_>; 2]) -> Result<()>,
    ) -> Result<Option<[Tensor; 3]>> {
        if !self.fit(token) {
            return Ok(None);
        }
        let (dtype, device) = (token.dtype(), token.device().as_rocm_device()?);
        let (keys, values) = self.cache.room(token.device(), [&self.dims(1), &self.dims(2)], dtype)?;
        let shape = Shape::from(self.dims(0).to_vec());
        let queries =
            Tensor::from_storage(Storage::Rocm(device.empty(&shape, dtype)?), shape, BackpropOp::none(), false);
        {
            let made = [&queries, &keys, &values].map(|t| t.storage_and_layout());
            let (op, size) = ("heads", dtype_of(dtype, "heads")?.size());
            let place = |part: usize| {
                let (storage, layout) = &made[part];
                let length = layout.dims()[TOKENS];
                let first = layout.narrow(TOKENS, length - 1, 1)?.start_offset();
                let (stride, heads) = (layout.stride()[1], self.counts[part]);
                let end = first + (heads - 1) * stride + self.d;
                let memory = RocmStorage::of(storage, op, "heads")?.memory();
                Result::Ok((memory.range(first * size..end * size).w()?, stride))
            };
            let guards = self.angles.map(|t| t.storage_and_layout());
            let angle = |i: usize| RocmStorage::of(&guards[i].0, op, "angles")?.range(guards[i].1, op, "angles");
            launch(device.handle(), [place(0)?, place(1)?, place(2)?], [angle(0)?, angle(1)?])?;
        }
        Ok(Some([queries, keys, values]))
    }
}

impl RocmStorage {
    /// The heads of a token, from dense weights (heads * d, k) and perhaps biases: `crk_matmul_rope`. None as for
    /// [`Heads::make`].
    pub fn row_heads(
        token: &Tensor,
        weights: [(&Self, &Layout); 3],
        biases: [Option<kernels::View<'_>>; 3],
        heads: &Heads<'_>,
    ) -> Result<Option<[Tensor; 3]>> {
        let op = "row_heads";
        let layouts = weights.iter().map(|(_, layout)| layout_of(layout)).collect::<Result<Vec<_>>>()?;
        for (weights, _) in &weights {
            weights.expect_dtype(token.dtype(), op, "weights")?;
        }
        let (storage, layout) = token.storage_and_layout();
        let (x, k) = (RocmStorage::of(&storage, op, "token")?.range(layout, op, "token")?, elements(layout.dims()));
        let dtype = dtype_of(token.dtype(), op)?;
        heads.make(token, |device, places, angles| {
            let parts: Vec<_> = (0..3)
                .map(|part| kernels::HeadWeights {
                    heads: heads.counts[part],
                    layout: Some(&layouts[part]),
                    weights: weights[part].0.memory().into(),
                    bias: biases[part],
                    dst: places[part],
                    rotates: part < 2,
                })
                .collect();
            device.matmul_rope(dtype, heads.kind(), (heads.d, k), x, &parts, angles).w()
        })
    }
}
