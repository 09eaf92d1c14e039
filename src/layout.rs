//! Layouts: constructors of the C struct from slices.
use crate::error::check;
use crate::{Error, Layout, Result, Status, sys};

impl sys::crk_layout {
    /// The contiguous layout of `dims`. Fails for more than 8 dims, and for more elements than `usize` can hold.
    pub fn contiguous(dims: &[usize]) -> Result<Layout> {
        let mut layout = std::mem::MaybeUninit::zeroed();
        // SAFETY: `dims` is as long as it says; `layout` is written on success.
        check(unsafe { sys::crk_layout_contiguous(dims.as_ptr(), dims.len(), layout.as_mut_ptr()) })?;
        // SAFETY: written on success, and of plain numbers anyway.
        Ok(unsafe { layout.assume_init() })
    }

    /// The layout of `dims` and `strides` that begins at element `offset`. Fails for more than 8 dims.
    pub fn strided(dims: &[usize], strides: &[usize], offset: usize) -> Result<Layout> {
        let refused = |message| Err(Error::new(Status::InvalidArgument, message));
        let (rank, mut layout) = (dims.len(), Layout { offset, ..Layout::default() });
        if strides.len() != rank {
            return refused(format!("Layout::strided: {rank} dims but {} strides", strides.len()));
        }
        let (Some(to_dims), Some(to_strides)) = (layout.dims.get_mut(..rank), layout.strides.get_mut(..rank)) else {
            return refused(format!("Layout::strided: rank is {rank}, the limit is {}", sys::CRK_MAX_RANK));
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

    /// Whether the elements follow each other without gaps, by Candle's definition.
    pub fn is_contiguous(&self) -> Result<bool> {
        let mut contiguous = false;
        // SAFETY: both pointers are to live values.
        check(unsafe { sys::crk_layout_is_contiguous(self, &mut contiguous) })?;
        Ok(contiguous)
    }
}
