//! Ops on rows: reductions, softmax, norms, rotary embeddings, sorts.
use super::agreement::Agreement;
use super::by_name::{Argument, Kernel, layout_numbers};
use super::{BF16, Call, Case, F16, F32, Layouts, Size, Source, U32, Values, text};
use crate::shapes::Shape;
use candle_rocm_sys::{DType, Result, sys};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// Reduces one dim of two, named by Candle's kernel root.
    Reduce(&'static str, usize),
    Softmax,
    RmsNorm,
    LayerNorm,
    Rope,
    Argsort,
}

const EPS: f32 = 1e-5;

impl Op {
    pub(super) fn call<'a>(self, case: &'a Case, layouts: Layouts) -> Result<Call<'a>> {
        let dtype = case.dtype();
        // SAFETY, for each call: the caller of [`super::Prepared::launch`] promises valid memory; the layouts are live.
        Ok(match self {
            Op::Reduce(root, dim) => {
                let op = sys::crk_reduce_op_t::from_root(root).expect("a root of the header's");
                Box::new(move |device, x, dst| {
                    let (layout, src) = layouts.at(0, x);
                    unsafe { sys::crk_reduce(device, op, dtype, layout, src, &dim, 1, dst) }
                })
            }
            Op::Softmax => Box::new(move |device, x, dst| {
                let (layout, src) = layouts.at(0, x);
                unsafe { sys::crk_softmax(device, dtype, layout, src, dst) }
            }),
            Op::RmsNorm => Box::new(move |device, x, dst| {
                let (layout, src) = layouts.at(0, x);
                unsafe { sys::crk_rms_norm(device, dtype, layout, src, x[1], dst, EPS) }
            }),
            Op::LayerNorm => Box::new(move |device, x, dst| {
                let (layout, src) = layouts.at(0, x);
                unsafe { sys::crk_layer_norm(device, dtype, layout, src, x[1], x[2], dst, EPS) }
            }),
            Op::Rope => Box::new(move |device, x, dst| {
                let ((layout, src), (cos_layout, cos), (sin_layout, sin)) =
                    (layouts.at(0, x), layouts.at(1, x), layouts.at(2, x));
                let kind = sys::crk_rope_kind_t::CRK_ROPE_KIND_ROPE;
                unsafe { sys::crk_rope(device, kind, dtype, layout, src, cos_layout, cos, sin_layout, sin, dst) }
            }),
            Op::Argsort => Box::new(move |device, x, dst| {
                let (layout, src) = layouts.at(0, x);
                let no_values = sys::crk_view_t { ptr: std::ptr::null_mut(), bytes: 0 };
                unsafe { sys::crk_argsort(device, dtype, layout, src, true, dst, no_values) }
            }),
        })
    }

    pub(super) fn by_name(self, case: &Case) -> Kernel {
        use Argument::{Dst, F32, Numbers, Source, U32, U64};
        let t = text(case.dtype());
        let (rows, columns) = (case.dims[0], case.dims[case.dims.len() - 1]);
        let norm = |root: &str, sources: &[Argument]| {
            let block = if columns < 1024 { 32 } else { 1024 };
            let args = [&[Source(0), Dst], sources, &[U32(columns), U32(block), F32(EPS)]].concat();
            Kernel::with("reduce", format!("{root}_{t}"), [rows, 1, 1], [block, 1, 1], args)
        };
        match self {
            Op::Reduce(root, dim) => {
                /* Moves the reduced dim to the end. */
                let shape = &case.sources[0].shape;
                let pick = |of: &[usize]| vec![of[1 - dim], of[dim]];
                let seen = Shape { dims: pick(&shape.dims), strides: pick(&shape.strides), offset: 0 };
                let (outputs, each) = (seen.dims[0], seen.dims[1]);
                let small = root == "fast_sum" && each <= 32;
                let (name, grid, block, count) = if small {
                    (format!("fast_sum_small_{t}"), outputs.div_ceil(256), 256, outputs)
                } else {
                    (format!("{root}_{t}"), outputs, each.next_power_of_two().min(1024), outputs * each)
                };
                let args = vec![U64(count), U64(each), U64(2), Numbers, Source(0), Dst];
                Kernel::with("reduce", name, [grid, 1, 1], [block, 1, 1], args).numbers(layout_numbers(&seen))
            }
            Op::Softmax => {
                let args = vec![Source(0), Dst, U32(columns)];
                Kernel::with("reduce", format!("softmax_{t}"), [rows, 1, 1], [1, 32, 1], args)
            }
            Op::RmsNorm => norm("rmsnorm", &[Source(1)]),
            Op::LayerNorm => norm("layernorm", &[Source(1), Source(2)]),
            Op::Rope => {
                let [b, h, tokens, d] = case.dims[..] else { unreachable!("four dims") };
                let args = vec![Source(0), Source(1), Source(2), Dst, U32(b * h), U32(tokens * d), U32(d), U32(0)];
                Kernel::of_elements("reduce", format!("rope_{t}"), case.numel() / 2, args)
            }
            Op::Argsort => {
                let padded = columns.next_power_of_two();
                let args = vec![Source(0), Dst, U32(columns), U32(padded)];
                let block = [padded.min(1024), 1, 1];
                let mut kernel = Kernel::with("sort", format!("asort_asc_{t}"), [rows, 1, 1], block, args);
                kernel.launch.shared_bytes = 4 * padded as u32;
                kernel
            }
        }
    }
}

/// The largest difference between two orders of summation in a dtype: two or three units in the last place for sums in
/// f32.
fn near(dtype: DType) -> Agreement {
    Agreement::Share(match dtype {
        F32 => 1e-5,
        F16 => 2e-3,
        _ => 2e-2,
    })
}

/// All cases at a size.
pub fn cases(size: Size) -> Vec<Case> {
    let case = |name: &str, dtype: DType, op: Op, sources: Vec<Source>, to: DType, dst: &[usize]| {
        Case::new(format!("{name} {}", text(dtype)), super::Op::Rows(op), sources, to, dst)
    };
    let mut cases = Vec::new();

    let mut reduce = |name: &str, root: &'static str, dtype: DType, columns: usize, torch: &str| {
        let (rows, columns) = size.rows_of(columns);
        let to = if root.contains("arg") { U32 } else { dtype };
        let agreement = match (root, dtype) {
            /* Candle's kernels round at every step. */
            ("fast_sum", F16) => Agreement::Share(1e-2),
            ("fast_sum", _) => near(dtype),
            _ => Agreement::Bits,
        };
        let sources = vec![Source::plain(dtype, &[rows, columns])];
        cases.push(case(name, dtype, Op::Reduce(root, 1), sources, to, &[rows]).within(agreement).torch(torch));
    };
    for dtype in [F32, BF16, F16] {
        reduce("sum of rows of 4096,", "fast_sum", dtype, 4096, "x[0].sum(1)");
    }
    reduce("max of rows of 4096,", "fast_max", F32, 4096, "x[0].amax(1)");
    reduce("argmax of rows of 4096,", "fast_argmax", F32, 4096, "x[0].argmax(1)");
    reduce("sum of rows of 1024,", "fast_sum", F32, 1024, "x[0].sum(1)");
    reduce("sum of rows of 32,", "fast_sum", F32, 32, "x[0].sum(1)");
    reduce("max of rows of 32,", "fast_max", F32, 32, "x[0].amax(1)");
    reduce("sum of rows of 4,", "fast_sum", F32, 4, "x[0].sum(1)");
    reduce("sum of all,", "fast_sum", F32, usize::MAX, "x[0].sum(1)");
    reduce("max of all,", "fast_max", F32, usize::MAX, "x[0].amax(1)");
    let (rows, columns) = size.rows_of(4096);
    let sources = vec![Source::plain(F32, &[rows, columns])];
    let sum = case("sum of columns,", F32, Op::Reduce("fast_sum", 0), sources, F32, &[columns]);
    cases.push(sum.within(near(F32)).torch("x[0].sum(0)"));

    for (columns, dtype) in [(4096, F32), (4096, F16), (1024, F16), (32, F32), (131072, F32)] {
        let (rows, width) = size.rows_of(columns);
        let dims = [rows, width];
        let name = format!("softmax of rows of {columns},");
        let softmax = case(&name, dtype, Op::Softmax, vec![Source::plain(dtype, &dims)], dtype, &dims);
        cases.push(softmax.within(near(dtype)).torch("torch.softmax(x[0], 1)"));
    }
    for dtype in [F32, F16, BF16] {
        let (rows, columns) = size.rows_of(4096);
        let (dims, row) = ([rows, columns], Source::plain(dtype, &[columns]));
        let sources = vec![Source::plain(dtype, &dims), row.clone(), row];
        let torch = format!("torch.nn.functional.rms_norm(x[0], ({columns},), x[1], {EPS})");
        let rms_norm = case("rms norm of rows of 4096,", dtype, Op::RmsNorm, sources[..2].to_vec(), dtype, &dims);
        cases.push(rms_norm.within(near(dtype)).torch(torch));
        let torch = format!("torch.nn.functional.layer_norm(x[0], ({columns},), x[1], x[2], {EPS})");
        let layer_norm = case("layer norm of rows of 4096,", dtype, Op::LayerNorm, sources, dtype, &dims);
        cases.push(layer_norm.within(near(dtype)).torch(torch));
    }

    for dtype in [F16, F32] {
        /* Elements are paired, so the last dim is even. */
        let tokens = size.dim((size.elements >> 16).clamp(1, 4096));
        let (b, h, d) = (size.dim((size.elements / (tokens * 32 * 128)).clamp(1, 16)), size.dim(32), 128);
        let angles = Source::plain(dtype, &[tokens, d / 2]);
        let dims = [b, h, tokens, d];
        let sources = vec![Source::plain(dtype, &dims), angles.clone(), angles];
        cases.push(case("rope", dtype, Op::Rope, sources, dtype, &dims));
    }

    for (columns, dtype) in [(1024, F32), (8192, F32), (1024, F16)] {
        let (rows, width) = size.share(16).rows_of(columns);
        /* Candle's sorting network is not stable, so the elements are distinct. */
        let source = Source::plain(dtype, &[rows, width]).of(Values::Distinct);
        let name = format!("argsort of rows of {columns},");
        let sort = case(&name, dtype, Op::Argsort, vec![source], U32, &[rows, width]);
        cases.push(sort.torch("x[0].argsort(1)"));
    }
    cases
}
