//! The test double of libamdhip64 (tests/double). It is compiled when a test first asks for it. This file also has what
//! a test needs to control the simulated GPU. Linux only, as ROCm's libraries are.

use crate::support::paths::{LIBRARY, PROJECT, SCRATCH};
use candle_rocm_sys::sys;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

pub use super::double;

const SOURCES: [&str; 6] = [
    "tests/double/hip_double.c",
    "tests/double/blas_double.c",
    "tests/double/rocblas_double.c",
    "tests/double/hipblaslt_double.c",
    "tests/double/nccl_double.c",
    "tests/double/code_object_writer.c",
];
const HEADERS: [&str; 5] = [
    "tests/double/hip_double.h",
    "tests/double/half.h",
    "csrc/driver/driver.h",
    "csrc/image/code_object.h",
    "kernels/platform/architectures.h",
];

/// The folder of this build's doubles. Another profile or feature set has another libcandle_rocm.a, and so needs
/// another double.
fn folder() -> PathBuf {
    Path::new(SCRATCH).join("hip_double")
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|data| data.modified()).ok()
}

/// Writes a file so that it appears completely or not at all. Several test programs may do this at the same time.
fn publish(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    std::fs::create_dir_all(path.parent().expect("a file in a folder"))?;
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
    let draft = path.with_extension(format!("{}-{thread}", std::process::id()));
    write(&draft)?;
    std::fs::rename(&draft, path)
}

/// The double's library. It is compiled if it is missing or older than its sources.
pub fn build() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let root = Path::new(PROJECT);
            let archive = Path::new(LIBRARY).join("libcandle_rocm.a");
            let library = folder().join("libamdhip64.so");
            let inputs = SOURCES.iter().chain(&HEADERS).map(|name| root.join(name)).chain([archive.clone()]);
            let newest =
                inputs.map(|path| modified(&path).unwrap_or_else(|| panic!("{} is missing", path.display()))).max();
            if modified(&library) <= newest {
                let result = publish(&library, |draft| compile(root, &archive, draft));
                result.unwrap_or_else(|error| panic!("{}: {error}", library.display()));
            }
            library
        })
        .clone()
}

fn compile(root: &Path, archive: &Path, output: &Path) -> io::Result<()> {
    let mut command = double::compiler();
    // The archive's names stay inside the library, which calls its own functions: a test program has functions of the
    // same names.
    command.args(["-O2", "-fvisibility=hidden", "-Wl,-Bsymbolic", "-Wl,--exclude-libs,ALL"]);
    command.args(["-Wl,-soname,libamdhip64.so", "-Wl,-S"]);
    command.args(["include", "csrc", "kernels"].map(|folder| format!("-I{}", root.join(folder).display())));
    command.arg("-o").arg(output).args(SOURCES.map(|name| root.join(name))).arg(archive);
    command.arg("-L").arg(archive.parent().expect("a folder")).args(["-lzstd", "-lm", "-lpthread", "-ldl"]);
    let result = command.output()?;
    let messages = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "the double of libamdhip64 does not compile: {command:?}\n{messages}");
    Ok(())
}

/// A copy of the double without some of its calls, so that dlsym does not find them. In the copy's string table their
/// names are misspelt. The hash table still leads to these entries, but the comparison of the names fails.
pub fn without(calls: &[&str]) -> PathBuf {
    if calls.is_empty() {
        return build();
    }
    let base = build();
    let path = folder().join(format!("libamdhip64-without-{}.so", calls.join("-")));
    if modified(&path) > modified(&base) {
        return path;
    }
    let mut image = std::fs::read(&base).expect("the double");
    for call in calls {
        let name = [b"\0", call.as_bytes(), b"\0"].concat();
        let places: Vec<usize> = (0..image.len() - name.len()).filter(|&at| image[at..].starts_with(&name)).collect();
        assert!(!places.is_empty(), "the double has no {call}");
        places.iter().for_each(|at| image[at + 1] = b'H');
    }
    publish(&path, |draft| std::fs::write(draft, &image)).expect("a patched double");
    path
}

/// The library with the calls of HIP `major`. Before version 6 there was no hipGetDevicePropertiesR0600.
pub fn as_version(major: u32) -> PathBuf {
    without(if major < 6 { &["hipGetDevicePropertiesR0600"] } else { &[] })
}

/// The names in one of the driver's lists of calls.
pub fn calls_in(list: &str) -> Vec<String> {
    let source = std::fs::read_to_string(Path::new(PROJECT).join("csrc/driver/hip/hip_calls.h")).expect("the driver");
    let start = source.find(&format!("#define {list}(XX)")).expect("the list");
    let text = source[start..].split("\n\n").next().expect("a paragraph").to_owned();
    let names = text.split("XX(").skip(1).map(|rest| rest.split(',').next().expect("a name").trim().to_owned());
    names.collect()
}

/// The names of this build's modules.
pub fn modules() -> Vec<&'static str> {
    // SAFETY: an index below the count; the names are static.
    unsafe {
        (0..sys::crk_module_count()).map(|i| CStr::from_ptr(sys::crk_module_name(i)).to_str().expect("ASCII")).collect()
    }
}

/// A folder with a code object `<module>.hsaco` for every module of this build, for an architecture.
pub fn code_objects(architecture: &str) -> PathBuf {
    let folder = folder().join(architecture.replace(':', "_"));
    let library = modified(&build());
    for module in modules() {
        let path = folder.join(format!("{module}.hsaco"));
        if modified(&path) <= library {
            let image = Controls::of_build().code_object(module, architecture).expect("a code object");
            publish(&path, |draft| std::fs::write(draft, &image)).expect("a code object's file");
        }
    }
    folder
}

/// The environment in which this crate's HIP driver finds the double as a GPU of an architecture. It excludes real BLAS
/// libraries, hipRTC and RCCL, because the double lacks calls that they make.
pub fn environment(architecture: &str, major: u32) -> Vec<(&'static str, String)> {
    let text = |path: PathBuf| path.into_os_string().into_string().expect("a path in UTF-8");
    let library = text(as_version(major));
    vec![
        ("CANDLE_ROCM_HIPRTC_LIBRARY", library.clone()),
        ("CANDLE_ROCM_RCCL_LIBRARY", library.clone()),
        ("CANDLE_ROCM_HIP_LIBRARY", library),
        ("CANDLE_ROCM_HSACO_DIR", text(code_objects(architecture))),
        ("CANDLE_ROCM_BLAS", "0".into()),
        ("HIP_DOUBLE_ARCH", architecture.to_owned()),
        ("HIP_DOUBLE_VERSION", major.to_string()),
    ]
}

/// Makes the double this process's HIP runtime. Call it before other threads start and before a device is opened.
pub fn install(architecture: &str) {
    for (name, value) in environment(architecture, 6) {
        std::env::set_var(name, value);
    }
}

/// Runs `body` in a process of its own with the double. `extra` is added to the double's environment and overrides it.
pub fn alone(test: &str, architecture: &str, major: u32, extra: &[(&str, &str)], body: impl FnOnce()) {
    let of_double = environment(architecture, major);
    let all: Vec<_> = of_double.iter().map(|(name, value)| (*name, &**value)).chain(extra.iter().copied()).collect();
    double::alone(test, &all, body);
}

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

/// The functions that the double exports for tests, see tests/double/hip_double.h.
#[derive(Clone, Copy)]
pub struct Controls {
    library: *mut c_void,
}

// SAFETY: the handle of a library that is never closed; its functions take a lock.
unsafe impl Send for Controls {}
// SAFETY: as above.
unsafe impl Sync for Controls {}

impl Controls {
    /// Controls of the library that the driver opens in this process: the one that the environment names, else the
    /// plain double.
    pub fn get() -> Controls {
        static CONTROLS: OnceLock<Controls> = OnceLock::new();
        *CONTROLS.get_or_init(|| {
            let named = std::env::var_os("CANDLE_ROCM_HIP_LIBRARY").map(PathBuf::from);
            Controls::open(&named.unwrap_or_else(build))
        })
    }

    /// Controls of the plain double, whatever the environment names.
    pub fn of_build() -> Controls {
        Controls::open(&build())
    }

    fn open(path: &Path) -> Controls {
        let name = CString::new(path.to_str().expect("a path in UTF-8")).expect("no NUL in a path");
        // SAFETY: a NUL-terminated path; 2 is RTLD_NOW.
        let library = unsafe { dlopen(name.as_ptr(), 2) };
        if library.is_null() {
            // SAFETY: dlopen has just failed, so there is a text.
            panic!("{}", unsafe { CStr::from_ptr(dlerror()) }.to_string_lossy());
        }
        Controls { library }
    }

    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the library is open.
        let symbol = unsafe { dlsym(self.library, name.as_ptr()) };
        assert!(!symbol.is_null(), "the double has no {name:?}");
        symbol
    }

    /// Makes the `nth` next call of `call` (1 is the next, 0 is every one) return `code`. A negative code instead
    /// delays it by -`code` milliseconds. A code of 0 removes the rule.
    pub fn fail(&self, call: &str, nth: u64, code: i32) {
        let name = CString::new(call).expect("no NUL");
        // SAFETY: the function has this type.
        let result = unsafe {
            let fail: extern "C" fn(*const c_char, u64, c_int) -> c_int =
                std::mem::transmute(self.symbol(c"hip_double_fail"));
            fail(name.as_ptr(), nth, code)
        };
        assert_eq!(result, 0, "the double knows no call {call}");
    }

    /// The thread's current device in the runtime.
    pub fn device(&self) -> i32 {
        let mut ordinal = -1;
        // SAFETY: the function has this type.
        let result = unsafe {
            let get: extern "C" fn(*mut c_int) -> c_int = std::mem::transmute(self.symbol(c"hipGetDevice"));
            get(&mut ordinal)
        };
        assert_eq!(result, 0);
        ordinal
    }

    /// Calls the runtime's hipSetDevice, as other code of the process may.
    pub fn set_device(&self, ordinal: i32) {
        // SAFETY: the function has this type.
        let result = unsafe {
            let set: extern "C" fn(c_int) -> c_int = std::mem::transmute(self.symbol(c"hipSetDevice"));
            set(ordinal)
        };
        assert_eq!(result, 0, "the double has no device {ordinal}");
    }

    fn count(&self, function: &CStr, what: &str) -> i64 {
        let name = CString::new(what).expect("no NUL");
        // SAFETY: both counting functions have this type.
        let count = unsafe {
            let count: extern "C" fn(*const c_char) -> i64 = std::mem::transmute(self.symbol(function));
            count(name.as_ptr())
        };
        assert!(count >= 0, "the double counts no {what}");
        count
    }

    /// How often a call was made.
    pub fn calls(&self, call: &str) -> i64 {
        self.count(c"hip_double_calls", call)
    }

    /// The number of live objects of a kind.
    pub fn alive(&self, kind: &str) -> i64 {
        self.count(c"hip_double_alive", kind)
    }

    /// The number of live objects of every kind. Code that leaks nothing leaves it unchanged.
    pub fn census(&self) -> Vec<(&'static str, i64)> {
        ["allocations", "host allocations", "streams", "events", "modules", "graphs", "executables", "nodes"]
            .map(|kind| (kind, self.alive(kind)))
            .to_vec()
    }

    fn lines(&self, function: &CStr) -> Vec<String> {
        let mut text = vec![0u8; 1 << 16];
        // SAFETY: both telling functions have this type and write a NUL-terminated text of at most that size.
        let text = unsafe {
            let tell: extern "C" fn(*mut c_char, usize) = std::mem::transmute(self.symbol(function));
            tell(text.as_mut_ptr().cast(), text.len());
            CStr::from_ptr(text.as_ptr().cast())
        };
        text.to_string_lossy().lines().map(str::to_owned).collect()
    }

    /// The calls since the last trace.
    pub fn trace(&self) -> Vec<String> {
        self.lines(c"hip_double_trace")
    }

    /// The kernels launched since the last call, with the number of blocks of each: "uneg_f32_vec 4".
    pub fn launches(&self) -> Vec<String> {
        self.lines(c"hip_double_launches")
    }

    /// The calls of RCCL's collectives since the last call: "ncclAllReduce rank=0 count=4 type=7 op=0 peer=0".
    pub fn collectives(&self) -> Vec<String> {
        self.lines(c"nccl_double_log")
    }

    /// The number of live communicators of RCCL.
    pub fn communicators(&self) -> i32 {
        // SAFETY: the function has this type.
        unsafe {
            let alive: extern "C" fn() -> c_int = std::mem::transmute(self.symbol(c"nccl_double_alive"));
            alive()
        }
    }

    /// A code object with the kernels of a module, for an architecture. None if either is unknown.
    pub fn code_object(&self, module: &str, architecture: &str) -> Option<Vec<u8>> {
        let module = CString::new(module).expect("no NUL");
        let architecture = CString::new(architecture).expect("no NUL");
        let (mut data, mut bytes) = (std::ptr::null_mut::<c_void>(), 0usize);
        // SAFETY: the functions have these types; on success `data` is `bytes` bytes, to be freed.
        unsafe {
            let write: extern "C" fn(*const c_char, *const c_char, *mut *mut c_void, *mut usize) -> c_int =
                std::mem::transmute(self.symbol(c"hip_double_code_object"));
            let free: extern "C" fn(*mut c_void) = std::mem::transmute(self.symbol(c"hip_double_code_object_free"));
            if write(module.as_ptr(), architecture.as_ptr(), &mut data, &mut bytes) != 0 {
                return None;
            }
            let image = std::slice::from_raw_parts(data.cast::<u8>(), bytes).to_vec();
            free(data);
            Some(image)
        }
    }

    /// Returns HIP's last error through hipGetLastError, which also clears it.
    pub fn last_error(&self) -> i32 {
        // SAFETY: the function has this type.
        unsafe {
            let last: extern "C" fn() -> c_int = std::mem::transmute(self.symbol(c"hipGetLastError"));
            last()
        }
    }
}

/// Prints, as shell commands, the environment in which a program of another build runs with the doubles of libamdhip64
/// and libhiprtc. `candle/test` uses it.
pub fn print_environment() {
    let compiler = format!("{SCRATCH}/libhiprtc.so");
    double::compile("rtc_double.c", &[], &compiler);
    let with_compiler = [("CANDLE_ROCM_HIPRTC_LIBRARY", compiler)];
    for (name, value) in environment("gfx1100", 6).into_iter().chain(with_compiler) {
        println!("export {name}='{value}'");
    }
}
