//! Converts Candle's layouts, which may have any number of dims, to the launchers' layouts of at most 8 dims.
use super::{RocmStorage, WrapErr, kernels};
use crate::{Layout, Result};
use candle_rocm_sys::Buffer;

/// A tensor as launchers take it.
pub(super) type Source<'a> = (&'a kernels::Layout, &'a Buffer);

/// The number of elements of `dims`. It saturates at `usize::MAX`, a size that no allocator can provide.
pub(crate) fn elements<'a>(dims: impl IntoIterator<Item = &'a usize>) -> usize {
    dims.into_iter().fold(1, |count, dim| count.saturating_mul(*dim))
}

/// Whether launchers accept the layout as it is.
pub(super) fn fits(layout: &Layout) -> bool {
    layout.dims().len() <= kernels::sys::CRK_MAX_RANK as usize
}

/// The launchers' layout, for a program's own ops. Fails for more than 8 dims.
pub fn layout_of(layout: &Layout) -> Result<kernels::Layout> {
    kernels::Layout::strided(layout.dims(), layout.stride(), layout.start_offset()).w()
}

/// Calls `run` with tensors of equal rank in the launchers' form. Ranks above 8 are allowed.
///
/// The op treats the dims `apart` separately, so they are never joined with others. `run` also gets their positions in
/// the layouts that it is given. If the rank is above 8, adjacent dims are joined where they are contiguous in every
/// tensor. If more than 8 dims remain, contiguous copies replace the tensors that are not contiguous. A tensor that
/// `run` writes to must therefore be contiguous.
pub(super) fn of_any_rank<const N: usize, T>(
    tensors: [(&RocmStorage, &Layout); N],
    apart: &[usize],
    run: impl FnOnce([Source<'_>; N], &[usize]) -> Result<T>,
) -> Result<T> {
    let rank = |layout: &Layout| layout.dims().len();
    if tensors.iter().any(|(_, layout)| fits(layout) || rank(layout) != rank(tensors[0].1)) {
        return as_they_are(tensors, apart, run);
    }
    let (joint, places) = joined(tensors.map(|(_, layout)| layout), apart);
    if fits(&joint[0]) {
        return as_they_are(std::array::from_fn(|i| (tensors[i].0, &joint[i])), &places, run);
    }
    let mut copies = Vec::with_capacity(N);
    for (storage, layout) in tensors {
        copies.push(if layout.is_contiguous() { None } else { Some(storage.packed(layout)?) });
    }
    let packed: [_; N] = std::array::from_fn(|i| match (&copies[i], tensors[i]) {
        (Some(copy), (_, layout)) => (copy, Layout::contiguous(layout.shape())),
        (None, (storage, layout)) => (storage, layout.clone()),
    });
    let (joint, places) = joined(packed.each_ref().map(|(_, layout)| layout), apart);
    as_they_are(std::array::from_fn(|i| (packed[i].0, &joint[i])), &places, run)
}

fn as_they_are<const N: usize, T>(
    tensors: [(&RocmStorage, &Layout); N],
    apart: &[usize],
    run: impl FnOnce([Source<'_>; N], &[usize]) -> Result<T>,
) -> Result<T> {
    let mut layouts = [kernels::Layout::default(); N];
    for (to, (_, from)) in layouts.iter_mut().zip(tensors) {
        *to = layout_of(from)?;
    }
    run(std::array::from_fn(|i| (&layouts[i], tensors[i].0.buffer())), apart)
}

/// Calls `each` with parts of a tensor that have at most 8 dims, and with the number of each part's first element,
/// counted from `first`. There is only one part unless more than 8 dims remain after contiguous dims are joined.
pub(super) fn parts(
    layout: &Layout,
    first: usize,
    each: &mut impl FnMut(&kernels::Layout, usize) -> Result<()>,
) -> Result<()> {
    if fits(layout) {
        return each(&layout_of(layout)?, first);
    }
    let ([layout], _) = joined([layout], &[]);
    if fits(&layout) {
        return each(&layout_of(&layout)?, first);
    }
    for i in 0..layout.dims()[0] {
        let part = layout.narrow(0, i, 1)?;
        parts(&part, first + i * part.shape().elem_count(), each)?;
    }
    Ok(())
}

/// Joins adjacent dims that are contiguous in all layouts, and drops dims of size 1. The dims `apart` stay as they are;
/// the second result is their new positions.
fn joined<const N: usize>(layouts: [&Layout; N], apart: &[usize]) -> ([Layout; N], Vec<usize>) {
    // Dims and strides of each layout.
    let mut joint: [(Vec<usize>, Vec<usize>); N] = std::array::from_fn(|_| Default::default());
    let mut places = apart.to_vec();
    let mut was_apart = true;
    for i in 0..layouts[0].dims().len() {
        let place = apart.iter().position(|&dim| dim == i);
        if let Some(at) = place {
            places[at] = joint[0].0.len();
        } else if layouts[0].dims()[i] == 1 {
            continue;
        }
        let follows = |(layout, (_, strides)): (&&Layout, &(_, Vec<usize>))| {
            strides.last() == Some(&(layout.stride()[i] * layout.dims()[i]))
        };
        let joins = !was_apart && place.is_none() && layouts.iter().zip(&joint).all(follows);
        for (layout, (dims, strides)) in layouts.iter().zip(&mut joint) {
            let mut dim = layout.dims()[i];
            if joins {
                strides.pop();
                dim = dim.saturating_mul(dims.pop().unwrap_or(1));
            }
            dims.push(dim);
            strides.push(layout.stride()[i]);
        }
        was_apart = place.is_some();
    }
    let joint = std::array::from_fn(|i| {
        let (dims, strides) = std::mem::take(&mut joint[i]);
        Layout::new(dims.into(), strides, layouts[i].start_offset())
    });
    (joint, places)
}
