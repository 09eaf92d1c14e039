//! Decides whether two results count as equal.
use super::number::Type;
use super::reference::Expected;

/// How closely two results must agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Close {
    /// The same bits.
    Bits,
    /// The same bits, or both NaN.
    Value,
}

impl Close {
    fn holds(self, t: Type, got: u64, expected: u64) -> bool {
        if got == expected {
            return true;
        }
        match self {
            Close::Bits => false,
            Close::Value => t.is_nan(got) && t.is_nan(expected),
        }
    }
}

/// Compares two buffers of `t`. An error tells how many elements differ, the first of them, and the largest distance.
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

/// Checks our results and Candle's against the values that both may have.
pub fn compare_within(t: Type, expected: &[Expected], ours: &[u8], theirs: &[u8]) -> Result<(), String> {
    if ours.len() != theirs.len() || ours.len() != expected.len() * t.bytes {
        return Err(format!(
            "{} bytes, {} of Candle's, where {} elements are expected",
            ours.len(),
            theirs.len(),
            expected.len()
        ));
    }
    for (i, expected) in expected.iter().enumerate() {
        let (ours, theirs) = (t.get(ours, i), t.get(theirs, i));
        if !expected.admits(t, ours) || !expected.admits(t, theirs) {
            let (ours, theirs) = (t.show(ours), t.show(theirs));
            return Err(format!("[{i}]: got {ours}, Candle's is {theirs}, expected {}", expected.show(t)));
        }
    }
    Ok(())
}
