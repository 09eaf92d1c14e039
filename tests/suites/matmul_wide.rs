//! Products of a row with long rows of one to three matrices, and with the two matrices of a gate, by launcher and by
//! kernel. The references are sums in f64, and crk_matmul with crk_gate. The cases have lengths around the pieces,
//! threads and parts of a row, odd numbers of rows, gaps, offsets that are not aligned, NaN and infinities. Guard bytes
//! surround every buffer.
//!
//! A trial is a device, a family of cases and a dtype: `matmul_wide/cpu:32/grouped_f16`.

use super::matmul::{Filling, admits, fill};
use crate::support::cases::{Rng, Shape};
use crate::support::number::{BF16, F16, F32, F64, I64, Type};
use crate::support::property::{Operand, Outcome, each_case};
use crate::support::{Body, Target, add_trial, refused_with, succeeded};
use candle_rocm_sys::{GateOp, Layout, Status, sys};
use libtest_mimic::Trial;

const FLOATS: [Type; 4] = [BF16, F16, F32, F64];
const GATES: [(GateOp, &str); 5] = [
    (GateOp::Silu, "silu"),
    (GateOp::Gelu, "gelu"),
    (GateOp::GeluErf, "gelu_erf"),
    (GateOp::Relu, "relu"),
    (GateOp::Sigmoid, "sigmoid"),
];

/// How far a gate may be from crk_gate, in units in the last place. A CPU's compiler computes several activations at
/// once in one of them and one in the other.
const GATE_UNITS: u64 = 2;

/// Weights (n, k), the row that they are multiplied with, the place of the results, and what is added to them.
struct Weights {
    weights: Operand,
    dst: Operand,
    bias: Option<Operand>,
}

/// Whether a sum with a bias is right: as [`admits`] says, or rounded before the bias is added and after it.
fn admits_with(t: Type, filling: Filling, k: usize, got: u64, (sum, size): (f64, f64), bias: f64) -> bool {
    let exact = t.float(t.round_bits(t.float(t.round_bits(sum)) + bias));
    let (unit, half) = match t.name {
        "bf16" => (2f64.powi(-23), 2f64.powi(-8)),
        "f16" => (2f64.powi(-23), 2f64.powi(-11)),
        "f32" => (2f64.powi(-23), 2f64.powi(-24)),
        _ => (2f64.powi(-52), 2f64.powi(-53)),
    };
    let rounding = if filling == Filling::Reals { sum.abs() * half / unit / k as f64 } else { 0.0 };
    admits(t, filling, k, got, sum + bias, size + bias.abs() + rounding) || t.float(got) == exact
}

/// A row of k numbers.
fn row(target: &Target, rng: &mut Rng, t: Type, filling: Filling, k: usize, aligned: bool) -> Operand {
    let (shape, data) = (Shape::contiguous(&[k]), fill(rng, t, k, filling));
    if aligned { Operand::aligned(target, t, shape, data) } else { Operand::new(target, rng, t, shape, data) }
}

/// Weights of n rows of k numbers, which are `row_stride` apart.
fn weights(target: &Target, rng: &mut Rng, filling: Filling, x: &Operand, n: usize, place: (usize, usize)) -> Weights {
    let (t, k) = (x.t, x.shape.dims[0]);
    let (row_stride, offset) = place;
    let shape = Shape { dims: vec![n, k], strides: vec![row_stride, 1], offset };
    let data = fill(rng, t, shape.reach(), filling);
    let weights = Operand::aligned(target, t, shape, data);
    Weights { weights, dst: Operand::destination(target, rng, t, &[n]), bias: None }
}

impl Weights {
    /// With a bias in half of the cases.
    fn perhaps_biased(mut self, target: &Target, rng: &mut Rng, filling: Filling) -> Weights {
        if rng.one_in(2) {
            let (t, shape) = (self.dst.t, self.dst.shape.clone());
            let kind = if filling == Filling::Reals { Filling::Reals } else { Filling::Integers };
            let data = fill(rng, t, shape.numel(), kind);
            self.bias = Some(Operand::new(target, rng, t, shape, data));
        }
        self
    }

    /// Compares dst with sums in f64.
    fn check(&self, filling: Filling, x: &Operand) -> Outcome {
        let (t, shape) = (x.t, &self.weights.shape);
        let got = self.dst.memory.read().map_err(|problem| format!("destination: {problem}"))?;
        let (n, k) = (shape.dims[0], shape.dims[1]);
        let row: Vec<f64> = (0..k).map(|l| t.float(t.get(&x.data, l))).collect();
        for i in 0..n {
            let at = shape.offset + i * shape.strides[0];
            let (mut sum, mut size) = (0.0, 0.0);
            for (l, x) in row.iter().enumerate() {
                let product = x * t.float(t.get(&self.weights.data, at + l * shape.strides[1]));
                sum += product;
                size += product.abs();
            }
            let code = t.get(&got, i);
            let right = match &self.bias {
                None => admits(t, filling, k, code, sum, size),
                Some(bias) => {
                    let bias = t.float(t.get(&bias.data, i));
                    sum += bias;
                    admits_with(t, filling, k, code, (sum - bias, size), bias)
                }
            };
            if !right {
                return Err(format!("row {i} of {n}, k {k}: {}, expected {sum}", t.show(code)));
            }
        }
        self.weights.unchanged()?;
        self.bias.as_ref().map_or(Ok(()), Operand::unchanged)?;
        x.unchanged()
    }

    fn call(&self, layout: &Layout) -> sys::crk_matmul_weights_t {
        sys::crk_matmul_weights_t {
            layout,
            weights: self.weights.memory.view().into(),
            dst: self.dst.memory.view(),
            bias: self.bias.as_ref().map_or(sys::crk_const_view_t::default(), |bias| bias.memory.view().into()),
        }
    }
}

/// Lengths of a row in pieces of 16 bytes: the shortest, not whole in any way, and longer than a block sums at once.
const PIECES: &[usize] = &[64, 65, 100, 112, 128, 129, 255, 257, 300, 512, 2048, 2049, 4100];
const ROWS: &[usize] = &[1, 2, 3, 4, 5, 7, 16, 33];

fn filling(rng: &mut Rng) -> Filling {
    rng.pick(&[Filling::Integers, Filling::Integers, Filling::Reals, Filling::Special])
}

/// A length and a stride of rows. Most have whole pieces.
fn length(rng: &mut Rng, t: Type) -> (usize, usize) {
    let piece = 16 / t.bytes;
    let k = rng.pick(PIECES) * piece + if rng.one_in(8) { rng.below(piece) } else { 0 };
    (k, k.next_multiple_of(piece) + rng.pick(&[0, 0, 0, piece, 5 * piece, 1]))
}

/// Products of a row by crk_matmul.
fn rows(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "matmul_wide", name, 60, |rng, _| {
        let (k, row_stride) = length(rng, t);
        let (filling, aligned) = (filling(rng), !rng.one_in(8));
        let x = row(target, rng, t, filling, k, aligned);
        let n = rng.pick(ROWS);
        let offset = rng.pick(&[0, 0, 16 / t.bytes, 1]);
        let one = weights(target, rng, filling, &x, n, (row_stride, offset));
        let lhs = Layout::contiguous(&[1, k]).map_err(|error| error.to_string())?;
        let rhs = Layout::strided(&[k, n], &[1, row_stride], offset).map_err(|error| error.to_string())?;
        let (a, b) = (x.memory.view().into(), one.weights.memory.view().into());
        // SAFETY: live arguments.
        succeeded(unsafe { sys::crk_matmul(target.device.raw(), t.dtype, &lhs, a, &rhs, b, one.dst.memory.view()) })?;
        one.check(filling, &x)
    })
}

/// One to three matrices at once. Some are empty, some have a bias, some do not fit the kernel.
fn grouped(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "matmul_wide", name, 60, |rng, index| {
        let (k, _) = length(rng, t);
        let (filling, aligned) = (filling(rng), !rng.one_in(8));
        let x = row(target, rng, t, filling, k, aligned);
        let all: Vec<Weights> = (0..1 + index % 3)
            .map(|_| {
                let n = if rng.one_in(10) { 0 } else { rng.pick(ROWS) };
                let row_stride = k + rng.pick(&[0, 0, 0, 16 / t.bytes, 48 / t.bytes, 1]);
                let offset = rng.pick(&[0, 0, 0, 16 / t.bytes, 1]);
                weights(target, rng, filling, &x, n, (row_stride, offset)).perhaps_biased(target, rng, filling)
            })
            .collect();
        let layouts: Vec<Layout> = all.iter().map(|one| one.weights.layout()).collect();
        let calls: Vec<_> = all.iter().zip(&layouts).map(|(one, layout)| one.call(layout)).collect();
        let view = x.memory.view().into();
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_matmul_grouped(target.device.raw(), t.dtype, k, view, calls.as_ptr(), calls.len())
        })?;
        all.iter().try_for_each(|one| one.check(filling, &x))
    })
}

/// Makes the results of crk_matmul and crk_gate.
fn gate_apart(target: &Target, op: GateOp, x: &Operand, both: &[Weights; 2], dst: &Operand) -> Outcome {
    let (t, device, n) = (x.t, target.device.raw(), dst.shape.dims[0]);
    let lhs = Layout::contiguous(&[1, x.shape.dims[0]]).map_err(|error| error.to_string())?;
    let flat = Layout::contiguous(&[n]).map_err(|error| error.to_string())?;
    // SAFETY: live arguments.
    unsafe {
        for one in both {
            let rhs = one.weights.shape.permuted(&[1, 0]);
            let rhs = Layout::strided(&rhs.dims, &rhs.strides, rhs.offset).map_err(|error| error.to_string())?;
            let (a, b) = (x.memory.view().into(), one.weights.memory.view().into());
            succeeded(sys::crk_matmul(device, t.dtype, &lhs, a, &rhs, b, one.dst.memory.view()))?;
        }
        let [gate, up] = [&both[0], &both[1]].map(|one| one.dst.memory.view().into());
        succeeded(sys::crk_gate(device, op, t.dtype, &flat, gate, &flat, up, dst.memory.view()))
    }
}

/// Two matrices of small integers, whose sums are exact, and two places for the gated results. Some lengths and
/// strides do not fit the kernel, unless `fits`.
fn gated(target: &Target, rng: &mut Rng, t: Type, fits: bool) -> Result<(Operand, [Weights; 2], [Operand; 2]), String> {
    let piece = 16 / t.bytes;
    let k = if fits { rng.pick(PIECES) * piece } else { length(rng, t).0 };
    let aligned = fits || !rng.one_in(8);
    let x = row(target, rng, t, Filling::Integers, k, aligned);
    let n = rng.pick(ROWS);
    let both = [0, 1].map(|_| {
        let place = if fits {
            (k + rng.pick(&[0, piece]), rng.pick(&[0, piece]))
        } else {
            (k + rng.pick(&[0, 0, 0, piece, 1]), rng.pick(&[0, 0, 0, piece, 1]))
        };
        weights(target, rng, Filling::Integers, &x, n, place)
    });
    let results = [0, 1].map(|_| Operand::destination(target, rng, t, &[n]));
    Ok((x, both, results))
}

fn same_gate(got: &Operand, expected: &Operand, x: &Operand, both: &[Weights; 2]) -> Outcome {
    let (t, got_bytes, expected_bytes) = (got.t, got.memory.read()?, expected.memory.read()?);
    for i in 0..got.shape.numel() {
        let (a, b) = (t.get(&got_bytes, i), t.get(&expected_bytes, i));
        if a != b && !(t.is_nan(a) && t.is_nan(b)) && t.ulps(a, b).is_none_or(|ulps| ulps > GATE_UNITS) {
            return Err(format!("element {i}: {}, not {}; k {}", t.show(a), t.show(b), x.shape.dims[0]));
        }
    }
    x.unchanged()?;
    both.iter().try_for_each(|one| one.weights.unchanged())
}

fn gate(target: &Target, name: &str, op: GateOp, t: Type) -> Outcome {
    each_case(target, "matmul_wide", name, 24, |rng, _| {
        let (x, both, [dst, expected]) = gated(target, rng, t, false)?;
        gate_apart(target, op, &x, &both, &expected)?;
        let [gate_layout, up_layout] = [&both[0], &both[1]].map(|one| one.weights.layout());
        let [gate, up] = [&both[0], &both[1]].map(|one| one.weights.memory.view().into());
        let (k, view, to) = (x.shape.dims[0], x.memory.view().into(), dst.memory.view());
        // SAFETY: live arguments.
        succeeded(unsafe {
            let device = target.device.raw();
            sys::crk_matmul_gate(device, op, t.dtype, k, view, &gate_layout, gate, &up_layout, up, to)
        })?;
        same_gate(&dst, &expected, &x, &both)
    })
}

// ---- kernels by name ----

/// The structs of kernels/call/matmul_call.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct WideMatrix {
    pub first: u64,
    pub dst: u64,
    pub bias: u64,
    pub rows: u64,
    pub row_stride: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct WideProduct {
    pub matrix: [WideMatrix; 3],
    pub x: u64,
    pub k: u64,
    pub chunk: u64,
    pub end: [u32; 3],
    pub block_rows: u32,
    pub threads: u32,
    pub unused: u32,
}

impl WideMatrix {
    fn of(one: &Weights) -> WideMatrix {
        let (shape, memory) = (&one.weights.shape, one.weights.memory.ptr() as u64);
        WideMatrix {
            first: memory + (shape.offset * one.weights.t.bytes) as u64,
            dst: one.dst.memory.ptr() as u64,
            bias: one.bias.as_ref().map_or(0, |bias| bias.memory.ptr() as u64),
            rows: shape.dims[0] as u64,
            row_stride: shape.strides[0] as u64,
        }
    }
}

/// Numbers of threads of a block.
pub(super) const THREADS: &[usize] = &[32, 64, 96, 128, 160, 256, 512];

/// Fills in how blocks of `threads` threads share the work of `count` matrices. A block has `per` sums of each row, and
/// a number of rows that `fits`.
pub(super) fn divide(
    rng: &mut Rng,
    t: Type,
    threads: usize,
    product: WideProduct,
    (count, per): (usize, usize),
    fits: impl Fn(u32) -> bool,
) -> WideProduct {
    let piece = 16 / t.bytes;
    // At most 4 pieces per thread; sometimes far fewer.
    let pieces = rng.pick(&[4 * threads, 4 * threads, 3 * threads, threads + 1]);
    let most_rows = (1024 / (threads / 32) / per) as u32;
    let mut block_rows = rng.pick(&[1, 2, 3, 4, 8, 30]).min(most_rows);
    while !fits(block_rows) {
        block_rows -= 1;
    }
    let mut product = WideProduct { chunk: (pieces * piece) as u64, block_rows, threads: threads as u32, ..product };
    let mut blocks = 0;
    for (i, end) in product.end.iter_mut().enumerate() {
        blocks += if i < count { (product.matrix[i].rows as u32).div_ceil(block_rows) } else { 0 };
        *end = blocks;
    }
    product
}

/// Launches a kernel with the argument `call`. The argument contains `product`, which gives the geometry.
pub(super) fn launch_with<A>(target: &Target, kernel: &str, product: &WideProduct, call: &A) -> Outcome {
    let function = target.device.function_named("matmul", kernel).map_err(|error| error.to_string())?;
    let data = std::ptr::from_ref(call).cast();
    let arg = sys::crk_arg_t { data, value: 0, bytes: size_of::<A>() as u32, is_pointer: false };
    let grid = sys::crk_dim3_t { x: product.end[2], y: 1, z: 1 };
    let block = sys::crk_dim3_t { x: product.threads, y: 1, z: 1 };
    // SAFETY: this is the kernel's argument, and the memory is large enough.
    succeeded(unsafe { sys::crk_launch(target.device.raw(), function.raw(), grid, block, 0, &arg, 1) })
}

/// Launches a kernel with `product`, after it has filled in how blocks share the work.
fn launch(target: &Target, rng: &mut Rng, kernel: &str, t: Type, product: WideProduct, count: usize) -> Outcome {
    let (threads, per) = (rng.pick(THREADS), if kernel.contains("gate") { 2 } else { 1 });
    let product = divide(rng, t, threads, product, (count, per), |_| true);
    launch_with(target, kernel, &product, &product)
}

fn by_name(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "matmul_wide", name, 40, |rng, index| {
        let piece = 16 / t.bytes;
        let (k, filling) = (rng.pick(PIECES) * piece, filling(rng));
        let x = row(target, rng, t, filling, k, true);
        let all: Vec<Weights> = (0..1 + index % 3)
            .map(|_| {
                let (n, place) = (rng.pick(ROWS), (k + rng.pick(&[0, 3 * piece]), rng.pick(&[0, piece])));
                weights(target, rng, filling, &x, n, place).perhaps_biased(target, rng, filling)
            })
            .collect();
        let mut product = WideProduct { x: x.memory.ptr() as u64, k: k as u64, ..WideProduct::default() };
        for (matrix, one) in product.matrix.iter_mut().zip(&all) {
            *matrix = WideMatrix::of(one);
        }
        launch(target, rng, &format!("matmul_{}_wide_vec", t.name), t, product, all.len())?;
        all.iter().try_for_each(|one| one.check(filling, &x))
    })
}

fn gate_by_name(target: &Target, name: &str, (op, text): (GateOp, &str), t: Type) -> Outcome {
    each_case(target, "matmul_wide", name, 16, |rng, _| {
        let (x, both, [dst, expected]) = gated(target, rng, t, true)?;
        gate_apart(target, op, &x, &both, &expected)?;
        let mut matrix = [WideMatrix::of(&both[0]), WideMatrix::of(&both[1]), WideMatrix::default()];
        matrix[0].dst = dst.memory.ptr() as u64;
        let product =
            WideProduct { matrix, x: x.memory.ptr() as u64, k: x.shape.dims[0] as u64, ..WideProduct::default() };
        launch(target, rng, &format!("matmul_gate_{text}_{}", t.name), t, product, 1)?;
        same_gate(&dst, &expected, &x, &both)
    })
}

// ---- arguments ----

fn refused(target: &Target) -> Outcome {
    use Status as S;
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let device = target.device.raw();
    let buffer = || target.device.upload(&[0u8; 4096]).map_err(error);
    let (x, a, b, d, e) = (buffer()?, buffer()?, buffer()?, buffer()?, buffer()?);
    let [x, a, b, d, e] = [&x, &a, &b, &d, &e].map(candle_rocm_sys::Buffer::raw_view);
    let part = |view: sys::crk_view_t, from: usize, bytes: usize| sys::crk_view_t {
        ptr: view.ptr.cast::<u8>().wrapping_add(from).cast(),
        bytes,
    };
    let layout = |dims: &[usize]| Layout::contiguous(dims).map_err(error);
    let (good, short, deep, other) = (layout(&[3, 64])?, layout(&[3, 63])?, layout(&[1, 3, 64])?, layout(&[2, 64])?);
    let (invalid, small, f32_) = (S::InvalidArgument, S::OutOfBounds, F32.dtype);
    let one = |layout: *const Layout, weights: sys::crk_view_t, dst| sys::crk_matmul_weights_t {
        layout,
        weights: weights.into(),
        dst,
        bias: sys::crk_const_view_t::default(),
    };
    // SAFETY: the launchers refuse arguments that are not live; the views are of live buffers.
    unsafe {
        let where_ = "crk_matmul_grouped";
        let many = |t, k, x: sys::crk_view_t, all: &[sys::crk_matmul_weights_t], count| {
            sys::crk_matmul_grouped(device, t, k, x.into(), all.as_ptr(), count)
        };
        let two = |first, second| [one(&good, a, first), one(&good, b, second)];
        let null = sys::crk_matmul_grouped(device, f32_, 64, x.into(), std::ptr::null(), 1);
        refused_with(where_, "weights is NULL", invalid, null)?;
        refused_with(where_, "count is 0", invalid, many(f32_, 64, x, &two(d, e), 0))?;
        refused_with(where_, "count is 4", invalid, many(f32_, 64, x, &two(d, e), 4))?;
        refused_with(where_, "i64", S::Unsupported, many(I64.dtype, 64, x, &two(d, e), 2))?;
        refused_with(where_, "x", small, many(f32_, 64, part(x, 0, 255), &two(d, e), 2))?;
        refused_with(where_, "dst", small, many(f32_, 64, x, &two(d, part(e, 0, 11)), 2))?;
        refused_with(where_, "weights", small, many(f32_, 64, x, &[one(&good, part(a, 0, 767), d)], 1))?;
        refused_with(where_, "but k is 64", invalid, many(f32_, 64, x, &[one(&short, a, d)], 1))?;
        refused_with(where_, "must be 2", invalid, many(f32_, 64, x, &[one(&deep, a, d)], 1))?;
        refused_with(
            where_,
            "weights[0].layout is NULL",
            invalid,
            many(f32_, 64, x, &[one(std::ptr::null(), a, d)], 1),
        )?;
        refused_with(where_, "dst overlaps x", invalid, many(f32_, 64, x, &two(d, part(x, 0, 12)), 2))?;
        refused_with(
            where_,
            "weights[1].dst overlaps weights[0].weights",
            invalid,
            many(f32_, 64, x, &two(d, part(a, 0, 12)), 2),
        )?;
        refused_with(
            where_,
            "weights[1].dst overlaps weights[0].dst",
            invalid,
            many(f32_, 64, x, &two(d, part(d, 8, 12)), 2),
        )?;
        let biased = |bias: sys::crk_view_t| {
            let [mut first, second] = two(d, e);
            first.bias = bias.into();
            many(f32_, 64, x, &[first, second], 2)
        };
        succeeded(biased(part(x, 0, 12)))?;
        refused_with(where_, "weights[0].bias", small, biased(part(x, 0, 11)))?;
        let null = sys::crk_view_t { ptr: std::ptr::null_mut(), bytes: 12 };
        refused_with(where_, "weights[0].bias.ptr is NULL", invalid, biased(null))?;
        refused_with(where_, "weights[0].dst overlaps weights[0].bias", invalid, biased(part(d, 0, 12)))?;
        refused_with(where_, "weights[1].dst overlaps weights[0].bias", invalid, biased(part(e, 0, 12)))?;
        let where_ = "crk_matmul_gate";
        let gate = |op, t, k, x: sys::crk_view_t, up_layout, up: sys::crk_view_t, dst| {
            sys::crk_matmul_gate(device, op, t, k, x.into(), &good, a.into(), up_layout, up.into(), dst)
        };
        let silu = GateOp::Silu;
        refused_with(where_, "op 9", invalid, gate(sys::crk_gate_op(9), f32_, 64, x, &good, b, d))?;
        refused_with(where_, "i64", S::Unsupported, gate(silu, I64.dtype, 64, x, &good, b, d))?;
        refused_with(where_, "up_layout.dims[0] is 2", invalid, gate(silu, f32_, 64, x, &other, b, d))?;
        refused_with(where_, "but k is 64", invalid, gate(silu, f32_, 64, x, &short, b, d))?;
        refused_with(where_, "x", small, gate(silu, f32_, 64, part(x, 0, 255), &good, b, d))?;
        refused_with(where_, "dst", small, gate(silu, f32_, 64, x, &good, b, part(d, 0, 11)))?;
        refused_with(where_, "dst overlaps x", invalid, gate(silu, f32_, 64, x, &good, b, part(x, 0, 12)))?;
        refused_with(where_, "dst overlaps up", invalid, gate(silu, f32_, 64, x, &good, b, part(b, 0, 12)))?;
    }
    Ok(())
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "matmul_wide", target, name, body);
        for t in FLOATS {
            add(format!("rows_{}", t.name), Box::new(move |target, name| rows(target, name, t)));
            add(format!("grouped_{}", t.name), Box::new(move |target, name| grouped(target, name, t)));
            add(format!("by_name_{}", t.name), Box::new(move |target, name| by_name(target, name, t)));
            for kind in GATES {
                let name = format!("gate_{}_{}", kind.1, t.name);
                add(name, Box::new(move |target, name| gate(target, name, kind.0, t)));
                if t != F64 {
                    let name = format!("by_name_gate_{}_{}", kind.1, t.name);
                    add(name, Box::new(move |target, name| gate_by_name(target, name, kind, t)));
                }
            }
        }
        add("refused".into(), Box::new(|target, _| refused(target)));
    }
    trials
}
