//! The choice between a machine's libraries (csrc/os/library.c). The tests make folder trees as ROCm's packages do,
//! with small libraries in them.
#![cfg(all(target_os = "linux", feature = "cpu"))]
use candle_rocm_sys::{Backend, Device, Status, sys};
use candle_rocm_sys_tests::support::paths::SCRATCH;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use candle_rocm_sys_tests::support::hip_double;
use hip_double::double::{self, is_alone};

extern "C" {
    fn crk_priv_library_version(stem: *const c_char, file: *const c_char, windows: bool) -> i64;
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
}

fn version(stem: &str, file: &str, windows: bool) -> i64 {
    let [stem, file] = [stem, file].map(|text| CString::new(text).expect("no NUL"));
    // SAFETY: NUL-terminated texts.
    unsafe { crk_priv_library_version(stem.as_ptr(), file.as_ptr(), windows) }
}

#[test]
fn versions_are_read_from_names() {
    for (stem, file, expected) in [
        ("amdhip64", "libamdhip64.so.5", 5),
        ("amdhip64", "libamdhip64.so.8", 8),
        ("amdhip64", "libamdhip64.so.12", 12),
        ("amdhip64", "libamdhip64.so.7.2.70200", 7),
        ("amdhip64", "libamdhip64.so", 0),
        ("rocblas", "librocblas.so.0", 0),
        ("nvrtc", "libnvrtc.so.11.2", 11),
        ("hiprtc", "libhiprtc-builtins.so.7", -1),
        ("amdhip64", "libamdhip64.a", -1),
        ("amdhip64", "libamdhip64.so.", -1),
        ("amdhip64", "libamdhip64.so.7.debug", -1),
        ("amdhip64", "libamdhip64-without-hipFree.so", -1),
        ("nvrtc", "libnvrtc-builtins.so.13.0", -1),
        ("amdhip64", "amdhip64_7.dll", -1),
        ("amdhip64", "", -1),
    ] {
        assert_eq!(version(stem, file, false), expected, "{file}");
    }
    for (stem, file, expected) in [
        ("amdhip64", "amdhip64.dll", 0),
        ("amdhip64", "amdhip64_6.dll", 6),
        ("amdhip64", "AMDHIP64_7.DLL", 7),
        ("hiprtc", "hiprtc0507.dll", 5007),
        ("hiprtc", "hiprtc0604.dll", 6004),
        ("hiprtc", "hiprtc07013.dll", 7013),
        ("hiprtc", "hiprtc0714.dll", 7014),
        ("hiprtc", "hiprtc1000.dll", 10000),
        ("hiprtc", "hiprtc-builtins0714.dll", -1),
        ("rocblas", "rocblas.dll", 0),
        ("hipblaslt", "libhipblaslt.dll", 0),
        ("hipblaslt", "hipblaslt.dll", 0),
        ("hipblas", "hipblaslt.dll", -1),
        ("nvrtc", "nvrtc64_130_0.dll", 130),
        ("nvrtc", "nvrtc64_130_0.alt.dll", -1),
        ("cublas", "cublas64_13.dll", 13),
        ("cublas", "cublasLt64_13.dll", -1),
        ("amdhip64", "amdhip64_7.dll.old", -1),
        ("amdhip64", "libamdhip64.so.7", -1),
    ] {
        assert_eq!(version(stem, file, true), expected, "{file}");
    }
}

// ---- trees

/// A folder for the test. The test's own process finds it filled.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(SCRATCH).join("library").join(test);
    if std::env::var_os(EXPECTED).is_none() {
        let _ = std::fs::remove_dir_all(&folder);
    }
    folder
}

fn place(folder: &Path, path: &str) -> PathBuf {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    path
}

fn link(folder: &Path, path: &str, target: &str) {
    std::os::unix::fs::symlink(target, place(folder, path)).expect("a link");
}

/// Builds a runtime with this number of devices, and copies it to several places.
fn runtimes(folder: &Path, count: u32, paths: &[&str]) {
    let mut calls = hip_double::calls_in("CRK_HIP_REQUIRED_MAP");
    calls.retain(|call| call != "hipGetDeviceCount");
    calls.push("hipGetDevicePropertiesR0600".into());
    let list = calls.iter().map(|call| format!("XX({call})")).collect::<String>();
    for path in paths {
        let flags = [format!("-DCALLS(XX)={list}"), format!("-DCOUNT={count}")];
        double::compile("runtime_double.c", &flags.each_ref().map(String::as_str), place(folder, path));
    }
}

/// The variables that a search reads. Those that a test does not set are empty.
const VARIABLES: [&str; 6] = [
    "CANDLE_ROCM_HIP_LIBRARY",
    "CANDLE_ROCM_HIPRTC_LIBRARY",
    "CANDLE_ROCM_BLAS",
    "ROCM_PATH",
    "HIP_PATH",
    "LD_LIBRARY_PATH",
];
/// The result that the test's own process expects.
const EXPECTED: &str = "CANDLE_ROCM_TEST_EXPECTED";

/// Runs `body` in a process of its own with only these variables.
fn search(test: &str, variables: &[(&str, String)], expected: &str, body: fn()) {
    let mut all: HashMap<&str, &str> = VARIABLES.map(|name| (name, "")).into();
    all.extend(variables.iter().map(|(name, value)| (*name, value.as_str())));
    all.insert(EXPECTED, expected);
    double::alone(test, &all.into_iter().collect::<Vec<_>>(), body);
}

fn count() -> i32 {
    let mut count = -1;
    // SAFETY: `count` is written.
    let status = unsafe { sys::crk_device_count(Backend::Hip, &mut count) };
    assert_eq!(status, Status::Ok);
    count
}

fn counts_as_expected() {
    assert_eq!(count().to_string(), std::env::var(EXPECTED).expect("a count"));
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().to_str().expect("UTF-8").to_owned()
}

#[test]
fn the_runtime_of_every_version_of_rocm() {
    let test = "the_runtime_of_every_version_of_rocm";
    if is_alone(test) {
        return counts_as_expected();
    }
    let folder = folder(test);
    runtimes(&folder, 5, &["rocm-5.2/lib/libamdhip64.so.5"]);
    runtimes(&folder, 6, &["rocm-6/lib/libamdhip64.so.6.4.60401", "lib64/lib64/libamdhip64.so.6"]);
    link(&folder, "rocm-6/lib/libamdhip64.so.6", "libamdhip64.so.6.4.60401");
    link(&folder, "rocm-6/lib/libamdhip64.so", "libamdhip64.so.6");
    runtimes(&folder, 7, &["rocm-7/lib/libamdhip64.so.7", "rocm-10/core-7.14/lib/libamdhip64.so.7"]);
    runtimes(&folder, 8, &["rocm-10/core-10.0/lib/libamdhip64.so.8", "rocm-11/core-10.0/lib/libamdhip64.so.8"]);
    link(&folder, "rocm-10/core", "core-10.0");
    runtimes(&folder, 9, &["rocm-11/core-11.0/lib/libamdhip64.so.9"]);
    runtimes(&folder, 99, &["rocm-11/extras-11/lib/libamdhip64.so.12"]); // no core
    // A version with two digits beside an older one, a link for compilers, and files that are no such library.
    runtimes(&folder, 12, &["rocm-12/lib/libamdhip64.so.12"]);
    runtimes(&folder, 4, &["rocm-12/lib/libamdhip64.so.9", "rocm-12/lib/libamdhip64.so"]);
    std::fs::write(place(&folder, "rocm-12/lib/libamdhip64.so.13"), "no library").expect("a file");
    std::fs::write(place(&folder, "rocm-12/lib/libamdhip64.so.99.debug"), "no library").expect("a file");
    let root = |name: &str| text(folder.join(name));
    for (tree, expected) in
        [("rocm-5.2", 5), ("rocm-6", 6), ("lib64", 6), ("rocm-7", 7), ("rocm-10", 8), ("rocm-11", 9), ("rocm-12", 12)]
    {
        for variable in ["ROCM_PATH", "HIP_PATH"] {
            search(test, &[(variable, root(tree))], &expected.to_string(), counts_as_expected);
        }
    }
    search(test, &[("ROCM_PATH", root("rocm-10/core-7.14"))], "7", counts_as_expected);
    // ROCM_PATH comes before HIP_PATH, and HIP_PATH before LD_LIBRARY_PATH, whatever the versions. A root without a
    // runtime is skipped.
    let [five, six, seven] = ["rocm-5.2", "rocm-6", "rocm-7"].map(root);
    let path = format!("{six}/lib:{seven}/lib");
    search(test, &[("ROCM_PATH", five.clone()), ("HIP_PATH", seven.clone())], "5", counts_as_expected);
    search(test, &[("HIP_PATH", five), ("LD_LIBRARY_PATH", path.clone())], "5", counts_as_expected);
    search(test, &[("ROCM_PATH", root("nowhere")), ("LD_LIBRARY_PATH", path)], "6", counts_as_expected);
    // A file that is named comes first.
    let named = root("rocm-7/lib/libamdhip64.so.7");
    search(test, &[("CANDLE_ROCM_HIP_LIBRARY", named), ("ROCM_PATH", six)], "7", counts_as_expected);
}

fn open_at(path: &str) {
    let path = CString::new(path).expect("no NUL");
    // SAFETY: a NUL-terminated path; 2 is RTLD_NOW.
    assert!(!unsafe { dlopen(path.as_ptr(), 2) }.is_null(), "{path:?} cannot be opened");
}

/// Another library of the process may have loaded a runtime, from any folder.
#[test]
fn the_runtime_that_the_process_has_already() {
    let test = "the_runtime_that_the_process_has_already";
    let folder = folder(test);
    let loaded = text(folder.join("wheel/_rocm_sdk_core/lib/libamdhip64.so.6"));
    if !is_alone(test) {
        runtimes(&folder, 6, &["wheel/_rocm_sdk_core/lib/libamdhip64.so.6"]);
        runtimes(&folder, 8, &["rocm/core-10.0/lib/libamdhip64.so.8"]);
    }
    search(test, &[("ROCM_PATH", text(folder.join("rocm"))), ("LOADED", loaded)], "6", || {
        open_at(&std::env::var("LOADED").expect("a path"));
        counts_as_expected();
    });
}

fn is_open(name: &str) -> bool {
    std::fs::read_to_string("/proc/self/maps").expect("the maps").contains(name)
}

/// hipRTC, rocBLAS and hipBLASLt come from the folder of the runtime in use, not from a later installation.
#[test]
fn the_other_libraries_come_from_beside_the_runtime() {
    let test = "the_other_libraries_come_from_beside_the_runtime";
    let folder = folder(test);
    if !is_alone(test) {
        let double = hip_double::build();
        for library in ["libamdhip64.so.8", "librocblas.so.6", "libhipblaslt.so.2"] {
            std::fs::hard_link(&double, place(&folder, &format!("rocm/core-10.0/lib/{library}"))).expect("a link");
        }
        for kernels in ["rocblas/library/Kernels_gfx942.dat", "hipblaslt/library/gfx942/Tensile.dat"] {
            std::fs::write(place(&folder, &format!("rocm/core-10.0/lib/{kernels}")), "").expect("a file");
        }
        for library in ["rocm/core-10.0/lib/libhiprtc.so.9", "decoys/lib/libhiprtc.so.99"] {
            double::compile("rtc_double.c", &[], place(&folder, library));
        }
        for library in ["libamdhip64.so.99", "librocblas.so.99", "libhipblaslt.so.99"] {
            let path = place(&folder, &format!("decoys/lib/{library}"));
            double::compile("runtime_double.c", &["-DCALLS(XX)=", "-DCOUNT=0"], path);
        }
    }
    let mut variables: Vec<_> = hip_double::environment("gfx942", 7);
    variables.retain(|(name, _)| !["CANDLE_ROCM_HIPRTC_LIBRARY", "CANDLE_ROCM_BLAS"].contains(name));
    variables.push(("CANDLE_ROCM_HIP_LIBRARY", text(folder.join("rocm/core-10.0/lib/libamdhip64.so.8"))));
    variables.push(("ROCM_PATH", text(folder.join("decoys"))));
    variables.push(("LD_LIBRARY_PATH", text(folder.join("decoys/lib"))));
    search(test, &variables, "", || {
        let device = Device::open(Backend::Hip, 0).expect("the double opens");
        assert_eq!(device.blas().expect("a name"), "hipBLASLt");
        let error = device.compile_module("mine", "#error", &[]).expect_err("it does not compile");
        assert_eq!(error.status(), Status::InvalidImage, "{error}");
        assert!(is_open("core-10.0/lib/libhiprtc.so.9"));
        assert!(!is_open("/decoys/"), "another installation's library was opened");
    });
}

/// The error names the file that exists and cannot be used, not names without a file. This works in every language.
#[test]
fn why_a_library_cannot_be_used() {
    let test = "why_a_library_cannot_be_used";
    let folder = folder(test);
    if !is_alone(test) {
        std::fs::write(place(&folder, "rocm/lib/libhiprtc.so.8"), "no library").expect("a file");
    }
    let mut variables = hip_double::environment("gfx942", 7);
    variables.retain(|(name, _)| *name != "CANDLE_ROCM_HIPRTC_LIBRARY");
    variables.push(("ROCM_PATH", text(folder.join("rocm"))));
    search(test, &variables, "", || {
        let device = Device::open(Backend::Hip, 0).expect("the double opens");
        let Err(error) = device.compile_module("mine", "#error", &[]) else { panic!("it does not compile") };
        if error.status() != Status::InvalidImage {
            // This machine has no hipRTC.
            assert_eq!(error.status(), Status::NoRuntime, "{error}");
            assert!(error.message().contains("/rocm/lib/libhiprtc.so.8"), "{error}");
        }
    });
}
