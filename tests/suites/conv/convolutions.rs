//! Convolutions, and their windows as matrices.
use super::{
    CASES, Door, by_name, compare, dim, maybe_empty, pointer, refused, sizes, slide, source, source_of, with_h,
};
use crate::support::cases::{Rng, Shape, random_layout};
use crate::support::number::Type;
use crate::support::property::{Operand, Outcome, each_case};
use crate::support::windows::{self, FLAT, Slide, Values};
use crate::support::{Target, succeeded};
use candle_rocm_sys::{Status, sys};

/// Calls the launcher.
pub fn launch(
    target: &Target,
    (flat, transposed): (bool, bool),
    (src, kernel, dst): (&Operand, &Operand, &Operand),
    s: Slide,
    groups: usize,
) -> Status {
    let (d, t, sl, kl) = (target.device.raw(), src.t.dtype, src.layout(), kernel.layout());
    let (sv, kv, dv) = (src.memory.view().into(), kernel.memory.view().into(), dst.memory.view());
    let Slide { stride, padding, output_padding, dilation } = s;
    // SAFETY: live arguments.
    unsafe {
        if transposed {
            let call = if flat { sys::crk_conv_transpose1d } else { sys::crk_conv_transpose2d };
            call(d, t, &sl, sv, &kl, kv, dv, stride, padding, output_padding, dilation, groups)
        } else {
            let call = if flat { sys::crk_conv1d } else { sys::crk_conv2d };
            call(d, t, &sl, sv, &kl, kv, dv, stride, padding, dilation, groups)
        }
    }
}

pub fn convolution(target: &Target, name: &str, door: Door, t: Type, flat: bool, transposed: bool) -> Outcome {
    each_case(target, "conv", name, CASES, |rng, _| {
        let s = slide(rng);
        let batch = rng.below(3) + 1;
        let (c_in, c_out) = (rng.below(6) + 1, rng.below(9) + 1);
        let batch = maybe_empty(rng, batch);
        let c_in = maybe_empty(rng, c_in);
        let c_out = maybe_empty(rng, c_out);
        // Kernels by name know no groups. Many groups are mostly of one channel.
        let groups = if door == Door::Name || rng.one_in(2) { 1 } else { rng.pick(&[2, 3, 20]) };
        let (c_in, c_out) = if groups == 20 { (c_in.min(1), c_out.min(2)) } else { (c_in, c_out) };
        let image = [dim(rng), dim(rng)];
        let window = [rng.below(4) + 1, rng.below(if flat { 12 } else { 4 }) + 1];
        let first = usize::from(flat);
        // Launchers compute halves of more pairs by products, if the window has nine elements.
        let is_wide = window[first..].iter().product::<usize>() >= 9 && (c_in != 1 || groups == 1);
        let by_products = door != Door::Name && !transposed && t.bytes == 2 && is_wide;
        let most_pairs = if by_products { 15 } else { 63 };
        let c_out = c_out.min(most_pairs / c_in.max(1));
        let src = source(target, rng, t, &[&[batch, groups * c_in], &image[first..]].concat());
        let channels = if transposed { [groups * c_in, c_out] } else { [groups * c_out, c_in] };
        let kernel = source(target, rng, t, &[&channels, &window[first..]].concat());
        let size = |i: usize| {
            if transposed { s.transpose_size(image[i], window[i]) } else { s.size(image[i], window[i]) }
        };
        let out = if flat { Some(1).zip(size(1)) } else { size(0).zip(size(1)) };
        let (h_out, w_out) = out.unwrap_or((0, 0));
        let dims = [&[batch, groups * c_out][..], &[h_out, w_out][first..]].concat();
        let dst = Operand::destination(target, rng, t, &dims);

        let case = format!("{s:?}, {groups} groups, src {:?}, kernel {:?}", src.shape, kernel.shape);
        if door == Door::Launcher {
            let status = launch(target, (flat, transposed), (&src, &kernel, &dst), s, groups);
            if out.is_none() {
                return refused(status, if transposed { "padding is" } else { "kernel_layout.dims[" });
            }
            succeeded(status).map_err(|problem| format!("{case}: {problem}"))?;
        } else {
            let kernel_name = format!("conv{}{}d_{}", if transposed { "_transpose" } else { "" }, 2 - first, t.name);
            let mut before = vec![src.shape.numel()];
            before.extend(if flat { vec![w_out] } else { vec![w_out, h_out] });
            before.extend([s.stride, s.padding]);
            before.extend(transposed.then_some(s.output_padding));
            before.push(s.dilation);
            let after = [pointer(&src), pointer(&kernel), pointer(&dst)];
            by_name(target, &kernel_name, dst.shape.numel(), &sizes(&before), &[&src.shape, &kernel.shape], &after)?;
        }
        let (src_bits, kernel_bits) = (src.elements(), kernel.elements());
        let (s_dims, k_dims) = (with_h(flat, &src.shape.dims), with_h(flat, &kernel.shape.dims));
        let values = Values { dims: &s_dims, bits: &src_bits };
        let weights = Values { dims: &k_dims, bits: &kernel_bits };
        let slides = (if flat { FLAT } else { s }, s);
        let expected = windows::convolve(t, (transposed, groups), (&values, &weights), slides, (h_out, w_out));
        compare(&dst, &expected, &[&src, &kernel]).map_err(|problem| format!("{case}: {problem}"))
    })
}

/// Depthwise convolutions with windows that have kernels of their own (tests/choices.rs), and one window that has none.
pub fn depthwise(target: &Target, name: &str, t: Type) -> Outcome {
    const WINDOWS: [(usize, usize); 8] = [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (7, 2), (9, 1), (9, 2)];
    each_case(target, "conv", name, CASES, |rng, index| {
        let (window, stride) = WINDOWS[index % WINDOWS.len()];
        let s = Slide { stride, padding: rng.pick(&[0, window / 2, window / 2, window]), ..FLAT };
        let dim = |rng: &mut Rng| (if rng.one_in(3) { rng.below(70) } else { rng.below(12) }) + 1;
        let image = [dim(rng), dim(rng)];
        let (batch, groups, outputs) = (rng.below(3) + 1, rng.below(9) + 1, rng.below(2) + 1);
        let src = source(target, rng, t, &[batch, groups, image[0], image[1]]);
        let kernel = source(target, rng, t, &[groups * outputs, 1, window, window]);
        let out = s.size(image[0], window).zip(s.size(image[1], window));
        let (h_out, w_out) = out.unwrap_or((0, 0));
        let dst = Operand::destination(target, rng, t, &[batch, groups * outputs, h_out, w_out]);
        let case = format!("{s:?}, src {:?}, kernel {:?}", src.shape, kernel.shape);
        let status = launch(target, (false, false), (&src, &kernel, &dst), s, groups);
        if out.is_none() {
            return refused(status, "kernel_layout.dims[");
        }
        succeeded(status).map_err(|problem| format!("{case}: {problem}"))?;
        let (src_bits, kernel_bits) = (src.elements(), kernel.elements());
        let values = Values { dims: &src.shape.dims, bits: &src_bits };
        let weights = Values { dims: &kernel.shape.dims, bits: &kernel_bits };
        let expected = windows::convolve(t, (false, groups), (&values, &weights), (s, s), (h_out, w_out));
        compare(&dst, &expected, &[&src, &kernel]).map_err(|problem| format!("{case}: {problem}"))
    })
}

pub fn im2col(target: &Target, name: &str, door: Door, t: Type, flat: bool) -> Outcome {
    each_case(target, "conv", name, CASES, |rng, index| {
        let s = slide(rng);
        let batch = rng.below(3) + 1;
        // Sometimes many channels, which need several tiles, and windows larger than a tile.
        let channels = if rng.one_in(6) { rng.below(200) + 1 } else { rng.below(9) + 1 };
        let (batch, channels) = (maybe_empty(rng, batch), maybe_empty(rng, channels));
        let image = if index == 5 { [70, 90] } else { [dim(rng), dim(rng)] };
        let window = if index == 5 { [60, 70] } else { [rng.below(4) + 1, rng.below(4) + 1] };
        let channels = if index == 5 { 2 } else { channels };
        let first = usize::from(flat);
        let src = source(target, rng, t, &[&[batch, channels], &image[first..]].concat());
        let out = match flat {
            true => Some(1).zip(s.size(image[1], window[1])),
            false => s.size(image[0], window[0]).zip(s.size(image[1], window[1])),
        };
        let (h_out, w_out) = out.unwrap_or((0, 0));
        let h_k = if flat { 1 } else { window[0] };
        let dst = Operand::destination(target, rng, t, &[batch, h_out, w_out, channels, h_k, window[1]]);
        let case = format!("{s:?}, window {window:?}, src {:?}", src.shape);
        if door == Door::Launcher {
            let (d, l, sv, dv) = (target.device.raw(), src.layout(), src.memory.view(), dst.memory.view());
            let Slide { stride, padding, dilation, .. } = s;
            // SAFETY: live arguments.
            let status = unsafe {
                match flat {
                    true => sys::crk_im2col1d(d, t.dtype, &l, sv.into(), dv, window[1], stride, padding, dilation),
                    false => {
                        sys::crk_im2col(d, t.dtype, &l, sv.into(), dv, window[0], window[1], stride, padding, dilation)
                    }
                }
            };
            if out.is_none() {
                return refused(status, "layout.dims[");
            }
            succeeded(status).map_err(|problem| format!("{case}: {problem}"))?;
        } else {
            let threads = if flat { batch * w_out * channels } else { dst.shape.numel() };
            let outs = if flat { vec![w_out, window[1]] } else { vec![h_out, w_out, window[0], window[1]] };
            let before = [&[threads], &outs[..], &[s.stride, s.padding, s.dilation]].concat();
            let kernel = format!("im2col{}_{}", if flat { "1d" } else { "" }, t.name);
            by_name(target, &kernel, threads, &sizes(&before), &[&src.shape], &[pointer(&src), pointer(&dst)])?;
        }
        let (bits, dims) = (src.elements(), with_h(flat, &src.shape.dims));
        let values = Values { dims: &dims, bits: &bits };
        let slides = (if flat { FLAT } else { s }, s);
        let expected = windows::im2col(&values, (h_k, window[1]), slides, (h_out, w_out));
        compare(&dst, &expected, &[&src]).map_err(|problem| format!("{case}: {problem}"))
    })
}

pub fn col2im1d(target: &Target, name: &str, door: Door, t: Type) -> Outcome {
    each_case(target, "conv", name, CASES, |rng, _| {
        let (batch, l_in, channels, k) = (rng.below(3) + 1, dim(rng), rng.below(5) + 1, rng.below(7) + 1);
        let (batch, stride) = (maybe_empty(rng, batch), rng.below(4) + 1);
        let dims = [batch, l_in, channels, k];
        // By name the source is contiguous.
        let shape = if door == Door::Name { Shape::contiguous(&dims) } else { random_layout(rng, &dims, 16 / t.bytes) };
        let src = source_of(target, rng, t, shape);
        let l_out = (l_in - 1) * stride + k;
        let dst = Operand::destination(target, rng, t, &[batch, channels, l_out]);
        if door == Door::Launcher {
            // SAFETY: live arguments.
            succeeded(unsafe {
                sys::crk_col2im1d(
                    target.device.raw(),
                    t.dtype,
                    &src.layout(),
                    src.memory.view().into(),
                    dst.memory.view(),
                    stride,
                )
            })?;
        } else {
            let before = [dst.shape.numel(), l_out, l_in, channels, k, stride];
            let kernel = format!("col2im1d_{}", t.name);
            by_name(target, &kernel, dst.shape.numel(), &sizes(&before), &[], &[pointer(&src), pointer(&dst)])?;
        }
        let bits = src.elements();
        let expected = windows::col2im1d(t, &Values { dims: &src.shape.dims, bits: &bits }, stride, l_out);
        compare(&dst, &expected, &[&src]).map_err(|problem| format!("stride {stride}, src {:?}: {problem}", src.shape))
    })
}
