//! Intervals: the values that a number may have after steps that round and functions with a small error.

/// The exact number, and the smallest and the largest value allowed for it. If the number is NaN, so are both.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Range {
    pub fn exact(value: f64) -> Range {
        Range { value, low: value, high: value }
    }

    /// The values at most `off` from `value`.
    pub fn near(value: f64, off: f64) -> Range {
        let off = if value.is_finite() { off } else { 0.0 };
        Range { value, low: value - off, high: value + off }
    }

    /// Applies `f`. It must be monotone, rounding included, so that its results are between those of the ends.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Range {
        self.with(Range::exact(0.0), |a, _| f(a))
    }

    /// Applies `f` to two numbers. It must be monotone in each.
    pub fn with(self, other: Range, f: impl Fn(f64, f64) -> f64) -> Range {
        let value = f(self.value, other.value);
        let ends = [(self.low, other.low), (self.low, other.high), (self.high, other.low), (self.high, other.high)];
        // min and max ignore a NaN.
        let (low, high) = ends.into_iter().fold((value, value), |(low, high), (a, b)| {
            let end = f(a, b);
            (low.min(end), high.max(end))
        });
        if value.is_nan() { Range::exact(value) } else { Range { value, low, high } }
    }

    /// Moves both ends out by `relative` of their value.
    pub fn widened(self, relative: f64) -> Range {
        let off = |end: f64| if end.is_finite() { end.abs() * relative } else { 0.0 };
        Range { low: self.low - off(self.low), high: self.high + off(self.high), ..self }
    }
}
