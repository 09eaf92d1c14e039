//! Decides whether two results of a case agree, within what their contracts allow.
use super::Case;
use candle_rocm_sys::DType;

/// The largest allowed difference between our result and that of Candle's kernel, where their contracts differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Agreement {
    /// The same bits; NaN matches NaN.
    Bits,
    /// At most this many units in the last place.
    Ulps(u64),
    /// At most this share of the largest magnitude nearby, that is, among [`NEARBY`] consecutive elements.
    Share(f64),
}

pub const NEARBY: usize = 256;

/// The difference of two results.
#[derive(Clone, Copy, PartialEq)]
pub enum Apart {
    Same,
    Ulp(u64),
    /// Within this share of the largest magnitude nearby.
    Share(f64),
    /// Beyond what the case allows, at this element.
    Wrong(usize),
}

impl std::fmt::Display for Apart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Apart::Same => write!(f, "same bits"),
            Apart::Ulp(ulp) => write!(f, "{ulp} ulp"),
            Apart::Share(share) => write!(f, "within {share:.0e}"),
            Apart::Wrong(at) => write!(f, "DIFFER at {at}"),
        }
    }
}

/// A float's bits as an integer with the same order.
fn ordered(bits: u64, width: u32) -> i64 {
    let sign = 1u64 << (width - 1);
    if bits & sign != 0 { -((bits & (sign - 1)) as i64) } else { bits as i64 }
}

fn number(bits: u64, dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f32::from_bits(bits as u32).into(),
        DType::F16 => half::f16::from_bits(bits as u16).into(),
        DType::BF16 => half::bf16::from_bits(bits as u16).into(),
        _ => bits as f64,
    }
}

/// The difference of two results of the same elements.
pub fn apart(case: &Case, ours: &[u8], theirs: &[u8]) -> Apart {
    let (dtype, width) = (case.dst_dtype, case.dst_dtype.size());
    let bits = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let pairs = ours.chunks_exact(width).zip(theirs.chunks_exact(width)).map(|(a, b)| (bits(a), bits(b)));
    let magnitudes =
        |nearby: &[u8]| nearby.chunks_exact(width).map(|b| number(bits(b), dtype).abs()).collect::<Vec<_>>();
    let largest = |nearby| magnitudes(nearby).into_iter().filter(|b| b.is_finite()).fold(0.0, f64::max);
    let largest: Vec<f64> = theirs.chunks(NEARBY * width).map(largest).collect();
    let (mut ulps, mut share) = (0, 0.0f64);
    for (i, (a, b)) in pairs.enumerate() {
        let (x, y) = (number(a, dtype), number(b, dtype));
        if a == b || (x.is_nan() && y.is_nan()) || (x == y && case.agreement != Agreement::Bits) {
            continue;
        }
        let apart = (x - y).abs() / largest[i / NEARBY];
        match case.agreement {
            Agreement::Bits => return Apart::Wrong(i),
            Agreement::Share(most) if apart.is_nan() || apart > most => return Apart::Wrong(i),
            Agreement::Ulps(most) => {
                let ulp = ordered(a, 8 * width as u32).abs_diff(ordered(b, 8 * width as u32));
                if ulp > most || x.is_nan() != y.is_nan() {
                    return Apart::Wrong(i);
                }
                ulps = ulps.max(ulp);
            }
            Agreement::Share(_) => share = share.max(apart),
        }
    }
    match () {
        () if ulps > 0 => Apart::Ulp(ulps),
        () if share > 0.0 => Apart::Share(share),
        () => Apart::Same,
    }
}

impl Apart {
    /// The difference over two pieces together.
    pub fn and(self, other: Apart) -> Apart {
        match (self, other) {
            (Apart::Ulp(a), Apart::Ulp(b)) => Apart::Ulp(a.max(b)),
            (Apart::Share(a), Apart::Share(b)) => Apart::Share(a.max(b)),
            (Apart::Same, other) | (other, Apart::Same) => other,
            (wrong, _) => wrong,
        }
    }
}
