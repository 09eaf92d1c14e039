//! Intervals: what a number may be after steps that round and functions that are off by a little.

/// A number as it should be, and the least and the greatest that it may be. Where it should be NaN, so are both.
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

    /// `value`, or what is at most `off` from it.
    pub fn near(value: f64, off: f64) -> Range {
        let off = if value.is_finite() { off } else { 0.0 };
        Range { value, low: value - off, high: value + off }
    }

    /// `f` of the number. `f` is monotone, rounding included, so that its results lie between those of the ends.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Range {
        self.with(Range::exact(0.0), |a, _| f(a))
    }

    /// `f` of both numbers, monotone in each.
    pub fn with(self, other: Range, f: impl Fn(f64, f64) -> f64) -> Range {
        let value = f(self.value, other.value);
        let ends = [(self.low, other.low), (self.low, other.high), (self.high, other.low), (self.high, other.high)];
        // min and max pass over a NaN.
        let (low, high) = ends.into_iter().fold((value, value), |(low, high), (a, b)| {
            let end = f(a, b);
            (low.min(end), high.max(end))
        });
        if value.is_nan() { Range::exact(value) } else { Range { value, low, high } }
    }

    /// The same, and what is at most `relative` of the number beyond the ends.
    pub fn widened(self, relative: f64) -> Range {
        let off = |end: f64| if end.is_finite() { end.abs() * relative } else { 0.0 };
        Range { low: self.low - off(self.low), high: self.high + off(self.high), ..self }
    }
}
