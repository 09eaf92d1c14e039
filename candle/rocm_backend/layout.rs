//! Converts Candle's layouts, which may have any number of dims, to the launchers' layouts of at most 8 dims.
use super::{RocmStorage, WrapErr, kernels};
use crate::{Layout, Result};
use candle_rocm_sys::Buffer;
use std::borrow::Cow;

/// A tensor as Candle's backend trait passes it.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub storage: &'a RocmStorage,
    pub layout: &'a Layout,
}

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

/// The tensors of an op in the launchers' form. Ranks above 8 are allowed.
///
/// If the rank is above 8, adjacent dims are joined where they are contiguous in every tensor. If more than 8 dims
/// remain, contiguous copies replace the tensors that are not contiguous. A tensor that the op writes to must therefore
/// be contiguous.
pub(super) struct OfAnyRank<'a, const N: usize> {
    layouts: [kernels::Layout; N],
    memory: [Memory<'a>; N],
    apart: Cow<'a, [usize]>,
}

/// Where the elements of a tensor are.
enum Memory<'a> {
    Given(&'a RocmStorage),
    Copied(RocmStorage),
}

impl<'a, const N: usize> OfAnyRank<'a, N> {
    /// The op treats the dims `apart` separately, so they are never joined with others. If any rank is above 8, all
    /// ranks are equal, or a launcher refuses them.
    pub fn new(tensors: [Operand<'a>; N], apart: &'a [usize]) -> Result<Self> {
        let layouts = tensors.map(|tensor| tensor.layout);
        let (rank, memory) = (layouts[0].dims().len(), tensors.map(|tensor| Memory::Given(tensor.storage)));
        if layouts.iter().any(|layout| fits(layout) || layout.dims().len() != rank) {
            return Self::of_layouts(layouts, memory, Cow::Borrowed(apart));
        }
        let (joint, places) = joined(layouts, apart);
        if fits(&joint[0]) {
            return Self::of_layouts(joint.each_ref(), memory, Cow::Owned(places));
        }
        Self::copied(tensors, apart)
    }

    /// Copies the tensors that are not contiguous. All dims but `apart` can be joined then.
    fn copied(tensors: [Operand<'a>; N], apart: &[usize]) -> Result<Self> {
        let mut memory = tensors.map(|tensor| Memory::Given(tensor.storage));
        let mut layouts = tensors.map(|tensor| tensor.layout.clone());
        for (i, tensor) in tensors.iter().enumerate() {
            if !tensor.layout.is_contiguous() {
                memory[i] = Memory::Copied(tensor.storage.packed(tensor.layout)?);
                layouts[i] = Layout::contiguous(tensor.layout.shape());
            }
        }
        let (joint, places) = joined(layouts.each_ref(), apart);
        Self::of_layouts(joint.each_ref(), memory, Cow::Owned(places))
    }

    fn of_layouts(layouts: [&Layout; N], memory: [Memory<'a>; N], apart: Cow<'a, [usize]>) -> Result<Self> {
        let mut own = [kernels::Layout::default(); N];
        for (to, from) in own.iter_mut().zip(layouts) {
            *to = layout_of(from)?;
        }
        Ok(Self { layouts: own, memory, apart })
    }

    /// The tensors.
    pub fn sources(&self) -> [Source<'_>; N] {
        std::array::from_fn(|i| match &self.memory[i] {
            Memory::Given(storage) => (&self.layouts[i], storage.memory()),
            Memory::Copied(storage) => (&self.layouts[i], storage.memory()),
        })
    }

    /// The positions in these layouts of the dims that the op treats separately.
    pub fn apart(&self) -> &[usize] {
        &self.apart
    }
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
