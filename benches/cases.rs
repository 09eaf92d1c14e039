//! The element-wise calls that are timed: every family, contiguous, broadcast, permuted and transposed, at whatever size.
//! tests/timed.rs proves these same calls at small sizes. The program that has this file has tests/support/cases.rs, where
//! shapes and random numbers come from, as `crate::shapes`.
use crate::shapes::Shape;
use candle_rocm_sys::{DType, Layout, Result, Status, sys};

pub const U8: DType = DType::CRK_DTYPE_U8;
pub const U32: DType = DType::CRK_DTYPE_U32;
pub const F16: DType = DType::CRK_DTYPE_F16;
pub const BF16: DType = DType::CRK_DTYPE_BF16;
pub const F32: DType = DType::CRK_DTYPE_F32;

/// What a case calls. Roots are Candle's; the op of a root is found once, by [`Case::prepare`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    Unary(&'static str),
    UnaryParam(&'static str, f64),
    Affine(f64, f64),
    Binary(&'static str),
    Cmp(&'static str),
    Cast,
    Where,
    Fill,
    ConstSet,
    Copy2d,
    CopyStrided,
}

/// A source: its elements, and how they lie in its buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    pub dtype: DType,
    pub shape: Shape,
}

/// One call of a launcher.
#[derive(Debug, Clone)]
pub struct Case {
    /// Without the size: the same at every size.
    pub name: String,
    pub op: Op,
    pub dims: Vec<usize>,
    /// The sources in the launcher's order; empty for fill and const_set.
    pub sources: Vec<Source>,
    pub dst_dtype: DType,
    /// Contiguous but for const_set and copy2d, which leave gaps.
    pub dst: Shape,
}

impl Case {
    fn new(name: impl Into<String>, op: Op, dims: &[usize], sources: Vec<Source>, dst_dtype: DType) -> Case {
        let dst = Shape::contiguous(dims);
        Case { name: name.into(), op, dims: dims.to_vec(), sources, dst_dtype, dst }
    }

    pub fn numel(&self) -> usize {
        self.dst.numel()
    }

    /// The element type that the launcher is asked for: the source's, of where_* that of the values.
    pub fn dtype(&self) -> DType {
        self.sources.last().map_or(self.dst_dtype, |source| source.dtype)
    }

    /// The bytes of the buffer of source `index`.
    pub fn source_bytes(&self, index: usize) -> usize {
        let source = &self.sources[index];
        source.shape.reach() * source.dtype.size()
    }

    /// The bytes of the destination's buffer.
    pub fn dst_bytes(&self) -> usize {
        self.dst.reach() * self.dst_dtype.size()
    }

    /// The bytes that must be read and written once. A broadcast source counts its distinct elements.
    pub fn moved_bytes(&self) -> usize {
        let distinct = |source: &Source| {
            let dims = source.shape.dims.iter().zip(&source.shape.strides);
            dims.filter(|(_, stride)| **stride != 0).map(|(dim, _)| dim).product::<usize>() * source.dtype.size()
        };
        self.sources.iter().map(distinct).sum::<usize>() + self.numel() * self.dst_dtype.size()
    }

    /// Makes ready to launch: what a caller does once, outside of what is timed.
    pub fn prepare(&self) -> Result<Prepared<'_>> {
        let layout = |shape: &Shape| Layout::strided(&shape.dims, &shape.strides, shape.offset);
        Ok(Prepared {
            case: self,
            layouts: self.sources.iter().map(|source| layout(&source.shape)).collect::<Result<_>>()?,
            dst_layout: layout(&self.dst)?,
            call: Call::of(self.op),
        })
    }
}

/// An op with its number instead of its root.
#[derive(Clone, Copy)]
enum Call {
    Unary(sys::crk_unary_op_t),
    UnaryParam(sys::crk_unary_op_t, f64),
    Affine(f64, f64),
    Binary(sys::crk_binary_op_t),
    Cmp(sys::crk_cmp_op_t),
    Cast,
    Where,
    Fill,
    ConstSet,
    Copy2d,
    CopyStrided,
}

macro_rules! op_from_root {
    ($from_root:path, $first:expr, $root:expr) => {{
        let root = std::ffi::CString::new($root).expect("a root has no NUL");
        let mut op = $first;
        // SAFETY: a NUL-terminated string, and a place for the result.
        let status = unsafe { $from_root(root.as_ptr(), &mut op) };
        assert_eq!(status, sys::crk_status_t::CRK_OK, "no op has the root {root:?}");
        op
    }};
}

impl Call {
    fn of(op: Op) -> Call {
        let unary = |root: &str| op_from_root!(sys::crk_unary_op_from_root, sys::crk_unary_op_t::CRK_UNARY_COPY, root);
        match op {
            Op::Unary(root) => Call::Unary(unary(root)),
            Op::UnaryParam(root, param) => Call::UnaryParam(unary(root), param),
            Op::Affine(mul, add) => Call::Affine(mul, add),
            Op::Binary(root) => {
                Call::Binary(op_from_root!(sys::crk_binary_op_from_root, sys::crk_binary_op_t::CRK_BINARY_ADD, root))
            }
            Op::Cmp(root) => Call::Cmp(op_from_root!(sys::crk_cmp_op_from_root, sys::crk_cmp_op_t::CRK_CMP_EQ, root)),
            Op::Cast => Call::Cast,
            Op::Where => Call::Where,
            Op::Fill => Call::Fill,
            Op::ConstSet => Call::ConstSet,
            Op::Copy2d => Call::Copy2d,
            Op::CopyStrided => Call::CopyStrided,
        }
    }
}

/// A case with its layouts made.
pub struct Prepared<'a> {
    case: &'a Case,
    layouts: Vec<Layout>,
    dst_layout: Layout,
    call: Call,
}

/// The value of fill and const_set, by the size of an element.
pub const FILL_VALUE: u64 = 0x3c3c_3c3c_3c3c_3c3c;

impl Prepared<'_> {
    /// The launcher's call on a device, of sources at least as long as [`Case::source_bytes`] says and a destination as
    /// [`Case::dst_bytes`] does.
    ///
    /// # Safety
    /// A live handle, and views of memory that is its own.
    pub unsafe fn launch(
        &self,
        device: sys::crk_device_t,
        sources: &[sys::crk_view_t],
        dst: sys::crk_view_t,
    ) -> Status {
        let Prepared { case, layouts, dst_layout, call } = self;
        let dtype = case.dtype();
        let at = |i: usize| (std::ptr::from_ref(&layouts[i]), sources[i]);
        let value = std::ptr::from_ref(&FILL_VALUE).cast();
        // SAFETY: the caller's word; layouts and the value are live. All bytes of the value are the same.
        unsafe {
            match *call {
                Call::Fill => sys::crk_fill(device, dtype, dst, case.numel(), value),
                Call::ConstSet => sys::crk_const_set(device, dtype, dst_layout, dst, value),
                Call::Copy2d => {
                    let (shape, to) = (&case.sources[0].shape, case.dst.strides[0]);
                    let (rows, cols) = (case.dims[0], case.dims[1]);
                    let (stride, offset) = (shape.strides[0], shape.offset);
                    sys::crk_copy2d(device, dtype, rows, cols, sources[0], stride, offset, dst, to, 0)
                }
                Call::Where => {
                    let ((ids, i), (on_true, t), (on_false, f)) = (at(0), at(1), at(2));
                    sys::crk_where(device, case.sources[0].dtype, dtype, ids, i, on_true, t, on_false, f, dst)
                }
                Call::Binary(op) => {
                    let ((left, l), (right, r)) = (at(0), at(1));
                    sys::crk_binary(device, op, dtype, left, l, right, r, dst)
                }
                Call::Cmp(op) => {
                    let ((left, l), (right, r)) = (at(0), at(1));
                    sys::crk_cmp(device, op, dtype, left, l, right, r, dst)
                }
                Call::Unary(op) => sys::crk_unary(device, op, dtype, at(0).0, at(0).1, dst),
                Call::UnaryParam(op, param) => sys::crk_unary_param(device, op, dtype, at(0).0, at(0).1, dst, param),
                Call::Affine(mul, add) => sys::crk_affine(device, dtype, at(0).0, at(0).1, dst, mul, add),
                Call::Cast => sys::crk_cast(device, dtype, case.dst_dtype, at(0).0, at(0).1, dst),
                Call::CopyStrided => sys::crk_copy_strided(device, dtype, at(0).0, at(0).1, dst, 0),
            }
        }
    }
}

/// How large the cases are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// About how many elements a case has; a power of two makes every dim one.
    pub elements: usize,
    /// No dim is a multiple of 2.
    pub odd: bool,
}

impl Size {
    /// `rank` dims whose product is about `elements`, the last two the largest: 2^28 at rank 4 is 64, 64, 256, 256.
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
        if self.odd { dims.map(|dim| if dim > 2 { (dim - 1) | 1 } else { 1 }) } else { dims }
    }
}

/// Every case at a size.
pub fn elementwise(size: Size) -> Vec<Case> {
    let mut cases = Vec::new();
    let flat = &size.dims::<1>()[..];
    let square = &size.dims::<2>()[..];
    let heads = &size.dims::<4>()[..];
    let text = |dtype: DType| dtype.name().expect("a dtype of the table");
    let plain = |dtype: DType, dims: &[usize]| Source { dtype, shape: Shape::contiguous(dims) };
    let strided = |dtype: DType, dims: &[usize], strides: &[usize]| Source {
        dtype,
        shape: Shape { dims: dims.to_vec(), strides: strides.to_vec(), offset: 0 },
    };

    let floats = [F32, F16, BF16];
    for dtype in [F32, F16, BF16, U8] {
        cases.push(Case::new(
            format!("affine {}", text(dtype)),
            Op::Affine(2.0, 1.0),
            flat,
            vec![plain(dtype, flat)],
            dtype,
        ));
    }
    for (name, root) in [("silu", "usilu"), ("exp", "uexp"), ("gelu", "ugelu")] {
        for dtype in floats {
            let name = format!("{name} {}", text(dtype));
            cases.push(Case::new(name, Op::Unary(root), flat, vec![plain(dtype, flat)], dtype));
        }
    }
    for dtype in [F32, F16, U8] {
        let name = format!("copy {}", text(dtype));
        cases.push(Case::new(name, Op::Unary("ucopy"), flat, vec![plain(dtype, flat)], dtype));
    }
    cases.push(Case::new("elu f32", Op::UnaryParam("uelu", 1.0), flat, vec![plain(F32, flat)], F32));
    for dtype in [F32, F16, BF16, U8] {
        let sources = vec![plain(dtype, flat); 2];
        cases.push(Case::new(format!("add {}", text(dtype)), Op::Binary("badd"), flat, sources, dtype));
    }
    for dtype in [F32, F16] {
        let sources = vec![plain(dtype, flat); 2];
        cases.push(Case::new(format!("div {}", text(dtype)), Op::Binary("bdiv"), flat, sources, dtype));
    }
    for dtype in [F32, F16, U8] {
        let sources = vec![plain(dtype, flat); 2];
        cases.push(Case::new(format!("lt {}", text(dtype)), Op::Cmp("lt"), flat, sources, U8));
    }
    for (from, to) in [(F32, F16), (F16, F32), (BF16, F32), (F32, BF16), (U8, F32), (F32, U8), (U32, F32)] {
        let name = format!("cast {} {}", text(from), text(to));
        cases.push(Case::new(name, Op::Cast, flat, vec![plain(from, flat)], to));
    }
    for (ids, dtype) in [(U8, F32), (U32, F32), (U8, F16)] {
        let name = format!("where {} {}", text(ids), text(dtype));
        let sources = vec![plain(ids, flat), plain(dtype, flat), plain(dtype, flat)];
        cases.push(Case::new(name, Op::Where, flat, sources, dtype));
    }
    for dtype in [F32, F16, U8] {
        cases.push(Case::new(format!("fill {}", text(dtype)), Op::Fill, flat, Vec::new(), dtype));
        cases.push(Case::new(format!("const_set {}", text(dtype)), Op::ConstSet, flat, Vec::new(), dtype));
    }

    /* Sources that begin at an element that is not aligned. */
    for dtype in [F32, F16] {
        let mut sources = vec![plain(dtype, flat); 2];
        sources[0].shape.offset = 1;
        let name = format!("add {} from element 1", text(dtype));
        cases.push(Case::new(name, Op::Binary("badd"), flat, sources, dtype));
    }

    /* Permuted, transposed, broadcast, with gaps. */
    let (rows, cols) = (square[0], square[1]);
    let [_, h, t, d] = size.dims::<4>();
    for dtype in [F32, F16] {
        let swapped = strided(dtype, heads, &[t * h * d, d, h * d, 1]);
        let name = format!("copy {} 4-D, dims 1 and 2 swapped", text(dtype));
        cases.push(Case::new(name, Op::CopyStrided, heads, vec![swapped], dtype));
    }
    for dtype in [F32, F16, U8] {
        let transposed = strided(dtype, square, &[1, rows]);
        let name = format!("copy {} transposed", text(dtype));
        cases.push(Case::new(name, Op::CopyStrided, square, vec![transposed], dtype));
    }
    for dtype in floats {
        let row = strided(dtype, square, &[0, 1]);
        let name = format!("add {}, row broadcast", text(dtype));
        cases.push(Case::new(name, Op::Binary("badd"), square, vec![plain(dtype, square), row], dtype));
    }
    let column = strided(F32, square, &[1, 0]);
    let sources = vec![plain(F32, square), column];
    cases.push(Case::new("add f32, column broadcast", Op::Binary("badd"), square, sources, F32));
    let transposed = strided(F32, square, &[1, rows]);
    let sources = vec![plain(F32, square), transposed];
    cases.push(Case::new("add f32, one side transposed", Op::Binary("badd"), square, sources, F32));
    let row = strided(F32, square, &[0, 1]);
    let sources = vec![plain(U8, square), plain(F32, square), row];
    cases.push(Case::new("where u8 f32, broadcast else", Op::Where, square, sources, F32));
    for dtype in [F32, F16] {
        /* Rows of a wider matrix into rows of another, as a concatenation along dim 1 makes them. */
        let source = strided(dtype, square, &[cols + 64, 1]);
        let mut case = Case::new(format!("copy2d {}", text(dtype)), Op::Copy2d, square, vec![source], dtype);
        case.dst.strides = vec![cols * 2, 1];
        cases.push(case);
    }
    let mut case = Case::new("const_set f32, half of each row", Op::ConstSet, square, Vec::new(), F32);
    case.dst.strides = vec![cols * 2, 1];
    cases.push(case);
    cases
}
