//! Convolutions, pools and upsampling, by launcher and by name, against plain Rust (support/windows.rs). The cases have
//! random shapes, strides, paddings, dilations and layouts, windows larger than the image, and empty batches. Guard
//! bytes surround every buffer.
//!
//! `cargo test --test suites -- FILTER` runs some of the tests. A failure names its case, and `CANDLE_ROCM_CASE=N` runs
//! only that one.
mod calls;
mod convolutions;
mod images;
mod products;

use crate::support::cases::{Rng, Shape, random_layout};
use crate::support::number::{BF16, F16, F32, F64, TYPES, Type};
use crate::support::property::{Operand, Outcome, check, value};
use crate::support::reference::Expected;
use crate::support::windows::Slide;
use crate::support::{Body, Target, add_trial, last_error};
use candle_rocm_sys::{Arg, Buffer, Launch, Status};
use libtest_mimic::Trial;

const CASES: usize = 40;

/// Op, whether it has one dim, whether it is transposed.
const CONVOLUTIONS: [(&str, bool, bool); 4] = [
    ("conv1d", true, false),
    ("conv2d", false, false),
    ("conv_transpose1d", true, true),
    ("conv_transpose2d", false, true),
];

/// The way to call a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Door {
    Launcher,
    Name,
}

/// A source of ordinary numbers, sometimes with extremes.
fn source(target: &Target, rng: &mut Rng, t: Type, dims: &[usize]) -> Operand {
    let shape = random_layout(rng, dims, 16 / t.bytes);
    source_of(target, rng, t, shape)
}

fn source_of(target: &Target, rng: &mut Rng, t: Type, shape: Shape) -> Operand {
    let mut data = vec![0; shape.reach() * t.bytes];
    for i in 0..shape.reach() {
        let bits = match rng.below(64) {
            0 => value(rng, t),
            _ if t.is_float() => t.round_bits(rng.unit() * 4.0 - 2.0),
            _ => t.wrap(rng.below(400) as i128 - 100),
        };
        t.put(&mut data, i, bits);
    }
    Operand::new(target, rng, t, shape, data)
}

/// A dim: mostly small, sometimes wider than a tile.
fn dim(rng: &mut Rng) -> usize {
    if rng.one_in(8) { rng.below(70) + 1 } else { rng.below(12) + 1 }
}

fn slide(rng: &mut Rng) -> Slide {
    let often_one = |rng: &mut Rng| if rng.one_in(2) { 1 } else { rng.below(3) + 1 };
    Slide {
        stride: often_one(rng),
        padding: if rng.one_in(2) { 0 } else { rng.below(4) },
        output_padding: rng.below(2),
        dilation: often_one(rng),
    }
}

/// `size`, sometimes 0.
fn maybe_empty(rng: &mut Rng, size: usize) -> usize {
    if rng.one_in(16) { 0 } else { size }
}

fn with_h(flat: bool, dims: &[usize]) -> Vec<usize> {
    if flat { vec![dims[0], dims[1], 1, dims[2]] } else { dims.to_vec() }
}

/// Launches a kernel by name with `count` threads in Candle's geometry. `before` are the sizes before `info`, `after`
/// the pointers after it. `info` holds the layouts' dims and strides.
fn by_name(target: &Target, kernel: &str, count: usize, before: &[Arg], layouts: &[&Shape], after: &[Arg]) -> Outcome {
    let numbers: Vec<u64> =
        layouts.iter().flat_map(|shape| [&shape.dims[..], &shape.strides[..]].concat()).map(|n| n as u64).collect();
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let info: Option<Buffer> =
        if numbers.is_empty() { None } else { Some(target.device.upload(&numbers).map_err(error)?) };
    let function = target.device.function_named("conv", kernel).map_err(error)?;
    let info_arg: Vec<Arg> = info.iter().map(Arg::from).collect();
    let args = [before, &info_arg, after].concat();
    // SAFETY: the kernel's arguments; the buffers are as long as the layouts reach.
    unsafe { function.launch(Launch::for_num_elems(count as u32), &args) }.map_err(error)?;
    // `info` must outlive the kernel.
    target.device.synchronize().map_err(error)
}

fn pointer(operand: &Operand) -> Arg<'static> {
    let bytes = operand.shape.offset * operand.t.bytes;
    Arg::ptr(operand.memory.ptr().cast::<u8>().wrapping_add(bytes).cast())
}

fn sizes(numbers: &[usize]) -> Vec<Arg<'static>> {
    numbers.iter().map(|n| Arg::from(*n)).collect()
}

fn refused(status: Status, named: &str) -> Outcome {
    if status == Status::InvalidArgument && last_error().contains(named) {
        return Ok(());
    }
    Err(format!("{}: {}, where {named} should be refused", status.name(), last_error()))
}

fn compare(dst: &Operand, expected: &[Expected], sources: &[&Operand]) -> Outcome {
    check(dst, expected, &[])?;
    sources.iter().try_for_each(|source| source.unchanged())
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "conv", target, name, body);
        for &t in TYPES {
            for (door, prefix) in [(Door::Launcher, "launcher"), (Door::Name, "by_name")] {
                let mut add = |op: &str, body: Body| add(format!("{prefix}/{op}_{}", t.name), body);
                for (op, flat, transposed) in CONVOLUTIONS {
                    add(
                        op,
                        Box::new(move |target, name| {
                            convolutions::convolution(target, name, door, t, flat, transposed)
                        }),
                    );
                }
                if door == Door::Launcher {
                    add("depthwise", Box::new(move |target, name| convolutions::depthwise(target, name, t)));
                }
                add("im2col1d", Box::new(move |target, name| convolutions::im2col(target, name, door, t, true)));
                add("im2col", Box::new(move |target, name| convolutions::im2col(target, name, door, t, false)));
                for op in [images::Pool::Average, images::Pool::Greatest] {
                    add(op.root(), Box::new(move |target, name| images::pool(target, name, door, t, op)));
                }
                add("upsample_nearest2d", Box::new(move |target, name| images::nearest(target, name, door, t)));
                add("upsample_bilinear2d", Box::new(move |target, name| images::bilinear(target, name, door, t)));
                add("col2im1d", Box::new(move |target, name| convolutions::col2im1d(target, name, door, t)));
            }
        }
        for t in [F16, BF16, F32, F64] {
            for (op, flat, transposed) in CONVOLUTIONS {
                let name = format!("products/{op}_{}", t.name);
                add(name, Box::new(move |target, name| products::convolution(target, name, t, flat, transposed)));
            }
        }
        for (name, transposed) in [("products/graph", false), ("products/transposed_graph", true)] {
            add(name.into(), Box::new(move |target, _| products::graph(target, transposed)));
        }
        add("products/tall".into(), Box::new(move |target, _| products::tall(target)));
        if target.name.starts_with("cuda:") {
            add("products/streamed".into(), Box::new(move |target, _| products::streamed(target)));
        }
        add("products/pieces".into(), Box::new(move |target, _| products::pieces(target)));
        add("sizes".into(), Box::new(move |_, _| calls::sizes()));
        add("graph".into(), Box::new(move |target, _| calls::graph(target)));
        add("bad_input".into(), Box::new(move |target, _| calls::bad_input(target)));
        #[cfg(unix)]
        if target.name.starts_with("cpu:") {
            add("far_apart".into(), Box::new(move |target, _| calls::far_apart(target)));
        }
    }
    trials
}
