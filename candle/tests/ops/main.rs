//! Every op on every dtype: a ROCm device compared with Candle's CPU device, on random views.
//!
//! Every pair of an op and a dtype has a trial. Pairs that are not compared must be refused.
use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_tests::{Both, Numbers, device};
use libtest_mimic::{Arguments, Failed, Trial};

mod big;
mod elementwise;
mod indexing;
mod products;
mod ranks;
mod reductions;

const FLOATS: &[DType] = &[DType::BF16, DType::F16, DType::F32, DType::F64];
const F8: &[DType] = &[DType::F8E4M3];
const INTEGERS: &[DType] = &[DType::U8, DType::U32, DType::I16, DType::I32, DType::I64];
/// The dtypes with kernels. Candle computes with no others, on any device.
const ALL: &[&[DType]] = &[FLOATS, F8, INTEGERS];
/// The seeds of a trial.
const ROUNDS: u64 = 12;

/// Half a unit in the last place of a number of the dtype, relative to the number.
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

/// Whether the dtype is a float that is computed in f32.
fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16 | DType::F8E4M3)
}

/// The state of one round of a trial.
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

    /// A contiguous tensor that does not begin at the start of its storage.
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

    /// A view with these dims. Half of the views are rotated, so that dims can be joined. The others have any order, so
    /// that mostly they cannot. There is a start offset and sometimes a broadcast dim.
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

    /// Contiguous ids below `end`. Some are the largest of their dtype, which selects nothing. On the CPU the ids are
    /// i64: only some ops of Candle accept i16 and i32 there.
    fn ids(&mut self, dims: &[usize], end: usize, dtype: DType) -> Result<Both> {
        let nowhere: i64 = match dtype {
            DType::U8 => u8::MAX.into(),
            DType::U32 => u32::MAX.into(),
            DType::I16 => i16::MAX.into(),
            DType::I32 => i32::MAX.into(),
            _ => i64::MAX,
        };
        let count = dims.iter().product();
        let ids: Vec<_> =
            (0..count).map(|_| (self.numbers.below(8) > 0).then(|| self.numbers.below(end) as i64)).collect();
        let of = |nowhere| {
            let ids: Vec<i64> = ids.iter().map(|id| id.unwrap_or(nowhere)).collect();
            Tensor::from_vec(ids, dims, &Device::Cpu)
        };
        Ok(Both { cpu: of(i64::MAX)?, rocm: of(nowhere)?.to_dtype(dtype)?.to_device(&self.device)? })
    }

    /// The allowed error in half units in the last place, for an op with this error in f32 and f64 and one rounding to
    /// the dtype. In a narrower dtype the results may be neighbours.
    fn rounded_once(&self, half_ulps: f64) -> f64 {
        if is_narrow(self.dtype) { 2.0 } else { half_ulps }
    }
}

/// The results of `op` on the ROCm device, and on the CPU with contiguous copies. The CPU's convolutions and bilinear
/// upsampling treat some views as contiguous.
fn directly<const N: usize>(inputs: [&Both; N], op: impl Fn([&Tensor; N]) -> Result<Tensor>) -> Result<Both> {
    let rocm = op(inputs.map(|x| &x.rocm))?;
    let mut copies = Vec::with_capacity(N);
    for x in inputs {
        copies.push(x.cpu.force_contiguous()?);
    }
    Ok(Both { cpu: op(std::array::from_fn(|i| &copies[i]))?, rocm })
}

/// As `directly`, but floats of 16 and 8 bits go through f32 on the CPU and are rounded once, as on the device.
/// Candle's CPU rounds every step of a sum, has no products of bf16, and recurses without end in some ops of F8E4M3.
fn apply<const N: usize>(inputs: [&Both; N], op: impl Fn([&Tensor; N]) -> Result<Tensor>) -> Result<Both> {
    if !inputs.iter().any(|x| is_narrow(x.cpu.dtype())) {
        return directly(inputs, op);
    }
    let mut wide = Vec::with_capacity(N);
    for x in inputs {
        let cpu = if is_narrow(x.cpu.dtype()) { x.cpu.to_dtype(DType::F32)? } else { x.cpu.clone() };
        wide.push(Both { cpu, rocm: x.rocm.clone() });
    }
    let both = directly(std::array::from_fn(|i| &wide[i]), op)?;
    Ok(Both { cpu: both.cpu.to_dtype(both.rocm.dtype())?, ..both })
}

/// The result of `op`. On the CPU, integers go through f64, which represents their sums and products exactly, and i64,
/// which wraps as the device does. Candle's CPU has no products of integers, and panics if a sum of them overflows.
fn wrapping<const N: usize>(inputs: [&Tensor; N], op: impl Fn([&Tensor; N]) -> Result<Tensor>) -> Result<Tensor> {
    let dtype = inputs[0].dtype();
    if !inputs[0].device().is_cpu() || !dtype.is_int() {
        return op(inputs);
    }
    let mut floats = Vec::with_capacity(N);
    for x in inputs {
        floats.push(x.to_dtype(DType::F64)?);
    }
    op(std::array::from_fn(|i| &floats[i]))?.to_dtype(DType::I64)?.to_dtype(dtype)
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

/// A result, its allowed error in half units in the last place, and the number added to its magnitude for that bound.
type Outcome = Result<(Both, f64, f64)>;

struct Ops {
    trials: Vec<Trial>,
    device: Device,
}

impl Ops {
    /// Adds trials of an op. On each of `dtypes` the two devices are compared; every other dtype must be refused.
    fn add(&mut self, name: &str, dtypes: &[&[DType]], op: impl Fn(&mut Round) -> Outcome + Copy + Send + 'static) {
        self.compare(name, dtypes, ROUNDS, op);
        for &dtype in ALL.iter().copied().flatten().filter(|dtype| !dtypes.concat().contains(dtype)) {
            let device = self.device.clone();
            let run = move || match op(&mut Round { numbers: Numbers::new(0), dtype, device: device.clone() }) {
                Err(error) if error.to_string().contains("CRK_UNSUPPORTED") => Ok(()),
                Err(error) => Err(Failed::from(error.to_string())),
                Ok(_) => Err(Failed::from("this should have been refused")),
            };
            self.trials.push(Trial::test(format!("ops/{name}_{}_is_refused", dtype.as_str()), run));
        }
    }

    /// Adds comparing trials of an op, for some dtypes and a number of rounds.
    fn compare(
        &mut self,
        name: &str,
        dtypes: &[&[DType]],
        rounds: u64,
        op: impl Fn(&mut Round) -> Outcome + Copy + Send + 'static,
    ) {
        for &dtype in dtypes.iter().copied().flatten() {
            let device = self.device.clone();
            let run = move || {
                for seed in 0..rounds {
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
    // Several threads would share one stream.
    arguments.test_threads.get_or_insert(1);
    let mut ops = Ops { trials: Vec::new(), device: device() };
    elementwise::add(&mut ops);
    reductions::add(&mut ops);
    indexing::add(&mut ops);
    products::add(&mut ops);
    ranks::add(&mut ops);
    big::add(&mut ops);
    libtest_mimic::run(&arguments, ops.trials).exit();
}
