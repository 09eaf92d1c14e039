//! softmax, rmsnorm and layernorm by Candle's names in plain Rust, with Candle's order of sums and its roundings
//! (docs/parity.md). Only exp and the reciprocal square root may differ between devices.
use super::bounds::{library, machine_exp};
use super::number::{BF16, F16, F32, F64, Type};
use super::range::Range;
use super::reference::Expected;
use super::sums::{butterflies, tree};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    Softmax,
    RmsNorm,
    LayerNorm,
}

impl Op {
    pub const ALL: [(Op, &'static str); 3] =
        [(Op::Softmax, "softmax"), (Op::RmsNorm, "rmsnorm"), (Op::LayerNorm, "layernorm")];

    pub fn named(root: &str) -> Option<Op> {
        Op::ALL.into_iter().find(|(_, name)| *name == root).map(|(op, _)| op)
    }
}

/// The values that a kernel may return for a row when `threads` threads compute its sums. `params` are alpha and beta.
pub fn named(op: Op, t: Type, x: &[u64], params: [Option<&[u64]>; 2], threads: usize, eps: f32) -> Vec<Expected> {
    let narrowed = |range: Range| Expected::within(t, range.map(|v| t.round(v)));
    if op == Op::Softmax {
        return softmax(t, x, threads).into_iter().map(narrowed).collect();
    }
    // The computation is in f32, for f64 too.
    let x: Vec<f32> = x.iter().map(|bits| t.float(*bits) as f32).collect();
    let (count, mut sums, mut squares) = (x.len() as f32, vec![0f32; threads], vec![0f32; threads]);
    for (i, &x) in x.iter().enumerate() {
        sums[i % threads] += x;
        squares[i % threads] = x.mul_add(x, squares[i % threads]);
    }
    let mean_square = butterflies(squares, 0.0, |a, b| a + b) / count;
    let (mean, variance) = match op {
        Op::LayerNorm => {
            let mean = butterflies(sums, 0.0, |a, b| a + b) / count;
            (mean, (-mean).mul_add(mean, mean_square))
        }
        _ => (0.0, mean_square),
    };
    let root = library("rsqrt", F32, 1.0 / f64::from(variance + eps).sqrt());
    let param = |of: usize, i: usize| params[of].map(|row| t.float(row[i]) as f32);
    let result = |(i, x): (usize, &f32)| {
        let scaled = root.map(|root| ((x - mean) * root as f32).into());
        narrowed(match (param(0, i), param(1, i)) {
            (None, None) => scaled,
            (Some(alpha), None) => scaled.map(|v| (v as f32 * alpha).into()),
            (None, Some(beta)) => root.map(|root| (x - mean).mul_add(root as f32, beta).into()),
            (Some(alpha), Some(beta)) => scaled.map(|v| (v as f32).mul_add(alpha, beta).into()),
        })
    };
    x.iter().enumerate().map(result).collect()
}

/// The difference from the maximum, its exp, the reciprocal of the sum and the product round to the type. The sum is in
/// f32 or f64.
fn softmax(t: Type, x: &[u64], threads: usize) -> Vec<Range> {
    let (half, wide) = (t == F16 || t == BF16, if t == F64 { F64 } else { F32 });
    let x: Vec<f64> = x.iter().map(|bits| t.float(*bits)).collect();
    // f32 and f64 drop a NaN here; f16 and bf16 keep it.
    let greater = |a: f64, b: f64| if half && (a.is_nan() || b.is_nan()) { f64::NAN } else { a.max(b) };
    let most = x.iter().copied().fold(f64::NEG_INFINITY, greater);
    let power = |x: &f64| {
        let difference = t.round(x - most);
        if half { machine_exp(difference).map(|v| t.round(v)) } else { library("exp", t, difference.exp()) }
    };
    let powers: Vec<Range> = x.iter().map(power).collect();
    let add = |a: Range, b: Range| a.with(b, |a, b| wide.round(a + b));
    let mut sums = vec![Range::exact(0.0); threads];
    powers.iter().enumerate().for_each(|(i, power)| sums[i % threads] = add(sums[i % threads], *power));
    let scale = tree(sums, add).map(|sum| t.round(wide.round(1.0 / sum)));
    powers.into_iter().map(|power| power.with(scale, |a, b| t.round(a * b))).collect()
}
