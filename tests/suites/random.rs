//! The launchers of random numbers, against plain Rust with the same formulas. The results have the same bits in every
//! dtype, on every device and wave width, and in every geometry. Other tests compare Philox with its authors' known
//! answers and the reference's functions with f64. They check moments and distributions of a million numbers, capture
//! and replay, and bad arguments.
//!
//! A trial is a distribution and a dtype on a device: `random/cpu:32/normal_f16`.

use crate::support::cases::Rng;
use crate::support::number::{BF16, F8, F16, F32, F64, I64, Type};
use crate::support::property::{Operand, Outcome, each_case};
use crate::support::{Body, Guarded, Target, add_trial, last_error, open, succeeded};
use candle_rocm_sys::{Arg, Buffer, Device, Launch, Status, sys};
use libtest_mimic::{Failed, Trial};
use std::ptr::null_mut;

const FLOATS: [Type; 4] = [BF16, F16, F32, F64];
const STATE_BYTES: usize = sys::CRK_RANDOM_STATE_BYTES as usize;

// ---- the reference

/// Ten rounds of Philox 4x32 (Salmon et al., 2011).
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let (mut x, mut key) = (counter, key);
    for _ in 0..10 {
        let a = u64::from(x[0]) * 0xd251_1f53;
        let b = u64::from(x[2]) * 0xcd9e_8d57;
        x = [(b >> 32) as u32 ^ x[1] ^ key[0], b as u32, (a >> 32) as u32 ^ x[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    x
}

/// The polynomial with these coefficients, constant first. Each step rounds a product and then a sum.
macro_rules! polynomial {
    ($x:expr, $($coefficient:expr),+) => {
        [$($coefficient),+].into_iter().rev().reduce(|sum, c| c + $x * sum).expect("a coefficient")
    };
}

/// log(v / 2^32).
fn log32(v: u32) -> f32 {
    let word = (v as f32).to_bits();
    let k = (word.wrapping_sub(0x3f35_04f3) as i32) >> 23;
    let m = f32::from_bits(word - ((k as u32) << 23));
    let d = if k == 32 { v as i32 as f32 / 4_294_967_296.0 } else { m - 1.0 };
    let s = d / (2.0 + d);
    let (z, twice) = (s * s, s + s);
    let log = twice + twice * (z * polynomial!(z, 1f32 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0));
    let exponent = (k - 32) as f32;
    // log(2) in two parts: 0x1.62e4p-1 and 0x1.7f7d1cp-20.
    exponent * f32::from_bits(0x3f31_7200) + (exponent * f32::from_bits(0x35bf_be8e) + log)
}

/// log(v / 2^53).
fn log64(v: u64) -> f64 {
    let word = (v as f64).to_bits();
    let k = (word.wrapping_sub(0x3fe6_a09e_667f_3bcd) as i64) >> 52;
    let d = f64::from_bits(word - ((k as u64) << 52)) - 1.0;
    let s = d / (2.0 + d);
    let (z, twice) = (s * s, s + s);
    let series = polynomial!(
        z,
        1f64 / 3.0,
        1.0 / 5.0,
        1.0 / 7.0,
        1.0 / 9.0,
        1.0 / 11.0,
        1.0 / 13.0,
        1.0 / 15.0,
        1.0 / 17.0,
        1.0 / 19.0,
        1.0 / 21.0
    );
    let log = twice + twice * (z * series);
    let exponent = (k - 53) as f64;
    // 0x1.62e42feep-1 and 0x1.a39ef35793c76p-33.
    exponent * f64::from_bits(0x3fe6_2e42_fee0_0000) + (exponent * f64::from_bits(0x3dea_39ef_3579_3c76) + log)
}

/// Cosine and sine of an angle within an eighth of a turn, rotated by quarter turns.
macro_rules! turned {
    ($cosine:expr, $sine:expr, $quarters:expr) => {
        match $quarters {
            0 => ($cosine, $sine),
            1 => (-$sine, $cosine),
            2 => (-$cosine, -$sine),
            _ => ($sine, -$cosine),
        }
    };
}

/// Cosine and sine of v / 2^32 turns.
fn direction32(v: u32) -> (f32, f32) {
    let quarters = v.wrapping_add(1 << 29) >> 30;
    let left = v.wrapping_sub(quarters << 30) as i32;
    // pi / 2 divided by a power of 2; the division does not round.
    let x = left as f32 * (std::f32::consts::FRAC_PI_2 / 1_073_741_824.0);
    let z = x * x;
    let sine = x + x * (z * polynomial!(z, -1f32 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0));
    let cosine = 1.0 + z * polynomial!(z, -0.5f32, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0, -1.0 / 3_628_800.0);
    turned!(cosine, sine, quarters)
}

/// Cosine and sine of v / 2^64 turns. The lowest 8 bits do not count.
fn direction64(v: u64) -> (f64, f64) {
    let quarters = v.wrapping_add(1 << 61) >> 62;
    let left = v.wrapping_sub(quarters << 62) as i64 >> 8;
    let x = left as f64 * (std::f64::consts::FRAC_PI_2 / (1u64 << 54) as f64);
    let z = x * x;
    let sine = x + x
        * (z * polynomial!(
            z,
            -1f64 / 6.0,
            1.0 / 120.0,
            -1.0 / 5040.0,
            1.0 / 362_880.0,
            -1.0 / 39_916_800.0,
            1.0 / 6_227_020_800.0,
            -1.0 / 1_307_674_368_000.0,
            1.0 / 355_687_428_096_000.0
        ));
    let cosine = 1.0
        + z * polynomial!(
            z,
            -0.5f64,
            1.0 / 24.0,
            -1.0 / 720.0,
            1.0 / 40_320.0,
            -1.0 / 3_628_800.0,
            1.0 / 479_001_600.0,
            -1.0 / 87_178_291_200.0,
            1.0 / 20_922_789_888_000.0
        );
    turned!(cosine, sine, quarters)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Uniform,
    Normal,
}
const KINDS: [(Kind, &str); 2] = [(Kind::Uniform, "uniform"), (Kind::Normal, "normal")];

/// A draw. `a` and `b` are lo and hi, or mean and std.
#[derive(Debug, Clone, Copy)]
struct Draw {
    kind: Kind,
    t: Type,
    numel: usize,
    a: f64,
    b: f64,
}

/// A generator in the same state as the device's.
#[derive(Debug, Clone)]
struct Generator {
    seed: u64,
    steps: u64,
}

/// The largest number of a type below that of `bits`.
fn below(t: Type, bits: u64) -> u64 {
    let sign = 1 << (t.bits() - 1);
    if bits & !sign == 0 {
        sign | 1
    } else if bits & sign != 0 {
        bits + 1
    } else {
        bits - 1
    }
}

/// The first number of an interval, its width, and its last number, in the dtype's computing type.
fn interval(t: Type, lo: f64, hi: f64) -> (f64, f64, f64) {
    let (begin, end) = (t.round(lo), t.round(hi));
    let width = if t == F64 { end - begin } else { f64::from(end as f32 - begin as f32) };
    let last = if begin < end { t.float(below(t, t.round_bits(hi))) } else { begin };
    (begin, width, last)
}

impl Generator {
    fn words(&mut self) -> [u32; 4] {
        let step = self.steps;
        self.steps += 1;
        philox([step as u32, (step >> 32) as u32, 0, 0], [self.seed as u32, (self.seed >> 32) as u32])
    }

    /// The numbers of one step.
    fn step(&mut self, draw: &Draw) -> Vec<f64> {
        let w = self.words();
        let wide = |i: usize| u64::from(w[i]) | u64::from(w[i + 1]) << 32;
        let (a, b) = (draw.a, draw.b);
        match (draw.kind, draw.t == F64) {
            (Kind::Uniform, true) => {
                let (lo, width, last) = interval(F64, a, b);
                let unit = |i: usize| (wide(2 * i) >> 11) as f64 / (1u64 << 53) as f64;
                (0..2).map(|i| unit(i).mul_add(width, lo)).map(|x| if x < last { x } else { last }).collect()
            }
            (Kind::Uniform, false) => {
                let (lo, width, last) = interval(draw.t, a, b);
                let (lo, width, last) = (lo as f32, width as f32, last as f32);
                let unit = |i: usize| (w[i] >> 8) as f32 / 16_777_216.0;
                let numbers = (0..4).map(|i| unit(i).mul_add(width, lo));
                numbers.map(|x| if x < last { x } else { last }.into()).collect()
            }
            (Kind::Normal, true) => {
                let radius = (log64(wide(0) >> 11 | 1) * -2.0).sqrt();
                let (cosine, sine) = direction64(wide(2));
                vec![(cosine * radius).mul_add(b, a), (sine * radius).mul_add(b, a)]
            }
            (Kind::Normal, false) => {
                let pair = |i: usize| {
                    let radius = (log32(w[2 * i] | 1) * -2.0).sqrt();
                    let (cosine, sine) = direction32(w[2 * i + 1]);
                    [cosine, sine].map(|x| f64::from((x * radius).mul_add(b as f32, a as f32)))
                };
                [pair(0), pair(1)].concat()
            }
        }
    }

    /// The bits of all numbers of a draw.
    fn draw(&mut self, draw: &Draw) -> Vec<u64> {
        let mut bits = Vec::with_capacity(draw.numel + 3);
        while bits.len() < draw.numel {
            bits.extend(self.step(draw).into_iter().map(|x| draw.t.round_bits(x)));
        }
        bits.truncate(draw.numel);
        bits
    }

    /// The expected state on the device.
    fn state(&self) -> Vec<u8> {
        [self.seed, self.steps, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

// ---- shared by the trials

fn call(device: sys::crk_device_t, draw: &Draw, dst: sys::crk_view_t, state: sys::crk_view_t) -> Status {
    // SAFETY: the launcher refuses arguments that are not live.
    unsafe {
        match draw.kind {
            Kind::Uniform => sys::crk_random_uniform(device, draw.t.dtype, dst, draw.numel, draw.a, draw.b, state),
            Kind::Normal => sys::crk_random_normal(device, draw.t.dtype, dst, draw.numel, draw.a, draw.b, state),
        }
    }
}

/// A generator's state with guard bytes around it, and the generator in plain Rust.
fn begin(device: &Device, seed: u64) -> Result<(Guarded, Generator), String> {
    let state = Guarded::new(device, &[0xcd; STATE_BYTES], 8).map_err(|error| error.to_string())?;
    // SAFETY: a live handle and its memory.
    succeeded(unsafe { sys::crk_random_seed(device.raw(), state.view(), seed) })?;
    Ok((state, Generator { seed, steps: 0 }))
}

fn compare(t: Type, got: &[u8], expected: &[u64]) -> Outcome {
    for (index, expected) in expected.iter().enumerate() {
        let bits = t.get(got, index);
        if bits != *expected {
            return Err(format!("element {index}: got {}, expected {}", t.show(bits), t.show(*expected)));
        }
    }
    Ok(())
}

/// The numbers of a draw, on the device.
fn numbers(device: &Device, draw: &Draw, state: &Buffer) -> Result<Vec<f64>, String> {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let dst = device.alloc(draw.numel * draw.t.bytes).map_err(error)?;
    succeeded(call(device.raw(), draw, dst.raw_view(), state.raw_view()))?;
    let bytes = dst.download::<u8>().map_err(error)?;
    Ok((0..draw.numel).map(|i| draw.t.float(draw.t.get(&bytes, i))).collect())
}

const SIZES: [usize; 24] =
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1021, 1025, 2048, 4099, 20_001];

fn random_draw(rng: &mut Rng, kind: Kind, t: Type, numel: usize) -> Draw {
    let (x, y) = (rng.unit() * 16.0 - 8.0, rng.unit() * 8.0);
    let (a, b) = match kind {
        Kind::Uniform => rng.pick(&[(0.0, 1.0), (-1.0, 1.0), (1.0, 2.0), (-3e4, 3e4), (0.0, 1e-7), (x, x + y), (x, x)]),
        Kind::Normal => rng.pick(&[(0.0, 1.0), (x, y), (x, -y), (0.0, 1e-6), (x, 0.0), (1e4, 1e4)]),
    };
    Draw { kind, t, numel, a, b }
}

// ---- the trials

/// The first vectors of Random123's file kat_vectors for philox4x32-10. The device computes the first of them too.
fn known_answers(target: &Target) -> Outcome {
    let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
    for (counter, key, answer) in [
        ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        ([!0; 4], [!0; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
        (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
    ] {
        let got = philox(counter, key);
        if got != answer {
            return Err(format!("{counter:x?}, {key:x?}: {got:x?}"));
        }
    }
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let (state, dst) = (target.device.random_state(0).map_err(error)?, target.device.alloc(16).map_err(error)?);
    target.device.random_uniform(F32.dtype, &dst, 4, 0.0, 16_777_216.0, &state).map_err(error)?;
    let upper = [0x66_27e8, 0xe1_69c5, 0xbc_57ac, 0x9b_00db].map(|word: u32| word as f32);
    let got = dst.download::<f32>().map_err(error)?;
    if got == upper { Ok(()) } else { Err(format!("got {got:?}, expected {upper:?}")) }
}

/// Draws of every size, one after the other from one generator. Sometimes a draw of another dtype and distribution
/// comes between.
fn property(target: &Target, name: &str, kind: Kind, t: Type) -> Outcome {
    each_case(target, "random", name, 2 * SIZES.len(), |rng, index| {
        let (state, mut generator) = begin(&target.device, rng.next())?;
        for numel in [SIZES[index % SIZES.len()], rng.pick(&SIZES[..16]), rng.pick(&SIZES[..20])] {
            let mut draw = random_draw(rng, kind, t, numel);
            if rng.one_in(4) {
                let (kind, t) = (rng.pick(&KINDS).0, rng.pick(&FLOATS));
                draw = random_draw(rng, kind, t, numel);
            }
            let dst = Operand::destination(target, rng, draw.t, &[numel]);
            succeeded(call(target.device.raw(), &draw, dst.memory.view(), state.view()))
                .map_err(|problem| format!("{draw:?}: {problem}"))?;
            let got = dst.memory.read().map_err(|problem| format!("{draw:?}: {problem}"))?;
            let before = generator.clone();
            compare(draw.t, &got, &generator.draw(&draw))
                .map_err(|problem| format!("{draw:?} of {before:?}: {problem}"))?;
        }
        if state.read()? == generator.state() { Ok(()) } else { Err(format!("the state is not {generator:?}")) }
    })
}

/// More numbers than the grid has threads, or few blocks. The lower half of the counter overflows.
fn geometry(target: &Target, kind: Kind, t: Type) -> Outcome {
    const THREADS: u32 = 256; // per block, as the launchers use
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let generator = Generator { seed: 0x0123_4567_89ab_cdef, steps: 0xffff_ff80 };
    let draw = Draw { kind, t, numel: 5003, a: -1.5, b: 2.75 };
    let function = target.device.function_named("random", &format!("random_{}_{}", KINDS[kind as usize].1, t.name));
    let function = function.map_err(error)?;
    let scalars = match kind {
        Kind::Uniform => {
            let (lo, width, last) = interval(t, draw.a, draw.b);
            vec![lo, width, last]
        }
        Kind::Normal => vec![draw.a, draw.b],
    };
    for (blocks, misalignment) in [(1, 0), (3, 0), (2, t.bytes), (40, 0)] {
        let state = Guarded::new(&target.device, &generator.state(), 0).map_err(error)?;
        let dst = Guarded::new(&target.device, &vec![0; draw.numel * t.bytes], misalignment).map_err(error)?;
        let mut args: Vec<Arg<'_>> = vec![draw.numel.into()];
        args.extend(scalars.iter().map(|x| if t == F64 { Arg::from(*x) } else { Arg::from(*x as f32) }));
        args.extend([Arg::ptr(dst.ptr()), Arg::ptr(state.ptr()), (blocks * THREADS).into()]);
        let launch = Launch { grid: [blocks, 1, 1], block: [THREADS, 1, 1], shared_bytes: 0 };
        // SAFETY: the kernel's arguments; dst has room for all numbers.
        unsafe { function.launch(launch, &args) }.map_err(error)?;
        let mut twin = generator.clone();
        let what = |problem| format!("{blocks} blocks: {problem}");
        compare(t, &dst.read().map_err(what)?, &twin.draw(&draw)).map_err(what)?;
        if state.read()? != twin.state() {
            return Err(what(format!("the state is not {twin:?}")));
        }
    }
    Ok(())
}

fn many(target: &Target, kind: Kind, t: Type) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let draw = Draw { kind, t, numel: 1_200_007, a: 1.0, b: 3.0 };
    let (state, mut generator) = begin(&target.device, 42)?;
    let dst = target.device.alloc(draw.numel * t.bytes).map_err(error)?;
    succeeded(call(target.device.raw(), &draw, dst.raw_view(), state.view()))?;
    compare(t, &dst.download::<u8>().map_err(error)?, &generator.draw(&draw))?;
    if state.read()? == generator.state() { Ok(()) } else { Err(format!("the state is not {generator:?}")) }
}

/// A draw of n and then of m gives the same numbers as a draw of n + m, if n is a whole number of steps.
fn continued(target: &Target, kind: Kind, t: Type) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let draw = |numel| Draw { kind, t, numel, a: 0.0, b: 1.0 };
    for (n, m) in [(4, 4), (8, 3), (100, 1), (256, 1000)] {
        let state = target.device.random_state(7).map_err(error)?;
        let mut parts = numbers(&target.device, &draw(n), &state)?;
        parts.extend(numbers(&target.device, &draw(m), &state)?);
        target.device.random_seed(&state, 7).map_err(error)?;
        if numbers(&target.device, &draw(n + m), &state)? != parts {
            return Err(format!("{n} and {m} are not {}", n + m));
        }
    }
    Ok(())
}

/// The largest accepted distance between a mean of `count` independent terms and its expectation: five standard
/// deviations.
fn stray(deviation: f64, count: usize) -> f64 {
    5.0 * deviation / (count as f64).sqrt()
}

fn near(what: &str, got: f64, expected: f64, tolerance: f64) -> Outcome {
    let close = (got - expected).abs() <= tolerance;
    if close { Ok(()) } else { Err(format!("the {what} is {got}, expected {expected} within {tolerance}")) }
}

/// The normal distribution's area left of x. All terms of the series have the same sign.
fn normal_area(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-18 {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    (0.5 + sum * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()).clamp(0.0, 1.0)
}

/// A million numbers: mean, variance, third and fourth moment, correlation of neighbours. The distribution is tested by
/// Kolmogorov-Smirnov, and by chi-square in 256 parts of equal probability.
fn moments(target: &Target, kind: Kind, t: Type) -> Outcome {
    let count = 1 << 20;
    let state = target.device.random_state(2011).map_err(|error| error.to_string())?;
    let mut x = numbers(&target.device, &Draw { kind, t, numel: count, a: 0.0, b: 1.0 }, &state)?;
    // The mean; then, for powers 2, 3 and 4 of the distance from it, expectation and deviation.
    let (mean, powers) = match kind {
        Kind::Uniform => (0.5, [(1.0 / 12.0, 0.0745), (0.0, 0.0473), (1.0 / 80.0, 0.0167)]),
        Kind::Normal => (0.0, [(1.0, 2f64.sqrt()), (0.0, 15f64.sqrt()), (3.0, 96f64.sqrt())]),
    };
    let average = |f: &dyn Fn(usize) -> f64| (0..count).map(f).sum::<f64>() / count as f64;
    let variance: f64 = powers[0].0;
    // The error from rounding to 8 or 11 bits is small beside that from chance.
    near("mean", average(&|i| x[i]), mean, stray(variance.sqrt(), count))?;
    for (power, (expected, deviation)) in (2..).zip(powers) {
        near(&format!("moment {power}"), average(&|i| (x[i] - mean).powi(power)), expected, stray(deviation, count))?;
    }
    for distance in [1, 2, 3, 4, 256, 1024] {
        let product = average(&|i| (x[i] - mean) * (x[(i + distance) % count] - mean));
        near(&format!("covariance of numbers {distance} apart"), product, 0.0, stray(variance, count))?;
    }
    if t.bytes == 2 {
        return Ok(()); // the type has too few numbers between 0 and 1 for these tests
    }
    if kind == Kind::Normal {
        x.iter_mut().for_each(|x| *x = normal_area(*x));
    }
    let mut parts = [0f64; 256];
    x.iter().for_each(|x| parts[((x * 256.0) as usize).min(255)] += 1.0);
    let each = count as f64 / 256.0;
    let chi_square: f64 = parts.iter().map(|part| (part - each).powi(2) / each).sum();
    // 255 degrees of freedom: deviation 22.6.
    near("chi-square", chi_square, 255.0, 75.0)?;
    x.sort_by(f64::total_cmp);
    let distance =
        (0..count).map(|i| (x[i] - i as f64 / count as f64).abs().max((x[i] - (i + 1) as f64 / count as f64).abs()));
    let largest = distance.fold(0f64, f64::max) * (count as f64).sqrt();
    near("Kolmogorov-Smirnov distance", largest, 0.0, 1.95) // exceeded by one generator in a thousand
}

/// Different seeds give independent numbers.
fn seeds(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let draw = Draw { kind: Kind::Normal, t: F32, numel: 1 << 18, a: 0.0, b: 1.0 };
    let of = |seed| numbers(&target.device, &draw, &target.device.random_state(seed).map_err(error)?);
    let first = of(1)?;
    for seed in [0, 2, 1 << 32, 1 + (1 << 32), u64::MAX] {
        let other = of(seed)?;
        let product = first.iter().zip(&other).map(|(a, b)| a * b).sum::<f64>() / draw.numel as f64;
        near(&format!("covariance of seeds 1 and {seed}"), product, 0.0, stray(1.0, draw.numel))?;
    }
    if of(1)? == first { Ok(()) } else { Err("the same seed gives other numbers".into()) }
}

/// The upper bound is never returned, however numbers round, nor a number below the lower bound. Also intervals of one
/// number, and std 0.
fn bounds(target: &Target, t: Type) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let state = target.device.random_state(3).map_err(error)?;
    let next = |x: f64| -below_value(t, -x);
    let tiny = t.float(1);
    for (lo, hi) in [
        (0.0, 1.0),
        (1.0, 2.0),
        (-1.0, 0.0),
        (-2.0, -1.0),
        (1.0, next(1.0)),
        (-next(1.0), -1.0),
        (1.0, next(next(1.0))),
        (-tiny, 0.0),
        (0.0, tiny),
        (-tiny, tiny),
        (5.0, 5.0),
        (-0.0, 0.0),
    ] {
        let x = numbers(&target.device, &Draw { kind: Kind::Uniform, t, numel: 50_000, a: lo, b: hi }, &state)?;
        let within = |x: &f64| *x >= lo && (*x < hi || lo == hi && *x == lo);
        if let Some(x) = x.iter().find(|x| !within(x)) {
            return Err(format!("{x:e} is not in [{lo:e}, {hi:e})"));
        }
        // If the interval has few numbers, both ends occur.
        if hi - lo <= 2.0 * (next(1.0) - 1.0) && !(x.contains(&lo) && x.contains(&below_value(t, hi).max(lo))) {
            return Err(format!("an end of [{lo:e}, {hi:e}) is missing"));
        }
    }
    // Bounds that round to the same number of the dtype.
    if t != F64 {
        let (lo, hi) = (1.0, 1.0 + (next(1.0) - 1.0) / 8.0);
        let x = numbers(&target.device, &Draw { kind: Kind::Uniform, t, numel: 1000, a: lo, b: hi }, &state)?;
        if x.iter().any(|x| *x != 1.0) {
            return Err(format!("[{lo}, {hi}) has other numbers than 1"));
        }
    }
    let constant = numbers(&target.device, &Draw { kind: Kind::Normal, t, numel: 1000, a: -2.5, b: 0.0 }, &state)?;
    if constant.iter().any(|x| *x != -2.5) {
        return Err("without a deviation there are other numbers than the mean".into());
    }
    if t == F16 {
        let x = numbers(&target.device, &Draw { kind: Kind::Normal, t, numel: 1000, a: 0.0, b: 1e6 }, &state)?;
        if !x.contains(&f64::INFINITY) || !x.contains(&f64::NEG_INFINITY) || x.iter().any(|x| x.is_nan()) {
            return Err("numbers beyond f16 are not infinite".into());
        }
    }
    Ok(())
}

fn below_value(t: Type, x: f64) -> f64 {
    t.float(below(t, t.round_bits(x)))
}

/// A graph that seeds, and one with two draws. Each launch continues where the one before ended.
fn captured(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let (state, mut generator) = begin(&device, 99)?;
    let draws = [
        Draw { kind: Kind::Uniform, t: BF16, numel: 1001, a: -1.0, b: 1.0 },
        Draw { kind: Kind::Normal, t: F64, numel: 501, a: 0.0, b: 2.0 },
    ];
    let buffers = [device.alloc(4096).map_err(error)?, device.alloc(8192).map_err(error)?];
    let all = || {
        let mut calls = draws.iter().zip(&buffers);
        calls.try_for_each(|(draw, dst)| succeeded(call(device.raw(), draw, dst.raw_view(), state.view())))
    };
    let check = |generator: &mut Generator| {
        draws
            .iter()
            .zip(&buffers)
            .try_for_each(|(draw, dst)| compare(draw.t, &dst.download::<u8>().map_err(error)?, &generator.draw(draw)))
    };
    let record = |body: &dyn Fn() -> Outcome| {
        let mut graph = null_mut();
        // SAFETY: live arguments; so below.
        succeeded(unsafe { sys::crk_graph_begin(device.raw()) })?;
        body()?;
        succeeded(unsafe { sys::crk_graph_end(device.raw(), &mut graph) })?;
        Ok::<_, String>(graph)
    };
    // The first use of a kernel loads it, so it comes before the capture.
    all()?;
    check(&mut generator)?;
    let graph = record(&all)?;
    let seed = record(&|| succeeded(unsafe { sys::crk_random_seed(device.raw(), state.view(), 100) }))?;
    let mut outcome = Ok(());
    for round in 0..6 {
        if round == 3 {
            outcome = outcome.and(succeeded(unsafe { sys::crk_graph_launch(seed) }));
            generator = Generator { seed: 100, steps: 0 };
        }
        if round == 4 {
            outcome = outcome.and_then(|()| all()); // also draws once without the graph
        } else {
            outcome = outcome.and(succeeded(unsafe { sys::crk_graph_launch(graph) }));
        }
        outcome = outcome.and_then(|()| check(&mut generator)).map_err(|problem| format!("round {round}: {problem}"));
    }
    unsafe { sys::crk_graph_destroy(graph) };
    unsafe { sys::crk_graph_destroy(seed) };
    outcome?;
    if state.read()? == generator.state() { Ok(()) } else { Err(format!("the state is not {generator:?}")) }
}

/// Eight threads on one handle with a generator each. A draw allocates nothing.
fn threads(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    std::thread::scope(|scope| {
        let body = |thread: usize| -> Outcome {
            let mut rng = Rng(thread as u64);
            let (state, mut generator) = begin(&device, rng.next())?;
            let dst = device.alloc(8 * 3000).map_err(|error| error.to_string())?;
            for round in 0..40 {
                let numel = 1 + rng.below(3000);
                let (kind, t) = (rng.pick(&KINDS).0, rng.pick(&FLOATS));
                let draw = random_draw(&mut rng, kind, t, numel);
                succeeded(call(device.raw(), &draw, dst.raw_view(), state.view()))?;
                let got = dst.download::<u8>().map_err(|error| error.to_string())?;
                compare(t, &got, &generator.draw(&draw)).map_err(|problem| format!("round {round}: {problem}"))?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || body(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())))
    })
}

/// Bad values for every argument: checks the status and the argument's name in the sentence.
fn refused(target: &Target) -> Outcome {
    let device = target.device.raw();
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let (dst, state) =
        (target.device.upload(&[0u8; 256]).map_err(error)?, target.device.random_state(5).map_err(error)?);
    let (d, s) = (dst.raw_view(), state.raw_view());
    let at = |view: sys::crk_view_t, offset: usize, bytes: usize| sys::crk_view_t {
        ptr: view.ptr.cast::<u8>().wrapping_add(offset).cast(),
        bytes,
    };
    let null = |bytes| sys::crk_view_t { ptr: null_mut(), bytes };
    static ZEROS: [u64; 512] = [0; 512];
    let foreign = ZEROS.as_ptr() as sys::crk_device_t;
    use Status as S;
    let (invalid, outside) = (S::InvalidArgument, S::OutOfBounds);
    let told = |name: &str, word: &str, expected: S, got: S| {
        let sentence = last_error();
        if got != expected || !sentence.starts_with(&format!("{name}: ")) || !sentence.contains(word) {
            return Err(format!("{name}, {word}: {} {sentence:?}, expected {}", got.name(), expected.name()));
        }
        Ok(())
    };
    for (kind, name) in [(Kind::Uniform, "crk_random_uniform"), (Kind::Normal, "crk_random_normal")] {
        let good = Draw { kind, t: F32, numel: 6, a: 0.0, b: 1.0 };
        let refused = |word: &str, status: S, device, draw: Draw, dst, state| {
            told(name, word, status, call(device, &draw, dst, state))
        };
        refused("self is NULL", invalid, null_mut(), good, d, s)?;
        refused("self is no live", invalid, foreign, good, d, s)?;
        let mut none = F32;
        none.dtype = sys::crk_dtype(77);
        refused("dtype 77", invalid, device, Draw { t: none, ..good }, d, s)?;
        for t in [I64, F8] {
            refused(t.name, S::Unsupported, device, Draw { t, ..good }, d, s)?;
        }
        refused("dst", outside, device, good, at(d, 0, 23), s)?;
        refused("dst", outside, device, Draw { numel: usize::MAX, ..good }, d, s)?;
        refused("dst", outside, device, Draw { numel: usize::MAX / 4 + 2, ..good }, d, s)?;
        refused("dst.ptr is NULL", invalid, device, good, null(24), s)?;
        refused("dst.ptr", invalid, device, good, at(d, 2, 100), s)?;
        refused("state", outside, device, good, d, at(s, 0, STATE_BYTES - 1))?;
        refused("state", outside, device, good, d, null(0))?;
        refused("state.ptr is NULL", invalid, device, good, d, null(STATE_BYTES))?;
        refused("state.ptr", invalid, device, good, d, at(d, 36, 100))?;
        refused("dst overlaps state", invalid, device, good, at(s, 0, 32), s)?;
        refused("dst overlaps state", invalid, device, good, at(d, 40, 100), at(d, 56, 32))?;
        let (first, second) = if kind == Kind::Uniform { ("lo is", "hi is") } else { ("mean is", "std is") };
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e39, -1e300] {
            refused(first, invalid, device, Draw { a: bad, ..good }, d, s)?;
            refused(second, invalid, device, Draw { b: bad, ..good }, d, s)?;
            if bad.is_finite() && kind == Kind::Normal {
                succeeded(call(device, &Draw { t: F64, a: bad, b: bad, ..good }, d, s))?;
            } else if !bad.is_finite() {
                refused(first, invalid, device, Draw { t: F64, a: bad, ..good }, d, s)?;
                refused(second, invalid, device, Draw { t: F64, b: bad, ..good }, d, s)?;
            }
        }
    }
    let uniform = |t, a, b| call(device, &Draw { kind: Kind::Uniform, t, numel: 6, a, b }, d, s);
    let name = "crk_random_uniform";
    told(name, "lo is 2, above hi, 1", invalid, uniform(F32, 2.0, 1.0))?;
    told(name, "lo is 65520", invalid, uniform(F16, 65520.0, 65530.0))?;
    told(name, "hi is 65520", invalid, uniform(F16, 0.0, 65520.0))?;
    // lo is above hi, although both round to the same number.
    told(name, "above hi", invalid, uniform(F16, 1.0001, 1.0))?;
    for (t, large) in [(F32, 3e38), (BF16, 3e38), (F64, 1.7e308)] {
        told(name, "hi - lo", invalid, uniform(t, -large, large))?;
    }
    succeeded(uniform(F16, -65504.0, 65504.0))?;
    // SAFETY: arguments that are not live are refused.
    unsafe {
        let seed = |word, status, got| told("crk_random_seed", word, status, got);
        seed("self is NULL", invalid, sys::crk_random_seed(null_mut(), s, 1))?;
        seed("self is no live", invalid, sys::crk_random_seed(foreign, s, 1))?;
        seed("state", outside, sys::crk_random_seed(device, at(s, 0, STATE_BYTES - 1), 1))?;
        seed("state.ptr is NULL", invalid, sys::crk_random_seed(device, null(STATE_BYTES), 1))?;
        seed("state.ptr", invalid, sys::crk_random_seed(device, at(d, 4, 100), 1))?;
    }
    // A draw of nothing needs neither memory nor a state.
    let none = Draw { kind: Kind::Normal, t: F64, numel: 0, a: 0.0, b: 1.0 };
    succeeded(call(device, &none, null(0), null(0)))?;
    // There were two draws of six f64 and one of six f16. The refused calls drew nothing.
    let expected = Generator { seed: 5, steps: 2 * 3 + 2 };
    let got = state.download::<u8>().map_err(error)?;
    if got == expected.state() { Ok(()) } else { Err(format!("the state is {got:?}, not {expected:?}")) }
}

/// Compares the reference's functions, and so the device's, with f64. Errors are in units in the last place of the
/// exact result.
fn accuracy() -> Outcome {
    let mut rng = Rng(1);
    let mut worst = [0f64; 6];
    let mut see = |which: usize, got: f64, exact: f64, mantissa: i32| {
        let exponent = ((exact.abs().to_bits() >> 52) as i32 - 1023).max(-1000);
        worst[which] = worst[which].max((got - exact).abs() / 2f64.powi(exponent - mantissa));
    };
    let eighth = std::f64::consts::FRAC_PI_2;
    for i in 0..1 << 20 {
        // Some values are near the ends of an interval of angles or fractions.
        let word = rng.next();
        let v = match i % 4 {
            0 => word >> (word & 63),
            1 => !(word >> (word & 63)),
            2 => (word & 7) << 61 ^ word >> (word >> 3 & 63),
            _ => word,
        };
        let fraction = (v >> 32) as u32 | 1;
        let exact = (f64::from(fraction) / 4_294_967_296.0).ln();
        see(0, log32(fraction).into(), exact, 23);
        let radius = (exact * -2.0).sqrt();
        let angle = (v >> 32) as u32;
        let quarters = angle.wrapping_add(1 << 29) >> 30;
        let x = f64::from(angle.wrapping_sub(quarters << 30) as i32) * eighth / 1_073_741_824.0;
        let (cosine, sine) = direction32(angle);
        let (c, s) = turned!(x.cos(), x.sin(), quarters);
        see(1, cosine.into(), c, 23);
        see(1, sine.into(), s, 23);
        let r = (log32(fraction) * -2.0).sqrt();
        see(2, (r * cosine).into(), radius * c, 23);
        see(2, (r * sine).into(), radius * s, 23);

        let fraction = v >> 11 | 1;
        let exact = (fraction as f64 / (1u64 << 53) as f64).ln();
        see(3, log64(fraction), exact, 52);
        let quarters = v.wrapping_add(1 << 61) >> 62;
        let x = (v.wrapping_sub(quarters << 62) as i64 >> 8) as f64 * (eighth / (1u64 << 54) as f64);
        let (cosine, sine) = direction64(v);
        let (c, s) = turned!(x.cos(), x.sin(), quarters);
        see(4, cosine, c, 52);
        see(4, sine, s, 52);
        let (r, radius) = ((log64(fraction) * -2.0).sqrt(), (exact * -2.0).sqrt());
        see(5, r * cosine, radius * c, 52);
        see(5, r * sine, radius * s, 52);
    }
    // Rust's own f64 functions are off by up to 1, so our bounds are wider by that.
    let bounds = [4.0, 3.0, 5.0, 3.0, 3.0, 5.0];
    if worst.iter().zip(bounds).all(|(worst, bound)| *worst <= bound) {
        return Ok(());
    }
    Err(format!("log, direction, normal: {worst:?} units in the last place, not {bounds:?}"))
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = vec![Trial::test("random/accuracy", || accuracy().map_err(Failed::from))];
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "random", target, name, body);
        for (kind, name) in KINDS {
            for t in FLOATS {
                add(format!("{name}_{}", t.name), Box::new(move |target, name| property(target, name, kind, t)));
                add(format!("geometry/{name}_{}", t.name), Box::new(move |target, _| geometry(target, kind, t)));
                add(format!("many/{name}_{}", t.name), Box::new(move |target, _| many(target, kind, t)));
                add(format!("continued/{name}_{}", t.name), Box::new(move |target, _| continued(target, kind, t)));
                add(format!("moments/{name}_{}", t.name), Box::new(move |target, _| moments(target, kind, t)));
            }
        }
        for t in FLOATS {
            add(format!("bounds/{}", t.name), Box::new(move |target, _| bounds(target, t)));
        }
        add("known_answers".into(), Box::new(|target, _| known_answers(target)));
        add("seeds".into(), Box::new(|target, _| seeds(target)));
        add("captured".into(), Box::new(|target, _| captured(target)));
        add("threads".into(), Box::new(|target, _| threads(target)));
        add("refused".into(), Box::new(|target, _| refused(target)));
    }
    trials
}
