//! Attention in f64, straight from the formula of the header, and the error that the header allows.
use super::plan::Plan;
use crate::support::number::{BF16, F16, Type};

/// The numbers of a call, by their places: sequence, head (of the queries, or of the keys), token.
pub trait Numbers {
    fn q(&self, sequence: usize, head: usize, query: usize) -> &[f32];
    fn k(&self, sequence: usize, kv_head: usize, key: usize) -> &[f32];
    fn v(&self, sequence: usize, kv_head: usize, key: usize) -> &[f32];
    /// What is added to the score; None hides the key.
    fn mask(&self, sequence: usize, head: usize, query: usize, key: usize) -> Option<f64>;
    /// Whether all values of a head are the same: then the roundings of a sum all go the same way.
    fn has_equal_values(&self) -> bool {
        false
    }
    /// Whether the device may take a subnormal f16 for 0: the matrix cores of gfx90a do.
    fn flushes(&self) -> bool {
        false
    }
    fn slope(&self, sequence: usize, head: usize) -> f64;
    /// Ranges of keys, [begin, end).
    fn prefixes(&self, sequence: usize) -> &[(i64, i64)];
}

/// A row of the result, and how far from it the device's row may be.
pub struct Row {
    pub dst: Vec<f64>,
    pub slack: Vec<f64>,
    pub lse: f64,
    pub lse_slack: f64,
    /// Every score is -infinity although the query sees keys: the formula is 0 / 0, and zeros are right too.
    pub is_undefined: bool,
}

/// Whether a query sees a key by its window and the prefixes. `place` is the query's.
pub fn is_in_window(plan: &Plan, prefixes: &[(i64, i64)], place: i64, key: usize) -> bool {
    let key = key as i64;
    let right = if plan.causal { Some(0) } else { plan.right };
    let starts = plan.left.is_none_or(|left| place - left as i64 <= key);
    let ends = right.is_none_or(|right| key <= place + right as i64);
    starts && ends || prefixes.iter().any(|&(begin, end)| (begin..end).contains(&place) && (begin..end).contains(&key))
}

/// The relative error of e^(score - maximum) that the second product may have.
fn weight_error(t: Type) -> f64 {
    match t {
        F16 => 2f64.powi(-11),
        BF16 => 2f64.powi(-8),
        _ => 2f64.powi(-20),
    }
}

/// The smallest normal f16.
const LEAST_NORMAL: f32 = 1.0 / (1 << 14) as f32;

/// What the weight of a faint key may lose in f16, as a part of the largest weight. That one is 2^6 or more, and halves
/// below 2^-14 are multiples of 2^-24, or 0 if they are flushed.
fn faint_error(t: Type, flushes: bool) -> f64 {
    match t {
        F16 => 2f64.powi(if flushes { -20 } else { -30 }),
        _ => 0.0,
    }
}

/// Two half-units in the last place of `value`.
fn unit(t: Type, value: f64) -> f64 {
    let (bits, least) = match t {
        F16 => (10, -24),
        BF16 => (7, -126),
        _ => (23, -126),
    };
    let exponent = if value.is_finite() && value != 0.0 { value.abs().log2().floor() as i32 } else { -200 };
    2f64.powi((exponent - bits).max(least))
}

struct Score {
    key: usize,
    score: f64,
    error: f64,
}

/// The scores of the keys that a query sees, and the errors that they may have: sums and terms are in f32.
fn scores(plan: &Plan, numbers: &impl Numbers, sequence: usize, head: usize, query: usize) -> Vec<Score> {
    let (queries, keys) = plan.lengths[sequence];
    let place = query as i64 + keys as i64 - queries as i64;
    let kv_head = head / plan.group;
    let (x, slope, prefixes) =
        (numbers.q(sequence, head, query), numbers.slope(sequence, head), numbers.prefixes(sequence));
    let mut scores = Vec::new();
    for key in 0..keys {
        if !is_in_window(plan, prefixes, place, key) {
            continue;
        }
        let Some(added) = numbers.mask(sequence, head, query, key) else { continue };
        let y = numbers.k(sequence, kv_head, key);
        let (sum, size) = x.iter().zip(y).fold((0.0, 0.0), |(sum, size), (a, b)| {
            let product = f64::from(*a) * f64::from(*b);
            (sum + product, size + product.abs())
        });
        let scale = f64::from(plan.scale);
        let mut score = scale * sum;
        let mut error = plan.d as f64 * 2f64.powi(-23) * scale.abs() * size;
        if numbers.flushes() {
            let subnormal = |(a, b): &(&f32, &f32)| a.abs() < LEAST_NORMAL || b.abs() < LEAST_NORMAL;
            let flushed = x.iter().zip(y).filter(subnormal).map(|(a, b)| f64::from((a * b).abs())).sum::<f64>();
            error += scale.abs() * flushed;
        }
        if plan.softcap != 0.0 {
            let cap = f64::from(plan.softcap);
            score = cap * (score / cap).tanh();
            error = if size.is_finite() { error } else { 0.0 } + cap * 2f64.powi(-20);
        }
        let bias = slope * (place - key as i64).abs() as f64;
        if added.is_finite() {
            error += 4.0 * 2f64.powi(-23) * (added.abs() + bias.abs());
        }
        scores.push(Score { key, score: score + added - bias, error });
    }
    scores
}

/// The row of a query.
pub fn row(plan: &Plan, numbers: &impl Numbers, sequence: usize, head: usize, query: usize) -> Row {
    let scores = scores(plan, numbers, sequence, head, query);
    let dv = plan.dv;
    // max ignores a NaN.
    let most =
        scores.iter().fold(f64::NEG_INFINITY, |most, s| if s.score.is_nan() { s.score } else { most.max(s.score) });
    let is_nan = scores.iter().any(|s| s.score.is_nan()) || most == f64::INFINITY;
    if is_nan {
        let nan = vec![f64::NAN; dv];
        return Row { slack: nan.clone(), dst: nan, lse: f64::NAN, lse_slack: 0.0, is_undefined: false };
    }
    if most == f64::NEG_INFINITY {
        let zeros = vec![0.0; dv];
        return Row { slack: zeros.clone(), dst: zeros, lse: most, lse_slack: 0.0, is_undefined: !scores.is_empty() };
    }
    let count = scores.len() as f64;
    let worst = scores.iter().filter(|s| s.score > most - 100.0).fold(0.0, |worst: f64, s| worst.max(s.error));
    // The header allows 2^-24 for each key. Roundings of different numbers mostly cancel each other.
    let of_sums = if numbers.has_equal_values() { count * 2f64.powi(-24) } else { count.sqrt() * 2f64.powi(-23) };
    let relative = weight_error(plan.t) + of_sums + count * 2f64.powi(-28);
    let faint = faint_error(plan.t, numbers.flushes());
    let (mut sum, mut dst, mut slack) = (0.0, vec![0.0; dv], vec![0.0; dv]);
    for Score { key, score, error } in scores {
        let weight = (score - most).exp();
        sum += weight;
        let value = numbers.v(sequence, head / plan.group, key);
        // A weight of 0 changes the row only where the value is no finite number.
        if weight == 0.0 && value.iter().all(|v| v.is_finite()) {
            continue;
        }
        let off = if weight == 0.0 { 0.0 } else { weight * (relative + (error + worst).exp_m1()) };
        let off = if weight < 1.001 * 2f64.powi(-20) { off + weight.min(faint) } else { off };
        for ((dst, slack), v) in dst.iter_mut().zip(&mut slack).zip(value) {
            let v = f64::from(*v);
            *dst += weight * v;
            let flushed = numbers.flushes() && v.abs() < LEAST_NORMAL.into();
            *slack += (off + if flushed { weight } else { 0.0 }) * v.abs();
        }
    }
    for (dst, slack) in dst.iter_mut().zip(&mut slack) {
        *dst /= sum;
        *slack = *slack / sum + unit(plan.t, *dst);
    }
    let lse = most + sum.ln();
    // The sum of weights is in f32. A lane adds 8 weights or more at once, so that it rounds once for as many keys.
    let lse_slack = worst + 2f64.powi(-20) + lse.abs() * 2f64.powi(-22) + count * 2f64.powi(-28);
    Row { dst, slack, lse, lse_slack, is_undefined: false }
}

/// Whether a result is within its bound. Where the exact result is infinite, a NaN is right too: a weight that is too
/// small for its type is 0, and 0 times an infinite value is NaN.
pub fn admits(got: f64, exact: f64, slack: f64, is_undefined: bool) -> bool {
    if exact.is_nan() || is_undefined && got.is_nan() {
        return got.is_nan();
    }
    if exact.is_infinite() {
        return got == exact || got.is_nan();
    }
    (got - exact).abs() <= slack
}
