//! Tests the bounds that golden.rs compares with (support/bounds.rs), on other launches than golden's: 100 seeds of
//! random scalars, magnitudes from 1e-30 to 1e30 and rows of many lengths. They go by Candle's names and, for
//! element-wise ops, also by launcher.
//!
//! A trial is an op and a dtype on a device: `bounds/cpu:32/uelu_f32`. Each case also proves that it could have failed:
//! results that are off by a few times the bound are refused, and so are the results of slightly different inputs.

use crate::support::bounds::{self, FUNCTIONS};
use crate::support::cases::{Rng, Shape};
use crate::support::number::{BF16, F8, F16, F32, F64, Type};
use crate::support::property::{Operand, Outcome, each_case};
use crate::support::quantized::Given;
use crate::support::reference::Expected;
use crate::support::rows::Op;
use crate::support::{Guarded, Target, add_trial, succeeded};
use candle_rocm_sys::{Arg, Launch, sys};
use libtest_mimic::Trial;

const SEEDS: usize = 100;

/// A number of either sign with a magnitude between two powers of 10.
fn magnitude(rng: &mut Rng, least: f64, greatest: f64) -> f64 {
    let size = 10f64.powf(least + (greatest - least) * rng.unit());
    if rng.one_in(2) { size } else { -size }
}

/// A number of any magnitude, more often where the functions are not constant; sometimes a special value.
fn any_value(rng: &mut Rng) -> f64 {
    match rng.below(16) {
        0 => rng.pick(&[0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]),
        1..5 => magnitude(rng, -30.0, 30.0),
        5..8 => magnitude(rng, -8.0, 0.0),
        8..11 => magnitude(rng, -1.0, 0.5),
        _ => rng.unit() * 24.0 - 16.0,
    }
}

/// Checks `got`, and checks that no element would pass with an error of a few times the bound. `scale` is the value
/// that the errors of the op's steps are relative to.
fn check(t: Type, expected: &[Expected], got: &[u8], epsilon: f64, scale: impl Fn(usize, f64) -> f64) -> Outcome {
    if got.len() != expected.len() * t.bytes {
        return Err(format!("{} bytes for {} elements", got.len(), expected.len()));
    }
    let several = if t.bytes < 4 { 8.0 } else { 16.0 };
    let smallest = t.float(1);
    for (i, expected) in expected.iter().enumerate() {
        let bits = t.get(got, i);
        if !expected.admits(t, bits) {
            return Err(format!("element {i}: got {}, expected {}", t.show(bits), expected.show(t)));
        }
        let value = t.float(expected.bits);
        let off = several * (epsilon * scale(i, value) + smallest);
        let spoilt = value + off.copysign(value);
        // The largest numbers cannot be spoilt upwards; beyond them are infinity and, for f8, the largest number
        // itself.
        let representable = t.round(2.0 * spoilt).abs() > spoilt.abs() && t.round(2.0 * spoilt).is_finite();
        if representable && !expected.anything && expected.admits(t, t.round_bits(spoilt)) {
            return Err(format!("element {i}: {spoilt:e} is let pass where {} is expected", expected.show(t)));
        }
    }
    Ok(())
}

fn epsilon(t: Type) -> f64 {
    t.float(t.step(t.round_bits(1.0), 1)) - 1.0
}

// ---- element-wise ----

/// A slightly different number: rounded to a narrower type; for half types the next number, for f8e4m3 the third.
fn a_little_off(t: Type, bits: u64) -> u64 {
    match t {
        _ if t == F64 => F32.round(F64.float(bits)).to_bits(),
        _ if t == F32 => F32.round_bits(BF16.round(F32.float(bits))),
        _ => t.step(bits, if t == F8 { 3 } else { 1 }),
    }
}

fn unary(target: &Target, name: &str, root: &'static str, t: Type) -> Outcome {
    let op = sys::crk_unary_op::from_root(root).expect("an op of the header");
    each_case(target, "bounds", name, SEEDS, |rng, _| {
        let mut shape = Shape::contiguous(&[1 + rng.below(3), 33 + rng.below(30)]);
        let strided = rng.one_in(3);
        if strided {
            shape = shape.permuted(&[1, 0]);
        }
        let mut data = vec![0; shape.reach() * t.bytes];
        (0..shape.reach()).for_each(|i| t.put(&mut data, i, t.round_bits(any_value(rng))));
        let param = match root {
            "upowf" if rng.one_in(2) => (rng.unit() * 16.0 - 8.0).round(),
            _ => t.round(rng.unit() * 16.0 - 8.0),
        };
        let has_param = matches!(root, "uelu" | "upowf");
        let (numel, rank) = (shape.numel(), shape.dims.len());
        let info: Vec<u8> = shape.dims.iter().chain(&shape.strides).flat_map(|n| (*n as u64).to_le_bytes()).collect();
        let src = Operand::new(target, rng, t, shape.clone(), data);

        let expected_of = |src: &[u8]| {
            let mut given = vec![Given::Scalar(numel as u64), Given::Scalar(rank as u64)];
            given.push(if strided { Given::Bytes(&info) } else { Given::Scalar(0) });
            given.extend(has_param.then(|| Given::Scalar(t.round_bits(param))));
            given.extend([Given::Bytes(src), Given::Scalar(0)]);
            bounds::expected(root, t, &given).expect("a launch").expect("a function")
        };
        let expected = expected_of(&src.data);
        let elements = src.elements();
        let scale = |i: usize, value: f64| {
            let x = t.float(elements[i]).abs();
            match root {
                "uelu" => value.abs().max(param.abs()),
                "ugelu" => x,
                // Where normcdf is subnormal, the error is x times the smallest number.
                "ugelu_erf" => value.abs() + x * t.float(1) / epsilon(t),
                _ => value.abs(),
            }
        };
        let checked = |got: &[u8]| check(t, &expected, got, epsilon(t), scale);

        let places = Guarded::new(&target.device, &info, 0).map_err(|error| error.to_string())?;
        let dst = Operand::destination(target, rng, t, &shape.dims);
        let info_ptr = if strided { places.ptr().cast_const() } else { std::ptr::null() };
        let mut args = vec![numel.into(), rank.into(), Arg::ptr(info_ptr)];
        args.extend(has_param.then(|| Arg::bits(t.round_bits(param), t.bytes as u32)));
        args.extend([Arg::ptr(src.memory.ptr()), Arg::ptr(dst.memory.ptr())]);
        let function = target.device.function_named("unary", &format!("{root}_{}", t.name));
        let function = function.map_err(|error| error.to_string())?;
        // SAFETY: Candle's arguments, in buffers as long as the shape.
        unsafe { function.launch(Launch::for_num_elems(numel as u32), &args) }.map_err(|error| error.to_string())?;
        let problem = |problem: String| format!("parameter {param}: {problem}");
        checked(&dst.memory.read()?).map_err(problem)?;

        let dst = Operand::destination(target, rng, t, &shape.dims);
        let (device, layout, from, to) = (target.device.raw(), src.layout(), src.memory.view(), dst.memory.view());
        // SAFETY: live arguments.
        succeeded(unsafe {
            match has_param {
                true => sys::crk_unary_param(device, op, t.dtype, &layout, from.into(), to, param),
                false => sys::crk_unary(device, op, t.dtype, &layout, from.into(), to),
            }
        })?;
        checked(&dst.memory.read()?).map_err(|text| problem(format!("by launcher: {text}")))?;

        let mut others = src.data.clone();
        (0..src.shape.reach()).for_each(|i| t.put(&mut others, i, a_little_off(t, t.get(&src.data, i))));
        let others = expected_of(&others);
        // Everything to the power 0 is 1.
        let constant = root == "upowf" && param == 0.0;
        if !constant && expected.iter().zip(&others).all(|(expected, other)| expected.admits(t, other.bits)) {
            return Err(problem("the results of inputs that are a little off are let pass".into()));
        }
        Ok(())
    })
}

// ---- rows ----

const COLUMNS: &[usize] = &[1, 2, 3, 31, 32, 33, 40, 65, 70, 128, 500, 1000, 1023, 1024, 1025, 1500, 1500, 2049];

fn row_of(t: Type, values: impl Iterator<Item = f64>) -> Vec<u8> {
    values.flat_map(|v| t.round_bits(v).to_le_bytes()[..t.bytes].to_vec()).collect()
}

fn given_of(row: &Option<Operand>) -> Given<'_> {
    row.as_ref().map_or(Given::Scalar(0), |row| Given::Bytes(&row.data))
}

fn rows(target: &Target, name: &str, op: Op, root: &'static str, t: Type) -> Outcome {
    each_case(target, "bounds", name, SEEDS, |rng, _| {
        let (rows, columns) = (1 + rng.below(2), rng.pick(COLUMNS));
        // In half of the cases the sums matter. In the others squares may be infinite or vanish beside eps.
        let ordinary = rng.one_in(2);
        let (least, greatest) = match (ordinary, t == F16) {
            (true, _) => (-2.0, 1.5),
            (_, true) => (-7.0, 4.8),
            _ => (-30.0, 30.0),
        };
        let size = magnitude(rng, least, greatest).abs();
        let shift = rng.pick(&[0.0, 0.0, 1.0, 30.0]);
        let eps = magnitude(rng, -12.0, -3.0).abs() as f32;
        let data = row_of(t, (0..rows * columns).map(|_| size * (rng.unit() * 2.0 - 1.0 + shift)));
        let parameter = |rng: &mut Rng| {
            let size = if ordinary { 8.0 } else { magnitude(rng, -6.0, 3.0).abs() };
            let row = row_of(t, (0..columns).map(|_| size * (rng.unit() * 2.0 - 1.0)));
            (!rng.one_in(4)).then(|| Operand::new(target, rng, t, Shape::contiguous(&[columns]), row))
        };
        let alpha = (op != Op::Softmax).then(|| parameter(rng)).flatten();
        let beta = (op == Op::LayerNorm).then(|| parameter(rng)).flatten();
        let threads: u32 = if op == Op::Softmax || columns < 1024 { 32 } else { 1024 };

        let expected = |src: &[u8]| {
            let mut given = vec![Given::Bytes(src), Given::Scalar(0)];
            given.extend((op != Op::Softmax).then(|| given_of(&alpha)));
            given.extend((op == Op::LayerNorm).then(|| given_of(&beta)));
            given.extend([columns as u64, threads.into(), eps.to_bits().into()].map(Given::Scalar));
            bounds::expected(root, t, &given).expect("a launch").expect("a function")
        };

        let src = Operand::new(target, rng, t, Shape::contiguous(&[rows, columns]), data);
        let dst = Operand::destination(target, rng, t, &[rows, columns]);
        let pointer =
            |row: &Option<Operand>| Arg::ptr(row.as_ref().map_or(std::ptr::null_mut(), |row| row.memory.ptr()));
        let mut args = vec![Arg::ptr(src.memory.ptr()), Arg::ptr(dst.memory.ptr())];
        args.extend((op != Op::Softmax).then(|| pointer(&alpha)));
        args.extend((op == Op::LayerNorm).then(|| pointer(&beta)));
        args.push(Arg::bits(columns as u64, 4));
        if op != Op::Softmax {
            args.extend([Arg::bits(threads.into(), 4), Arg::bits(eps.to_bits().into(), 4)]);
        }
        let block = if op == Op::Softmax { [1, threads, 1] } else { [threads, 1, 1] };
        let function = target.device.function_named("reduce", &format!("{root}_{}", t.name));
        let function = function.map_err(|error| error.to_string())?;
        // SAFETY: Candle's arguments, in buffers of all rows.
        unsafe { function.launch(Launch { grid: [rows as u32, 1, 1], block, shared_bytes: 0 }, &args) }
            .map_err(|error| error.to_string())?;

        let problem = |problem: String| format!("{rows} rows of {columns}, magnitude {size:e}, eps {eps:e}: {problem}");
        let right = expected(&src.data);
        // The norms compute in f32.
        let epsilon = if t == F64 && op != Op::Softmax { epsilon(F32) } else { epsilon(t) };
        let beta_of = |i: usize| beta.as_ref().map_or(0.0, |row| t.float(t.get(&row.data, i % columns)));
        let scale = |i: usize, value: f64| (value - beta_of(i)).abs() + beta_of(i).abs();
        check(t, &right, &dst.memory.read()?, epsilon, scale).map_err(problem)?;

        // The element left out of the sums is the largest term of the first row.
        let term = |i: &usize| {
            let x = t.float(t.get(&src.data, *i));
            if op == Op::Softmax { x } else { x.abs() }
        };
        let greatest = (0..columns).max_by(|a, b| term(a).total_cmp(&term(b))).expect("a column");
        let mut without = src.data[..columns * t.bytes].to_vec();
        t.put(&mut without, greatest, t.round_bits(if op == Op::Softmax { f64::NEG_INFINITY } else { 0.0 }));
        let wrong = expected(&without);
        let refused = |i: usize| i != greatest && !right[i].admits(t, wrong[i].bits);
        // Rows of two elements are normalised to constants. In long rows a narrow type may not show one missing
        // element.
        let plain = ordinary && columns > 2 && (t.bytes >= 4 || columns <= 100);
        if plain && !(0..columns).any(refused) {
            return Err(problem("the results of a row with one element left out are let pass".into()));
        }
        Ok(())
    })
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        for &root in FUNCTIONS {
            for t in [BF16, F16, F32, F64, F8] {
                let body = move |target, name: &str| unary(target, name, root, t);
                add_trial(&mut trials, "bounds", target, format!("{root}_{}", t.name), Box::new(body));
            }
        }
        for (op, root) in Op::ALL {
            for t in [BF16, F16, F32, F64] {
                let body = move |target, name: &str| rows(target, name, op, root, t);
                add_trial(&mut trials, "bounds", target, format!("{root}_{}", t.name), Box::new(body));
            }
        }
    }
    trials
}
