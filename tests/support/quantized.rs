//! Quantized blocks in plain Rust: the value of every element of a block, as the comments of kernels/quantized/blocks.h
//! define it. Also the error bounds against Candle's kernels of the module `quantized`.
use super::compare::{Close, compare};
use super::number::{F16, F32};
use candle_rocm_sys::sys;
use std::ffi::CString;

/// A block format of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// The name as it appears in kernel names.
    pub name: &'static str,
    /// Elements of a block.
    pub elements: usize,
    /// Bytes of a block.
    pub bytes: usize,
}

const fn format(name: &'static str, elements: usize, bytes: usize) -> Format {
    Format { name, elements, bytes }
}

pub const FORMATS: [Format; 11] = [
    format("q4_0", 32, 18),
    format("q4_1", 32, 20),
    format("q5_0", 32, 22),
    format("q5_1", 32, 24),
    format("q8_0", 32, 34),
    format("q2_K", 256, 84),
    format("q3_K", 256, 110),
    format("q4_K", 256, 144),
    format("q5_K", 256, 176),
    format("q6_K", 256, 210),
    format("q8_K", 256, 292),
];

/// The launchers' number of a format.
pub fn quant(format: Format) -> sys::crk_quant_t {
    let (name, mut quant) = (CString::new(format.name).expect("a name"), sys::crk_quant_t(0));
    // SAFETY: live arguments.
    super::succeeded(unsafe { sys::crk_quant_from_name(name.as_ptr(), &mut quant) }).expect("a format");
    quant
}

/// One element: `scale * code - minimum`. In f32 each part is exact, and so is the product, except for q8_K. Only the
/// difference rounds.
#[derive(Debug, Clone, Copy)]
pub struct Element {
    pub scale: f32,
    pub code: f32,
    pub minimum: f32,
}

impl Element {
    pub fn value(self) -> f32 {
        self.scale * self.code - self.minimum
    }
}

/// An f16 from two little-endian bytes.
pub fn half(bytes: &[u8], at: usize) -> f32 {
    F16.float(u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))) as f32
}

fn bit(bytes: &[u8], index: usize) -> u8 {
    bytes[index / 8] >> (index % 8) & 1
}

/// The 6-bit scale and minimum of group `g` of 8, as q4_K and q5_K pack them into 12 bytes.
fn scale_and_minimum(packed: &[u8], g: usize) -> (f32, f32) {
    let (scale, minimum) = if g < 4 {
        (packed[g] & 63, packed[g + 4] & 63)
    } else {
        (packed[g + 4] & 15 | packed[g - 4] >> 6 << 4, packed[g + 4] >> 4 | packed[g] >> 6 << 4)
    };
    (scale.into(), minimum.into())
}

/// The 6-bit scale of group `g` of 16, as q3_K packs it.
fn q3_scale(packed: &[u8], g: usize) -> f32 {
    let low = if g < 8 { packed[g] & 15 } else { packed[g - 8] >> 4 };
    let high = packed[8 + g % 4] >> (2 * (g / 4)) & 3;
    f32::from(low | high << 4) - 32.0
}

impl Format {
    pub fn named(name: &str) -> Option<Format> {
        FORMATS.into_iter().find(|format| format.name.eq_ignore_ascii_case(name))
    }

    /// Element `i` of a block. For formats with an offset, the code includes it.
    pub fn element(self, block: &[u8], i: usize) -> Element {
        // For the 32-wide formats: four bits of element i, and its fifth bit. `at` is where the codes begin.
        let nibble = |at: usize| if i < 16 { block[at + i] & 15 } else { block[at + i - 16] >> 4 };
        let fifth = |at: usize| bit(&block[at..], i) << 4;
        // For the other formats: the half of 128, the group of 32 in it, and the place in that; then the group of 16
        // and of 32 in the block.
        let (a, b, c) = (i / 128, i / 32 % 4, i % 32);
        let (g16, g32) = (i / 16, i / 32);
        let two_bits = |at: usize| block[at + 32 * a + c] >> (2 * b) & 3;
        let element = |scale: f32, code: f32, minimum: f32| Element { scale, code, minimum };
        match self.name {
            "q4_0" => element(half(block, 0), f32::from(nibble(2)) - 8.0, 0.0),
            "q4_1" => element(half(block, 0), nibble(4).into(), -half(block, 2)),
            "q5_0" => element(half(block, 0), f32::from(nibble(6) | fifth(2)) - 16.0, 0.0),
            "q5_1" => element(half(block, 0), (nibble(8) | fifth(4)).into(), -half(block, 2)),
            "q8_0" => element(half(block, 0), (block[2 + i] as i8).into(), 0.0),
            "q2_K" => {
                let (d, dmin, scale) = (half(block, 80), half(block, 82), block[g16]);
                element(d * f32::from(scale & 15), two_bits(16).into(), dmin * f32::from(scale >> 4))
            }
            "q3_K" => {
                let low = if block[c] >> (4 * a + b) & 1 == 0 { 4.0 } else { 0.0 };
                element(half(block, 108) * q3_scale(&block[96..], g16), f32::from(two_bits(32)) - low, 0.0)
            }
            "q4_K" | "q5_K" => {
                let (scale, minimum) = scale_and_minimum(&block[4..], g32);
                let codes = if self.name == "q4_K" { 16 } else { 48 };
                let code = block[codes + 32 * (i / 64) + c] >> (4 * (g32 % 2)) & 15;
                let high = if self.name == "q5_K" { (block[16 + c] >> g32 & 1) << 4 } else { 0 };
                element(half(block, 0) * scale, (code | high).into(), half(block, 2) * minimum)
            }
            "q6_K" => {
                let low = block[64 * a + 32 * (b & 1) + c] >> (4 * (b / 2)) & 15;
                let high = block[128 + 32 * a + c] >> (2 * b) & 3;
                let scale = f32::from(block[192 + g16] as i8);
                element(half(block, 208) * scale, f32::from(low | high << 4) - 32.0, 0.0)
            }
            "q8_K" => {
                let d = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
                element(d, (block[4 + i] as i8).into(), 0.0)
            }
            other => panic!("{other} is no format"),
        }
    }

    /// The elements of a sequence of blocks.
    pub fn elements(self, blocks: &[u8]) -> Vec<Element> {
        let block = |block| (0..self.elements).map(move |i| self.element(block, i));
        blocks.chunks_exact(self.bytes).flat_map(block).collect()
    }

    /// The value that the element-wise kernels give. Candle's dequantize_block_q4_0 computes d * code - 8 * d, and its
    /// other kernels compute d * (code - 8). The two differ in the sign of a zero and where d is infinite. `fused`
    /// selects the first.
    pub fn value(self, element: Element, fused: bool) -> f32 {
        if fused && self.name == "q4_0" {
            let d = element.scale;
            return d * (element.code + 8.0) - 8.0 * d;
        }
        element.value()
    }

    /// Whether each group has a minimum, which is subtracted from its elements.
    pub fn has_minimum(self) -> bool {
        matches!(self.name, "q4_1" | "q5_1" | "q2_K" | "q4_K" | "q5_K")
    }

    pub fn row_bytes(self, elements: usize) -> usize {
        elements / self.elements * self.bytes
    }
}

/// Activations: f32 numbers, or q8_1 blocks of 32 elements in 36 bytes: d, s, codes.
#[derive(Clone, Copy)]
pub enum Activations<'a> {
    F32(&'a [f32]),
    Q8(&'a [u8]),
}

/// The q8_1 blocks of the launchers' own products: instead of a sum of numbers, s is d times the sum of the codes.
pub fn with_sums_of_codes(mut q8_1: Vec<u8>) -> Vec<u8> {
    for block in q8_1.chunks_exact_mut(36) {
        let codes: i32 = block[4..].iter().map(|code| i32::from(*code as i8)).sum();
        let sum = f64::from(half(block, 0)) * f64::from(codes);
        F16.put(block, 1, F16.round_bits(sum));
    }
    q8_1
}

/// A row of weights times activations: the result, and the sum of the absolute products of the blocks. Rounding errors
/// are relative to that sum. As in Candle, the `s` of a q8_1 block multiplies the minima and the offsets of the 32-wide
/// formats.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dot {
    pub value: f64,
    pub magnitude: f64,
}

impl Dot {
    pub fn add(&mut self, product: f64) {
        self.value += product;
        self.magnitude += product.abs();
    }
}

pub fn dot(format: Format, row: &[u8], activations: Activations) -> Dot {
    let mut dot = Dot::default();
    for (g, group) in format.elements(row).chunks_exact(16).enumerate() {
        let (scale, minimum) = (f64::from(group[0].scale), f64::from(group[0].minimum));
        match activations {
            Activations::F32(y) => {
                for (element, y) in group.iter().zip(&y[16 * g..]) {
                    dot.add(f64::from(element.value()) * f64::from(*y));
                }
            }
            Activations::Q8(blocks) => {
                let block = &blocks[36 * (g / 2)..36 * (g / 2) + 36];
                let (d, s) = (f64::from(half(block, 0)), f64::from(half(block, 2)));
                let codes = block[4..].iter().skip(16 * (g % 2)).take(16).map(|code| f64::from(*code as i8));
                let offset = match format.name {
                    "q4_0" => 8.0,
                    "q5_0" => 16.0,
                    _ => 0.0,
                };
                let product: f64 = group.iter().zip(codes.clone()).map(|(e, y)| (f64::from(e.code) + offset) * y).sum();
                dot.add(scale * d * product);
                // In a block of 32, each half takes half of s. The K formats sum the codes instead.
                let sum = if format.elements == 32 { s / 2.0 } else { d * codes.sum::<f64>() };
                dot.add(-(scale * offset + minimum) * sum);
            }
        }
    }
    dot
}

/// An argument of a launch in a case.
pub enum Given<'a> {
    Scalar(u64),
    Bytes(&'a [u8]),
}

impl Given<'_> {
    pub fn bytes(&self) -> Result<&[u8], String> {
        match self {
            Given::Bytes(bytes) => Ok(bytes),
            Given::Scalar(_) => Err("a buffer is expected".into()),
        }
    }

    pub fn number(&self) -> Result<usize, String> {
        match self {
            Given::Scalar(bits) => Ok(*bits as usize),
            Given::Bytes(_) => Err("a number is expected".into()),
        }
    }
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Compares dot products. They may differ by 1e-5 of the sum of the blocks' absolute products; NaN must match NaN.
pub fn compare_dots(got: &[f32], expected: &[f32], magnitude: impl Fn(usize) -> f64) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!("{} numbers where {} are expected", got.len(), expected.len()));
    }
    for (i, (&g, &e)) in got.iter().zip(expected).enumerate() {
        if g == e || g.is_nan() && e.is_nan() {
            continue;
        }
        let (bound, off) = (1e-5 * magnitude(i), (f64::from(g) - f64::from(e)).abs());
        if off.is_nan() || bound.is_nan() || off > bound {
            return Err(format!("first [{i}]: got {g:e}, expected {e:e}, off by {off:e} where {bound:e} is allowed"));
        }
    }
    Ok(())
}

/// Compares q8_1 blocks made from the rows of `x` with `k` elements each, padded to `padded`. d may differ by one step
/// of f16. s may differ by the rounding of a sum of 32 in f32 and one step. Codes may differ only at ties.
pub fn compare_q8_1(x: &[f32], k: usize, padded: usize, got: &[u8], expected: &[u8]) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!("{} bytes where {} are expected", got.len(), expected.len()));
    }
    for (block, (g, e)) in got.chunks_exact(36).zip(expected.chunks_exact(36)).enumerate() {
        let (row, first) = (block * 32 / padded, block * 32 % padded);
        let value = |i: usize| if first + i < k { f64::from(x[row * k + first + i]) } else { 0.0 };
        let scale = |b: &[u8], at: usize| F16.get(&b[at..at + 2], 0);
        let close = |at: usize, absolute: f64| {
            let (g, e) = (scale(g, at), scale(e, at));
            let near = (F16.float(g) - F16.float(e)).abs() <= absolute;
            if near || F16.ulps(g, e).is_some_and(|ulps| ulps <= 1) {
                return Ok(());
            }
            Err(format!("block {block}, byte {at}: got {}, expected {}", F16.show(g), F16.show(e)))
        };
        let total: f64 = (0..32).map(|i| value(i).abs()).sum();
        close(0, 0.0)?;
        close(2, total * 5.0 * f64::from(f32::EPSILON))?;
        let d = (0..32).map(|i| value(i).abs()).fold(0.0, f64::max) / 127.0;
        for i in 0..32 {
            let (g, e) = (g[4 + i] as i8, e[4 + i] as i8);
            let quotient = value(i) / d;
            let tie = ((quotient.abs().fract() - 0.5).abs() <= 1e-4) && g.abs_diff(e) == 1;
            if g != e && !tie {
                return Err(format!("block {block}, code {i}: got {g}, expected {e}, of {quotient}"));
            }
        }
    }
    Ok(())
}

/// Compares the output of one of the module's kernels with that of Candle's, for the given arguments.
pub fn compare_output(kernel: &str, args: &[Given], got: &[u8], expected: &[u8]) -> Result<(), String> {
    let arg = |i: usize| args.get(i).ok_or_else(|| format!("{kernel} has no argument {i}"));
    let bytes = |i: usize| arg(i)?.bytes();
    let number = |i: usize| arg(i)?.number();
    let format = |name: &str| Format::named(name).ok_or_else(|| format!("{name} is no format"));
    if kernel.starts_with("dequantize_block_") {
        let t = if kernel.ends_with("_f16") { F16 } else { F32 };
        return compare(t, Close::Value, got, expected);
    }
    if kernel.starts_with("get_rows_") {
        return compare(F32, Close::Value, got, expected);
    }
    if kernel == "quantize_q8_1" {
        return compare_q8_1(&floats(bytes(0)?), number(2)?, number(3)?, got, expected);
    }
    // The other kernels are dot products. Finds the row of the weights and the activations behind each number of dst.
    let (got, expected) = (floats(got), floats(expected));
    let weights = bytes(0)?;
    if let Some(name) = kernel.strip_prefix("dequantize_mul_mat_vec_") {
        let (format, cols) = (format(name.trim_end_matches("_cuda"))?, number(3)?);
        let (y, row) = (floats(bytes(1)?), format.row_bytes(cols));
        return compare_dots(&got, &expected, |i| {
            dot(format, &weights[i * row..(i + 1) * row], Activations::F32(&y)).magnitude
        });
    }
    let q8 = bytes(1)?;
    let columns = |format: Format, cols: usize, padded: usize, rows: usize| {
        compare_dots(&got, &expected, |i| {
            let (row, column) = (i % rows * format.row_bytes(cols), i / rows * (padded / 32 * 36));
            dot(format, &weights[row..row + format.row_bytes(cols)], Activations::Q8(&q8[column..])).magnitude
        })
    };
    if let Some(name) = kernel.strip_prefix("mul_mat_vec_") {
        let name = name.split("_q8_1_cuda").next().unwrap_or(name);
        return columns(format(name)?, number(3)?, number(5)?, number(6)?);
    }
    if let Some(name) = kernel.strip_prefix("mul_mat_") {
        return columns(format(name)?, number(3)?, number(6)?, number(7)?);
    }
    if let Some(name) = kernel.strip_prefix("indexed_moe_forward_") {
        // q4k_q8_1 and q8_0_q8_1
        let name = name.trim_end_matches("_q8_1");
        let format = format(name).or_else(|_| format(&name.replace('k', "_K")))?;
        let (n, k, topk, padded, dim1) = (number(4)?, number(5)?, number(7)?, number(8)?, number(9)?);
        let (ids, row) = (bytes(2)?, format.row_bytes(k));
        return compare_dots(&got, &expected, |i| {
            let (slot, r) = (i / n, i % n);
            let expert = super::number::U32.get(ids, slot) as usize;
            let input = if dim1 == 1 { slot / topk } else { slot };
            let at = (expert * n + r) * row;
            dot(format, &weights[at..at + row], Activations::Q8(&q8[input * (padded / 32 * 36)..])).magnitude
        });
    }
    Err(format!("{kernel}: how close is equal?"))
}
