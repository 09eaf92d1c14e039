//! Layers of image models on (b, c, h, w): norms and depthwise convolutions. Candle has no kernels for them: its norms
//! are several ops, and its depthwise convolutions one launch per channel.
use super::{Call, Case, F16, F32, Layouts, Size, Source, Values, text};
use candle_rocm_sys::{DType, sys};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    GroupNorm {
        groups: usize,
        silu: bool,
    },
    BatchNorm,
    /// A square window, padded by half of it.
    Depthwise {
        window: usize,
        stride: usize,
    },
}

pub const EPS: f64 = 1e-5;

impl Op {
    pub(super) fn call<'a>(self, case: &'a Case, layouts: Layouts) -> Call<'a> {
        let dtype = case.dtype();
        // SAFETY, for each call: the caller of [`super::Prepared::launch`] promises valid memory; the layouts are live.
        match self {
            Op::GroupNorm { groups, silu } => Box::new(move |device, x, dst| {
                let (layout, src) = layouts.at(0, x);
                unsafe { sys::crk_group_norm(device, dtype, layout, groups, silu, src, x[1], x[2], dst, EPS) }
            }),
            Op::BatchNorm => Box::new(move |device, x, dst| {
                let (layout, src) = layouts.at(0, x);
                unsafe { sys::crk_batch_norm(device, dtype, layout, src, x[1], x[2], x[3], x[4], dst, EPS) }
            }),
            Op::Depthwise { window, stride } => Box::new(move |device, x, dst| {
                let ((layout, src), (kernel_layout, kernel)) = (layouts.at(0, x), layouts.at(1, x));
                let groups = case.dims[1];
                let padding = window / 2;
                unsafe {
                    let (d, t) = (device, dtype);
                    sys::crk_conv2d(d, t, layout, src, kernel_layout, kernel, dst, stride, padding, 1, groups)
                }
            }),
        }
    }
}

/// All cases at a size: images of 64 channels of 112 x 112.
pub fn cases(size: Size) -> Vec<Case> {
    let is_small = size.elements < 1 << 20;
    let side = size.dim(if is_small { 8 } else { 112 });
    let groups = size.dim(if is_small { 2 } else { 8 });
    let channels = groups * size.dim(if is_small { 2 } else { 8 });
    let images = size.dim((size.elements / (64 * 112 * 112)).max(1));
    let dims = [images, channels, side, side];
    let case = |name: String, dtype: DType, op: Op, more: Vec<Source>, side: usize| {
        let sources = [vec![Source::plain(dtype, &dims)], more].concat();
        let name = format!("{name} {}", text(dtype));
        Case::new(name, super::Op::Images(op), sources, dtype, &[images, channels, side, side])
    };
    let mut cases = Vec::new();
    for dtype in [F32, F16] {
        let of = || Source::plain(dtype, &[channels]);
        for silu in [false, true] {
            let name = format!("group norm{},", if silu { " with silu" } else { "" });
            let norm = case(name, dtype, Op::GroupNorm { groups, silu }, vec![of(), of()], side);
            let torch = format!("torch.nn.functional.group_norm(x[0], {groups}, x[1], x[2], {EPS})");
            cases.push(norm.torch(if silu { format!("torch.nn.functional.silu({torch})") } else { torch }));
        }
        // Variances are not below 0.
        let of = vec![of(), of().of(Values::Distinct), of(), of()];
        let norm = case("batch norm,".into(), dtype, Op::BatchNorm, of, side);
        let torch = format!("torch.nn.functional.batch_norm(x[0], x[1], x[2], x[3], x[4], False, 0.0, {EPS})");
        cases.push(norm.torch(torch));
        for (window, stride) in [(3, 1), (3, 2), (7, 1)] {
            let op = Op::Depthwise { window, stride };
            let kernel = Source::plain(dtype, &[channels, 1, window, window]);
            let name = format!("depthwise {window}x{window}, stride {stride},");
            let depthwise = case(name, dtype, op, vec![kernel], (side - 1) / stride + 1);
            let padding = window / 2;
            let torch = format!("torch.nn.functional.conv2d(x[0], x[1], None, {stride}, {padding}, 1, {channels})");
            cases.push(depthwise.torch(torch));
        }
    }
    cases
}
