//! The error bounds of Candle's static launchers: the value of each output, and the magnitude of its terms.
use super::compare::{Close, compare};
use super::number::{BF16, F16, F32, I32, Type, U8};
use super::quantized::{Activations, Dot, Format, Given, compare_q8_1, dot, half};

/// The numbers of a float type.
fn numbers(t: Type, bytes: &[u8]) -> Vec<f32> {
    (0..bytes.len() / t.bytes).map(|i| t.float(t.get(bytes, i)) as f32).collect()
}

/// Compares sums. They may differ by 1e-5 of the sum of the blocks' absolute products and by one rounding of the type;
/// NaN must match NaN. If `magnitude` is None, the element must not have been written.
fn compare_sums(t: Type, got: &[u8], expected: &[u8], magnitude: impl Fn(usize) -> Option<f64>) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!("{} bytes where {} are expected", got.len(), expected.len()));
    }
    for i in 0..got.len() / t.bytes {
        let (g, e) = (t.get(got, i), t.get(expected, i));
        if g == e || t.is_nan(g) && t.is_nan(e) {
            continue;
        }
        let (a, b) = (t.float(g), t.float(e));
        let bound = 1e-5 * magnitude(i).unwrap_or(0.0);
        // Rounding moves a sum near the midpoint of two numbers at most to the next number.
        let step = if t == F32 { 0.0 } else { (t.float(e + 1) - b).abs().max((t.float(e.max(1) - 1) - b).abs()) };
        let off = (a - b).abs();
        if off.is_nan() || off > bound + step {
            return Err(format!(
                "[{i}]: got {a:e}, expected {b:e}, off by {off:e} where {:e} is allowed",
                bound + step
            ));
        }
    }
    Ok(())
}

/// The activations of candle-kernels' mat-mat: blocks of 128 elements, with 16 bytes of scales and sums and 128 codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Four f32 scales.
    D4,
    /// Four pairs of f16: scale and sum.
    DS4,
    /// Two f16 scales, then the sums of the first six groups of 16.
    D2S6,
}

impl Layout {
    /// The layout that a format's mat-mat takes.
    pub fn of(format: Format) -> Layout {
        match format.name {
            "q4_0" | "q4_1" | "q5_1" | "q4_K" | "q5_K" => Layout::DS4,
            "q2_K" => Layout::D2S6,
            _ => Layout::D4,
        }
    }

    /// The scale of the group `g` of 16 in a block of 128.
    pub fn scale(self, block: &[u8], g: usize) -> f64 {
        match self {
            Layout::D4 => F32.float(F32.get(block, g / 2)),
            Layout::DS4 => half(block, g / 2 * 4).into(),
            Layout::D2S6 => half(block, g / 4 * 2).into(),
        }
    }

    /// The sum of the numbers of group `g` of 16; for DS4, half the sum of its group of 32. None if the block has no
    /// sum.
    pub fn sum(self, block: &[u8], g: usize) -> Option<f64> {
        match self {
            Layout::D4 => None,
            Layout::DS4 => Some(f64::from(half(block, g / 2 * 4 + 2)) / 2.0),
            Layout::D2S6 => (g < 6).then(|| half(block, 4 + 2 * g).into()),
        }
    }
}

/// A row of weights times column `column` of `columns` columns in mat-mat blocks.
pub fn dot_blocks(format: Format, row: &[u8], y: &[u8], columns: usize, column: usize) -> Dot {
    let layout = Layout::of(format);
    let mut dot = Dot::default();
    for (g, group) in format.elements(row).chunks_exact(16).enumerate() {
        let block = &y[(g / 8 * columns + column) * 144..][..144];
        let codes = || block[16 + g % 8 * 16..].iter().map(|code| f64::from(*code as i8));
        let d = layout.scale(block, g % 8);
        let product: f64 = group.iter().zip(codes()).map(|(e, y)| f64::from(e.code) * y).sum();
        dot.add(f64::from(group[0].scale) * d * product);
        let sum = layout.sum(block, g % 8).unwrap_or_else(|| d * codes().take(16).sum::<f64>());
        dot.add(-f64::from(group[0].minimum) * sum);
    }
    dot
}

/// Compares mat-mat blocks bit for bit. A NaN sum may have other bits.
fn compare_blocks(layout: Layout, got: &[u8], expected: &[u8]) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!("{} bytes where {} are expected", got.len(), expected.len()));
    }
    compare(U8, Close::Bits, &got[got.len() / 144 * 144..], &expected[expected.len() / 144 * 144..])?;
    let head = if layout == Layout::D4 { F32 } else { F16 };
    for (at, (g, e)) in got.chunks_exact(144).zip(expected.chunks_exact(144)).enumerate() {
        compare(head, Close::Value, &g[..16], &e[..16])
            .and_then(|()| compare(U8, Close::Bits, &g[16..], &e[16..]))
            .map_err(|problem| format!("block {at}: {problem}"))?;
    }
    Ok(())
}

const EXPERT_FORMATS: [&str; 6] = ["q8_0", "q4_K", "q2_K", "q3_K", "q5_K", "q6_K"];

/// The numbers of one row of an expert's weights, which are of a format or of a float type.
fn weight_row(weights: &[u8], format: Result<Format, Type>, row: usize, k: usize) -> Vec<f64> {
    match format {
        Ok(format) => {
            let bytes = format.row_bytes(k);
            format.elements(&weights[row * bytes..][..bytes]).iter().map(|e| f64::from(e.value())).collect()
        }
        Err(t) => (0..k).map(|i| t.float(t.get(weights, row * k + i))).collect(),
    }
}

/// Compares argument `index` of a static launcher after the call with Candle's, for the given arguments.
pub fn compare_output(function: &str, index: usize, args: &[Given], got: &[u8], expected: &[u8]) -> Result<(), String> {
    let bytes = |i: usize| args[i].bytes();
    let number = |i: usize| args[i].number();
    let format = |name: &str| Format::named(name).ok_or_else(|| format!("{name} is no format"));
    let float = |name: &str| Type::named(name).ok_or_else(|| format!("{name} is no type"));
    if let Some(t) = function.strip_prefix("launch_mmvq_gguf_quantize_q8_1_") {
        return compare_q8_1(&numbers(float(t)?, bytes(0)?), number(2)?, number(3)?, got, expected);
    }
    if let Some(layout) = function.strip_prefix("launch_mmq_quantize_q8_1_") {
        let layout = match layout {
            "D4" => Layout::D4,
            "DS4" => Layout::DS4,
            _ => Layout::D2S6,
        };
        return compare_blocks(layout, got, expected);
    }
    if let Some(name) = function.strip_prefix("launch_mmvq_gguf_") {
        let (name, t) = name.trim_end_matches("_plain").rsplit_once('_').ok_or("no dtype")?;
        let (format, cols, rows) = (format(name)?, number(3)?, number(4)?);
        let (y_stride, dst_stride, columns) = (number(5)?, number(6)?, number(7)?);
        let (weights, y, row_bytes) = (bytes(0)?, bytes(1)?, format.row_bytes(cols));
        return compare_sums(float(t)?, got, expected, |i| {
            let (row, column) = (i % dst_stride, i / dst_stride);
            let weights = (row < rows && column < columns).then(|| &weights[row * row_bytes..][..row_bytes])?;
            Some(dot(format, weights, Activations::Q8(&y[column * y_stride * 36..])).magnitude)
        });
    }
    if let Some(name) = function.strip_prefix("launch_mmq_gguf_") {
        let (format, cols, rows, columns) = (format(name)?, number(4)?, number(5)?, number(6)?);
        let (row_stride, dst_stride) = (number(7)? * format.bytes, number(8)?);
        let (weights, y, row_bytes) = (bytes(1)?, bytes(2)?, format.row_bytes(cols));
        return compare_sums(F32, got, expected, |i| {
            let (row, column) = (i % dst_stride, i / dst_stride);
            let weights = (row < rows && column < columns).then(|| &weights[row * row_stride..][..row_bytes])?;
            Some(dot_blocks(format, weights, y, columns, column).magnitude)
        });
    }
    // Mixtures of experts: dst[token][n] belongs to the expert at the token's place in the sorted list.
    let dense = function == "moe_gemm_wmma";
    if dense && index > 5 {
        return if got == expected { Ok(()) } else { Err(format!("got {got:?}, expected {expected:?}")) };
    }
    let first = if dense { 8 } else { 6 };
    let (topk, n, k) = (number(first + 1)?, number(first + 3)?, number(first + 4)?);
    let sixteen = |i: usize| Ok::<_, String>(if number(i)? == 0 { F16 } else { BF16 });
    let (x_type, weights_type, dst_type) = match function {
        "moe_gemm_wmma" => (sixteen(13)?, Err(sixteen(13)?), sixteen(13)?),
        "moe_gemm_gguf_prefill" => (sixteen(11)?, Ok(format(EXPERT_FORMATS[number(12)?])?), F32),
        _ => (F32, Ok(format(EXPERT_FORMATS[number(11)?])?), F32),
    };
    // Candle's f16 results are the bit patterns of the right results, read as integers and converted to f16
    // (docs/parity.md).
    let mut as_candle = got.to_vec();
    if dense && dst_type == F16 {
        for i in 0..got.len() / 2 {
            F16.put(&mut as_candle, i, F16.round_bits(F16.get(got, i) as f64));
        }
    }
    let x = numbers(x_type, bytes(0)?);
    let (weights, tokens, experts) = (bytes(1)?, bytes(2)?, bytes(3)?);
    let scales = bytes(4).map(|bytes| numbers(F32, bytes)).ok();
    compare_sums(dst_type, &as_candle, expected, |i| {
        let (token, row) = (i / n, i % n);
        let place = (0..tokens.len() / 4).find(|&p| I32.get(tokens, p) as usize == token)?;
        let expert = I32.get(experts, place) as usize;
        let input = if scales.is_some() { token } else { token / topk };
        let weights = weight_row(weights, weights_type, expert * n + row, k);
        let products = weights.chunks(16).zip(x[input * k..][..k].chunks(16));
        let size: f64 = products.map(|(w, x)| w.iter().zip(x).map(|(w, x)| w * f64::from(*x)).sum::<f64>().abs()).sum();
        Some(size * scales.as_ref().map_or(1.0, |scales| f64::from(scales[token]).abs()))
    })
}
