//! When two results are equal.
use super::number::Type;

/// How close is equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Close {
    /// The same bits.
    Bits,
    /// The same bits, or both NaN.
    Value,
    /// At most so many units in the last place apart, or at most so much, or both NaN.
    Within { ulps: u64, absolute: f64 },
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
            Close::Within { ulps, absolute } => {
                let difference = (t.float(got) - t.float(expected)).abs();
                t.ulps(got, expected).is_some_and(|distance| distance <= ulps || difference <= absolute)
            }
        }
    }
}

/// Compares two buffers of `t`. On failure: how many elements differ, the first of them, and how far the worst is off.
pub fn compare(t: Type, close: Close, got: &[u8], expected: &[u8]) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!("{} bytes where {} are expected", got.len(), expected.len()));
    }
    let count = got.len() / t.bytes;
    let pairs = (0..count).map(|i| (i, t.get(got, i), t.get(expected, i)));
    let wrong: Vec<_> = pairs.filter(|&(_, g, e)| !close.holds(t, g, e)).collect();
    let Some(&(first, g, e)) = wrong.first() else { return Ok(()) };
    let distance = |(_, g, e): &(usize, u64, u64)| if t.is_float() { t.ulps(*g, *e) } else { None };
    let worst = match wrong.iter().filter_map(distance).max() {
        Some(ulps) => format!("; the worst by {ulps} ulp"),
        None => String::new(),
    };
    Err(format!(
        "{} of {count} elements differ ({close:?}); first [{first}]: got {}, expected {}{worst}",
        wrong.len(),
        t.show(g),
        t.show(e)
    ))
}
