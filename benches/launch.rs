//! The host's cost of a launcher beyond the driver's own launch. It is the time of a call in nanoseconds, less that of
//! the launch alone. The driver is the test double of libamdhip64, with a launch that returns at once.
//!
//! `cargo bench -p candle-rocm --bench launch [-- --check]`; with `--check` a missed goal fails the program. Linux
//! only.
#[cfg(not(target_os = "linux"))]
fn main() {
    println!("skipped: the test double of libamdhip64 is for Linux");
}

#[cfg(target_os = "linux")]
const HELP: &str = "\
Times the launchers on the host, without the launch itself.

usage: cargo bench -p candle-rocm --bench launch -- [--check]

  --check  a missed goal of docs/benchmarks.md fails the run
  --help   this text
";

/// Whether `--check` is given; None after the help.
#[cfg(target_os = "linux")]
fn check() -> Result<Option<bool>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut check = false;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("bench") => {} // cargo's
            Long("check") => check = true,
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(None);
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(check))
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    match check() {
        Ok(Some(check)) => linux::run(check),
        Ok(None) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            std::process::ExitCode::from(2)
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use candle_rocm::measure::Time;
    use candle_rocm_sys::{Backend, Buffer, DType, Device, Layout, Result, Status, sys};
    use candle_rocm_sys_tests::support::hip_double;
    use std::ffi::{c_char, c_int, c_uint, c_void};
    use std::hint::black_box;
    use std::process::ExitCode;
    use std::time::Instant;

    /// The goals of docs/benchmarks.md in nanoseconds.
    const CONTIGUOUS: f64 = 100.0;
    const STRIDED: f64 = 250.0;

    const SAMPLES: usize = 501;
    const CALLS: usize = 1000;

    /// The time of one call in nanoseconds: median, tenth and ninetieth percentile of the samples.
    fn time(mut call: impl FnMut()) -> [f64; 3] {
        let samples = (0..SAMPLES)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..CALLS {
                    call();
                }
                start.elapsed().as_secs_f64() * 1e9 / CALLS as f64
            })
            .collect();
        let Time { median, low, high } = Time::of(samples);
        [median, low, high]
    }

    type Launch = unsafe extern "C" fn(
        *mut c_void,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        *mut c_void,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> c_int;

    extern "C" {
        fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    /// The double's hipModuleLaunchKernel, loaded as the driver loads it.
    fn bare_launch(library: &std::path::Path) -> Launch {
        let path = std::ffi::CString::new(library.to_str().expect("a path in UTF-8")).expect("no NUL in a path");
        // SAFETY: both names are NUL-terminated; the symbol has this type; 2 is RTLD_NOW.
        unsafe {
            let handle = dlopen(path.as_ptr(), 2);
            assert!(!handle.is_null(), "the double opens");
            let symbol = dlsym(handle, c"hipModuleLaunchKernel".as_ptr());
            assert!(!symbol.is_null(), "the double launches");
            std::mem::transmute::<*mut c_void, Launch>(symbol)
        }
    }

    struct Row {
        name: &'static str,
        goal: f64,
        call: Box<dyn Fn() -> Status>,
    }

    fn rows(device: &Device) -> Result<Vec<Row>> {
        const F32: DType = DType::F32;
        const F16: DType = DType::F16;
        const U8: DType = DType::U8;
        let dims = [16, 32, 16, 128]; // batch, sequence, heads, width of a head
        let numel: usize = dims.iter().product();
        let buffers: [Buffer; 4] = std::array::from_fn(|_| device.alloc(numel * 8).expect("memory of the double"));
        let [a, b, c] = [0, 1, 2].map(|i| sys::crk_const_view_t::from(buffers[i].raw_view()));
        let dst = buffers[3].raw_view();
        std::mem::forget(buffers); // the rows use them until the program ends
        let handle = device.raw();

        let flat = Layout::contiguous(&[numel])?;
        let whole = Layout::contiguous(&dims)?;
        let swapped = Layout::strided(&dims, &[65536, 128, 4096, 1], 0)?;
        let row = Layout::strided(&dims, &[0, 128, 0, 1], 0)?;
        let scattered = Layout::strided(&dims, &[131072, 4096, 256, 2], 0)?;
        let deep = Layout::strided(&[4, 2, 8, 4, 2, 8, 4, 16], &[64, 32, 1024, 256, 16, 8192, 65536, 1], 0)?;

        const ADD: sys::crk_binary_op_t = sys::crk_binary_op_t::CRK_BINARY_ADD;
        const LT: sys::crk_cmp_op_t = sys::crk_cmp_op_t::CRK_CMP_LT;
        const EXP: sys::crk_unary_op_t = sys::crk_unary_op_t::CRK_UNARY_EXP;
        let value = 1f32;
        // SAFETY, for all rows: a live handle, its own memory, and layouts within it; the double touches no memory.
        macro_rules! rows {
            ($($name:literal, $goal:expr, $call:expr;)*) => {
                vec![$(Row { name: $name, goal: $goal, call: Box::new(move || unsafe { $call }) },)*]
            };
        }
        Ok(rows! {
            "crk_unary, contiguous", CONTIGUOUS, sys::crk_unary(handle, EXP, F32, &flat, a, dst);
            "crk_unary, contiguous, rank 4", CONTIGUOUS, sys::crk_unary(handle, EXP, F16, &whole, a, dst);
            "crk_binary, contiguous", CONTIGUOUS, sys::crk_binary(handle, ADD, F32, &flat, a, &flat, b, dst);
            "crk_binary, contiguous, rank 4", CONTIGUOUS, sys::crk_binary(handle, ADD, F16, &whole, a, &whole, b, dst);
            "crk_affine, contiguous", CONTIGUOUS, sys::crk_affine(handle, F32, &flat, a, dst, 2.0, 1.0);
            "crk_cast, contiguous", CONTIGUOUS, sys::crk_cast(handle, F32, F16, &flat, a, dst);
            "crk_cmp, contiguous", CONTIGUOUS, sys::crk_cmp(handle, LT, F32, &flat, a, &flat, b, dst);
            "crk_where, contiguous, rank 4", CONTIGUOUS,
                sys::crk_where(handle, U8, F32, &whole, c, &whole, a, &whole, b, dst);
            "crk_fill", CONTIGUOUS, sys::crk_fill(handle, F32, dst, numel, std::ptr::from_ref(&value).cast());
            "crk_copy_strided, heads swapped", STRIDED, sys::crk_copy_strided(handle, F32, &swapped, a, dst, 0);
            "crk_unary, heads swapped", STRIDED, sys::crk_unary(handle, EXP, F32, &swapped, a, dst);
            "crk_unary, every second element", STRIDED, sys::crk_unary(handle, EXP, F32, &scattered, a, dst);
            "crk_binary, heads swapped + row", STRIDED,
                sys::crk_binary(handle, ADD, F32, &swapped, a, &row, b, dst);
            "crk_binary, f16, heads swapped + row", STRIDED,
                sys::crk_binary(handle, ADD, F16, &swapped, a, &row, b, dst);
            "crk_where, heads swapped, row", STRIDED,
                sys::crk_where(handle, U8, F32, &whole, c, &swapped, a, &row, b, dst);
            "crk_copy2d", STRIDED, sys::crk_copy2d(handle, F32, 512, 128, a, 256, 0, dst, 256, 128);
            "crk_copy_strided, rank 8 (no goal)", f64::INFINITY, sys::crk_copy_strided(handle, F16, &deep, a, dst, 0);
        })
    }

    pub fn run(check: bool) -> ExitCode {
        // No other thread exists yet.
        std::env::set_var("HIP_DOUBLE_INSTANT", "1");
        hip_double::install("gfx1100");
        let device = Device::open(Backend::Hip, 0).expect("the double opens");

        let library = std::env::var_os("CANDLE_ROCM_HIP_LIBRARY").expect("set by install");
        let launch = bare_launch(library.as_ref());
        let mut args = [std::ptr::null_mut::<c_void>(); 4];
        let mut bare = || {
            // SAFETY: in its instant mode the double looks at nothing.
            let code = unsafe {
                let null = std::ptr::null_mut();
                launch(null, 4096, 1, 1, 256, 1, 1, 0, null, args.as_mut_ptr(), std::ptr::null_mut())
            };
            assert_eq!(black_box(code), 0);
        };
        let [floor, ..] = time(&mut bare);
        println!("hipModuleLaunchKernel alone: {floor:.1} ns; above it, {SAMPLES} samples of {CALLS} calls:\n");
        println!("{:<38} {:>9} {:>9} {:>9} {:>6}", "launcher", "median ns", "p10", "p90", "goal");
        let mut met = true;
        for row in rows(&device).expect("memory and layouts") {
            assert_eq!((row.call)(), Status::Ok, "{}: {}", row.name, last_error());
            let [median, low, high] = time(|| assert_eq!(black_box((row.call)()), Status::Ok)).map(|ns| ns - floor);
            let good = median <= row.goal;
            met &= good;
            let goal = if row.goal.is_finite() { format!("{:.0}", row.goal) } else { "-".into() };
            let mark = if good { "" } else { "  over" };
            println!("{:<38} {median:>9.1} {low:>9.1} {high:>9.1} {goal:>6}{mark}", row.name);
        }
        if met || !check { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn last_error() -> String {
        // SAFETY: never NULL, valid until the thread's next failure.
        unsafe { std::ffi::CStr::from_ptr(sys::crk_last_error()) }.to_string_lossy().into_owned()
    }
}
