//! How close is equal. The one table: what the maths libraries state about their errors. The bound of an op follows from it
//! and from the operands, by the op's formula: reference.rs and rows.rs compute the least and the greatest that an element
//! may be. docs/parity.md says so to people.
use super::cases::Shape;
use super::compare::Close;
use super::number::{F8, F32, F64, Type};
use super::quantized::Given;
use super::range::Range;
use super::reference::{self, Expected};
use super::rows::{self, Op};

/// A function's largest error in a maths library: so many values from the one that is the true result rounded.
///
/// Each is the largest that one of these states: CUDA's programming guide ("Mathematical Functions"), ROCm's documentation
/// ("HIP math API") with LLVM's measurements of HIP over all f32 ("GPU Conformance"), and glibc's manual ("Errors in Math
/// Functions") for the CPU device. AMD states no error of normcdf and is held to CUDA's.
struct Stated {
    function: &'static str,
    f32: i64,
    f64: i64,
    /// Of the C library's function that the f64 reference itself calls.
    reference: i64,
}

const fn stated(function: &'static str, f32: i64, f64: i64, reference: i64) -> Stated {
    Stated { function, f32, f64, reference }
}

const STATED: &[Stated] = &[
    stated("exp", 2, 1, 1), // f32: CUDA
    // 2 of CUDA, whose exp cuts x log2(e) to 23 bits. Elsewhere exp's 1, after a cut that moves x by up to 2^-23 ln 2: 1.4
    // units in the last place, 2 values.
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

/// What a library may give, in f32 or f64, for a function whose true result is `value`.
pub fn library(function: &str, c: Type, value: f64) -> Range {
    let stated = STATED.iter().find(|stated| stated.function == function).expect("a function of the table");
    let steps = if c == F64 { stated.f64 } else { stated.f32 };
    // Nobody misses a zero, infinity or NaN, and nobody crosses 0.
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

/// exp(x) of a narrow float as a machine's 2^y of y = x log2(e), in f32. The constant's rounding and the product's move y by
/// 1.25 half units in the last place, and 2^y is off by less than two; a subnormal number may be 0.
pub fn machine_exp(x: f64) -> Range {
    let value = x.exp();
    let relative = 1.25 * 2f64.powi(-24) * x.abs() + 2f64.powi(-22);
    let range = Range::near(value, value * relative).map(|v| F32.round(v));
    if value < 2f64.powi(-126) { Range { low: 0.0, ..range } } else { range }
}

/// tanh(y) of a narrow float, to add to 1: 1 - 2 / (1 + 2^z) in f32 with the machine's 2^z and reciprocal. Each is off by less
/// than 2^-22 of itself, and so is z's share; the sum and the product round. CUDA's tanh is closer.
pub fn machine_tanh(y: f64) -> Range {
    Range::near(y.tanh(), 2f64.powi(-20))
}

/// A quotient by the machine's reciprocal, which is off by less than 2^-22 of itself, and a product that rounds.
pub fn machine_quotient(dividend: f64, divisor: Range) -> Range {
    divisor.map(|divisor| dividend / divisor).widened(1.25 * 2f64.powi(-22))
}

/// A quotient of f32 by the machine's reciprocal and a step of Newton's: the next value is near enough.
pub fn corrected_quotient(dividend: f64, divisor: Range) -> Range {
    let quotient = divisor.map(|divisor| f64::from(dividend as f32 / divisor as f32));
    let next = |v: f64, by: i64| if v.is_finite() && v != 0.0 { F32.float(F32.step(F32.round_bits(v), by)) } else { v };
    Range { low: next(quotient.low, -1), high: next(quotient.high, 1), ..quotient }
}

/// What only moves or makes bits: every bit counts, a NaN's too.
const MOVES: &[&str] =
    &["ucopy", "copy2d", "fill", "const_set", "where", "is", "gather", "s", "eq", "ne", "lt", "le", "gt", "ge"];

/// What calls a maths library. Everything else is equal to the bit, but for the bits of a NaN.
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

/// The closeness of a kernel root (`badd`, `cast`, ...) that calls no library, in a dtype.
pub fn close(root: &str, t: Type) -> Close {
    if MOVES.contains(&root) || !t.is_float() { Close::Bits } else { Close::Value }
}

/// What a launch by name may write, element by element, from its arguments as they were before it. None for a kernel that
/// calls no library.
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

/// A kernel name's root and its last dtype: `cast_f32_f8_e4m3` is `cast` and f8e4m3, `where_u8_f32` `where` and f32.
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
