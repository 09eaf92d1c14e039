//! Code that the tests of products with quantized weights share: random operands, and the error bound of a product.
use super::cases::Rng;
use super::number::{BF16, F16, F32, Type};
use super::property::Outcome;
use super::quantized::{FORMATS, Format};

/// The dtypes of activations and results.
pub const FLOATS: [Type; 3] = [F32, F16, BF16];

/// The length of a row, for every format. The kernels for one column multiply a chunk of a row at once. Rows are short,
/// half a chunk long, a block longer than that, or longer than a chunk.
pub fn row_length(rng: &mut Rng) -> usize {
    256 * rng.pick(&[1, 2, 3, 8, 9, 17])
}

/// The formats with an integer product.
pub fn formats() -> impl Iterator<Item = Format> {
    FORMATS.into_iter().filter(|format| format.name != "q8_K")
}

/// The offsets of a block's f16 scales.
pub fn scales_at(format: Format) -> &'static [usize] {
    match format.name {
        "q4_1" | "q5_1" | "q4_K" | "q5_K" => &[0, 2],
        "q2_K" => &[80, 82],
        "q3_K" => &[108],
        "q6_K" => &[208],
        _ => &[0],
    }
}

/// Blocks of random bytes with finite scales.
pub fn blocks(rng: &mut Rng, format: Format, count: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..count * format.bytes).map(|_| rng.next() as u8).collect();
    for block in bytes.chunks_exact_mut(format.bytes) {
        for &at in scales_at(format) {
            // Sometimes an extreme scale, or 0.
            let scale = match rng.below(16) {
                0 => 0.0,
                1 => 6e-8,
                2 => 1000.0,
                _ => (rng.unit() - 0.5) * 0.1,
            };
            block[at..at + 2].copy_from_slice(&(F16.round_bits(scale) as u16).to_le_bytes());
        }
    }
    bytes
}

pub fn activations(rng: &mut Rng, t: Type, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count * t.bytes];
    let scale = rng.pick(&[1.0, 1.0, 30.0, 1e-3]);
    for i in 0..count {
        let x = if rng.one_in(9) { 0.0 } else { (rng.unit() - 0.4) * scale };
        t.put(&mut bytes, i, t.round_bits(x));
    }
    bytes
}

/// The exact value of an element, and the sum of the absolute products of the blocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected {
    pub value: f64,
    pub magnitude: f64,
}

impl Expected {
    pub fn add(&mut self, product: f64) {
        self.value += product;
        self.magnitude += product.abs();
    }
}

/// Compares element by element. `expected(i)` belongs to element i.
pub fn compare(t: Type, got: &[u8], expected: impl Fn(usize) -> Expected) -> Outcome {
    for i in 0..got.len() / t.bytes {
        let (got, expected) = (t.float(t.get(got, i)), expected(i));
        // A value too large for f16 rounds to infinity, which is then the right result.
        let rounded = t.float(t.round_bits(expected.value));
        let spacing = match t.bytes {
            4 => 0.0,
            _ if t == F16 => (expected.value.abs() * 2f64.powi(-10)).max(2f64.powi(-24)),
            _ => expected.value.abs() * 2f64.powi(-7),
        };
        let bound = expected.magnitude * 1e-5 + spacing + 1e-37;
        // One near f16's limit may round to infinity too.
        let near_overflow = t == F16 && (expected.value.abs() - 65520.0).abs() <= bound;
        let overflows = near_overflow && got == f64::INFINITY.copysign(expected.value);
        // A NaN is outside every bound.
        let within = (got - expected.value).abs() <= bound;
        if got != rounded && !within && !overflows {
            return Err(format!("[{i}]: got {got}, expected {} within {bound:e}", expected.value));
        }
    }
    Ok(())
}
