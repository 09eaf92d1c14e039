//! Every element-wise op in plain Rust: the readable statement of what a kernel computes. Integers exactly; floats in f64,
//! rounded where docs/parity.md says that the kernels round.
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use super::number::{BF16, F8, F16, F32, F64, I64, Type, U8, U32, add_to_odd};

extern "C" {
    fn erf(x: f64) -> f64;
    fn erfc(x: f64) -> f64;
}

/// A result, and how far off a kernel may be: in units in the last place of the result's type, and absolutely, where the
/// formula takes the difference of rounded numbers and any bound in ulp would be void.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    pub bits: u64,
    pub ulps: u64,
    pub slack: f64,
    /// Any value is right.
    pub anything: bool,
}

impl Expected {
    pub fn exactly(bits: u64) -> Expected {
        Expected { bits, ulps: 0, slack: 0.0, anything: false }
    }

    /// Whether a kernel's result is right. A NaN on one side only is never.
    pub fn admits(&self, t: Type, got: u64) -> bool {
        if self.anything || got == self.bits {
            return true;
        }
        if !t.is_float() {
            return false;
        }
        match t.ulps(got, self.bits) {
            Some(0) => true, // two NaN, or two zeros
            Some(distance) => distance <= self.ulps || (t.float(got) - t.float(self.bits)).abs() <= self.slack,
            None => false,
        }
    }
}

fn epsilon(t: Type) -> f64 {
    match t {
        _ if t == BF16 => 2f64.powi(-7),
        _ if t == F16 => 2f64.powi(-10),
        _ if t == F32 => 2f64.powi(-23),
        _ => 2f64.powi(-52),
    }
}

/// The integer dtypes have these; None where there is no kernel.
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

/// What `root` gives for one value, with `param` (rounded to `t` already) for uelu and upowf. None: there is no such kernel.
pub fn unary(root: &str, t: Type, bits: u64, param: f64) -> Option<Expected> {
    if root == "ucopy" {
        return Some(Expected::exactly(bits));
    }
    if !t.is_float() {
        return unary_int(root, t, t.int(bits)).map(|v| Expected::exactly(t.wrap(v)));
    }
    let x = t.float(bits);
    // What is computed in: f8 in f32 throughout, silu and sigmoid of bf16 too; everything else rounds each step to itself.
    let c = if t == F8 || (t == BF16 && matches!(root, "usilu" | "usigmoid")) { F32 } else { t };
    let r = |v: f64| c.round(v);
    // SAFETY: the C library's, pure.
    let (erf, erfc) = (|v: f64| unsafe { erf(v) }, |v: f64| unsafe { erfc(v) });
    let normcdf = |v: f64| {
        // erfc(-v / sqrt(2)) / 2, with what the product lost put back: in the tail it is many of the result's last places.
        const REST: f64 = -4.833646656726457e-17;
        let z = v * FRAC_1_SQRT_2;
        let lost = v.mul_add(FRAC_1_SQRT_2, -z) + v * REST;
        let slope = FRAC_2_SQRT_PI * (-z * z).exp() * lost;
        r(0.5 * (erfc(-z) + if slope.is_finite() { slope } else { 0.0 }))
    };
    let mut slack = 0.0;
    // In ulp of the result's type: what the kernels' functions are off in f32 and f64.
    let wide = c == t && t.bytes >= 4;
    let mut ulps = 0;
    let mut about = |own: u64| ulps = if wide { own } else { 1 };
    let value = match root {
        "uneg" => -x,
        "uabs" => x.abs(),
        "uceil" => x.ceil(),
        "ufloor" => x.floor(),
        "uround" => x.round(),
        "usqr" => {
            if t == F32 {
                f64::from(x as f32 * x as f32)
            } else {
                x * x
            }
        }
        "usqrt" => x.sqrt(),
        "urecip" => 1.0 / x,
        // The greater of x and 0; f32, f64 and f8 drop a NaN, f16 and bf16 keep it.
        "urelu" => {
            if x > 0.0 || (x.is_nan() && (t == F16 || t == BF16)) {
                x
            } else {
                0.0
            }
        }
        "usign" => f64::from(u8::from(x > 0.0)) - f64::from(u8::from(x < 0.0)),
        "uexp" => {
            about(2);
            x.exp()
        }
        "ulog" => {
            about(2);
            x.ln()
        }
        "usin" => {
            about(2);
            x.sin()
        }
        "ucos" => {
            about(2);
            x.cos()
        }
        "utanh" => {
            about(2);
            x.tanh()
        }
        "uerf" => {
            about(3);
            erf(x)
        }
        "unormcdf" => {
            about(6);
            normcdf(x)
        }
        "upowf" => {
            about(8);
            x.powf(param)
        }
        "ugelu_erf" => {
            about(7);
            // Where normcdf is subnormal, its last place is x last places of the product, and one for the rounding.
            slack = (x.abs() + 1.0) * c.float(1);
            x * normcdf(x)
        }
        "usilu" => {
            about(4);
            x / r(1.0 + r(r(-x).exp()))
        }
        "usigmoid" => {
            about(4);
            1.0 / r(1.0 + r(r(-x).exp()))
        }
        "uelu" => {
            about(4);
            // exp(x) - 1 has the error of an exp near 1.
            slack = 2.0 * epsilon(c) * param.abs();
            if x > 0.0 { x } else { param * r(r(x.exp()) - 1.0) }
        }
        "ugelu" => {
            about(4);
            // 1 + tanh(..) has the error of a tanh near 1.
            slack = 4.0 * epsilon(c) * x.abs();
            let cube = r(r(x * x) * x);
            let alpha = r(add_to_odd(r(0.044715) * cube, x));
            let tanh = r(r(r(FRAC_2_SQRT_PI * FRAC_1_SQRT_2) * alpha).tanh());
            r(0.5 * x) * r(1.0 + tanh)
        }
        _ => return None,
    };
    // f16 and bf16: a step that is an ulp off is an ulp of something else after the next step.
    if !wide && c == t && matches!(root, "usilu" | "usigmoid" | "ugelu" | "ugelu_erf" | "uelu") {
        ulps = 2;
    }
    // C libraries differ about the power 0 of a signalling NaN.
    let anything = root == "upowf" && x.is_nan() && param == 0.0;
    Some(Expected { bits: t.round_bits(r(value)), ulps, slack, anything })
}

/// fma(x, mul, add); `mul` and `add` are of the type already.
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
        // f32, f64 and f8 drop a NaN, f16 and bf16 keep it.
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
            if a > b {
                a
            } else {
                b
            }
        }
        _ => {
            if a < b {
                a
            } else {
                b
            }
        }
    };
    // In f32 the double result is rounded once more; below its normal range that could be twice.
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
        return Expected::exactly(bits);
    }
    let value = match (from.is_float(), to.is_float()) {
        (false, false) => to.wrap(from.int(bits)),
        (false, true) => {
            let v = from.int(bits);
            // To f32 and f64 rounded once. To the narrow types through f32, but for u32, which CUDA rounds once.
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
    // A u8 is the low byte of a saturated u32.
    let wide = if to == U8 { U32 } else { to };
    let (least, greatest) = wide.range();
    let value = match v.is_nan() {
        true if to == I64 => least,
        true if from == F64 && wide == U32 => 0x8000_0000,
        // A double holds every bound but the greatest i64, where the conversion to i128 is exact anyway.
        _ => (v as i128).clamp(least, greatest),
    };
    to.wrap(value)
}
