//! Every op on every dtype: a ROCm device beside Candle's CPU device, on random views.
use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_tests::{Both, Numbers, device};
use libtest_mimic::{Arguments, Failed, Trial};

mod elementwise;
mod indexing;
mod products;
mod ranks;
mod reductions;

const FLOATS: &[DType] = &[DType::BF16, DType::F16, DType::F32, DType::F64];
const INTEGERS: &[DType] = &[DType::U8, DType::U32, DType::I64];
const SHORT: &[DType] = &[DType::I16, DType::I32];
const F8: &[DType] = &[DType::F8E4M3];
/// Seeds of a trial.
const ROUNDS: u64 = 12;

/// Half a unit in the last place of a number of the dtype, relative to it.
fn half_ulp(dtype: DType) -> f64 {
    match dtype {
        DType::F8E4M3 => 2f64.powi(-4),
        DType::BF16 => 2f64.powi(-8),
        DType::F16 => 2f64.powi(-11),
        DType::F32 => 2f64.powi(-24),
        DType::F64 => 2f64.powi(-53),
        _ => 0.0,
    }
}

/// What a round of a trial has to work with.
struct Round {
    numbers: Numbers,
    dtype: DType,
    device: Device,
}

impl Round {
    fn dims(&mut self, rank: usize) -> Vec<usize> {
        const SIZES: [usize; 8] = [1, 2, 3, 5, 7, 16, 33, 64];
        (0..rank).map(|_| SIZES[self.numbers.below(if rank > 3 { 5 } else { SIZES.len() })]).collect()
    }

    /// Dims of rank 0 to 6.
    fn any_dims(&mut self) -> Vec<usize> {
        let rank = self.numbers.below(7);
        self.dims(rank)
    }

    fn view(&mut self, dims: &[usize]) -> Result<Both> {
        Both::view(&mut self.numbers, dims, self.dtype, &self.device)
    }

    fn view_of(&mut self, dims: &[usize], dtype: DType) -> Result<Both> {
        Both::view(&mut self.numbers, dims, dtype, &self.device)
    }

    /// A contiguous tensor that begins within its storage.
    fn rows(&mut self, dims: &[usize]) -> Result<Both> {
        let mut stored = dims.to_vec();
        stored[0] += 2;
        let first = dims[0];
        Both::numbers(&mut self.numbers, &stored, self.dtype, &self.device)?.map(|x| x.narrow(0, 1, first))
    }

    /// Dims of rank 9 to 12.
    fn many_dims(&mut self) -> Vec<usize> {
        let rank = 9 + self.numbers.below(4);
        (0..rank).map(|_| [1, 2, 2, 2, 2, 3][self.numbers.below(6)]).collect()
    }

    /// A view of so many dims: turned, so that they can be joined to fewer, or in any order, so that mostly they cannot; with a start
    /// offset and, at times, a dim that is broadcast.
    fn many(&mut self, dims: &[usize]) -> Result<Both> {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        if self.numbers.below(2) == 0 {
            order.rotate_left(self.numbers.below(dims.len()));
        } else {
            order.reverse();
            order.swap(self.numbers.below(dims.len()), self.numbers.below(dims.len()));
        }
        let repeated = (self.numbers.below(3) == 0).then(|| self.numbers.below(dims.len()));
        let mut stored: Vec<usize> = order.iter().map(|&i| if repeated == Some(i) { 1 } else { dims[i] }).collect();
        stored[0] += 1;
        let mut places = vec![0; dims.len()];
        for (place, &i) in order.iter().enumerate() {
            places[i] = place;
        }
        Both::numbers(&mut self.numbers, &stored, self.dtype, &self.device)?
            .map(|x| x.narrow(0, 1, stored[0] - 1)?.permute(places.as_slice())?.broadcast_as(dims))
    }

    /// Ids below `end`, contiguous.
    fn ids(&mut self, dims: &[usize], end: usize, dtype: DType) -> Result<Both> {
        let count = dims.iter().product();
        let values: Vec<u32> = (0..count).map(|_| self.numbers.below(end) as u32).collect();
        Both::of(Tensor::from_vec(values, dims, &Device::Cpu)?.to_dtype(dtype)?, &self.device)
    }
}

/// What `op` makes of the tensors on the ROCm device, and what the CPU makes of contiguous copies of them. There floats of 16 and of 8
/// bits go through f32 and are rounded once, as on the device: Candle's CPU rounds every step of a sum, has no products of bf16, and
/// recurses without end in some ops of F8E4M3; and its convolutions and bilinear upsampling take some views for contiguous.
fn apply<const N: usize>(inputs: [&Both; N], op: impl Fn([&Tensor; N]) -> Result<Tensor>) -> Result<Both> {
    let rocm = op(inputs.map(|x| &x.rocm))?;
    let narrow = |x: &Both| matches!(x.cpu.dtype(), DType::BF16 | DType::F16 | DType::F8E4M3);
    let mut copies = Vec::with_capacity(N);
    for x in inputs {
        let copy = x.cpu.force_contiguous()?;
        copies.push(if narrow(x) { copy.to_dtype(DType::F32)? } else { copy });
    }
    let cpu = op(std::array::from_fn(|i| &copies[i]))?;
    let cpu = if inputs.into_iter().any(narrow) { cpu.to_dtype(rocm.dtype())? } else { cpu };
    Ok(Both { cpu, rocm })
}

fn one(a: &Both, op: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Both> {
    apply([a], |[a]| op(a))
}

fn pair(a: &Both, b: &Both, op: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Both> {
    apply([a, b], |[a, b]| op(a, b))
}

fn three(a: &Both, b: &Both, c: &Both, op: impl Fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>) -> Result<Both> {
    apply([a, b, c], |[a, b, c]| op(a, b, c))
}

/// A result, how many half units in the last place of its dtype it may be away, and what to add to its magnitude for that.
type Outcome = Result<(Both, f64, f64)>;
type Op = fn(&mut Round) -> Outcome;

struct Ops {
    trials: Vec<Trial>,
    device: Device,
}

impl Ops {
    fn add(&mut self, name: &str, dtypes: &[&[DType]], op: Op) {
        for &dtype in dtypes.iter().copied().flatten() {
            let device = self.device.clone();
            let run = move || {
                for seed in 0..ROUNDS {
                    let mut round = Round { numbers: Numbers::new(seed), dtype, device: device.clone() };
                    let outcome = op(&mut round).and_then(|(both, half_ulps, floor)| {
                        both.difference(half_ulps * half_ulp(both.cpu.dtype()), floor)
                    });
                    match outcome {
                        Ok(None) => {}
                        Ok(Some(difference)) => return Err(Failed::from(format!("seed {seed}: {difference}"))),
                        Err(error) => return Err(Failed::from(format!("seed {seed}: {error}"))),
                    }
                }
                Ok(())
            };
            self.trials.push(Trial::test(format!("ops/{name}_{}", dtype.as_str()), run));
        }
    }
}

fn main() {
    let mut arguments = Arguments::from_args();
    // Threads would share one stream.
    arguments.test_threads.get_or_insert(1);
    let mut ops = Ops { trials: Vec::new(), device: device() };
    elementwise::add(&mut ops);
    reductions::add(&mut ops);
    indexing::add(&mut ops);
    products::add(&mut ops);
    ranks::add(&mut ops);
    libtest_mimic::run(&arguments, ops.trials).exit();
}
