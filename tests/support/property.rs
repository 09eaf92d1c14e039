//! Code that property tests share: repeatable cases, random values, tensors on the device.
use super::cases::{Rng, Shape};
use super::number::Type;
use super::reference::Expected;
use super::{Guarded, Target, repeat_line};
use candle_rocm_sys::Layout;

pub type Outcome = Result<(), String>;

/// Runs `count` cases of the trial `<test>/<target>/<name>`. Everything in a case comes from its random generator, so
/// it is the same in every run. A failure names the case, and `CANDLE_ROCM_CASE=N` runs only that case.
pub fn each_case(
    target: &Target,
    test: &str,
    name: &str,
    count: usize,
    body: impl Fn(&mut Rng, usize) -> Outcome,
) -> Outcome {
    let only: Option<usize> =
        std::env::var("CANDLE_ROCM_CASE").ok().map(|text| text.parse().expect("CANDLE_ROCM_CASE"));
    for index in (0..count).filter(|index| only.is_none_or(|only| only == *index)) {
        body(&mut Rng(seed(name, index)), index).map_err(|problem| {
            let trial = format!("{test}/{}/{name}", target.name);
            let line = repeat_line(&target.name, &trial, &format!("CANDLE_ROCM_CASE={index}"));
            format!("case {index}: {problem}\n{line}")
        })?;
    }
    Ok(())
}

/// A seed from a name and an index.
pub fn seed(name: &str, index: usize) -> u64 {
    name.bytes().fold(index as u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// A value of a type: mostly an ordinary number, sometimes an extreme one, sometimes random bits.
pub fn value(rng: &mut Rng, t: Type) -> u64 {
    let any = rng.next() & (u64::MAX >> (64 - t.bits()));
    match rng.below(8) {
        0 => any,
        1 if t.is_float() => {
            let extremes = [
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                -0.5,
                1.5,
                2.5,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
                300.0,
                -300.0,
                1e-8,
                448.0,
                65504.0,
            ];
            t.round_bits(rng.pick(&extremes))
        }
        1 => {
            let (least, greatest) = t.range();
            t.wrap(rng.pick(&[least, greatest, least + 1, greatest - 1, 0, 1, -1]))
        }
        _ if t.is_float() => t.round_bits(rng.unit() * 16.0 - 8.0),
        _ => t.wrap(rng.below(200) as i128 - 100),
    }
}

pub fn values(rng: &mut Rng, t: Type, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count * t.bytes];
    for i in 0..count {
        t.put(&mut bytes, i, value(rng, t));
    }
    bytes
}

/// A tensor on the device: its layout, the buffer, and the buffer's contents.
pub struct Operand {
    pub t: Type,
    pub shape: Shape,
    pub data: Vec<u8>,
    pub memory: Guarded,
}

impl Operand {
    /// An operand with these contents. Its buffer is sometimes not aligned to 16 bytes.
    pub fn new(target: &Target, rng: &mut Rng, t: Type, shape: Shape, data: Vec<u8>) -> Operand {
        let misalignment = if rng.one_in(3) { rng.below(16 / t.bytes) * t.bytes } else { 0 };
        let memory = Guarded::new(&target.device, &data, misalignment).expect("device memory");
        Operand { t, shape, data, memory }
    }

    /// An operand with these contents in an aligned buffer.
    pub fn aligned(target: &Target, t: Type, shape: Shape, data: Vec<u8>) -> Operand {
        let memory = Guarded::new(&target.device, &data, 0).expect("device memory");
        Operand { t, shape, data, memory }
    }

    /// An operand with random values.
    pub fn random(target: &Target, rng: &mut Rng, t: Type, shape: Shape) -> Operand {
        let data = values(rng, t, shape.reach());
        Operand::new(target, rng, t, shape, data)
    }

    /// A contiguous destination, filled with other bytes.
    pub fn destination(target: &Target, rng: &mut Rng, t: Type, dims: &[usize]) -> Operand {
        let shape = Shape::contiguous(dims);
        let data = vec![0xcd; shape.numel() * t.bytes];
        Operand::new(target, rng, t, shape, data)
    }

    pub fn layout(&self) -> Layout {
        layout(&self.shape)
    }

    /// The values, in the layout's order.
    pub fn elements(&self) -> Vec<u64> {
        self.shape.indices().into_iter().map(|i| self.t.get(&self.data, i)).collect()
    }

    pub fn unchanged(&self) -> Outcome {
        let now = self.memory.read()?;
        if now == self.data { Ok(()) } else { Err(format!("a source changed: {:?}", self.shape)) }
    }
}

pub fn layout(shape: &Shape) -> Layout {
    Layout::strided(&shape.dims, &shape.strides, shape.offset).expect("a layout")
}

/// Checks that `dst` holds the expected values and that the sources are unchanged. A source that is the destination is
/// not checked.
pub fn check(dst: &Operand, expected: &[Expected], sources: &[&Operand]) -> Outcome {
    let got = dst.memory.read().map_err(|problem| format!("destination: {problem}"))?;
    for (index, expected) in expected.iter().enumerate() {
        let bits = dst.t.get(&got, index);
        if !expected.admits(dst.t, bits) {
            let inputs: Vec<String> = sources.iter().map(|s| s.t.show(s.elements()[index])).collect();
            let distance = dst.t.is_float().then(|| dst.t.ulps(bits, expected.bits)).flatten();
            return Err(format!(
                "element {index}: of {} got {}, expected {}, {distance:?} ulp apart; layouts {:?}",
                inputs.join(" and "),
                dst.t.show(bits),
                expected.show(dst.t),
                sources.iter().map(|s| &s.shape).collect::<Vec<_>>(),
            ));
        }
    }
    for source in sources.iter().filter(|source| source.memory.ptr() != dst.memory.ptr()) {
        source.unchanged()?;
    }
    Ok(())
}
