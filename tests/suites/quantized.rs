//! Quantized weights: the launchers and the kernels by name, against plain Rust (tests/support/quantized.rs). Blocks
//! are random bytes, so that scales may have any bits, infinities and NaN included. Guard bytes surround every buffer.
//!
//! `cargo test --test suites -- FILTER` runs some of the tests. A failure names its case, and `CANDLE_ROCM_CASE=N`
//! runs only that one.

use crate::support::cases::Rng;
use crate::support::compare::{Close, compare};
use crate::support::number::{BF16, F16, F32, Type};
use crate::support::property::{Outcome, each_case, values};
use crate::support::quantized::{Activations, FORMATS, Format, compare_dots, compare_q8_1, dot, floats, quant};
use crate::support::{Guarded, Target, open, succeeded};
use candle_rocm_sys::{Arg, Launch, Status, sys};
use libtest_mimic::{Failed, Trial};
use std::ptr::null_mut;

/// The types of numbers, tables and activations.
const TYPES: [Type; 3] = [F32, F16, BF16];

/// Blocks of random bytes. With `tame`, scales are ordinary numbers, as sums need.
fn blocks(rng: &mut Rng, format: Format, count: usize, tame: bool) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..count * format.bytes).map(|_| rng.next() as u8).collect();
    // The offsets of f16 numbers.
    let halves: &[usize] = match format.name {
        "q4_1" | "q5_1" | "q4_K" | "q5_K" => &[0, 2],
        "q2_K" => &[80, 82],
        "q3_K" => &[108],
        "q6_K" => &[208],
        "q8_K" => &[],
        _ => &[0],
    };
    for block in bytes.chunks_exact_mut(format.bytes) {
        if !tame && rng.one_in(2) {
            continue;
        }
        for at in halves {
            F16.put(&mut block[*at..], 0, F16.round_bits(rng.unit() * 0.02 - 0.01));
        }
        if format.name == "q8_K" {
            F32.put(block, 0, F32.round_bits(rng.unit() * 0.02 - 0.01));
        }
    }
    bytes
}

/// Memory on the device that is sometimes aligned to `alignment` only.
fn place(target: &Target, rng: &mut Rng, data: &[u8], alignment: usize) -> Guarded {
    let misalignment = if rng.one_in(3) { rng.below(16 / alignment) * alignment } else { 0 };
    Guarded::new(&target.device, data, misalignment).expect("device memory")
}

fn alignment(format: Format) -> usize {
    if format.name == "q8_K" { 4 } else { 2 }
}

fn blank(target: &Target, rng: &mut Rng, bytes: usize, alignment: usize) -> Guarded {
    place(target, rng, &vec![0xcd; bytes], alignment)
}

fn unchanged(memory: &Guarded, data: &[u8]) -> Outcome {
    if memory.read()? == data { Ok(()) } else { Err("a source changed".into()) }
}

/// Values rounded to a type.
fn rounded(t: Type, values: impl Iterator<Item = f32>) -> Vec<u8> {
    let bits: Vec<u64> = values.map(|value| t.round_bits(value.into())).collect();
    let mut bytes = vec![0; bits.len() * t.bytes];
    bits.iter().enumerate().for_each(|(i, bits)| t.put(&mut bytes, i, *bits));
    bytes
}

/// Elements of a type as f32.
fn widened(t: Type, bytes: &[u8]) -> Vec<f32> {
    (0..bytes.len() / t.bytes).map(|i| t.float(t.get(bytes, i)) as f32).collect()
}

/// Numbers of blocks around 16 bytes per thread, a tile of a block of threads, and four steps of it.
fn dequantize(target: &Target, name: &str, format: Format, t: Type) -> Outcome {
    const COUNTS: &[usize] = &[1, 2, 3, 7, 31, 32, 33, 64, 129, 257];
    each_case(target, "quantized", name, COUNTS.len(), |rng, index| {
        let count = COUNTS[index];
        let (numel, data) = (count * format.elements, blocks(rng, format, count, false));
        let src = place(target, rng, &data, alignment(format));
        let dst = blank(target, rng, numel * t.bytes, t.bytes);
        let (quant, raw) = (quant(format), target.device.raw());
        // SAFETY: live arguments, here and below.
        succeeded(unsafe { sys::crk_dequantize(raw, quant, t.dtype, numel, src.view().into(), dst.view()) })?;
        let expected = rounded(t, format.elements(&data).into_iter().map(|element| format.value(element, true)));
        compare(t, Close::Value, &dst.read()?, &expected).map_err(|problem| format!("{count} blocks: {problem}"))?;
        unchanged(&src, &data)
    })
}

/// Ids at both ends, the largest u32 and, with `outside`, others that select no row.
fn ids(rng: &mut Rng, rows: usize, count: usize, outside: bool) -> Vec<u32> {
    let id = |i: usize, rng: &mut Rng| match i % 5 {
        0 => 0,
        1 => rows as u32 - 1,
        2 if outside => rng.pick(&[u32::MAX, rows as u32, u32::MAX - 1, 1 << 31]),
        2 => u32::MAX,
        _ => rng.below(rows) as u32,
    };
    (0..count).map(|i| id(i, rng)).collect()
}

/// Checks the rows of dst, and the report of the next synchronisation.
fn check_rows(
    (target, dst): (&Target, &Guarded),
    table: &[f32],
    (rows, hidden): (usize, usize),
    ids: &[u32],
) -> Outcome {
    let expected: Vec<f32> = ids
        .iter()
        .flat_map(|&id| match table.get(id as usize * hidden..(id as usize + 1) * hidden) {
            Some(row) => row.to_vec(),
            None => vec![0.0; hidden],
        })
        .collect();
    let reported = target.device.synchronize();
    let outside: Vec<String> =
        ids.iter().filter(|id| **id as usize >= rows && **id != u32::MAX).map(u32::to_string).collect();
    match reported {
        Ok(()) if outside.is_empty() => {}
        Err(error) if error.status() == Status::OutOfRange => {
            let sentence = error.to_string();
            if !sentence.contains("crk_get_rows") || !outside.iter().any(|id| sentence.contains(id.as_str())) {
                return Err(format!("{sentence} of {outside:?}"));
            }
        }
        other => return Err(format!("ids {outside:?} are outside; synchronising says {other:?}")),
    }
    compare(F32, Close::Value, &dst.read()?, &rounded(F32, expected.into_iter()))
}

/// A handle of its own, because the next synchronisation of a handle takes its report.
fn alone(target: &Target) -> Result<Target, String> {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    Ok(Target { name: target.name.clone(), device })
}

fn get_rows(target: &Target, name: &str, format: Format) -> Outcome {
    let target = &alone(target)?;
    const BLOCKS: &[usize] = &[1, 2, 3, 4, 9, 33];
    each_case(target, "quantized", name, 2 * BLOCKS.len(), |rng, index| {
        let (rows, wide, count) = (1 + rng.below(9), BLOCKS[index / 2], 1 + rng.below(40));
        let hidden = wide * format.elements;
        let data = blocks(rng, format, rows * wide, false);
        let ids = ids(rng, rows, count, index % 2 == 1);
        let (src, which) = (place(target, rng, &data, alignment(format)), to_device(target, rng, &ids));
        let dst = blank(target, rng, count * hidden * 4, 4);
        let raw = target.device.raw();
        succeeded(unsafe {
            sys::crk_get_rows(
                raw,
                quant(format),
                rows,
                hidden,
                count,
                src.view().into(),
                which.view().into(),
                dst.view(),
            )
        })?;
        let table: Vec<f32> = format.elements(&data).into_iter().map(|element| format.value(element, false)).collect();
        check_rows((target, &dst), &table, (rows, hidden), &ids)
            .map_err(|problem| format!("{count} of {rows} rows of {hidden}: {problem}"))?;
        unchanged(&src, &data)
    })
}

fn to_device(target: &Target, rng: &mut Rng, numbers: &[u32]) -> Guarded {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    place(target, rng, &bytes, 4)
}

fn get_rows_float(target: &Target, name: &str, t: Type) -> Outcome {
    let target = &alone(target)?;
    const HIDDEN: &[usize] = &[1, 2, 3, 4, 5, 31, 64, 255, 1023, 1025, 4099];
    each_case(target, "quantized", name, 2 * HIDDEN.len(), |rng, index| {
        let (rows, hidden, count) = (1 + rng.below(9), HIDDEN[index / 2], 1 + rng.below(40));
        let data = values(rng, t, rows * hidden);
        let ids = ids(rng, rows, count, index % 2 == 1);
        let (src, which) = (place(target, rng, &data, t.bytes), to_device(target, rng, &ids));
        let dst = blank(target, rng, count * hidden * 4, 4);
        let raw = target.device.raw();
        succeeded(unsafe {
            sys::crk_get_rows_float(
                raw,
                t.dtype,
                rows,
                hidden,
                count,
                src.view().into(),
                which.view().into(),
                dst.view(),
            )
        })?;
        check_rows((target, &dst), &widened(t, &data), (rows, hidden), &ids)
            .map_err(|problem| format!("{count} of {rows} rows of {hidden}: {problem}"))?;
        unchanged(&src, &data)
    })
}

/// The blocks that the contract of crk_quantize_q8_1 defines; the order of the sum is open.
fn q8_1(x: &[f32], rows: usize, k: usize) -> Vec<u8> {
    let padded = k.div_ceil(512) * 512;
    let mut bytes = Vec::new();
    for row in 0..rows {
        for first in (0..padded).step_by(32) {
            let value = |i: usize| if first + i < k { x[row * k + first + i] } else { 0.0 };
            let largest = (0..32).map(|i| value(i).abs()).fold(0.0, f32::max);
            let d = largest / 127.0;
            let sum: f32 = (0..32).map(value).sum();
            for number in [d, sum] {
                bytes.extend((F16.round_bits(number.into()) as u16).to_le_bytes());
            }
            // CUDA's conversion: to i32, saturated, then the low byte.
            let code = |i: usize| if largest == 0.0 { 0 } else { (value(i) / d).round() as i32 as u8 };
            bytes.extend((0..32).map(code));
        }
    }
    bytes
}

fn quantize(target: &Target, name: &str, t: Type) -> Outcome {
    const K: &[usize] = &[1, 31, 32, 33, 63, 65, 480, 511, 512, 513, 1023, 1025, 4096];
    each_case(target, "quantized", name, 3 * K.len(), |rng, index| {
        let (k, rows) = (K[index / 3], 1 + rng.below(4));
        // Ordinary numbers; numbers with infinities and NaN; rows of zeros and of the smallest numbers.
        let data = match index % 3 {
            0 => rounded(t, (0..rows * k).map(|_| (rng.unit() * 8.0 - 4.0) as f32)),
            1 => values(rng, t, rows * k),
            _ => (0..rows * k).flat_map(|i| [(i / k % 2) as u8, 0, 0, 0][..t.bytes].to_vec()).collect(),
        };
        let x = place(target, rng, &data, t.bytes);
        // SAFETY: the arguments are plain numbers.
        let bytes = unsafe { sys::crk_q8_1_bytes(rows, k) };
        let dst = blank(target, rng, bytes, 4);
        let raw = target.device.raw();
        succeeded(unsafe { sys::crk_quantize_q8_1(raw, t.dtype, rows, k, x.view().into(), dst.view()) })?;
        let (numbers, padded) = (widened(t, &data), k.div_ceil(512) * 512);
        compare_q8_1(&numbers, k, padded, &dst.read()?, &q8_1(&numbers, rows, k))
            .map_err(|problem| format!("{rows} rows of {k}: {problem}"))?;
        unchanged(&x, &data)
    })
}

/// Activations of a type.
fn vector(rng: &mut Rng, t: Type, k: usize) -> Vec<u8> {
    rounded(t, (0..k).map(|_| (rng.unit() * 4.0 - 2.0) as f32))
}

/// The rows times y, and the magnitude of the terms.
fn products(format: Format, data: &[u8], k: usize, y: &[f32]) -> (Vec<f32>, Vec<f64>) {
    let dots = data.chunks_exact(format.row_bytes(k)).map(|row| dot(format, row, Activations::F32(y)));
    dots.map(|dot| (dot.value as f32, dot.magnitude)).unzip()
}

fn mul_mat_vec(target: &Target, name: &str, format: Format, t: Type) -> Outcome {
    // Blocks and rows: around the work of 32 lanes, and around the rows of a block of threads.
    const SIZES: &[(usize, usize)] =
        &[(1, 1), (1, 2), (1, 33), (2, 7), (3, 8), (5, 9), (7, 3), (8, 1), (8, 5), (9, 2), (17, 3), (33, 1)];
    each_case(target, "quantized", name, SIZES.len(), |rng, index| {
        let (wide, rows) = SIZES[index];
        let k = wide * format.elements;
        let (data, y) = (blocks(rng, format, rows * wide, true), vector(rng, t, k));
        let (src, x) = (place(target, rng, &data, alignment(format)), place(target, rng, &y, t.bytes));
        let dst = blank(target, rng, rows * 4, 4);
        let (raw, quant) = (target.device.raw(), quant(format));
        succeeded(unsafe {
            sys::crk_dequantize_mul_mat_vec(
                raw,
                quant,
                t.dtype,
                rows,
                k,
                src.view().into(),
                x.view().into(),
                dst.view(),
            )
        })?;
        let (expected, magnitudes) = products(format, &data, k, &widened(t, &y));
        compare_dots(&floats(&dst.read()?), &expected, |i| magnitudes[i])
            .map_err(|problem| format!("{rows} x {k}: {problem}"))?;
        unchanged(&src, &data)?;
        unchanged(&x, &y)
    })
}

/// Candle's names for the products, with its geometry. The sizes are those at which Candle's kernels access memory out
/// of bounds.
fn mul_mat_vec_by_name(target: &Target, name: &str, format: Format) -> Outcome {
    let kernel = match format.elements {
        32 => format!("dequantize_mul_mat_vec_{}_cuda", format.name),
        _ => format!("dequantize_mul_mat_vec_{}", format.name.to_lowercase()),
    };
    let function = target.device.function_named("quantized", &kernel).map_err(|error| error.to_string())?;
    each_case(target, "quantized", name, 8, |rng, index| {
        let (wide, rows) = (1 + index % 5, 1 + index);
        let k = wide * format.elements;
        let (data, y) = (blocks(rng, format, rows * wide, true), vector(rng, F32, k));
        let (src, x) = (place(target, rng, &data, alignment(format)), place(target, rng, &y, 4));
        let dst = blank(target, rng, rows * 4, 4);
        let [k_arg, rows_arg] = [k, rows].map(|size| Arg::from(size as u32));
        let mut args = vec![Arg::ptr(src.ptr()), Arg::ptr(x.ptr()), Arg::ptr(dst.ptr()), k_arg, rows_arg];
        // The grid exceeds the rows, for kernels that know the number of rows.
        let extra = if format.name == "q5_K" { 0 } else { 2 };
        args.truncate(if extra == 0 { 4 } else { 5 });
        let launch = Launch { grid: [(rows + extra) as u32, 1, 1], block: [32, 1, 1], shared_bytes: 0 };
        // SAFETY: these are Candle's arguments and geometry.
        unsafe { function.launch(launch, &args) }.map_err(|error| error.to_string())?;
        let (expected, magnitudes) = products(format, &data, k, &floats(&y));
        compare_dots(&floats(&dst.read()?), &expected, |i| magnitudes[i])
            .map_err(|problem| format!("{rows} x {k}: {problem}"))
    })
}

/// Candle's get_rows. The ids include the largest one, and the rows are longer than the grid's second dim covers at
/// once.
fn get_rows_by_name(target: &Target, name: &str, format: Format) -> Outcome {
    let function = target.device.function_named("quantized", &format!("get_rows_{}", format.name));
    let function = function.map_err(|error| error.to_string())?;
    each_case(target, "quantized", name, 6, |rng, index| {
        let (rows, count) = (3 + rng.below(4), 5 + rng.below(3));
        let hidden = 1024 * (1 + index);
        let data = blocks(rng, format, rows * hidden / format.elements, false);
        let ids = ids(rng, rows, count, false);
        let (src, which) = (place(target, rng, &data, alignment(format)), to_device(target, rng, &ids));
        let dst = blank(target, rng, count * hidden * 4, 4);
        let (threads, share) = match format.name {
            "q4_K" => (32, 256),
            _ if format.elements == 256 => (64, 256),
            _ => (256, 512),
        };
        // Candle's grid, or a smaller one for which the kernel loops.
        let y = if format.elements == 32 && index % 2 == 1 { 1 } else { hidden / share };
        let launch = Launch { grid: [count as u32, y as u32, 1], block: [threads, 1, 1], shared_bytes: 0 };
        let args = [
            Arg::ptr(src.ptr()),
            Arg::ptr(which.ptr()),
            Arg::ptr(dst.ptr()),
            Arg::bits(hidden as u64, 8),
            Arg::bits(format.row_bytes(hidden) as u64, 8),
        ];
        // SAFETY: as above.
        unsafe { function.launch(launch, &args) }.map_err(|error| error.to_string())?;
        let table: Vec<f32> = format.elements(&data).into_iter().map(|element| format.value(element, false)).collect();
        check_rows((target, &dst), &table, (rows, hidden), &ids)
            .map_err(|problem| format!("{count} of {rows} rows of {hidden}: {problem}"))
    })
}

// ---- The same for all formats

/// A table without rows has no valid id.
fn no_rows(target: &Target) -> Outcome {
    let target = &alone(target)?;
    let raw = target.device.raw();
    let none = sys::crk_view_t { ptr: null_mut(), bytes: 0 };
    let q = quant(FORMATS[0]);
    let which = Guarded::new(&target.device, &[0; 4], 0).map_err(|error| error.to_string())?;
    let row = Guarded::new(&target.device, &[0xcd; 128], 0).map_err(|error| error.to_string())?;
    succeeded(unsafe { sys::crk_get_rows(raw, q, 0, 32, 1, none.into(), which.view().into(), row.view()) })?;
    check_rows((target, &row), &[], (0, 32), &[0])
}

/// Every launcher in one graph, replayed with other data.
fn graph(target: &Target) -> Outcome {
    let fail = |error: candle_rocm_sys::Error| error.to_string();
    let device = open(&target.name).map_err(fail)?;
    let (format, rows, k) = (FORMATS[7], 5, 512);
    let q = quant(format);
    let weights = device.alloc(rows * format.row_bytes(k)).map_err(fail)?;
    let (y, which) = (device.alloc(k * 4).map_err(fail)?, device.upload(&[4u32, u32::MAX, 0]).map_err(fail)?);
    let [all, some, q8, out] = [rows * k * 4, 3 * k * 4, k / 32 * 36, rows * 4].map(|bytes| device.alloc(bytes));
    let (all, some, q8, out) = (all.map_err(fail)?, some.map_err(fail)?, q8.map_err(fail)?, out.map_err(fail)?);
    let run = || {
        device.dequantize(q, F32.dtype, rows * k, &weights, &all)?;
        device.get_rows(q, (rows, k, &weights), (3, &which), &some)?;
        device.quantize_q8_1(F32.dtype, 1, k, &y, &q8)?;
        device.dequantize_mul_mat_vec(q, F32.dtype, (rows, k, &weights), &y, &out)
    };
    // SAFETY: live handles; the graph is destroyed once.
    succeeded(unsafe { sys::crk_graph_begin(device.raw()) })?;
    let recorded = run().map_err(fail);
    let mut graph = null_mut();
    succeeded(unsafe { sys::crk_graph_end(device.raw(), &mut graph) })?;
    let outcome = recorded.and_then(|()| {
        for seed in 0..2 {
            let mut rng = Rng(seed);
            let data = blocks(&mut rng, format, rows * k / format.elements, true);
            let x = vector(&mut rng, F32, k);
            weights.write(&data).map_err(fail)?;
            y.write(&x).map_err(fail)?;
            succeeded(unsafe { sys::crk_graph_launch(graph) })?;
            let numbers: Vec<f32> = format.elements(&data).into_iter().map(|e| e.value()).collect();
            let read = |buffer: &candle_rocm_sys::Buffer| buffer.download::<u8>().map_err(fail);
            compare(F32, Close::Value, &read(&all)?, &rounded(F32, numbers.iter().copied()))?;
            let picked = numbers[4 * k..].iter().chain(&[0f32; 512]).chain(&numbers[..k]);
            compare(F32, Close::Value, &read(&some)?, &rounded(F32, picked.copied()))?;
            compare_q8_1(&floats(&x), k, k, &read(&q8)?, &q8_1(&floats(&x), 1, k))?;
            let (expected, magnitudes) = products(format, &data, k, &floats(&x));
            compare_dots(&floats(&read(&out)?), &expected, |i| magnitudes[i])?;
        }
        Ok(())
    });
    unsafe { sys::crk_graph_destroy(graph) };
    outcome
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Box<dyn FnOnce(&str) -> Outcome + Send>| {
            let trial = format!("quantized/{}/{name}", target.name);
            trials.push(Trial::test(trial, move || body(&name).map_err(Failed::from)));
        };
        for format in FORMATS {
            let q = format.name;
            for t in TYPES {
                let name = format!("dequantize/{q}_{}", t.name);
                add(name, Box::new(move |name| dequantize(target, name, format, t)));
                let name = format!("dequantize_mul_mat_vec/{q}_{}", t.name);
                add(name, Box::new(move |name| mul_mat_vec(target, name, format, t)));
            }
            add(format!("get_rows/{q}"), Box::new(move |name| get_rows(target, name, format)));
            if q != "q8_K" {
                let name = format!("by_name/dequantize_mul_mat_vec_{q}");
                add(name, Box::new(move |name| mul_mat_vec_by_name(target, name, format)));
                add(format!("by_name/get_rows_{q}"), Box::new(move |name| get_rows_by_name(target, name, format)));
            }
        }
        for t in TYPES {
            add(format!("get_rows/{}", t.name), Box::new(move |name| get_rows_float(target, name, t)));
            add(format!("quantize_q8_1/{}", t.name), Box::new(move |name| quantize(target, name, t)));
        }
        add("no_rows".into(), Box::new(move |_| no_rows(target)));
        add("graph".into(), Box::new(move |_| graph(target)));
    }
    trials
}
