//! The error bounds: how close two results must be to count as equal. The table STATED holds the errors that maths
//! libraries document. An op's bound follows from them and from its operands, by the op's formula. reference.rs and
//! rows.rs compute the smallest and the largest value that an element may have. docs/parity.md describes the bounds.
use super::cases::Shape;
use super::compare::Close;
use super::number::{F8, F32, F64, Type};
use super::quantized::Given;
use super::range::Range;
use super::reference::{self, Expected};
use super::rows::{self, Op};

/// A function's largest error in a maths library, as a number of values away from the correctly rounded result.
///
/// Each is the largest error stated by any of these: CUDA's programming guide ("Mathematical Functions"), ROCm's
/// documentation ("HIP math API") with LLVM's measurements of HIP over all f32 ("GPU Conformance"), and glibc's manual
/// ("Errors in Math Functions") for the CPU device. AMD states no error of normcdf, so CUDA's bound applies.
struct Stated {
    function: &'static str,
    f32: i64,
    f64: i64,
    /// The error of the C library's function that the f64 reference calls.
    reference: i64,
}

const fn stated(function: &'static str, f32: i64, f64: i64, reference: i64) -> Stated {
    Stated { function, f32, f64, reference }
}

const STATED: &[Stated] = &[
    stated("exp", 2, 1, 1), // f32: CUDA
    // CUDA states 2; its exp cuts x log2(e) to 23 bits. Elsewhere exp's error is 1, after a cut that moves x by up to
    // 2^-23 ln 2. That is 1.4 units in the last place, or 2 values.
    stated("exp in elu", 3, 1, 1),
    stated("log", 2, 1, 1),     // f32: ROCm
    stated("sin", 2, 2, 1),     // CUDA
    stated("cos", 2, 2, 1),     // CUDA
    stated("tanh", 2, 2, 2),    // f32: CUDA; f64: glibc
    stated("erf", 2, 4, 1),     // f32: CUDA, LLVM; f64: ROCm
    stated("normcdf", 5, 5, 5), // CUDA; glibc's erfc
    stated("pow", 4, 2, 1),     // CUDA
    stated("rsqrt", 2, 1, 1),   // f32: CUDA
];

/// The values that a library may return, in f32 or f64, for a function with the true result `value`.
pub fn library(function: &str, c: Type, value: f64) -> Range {
    let stated = STATED.iter().find(|stated| stated.function == function).expect("a function of the table");
    let steps = if c == F64 { stated.f64 } else { stated.f32 };
    // Every library returns a zero, infinity or NaN exactly, and no error changes the sign.
    if value == 0.0 || !value.is_finite() || c == F32 && value.abs() >= 2f64.powi(128) {
        return Range::exact(c.round(value));
    }
    let end = |sign: i64| {
        let true_one = F64.float(F64.step(value.to_bits(), sign * stated.reference));
        c.float(c.step(c.round_bits(true_one), sign * steps))
    };
    let (low, high) = if value > 0.0 { (end(-1).max(0.0), end(1)) } else { (end(-1), end(1).min(-0.0)) };
    Range { value: c.round(value), low, high }
}

/// exp(x) of a narrow float, computed in f32 with the hardware's 2^y for y = x log2(e). Rounding the constant and the
/// product moves y by 1.25 half units in the last place, and 2^y is off by less than two. A subnormal result may be 0.
pub fn machine_exp(x: f64) -> Range {
    let value = x.exp();
    let relative = 1.25 * 2f64.powi(-24) * x.abs() + 2f64.powi(-22);
    let range = Range::near(value, value * relative).map(|v| F32.round(v));
    if value < 2f64.powi(-126) { Range { low: 0.0, ..range } } else { range }
}

/// tanh(y) of a narrow float, to be added to 1: 1 - 2 / (1 + 2^z) in f32 with the hardware's 2^z and reciprocal. Each
/// is off by less than 2^-22 of itself, and so is the part of z. The sum and the product round. CUDA's tanh is closer.
pub fn machine_tanh(y: f64) -> Range {
    Range::near(y.tanh(), 2f64.powi(-20))
}

/// A quotient with the hardware's reciprocal, which is off by less than 2^-22 of itself. The product rounds.
pub fn machine_quotient(dividend: f64, divisor: Range) -> Range {
    divisor.map(|divisor| dividend / divisor).widened(1.25 * 2f64.powi(-22))
}

/// A quotient in f32 with the hardware's reciprocal and one Newton step. It may be one value off.
pub fn corrected_quotient(dividend: f64, divisor: Range) -> Range {
    let quotient = divisor.map(|divisor| f64::from(dividend as f32 / divisor as f32));
    let next = |v: f64, by: i64| if v.is_finite() && v != 0.0 { F32.float(F32.step(F32.round_bits(v), by)) } else { v };
    Range { low: next(quotient.low, -1), high: next(quotient.high, 1), ..quotient }
}

/// Kernels that only move or make bits. Every bit must be equal, those of a NaN too.
const MOVES: &[&str] =
    &["ucopy", "copy2d", "fill", "const_set", "where", "is", "gather", "s", "eq", "ne", "lt", "le", "gt", "ge"];

/// Kernels that call a maths library. All other results must be equal bit by bit, except for the bits of a NaN.
pub const FUNCTIONS: &[&str] = &[
    "uexp",
    "ulog",
    "usin",
    "ucos",
    "utanh",
    "uerf",
    "unormcdf",
    "upowf",
    "usigmoid",
    "usilu",
    "ugelu_erf",
    "ugelu",
    "uelu",
];

/// How closely results of a kernel root (`badd`, `cast`, ...) that calls no library must agree, for a dtype.
pub fn close(root: &str, t: Type) -> Close {
    if MOVES.contains(&root) || !t.is_float() { Close::Bits } else { Close::Value }
}

/// The values that a launch by name may write, element by element, from its arguments before the launch. None if the
/// kernel calls no library.
pub fn expected(root: &str, t: Type, given: &[Given]) -> Result<Option<Vec<Expected>>, String> {
    let op = Op::named(root);
    if !t.is_float() || op.is_none() && !FUNCTIONS.contains(&root) {
        return Ok(None);
    }
    let elements = |bytes: &[u8]| (0..bytes.len() / t.bytes).map(|i| t.get(bytes, i)).collect::<Vec<_>>();
    let row = |index: usize| given[index].bytes().ok().map(elements);
    let Some(op) = op else {
        // numel, rank, dims and strides; the parameter of elu and powf; src, dst.
        let (numel, rank) = (given[0].number()?, given[1].number()?);
        let (param, src) = if given.len() == 6 { (t.float(given[3].number()? as u64), 4) } else { (0.0, 3) };
        let src = row(src).or_else(|| row(src + 1)).ok_or("neither a source nor a destination")?;
        let places = match given[2].bytes() {
            Ok(info) => {
                let info: Vec<usize> = (0..2 * rank).map(|i| super::number::I64.get(info, i) as usize).collect();
                Shape { dims: info[..rank].to_vec(), strides: info[rank..].to_vec(), offset: 0 }.indices()
            }
            Err(_) => (0..numel).collect(),
        };
        let unary = |place: usize| reference::unary(root, t, src[place], param).ok_or("no such kernel");
        return places.into_iter().map(unary).collect::<Result<_, _>>().map(Some).map_err(str::to_owned);
    };
    // src, dst, columns; or src, dst, alpha, beta of layernorm, columns, threads, eps.
    let src = row(0).ok_or("no source")?;
    let at = [2, 3, 4][op as usize];
    let columns = given[at].number()?;
    let (threads, eps) = match op {
        Op::Softmax => (32, 0.0),
        _ => (given[at + 1].number()?, f32::from_bits(given[at + 2].number()? as u32)),
    };
    let alpha = if op == Op::Softmax { None } else { row(2) };
    let beta = if op == Op::LayerNorm { row(3) } else { None };
    let params = [alpha.as_deref(), beta.as_deref()];
    Ok(Some(src.chunks(columns).flat_map(|x| rows::named(op, t, x, params, threads, eps)).collect()))
}

/// The root and the last dtype of a kernel's name: `cast_f32_f8_e4m3` gives `cast` and f8e4m3, `where_u8_f32` gives
/// `where` and f32.
pub fn root_of(kernel: &str) -> Option<(&str, Type)> {
    let (rest, t) = super::number::TYPES.iter().find_map(|t| {
        let spellings: &[&str] = if *t == F8 { &["_f8e4m3", "_fp8_e4m3", "_f8_e4m3"] } else { &[] };
        let plain = kernel.strip_suffix(t.name).and_then(|rest| rest.strip_suffix('_'));
        spellings.iter().find_map(|s| kernel.strip_suffix(s)).or(plain).map(|rest| (rest, *t))
    })?;
    let root = ["cast", "where", "is", "gather", "s", "sa", "ia"]
        .into_iter()
        .find(|root| rest.starts_with(&format!("{root}_")))
        .unwrap_or(rest);
    Some((root, t))
}
