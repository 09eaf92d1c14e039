//! Matrix products through rocBLAS and hipBLASLt, with doubles of both (tests/double/rocblas_double.c,
//! hipblaslt_double.c). The doubles check their arguments and compute in plain C. The tests cover operands in every
//! order, batches, the products left to the crate's own kernels, and every way in which a library fails. Both doubles
//! are in the double of HIP's library. Only for gfx942 hipBLASLt has kernels.
#![cfg(all(target_os = "linux", feature = "cpu"))]
use candle_rocm_sys::{Backend, Buffer, DType, Device, Layout, sys};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use candle_rocm_sys_tests::support::hip_double;
use hip_double::double::is_alone;
use hip_double::{Controls, alone};

const GEMM: &str = "rocblas_gemm_strided_batched_ex";
const LT_GEMM: &str = "hipblasLtMatmul";
const LT_CHOICE: &str = "hipblasLtMatmulAlgoGetHeuristic";
const F32: DType = DType::F32;

/// The double as the BLAS library. Folders of kernels are beside it.
fn library() -> String {
    library_without(&[])
}

fn library_without(calls: &[&str]) -> String {
    let path: PathBuf = hip_double::without(calls);
    let folder = path.parent().expect("a folder");
    let files = [
        "rocblas/4.0.0/library/TensileLibrary_lazy_gfx1100.dat",
        "rocblas/4.0.0/library/TensileLibrary_lazy_gfx942.dat",
    ];
    for file in files.into_iter().chain(["hipblaslt/library/gfx942/TensileLibrary.dat"]) {
        let file = folder.join(file);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, b"").expect("a file");
    }
    path.into_os_string().into_string().expect("a path in UTF-8")
}

/// Runs `body` in a process with rocBLAS.
fn with_library(test: &str, body: fn()) {
    alone(test, "gfx1100", 6, &[("CANDLE_ROCM_BLAS", &library())], body);
}

/// Runs `body` in a process with rocBLAS and hipBLASLt.
fn with_both(test: &str, body: fn()) {
    alone(test, "gfx942", 6, &[("CANDLE_ROCM_BLAS", &library())], body);
}

fn open() -> Device {
    Device::open(Backend::Hip, 0).expect("a device")
}

fn products() -> i64 {
    Controls::get().calls(GEMM)
}

/// The number of live handles and other objects of the BLAS libraries.
fn library_handles() -> i64 {
    Controls::get().alive("BLAS handles")
}

/// Small integers. Their sums are exact in every dtype.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 7 + seed * 5 + i * i % 11) % 7) as f64 - 3.0).collect()
}

fn upload(device: &Device, dtype: DType, values: &[f64]) -> Buffer {
    match dtype {
        DType::F64 => device.upload(values),
        DType::F32 => device.upload(&values.iter().map(|v| *v as f32).collect::<Vec<_>>()),
        DType::F16 => device.upload(&values.iter().map(|v| half::f16::from_f64(*v).to_bits()).collect::<Vec<_>>()),
        _ => device.upload(&values.iter().map(|v| half::bf16::from_f64(*v).to_bits()).collect::<Vec<_>>()),
    }
    .expect("memory")
}

fn download(dtype: DType, buffer: &Buffer) -> Vec<f64> {
    match dtype {
        DType::F64 => buffer.download::<f64>().expect("a copy"),
        DType::F32 => buffer.download::<f32>().expect("a copy").iter().map(|v| f64::from(*v)).collect(),
        DType::F16 => {
            buffer.download::<u16>().expect("a copy").iter().map(|v| half::f16::from_bits(*v).to_f64()).collect()
        }
        _ => buffer.download::<u16>().expect("a copy").iter().map(|v| half::bf16::from_bits(*v).to_f64()).collect(),
    }
}

fn bytes_of(dtype: DType) -> usize {
    // SAFETY: takes any value.
    unsafe { sys::crk_dtype_size(dtype) }
}

/// Computes one product and checks it. `left` and `right` are the strides of (batch, m, k) and (batch, k, n).
fn multiply(device: &Device, dtype: DType, dims: [usize; 4], left: [usize; 3], right: [usize; 3]) {
    let [batch, m, k, n] = dims;
    let reach = |dims: [usize; 3], strides: [usize; 3]| 1 + (0..3).map(|i| (dims[i] - 1) * strides[i]).sum::<usize>();
    let (x, y) = (numbers(reach([batch, m, k], left) + 3, 1), numbers(reach([batch, k, n], right), 2));
    let (lhs, rhs) = (upload(device, dtype, &x), upload(device, dtype, &y));
    let dst = device.upload(&vec![0xa5u8; batch * m * n * bytes_of(dtype)]).expect("memory");
    let l = Layout::strided(&[batch, m, k], &left, 3).expect("a layout");
    let r = Layout::strided(&[batch, k, n], &right, 0).expect("a layout");
    device.matmul(dtype, (&l, &lhs), (&r, &rhs), &dst).expect("a product");
    let got = download(dtype, &dst);
    for (i, got) in got.into_iter().enumerate() {
        let (b, row, column) = (i / (m * n), i / n % m, i % n);
        let at = |s: [usize; 3], i: usize, j: usize| b * s[0] + i * s[1] + j * s[2];
        let sum: f64 = (0..k).map(|l| x[3 + at(left, row, l)] * y[at(right, l, column)]).sum();
        assert_eq!(got, sum, "element {i} of {dims:?}, {left:?}, {right:?}, {dtype:?}");
    }
}

/// A product that the libraries can compute.
fn plain(device: &Device) {
    multiply(device, F32, [1, 5, 6, 7], [30, 6, 1], [42, 7, 1]);
}

/// Products of all dtypes and layouts. Each takes one call of `call`.
fn every_order(device: &Device, call: fn(DType) -> &'static str) {
    let (batch, m, k, n) = (3, 5, 4, 6);
    let through = |dtype, dims, left, right| {
        let before = Controls::get().calls(call(dtype));
        multiply(device, dtype, dims, left, right);
        let what = format!("{dtype:?}, {left:?}, {right:?}: not through {}", call(dtype));
        assert_eq!(Controls::get().calls(call(dtype)), before + 1, "{what}");
    };
    for dtype in [F32, DType::F64, DType::F16, DType::BF16] {
        for left in [[m * k, k, 1], [m * k, 1, m], [90, k + 3, 1], [90, 1, m + 2], [0, k, 1]] {
            for right in [[k * n, n, 1], [k * n, 1, k], [77, n + 3, 1], [77, 1, k + 2], [0, 1, k]] {
                through(dtype, [batch, m, k, n], left, right);
            }
        }
    }
    // A dim of 1 may have any stride.
    for [m, k, n] in [[5, 1, 6], [2, 2, 2], [3, 1, 3]] {
        through(F32, [2, m, k, n], [40, k, 1], [40, n, 1]);
        through(F32, [2, m, k, n], [40, 1, m], [40, 1, k]);
    }
}

#[test]
fn operands_in_every_order() {
    with_library("operands_in_every_order", || {
        let device = open();
        assert_eq!(device.blas().expect("a name"), "rocBLAS");
        every_order(&device, |_| GEMM);
        assert_eq!(Controls::get().calls("hipblasLtCreate"), 0);
    });
}

#[test]
fn operands_in_every_order_to_hipblaslt() {
    with_both("operands_in_every_order_to_hipblaslt", || {
        let device = open();
        assert_eq!(device.blas().expect("a name"), "hipBLASLt");
        every_order(&device, |dtype| if dtype == DType::F64 { GEMM } else { LT_GEMM });
    });
}

#[test]
fn hipblaslt_chooses_a_kernel_once() {
    with_both("hipblaslt_chooses_a_kernel_once", || {
        let controls = Controls::get();
        let device = open();
        for (dims, right) in [([1, 5, 6, 7], [42, 7, 1]), ([1, 5, 6, 7], [42, 1, 6]), ([1, 5, 6, 8], [48, 8, 1])] {
            let before = (controls.calls(LT_CHOICE), controls.calls(LT_GEMM));
            (0..5).for_each(|_| multiply(&device, F32, dims, [30, 6, 1], right));
            assert_eq!((controls.calls(LT_CHOICE), controls.calls(LT_GEMM)), (before.0 + 1, before.1 + 5));
        }
        // As many products as several models have, one after the other.
        let before = (controls.calls(LT_CHOICE), controls.calls(LT_GEMM));
        (0..3).for_each(|_| different(&device, 3, 2..702));
        assert_eq!((controls.calls(LT_CHOICE), controls.calls(LT_GEMM)), (before.0 + 700, before.1 + 2100));
        assert_eq!(products(), 0, "rocBLAS was asked");
        // As many products again, which the library has no kernel for. No descriptions of them are kept.
        let (asked, kept) = (controls.calls(LT_CHOICE), library_handles());
        (0..3).for_each(|_| different(&device, 13, 2..202));
        assert_eq!((controls.calls(LT_CHOICE), controls.calls(LT_GEMM)), (asked + 200, before.1 + 2100));
        assert_eq!((products(), library_handles()), (600, kept));
        drop(device);
        assert_eq!(library_handles(), 0);
    });
}

/// 4097 needs 12 bits of mantissa with its leading one; TF32 has 11.
fn sums(device: &Device, dtype: DType, k: usize) -> Vec<f64> {
    let (lhs, rhs) = (upload(device, dtype, &vec![4097.0; 2 * k]), upload(device, dtype, &vec![1.0; k * 2]));
    let dst = device.alloc(4 * bytes_of(dtype)).expect("memory");
    let l = Layout::contiguous(&[2, k]).expect("a layout");
    let r = Layout::contiguous(&[k, 2]).expect("a layout");
    device.matmul(dtype, (&l, &lhs), (&r, &rhs), &dst).expect("a product");
    download(dtype, &dst)
}

#[test]
fn hipblaslt_uses_tf32_where_it_is_allowed() {
    with_both("hipblaslt_uses_tf32_where_it_is_allowed", || {
        let (controls, device) = (Controls::get(), open());
        assert!(!Device::is_tf32_allowed());
        assert_eq!(sums(&device, F32, 3), [3.0 * 4097.0; 4]);
        Device::allow_tf32(true);
        assert!(Device::is_tf32_allowed());
        assert_eq!(sums(&device, F32, 3), [3.0 * 4096.0; 4]);
        // The other dtypes stay as they are.
        assert_eq!(sums(&device, DType::F64, 3), [3.0 * 4097.0; 4]);
        let halves = sums(&device, DType::F16, 3);
        // Without such a kernel the library is asked for a product in f32.
        let before = (controls.calls(LT_GEMM), products());
        (0..2).for_each(|_| assert_eq!(sums(&device, F32, 11), [11.0 * 4097.0; 4]));
        assert_eq!((controls.calls(LT_GEMM), products()), (before.0 + 2, before.1));
        // Without any kernel, rocBLAS computes it in f32.
        assert_eq!(sums(&device, F32, 13), [13.0 * 4097.0; 4]);
        assert_eq!((controls.calls(LT_GEMM), products()), (before.0 + 2, before.1 + 1));
        Device::allow_tf32(false);
        assert_eq!(sums(&device, F32, 3), [3.0 * 4097.0; 4]);
        assert_eq!(sums(&device, DType::F16, 3), halves);
        drop(device);
        assert_eq!(library_handles(), 0);
    });
}

/// Products with 2 rows and this k, each with another number of columns.
fn different(device: &Device, k: usize, columns: std::ops::Range<usize>) {
    columns.for_each(|n| multiply(device, F32, [1, 2, k, n], [2 * k, k, 1], [k * n, n, 1]));
}

/// The 1024 products used last are kept.
#[test]
fn hipblaslt_keeps_what_is_used() {
    with_both("hipblaslt_keeps_what_is_used", || {
        let controls = Controls::get();
        let device = open();
        plain(&device);
        let asked = controls.calls(LT_CHOICE);
        for first in (2..1602).step_by(400) {
            different(&device, 3, first..first + 400);
            plain(&device);
        }
        assert_eq!(controls.calls(LT_CHOICE), asked + 1600, "the one that is used again and again was forgotten");
        let objects = library_handles();
        let of_each = 4; // an operation and three layouts
        assert!((of_each * 1024..of_each * 1024 + 8).contains(&objects), "{objects} objects of the libraries'");
        different(&device, 3, 1500..1602);
        assert_eq!(controls.calls(LT_CHOICE), asked + 1600);
        different(&device, 3, 2..4);
        assert_eq!(controls.calls(LT_CHOICE), asked + 1602);
        assert_eq!(library_handles(), objects);
        drop(device);
        assert_eq!(library_handles(), 0);
    });
}

#[test]
fn what_hipblaslt_refuses_goes_to_rocblas() {
    with_both("what_hipblaslt_refuses_goes_to_rocblas", || {
        let controls = Controls::get();
        let device = open();
        plain(&device);
        assert_eq!((controls.calls(LT_GEMM), products()), (1, 0));
        // The library has no kernel for this product. It is asked only once.
        let asked = controls.calls(LT_CHOICE);
        (0..3).for_each(|_| multiply(&device, F32, [1, 5, 13, 7], [65, 13, 1], [91, 7, 1]));
        assert_eq!((controls.calls(LT_CHOICE), controls.calls(LT_GEMM), products()), (asked + 1, 1, 3));
        controls.fail(LT_GEMM, 1, 6);
        plain(&device);
        plain(&device);
        assert_eq!((controls.calls(LT_GEMM), products()), (3, 4));
        // The library fails to describe the product.
        let descriptions = [
            ("hipblasLtMatmulDescCreate", 1),
            ("hipblasLtMatmulDescSetAttribute", 1),
            ("hipblasLtMatmulDescSetAttribute", 2),
            ("hipblasLtMatrixLayoutCreate", 1),
            ("hipblasLtMatrixLayoutCreate", 2),
            ("hipblasLtMatrixLayoutCreate", 3),
            ("hipblasLtMatrixLayoutSetAttribute", 1),
            ("hipblasLtMatrixLayoutSetAttribute", 6),
            (LT_CHOICE, 1),
        ];
        for (i, (call, nth)) in descriptions.into_iter().enumerate() {
            controls.fail(call, nth, 6);
            let before = products();
            multiply(&device, F32, [1, 5, 6, 20 + i], [30, 6, 1], [6 * (20 + i), 20 + i, 1]);
            assert_eq!(products(), before + 1, "{call} {nth}");
        }
        // Both libraries fail.
        controls.fail(LT_GEMM, 1, 6);
        controls.fail(GEMM, 1, 6);
        plain(&device);
        drop(device);
        assert_eq!(library_handles(), 0);
    });
}

#[test]
fn hipblaslt_that_cannot_be_used_is_done_without() {
    with_both("hipblaslt_that_cannot_be_used_is_done_without", || {
        let (controls, census) = (Controls::get(), Controls::get().census());
        let create = [
            "hipblasLtCreate",
            "hipblasLtGetVersion",
            "hipblasLtMatmulPreferenceCreate",
            "hipblasLtMatmulPreferenceSetAttribute",
        ];
        for call in create {
            let device = open();
            controls.fail(call, 1, 6);
            assert_eq!(device.blas().expect("a name"), "rocBLAS", "{call}");
            assert_eq!(library_handles(), 1, "{call}: something is lost");
            plain(&device);
        }
        // Before ROCm 6.0, hipBLASLt numbered types in another way.
        std::env::set_var("HIPBLASLT_DOUBLE_VERSION", "300");
        assert_eq!(open().blas().expect("a name"), "rocBLAS");
        assert_eq!(controls.calls(LT_CHOICE), 0);
        assert_eq!((controls.census(), library_handles()), (census, 0));
    });
}

#[test]
fn hipblaslt_without_rocblas() {
    let library = library_without(&["rocblas_create_handle"]);
    let extra = [("CANDLE_ROCM_BLAS", library.as_str()), ("CANDLE_ROCM_HIP_LIBRARY", library.as_str())];
    alone("hipblaslt_without_rocblas", "gfx942", 6, &extra, || {
        let device = open();
        assert_eq!(device.blas().expect("a name"), "hipBLASLt");
        plain(&device);
        multiply(&device, DType::F64, [1, 5, 6, 7], [30, 6, 1], [42, 7, 1]);
        assert_eq!((Controls::get().calls(LT_GEMM), products()), (1, 0));
    });
}

#[test]
fn what_does_not_fit_is_left_to_own_kernels() {
    with_library("what_does_not_fit_is_left_to_own_kernels", || {
        let device = open();
        plain(&device);
        let before = products();
        assert!(before > 0);
        let dims = [2, 5, 4, 6];
        let (good_left, good_right) = ([20, 4, 1], [24, 6, 1]);
        for left in [[40, 8, 2], [20, 0, 1], [20, 1, 0], [20, 2, 1], [20, 1, 3]] {
            multiply(&device, F32, dims, left, good_right);
        }
        for right in [[60, 12, 2], [24, 0, 1], [24, 1, 0], [24, 3, 1], [24, 1, 2]] {
            multiply(&device, F32, dims, good_left, right);
        }
        // Single rows and columns with strides that fit the library.
        multiply(&device, F32, [2, 1, 40, 9], [40, 40, 1], [360, 1, 40]);
        multiply(&device, F32, [2, 1, 40, 9], [40, 40, 1], [360, 9, 1]);
        multiply(&device, F32, [2, 9, 40, 1], [360, 40, 1], [40, 1, 1]);
        // Batch dims that cannot be joined into one.
        let lhs = upload(&device, F32, &numbers(400, 1));
        let dst = device.alloc(4 * 25 * 4).expect("memory");
        let l = Layout::strided(&[2, 2, 5, 5], &[30, 100, 5, 1], 0).expect("a layout");
        device.matmul(F32, (&l, &lhs), (&l, &lhs), &dst).expect("a product");
        device.synchronize().expect("all done");
        assert_eq!(products(), before);
    });
}

/// The doubles lose stores 2^31 bytes beyond the beginning of dst. So large results are made in parts, of rows or of
/// whole matrices.
#[test]
fn no_library_has_more_of_dst_than_it_can_store() {
    with_both("no_library_has_more_of_dst_than_it_can_store", || {
        let device = open();
        for (dtype, [batch, m, n], call) in [(DType::F64, [1, 16411, 16384], GEMM), (F32, [3, 11000, 16384], LT_GEMM)] {
            let (x, y) = (numbers(batch * m * 3, 1), numbers(batch * n, 2));
            let (lhs, rhs) = (upload(&device, dtype, &x), upload(&device, dtype, &y));
            let line = n * bytes_of(dtype);
            let (dst, row) = (device.alloc(batch * m * line).expect("memory"), device.alloc(line).expect("memory"));
            assert!(dst.bytes() > i32::MAX as usize);
            let l = Layout::strided(&[batch, m, 1], &[3 * m, 3, 1], 0).expect("a layout");
            let r = Layout::strided(&[batch, 1, n], &[n, n, 1], 0).expect("a layout");
            device.matmul(dtype, (&l, &lhs), (&r, &rhs), &dst).expect("a product");
            assert_eq!(Controls::get().calls(call), 2);
            for i in (0..batch * m).step_by(97).chain([batch * m - 1]) {
                device.copy(&row, dst.range(i * line..(i + 1) * line).expect("a row")).expect("a copy");
                let expected = y[i / m * n..][..n].iter().map(|right| x[3 * i] * right);
                assert!(download(dtype, &row).into_iter().eq(expected), "row {i} of {batch} x {m}");
            }
        }
    });
}

#[test]
fn a_failing_library_is_done_without() {
    with_library("a_failing_library_is_done_without", || {
        let controls = Controls::get();
        let device = open();
        plain(&device);
        for code in [2, 5, 6] {
            controls.fail(GEMM, 1, code);
            plain(&device);
        }
        let before = products();
        plain(&device);
        assert_eq!(products(), before + 1, "the library is still used");
        for call in ["rocblas_create_handle", "rocblas_set_atomics_mode", "rocblas_set_workspace", "rocblas_set_stream"]
        {
            controls.fail(call, 1, 6);
            let without = open();
            assert_eq!(without.blas().expect("a name"), "own kernels", "{call}");
            plain(&without);
        }
        drop(device);
        assert_eq!(library_handles(), 0, "one is lost");
    });
}

#[test]
fn handles_are_made_when_needed_reused_and_destroyed() {
    with_library("handles_are_made_when_needed_reused_and_destroyed", || {
        let census = Controls::get().census();
        for _ in 0..3 {
            let device = open();
            assert_eq!(library_handles(), 0, "made before it is needed");
            plain(&device);
            plain(&device);
            assert_eq!(library_handles(), 1);
            // A second opening of the GPU gets its own handle, as another stream does.
            for second in [device.new_stream().expect("a handle"), open()] {
                plain(&second);
                assert_eq!(library_handles(), 2);
            }
        }
        assert_eq!(Controls::get().calls("rocblas_create_handle"), 6);
        assert_eq!(Controls::get().census(), census);
    });
}

/// A product in each dtype makes the library load its kernels. The next device handle that multiplies has its handle.
#[test]
fn a_prepared_library_is_ready() {
    with_library("a_prepared_library_is_ready", || {
        let census = Controls::get().census();
        let device = open();
        device.prepare().expect("all is there");
        assert_eq!((products(), library_handles()), (3, 1));
        plain(&device);
        assert_eq!(library_handles(), 1);
        device.prepare().expect("once more");
        assert_eq!(library_handles(), 2, "one is in use, and one waits");
        drop(device);
        assert_eq!(Controls::get().census(), census);
    });
}

/// One library handle without a user is kept, with its workspace, for the next user. The others are destroyed.
#[test]
fn one_handle_is_kept() {
    with_library("one_handle_is_kept", || {
        let controls = Controls::get();
        let device = open();
        let four = || {
            let others: Vec<_> = (0..4).map(|_| open()).collect();
            others.iter().for_each(plain);
            assert_eq!(library_handles(), 5);
            others
        };
        plain(&device);
        captured(&device, || ());
        let allocations = controls.alive("allocations");
        drop(four());
        assert_eq!((library_handles(), controls.alive("allocations")), (2, allocations + 1));
        // During a capture no library handle is destroyed. The next device handle that closes makes up for it.
        let others = four();
        captured(&device, || drop(others));
        assert_eq!(library_handles(), 5);
        drop(open());
        assert_eq!((library_handles(), controls.alive("allocations")), (2, allocations + 1));
    });
}

/// rocBLAS replaces its own memory when a product needs more. That would spoil captures on the GPU, and graphs would
/// keep pointers to the old memory.
#[test]
fn a_workspace_stays_where_it_is() {
    with_library("a_workspace_stays_where_it_is", || {
        let (device, other) = (open(), open());
        plain(&device);
        plain(&other);
        let before = products();
        captured(&device, || multiply(&other, F32, [1, 2, 1000, 2], [2000, 1000, 1], [2000, 2, 1]));
        assert_eq!(products(), before + 1);
    });
}

/// Runs `body` in a process where the GPU has 128 MiB and hipBLASLt has no kernels.
fn in_little_memory(test: &str, body: fn()) {
    let extra = [("CANDLE_ROCM_BLAS", &*library()), ("HIP_DOUBLE_MEMORY", "134217728")];
    alone(test, "gfx1100", 6, &extra, body);
}

const MIB: usize = 1 << 20;

/// A workspace takes 32 MiB, and rocBLAS takes as much while it creates a handle. If there is no room for either, the
/// caches are emptied.
#[test]
fn caches_make_room_for_a_library() {
    in_little_memory("caches_make_room_for_a_library", || {
        for cached in [112, 80] {
            let (device, other) = (open(), open());
            // SAFETY: a live handle.
            let set = unsafe { sys::crk_memory_set_cache_limit(other.raw(), usize::MAX) };
            assert_eq!(set, sys::crk_status::CRK_OK);
            // The red zone after a block takes 64 KiB under AddressSanitizer. The segment has the same size with it.
            drop(other.alloc(cached * MIB - (64 << 10)).expect("memory"));
            assert_eq!(other.memory_stats().expect("figures").cached_bytes as usize, cached * MIB);
            assert_eq!(device.blas().expect("a name"), "rocBLAS", "with {cached} MiB cached");
            assert_eq!(other.memory_stats().expect("figures").cached_bytes, 0);
            plain(&device);
        }
        assert_eq!(products(), 2);
    });
}

/// Products while a library has too little memory, which is freed later. The GPU has `memory` MiB; `lefts` are the MiB
/// left free.
fn short_of_memory(name: &str, memory: usize, lefts: &[usize]) {
    let controls = Controls::get();
    for left in lefts {
        let device = open();
        let held = device.alloc((memory - left) * MIB).expect("memory");
        let asked = || ["hipMalloc", "rocblas_create_handle", "hipblasLtCreate"].map(|call| controls.calls(call));
        plain(&device);
        let before = asked();
        (0..5).for_each(|_| plain(&device));
        assert_eq!(asked(), before, "with {left} MiB");
        // Asking for the library's name makes it try again.
        assert_eq!(device.blas().expect("a name"), "own kernels");
        assert_ne!(asked(), before);
        assert_eq!((controls.calls(LT_GEMM), products(), library_handles()), (0, 0, 0));
        drop(held);
        plain(&device);
        assert_eq!((controls.calls(LT_GEMM), products(), library_handles()), (0, 0, 0));
        assert_eq!(device.blas().expect("a name"), name);
    }
}

#[test]
fn a_shortage_is_remembered() {
    // First without room for the workspace, then with room for nothing else.
    in_little_memory("a_shortage_is_remembered", || short_of_memory("rocBLAS", 128, &[8, 40]));
}

#[test]
fn a_shortage_for_both_libraries_is_remembered() {
    let extra = [("CANDLE_ROCM_BLAS", &*library()), ("HIP_DOUBLE_MEMORY", "268435456")];
    alone("a_shortage_for_both_libraries_is_remembered", "gfx942", 6, &extra, || {
        short_of_memory("hipBLASLt", 256, &[16]);
    });
}

/// After a library reports a shortage, it is tried once more.
#[test]
fn a_library_without_memory_is_tried_once_more() {
    with_both("a_library_without_memory_is_tried_once_more", || {
        let controls = Controls::get();
        for (call, code) in [("hipblasLtCreate", 2), ("rocblas_create_handle", 5)] {
            let census = controls.census();
            let before = controls.calls(call);
            controls.fail(call, 1, code);
            let device = open();
            multiply(&device, DType::F64, [1, 5, 6, 7], [30, 6, 1], [42, 7, 1]);
            assert_eq!((device.blas().expect("a name"), controls.calls(call)), ("hipBLASLt", before + 2));
            assert_eq!(library_handles(), 3, "not all of both");
            drop(device);
            controls.fail(call, 0, code);
            let device = open();
            (0..3).for_each(|_| plain(&device));
            assert_eq!(controls.calls(call), before + 4);
            let other = if call == "hipblasLtCreate" { "rocBLAS" } else { "hipBLASLt" };
            assert_eq!(device.blas().expect("a name"), other);
            drop(device);
            controls.fail(call, 0, 0);
            assert_eq!(controls.census(), census);
        }
    });
}

/// Fails if `body` takes longer than 30 seconds.
fn in_time(body: impl FnOnce() + Send + 'static) {
    let (over, is_over) = channel();
    let thread = std::thread::spawn(move || {
        body();
        drop(over);
    });
    let end: Result<(), _> = is_over.recv_timeout(Duration::from_secs(30));
    assert_eq!(end, Err(RecvTimeoutError::Disconnected), "two threads wait for each other");
    thread.join().expect("no failure");
}

/// One thread empties the caches to create a library handle. For that it may wait for handles that begin a capture, and
/// they wait for the library handle: this must not deadlock.
#[test]
fn a_capture_begins_while_caches_make_room() {
    in_little_memory("a_capture_begins_while_caches_make_room", || {
        in_time(|| {
            let (device, other) = (open(), open());
            drop(other.alloc(64 * MIB).expect("memory"));
            let _held = device.alloc(48 * MIB).expect("memory");
            let before = Controls::get().calls("hipMalloc");
            Controls::get().fail("hipMalloc", 1, -400);
            std::thread::scope(|scope| {
                scope.spawn(|| assert_eq!(device.blas().expect("a name"), "rocBLAS"));
                while Controls::get().calls("hipMalloc") == before {
                    std::thread::yield_now();
                }
                let mut graph = std::ptr::null_mut();
                // SAFETY: live arguments.
                unsafe {
                    assert_eq!(sys::crk_graph_begin(other.raw()), sys::crk_status::CRK_OK);
                    assert_eq!(sys::crk_graph_end(other.raw(), &mut graph), sys::crk_status::CRK_OK);
                    sys::crk_graph_destroy(graph);
                }
            });
        });
    });
}

/// The same for a handle that is closed.
#[test]
fn a_handle_is_closed_while_caches_make_room() {
    in_little_memory("a_handle_is_closed_while_caches_make_room", || {
        in_time(|| {
            let (device, other) = (open(), open());
            // Less than half of the memory is cached, so that it stays cached. This holds with AddressSanitizer's red
            // zones too, which make both segments 2 MiB larger.
            let [_held, freed] = [48, 60].map(|size| device.alloc(size * MIB).expect("memory"));
            drop(freed);
            let before = Controls::get().calls("hipEventRecord");
            Controls::get().fail("hipEventRecord", 1, -400);
            std::thread::scope(|scope| {
                scope.spawn(|| assert_eq!(device.blas().expect("a name"), "rocBLAS"));
                while Controls::get().calls("hipEventRecord") == before {
                    std::thread::yield_now();
                }
                drop(other);
            });
        });
    });
}

/// Records a graph of one product, runs `body` during the capture, and launches the graph.
fn captured(device: &Device, body: impl FnOnce()) {
    let (a, dst) = (device.upload(&[1f32, 2.0, 3.0, 4.0]).expect("memory"), device.alloc(16).expect("memory"));
    let l = Layout::strided(&[2, 2], &[2, 0], 0).expect("a layout");
    let mut graph = std::ptr::null_mut();
    // SAFETY: live arguments.
    unsafe {
        assert_eq!(sys::crk_graph_begin(device.raw()), sys::crk_status::CRK_OK);
        body();
        device.matmul(F32, (&l, &a), (&l, &a), &dst).expect("a product");
        assert_eq!(sys::crk_graph_end(device.raw(), &mut graph), sys::crk_status::CRK_OK, "the capture is spoilt");
        assert_eq!(sys::crk_graph_launch(graph), sys::crk_status::CRK_OK);
        assert_eq!(dst.download::<f32>().expect("a copy"), [4.0, 4.0, 12.0, 12.0]);
        sys::crk_graph_destroy(graph);
    }
}

/// Creating or destroying a handle of the library would spoil every capture on the GPU.
#[test]
fn a_capture_outlives_what_other_handles_do() {
    with_library("a_capture_outlives_what_other_handles_do", || {
        let (device, other) = (open(), open());
        captured(&device, || {
            // There is no handle, so this product does without the library. A later product may find one.
            plain(&other);
            assert_eq!(other.blas().expect("a name"), "own kernels");
            assert_eq!(products(), 0);
        });
        plain(&other);
        assert_eq!(products(), 1);
        captured(&device, || {
            drop(other);
            assert_eq!(library_handles(), 1, "destroyed in a capture");
            // The handle that was given back is used again, by the captured handle too.
            let third = open();
            plain(&third);
            assert_eq!(products(), 2);
            drop(third);
            assert_eq!(device.blas().expect("a name"), "rocBLAS");
        });
        assert_eq!(Controls::get().calls("rocblas_create_handle"), 1);
        // A capture that is abandoned is over.
        let third = open();
        // SAFETY: a live handle.
        assert_eq!(unsafe { sys::crk_graph_begin(third.raw()) }, sys::crk_status::CRK_OK);
        drop(third);
        Controls::get().fail("hipStreamBeginCapture", 1, 2);
        // SAFETY: a live handle.
        assert_ne!(unsafe { sys::crk_graph_begin(device.raw()) }, sys::crk_status::CRK_OK);
        let third = open();
        plain(&third);
        assert_eq!((products(), library_handles()), (3, 2));
        drop((device, third));
        assert_eq!(library_handles(), 0);
    });
}

fn capture_among_others() {
    let device = open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| plain(&open())));
        }
        (0..50).for_each(|_| captured(&device, std::thread::yield_now));
    });
    drop(device);
    assert_eq!(library_handles(), 0);
}

#[test]
fn captures_in_one_thread_and_handles_in_others() {
    with_library("captures_in_one_thread_and_handles_in_others", capture_among_others);
}

#[test]
fn captures_in_one_thread_and_handles_of_both_libraries_in_others() {
    with_both("captures_in_one_thread_and_handles_of_both_libraries_in_others", capture_among_others);
}

#[test]
fn threads_take_turns_and_bind_the_device() {
    with_library("threads_take_turns_and_bind_the_device", || {
        let device = open();
        let before = products();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..10).for_each(|_| plain(&device)));
            }
        });
        assert_eq!(products(), before + 80);
    });
}

#[test]
fn a_capture_does_not_open_the_library() {
    with_library("a_capture_does_not_open_the_library", || {
        let device = open();
        let (a, dst) = (device.upload(&[1f32, 2.0, 3.0, 4.0]).expect("memory"), device.alloc(16).expect("memory"));
        let l = Layout::contiguous(&[2, 2]).expect("a layout");
        let mut graph = std::ptr::null_mut();
        // SAFETY: live arguments; so below.
        unsafe {
            assert_eq!(sys::crk_graph_begin(device.raw()), sys::crk_status::CRK_OK);
            assert_eq!(device.blas().expect("a name"), "own kernels");
            device.matmul(F32, (&l, &a), (&l, &a), &dst).expect("a product");
            assert_eq!(sys::crk_graph_end(device.raw(), &mut graph), sys::crk_status::CRK_OK);
            assert_eq!(products(), 0);
            assert_eq!(sys::crk_graph_launch(graph), sys::crk_status::CRK_OK);
            assert_eq!(dst.download::<f32>().expect("a copy"), [7.0, 10.0, 15.0, 22.0]);
            sys::crk_graph_destroy(graph);
        }
        assert_eq!(device.blas().expect("a name"), "rocBLAS");
        // Once the library is open, a capture asks it. This library refuses, and the capture continues.
        plain(&device);
        let before = products();
        // SAFETY: as above.
        unsafe {
            assert_eq!(sys::crk_graph_begin(device.raw()), sys::crk_status::CRK_OK);
            device.matmul(F32, (&l, &a), (&l, &a), &dst).expect("a product");
            assert_eq!(sys::crk_graph_end(device.raw(), &mut graph), sys::crk_status::CRK_OK);
            assert_eq!(products(), before + 1);
            a.write(&[1f32, 0.0, 0.0, 1.0]).expect("a copy");
            assert_eq!(sys::crk_graph_launch(graph), sys::crk_status::CRK_OK);
            assert_eq!(dst.download::<f32>().expect("a copy"), [1.0, 0.0, 0.0, 1.0]);
            sys::crk_graph_destroy(graph);
        }
    });
}

/// Without kernels for the architecture, rocBLAS would end the process.
#[test]
fn an_architecture_without_kernels_opens_no_handle() {
    let test = "an_architecture_without_kernels_opens_no_handle";
    alone(test, "gfx1030", 6, &[("CANDLE_ROCM_BLAS", &library())], || {
        let device = open();
        assert_eq!(device.blas().expect("a name"), "own kernels");
        plain(&device);
        assert_eq!(Controls::get().calls("rocblas_create_handle"), 0);
    });
}

/// Only the folder of kernels that rocBLAS's own variable names counts.
#[test]
fn the_folder_of_kernels_that_is_named() {
    let test = "the_folder_of_kernels_that_is_named";
    let (library, folder) = (library(), std::env::temp_dir().join(format!("rocblas-{}", std::process::id())));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("Kernels.so-000-gfx1030.hsaco"), b"").expect("a file");
    let named = folder.to_str().expect("a path in UTF-8").to_owned();
    let extra = [("CANDLE_ROCM_BLAS", library.as_str()), ("ROCBLAS_TENSILE_LIBPATH", named.as_str())];
    alone(test, "gfx1030", 6, &extra, || {
        assert_eq!(open().blas().expect("a name"), "rocBLAS");
        std::env::set_var("ROCBLAS_TENSILE_LIBPATH", "/nowhere");
        assert_eq!(open().blas().expect("a name"), "own kernels");
    });
    let _ = std::fs::remove_dir_all(folder);
}

fn no_library() {
    let device = open();
    assert_eq!(device.blas().expect("a name"), "own kernels");
    plain(&device);
}

fn own_kernels() {
    no_library();
    assert_eq!(products(), 0);
}

#[test]
fn a_library_that_is_not_there() {
    alone("a_library_that_is_not_there", "gfx1100", 6, &[("CANDLE_ROCM_BLAS", "/nowhere/librocblas.so")], own_kernels);
}

#[test]
fn turned_off() {
    alone("turned_off", "gfx1100", 6, &[("CANDLE_ROCM_BLAS", "0")], own_kernels);
}

#[test]
fn a_library_that_lacks_a_call() {
    let test = "a_library_that_lacks_a_call";
    if is_alone(test) {
        return no_library();
    }
    let calls = [
        "rocblas_create_handle",
        "rocblas_destroy_handle",
        "rocblas_set_stream",
        "rocblas_set_atomics_mode",
        "rocblas_set_workspace",
        GEMM,
    ];
    for call in calls {
        let library = library_without(&[call]);
        alone(test, "gfx1100", 6, &[("CANDLE_ROCM_BLAS", &library), ("CANDLE_ROCM_HIP_LIBRARY", &library)], no_library);
    }
}

/// A copy of the double contains a HIP runtime of its own. It does not know the streams of the first one.
#[test]
fn a_library_of_another_runtime() {
    let other = library_without(&["hipGraphLaunch"]);
    alone("a_library_of_another_runtime", "gfx1100", 6, &[("CANDLE_ROCM_BLAS", &other)], own_kernels);
}

/// Products on one GPU do not wait for a library's work on another.
#[test]
fn another_gpu_does_not_wait() {
    let extra = [("CANDLE_ROCM_BLAS", &*library()), ("HIP_DOUBLE_DEVICES", "2")];
    alone("another_gpu_does_not_wait", "gfx1100", 6, &extra, || {
        let (first, second) = (open(), Device::open(Backend::Hip, 1).expect("a device"));
        plain(&second);
        let (slow, late) = (std::sync::atomic::AtomicBool::new(true), second.new_stream().expect("a handle"));
        Controls::get().fail("rocblas_create_handle", 1, -3000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                plain(&first);
                slow.store(false, std::sync::atomic::Ordering::SeqCst);
            });
            while Controls::get().calls("rocblas_create_handle") < 2 {
                std::thread::yield_now();
            }
            plain(&second);
            plain(&late);
            assert!(slow.load(std::sync::atomic::Ordering::SeqCst), "products waited for the other GPU");
        });
        assert_eq!(products(), 4);
    });
}

/// With two devices: a thread's current device may differ from the device that the library must work on.
#[test]
fn two_devices() {
    let extra = [("CANDLE_ROCM_BLAS", &*library()), ("HIP_DOUBLE_DEVICES", "2")];
    alone("two_devices", "gfx1100", 6, &extra, || {
        let (first, second) = (open(), Device::open(Backend::Hip, 1).expect("a device"));
        for _ in 0..3 {
            plain(&first);
            plain(&second);
        }
        assert_eq!(products(), 6);
        drop(first);
        plain(&second);
    });
}
