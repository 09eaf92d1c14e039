//! Element types of the tests. Values are bits in a u64; arithmetic is done in f64 or i128.
use candle_rocm_sys::{DType, sys::crk_dtype as D};

/// How to read the bits of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Unsigned,
    Signed,
    /// The numbers of exponent bits and of mantissa bits.
    Float(u32, u32),
}

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type {
    pub dtype: DType,
    /// Candle's name.
    pub name: &'static str,
    pub bytes: usize,
    pub kind: Kind,
}

macro_rules! types {
    ($($constant:ident $dtype:ident $name:literal $bytes:literal $kind:expr;)*) => {
        $(pub const $constant: Type = Type { dtype: D::$dtype, name: $name, bytes: $bytes, kind: $kind };)*
        pub const TYPES: &[Type] = &[$($constant),*];
    };
}
types! {
    U8 CRK_DTYPE_U8 "u8" 1 Kind::Unsigned;
    U32 CRK_DTYPE_U32 "u32" 4 Kind::Unsigned;
    I16 CRK_DTYPE_I16 "i16" 2 Kind::Signed;
    I32 CRK_DTYPE_I32 "i32" 4 Kind::Signed;
    I64 CRK_DTYPE_I64 "i64" 8 Kind::Signed;
    BF16 CRK_DTYPE_BF16 "bf16" 2 Kind::Float(8, 7);
    F16 CRK_DTYPE_F16 "f16" 2 Kind::Float(5, 10);
    F32 CRK_DTYPE_F32 "f32" 4 Kind::Float(8, 23);
    F64 CRK_DTYPE_F64 "f64" 8 Kind::Float(11, 52);
    F8 CRK_DTYPE_F8E4M3 "f8e4m3" 1 Kind::Float(4, 3);
}

impl Type {
    /// The type with this name, in any spelling.
    pub fn named(name: &str) -> Option<Type> {
        let name = if matches!(name, "f8_e4m3" | "fp8_e4m3") { "f8e4m3" } else { name };
        TYPES.iter().copied().find(|t| t.name == name)
    }

    pub fn is_float(self) -> bool {
        matches!(self.kind, Kind::Float(..))
    }

    pub fn bits(self) -> u32 {
        self.bytes as u32 * 8
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// Element `index` of little-endian bytes.
    pub fn get(self, bytes: &[u8], index: usize) -> u64 {
        let mut word = [0; 8];
        word[..self.bytes].copy_from_slice(&bytes[index * self.bytes..][..self.bytes]);
        u64::from_le_bytes(word)
    }

    pub fn put(self, bytes: &mut [u8], index: usize, value: u64) {
        bytes[index * self.bytes..][..self.bytes].copy_from_slice(&value.to_le_bytes()[..self.bytes]);
    }

    /// The value of an integer.
    pub fn int(self, bits: u64) -> i128 {
        match self.kind {
            Kind::Unsigned => bits.into(),
            _ => (((bits << (64 - self.bits())) as i64) >> (64 - self.bits())).into(),
        }
    }

    /// An integer's bits, wrapped.
    pub fn wrap(self, value: i128) -> u64 {
        value as u64 & self.mask()
    }

    /// The smallest and the largest integer.
    pub fn range(self) -> (i128, i128) {
        match self.kind {
            Kind::Unsigned => (0, self.mask().into()),
            _ => (-(1 << (self.bits() - 1)), (1 << (self.bits() - 1)) - 1),
        }
    }

    pub fn is_nan(self, bits: u64) -> bool {
        self.is_float() && self.float(bits).is_nan()
    }

    /// The value of a float.
    pub fn float(self, bits: u64) -> f64 {
        let Kind::Float(exponent, mantissa) = self.kind else { return self.int(bits) as f64 };
        match self.bytes {
            8 => return f64::from_bits(bits),
            4 => return f32::from_bits(bits as u32).into(),
            _ => {}
        }
        let sign = if bits >> (self.bits() - 1) & 1 == 1 { -1.0 } else { 1.0 };
        let (top, bias) = ((1u64 << exponent) - 1, (1i32 << (exponent - 1)) - 1);
        let (e, m) = (bits >> mantissa & top, bits & ((1 << mantissa) - 1));
        // A power of two that is a normal f64, made from its exponent.
        let scale = |exponent: i32| f64::from_bits(((exponent - bias - mantissa as i32 + 1023) as u64) << 52);
        sign * match (e == top, e) {
            (true, _) if self == F8 && m == 7 => f64::NAN,
            (true, _) if self != F8 && m == 0 => f64::INFINITY,
            (true, _) if self != F8 => f64::NAN,
            (_, 0) => m as f64 * scale(1),
            _ => (m + (1 << mantissa)) as f64 * scale(e as i32),
        }
    }

    /// A float rounded to the type, to nearest even. f8 saturates.
    pub fn round_bits(self, value: f64) -> u64 {
        let Kind::Float(exponent, mantissa) = self.kind else { panic!("{} is no float", self.name) };
        match self.bytes {
            8 => return value.to_bits(),
            4 => return (value as f32).to_bits().into(),
            _ => {}
        }
        let sign = u64::from(value.is_sign_negative()) << (self.bits() - 1);
        let bias = (1i32 << (exponent - 1)) - 1;
        // The smallest bit pattern that is not a finite number. For f8 it is one less, because f8's largest exponent
        // holds numbers too.
        let infinity = if self == F8 { 0x7f } else { ((1u64 << exponent) - 1) << mantissa };
        if value.is_nan() {
            return sign | if self == F8 { 0x7f } else { infinity | 1 << (mantissa - 1) };
        }
        let magnitude = value.abs();
        let e = ((magnitude.to_bits() >> 52) as i32 - 1023).max(1 - bias);
        let steps = if e > bias + 1 {
            infinity
        } else {
            // Exact: it divides by a power of 2 that a double can hold.
            let steps = (magnitude / 2f64.powi(e - mantissa as i32)).round_ties_even() as u64;
            (((e + bias - 1) as u64) << mantissa) + steps
        };
        let greatest = if self == F8 { 0x7e } else { infinity };
        sign | steps.min(greatest)
    }

    /// As [`Self::round_bits`], as a value.
    pub fn round(self, value: f64) -> f64 {
        self.float(self.round_bits(value))
    }

    /// Candle's `from_f64`: floats are rounded; integers are truncated and saturate.
    pub fn converted(self, value: f64) -> u64 {
        if self.is_float() {
            return self.round_bits(value);
        }
        let (least, greatest) = self.range();
        self.wrap((value as i128).clamp(least, greatest))
    }

    /// The number of steps between two floats, where 0 and -0 are one value. None if exactly one is NaN.
    pub fn ulps(self, a: u64, b: u64) -> Option<u64> {
        match (self.is_nan(a), self.is_nan(b)) {
            (true, true) => return Some(0),
            (false, false) => {}
            _ => return None,
        }
        let ordered = |bits: u64| {
            let magnitude = i128::from(bits & (self.mask() >> 1));
            if bits >> (self.bits() - 1) & 1 == 1 { -magnitude } else { magnitude }
        };
        Some((ordered(a) - ordered(b)).unsigned_abs() as u64)
    }

    /// The float `by` values above `bits`, or below it if `by` is negative. It stops at infinity; a NaN stays as it is.
    pub fn step(self, bits: u64, by: i64) -> u64 {
        if self.is_nan(bits) {
            return bits;
        }
        let (sign, last) = (1u64 << (self.bits() - 1), self.round_bits(f64::INFINITY) as i64);
        let magnitude = (bits & !sign) as i64;
        let ordered = if bits & sign == 0 { magnitude } else { -magnitude };
        let moved = ordered.saturating_add(by).clamp(-last, last);
        if moved < 0 { sign | moved.unsigned_abs() } else { moved as u64 }
    }

    /// A readable text of the value.
    pub fn show(self, bits: u64) -> String {
        let width = self.bytes * 2;
        if self.is_float() {
            format!("{:e} (0x{bits:0width$x})", self.float(bits))
        } else {
            format!("{} (0x{bits:0width$x})", self.int(bits))
        }
    }
}

/// The sum of two doubles, rounded to odd. A later rounding to fewer than 52 bits then gives the same result as a
/// single rounding.
pub fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    if !sum.is_finite() || error == 0.0 || !error.is_finite() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    if (error > 0.0) == (sum > 0.0) { f64::from_bits(sum.to_bits() + 1) } else { f64::from_bits(sum.to_bits() - 1) }
}
