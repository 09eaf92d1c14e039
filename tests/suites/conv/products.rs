//! Convolutions that are matrix products, against plain Rust in f64. The cases have channels around the
//! edges of pieces and tiles, images with channels first, last and in any other order, gaps, NaN and infinities.
use super::convolutions::launch;
use super::{dim, maybe_empty, refused, slide, with_h};
use crate::suites::matmul::{Filling, admits, fill};
use crate::support::cases::{Rng, Shape, random_layout};
use crate::support::number::{BF16, F16, F64, Type};
use crate::support::property::{Operand, Outcome, each_case};
use crate::support::windows::{FLAT, Slide};
use crate::support::{Target, open, succeeded};
use candle_rocm_sys::{Backend, Conv, Device, Layout, sys};
use std::ptr::null_mut;

const CASES: usize = 40;

/// A layout of (n, c, ..): often with channels last, with gaps after channels or rows that may be whole pieces.
fn layout(rng: &mut Rng, dims: &[usize]) -> Shape {
    if rng.one_in(3) {
        return random_layout(rng, dims, 8);
    }
    let gap = |rng: &mut Rng| if rng.one_in(3) { rng.pick(&[8, 16, 3]) } else { 0 };
    let mut shape = Shape::contiguous(dims);
    shape.strides[1] = 1;
    let mut stride = dims[1] + gap(rng);
    for i in (2..dims.len()).rev() {
        shape.strides[i] = stride;
        stride = stride * dims[i] + gap(rng);
    }
    shape.strides[0] = stride;
    shape.offset = rng.pick(&[0, 0, 8, 1]);
    shape
}

/// Channels of at least `pairs` pairs: below that the direct kernel computes the outputs.
fn channels(rng: &mut Rng, pairs: usize) -> (usize, usize) {
    let inputs = if rng.one_in(2) { rng.pick(&[8, 16, 24, 40, 64, 72]) } else { rng.below(40) + 1 };
    let least = pairs.div_ceil(inputs);
    let most = if rng.one_in(4) { 150 } else { 20 };
    (inputs, least + rng.below(most))
}

/// A transposed window: the stride and the dilation have common factors or none, and may be more than the window.
fn transposed_slide(rng: &mut Rng) -> Slide {
    let (stride, dilation) = (rng.below(4) + 1, rng.pick(&[1, 1, 2, 3, 4, 6]));
    Slide { stride, padding: rng.below(5), output_padding: rng.below(stride + 1), dilation }
}

/// The input that tap `k` multiplies for output `x`: a place in the image, or outside of it. None: no product.
fn multiplied(s: &Slide, transposed: bool, x: usize, k: usize, size: usize) -> Option<Option<usize>> {
    if !transposed {
        return Some(s.input(x, k, size));
    }
    let from = (x + s.padding) as i64 - (k * s.dilation) as i64;
    let at = from.div_euclid(s.stride as i64);
    (from.rem_euclid(s.stride as i64) == 0).then(|| usize::try_from(at).ok().filter(|at| *at < size))
}

/// Whether transposed convolutions of the dtype are products: for f32 on devices with kernels for such matrix cores.
fn has_products(device: &Device, t: Type) -> bool {
    let info = device.info().expect("an open device");
    let architecture = info.architecture();
    let with_float_cores = ["gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950", "sm_80", "sm_90", "sm_100"];
    match t.name {
        "f32" => info.backend == Backend::Cpu || with_float_cores.iter().any(|name| architecture.starts_with(name)),
        "f64" => false,
        _ => true,
    }
}

pub fn convolution(target: &Target, name: &str, t: Type, flat: bool, transposed: bool) -> Outcome {
    each_case(target, "conv", name, CASES, |rng, _| {
        let is_pointwise = rng.one_in(5);
        let s = match (is_pointwise, transposed) {
            (true, _) => Slide { padding: 0, output_padding: usize::from(transposed && rng.one_in(3)), ..FLAT },
            (false, true) => transposed_slide(rng),
            (false, false) => slide(rng),
        };
        let wide = |rng: &mut Rng| if is_pointwise { 1 } else { rng.below(if flat { 12 } else { 4 }) + 1 };
        let window = [wide(rng), wide(rng)];
        let first = usize::from(flat);
        let is_wide = window[first..].iter().product::<usize>() >= 9;
        let least_pairs = if is_wide && !transposed && t.bytes == 2 { 16 } else { 64 };
        let (batch, (c_in, c_out)) = (rng.below(2) + 1, channels(rng, least_pairs));
        let batch = maybe_empty(rng, batch);
        let is_direct_in_groups = c_in == 1 && c_out < 64;
        let groups = if is_direct_in_groups || rng.one_in(2) { 1 } else { rng.below(4) + 1 };
        // Sums over 520 channels are so long that devices with many units cut k into parts.
        let (c_in, is_long) = if rng.one_in(12) { (520, true) } else { (c_in, false) };
        let most = if is_long { 5 } else { 60 / s.stride };
        let image = [dim(rng), dim(rng)].map(|size| if transposed || is_long { size.min(most) } else { size });
        let filling = rng.pick(&[Filling::Integers, Filling::Reals, Filling::Reals, Filling::Special]);
        let operand = |rng: &mut Rng, dims: &[usize]| {
            let shape = layout(rng, dims);
            let data = fill(rng, t, shape.reach(), filling);
            Operand::new(target, rng, t, shape, data)
        };
        let src = operand(rng, &[&[batch, groups * c_in], &image[first..]].concat());
        let pairs = if transposed { [groups * c_in, c_out] } else { [groups * c_out, c_in] };
        let kernel = operand(rng, &[&pairs, &window[first..]].concat());
        let size = |i: usize| {
            if transposed { s.transpose_size(image[i], window[i]) } else { s.size(image[i], window[i]) }
        };
        let out = if flat { Some(1).zip(size(1)) } else { size(0).zip(size(1)) };
        let (h_out, w_out) = out.unwrap_or((0, 0));
        let dst =
            Operand::destination(target, rng, t, &[&[batch, groups * c_out][..], &[h_out, w_out][first..]].concat());
        let status = launch(target, (flat, transposed), (&src, &kernel, &dst), s, groups);
        if out.is_none() {
            return refused(status, if transposed { "padding is" } else { "kernel_layout.dims[" });
        }
        let case = format!("{s:?}, {groups} groups, src {:?}, kernel {:?}, {filling:?}", src.shape, kernel.shape);
        succeeded(status).map_err(|problem| format!("{case}: {problem}"))?;
        let numbers = |operand: &Operand| operand.elements().into_iter().map(|x| t.float(x)).collect::<Vec<_>>();
        let (pixels, weights) = (numbers(&src), numbers(&kernel));
        let (d, k) = (with_h(flat, &src.shape.dims), with_h(flat, &kernel.shape.dims));
        let got = dst.memory.read().map_err(|problem| format!("{case}: destination: {problem}"))?;
        // The direct kernel computes dst where it is shorter than a stride.
        let is_short = |size: usize| size < s.stride && (size, s.padding) != (1, 0);
        let is_direct = transposed && (!has_products(&target.device, t) || is_short(w_out) || !flat && is_short(h_out));
        let (down, taps) = (if flat { FLAT } else { s }, c_in * k[2] * k[3]);
        let channels = groups * c_out;
        for i in 0..batch * channels * h_out * w_out {
            let (x, y) = (i % w_out, i / w_out % h_out);
            let (o, b) = (i / (w_out * h_out) % channels, i / (w_out * h_out * channels));
            let (mut sum, mut size) = (0.0, 0.0);
            for tap in 0..taps {
                let (k_x, k_y, c) = (tap % k[3], tap / k[3] % k[2], tap / (k[3] * k[2]));
                let at = |slide: &Slide, x, k, size| multiplied(slide, transposed, x, k, size);
                let Some((y, x)) = at(&down, y, k_y, d[2]).zip(at(&s, x, k_x, d[3])) else { continue };
                // Zeros outside of the image are multiplied too.
                if is_direct && y.zip(x).is_none() {
                    continue;
                }
                let input = o / c_out * c_in + c;
                let pixel = y.zip(x).map_or(0.0, |(y, x)| pixels[((b * d[1] + input) * d[2] + y) * d[3] + x]);
                let row = if transposed { input * c_out + o % c_out } else { o * c_in + c };
                let product = pixel * weights[(row * k[2] + k_y) * k[3] + k_x];
                sum += product;
                size += product.abs();
            }
            let bits = t.get(&got, i);
            // The kernel pads the channels to whole pieces, so a sum has as many products.
            if !admits(t, filling, k[2] * k[3] * c_in.next_multiple_of(8), bits, sum, size) {
                let shown = t.show(bits);
                return Err(format!("element {i}: {shown}, expected {sum:e} of magnitude {size:e}: {case}"));
            }
        }
        src.unchanged()?;
        kernel.unchanged()
    })
}

/// Convolutions of f64 whose windows do not fit into the scratch memory at once. The launcher takes some rows of one
/// large image at a time, and some of several small images.
pub fn pieces(target: &Target) -> Outcome {
    const CHANNELS: usize = 64;
    let device = &target.device;
    let text = |error: candle_rocm_sys::Error| error.to_string();
    let values = |count: usize, shift: usize| (0..count).map(|i| ((i * 7 + shift) % 23) as f64 - 11.0).collect();
    for (batch, [height, width], step) in [(1usize, [200usize, 300usize], 1usize), (5, [118, 121], 2)] {
        let (pixels, weights): (Vec<f64>, Vec<f64>) =
            (values(batch * CHANNELS * height * width, 0), values(CHANNELS * 9, 5));
        let (images, kernel) = (device.upload(&pixels).map_err(text)?, device.upload(&weights).map_err(text)?);
        let dst = device.upload(&vec![1f64; batch * height * width]).map_err(text)?;
        let layout = Layout::contiguous(&[batch, CHANNELS, height, width]).map_err(text)?;
        let kernel_layout = Layout::contiguous(&[1, CHANNELS, 3, 3]).map_err(text)?;
        let conv = Conv { padding: step, dilation: step, ..Conv::default() };
        device.conv2d(F64.dtype, (&layout, &images), (&kernel_layout, &kernel), &dst, conv).map_err(text)?;
        let got = dst.download::<f64>().map_err(text)?;
        for (i, got) in got.into_iter().enumerate() {
            let (x, y, b) = (i % width, i / width % height, i / (width * height));
            let mut sum = 0.0;
            for tap in 0..9 {
                let (row, column) = (y + tap / 3 * step, x + tap % 3 * step);
                if (step..height + step).contains(&row) && (step..width + step).contains(&column) {
                    let first = (b * CHANNELS * height + row - step) * width + column - step;
                    let products = (0..CHANNELS).map(|c| pixels[first + c * height * width] * weights[c * 9 + tap]);
                    sum += products.sum::<f64>();
                }
            }
            if got != sum {
                return Err(format!("{batch} images of {height} x {width}, element {i}: {got}, expected {sum}"));
            }
        }
    }
    Ok(())
}

/// Images with as many tall tiles as the device has units: the launcher then takes that tile (tests/choices.rs). Of
/// 300 channels and rows of 127 the last tiles are not whole, and results are stored one by one.
pub fn tall(target: &Target) -> Outcome {
    let info = target.device.info().map_err(|error| error.to_string())?;
    let units = info.simd_units as usize / if info.backend == Backend::Cpu { 1 } else { 4 };
    let height = (units / 2).max(1);
    many_channels(target, F16, [320, height, 128])?;
    many_channels(target, BF16, [300, height, 127])
}

/// A result of 33.6 MB, which the kernels of NVIDIA GPUs store as a stream (kernels/matmul/product_store.h).
pub fn streamed(target: &Target) -> Outcome {
    many_channels(target, F16, [320, 410, 128])
}

fn many_channels(target: &Target, t: Type, [outputs, height, width]: [usize; 3]) -> Outcome {
    const INPUTS: usize = 8;
    let device = &target.device;
    let text = |error: candle_rocm_sys::Error| error.to_string();
    let number = |i: usize, shift: usize| ((i * 5 + shift) % 7) as i64 - 3;
    let numbers = |count: usize, shift: usize| (0..count).map(|i| number(i, shift)).collect::<Vec<_>>();
    let upload = |numbers: &[i64]| {
        let halves: Vec<u16> = numbers.iter().map(|x| t.round_bits(*x as f64) as u16).collect();
        device.upload(&halves).map_err(text)
    };
    let row = width + 2; // of an image
    let (pixels, weights) = (numbers(INPUTS * height * row, 0), numbers(INPUTS * outputs * 3, 1));
    let images = Layout::contiguous(&[1, INPUTS, height, row]).map_err(text)?;
    let kernel = Layout::contiguous(&[outputs, INPUTS, 1, 3]).map_err(text)?;
    let dst = upload(&vec![1; outputs * height * width])?;
    let (src, taps) = (upload(&pixels)?, upload(&weights)?);
    device.conv2d(t.dtype, (&images, &src), (&kernel, &taps), &dst, Conv::default()).map_err(text)?;
    for (i, got) in dst.download::<u16>().map_err(text)?.into_iter().enumerate() {
        let (x, y, o) = (i % width, i / width % height, i / (width * height));
        let mut sum = 0;
        for (c, tap) in (0..INPUTS).flat_map(|c| (0..3).map(move |tap| (c, tap))) {
            sum += pixels[(c * height + y) * row + x + tap] * weights[(o * INPUTS + c) * 3 + tap];
        }
        if got != t.round_bits(sum as f64) as u16 {
            return Err(format!("{height} rows, element {i}: {}, expected {sum}", t.float(got.into())));
        }
    }
    Ok(())
}

/// A capture takes the scratch memory too: replays see new images and weights.
pub fn graph(target: &Target, transposed: bool) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let text = |error: candle_rocm_sys::Error| error.to_string();
    let half = |i: usize, shift: usize| F16.round_bits(((i * 7 + shift) % 23) as f64 - 11.0) as u16;
    let values = |count: usize, shift: usize| (0..count).map(|i| half(i, shift)).collect::<Vec<u16>>();
    let (image, kernel) = (device.upload(&values(2 * 9 * 48, 0)), device.upload(&values(10 * 9 * 9, 5)));
    let (image, kernel) = (image.map_err(text)?, kernel.map_err(text)?);
    let (channels, outputs, stride) = if transposed { ([9, 10], 11 * 15, 2) } else { ([10, 9], 48, 1) };
    let dst = device.upload(&values(2 * 10 * outputs, 1)).map_err(text)?;
    let weights = Layout::contiguous(&[channels[0], channels[1], 3, 3]).map_err(text)?;
    let images = Layout::contiguous(&[2, 9, 6, 8]).map_err(text)?;
    let conv = Conv { stride, padding: 1, ..Conv::default() };
    let call = if transposed { Device::conv_transpose2d } else { Device::conv2d };
    let run = || call(&device, F16.dtype, (&images, &image), (&weights, &kernel), &dst, conv).map_err(text);
    let read = || dst.download::<u16>().map_err(text);
    run()?;
    // SAFETY: live handles here and below; the graph is destroyed once.
    succeeded(unsafe { sys::crk_graph_begin(device.raw()) })?;
    let recorded = run();
    let mut graph = null_mut();
    succeeded(unsafe { sys::crk_graph_end(device.raw(), &mut graph) })?;
    let outcome = recorded.and_then(|()| {
        for shift in 1..3 {
            image.write(&values(2 * 9 * 48, shift)).map_err(text)?;
            kernel.write(&values(10 * 9 * 9, shift + 9)).map_err(text)?;
            run()?;
            let expected = read()?;
            dst.write(&values(2 * 10 * outputs, 1)).map_err(text)?;
            succeeded(unsafe { sys::crk_graph_launch(graph) })?;
            if read()? != expected {
                return Err("a replay has other results".into());
            }
        }
        Ok(())
    });
    unsafe { sys::crk_graph_destroy(graph) };
    outcome
}
