//! Sums: the order in which Candle's kernels add, where it is defined, and the largest difference of two sums with
//! undefined order.
use super::number::Type;
use super::quantized::Given;

/// Adds the chains of a block in a tree that halves their number at each step. A butterfly over the lanes of a group
/// adds in this order too.
pub fn tree<S: Copy>(mut chains: Vec<S>, join: impl Fn(S, S) -> S) -> S {
    let mut half = chains.len() / 2;
    while half > 0 {
        for i in 0..half {
            chains[i] = join(chains[i], chains[i + half]);
        }
        half /= 2;
    }
    chains[0]
}

/// Butterflies over groups of 32, and one butterfly over their results. Returns the first lane's value.
pub fn butterflies<S: Copy>(chains: Vec<S>, zero: S, join: impl Fn(S, S) -> S) -> S {
    let mut groups: Vec<S> = chains.chunks(32).map(|group| tree(group.to_vec(), &join)).collect();
    groups.resize(32, zero);
    tree(groups, join)
}

/// The largest difference in `t` of two sums of the same `count` terms in any order. Each sum's error is at most (count
/// - 1) half epsilons of the terms' magnitudes, and one more if the result is rounded from a wider type.
pub fn tolerance(t: Type, count: usize, magnitude: f64) -> f64 {
    let epsilon = match t.name {
        "bf16" => -7,
        "f16" => -10,
        "f32" => -23,
        "f64" => -52,
        _ => -3,
    };
    count as f64 * 2f64.powi(epsilon) * magnitude
}

/// Compares the results of sum_T, which adds atomically to a buffer of zeros. Its arguments are: numel, rank, summed
/// dims; dims, strides, lengths and place values; src, dst.
pub fn compare_atomic(t: Type, given: &[Given], got: &[u8], expected: &[u8]) -> Result<(), String> {
    let (numel, rank, summed) = (given[0].number()?, given[1].number()?, given[2].number()?);
    let info: Vec<usize> =
        given[3].bytes()?.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap()) as usize).collect();
    let (dims, strides) = (&info[..rank], &info[rank..2 * rank]);
    let (lengths, places) = info[2 * rank..].split_at(summed);
    let (src, count) = (given[4].bytes()?, got.len() / t.bytes);
    let (mut terms, mut magnitude, mut special) = (vec![0usize; count], vec![0f64; count], vec![false; count]);
    for i in 0..numel {
        let (mut rest, mut at) = (i, 0);
        for d in (0..rank).rev() {
            at += rest % dims[d] * strides[d];
            rest /= dims[d];
        }
        let to = lengths.iter().zip(places).fold(i, |to, (length, place)| to / place / length * place + to % place);
        let x = t.float(t.get(src, at));
        terms[to] += 1;
        special[to] |= !x.is_finite();
        magnitude[to] += x.abs();
    }
    for i in 0..count {
        let (g, e) = (t.get(got, i), t.get(expected, i));
        let off = (t.float(g) - t.float(e)).abs();
        let same = g == e || t.is_nan(g) && t.is_nan(e);
        let close = t.is_float() && !special[i] && off <= tolerance(t, terms[i], magnitude[i]);
        if !same && !close {
            return Err(format!("[{i}]: got {}, expected {}, a sum of {} terms", t.show(g), t.show(e), terms[i]));
        }
    }
    Ok(())
}
