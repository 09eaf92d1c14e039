//! The table of timed cases: calls of launchers, one file per family, at any size. The benches and the report time
//! them. The tests' library has this module: its suite `timed` tests the results of the same calls at small sizes. It
//! also has shapes and random numbers, as `crate::shapes`.
pub mod agreement;
pub mod attention;
pub mod by_name;
pub mod elementwise;
pub mod images;
mod indexing;
mod quantized;
mod rows;
mod windows;

use crate::shapes::{Rng, Shape};
use agreement::Agreement;
use by_name::Kernel;
use candle_rocm_sys::{DType, Layout, Result, Status, sys};

pub const U8: DType = DType::U8;
pub const U32: DType = DType::U32;
pub const F16: DType = DType::F16;
pub const BF16: DType = DType::BF16;
pub const F32: DType = DType::F32;

/// The op of a case, by family.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    Elementwise(elementwise::Op),
    Rows(rows::Op),
    Indexing(indexing::Op),
    Windows(windows::Op),
    Images(images::Op),
    Quantized(quantized::Op),
    Attention(attention::Op),
}

impl Op {
    /// The name of the op's family.
    pub fn family(&self) -> &'static str {
        match self {
            Op::Elementwise(_) => "elementwise",
            Op::Rows(_) => "rows",
            Op::Indexing(_) => "indexing",
            Op::Windows(_) => "windows",
            Op::Images(_) => "images",
            Op::Quantized(_) => "quantized",
            Op::Attention(_) => "attention",
        }
    }
}

/// The values of a source's elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values {
    /// Floats from -8 to 8, or any integers.
    Any,
    /// Integers below a bound.
    Below(usize),
    /// 0, 1, 2 and so on.
    Counted,
    /// No two are equal among 2^20 neighbours, or 2^14 in f16.
    Distinct,
    /// Bytes below 60. As parts of a quantized block they are small finite numbers.
    Blocks,
}

impl Values {
    /// `count` elements from a seed.
    pub fn bytes(self, dtype: DType, count: usize, seed: u64) -> Vec<u8> {
        let mut random = Rng(seed);
        let mut bytes = Vec::with_capacity(count * dtype.size());
        let infinity = half::f16::INFINITY.to_bits();
        for i in 0..count {
            let float = match self {
                Values::Distinct if dtype == F16 => {
                    half::f16::from_bits((i * 0x9e_3779 % usize::from(infinity)) as u16).to_f32()
                }
                Values::Distinct => (i * 0x9e_3779 % (1 << 24)) as f32,
                _ => random.unit() as f32 * 16.0 - 8.0,
            };
            let integer = match self {
                Values::Below(bound) => random.below(bound.max(1)) as u64,
                Values::Counted => i as u64,
                Values::Blocks => random.below(60) as u64,
                _ => random.next(),
            };
            match dtype {
                F32 => bytes.extend(float.to_ne_bytes()),
                F16 => bytes.extend(half::f16::from_f32(float).to_ne_bytes()),
                BF16 => bytes.extend(half::bf16::from_f32(float).to_ne_bytes()),
                _ => bytes.extend(&integer.to_le_bytes()[..dtype.size()]),
            }
        }
        bytes
    }
}

/// A source: its element type, its layout in a buffer, and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    pub dtype: DType,
    pub shape: Shape,
    pub values: Values,
}

impl Source {
    fn plain(dtype: DType, dims: &[usize]) -> Source {
        Source { dtype, shape: Shape::contiguous(dims), values: Values::Any }
    }

    fn strided(dtype: DType, dims: &[usize], strides: &[usize]) -> Source {
        let shape = Shape { dims: dims.to_vec(), strides: strides.to_vec(), offset: 0 };
        Source { dtype, shape, values: Values::Any }
    }

    fn of(self, values: Values) -> Source {
        Source { values, ..self }
    }

    /// The size of its buffer in bytes.
    pub fn bytes(&self) -> usize {
        self.shape.reach() * self.dtype.size()
    }

    /// The bytes of its distinct elements. Broadcast elements count once.
    fn distinct_bytes(&self) -> usize {
        let dims = self.shape.dims.iter().zip(&self.shape.strides);
        dims.filter(|(_, stride)| **stride != 0).map(|(dim, _)| dim).product::<usize>() * self.dtype.size()
    }
}

/// The limit of a case's speed: the device's own copy, a kernel that only reads as many bytes, or arithmetic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Roof {
    Copies,
    Reads,
    Operations(usize),
}

/// One call of a launcher.
#[derive(Debug, Clone)]
pub struct Case {
    /// The name without the size. It is the same at every size.
    pub name: String,
    pub op: Op,
    /// The dims that a table shows.
    pub dims: Vec<usize>,
    /// The sources, in the launcher's order.
    pub sources: Vec<Source>,
    pub dst_dtype: DType,
    /// Contiguous, except for const_set and copy2d, which leave gaps.
    pub dst: Shape,
    /// The bytes that must be read and written once. A broadcast source counts its distinct elements only.
    pub moved: usize,
    pub agreement: Agreement,
    pub roof: Roof,
    /// The same op in PyTorch: an expression of the sources `x` and the destination `out`. Empty if PyTorch has no such
    /// op.
    pub torch: String,
}

impl Case {
    fn new(name: impl Into<String>, op: Op, sources: Vec<Source>, dst_dtype: DType, dst: &[usize]) -> Case {
        let dst = Shape::contiguous(dst);
        let dims = sources.first().map_or(&dst, |source| &source.shape).dims.clone();
        let moved = sources.iter().map(Source::distinct_bytes).sum::<usize>() + dst.numel() * dst_dtype.size();
        let (agreement, roof) = (Agreement::Bits, Roof::Copies);
        Case { name: name.into(), op, dims, sources, dst_dtype, dst, moved, agreement, roof, torch: String::new() }
    }

    fn within(self, agreement: Agreement) -> Case {
        Case { agreement, ..self }
    }

    fn torch(self, torch: impl Into<String>) -> Case {
        Case { torch: torch.into(), ..self }
    }

    pub fn numel(&self) -> usize {
        self.dst.numel()
    }

    /// The element type passed to the launcher: that of the source or, for where_*, of the values.
    pub fn dtype(&self) -> DType {
        self.sources.last().map_or(self.dst_dtype, |source| source.dtype)
    }

    /// The size of the destination's buffer in bytes.
    pub fn dst_bytes(&self) -> usize {
        self.dst.reach() * self.dst_dtype.size()
    }

    /// Prepares the launch: everything that a caller does once, outside of the timed part.
    pub fn prepare(&self) -> Result<Prepared<'_>> {
        let layout = |shape: &Shape| Layout::strided(&shape.dims, &shape.strides, shape.offset);
        let layouts = Layouts {
            sources: self.sources.iter().map(|source| layout(&source.shape)).collect::<Result<_>>()?,
            dst: layout(&self.dst)?,
        };
        let call = match &self.op {
            Op::Elementwise(op) => op.call(self, layouts)?,
            Op::Rows(op) => op.call(self, layouts)?,
            Op::Indexing(op) => op.call(self, layouts),
            Op::Windows(op) => op.call(self, layouts)?,
            Op::Images(op) => op.call(self, layouts),
            Op::Quantized(op) => op.call()?,
            Op::Attention(op) => op.call(self, layouts),
        };
        Ok(Prepared(call))
    }

    /// The same op with Candle's kernels, as candle-core launches them; `None` if Candle has none.
    pub fn by_name(&self) -> Option<Vec<Kernel>> {
        match &self.op {
            Op::Elementwise(op) => Some(vec![op.by_name(self)]),
            Op::Rows(op) => Some(vec![op.by_name(self)]),
            Op::Indexing(op) => Some(vec![op.by_name(self)]),
            Op::Windows(op) => Some(vec![op.by_name(self)]),
            Op::Quantized(op) => op.by_name(),
            Op::Images(_) | Op::Attention(_) => None,
        }
    }
}

/// The layouts of a case's tensors.
struct Layouts {
    sources: Vec<Layout>,
    dst: Layout,
}

impl Layouts {
    /// The layout of source `i` and its view, in the launchers' types.
    fn at(&self, i: usize, views: &[sys::crk_const_view_t]) -> (*const sys::crk_layout_t, sys::crk_const_view_t) {
        (std::ptr::from_ref(&self.sources[i]), views[i])
    }
}

type Call<'a> = Box<dyn Fn(sys::crk_device_t, &[sys::crk_const_view_t], sys::crk_view_t) -> Status + 'a>;

/// A case with its layouts made and its op looked up.
pub struct Prepared<'a>(Call<'a>);

impl Prepared<'_> {
    /// Calls the launcher. The sources are at least as long as [`Source::bytes`], and the destination as
    /// [`Case::dst_bytes`].
    ///
    /// # Safety
    /// `device` is a live handle, and the views are memory of its own.
    pub unsafe fn launch(
        &self,
        device: sys::crk_device_t,
        sources: &[sys::crk_const_view_t],
        dst: sys::crk_view_t,
    ) -> Status {
        (self.0)(device, sources, dst)
    }
}

/// The size of the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The approximate number of elements of an element-wise case. A power of two makes every dim a power of two.
    /// Families that do more work per element have fewer.
    pub elements: usize,
    /// No dim is a multiple of 2.
    pub odd: bool,
}

impl Size {
    /// `rank` dims with a product of about `elements`. The last two are the largest: 2^28 at rank 4 gives 64, 64, 256,
    /// 256.
    fn dims<const RANK: usize>(self) -> [usize; RANK] {
        let bits = self.elements.max(2).ilog2() as usize;
        let mut dims = [1; RANK];
        let mut left = bits;
        for i in (0..RANK).rev() {
            let share = if RANK == 4 && i >= 2 { bits * 8 / 28 } else { left / (i + 1) };
            let share = if i == 0 { left } else { share };
            left -= share;
            dims[i] = 1 << share;
        }
        if RANK == 1 {
            dims[0] = self.elements;
        }
        dims.map(|dim| self.dim(dim))
    }

    /// A dim, made odd if this size is odd.
    fn dim(self, dim: usize) -> usize {
        match (self.odd, dim) {
            (false, _) => dim,
            (true, 0..=2) => 1,
            (true, _) => (dim - 1) | 1,
        }
    }

    /// Rows of about `columns` that make up the elements, at least one. With fewer elements than `columns`, the row is
    /// shorter.
    fn rows_of(self, columns: usize) -> (usize, usize) {
        let columns = columns.min(self.elements).max(1);
        (self.dim((self.elements / columns).max(1)), self.dim(columns))
    }

    fn share(self, part: usize) -> Size {
        Size { elements: (self.elements / part).max(1), ..self }
    }
}

fn text(dtype: DType) -> &'static str {
    dtype.name().expect("a dtype of the table")
}

/// All cases of all families at a size.
pub fn all(size: Size) -> Vec<Case> {
    [
        elementwise::cases(size),
        rows::cases(size),
        indexing::cases(size),
        windows::cases(size),
        images::cases(size),
        quantized::cases(size),
        attention::cases(size),
    ]
    .concat()
}
