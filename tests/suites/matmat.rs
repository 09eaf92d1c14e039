//! Products with quantized weights and many columns, and the mmq blocks that the columns are converted to, against
//! plain Rust. The cases have sizes around every tile's edge, strides, views that begin anywhere, and bad arguments.
//! Guard bytes surround every buffer.
//!
//! `cargo test --test suites -- FILTER` runs some of the tests. A failure names its case, and `CANDLE_ROCM_CASE=N` runs
//! only that one.

use crate::support;
use crate::support::cases::Rng;
use crate::support::compare::{Close, compare as compare_bits};
use crate::support::number::{F16, F32, Type};
use crate::support::product::{Expected, FLOATS, activations, blocks, compare, formats, scales_at};
use crate::support::property::{Outcome, each_case};
use crate::support::quantized::{Format, half, quant};
use crate::support::{Body, Guarded, Target, add_trial, last_error, open, succeeded};
use candle_rocm_sys::{Status, sys};
use libtest_mimic::Trial;
use std::ptr::null_mut;

type Mmq = sys::crk_mmq_t;
type Rows = sys::crk_mmq_rows_t;
const LAYOUTS: [(Mmq, &str); 3] = [(Mmq::D4, "D4"), (Mmq::DS4, "DS4"), (Mmq::D2S6, "D2S6")];
const NO_VIEW: sys::crk_view_t = sys::crk_view_t { ptr: null_mut(), bytes: 0 };
const BLOCK: usize = 144;

/// The mmq layout that the header states for a format.
fn layout_of(format: Format) -> Mmq {
    match format.name {
        "q4_0" | "q4_1" | "q5_1" | "q4_K" | "q5_K" => Mmq::DS4,
        "q2_K" => Mmq::D2S6,
        _ => Mmq::D4,
    }
}

/// The number of blocks of one channel.
fn channel_blocks(columns: usize, padded_k: usize) -> usize {
    columns * padded_k.next_multiple_of(512) / 128
}

fn bytes_of(rows: &Rows) -> usize {
    rows.samples * rows.channels * channel_blocks(rows.columns, rows.padded_k) * BLOCK
}

// ---- blocks

/// The mmq block of 128 numbers, as the header defines it, in f32 and in the same order.
fn mmq_block(layout: Mmq, x: &[f32]) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    let group = if layout == Mmq::D2S6 { 64 } else { 32 };
    let f16 = |x: f32| (F16.round_bits(f64::from(x)) as u16).to_le_bytes();
    for (g, values) in x.chunks(group).enumerate() {
        let most = values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let inverse = 127.0 / most;
        let d = 1.0 / inverse;
        for (i, x) in values.iter().enumerate() {
            // A NaN product gives code 0, and Rust's conversion does the same. An infinite product gives its low byte.
            block[16 + g * group + i] = (x * inverse).round() as i32 as u8;
        }
        match layout {
            Mmq::D4 => block[4 * g..4 * g + 4].copy_from_slice(&d.to_le_bytes()),
            Mmq::DS4 => block[4 * g..4 * g + 2].copy_from_slice(&f16(d)),
            _ => block[2 * g..2 * g + 2].copy_from_slice(&f16(d)),
        }
    }
    let (sums, count, first, step) = match layout {
        Mmq::D4 => return block,
        Mmq::DS4 => (32, 4, 2, 4),
        _ => (16, 6, 4, 2),
    };
    for (g, values) in x.chunks(sums).take(count).enumerate() {
        let mut fours: Vec<f32> = values.chunks(4).map(|v| v[0] + v[1] + v[2] + v[3]).collect();
        while fours.len() > 1 {
            let half = fours.len() / 2;
            fours = (0..half).map(|i| fours[i] + fours[i + half]).collect();
        }
        block[first + step * g..first + step * g + 2].copy_from_slice(&f16(fours[0]));
    }
    block
}

/// Whether two blocks are equal. NaN sums may differ in their bits.
fn same_block(layout: Mmq, got: &[u8], expected: &[u8]) -> bool {
    let no_number = |b: &[u8]| b[1] & 0x7c == 0x7c && (b[1] & 3 != 0 || b[0] != 0);
    let pairs = |b: &[u8]| b[..16].chunks(2).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let head = layout == Mmq::D4 && got[..16] == expected[..16]
        || layout != Mmq::D4
            && pairs(got).iter().zip(&pairs(expected)).all(|(g, e)| g == e || no_number(g) && no_number(e));
    head && got[16..] == expected[16..]
}

/// Numbers with some extremes: groups of zeros, ties, infinities, NaN, subnormals, numbers beyond f16.
fn any_numbers(rng: &mut Rng, t: Type, count: usize) -> Vec<u8> {
    let mut bytes = activations(rng, t, count);
    let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-39, -1e-42, 65504.0, 3e38, -0.0];
    for i in 0..count {
        if i / 40 % 3 == 1 {
            t.put(&mut bytes, i, 0);
        } else if rng.one_in(60) {
            t.put(&mut bytes, i, t.round_bits(rng.pick(&special)));
        } else if i / 40 % 3 == 2 {
            // Numbers halfway between two codes, when the largest is 127.
            let x = if i % 8 == 0 { 127.0 } else { rng.below(253) as f64 / 2.0 - 63.0 };
            t.put(&mut bytes, i, t.round_bits(x));
        }
    }
    bytes
}

fn number(t: Type, bytes: &[u8], i: usize) -> f32 {
    t.float(t.get(bytes, i)) as f32
}

fn quantizes(target: &Target, name: &str, layout: Mmq, t: Type) -> Outcome {
    // A handle of its own, because it reports ids.
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let target = &Target { name: target.name.clone(), device };
    each_case(target, "matmat", name, 20, |rng, index| {
        let k: usize = rng.pick(&[1, 3, 4, 31, 32, 96, 127, 128, 129, 480, 512, 513, 768]);
        let padded_k = k.next_multiple_of(128) + 128 * rng.below(4);
        let columns = rng.pick(&[1, 2, 7, 8, 9, 17, 33]);
        let (channels, samples) = if index % 4 == 0 { (1, 1) } else { (1 + rng.below(3), 1 + rng.below(2)) };
        let x_rows = columns + rng.below(4);
        let row_stride = k + if rng.one_in(2) { rng.below(9) } else { 0 };
        let channel_stride = x_rows * row_stride + rng.below(5);
        let sample_stride = channels * channel_stride + rng.below(5);
        let rows = Rows { k, row_stride, channel_stride, sample_stride, padded_k, columns, channels, samples };
        // The view ends with the last element of the last row, so it holds exactly x_rows rows.
        let count = (samples - 1) * sample_stride + (channels - 1) * channel_stride + (x_rows - 1) * row_stride + k;
        let x = any_numbers(rng, t, count);
        let ids: Option<Vec<i32>> = (index % 3 != 0).then(|| {
            let bad = [-1, x_rows as i32, i32::MAX, i32::MIN];
            let wrong = index % 3 == 2;
            let id = |i| if wrong && (i == 0 || rng.one_in(4)) { rng.pick(&bad) } else { rng.below(x_rows) as i32 };
            (0..columns).map(id).collect()
        });
        let id_bytes: Vec<u8> = ids.iter().flatten().flat_map(|id| id.to_le_bytes()).collect();
        let memory = |bytes: &[u8], off: usize| Guarded::new(&target.device, bytes, off).expect("device memory");
        let x_memory = memory(&x, t.bytes * rng.below(4));
        let ids_memory = memory(&id_bytes, 4 * rng.below(4));
        let before = vec![0xcd; bytes_of(&rows)];
        let dst = memory(&before, 4 * rng.below(4));
        // SAFETY: live arguments.
        if unsafe { sys::crk_mmq_bytes(&rows) } != before.len() {
            return Err(format!("crk_mmq_bytes of {rows:?} is not {}", before.len()));
        }
        let ids_view = if ids.is_some() { ids_memory.view() } else { NO_VIEW };
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_quantize_mmq(
                target.device.raw(),
                layout,
                t.dtype,
                &rows,
                x_memory.view().into(),
                ids_view.into(),
                dst.view(),
            )
        })?;
        let row_of = |column: usize| ids.as_ref().map_or(column as i64, |ids| i64::from(ids[column]));
        let held = |row: i64| (0..x_rows as i64).contains(&row);
        // SAFETY: a live handle.
        let status = unsafe { sys::crk_device_synchronize(target.device.raw()) };
        let bad = (0..columns).any(|column| !held(row_of(column)));
        let reported = status == Status::OutOfRange && last_error().starts_with("crk_quantize_mmq: ids has ");
        if if bad { !reported } else { status != Status::Ok } {
            return Err(format!("ids {ids:?} of {x_rows} rows: {}, {}", status.name(), last_error()));
        }
        let got = dst.read().map_err(|problem| format!("dst: {problem}"))?;
        for (number_of_block, block) in got.chunks_exact(BLOCK).enumerate() {
            let channel_size = channel_blocks(columns, padded_k);
            let (channel, in_channel) = (number_of_block / channel_size, number_of_block % channel_size);
            let (b, column) = (in_channel / columns, in_channel % columns);
            let row = row_of(column);
            let expected = if 128 * b >= padded_k || !held(row) {
                before[..BLOCK].to_vec()
            } else {
                let first = channel / channels * sample_stride
                    + channel % channels * channel_stride
                    + row as usize * row_stride;
                let values: Vec<f32> =
                    (128 * b..128 * b + 128).map(|i| if i < k { number(t, &x, first + i) } else { 0.0 }).collect();
                mmq_block(layout, &values)
            };
            if !same_block(layout, block, &expected) {
                return Err(format!(
                    "{rows:?}, ids {ids:?}: block {b} of column {column} of channel {channel}:\n{block:?}, \
                     expected\n{expected:?}"
                ));
            }
        }
        let same = x_memory.read()? == x && ids_memory.read()? == id_bytes;
        if same { Ok(()) } else { Err("a source changed".into()) }
    })
}

// ---- products

/// A row of weights times column `column` of `columns` columns in mmq blocks.
fn dot(format: Format, row: &[u8], y: &[u8], column: usize, columns: usize) -> Expected {
    let layout = layout_of(format);
    let narrow = |x: f32| {
        let rounds = matches!(format.name, "q2_K" | "q4_K" | "q5_K");
        if rounds { F16.round(f64::from(x)) } else { f64::from(x) }
    };
    let mut expected = Expected::default();
    for (g, group) in format.elements(row).chunks_exact(16).enumerate() {
        let block = &y[(g / 8 * columns + column) * BLOCK..][..BLOCK];
        let (sixteen, quarter) = (g % 8, g % 8 / 2);
        let codes: Vec<f64> = block[16 + 16 * sixteen..][..16].iter().map(|code| f64::from(*code as i8)).collect();
        let d = match layout {
            Mmq::D4 => f32::from_le_bytes(block[4 * quarter..][..4].try_into().expect("four bytes")),
            Mmq::DS4 => half(block, 4 * quarter),
            _ => half(block, 2 * (quarter / 2)),
        };
        let (d, scale, minimum) = (f64::from(d), narrow(group[0].scale), narrow(group[0].minimum));
        expected.add(scale * d * group.iter().zip(&codes).map(|(e, y)| f64::from(e.code) * y).sum::<f64>());
        if format.has_minimum() {
            expected.add(
                -minimum
                    * match layout {
                        // Each 16 elements take half of a sum of 32.
                        Mmq::DS4 => f64::from(half(block, 4 * quarter + 2)) / 2.0,
                        _ if quarter < 3 => f64::from(half(block, 4 + 2 * sixteen)),
                        _ => d * codes.iter().sum::<f64>(),
                    },
            );
        }
    }
    expected
}

/// The blocks of the launchers' own products: instead of a sum of numbers, s is d times the sum of their codes.
fn with_sums_of_codes(format: Format, mut y: Vec<u8>) -> Vec<u8> {
    let layout = layout_of(format);
    let (sums, group, first, step) = match layout {
        Mmq::DS4 => (4, 32, 2, 4),
        Mmq::D2S6 => (6, 16, 4, 2),
        _ => return y,
    };
    for block in y.chunks_exact_mut(BLOCK) {
        for s in 0..sums {
            let d = half(block, if layout == Mmq::DS4 { 4 * s } else { 2 * (s * group / 64) });
            let codes: i32 = block[16 + s * group..][..group].iter().map(|code| i32::from(*code as i8)).sum();
            F16.put(&mut block[first + step * s..], 0, F16.round_bits(f64::from(d) * f64::from(codes)));
        }
    }
    y
}

/// Device memory that sometimes begins at a multiple of `unit` bytes only.
fn memory(target: &Target, rng: &mut Rng, bytes: &[u8], unit: usize) -> Guarded {
    let off = if rng.one_in(3) { unit * rng.below(16 / unit) } else { 0 };
    Guarded::new(&target.device, bytes, off).expect("device memory")
}

/// Row lengths: one block, a few, odd numbers of them, whole and partial mmq blocks.
fn row_length(rng: &mut Rng, format: Format) -> usize {
    let counts: &[usize] = if format.elements == 32 { &[1, 2, 3, 4, 5, 8, 13, 16] } else { &[1, 2, 3] };
    format.elements * rng.pick(counts)
}

/// The blocks that the device makes of `columns` contiguous rows of x.
fn quantized(target: &Target, format: Format, t: Type, k: usize, columns: usize, x: &Guarded) -> Vec<u8> {
    let mut layout = Mmq::D4;
    let rows = Rows {
        k,
        row_stride: k,
        channel_stride: 0,
        sample_stride: 0,
        padded_k: k.next_multiple_of(128),
        columns,
        channels: 1,
        samples: 1,
    };
    let y = Guarded::new(&target.device, &vec![0; bytes_of(&rows)], 0).expect("device memory");
    // SAFETY: live arguments.
    unsafe {
        succeeded(sys::crk_mmq_of_quant(quant(format), &mut layout)).expect("a layout");
        assert_eq!(layout, layout_of(format), "the layout of {}", format.name);
        succeeded(sys::crk_quantize_mmq(
            target.device.raw(),
            layout,
            t.dtype,
            &rows,
            x.view().into(),
            NO_VIEW.into(),
            y.view(),
        ))
        .expect("quantized activations");
    }
    y.read().expect("quantized activations")
}

/// A product in one of two ways: the launcher quantizes the columns, or they are quantized before, with strides.
fn product(target: &Target, rng: &mut Rng, format: Format, shape: (usize, usize, usize)) -> Outcome {
    let whole = shape.2 > 8 && rng.one_in(2);
    product_by(target, rng, format, shape, whole)
}

/// `whole`: the launcher quantizes the columns.
fn product_by(
    target: &Target,
    rng: &mut Rng,
    format: Format,
    (rows, k, columns): (usize, usize, usize),
    whole: bool,
) -> Outcome {
    let t = rng.pick(&FLOATS);
    let x = activations(rng, t, columns * k);
    let x_memory = memory(target, rng, &x, t.bytes);
    let y = quantized(target, format, t, k, columns, &x_memory);
    let row_blocks = k / format.elements;
    let weight_stride = row_blocks + if whole || rng.one_in(2) { 0 } else { rng.below(4) };
    let dst_stride = rows + if whole || rng.one_in(2) { 0 } else { rng.below(5) };
    let weights = blocks(rng, format, (rows - 1) * weight_stride + row_blocks);
    let weights_memory = memory(target, rng, &weights, 2);
    let before = vec![0xcd; ((columns - 1) * dst_stride + rows) * t.bytes];
    let dst = memory(target, rng, &before, t.bytes);
    let (device, w) = (target.device.raw(), weights_memory.view());
    let y = if whole { with_sums_of_codes(format, y) } else { y };
    if whole {
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_mul_mat(
                device,
                quant(format),
                t.dtype,
                rows,
                k,
                columns,
                w.into(),
                x_memory.view().into(),
                dst.view(),
            )
        })?;
    } else {
        // Only as much of y as the product reads.
        let needed = k.div_ceil(128) * columns * BLOCK;
        let y_memory = memory(target, rng, &y[..needed], 4);
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_mul_mat_mmq(
                device,
                quant(format),
                t.dtype,
                rows,
                k,
                columns,
                w.into(),
                weight_stride,
                y_memory.view().into(),
                dst.view(),
                dst_stride,
            )
        })?;
        if y_memory.read()? != y[..needed] {
            return Err("y changed".into());
        }
    }
    let got = dst.read().map_err(|problem| format!("dst: {problem}"))?;
    let size = row_blocks * format.bytes;
    for column in 0..columns {
        let at = column * dst_stride * t.bytes;
        let (of_column, gap) = got[at..].split_at(rows * t.bytes);
        compare(t, of_column, |row| {
            dot(format, &weights[row * weight_stride * format.bytes..][..size], &y, column, columns)
        })
        .map_err(|problem| {
            let how = if whole { "crk_mul_mat" } else { "crk_mul_mat_mmq" };
            format!("{how}, {rows} rows of {k}, {columns} columns, {}: column {column}: {problem}", t.name)
        })?;
        if column + 1 < columns && gap[..(dst_stride - rows) * t.bytes].iter().any(|byte| *byte != 0xcd) {
            return Err(format!("{rows} rows, a column every {dst_stride}: written between columns"));
        }
    }
    let same = weights_memory.read()? == weights && x_memory.read()? == x;
    if same { Ok(()) } else { Err("a source changed".into()) }
}

fn sizes(target: &Target, name: &str, format: Format) -> Outcome {
    const SIZES: &[(usize, usize)] = &[
        (1, 1),
        (2, 9),
        (63, 31),
        (64, 32),
        (65, 33),
        (127, 8),
        (128, 64),
        (129, 65),
        (3, 128),
        (16, 129),
        (70, 10),
        (5, 300),
        (257, 9),
    ];
    // Tiles are slow on the CPU, so each format runs every other size.
    let which = formats().position(|other| other == format).expect("a format") % 2;
    each_case(target, "matmat", name, SIZES.len(), |rng, index| {
        if index % 2 != which {
            return Ok(());
        }
        let (rows, columns) = SIZES[index];
        let k = if rows * columns > 1000 { format.elements * (1 + index % 2) } else { row_length(rng, format) };
        product(target, rng, format, (rows, k, columns))
    })
}

/// Random sizes, up to 300 columns.
fn random(target: &Target, name: &str, format: Format) -> Outcome {
    each_case(target, "matmat", name, 4, |rng, index| {
        let columns = 1 + rng.below(if index == 0 { 300 } else { 70 });
        let rows = 1 + rng.below(if columns > 64 { 40 } else { 140 });
        let k = if rows * columns > 1500 { format.elements } else { row_length(rng, format) };
        product(target, rng, format, (rows, k, columns))
    })
}

/// Enough rows and columns for the large tile on devices with at most 16 compute units. The CPU is one, so every format
/// is tested there.
fn many_tiles(target: &Target, name: &str, format: Format) -> Outcome {
    each_case(target, "matmat", name, 1, |rng, _| product(target, rng, format, (1000, format.elements, 66)))
}

/// Few tiles and long rows: crk_mul_mat cuts the sum over k into parts. Also rows that do not end with a part, a step
/// or a block of 256.
fn parts(target: &Target, name: &str, format: Format) -> Outcome {
    each_case(target, "matmat", name, 6, |rng, index| {
        let (rows, columns) = [(5, 9), (64, 16), (30, 33), (9, 65), (40, 12), (64, 10)][index];
        // The last two have short last parts, if blocks have 32 weights.
        let k = [2048, 2048 + format.elements, 2048 + 5 * format.elements, 2304, 1024, 3072][index];
        let k = k + if index > 3 { format.elements } else { 0 };
        product_by(target, rng, format, (rows, k, columns), true)
    })
}

/// So many weights and columns that NVIDIA GPUs multiply numbers by cuBLAS, not codes. Compares some results of each
/// row and of each column with the product of the numbers, before any rounding, by their relative RMS.
fn many_columns(target: &Target, name: &str, format: Format) -> Outcome {
    const ROWS: usize = 1030;
    const K: usize = 4096;
    const COLUMNS: usize = 193;
    each_case(target, "matmat", name, 1, |rng, _| {
        let weights = blocks(rng, format, ROWS * K / format.elements);
        let weights_memory = memory(target, rng, &weights, 2);
        for t in FLOATS {
            let mut x = vec![0; COLUMNS * K * t.bytes];
            for i in 0..COLUMNS * K {
                t.put(&mut x, i, t.round_bits(rng.below(2001) as f64 / 1e7 - 1e-4));
            }
            let x_memory = memory(target, rng, &x, t.bytes);
            let dst = memory(target, rng, &vec![0xcd; COLUMNS * ROWS * t.bytes], t.bytes);
            // SAFETY: live arguments.
            succeeded(unsafe {
                sys::crk_mul_mat(
                    target.device.raw(),
                    quant(format),
                    t.dtype,
                    ROWS,
                    K,
                    COLUMNS,
                    weights_memory.view().into(),
                    x_memory.view().into(),
                    dst.view(),
                )
            })?;
            let got = dst.read().map_err(|problem| format!("dst: {problem}"))?;
            let (mut errors, mut sizes, mut of_rows) = (0.0, 0.0, Vec::new());
            for row in 0..ROWS {
                let (mut error, mut size) = (0.0, 0.0);
                let bytes = format.bytes * K / format.elements;
                let elements = format.elements(&weights[row * bytes..][..bytes]);
                for column in (row % 24..COLUMNS).step_by(24) {
                    let expected: f64 = elements
                        .iter()
                        .enumerate()
                        .map(|(i, e)| f64::from(e.value()) * f64::from(number(t, &x, column * K + i)))
                        .sum();
                    let result = f64::from(number(t, &got, column * ROWS + row));
                    error += (result - expected).powi(2);
                    size += expected.powi(2);
                }
                (errors, sizes) = (errors + error, sizes + size);
                of_rows.push((error / size).sqrt());
            }
            // f16 holds the scales of such small activations with an error of up to 4 %.
            let all = (errors / sizes).sqrt();
            let wrong = of_rows.iter().position(|row| row.is_nan() || *row > 0.2);
            if all.is_nan() || all > 0.03 || wrong.is_some() {
                return Err(format!("{}: relative RMS of the errors is {all}; wrong row: {wrong:?}", t.name));
            }
        }
        Ok(())
    })
}

/// Above 8 columns, each column's result has the same bits beside any others, whichever tiles compute it.
fn beside(target: &Target, name: &str, format: Format) -> Outcome {
    const COLUMNS: usize = 150;
    each_case(target, "matmat", name, 2, |rng, index| {
        let (rows, k) = ([5, 130][index], format.elements * if format.elements == 32 { 13 } else { 2 });
        let weights = Guarded::new(&target.device, &blocks(rng, format, rows * k / format.elements), 0);
        let x = Guarded::new(&target.device, &activations(rng, F32, COLUMNS * k), 0);
        let (weights, x) = (weights.expect("device memory"), x.expect("device memory"));
        let product = |columns: usize| {
            let dst = Guarded::new(&target.device, &vec![0xcd; rows * columns * F32.bytes], 0).expect("device memory");
            let (device, weights, x) = (target.device.raw(), weights.view(), x.view());
            // SAFETY: live arguments.
            succeeded(unsafe {
                sys::crk_mul_mat(
                    device,
                    quant(format),
                    F32.dtype,
                    rows,
                    k,
                    columns,
                    weights.into(),
                    x.into(),
                    dst.view(),
                )
            })?;
            dst.read()
        };
        let all = product(COLUMNS)?;
        for columns in [9, 16, 17, 33, 64, 65, 129] {
            let got = product(columns)?;
            compare_bits(F32, Close::Bits, &got, &all[..got.len()]).map_err(|problem| {
                format!("{columns} columns of {rows} rows of {k}, not as beside {COLUMNS}: {problem}")
            })?;
        }
        Ok(())
    })
}

/// Random bytes as weights and as blocks of y, so that scales may be infinite or NaN. Finite results are right, others
/// are not finite, and nothing outside is touched.
fn any_bytes(target: &Target, name: &str, format: Format) -> Outcome {
    each_case(target, "matmat", name, 4, |rng, index| {
        let (rows, columns, k) = ([37, 65][index % 2], [4, 20, 9][index % 3], format.elements * (1 + index));
        let weights: Vec<u8> = (0..rows * format.row_bytes(k)).map(|_| rng.next() as u8).collect();
        let y: Vec<u8> = (0..k.div_ceil(128) * columns * BLOCK).map(|_| rng.next() as u8).collect();
        let (weights_memory, y_memory) = (memory(target, rng, &weights, 2), memory(target, rng, &y, 4));
        let dst = memory(target, rng, &vec![0xcd; rows * columns * 4], 4);
        let row_blocks = k / format.elements;
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_mul_mat_mmq(
                target.device.raw(),
                quant(format),
                F32.dtype,
                rows,
                k,
                columns,
                weights_memory.view().into(),
                row_blocks,
                y_memory.view().into(),
                dst.view(),
                rows,
            )
        })?;
        let got = dst.read().map_err(|problem| format!("dst: {problem}"))?;
        for i in 0..rows * columns {
            let row = &weights[i % rows * format.row_bytes(k)..][..format.row_bytes(k)];
            let expected = dot(format, row, &y, i / rows, columns);
            let got = number(F32, &got, i);
            // The contract excludes sums of f32 that overflow on the way.
            let fits = expected.magnitude < 1e37;
            let within = (f64::from(got) - expected.value).abs() <= expected.magnitude * 1e-5 + 1e-37;
            if fits && !within || !expected.value.is_finite() && got.is_finite() {
                return Err(format!("{rows} rows of {k}, {columns} columns: [{i}]: got {got}, expected {expected:?}"));
            }
        }
        Ok(())
    })
}

/// One scale of the weights, or one activation, is infinite or NaN. Then no result in its row or column is finite,
/// except that a NaN among the activations counts as 0. All other results stay the same.
fn no_numbers(target: &Target, name: &str, format: Format) -> Outcome {
    const NO_NUMBERS: [f64; 3] = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    each_case(target, "matmat", name, 10, |rng, index| {
        let (columns, rows, k) = ([1, 3, 8, 12, 40][index % 5], 7, format.elements * (1 + index / 5 * 2));
        let multiply = |weights: &[u8], x: &[u8]| {
            let of = |bytes: &[u8]| Guarded::new(&target.device, bytes, 0).expect("device memory");
            let (weights, x, dst) = (of(weights), of(x), of(&vec![0xcd; rows * columns * F32.bytes]));
            let (device, weights, x) = (target.device.raw(), weights.view(), x.view());
            // SAFETY: live arguments.
            succeeded(unsafe {
                sys::crk_mul_mat(
                    device,
                    quant(format),
                    F32.dtype,
                    rows,
                    k,
                    columns,
                    weights.into(),
                    x.into(),
                    dst.view(),
                )
            })?;
            dst.read()
        };
        let weights = blocks(rng, format, rows * k / format.elements);
        let x = activations(rng, F32, columns * k);
        let plain = multiply(&weights, &x)?;
        let check = |got: &[u8], what: &str, right: &dyn Fn(usize, f32) -> Option<bool>| {
            for i in 0..rows * columns {
                let (got, plain) = (number(F32, got, i), number(F32, &plain, i));
                if !right(i, got).unwrap_or(got.to_bits() == plain.to_bits() && got.is_finite()) {
                    let (row, column) = (i % rows, i / rows);
                    return Err(format!(
                        "{what}, k {k}, {columns} columns: row {row}, column {column} is {got}, without {plain}"
                    ));
                }
            }
            Ok(())
        };
        for value in NO_NUMBERS {
            for &at in scales_at(format) {
                let block = rng.below(rows * k / format.elements);
                let row = block / (k / format.elements);
                let mut weights = weights.clone();
                F16.put(&mut weights[block * format.bytes + at..], 0, F16.round_bits(value));
                check(
                    &multiply(&weights, &x)?,
                    &format!("{value} at byte {at} of a block of row {row}"),
                    &|i, got| (i % rows == row).then(|| if value.is_nan() { got.is_nan() } else { !got.is_finite() }),
                )?;
            }
            let (column, at) = (rng.below(columns), rng.below(k));
            let mut x = x.clone();
            F32.put(&mut x, column * k + at, 0);
            let of_zero = multiply(&weights, &x)?;
            F32.put(&mut x, column * k + at, F32.round_bits(value));
            check(&multiply(&weights, &x)?, &format!("{value} at {at} of column {column}"), &|i, got| {
                (i / rows == column).then(|| match value.is_nan() {
                    true => got.to_bits() == number(F32, &of_zero, i).to_bits(),
                    false => got.is_nan(),
                })
            })?;
        }
        Ok(())
    })
}

/// Recorded once and replayed with other activations. The graph owns the scratch memory.
fn graph(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let target = &Target { name: target.name.clone(), device };
    let format = Format::named("q4_K").expect("a format");
    let (rows, k, columns, mut rng) = (33, 512, 12, Rng(7));
    let weights = blocks(&mut rng, format, rows * k / 256);
    let weights_memory = memory(target, &mut rng, &weights, 2);
    let sources: Vec<Vec<u8>> = (0..2).map(|_| activations(&mut rng, F32, columns * k)).collect();
    let x_memory = memory(target, &mut rng, &sources[0], 4);
    let dst = memory(target, &mut rng, &vec![0; rows * columns * 4], 4);
    let device = target.device.raw();
    // SAFETY: live arguments, here and below; the graph is destroyed once.
    let run = || unsafe {
        let (w, x) = (weights_memory.view(), x_memory.view());
        sys::crk_mul_mat(device, quant(format), F32.dtype, rows, k, columns, w.into(), x.into(), dst.view())
    };
    succeeded(run())?;
    succeeded(unsafe { sys::crk_graph_begin(device) })?;
    let recorded = succeeded(run());
    let mut graph = null_mut();
    succeeded(unsafe { sys::crk_graph_end(device, &mut graph) })?;
    let outcome = recorded.and_then(|()| {
        for source in [&sources[1], &sources[0]] {
            succeeded(unsafe {
                sys::crk_copy_to_device(device, x_memory.view(), source.as_ptr().cast(), source.len())
            })?;
            succeeded(unsafe { sys::crk_graph_launch(graph) })?;
            let y = with_sums_of_codes(format, quantized(target, format, F32, k, columns, &x_memory));
            let got = dst.read()?;
            compare(F32, &got, |i| {
                dot(format, &weights[i % rows * format.row_bytes(k)..][..format.row_bytes(k)], &y, i / rows, columns)
            })?;
        }
        Ok(())
    });
    unsafe { sys::crk_graph_destroy(graph) };
    outcome
}

// ---- bad arguments

const INVALID: Status = Status::InvalidArgument;
const BOUNDS: Status = Status::OutOfBounds;
const UNSUPPORTED: Status = Status::Unsupported;

fn off(view: sys::crk_view_t, by: usize) -> sys::crk_view_t {
    sys::crk_view_t { ptr: view.ptr.cast::<u8>().wrapping_add(by).cast(), bytes: view.bytes }
}
fn short(view: sys::crk_view_t) -> sys::crk_view_t {
    sys::crk_view_t { ptr: view.ptr, bytes: view.bytes - 1 }
}
fn null(view: sys::crk_view_t) -> sys::crk_view_t {
    sys::crk_view_t { ptr: null_mut(), bytes: view.bytes }
}

/// Checks that a call was refused with this status, and that the sentence begins with the function and contains `text`.
fn refused(function: &str, case: usize, got: Status, status: Status, text: &str) -> Outcome {
    if got == status && last_error().starts_with(function) && last_error().contains(text) {
        return Ok(());
    }
    let (got, message, expected) = (got.name(), last_error(), status.name());
    Err(format!("{function}, case {case}: {got} ({message}), expected {expected}, {text}"))
}

#[derive(Clone, Copy)]
struct Quantize {
    layout: Mmq,
    dtype: sys::crk_dtype_t,
    rows: Rows,
    x: sys::crk_view_t,
    ids: sys::crk_view_t,
    dst: sys::crk_view_t,
}

impl Quantize {
    fn make(&self, device: sys::crk_device_t) -> Status {
        // SAFETY: the views are of live memory, or of none, which the function refuses.
        unsafe {
            sys::crk_quantize_mmq(device, self.layout, self.dtype, &self.rows, self.x.into(), self.ids.into(), self.dst)
        }
    }
}

fn quantize_refuses(target: &Target) -> Outcome {
    let device = target.device.raw();
    let bytes = |bytes| Guarded::new(&target.device, &vec![0; bytes], 0).expect("device memory");
    let rows = Rows {
        k: 100,
        row_stride: 100,
        channel_stride: 300,
        sample_stride: 600,
        padded_k: 128,
        columns: 3,
        channels: 2,
        samples: 2,
    };
    let (x, ids, dst) = (bytes(1200 * 4), bytes(3 * 4), bytes(bytes_of(&rows)));
    let good = Quantize { layout: LAYOUTS[0].0, dtype: F32.dtype, rows, x: x.view(), ids: ids.view(), dst: dst.view() };
    let huge = usize::MAX / 2;
    let plain = Quantize { ids: NO_VIEW, ..good };
    let cases = [
        (INVALID, "layout 3", Quantize { layout: sys::crk_mmq_t(3), ..good }),
        (INVALID, "layout", Quantize { layout: sys::crk_mmq_t(!0), ..good }),
        (UNSUPPORTED, "f64", Quantize { dtype: support::number::F64.dtype, ..good }),
        (INVALID, "dtype 99", Quantize { dtype: sys::crk_dtype_t(99), ..good }),
        (INVALID, "padded_k is 130", Quantize { rows: Rows { padded_k: 130, ..rows }, ..good }),
        (INVALID, "k is 129", Quantize { rows: Rows { k: 129, ..rows }, ..good }),
        (BOUNDS, "", Quantize { rows: Rows { columns: huge, ..rows }, ..plain }),
        (BOUNDS, "", Quantize { rows: Rows { channels: huge, ..rows }, ..plain }),
        (BOUNDS, "", Quantize { rows: Rows { padded_k: huge / 128 * 128, ..rows }, ..plain }),
        (BOUNDS, "", Quantize { rows: Rows { row_stride: huge, ..rows }, ..plain }),
        (BOUNDS, "", Quantize { rows: Rows { row_stride: huge / 2, ..rows }, ..plain }),
        (BOUNDS, "", Quantize { rows: Rows { channel_stride: usize::MAX, ..rows }, ..plain }),
        (BOUNDS, "", Quantize { rows: Rows { sample_stride: usize::MAX - 200, ..rows }, ..plain }),
        (BOUNDS, "fit x", Quantize { x: short(good.x), ..plain }),
        (BOUNDS, "fit dst", Quantize { dst: short(good.dst), ..good }),
        (BOUNDS, "fit ids", Quantize { ids: short(good.ids), ..good }),
        (INVALID, "x.ptr is NULL", Quantize { x: null(good.x), ..plain }),
        (INVALID, "dst.ptr is NULL", Quantize { dst: null(good.dst), ..good }),
        (INVALID, "ids.ptr is NULL", Quantize { ids: null(good.ids), ..good }),
        (INVALID, "x.ptr", Quantize { x: off(good.x, 2), ..plain }),
        (INVALID, "dst.ptr", Quantize { dst: off(good.dst, 2), ..good }),
        (INVALID, "ids.ptr", Quantize { ids: off(good.ids, 2), ..good }),
        (INVALID, "dst overlaps x", Quantize { x: sys::crk_view_t { bytes: 4800, ..good.dst }, ..plain }),
        (INVALID, "dst overlaps ids", Quantize { ids: good.dst, ..good }),
    ];
    let function = "crk_quantize_mmq";
    succeeded(good.make(device))?;
    for (i, (status, text, call)) in cases.iter().enumerate() {
        refused(function, i, call.make(device), *status, text)?;
    }
    refused(function, 100, good.make(null_mut()), INVALID, "self")?;
    // SAFETY: a NULL is refused.
    let none = unsafe {
        sys::crk_quantize_mmq(
            device,
            good.layout,
            good.dtype,
            std::ptr::null(),
            good.x.into(),
            good.ids.into(),
            good.dst,
        )
    };
    refused(function, 101, none, INVALID, "rows is NULL")?;
    let none = Quantize { x: NO_VIEW, ids: NO_VIEW, dst: NO_VIEW, ..good };
    for rows in [
        Rows { columns: 0, ..rows },
        Rows { channels: 0, ..rows },
        Rows { samples: 0, ..rows },
        Rows { k: 0, padded_k: 0, ..rows },
    ] {
        succeeded(Quantize { rows, ..none }.make(device)).map_err(|error| format!("{rows:?}: {error}"))?;
    }
    // SAFETY: live arguments or NULL.
    unsafe {
        if sys::crk_mmq_bytes(std::ptr::null()) != 0 || sys::crk_mmq_bytes(&Rows { columns: huge, ..rows }) != 0 {
            return Err("crk_mmq_bytes of nothing or too much is not 0".into());
        }
        let mut layout = Mmq::D4;
        let function = "crk_mmq_of_quant";
        let q8_k = sys::crk_quant_t::CRK_QUANT_Q8_K;
        refused(function, 0, sys::crk_mmq_of_quant(q8_k, &mut layout), UNSUPPORTED, "q8_K")?;
        refused(function, 1, sys::crk_mmq_of_quant(sys::crk_quant_t(99), &mut layout), INVALID, "quant 99")?;
        refused(function, 2, sys::crk_mmq_of_quant(q8_k, null_mut()), INVALID, "layout is NULL")?;
        succeeded(sys::crk_device_synchronize(device))
    }
}

#[derive(Clone, Copy)]
struct Multiply {
    quant: sys::crk_quant_t,
    dtype: sys::crk_dtype_t,
    rows: usize,
    k: usize,
    columns: usize,
    weights: sys::crk_view_t,
    weight_stride: usize,
    y: sys::crk_view_t,
    dst: sys::crk_view_t,
    dst_stride: usize,
}

impl Multiply {
    fn make(&self, device: sys::crk_device_t) -> Status {
        let c = *self;
        // SAFETY: views of live memory, or of none, which the function refuses.
        unsafe {
            sys::crk_mul_mat_mmq(
                device,
                c.quant,
                c.dtype,
                c.rows,
                c.k,
                c.columns,
                c.weights.into(),
                c.weight_stride,
                c.y.into(),
                c.dst,
                c.dst_stride,
            )
        }
    }
}

fn multiply_refuses(target: &Target) -> Outcome {
    let device = target.device.raw();
    let bytes = |bytes| Guarded::new(&target.device, &vec![0; bytes], 0).expect("device memory");
    let (rows, k, columns) = (4, 160, 3);
    let (weights, y, dst) = (bytes((3 * 7 + 5) * 18), bytes(2 * columns * BLOCK), bytes((2 * 6 + rows) * 4));
    let good = Multiply {
        quant: sys::crk_quant_t::CRK_QUANT_Q4_0,
        dtype: F32.dtype,
        rows,
        k,
        columns,
        weights: weights.view(),
        weight_stride: 7,
        y: y.view(),
        dst: dst.view(),
        dst_stride: 6,
    };
    let huge = usize::MAX / 2;
    let cases = [
        (UNSUPPORTED, "q8_K", Multiply { quant: sys::crk_quant_t::CRK_QUANT_Q8_K, k: 256, ..good }),
        (INVALID, "quant 1", Multiply { quant: sys::crk_quant_t(1), ..good }),
        (UNSUPPORTED, "f64", Multiply { dtype: support::number::F64.dtype, ..good }),
        (INVALID, "k is 65", Multiply { k: 65, ..good }),
        (INVALID, "k is 160", Multiply { quant: sys::crk_quant_t::CRK_QUANT_Q4_K, ..good }),
        (INVALID, "k is", Multiply { k: 1 << 31, ..good }),
        (INVALID, "dst_stride is 3", Multiply { dst_stride: 3, ..good }),
        (BOUNDS, "", Multiply { rows: huge, dst_stride: huge, ..good }),
        (BOUNDS, "", Multiply { columns: huge, ..good }),
        (BOUNDS, "", Multiply { weight_stride: huge, ..good }),
        (BOUNDS, "weights", Multiply { weight_stride: 8, ..good }),
        (BOUNDS, "fit dst", Multiply { dst_stride: 7, ..good }),
        (BOUNDS, "weights", Multiply { weights: short(good.weights), ..good }),
        (BOUNDS, "fit y", Multiply { y: short(good.y), ..good }),
        (BOUNDS, "fit dst", Multiply { dst: short(good.dst), ..good }),
        (INVALID, "weights.ptr is NULL", Multiply { weights: null(good.weights), ..good }),
        (INVALID, "y.ptr is NULL", Multiply { y: null(good.y), ..good }),
        (INVALID, "dst.ptr is NULL", Multiply { dst: null(good.dst), ..good }),
        (INVALID, "weights.ptr", Multiply { weights: off(good.weights, 1), ..good }),
        (INVALID, "y.ptr", Multiply { y: off(good.y, 2), ..good }),
        (INVALID, "dst.ptr", Multiply { dst: off(good.dst, 2), ..good }),
        (INVALID, "dst overlaps weights", Multiply { dst: good.weights, ..good }),
        (INVALID, "dst overlaps y", Multiply { dst: good.y, ..good }),
    ];
    let function = "crk_mul_mat_mmq";
    succeeded(good.make(device))?;
    for (i, (status, text, call)) in cases.iter().enumerate() {
        refused(function, i, call.make(device), *status, text)?;
    }
    refused(function, 100, good.make(null_mut()), INVALID, "self")?;
    let none = Multiply { weights: NO_VIEW, y: NO_VIEW, dst: NO_VIEW, ..good };
    succeeded(Multiply { rows: 0, ..none }.make(device))?;
    succeeded(Multiply { columns: 0, ..none }.make(device))?;
    // With k = 0 the columns are filled with zeros, and the memory between them is not written.
    let ones = Guarded::new(&target.device, &[1; 64], 0).expect("device memory");
    succeeded(Multiply { k: 0, dst: ones.view(), ..none }.make(device))?;
    let got = ones.read()?;
    let right = |i: usize| got[4 * i] == u8::from(i % 6 >= rows);
    if !(0..16).all(right) {
        return Err(format!("a product of no elements is {got:?}"));
    }
    // SAFETY: a live handle.
    succeeded(unsafe { sys::crk_device_synchronize(device) })
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "matmat", target, name, body);
        for (layout, text) in LAYOUTS {
            for t in FLOATS {
                let body = move |target: &Target, name: &str| quantizes(target, name, layout, t);
                add(format!("quantize_{text}_{}", t.name), Box::new(body));
            }
        }
        for format in formats() {
            type Trials = fn(&Target, &str, Format) -> Outcome;
            let all: [(&str, Trials); 7] = [
                ("sizes", sizes),
                ("random", random),
                ("many_tiles", many_tiles),
                ("parts", parts),
                ("beside", beside),
                ("any_bytes", any_bytes),
                ("no_numbers", no_numbers),
            ];
            for (what, body) in all {
                add(format!("{what}_{}", format.name), Box::new(move |target, name| body(target, name, format)));
            }
        }
        let q4_k = formats().find(|format| format.name == "q4_K").expect("a format");
        add("many_columns".into(), Box::new(move |target, name| many_columns(target, name, q4_k)));
        type Alone = fn(&Target) -> Outcome;
        let alone: [(&str, Alone); 3] =
            [("graph", graph), ("quantize_refuses", quantize_refuses), ("multiply_refuses", multiply_refuses)];
        for (name, body) in alone {
            add(name.into(), Box::new(move |target, _| body(target)));
        }
    }
    trials
}
