//! Batch norm with given statistics, against plain Rust in f64: trials of the suite `norm`. The cases have rows around
//! a pack of 16 bytes, one element per row, offsets, misaligned views, results in place, absent parameters, infinities
//! and NaN. Guard bytes surround every buffer. Kernels by name are launched with few threads, several packs per thread,
//! and 64-bit arithmetic.
use super::norm::{NONE, near, numbers};
use crate::support::cases::{Rng, Shape};
use crate::support::divisor::Divisor;
use crate::support::number::{BF16, F8, F16, F32, F64, I64, Type};
use crate::support::property::{Operand, Outcome, check, each_case};
use crate::support::reference::Expected;
use crate::support::{Target, open, refused_with, succeeded};
use candle_rocm_sys::{Arg, Launch, Layout, Status, sys};
use std::ptr::{null, null_mut};

/// Batch, channels and other dims.
const SIZES: &[&[usize]] = &[
    &[0, 3, 4],
    &[2, 0, 4],
    &[2, 3, 0],
    &[0, 3],
    &[1, 1],
    &[3, 1],
    &[2, 5],
    &[70, 33],
    &[5, 256],
    &[1, 1, 1],
    &[2, 3, 1, 1],
    &[3, 7, 2],
    &[2, 9, 3],
    &[4, 5, 4],
    &[2, 130, 7],
    &[3, 5, 2, 4],
    &[2, 3, 9],
    &[3, 2, 15],
    &[3, 2, 16],
    &[3, 2, 17],
    &[2, 64, 7, 7],
    &[3, 11, 7, 7],
    &[2, 5, 14, 14],
    &[2, 3, 28, 28],
    &[1, 300, 4],
    &[2, 2, 56, 56],
    &[1, 3, 55, 55],
    &[1, 2, 112, 112],
    &[2, 3, 3, 5, 5],
    &[1, 2, 1, 3, 1, 2, 2, 1],
    &[1, 1, 100003],
    &[1, 2, 40000],
];

/// What is special about the elements and the parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Filling {
    Ordinary,
    /// NaN and infinities among the elements.
    Special,
    /// NaN, infinities and zeros among the parameters, and negative variances.
    SpecialParameters,
    /// Any magnitudes that f32 does not let overflow.
    Scaled,
}

const FILLINGS: [Filling; 4] = [Filling::Ordinary, Filling::Special, Filling::SpecialParameters, Filling::Scaled];

/// A batch norm: the parameters of each channel. A weight or a bias may be absent.
pub struct Channels<'a> {
    pub mean: &'a [f64],
    pub var: &'a [f64],
    pub weight: Option<&'a [f64]>,
    pub bias: Option<&'a [f64]>,
    pub eps: f64,
}

/// The results. The difference, the root, its reciprocal and its product each have an error; so has the reference.
pub fn reference(t: Type, x: &[f64], inner: usize, of: &Channels) -> Vec<Expected> {
    let u = if t == F64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
    let eps = if t == F64 { of.eps } else { f64::from(of.eps as f32) };
    let result = |(i, x): (usize, &f64)| {
        let c = i / inner % of.mean.len();
        let scale = 1.0 / (of.var[c] + eps).sqrt() * of.weight.map_or(1.0, |weight| weight[c]);
        let (scaled, bias) = ((x - of.mean[c]) * scale, of.bias.map_or(0.0, |bias| bias[c]));
        near(t, scaled + bias, 12.0 * u * (scaled.abs() + bias.abs()))
    };
    x.iter().enumerate().map(result).collect()
}

fn call(
    device: sys::crk_device_t,
    t: Type,
    layout: *const Layout,
    x: sys::crk_view_t,
    [mean, var, weight, bias]: [sys::crk_view_t; 4],
    dst: sys::crk_view_t,
    eps: f64,
) -> Status {
    // SAFETY: the launcher refuses arguments that are not live.
    unsafe {
        let (mean, var, weight, bias) = (mean.into(), var.into(), weight.into(), bias.into());
        sys::crk_batch_norm(device, t.dtype, layout, x.into(), mean, var, weight, bias, dst, eps)
    }
}

/// Elements about `size` large.
fn elements(rng: &mut Rng, t: Type, count: usize, size: f64, special: bool) -> Vec<u8> {
    let mut data = vec![0; count * t.bytes];
    for i in 0..count {
        let x = match rng.below(12) {
            _ if !special => (rng.unit() * 2.0 - 1.0) * size,
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => 0.0,
            _ => (rng.unit() * 2.0 - 1.0) * size,
        };
        t.put(&mut data, i, t.round_bits(x));
    }
    data
}

/// Parameters of the channels; variances are positive unless they are special.
fn parameters(target: &Target, rng: &mut Rng, t: Type, channels: usize, (size, special): (f64, bool)) -> [Operand; 4] {
    let mut each = |is_variance: bool| {
        let mut data = elements(rng, t, channels, size, special);
        for i in (0..channels).filter(|_| is_variance && !special) {
            let x = t.float(t.get(&data, i)).abs();
            t.put(&mut data, i, t.round_bits(x));
        }
        Operand::new(target, rng, t, Shape::contiguous(&[channels]), data)
    };
    [each(false), each(true), each(false), each(false)]
}

/// Every size with every filling. A quarter of the cases are in place.
fn property(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "norm", name, SIZES.len() * FILLINGS.len(), |rng, index| {
        let (dims, filling) = (SIZES[index % SIZES.len()], FILLINGS[index / SIZES.len()]);
        one_case(target, rng, t, dims, filling).map_err(|problem| format!("{dims:?}, {filling:?}: {problem}"))
    })
}

fn one_case(target: &Target, rng: &mut Rng, t: Type, dims: &[usize], filling: Filling) -> Outcome {
    let in_place = rng.one_in(4);
    let mut shape = Shape::contiguous(dims);
    shape.offset = if in_place { 0 } else { rng.pick(&[0, 0, 1, 3, 8]) };
    let size = match filling {
        Filling::Scaled => 10f64.powf((rng.unit() * 2.0 - 1.0) * if t == F16 { 2.0 } else { 9.0 }),
        _ => 4.0,
    };
    let data = elements(rng, t, shape.reach(), size, filling == Filling::Special);
    let x = Operand::new(target, rng, t, shape, data);
    let dst = Operand::destination(target, rng, t, dims);
    let to = if in_place { &x } else { &dst };
    let of = parameters(target, rng, t, dims[1], (size, filling == Filling::SpecialParameters));
    let eps = if filling == Filling::Scaled { 10f64.powf(-9.0 + 8.0 * rng.unit()) } else { 1e-5 };
    let has = [true, true, !rng.one_in(3), !rng.one_in(3)];
    let views = [0, 1, 2, 3].map(|k| if has[k] { of[k].memory.view() } else { NONE });
    succeeded(call(target.device.raw(), t, &x.layout(), x.memory.view(), views, to.memory.view(), eps))?;
    let [mean, var, weight, bias] = of.each_ref().map(numbers);
    let (weight, bias) = (has[2].then_some(&weight[..]), has[3].then_some(&bias[..]));
    let channels = Channels { mean: &mean, var: &var, weight, bias, eps };
    let expected = reference(t, &numbers(&x), dims[2..].iter().product(), &channels);
    check(to, &expected, &[&x])?;
    of.iter().try_for_each(Operand::unchanged)
}

/// `crk_batch_norm_t` of kernels/call.
#[repr(C)]
#[derive(Clone, Copy)]
struct Cut {
    numel: u64,
    inner: Divisor,
    channels: Divisor,
    lanes: Divisor,
    steps: u64,
    wide: u32,
    unused: u32,
}

/// Both kernels with a grid of two blocks, with one to four packs per thread, and with 64-bit arithmetic. The launcher
/// does so for tensors of many elements.
fn few_blocks(target: &Target, t: Type) -> Outcome {
    const BLOCKS: u32 = 2;
    for (case, (kind, inner, depth)) in [
        ("even", 200, 4),
        ("even", 1032, 4),
        ("even", 96, 3),
        ("even", 8, 1),
        ("any", 49, 1),
        ("any", 3, 1),
        ("any", 1, 1),
    ]
    .into_iter()
    .enumerate()
    {
        for wide in [false, true] {
            let mut rng = Rng(case as u64);
            let (batch, channels) = (5, 37);
            let dims = [batch, channels, inner];
            let data = elements(&mut rng, t, dims.iter().product(), 4.0, false);
            let x = Operand::aligned(target, t, Shape::contiguous(&dims), data);
            let dst = Operand::aligned(target, t, x.shape.clone(), vec![0xcd; x.data.len()]);
            let of = parameters(target, &mut rng, t, channels, (4.0, false));
            let function = target.device.function_named("norm", &format!("batchnorm_{}_{kind}", t.name));
            let function = function.map_err(|error| error.to_string())?;
            let lanes = (inner * t.bytes / 16).div_ceil(depth).max(1);
            let cut = Cut {
                numel: x.shape.numel() as u64,
                inner: Divisor::new(inner, wide),
                channels: Divisor::new(channels, wide),
                lanes: Divisor::new(lanes, wide),
                steps: (batch * channels * lanes) as u64,
                wide: wide.into(),
                unused: 0,
            };
            let eps = if t == F64 { Arg::bits(1e-5f64.to_bits(), 8) } else { Arg::bits(1e-5f32.to_bits().into(), 4) };
            let mut args = vec![Arg::value(&cut), Arg::ptr(x.memory.ptr()), Arg::ptr(dst.memory.ptr())];
            args.extend(of.iter().map(|operand| Arg::ptr(operand.memory.ptr())));
            args.extend([eps, (BLOCKS * 256).into()]);
            let launch = Launch { grid: [BLOCKS, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
            // SAFETY: the kernel's arguments; all buffers have the elements that the sizes say.
            unsafe { function.launch(launch, &args) }.map_err(|error| error.to_string())?;
            let [mean, var, weight, bias] = of.each_ref().map(numbers);
            let (weight, bias) = (Some(&weight[..]), Some(&bias[..]));
            let channels = Channels { mean: &mean, var: &var, weight, bias, eps: 1e-5 };
            check(&dst, &reference(t, &numbers(&x), inner, &channels), &[&x])
                .map_err(|problem| format!("{kind} of {inner}, wide: {wide}: {problem}"))?;
        }
    }
    Ok(())
}

/// Recorded and replayed with other data.
fn captured(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let x = device.upload(&[3f32; 42]).map_err(error)?;
    let dst = device.alloc(42 * 4).map_err(error)?;
    let of = device.upload(&[1f32, 2.0, 0.25, 4.0]).map_err(error)?;
    let at = |first: usize| sys::crk_view_t {
        ptr: of.as_ptr().cast::<f32>().wrapping_add(first).cast(),
        bytes: (4 - first) * 4,
    };
    let layout = Layout::contiguous(&[1, 2, 21]).map_err(error)?;
    let views = [at(0), at(2), NONE, NONE];
    let go = || succeeded(call(device.raw(), F32, &layout, x.raw_view(), views, dst.raw_view(), 0.0));
    go()?;
    let mut graph = null_mut();
    // SAFETY: live arguments; so below.
    succeeded(unsafe { sys::crk_graph_begin(device.raw()) })?;
    go()?;
    succeeded(unsafe { sys::crk_graph_end(device.raw(), &mut graph) })?;
    x.write(&[5f32; 42]).map_err(error)?;
    let outcome = succeeded(unsafe { sys::crk_graph_launch(graph) });
    let got = dst.download::<f32>().map_err(error);
    unsafe { sys::crk_graph_destroy(graph) };
    outcome?;
    let got = got?;
    let expected = |i: usize| if i < 21 { 8.0 } else { 1.5 };
    let right = got.iter().enumerate().all(|(i, x)| (x - expected(i)).abs() < 1e-5);
    if right { Ok(()) } else { Err(format!("the replay gave {got:?}")) }
}

/// Bad values for every argument: checks the status and the argument's name in the sentence.
fn refused(target: &Target) -> Outcome {
    let device = target.device.raw();
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let buffer = || target.device.upload(&[0u8; 256]).map_err(error);
    let (x, dst, of) = (buffer()?, buffer()?, buffer()?);
    let (s, d) = (x.raw_view(), dst.raw_view());
    let at = |view: sys::crk_view_t, offset: usize, bytes: usize| sys::crk_view_t {
        ptr: view.ptr.cast::<u8>().wrapping_add(offset).cast(),
        bytes,
    };
    let null_view = |bytes| sys::crk_view_t { ptr: null_mut(), bytes };
    let parts = [0, 64, 128, 192].map(|offset| at(of.raw_view(), offset, 64));
    let layout = |dims: &[usize], strides: &[usize], offset| Layout::strided(dims, strides, offset).map_err(error);
    let good = Layout::contiguous(&[2, 3, 2]).map_err(error)?;
    let mut high = good;
    high.rank = 9;
    let (turned, far) = (layout(&[2, 3, 2], &[1, 2, 6], 0)?, layout(&[2, 3, 2], &[6, 2, 1], 53)?);
    let mut not_f32 = F32;
    not_f32.dtype = sys::crk_dtype(77);
    let try_one = |word: &str, expected: Status, got: Status| refused_with("crk_batch_norm", word, expected, got);
    let (invalid, outside) = (Status::InvalidArgument, Status::OutOfBounds);
    let of_layout = |layout: *const Layout| call(device, F32, layout, s, parts, d, 1e-5);
    let with = |x, parts, dst| call(device, F32, &good, x, parts, dst, 1e-5);
    try_one("self is NULL", invalid, call(null_mut(), F32, &good, s, parts, d, 1e-5))?;
    static ZEROS: [u64; 512] = [0; 512];
    let dead = ZEROS.as_ptr() as sys::crk_device_t;
    try_one("self is no live", invalid, call(dead, F32, &good, s, parts, d, 1e-5))?;
    try_one("dtype 77", invalid, call(device, not_f32, &good, s, parts, d, 1e-5))?;
    for t in [I64, F8] {
        try_one(t.name, Status::Unsupported, call(device, t, &good, s, parts, d, 1e-5))?;
    }
    try_one("layout is NULL", invalid, of_layout(null()))?;
    try_one("layout.rank is 9", invalid, of_layout(&high))?;
    try_one("layout.rank is 0", invalid, of_layout(&Layout::contiguous(&[]).map_err(error)?))?;
    try_one("layout.rank is 1", invalid, of_layout(&Layout::contiguous(&[3]).map_err(error)?))?;
    try_one("layout is not contiguous", invalid, of_layout(&turned))?;
    try_one("x", outside, of_layout(&far))?;
    if let Ok(huge) = layout(&[usize::MAX / 2, 4], &[4, 1], 0) {
        try_one("layout", invalid, of_layout(&huge))?;
    }
    try_one("x", outside, with(at(s, 0, 47), parts, d))?;
    try_one("x.ptr is NULL", invalid, with(null_view(48), parts, d))?;
    try_one("x.ptr", invalid, with(at(s, 2, 100), parts, d))?;
    try_one("dst", outside, with(s, parts, at(d, 0, 47)))?;
    try_one("dst.ptr is NULL", invalid, with(s, parts, null_view(48)))?;
    try_one("dst.ptr", invalid, with(s, parts, at(d, 1, 100)))?;
    try_one("dst overlaps x", invalid, with(s, parts, at(s, 4, 100)))?;
    for (k, name) in ["mean", "var", "weight", "bias"].into_iter().enumerate() {
        let spoilt = |view| {
            let mut parts = parts;
            parts[k] = view;
            with(s, parts, d)
        };
        try_one(name, outside, spoilt(at(parts[k], 0, 8)))?;
        try_one(&format!("{name}.ptr is NULL"), invalid, spoilt(null_view(12)))?;
        try_one(&format!("{name}.ptr"), invalid, spoilt(at(parts[k], 1, 40)))?;
        try_one(&format!("dst overlaps {name}"), invalid, spoilt(at(d, 44, 12)))?;
        if k < 2 {
            try_one(name, outside, spoilt(NONE))?;
        }
    }
    // No elements: unused arguments are not checked.
    for dims in [[0, 3, 2], [2, 0, 2], [2, 3, 0]] {
        let empty = Layout::contiguous(&dims).map_err(error)?;
        succeeded(call(device, F32, &empty, NONE, [NONE; 4], NONE, 1e-5))?;
    }
    let untouched = dst.download::<u8>().map_err(error)?.iter().all(|byte| *byte == 0);
    if untouched { Ok(()) } else { Err("a refused call wrote".into()) }
}

/// More than 2^32 elements, in place: rows of whole packs and others.
fn big(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let upload = |values: [f32; 3]| {
        let codes = values.map(|value| F16.round_bits(value.into()) as u16);
        target.device.upload(&codes).map_err(error)
    };
    let (mean, var, bias) = (upload([0.0, 1.0, 3.0])?, upload([1.0; 3])?, upload([0.5, 4.0, 8.0])?);
    let results = [1.5, 4.0, 6.0].map(|value| F16.round_bits(value) as u16);
    for inner in [1_431_655_784, 1_431_655_773] {
        let x = target.device.alloc(3 * inner * 2).map_err(error)?;
        target.device.fill(F16.dtype, &x, 3 * inner, 0x3c00u16).map_err(error)?;
        let layout = Layout::contiguous(&[1, 3, inner]).map_err(error)?;
        let parts = (None, Some((&bias).into()));
        target.device.batch_norm(F16.dtype, &layout, &x, (&mean, &var), parts, &x, 0.0).map_err(error)?;
        // Pieces around the ends of the rows, and those where 31 and 32 bits end.
        for middle in [0, inner, 1 << 31, 2 * inner, 1 << 32, 3 * inner] {
            let first = middle.max(1 << 20) - (1 << 20);
            let mut got = vec![0u16; (1 << 21).min(3 * inner - first)];
            x.range(2 * first..2 * (first + got.len())).and_then(|piece| piece.read(&mut got)).map_err(error)?;
            if let Some((i, x)) = (first..).zip(got).find(|(i, x)| *x != results[i / inner]) {
                return Err(format!("rows of {inner}: element {i} is {x:#x}"));
            }
        }
    }
    Ok(())
}

/// The trials on a device, by name.
pub fn trials(target: &'static Target, mut add: impl FnMut(String, Box<dyn FnOnce(&str) -> Outcome + Send>)) {
    for t in [BF16, F16, F32, F64] {
        add(format!("batch_norm_{}", t.name), Box::new(move |name| property(target, name, t)));
        add(format!("few_blocks/batch_norm_{}", t.name), Box::new(move |_| few_blocks(target, t)));
    }
    add("captured/batch_norm".into(), Box::new(move |_| captured(target)));
    add("refused/batch_norm".into(), Box::new(move |_| refused(target)));
    if std::env::var_os("CANDLE_ROCM_BIG").is_some() {
        add("big/batch_norm".into(), Box::new(move |_| big(target)));
    }
}
