//! Quantized weights: unknown formats, calls with nothing to do, and bad values for every argument of the launchers.
use candle_rocm_sys_tests::support;

use candle_rocm_sys::{Status, sys};
use std::ffi::CString;
use std::ptr::null_mut;
use support::number::F32;
use support::property::Outcome;
use support::quantized::{FORMATS, quant};
use support::{Guarded, Target, last_error, open, succeeded, targets};

type View = sys::crk_view_t;

fn on_every_target(body: fn(&Target) -> Outcome) {
    for target in targets() {
        if let Err(problem) = body(target) {
            panic!("{}: {problem}", target.name);
        }
    }
}

#[test]
fn formats_have_names() {
    on_every_target(formats);
}

#[test]
fn nothing_to_do_is_done() {
    on_every_target(empty);
}

#[test]
fn arguments_are_checked() {
    on_every_target(bad_input);
}

/// The formats' names and sizes, and names of no format.
fn formats(_: &Target) -> Outcome {
    for format in FORMATS {
        for name in [format.name.to_string(), format.name.to_uppercase(), format.name.to_lowercase()] {
            let (text, mut quant) = (CString::new(name.clone()).expect("a name"), sys::crk_quant_t(0));
            succeeded(unsafe { sys::crk_quant_from_name(text.as_ptr(), &mut quant) })?;
            let sizes = unsafe { (sys::crk_quant_block_elements(quant), sys::crk_quant_block_bytes(quant)) };
            let found = unsafe { std::ffi::CStr::from_ptr(sys::crk_quant_name(quant)) };
            if sizes != (format.elements, format.bytes) || found.to_bytes() != format.name.as_bytes() {
                return Err(format!("{name} is {found:?} with {sizes:?}"));
            }
        }
    }
    let none = sys::crk_quant_t(4);
    let sizes = unsafe { (sys::crk_quant_block_elements(none), sys::crk_quant_block_bytes(none)) };
    if sizes != (0, 0) || !unsafe { sys::crk_quant_name(none) }.is_null() {
        return Err("4 is a format".into());
    }
    let mut quant = none;
    for name in ["", "q4", "q4_0 ", "q4_k_m", "f16"] {
        let text = CString::new(name).expect("a name");
        let status = unsafe { sys::crk_quant_from_name(text.as_ptr(), &mut quant) };
        if status != Status::InvalidArgument || quant != none || !last_error().contains(&format!("'{name}'")) {
            return Err(format!("'{name}': {} {}", status.name(), last_error()));
        }
    }
    let named = CString::new("q4_0").expect("a name");
    for status in unsafe {
        [sys::crk_quant_from_name(std::ptr::null(), &mut quant), sys::crk_quant_from_name(named.as_ptr(), null_mut())]
    } {
        if status != Status::InvalidArgument {
            return Err(format!("a null: {}", status.name()));
        }
    }
    for ((rows, k), bytes) in
        [((1, 1), 576), ((3, 512), 1728), ((2, 513), 2304), ((0, 5), 0), ((5, 0), 0), ((usize::MAX, 512), 0)]
            .into_iter()
            .chain([((1, usize::MAX), 0), ((usize::MAX / 576, 1), usize::MAX / 576 * 576)])
    {
        let got = unsafe { sys::crk_q8_1_bytes(rows, k) };
        if got != bytes {
            return Err(format!("crk_q8_1_bytes({rows}, {k}) is {got}, expected {bytes}"));
        }
    }
    Ok(())
}

/// Calls with nothing to do succeed with empty views. A product of rows without elements is 0.
fn empty(target: &Target) -> Outcome {
    let (none, q) = (View { ptr: null_mut(), bytes: 0 }, quant(FORMATS[0]));
    let (raw, f) = (target.device.raw(), F32.dtype);
    // SAFETY: views of nothing.
    unsafe {
        succeeded(sys::crk_dequantize(raw, q, f, 0, none.into(), none))?;
        succeeded(sys::crk_get_rows(raw, q, 5, 32, 0, none.into(), none.into(), none))?;
        succeeded(sys::crk_get_rows(raw, q, 5, 0, 3, none.into(), none.into(), none))?;
        succeeded(sys::crk_get_rows_float(raw, f, 5, 7, 0, none.into(), none.into(), none))?;
        succeeded(sys::crk_quantize_q8_1(raw, f, 0, 5, none.into(), none))?;
        succeeded(sys::crk_quantize_q8_1(raw, f, 5, 0, none.into(), none))?;
        succeeded(sys::crk_dequantize_mul_mat_vec(raw, q, f, 0, 32, none.into(), none.into(), none))?;
    }
    let dst = Guarded::new(&target.device, &[0xcd; 12], 0).map_err(|error| error.to_string())?;
    succeeded(unsafe { sys::crk_dequantize_mul_mat_vec(raw, q, f, 3, 0, none.into(), none.into(), dst.view()) })?;
    if dst.read()? != [0; 12] {
        return Err("rows of nothing have a sum".into());
    }
    Ok(())
}

/// Bad values for every argument. Each refusal names the argument.
fn bad_input(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let buffer = || device.upload(&[0u8; 4096]).map_err(|error| error.to_string());
    let (a, b, c) = (buffer()?, buffer()?, buffer()?);
    let (src, ids, dst) = (a.raw_view(), b.raw_view(), c.raw_view());
    let (q, q8_k, none) = (quant(FORMATS[0]), quant(FORMATS[10]), sys::crk_quant_t(9));
    let (f, f64, no_type) = (F32.dtype, support::number::F64.dtype, sys::crk_dtype(10));
    let (raw, null) = (device.raw(), null_mut());
    let cut = |view: View, bytes| View { bytes, ..view };
    let at = |view: View, bytes: usize| View {
        ptr: view.ptr.cast::<u8>().wrapping_add(bytes).cast(),
        bytes: view.bytes - bytes,
    };
    let nowhere = View { ptr: null_mut(), bytes: 4096 };
    let huge = |view: View| View { bytes: usize::MAX / 2, ..view };
    let (invalid, bounds, unsupported) = (Status::InvalidArgument, Status::OutOfBounds, Status::Unsupported);
    let refused = |function: &str, expected: Status, word: &str, got: Status| -> Outcome {
        let sentence = last_error();
        if got == expected && sentence.starts_with(&format!("{function}: ")) && sentence.contains(word) {
            return Ok(());
        }
        Err(format!("{function}, {word}: {} {sentence:?}, expected {}", got.name(), expected.name()))
    };
    // SAFETY: bad arguments are refused before they are used; the others are live.
    let dequantize =
        |raw, q, t, n, src: View, dst| move |()| unsafe { sys::crk_dequantize(raw, q, t, n, src.into(), dst) };
    for (status, word, call) in [
        (invalid, "self is NULL", dequantize(null, q, f, 64, src, dst)),
        (invalid, "quant 9", dequantize(raw, none, f, 64, src, dst)),
        (invalid, "dtype 10", dequantize(raw, q, no_type, 64, src, dst)),
        (unsupported, "dtype is f64", dequantize(raw, q, f64, 64, src, dst)),
        (invalid, "numel is 65", dequantize(raw, q, f, 65, src, dst)),
        (bounds, "src", dequantize(raw, q, f, 64, cut(src, 35), dst)),
        (bounds, "src", dequantize(raw, q, f, usize::MAX - 31, src, dst)),
        (invalid, "src.ptr is NULL", dequantize(raw, q, f, 64, nowhere, dst)),
        (invalid, "src.ptr", dequantize(raw, q, f, 64, at(src, 1), dst)),
        (invalid, "src.ptr", dequantize(raw, q8_k, f, 256, at(src, 2), dst)),
        (bounds, "dst", dequantize(raw, q, f, 64, src, cut(dst, 255))),
        (bounds, "dst", dequantize(raw, q, f, (usize::MAX / 2) / 18 / 32 * 32, huge(src), dst)),
        (invalid, "dst.ptr is NULL", dequantize(raw, q, f, 64, src, nowhere)),
        (invalid, "dst.ptr", dequantize(raw, q, f, 64, src, at(dst, 2))),
        (invalid, "dst overlaps src", dequantize(raw, q, f, 64, src, at(src, 32))),
        (invalid, "dst overlaps src", dequantize(raw, q, f, 64, at(dst, 252), dst)),
    ] {
        refused("crk_dequantize", status, word, call(()))?;
    }
    let rows = |raw, q, sizes: (usize, usize, usize), src: View, ids: View, dst| {
        // SAFETY: as above.
        move |()| unsafe { sys::crk_get_rows(raw, q, sizes.0, sizes.1, sizes.2, src.into(), ids.into(), dst) }
    };
    for (status, word, call) in [
        (invalid, "self is NULL", rows(null, q, (3, 32, 2), src, ids, dst)),
        (invalid, "quant 9", rows(raw, none, (3, 32, 2), src, ids, dst)),
        (invalid, "hidden is 33", rows(raw, q, (3, 33, 2), src, ids, dst)),
        (invalid, "hidden is 2147483648", rows(raw, q, (3, 1 << 31, 2), huge(src), ids, dst)),
        (bounds, "src", rows(raw, q, (3, 32, 2), cut(src, 53), ids, dst)),
        (bounds, "blocks", rows(raw, q, (usize::MAX / 2, 64 * 32, 2), src, ids, dst)),
        (invalid, "src.ptr is NULL", rows(raw, q, (3, 32, 2), nowhere, ids, dst)),
        (invalid, "src.ptr", rows(raw, q, (3, 32, 2), at(src, 3), ids, dst)),
        (bounds, "ids", rows(raw, q, (3, 32, 2), src, cut(ids, 7), dst)),
        (invalid, "ids.ptr is NULL", rows(raw, q, (3, 32, 2), src, nowhere, dst)),
        (invalid, "ids.ptr", rows(raw, q, (3, 32, 2), src, at(ids, 2), dst)),
        (bounds, "dst", rows(raw, q, (3, 32, 2), src, ids, cut(dst, 255))),
        (bounds, "elements", rows(raw, q, (3, 32, usize::MAX / 16), src, huge(ids), dst)),
        (invalid, "dst.ptr is NULL", rows(raw, q, (3, 32, 2), src, ids, nowhere)),
        (invalid, "dst.ptr", rows(raw, q, (3, 32, 2), src, ids, at(dst, 1))),
        (invalid, "dst overlaps src", rows(raw, q, (3, 32, 2), src, ids, at(src, 52))),
        (invalid, "dst overlaps ids", rows(raw, q, (3, 32, 2), src, ids, at(ids, 4))),
    ] {
        refused("crk_get_rows", status, word, call(()))?;
    }
    let float_rows = |raw, t, sizes: (usize, usize, usize), src: View, ids: View, dst| {
        // SAFETY: as above.
        move |()| unsafe { sys::crk_get_rows_float(raw, t, sizes.0, sizes.1, sizes.2, src.into(), ids.into(), dst) }
    };
    for (status, word, call) in [
        (invalid, "self is NULL", float_rows(null, f, (3, 5, 2), src, ids, dst)),
        (invalid, "dtype 10", float_rows(raw, no_type, (3, 5, 2), src, ids, dst)),
        (unsupported, "dtype is f64", float_rows(raw, f64, (3, 5, 2), src, ids, dst)),
        (bounds, "src", float_rows(raw, f, (3, 5, 2), cut(src, 59), ids, dst)),
        (bounds, "elements", float_rows(raw, f, (usize::MAX / 2, 5, 2), src, ids, dst)),
        (invalid, "src.ptr is NULL", float_rows(raw, f, (3, 5, 2), nowhere, ids, dst)),
        (invalid, "src.ptr", float_rows(raw, f, (3, 5, 2), at(src, 2), ids, dst)),
        (bounds, "ids", float_rows(raw, f, (3, 5, 2), src, cut(ids, 7), dst)),
        (bounds, "dst", float_rows(raw, f, (3, 5, 2), src, ids, cut(dst, 39))),
        (invalid, "dst overlaps src", float_rows(raw, f, (3, 5, 2), src, ids, at(src, 56))),
        (invalid, "dst overlaps ids", float_rows(raw, f, (3, 5, 2), src, ids, ids)),
    ] {
        refused("crk_get_rows_float", status, word, call(()))?;
    }
    // SAFETY: as above.
    let quantize =
        |raw, t, rows, k, x: View, dst| move |()| unsafe { sys::crk_quantize_q8_1(raw, t, rows, k, x.into(), dst) };
    for (status, word, call) in [
        (invalid, "self is NULL", quantize(null, f, 2, 33, src, dst)),
        (invalid, "dtype 10", quantize(raw, no_type, 2, 33, src, dst)),
        (unsupported, "dtype is f64", quantize(raw, f64, 2, 33, src, dst)),
        (bounds, "x", quantize(raw, f, 2, 33, cut(src, 263), dst)),
        (bounds, "elements", quantize(raw, f, usize::MAX / 2, 33, src, dst)),
        (bounds, "k", quantize(raw, f, 1, usize::MAX - 3, src, dst)),
        (invalid, "x.ptr is NULL", quantize(raw, f, 2, 33, nowhere, dst)),
        (invalid, "x.ptr", quantize(raw, f, 2, 33, at(src, 2), dst)),
        (bounds, "dst", quantize(raw, f, 2, 33, src, cut(dst, 1151))),
        (invalid, "dst.ptr is NULL", quantize(raw, f, 2, 33, src, nowhere)),
        (invalid, "dst.ptr", quantize(raw, f, 2, 33, src, at(dst, 2))),
        (invalid, "dst overlaps x", quantize(raw, f, 2, 33, src, at(src, 260))),
    ] {
        refused("crk_quantize_q8_1", status, word, call(()))?;
    }
    let product = |raw, q, t, sizes: (usize, usize), src: View, y: View, dst| {
        // SAFETY: as above.
        move |()| unsafe { sys::crk_dequantize_mul_mat_vec(raw, q, t, sizes.0, sizes.1, src.into(), y.into(), dst) }
    };
    for (status, word, call) in [
        (invalid, "self is NULL", product(null, q, f, (3, 64), src, ids, dst)),
        (invalid, "quant 9", product(raw, none, f, (3, 64), src, ids, dst)),
        (invalid, "dtype 10", product(raw, q, no_type, (3, 64), src, ids, dst)),
        (unsupported, "dtype is f64", product(raw, q, f64, (3, 64), src, ids, dst)),
        (invalid, "k is 63", product(raw, q, f, (3, 63), src, ids, dst)),
        (invalid, "k is 2147483648", product(raw, q, f, (3, 1 << 31), huge(src), ids, dst)),
        (bounds, "src", product(raw, q, f, (3, 64), cut(src, 107), ids, dst)),
        (bounds, "blocks", product(raw, q, f, (usize::MAX / 2, 256), src, ids, dst)),
        (invalid, "src.ptr is NULL", product(raw, q, f, (3, 64), nowhere, ids, dst)),
        (invalid, "src.ptr", product(raw, q8_k, f, (1, 256), at(src, 2), ids, dst)),
        (bounds, "y", product(raw, q, f, (3, 64), src, cut(ids, 255), dst)),
        (invalid, "y.ptr is NULL", product(raw, q, f, (3, 64), src, nowhere, dst)),
        (invalid, "y.ptr", product(raw, q, f, (3, 64), src, at(ids, 1), dst)),
        (bounds, "dst", product(raw, q, f, (3, 64), src, ids, cut(dst, 11))),
        (invalid, "dst.ptr is NULL", product(raw, q, f, (3, 64), src, ids, nowhere)),
        (invalid, "dst.ptr", product(raw, q, f, (3, 64), src, ids, at(dst, 2))),
        (invalid, "dst overlaps src", product(raw, q, f, (3, 64), src, ids, at(src, 104))),
        (invalid, "dst overlaps y", product(raw, q, f, (3, 64), src, ids, at(ids, 252))),
    ] {
        refused("crk_dequantize_mul_mat_vec", status, word, call(()))?;
    }
    device.synchronize().map_err(|error| error.to_string())?;
    for buffer in [&a, &b, &c] {
        if buffer.download::<u8>().map_err(|error| error.to_string())?.iter().any(|byte| *byte != 0) {
            return Err("a refused call wrote".into());
        }
    }
    // Adjacent memory does not count as overlap.
    succeeded(dequantize(raw, q, f, 64, src, at(src, 36))(()))
}
