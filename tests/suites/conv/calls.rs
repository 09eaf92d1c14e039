//! The calls themselves: sizes, bad input, capture, layouts with large strides.
use crate::support::number::F32;
#[cfg(unix)]
use crate::support::number::U8;
use crate::support::property::Outcome;
#[cfg(unix)]
use crate::support::sparse::Sparse;
use crate::support::{Target, last_error, open, succeeded};
use candle_rocm_sys::{Buffer, Conv, Device, Layout, Status, sys};
use std::ptr::{null, null_mut};

type View = sys::crk_view_t;

fn text(error: candle_rocm_sys::Error) -> String {
    error.to_string()
}

pub fn sizes() -> Outcome {
    let c = |stride, padding, output_padding, dilation| Conv { stride, padding, output_padding, dilation, groups: 1 };
    let is = |got: candle_rocm_sys::Result<usize>, expected: usize| match got {
        Ok(size) if size == expected => Ok(()),
        got => Err(format!("{got:?}, expected {expected}")),
    };
    is(Conv::default().size(9, 3), 7)?;
    is(c(2, 1, 0, 1).size(9, 3), 5)?;
    is(c(3, 2, 0, 2).size(10, 4), 3)?;
    is(c(1, 1, 0, 1).size(0, 2), 1)?;
    is(c(usize::MAX / 8, 0, 0, 1).size(5, 2), 1)?;
    is(Conv::default().transpose_size(9, 3), 11)?;
    is(c(2, 1, 1, 1).transpose_size(9, 3), 18)?;
    is(c(1, 1, 0, 1).transpose_size(1, 2), 0)?;
    let fails = |got: candle_rocm_sys::Result<usize>, named: &str| match got {
        Err(error) if error.status() == Status::InvalidArgument && error.to_string().contains(named) => Ok(()),
        got => Err(format!("{got:?}, where {named} should be refused")),
    };
    let huge = usize::MAX / 4;
    fails(Conv::default().size(2, 3), "window is 3")?;
    fails(Conv::default().size(3, 0), "window is 0")?;
    fails(c(0, 0, 0, 1).size(3, 1), "stride is 0")?;
    fails(c(1, 0, 0, 0).size(3, 1), "dilation is 0")?;
    fails(c(huge + 1, 0, 0, 1).size(3, 1), "stride")?;
    fails(c(1, huge / 2 + 1, 0, 1).size(3, 1), "padding")?;
    fails(c(1, huge / 2 - 1, 0, 1).size(huge - 1, 1), "size")?;
    fails(c(1, 0, 0, huge).size(3, 3), "window is 3")?;
    fails(Conv::default().size(huge + 1, 3), "size")?;
    fails(Conv::default().transpose_size(0, 3), "size is 0")?;
    fails(c(1, 3, 0, 1).transpose_size(3, 3), "padding is 3")?;
    fails(c(huge / 2, 0, 0, 1).transpose_size(4, 3), "size is 4")?;
    fails(c(1, 0, huge, 1).transpose_size(4, 3), "output_padding")?;
    // SAFETY: the functions must refuse the NULL.
    for status in [unsafe { sys::crk_conv_size(3, 1, 1, 0, 1, null_mut()) }, unsafe {
        sys::crk_conv_transpose_size(3, 1, 1, 0, 0, 1, null_mut())
    }] {
        if status != Status::InvalidArgument || !last_error().contains("result is NULL") {
            return Err(format!("{}: {}", status.name(), last_error()));
        }
    }
    Ok(())
}

/// Every launcher on f32, with images (2, 3, 6, 8), signals (2, 3, 48) and a kernel of 3 x 3. Every output has its own
/// buffer.
fn every_launcher(device: &Device, image: &Buffer, kernel: &Buffer, out: &[Buffer]) -> candle_rocm_sys::Result<()> {
    let (t, c) = (F32.dtype, Conv { padding: 1, ..Conv::default() });
    let (planes, signal) = (Layout::contiguous(&[2, 3, 6, 8])?, Layout::contiguous(&[2, 3, 48])?);
    let (flat, square) = (Layout::contiguous(&[3, 3, 3])?, Layout::contiguous(&[3, 3, 3, 3])?);
    let turned = Layout::strided(&[2, 3, 8, 6], &[144, 48, 1, 8], 0)?;
    device.conv1d(t, (&signal, image), (&flat, kernel), &out[0], c)?;
    device.conv2d(t, (&planes, image), (&square, kernel), &out[1], c)?;
    device.conv_transpose1d(t, (&signal, image), (&flat, kernel), &out[2], c)?;
    device.conv_transpose2d(t, (&turned, image), (&square, kernel), &out[3], c)?;
    device.im2col1d(t, &signal, image, &out[4], 3, c)?;
    device.im2col(t, &planes, image, &out[5], (3, 3), c)?;
    device.col2im1d(t, &Layout::contiguous(&[2, 16, 3, 3])?, image, &out[6], 1)?;
    device.pool2d((sys::crk_pool_op::CRK_POOL_AVG, t), &turned, image, &out[7], (3, 3), (1, 1))?;
    device.pool2d((sys::crk_pool_op::CRK_POOL_MAX, t), &planes, image, &out[8], (2, 2), (2, 2))?;
    device.upsample_nearest2d(t, &planes, image, &out[9], (9, 16))?;
    device.upsample_bilinear2d(t, &planes, (image, &out[10]), (9, 16), false, (1.5, 2.0))
}

pub fn graph(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(text)?;
    let values = |shift: usize| (0..288).map(|i| ((i * 7 + shift) % 23) as f32 - 11.0).collect::<Vec<_>>();
    let image = device.upload(&values(0)).map_err(text)?;
    let kernel = device.upload(&values(5)[..81]).map_err(text)?;
    let out = (0..11).map(|_| device.upload(&vec![0f32; 2592])).collect::<Result<Vec<_>, _>>().map_err(text)?;
    let read = || out.iter().map(|o| o.download::<u8>()).collect::<Result<Vec<_>, _>>().map_err(text);
    let run = || every_launcher(&device, &image, &kernel, &out).map_err(text);
    run()?;
    // SAFETY: live handles here and below; the graph is destroyed once.
    succeeded(unsafe { sys::crk_graph_begin(device.raw()) })?;
    let recorded = run();
    let mut graph = null_mut();
    succeeded(unsafe { sys::crk_graph_end(device.raw(), &mut graph) })?;
    let outcome = recorded.and_then(|()| {
        for shift in 1..3 {
            image.write(&values(shift)).map_err(text)?;
            run()?;
            let expected = read()?;
            for o in &out {
                o.write(&vec![0f32; 2592]).map_err(text)?;
            }
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

/// Batches that are more than 2^32 elements apart give the same results as adjacent ones.
#[cfg(unix)]
pub fn far_apart(target: &Target) -> Outcome {
    let device = &target.device;
    let data: Vec<u8> = (0..288u32).map(|i| (i * 37 % 251) as u8).collect();
    let apart = (1usize << 32) + 24;
    let far = Sparse::new(apart + 144)?;
    for (at, batch) in [0, apart].into_iter().zip(data.chunks(144)) {
        // SAFETY: within the mapping; the device is the CPU, so its memory is ours.
        unsafe { std::slice::from_raw_parts_mut(far.at.add(at), 144) }.copy_from_slice(batch);
    }
    let near = device.upload(&data).map_err(text)?;
    let kernel = device.upload(&data[..81]).map_err(text)?;
    let d = device.raw();
    let layout = |dims: &[usize], stride: usize| {
        let mut strides = Layout::contiguous(dims).map_err(text)?.strides;
        strides[0] = stride;
        Layout::strided(dims, &strides[..dims.len()], 0).map_err(text)
    };
    let results = |src: View, stride: usize| -> Result<Vec<Vec<u8>>, String> {
        let (planes, columns) = (layout(&[2, 3, 6, 8], stride)?, layout(&[2, 16, 3, 3], stride)?);
        let square = Layout::contiguous(&[3, 3, 3, 3]).map_err(text)?;
        let (k, t) = (kernel.raw_view(), U8.dtype);
        let out = |call: &dyn Fn(View) -> Status| {
            let dst = device.upload(&[0u8; 2592]).map_err(text)?;
            succeeded(call(dst.raw_view()))?;
            dst.download::<u8>().map_err(text)
        };
        let pools = [sys::crk_pool_op::CRK_POOL_AVG, sys::crk_pool_op::CRK_POOL_MAX];
        // SAFETY: live arguments.
        unsafe {
            Ok(vec![
                out(&|dst| sys::crk_conv2d(d, t, &planes, src.into(), &square, k.into(), dst, 1, 1, 1, 1))?,
                out(&|dst| {
                    sys::crk_conv_transpose2d(d, t, &planes, src.into(), &square, k.into(), dst, 2, 1, 0, 1, 1)
                })?,
                out(&|dst| sys::crk_im2col(d, t, &planes, src.into(), dst, 3, 3, 1, 1, 1))?,
                out(&|dst| sys::crk_col2im1d(d, t, &columns, src.into(), dst, 2))?,
                out(&|dst| sys::crk_pool2d(d, pools[0], t, &planes, src.into(), dst, 3, 3, 1, 1))?,
                out(&|dst| sys::crk_pool2d(d, pools[1], t, &planes, src.into(), dst, 2, 2, 2, 2))?,
                out(&|dst| sys::crk_upsample_nearest2d(d, t, &planes, src.into(), dst, 9, 16))?,
                out(&|dst| sys::crk_upsample_bilinear2d(d, t, &planes, src.into(), dst, 9, 16, false, 0.0, 0.0))?,
            ])
        }
    };
    let (expected, got) = (results(near.raw_view(), 144)?, results(far.view(), apart)?);
    match expected.iter().zip(&got).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(op) => Err(format!("op {op} differs where batches are far apart")),
    }
}

/// The arguments of any of these launchers.
#[derive(Clone, Copy)]
struct Given<'a> {
    device: sys::crk_device_t,
    dtype: sys::crk_dtype_t,
    layout: Option<&'a Layout>,
    src: View,
    kernel_layout: Option<&'a Layout>,
    kernel: View,
    dst: View,
    stride: usize,
    padding: usize,
    output_padding: usize,
    dilation: usize,
    groups: usize,
    window: usize,
    out: usize,
    factor: f64,
    pool: sys::crk_pool_op_t,
}

/// A launcher, its layout's rank, and which of the optional arguments it has.
struct Function {
    name: &'static str,
    call: fn(Given) -> Status,
    rank: usize,
    has: &'static str,
}

fn functions() -> Vec<Function> {
    macro_rules! function {
        ($name:literal, $rank:literal, $has:literal, |$g:ident| $call:expr) => {
            // SAFETY: a function does not touch arguments that it refuses; the others are live.
            Function { name: $name, call: |$g| unsafe { $call }, rank: $rank, has: $has }
        };
    }
    fn p(layout: Option<&Layout>) -> *const Layout {
        layout.map_or(null(), std::ptr::from_ref)
    }
    vec![
        function!("crk_conv1d", 3, "kernel stride padding dilation", |g| sys::crk_conv1d(
            g.device,
            g.dtype,
            p(g.layout),
            g.src.into(),
            p(g.kernel_layout),
            g.kernel.into(),
            g.dst,
            g.stride,
            g.padding,
            g.dilation,
            g.groups
        )),
        function!("crk_conv2d", 4, "kernel stride padding dilation", |g| sys::crk_conv2d(
            g.device,
            g.dtype,
            p(g.layout),
            g.src.into(),
            p(g.kernel_layout),
            g.kernel.into(),
            g.dst,
            g.stride,
            g.padding,
            g.dilation,
            g.groups
        )),
        function!("crk_conv_transpose1d", 3, "kernel stride output_padding dilation", |g| sys::crk_conv_transpose1d(
            g.device,
            g.dtype,
            p(g.layout),
            g.src.into(),
            p(g.kernel_layout),
            g.kernel.into(),
            g.dst,
            g.stride,
            g.padding,
            g.output_padding,
            g.dilation,
            g.groups
        )),
        function!("crk_conv_transpose2d", 4, "kernel stride output_padding dilation", |g| sys::crk_conv_transpose2d(
            g.device,
            g.dtype,
            p(g.layout),
            g.src.into(),
            p(g.kernel_layout),
            g.kernel.into(),
            g.dst,
            g.stride,
            g.padding,
            g.output_padding,
            g.dilation,
            g.groups
        )),
        function!("crk_im2col1d", 3, "window stride padding dilation", |g| sys::crk_im2col1d(
            g.device,
            g.dtype,
            p(g.layout),
            g.src.into(),
            g.dst,
            g.window,
            g.stride,
            g.padding,
            g.dilation
        )),
        function!("crk_im2col", 4, "window stride padding dilation", |g| sys::crk_im2col(
            g.device,
            g.dtype,
            p(g.layout),
            g.src.into(),
            g.dst,
            g.window,
            g.window,
            g.stride,
            g.padding,
            g.dilation
        )),
        function!("crk_col2im1d", 4, "stride", |g| sys::crk_col2im1d(
            g.device,
            g.dtype,
            p(g.layout),
            g.src.into(),
            g.dst,
            g.stride
        )),
        function!("crk_pool2d", 4, "pool window stride", |g| sys::crk_pool2d(
            g.device,
            g.pool,
            g.dtype,
            p(g.layout),
            g.src.into(),
            g.dst,
            g.window,
            g.window,
            g.stride,
            g.stride
        )),
        function!("crk_upsample_nearest2d", 4, "out", |g| sys::crk_upsample_nearest2d(
            g.device,
            g.dtype,
            p(g.layout),
            g.src.into(),
            g.dst,
            g.out,
            g.out
        )),
        function!("crk_upsample_bilinear2d", 4, "out factor", |g| sys::crk_upsample_bilinear2d(
            g.device,
            g.dtype,
            p(g.layout),
            g.src.into(),
            g.dst,
            g.out,
            g.out,
            false,
            g.factor,
            g.factor
        )),
    ]
}

pub fn bad_input(target: &Target) -> Outcome {
    let device = &target.device;
    let (a, b) = (device.upload(&[0u8; 4096]).map_err(text)?, device.upload(&[0u8; 4096]).map_err(text)?);
    let dst = device.upload(&[0u8; 65536]).map_err(text)?;
    for function in functions() {
        let dims = if function.rank == 3 { vec![1, 2, 5] } else { vec![1, 2, 5, 5] };
        let k_dims = if function.rank == 3 { vec![2, 2, 3] } else { vec![2, 2, 3, 3] };
        let (layout, kernel_layout) =
            (Layout::contiguous(&dims).map_err(text)?, Layout::contiguous(&k_dims).map_err(text)?);
        let (src_bytes, k_bytes) = (dims.iter().product::<usize>() * 4, k_dims.iter().product::<usize>() * 4);
        let cut = |view: View, bytes: usize| View { bytes, ..view };
        let right = Given {
            device: device.raw(),
            dtype: F32.dtype,
            layout: Some(&layout),
            src: cut(a.raw_view(), src_bytes),
            kernel_layout: Some(&kernel_layout),
            kernel: cut(b.raw_view(), k_bytes),
            dst: dst.raw_view(),
            stride: 1,
            padding: 0,
            output_padding: 0,
            dilation: 1,
            groups: 1,
            window: 3,
            out: 7,
            factor: 0.0,
            pool: sys::crk_pool_op::CRK_POOL_MAX,
        };
        let has = |what: &str| function.has.split(' ').any(|word| word == what);
        let refuses = |status: Status, named: &str, given: Given| {
            let got = (function.call)(given);
            if got == status && last_error().contains(named) && last_error().starts_with(function.name) {
                return Ok(());
            }
            Err(format!("{}: {}: {}, where {named} should be refused", function.name, got.name(), last_error()))
        };
        let (invalid, bounds) = (Status::InvalidArgument, Status::OutOfBounds);
        let nowhere = |view: View| View { ptr: null_mut(), ..view };
        let moved = |view: View, by: usize| View { ptr: view.ptr.cast::<u8>().wrapping_add(by).cast(), ..view };
        let changed = |layout: &Layout, change: &dyn Fn(&mut Layout)| {
            let mut layout = *layout;
            change(&mut layout);
            layout
        };
        let layout_name = if has("kernel") { "src_layout" } else { "layout" };

        succeeded((function.call)(right))?;
        refuses(invalid, "self is NULL", Given { device: null_mut(), ..right })?;
        refuses(invalid, "dtype 99", Given { dtype: sys::crk_dtype(99), ..right })?;
        refuses(invalid, &format!("{layout_name} is NULL"), Given { layout: None, ..right })?;
        let high = changed(&layout, &|l| l.rank = 9);
        refuses(invalid, &format!("{layout_name}.rank is 9"), Given { layout: Some(&high), ..right })?;
        let low = changed(&layout, &|l| l.rank = 2);
        refuses(invalid, &format!("{layout_name}.rank is 2"), Given { layout: Some(&low), ..right })?;
        let overflowing = changed(&layout, &|l| l.strides[1] = usize::MAX);
        refuses(invalid, layout_name, Given { layout: Some(&overflowing), ..right })?;
        let far = changed(&layout, &|l| l.offset = 1);
        refuses(bounds, "src", Given { layout: Some(&far), ..right })?;
        refuses(bounds, "src", Given { src: cut(right.src, src_bytes - 1), ..right })?;
        refuses(invalid, "src.ptr is NULL", Given { src: nowhere(right.src), ..right })?;
        refuses(invalid, "src.ptr", Given { src: moved(right.src, 2), ..right })?;
        refuses(bounds, "dst", Given { dst: cut(right.dst, 7), ..right })?;
        refuses(invalid, "dst.ptr is NULL", Given { dst: nowhere(right.dst), ..right })?;
        refuses(invalid, "dst.ptr", Given { dst: moved(right.dst, 1), ..right })?;
        let shared = View { bytes: dst.raw_view().bytes, ..dst.raw_view() };
        refuses(invalid, "dst overlaps src", Given { src: shared, ..right })?;
        let vast = changed(&layout, &|l| {
            l.dims[..function.rank].fill(1 << 40);
            l.strides[..function.rank].fill(0);
        });
        refuses(invalid, "", Given { layout: Some(&vast), ..right })?;
        if has("kernel") {
            refuses(invalid, "kernel_layout is NULL", Given { kernel_layout: None, ..right })?;
            let low = changed(&kernel_layout, &|l| l.rank = 2);
            refuses(invalid, "kernel_layout.rank is 2", Given { kernel_layout: Some(&low), ..right })?;
            let other = changed(&kernel_layout, &|l| l.dims[..2].fill(3));
            refuses(invalid, "kernel_layout.dims[", Given { kernel_layout: Some(&other), ..right })?;
            refuses(invalid, "groups is 0", Given { groups: 0, ..right })?;
            refuses(invalid, "groups is 3; it must divide src_layout.dims[1], 2", Given { groups: 3, ..right })?;
            let half = changed(&kernel_layout, &|l| l.dims[..2].copy_from_slice(&[3, 1]));
            refuses(invalid, "", Given { kernel_layout: Some(&half), groups: 2, ..right })?;
            let none = changed(&kernel_layout, &|l| l.dims[2] = 0);
            refuses(invalid, "kernel_layout.dims[2] is 0", Given { kernel_layout: Some(&none), ..right })?;
            refuses(bounds, "kernel", Given { kernel: cut(right.kernel, k_bytes - 1), ..right })?;
            refuses(invalid, "kernel.ptr is NULL", Given { kernel: nowhere(right.kernel), ..right })?;
            refuses(invalid, "kernel.ptr", Given { kernel: moved(right.kernel, 3), ..right })?;
            refuses(invalid, "dst overlaps kernel", Given { kernel: shared, ..right })?;
        }
        if has("stride") {
            refuses(invalid, "stride is 0", Given { stride: 0, ..right })?;
        }
        if has("dilation") {
            refuses(invalid, "dilation is 0", Given { dilation: 0, ..right })?;
            refuses(invalid, "with dilation", Given { dilation: usize::MAX / 2, ..right })?;
        }
        if has("padding") {
            refuses(invalid, "padding", Given { padding: usize::MAX, ..right })?;
            refuses(invalid, "dims[2]", Given { dilation: 3, ..right })?;
        }
        if has("output_padding") {
            refuses(invalid, "padding is 40", Given { padding: 40, ..right })?;
            refuses(invalid, "output_padding", Given { output_padding: usize::MAX, ..right })?;
        }
        if has("window") {
            refuses(invalid, "k is 0", Given { window: 0, ..right })?;
            refuses(invalid, "k is 6", Given { window: 6, ..right })?;
        }
        if has("pool") {
            refuses(invalid, "op 2", Given { pool: sys::crk_pool_op(2), ..right })?;
        }
        if has("out") {
            let empty = changed(&layout, &|l| l.dims[3] = 0);
            refuses(invalid, "layout.dims[3] is 0", Given { layout: Some(&empty), ..right })?;
            succeeded((function.call)(Given { out: 0, ..right }))?;
        }
        for factor in [-1.0, f64::NAN, f64::INFINITY] {
            if has("factor") {
                refuses(invalid, "h_factor is", Given { factor, ..right })?;
            }
        }
    }
    device.synchronize().map_err(text)
}
