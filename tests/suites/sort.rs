//! Sorting: the launcher against a stable sort in plain Rust, the kernels by name against a plain bitonic network. Row
//! lengths are around every change of method; values include ties, NaN, infinities and both zeros. Guard bytes surround
//! every buffer.
//!
//! `cargo test --test suites -- FILTER` runs some of the tests. A failure names its case, and `CANDLE_ROCM_CASE=N` runs
//! only that one.

use crate::support;
use crate::support::cases::{Rng, Shape};
use crate::support::number::{F32, TYPES, Type, U32};
use crate::support::property::{Operand, Outcome, each_case, value};
use crate::support::{Body, Target, add_trial, last_error, open, succeeded};
use candle_rocm_sys::{Arg, Buffer, Device, Launch, Layout, Status, sys};
use libtest_mimic::Trial;
use std::cmp::Ordering;
use std::ptr::{null, null_mut};

type View = sys::crk_view_t;

const NO_VIEW: View = View { ptr: null_mut(), bytes: 0 };

/// The contents of a row.
#[derive(Debug, Clone, Copy)]
enum Fill {
    Random,
    Ties,
    Equal,
    Sorted,
    Reversed,
    Special,
}

const FILLS: &[Fill] = &[Fill::Random, Fill::Ties, Fill::Equal, Fill::Sorted, Fill::Reversed, Fill::Special];

/// The header's order: NaN is larger than every number and equal to NaN.
fn order(t: Type, a: u64, b: u64) -> Ordering {
    if !t.is_float() {
        return t.int(a).cmp(&t.int(b));
    }
    let (a, b) = (t.float(a), t.float(b));
    a.partial_cmp(&b).unwrap_or(a.is_nan().cmp(&b.is_nan()))
}

fn row(rng: &mut Rng, t: Type, fill: Fill, columns: usize) -> Vec<u64> {
    let few: Vec<u64> = (0..3).map(|_| value(rng, t)).collect();
    let mut special = few.clone();
    if t.is_float() {
        let sign = 1u64 << (t.bits() - 1);
        let nan = t.round_bits(f64::NAN) & !sign;
        // f8e4m3 has one NaN of each sign.
        let other_nan = if t.bits() > 8 { nan | 1 } else { nan };
        special.extend([f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0].map(|x| t.round_bits(x)));
        special.extend([nan, other_nan, nan | sign, 1, 1 | sign]);
    } else {
        let (least, greatest) = t.range();
        special.extend([least, greatest, 0, 1, -1].map(|x| t.wrap(x)));
    }
    let mut row: Vec<u64> = (0..columns)
        .map(|_| match fill {
            Fill::Ties => rng.pick(&few),
            Fill::Equal => few[0],
            Fill::Special => rng.pick(&special),
            _ => value(rng, t),
        })
        .collect();
    match fill {
        Fill::Sorted => row.sort_by(|a, b| order(t, *a, *b)),
        Fill::Reversed => row.sort_by(|a, b| order(t, *b, *a)),
        _ => {}
    }
    row
}

fn bytes_of(t: Type, elements: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; elements.len() * t.bytes];
    elements.iter().enumerate().for_each(|(i, x)| t.put(&mut bytes, i, *x));
    bytes
}

/// A contiguous tensor of rows that begins some elements into its buffer. Each row has its own filling.
fn source(target: &Target, rng: &mut Rng, t: Type, dims: &[usize], first_fill: usize) -> Operand {
    let columns = *dims.last().expect("a dim");
    let rows: usize = dims[..dims.len() - 1].iter().product();
    let offset = if rng.one_in(2) { rng.below(9) } else { 0 };
    let shape = Shape { offset, ..Shape::contiguous(dims) };
    let mut elements: Vec<u64> = (0..offset).map(|_| value(rng, t)).collect();
    for i in 0..rows {
        elements.extend(row(rng, t, FILLS[(first_fill + i) % FILLS.len()], columns));
    }
    Operand::new(target, rng, t, shape, bytes_of(t, &elements))
}

fn argsort(
    device: &Device,
    src: &Operand,
    ascending: bool,
    dst: &Operand,
    values: Option<&Operand>,
) -> Result<(), String> {
    let values = values.map_or(NO_VIEW, |values| values.memory.view());
    let (dtype, layout) = (src.t.dtype, src.layout());
    // SAFETY: live arguments.
    succeeded(unsafe {
        sys::crk_argsort(device.raw(), dtype, &layout, src.memory.view().into(), ascending, dst.memory.view(), values)
    })
}

/// Checks that `dst` and `values` are the results of a stable sort.
fn check(src: &Operand, ascending: bool, dst: &Operand, values: Option<&Operand>) -> Outcome {
    let (t, elements) = (src.t, src.elements());
    let columns = (*src.shape.dims.last().expect("a dim")).max(1);
    let got = dst.memory.read().map_err(|problem| format!("dst: {problem}"))?;
    let got_values = values.map(|values| values.memory.read()).transpose();
    let got_values = got_values.map_err(|problem| format!("values: {problem}"))?;
    for (r, row) in elements.chunks_exact(columns).enumerate() {
        let mut expected: Vec<usize> = (0..columns).collect();
        expected.sort_by(|&a, &b| if ascending { order(t, row[a], row[b]) } else { order(t, row[b], row[a]) });
        for (i, place) in expected.into_iter().enumerate() {
            let index = U32.get(&got, r * columns + i);
            if index != place as u64 {
                let found = row.get(index as usize).map_or("none".into(), |x| t.show(*x));
                let wanted = t.show(row[place]);
                return Err(format!("row {r}, place {i}: index {index} ({found}), expected {place} ({wanted})"));
            }
            if let Some(bits) = got_values.as_ref().map(|bytes| t.get(bytes, r * columns + i)) {
                if bits != row[place] {
                    return Err(format!("row {r}, value {i}: {}, expected {}", t.show(bits), t.show(row[place])));
                }
            }
        }
    }
    src.unchanged()
}

/// One call, checked.
fn sort_and_check(target: &Target, rng: &mut Rng, t: Type, dims: &[usize], ascending: bool, fill: usize) -> Outcome {
    let src = source(target, rng, t, dims, fill);
    let dst = Operand::destination(target, rng, U32, dims);
    let values = rng.one_in(2).then(|| Operand::destination(target, rng, t, dims));
    argsort(&target.device, &src, ascending, &dst, values.as_ref())?;
    check(&src, ascending, &dst, values.as_ref())
        .map_err(|problem| format!("dims {dims:?}, offset {}, first {:?}: {problem}", src.shape.offset, FILLS[fill]))
}

/// Rows that one launch can sort.
fn short(target: &Target, name: &str, t: Type, ascending: bool) -> Outcome {
    const COLUMNS: &[usize] =
        &[0, 1, 2, 3, 4, 5, 8, 13, 31, 32, 33, 63, 64, 65, 127, 200, 256, 511, 1023, 1024, 1025, 2048, 2049, 4096];
    const ROWS: &[&[usize]] = &[&[1], &[3], &[2, 4], &[], &[130], &[7]];
    each_case(target, "sort", name, 2 * COLUMNS.len(), |rng, index| {
        let columns = COLUMNS[index / 2];
        // Enough narrow rows to fill several blocks.
        let rows = if index % 2 == 1 && columns <= 64 { &[2, 150] } else { ROWS[index % ROWS.len()] };
        let few: &[usize] = if columns > 1024 { &[2] } else { rows };
        let dims: Vec<usize> = few.iter().copied().chain([columns]).collect();
        sort_and_check(target, rng, t, &dims, ascending, index % FILLS.len())
    })
}

/// Rows as long as the widest block, and rows of two and more tiles, full and partial.
fn long(target: &Target, name: &str, t: Type, ascending: bool) -> Outcome {
    const DIMS: &[&[usize]] = &[&[4097], &[8191], &[1, 8192], &[2, 8193], &[3, 20000], &[40961], &[1, 131072]];
    each_case(target, "sort", name, DIMS.len(), |rng, index| {
        sort_and_check(target, rng, t, DIMS[index], ascending, (index + t.bytes) % FILLS.len())
    })
}

/// More rows than share the scratch memory, which holds 2^23 elements at a time.
fn many_long_rows(target: &Target, name: &str) -> Outcome {
    each_case(target, "sort", name, 1, |rng, _| {
        let dims = [257, 32769];
        let src = source(target, rng, support::number::U8, &dims, 0);
        let dst = Operand::destination(target, rng, U32, &dims);
        argsort(&target.device, &src, true, &dst, None)?;
        check(&src, true, &dst, None)
    })
}

// ---- By name

/// Candle's sorting network on the positions of a row, in its simplest form.
fn bitonic(t: Type, row: &[u64], ascending: bool) -> Vec<usize> {
    let n = row.len();
    let padded = n.next_power_of_two();
    // False if either is NaN.
    let greater = |a: u64, b: u64| if t.is_float() { t.float(a) > t.float(b) } else { t.int(a) > t.int(b) };
    let after = |a: usize, b: usize| {
        a >= n || (b < n && if ascending { greater(row[a], row[b]) } else { greater(row[b], row[a]) })
    };
    let mut place: Vec<usize> = (0..padded).collect();
    let mut k = 2;
    while k <= padded {
        let mut j = k / 2;
        while j > 0 {
            for low in (0..padded).filter(|low| low & j == 0) {
                let (a, b) = (place[low], place[low | j]);
                if if low & k == 0 { after(a, b) } else { after(b, a) } {
                    place.swap(low, low | j);
                }
            }
            j /= 2;
        }
        k *= 2;
    }
    place.truncate(n);
    place
}

fn by_name(target: &Target, name: &str, t: Type, ascending: bool) -> Outcome {
    const COLUMNS: &[usize] = &[1, 2, 3, 17, 31, 32, 33, 63, 64, 65, 100, 500, 1000, 1024, 1025, 3000, 4096];
    let kernel = format!("asort_{}_{}", if ascending { "asc" } else { "desc" }, t.name);
    let function = target.device.function_named("sort", &kernel).map_err(|error| error.to_string())?;
    each_case(target, "sort", name, COLUMNS.len(), |rng, index| {
        let columns = COLUMNS[index];
        let rows = if columns <= 100 { 4 } else { 2 };
        let elements: Vec<u64> =
            (0..rows).flat_map(|i| row(rng, t, FILLS[(index + i) % FILLS.len()], columns)).collect();
        let shape = Shape::contiguous(&[rows, columns]);
        let src = Operand::new(target, rng, t, shape, bytes_of(t, &elements));
        let dst = Operand::destination(target, rng, U32, &[rows, columns]);
        let padded = columns.next_power_of_two() as u32;
        let args =
            [Arg::ptr(src.memory.ptr()), Arg::ptr(dst.memory.ptr()), Arg::from(columns as u32), Arg::from(padded)];
        let launch = Launch { grid: [rows as u32, 1, 1], block: [padded.min(1024), 1, 1], shared_bytes: 4 * padded };
        // SAFETY: the arguments and the geometry of Candle's asort kernels.
        unsafe { function.launch(launch, &args) }.map_err(|error| error.to_string())?;
        let got = dst.memory.read().map_err(|problem| format!("dst: {problem}"))?;
        for (r, row) in elements.chunks_exact(columns).enumerate() {
            for (i, place) in bitonic(t, row, ascending).into_iter().enumerate() {
                let index = U32.get(&got, r * columns + i);
                if index != place as u64 {
                    return Err(format!("{columns} columns, row {r}, place {i}: index {index}, expected {place}"));
                }
            }
        }
        src.unchanged()
    })
}

// ---- The same for all types

/// Recorded once and replayed with other data, for short rows and long ones.
fn graph(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    for (rows, columns) in [(5usize, 100usize), (2, 3000), (2, 20000)] {
        let mut rng = Rng(columns as u64);
        let layout = Layout::contiguous(&[rows, columns]).map_err(|error| error.to_string())?;
        let numel = rows * columns;
        let upload = |data: &[u32]| device.upload(data).map_err(|error| error.to_string());
        let (src, dst, values) = (upload(&vec![0; numel])?, upload(&vec![0; numel])?, upload(&vec![0; numel])?);
        let run = || device.argsort(F32.dtype, &layout, &src, false, &dst, Some(&values));
        // Loads the kernels.
        run().map_err(|error| error.to_string())?;
        // SAFETY: live handles here and below; the graph is destroyed once.
        // Another test may have taken the scratch memory from the cache since.
        succeeded(unsafe { sys::crk_memory_reserve(device.raw(), 16 * numel) })?;
        succeeded(unsafe { sys::crk_graph_begin(device.raw()) })?;
        let recorded = run().map_err(|error| error.to_string());
        let mut graph = null_mut();
        succeeded(unsafe { sys::crk_graph_end(device.raw(), &mut graph) })?;
        let outcome = recorded.and_then(|()| {
            for _ in 0..2 {
                let data: Vec<u32> = (0..numel).map(|_| value(&mut rng, F32) as u32).collect();
                src.write(&data).map_err(|error| error.to_string())?;
                succeeded(unsafe { sys::crk_graph_launch(graph) })?;
                let indices = dst.download::<u32>().map_err(|error| error.to_string())?;
                let sorted = values.download::<u32>().map_err(|error| error.to_string())?;
                for ((row, indices), sorted) in
                    data.chunks(columns).zip(indices.chunks(columns)).zip(sorted.chunks(columns))
                {
                    let mut expected: Vec<u32> = (0..columns as u32).collect();
                    expected.sort_by(|&a, &b| order(F32, row[b as usize].into(), row[a as usize].into()));
                    let values: Vec<u32> = expected.iter().map(|i| row[*i as usize]).collect();
                    if indices != expected || sorted != values {
                        return Err(format!("a replay of {rows} x {columns} sorts wrongly"));
                    }
                }
            }
            Ok(())
        });
        unsafe { sys::crk_graph_destroy(graph) };
        outcome?;
    }
    Ok(())
}

/// Empty tensors of every kind: the call succeeds, and nothing is written.
fn empty(target: &Target) -> Outcome {
    for dims in [&[0][..], &[3, 0], &[0, 5], &[2, 0, 5]] {
        let layout = Layout::contiguous(dims).map_err(|error| error.to_string())?;
        // SAFETY: views of nothing.
        succeeded(unsafe {
            sys::crk_argsort(target.device.raw(), F32.dtype, &layout, NO_VIEW.into(), true, NO_VIEW, NO_VIEW)
        })?;
    }
    Ok(())
}

/// Scratch memory is given back.
fn scratch(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let columns = 20000;
    let layout = Layout::contiguous(&[columns]).map_err(|error| error.to_string())?;
    let src = device.upload(&vec![1f32; columns]).map_err(|error| error.to_string())?;
    let dst = device.alloc(columns * 4).map_err(|error| error.to_string())?;
    let stats = || device.memory_stats().map_err(|error| error.to_string());
    let before = stats()?;
    device.argsort(F32.dtype, &layout, &src, true, &dst, None).map_err(|error| error.to_string())?;
    let after = stats()?;
    if (after.live_bytes, after.live_allocations) != (before.live_bytes, before.live_allocations) {
        return Err("scratch memory was not freed".into());
    }
    // Block sizes are rounded up, and a sanitizer adds a red zone.
    let most = columns as u64 * 16 + 2048;
    let taken = after.peak_live_bytes - before.live_bytes;
    if taken == 0 || taken > most {
        return Err(format!("{taken} bytes of scratch memory where the contract says {most}"));
    }
    // A capture takes the scratch memory from the reserve.
    let mut graph = null_mut();
    // SAFETY: a live handle; the graph is destroyed.
    succeeded(unsafe { sys::crk_memory_reserve(device.raw(), most as usize) })?;
    succeeded(unsafe { sys::crk_graph_begin(device.raw()) })?;
    let captured = device.argsort(F32.dtype, &layout, &src, true, &dst, None);
    succeeded(unsafe { sys::crk_graph_end(device.raw(), &mut graph) })?;
    unsafe { sys::crk_graph_destroy(graph) };
    captured.map_err(|error| format!("in a capture with a reserve: {error}"))
}

/// Fewer blocks than the rows would fill, as on a device that counts few threads. The blocks continue with later rows.
fn few_blocks(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let device = &target.device;
    for (kernel, group_log2, columns) in [("argsort_few_f32", 1u32, 7usize), ("argsort_many_f32", 2, 50)] {
        let (rows, threads) = (1000usize, 128);
        let mut rng = Rng(columns as u64);
        let src = source(target, &mut rng, F32, &[rows, columns], 0);
        let dst = Operand::destination(target, &mut rng, U32, &[rows, columns]);
        let function = device.function_named("sort", kernel).map_err(error)?;
        // The struct crk_sort_rows_t of kernels/call/sort_call.h.
        let first = src.memory.ptr().cast::<u8>().wrapping_add(src.shape.offset * 4) as u64;
        let counts = [
            first,
            dst.memory.ptr() as u64,
            0,
            0,
            rows as u64,
            columns as u64,
            3 * (u64::from(threads) >> group_log2),
            group_log2.into(),
            0,
        ];
        let arg = sys::crk_arg_t {
            data: counts.as_ptr().cast(),
            value: 0,
            bytes: size_of_val(&counts) as u32,
            is_pointer: false,
        };
        let [grid, block] = [3, threads].map(|x| sys::crk_dim3_t { x, y: 1, z: 1 });
        // SAFETY: this is the launcher's argument, for another grid.
        succeeded(unsafe { sys::crk_launch(device.raw(), function.raw(), grid, block, threads * 64, &arg, 1) })?;
        check(&src, true, &dst, None).map_err(|problem| format!("{kernel}: {problem}"))?;
    }
    Ok(())
}

/// Bad values for every argument.
fn bad_input(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let buffer = || device.upload(&[0u8; 256]).map_err(|error| error.to_string());
    let (a, b, c): (Buffer, Buffer, Buffer) = (buffer()?, buffer()?, buffer()?);
    let (src, dst, values) = (a.raw_view(), b.raw_view(), c.raw_view());
    let contiguous = Layout::contiguous(&[3, 4]).map_err(|error| error.to_string())?;
    let strided = |dims: &[usize], strides: &[usize], offset| {
        Layout::strided(dims, strides, offset).map_err(|error| error.to_string())
    };
    let turned = strided(&[3, 4], &[1, 3], 0)?;
    let far = strided(&[3, 4], &[4, 1], 60)?;
    let scalar = strided(&[], &[], 0)?;
    let beyond = strided(&[2, 1 << 32], &[1 << 32, 1], 0)?;
    let mut high = contiguous;
    high.rank = 9;
    let cut = |view: View, bytes| View { bytes, ..view };
    let at = |view: View, bytes: usize| View {
        ptr: view.ptr.cast::<u8>().wrapping_add(bytes).cast(),
        bytes: view.bytes - bytes,
    };
    let nowhere = View { ptr: null_mut(), bytes: 256 };
    let huge = View { bytes: usize::MAX / 2, ..src };
    let refuses = |status: Status, word: &str, call: &dyn Fn() -> Status| {
        let (got, sentence) = (call(), last_error());
        if got == status && sentence.starts_with("crk_argsort: ") && sentence.contains(word) {
            return Ok(());
        }
        Err(format!("{word}: {} {sentence:?}, expected {}", got.name(), status.name()))
    };
    let sort = |layout: *const Layout, src: View, dst, values| {
        // SAFETY: bad arguments are refused before they are used; the others are live.
        unsafe { sys::crk_argsort(device.raw(), F32.dtype, layout, src.into(), true, dst, values) }
    };
    let invalid = Status::InvalidArgument;
    let bounds = Status::OutOfBounds;
    // SAFETY: as above.
    refuses(invalid, "self is NULL", &|| unsafe {
        sys::crk_argsort(null_mut(), F32.dtype, &contiguous, src.into(), true, dst, values)
    })?;
    for dtype in [sys::crk_dtype(10), sys::crk_dtype(u32::MAX)] {
        // SAFETY: as above.
        refuses(invalid, "dtype", &|| unsafe {
            sys::crk_argsort(device.raw(), dtype, &contiguous, src.into(), true, dst, values)
        })?;
    }
    refuses(invalid, "layout is NULL", &|| sort(null(), src, dst, values))?;
    refuses(invalid, "layout.rank is 9", &|| sort(&high, src, dst, values))?;
    refuses(invalid, "layout.rank is 0", &|| sort(&scalar, src, dst, values))?;
    refuses(invalid, "layout is not contiguous", &|| sort(&turned, src, dst, values))?;
    refuses(invalid, "layout.dims[1] is 4294967296", &|| sort(&beyond, huge, dst, values))?;
    refuses(bounds, "src", &|| sort(&far, src, dst, values))?;
    refuses(bounds, "src", &|| sort(&contiguous, cut(src, 47), dst, values))?;
    refuses(invalid, "src.ptr is NULL", &|| sort(&contiguous, nowhere, dst, values))?;
    refuses(invalid, "src.ptr", &|| sort(&contiguous, at(src, 2), dst, values))?;
    refuses(bounds, "dst", &|| sort(&contiguous, src, cut(dst, 47), values))?;
    refuses(invalid, "dst.ptr is NULL", &|| sort(&contiguous, src, nowhere, values))?;
    refuses(invalid, "dst.ptr", &|| sort(&contiguous, src, at(dst, 1), values))?;
    refuses(bounds, "values", &|| sort(&contiguous, src, dst, cut(values, 47)))?;
    refuses(bounds, "values", &|| sort(&contiguous, src, dst, cut(values, 0)))?;
    refuses(invalid, "values.ptr is NULL", &|| sort(&contiguous, src, dst, nowhere))?;
    refuses(invalid, "values.ptr", &|| sort(&contiguous, src, dst, at(values, 3)))?;
    refuses(invalid, "dst overlaps src", &|| sort(&contiguous, src, src, values))?;
    refuses(invalid, "dst overlaps src", &|| sort(&contiguous, src, at(src, 44), values))?;
    refuses(invalid, "values overlaps src", &|| sort(&contiguous, src, dst, src))?;
    refuses(invalid, "values overlaps dst", &|| sort(&contiguous, src, dst, at(dst, 44)))?;
    device.synchronize().map_err(|error| error.to_string())?;
    for buffer in [&a, &b, &c] {
        if buffer.download::<u8>().map_err(|error| error.to_string())?.iter().any(|byte| *byte != 0) {
            return Err("a refused call wrote".into());
        }
    }
    // Adjacent memory does not count as overlap.
    succeeded(sort(&contiguous, src, at(src, 48), NO_VIEW))
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "sort", target, name, body);
        for &t in TYPES {
            for (way, ascending) in [("asc", true), ("desc", false)] {
                let name = |kind: &str| format!("{kind}/{way}_{}", t.name);
                add(name("short"), Box::new(move |target, name| short(target, name, t, ascending)));
                add(name("long"), Box::new(move |target, name| long(target, name, t, ascending)));
                add(name("by_name"), Box::new(move |target, name| by_name(target, name, t, ascending)));
            }
        }
        add("few_blocks".into(), Box::new(move |target, _| few_blocks(target)));
        add("graph".into(), Box::new(move |target, _| graph(target)));
        add("empty".into(), Box::new(move |target, _| empty(target)));
        add("scratch".into(), Box::new(move |target, _| scratch(target)));
        add("bad_input".into(), Box::new(move |target, _| bad_input(target)));
        if std::env::var_os("CANDLE_ROCM_BIG").is_some_and(|value| value == "1") {
            add("big/many_long_rows".into(), Box::new(many_long_rows));
        }
    }
    trials
}
