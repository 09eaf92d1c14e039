//! Products with quantized weights: launchers and kernels by name, against the definition of the formats in plain Rust.
//! The reference takes the activations as the device quantized them. Rows and columns are around every tile's edge, and
//! guard bytes surround every buffer.
//!
//! `cargo test --test suites -- FILTER` runs some of the tests. A failure names its case, and `CANDLE_ROCM_CASE=N` runs
//! only that one.

use crate::support;
use crate::support::cases::Rng;
use crate::support::compare::{Close, compare as compare_bits};
use crate::support::number::{F32, Type};
use crate::support::product::{Expected, FLOATS, activations, blocks, compare, formats, scales_at};
use crate::support::property::{Outcome, each_case};
use crate::support::quantized::{Format, half, quant, with_sums_of_codes};
use crate::support::{Body, Guarded, Target, add_trial, last_error, open, succeeded};
use candle_rocm_sys::{Arg, Launch, Status, sys};
use libtest_mimic::Trial;
use std::ptr::null_mut;

type Quant = sys::crk_quant_t;
const NO_VIEW: sys::crk_view_t = sys::crk_view_t { ptr: null_mut(), bytes: 0 };

/// A row of weights times q8_1 blocks. With `values`, minima and offsets are multiplied by the block's s, else by the
/// sum of its codes.
fn dot(format: Format, row: &[u8], q8_1: &[u8], values: bool) -> Expected {
    let offset = match format.name {
        "q4_0" => 8.0,
        "q5_0" => 16.0,
        _ => 0.0,
    };
    let mut expected = Expected::default();
    let mut add = |product: f64| {
        expected.value += product;
        expected.magnitude += product.abs();
    };
    for (g, group) in format.elements(row).chunks_exact(16).enumerate() {
        let block = &q8_1[36 * (g / 2)..][..36];
        let (d, s) = (f64::from(half(block, 0)), f64::from(half(block, 2)));
        let codes: Vec<f64> = block[4 + 16 * (g % 2)..][..16].iter().map(|code| f64::from(*code as i8)).collect();
        let (scale, minimum) = (f64::from(group[0].scale), f64::from(group[0].minimum));
        let product: f64 = group.iter().zip(&codes).map(|(e, y)| (f64::from(e.code) + offset) * y).sum();
        add(scale * d * product);
        add(-(scale * offset + minimum) * if values { s / 2.0 } else { d * codes.iter().sum::<f64>() });
    }
    expected
}

/// Which of the two sums a product uses for a format, with up to 8 columns or with `many`.
fn by_values(format: Format, many: bool) -> bool {
    if many { matches!(format.name, "q4_0" | "q4_1" | "q5_1" | "q4_K" | "q5_K") } else { format.elements == 32 }
}

/// The operands of one product.
struct Problem {
    format: Format,
    t: Type,
    weights: Vec<u8>,
    x: Vec<u8>,
    weights_memory: Guarded,
    x_memory: Guarded,
    /// The activations as the device quantized them, with `padded` elements per row.
    q8_1: Vec<u8>,
    /// The same as the launchers' own products have them.
    own: Vec<u8>,
    padded: usize,
}

fn padded(k: usize) -> usize {
    k.next_multiple_of(512)
}

impl Problem {
    fn new(
        target: &Target,
        rng: &mut Rng,
        format: Format,
        t: Type,
        (rows, k): (usize, usize),
        inputs: usize,
    ) -> Problem {
        let weights = blocks(rng, format, rows * k / format.elements);
        let x = activations(rng, t, inputs * k);
        let device = &target.device;
        let misaligned = |rng: &mut Rng, unit: usize| if rng.one_in(3) { unit * rng.below(16 / unit) } else { 0 };
        let weights_memory = Guarded::new(device, &weights, misaligned(rng, 2)).expect("device memory");
        let x_memory = Guarded::new(device, &x, misaligned(rng, t.bytes)).expect("device memory");
        let q8 = Guarded::new(device, &vec![0; inputs * padded(k) / 32 * 36], 0).expect("device memory");
        // SAFETY: live arguments.
        let status =
            unsafe { sys::crk_quantize_q8_1(device.raw(), t.dtype, inputs, k, x_memory.view().into(), q8.view()) };
        succeeded(status).expect("quantized activations");
        let q8_1 = q8.read().expect("quantized activations");
        let own = with_sums_of_codes(q8_1.clone());
        Problem { format, t, weights, x, weights_memory, x_memory, q8_1, own, padded: padded(k) }
    }

    /// Sets all codes and scales of a block to one end of their range. Codes of activations also become -128, which
    /// quantization never gives.
    fn make_extreme(&mut self, target: &Target, rng: &mut Rng) {
        for block in self.weights.chunks_exact_mut(self.format.bytes) {
            let floats: Vec<(usize, [u8; 2])> =
                scales_at(self.format).iter().map(|&at| (at, [block[at], block[at + 1]])).collect();
            block.fill(rng.pick(&[0, 0x7f, 0x80, 0xff]));
            for (at, bytes) in floats {
                block[at..at + 2].copy_from_slice(&bytes);
            }
        }
        self.weights_memory = Guarded::new(&target.device, &self.weights, 0).expect("device memory");
        for block in self.q8_1.chunks_exact_mut(36) {
            block[4..].fill(rng.pick(&[0x80, 0x7f]));
        }
    }

    fn destination(&self, target: &Target, rng: &mut Rng, elements: usize) -> Guarded {
        let misalignment = if rng.one_in(3) { self.t.bytes } else { 0 };
        Guarded::new(&target.device, &vec![0xcd; elements * self.t.bytes], misalignment).expect("device memory")
    }

    /// Row `row` of the weights times row `input` of the activations `q8_1`, in a product of few or `many` columns.
    fn product_of(&self, q8_1: &[u8], k: usize, row: usize, input: usize, many: bool) -> Expected {
        let (bytes, column) = (self.format.row_bytes(k), self.padded / 32 * 36);
        let values = by_values(self.format, many);
        dot(self.format, &self.weights[row * bytes..][..bytes], &q8_1[input * column..][..column], values)
    }

    /// The result of a launcher that quantizes the activations itself.
    fn expected(&self, k: usize, row: usize, input: usize, many: bool) -> Expected {
        self.product_of(&self.own, k, row, input, many)
    }

    fn unchanged(&self) -> Outcome {
        let same = self.weights_memory.read()? == self.weights && self.x_memory.read()? == self.x;
        if same { Ok(()) } else { Err("a source changed".into()) }
    }
}

/// Row lengths: one block, a few, half a chunk of the kernels and one block more, and more than a chunk.
fn row_length(rng: &mut Rng, format: Format) -> usize {
    const SMALL: [usize; 13] = [1, 2, 3, 4, 5, 8, 31, 32, 33, 40, 64, 65, 129];
    const LARGE: [usize; 9] = [1, 2, 3, 4, 5, 6, 8, 9, 17];
    let blocks: &[usize] = if format.elements == 32 { &SMALL } else { &LARGE };
    format.elements * rng.pick(blocks)
}

fn product(target: &Target, rng: &mut Rng, format: Format, rows: usize, k: usize, columns: usize) -> Outcome {
    let t = rng.pick(&FLOATS);
    let problem = Problem::new(target, rng, format, t, (rows, k), columns);
    let dst = problem.destination(target, rng, rows * columns);
    let function = if columns <= 8 && rng.one_in(2) { sys::crk_mul_mat_vec } else { sys::crk_mul_mat };
    // SAFETY: live arguments.
    succeeded(unsafe {
        function(
            target.device.raw(),
            quant(format),
            t.dtype,
            rows,
            k,
            columns,
            problem.weights_memory.view().into(),
            problem.x_memory.view().into(),
            dst.view(),
        )
    })?;
    let got = dst.read().map_err(|problem| format!("dst: {problem}"))?;
    compare(t, &got, |i| problem.expected(k, i % rows, i / rows, columns > 8))
        .and_then(|()| problem.unchanged())
        .map_err(|problem| format!("{rows} rows of {k}, {columns} columns, {}: {problem}", t.name))
}

fn vec(target: &Target, name: &str, format: Format) -> Outcome {
    const ROWS: &[usize] = &[1, 2, 3, 5, 7, 8, 9, 16, 31, 33, 70, 130];
    each_case(target, "matvec", name, 16, |rng, index| {
        let (rows, columns) = (rng.pick(ROWS), index % 8 + 1);
        let k = row_length(rng, format);
        product(target, rng, format, rows, k, columns)
    })
}

/// Activations in q8_1 blocks, with a stride larger than the columns. Rows are around a tile's edge, k around a
/// chunk's. The gaps between columns stay unchanged.
fn q8_1(target: &Target, name: &str, format: Format) -> Outcome {
    const ROWS: &[usize] = &[1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33];
    each_case(target, "matvec", name, 24, |rng, index| {
        let (rows, columns) = (rng.pick(ROWS), index % 8 + 1);
        let few = rows * columns <= 64;
        let blocks: &[usize] = match (format.elements, few) {
            (32, true) => &[1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257],
            (32, false) => &[1, 2, 3, 33, 65],
            (_, true) => &[1, 4, 5, 7, 8, 9, 15, 16, 17, 33],
            _ => &[1, 2, 3, 9],
        };
        let k = format.elements * rng.pick(blocks);
        let t = rng.pick(&FLOATS);
        let mut problem = Problem::new(target, rng, format, t, (rows, k), columns);
        if rng.one_in(3) {
            problem.make_extreme(target, rng);
        }
        let (x_stride, dst_stride) = (k / 32 + rng.pick(&[0, 0, 1, 5]), rows + rng.pick(&[0, 0, 1, 7]));
        let mut x = Vec::new();
        for c in 0..columns {
            x.resize(c * x_stride * 36, 0xff); // NaNs
            x.extend_from_slice(&problem.q8_1[c * problem.padded / 32 * 36..][..k / 32 * 36]);
        }
        let x_memory = Guarded::new(&target.device, &x, if rng.one_in(2) { 4 * rng.below(4) } else { 0 });
        let x_memory = x_memory.expect("device memory");
        let dst = problem.destination(target, rng, (columns - 1) * dst_stride + rows);
        let before = dst.read()?;
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_mul_mat_vec_q8_1(
                target.device.raw(),
                quant(format),
                t.dtype,
                rows,
                k,
                columns,
                problem.weights_memory.view().into(),
                x_memory.view().into(),
                x_stride,
                dst.view(),
                dst_stride,
            )
        })?;
        let got = dst.read().map_err(|problem| format!("dst: {problem}"))?;
        compare(t, &got, |i| match i % dst_stride {
            row if row < rows => problem.product_of(&problem.q8_1, k, row, i / dst_stride, false),
            _ => Expected { value: t.float(t.get(&before, i)), magnitude: 0.0 },
        })
        .and_then(|()| problem.unchanged())
        .and_then(|()| if x_memory.read()? == x { Ok(()) } else { Err("x changed".into()) })
        .map_err(|problem| format!("{rows} rows of {k}, {columns} columns, {}: {problem}", t.name))
    })
}

/// A column's result has the same bits in products of 2 to 4 columns, in those of 5 to 8 and, with short rows, in those
/// of 2 to 8. Both launchers give the same bits in the formats that read no s.
fn beside(target: &Target, name: &str, format: Format) -> Outcome {
    each_case(target, "matvec", name, 12, |rng, index| {
        let blocks = if format.elements == 32 { [1, 31, 33, 64, 129, 200] } else { [1, 3, 5, 8, 17, 25] };
        let (rows, k) = (rng.pick(&[1, 5, 19]), format.elements * blocks[index / 2]);
        let (fewest, most) = if k <= 1024 { (2, 8) } else { [(2, 4), (5, 8)][index % 2] };
        let problem = Problem::new(target, rng, format, F32, (rows, k), most);
        let q8_1 = Guarded::new(&target.device, &problem.q8_1, 0).expect("device memory");
        let (device, quant, dtype) = (target.device.raw(), quant(format), F32.dtype);
        let (w, x, q, blocks) =
            (problem.weights_memory.view(), problem.x_memory.view(), q8_1.view(), problem.padded / 32);
        let product = |columns: usize, quantized: bool| {
            let dst = Guarded::new(&target.device, &vec![0xcd; rows * columns * F32.bytes], 0).expect("device memory");
            // SAFETY: live arguments.
            succeeded(unsafe {
                if quantized {
                    sys::crk_mul_mat_vec_q8_1(
                        device,
                        quant,
                        dtype,
                        rows,
                        k,
                        columns,
                        w.into(),
                        q.into(),
                        blocks,
                        dst.view(),
                        rows,
                    )
                } else {
                    sys::crk_mul_mat_vec(device, quant, dtype, rows, k, columns, w.into(), x.into(), dst.view())
                }
            })?;
            dst.read()
        };
        let all = [product(most, false)?, product(most, true)?];
        if format.elements == 256 || format.name == "q8_0" {
            compare_bits(F32, Close::Bits, &all[0], &all[1]).map_err(|problem| format!("both launchers: {problem}"))?;
        }
        for (columns, quantized) in (fewest..=most).flat_map(|columns| [(columns, false), (columns, true)]) {
            let got = product(columns, quantized)?;
            let all = &all[usize::from(quantized)];
            compare_bits(F32, Close::Bits, &got, &all[..got.len()]).map_err(|problem| {
                format!(
                    "{columns} columns of {rows} rows of {k}, quantized {quantized}, not as beside {most}: {problem}"
                )
            })?;
        }
        Ok(())
    })
}

/// Enough rows for each choice of rows per tile, on a device with few compute units.
fn tall(target: &Target, name: &str, format: Format) -> Outcome {
    each_case(target, "matvec", name, 3, |rng, index| {
        let rows = [67, 131, 4099][index];
        product(target, rng, format, rows, format.elements, 1)
    })
}

fn moe(target: &Target, name: &str, format: Format) -> Outcome {
    // A handle of its own, because it reports ids.
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let target = &Target { name: target.name.clone(), device };
    each_case(target, "matvec", name, 12, |rng, index| {
        let (experts, rows, batch, topk) =
            (rng.pick(&[1, 2, 5]), rng.pick(&[1, 2, 3, 33]), rng.pick(&[1, 2, 5]), 1 + index % 3);
        let k = row_length(rng, format);
        let inputs = if index % 2 == 0 { 1 } else { topk };
        let t = rng.pick(&FLOATS);
        let problem = Problem::new(target, rng, format, t, (experts * rows, k), batch * inputs);
        let dst = problem.destination(target, rng, batch * topk * rows);
        // Every third case has all tokens on one expert, and every third has ids out of range.
        let one = rng.below(experts) as u32;
        let bad = [experts as u32, u32::MAX, 1 << 31];
        let ids: Vec<u32> = (0..batch * topk)
            .map(|i| match index % 3 {
                0 => one,
                1 if i == 0 || rng.one_in(3) => rng.pick(&bad),
                _ => rng.below(experts) as u32,
            })
            .collect();
        let id_bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let before = dst.read().map_err(|problem| format!("dst: {problem}"))?;
        let ids_memory = Guarded::new(&target.device, &id_bytes, 4 * rng.below(4)).expect("device memory");
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_indexed_moe(
                target.device.raw(),
                quant(format),
                t.dtype,
                experts,
                rows,
                k,
                batch,
                topk,
                inputs,
                problem.weights_memory.view().into(),
                problem.x_memory.view().into(),
                ids_memory.view().into(),
                dst.view(),
            )
        })?;
        let out_of_range = ids.iter().any(|id| *id as usize >= experts);
        // SAFETY: a live handle.
        let status = unsafe { sys::crk_device_synchronize(target.device.raw()) };
        let reported = status == Status::OutOfRange && last_error().starts_with("crk_indexed_moe: ids has ");
        if if out_of_range { !reported } else { status != Status::Ok } {
            return Err(format!("ids {ids:?} of {experts} experts: {}, {}", status.name(), last_error()));
        }
        let got = dst.read().map_err(|problem| format!("dst: {problem}"))?;
        compare(t, &got, |i| {
            let (task, row) = (i / rows, i % rows);
            let id = ids[task] as usize;
            let input = if inputs == 1 { task / topk } else { task };
            if id < experts {
                problem.expected(k, id * rows + row, input, false)
            } else {
                Expected { value: t.float(t.get(&before, i)), magnitude: 0.0 }
            }
        })
        .and_then(|()| problem.unchanged())
        .map_err(|problem| format!("{experts} experts of {rows} x {k}, {batch} x {topk}, {inputs} inputs: {problem}"))
    })
}

/// Blocks of random bytes, with scales that may be infinite or NaN. Nothing outside is touched, and rows of finite
/// numbers are right.
fn any_bytes(target: &Target, name: &str, format: Format) -> Outcome {
    each_case(target, "matvec", name, 6, |rng, index| {
        let (rows, columns, k) = (37, [1, 4, 8][index % 3], format.elements * 2);
        let mut problem = Problem::new(target, rng, format, F32, (rows, k), columns);
        problem.weights = (0..problem.weights.len()).map(|_| rng.next() as u8).collect();
        problem.weights_memory = Guarded::new(&target.device, &problem.weights, 0).expect("device memory");
        let dst = problem.destination(target, rng, rows * columns);
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_mul_mat(
                target.device.raw(),
                quant(format),
                F32.dtype,
                rows,
                k,
                columns,
                problem.weights_memory.view().into(),
                problem.x_memory.view().into(),
                dst.view(),
            )
        })?;
        let got = dst.read().map_err(|problem| format!("dst: {problem}"))?;
        for i in 0..rows * columns {
            let expected = problem.expected(k, i % rows, i / rows, columns > 8);
            let got = F32.float(F32.get(&got, i));
            let row = &problem.weights[i % rows * format.row_bytes(k)..][..format.row_bytes(k)];
            let scale = |block: &[u8], at: &usize| half(block, *at).is_nan();
            let no_number =
                row.chunks_exact(format.bytes).any(|block| scales_at(format).iter().any(|at| scale(block, at)));
            if no_number && !got.is_nan() {
                return Err(format!("[{i}]: got {got} of a scale that is no number"));
            }
            let within = (got - expected.value).abs() <= expected.magnitude * 1e-5 + 1e-37;
            if expected.value.is_finite() && !within {
                return Err(format!("[{i}]: got {got}, expected {}", expected.value));
            }
            if !expected.value.is_finite() && got.is_finite() {
                return Err(format!("[{i}]: got {got}, expected {}", expected.value));
            }
        }
        problem.unchanged()
    })
}

/// Kernels by name with Candle's geometry: an odd number of rows, and a k that is no multiple of a tile's.
fn by_name(target: &Target, name: &str, format: Format) -> Outcome {
    each_case(target, "matvec", name, 12, |rng, index| {
        let columns = if index < 8 { index + 1 } else { [9, 64, 65, 130][index - 8] };
        let rows = if index < 8 { rng.pick(&[1, 2, 3, 7]) } else { rng.pick(&[1, 65, 129]) };
        let k = if rows * columns > 1000 { format.elements * (1 + index % 3) } else { row_length(rng, format) };
        let problem = Problem::new(target, rng, format, F32, (rows, k), columns);
        let q8_1 = Guarded::new(&target.device, &problem.q8_1, 0).expect("device memory");
        let dst = problem.destination(target, rng, rows * columns);
        let tiles = match format.name {
            "q5_0" | "q5_1" | "q8_0" => (64, 128),
            "q3_K" => (128, 128),
            "q6_K" => (64, 64),
            _ => (128, 64),
        };
        let number = |x: usize| Arg::from(x as u32);
        let (kernel, launch, middle) = if columns <= 8 {
            let grid = [if columns == 1 { rows } else { rows.div_ceil(2) } as u32, 1, 1];
            let block = [32, if columns <= 4 { 4 } else { 2 }, 1];
            let kernel = format!("mul_mat_vec_{}_q8_1_cuda{columns}", format.name);
            (kernel, Launch { grid, block, shared_bytes: 0 }, vec![])
        } else {
            let grid = [rows.div_ceil(tiles.0) as u32, columns.div_ceil(tiles.1) as u32, 1];
            let launch = Launch { grid, block: [32, 4, 1], shared_bytes: 0 };
            (format!("mul_mat_{}", format.name), launch, vec![number(columns)])
        };
        let pointers = [problem.weights_memory.ptr(), q8_1.ptr(), dst.ptr()];
        let args: Vec<Arg> = (pointers.into_iter().map(|ptr| Arg::ptr(ptr)))
            .chain([number(k), number(rows)])
            .chain(middle)
            .chain([number(problem.padded), number(rows)])
            .collect();
        let function = target.device.function_named("quantized", &kernel).map_err(|error| error.to_string())?;
        // SAFETY: the arguments and the geometry of Candle's kernels.
        unsafe { function.launch(launch, &args) }.map_err(|error| error.to_string())?;
        let got = dst.read().map_err(|problem| format!("dst: {problem}"))?;
        compare(F32, &got, |i| problem.product_of(&problem.q8_1, k, i % rows, i / rows, columns > 8))
            .and_then(|()| problem.unchanged())
            .map_err(|problem| format!("{kernel}, {rows} rows of {k}: {problem}"))
    })
}

/// Recorded once and replayed with other activations. The graph owns the scratch memory.
fn graph(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let target = Target { name: target.name.clone(), device };
    let format = Format::named("q4_K").expect("a format");
    let mut rng = Rng(7);
    for columns in [1, 5] {
        let (rows, k) = (33, 512);
        let problem = Problem::new(&target, &mut rng, format, F32, (rows, k), columns);
        let other = Problem::new(&target, &mut rng, format, F32, (1, k), columns);
        let dst = problem.destination(&target, &mut rng, rows * columns);
        let device = &target.device;
        // SAFETY: live arguments, here and below; the graph is destroyed once.
        let run = || unsafe {
            sys::crk_mul_mat(
                device.raw(),
                quant(format),
                F32.dtype,
                rows,
                k,
                columns,
                problem.weights_memory.view().into(),
                problem.x_memory.view().into(),
                dst.view(),
            )
        };
        succeeded(run())?;
        succeeded(unsafe { sys::crk_graph_begin(device.raw()) })?;
        let recorded = succeeded(run());
        let mut graph = null_mut();
        succeeded(unsafe { sys::crk_graph_end(device.raw(), &mut graph) })?;
        let outcome = recorded.and_then(|()| {
            for source in [&other, &problem] {
                let bytes = source.x.len();
                succeeded(unsafe {
                    sys::crk_copy_to_device(device.raw(), problem.x_memory.view(), source.x.as_ptr().cast(), bytes)
                })?;
                succeeded(unsafe { sys::crk_graph_launch(graph) })?;
                let got = dst.read()?;
                let (column, row_bytes) = (problem.padded / 32 * 36, format.row_bytes(k));
                compare(F32, &got, |i| {
                    let row = &problem.weights[i % rows * row_bytes..][..row_bytes];
                    dot(format, row, &source.own[i / rows * column..][..column], by_values(format, columns > 8))
                })?;
            }
            Ok(())
        });
        unsafe { sys::crk_graph_destroy(graph) };
        outcome?;
    }
    Ok(())
}

/// The arguments of one of the four functions. Each test changes one of them.
#[derive(Clone, Copy)]
struct Call {
    quant: Quant,
    dtype: sys::crk_dtype_t,
    experts: usize,
    rows: usize,
    k: usize,
    columns: usize,
    topk: usize,
    inputs: usize,
    x_stride: usize,
    dst_stride: usize,
    weights: sys::crk_view_t,
    x: sys::crk_view_t,
    ids: sys::crk_view_t,
    dst: sys::crk_view_t,
}

impl Call {
    fn make(&self, device: sys::crk_device_t, function: &str) -> Status {
        let c = *self;
        // SAFETY: the views are of live memory, or of none, which the functions refuse.
        unsafe {
            match function {
                "crk_mul_mat_vec" => sys::crk_mul_mat_vec(
                    device,
                    c.quant,
                    c.dtype,
                    c.rows,
                    c.k,
                    c.columns,
                    c.weights.into(),
                    c.x.into(),
                    c.dst,
                ),
                "crk_mul_mat_vec_q8_1" => sys::crk_mul_mat_vec_q8_1(
                    device,
                    c.quant,
                    c.dtype,
                    c.rows,
                    c.k,
                    c.columns,
                    c.weights.into(),
                    c.x.into(),
                    c.x_stride,
                    c.dst,
                    c.dst_stride,
                ),
                "crk_mul_mat" => sys::crk_mul_mat(
                    device,
                    c.quant,
                    c.dtype,
                    c.rows,
                    c.k,
                    c.columns,
                    c.weights.into(),
                    c.x.into(),
                    c.dst,
                ),
                _ => sys::crk_indexed_moe(
                    device,
                    c.quant,
                    c.dtype,
                    c.experts,
                    c.rows,
                    c.k,
                    c.columns,
                    c.topk,
                    c.inputs,
                    c.weights.into(),
                    c.x.into(),
                    c.ids.into(),
                    c.dst,
                ),
            }
        }
    }
}

fn refuses(target: &Target) -> Outcome {
    let device = target.device.raw();
    let memory = |bytes| Guarded::new(&target.device, &vec![0; bytes], 0).expect("device memory");
    let (rows, k, columns, experts, topk) = (4, 64, 3, 2, 2);
    let weights = memory(experts * rows * k / 32 * 18);
    let (x, ids, dst) = (memory(columns * topk * k * 4), memory(columns * topk * 4), memory(columns * topk * rows * 4));
    let good = Call {
        quant: Quant::Q4_0,
        dtype: F32.dtype,
        experts,
        rows,
        k,
        columns,
        topk,
        inputs: topk,
        x_stride: k / 32,
        dst_stride: rows,
        weights: weights.view(),
        x: x.view(),
        ids: ids.view(),
        dst: dst.view(),
    };
    let off = |view: sys::crk_view_t, by: usize| sys::crk_view_t {
        ptr: view.ptr.cast::<u8>().wrapping_add(by).cast(),
        bytes: view.bytes,
    };
    let short = |view: sys::crk_view_t| sys::crk_view_t { ptr: view.ptr, bytes: 1 };
    let null = |view: sys::crk_view_t| sys::crk_view_t { ptr: null_mut(), bytes: view.bytes };
    const INVALID: Status = Status::InvalidArgument;
    const BOUNDS: Status = Status::OutOfBounds;
    const UNSUPPORTED: Status = Status::Unsupported;
    let cases: Vec<(&str, Status, &str, Call)> = vec![
        ("", UNSUPPORTED, "q8_K", Call { quant: Quant::Q8_K, k: 256, ..good }),
        ("", UNSUPPORTED, "f64", Call { dtype: support::number::F64.dtype, ..good }),
        ("", UNSUPPORTED, "u8", Call { dtype: support::number::U8.dtype, ..good }),
        ("", INVALID, "k is 65", Call { k: 65, ..good }),
        ("", INVALID, "k is 96", Call { quant: Quant::Q4_K, k: 96, ..good }),
        ("", INVALID, "k is", Call { k: 1 << 33, ..good }),
        ("", BOUNDS, "", Call { rows: usize::MAX / 2, dst_stride: usize::MAX / 2, ..good }),
        ("", BOUNDS, "weights", Call { weights: short(good.weights), ..good }),
        ("", BOUNDS, "x", Call { x: short(good.x), ..good }),
        ("", BOUNDS, "dst", Call { dst: short(good.dst), ..good }),
        ("", INVALID, "weights", Call { weights: null(good.weights), ..good }),
        ("", INVALID, "x", Call { x: null(good.x), ..good }),
        ("", INVALID, "dst", Call { dst: null(good.dst), ..good }),
        ("", INVALID, "weights", Call { weights: off(good.weights, 1), ..good }),
        ("", INVALID, "x", Call { x: off(good.x, 2), ..good }),
        ("", INVALID, "dst", Call { dst: off(good.dst, 1), ..good }),
        (
            "",
            INVALID,
            "dst overlaps weights",
            Call { dst: sys::crk_view_t { bytes: weights.view().bytes, ..weights.view() }, ..good },
        ),
        ("", INVALID, "dst overlaps x", Call { dst: x.view(), ..good }),
        ("crk_mul_mat_vec", INVALID, "columns is 9", Call { columns: 9, ..good }),
        ("crk_mul_mat_vec_q8_1", INVALID, "columns is 9", Call { columns: 9, ..good }),
        ("crk_mul_mat_vec_q8_1", INVALID, "x_stride is 1", Call { x_stride: 1, ..good }),
        ("crk_mul_mat_vec_q8_1", INVALID, "dst_stride is 3", Call { dst_stride: 3, ..good }),
        ("crk_mul_mat_vec_q8_1", BOUNDS, "blocks of x", Call { x_stride: usize::MAX, ..good }),
        ("crk_mul_mat_vec_q8_1", BOUNDS, "elements of dst", Call { dst_stride: usize::MAX, ..good }),
        ("crk_mul_mat_vec_q8_1", BOUNDS, "x", Call { x_stride: 1000, ..good }),
        ("crk_mul_mat_vec_q8_1", BOUNDS, "dst", Call { dst_stride: 1000, ..good }),
        ("crk_indexed_moe", INVALID, "inputs is 3", Call { inputs: 3, ..good }),
        ("crk_indexed_moe", BOUNDS, "ids", Call { ids: short(good.ids), ..good }),
        ("crk_indexed_moe", INVALID, "ids", Call { ids: null(good.ids), ..good }),
        ("crk_indexed_moe", INVALID, "ids", Call { ids: off(good.ids, 2), ..good }),
        ("crk_indexed_moe", BOUNDS, "weights", Call { experts: 9, ..good }),
    ];
    for function in ["crk_mul_mat_vec", "crk_mul_mat_vec_q8_1", "crk_mul_mat", "crk_indexed_moe"] {
        succeeded(good.make(device, function)).map_err(|error| format!("{function}: {error}"))?;
        let empty = [Call { rows: 0, ..good }, Call { columns: 0, ..good }];
        for call in empty {
            let call = Call { weights: NO_VIEW, x: NO_VIEW, ids: NO_VIEW, dst: NO_VIEW, ..call };
            succeeded(call.make(device, function)).map_err(|error| format!("{function}, empty: {error}"))?;
        }
        if good.make(null_mut(), function) != INVALID || !last_error().contains("self") {
            return Err(format!("{function} takes NULL for a handle: {}", last_error()));
        }
        for (i, (only, status, text, call)) in cases.iter().enumerate() {
            if !only.is_empty() && *only != function {
                continue;
            }
            let got = call.make(device, function);
            if got != *status || !last_error().starts_with(function) || !last_error().contains(text) {
                let expected = status.name();
                return Err(format!(
                    "{function}, case {i}: {} ({}), expected {expected}, {text}",
                    got.name(),
                    last_error()
                ));
            }
        }
    }
    // With k = 0 the result is zeros.
    let full = vec![1u8; columns * rows * 4];
    let ones = Guarded::new(&target.device, &full, 0).expect("device memory");
    succeeded(Call { k: 0, dst: ones.view(), ..good }.make(device, "crk_mul_mat"))?;
    if ones.read()?.iter().any(|byte| *byte != 0) {
        return Err("a product of no elements is not 0".into());
    }
    let apart = Guarded::new(&target.device, &full, 0).expect("device memory");
    let call = Call { k: 0, rows: 1, columns, dst: apart.view(), dst_stride: rows, ..good };
    succeeded(call.make(device, "crk_mul_mat_vec_q8_1"))?;
    if apart.read()?.chunks_exact(4 * rows).any(|column| column[..4] != [0; 4] || column[4..].iter().any(|b| *b != 1)) {
        return Err("columns of no elements are not 0, or what is between them is".into());
    }
    // SAFETY: a live handle.
    succeeded(unsafe { sys::crk_device_synchronize(device) })
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "matvec", target, name, body);
        for format in formats() {
            type Trials = fn(&Target, &str, Format) -> Outcome;
            let all: [(&str, Trials); 7] = [
                ("vec", vec),
                ("q8_1", q8_1),
                ("beside", beside),
                ("tall", tall),
                ("moe", moe),
                ("any_bytes", any_bytes),
                ("by_name", by_name),
            ];
            for (what, body) in all {
                add(format!("{what}_{}", format.name), Box::new(move |target, name| body(target, name, format)));
            }
        }
        add("graph".into(), Box::new(|target, _| graph(target)));
        add("refuses".into(), Box::new(|target, _| refuses(target)));
    }
    trials
}
