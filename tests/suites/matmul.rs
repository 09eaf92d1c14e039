//! Matrix products against plain Rust in f64. The cases have sizes around the edges of every tile, long and short sums,
//! single rows and columns, every combination of row- and column-major operands, gaps, offsets, broadcast batches of
//! any rank, NaN and infinities. Guard bytes surround every buffer. Further tests cover each kernel by name, bad
//! arguments, capture, threads, and the BLAS library.
//!
//! A trial is a device, a family of cases and a dtype: `matmul/cpu:32/sizes_f16`.

#[cfg(unix)]
use crate::support::alone_on_targets;
use crate::support::cases::{Rng, Shape};
use crate::support::number::{BF16, F8, F16, F32, F64, I64, Type, U8};
#[cfg(unix)]
use crate::support::property::layout;
use crate::support::property::{Operand, Outcome, each_case};
use crate::support::{Body, Target, add_trial, last_error, open, refused_with, succeeded};
use candle_rocm_sys::{Device, Function, Layout, Status, sys};
use libtest_mimic::Trial;
use std::ptr::null_mut;

const FLOATS: [Type; 4] = [BF16, F16, F32, F64];
const NONE: sys::crk_view_t = sys::crk_view_t { ptr: null_mut(), bytes: 0 };

/// The contents of the operands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Filling {
    /// Small integers. Every sum is exact, so there is only one right result.
    Integers,
    /// None is a subnormal f16, which the matrix cores of gfx90a take for 0 (crk_matmul).
    Reals,
    /// Integers with some NaN or infinities.
    Special,
}

/// The smallest magnitude of `Filling::Reals`: the smallest normal f16.
const LEAST_REAL: f64 = 6.103515625e-5;

pub fn fill(rng: &mut Rng, t: Type, count: usize, filling: Filling) -> Vec<u8> {
    let mut data = vec![0; count * t.bytes];
    for i in 0..count {
        let x = match filling {
            Filling::Reals => match rng.unit() * 4.0 - 2.0 {
                x if x.abs() < LEAST_REAL => LEAST_REAL,
                x => x,
            },
            Filling::Special if rng.one_in(40) => rng.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
            _ => rng.below(9) as f64 - 4.0,
        };
        t.put(&mut data, i, t.round_bits(x));
    }
    data
}

/// The sum of the products, and the sum of their magnitudes.
fn dot(x: &[f64], y: &[f64]) -> (f64, f64) {
    x.iter().zip(y).fold((0.0, 0.0), |(sum, size), (a, b)| (sum + a * b, size + (a * b).abs()))
}

/// Whether a result is right. For integers it is the exact result, rounded. Otherwise it may differ by k roundings of
/// the sum of magnitudes (in f32 or f64) and one rounding of the result. For f64 the reference's own roundings count
/// too.
pub fn admits(t: Type, filling: Filling, k: usize, got: u64, sum: f64, size: f64) -> bool {
    let expected = t.round_bits(sum);
    if got == expected || t.ulps(got, expected) == Some(0) {
        return true;
    }
    let exact = filling != Filling::Reals;
    if exact || !sum.is_finite() || !t.float(got).is_finite() {
        return false;
    }
    let (unit, mantissa, least) = match t.name {
        "bf16" => (-23, 8, -134),
        "f16" => (-23, 11, -25),
        "f32" => (-23, 24, -150),
        _ => (-52, 53, -1074),
    };
    let own = if t == F64 { 0.5 } else { 0.0 };
    let slack = (k as f64 * (1.0 + own)) * 2f64.powi(unit) * size;
    let rounding = (sum.abs() + slack) * 2f64.powi(-mantissa) + 2f64.powi(least);
    (t.float(got) - sum).abs() <= slack + rounding
}

/// A product of (b.., m, k) and (b.., k, n).
struct Problem {
    t: Type,
    filling: Filling,
    lhs: Operand,
    rhs: Operand,
    dst: Operand,
}

fn times(lhs: &Shape, rhs: &Shape) -> Vec<usize> {
    let rank = lhs.dims.len();
    [&lhs.dims[..rank - 1], &rhs.dims[rank - 1..]].concat()
}

impl Problem {
    fn new(target: &Target, rng: &mut Rng, t: Type, filling: Filling, lhs: Shape, rhs: Shape) -> Problem {
        let dims = times(&lhs, &rhs);
        let mut operand = |shape: Shape| {
            let data = fill(rng, t, shape.reach(), filling);
            Operand::new(target, rng, t, shape, data)
        };
        let (lhs, rhs) = (operand(lhs), operand(rhs));
        let dst = Operand::destination(target, rng, t, &dims);
        Problem { t, filling, lhs, rhs, dst }
    }

    fn launch(&self, device: &Device) -> Outcome {
        let (left, right) = (self.lhs.layout(), self.rhs.layout());
        succeeded(call(
            device.raw(),
            self.t,
            &left,
            self.lhs.memory.view(),
            &right,
            self.rhs.memory.view(),
            self.view(),
        ))
    }

    fn view(&self) -> sys::crk_view_t {
        self.dst.memory.view()
    }

    /// Compares dst. A matrix with the same operands as the one before is compared with that one only; NaN may differ
    /// in their bits.
    fn check(&self) -> Outcome {
        let got = self.dst.memory.read().map_err(|problem| format!("destination: {problem}"))?;
        let (left, right) = (&self.lhs.shape, &self.rhs.shape);
        let rank = left.dims.len();
        let (m, k, n) = (left.dims[rank - 2], left.dims[rank - 1], right.dims[rank - 1]);
        let starts = |shape: &Shape| {
            let (dims, strides) = (shape.dims[..rank - 2].to_vec(), shape.strides[..rank - 2].to_vec());
            Shape { dims, strides, offset: shape.offset }.indices()
        };
        let (lefts, rights) = (starts(left), starts(right));
        // Rows of the left operand or columns of the right one, one after the other.
        let lines = |operand: &Operand, start: usize, lines: usize, line: usize, along: usize| -> Vec<f64> {
            let at = |i: usize| start + i / k * line + i % k * along;
            (0..lines * k).map(|i| self.t.float(self.t.get(&operand.data, at(i)))).collect()
        };
        let bytes = m * n * self.t.bytes;
        for b in 0..lefts.len() {
            let mine = &got[b * bytes..][..bytes];
            let same = b > 0 && (lefts[b], rights[b]) == (lefts[b - 1], rights[b - 1]);
            if same && self.filling != Filling::Special {
                if *mine != got[(b - 1) * bytes..][..bytes] {
                    return Err(format!("matrix {b} is not equal to the one before, which has the same operands"));
                }
                continue;
            }
            let (rows, columns) = if m * k * n == 0 {
                (Vec::new(), Vec::new())
            } else {
                let (ls, rs) = (&left.strides[rank - 2..], &right.strides[rank - 2..]);
                (lines(&self.lhs, lefts[b], m, ls[0], ls[1]), lines(&self.rhs, rights[b], n, rs[1], rs[0]))
            };
            for i in 0..m * n {
                let (sum, size) = dot(&rows[i / n * k..][..k], &columns[i % n * k..][..k]);
                let bits = self.t.get(mine, i);
                if !admits(self.t, self.filling, k, bits, sum, size) {
                    let (filling, row, column, shown) = (self.filling, i / n, i % n, self.t.show(bits));
                    let place = format!("matrix {b}, element ({row}, {column}) of {m} x {k} x {n}, {filling:?}");
                    return Err(format!(
                        "{place}: {shown}, expected {sum:e} of magnitude {size:e}; {left:?} {right:?}"
                    ));
                }
            }
        }
        self.lhs.unchanged()?;
        self.rhs.unchanged()
    }

    fn run(&self, device: &Device) -> Outcome {
        self.launch(device)?;
        self.check()
    }
}

fn call(
    device: sys::crk_device_t,
    t: Type,
    left: *const Layout,
    lhs: sys::crk_view_t,
    right: *const Layout,
    rhs: sys::crk_view_t,
    dst: sys::crk_view_t,
) -> Status {
    // SAFETY: the launcher refuses arguments that are not live.
    unsafe { sys::crk_matmul(device, t.dtype, left, lhs.into(), right, rhs.into(), dst) }
}

/// The order of the last two dims of an operand in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Rows,
    Columns,
    RowsApart,
    ColumnsApart,
    /// Neither stride is 1.
    Scattered,
    /// All rows are the same row, or all columns the same column.
    RowsSame,
    ColumnsSame,
}

const ORDERS: [Order; 7] = [
    Order::Rows,
    Order::Columns,
    Order::RowsApart,
    Order::ColumnsApart,
    Order::Scattered,
    Order::RowsSame,
    Order::ColumnsSame,
];

/// A layout of `batch` matrices of `rows` x `columns`. With `broadcast`, a batch dim sometimes has one matrix for all
/// indices.
fn matrices(rng: &mut Rng, batch: &[usize], rows: usize, columns: usize, order: Order, broadcast: bool) -> Shape {
    let gap = rng.pick(&[1, 3, 8]);
    let (row, column) = match order {
        Order::Rows => (columns, 1),
        Order::Columns => (1, rows),
        Order::RowsApart => (columns + gap, 1),
        Order::ColumnsApart => (1, rows + gap),
        Order::Scattered => (2 * columns + gap, 2),
        Order::RowsSame => (0, 1),
        Order::ColumnsSame => (1, 0),
    };
    let mut stride = rows.max(1) * row + columns.max(1) * column + rng.pick(&[0, 0, 5]);
    if matches!(order, Order::Rows | Order::Columns) && rng.one_in(2) {
        stride = rows * columns;
    }
    let mut places: Vec<usize> = (0..batch.len()).collect();
    if rng.one_in(3) {
        places.reverse();
    }
    let mut strides = vec![0; batch.len()];
    for place in places.into_iter().rev() {
        strides[place] = if broadcast && rng.one_in(3) { 0 } else { stride };
        stride *= batch[place].max(1);
    }
    strides.extend([row, column]);
    Shape { dims: [batch, &[rows, columns]].concat(), strides, offset: rng.pick(&[0, 0, 1, 3, 8]) }
}

/// Sizes around packs, steps along k, and tiles.
const EDGES: &[usize] =
    &[1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 80, 96, 127, 128, 129, 136, 150];

fn sizes(rng: &mut Rng, most: usize) -> (usize, usize, usize) {
    loop {
        let (m, k, n) = (rng.pick(EDGES), rng.pick(EDGES), rng.pick(EDGES));
        if m * k * n <= most {
            return (m, k, n);
        }
    }
}

fn filling(rng: &mut Rng) -> Filling {
    rng.pick(&[Filling::Integers, Filling::Integers, Filling::Reals, Filling::Special])
}

/// Single matrices of random sizes, in every order.
fn of_sizes(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "matmul", name, 98, |rng, index| {
        let (m, k, n) = sizes(rng, 150_000);
        let filling = filling(rng);
        let lhs = matrices(rng, &[], m, k, ORDERS[index % 7], false);
        let rhs = matrices(rng, &[], k, n, ORDERS[index / 7 % 7], false);
        Problem::new(target, rng, t, filling, lhs, rhs).run(&target.device)
    })
}

/// A single row, a single column, or both.
fn of_vectors(target: &Target, name: &str, t: Type) -> Outcome {
    const LENGTHS: &[usize] = &[1, 2, 3, 7, 8, 9, 31, 33, 64, 65, 127, 128, 255, 257, 300, 511, 513, 1000, 2049];
    each_case(target, "matmul", name, 150, |rng, index| {
        let (one, other) = loop {
            let (one, other) = (rng.pick(LENGTHS), rng.pick(LENGTHS));
            if one * other <= 100_000 {
                break (one, other);
            }
        };
        let (m, k, n) = [(1, one, other), (other, one, 1), (1, one, 1)][index % 3];
        let batch: &[usize] = if rng.one_in(3) { &[3] } else { &[] };
        let (left, right) = (rng.pick(&ORDERS), ORDERS[index / 3 % 7]);
        let filling = filling(rng);
        let lhs = matrices(rng, batch, m, k, left, true);
        let rhs = matrices(rng, batch, k, n, right, true);
        Problem::new(target, rng, t, filling, lhs, rhs).run(&target.device)
    })
}

/// Ranks 2 to 8 with broadcast dims, in other orders.
fn of_batches(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "matmul", name, 84, |rng, index| {
        let batch: Vec<usize> = (0..index % 7).map(|_| rng.pick(&[1, 2, 2, 3])).collect();
        let count: usize = batch.iter().product();
        let (m, k, n) = sizes(rng, 40_000 / count);
        let (left, right) = (rng.pick(&ORDERS), rng.pick(&ORDERS));
        let filling = filling(rng);
        let lhs = matrices(rng, &batch, m, k, left, true);
        let rhs = matrices(rng, &batch, k, n, right, true);
        Problem::new(target, rng, t, filling, lhs, rhs).run(&target.device)
    })
}

/// Batches with one right matrix for all. The left rows are contiguous across matrices, so this is one product with
/// more rows.
fn of_folded_batches(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "matmul", name, 12, |rng, index| {
        let (count, m, k, n) = (rng.pick(&[2, 5, 33]), rng.pick(&[1, 2, 9]), rng.pick(&[3, 40]), rng.pick(&[1, 8, 70]));
        let mut lhs = matrices(rng, &[count], m, k, ORDERS[index % 3 * 2], false);
        if index % 2 == 0 {
            lhs.strides[0] = m * lhs.strides[1];
        }
        let right = rng.pick(&ORDERS);
        let mut rhs = matrices(rng, &[count], k, n, right, false);
        rhs.strides[0] = 0;
        Problem::new(target, rng, t, Filling::Integers, lhs, rhs).run(&target.device)
    })
}

/// Enough matrices for one tile of the largest kind per compute unit.
fn of_many_tiles(target: &Target, name: &str, t: Type) -> Outcome {
    let units = target.device.info().map_err(|error| error.to_string())?.compute_units as usize;
    let shapes = [(129, 20, 65), (65, 33, 33), (40, 17, 136), (130, 7, 130)];
    each_case(target, "matmul", name, shapes.len(), |rng, index| {
        let (m, k, n) = shapes[index];
        let (left, right) = (rng.pick(&ORDERS[..4]), rng.pick(&ORDERS[..4]));
        let mut lhs = matrices(rng, &[units.min(400)], m, k, left, false);
        let mut rhs = matrices(rng, &[units.min(400)], k, n, right, false);
        (lhs.strides[0], rhs.strides[0]) = (0, 0);
        Problem::new(target, rng, t, Filling::Reals, lhs, rhs).run(&target.device)
    })
}

/// An operand in an aligned buffer.
fn aligned(target: &Target, rng: &mut Rng, t: Type, filling: Filling, shape: Shape) -> Operand {
    let data = fill(rng, t, shape.reach(), filling);
    Operand::aligned(target, t, shape, data)
}

/// Enough matrices, or rows of one, for several large tiles per compute unit, with few numbers along k, in whole pieces
/// of 16 bytes. On NVIDIA GPUs a single product has three tiles for each of two blocks per unit.
fn of_short_sums(target: &Target, name: &str, t: Type) -> Outcome {
    let units = target.device.info().map_err(|error| error.to_string())?.compute_units as usize;
    each_case(target, "matmul", name, 6, |rng, index| {
        let count = units.min(400);
        let (m, k, n) = [(130, 64, 136), (136, 72, 264), (3 * 128 * count, 8, 136)][index / 2];
        let batch = if m > 136 { vec![] } else { vec![count] };
        let order = [Order::Columns, Order::Rows][index % 2];
        let mut lhs = matrices(rng, &batch, m, k, Order::Rows, false);
        let mut rhs = matrices(rng, &batch, k, n, order, false);
        if !batch.is_empty() {
            (lhs.strides[0], rhs.strides[0]) = (m * k + 8, k * n + 16);
        }
        (lhs.offset, rhs.offset) = (rng.pick(&[0, 8]), rng.pick(&[0, 8]));
        let filling = if index % 2 == 0 { Filling::Integers } else { Filling::Reals };
        let dst = Shape::contiguous(&[&batch[..], &[m, n]].concat());
        let mut operand = |shape: Shape| aligned(target, rng, t, filling, shape);
        Problem { t, filling, lhs: operand(lhs), rhs: operand(rhs), dst: operand(dst) }.run(&target.device)
    })
}

/// A lost or doubled term shows with integers. The bound of reals is wider than a term.
fn of_long_sums(target: &Target, name: &str, t: Type) -> Outcome {
    let shapes = [(3, 10_000, 5), (1, 30_011, 1), (1, 20_000, 6), (2, 9_001, 1), (20, 2_500, 4), (1, 9_000, 17)];
    each_case(target, "matmul", name, 4 * shapes.len(), |rng, index| {
        let (m, k, n) = shapes[index / 4];
        let filling = if index % 3 == 0 { Filling::Reals } else { Filling::Integers };
        let lhs = matrices(rng, &[], m, k, ORDERS[index % 2], false);
        let rhs = matrices(rng, &[], k, n, ORDERS[index / 2 % 2], false);
        Problem::new(target, rng, t, filling, lhs, rhs).run(&target.device)
    })
}

/// Few tiles and a long k. If compute units are free, several blocks take a part of k each. The lengths are around
/// those of a step and of a part. There are batches, and few columns, which are multiplied as rows.
fn of_parts(target: &Target, name: &str, t: Type) -> Outcome {
    let step = 64 / t.bytes;
    let lengths = [32 * step, 32 * step - 1, 33 * step + 1, 48 * step, 100 * step + 7, 16 * step];
    let shapes = [(20, 40), (2, 70), (33, 3), (64, 31)];
    each_case(target, "matmul", name, 4 * lengths.len(), |rng, index| {
        let (k, (m, n)) = (lengths[index / 4], shapes[index % 4]);
        let batch: &[usize] = if index % 3 == 0 { &[2] } else { &[] };
        let lhs = matrices(rng, batch, m, k, ORDERS[index % 5], false);
        let rhs = matrices(rng, batch, k, n, ORDERS[index / 5 % 5], false);
        let filling = filling(rng);
        Problem::new(target, rng, t, filling, lhs, rhs).run(&target.device)
    })
}

/// Sizes of 0: no launch, or zeros are written.
fn of_nothing(target: &Target, t: Type) -> Outcome {
    let mut rng = Rng(5);
    for (batch, m, k, n) in
        [(2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0), (0, 3, 4, 5), (0, 0, 0, 0), (1, 1, 0, 1), (1, 0, 0, 1)]
    {
        let lhs = matrices(&mut rng, &[batch], m, k, Order::Rows, false);
        let rhs = matrices(&mut rng, &[batch], k, n, Order::Columns, false);
        let problem = Problem::new(target, &mut rng, t, Filling::Integers, lhs, rhs);
        let (left, right) = (problem.lhs.layout(), problem.rhs.layout());
        succeeded(call(target.device.raw(), t, &left, NONE, &right, NONE, problem.view()))?;
        problem.check()?;
    }
    Ok(())
}

/// Both operands are in the same memory: x times its transpose.
fn of_itself(target: &Target, t: Type) -> Outcome {
    let mut rng = Rng(9);
    for (m, k) in [(5, 7), (33, 64), (70, 33)] {
        let shape = Shape::contiguous(&[m, k]);
        let turned = shape.permuted(&[1, 0]);
        let mut problem = Problem::new(target, &mut rng, t, Filling::Integers, shape, turned);
        problem.rhs.data.clone_from(&problem.lhs.data);
        let (left, right) = (problem.lhs.layout(), problem.rhs.layout());
        let view = problem.lhs.memory.view();
        succeeded(call(target.device.raw(), t, &left, view, &right, view, problem.view()))?;
        problem.rhs = Operand::new(target, &mut rng, t, problem.rhs.shape.clone(), problem.lhs.data.clone());
        problem.check()?;
    }
    Ok(())
}

/// Rows, lines along k, and matrices that are more than 2^32 elements apart.
#[cfg(unix)]
fn far_apart(target: &Target) -> Outcome {
    use crate::support::sparse::Sparse;
    let far = (1usize << 32) + 8;
    let mut rng = Rng(11);
    // (m, k, n), then the strides of both operands: the batch and the two dims.
    let cases = [
        ((3, 20, 70), [40, far, 1], [1400, 70, 1]),
        ((40, 3, 40), [40, 1, far], [0, far, 1]),
        ((40, 3, 40), [40, 1, far], [far * 4, 1, 3]),
        ((1, 20, 3), [20, 20, 1], [20, 1, far]),
        ((1, 3, 70), [20, 20, 1], [70, far, 1]),
    ];
    for ((m, k, n), left, right) in cases {
        let lhs = Shape { dims: vec![2, m, k], strides: left.to_vec(), offset: 5 };
        let rhs = Shape { dims: vec![2, k, n], strides: right.to_vec(), offset: 0 };
        let mut values = Vec::new();
        let mut place = |shape: &Shape| {
            let memory = Sparse::new(shape.reach() * 2)?;
            let numbers: Vec<f64> = (0..shape.numel()).map(|_| rng.below(9) as f64 - 4.0).collect();
            // Broadcast elements are written several times, and the last write counts.
            for (at, number) in shape.indices().into_iter().zip(&numbers) {
                // SAFETY: within the mapping; the device is the CPU, so its memory is ours.
                let bytes = unsafe { std::slice::from_raw_parts_mut(memory.at.add(at * 2), 2) };
                F16.put(bytes, 0, F16.round_bits(*number));
            }
            let now = shape.indices().into_iter().map(|at| {
                // SAFETY: as above.
                let bytes = unsafe { std::slice::from_raw_parts(memory.at.add(at * 2), 2) };
                F16.float(F16.get(bytes, 0))
            });
            values.push(now.collect::<Vec<_>>());
            Ok::<_, String>(memory)
        };
        let (x, y) = (place(&lhs)?, place(&rhs)?);
        let dst = target.device.alloc(2 * m * n * 2).map_err(|error| error.to_string())?;
        let (l, r) = (layout(&lhs), layout(&rhs));
        succeeded(call(target.device.raw(), F16, &l, x.view(), &r, y.view(), dst.raw_view()))?;
        let got = dst.download::<u8>().map_err(|error| error.to_string())?;
        for i in 0..2 * m * n {
            let (b, row, column) = (i / (m * n), i / n % m, i % n);
            let sum: f64 = (0..k).map(|l| values[0][(b * m + row) * k + l] * values[1][(b * k + l) * n + column]).sum();
            if F16.float(F16.get(&got, i)) != sum {
                return Err(format!("element {i}: {}, expected {sum}; {lhs:?} {rhs:?}", F16.show(F16.get(&got, i))));
            }
        }
    }
    Ok(())
}

// ---- kernels by name ----

/// The struct of kernels/call/matmul_call.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct NdDim {
    size: u64,
    mul: u64,
    shift: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Nd {
    numel: u64,
    rank: u32,
    flags: u32,
    dims: [NdDim; 8],
    strides: [[u64; 8]; 3],
    strips: Strips,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Strips {
    sizes: [NdDim; 3],
    numbers: [u32; 4],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Side {
    rows: u64,
    row_stride: u64,
    k_stride: u64,
    way: u32,
    is_aligned: u32,
}

impl Side {
    /// Strides count elements. `launch_some` sets `is_aligned`.
    fn new(rows: usize, row_stride: usize, k_stride: usize, way: u32) -> Side {
        Side { rows: rows as u64, row_stride: row_stride as u64, k_stride: k_stride as u64, way, is_aligned: 0 }
    }
}

/// crk_cache_order_t.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CacheOrder {
    caches: NdDim,
    blocks: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Call {
    batch: Nd,
    lhs: Side,
    rhs: Side,
    k: u64,
    row_stride: u64,
    column_stride: u64,
    first_block: u64,
    tiles: NdDim,
    parts: NdDim,
    band: NdDim,
    heights: [NdDim; 2],
    order: CacheOrder,
    whole_bands: u64,
    part_k: u64,
    by_vectors: u32,
    log2_width: u32,
}

/// crk_divisor_t: n / size == (mulhi(n, mul) + n) >> shift.
fn divisor(size: usize) -> NdDim {
    let shift = usize::BITS - (size - 1).leading_zeros();
    let rest = (1u128 << shift) - size as u128;
    NdDim { size: size as u64, mul: ((rest << 64) / size as u128) as u64 + 1, shift, unused: 0 }
}

impl Call {
    /// The same with narrow divisors.
    fn narrow(self) -> Call {
        let narrow = |by: NdDim| NdDim { mul: (((1 << by.shift) - by.size) << 32) / by.size.max(1) + 1, ..by };
        Call {
            tiles: narrow(self.tiles),
            parts: narrow(self.parts),
            band: narrow(self.band),
            heights: self.heights.map(narrow),
            ..self
        }
    }

    /// Blocks for `across` tiles along n and `down` tiles along m. CRK_MATMUL_BAND is 16.
    fn with_tiles(self, across: usize, down: usize) -> Call {
        Call {
            tiles: divisor(across * down),
            band: divisor(across * 16),
            heights: [divisor(16), divisor((down % 16).max(1))],
            whole_bands: (down / 16) as u64,
            ..self
        }
    }
}

/// Whether a kernel multiplies floats on matrix cores of NVIDIA GPUs, which round products a little.
fn is_split(target: &Target, t: Type, rows: usize) -> bool {
    t == F32 && rows == 128 && target.name.starts_with("cuda")
}

/// The threads of a block and the bytes of dynamic shared memory. On NVIDIA GPUs, kernels on matrix cores have their
/// own.
fn geometry(target: &Target, t: Type, (rows, columns, threads): (usize, usize, u32)) -> (u32, u32) {
    let is_half = t.bytes == 2 && target.name.starts_with("cuda");
    if !is_half && !is_split(target, t, rows) {
        return (threads, 0);
    }
    let depth = if rows + columns > 128 { 64 } else { 128 };
    let threads = if is_half && rows * columns >= 128 * 128 { (rows * columns / 128) as u32 } else { threads };
    (threads, (3 * (rows + columns) * depth * 2) as u32)
}

/// CRK_MATMUL_SHORT_BYTES: two steps of 64 numbers along k, and the results.
const SHORT_BYTES: u32 = 2 * (128 + 128) * 64 * 2 + 128 * (128 + 8) * 2;

const ANY: u32 = 0;
const ALONG_K: u32 = 1;
const ALONG_ROWS: u32 = 2;

/// Launches `blocks` blocks: first one block alone, then the others, as if a grid could not hold all of them. Their
/// order is that of a GPU with one to eight L2 caches.
fn launch_by_name(
    target: &Target,
    function: &Function,
    problem: &Problem,
    dst: *mut std::ffi::c_void,
    call: &Call,
    blocks: usize,
    geometry: (u32, u32),
) -> Outcome {
    for (first_block, count) in [(0, 1), (1, blocks - 1)] {
        let caches = (blocks / 2).clamp(1, 8);
        let order = CacheOrder { caches: divisor(caches), blocks: (blocks / caches) as u64 };
        launch_some(target, function, problem, dst, &Call { first_block, order, ..*call }, count, geometry)?;
    }
    Ok(())
}

/// Launches `blocks` blocks.
fn launch_some(
    target: &Target,
    function: &Function,
    problem: &Problem,
    dst: *mut std::ffi::c_void,
    call: &Call,
    blocks: usize,
    (threads, shared): (u32, u32),
) -> Outcome {
    let first = |operand: &Operand| {
        let skipped = operand.shape.offset * problem.t.bytes;
        operand.memory.ptr().cast::<u8>().wrapping_add(skipped).cast()
    };
    let mut call = *call;
    for (side, operand) in [(&mut call.lhs, &problem.lhs), (&mut call.rhs, &problem.rhs)] {
        let pack = 16 / problem.t.bytes as u64;
        let stride = if side.k_stride == 1 { side.row_stride } else { side.k_stride };
        let strides = &operand.shape.strides[..operand.shape.strides.len() - 2];
        let whole = stride % pack == 0 && strides.iter().all(|&stride| stride as u64 % pack == 0);
        side.is_aligned = (side.way != ANY && whole && first(operand) as usize % 16 == 0).into();
    }
    let args = [
        sys::crk_arg_t {
            data: std::ptr::from_ref(&call).cast(),
            value: 0,
            bytes: size_of::<Call>() as u32,
            is_pointer: false,
        },
        pointer(first(&problem.lhs)),
        pointer(first(&problem.rhs)),
        pointer(dst),
    ];
    launch(target, function, &args, blocks, threads, shared)
}

fn pointer(address: *mut std::ffi::c_void) -> sys::crk_arg_t {
    sys::crk_arg_t { data: std::ptr::null(), value: address as u64, bytes: 8, is_pointer: true }
}

fn launch(
    target: &Target,
    function: &Function,
    args: &[sys::crk_arg_t],
    blocks: usize,
    threads: u32,
    shared: u32,
) -> Outcome {
    let grid = sys::crk_dim3_t { x: blocks as u32, y: 1, z: 1 };
    let block = sys::crk_dim3_t { x: threads, y: 1, z: 1 };
    let device = target.device.raw();
    // SAFETY: these are the kernel's arguments, and the memory is large enough.
    succeeded(unsafe { sys::crk_launch(device, function.raw(), grid, block, shared, args.as_ptr(), args.len()) })
}

/// A row times a matrix, with every number of threads per row of the matrix.
/// The most numbers of dst that a lane stores at once.
fn stored_together(t: Type) -> usize {
    if t.bytes == 2 { 8 } else { 4 }
}

fn rows_by_name(target: &Target, name: &str, t: Type) -> Outcome {
    let function = target.device.function_named("matmul", &format!("matmul_{}_rows_vec", t.name));
    let function = function.map_err(|error| error.to_string())?;
    each_case(target, "matmul", name, 27, |rng, index| {
        let log2_width = (index % 9) as u32;
        let (k, n) = (rng.pick(&[1, 7, 8, 40, 257, 2100, 5000]), rng.pick(&[1, 2, 3, 9, 20]));
        let filling = filling(rng);
        let lhs = matrices(rng, &[], 1, k, Order::Rows, false);
        let rhs = matrices(rng, &[], k, n, Order::ColumnsApart, false);
        let (l, r) = (lhs.clone(), rhs.clone());
        let problem = Problem::new(target, rng, t, filling, lhs, rhs);
        let blocks = n.div_ceil(2 * (256 >> log2_width));
        let call = Call {
            batch: Nd { numel: 1, ..Nd::default() },
            lhs: Side::new(1, l.strides[0], l.strides[1], ANY),
            rhs: Side::new(n, r.strides[1], r.strides[0], ANY),
            k: k as u64,
            row_stride: n as u64,
            column_stride: 1,
            log2_width,
            ..Call::default().with_tiles(blocks, 1)
        };
        launch_by_name(target, &function, &problem, problem.dst.memory.ptr(), &call, blocks, (256, 0))?;
        problem.check()
    })
}

/// Each tile in full, with an edge, and with a single element, for every way of reading the operands.
fn by_name(target: &Target, name: &str, t: Type, tile: (usize, usize, u32)) -> Outcome {
    let (rows, columns, _) = tile;
    let step = 64 / t.bytes.max(4) * if t.bytes == 2 { 2 } else { 1 };
    let function = target.device.function_named("matmul", &format!("matmul_{}_{rows}x{columns}_tiles", t.name));
    let function = function.map_err(|error| error.to_string())?;
    let pack = 16 / t.bytes;
    each_case(target, "matmul", name, 27, |rng, index| {
        let (left, right) = ([ANY, ALONG_K, ALONG_ROWS][index % 3], [ANY, ALONG_K, ALONG_ROWS][index / 3 % 3]);
        let (m, n) = [(rows, columns), (rows - pack, columns + pack), (1, 1)][index / 9];
        let m = if left == ALONG_ROWS { m.next_multiple_of(pack) } else { m };
        let n = if right == ALONG_ROWS { n.next_multiple_of(pack) } else { n };
        let least = if is_split(target, t, rows) { 8 } else { 1 };
        let k = rng.pick(&[least, step - 1, step, step + 1, 2 * step, 2 * step + 5]);
        let order = |way: u32, is_left: bool| match way {
            ANY => Order::Scattered,
            way if (way == ALONG_K) == is_left => Order::RowsApart,
            _ => Order::ColumnsApart,
        };
        let lhs = matrices(rng, &[], m, k, order(left, true), false);
        let rhs = matrices(rng, &[], k, n, order(right, false), false);
        let filling = filling(rng);
        let problem = Problem::new(target, rng, t, filling, lhs, rhs);
        let (call, blocks) = tiles_call(&problem, (left, right), (rows, columns));
        launch_by_name(
            target,
            &function,
            &problem,
            problem.dst.memory.ptr(),
            &call,
            blocks,
            geometry(target, t, tile),
        )?;
        problem.check()
    })
}

/// The struct for a product of two matrices, which lie in memory in these ways, and the number of its tiles.
fn tiles_call(problem: &Problem, (left, right): (u32, u32), (rows, columns): (usize, usize)) -> (Call, usize) {
    let (l, r) = (&problem.lhs.shape, &problem.rhs.shape);
    let (m, k, n) = (l.dims[0], l.dims[1], r.dims[1]);
    let (down, across) = (m.div_ceil(rows), n.div_ceil(columns));
    let aligned = problem.view().ptr as usize % 16 == 0;
    let call = Call {
        batch: Nd { numel: 1, ..Nd::default() },
        lhs: Side::new(m, l.strides[0], l.strides[1], left),
        rhs: Side::new(n, r.strides[1], r.strides[0], right),
        k: k as u64,
        row_stride: n as u64,
        column_stride: 1,
        parts: divisor(1),
        part_k: k as u64,
        by_vectors: (n % stored_together(problem.t) == 0 && aligned).into(),
        ..Call::default().with_tiles(across, down)
    };
    (call, down * across)
}

/// The kernel for few numbers along k: blocks that make one tile or several each, on NVIDIA GPUs.
fn short_by_name(target: &Target, name: &str, t: Type) -> Outcome {
    let function = target.device.function_named("matmul", &format!("matmul_{}_short", t.name));
    let function = function.map_err(|error| error.to_string())?;
    each_case(target, "matmul", name, 16, |rng, index| {
        let (m, n) = [(1, 8), (127, 136), (260, 264), (2180, 136)][index % 4];
        let k = if m > 1000 { 8 } else { [8, 56, 64, 72, 128, 384][index % 6] };
        let (right, order) = rng.pick(&[(ALONG_K, Order::Columns), (ALONG_ROWS, Order::Rows)]);
        let mut lhs = matrices(rng, &[], m, k, Order::Rows, false);
        let mut rhs = matrices(rng, &[], k, n, order, false);
        (lhs.offset, rhs.offset) = (rng.pick(&[0, 8]), rng.pick(&[0, 8]));
        let filling = filling(rng);
        let dst = Shape::contiguous(&[m, n]);
        let mut operand = |shape: Shape| aligned(target, rng, t, filling, shape);
        let problem = Problem { t, filling, lhs: operand(lhs), rhs: operand(rhs), dst: operand(dst) };
        let (call, tiles) = tiles_call(&problem, (ALONG_K, right), (128, 128));
        let blocks = rng.pick(&[1, 2, 3]).min(tiles);
        let dst = problem.dst.memory.ptr();
        launch_some(target, &function, &problem, dst, &call.narrow(), blocks, (128, SHORT_BYTES))?;
        problem.check()
    })
}

/// Tiles with blocks that take a part of k each, and the sum of the parts, whatever the number of compute units.
fn parts_by_name(target: &Target, name: &str, t: Type) -> Outcome {
    let kernel = |name: String| target.device.function_named("matmul", &name).map_err(|error| error.to_string());
    let (step, wide) = (64 / t.bytes, t.bytes.max(4));
    each_case(target, "matmul", name, 16, |rng, index| {
        let tile = [(32, 32, 64), (16, 64, 128)][index % 2];
        let (rows, columns, _) = tile;
        let tiles = kernel(format!("matmul_{}_{rows}x{columns}_tiles", t.name))?;
        let add = kernel(format!("matmul_{}_parts", t.name))?;
        let (batch, m, n) =
            ([1, 2][index / 2 % 2], rng.pick(&[1, rows, rows + 3]), rng.pick(&[4, columns, columns + 5]));
        let part_k = rng.pick(&[1, 2, 3]) * step;
        let k = part_k * rng.pick(&[2, 3, 6]) - rng.pick(&[0, 1, part_k - 1]);
        let (lhs, rhs) = (Shape::contiguous(&[batch, m, k]), Shape::contiguous(&[batch, k, n]));
        let filling = filling(rng);
        let problem = Problem::new(target, rng, t, filling, lhs, rhs);
        let (parts, tiles_down, tiles_across) = (k.div_ceil(part_k), m.div_ceil(rows), n.div_ceil(columns));
        let mut dims = Nd { numel: batch as u64, rank: 1, ..Nd::default() };
        dims.dims[0] = divisor(batch);
        (dims.strides[0][0], dims.strides[1][0]) = ((m * k) as u64, (k * n) as u64);
        let whole_packs = n % (16 / t.bytes) == 0;
        let call = Call {
            batch: dims,
            lhs: Side::new(m, k, 1, ALONG_K),
            rhs: Side::new(n, 1, n, if whole_packs { ALONG_ROWS } else { ANY }),
            k: k as u64,
            row_stride: n as u64,
            column_stride: 1,
            parts: divisor(parts),
            part_k: part_k as u64,
            by_vectors: (n % stored_together(t) == 0).into(),
            ..Call::default().with_tiles(tiles_across, tiles_down)
        };
        let count = batch * m * n;
        let sums = target.device.alloc(parts * count * wide).map_err(|error| error.to_string())?;
        let sums = sums.raw_view().ptr;
        let blocks = tiles_across * tiles_down * parts * batch;
        launch_by_name(target, &tiles, &problem, sums, &call, blocks, geometry(target, t, tile))?;
        let number = |value: usize, bytes| sys::crk_arg_t {
            data: std::ptr::null(),
            value: value as u64,
            bytes,
            is_pointer: false,
        };
        let blocks = count.div_ceil(256);
        let dst = pointer(problem.dst.memory.ptr());
        let args = [pointer(sums), number(parts, 8), number(count, 8), dst, number(256 * blocks, 4)];
        launch(target, &add, &args, blocks, 256, 0)?;
        problem.check()
    })
}

// ---- everything else ----

/// Recorded and replayed with other data: kernels for tiles, in one part and in several, and for a single row.
fn captured(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let own = Target { name: target.name.clone(), device };
    let mut rng = Rng(3);
    // Trials that run at the same time may use up the cache of freed memory.
    // SAFETY: a live handle.
    succeeded(unsafe { sys::crk_memory_reserve(own.device.raw(), 1 << 20) })?;
    for (m, k, n) in [(20, 33, 40), (1, 100, 40), (40, 100, 1), (9, 5000, 9)] {
        let (lhs, rhs) = (Shape::contiguous(&[m, k]), Shape::contiguous(&[k, n]));
        let mut problem = Problem::new(&own, &mut rng, F32, Filling::Integers, lhs, rhs);
        problem.run(&own.device)?;
        let mut graph = null_mut();
        // SAFETY: live arguments; so below.
        succeeded(unsafe { sys::crk_graph_begin(own.device.raw()) })?;
        let recorded = problem.launch(&own.device);
        succeeded(unsafe { sys::crk_graph_end(own.device.raw(), &mut graph) })?;
        let outcome = recorded.and_then(|()| {
            for _ in 0..2 {
                problem.lhs.data = fill(&mut rng, F32, m * k, Filling::Integers);
                let (view, data) = (problem.lhs.memory.view(), &problem.lhs.data);
                let source = data.as_ptr().cast();
                succeeded(unsafe { sys::crk_copy_to_device(own.device.raw(), view, source, data.len()) })?;
                succeeded(unsafe { sys::crk_graph_launch(graph) })?;
                problem.check()?;
            }
            Ok(())
        });
        unsafe { sys::crk_graph_destroy(graph) };
        outcome?;
    }
    Ok(())
}

/// Eight threads with one handle, then with one handle each.
fn at_once(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u64)
            .map(|thread| {
                let device = &device;
                scope.spawn(move || {
                    let device = if thread % 2 == 0 {
                        device.clone()
                    } else {
                        device.new_stream().map_err(|e| e.to_string())?
                    };
                    let own = Target { name: target.name.clone(), device };
                    let mut rng = Rng(thread);
                    for _ in 0..6 {
                        let (m, k, n) = sizes(&mut rng, 20_000);
                        let t = rng.pick(&FLOATS);
                        let lhs = matrices(&mut rng, &[2], m, k, Order::Rows, false);
                        let rhs = matrices(&mut rng, &[2], k, n, Order::Columns, false);
                        Problem::new(&own, &mut rng, t, Filling::Integers, lhs, rhs).run(&own.device)?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    outcomes.into_iter().collect()
}

/// TF32 is off at first. Where it is allowed, cuBLAS rounds the operands, and sums stay within the contract's bound.
/// Own kernels compute as before. The setting is of the whole process, so this trial has one of its own.
#[cfg(unix)]
fn tf32(target: &Target) -> Outcome {
    alone_on_targets(&format!("matmul/{}/tf32", target.name), &[], || compare_tf32(target).expect("products"));
    Ok(())
}

#[cfg(unix)]
fn compare_tf32(target: &Target) -> Outcome {
    let (rng, size) = (&mut Rng(11), 256);
    let shape = || Shape::contiguous(&[size, size]);
    let problem = Problem::new(target, rng, F32, Filling::Reals, shape(), shape());
    let product = || {
        problem.launch(&target.device)?;
        problem.dst.memory.read()
    };
    let exact = product()?;
    problem.check()?;
    Device::allow_tf32(true);
    let rounded = product()?;
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let library = target.device.blas().map_err(error)?;
    let number = |operand: &Operand, at: usize| F32.float(F32.get(&operand.data, at));
    // The error of a sum as a part of the products' magnitudes.
    let mut worst = 0f64;
    for i in 0..size * size {
        let row: Vec<f64> = (0..size).map(|k| number(&problem.lhs, i / size * size + k)).collect();
        let column: Vec<f64> = (0..size).map(|k| number(&problem.rhs, k * size + i % size)).collect();
        let (sum, magnitudes) = dot(&row, &column);
        let error = (F32.float(F32.get(&rounded, i)) - sum).abs() / magnitudes;
        let is_near = error <= 2f64.powi(-9);
        if !is_near {
            return Err(format!("{library}: the error of element {i} is {error:.1e} of the sum of magnitudes"));
        }
        worst = worst.max(error);
    }
    println!("{library}: with TF32 the greatest error is {worst:.1e} of the sum of magnitudes");
    if library == "own kernels" && rounded != exact {
        return Err("own kernels gave other bits".into());
    }
    // f32 sums of 256 products are off by less than 2^-16 of the magnitudes.
    if library == "cuBLAS" && worst < 2f64.powi(-16) {
        return Err(format!("cuBLAS did not round the operands: the error is {worst:.1e}"));
    }
    Device::allow_tf32(false);
    if product()? != exact {
        return Err(format!("{library}: the product has other bits than before TF32 was allowed"));
    }
    Ok(())
}

/// The safe layer passes its arguments on, and refuses a buffer of another handle.
fn safe_layer(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let device = &target.device;
    let (a, b) = (
        device.upload(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).map_err(error)?,
        device.upload(&[1f32, -1.0, 2.0]).map_err(error)?,
    );
    let dst = device.alloc(8).map_err(error)?;
    let (l, r) = (Layout::contiguous(&[2, 3]).map_err(error)?, Layout::contiguous(&[3, 1]).map_err(error)?);
    device.matmul(F32.dtype, (&l, &a), (&r, &b), &dst).map_err(error)?;
    let got = dst.download::<f32>().map_err(error)?;
    if got != [5.0, 11.0] {
        return Err(format!("{got:?}"));
    }
    let name = device.blas().map_err(error)?;
    let names: &[&str] = match target.name.split(':').next() {
        Some("hip") => &["rocBLAS", "own kernels"],
        Some("cuda") => &["cuBLAS", "own kernels"],
        _ => &["own kernels"],
    };
    if !names.contains(&name) {
        return Err(format!("the device uses {name}"));
    }
    let other = open(&target.name).map_err(error)?;
    let foreign = other.alloc(8).map_err(error)?;
    let whole = device.matmul(F32.dtype, (&l, &a), (&r, &b), &foreign);
    let row = device.matmul_grouped(F32.dtype, 3, &a, &[((&r, &b).into(), (&dst).into(), Some((&foreign).into()))]);
    for (outcome, place) in [(whole, "crk_matmul: dst"), (row, "crk_matmul_grouped: bias")] {
        match outcome {
            Err(error) if error.message().starts_with(&format!("{place} belongs to another handle")) => {}
            outcome => return Err(format!("a buffer of another handle: {outcome:?}")),
        }
    }
    Ok(())
}

/// Bad values for every argument: checks the status and the name in the sentence.
fn refused(target: &Target) -> Outcome {
    let device = target.device.raw();
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let buffer = || target.device.upload(&[0u8; 512]).map_err(error);
    let (lhs, rhs, dst) = (buffer()?, buffer()?, buffer()?);
    let (a, b, d) = (lhs.raw_view(), rhs.raw_view(), dst.raw_view());
    let at = |view: sys::crk_view_t, offset: usize, bytes: usize| sys::crk_view_t {
        ptr: view.ptr.cast::<u8>().wrapping_add(offset).cast(),
        bytes,
    };
    let null = |bytes| sys::crk_view_t { ptr: null_mut(), bytes };
    let of = |dims: &[usize]| Layout::contiguous(dims).map_err(error);
    let strided = |dims: &[usize], strides: &[usize], offset| Layout::strided(dims, strides, offset).map_err(error);
    let (l, r) = (of(&[2, 3, 4])?, of(&[2, 4, 5])?);
    let (mut high_l, mut high_r) = (l, r);
    (high_l.rank, high_r.rank) = (9, 9);
    let mut no_dtype = F32;
    no_dtype.dtype = sys::crk_dtype(77);
    use Status as S;
    let (invalid, bounds) = (S::InvalidArgument, S::OutOfBounds);
    let try_one = |word: &str, expected: S, got: Status| refused_with("crk_matmul", word, expected, got);
    try_one("self is NULL", invalid, call(null_mut(), F32, &l, a, &r, b, d))?;
    static ZEROS: [u64; 1024] = [0; 1024];
    try_one("self is no live", invalid, call(ZEROS.as_ptr() as sys::crk_device_t, F32, &l, a, &r, b, d))?;
    try_one("dtype 77", invalid, call(device, no_dtype, &l, a, &r, b, d))?;
    for t in [U8, I64, F8] {
        try_one(t.name, S::Unsupported, call(device, t, &l, a, &r, b, d))?;
    }
    try_one("lhs_layout is NULL", invalid, call(device, F32, std::ptr::null(), a, &r, b, d))?;
    try_one("rhs_layout is NULL", invalid, call(device, F32, &l, a, std::ptr::null(), b, d))?;
    try_one("lhs_layout.rank is 9", invalid, call(device, F32, &high_l, a, &r, b, d))?;
    try_one("rhs_layout.rank is 9", invalid, call(device, F32, &l, a, &high_r, b, d))?;
    for dims in [&[][..], &[4]] {
        try_one("lhs_layout.rank is", invalid, call(device, F32, &of(dims)?, a, &of(dims)?, b, d))?;
    }
    try_one("rhs_layout.rank is 2", invalid, call(device, F32, &l, a, &of(&[4, 5])?, b, d))?;
    try_one("rhs_layout.dims[0] is 1", invalid, call(device, F32, &l, a, &of(&[1, 4, 5])?, b, d))?;
    try_one("rhs_layout.dims[1] is 3", invalid, call(device, F32, &l, a, &of(&[2, 3, 5])?, b, d))?;
    let huge = strided(&[1 << 32, 1], &[0, 1], 0)?;
    let wide = strided(&[1, 1 << 32], &[1, 0], 0)?;
    try_one("elements", invalid, call(device, F32, &huge, a, &wide, b, d))?;
    let over = strided(&[2, 3, 4], &[usize::MAX / 2, usize::MAX / 2, 1], 0)?;
    try_one("lhs_layout", invalid, call(device, F32, &over, a, &r, b, d))?;
    let over = strided(&[2, 4, 5], &[usize::MAX / 2, usize::MAX / 2, 1], 0)?;
    try_one("rhs_layout", invalid, call(device, F32, &l, a, &over, b, d))?;
    try_one("lhs", bounds, call(device, F32, &l, at(a, 0, 95), &r, b, d))?;
    try_one("rhs", bounds, call(device, F32, &l, a, &r, at(b, 0, 159), d))?;
    try_one("dst", bounds, call(device, F32, &l, a, &r, b, at(d, 0, 119)))?;
    try_one("lhs", bounds, call(device, F32, &strided(&[2, 3, 4], &[12, 4, 1], 105)?, a, &r, b, d))?;
    try_one("rhs", bounds, call(device, F32, &l, a, &strided(&[2, 4, 5], &[20, 5, 40], 0)?, b, d))?;
    try_one("lhs.ptr is NULL", invalid, call(device, F32, &l, null(96), &r, b, d))?;
    try_one("rhs.ptr is NULL", invalid, call(device, F32, &l, a, &r, null(160), d))?;
    try_one("dst.ptr is NULL", invalid, call(device, F32, &l, a, &r, b, null(120)))?;
    try_one("lhs.ptr", invalid, call(device, F32, &l, at(a, 2, 100), &r, b, d))?;
    try_one("rhs.ptr", invalid, call(device, F32, &l, a, &r, at(b, 1, 200), d))?;
    try_one("dst.ptr", invalid, call(device, F32, &l, a, &r, b, at(d, 2, 200)))?;
    try_one("dst overlaps lhs", invalid, call(device, F32, &l, at(d, 116, 96), &r, b, d))?;
    try_one("dst overlaps rhs", invalid, call(device, F32, &l, a, &r, at(d, 100, 160), d))?;
    try_one("dst overlaps lhs", invalid, call(device, F32, &l, a, &r, b, a))?;
    // SAFETY: the call is refused before it uses a pointer.
    let blas = unsafe { sys::crk_device_blas(null_mut(), null_mut()) };
    if blas != invalid || !last_error().contains("crk_device_blas: self is NULL") {
        return Err(format!("crk_device_blas: {}", last_error()));
    }
    // SAFETY: a live handle.
    let blas = unsafe { sys::crk_device_blas(device, null_mut()) };
    if blas != invalid || !last_error().contains("crk_device_blas: name is NULL") {
        return Err(format!("crk_device_blas: {}", last_error()));
    }
    let untouched = dst.download::<u8>().map_err(error)?.iter().all(|byte| *byte == 0);
    if untouched { Ok(()) } else { Err("a refused call wrote".into()) }
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "matmul", target, name, body);
        for t in FLOATS {
            type Cases = fn(&Target, &str, Type) -> Outcome;
            let all: [(&str, Cases); 8] = [
                ("sizes", of_sizes),
                ("vectors", of_vectors),
                ("batches", of_batches),
                ("folded", of_folded_batches),
                ("tiles", of_many_tiles),
                ("short", of_short_sums),
                ("long", of_long_sums),
                ("parts", of_parts),
            ];
            for (what, cases) in all {
                add(format!("{what}_{}", t.name), Box::new(move |target, name| cases(target, name, t)));
            }
            add(format!("nothing_{}", t.name), Box::new(move |target, _| of_nothing(target, t)));
            add(format!("by_name_rows_{}", t.name), Box::new(move |target, name| rows_by_name(target, name, t)));
            add(format!("by_name_parts_{}", t.name), Box::new(move |target, name| parts_by_name(target, name, t)));
            add(format!("itself_{}", t.name), Box::new(move |target, _| of_itself(target, t)));
            let is_half_on_cuda = t.bytes == 2 && target.name.starts_with("cuda");
            if is_half_on_cuda {
                add(format!("by_name_short_{}", t.name), Box::new(move |target, name| short_by_name(target, name, t)));
            }
            for tile in [(128, 256, 256), (128, 128, 256), (64, 64, 128), (32, 32, 64), (16, 64, 128)] {
                if (t, tile.0) != (F64, 128) && (tile.1 != 256 || is_half_on_cuda) {
                    let name = format!("by_name_{}x{}_{}", tile.0, tile.1, t.name);
                    add(name, Box::new(move |target, name| by_name(target, name, t, tile)));
                }
            }
        }
        #[cfg(unix)]
        if target.name.starts_with("cpu") {
            add("far_apart".into(), Box::new(|target, _| far_apart(target)));
        }
        #[cfg(unix)]
        add("tf32".into(), Box::new(|target, _| tf32(target)));
        add("captured".into(), Box::new(|target, _| captured(target)));
        add("at_once".into(), Box::new(|target, _| at_once(target)));
        add("safe_layer".into(), Box::new(|target, _| safe_layer(target)));
        add("refused".into(), Box::new(|target, _| refused(target)));
    }
    trials
}
