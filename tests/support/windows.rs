//! Convolutions, pools and upsampling in plain Rust. Each output is computed by itself, in the order that the header
//! promises.
use super::number::{F64, Type, U8, U32, add_to_odd};
use super::reference::Expected;

/// A sum in the kernels' arithmetic. Narrow floats use f32 with fused multiply-add; integers wrap.
#[derive(Debug, Clone, Copy)]
pub enum Sum {
    Single(f32),
    Double(f64),
    Integer(u64),
}

impl Sum {
    pub fn new(t: Type) -> Sum {
        match t {
            _ if !t.is_float() => Sum::Integer(0),
            _ if t == F64 => Sum::Double(0.0),
            _ => Sum::Single(0.0),
        }
    }

    pub fn add_product(&mut self, t: Type, a: u64, b: u64) {
        match self {
            Sum::Single(sum) => *sum = (t.float(a) as f32).mul_add(t.float(b) as f32, *sum),
            Sum::Double(sum) => *sum = t.float(a).mul_add(t.float(b), *sum),
            Sum::Integer(sum) => *sum = sum.wrapping_add((t.int(a) as u64).wrapping_mul(t.int(b) as u64)),
        }
    }

    fn add(&mut self, t: Type, a: u64) {
        match self {
            Sum::Single(sum) => *sum += t.float(a) as f32,
            Sum::Double(sum) => *sum += t.float(a),
            Sum::Integer(sum) => *sum = sum.wrapping_add(t.int(a) as u64),
        }
    }

    pub fn bits(self, t: Type) -> u64 {
        match self {
            Sum::Single(sum) => t.round_bits(sum.into()),
            Sum::Double(sum) => sum.to_bits(),
            Sum::Integer(sum) => t.wrap(sum.into()),
        }
    }
}

/// A tensor in row-major order, as `Operand::elements` returns it.
pub struct Values<'a> {
    pub dims: &'a [usize],
    pub bits: &'a [u64],
}

impl Values<'_> {
    pub fn at(&self, index: &[usize]) -> u64 {
        self.bits[index.iter().zip(self.dims).fold(0, |sum, (i, dim)| sum * dim + i)]
    }
}

/// How a window moves along a dim.
#[derive(Debug, Clone, Copy)]
pub struct Slide {
    pub stride: usize,
    pub padding: usize,
    pub output_padding: usize,
    pub dilation: usize,
}

impl Slide {
    /// The number of windows. None if a window does not fit.
    pub fn size(&self, size: usize, window: usize) -> Option<usize> {
        let room = (size + 2 * self.padding).checked_sub(self.dilation * (window - 1) + 1)?;
        Some(room / self.stride + 1)
    }

    pub fn transpose_size(&self, size: usize, window: usize) -> Option<usize> {
        let whole = (size.checked_sub(1)?) * self.stride + self.dilation * (window - 1) + self.output_padding + 1;
        whole.checked_sub(2 * self.padding)
    }

    /// The input under tap `k` of the window at output `x`.
    pub fn input(&self, x: usize, k: usize, size: usize) -> Option<usize> {
        (x * self.stride + k * self.dilation).checked_sub(self.padding).filter(|at| *at < size)
    }

    /// The input that contributes to output `x` of a transposed convolution through tap `k`.
    fn source(&self, x: usize, k: usize, size: usize) -> Option<usize> {
        let from = (x + self.padding).checked_sub(k * self.dilation)?;
        (from % self.stride == 0 && from / self.stride < size).then_some(from / self.stride)
    }
}

/// The height of a 1-D op: images and windows have one row.
pub const FLAT: Slide = Slide { stride: 1, padding: 0, output_padding: 0, dilation: 1 };

/// Convolves (b, c, h, w) with a kernel (c_out, c_in / groups, h_k, w_k), or (c_in, c_out / groups, h_k, w_k) if
/// `transposed`.
pub fn convolve(
    t: Type,
    (transposed, groups): (bool, usize),
    (src, kernel): (&Values, &Values),
    (down, across): (Slide, Slide),
    (h_out, w_out): (usize, usize),
) -> Vec<Expected> {
    let (s, k) = (src.dims, kernel.dims);
    let c_out = if transposed { k[1] * groups } else { k[0] };
    let (inputs, outputs) = (s[1] / groups, c_out / groups); // of a group
    let place = |slide: Slide, x, tap, size| {
        if transposed { slide.source(x, tap, size) } else { slide.input(x, tap, size) }
    };
    let mut result = Vec::new();
    for b in 0..s[0] {
        for o in 0..c_out {
            for y in 0..h_out {
                for x in 0..w_out {
                    let mut sum = Sum::new(t);
                    for k_x in 0..k[3] {
                        for k_y in 0..k[2] {
                            let at = place(across, x, k_x, s[3]).zip(place(down, y, k_y, s[2]));
                            for c in 0..at.map_or(0, |_| inputs) {
                                let (x, y) = at.expect("inside");
                                let input = o / outputs * inputs + c;
                                let (from, to) = if transposed { (input, o % outputs) } else { (o, c) };
                                sum.add_product(t, src.at(&[b, input, y, x]), kernel.at(&[from, to, k_y, k_x]));
                            }
                        }
                    }
                    result.push(Expected::exactly(sum.bits(t)));
                }
            }
        }
    }
    result
}

/// The result (b, h_out, w_out, c, h_k, w_k) from (b, c, h, w).
pub fn im2col(
    src: &Values,
    (h_k, w_k): (usize, usize),
    (down, across): (Slide, Slide),
    (h_out, w_out): (usize, usize),
) -> Vec<Expected> {
    let s = src.dims;
    let mut result = Vec::new();
    for i in 0..s[0] * h_out * w_out * s[1] * h_k * w_k {
        let (k_x, k_y, c) = (i % w_k, i / w_k % h_k, i / (w_k * h_k) % s[1]);
        let at = i / (w_k * h_k * s[1]);
        let (x, y, b) = (at % w_out, at / w_out % h_out, at / (w_out * h_out));
        let inside = across.input(x, k_x, s[3]).zip(down.input(y, k_y, s[2]));
        result.push(Expected::moved(inside.map_or(0, |(x, y)| src.at(&[b, c, y, x]))));
    }
    result
}

/// The result (b, c, l_out) from (b, l_in, c, k).
pub fn col2im1d(t: Type, src: &Values, stride: usize, l_out: usize) -> Vec<Expected> {
    let s = src.dims;
    let add = |a: u64, b: u64| match t {
        _ if !t.is_float() => t.wrap(t.int(a) + t.int(b)),
        _ if t.bytes == 4 => u64::from((t.float(a) as f32 + t.float(b) as f32).to_bits()),
        _ if t == F64 => (t.float(a) + t.float(b)).to_bits(),
        _ => t.round_bits(add_to_odd(t.float(a), t.float(b))),
    };
    let mut result = Vec::new();
    for n in 0..s[0] * s[2] * l_out {
        let (l, c, b) = (n % l_out, n / l_out % s[2], n / (l_out * s[2]));
        let taps = (0..s[1]).rev().filter(|i| i * stride <= l && l - i * stride < s[3]);
        let sum = taps.fold(0, |sum, i| add(sum, src.at(&[b, i, c, l - i * stride])));
        result.push(Expected::exactly(sum));
    }
    result
}

/// The average of a window's elements. A sum of doubles is multiplied by `factor`.
pub fn average(t: Type, window: &[u64], factor: f64) -> u64 {
    let mut sum = Sum::new(t);
    for x in window {
        sum.add(t, *x);
    }
    let single = (1.0 / window.len() as f64) as f32;
    match sum {
        Sum::Single(sum) => t.round_bits((sum * single).into()),
        Sum::Double(sum) => (sum * factor).to_bits(),
        Sum::Integer(sum) if t == U8 || t == U32 => t.wrap(((t.wrap(sum.into()) as f32 * single) as u32).into()),
        Sum::Integer(sum) => t.wrap(if window.len() == 1 { sum.into() } else { 0 }),
    }
}

/// The maximum of a window's elements.
pub fn greatest(t: Type, window: &[u64]) -> u64 {
    let keeps_nan = matches!(t.name, "f16" | "bf16");
    let larger = |a: u64, b: u64| match t {
        _ if !t.is_float() => t.int(a) >= t.int(b),
        _ if t.name == "f8e4m3" => t.float(a).partial_cmp(&t.float(b)) != Some(std::cmp::Ordering::Less),
        _ if t.is_nan(a) => keeps_nan,
        _ if t.is_nan(b) => !keeps_nan,
        _ => t.float(a) >= t.float(b),
    };
    window.iter().copied().reduce(|a, b| if larger(a, b) { a } else { b }).expect("a window")
}

/// Calls a function for every window of (b, c, h, w), in the order of the outputs.
pub fn pool(
    src: &Values,
    (h_k, w_k): (usize, usize),
    (h_stride, w_stride): (usize, usize),
    (h_out, w_out): (usize, usize),
    of: impl Fn(&[u64]) -> u64,
) -> Vec<Expected> {
    let s = src.dims;
    let mut result = Vec::new();
    for i in 0..s[0] * s[1] * h_out * w_out {
        let (x, y, at) = (i % w_out, i / w_out % h_out, i / (w_out * h_out));
        let taps = (0..h_k * w_k).map(|k| (y * h_stride + k / w_k, x * w_stride + k % w_k));
        let window: Vec<u64> = taps.map(|(y, x)| src.at(&[at / s[1], at % s[1], y, x])).collect();
        result.push(Expected::exactly(of(&window)));
    }
    result
}

pub fn nearest(src: &Values, (h_out, w_out): (usize, usize)) -> Vec<Expected> {
    let s = src.dims;
    let index = |x: usize, size: usize, out: usize| ((x as f64 * (size as f64 / out as f64)) as usize).min(size - 1);
    let mut result = Vec::new();
    for i in 0..s[0] * s[1] * h_out * w_out {
        let (x, y, at) = (index(i % w_out, s[3], w_out), index(i / w_out % h_out, s[2], h_out), i / (w_out * h_out));
        result.push(Expected::moved(src.at(&[at / s[1], at % s[1], y, x])));
    }
    result
}

pub fn bilinear(
    t: Type,
    src: &Values,
    (h_out, w_out): (usize, usize),
    align_corners: bool,
    (h_factor, w_factor): (f64, f64),
) -> Vec<Expected> {
    let s = src.dims;
    // The elements on both sides of the position, and its distance from the first.
    let between = |x: usize, size: usize, out: usize, factor: f64| {
        let position = if align_corners {
            let step = if out > 1 { (size - 1) as f64 / (out - 1) as f64 } else { 0.0 };
            step * x as f64
        } else {
            let step = if factor == 0.0 { size as f64 / out as f64 } else { 1.0 / factor };
            step.mul_add(x as f64 + 0.5, -0.5)
        };
        let position = position.max(0.0);
        let low = (position as usize).min(size - 1);
        (low, (low + 1).min(size - 1), (position - low as f64).clamp(0.0, 1.0))
    };
    let mix = |low: f64, high: f64, weight: f64| low.mul_add(1.0 - weight, high * weight);
    let mut result = Vec::new();
    for i in 0..s[0] * s[1] * h_out * w_out {
        let x = between(i % w_out, s[3], w_out, w_factor);
        let (y, at) = (between(i / w_out % h_out, s[2], h_out, h_factor), i / (w_out * h_out));
        let row = |y: usize| {
            let value = |x: usize| t.float(src.at(&[at / s[1], at % s[1], y, x]));
            mix(value(x.0), value(x.1), x.2)
        };
        let value = mix(row(y.0), row(y.1), y.2);
        let bits = match t.name {
            "f8e4m3" => t.round_bits((value as f32).into()),
            "u8" => t.wrap((value as u32).into()),
            _ => t.converted(value),
        };
        result.push(Expected::exactly(bits));
    }
    result
}
