//! Candle's static launchers by their names: calls with the outputs of Candle's CUDA functions
//! (tests/golden/README.md), and calls with bad arguments.
//!
//! A trial is a call on a device: `golden/cpu:32/ffi/moe_gemm_gguf/0-q8_0-shared-input`.

use crate::support;
use crate::support::golden::{Argument, Data, folder, prepare, read};
use crate::support::quantized::Given;
use crate::support::quantized_static::compare_output;
use crate::support::{Guarded, Target, last_error};
use candle_rocm_sys::{Status, ffi, sys};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::ffi::c_void;
use std::sync::Arc;

type Ptr = *const c_void;
type Mut = *mut c_void;
type QuantizeVec = unsafe extern "C" fn(Ptr, Mut, i32, i32, i32, Mut);
type MatVec = unsafe extern "C" fn(Ptr, Ptr, Mut, i32, i32, i32, i32, i32, Mut);

type QuantizeMat = unsafe extern "C" fn(Ptr, *const i32, Mut, i32, i64, i64, i64, i64, i64, i64, i64, i64, Mut);
type MatMat = unsafe extern "C" fn(Mut, Ptr, Ptr, Mut, i64, i64, i64, i64, i64, i32, i32, i64, i32, Mut);

type Ids = *const i32;
type MoeGguf = unsafe extern "C" fn(*const f32, Ptr, Ids, Ids, *const f32, Mut, i32, i32, i32, i32, i32, i32, i64);
type MoePrefill =
    unsafe extern "C" fn(Ptr, *const u8, Ids, Ids, *const f32, Mut, i32, i32, i32, i32, i32, i32, i32, i64);
type MoeGemm = unsafe extern "C" fn(
    Ptr,
    Ptr,
    Ids,
    Ids,
    *const f32,
    Mut,
    *mut i32,
    *mut i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    bool,
    i64,
);

/// A function, by its argument types.
#[derive(Clone, Copy)]
enum Function {
    QuantizeVec(QuantizeVec),
    MatVec(MatVec),
    QuantizeMat(QuantizeMat),
    MatMat(MatMat),
    MoeGguf(MoeGguf),
    MoePrefill(MoePrefill),
    MoeGemm(MoeGemm),
}

macro_rules! functions {
    ($($kind:ident: $($name:ident)*;)*) => {
        &[$($((stringify!($name), Function::$kind(ffi::$name)),)*)*]
    };
}

/// Every function of the module.
const FUNCTIONS: &[(&str, Function)] = functions! {
    QuantizeVec: launch_mmvq_gguf_quantize_q8_1_f32 launch_mmvq_gguf_quantize_q8_1_f16
        launch_mmvq_gguf_quantize_q8_1_bf16;
    MatVec: launch_mmvq_gguf_q4_0_bf16_plain launch_mmvq_gguf_q4_0_f16_plain launch_mmvq_gguf_q4_0_f32_plain
        launch_mmvq_gguf_q4_1_bf16_plain launch_mmvq_gguf_q4_1_f16_plain launch_mmvq_gguf_q4_1_f32_plain
        launch_mmvq_gguf_q5_0_bf16_plain launch_mmvq_gguf_q5_0_f16_plain launch_mmvq_gguf_q5_0_f32_plain
        launch_mmvq_gguf_q5_1_bf16_plain launch_mmvq_gguf_q5_1_f16_plain launch_mmvq_gguf_q5_1_f32_plain
        launch_mmvq_gguf_q8_0_bf16_plain launch_mmvq_gguf_q8_0_f16_plain launch_mmvq_gguf_q8_0_f32_plain
        launch_mmvq_gguf_q2_k_bf16_plain launch_mmvq_gguf_q2_k_f16_plain launch_mmvq_gguf_q2_k_f32_plain
        launch_mmvq_gguf_q3_k_bf16_plain launch_mmvq_gguf_q3_k_f16_plain launch_mmvq_gguf_q3_k_f32_plain
        launch_mmvq_gguf_q4_k_bf16_plain launch_mmvq_gguf_q4_k_f16_plain launch_mmvq_gguf_q4_k_f32_plain
        launch_mmvq_gguf_q5_k_bf16_plain launch_mmvq_gguf_q5_k_f16_plain launch_mmvq_gguf_q5_k_f32_plain
        launch_mmvq_gguf_q6_k_bf16_plain launch_mmvq_gguf_q6_k_f16_plain launch_mmvq_gguf_q6_k_f32_plain;
    QuantizeMat: launch_mmq_quantize_q8_1_D4 launch_mmq_quantize_q8_1_DS4 launch_mmq_quantize_q8_1_D2S6;
    MatMat: launch_mmq_gguf_q4_0 launch_mmq_gguf_q4_1 launch_mmq_gguf_q5_0 launch_mmq_gguf_q5_1 launch_mmq_gguf_q8_0
        launch_mmq_gguf_q2_k launch_mmq_gguf_q3_k launch_mmq_gguf_q4_k launch_mmq_gguf_q5_k launch_mmq_gguf_q6_k;
    MoeGguf: moe_gemm_gguf;
    MoePrefill: moe_gemm_gguf_prefill;
    MoeGemm: moe_gemm_wmma;
};

/// The arguments of a call, read in order.
struct Passed<'a>(&'a [Argument]);

impl Passed<'_> {
    fn ptr(&self, i: usize) -> Mut {
        match &self.0[i] {
            Argument::Buffer { memory, .. } | Argument::Scratch(memory) => memory.ptr(),
            Argument::Null => std::ptr::null_mut(),
            Argument::Scalar { .. } => panic!("argument {i} is a number"),
        }
    }

    fn bits(&self, i: usize) -> u64 {
        match self.0[i] {
            Argument::Scalar { bits, .. } => bits,
            _ => panic!("argument {i} is no number"),
        }
    }

    fn i64(&self, i: usize) -> i64 {
        self.bits(i) as i64
    }

    fn i32(&self, i: usize) -> i32 {
        self.bits(i) as i32
    }
}

impl Function {
    /// # Safety
    /// The arguments are those of this function.
    unsafe fn call(self, a: &Passed, stream: Mut) {
        // SAFETY: the caller promises it.
        unsafe {
            match self {
                Function::QuantizeVec(f) => f(a.ptr(0), a.ptr(1), a.i32(2), a.i32(3), a.i32(4), stream),
                Function::MatVec(f) => {
                    f(a.ptr(0), a.ptr(1), a.ptr(2), a.i32(3), a.i32(4), a.i32(5), a.i32(6), a.i32(7), stream)
                }
                Function::QuantizeMat(f) => {
                    let (x, ids, vy) = (a.ptr(0), a.ptr(1).cast(), a.ptr(2));
                    let [ne00, s01, s02, s03, ne0, ne1, ne2, ne3] = std::array::from_fn(|i| a.i64(4 + i));
                    f(x, ids, vy, a.i32(3), ne00, s01, s02, s03, ne0, ne1, ne2, ne3, stream)
                }
                Function::MatMat(f) => {
                    let (fixup, x, y, dst) = (a.ptr(0), a.ptr(1), a.ptr(2), a.ptr(3));
                    let [cols, rows, columns, row_stride, dst_stride] = std::array::from_fn(|i| a.i64(4 + i));
                    let (cc, nsm, smpbo, warp) = (a.i32(9), a.i32(10), a.i64(11), a.i32(12));
                    f(fixup, x, y, dst, cols, rows, columns, row_stride, dst_stride, cc, nsm, smpbo, warp, stream)
                }
                Function::MoeGguf(f) => {
                    let (tokens, experts, scales) = (a.ptr(2).cast(), a.ptr(3).cast(), a.ptr(4).cast());
                    let [count, topk, m, n, k, format] = std::array::from_fn(|i| a.i32(6 + i));
                    let (x, weights, dst) = (a.ptr(0).cast(), a.ptr(1), a.ptr(5));
                    f(x, weights, tokens, experts, scales, dst, count, topk, m, n, k, format, stream as i64)
                }
                Function::MoePrefill(f) => {
                    let (tokens, experts, scales) = (a.ptr(2).cast(), a.ptr(3).cast(), a.ptr(4).cast());
                    let [count, topk, m, n, k, dtype, format] = std::array::from_fn(|i| a.i32(6 + i));
                    let (x, weights, dst) = (a.ptr(0), a.ptr(1).cast(), a.ptr(5));
                    f(x, weights, tokens, experts, scales, dst, count, topk, m, n, k, dtype, format, stream as i64)
                }
                Function::MoeGemm(f) => {
                    let (tokens, experts, scales) = (a.ptr(2).cast(), a.ptr(3).cast(), a.ptr(4).cast());
                    let [count, topk, m, n, k, dtype] = std::array::from_fn(|i| a.i32(8 + i));
                    let (x, weights, dst, counts, offsets) =
                        (a.ptr(0), a.ptr(1), a.ptr(5), a.ptr(6).cast(), a.ptr(7).cast());
                    let prefill = a.bits(14) != 0;
                    f(
                        x,
                        weights,
                        tokens,
                        experts,
                        scales,
                        dst,
                        counts,
                        offsets,
                        count,
                        topk,
                        m,
                        n,
                        k,
                        dtype,
                        prefill,
                        stream as i64,
                    )
                }
            }
        }
    }
}

fn stream_of(target: &Target) -> Mut {
    let mut stream = std::ptr::null_mut();
    // SAFETY: a live handle.
    let status = unsafe { sys::crk_device_stream(target.device.raw(), &mut stream) };
    assert_eq!(status, Status::Ok, "{}", last_error());
    stream
}

/// Makes the call of a case, and compares every buffer that it could have written.
fn run(target: &Target, data: &Data, case: &Value) -> Result<(), String> {
    let name = case["kernel"].as_str().ok_or("a case without a function")?;
    let (_, function) = FUNCTIONS.iter().find(|(known, _)| *known == name).ok_or("no such function")?;
    let args = case["args"].as_array().ok_or("a case without arguments")?;
    let held = args.iter().map(|arg| prepare(target, data, arg)).collect::<Result<Vec<_>, _>>()?;
    // SAFETY: the arguments are those that Candle passes, with buffers of the same lengths.
    unsafe { function.call(&Passed(&held), stream_of(target)) };
    target.device.synchronize().map_err(|error| error.to_string())?;

    let given: Vec<Given> = held.iter().map(Argument::given).collect();
    for (index, arg) in held.iter().enumerate() {
        let outcome = match arg {
            Argument::Buffer { memory, before, expect, .. } => memory.read().and_then(|after| match expect {
                Some(tensor) => compare_output(name, index, &given, &after, data.tensor(tensor)?),
                None if after == *before => Ok(()),
                None => Err("an input was changed".into()),
            }),
            Argument::Scratch(memory) => memory.read().map(drop),
            Argument::Scalar { .. } | Argument::Null => Ok(()),
        };
        outcome.map_err(|difference| format!("argument {index}: {difference}"))?;
    }
    Ok(())
}

/// A failure is reported once, by the next synchronisation. If there are several, the first one is reported.
fn failures_wait(target: &Target) -> Result<(), String> {
    let device = support::open(&target.name).map_err(|error| error.to_string())?;
    let target = Target { name: target.name.clone(), device };
    let stream = stream_of(&target);
    let x = Guarded::new(&target.device, &[0; 4 * 64], 0).map_err(|error| error.to_string())?;
    let y = Guarded::new(&target.device, &[7; 36 * 2], 0).map_err(|error| error.to_string())?;
    let quantize = ffi::launch_mmvq_gguf_quantize_q8_1_f32;
    // SAFETY: memory of the handle that is long enough, or arguments that are refused.
    unsafe {
        quantize(x.ptr(), y.ptr(), 64, 63, 1, stream);
        quantize(x.ptr(), y.ptr(), -5, 64, 1, stream);
        quantize(std::ptr::null(), y.ptr(), 64, 64, 1, stream);
    }
    // A copy to a device of another backend still works, and does not use up the failure's report.
    if cfg!(feature = "cpu") && !target.name.starts_with("cpu") {
        let copied = target.device.upload(&[1u32, 2, 3]).and_then(|source| support::open("cpu:32")?.copy_from(&source));
        let read = copied.and_then(|copy| copy.download::<u32>()).map_err(|error| error.to_string())?;
        if read != [1, 2, 3] {
            return Err(format!("a copy of 1, 2, 3 is {read:?}"));
        }
    }
    let first = target.device.synchronize().err().map(|error| error.to_string()).unwrap_or_default();
    if !first.contains("kx_padded is 63") || !first.contains("crk_launch_mmvq_gguf_quantize_q8_1_f32") {
        return Err(format!("the first failure was told as '{first}'"));
    }
    target.device.synchronize().map_err(|error| format!("told twice: {error}"))?;
    if y.read()? != [7; 36 * 2] {
        return Err("something was written".into());
    }
    // The handle remains usable.
    unsafe { quantize(x.ptr(), y.ptr(), 64, 64, 1, stream) };
    target.device.synchronize().map_err(|error| error.to_string())?;
    if y.read()? != [0; 36 * 2] {
        return Err("zeros did not become zeros".into());
    }
    // A stream that belongs to no handle, and one of a closed handle.
    let gone = stream;
    drop((x, y));
    drop(target);
    for stream in [std::ptr::null_mut(), 8 as Mut, gone] {
        unsafe { quantize(std::ptr::null(), std::ptr::null_mut(), 64, 64, 1, stream) };
        if !last_error().contains("is of no live device handle") {
            return Err(format!("stream {stream:?}: {}", last_error()));
        }
    }
    Ok(())
}

/// Rows selected by ids equal the same rows in order. An id below 0 is reported, and its row is not written.
fn rows_by_number(target: &Target) -> Result<(), String> {
    let device = support::open(&target.name).map_err(|error| error.to_string())?;
    let target = Target { name: target.name.clone(), device };
    let stream = stream_of(&target);
    let guarded = |bytes: &[u8]| Guarded::new(&target.device, bytes, 0).map_err(|error| error.to_string());
    let value = |row: usize, i: usize| ((row * 37 + i * 11) % 101) as f32 - 50.0;
    let numbers = |order: &[usize]| -> Vec<u8> {
        order.iter().flat_map(|&row| (0..512).flat_map(move |i| value(row, i).to_le_bytes())).collect()
    };
    let order = [2usize, 0, 2, 1];
    let given: Vec<u8> = [2i32, 0, -1, 1].iter().flat_map(|id| id.to_le_bytes()).collect();
    let (x, sorted, ids) = (guarded(&numbers(&[0, 1, 2]))?, guarded(&numbers(&order))?, guarded(&given)?);
    let (mine, plain) = (guarded(&[7; 144 * 16])?, guarded(&[7; 144 * 16])?);
    let quantize = ffi::launch_mmq_quantize_q8_1_DS4;
    // SAFETY: memory of the handle that is long enough.
    unsafe { quantize(sorted.ptr(), std::ptr::null(), plain.ptr(), 0, 512, 512, 0, 0, 512, 4, 1, 1, stream) };
    target.device.synchronize().map_err(|error| error.to_string())?;
    // SAFETY: as above.
    unsafe { quantize(x.ptr(), ids.ptr().cast(), mine.ptr(), 0, 512, 512, 0, 0, 512, 4, 1, 1, stream) };
    match target.device.synchronize() {
        Err(error) if error.status() == Status::OutOfRange => {}
        other => return Err(format!("row -1 gave {other:?}")),
    }
    let (mine, plain) = (mine.read()?, plain.read()?);
    for (block, (mine, plain)) in mine.chunks(144).zip(plain.chunks(144)).enumerate() {
        let expected = if block % 4 == 2 { &[7; 144] } else { plain };
        if mine != expected {
            return Err(format!("block {} of row {}", block / 4, block % 4));
        }
    }
    Ok(())
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let path = folder().join("ffi.safetensors");
    let mut trials = Vec::new();
    if std::env::var_os("CANDLE_ROCM_GOLDEN").is_none() || path.exists() {
        let (data, cases) = read(&path).unwrap_or_else(|error| panic!("{error}"));
        let data = Arc::new(data);
        for target in targets {
            for case in &cases {
                let name = format!("ffi/{}/golden/{}", target.name, case["id"].as_str().unwrap_or("?"));
                let (data, case, trial) = (data.clone(), case.clone(), name.clone());
                trials.push(Trial::test(name, move || {
                    run(target, &data, &case).map_err(|difference| {
                        let line = support::repeat_line(&target.name, &trial, "");
                        Failed::from(format!("{difference}\n{line}"))
                    })
                }));
            }
        }
    }
    for target in targets {
        let name = format!("ffi/{}/failures_wait", target.name);
        trials.push(Trial::test(name, move || failures_wait(target).map_err(Failed::from)));
        let name = format!("ffi/{}/rows_by_number", target.name);
        trials.push(Trial::test(name, move || rows_by_number(target).map_err(Failed::from)));
    }
    trials
}
