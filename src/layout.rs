//! Layouts: the C struct, made from slices.
use crate::error::check;
use crate::{Error, Layout, Result, Status, sys};

impl sys::crk_layout {
    /// The contiguous layout of `dims`. Fails for more than 8 dims, and for more elements than a `usize` counts.
    pub fn contiguous(dims: &[usize]) -> Result<Layout> {
        let mut layout = std::mem::MaybeUninit::zeroed();
        // SAFETY: `dims` and its length belong together; `layout` is written.
        check(unsafe { sys::crk_layout_contiguous(dims.as_ptr(), dims.len(), layout.as_mut_ptr()) })?;
        // SAFETY: written on success, and of plain numbers anyway.
        Ok(unsafe { layout.assume_init() })
    }

    /// A layout of `dims` and `strides`, beginning at element `offset`. Fails for more than 8 dims.
    pub fn strided(dims: &[usize], strides: &[usize], offset: usize) -> Result<Layout> {
        let refused = |message| Err(Error::new(Status::CRK_INVALID_ARGUMENT, message));
        let (rank, mut layout) = (dims.len(), Layout { offset, ..Layout::default() });
        if strides.len() != rank {
            return refused(format!("Layout::strided: {rank} dims but {} strides", strides.len()));
        }
        let (Some(to_dims), Some(to_strides)) = (layout.dims.get_mut(..rank), layout.strides.get_mut(..rank)) else {
            return refused(format!("Layout::strided: rank is {rank}, the most is {}", sys::CRK_MAX_RANK));
        };
        to_dims.copy_from_slice(dims);
        to_strides.copy_from_slice(strides);
        layout.rank = rank as u32;
        Ok(layout)
    }

    /// The number of elements.
    pub fn numel(&self) -> Result<usize> {
        let mut numel = 0;
        // SAFETY: both pointers are to live values.
        check(unsafe { sys::crk_layout_numel(self, &mut numel) })?;
        Ok(numel)
    }

    /// Whether the elements follow each other without gaps, as Candle asks it.
    pub fn is_contiguous(&self) -> Result<bool> {
        let mut contiguous = false;
        // SAFETY: both pointers are to live values.
        check(unsafe { sys::crk_layout_is_contiguous(self, &mut contiguous) })?;
        Ok(contiguous)
    }
}
