//! How close is equal, an op and a dtype at a time: the one table. docs/parity.md shows it to people.
use super::compare::Close;
use super::number::{BF16, F16, F32, F64, F8, Type};

/// Bounds in units in the last place against Candle's CUDA kernels, for bf16, f16, f32, f64, f8e4m3. What is not here is
/// equal to the bit but for the bits of a NaN.
const ULPS: &[(&str, [u64; 5])] = &[
    ("uexp", [1, 1, 2, 1, 0]),
];

/// What only moves or makes bits: every bit counts, a NaN's too.
const MOVES: &[&str] = &["ucopy", "copy2d", "fill", "const_set", "where", "eq", "ne", "lt", "le", "gt", "ge"];

/// The closeness of a kernel root (`uexp`, `badd`, `cast`, ...) in a dtype.
pub fn close(root: &str, t: Type) -> Close {
    if MOVES.contains(&root) || !t.is_float() {
        return Close::Bits;
    }
    let column = [BF16, F16, F32, F64, F8].iter().position(|column| *column == t).expect("a float");
    match ULPS.iter().find(|(name, _)| *name == root) {
        Some((_, bounds)) if bounds[column] > 0 => Close::Ulps(bounds[column]),
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
