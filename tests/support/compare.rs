//! When two results are equal.
use super::number::Type;

/// How close is equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Close {
    /// The same bits.
    Bits,
    /// The same bits, or both NaN.
    Value,
    /// At most so many units in the last place apart, or both NaN.
    Ulps(u64),
}

impl Close {
    fn holds(self, t: Type, got: u64, expected: u64) -> bool {
        if got == expected {
            return true;
        }
        match self {
            Close::Bits => false,
            Close::Value => t.is_nan(got) && t.is_nan(expected),
            // A NaN on one side has no distance, and is within no bound.
            Close::Ulps(bound) => t.is_float() && t.ulps(got, expected).is_some_and(|distance| distance <= bound),
        }
    }
}

/// Compares two buffers of `t`. On failure: how many elements differ, and the first of them.
pub fn compare(t: Type, close: Close, got: &[u8], expected: &[u8]) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!("{} bytes where {} are expected", got.len(), expected.len()));
    }
    let count = got.len() / t.bytes;
    let mut wrong = (0..count).filter(|&i| !close.holds(t, t.get(got, i), t.get(expected, i)));
    let Some(first) = wrong.next() else { return Ok(()) };
    let (g, e) = (t.get(got, first), t.get(expected, first));
    let distance = match t.is_float().then(|| t.ulps(g, e)).flatten() {
        Some(distance) => format!(", {distance} ulp apart"),
        None => String::new(),
    };
    Err(format!(
        "{} of {count} elements differ ({close:?}); first [{first}]: got {}, expected {}{distance}",
        1 + wrong.count(),
        t.show(g),
        t.show(e)
    ))
}
