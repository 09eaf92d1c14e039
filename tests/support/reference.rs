//! Every element-wise op in plain Rust: the readable definition of what a kernel computes. Integers are exact. Floats
//! are computed in f64 and rounded where docs/parity.md says that the kernels round.
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use super::bounds::{corrected_quotient, library, machine_exp, machine_quotient, machine_tanh};
use super::number::{BF16, F8, F16, F32, F64, I64, Type, U8, U32, add_to_odd};
use super::range::Range;

extern "C" {
    fn erf(x: f64) -> f64;
    fn erfc(x: f64) -> f64;
}

/// A result: its bits, and the smallest and the largest number that a kernel may return instead. If both are NaN, only
/// `bits` counts.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    pub bits: u64,
    pub low: f64,
    pub high: f64,
    /// Any value is right.
    pub anything: bool,
    /// The bits of a NaN count too.
    pub is_moved: bool,
}

impl Expected {
    /// These bits. For a NaN, any NaN is right.
    pub fn exactly(bits: u64) -> Expected {
        Expected { bits, low: f64::NAN, high: f64::NAN, anything: false, is_moved: false }
    }

    /// The result of an op that only moves values: these bits, and for a NaN no others.
    pub fn moved(bits: u64) -> Expected {
        Expected { is_moved: true, ..Expected::exactly(bits) }
    }

    /// A range with ends that the type can represent. Where it has a zero, both zeros are right.
    pub fn within(t: Type, range: Range) -> Expected {
        Expected { low: range.low, high: range.high, ..Expected::exactly(t.round_bits(range.value)) }
    }

    /// Whether a kernel's result is right. It is wrong if only one of the two is NaN.
    pub fn admits(&self, t: Type, got: u64) -> bool {
        if self.anything || got == self.bits {
            return true;
        }
        let both_nan = || t.is_nan(got) && t.is_nan(self.bits);
        t.is_float() && !self.is_moved && (both_nan() || (self.low..=self.high).contains(&t.float(got)))
    }

    /// A readable text.
    pub fn show(&self, t: Type) -> String {
        let bits = t.show(self.bits);
        if self.low < self.high { format!("{bits}, from {:e} to {:e}", self.low, self.high) } else { bits }
    }
}

/// x to the power y. mingw-w64's pow needs the x87's 64-bit precision, which Windows sets in the first thread only.
fn power(x: f64, y: f64) -> f64 {
    #[cfg(all(windows, target_env = "gnu", target_arch = "x86_64"))]
    // SAFETY: stores and loads the x87's control word. The second statement restores it.
    unsafe {
        use std::hint::black_box;
        let (mut before, extended) = (0u16, 0x37fu16);
        std::arch::asm!("fnstcw [{}]", "fldcw [{}]", in(reg) &mut before, in(reg) &extended);
        let result = black_box(black_box(x).powf(y));
        std::arch::asm!("fldcw [{}]", in(reg) &before);
        result
    }
    #[cfg(not(all(windows, target_env = "gnu", target_arch = "x86_64")))]
    x.powf(y)
}

/// The ops on integer dtypes. None if there is no kernel.
fn unary_int(root: &str, t: Type, v: i128) -> Option<i128> {
    Some(match root {
        "ucopy" | "uceil" | "ufloor" | "uround" => v,
        "uabs" => v.abs(),
        "urelu" => v.max(0),
        "usign" => v.signum(),
        "uerf" | "ugelu" | "ugelu_erf" | "usilu" => 0,
        _ => return None,
    })
    .map(|v| t.int(t.wrap(v)))
}

/// The ops without a function: their results are equal to the bit.
const ONE_OPERATION: [&str; 10] =
    ["uneg", "uabs", "uceil", "ufloor", "uround", "usqr", "usqrt", "urecip", "urelu", "usign"];

/// The result of `root` for one value. uelu and upowf take `param`, already rounded to `t`. None if there is no kernel.
pub fn unary(root: &str, t: Type, bits: u64, param: f64) -> Option<Expected> {
    if root == "ucopy" {
        return Some(Expected::moved(bits));
    }
    if !t.is_float() {
        return unary_int(root, t, t.int(bits)).map(|v| Expected::exactly(t.wrap(v)));
    }
    let x = t.float(bits);
    let half = t == F16 || t == BF16;
    // The type that library functions are computed in.
    let wide = if t == F64 { F64 } else { F32 };
    // The type that every step rounds to: f32 for f8, and for silu and sigmoid of bf16; else the type itself.
    let c = if t == F8 || (t == BF16 && matches!(root, "usilu" | "usigmoid")) { F32 } else { t };
    let r = |v: f64| c.round(v);
    let library = |function: &str, value: f64| library(function, wide, value);
    // SAFETY: these are the C library's functions, without side effects.
    let (erf, erfc) = (|v: f64| unsafe { erf(v) }, |v: f64| unsafe { erfc(v) });
    let normcdf = |v: f64| {
        // erfc(-v / sqrt(2)) / 2, plus a correction for the rounding of the product. In the tail that rounding would
        // cost many of the result's last places.
        const REST: f64 = -4.833646656726457e-17;
        let z = v * FRAC_1_SQRT_2;
        let lost = v.mul_add(FRAC_1_SQRT_2, -z) + v * REST;
        let slope = FRAC_2_SQRT_PI * (-z * z).exp() * lost;
        0.5 * (erfc(-z) + if slope.is_finite() { slope } else { 0.0 })
    };
    // n / (1 + exp(-x))
    let times_logistic = |n: f64| {
        let power = if half { machine_exp(-x).map(r) } else { library("exp", (-x).exp()) };
        let divisor = power.map(|power| r(1.0 + power));
        match root {
            _ if half => machine_quotient(n, divisor),
            "usilu" if c == F32 => corrected_quotient(n, divisor),
            _ if c == F32 => divisor.map(|divisor| f64::from(n as f32 / divisor as f32)),
            _ => divisor.map(|divisor| n / divisor),
        }
    };
    let range = match root {
        "uneg" => Range::exact(-x),
        "uabs" => Range::exact(x.abs()),
        "uceil" => Range::exact(x.ceil()),
        "ufloor" => Range::exact(x.floor()),
        "uround" => Range::exact(x.round()),
        "usqr" => Range::exact(if t == F32 { f64::from(x as f32 * x as f32) } else { x * x }),
        "usqrt" => Range::exact(x.sqrt()),
        "urecip" => Range::exact(1.0 / x),
        // The larger of x and 0. f32, f64 and f8 drop a NaN; f16 and bf16 keep it.
        "urelu" => Range::exact(if x > 0.0 || (x.is_nan() && half) { x } else { 0.0 }),
        "usign" => Range::exact(f64::from(u8::from(x > 0.0)) - f64::from(u8::from(x < 0.0))),
        "uexp" if half => machine_exp(x),
        "uexp" => library("exp", x.exp()),
        "ulog" => library("log", x.ln()),
        "usin" => library("sin", x.sin()),
        "ucos" => library("cos", x.cos()),
        "utanh" => library("tanh", x.tanh()),
        "uerf" => library("erf", erf(x)),
        "unormcdf" => library("normcdf", normcdf(x)),
        "upowf" => library("pow", power(x, param)),
        "ugelu_erf" => library("normcdf", normcdf(x)).map(|area| x * r(area)),
        "usilu" => times_logistic(x),
        "usigmoid" => times_logistic(1.0),
        "uelu" if x > 0.0 => Range::exact(x),
        "uelu" => {
            let power = if half { machine_exp(x).map(r) } else { library("exp in elu", x.exp()) };
            power.map(|power| param * r(power - 1.0))
        }
        "ugelu" => {
            let cube = r(r(x * x) * x);
            let factor = r(0.044715);
            let sum = if t == F64 { factor.mul_add(cube, x) } else { r(add_to_odd(factor * cube, x)) };
            let inner = r(r(FRAC_2_SQRT_PI * FRAC_1_SQRT_2) * sum);
            let tanh = if half { machine_tanh(inner).map(r) } else { library("tanh", inner.tanh()) };
            tanh.map(|tanh| r(0.5 * x) * r(1.0 + tanh))
        }
        _ => return None,
    };
    // C libraries differ on a signalling NaN to the power 0.
    let anything = root == "upowf" && x.is_nan() && param == 0.0;
    let range = range.map(|v| t.round(r(v)));
    let is_one_operation = ONE_OPERATION.contains(&root);
    let expected =
        if is_one_operation { Expected::exactly(t.round_bits(range.value)) } else { Expected::within(t, range) };
    Some(Expected { anything, ..expected })
}

/// fma(x, mul, add). `mul` and `add` are already rounded to the type.
pub fn affine(t: Type, x: u64, mul: u64, add: u64) -> Expected {
    if !t.is_float() {
        return Expected::exactly(t.wrap(t.int(x) * t.int(mul) + t.int(add)));
    }
    let (x, mul, add) = (t.float(x), t.float(mul), t.float(add));
    let value = match t {
        _ if t == F64 => x.mul_add(mul, add),
        _ if t == F32 => (x as f32).mul_add(mul as f32, add as f32).into(),
        _ if t == F8 => F32.round(add_to_odd(x * mul, add)),
        _ => add_to_odd(x * mul, add),
    };
    Expected::exactly(t.round_bits(value))
}

pub fn binary(root: &str, t: Type, lhs: u64, rhs: u64) -> Expected {
    if !t.is_float() {
        let (a, b) = (t.int(lhs), t.int(rhs));
        let value = match root {
            "badd" => a + b,
            "bsub" => a - b,
            "bmul" => a * b,
            "bdiv" if b == 0 => return Expected { anything: true, ..Expected::exactly(0) },
            "bdiv" => a / b,
            "bmaximum" => a.max(b),
            _ => a.min(b),
        };
        return Expected::exactly(t.wrap(value));
    }
    let (a, b) = (t.float(lhs), t.float(rhs));
    let c = if t == F8 { F32 } else { t };
    let value = match root {
        "badd" => a + b,
        "bsub" => a - b,
        "bmul" => a * b,
        "bdiv" => a / b,
        // f32, f64 and f8 drop a NaN; f16 and bf16 keep it.
        _ if a.is_nan() || b.is_nan() => {
            if t == F16 || t == BF16 {
                f64::NAN
            } else if a.is_nan() {
                b
            } else {
                a
            }
        }
        "bmaximum" => {
            if a > b || a == b && b.is_sign_negative() {
                a
            } else {
                b
            }
        }
        _ => {
            if a < b || a == b && a.is_sign_negative() {
                a
            } else {
                b
            }
        }
    };
    // For f32, rounding the double result again could round twice below f32's normal range, so the op is done in f32.
    let value = match (t == F32, root) {
        (true, "bmul") => f64::from(a as f32 * b as f32),
        (true, "bdiv") => f64::from(a as f32 / b as f32),
        _ => c.round(value),
    };
    Expected::exactly(t.round_bits(value))
}

pub fn cmp(root: &str, t: Type, lhs: u64, rhs: u64) -> bool {
    let ordering =
        if t.is_float() { t.float(lhs).partial_cmp(&t.float(rhs)) } else { t.int(lhs).partial_cmp(&t.int(rhs)) };
    match root {
        "eq" => ordering.is_some_and(|o| o.is_eq()),
        "ne" => !ordering.is_some_and(|o| o.is_eq()),
        "lt" => ordering.is_some_and(|o| o.is_lt()),
        "le" => ordering.is_some_and(|o| o.is_le()),
        "gt" => ordering.is_some_and(|o| o.is_gt()),
        _ => ordering.is_some_and(|o| o.is_ge()),
    }
}

pub fn cast(from: Type, to: Type, bits: u64) -> Expected {
    if from == to {
        return Expected::moved(bits);
    }
    let value = match (from.is_float(), to.is_float()) {
        (false, false) => to.wrap(from.int(bits)),
        (false, true) => {
            let v = from.int(bits);
            // Conversions to f32 and f64 round once. Conversions to narrow types go through f32, except that CUDA
            // rounds u32 once.
            match to {
                _ if to == F64 => (v as f64).to_bits(),
                _ if to == F32 => (v as f32).to_bits().into(),
                _ if from == U32 && to != F8 => to.round_bits(v as f64),
                _ => to.round_bits((v as f32).into()),
            }
        }
        (true, false) => float_to_int(from, to, from.float(bits)),
        // f64 to f8 rounds twice, through f32.
        (true, true) if to == F8 => to.round_bits(F32.round(from.float(bits))),
        (true, true) => to.round_bits(from.float(bits)),
    };
    Expected::exactly(value)
}

fn float_to_int(from: Type, to: Type, v: f64) -> u64 {
    // A conversion to u8 takes the low byte of a saturated u32.
    let wide = if to == U8 { U32 } else { to };
    let (least, greatest) = wide.range();
    let value = match v.is_nan() {
        true if to == I64 => least,
        true if from == F64 && wide == U32 => 0x8000_0000,
        // A double holds every bound exactly except the largest i64; near that bound the conversion to i128 is exact
        // anyway.
        _ => (v as i128).clamp(least, greatest),
    };
    to.wrap(value)
}
