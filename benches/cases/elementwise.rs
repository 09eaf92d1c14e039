//! Every element-wise family: contiguous, broadcast, permuted and transposed.
use super::agreement::Agreement;
use super::by_name::{Argument, Kernel, bits, layout_numbers};
use super::{BF16, Call, Case, F16, F32, Layouts, Size, Source, U8, U32, Values, text};
use crate::shapes::Shape;
use candle_rocm_sys::{DType, Result, sys};

/// An element-wise op. Roots are Candle's.
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

/// The value of fill and const_set. Smaller elements take its first bytes.
pub const FILL_VALUE: u64 = 0x3c3c_3c3c_3c3c_3c3c;

impl Op {
    pub(super) fn call<'a>(self, case: &'a Case, layouts: Layouts) -> Result<Call<'a>> {
        let dtype = case.dtype();
        let value: *const std::ffi::c_void = std::ptr::from_ref(&FILL_VALUE).cast();
        // SAFETY, for each call: the caller of [`super::Prepared::launch`] promises valid memory; layouts and the value
        // are live. All bytes of the value are equal, so any element size may read it.
        Ok(match self {
            Op::Unary(root) => {
                let op = sys::crk_unary_op_t::from_root(root).expect("a root of the header's");
                Box::new(move |device, x, dst| {
                    let (layout, src) = layouts.at(0, x);
                    unsafe { sys::crk_unary(device, op, dtype, layout, src, dst) }
                })
            }
            Op::UnaryParam(root, param) => {
                let op = sys::crk_unary_op_t::from_root(root).expect("a root of the header's");
                Box::new(move |device, x, dst| {
                    let (layout, src) = layouts.at(0, x);
                    unsafe { sys::crk_unary_param(device, op, dtype, layout, src, dst, param) }
                })
            }
            Op::Affine(mul, add) => Box::new(move |device, x, dst| {
                let (layout, src) = layouts.at(0, x);
                unsafe { sys::crk_affine(device, dtype, layout, src, dst, mul, add) }
            }),
            Op::Binary(root) => {
                let op = sys::crk_binary_op_t::from_root(root).expect("a root of the header's");
                Box::new(move |device, x, dst| {
                    let ((left, l), (right, r)) = (layouts.at(0, x), layouts.at(1, x));
                    unsafe { sys::crk_binary(device, op, dtype, left, l, right, r, dst) }
                })
            }
            Op::Cmp(root) => {
                let op = sys::crk_cmp_op_t::from_root(root).expect("a root of the header's");
                Box::new(move |device, x, dst| {
                    let ((left, l), (right, r)) = (layouts.at(0, x), layouts.at(1, x));
                    unsafe { sys::crk_cmp(device, op, dtype, left, l, right, r, dst) }
                })
            }
            Op::Cast => Box::new(move |device, x, dst| {
                let (layout, src) = layouts.at(0, x);
                unsafe { sys::crk_cast(device, dtype, case.dst_dtype, layout, src, dst) }
            }),
            Op::Where => Box::new(move |device, x, dst| {
                let ((ids, i), (on_true, t), (on_false, f)) = (layouts.at(0, x), layouts.at(1, x), layouts.at(2, x));
                let ids_dtype = case.sources[0].dtype;
                unsafe { sys::crk_where(device, ids_dtype, dtype, ids, i, on_true, t, on_false, f, dst) }
            }),
            Op::Fill => {
                Box::new(move |device, _, dst| unsafe { sys::crk_fill(device, dtype, dst, case.numel(), value) })
            }
            Op::ConstSet => {
                Box::new(move |device, _, dst| unsafe { sys::crk_const_set(device, dtype, &layouts.dst, dst, value) })
            }
            Op::Copy2d => Box::new(move |device, x, dst| {
                let (from, to) = (&case.sources[0].shape, case.dst.strides[0]);
                let (rows, cols) = (case.dims[0], case.dims[1]);
                unsafe { sys::crk_copy2d(device, dtype, rows, cols, x[0], from.strides[0], from.offset, dst, to, 0) }
            }),
            Op::CopyStrided => Box::new(move |device, x, dst| {
                let (layout, src) = layouts.at(0, x);
                unsafe { sys::crk_copy_strided(device, dtype, layout, src, dst, 0) }
            }),
        })
    }

    pub(super) fn by_name(self, case: &Case) -> Kernel {
        use Argument::{Bits, Dst, Numbers, Source, U32, U64};
        let dtype = case.dtype();
        let (t, numel) = (text(dtype), case.numel());
        let value = Bits(FILL_VALUE & (u64::MAX >> (64 - 8 * dtype.size())), dtype.size() as u32);
        let with = |args: &[Argument]| [&[U64(numel), U64(case.dims.len()), Numbers], args].concat();
        let (module, name, args) = match self {
            Op::Unary(root) => ("unary", format!("{root}_{t}"), with(&[Source(0), Dst])),
            Op::CopyStrided => ("unary", format!("ucopy_{t}"), with(&[Source(0), Dst])),
            Op::UnaryParam(root, param) => {
                ("unary", format!("{root}_{t}"), with(&[bits(param, dtype), Source(0), Dst]))
            }
            Op::Affine(mul, add) => {
                ("affine", format!("affine_{t}"), with(&[Source(0), Dst, bits(mul, dtype), bits(add, dtype)]))
            }
            Op::Binary(root) | Op::Cmp(root) => ("binary", format!("{root}_{t}"), with(&[Source(0), Source(1), Dst])),
            Op::Cast => ("cast", format!("cast_{t}_{}", text(case.dst_dtype)), with(&[Source(0), Dst])),
            Op::Where => {
                let ids = text(case.sources[0].dtype);
                ("ternary", format!("where_{ids}_{t}"), with(&[Source(0), Source(1), Source(2), Dst]))
            }
            Op::Fill => ("fill", format!("fill_{t}"), vec![Dst, value, U64(numel)]),
            Op::ConstSet => ("fill", format!("const_set_{t}"), with(&[value, Dst])),
            Op::Copy2d => {
                let strides = [U32(case.sources[0].shape.strides[0]), U32(case.dst.strides[0])];
                let sizes = [U32(case.dims[0]), U32(case.dims[1])];
                ("fill", format!("copy2d_{t}"), [&[Source(0), Dst], &sizes[..], &strides].concat())
            }
        };
        let kernel = Kernel::of_elements(module, name, numel, args);
        let shapes: Vec<&Shape> = case.sources.iter().map(|source| &source.shape).collect();
        let shapes = if shapes.is_empty() { vec![&case.dst] } else { shapes };
        let plain = Shape::contiguous(&case.dims).strides;
        /* where_* reads its numbers even if all operands are contiguous. */
        if self != Op::Where && shapes.iter().all(|shape| shape.strides == plain) {
            return kernel;
        }
        let strides = shapes[1..].iter().flat_map(|shape| shape.strides.clone());
        kernel.numbers(layout_numbers(shapes[0]).into_iter().chain(strides).collect())
    }
}

/// All cases at a size.
pub fn cases(size: Size) -> Vec<Case> {
    let mut cases = Vec::new();
    let flat = &size.dims::<1>()[..];
    let square = &size.dims::<2>()[..];
    let heads = &size.dims::<4>()[..];
    let plain = Source::plain;
    let case = |name: String, op: Op, sources: Vec<Source>, to: DType, dims: &[usize], torch: &str| {
        let computes = matches!(op, Op::Unary(root) | Op::UnaryParam(root, _) if root != "ucopy");
        let agreement = if computes { Agreement::Ulps(4) } else { Agreement::Bits };
        Case::new(name, super::Op::Elementwise(op), sources, to, dims).within(agreement).torch(torch)
    };
    let (add, copy) = ("torch.add(x[0], x[1], out=out)", "out.copy_(x[0])");

    let floats = [F32, F16, BF16];
    for t in [F32, F16, BF16, U8] {
        cases.push(case(format!("affine {}", text(t)), Op::Affine(2.0, 1.0), vec![plain(t, flat)], t, flat, ""));
    }
    let unary = [
        ("silu", "usilu", "torch.nn.functional.silu(x[0])"),
        ("exp", "uexp", "torch.exp(x[0], out=out)"),
        ("gelu", "ugelu", "torch.nn.functional.gelu(x[0], approximate='tanh')"),
    ];
    for (name, root, torch) in unary {
        for t in floats {
            cases.push(case(format!("{name} {}", text(t)), Op::Unary(root), vec![plain(t, flat)], t, flat, torch));
        }
    }
    for t in [F32, F16, U8] {
        cases.push(case(format!("copy {}", text(t)), Op::Unary("ucopy"), vec![plain(t, flat)], t, flat, copy));
    }
    let elu = "torch.nn.functional.elu(x[0])";
    cases.push(case("elu f32".into(), Op::UnaryParam("uelu", 1.0), vec![plain(F32, flat)], F32, flat, elu));
    for t in [F32, F16, BF16, U8] {
        cases.push(case(format!("add {}", text(t)), Op::Binary("badd"), vec![plain(t, flat); 2], t, flat, add));
    }
    for t in [F32, F16] {
        let div = "torch.div(x[0], x[1], out=out)";
        cases.push(case(format!("div {}", text(t)), Op::Binary("bdiv"), vec![plain(t, flat); 2], t, flat, div));
    }
    for t in [F32, F16, U8] {
        let lt = "torch.lt(x[0], x[1])";
        cases.push(case(format!("lt {}", text(t)), Op::Cmp("lt"), vec![plain(t, flat); 2], U8, flat, lt));
    }
    for (from, to) in [(F32, F16), (F16, F32), (BF16, F32), (F32, BF16), (U8, F32), (F32, U8), (U32, F32)] {
        let name = format!("cast {} {}", text(from), text(to));
        let torch = if from == U32 { "" } else { copy };
        cases.push(case(name, Op::Cast, vec![plain(from, flat)], to, flat, torch));
    }
    for (ids, t) in [(U8, F32), (U32, F32), (U8, F16)] {
        let sources = vec![plain(ids, flat).of(Values::Below(2)), plain(t, flat), plain(t, flat)];
        let torch = if ids == U8 { "torch.where(x[0].view(torch.bool), x[1], x[2])" } else { "" };
        cases.push(case(format!("where {} {}", text(ids), text(t)), Op::Where, sources, t, flat, torch));
    }
    for t in [F32, F16, U8] {
        cases.push(case(format!("fill {}", text(t)), Op::Fill, vec![], t, flat, "out.fill_(1)"));
        cases.push(case(format!("const_set {}", text(t)), Op::ConstSet, vec![], t, flat, "out.fill_(1)"));
    }

    /* Sources that begin at an unaligned element. */
    for t in [F32, F16] {
        let mut sources = vec![plain(t, flat); 2];
        sources[0].shape.offset = 1;
        cases.push(case(format!("add {} from element 1", text(t)), Op::Binary("badd"), sources, t, flat, add));
    }

    /* Permuted, transposed and broadcast operands, and operands with gaps. */
    let (rows, cols) = (square[0], square[1]);
    let [_, h, t, d] = size.dims::<4>();
    for dtype in [F32, F16] {
        let swapped = Source::strided(dtype, heads, &[t * h * d, d, h * d, 1]);
        let name = format!("copy {} 4-D, dims 1 and 2 swapped", text(dtype));
        cases.push(case(name, Op::CopyStrided, vec![swapped], dtype, heads, copy));
    }
    for t in [F32, F16, U8] {
        let transposed = Source::strided(t, square, &[1, rows]);
        cases.push(case(format!("copy {} transposed", text(t)), Op::CopyStrided, vec![transposed], t, square, copy));
    }
    for t in floats {
        let sources = vec![plain(t, square), Source::strided(t, square, &[0, 1])];
        cases.push(case(format!("add {}, row broadcast", text(t)), Op::Binary("badd"), sources, t, square, add));
    }
    for (name, strides) in [("column broadcast", [1, 0]), ("one side transposed", [1, rows])] {
        let sources = vec![plain(F32, square), Source::strided(F32, square, &strides)];
        cases.push(case(format!("add f32, {name}"), Op::Binary("badd"), sources, F32, square, add));
    }
    let flags = plain(U8, square).of(Values::Below(2));
    let sources = vec![flags, plain(F32, square), Source::strided(F32, square, &[0, 1])];
    let torch = "torch.where(x[0].view(torch.bool), x[1], x[2])";
    cases.push(case("where u8 f32, broadcast else".into(), Op::Where, sources, F32, square, torch));
    for t in [F32, F16] {
        /* Copies rows of a wider matrix to rows of another, as a concatenation along dim 1 does. */
        let source = Source::strided(t, square, &[cols + 64, 1]);
        let mut case = case(format!("copy2d {}", text(t)), Op::Copy2d, vec![source], t, square, copy);
        case.dst.strides = vec![cols * 2, 1];
        cases.push(case);
    }
    let mut half = case("const_set f32, half of each row".into(), Op::ConstSet, vec![], F32, square, "out.fill_(1)");
    half.dst.strides = vec![cols * 2, 1];
    cases.push(half);
    cases
}
