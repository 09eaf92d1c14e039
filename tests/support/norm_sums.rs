//! Sums over two ranks with a residual and a norm, in two calls, beside a call for each step.
use super::number::Type;
use candle_rocm_sys::{Begun, Buffer, Comm, CommOp, DType, Device};
use std::time::Duration;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
const EPS: f32 = 1e-5;

fn type_of(dtype: DType) -> Type {
    dtype.name().and_then(Type::named).expect("a type")
}

/// Numbers between -2 and 2, with an infinity or a NaN in one of some 5000.
fn numbers(seed: usize, dtype: DType, count: usize) -> Vec<u8> {
    let t = type_of(dtype);
    let mut bytes = vec![0; count * dtype.size()];
    let mut state = 0x9e37_79b9_7f4a_7c15u64 ^ ((seed as u64) << 32) ^ count as u64;
    for i in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let value = match state % 10_007 {
            0 => f64::INFINITY,
            1 => f64::NAN,
            _ => (state >> 40) as f64 / f64::from(1 << 22) - 2.0,
        };
        t.put(&mut bytes, i, t.round_bits(value));
    }
    bytes
}

/// Whether both results have the same bits, but for those of NaN.
pub fn same(dtype: DType, [a, b]: [&[Vec<u8>; 2]; 2]) -> bool {
    let t = type_of(dtype);
    let like = |a: &[u8], b: &[u8]| {
        let pair = |i| (t.get(a, i), t.get(b, i));
        (0..a.len() / dtype.size()).map(pair).all(|(a, b)| a == b || (t.is_nan(a) && t.is_nan(b)))
    };
    like(&a[0], &b[0]) && like(&a[1], &b[1])
}

/// The operands and the results of a rank.
pub struct NormMemory {
    pub x: Buffer,
    pub residual: Buffer,
    pub alpha: Buffer,
    pub sum: Buffer,
    pub dst: Buffer,
}

impl NormMemory {
    /// Each number has its own `x`.
    pub fn new(comm: &Comm, dtype: DType, (rows, cols): (usize, usize), number: usize) -> NormMemory {
        let upload = |seed, count| comm.device().upload(&numbers(seed, dtype, count)).expect("memory");
        let zeros = || comm.device().upload(&vec![0u8; rows * cols * dtype.size()]).expect("memory");
        let memory = NormMemory {
            x: upload(2 * number + comm.rank(), rows * cols),
            residual: upload(9000, rows * cols),
            alpha: upload(9001, cols),
            sum: zeros(),
            dst: zeros(),
        };
        comm.device().synchronize().expect("uploads");
        memory
    }

    /// Begins the sum in the stream of `side`, behind the work of the communicator's device. Its later work waits for
    /// the event that is returned.
    fn begin(&self, comm: &Comm, side: &Device, dtype: DType, count: usize) -> (Begun, candle_rocm_sys::Event) {
        let mark = comm.device().event().expect("an event");
        mark.record(comm.device()).expect("a mark");
        side.wait(&mark).expect("an order");
        // SAFETY: `side` has waited for the device's work, and the device waits for `side` before an end.
        unsafe { comm.run_beside(Some(side)) }.expect("a handle of the same device");
        let begun = comm.begin_add_rms_norm(dtype, &self.x, count).expect("a begin");
        // SAFETY: as above.
        unsafe { comm.run_beside(None) }.expect("the own handle");
        mark.record(side).expect("a mark");
        (begun, mark)
    }

    pub fn end(&self, comm: &Comm, begun: &Begun, dtype: DType, shape: (usize, usize)) {
        comm.end_add_rms_norm(begun, dtype, shape, &self.x, &self.residual, &self.alpha, (&self.sum, &self.dst), EPS)
            .expect("an end");
    }

    /// The sum and the norm.
    pub fn results(&self, comm: &Comm) -> [Vec<u8>; 2] {
        comm.wait(PATIENCE).expect("the results");
        [&self.sum, &self.dst].map(|buffer| buffer.download::<u8>().expect("a copy"))
    }
}

/// A sum, the residual and the norm, each by a call of its own.
pub fn in_steps(comm: &Comm, dtype: DType, (rows, cols): (usize, usize), memory: &NormMemory) -> [Vec<u8>; 2] {
    let NormMemory { x, residual, alpha, sum, dst } = memory;
    comm.all_reduce_in_place(dtype, CommOp::Sum, x, rows * cols).expect("a sum");
    let (more, on) = (Some((residual.into(), sum.into())), comm.device());
    on.add_rms_norm(dtype, (rows, cols), x, more, Some(alpha.into()), dst, None, EPS).expect("a norm");
    memory.results(comm)
}

fn check(comm: &Comm, dtype: DType, shape: (usize, usize), number: usize, found: &NormMemory) {
    let expected = in_steps(comm, dtype, shape, &NormMemory::new(comm, dtype, shape, number));
    assert!(same(dtype, [&found.results(comm), &expected]), "{dtype:?}, {shape:?}, {number}: other bits than in steps");
}

/// Begins `sums` sums beside, and ends them in the own stream, but for the first ones, which are given up.
pub fn begun(comm: &Comm, side: &Device, dtype: DType, shape: (usize, usize), sums: usize, given_up: usize) {
    let all: Vec<_> = (0..sums).map(|number| NormMemory::new(comm, dtype, shape, number)).collect();
    let begun: Vec<_> = all.iter().map(|of| of.begin(comm, side, dtype, shape.0 * shape.1)).collect();
    for (i, ((begun, mark), of)) in begun.iter().zip(&all).enumerate() {
        comm.device().wait(mark).expect("an order");
        if i < given_up {
            comm.give_up_add_rms_norm(begun).expect("an end");
        } else {
            of.end(comm, begun, dtype, shape);
        }
    }
    for (number, of) in all.iter().enumerate().skip(given_up) {
        check(comm, dtype, shape, number, of);
    }
}

/// Two sums are under way at all times, as in a model that reads a prompt in two halves. The host waits for none.
pub fn chain(comm: &Comm, side: &Device, dtype: DType, shape: (usize, usize), rounds: usize) {
    let all: Vec<_> = (0..rounds).map(|number| NormMemory::new(comm, dtype, shape, number)).collect();
    let count = shape.0 * shape.1;
    let mut under_way = all[0].begin(comm, side, dtype, count);
    for number in 1..=rounds {
        let next = all.get(number).map(|of| of.begin(comm, side, dtype, count));
        comm.device().wait(&under_way.1).expect("an order");
        all[number - 1].end(comm, &under_way.0, dtype, shape);
        let Some(next) = next else { break };
        under_way = next;
    }
    for (number, of) in all.iter().enumerate() {
        check(comm, dtype, shape, number, of);
    }
}
