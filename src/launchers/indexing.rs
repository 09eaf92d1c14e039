//! Selection, gather and scatter by ids. The contracts are in `include/candle_rocm/launchers/indexing.h`.
use crate::{Buffer, DType, Device, Layout, Result};

impl Device {
    /// `dst[l, n, r] = src[l, ids[n], r]`: `crk_index_select`. `ids` is a dtype, a layout of rank 1 and a buffer.
    pub fn index_select(
        &self,
        dtype: DType,
        src: (&Layout, &Buffer),
        ids: (DType, &Layout, &Buffer),
        dim: usize,
        dst: &Buffer,
    ) -> Result<()> {
        launch_reporting!(self.crk_index_select(ids.0, dtype, src.0, src.1, ids.1, ids.2, dim, dst))
    }

    /// `dst[l, n, r] = src[l, ids[l, n, r], r]`: `crk_gather`.
    pub fn gather(
        &self,
        dtype: DType,
        src: (&Layout, &Buffer),
        ids: (DType, &Layout, &Buffer),
        dim: usize,
        dst: &Buffer,
    ) -> Result<()> {
        launch_reporting!(self.crk_gather(ids.0, dtype, src.0, src.1, ids.1, ids.2, dim, dst))
    }

    /// `dst[l, ids[l, n, r], r] = src[l, n, r]` for n in order: `crk_scatter`.
    pub fn scatter(
        &self,
        dtype: DType,
        ids: (DType, &Layout, &Buffer),
        src: (&Layout, &Buffer),
        dim: usize,
        dst: (&Layout, &Buffer),
    ) -> Result<()> {
        launch_reporting!(self.crk_scatter(ids.0, dtype, ids.1, ids.2, src.0, src.1, dim, dst.0, dst.1))
    }

    /// `dst[l, ids[l, n, r], r] += src[l, n, r]` for n in order: `crk_scatter_add`.
    pub fn scatter_add(
        &self,
        dtype: DType,
        ids: (DType, &Layout, &Buffer),
        src: (&Layout, &Buffer),
        dim: usize,
        dst: (&Layout, &Buffer),
    ) -> Result<()> {
        launch_reporting!(self.crk_scatter_add(ids.0, dtype, ids.1, ids.2, src.0, src.1, dim, dst.0, dst.1))
    }

    /// `dst[l, ids[n], r] += src[l, n, r]` for n in order: `crk_index_add`. `ids` has a layout of rank 1.
    pub fn index_add(
        &self,
        dtype: DType,
        ids: (DType, &Layout, &Buffer),
        src: (&Layout, &Buffer),
        dim: usize,
        dst: (&Layout, &Buffer),
    ) -> Result<()> {
        launch_reporting!(self.crk_index_add(ids.0, dtype, ids.1, ids.2, src.0, src.1, dim, dst.0, dst.1))
    }
}
