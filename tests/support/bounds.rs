//! How close is equal, an op and a dtype at a time: the one table. docs/parity.md shows it to people.
use super::compare::Close;
use super::number::{BF16, F8, F16, F32, F64, Type};

/// One op's bounds against Candle's CUDA kernels: units in the last place for bf16, f16, f32, f64 and f8e4m3. What is not here
/// is equal to the bit but for the bits of a NaN.
///
/// Two vendors' libraries meet here, so that a bound is no less than the error either may have. f32 and f64: the largest error
/// that CUDA's programming guide states for the function (in "Mathematical Functions"; what was seen is less), 2 for the f32
/// logarithm of AMD's library, one more where a formula rounds again. f16 and bf16 are computed in f32: one step where that
/// lands on the other side of a tie, two where a rounded step follows.
struct Bound {
    root: &'static str,
    ulps: [u64; 5],
    /// Or an absolute difference, in epsilons of the type, for formulas that subtract numbers near 1, exp(x) - 1 and
    /// 1 + tanh(y): the last place of 1 is many of the result's.
    epsilons: f64,
    /// Or an absolute difference outright, in every type: what is computed in f32 whatever the type is, and then subtracted.
    absolute: f64,
    /// Or an absolute difference in smallest subnormal numbers of the type: x * normcdf(x) has |x| of them where one
    /// step of a subnormal normcdf lies.
    subnormals: [f64; 5],
}

const fn ulps(root: &'static str, ulps: [u64; 5]) -> Bound {
    Bound { root, ulps, epsilons: 0.0, absolute: 0.0, subnormals: [0.0; 5] }
}

const BOUNDS: &[Bound] = &[
    ulps("uexp", [1, 1, 2, 1, 0]),
    ulps("ulog", [1, 1, 2, 1, 0]),
    ulps("usin", [1, 1, 2, 2, 0]),
    ulps("ucos", [1, 1, 2, 2, 0]),
    ulps("utanh", [1, 1, 2, 2, 0]),
    ulps("uerf", [1, 1, 2, 2, 0]),
    ulps("unormcdf", [1, 1, 5, 5, 0]),
    ulps("upowf", [1, 1, 4, 2, 0]),
    ulps("usigmoid", [1, 2, 3, 2, 0]),
    ulps("usilu", [1, 2, 3, 2, 0]),
    Bound { subnormals: [16.0, 6.0, 16.0, 40.0, 0.0], ..ulps("ugelu_erf", [2, 2, 5, 5, 0]) },
    Bound { epsilons: 1.0, ..ulps("ugelu", [1, 1, 2, 2, 0]) },
    Bound { epsilons: 1.0, ..ulps("uelu", [1, 1, 2, 1, 0]) },
    // The order of sums is Candle's, so that exp and the reciprocal square root are all that differs. softmax: exp's bound,
    // and one step each for the sum of such terms and for the product. Norms: the f32 root's 2 of CUDA and 1 of AMD's, twice
    // where the product's last place is half as large; f64 outputs are f32 numbers. layernorm adds beta to them.
    ulps("softmax", [2, 2, 4, 3, 0]),
    ulps("rmsnorm", [1, 1, 6, 6 << 29, 0]),
    Bound { absolute: 4.0 / 8_388_608.0, ..ulps("layernorm", [1, 1, 6, 6 << 29, 0]) },
];

/// What only moves or makes bits: every bit counts, a NaN's too.
const MOVES: &[&str] =
    &["ucopy", "copy2d", "fill", "const_set", "where", "is", "gather", "s", "eq", "ne", "lt", "le", "gt", "ge"];

/// The closeness of a kernel root (`uexp`, `badd`, `cast`, ...) in a dtype.
pub fn close(root: &str, t: Type) -> Close {
    if MOVES.contains(&root) || !t.is_float() {
        return Close::Bits;
    }
    let column = [BF16, F16, F32, F64, F8].iter().position(|column| *column == t).expect("a float");
    match BOUNDS.iter().find(|bound| bound.root == root) {
        Some(bound) if bound.ulps[column] > 0 => {
            // Epsilon and the smallest subnormal number as powers of two: bf16, f16, f32, f64.
            let (epsilon, subnormal) = [(-7, -133), (-10, -24), (-23, -149), (-52, -1074)][column];
            let small = bound.epsilons * 2f64.powi(epsilon) + bound.subnormals[column] * 2f64.powi(subnormal);
            let absolute = small + bound.absolute;
            Close::Within { ulps: bound.ulps[column], absolute }
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
    let root = ["cast", "where", "is", "gather", "s", "sa", "ia"]
        .into_iter()
        .find(|root| rest.starts_with(&format!("{root}_")))
        .unwrap_or(rest);
    Some((root, t))
}
