//! Activations of quantized products. They are quantized once for all products that read the same tensor, such as those
//! of q, k and v.
use super::{RocmStorage, WrapErr, elements, kernels};
use crate::backend::BackendStorage;
use crate::{Layout, Result};
use candle_rocm_sys::Buffer;
use std::sync::{Arc, Mutex};

/// The most rows of a tensor that are kept: those of one to eight tokens, which the products take as they are.
const MOST_COLUMNS: usize = kernels::sys::CRK_MOST_VEC_COLUMNS as usize;

/// Activations per block. The rows of a part are whole numbers of blocks.
pub(crate) const BLOCK: usize = kernels::sys::CRK_Q8_1_BLOCK as usize;

/// A part of a storage as activations of a quantized product, each row in blocks of 8-bit codes.
#[derive(Debug)]
pub(crate) struct Columns {
    pub blocks: Arc<Buffer>,
    part: Part,
    /// Replays of graphs may have changed the storage if this is another than the process has now.
    epoch: u64,
}

/// `count` rows of `k` elements from the element `first` on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part {
    pub first: usize,
    pub count: usize,
    pub k: usize,
}

impl Part {
    /// The part that a contiguous layout names; None if it has more rows than are kept, or rows that are no blocks.
    pub fn of(layout: &Layout) -> Option<Self> {
        let (k, rows) = layout.dims().split_last()?;
        let count = elements(rows);
        let fits = (1..=MOST_COLUMNS).contains(&count) && *k > 0 && k % BLOCK == 0 && layout.is_contiguous();
        fits.then(|| Part { first: layout.start_offset(), count, k: *k })
    }
}

impl Columns {
    /// Memory for the part's blocks, contents undefined.
    pub fn empty(device: &kernels::Device, part: Part) -> Result<Self> {
        let blocks = Arc::new(device.alloc(kernels::Device::columns_bytes(part.count, part.k)).w()?);
        Ok(Self { blocks, part, epoch: kernels::graph_epoch() })
    }
}

/// The columns that a storage keeps. Whoever writes to the storage forgets them first.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Empty,
    Columns(Arc<Columns>),
    /// The program has borrowed the memory, and may write to it at any time. Nothing is kept.
    Lent,
}

impl Kept {
    /// Called before a write. The exclusive borrow shows that the program has given back what it had borrowed.
    pub fn forget(&mut self) {
        *self.0.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()) = State::Empty;
    }

    /// Called before the program borrows the memory.
    pub fn lend(&self) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = State::Lent;
    }

    /// The kept columns of `part`, or else those that `make` gives.
    fn get(&self, part: Part, make: impl FnOnce() -> Result<Columns>) -> Result<Arc<Columns>> {
        let mut kept = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match &*kept {
            State::Columns(columns) if columns.part == part && columns.epoch == kernels::graph_epoch() => {
                return Ok(columns.clone());
            }
            State::Lent => return make().map(Arc::new),
            _ => {}
        }
        let made = Arc::new(make()?);
        *kept = State::Columns(made.clone());
        Ok(made)
    }
}

impl RocmStorage {
    /// The part as activations of a quantized product. It is quantized by the first product that asks.
    pub(crate) fn columns(&self, part: Part, dtype: kernels::DType) -> Result<Arc<Columns>> {
        self.kept.get(part, || {
            let (device, size) = (self.memory().device(), dtype.size());
            let columns = Columns::empty(device, part)?;
            let bytes = part.first * size..(part.first + part.count * part.k) * size;
            let x = self.memory().range(bytes).w()?;
            device.quantize_columns(dtype, (part.count, part.k), x, &columns.blocks).w()?;
            Ok(columns)
        })
    }

    /// The blocks of [`RocmStorage::columns`] for a whole tensor; None if it has more than eight rows, or rows of no
    /// whole blocks. Nobody writes to them.
    pub fn columns_of(&self, layout: &Layout) -> Result<Option<Arc<Buffer>>> {
        let dtype = super::dtype_of(self.dtype(), "quantize")?;
        Part::of(layout).map(|part| Ok(self.columns(part, dtype)?.blocks.clone())).transpose()
    }

    /// The storage with the columns that were made beside it.
    pub(crate) fn with_columns(mut self, columns: Option<Columns>) -> Self {
        self.kept = Kept(Mutex::new(columns.map_or(State::Empty, |columns| State::Columns(Arc::new(columns)))));
        self
    }
}
