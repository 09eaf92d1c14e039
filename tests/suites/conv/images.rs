//! Pools and upsampling.
use super::{CASES, Door, by_name, compare, dim, maybe_empty, pointer, refused, sizes, source};
use crate::support::cases::Rng;
use crate::support::number::Type;
use crate::support::property::{Operand, Outcome, each_case};
use crate::support::windows::{self, FLAT, Slide, Values};
use crate::support::{Target, succeeded};
use candle_rocm_sys::{Arg, sys};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pool {
    Average,
    Greatest,
}

impl Pool {
    pub fn root(self) -> &'static str {
        if self == Pool::Average { "avg_pool2d" } else { "max_pool2d" }
    }
}

/// Images of random sizes; sometimes there are none.
fn images(target: &Target, rng: &mut Rng, t: Type) -> Operand {
    let (batch, channels) = (rng.below(3) + 1, rng.below(4) + 1);
    let dims = [maybe_empty(rng, batch), channels, dim(rng), dim(rng)];
    source(target, rng, t, &dims)
}

pub fn pool(target: &Target, name: &str, door: Door, t: Type, op: Pool) -> Outcome {
    each_case(target, "conv", name, CASES, |rng, index| {
        let src = images(target, rng, t);
        let window = [rng.below(4) + 1, rng.below(4) + 1];
        let stride = [rng.below(4) + 1, rng.below(4) + 1];
        // Every third case has the window and stride for which there is a special kernel.
        let (window, stride) = if index % 3 == 0 { ([2, 2], [2, 2]) } else { (window, stride) };
        let size = |i: usize| Slide { stride: stride[i], ..FLAT }.size(src.shape.dims[2 + i], window[i]);
        let out = size(0).zip(size(1));
        let (h_out, w_out) = out.unwrap_or((0, 0));
        let dst = Operand::destination(target, rng, t, &[src.shape.dims[0], src.shape.dims[1], h_out, w_out]);
        let case = format!("window {window:?}, stride {stride:?}, src {:?}", src.shape);
        if door == Door::Launcher {
            let op = match op {
                Pool::Average => sys::crk_pool_op::CRK_POOL_AVG,
                Pool::Greatest => sys::crk_pool_op::CRK_POOL_MAX,
            };
            // SAFETY: live arguments.
            let status = unsafe {
                sys::crk_pool2d(
                    target.device.raw(),
                    op,
                    t.dtype,
                    &src.layout(),
                    src.memory.view().into(),
                    dst.memory.view(),
                    window[0],
                    window[1],
                    stride[0],
                    stride[1],
                )
            };
            if out.is_none() {
                return refused(status, if size(0).is_none() { "h_k is" } else { "w_k is" });
            }
            succeeded(status).map_err(|problem| format!("{case}: {problem}"))?;
        } else {
            let before = sizes(&[src.shape.numel(), window[0], window[1], stride[0], stride[1]]);
            let kernel = format!("{}_{}", op.root(), t.name);
            by_name(target, &kernel, dst.shape.numel(), &before, &[&src.shape], &[pointer(&src), pointer(&dst)])?;
        }
        let exact = 1.0 / (window[0] * window[1]) as f64;
        // By name the factor is Candle's: an f32, for f64 too.
        let factor = if door == Door::Name { f64::from(exact as f32) } else { exact };
        let (bits, [h_k, w_k], [h_stride, w_stride]) = (src.elements(), window, stride);
        let values = Values { dims: &src.shape.dims, bits: &bits };
        let expected = windows::pool(&values, (h_k, w_k), (h_stride, w_stride), (h_out, w_out), |window| match op {
            Pool::Average => windows::average(t, window, factor),
            Pool::Greatest => windows::greatest(t, window),
        });
        compare(&dst, &expected, &[&src]).map_err(|problem| format!("{case}: {problem}"))
    })
}

/// An output size: larger, smaller, a multiple of every vector, or 0.
fn output(rng: &mut Rng) -> usize {
    let size = if rng.one_in(3) { 16 * (rng.below(3) + 1) } else { dim(rng) };
    maybe_empty(rng, size)
}

pub fn nearest(target: &Target, name: &str, door: Door, t: Type) -> Outcome {
    each_case(target, "conv", name, CASES, |rng, _| {
        let src = images(target, rng, t);
        let (h_out, w_out) = (output(rng), output(rng));
        let s = &src.shape.dims;
        let dst = Operand::destination(target, rng, t, &[s[0], s[1], h_out, w_out]);
        if door == Door::Launcher {
            let (from, to) = (src.memory.view(), dst.memory.view());
            // SAFETY: live arguments.
            succeeded(unsafe {
                sys::crk_upsample_nearest2d(target.device.raw(), t.dtype, &src.layout(), from.into(), to, h_out, w_out)
            })?;
        } else {
            let scale = |i: usize, out: usize| Arg::from(s[i] as f64 / out as f64);
            let before = [&sizes(&[h_out, w_out])[..], &[scale(2, h_out), scale(3, w_out)]].concat();
            let kernel = format!("upsample_nearest2d_{}", t.name);
            by_name(target, &kernel, dst.shape.numel(), &before, &[&src.shape], &[pointer(&src), pointer(&dst)])?;
        }
        let bits = src.elements();
        let expected = windows::nearest(&Values { dims: s, bits: &bits }, (h_out, w_out));
        compare(&dst, &expected, &[&src]).map_err(|problem| format!("to {h_out} x {w_out}, src {s:?}: {problem}"))
    })
}

pub fn bilinear(target: &Target, name: &str, door: Door, t: Type) -> Outcome {
    each_case(target, "conv", name, CASES, |rng, _| {
        let src = images(target, rng, t);
        let (h_out, w_out) = (output(rng), output(rng));
        let align_corners = rng.one_in(3);
        // The factors need not match the sizes. Beyond the end, the last element repeats.
        let factor = |rng: &mut Rng| if rng.one_in(2) { 0.0 } else { rng.unit() * 3.0 + 0.125 };
        let (h_factor, w_factor) = (factor(rng), factor(rng));
        let s = &src.shape.dims;
        let dst = Operand::destination(target, rng, t, &[s[0], s[1], h_out, w_out]);
        if door == Door::Launcher {
            // SAFETY: live arguments.
            succeeded(unsafe {
                sys::crk_upsample_bilinear2d(
                    target.device.raw(),
                    t.dtype,
                    &src.layout(),
                    src.memory.view().into(),
                    dst.memory.view(),
                    h_out,
                    w_out,
                    align_corners,
                    h_factor,
                    w_factor,
                )
            })?;
        } else {
            let flag = |value: bool| Arg::bits(value.into(), 1);
            let factors = [flag(h_factor != 0.0), h_factor.into(), flag(w_factor != 0.0), w_factor.into()];
            let before = [&sizes(&[w_out, h_out])[..], &[flag(align_corners)], &factors].concat();
            let kernel = format!("upsample_bilinear2d_{}", t.name);
            by_name(target, &kernel, dst.shape.numel(), &before, &[&src.shape], &[pointer(&src), pointer(&dst)])?;
        }
        let bits = src.elements();
        let values = Values { dims: s, bits: &bits };
        let expected = windows::bilinear(t, &values, (h_out, w_out), align_corners, (h_factor, w_factor));
        compare(&dst, &expected, &[&src]).map_err(|problem| {
            format!("to {h_out} x {w_out}, {align_corners}, factors {h_factor} {w_factor}, src {s:?}: {problem}")
        })
    })
}
