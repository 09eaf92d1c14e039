//! Source compiled at run time, with doubles of libhiprtc and libnvrtc (tests/double/rtc_double.c) beside those of the
//! runtimes. The tests check the compilers' arguments and messages, and that nothing leaks.
#![cfg(all(target_os = "linux", feature = "cpu"))]
use candle_rocm_sys::{Arg, Backend, Device, Launch, Status, sys};
use candle_rocm_sys_tests::support::paths::SCRATCH;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::time::{Duration, Instant};

use candle_rocm_sys_tests::support::hip_double;
use hip_double::double::{compile, is_alone};

const MI250: &str = "gfx90a:sramecc+:xnack-";
const HIP: &str = "CANDLE_ROCM_HIP_LIBRARY";
const HIPRTC: &str = "CANDLE_ROCM_HIPRTC_LIBRARY";
const NVRTC: &str = "CANDLE_ROCM_NVRTC_LIBRARY";

/// A folder for a test's doubles.
fn folder(test: &str) -> String {
    let folder = Path::new(SCRATCH).join("rtc").join(test);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder.into_os_string().into_string().expect("a path in UTF-8")
}

/// Builds a double from tests/double in the test's folder. The test's own process finds it there.
fn double(test: &str, source: &str, library: &str, flags: &[&str]) -> String {
    let library = format!("{}/{library}", folder(test));
    if !is_alone(test) {
        compile(source, flags, &library);
    }
    library
}

/// Runs `body` in a process of its own, which has not opened a compiler yet.
fn alone(test: &str, environment: &[(&str, &str)], body: fn()) {
    let environment = [&[(HIPRTC, ""), (NVRTC, "")], environment].concat();
    hip_double::alone(test, MI250, 6, &environment, body);
}

/// The same, with the plain double of libhiprtc.
fn with_hiprtc(test: &str, body: fn()) {
    alone(test, &[(HIPRTC, &double(test, "rtc_double.c", "libhiprtc.so", &[]))], body);
}

fn open() -> Device {
    Device::open(Backend::Hip, 0).expect("the double opens")
}

#[track_caller]
fn refused(result: candle_rocm_sys::Result<()>, status: Status, words: &[&str]) -> String {
    let error = result.expect_err("must fail");
    assert_eq!(error.status(), status, "{error}");
    assert!(error.message().starts_with("crk_module_compile"), "{error}");
    for word in words {
        assert!(error.message().contains(word), "'{word}' is not in: {error}");
    }
    error.message().to_owned()
}

/// The functions that the double exports for tests.
struct Controls(*mut c_void);

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

// SAFETY: the handle of a library that is never closed; its functions take a lock.
unsafe impl Sync for Controls {}

impl Controls {
    fn of(variable: &str) -> Controls {
        let path = CString::new(std::env::var(variable).expect("the double's path")).expect("no NUL in a path");
        // SAFETY: a NUL-terminated path; 2 is RTLD_NOW.
        let library = unsafe { dlopen(path.as_ptr(), 2) };
        assert!(!library.is_null(), "{path:?} cannot be opened");
        Controls(library)
    }

    fn number(&self, name: &CStr) -> c_int {
        // SAFETY: the library is open, and the function of this type.
        unsafe {
            let symbol = dlsym(self.0, name.as_ptr());
            assert!(!symbol.is_null(), "the double has no {name:?}");
            let function: extern "C" fn() -> c_int = std::mem::transmute(symbol);
            function()
        }
    }

    fn text(&self, name: &CStr) -> String {
        // SAFETY: as above; a NUL-terminated text.
        unsafe {
            let symbol = dlsym(self.0, name.as_ptr());
            assert!(!symbol.is_null(), "the double has no {name:?}");
            let function: extern "C" fn() -> *const c_char = std::mem::transmute(symbol);
            CStr::from_ptr(function()).to_string_lossy().into_owned()
        }
    }

    fn alive(&self) -> c_int {
        self.number(c"rtc_double_alive")
    }
}

/// Checks that a compiled module's kernel gives the right result.
fn works(device: &Device, module: &str) {
    let function = device.function_named(module, "uneg_f32").expect("the kernel");
    let values: Vec<f32> = (0..1000).map(|i| i as f32 - 17.0).collect();
    let (src, dst) = (device.upload(&values).expect("memory"), device.alloc(4000).expect("memory"));
    let args = [1000usize.into(), 1usize.into(), Arg::ptr(std::ptr::null()), (&src).into(), (&dst).into()];
    // SAFETY: the kernel's arguments; the buffers hold as many elements.
    unsafe { function.launch(Launch::for_num_elems(1000), &args) }.expect("it runs");
    assert!(values.iter().zip(dst.download::<f32>().expect("a copy")).all(|(a, b)| -a == b));
}

#[test]
fn source_is_compiled_loaded_and_run() {
    with_hiprtc("source_is_compiled_loaded_and_run", || {
        let (device, controls) = (open(), Controls::of(HIPRTC));
        device.compile_module("mine", "kernels unary", &["-O3", "-DN=4"]).expect("it compiles");
        assert_eq!(controls.text(c"rtc_double_options"), "-O3\n-DN=4\n--offload-arch=gfx90a\n");
        assert_eq!(controls.text(c"rtc_double_name"), "mine.hip");
        works(&device, "mine");
        assert!(device.function_named("mine", "no_such_kernel").is_err());
        // Another handle of the device has it too.
        works(&device.new_stream().expect("a handle"), "mine");
        // The architecture of an option is kept.
        for (module, option) in [("xnack", "--offload-arch=gfx90a:xnack-"), ("old", "--gpu-architecture=gfx90a")] {
            device.compile_module(module, "kernels unary", &[option]).expect("it compiles");
            assert_eq!(controls.text(c"rtc_double_options"), format!("{option}\n"));
            works(&device, module);
        }
        // Code for another GPU is refused before the compiler is called: hipRTC may crash on an unknown architecture.
        for option in ["--offload-arch=gfx1100", "--offload-arch=gfx90", "--offload-arch=gfx90c:xnack-"] {
            let other = device.compile_module("other", "kernels unary", &[option]);
            refused(other, Status::WrongArchitecture, &[option, "gfx90a"]);
        }
        let taken = device.compile_module("mine", "kernels unary", &[]);
        refused(taken, Status::InvalidArgument, &["'mine' was loaded before"]);
        // Refused before anything is compiled.
        assert_eq!(controls.text(c"rtc_double_options"), "--gpu-architecture=gfx90a\n");
        let own = device.compile_module("affine", "kernels unary", &[]);
        refused(own, Status::InvalidArgument, &["'affine' is one of this library's own"]);
        let nul = device.compile_module("nul", "kernels\0unary", &[]).expect_err("must fail");
        assert_eq!((nul.status(), nul.message().contains("NUL")), (Status::InvalidArgument, true));
        assert_eq!(controls.alive(), 0);
    });
}

#[test]
fn cuda_source_is_compiled_with_the_port() {
    with_hiprtc("cuda_source_is_compiled_with_the_port", || {
        let (device, controls) = (open(), Controls::of(HIPRTC));
        device.compile_cuda_module("ported", "kernels unary", &["-O3"]).expect("it compiles");
        works(&device, "ported");
        assert_eq!(controls.text(c"rtc_double_options"), "-std=c++17\n-O3\n--offload-arch=gfx90a\n");
        assert_eq!(controls.text(c"rtc_double_name"), "ported.cu");
        let source = "#include \"cuda_port/detail/port.h\"\n#line 1 \"ported.cu\"\nkernels unary";
        assert_eq!(controls.text(c"rtc_double_source"), source);
        let headers = controls.text(c"rtc_double_headers");
        for name in [
            "cuda_port/detail/port.h",
            "cuda_fp16.h",
            "cuda_bf16.h",
            "cooperative_groups/reduce.h",
            "cstdint",
            "math.h",
        ] {
            assert!(headers.lines().any(|line| line.starts_with(&format!("{name} "))), "{name} is not in:\n{headers}");
        }
        // Each is the whole file.
        let fp16 = std::fs::metadata(concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/cuda_port/cuda_fp16.h"));
        let line = format!("cuda_fp16.h {}", fp16.expect("the file").len());
        assert!(headers.lines().any(|other| other == line), "{line} is not in:\n{headers}");
        // HIP source is compiled as it is.
        device.compile_module("plain", "kernels unary", &[]).expect("it compiles");
        assert_eq!((controls.text(c"rtc_double_headers"), controls.text(c"rtc_double_source")), {
            (String::new(), "kernels unary".to_owned())
        });
        assert_eq!(controls.alive(), 0);
    });
}

#[test]
fn what_is_no_cuda_source_is_refused_with_its_line() {
    with_hiprtc("what_is_no_cuda_source_is_refused_with_its_line", || {
        let device = open();
        let ptx = "//\n// Generated by NVIDIA NVVM Compiler\n\n  .version 8.0\n.target sm_52\n";
        let words = ["crk_module_compile", "ptx.cu:4: '.version 8.0'", "the text of the .cu file"];
        refused(device.compile_cuda_module("ptx", ptx, &[]), Status::InvalidImage, &words);
        let words = ["crk_module_compile_cuda: module is a name of 0 bytes"];
        refused(device.compile_cuda_module("", "kernels unary", &[]), Status::InvalidArgument, &words);
        let words = ["'broken'", "broken.cu:", "error: something is wrong here"];
        refused(device.compile_cuda_module("broken", "#error", &[]), Status::InvalidImage, &words);
        // A comment that only names the word is source.
        device.compile_cuda_module("mine", "// .version 8.0\nkernels unary", &[]).expect("it compiles");
        works(&device, "mine");
    });
}

#[test]
fn the_compilers_log_is_told() {
    with_hiprtc("the_compilers_log_is_told", || {
        let (device, controls) = (open(), Controls::of(HIPRTC));
        let compile = |source: &str, options: &[&str]| device.compile_module("mine", source, options);
        let words = ["'mine'", "hipRTC", "gfx90a", "mine.hip:2:1: error: something is wrong here"];
        let sentence = refused(compile("kernels unary #error", &[]), Status::InvalidImage, &words);
        assert!(sentence.ends_with("something is wrong here"), "{sentence:?}");
        // The message begins with the first error, however many warnings come before, and is as long as there is room.
        let long = format!("{} #error {} #error", "warning ".repeat(300), "warning ".repeat(300));
        let sentence = refused(compile(&long, &[]), Status::InvalidImage, &["mine.hip:301:1: error: something"]);
        assert!(sentence.contains("mine.hip:305:1: warning") && !sentence.contains("mine.hip:300:1"), "{sentence:?}");
        assert!((900..1024).contains(&sentence.len()), "{} bytes", sentence.len());
        refused(compile("kernels nothing", &[]), Status::InvalidImage, &["it has no log"]);
        refused(compile("nothing at all", &[]), Status::InvalidImage, &["no code of module 'mine'"]);
        let option = compile("kernels unary", &["--no-such-option"]);
        refused(option, Status::InvalidArgument, &["options", "something is wrong here"]);
        // A warning does not prevent running, and the name is still free.
        compile("warning kernels unary", &[]).expect("it compiles");
        works(&device, "mine");
        assert_eq!(controls.alive(), 0);
    });
}

#[test]
fn every_call_that_fails_is_told_and_nothing_is_lost() {
    with_hiprtc("every_call_that_fails_is_told_and_nothing_is_lost", || {
        let (device, controls) = (open(), Controls::of(HIPRTC));
        let calls = ["CreateProgram", "CompileProgram", "GetCodeSize", "GetCode", "DestroyProgram"];
        for call in calls.map(|call| format!("hiprtc{call}")) {
            for (code, status, name) in [
                (11, Status::Device, "RTC_ERROR_INTERNAL_ERROR"),
                (1, Status::OutOfMemory, "RTC_ERROR"),
                (999, Status::Device, "no name"),
            ] {
                std::env::set_var("RTC_DOUBLE_FAIL", format!("{call}={code}"));
                let sentence = format!("{call} answers {code} ({name})");
                let result = device.compile_module("mine", "kernels unary", &[]);
                assert_eq!(result.as_ref().map_err(|error| error.device_code()).err(), {
                    Some(if status == Status::Device { code } else { 0 })
                });
                refused(result, status, &[&sentence]);
                assert_eq!(controls.alive(), 0, "{call}");
            }
        }
        // Without a log, there is still a message.
        for call in ["hiprtcGetProgramLogSize", "hiprtcGetProgramLog"] {
            std::env::set_var("RTC_DOUBLE_FAIL", format!("{call}=11"));
            let result = device.compile_module("mine", "#error", &[]);
            refused(result, Status::InvalidImage, &["'mine'", "it has no log"]);
        }
        std::env::set_var("RTC_DOUBLE_FAIL", "");
        device.compile_module("mine", "kernels unary", &[]).expect("it compiles");
        works(&device, "mine");
        assert_eq!(controls.alive(), 0);
    });
}

#[test]
fn a_library_that_is_not_there_is_named() {
    let test = "a_library_that_is_not_there_is_named";
    let library = double(test, "rtc_double.c", "libhiprtc.so", &[]);
    alone(test, &[(HIPRTC, "/nowhere/libhiprtc.so"), ("THE_DOUBLE", &library)], || {
        let device = open();
        for _ in 0..2 {
            let result = device.compile_module("mine", "kernels unary", &[]);
            refused(result, Status::NoRuntime, &[HIPRTC, "/nowhere/libhiprtc.so"]);
        }
        // The next attempt finds it.
        std::env::set_var(HIPRTC, std::env::var("THE_DOUBLE").expect("the double"));
        device.compile_module("mine", "kernels unary", &[]).expect("it is there now");
        works(&device, "mine");
    });
}

#[test]
fn without_any_library_every_place_is_told() {
    alone("without_any_library_every_place_is_told", &[], || {
        let device = open();
        let Err(error) = device.compile_module("mine", "kernels unary", &[]) else { return };
        if error.status() == Status::NoRuntime {
            let places = ["libhiprtc.so", "beside the runtime", "ROCM_PATH", "/opt/rocm*", "there is none"];
            for word in places.into_iter().chain([HIPRTC, "LD_LIBRARY_PATH", "crk_module_load"]) {
                assert!(error.message().contains(word), "'{word}' is not in: {error}");
            }
        }
    });
}

/// Useless libraries under hipRTC's names, and another runtime that could compile. None of them may be used.
fn decoys(test: &str) {
    for name in ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"] {
        double(test, "rtc_double.c", name, &["-DWITHOUT_CODE"]);
    }
    for name in ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"] {
        double(test, "rtc_double.c", name, &[]);
    }
}

fn is_open(name: &str) -> bool {
    std::fs::read_to_string("/proc/self/maps").expect("the maps").contains(name)
}

/// Up to HIP 5 the runtime itself has the compiler's calls. The runtime of the device must be used, not another one by
/// its usual name.
#[test]
fn the_runtime_that_the_driver_opened_compiles() {
    let test = "the_runtime_that_the_driver_opened_compiles";
    decoys(test);
    // The library links the double of libamdhip64, so it has the calls of both.
    let double_of_hip = hip_double::build();
    let (hip, place) = (double_of_hip.to_str().expect("UTF-8"), double_of_hip.parent().expect("a folder").display());
    let search = format!("-Wl,--no-as-needed,-rpath,{place}");
    let runtime = double(test, "rtc_double.c", "runtime.so", &[&search, hip]);
    alone(test, &[("LD_LIBRARY_PATH", &folder(test)), (HIP, &runtime)], || {
        let device = open();
        device.compile_module("mine", "kernels unary", &[]).expect("the runtime has the calls");
        assert_eq!(Controls::of(HIP).text(c"rtc_double_name"), "mine.hip");
        works(&device, "mine");
        assert!(is_open("/runtime.so") && !is_open("/libamdhip64.so."), "another runtime was opened");
    });
}

#[test]
fn another_runtime_is_not_opened_to_compile() {
    let test = "another_runtime_is_not_opened_to_compile";
    decoys(test);
    alone(test, &[("LD_LIBRARY_PATH", &folder(test))], || {
        // ROCm's own folder may contain a compiler.
        if let Err(error) = open().compile_module("mine", "kernels unary", &[]) {
            let path = format!("{}/libhiprtc.so.7", folder("another_runtime_is_not_opened_to_compile"));
            let words = ["beside the runtime", &format!("hiprtcGetCodeSize is missing in {path}")];
            refused(Err(error), Status::NoRuntime, &words);
        }
        assert!(!is_open("/libamdhip64.so."), "another runtime was opened");
    });
}

#[test]
fn a_call_that_is_missing_is_named() {
    let test = "a_call_that_is_missing_is_named";
    let library = double(test, "rtc_double.c", "libhiprtc.so", &["-DWITHOUT_CODE"]);
    alone(test, &[(HIPRTC, &library)], || {
        let result = open().compile_module("mine", "kernels unary", &[]);
        refused(result, Status::NoRuntime, &["hiprtcGetCodeSize is missing", "libhiprtc.so"]);
    });
}

/// Waits for a condition, at most one minute.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} never happens");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// While a compiler works, the device is usable: no lock is held. If several compilations have one name, the first to
/// finish gets it.
#[test]
fn others_go_on_while_source_is_compiled() {
    with_hiprtc("others_go_on_while_source_is_compiled", || {
        let (device, controls) = (open(), Controls::of(HIPRTC));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|i| {
                    let device = device.clone();
                    let name = if i < 3 { "same" } else { "another" };
                    scope.spawn(move || device.compile_module(name, "wait kernels unary", &[]))
                })
                .collect();
            until("that all compile at once", || controls.number(c"rtc_double_waiting") == 4);
            device.compile_module("mine", "kernels unary", &[]).expect("it compiles");
            works(&device, "mine");
            assert!(device.function_named("same", "uneg_f32").is_err());
            controls.number(c"rtc_double_go");
            let mut results: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("a thread")).collect();
            results.pop().expect("the last").expect("nobody else has its name");
            let (good, bad): (Vec<_>, Vec<_>) = results.into_iter().partition(|result| result.is_ok());
            assert_eq!((good.len(), bad.len()), (1, 2));
            for result in bad {
                refused(result, Status::InvalidArgument, &["'same' was loaded before"]);
            }
        });
        works(&device, "same");
        works(&device, "another");
        assert_eq!(controls.alive(), 0);
    });
}

#[test]
fn a_capture_and_the_cpu_refuse() {
    with_hiprtc("a_capture_and_the_cpu_refuse", || {
        let device = open();
        let mut graph = std::ptr::null_mut();
        // SAFETY: live arguments.
        unsafe {
            assert_eq!(sys::crk_graph_begin(device.raw()), Status::Ok);
            refused(device.compile_module("mine", "kernels unary", &[]), Status::Capture, &[]);
            assert_eq!(sys::crk_graph_end(device.raw(), &mut graph), Status::Ok);
            sys::crk_graph_destroy(graph);
        }
        device.compile_module("mine", "kernels unary", &[]).expect("it compiles");
        let cpu = Device::open(Backend::Cpu, 0).expect("the CPU");
        let words = ["has no compiler at run time", "'mine'", "crk_module_load"];
        refused(cpu.compile_module("mine", "kernels unary", &[]), Status::Unsupported, &words);
        let words = ["no compiler for the CUDA source of module 'mine'", "run it on a GPU", "crk_module_load"];
        refused(cpu.compile_cuda_module("mine", "kernels unary", &[]), Status::Unsupported, &words);
    });
}

#[test]
fn nvrtc_compiles_for_nvidia() {
    let test = "nvrtc_compiles_for_nvidia";
    let cuda = double(test, "cuda_double.c", "libcuda.so.1", &[]);
    let library = double(test, "rtc_double.c", "libnvrtc.so", &["-DNVRTC"]);
    alone(test, &[(NVRTC, &library), ("CANDLE_ROCM_CUDA_LIBRARY", &cuda)], || {
        let device = Device::open(Backend::Cuda, 0).expect("the double opens");
        let controls = Controls::of(NVRTC);
        device.compile_module("mine", "kernels copy", &["-lineinfo"]).expect("it compiles");
        assert_eq!(controls.text(c"rtc_double_options"), "-lineinfo\n--gpu-architecture=sm_90\n");
        assert_eq!(controls.text(c"rtc_double_name"), "mine.cu");
        device.function_named("mine", "copy").expect("the kernel");
        // CUDA's compiler needs no port.
        device.compile_cuda_module("cuda", "kernels copy", &[]).expect("it compiles");
        assert_eq!(controls.text(c"rtc_double_options"), "--gpu-architecture=sm_90\n");
        assert_eq!(controls.text(c"rtc_double_headers"), "");
        device.compile_module("short", "kernels copy", &["-arch=sm_90"]).expect("it compiles");
        assert_eq!(controls.text(c"rtc_double_options"), "-arch=sm_90\n");
        let words = ["NVRTC for sm_90", "two.cu:1:1: error"];
        refused(device.compile_module("two", "#error", &[]), Status::InvalidImage, &words);
        std::env::set_var("RTC_DOUBLE_FAIL", "nvrtcGetCUBINSize=7");
        let words = ["nvrtcGetCUBINSize answers 7"];
        refused(device.compile_module("two", "kernels copy", &[]), Status::Device, &words);
        assert_eq!(controls.alive(), 0);
    });
}

#[test]
fn nvrtc_that_is_not_there_is_named() {
    let test = "nvrtc_that_is_not_there_is_named";
    let cuda = double(test, "cuda_double.c", "libcuda.so.1", &[]);
    alone(test, &[("CANDLE_ROCM_CUDA_LIBRARY", &cuda), (NVRTC, "/nowhere/libnvrtc.so")], || {
        let device = Device::open(Backend::Cuda, 0).expect("the double opens");
        let result = device.compile_module("mine", "kernels copy", &[]);
        refused(result, Status::NoRuntime, &[NVRTC, "/nowhere/libnvrtc.so"]);
        std::env::set_var(NVRTC, "");
        let Err(error) = device.compile_module("mine", "kernels copy", &[]) else { return };
        if error.status() == Status::NoRuntime {
            for word in ["libnvrtc.so", "CUDA_HOME", "/usr/local/cuda*", "CUDA's NVRTC"] {
                assert!(error.message().contains(word), "'{word}' is not in: {error}");
            }
        }
    });
}
