//! Windows over images: im2col, pools and upsampling.
use super::agreement::Agreement;
use super::by_name::{Argument, Kernel, layout_numbers};
use super::{Call, Case, F16, F32, Layouts, Size, Source, text};
use candle_rocm_sys::{DType, Result, sys};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// Windows of 3 x 3 with padding 1, so that the output has the image's size.
    Im2col,
    /// A pool with adjacent windows of 2 x 2, named by Candle's kernel root.
    Pool(&'static str),
    /// Doubles the height and the width.
    UpsampleNearest,
}

impl Op {
    pub(super) fn call<'a>(self, case: &'a Case, layouts: Layouts) -> Result<Call<'a>> {
        let dtype = case.dtype();
        let (h, w) = (case.dims[2], case.dims[3]);
        // SAFETY, for each call: the caller of [`super::Prepared::launch`] promises valid memory; the layouts are live.
        Ok(match self {
            Op::Im2col => Box::new(move |device, x, dst| {
                let (layout, src) = layouts.at(0, x);
                unsafe { sys::crk_im2col(device, dtype, layout, src, dst, 3, 3, 1, 1, 1) }
            }),
            Op::Pool(root) => {
                let op = match root {
                    "max_pool2d" => sys::crk_pool_op_t::CRK_POOL_MAX,
                    _ => sys::crk_pool_op_t::CRK_POOL_AVG,
                };
                Box::new(move |device, x, dst| {
                    let (layout, src) = layouts.at(0, x);
                    unsafe { sys::crk_pool2d(device, op, dtype, layout, src, dst, 2, 2, 2, 2) }
                })
            }
            Op::UpsampleNearest => Box::new(move |device, x, dst| {
                let (layout, src) = layouts.at(0, x);
                unsafe { sys::crk_upsample_nearest2d(device, dtype, layout, src, dst, 2 * h, 2 * w) }
            }),
        })
    }

    pub(super) fn by_name(self, case: &Case) -> Kernel {
        use Argument::{Dst, F64, Numbers, Source, U64};
        let (t, source, numel) = (text(case.dtype()), &case.sources[0].shape, case.numel());
        let (h, w) = (case.dims[2], case.dims[3]);
        let tail = [Numbers, Source(0), Dst];
        let (root, head) = match self {
            Op::Im2col => ("im2col", [numel, h, w, 3, 3, 1, 1, 1].map(U64).to_vec()),
            Op::Pool(root) => (root, [source.numel(), 2, 2, 2, 2].map(U64).to_vec()),
            Op::UpsampleNearest => ("upsample_nearest2d", vec![U64(2 * w), U64(2 * h), F64(0.5), F64(0.5)]),
        };
        Kernel::of_elements("conv", format!("{root}_{t}"), numel, [&head[..], &tail].concat())
            .numbers(layout_numbers(source))
    }
}

/// All cases at a size: images of 64 channels of 112 x 112.
pub fn cases(size: Size) -> Vec<Case> {
    let side = size.dim(if size.elements < 1 << 20 { 8 } else { 112 });
    let channels = size.dim(if size.elements < 1 << 20 { 4 } else { 64 });
    let images = size.dim((size.elements >> 24).max(1));
    let dims = [images, channels, side, side];
    let case = |name: &str, dtype: DType, op: Op, dst: [usize; 4]| {
        Case::new(
            format!("{name} {}", text(dtype)),
            super::Op::Windows(op),
            vec![Source::plain(dtype, &dims)],
            dtype,
            &dst,
        )
    };
    let mut cases = Vec::new();
    for dtype in [F32, F16] {
        cases.push(case("im2col 3x3", dtype, Op::Im2col, [images, side, side, 9 * channels]));
        let half = [images, channels, side / 2, side / 2];
        let max = case("max_pool2d 2x2", dtype, Op::Pool("max_pool2d"), half);
        cases.push(max.torch("torch.nn.functional.max_pool2d(x[0], 2)"));
    }
    let avg = case("avg_pool2d 2x2", F32, Op::Pool("avg_pool2d"), [images, channels, side / 2, side / 2]);
    cases.push(avg.within(Agreement::Ulps(2)).torch("torch.nn.functional.avg_pool2d(x[0], 2)"));
    let twice = case("upsample_nearest2d 2x", F32, Op::UpsampleNearest, [images, channels, 2 * side, 2 * side]);
    cases.push(twice.torch("torch.nn.functional.interpolate(x[0], scale_factor=2)"));
    cases
}
