//! The configuration. This is the only place that reads the environment.

use crate::cache;
use crate::progress;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// A failure is one message for the reader of the build's output.
pub type Result<T> = std::result::Result<T, String>;

#[derive(Default)]
pub struct Config {
    pub root: PathBuf,
    pub out_dir: PathBuf,
    /// The package's version.
    pub version: String,
    /// The oldest supported version of Rust.
    #[cfg(feature = "buildtime_bindgen")]
    pub rust_version: String,
    /// The number of compiler processes that may run at once.
    pub jobs: usize,
    /// Whether the profile optimises fully, as `release` does and `dev` does not.
    pub optimised: bool,
    /// The terminal for lines about the progress.
    pub terminal: Option<PathBuf>,
    /// The folder of compiled kernels that all builds of this user share.
    pub cache: Option<PathBuf>,

    /// zstd, as zstd-sys reports it: the folders of its headers, and the folder of its build. None where zstd-sys uses
    /// the system's library.
    pub zstd_include: Vec<PathBuf>,
    pub zstd_folder: Option<PathBuf>,

    /// The target, where it is not the host.
    pub cross_target: Option<String>,
    /// Facts about the target. (`cfg!` would give those of the host.)
    pub target: String,
    pub target_arch: String,
    pub target_os: String,
    pub target_env: String,
    pub target_unix: bool,

    pub cpu: bool,
    pub rocm: bool,
    pub cuda: bool,

    /// Every warning of a compiler is an error.
    pub strict: bool,
    /// docs.rs builds the documentation: no code objects.
    pub docs_rs: bool,
    /// The user asked for a build without code objects.
    pub no_kernels: bool,

    /// A file with code objects for AMD GPUs, which replaces their compiler; and whether to write one (OUT_DIR/packed).
    pub code_objects: Option<PathBuf>,
    pub pack_code_objects: bool,

    /// The architectures to build for, as the user wrote them.
    pub rocm_archs: Option<String>,
    pub cuda_archs: Option<String>,
    /// The folder in which Linux lists the nodes of AMD's compute driver, CPUs and GPUs.
    pub topology: PathBuf,
    /// The version that the runtime is told to report for every AMD GPU, such as 10.3.0.
    pub gfx_override: Option<String>,

    /// Variables that name compilers or their folders.
    pub hipcc: Option<OsString>,
    pub hipcc_flags: Vec<String>,
    pub rocm_path: Option<OsString>,
    pub hip_path: Option<OsString>,
    pub hip_device_lib_path: Option<OsString>,
    /// The folder in which ROCm's packages install `rocm`, `rocm-7.2.0` or `rocm/core-10.0`.
    pub installed: PathBuf,
    pub nvcc: Option<OsString>,
    pub nvcc_ccbin: Option<OsString>,
    pub cuda_home: Option<OsString>,
    pub cuda_path: Option<OsString>,
    pub path: Option<OsString>,
    /// The variables that compilers read by themselves, where they are set.
    pub compiler_variables: Vec<(&'static str, OsString)>,
}

/// Variables by which compilers take further flags or search other folders. The variables of the crate `cc` are not
/// among them: they end in the command.
const COMPILER_VARIABLES: &[&str] = &[
    "CCC_OVERRIDE_OPTIONS",
    "CL",
    "CLANG_NO_DEFAULT_CONFIG",
    "COMPILER_PATH",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "C_INCLUDE_PATH",
    "EXTERNAL_INCLUDE",
    "GCC_EXEC_PREFIX",
    "HIPCC_COMPILE_FLAGS_APPEND",
    "HIP_CLANG_PATH",
    "HIP_DEVICE_LIB_PATH",
    "HIP_PLATFORM",
    "INCLUDE",
    "NIX_CFLAGS_COMPILE",
    "NVCC_APPEND_FLAGS",
    "NVCC_PREPEND_FLAGS",
    "SDKROOT",
    "_CL_",
];

impl Config {
    pub fn from_env() -> Result<Config> {
        let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = cache::folder(watched("CANDLE_ROCM_CACHE").as_deref().map(Path::new), variable)?;
        let distrust = cache.as_deref().and_then(cache::distrust);
        distrust.iter().for_each(|why| println!("cargo::warning={why}"));
        Ok(Config {
            root: required("CARGO_MANIFEST_DIR").into(),
            out_dir: required("OUT_DIR").into(),
            version: required("CARGO_PKG_VERSION"),
            #[cfg(feature = "buildtime_bindgen")]
            rust_version: required("CARGO_PKG_RUST_VERSION"),
            jobs: required("NUM_JOBS").parse().unwrap_or(1).max(1),
            optimised: !["0", "1"].contains(&required("OPT_LEVEL").as_str()),
            terminal: progress::terminal(),
            cache: cache.filter(|_| distrust.is_none()),
            // candle-rocm-build has no zstd.
            zstd_include: env::var("DEP_ZSTD_INCLUDE").unwrap_or_default().split(';').map(PathBuf::from).collect(),
            zstd_folder: env::var_os("DEP_ZSTD_ROOT").map(PathBuf::from),
            target: required("TARGET"),
            cross_target: Some(required("TARGET")).filter(|target| *target != required("HOST")),
            target_arch: required("CARGO_CFG_TARGET_ARCH"),
            target_os: required("CARGO_CFG_TARGET_OS"),
            target_env: env::var("CARGO_CFG_TARGET_ENV").unwrap_or_default(),
            target_unix: env::var_os("CARGO_CFG_UNIX").is_some(),
            cpu: env::var_os("CARGO_FEATURE_CPU").is_some(),
            rocm: env::var_os("CARGO_FEATURE_ROCM").is_some(),
            cuda: env::var_os("CARGO_FEATURE_CUDA").is_some(),
            strict: flag("CANDLE_ROCM_STRICT"),
            docs_rs: watched("DOCS_RS").is_some(),
            no_kernels: flag("CANDLE_ROCM_NO_KERNELS"),
            code_objects: watched("CANDLE_ROCM_CODE_OBJECTS").map(absolute).map(PathBuf::from),
            pack_code_objects: flag("CANDLE_ROCM_PACK_CODE_OBJECTS"),
            rocm_archs: text("CANDLE_ROCM_ARCHS"),
            cuda_archs: text("CANDLE_CUDA_ARCHS"),
            topology: "/sys/class/kfd/kfd/topology/nodes".into(),
            gfx_override: text("HSA_OVERRIDE_GFX_VERSION"),
            hipcc: watched("HIPCC").map(program),
            hipcc_flags: words("CANDLE_ROCM_HIPCC_FLAGS"),
            rocm_path: watched("ROCM_PATH").map(absolute),
            hip_path: watched("HIP_PATH").map(absolute),
            hip_device_lib_path: watched("HIP_DEVICE_LIB_PATH").map(absolute),
            installed: "/opt".into(),
            nvcc: watched("NVCC").map(program),
            nvcc_ccbin: watched("NVCC_CCBIN").map(program),
            cuda_home: watched("CUDA_HOME").map(absolute),
            cuda_path: watched("CUDA_PATH").map(absolute),
            path: env::var_os("PATH"),
            compiler_variables: COMPILER_VARIABLES
                .iter()
                .filter_map(|name| watched(name).map(|value| (*name, value)))
                .collect(),
        })
    }

    /// Whether code objects are built, where a feature asks for them.
    pub fn builds_code_objects(&self) -> bool {
        !self.docs_rs && !self.no_kernels
    }

    pub fn kernel_source(&self, module: &str) -> PathBuf {
        self.root.join("kernels").join(format!("{module}.hip"))
    }

    /// A folder in OUT_DIR. Creates it where it does not exist.
    pub fn out(&self, folder: &str) -> Result<PathBuf> {
        let path = self.out_dir.join(folder);
        fs::create_dir_all(&path).map_err(|e| failed(&path, &e))?;
        Ok(path)
    }
}

/// The kernel modules: the lines `XX(STEM, stem)` of csrc/modules.h, which is the only list of them.
pub fn modules(config: &Config) -> Result<Vec<String>> {
    let text = read(&config.root.join("csrc/modules.h"))?;
    let (_, list) = text.split_once("define CRK_MODULE_MAP(XX)").ok_or("csrc/modules.h has no CRK_MODULE_MAP")?;
    let mut modules = Vec::new();
    for line in list.lines().skip(1) {
        let line = line.trim_end_matches('\\').trim();
        let Some(entry) = line.strip_prefix("XX(").and_then(|rest| rest.strip_suffix(')')) else {
            break;
        };
        let (_, stem) = entry
            .split_once(',')
            .ok_or_else(|| format!("csrc/modules.h: XX({entry}) has one word; it needs two, as in XX(UNARY, unary)"))?;
        modules.push(stem.trim().to_owned());
    }
    if modules.is_empty() {
        return Err("csrc/modules.h: CRK_MODULE_MAP has no entries".into());
    }
    Ok(modules)
}

pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| failed(path, &e))
}

pub fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| failed(path, &e))
}

pub fn size(path: &Path) -> Result<u64> {
    fs::metadata(path).map(|data| data.len()).map_err(|e| failed(path, &e))
}

pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, contents).map_err(|e| failed(path, &e))
}

/// The ways out where a disk is full.
pub const FULL_DISK: &str =
    "free space there, or name a folder on another disk: in TMPDIR for a file below /tmp, else in CARGO_TARGET_DIR";

/// The sentence for a compiler that found a full disk.
pub fn full_disk(messages: &str) -> Option<String> {
    let line = messages.lines().find(|line| line.contains("No space left on device"))?;
    Some(format!("{line}; {FULL_DISK}"))
}

/// The sentence for a file that cannot be read or written.
pub fn failed(path: &Path, error: &std::io::Error) -> String {
    let full = error.kind() == std::io::ErrorKind::StorageFull;
    let advice = if full { format!("; {FULL_DISK}") } else { String::new() };
    format!("{}: {error}{advice}", path.display())
}

/// The files of a folder with one of these extensions, in the order of their names; with `deep` also those of its
/// subfolders.
pub fn files(folder: &Path, extensions: &[&str], deep: bool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(e) => return Err(failed(folder, &e)),
    };
    for entry in entries {
        let path = entry.map_err(|e| failed(folder, &e))?.path();
        if path.is_dir() {
            if deep {
                found.extend(files(&path, extensions, deep)?);
            }
        } else if path.extension().is_some_and(|e| extensions.iter().any(|wanted| e == *wanted)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A variable that cargo sets for every build script.
fn required(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run this program through cargo"))
}

/// A variable that the user may set. A change of it runs the build script again. An empty value counts as unset.
fn watched(name: &str) -> Option<OsString> {
    println!("cargo::rerun-if-env-changed={name}");
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The absolute path: errors name it, and compilers run in several folders. Cargo runs build scripts in the package's.
fn absolute(path: OsString) -> OsString {
    std::path::absolute(&path).map_or(path, PathBuf::into_os_string)
}

/// The same for a program. A name without a folder stays: it is looked for in PATH.
pub fn program(path: OsString) -> OsString {
    if Path::new(&path).components().count() > 1 { absolute(path) } else { path }
}

fn text(name: &str) -> Option<String> {
    watched(name).map(|value| value.to_string_lossy().into_owned())
}

fn words(name: &str) -> Vec<String> {
    text(name).map_or_else(Vec::new, |value| value.split_whitespace().map(str::to_owned).collect())
}

fn flag(name: &str) -> bool {
    watched(name).is_some_and(|value| value != "0")
}
