//! How close is equal, an op and a dtype at a time: the one table. docs/parity.md shows it to people.
use super::compare::Close;
use super::number::{BF16, F8, F16, F32, F64, Type};

/// One op's bounds against Candle's CUDA kernels: units in the last place for bf16, f16, f32, f64 and f8e4m3, and for f32
/// and f64 an absolute difference in epsilons of the type. What is not here is equal to the bit but for the bits of a NaN.
struct Bound {
    root: &'static str,
    ulps: [u64; 5],
    /// For formulas that subtract numbers near 1, exp(x) - 1 and 1 + tanh(y): the last place of 1 is many of the result's.
    epsilons: f64,
}

const fn ulps(root: &'static str, ulps: [u64; 5]) -> Bound {
    Bound { root, ulps, epsilons: 0.0 }
}

const BOUNDS: &[Bound] = &[
    ulps("uexp", [0, 0, 2, 1, 0]),
    ulps("ulog", [0, 0, 1, 1, 0]),
    ulps("usin", [0, 0, 1, 1, 0]),
    ulps("ucos", [0, 0, 1, 1, 0]),
    ulps("utanh", [0, 0, 2, 2, 0]),
    ulps("uerf", [0, 0, 1, 1, 0]),
    ulps("unormcdf", [0, 0, 3, 2, 0]),
    ulps("upowf", [0, 0, 1, 1, 0]),
    ulps("usigmoid", [0, 0, 2, 2, 0]),
    ulps("usilu", [0, 0, 1, 2, 0]),
    ulps("ugelu_erf", [0, 0, 3, 3, 0]),
    Bound { root: "ugelu", ulps: [0, 0, 2, 2, 0], epsilons: 1.0 },
    Bound { root: "uelu", ulps: [0, 0, 1, 1, 0], epsilons: 1.0 },
];

/// What only moves or makes bits: every bit counts, a NaN's too.
const MOVES: &[&str] = &["ucopy", "copy2d", "fill", "const_set", "where", "eq", "ne", "lt", "le", "gt", "ge"];

/// The closeness of a kernel root (`uexp`, `badd`, `cast`, ...) in a dtype.
pub fn close(root: &str, t: Type) -> Close {
    if MOVES.contains(&root) || !t.is_float() {
        return Close::Bits;
    }
    let column = [BF16, F16, F32, F64, F8].iter().position(|column| *column == t).expect("a float");
    match BOUNDS.iter().find(|bound| bound.root == root) {
        Some(bound) if bound.ulps[column] > 0 => {
            let epsilon = if t == F64 { f64::EPSILON } else { f32::EPSILON.into() };
            Close::Within { ulps: bound.ulps[column], absolute: bound.epsilons * epsilon }
        }
        _ => Close::Value,
    }
}

/// A kernel name's root and its last dtype: `cast_f32_f8_e4m3` is `cast` and f8e4m3, `where_u8_f32` `where` and f32.
pub fn root_of(kernel: &str) -> Option<(&str, Type)> {
    let (rest, t) = super::number::TYPES.iter().find_map(|t| {
        let spellings: &[&str] = if *t == F8 { &["_f8e4m3", "_fp8_e4m3", "_f8_e4m3"] } else { &[] };
        let plain = kernel.strip_suffix(t.name).and_then(|rest| rest.strip_suffix('_'));
        spellings.iter().find_map(|s| kernel.strip_suffix(s)).or(plain).map(|rest| (rest, *t))
    })?;
    let root = ["cast", "where"].into_iter().find(|root| rest.starts_with(&format!("{root}_"))).unwrap_or(rest);
    Some((root, t))
}
