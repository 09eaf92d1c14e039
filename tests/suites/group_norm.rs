//! Group norm against plain Rust in f64: trials of the suite `norm`. The cases have groups of one element up to groups
//! of many parts, rows around a pack of 16 bytes, offsets, misaligned views, results in place, absent parameters, means
//! far from 0, infinities and NaN, with silu and without. Guard bytes surround every buffer.
use super::norm::{NONE, near, numbers};
use crate::support::cases::{Rng, Shape};
use crate::support::number::{BF16, F8, F16, F32, F64, I64, Type};
use crate::support::property::{Operand, Outcome, check, each_case};
use crate::support::reference::Expected;
use crate::support::{Target, open, refused_with, succeeded};
use candle_rocm_sys::{Layout, Status, sys};
use std::ptr::{null, null_mut};

/// Groups; batch, channels and other dims.
const SIZES: &[(usize, &[usize])] = &[
    (1, &[0, 3, 4]),
    (1, &[2, 0, 4]),
    (3, &[2, 3, 0]),
    (1, &[1, 1]),
    (3, &[2, 3]),
    (2, &[3, 4]),
    (1, &[2, 5, 1]),
    (2, &[3, 4, 2]),
    (3, &[2, 9, 3]),
    (5, &[4, 5, 4]),
    (13, &[2, 130, 7]),
    (1, &[3, 5, 2, 4]),
    (2, &[3, 2, 15]),
    (2, &[3, 2, 16]),
    (2, &[3, 2, 17]),
    (32, &[2, 64, 7, 7]),
    (8, &[2, 320, 3, 3]),
    (4, &[2, 12, 28, 28]),
    (2, &[1, 4, 56, 56]),
    (1, &[1, 3, 55, 55]),
    (1, &[1, 2, 3, 1, 5, 7]),
    (1, &[1, 1, 100_003]),
    (1, &[2, 2, 40_000]),
    (2, &[1, 4, 33_333]),
    (300, &[1, 300, 4]),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Filling {
    Ordinary,
    /// Far from 0: by a thousand deviations.
    Far,
    /// All elements are equal. In half of the cases they are so large that a square of them is infinite.
    Equal,
    /// The first elements are unlike all others.
    Border,
    /// NaN or infinities in one group.
    Special,
}

const FILLINGS: [Filling; 5] = [Filling::Ordinary, Filling::Far, Filling::Equal, Filling::Border, Filling::Special];

pub struct Case<'a> {
    pub groups: usize,
    pub silu: bool,
    pub eps: f64,
    pub weight: Option<&'a [f64]>,
    pub bias: Option<&'a [f64]>,
}

/// Adds by halves: the error grows with the logarithm of the length.
fn sum(of: &[f64], each: impl Fn(f64) -> f64 + Copy) -> f64 {
    match of {
        [x] => each(*x),
        [] => 0.0,
        _ => {
            let (first, second) = of.split_at(of.len() / 2);
            sum(first, each) + sum(second, each)
        }
    }
}

/// The results. A difference from the mean has an error by the mean's magnitude; statistics have errors that grow with
/// the logarithm of the group's size at most.
pub fn reference(t: Type, x: &[f64], channels: usize, inner: usize, of: &Case) -> Vec<Expected> {
    let u = if t == F64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
    let eps = if t == F64 { of.eps } else { f64::from(of.eps as f32) };
    let size = channels / of.groups * inner;
    let row = |(row, x): (usize, &[f64])| -> Vec<Expected> {
        let count = x.len() as f64;
        let about = sum(x, |x| x) / count;
        let mean = about + sum(x, |x| x - about) / count; // its error is that of one number
        let var = sum(x, |x| (x - mean).powi(2)) / count;
        let largest = x.iter().fold(0f64, |most, x| most.max(x.abs()));
        // The variance's relative error; the errors of means add their squares to it.
        let off = 64.0 * u + (32.0 * u * largest).powi(2) / (var + eps);
        let root = (var + eps).sqrt();
        let each = |(i, x): (usize, &f64)| {
            let c = row % of.groups * (channels / of.groups) + i / inner;
            let (weight, bias) = (of.weight.map_or(1.0, |w| w[c]), of.bias.map_or(0.0, |b| b[c]));
            let scaled = (x - mean) / root * weight;
            let slack = off * scaled.abs() + 16.0 * u * (bias.abs() + weight.abs() * largest / root);
            if !of.silu {
                return near(t, scaled + bias, slack);
            }
            // silu has a slope of at most 1.1. The dtype rounds before it too.
            let y = scaled + bias;
            let half = if t == F64 || t == F32 { 4.0 * u } else { 2f64.powi(if t == F16 { -11 } else { -8 }) };
            let value = y / (1.0 + (-y).exp());
            near(
                t,
                value,
                1.1 * (slack + half * y.abs() + if t == F16 { 2f64.powi(-24) } else { 0.0 }) + 16.0 * u * value.abs(),
            )
        };
        x.iter().enumerate().map(each).collect()
    };
    x.chunks(size.max(1)).enumerate().flat_map(row).collect()
}

#[allow(clippy::too_many_arguments)]
fn call(
    device: sys::crk_device_t,
    t: Type,
    layout: *const Layout,
    (groups, silu): (usize, bool),
    x: sys::crk_view_t,
    [weight, bias]: [sys::crk_view_t; 2],
    dst: sys::crk_view_t,
    eps: f64,
) -> Status {
    // SAFETY: the launcher refuses arguments that are not live.
    unsafe {
        sys::crk_group_norm(device, t.dtype, layout, groups, silu, x.into(), weight.into(), bias.into(), dst, eps)
    }
}

fn elements(rng: &mut Rng, t: Type, count: usize, filling: Filling) -> Vec<u8> {
    let mut data = vec![0; count * t.bytes];
    let special = rng.below(count.max(1));
    let huge = if t == F16 { 60_000.0 } else { 1e20 };
    let equal = rng.pick(&[0.1, huge]);
    let worst = *[f64::NAN, f64::INFINITY, f64::NEG_INFINITY].get(rng.below(3)).expect("one of three");
    for i in 0..count {
        let unit = rng.unit() * 2.0 - 1.0;
        let x = match filling {
            Filling::Ordinary => unit * 4.0,
            Filling::Far => 1000.0 + unit,
            Filling::Equal => equal,
            Filling::Border => {
                if i < 512 {
                    3.3
                } else {
                    0.1 + unit * 0.01
                }
            }
            Filling::Special => {
                if i == special {
                    worst
                } else {
                    unit
                }
            }
        };
        t.put(&mut data, i, t.round_bits(x));
    }
    data
}

/// Every size with every filling, and silu in half of the cases. A quarter are in place.
fn property(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "norm", name, SIZES.len() * FILLINGS.len() * 2, |rng, index| {
        let ((groups, dims), rest) = (SIZES[index % SIZES.len()], index / SIZES.len());
        let (filling, silu) = (FILLINGS[rest % FILLINGS.len()], rest / FILLINGS.len() == 1);
        one_case(target, rng, t, (groups, silu), dims, filling)
            .map_err(|problem| format!("{groups} of {dims:?}, {filling:?}, silu: {silu}: {problem}"))
    })
}

fn one_case(
    target: &Target,
    rng: &mut Rng,
    t: Type,
    (groups, silu): (usize, bool),
    dims: &[usize],
    filling: Filling,
) -> Outcome {
    let in_place = rng.one_in(4);
    let mut shape = Shape::contiguous(dims);
    shape.offset = if in_place { 0 } else { rng.pick(&[0, 0, 1, 3, 8]) };
    let data = elements(rng, t, shape.reach(), filling);
    let x = Operand::new(target, rng, t, shape, data);
    let dst = Operand::destination(target, rng, t, dims);
    let to = if in_place { &x } else { &dst };
    let of = [(); 2].map(|()| {
        let data = elements(rng, t, dims[1], Filling::Ordinary);
        Operand::new(target, rng, t, Shape::contiguous(&[dims[1]]), data)
    });
    let has = [!rng.one_in(3), !rng.one_in(3)];
    let views = [0, 1].map(|k| if has[k] { of[k].memory.view() } else { NONE });
    let eps = 1e-5;
    let (device, layout) = (target.device.raw(), x.layout());
    let before = numbers(&x);
    succeeded(call(device, t, &layout, (groups, silu), x.memory.view(), views, to.memory.view(), eps))?;
    let [weight, bias] = of.each_ref().map(numbers);
    let case = Case { groups, silu, eps, weight: has[0].then_some(&weight), bias: has[1].then_some(&bias) };
    let expected = reference(t, &before, dims[1], dims[2..].iter().product(), &case);
    check(to, &expected, &[&x])?;
    of.iter().try_for_each(Operand::unchanged)
}

/// Rows so long that a thread has many elements, on any device. The second one has parts of 513 packs on a GPU with
/// room for 1056 blocks, so that the last two parts have none.
fn long(target: &Target, name: &str, t: Type) -> Outcome {
    let sizes = [1 << 20, 4 * 540_673 + 3];
    each_case(target, "norm", name, sizes.len() * 2, |rng, index| {
        let filling = [Filling::Border, Filling::Far][index / sizes.len()];
        one_case(target, rng, t, (1, false), &[1, 1, sizes[index % sizes.len()]], filling)
            .map_err(|problem| format!("{}, {filling:?}: {problem}", sizes[index % sizes.len()]))
    })
}

/// Recorded and replayed with other data, of a group with many parts. The replays have the same bits.
fn captured(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let error = |error: candle_rocm_sys::Error| error.to_string();
    const COUNT: usize = 200_000;
    let values = |factor: f32| -> Vec<f32> { (0..COUNT).map(|i| factor * (i % 1001) as f32).collect() };
    let (x, dst) = (device.upload(&values(1.0)).map_err(error)?, device.alloc(4 * COUNT).map_err(error)?);
    let layout = Layout::contiguous(&[1, 2, COUNT / 2]).map_err(error)?;
    let go = || succeeded(call(device.raw(), F32, &layout, (1, false), x.raw_view(), [NONE; 2], dst.raw_view(), 0.0));
    go()?;
    let first = dst.download::<f32>().map_err(error)?;
    let mut graph = null_mut();
    // SAFETY: live arguments; so below.
    succeeded(unsafe { sys::crk_graph_begin(device.raw()) })?;
    go()?;
    succeeded(unsafe { sys::crk_graph_end(device.raw(), &mut graph) })?;
    let mut outcome = Ok(());
    for factor in [4.0, 1.0, 4.0] {
        x.write(&values(factor)).map_err(error)?;
        outcome = outcome.and(succeeded(unsafe { sys::crk_graph_launch(graph) }));
        // A power of two as a factor changes no bit of the results.
        let got = dst.download::<f32>().map_err(error)?;
        let differs = got.iter().zip(&first).position(|(a, b)| a.to_bits() != b.to_bits());
        outcome = outcome.and(differs.map_or(Ok(()), |at| Err(format!("element {at} differs in a replay"))));
    }
    unsafe { sys::crk_graph_destroy(graph) };
    outcome
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
    let parts = [0, 64].map(|offset| at(of.raw_view(), offset, 64));
    let layout = |dims: &[usize], strides: &[usize], offset| Layout::strided(dims, strides, offset).map_err(error);
    let good = Layout::contiguous(&[2, 3, 2]).map_err(error)?;
    let (turned, far) = (layout(&[2, 3, 2], &[1, 2, 6], 0)?, layout(&[2, 3, 2], &[6, 2, 1], 53)?);
    let mut not_f32 = F32;
    not_f32.dtype = sys::crk_dtype(77);
    let try_one = |word: &str, expected: Status, got: Status| refused_with("crk_group_norm", word, expected, got);
    let (invalid, outside) = (Status::InvalidArgument, Status::OutOfBounds);
    let one = (3, false);
    let of_layout = |layout: *const Layout| call(device, F32, layout, one, s, parts, d, 1e-5);
    let with = |x, parts, dst| call(device, F32, &good, one, x, parts, dst, 1e-5);
    try_one("self is NULL", invalid, call(null_mut(), F32, &good, one, s, parts, d, 1e-5))?;
    try_one("dtype 77", invalid, call(device, not_f32, &good, one, s, parts, d, 1e-5))?;
    for t in [I64, F8] {
        try_one(t.name, Status::Unsupported, call(device, t, &good, one, s, parts, d, 1e-5))?;
    }
    for groups in [0, 2, 4] {
        let word = format!("groups is {groups}");
        try_one(&word, invalid, call(device, F32, &good, (groups, false), s, parts, d, 1e-5))?;
    }
    try_one("layout is NULL", invalid, of_layout(null()))?;
    try_one("layout.rank is 1", invalid, of_layout(&Layout::contiguous(&[3]).map_err(error)?))?;
    try_one("layout is not contiguous", invalid, of_layout(&turned))?;
    try_one("x", outside, of_layout(&far))?;
    try_one("x", outside, with(at(s, 0, 47), parts, d))?;
    try_one("x.ptr is NULL", invalid, with(null_view(48), parts, d))?;
    try_one("dst", outside, with(s, parts, at(d, 0, 47)))?;
    try_one("dst.ptr is NULL", invalid, with(s, parts, null_view(48)))?;
    try_one("dst overlaps x", invalid, with(s, parts, at(s, 4, 100)))?;
    for (k, name) in ["weight", "bias"].into_iter().enumerate() {
        let spoilt = |view| {
            let mut parts = parts;
            parts[k] = view;
            with(s, parts, d)
        };
        try_one(name, outside, spoilt(at(parts[k], 0, 8)))?;
        try_one(&format!("{name}.ptr is NULL"), invalid, spoilt(null_view(12)))?;
        try_one(&format!("{name}.ptr"), invalid, spoilt(at(parts[k], 1, 40)))?;
        try_one(&format!("dst overlaps {name}"), invalid, spoilt(at(d, 44, 12)))?;
    }
    let untouched = dst.download::<u8>().map_err(error)?.iter().all(|byte| *byte == 0);
    if untouched { Ok(()) } else { Err("a refused call wrote".into()) }
}

/// The trials on a device, by name.
pub fn trials(target: &'static Target, mut add: impl FnMut(String, Box<dyn FnOnce(&str) -> Outcome + Send>)) {
    for t in [BF16, F16, F32, F64] {
        add(format!("group_norm_{}", t.name), Box::new(move |name| property(target, name, t)));
    }
    for t in [F16, F32] {
        add(format!("long/group_norm_{}", t.name), Box::new(move |name| long(target, name, t)));
    }
    add("captured/group_norm".into(), Box::new(move |_| captured(target)));
    add("refused/group_norm".into(), Box::new(move |_| refused(target)));
}
