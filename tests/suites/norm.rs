//! The launchers of softmax, rms_norm and layer_norm, against plain Rust in f64. The cases have rows around every width
//! that a kernel works in, offsets, misaligned views, results in place, infinities, NaN and large values. Guard bytes
//! surround every buffer. Further tests cover bad arguments and capture. The trials of batch norm are in batch_norm.rs.
//!
//! A trial is an op and a dtype on a device: `norm/cpu:32/softmax_f16`.

use crate::support::cases::{Rng, Shape};
use crate::support::number::{BF16, F8, F16, F32, F64, I64, Type};
use crate::support::property::{Operand, Outcome, check, each_case};
use crate::support::range::Range;
use crate::support::reference::Expected;
use crate::support::rows::Op;
use crate::support::{Target, open, refused_with, succeeded};
use candle_rocm_sys::{Arg, Launch, Layout, Status, sys};
use libtest_mimic::{Failed, Trial};
use std::ptr::null_mut;

const FLOATS: [Type; 4] = [BF16, F16, F32, F64];
const EPS: f32 = 1e-5;
pub const NONE: sys::crk_view_t = sys::crk_view_t { ptr: null_mut(), bytes: 0 };

/// Rows and columns around packs of 2, 4 and 8 elements, 32 lanes, one to four packs per lane, and blocks of 64 to 512
/// threads. Rows beyond the size that a block holds: by little, so that it reads one chunk and holds less than it
/// could, and by much.
const SIZES: &[(usize, usize)] = &[
    (3, 0),
    (0, 5),
    (5, 1),
    (9, 2),
    (300, 3),
    (7, 7),
    (70, 8),
    (3, 15),
    (3, 16),
    (3, 17),
    (9, 31),
    (9, 32),
    (9, 33),
    (3, 63),
    (3, 64),
    (3, 65),
    (2, 127),
    (2, 128),
    (2, 129),
    (3, 255),
    (3, 256),
    (3, 257),
    (2, 511),
    (2, 513),
    (3, 1000),
    (3, 1023),
    (3, 1024),
    (3, 1025),
    (2, 2049),
    (1, 4096),
    (1, 4097),
    (2, 8192),
    (1, 8195),
    (1, 16384),
    (1, 16391),
    (2, 8204),
    (1, 10248),
    (1, 18440),
    (2, 33001),
    (1, 131072),
];

/// The contents of the rows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Filling {
    Ordinary,
    /// About 1000, so that a variance of 1 is small in comparison.
    Shifted,
    Large,
    Same,
    SomeLowest,
    AllLowest,
    OneNan,
    OneInfinite,
    /// Any magnitude for which f32 can sum the squares, with a mean of about this magnitude or more. eps, alpha and
    /// beta are random too.
    Scaled,
}

const FILLINGS: [Filling; 10] = [
    Filling::Ordinary,
    Filling::Large,
    Filling::Ordinary,
    Filling::Shifted,
    Filling::SomeLowest,
    Filling::Ordinary,
    Filling::AllLowest,
    Filling::OneNan,
    Filling::Same,
    Filling::OneInfinite,
];

/// Rows with a filling. Special elements are in one row only.
fn rows(rng: &mut Rng, t: Type, shape: &Shape, filling: Filling) -> Vec<u8> {
    let (count, cols) = (shape.reach(), *shape.dims.last().unwrap_or(&1));
    let mut data = vec![0; count * t.bytes];
    let large = if t == F16 { 65504.0 } else { 1e15 };
    let scaled = filling == Filling::Scaled;
    let size = if scaled { 10f64.powf((rng.unit() * 2.0 - 1.0) * if t == F16 { 3.0 } else { 13.5 }) } else { 0.0 };
    let shift = if scaled { rng.pick(&[0.0, 0.0, 1.0, 30.0]) } else { 0.0 };
    for i in 0..count {
        let x = rng.unit() * 16.0 - 8.0;
        let x = match filling {
            Filling::Shifted => 1000.0 + x / 4.0,
            Filling::Large if rng.one_in(2) => large * if rng.one_in(2) { -1.0 } else { 1.0 },
            Filling::Same => 3.7,
            Filling::Scaled => size * (x / 8.0 + shift),
            Filling::SomeLowest if rng.one_in(3) => f64::NEG_INFINITY,
            _ => x,
        };
        t.put(&mut data, i, t.round_bits(x));
    }
    if shape.numel() > 0 {
        let row = rng.below(shape.numel() / cols);
        let first = shape.offset + row * cols;
        let one = first + rng.below(cols);
        match filling {
            Filling::AllLowest => {
                (first..first + cols).for_each(|i| t.put(&mut data, i, t.round_bits(f64::NEG_INFINITY)))
            }
            Filling::OneNan => t.put(&mut data, one, t.round_bits(f64::NAN)),
            Filling::OneInfinite => t.put(&mut data, one, t.round_bits(f64::INFINITY)),
            _ => {}
        }
    }
    data
}

/// The sum, with compensation for the rounding of f64.
fn sum(terms: impl Iterator<Item = f64>) -> f64 {
    let (mut total, mut lost) = (0f64, 0f64);
    for x in terms {
        let next = total + x;
        lost += if total.abs() >= x.abs() { (total - next) + x } else { (x - next) + total };
        total = next;
    }
    if lost.is_finite() { total + lost } else { total }
}

/// The results that a kernel may give: those within `slack` of `value`, rounded to the dtype, and their neighbours.
pub fn near(t: Type, value: f64, slack: f64) -> Expected {
    let smallest = match t {
        _ if t == F64 => f64::MIN_POSITIVE * f64::EPSILON,
        _ if t == F16 => 2f64.powi(-24),
        _ => 2f64.powi(-133),
    };
    let slack = if slack.is_nan() { 0.0 } else { slack + smallest };
    let (end, range) = (|v: f64, by: i64| t.float(t.step(t.round_bits(v), by)), Range::near(value, slack));
    Expected::within(t, Range { low: end(range.low, -1), high: end(range.high, 1), ..range })
}

/// The results of a row. `u` is half an epsilon of the type that the kernel computes in. A kernel's result may be off
/// by the dtype's rounding and by an error per step. The errors of a sum grow with the square root of its longest
/// chain, which has some 48 additions, more only in long rows.
fn reference(op: Op, t: Type, x: &[f64], alpha: Option<&[f64]>, beta: Option<&[f64]>, eps: f32) -> Vec<Expected> {
    let u = if t == F64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
    let n = x.len() as f64;
    let chain = x.len().min(48) as f64 + n / 512.0;
    let of_sum = u * (2.0 * chain.sqrt() + 2.0);
    let expected = |value: f64, slack: f64| near(t, value, slack);
    let param = |row: Option<&[f64]>, i: usize, absent: f64| row.map_or(absent, |row| row[i]);
    match op {
        Op::Softmax => {
            let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total = sum(x.iter().map(|x| (x - most).exp()));
            let result = |x: &f64| {
                let value = (x - most).exp() / total;
                // The difference is rounded, which is an error of the exponent. It does not matter if exp is 0.
                let of_exponent = if value > 0.0 { u * (x - most).abs() } else { 0.0 };
                expected(value, value * (of_exponent + of_sum + 6.0 * u))
            };
            x.iter().map(result).collect()
        }
        Op::RmsNorm => {
            let scale = 1.0 / (sum(x.iter().map(|x| x * x)) / n + f64::from(eps)).sqrt();
            let result = |(i, x): (usize, &f64)| {
                let value = x * scale * param(alpha, i, 1.0);
                expected(value, value.abs() * (of_sum + 6.0 * u))
            };
            x.iter().enumerate().map(result).collect()
        }
        Op::LayerNorm => {
            let mean = sum(x.iter().copied()) / n;
            let variance = sum(x.iter().map(|x| (x - mean) * (x - mean))) / n + f64::from(eps);
            let scale = 1.0 / variance.sqrt();
            let of_mean = of_sum * sum(x.iter().map(|x| x.abs())) / n;
            let of_scale = of_sum + 4.0 * u + of_mean * of_mean / variance;
            let result = |(i, x): (usize, &f64)| {
                let (a, b) = (param(alpha, i, 1.0), param(beta, i, 0.0));
                let normal = (x - mean) * scale;
                let slack = (normal * a).abs() * (of_scale + 4.0 * u) + of_mean * (scale * a).abs() + 2.0 * u * b.abs();
                expected(normal * a + b, slack)
            };
            x.iter().enumerate().map(result).collect()
        }
    }
}

/// Calls the launcher of an op.
fn call(
    device: sys::crk_device_t,
    op: Op,
    t: Type,
    layout: *const Layout,
    src: sys::crk_view_t,
    params: [sys::crk_view_t; 2],
    dst: sys::crk_view_t,
) -> Status {
    call_with(device, op, t, layout, src, (params, EPS), dst)
}

fn call_with(
    device: sys::crk_device_t,
    op: Op,
    t: Type,
    layout: *const Layout,
    src: sys::crk_view_t,
    (params, eps): ([sys::crk_view_t; 2], f32),
    dst: sys::crk_view_t,
) -> Status {
    // SAFETY: the launcher refuses arguments that are not live.
    unsafe {
        match op {
            Op::Softmax => sys::crk_softmax(device, t.dtype, layout, src.into(), dst),
            Op::RmsNorm => sys::crk_rms_norm(device, t.dtype, layout, src.into(), params[0].into(), dst, eps),
            Op::LayerNorm => {
                sys::crk_layer_norm(device, t.dtype, layout, src.into(), params[0].into(), params[1].into(), dst, eps)
            }
        }
    }
}

/// A parameter for each column, with numbers up to `size`.
fn parameter(target: &Target, rng: &mut Rng, t: Type, cols: usize, size: f64) -> Operand {
    let mut data = vec![0; cols * t.bytes];
    for i in 0..cols {
        t.put(&mut data, i, t.round_bits((rng.unit() * 2.0 - 1.0) * size));
    }
    Operand::new(target, rng, t, Shape::contiguous(&[cols]), data)
}

pub fn numbers(operand: &Operand) -> Vec<f64> {
    operand.elements().into_iter().map(|bits| operand.t.float(bits)).collect()
}

/// Every size with one filling, a few sizes with all of them, then random rows, magnitudes and scalars. A quarter of
/// the cases are in place.
fn property(target: &Target, name: &str, op: Op, t: Type) -> Outcome {
    let wide: &[(usize, usize)] = &[(4, 24), (5, 100), (3, 1023), (2, 5000), (2, 33001)];
    let filled = SIZES.len() + wide.len() * FILLINGS.len();
    each_case(target, "norm", name, filled + 100, |rng, index| {
        let (size, filling) = match index.checked_sub(SIZES.len()) {
            None => (SIZES[index], FILLINGS[index % 3]),
            Some(_) if index >= filled => {
                ((1 + rng.below(3), [rng.below(40), rng.below(2000), 1500][rng.below(3)]), Filling::Scaled)
            }
            Some(i) => (wide[i / FILLINGS.len()], FILLINGS[i % FILLINGS.len()]),
        };
        one_case(target, rng, op, t, size, filling).map_err(|problem| format!("{size:?}, {filling:?}: {problem}"))
    })
}

fn one_case(target: &Target, rng: &mut Rng, op: Op, t: Type, size: (usize, usize), filling: Filling) -> Outcome {
    let (count, cols) = size;
    let in_place = rng.one_in(4);
    let dims = if rng.one_in(3) && count % 3 == 0 { vec![count / 3, 3, 1, cols] } else { vec![count, cols] };
    let mut shape = Shape::contiguous(&dims);
    shape.offset = if in_place { 0 } else { rng.pick(&[0, 0, 1, 3, 8]) };
    let data = rows(rng, t, &shape, filling);
    let src = Operand::new(target, rng, t, shape, data);
    let dst = Operand::destination(target, rng, t, &dims);
    let to = if in_place { &src } else { &dst };
    let scaled = filling == Filling::Scaled;
    let eps = if scaled { 10f64.powf(-12.0 + 9.0 * rng.unit()) as f32 } else { EPS };
    let greatest = if scaled { 8.0 } else { 2.0 };
    let mut maybe = |wanted: bool| (wanted && !rng.one_in(3)).then(|| parameter(target, rng, t, cols, greatest));
    let (alpha, beta) = (maybe(op != Op::Softmax), maybe(op == Op::LayerNorm));
    let view = |operand: &Option<Operand>| operand.as_ref().map_or(NONE, |operand| operand.memory.view());
    let (layout, params) = (src.layout(), [view(&alpha), view(&beta)]);
    succeeded(call_with(target.device.raw(), op, t, &layout, src.memory.view(), (params, eps), to.memory.view()))?;
    let (a, b) = (alpha.as_ref().map(numbers), beta.as_ref().map(numbers));
    let x = numbers(&src);
    let rows = x.chunks(cols.max(1));
    let expected: Vec<_> = rows.flat_map(|row| reference(op, t, row, a.as_deref(), b.as_deref(), eps)).collect();
    check(to, &expected, &[&src])?;
    alpha.iter().chain(&beta).try_for_each(Operand::unchanged)
}

/// A grid with fewer blocks than rows. The launchers use this only if there are more rows than a grid may have threads.
fn few_blocks(target: &Target, op: Op, root: &str, t: Type) -> Outcome {
    const BLOCKS: u32 = 2;
    for (kind, log2_width, block, cols) in
        [("rows1", 4u32, 64u32, 30usize), ("rows", 8, 256, 601), ("wide", 9, 512, 900), ("long", 7, 128, 5003)]
    {
        let mut rng = Rng(u64::from(log2_width));
        let shape = Shape::contiguous(&[21, cols]);
        let data = rows(&mut rng, t, &shape, Filling::Ordinary);
        let src = Operand::new(target, &mut rng, t, shape, data);
        let dst = Operand::destination(target, &mut rng, t, &[21, cols]);
        let function = target.device.function_named("norm", &format!("{root}_{}_{kind}", t.name));
        let function = function.map_err(|error| error.to_string())?;
        let none = || Arg::ptr(std::ptr::null());
        let beside = block >> log2_width;
        let mut args = vec![
            Arg::ptr(src.memory.ptr()),
            Arg::ptr(dst.memory.ptr()),
            21usize.into(),
            cols.into(),
            log2_width.into(),
            beside.into(),
            (BLOCKS * beside).into(),
        ];
        args.extend((op != Op::Softmax).then(none));
        args.extend((op == Op::LayerNorm).then(none));
        args.extend((op != Op::Softmax).then(|| Arg::bits(EPS.to_bits().into(), 4)));
        let launch = Launch { grid: [BLOCKS, 1, 1], block: [block, 1, 1], shared_bytes: 0 };
        // SAFETY: the kernel's arguments; both buffers have all rows.
        unsafe { function.launch(launch, &args) }.map_err(|error| error.to_string())?;
        let x = numbers(&src);
        let expected: Vec<_> = x.chunks(cols).flat_map(|row| reference(op, t, row, None, None, EPS)).collect();
        check(&dst, &expected, &[&src]).map_err(|problem| format!("{kind}: {problem}"))?;
    }
    Ok(())
}

/// Recorded and replayed with other data.
fn captured(target: &Target, op: Op) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let x: Vec<f32> = (0..3 * 70).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
    let (src, dst) = (device.upload(&x).map_err(error)?, device.alloc(x.len() * 4).map_err(error)?);
    let layout = Layout::contiguous(&[3, 70]).map_err(error)?;
    let go = || succeeded(call(device.raw(), op, F32, &layout, src.raw_view(), [NONE; 2], dst.raw_view()));
    go()?;
    let first = dst.download::<f32>().map_err(error)?;
    let mut graph = null_mut();
    // SAFETY: live arguments; so below.
    succeeded(unsafe { sys::crk_graph_begin(device.raw()) })?;
    go()?;
    succeeded(unsafe { sys::crk_graph_end(device.raw(), &mut graph) })?;
    let reversed: Vec<f32> = x.iter().rev().copied().collect();
    src.write(&reversed).map_err(error)?;
    let outcome = succeeded(unsafe { sys::crk_graph_launch(graph) });
    let second = dst.download::<f32>().map_err(error);
    unsafe { sys::crk_graph_destroy(graph) };
    outcome?;
    // The sums of a reversed row have another order.
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5;
    if first.iter().rev().zip(&second?).all(close) && first != x { Ok(()) } else { Err("the replay is wrong".into()) }
}

/// Bad values for every argument: checks the status and the argument's name in the sentence.
fn refused(target: &Target, op: Op) -> Outcome {
    let where_ = ["crk_softmax", "crk_rms_norm", "crk_layer_norm"][op as usize];
    let device = target.device.raw();
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let buffer = || target.device.upload(&[0u8; 256]).map_err(error);
    let (src, dst, alpha, beta) = (buffer()?, buffer()?, buffer()?, buffer()?);
    let (s, d, a, b) = (src.raw_view(), dst.raw_view(), alpha.raw_view(), beta.raw_view());
    let good = Layout::contiguous(&[2, 3]).map_err(error)?;
    let at = |view: sys::crk_view_t, offset: usize, bytes: usize| sys::crk_view_t {
        ptr: view.ptr.cast::<u8>().wrapping_add(offset).cast(),
        bytes,
    };
    let null = |bytes| sys::crk_view_t { ptr: null_mut(), bytes };
    let mut high = good;
    high.rank = 9;
    let layout = |dims: &[usize], strides: &[usize], offset| Layout::strided(dims, strides, offset).map_err(error);
    let scalar = Layout::contiguous(&[]).map_err(error)?;
    let (turned, far) = (layout(&[3, 2], &[1, 3], 0)?, layout(&[2, 3], &[3, 1], 59)?);
    let huge = layout(&[usize::MAX / 2, 4], &[4, 1], 0);
    let mut not_f32 = F32;
    not_f32.dtype = sys::crk_dtype(77);
    use Status as S;
    let try_one = |word: &'static str, expected: S, got: Status| refused_with(where_, word, expected, got);
    let invalid = S::InvalidArgument;
    let p = [a, b];
    try_one("self is NULL", invalid, call(null_mut(), op, F32, &good, s, p, d))?;
    static ZEROS: [u64; 512] = [0; 512];
    try_one("self is no live", invalid, call(ZEROS.as_ptr() as sys::crk_device_t, op, F32, &good, s, p, d))?;
    try_one("dtype 77", invalid, call(device, op, not_f32, &good, s, p, d))?;
    for t in [I64, F8] {
        try_one(t.name, S::Unsupported, call(device, op, t, &good, s, p, d))?;
    }
    try_one("layout is NULL", invalid, call(device, op, F32, std::ptr::null(), s, p, d))?;
    try_one("layout.rank is 9", invalid, call(device, op, F32, &high, s, p, d))?;
    try_one("layout.rank is 0", invalid, call(device, op, F32, &scalar, s, p, d))?;
    try_one("layout is not contiguous", invalid, call(device, op, F32, &turned, s, p, d))?;
    try_one("src", S::OutOfBounds, call(device, op, F32, &far, s, p, d))?;
    if let Ok(huge) = huge {
        try_one("layout", invalid, call(device, op, F32, &huge, s, p, d))?;
    }
    try_one("src", S::OutOfBounds, call(device, op, F32, &good, at(s, 0, 23), p, d))?;
    try_one("src.ptr is NULL", invalid, call(device, op, F32, &good, null(24), p, d))?;
    try_one("src.ptr", invalid, call(device, op, F32, &good, at(s, 2, 100), p, d))?;
    try_one("dst", S::OutOfBounds, call(device, op, F32, &good, s, p, at(d, 0, 23)))?;
    try_one("dst.ptr is NULL", invalid, call(device, op, F32, &good, s, p, null(24)))?;
    try_one("dst.ptr", invalid, call(device, op, F32, &good, s, p, at(d, 1, 100)))?;
    try_one("dst overlaps src", invalid, call(device, op, F32, &good, s, p, at(s, 4, 100)))?;
    if op != Op::Softmax {
        try_one("alpha", S::OutOfBounds, call(device, op, F32, &good, s, [at(a, 0, 8), b], d))?;
        try_one("alpha.ptr is NULL", invalid, call(device, op, F32, &good, s, [null(12), b], d))?;
        try_one("alpha.ptr", invalid, call(device, op, F32, &good, s, [at(a, 1, 100), b], d))?;
        try_one("dst overlaps alpha", invalid, call(device, op, F32, &good, s, [at(d, 20, 12), b], d))?;
    }
    if op == Op::LayerNorm {
        try_one("beta", S::OutOfBounds, call(device, op, F32, &good, s, [a, at(b, 0, 8)], d))?;
        try_one("beta.ptr is NULL", invalid, call(device, op, F32, &good, s, [a, null(12)], d))?;
        try_one("beta.ptr", invalid, call(device, op, F32, &good, s, [a, at(b, 1, 100)], d))?;
        try_one("dst overlaps beta", invalid, call(device, op, F32, &good, s, [a, at(d, 20, 12)], d))?;
    }
    // Empty rows: unused arguments are not checked.
    let empty = Layout::contiguous(&[0, 3]).map_err(error)?;
    succeeded(call(device, op, F32, &empty, NONE, p, NONE))?;
    let untouched = dst.download::<u8>().map_err(error)?.iter().all(|byte| *byte == 0);
    if untouched { Ok(()) } else { Err("a refused call wrote".into()) }
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Box<dyn FnOnce(&str) -> Outcome + Send>| {
            let trial = format!("norm/{}/{name}", target.name);
            trials.push(Trial::test(trial, move || body(&name).map_err(Failed::from)));
        };
        for (op, root) in Op::ALL {
            for t in FLOATS {
                add(format!("{root}_{}", t.name), Box::new(move |name| property(target, name, op, t)));
                add(format!("few_blocks/{root}_{}", t.name), Box::new(move |_| few_blocks(target, op, root, t)));
            }
            add(format!("captured/{root}"), Box::new(move |_| captured(target, op)));
            add(format!("refused/{root}"), Box::new(move |_| refused(target, op)));
        }
        super::batch_norm::trials(target, &mut add);
        super::group_norm::trials(target, add);
    }
    trials
}
