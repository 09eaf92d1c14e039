//! Reductions: the launcher against plain Rust, over any dims of any layout, with row lengths around every change of
//! method, NaN, ties and overflow. The kernels by name are compared with a plain model of Candle's order of additions.
//!
//! `cargo test --test suites -- FILTER` runs some of the tests. A failure names its case, and `CANDLE_ROCM_CASE=N` runs
//! only that one.

use crate::support::cases::{Rng, Shape, random_destination, random_dims, random_layout};
use crate::support::number::{BF16, F8, F16, F32, F64, TYPES, Type, U32};
use crate::support::property::{Operand, Outcome, each_case, layout, value};
use crate::support::sums::{butterflies, tree};
use crate::support::{Body, Guarded, Target, add_trial, last_error, open, succeeded};
use candle_rocm_sys::{Arg, Launch, Layout, Status, sys};
use libtest_mimic::Trial;
use std::ptr::{null, null_mut};
use sys::crk_reduce_op as Op;

type View = sys::crk_view_t;

const OPS: &[(Op, &str)] = &[
    (Op::Sum, "fast_sum"),
    (Op::Min, "fast_min"),
    (Op::Max, "fast_max"),
    (Op::Argmin, "fast_argmin"),
    (Op::Argmax, "fast_argmax"),
];

fn is_position(op: Op) -> bool {
    matches!(op, Op::Argmin | Op::Argmax)
}

fn is_largest(op: Op) -> bool {
    matches!(op, Op::Max | Op::Argmax)
}

// ---- values

/// The contents of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fill {
    /// Ordinary numbers. Their sums do not overflow on the way.
    Plain,
    /// Few different numbers.
    Ties,
    /// Numbers with NaN and infinities.
    Special,
    /// The largest numbers of the type, of both signs or of one.
    Great,
    /// Only NaN, or only the value that no element can beat.
    Hopeless,
}

const FILLS: &[Fill] = &[Fill::Plain, Fill::Plain, Fill::Ties, Fill::Special, Fill::Great, Fill::Hopeless];

fn element(rng: &mut Rng, t: Type, fill: Fill) -> u64 {
    let (least, greatest) = if t.is_float() { (0, 0) } else { t.range() };
    match fill {
        Fill::Plain if t.is_float() => t.round_bits(rng.unit() * 16.0 - 8.0),
        Fill::Plain => value(rng, t),
        Fill::Ties if t.is_float() => t.round_bits(rng.pick(&[-1.0, 0.0, -0.0, 2.0])),
        Fill::Ties => t.wrap(rng.pick(&[0, 1, 2])),
        Fill::Special if t.is_float() => {
            let specials = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0];
            if rng.one_in(20) { t.round_bits(rng.pick(&specials)) } else { t.round_bits(rng.unit() * 16.0 - 8.0) }
        }
        Fill::Special => t.wrap(rng.pick(&[least, greatest, 0])),
        // Thousands of these do not overflow in f32 or f64, in any order.
        Fill::Great if t == F16 || t == F8 => t.round_bits(rng.pick(&[65504.0, 60000.0, -65504.0])),
        Fill::Great if t.is_float() => t.round_bits(rng.pick(&[3e30, 1e30, -2e30])),
        Fill::Great => t.wrap(rng.pick(&[greatest, greatest - 1])),
        Fill::Hopeless if t.is_float() => {
            let hopeless = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
            t.round_bits(if rng.one_in(3) { rng.pick(&hopeless) } else { f64::NAN })
        }
        Fill::Hopeless => t.wrap(least),
    }
}

fn filled(rng: &mut Rng, t: Type, fill: Fill, count: usize) -> Vec<u8> {
    let mut data = vec![0; count * t.bytes];
    (0..count).for_each(|i| t.put(&mut data, i, element(rng, t, fill)));
    data
}

// ---- the reference

/// The sum of doubles, with the rounding errors added back, and the sum of their magnitudes.
fn exact_sum(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut sum, mut rest, mut magnitude) = (0.0f64, 0.0f64, 0.0f64);
    for x in values {
        let next = sum + x;
        let part = next - sum;
        if next.is_finite() {
            rest += (sum - (next - part)) + (x - part);
        }
        sum = next;
        magnitude += x.abs();
    }
    (if sum.is_finite() { sum + rest } else { sum }, magnitude)
}

/// Whether `got` can be the sum. The error may be n / 8 + 32 half units of the accumulator, relative to the sum of
/// magnitudes, plus rounding.
fn admits_sum(t: Type, row: &[u64], got: u64) -> bool {
    if !t.is_float() {
        return got == t.wrap(row.iter().map(|x| t.int(*x)).sum());
    }
    let (sum, magnitude) = exact_sum(row.iter().map(|x| t.float(*x)));
    if !magnitude.is_finite() {
        return t.is_nan(got) == sum.is_nan() && (sum.is_nan() || got == t.round_bits(sum));
    }
    let unit = if t == F64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
    let off = (row.len() as f64 / 8.0 + 32.0) * unit * magnitude;
    let (low, high) = (t.round(sum - off), t.round(sum + off));
    (low..=high).contains(&t.float(got))
}

/// Whether `challenger` beats `holder`. With `zeros`, -0 is less than +0.
fn wins(t: Type, op: Op, challenger: u64, holder: u64, zeros: bool) -> bool {
    if !t.is_float() {
        let (a, b) = (t.int(challenger), t.int(holder));
        return if is_largest(op) { a > b } else { a < b };
    }
    let (a, b) = (t.float(challenger), t.float(holder));
    let by_sign = zeros && a == 0.0 && b == 0.0;
    match (by_sign, is_largest(op)) {
        (true, true) => !a.is_sign_negative() && b.is_sign_negative(),
        (true, false) => a.is_sign_negative() && !b.is_sign_negative(),
        (false, true) => a > b,
        (false, false) => a < b,
    }
}

fn admits(t: Type, op: Op, row: &[u64], got: u64) -> Result<(), String> {
    let is_nan = |x: &u64| t.is_nan(*x);
    let numbers: Vec<usize> = (0..row.len()).filter(|i| !is_nan(&row[*i])).collect();
    if op == Op::Sum {
        let (sum, magnitude) = exact_sum(row.iter().map(|x| t.float(*x)));
        return if admits_sum(t, row, got) { Ok(()) } else { Err(format!("about {sum:e}, of {magnitude:e} in all")) };
    }
    let zeros = !is_position(op);
    let best = numbers.iter().copied().reduce(|best, i| if wins(t, op, row[i], row[best], zeros) { i } else { best });
    if is_position(op) {
        let expected = if is_nan(&row[0]) { 0 } else { best.unwrap_or(0) } as u64;
        return if got == expected { Ok(()) } else { Err(format!("{expected}")) };
    }
    if matches!(t, BF16 | F16) && numbers.len() < row.len() {
        return if t.is_nan(got) { Ok(()) } else { Err("NaN".into()) };
    }
    let loser = || t.round_bits(if is_largest(op) { f64::NEG_INFINITY } else { f64::INFINITY });
    let expected = best.map_or_else(loser, |i| row[i]);
    if got == expected { Ok(()) } else { Err(t.show(expected)) }
}

/// The positions of each output's elements, in row-major order of the reduced dims.
fn rows(shape: &Shape, reduced: &[usize]) -> Vec<Vec<usize>> {
    let (mut inner, mut outer): (Vec<usize>, Vec<usize>) = ((0..shape.dims.len()).collect(), Vec::new());
    inner.retain(|d| reduced.contains(d) || (outer.push(*d), false).1);
    let starts = shape.permuted(&outer).indices();
    let steps = Shape { offset: 0, ..shape.permuted(&inner) }.indices();
    starts.iter().map(|start| steps.iter().map(|step| start + step).collect()).collect()
}

// ---- the launcher

fn reduce(target: &Target, op: Op, src: &Operand, reduced: &[usize], dst: &Operand) -> Status {
    let (device, l) = (target.device.raw(), src.layout());
    // SAFETY: live arguments.
    unsafe {
        let (from, to) = (src.memory.view(), dst.memory.view());
        sys::crk_reduce(device, op, src.t.dtype, &l, from.into(), reduced.as_ptr(), reduced.len(), to)
    }
}

fn one(target: &Target, rng: &mut Rng, op: Op, t: Type, shape: Shape, reduced: &[usize], fill: Fill) -> Outcome {
    let data = filled(rng, t, fill, shape.reach());
    let src = Operand::new(target, rng, t, shape, data);
    let kept: Vec<usize> =
        (0..src.shape.dims.len()).filter(|d| !reduced.contains(d)).map(|d| src.shape.dims[d]).collect();
    let dst = Operand::destination(target, rng, if is_position(op) { U32 } else { t }, &kept);
    let context = || format!("{fill:?}, {:?} over dims {reduced:?}", src.shape);
    let status = reduce(target, op, &src, reduced, &dst);
    let outputs: usize = kept.iter().product();
    let per_output: usize = reduced.iter().map(|d| src.shape.dims[*d]).product();
    if outputs > 0 && per_output == 0 && op != Op::Sum {
        let refused = status == Status::InvalidArgument && last_error().contains("no elements");
        return if refused { Ok(()) } else { Err(format!("{}: {}", status.name(), context())) };
    }
    succeeded(status).map_err(|problem| format!("{problem}: {}", context()))?;
    let got = dst.memory.read().map_err(|problem| format!("{problem}: {}", context()))?;
    if outputs > 0 && per_output == 0 {
        return if got.iter().all(|b| *b == 0) { Ok(()) } else { Err("the sum of nothing is not 0".into()) };
    }
    for (o, places) in rows(&src.shape, reduced).iter().enumerate() {
        let row: Vec<u64> = places.iter().map(|i| t.get(&src.data, *i)).collect();
        let bits = dst.t.get(&got, o);
        admits(t, op, &row, bits)
            .map_err(|expected| format!("output {o}: got {}, expected {expected}; {}", dst.t.show(bits), context()))?;
    }
    src.unchanged()
}

const LENGTHS: &[usize] =
    &[0, 1, 2, 3, 4, 5, 8, 16, 31, 32, 33, 63, 65, 127, 255, 257, 511, 1023, 1024, 1025, 4099, 5003];

/// Rows of every length, single and in groups, and columns.
fn lengths(target: &Target, name: &str, op: Op, t: Type) -> Outcome {
    let outputs = [1, 3, 37];
    each_case(target, "reduce", name, LENGTHS.len() * outputs.len(), |rng, index| {
        let length = LENGTHS[index / outputs.len()];
        let outputs = if length > 1025 { index % 2 + 1 } else { outputs[index % outputs.len()] };
        let fill = rng.pick(FILLS);
        one(target, rng, op, t, Shape::contiguous(&[outputs, length]), &[1], fill)?;
        let columns = outputs * rng.pick(&[1, 1, 8]);
        one(target, rng, op, t, Shape::contiguous(&[length, columns]), &[0], fill)
    })
}

/// Any dims of any layout.
fn layouts(target: &Target, name: &str, op: Op, t: Type) -> Outcome {
    each_case(target, "reduce", name, 54, |rng, index| {
        let vector = 16 / t.bytes;
        let dims = random_dims(rng, index % 9, vector, 3000);
        let shape = random_layout(rng, &dims, vector);
        let mut reduced: Vec<usize> = (0..dims.len()).filter(|_| rng.one_in(2)).collect();
        match rng.below(6) {
            0 => reduced = (0..dims.len()).collect(),
            1 => reduced.clear(),
            _ => {}
        }
        reduced.reverse();
        let fill = rng.pick(FILLS);
        one(target, rng, op, t, shape, &reduced, fill)
    })
}

/// Many short rows of 1 to 32 whole packs, with and without gaps, so that threads take several rows.
fn short(target: &Target, name: &str, op: Op, t: Type) -> Outcome {
    let packs = [1usize, 2, 3, 4, 8, 13, 32];
    let units = target.device.info().map_or(4, |info| info.compute_units as usize).min(32);
    each_case(target, "reduce", name, packs.len(), |rng, index| {
        let (vector, lanes) = (16 / t.bytes, packs[index].next_power_of_two());
        let length = packs[index] * vector;
        let outputs = rng.pick(&[2, 4, 16]) * units * (256 / lanes) + rng.pick(&[0, 1, 77]);
        let mut shape = Shape::contiguous(&[outputs, length]);
        shape.strides[0] += rng.pick(&[0, vector]);
        let fill = rng.pick(FILLS);
        one(target, rng, op, t, shape, &[1], fill)
    })
}

/// Short rows without gaps that are not whole packs, or begin anywhere. A thread takes one row or several, or several
/// lanes share a row.
fn dense(target: &Target, name: &str, op: Op, t: Type) -> Outcome {
    let lengths = [1usize, 2, 3, 5, 7, 12, 31, 33, 63, 64, 127, 128, 200, 255, 1021];
    let lengths: Vec<usize> = lengths.into_iter().filter(|length| length * t.bytes <= 1024).collect();
    each_case(target, "reduce", name, lengths.len(), |rng, index| {
        let length = lengths[index];
        let of_a_block = 8192 / (length * t.bytes);
        let outputs = rng.pick(&[1, of_a_block, 2 * of_a_block]) + rng.pick(&[0, 1, 13]);
        let mut shape = Shape::contiguous(&[outputs, length]);
        shape.offset = rng.pick(&[0, 1, 3]);
        let fill = rng.pick(FILLS);
        one(target, rng, op, t, shape, &[1], fill)
    })
}

/// Few outputs of many elements, so that several blocks share an output. Runs are cut or distributed.
fn long(target: &Target, name: &str, op: Op, t: Type) -> Outcome {
    let shapes: &[(&[usize], &[usize])] = &[
        (&[131_072], &[0]),
        (&[2, 131_073], &[1]),
        (&[40_000, 2], &[0]),
        (&[2_000, 40], &[0]),
        (&[3, 2, 30_011], &[0, 2]),
        (&[300, 2, 129], &[0, 2]),
        (&[4_000, 3, 7], &[0, 2]),
    ];
    each_case(target, "reduce", name, shapes.len(), |rng, index| {
        let (dims, reduced) = shapes[index];
        let mut shape = Shape::contiguous(dims);
        shape.offset = rng.pick(&[0, 0, 1, 3]);
        let fill = if rng.one_in(3) { Fill::Ties } else { Fill::Plain };
        one(target, rng, op, t, shape, reduced, fill)
    })
}

// ---- by name

/// A sum that rounds to the type, as Candle's does.
fn add(t: Type, a: u64, b: u64) -> u64 {
    match t.is_float() {
        true => t.round_bits(t.float(a) + t.float(b)),
        false => t.wrap(t.int(a) + t.int(b)),
    }
}

fn add_f32(a: f32, b: f32) -> f32 {
    a + b
}

/// fast_sum of f32 and bf16. `start` is the index of the row's first element in an `aligned` tensor; None for a strided
/// tensor.
fn sum_packs(t: Type, row: &[u64], start: Option<usize>, aligned: bool, block: usize) -> u64 {
    let x: Vec<f32> = row.iter().map(|bits| t.float(*bits) as f32).collect();
    let vector = 16 / t.bytes;
    let mut chains = vec![0f32; block];
    let each = |chains: &mut Vec<f32>, begin: usize, end: usize| {
        (begin..end).for_each(|i| chains[(i - begin) % block] += x[i]);
    };
    match start {
        None => each(&mut chains, 0, x.len()),
        Some(start) => {
            let stop = start + x.len();
            let (first, last) = (start.div_ceil(vector), stop / vector);
            let head = (first * vector).min(stop);
            let tail = (last * vector).max(head);
            each(&mut chains, 0, head - start);
            if aligned {
                for pack in first..last {
                    let values = &x[pack * vector - start..][..vector];
                    let chain = &mut chains[(pack - first) % block];
                    match t == F32 {
                        true => *chain += ((values[0] + values[1]) + values[2]) + values[3],
                        false => values.iter().for_each(|v| *chain += v),
                    }
                }
            } else {
                each(&mut chains, head - start, tail - start);
            }
            each(&mut chains, tail - start, x.len());
        }
    }
    t.round_bits(butterflies(chains, 0.0, add_f32).into())
}

/// The result of Candle's kernel for a row, in a block of this many threads.
fn named(t: Type, op: Op, row: &[u64], start: Option<usize>, aligned: bool, block: usize) -> u64 {
    let chain = |thread: usize| row.iter().copied().enumerate().skip(thread).step_by(block);
    let zero = if t.is_float() { t.round_bits(0.0) } else { 0 };
    match op {
        Op::Sum if matches!(t, F32 | BF16) => sum_packs(t, row, start, aligned, block),
        Op::Sum if t == F8 => {
            let sums = (0..block).map(|i| chain(i).fold(0f32, |sum, (_, x)| sum + t.float(x) as f32)).collect();
            t.round_bits(tree(sums, add_f32).into())
        }
        Op::Sum => {
            let sums = (0..block).map(|i| chain(i).fold(zero, |sum, (_, x)| add(t, sum, x))).collect();
            tree(sums, |a, b| add(t, a, b))
        }
        _ => {
            let worst = match (t.is_float(), is_largest(op)) {
                (true, true) => t.round_bits(f64::NEG_INFINITY),
                (true, false) => t.round_bits(f64::INFINITY),
                (false, true) => t.wrap(t.range().0),
                (false, false) => t.wrap(t.range().1),
            };
            let take = |holder: (u64, u64), challenger: (u64, u64)| {
                if wins(t, op, challenger.0, holder.0, false) { challenger } else { holder }
            };
            let chains = (0..block).map(|thread| {
                let mut held: Option<(u64, u64)> = None;
                for (i, x) in chain(thread) {
                    held = Some(held.map_or((x, i as u64), |held| take(held, (x, i as u64))));
                }
                held.unwrap_or((worst, u32::MAX.into()))
            });
            tree(chains.collect(), take).1
        }
    }
}

/// The kernels by name with shapes of their own and Candle's geometry, also misaligned and strided.
fn by_name(target: &Target, name: &str, op: Op, root: &str, t: Type) -> Outcome {
    each_case(target, "reduce", name, 40, |rng, index| {
        let wide = [33, 50, 63, 64, 65, 200, 1000, 1023, 1025, 2048, 4097, 9001];
        let narrow = [1, 2, 3, 5, 16, 31, 32];
        let length = if index % 3 == 2 { rng.pick(&narrow) } else { rng.pick(&wide) };
        let outputs = rng.pick(&[1, 2, 5]);
        let mut shape = Shape::contiguous(&[outputs, length]);
        if index % 4 == 1 {
            shape.strides = if rng.one_in(2) { vec![1, outputs] } else { vec![length * 2, 2] };
        }
        let fill = rng.pick(&[Fill::Plain, Fill::Ties, Fill::Special]);
        let data = filled(rng, t, fill, shape.reach());
        let src = Operand::new(target, rng, t, shape, data);
        let out = if is_position(op) { U32 } else { t };
        let dst = Operand::destination(target, rng, out, &[outputs]);
        let info: Vec<u8> =
            src.shape.dims.iter().chain(&src.shape.strides).flat_map(|n| (*n as u64).to_le_bytes()).collect();
        let info = Guarded::new(&target.device, &info, 0).map_err(|error| error.to_string())?;
        let block = length.min(1024).next_power_of_two();
        let launch = Launch { grid: [outputs as u32, 1, 1], block: [block as u32, 1, 1], shared_bytes: 0 };
        let kernel = format!("{root}_{}", t.name);
        let function = target.device.function_named("reduce", &kernel).map_err(|error| error.to_string())?;
        let args = [
            Arg::bits((outputs * length) as u64, 8),
            Arg::bits(length as u64, 8),
            Arg::bits(2, 8),
            Arg::ptr(info.ptr()),
            Arg::ptr(src.memory.ptr()),
            Arg::ptr(dst.memory.ptr()),
        ];
        // SAFETY: these are Candle's arguments, and the buffers fit the shape.
        unsafe { function.launch(launch, &args) }.map_err(|error| error.to_string())?;
        let got = dst.memory.read()?;
        let packed = layout(&src.shape).is_contiguous().map_err(|error| error.to_string())?;
        for (o, places) in rows(&src.shape, &[1]).iter().enumerate() {
            let row: Vec<u64> = places.iter().map(|i| t.get(&src.data, *i)).collect();
            let bits = out.get(&got, o);
            let context = || format!("output {o} of {:?}, {fill:?}: got {}", src.shape, out.show(bits));
            if matches!(op, Op::Min | Op::Max) {
                admits(t, op, &row, bits).map_err(|expected| format!("{}, expected {expected}", context()))?;
                continue;
            }
            let start = packed.then_some(o * length);
            let expected = named(t, op, &row, start, src.memory.ptr() as usize % 16 == 0, block);
            if bits != expected && !(out.is_nan(bits) && out.is_nan(expected)) {
                return Err(format!("{}, expected {}", context(), out.show(expected)));
            }
        }
        src.unchanged()
    })
}

/// sum_T by name, with Candle's geometry. It adds to the numbers of dst, atomically. The terms are integers, and so few
/// of them are not 0 that all sums are exact, in any order.
fn sum_by_name(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "reduce", name, 60, |rng, index| {
        let vector = 16 / t.bytes;
        let dims = match index % 3 {
            0 => vec![rng.pick(&[1, 3]), rng.pick(LENGTHS)],
            _ => random_dims(rng, index / 3 % 9, vector, 9000),
        };
        let shape = random_destination(rng, &dims, vector);
        let reduced: Vec<usize> = (0..dims.len()).filter(|_| rng.one_in(2)).collect();
        let after = |d: usize| dims[d + 1..].iter().product::<usize>();
        let per_output: usize = reduced.iter().map(|d| dims[*d]).product();
        let number = |x: i32| if t.is_float() { t.round_bits(x.into()) } else { t.wrap(x.into()) };
        let mut data = vec![0; shape.reach() * t.bytes];
        for i in 0..shape.reach() {
            let x = if rng.below(per_output.max(1)) < 100 { rng.pick(&[-1, 1, 1]) } else { 0 };
            t.put(&mut data, i, number(x));
        }
        let src = Operand::new(target, rng, t, shape, data);
        let places = rows(&src.shape, &reduced);
        let mut before = vec![0; places.len() * t.bytes];
        (0..places.len()).for_each(|o| t.put(&mut before, o, number(o as i32 % 5)));
        let dst = Operand::new(target, rng, t, Shape::contiguous(&[places.len()]), before);
        let lengths = reduced.iter().map(|d| dims[*d]);
        let words = dims.iter().chain(&src.shape.strides).copied().chain(lengths);
        let words = words.chain(reduced.iter().map(|d| after(*d)).collect::<Vec<_>>());
        let info: Vec<u8> = words.flat_map(|n| (n as u64).to_le_bytes()).collect();
        let info = Guarded::new(&target.device, &info, 0).map_err(|error| error.to_string())?;
        let kernel = format!("sum_{}", t.name);
        let function = target.device.function_named("reduce", &kernel).map_err(|error| error.to_string())?;
        let numel = src.shape.numel();
        let args = [
            Arg::bits(numel as u64, 8),
            Arg::bits(dims.len() as u64, 8),
            Arg::bits(reduced.len() as u64, 8),
            Arg::ptr(info.ptr()),
            Arg::ptr(src.memory.ptr().wrapping_byte_add(src.shape.offset * t.bytes)),
            Arg::ptr(dst.memory.ptr()),
        ];
        // SAFETY: these are Candle's arguments, and the buffers fit the shape.
        unsafe { function.launch(Launch::for_num_elems(numel as u32), &args) }.map_err(|error| error.to_string())?;
        let got = dst.memory.read()?;
        for (o, row) in places.iter().enumerate() {
            let terms = row.iter().map(|i| t.get(&src.data, *i));
            let expected = terms.fold(number(o as i32 % 5), |sum, x| add(t, sum, x));
            let bits = t.get(&got, o);
            if bits != expected {
                let (got, expected) = (t.show(bits), t.show(expected));
                return Err(format!("output {o}: got {got}, expected {expected}; {:?} over {reduced:?}", src.shape));
            }
        }
        src.unchanged()
    })
}

// ---- graphs, scratch, bad input

/// A capture of reductions, replayed with other values. One of them takes two launches and scratch memory.
fn graph(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let n = 300_000;
    let text = |error: candle_rocm_sys::Error| error.to_string();
    let l = Layout::contiguous(&[n]).map_err(text)?;
    let (src, dst) = (device.upload(&vec![1f32; n]).map_err(text)?, device.upload(&[0f32; 2]).map_err(text)?);
    let at = device.upload(&[9u32]).map_err(text)?;
    let launch = || -> Outcome {
        device.reduce(Op::Sum, F32.dtype, &l, &src, &[0], &dst).map_err(text)?;
        device.reduce(Op::Argmax, F32.dtype, &l, &src, &[0], &at).map_err(text)
    };
    launch()?;
    let mut graph = null_mut();
    // SAFETY: live arguments; the graph is used before it is destroyed.
    unsafe {
        succeeded(sys::crk_graph_begin(device.raw()))?;
        launch()?;
        succeeded(sys::crk_graph_end(device.raw(), &mut graph))?;
        for (x, place) in [(2f32, 77usize), (0.5, 299_999)] {
            let mut values = vec![x; n];
            values[place] = x + 1.0;
            src.write(&values).map_err(text)?;
            succeeded(sys::crk_graph_launch(graph))?;
            let (sum, position) = (dst.download::<f32>().map_err(text)?[0], at.download::<u32>().map_err(text)?[0]);
            let expected = x * n as f32 + 1.0;
            if (sum - expected).abs() > expected * 1e-4 || position as usize != place {
                return Err(format!("replayed: sum {sum}, expected {expected}; position {position}, expected {place}"));
            }
        }
        sys::crk_graph_destroy(graph);
    }
    Ok(())
}

/// Scratch memory is given back.
fn scratch(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let text = |error: candle_rocm_sys::Error| error.to_string();
    let n = 200_000;
    let l = Layout::contiguous(&[n]).map_err(text)?;
    let (src, dst) = (device.upload(&vec![1f64; n]).map_err(text)?, device.upload(&[0f64]).map_err(text)?);
    let live = || device.memory_stats().map(|stats| stats.live_allocations).map_err(text);
    let before = live()?;
    for _ in 0..3 {
        device.reduce(Op::Sum, F64.dtype, &l, &src, &[0], &dst).map_err(text)?;
    }
    let sum = dst.download::<f64>().map_err(text)?[0];
    if sum != n as f64 || live()? != before {
        return Err(format!("sum {sum}; {before} allocations before, {} after", live()?));
    }
    Ok(())
}

fn bad_input(target: &Target) -> Outcome {
    let device = target.device.raw();
    let dims = [4usize, 6];
    let l = Layout::contiguous(&dims).map_err(|error| error.to_string())?;
    let src = Guarded::new(&target.device, &[0; 24 * 4], 0).map_err(|error| error.to_string())?;
    let dst = Guarded::new(&target.device, &[0xcd; 6 * 4], 0).map_err(|error| error.to_string())?;
    let (from, to) = (src.view(), dst.view());
    let null_view = |view: View| View { ptr: null_mut(), ..view };
    let short = |view: View| View { bytes: view.bytes - 1, ..view };
    let crooked = |view: View| View { ptr: view.ptr.wrapping_byte_add(1), ..view };
    let with = |change: fn(&mut Layout)| {
        let mut changed = l;
        change(&mut changed);
        changed
    };
    let deep = with(|l| l.rank = 9);
    let far = with(|l| l.offset = 1);
    let beyond = with(|l| l.strides[0] = usize::MAX);
    let huge = with(|l| (l.rank, l.dims) = (3, [0, usize::MAX, 2, 0, 0, 0, 0, 0]));
    let empty = with(|l| l.dims[0] = 0);
    let (sum, max, f32, no_op, no_dtype) = (Op::Sum, Op::Max, F32.dtype, Op(77), sys::crk_dtype(77));
    let argmin = Op::Argmin;
    let (invalid, outside) = (Status::InvalidArgument, Status::OutOfBounds);
    let refuse = |expected: Status, word: &str, call: &dyn Fn() -> Status| {
        let status = call();
        let message = last_error();
        let right = status == expected && message.contains(word) && message.contains("crk_reduce");
        if right { Ok(()) } else { Err(format!("{word}: {}: {message}", status.name())) }
    };
    let over = [0usize];
    // SAFETY: each wrong argument is refused before it is used.
    unsafe {
        let call = |device, op, dtype, layout: *const Layout, src: View, dims, count, dst| {
            sys::crk_reduce(device, op, dtype, layout, src.into(), dims, count, dst)
        };
        let dims = over.as_ptr();
        refuse(invalid, "self", &|| call(null_mut(), sum, f32, &l, from, dims, 1, to))?;
        refuse(invalid, "op 77", &|| call(device, no_op, f32, &l, from, dims, 1, to))?;
        refuse(invalid, "dtype 77", &|| call(device, sum, no_dtype, &l, from, dims, 1, to))?;
        refuse(invalid, "layout is NULL", &|| call(device, sum, f32, null(), from, dims, 1, to))?;
        refuse(invalid, "layout.rank", &|| call(device, sum, f32, &deep, from, dims, 1, to))?;
        refuse(invalid, "layout", &|| call(device, sum, f32, &beyond, from, dims, 1, to))?;
        refuse(invalid, "dims of layout", &|| call(device, sum, f32, &huge, from, dims, 1, to))?;
        refuse(outside, "src", &|| call(device, sum, f32, &far, from, dims, 1, to))?;
        refuse(outside, "src", &|| call(device, sum, f32, &l, short(from), dims, 1, to))?;
        refuse(invalid, "src.ptr", &|| call(device, sum, f32, &l, null_view(from), dims, 1, to))?;
        refuse(invalid, "src.ptr", &|| call(device, sum, f32, &l, crooked(from), dims, 1, to))?;
        refuse(invalid, "reduced_dims is NULL", &|| call(device, sum, f32, &l, from, null(), 1, to))?;
        refuse(invalid, "reduced_dims[0] is 2", &|| call(device, sum, f32, &l, from, [2].as_ptr(), 1, to))?;
        refuse(invalid, "reduced_dims[1] is 0", &|| call(device, sum, f32, &l, from, [0, 0].as_ptr(), 2, to))?;
        refuse(outside, "dst", &|| call(device, sum, f32, &l, from, dims, 1, short(to)))?;
        refuse(outside, "dst", &|| {
            call(device, argmin, F64.dtype, &with(|l| l.dims[0] = 1), from, dims, 1, short(to))
        })?;
        refuse(invalid, "dst.ptr", &|| call(device, sum, f32, &l, from, dims, 1, null_view(to)))?;
        refuse(invalid, "dst.ptr", &|| call(device, sum, f32, &l, from, dims, 1, crooked(to)))?;
        refuse(invalid, "overlaps", &|| call(device, sum, f32, &l, from, dims, 1, from))?;
        refuse(invalid, "no elements", &|| call(device, max, f32, &empty, from, dims, 1, to))?;
        refuse(outside, "dst", &|| call(device, sum, f32, &empty, from, dims, 1, short(to)))?;
        // Without outputs, the arguments are not checked.
        succeeded(call(device, max, f32, &empty, null_view(from), [1].as_ptr(), 1, null_view(to)))?;
        // Positions that do not fit into u32.
        let wide = Layout::strided(&[1 << 32], &[0], 0).map_err(|error| error.to_string())?;
        refuse(Status::Unsupported, "u32", &|| call(device, argmin, f32, &wide, from, dims, 1, to))?;
        let mut op = Op(0);
        let refused = sys::crk_reduce_op_from_root(c"fast_mean".as_ptr(), &mut op);
        if refused != invalid || !last_error().contains("fast_mean") {
            return Err(last_error());
        }
        for &(op, root) in OPS {
            let (name, mut found) = (std::ffi::CString::new(root).expect("a root"), Op(77));
            succeeded(sys::crk_reduce_op_from_root(name.as_ptr(), &mut found))?;
            if found != op {
                return Err(format!("{root} is {found:?}"));
            }
        }
    }
    if dst.read()?.iter().all(|b| *b == 0xcd) { Ok(()) } else { Err("dst was written".into()) }
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "reduce", target, name, body);
        for &(op, root) in OPS {
            for &t in TYPES {
                let name = |kind: &str| format!("{kind}/{root}_{}", t.name);
                add(name("lengths"), Box::new(move |target, name| lengths(target, name, op, t)));
                add(name("layouts"), Box::new(move |target, name| layouts(target, name, op, t)));
                add(name("short"), Box::new(move |target, name| short(target, name, op, t)));
                add(name("dense"), Box::new(move |target, name| dense(target, name, op, t)));
                add(name("long"), Box::new(move |target, name| long(target, name, op, t)));
                add(name("by_name"), Box::new(move |target, name| by_name(target, name, op, root, t)));
            }
        }
        for t in [BF16, F16, F32, F64, U32] {
            add(format!("by_name/sum_{}", t.name), Box::new(move |target, name| sum_by_name(target, name, t)));
        }
        add("graph".into(), Box::new(move |target, _| graph(target)));
        add("scratch".into(), Box::new(move |target, _| scratch(target)));
        add("bad_input".into(), Box::new(move |target, _| bad_input(target)));
    }
    trials
}
