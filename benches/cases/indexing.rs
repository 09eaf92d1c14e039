//! Indexing: rows and elements selected by ids.
use super::by_name::{Argument, Kernel};
use super::{Call, Case, F16, F32, Layouts, Size, Source, U32, Values, text};
use candle_rocm_sys::{DType, sys};

/// An op along dim 0 of a matrix, named by Candle's kernel root. Source 0 is the ids, source 1 the elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    IndexSelect,
    Gather,
    ScatterAdd,
    IndexAdd,
}

impl Op {
    pub(super) fn call<'a>(self, case: &'a Case, layouts: Layouts) -> Call<'a> {
        let dtype = case.dtype();
        let ids_dtype = case.sources[0].dtype;
        // SAFETY: the caller of [`super::Prepared::launch`] promises valid memory; the layouts are live.
        Box::new(move |device, x, dst| unsafe {
            let ((ids, i), (elements, e)) = (layouts.at(0, x), layouts.at(1, x));
            let to = std::ptr::from_ref(&layouts.dst);
            match self {
                Op::IndexSelect => sys::crk_index_select(device, ids_dtype, dtype, elements, e, ids, i, 0, dst),
                Op::Gather => sys::crk_gather(device, ids_dtype, dtype, elements, e, ids, i, 0, dst),
                Op::ScatterAdd => sys::crk_scatter_add(device, ids_dtype, dtype, ids, i, elements, e, 0, to, dst),
                Op::IndexAdd => sys::crk_index_add(device, ids_dtype, dtype, ids, i, elements, e, 0, to, dst),
            }
        })
    }

    pub(super) fn by_name(self, case: &Case) -> Kernel {
        use Argument::{Dst, Numbers, Source, U64};
        let (t, ids) = (text(case.dtype()), case.sources[0].shape.dims[0]);
        let (from, width, to) = (case.dims[0], case.dims[1], case.dst.dims[0]);
        let (root, threads, args) = match self {
            Op::IndexSelect => {
                let sizes = [U64(1), U64(from), U64(ids), U64(width)];
                let head = [U64(case.numel()), U64(1), Numbers, Source(0), Source(1), Dst];
                ("is", case.numel(), [&head[..], &sizes].concat())
            }
            Op::Gather => {
                let sizes = [U64(1), U64(from), U64(ids), U64(width)];
                ("gather", case.numel(), [&[U64(case.numel()), Source(0), Source(1), Dst], &sizes[..]].concat())
            }
            Op::ScatterAdd => ("sa", width, vec![Source(0), Source(1), Dst, U64(1), U64(from), U64(to), U64(width)]),
            Op::IndexAdd => {
                ("ia", width, vec![Source(0), U64(ids), Source(1), Dst, U64(1), U64(from), U64(to), U64(width)])
            }
        };
        let kernel = Kernel::of_elements("indexing", format!("{root}_u32_{t}"), threads, args);
        if self == Op::IndexSelect { kernel.numbers(vec![ids, 1]) } else { kernel }
    }
}

/// All cases at a size.
pub fn cases(size: Size) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: &str, op: Op, dtype: DType, ids: &[usize], from: [usize; 2], to: [usize; 2], torch: &str| {
        let chosen = if matches!(op, Op::IndexSelect | Op::Gather) { from[0] } else { to[0] };
        let ids = Source::plain(U32, ids).of(Values::Below(chosen));
        let sources = vec![ids.clone(), Source::plain(dtype, &from)];
        let mut case = Case::new(format!("{name} {}", text(dtype)), super::Op::Indexing(op), sources, dtype, &to);
        case.dims = from.to_vec();
        /* Each selected row is read once and written once. For sums, the destination is read and written. */
        let passes = if op == Op::IndexSelect || op == Op::Gather { 2 * to[0] } else { from[0] + 2 * to[0] };
        case.moved = passes * from[1] * dtype.size() + ids.bytes();
        cases.push(case.torch(torch));
    };
    for dtype in [F16, F32] {
        let (rows, width) = size.share(dtype.size() / 2).rows_of(4096);
        let select = "torch.index_select(x[1], 0, x[0], out=out)";
        case(
            "index_select of rows of 4096,",
            Op::IndexSelect,
            dtype,
            &[rows],
            [2 * rows, width],
            [rows, width],
            select,
        );
    }
    let (rows, width) = size.share(8).rows_of(4096);
    let gather = "torch.gather(x[1], 0, x[0])";
    case("gather along dim 0,", Op::Gather, F32, &[rows, width], [2 * rows, width], [rows, width], gather);
    let (rows, width) = size.share(16).rows_of(4096);
    let (square, add) = ([rows, width], "out.index_add_(0, x[0], x[1])");
    case("index_add of rows of 4096,", Op::IndexAdd, F32, &[rows], square, square, add);
    case("index_add of rows of 4096,", Op::IndexAdd, F16, &[rows], square, square, add);
    let (rows, width) = size.share(64).rows_of(4096);
    let add = "out.scatter_add_(0, x[0], x[1])";
    case("scatter_add along dim 0,", Op::ScatterAdd, F32, &[rows, width], [rows, width], [rows, width], add);
    cases
}
