//! libcandle_rocm.a: the C core, the drivers, the kernels for the CPU, and the embedded code objects.

use crate::config::{self, Config, Result, files};
use crate::embed::Embedded;
use crate::includes::Includes;
use crate::jobs::{self, Job};
use crate::toolchain::in_path;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `port` is rtc_headers.c.
pub fn build(config: &Config, modules: &[String], embedded: &Embedded, port: &PathBuf) -> Result<()> {
    let objects = config.out("core")?;
    let mut jobs = Vec::new();
    let mut includes = Includes::default();
    let folders = |names: &[&str]| names.iter().map(|name| config.root.join(name)).collect::<Vec<_>>();
    // The kernels take longest, so they start first, and those with most code before the others.
    if config.cpu {
        let folders = folders(KERNEL_FOLDERS);
        let compiler = Compiler::new(config, &host_kernel_compiler(config), Language::Cpp)?;
        for module in modules {
            let source = config.kernel_source(module);
            let inputs = includes.of(&source, &folders)?;
            jobs.push(Job { shared: true, ..compiler.job(config, &source, &objects, inputs) });
        }
        let arguments: &[&str] =
            if compiler.tool.is_like_msvc() { &["/P", "/Fioutside.i"] } else { Includes::PREPROCESS };
        let outside = includes.outside(config, arguments, |source, output| compiler.command(source, output))?;
        jobs::add_outside(&mut jobs, outside);
    }
    let compiler = Compiler::new(config, &c_compiler(config), Language::C)?;
    let folders = folders(C_FOLDERS);
    for source in c_sources(config)?.iter().chain([&embedded.tables, port]) {
        jobs.push(compiler.job(config, source, &objects, includes.of(source, &folders)?));
    }
    if let Some((assembly, inputs)) = &embedded.assembly {
        let compiler = Compiler::new(config, cc::Build::new().warnings(false), Language::C)?;
        let inputs = inputs.iter().chain([assembly]).cloned().collect();
        jobs.push(compiler.job(config, assembly, &objects, inputs));
    }

    let outputs: Vec<PathBuf> = jobs.iter().map(|job| &job.outputs[0]).chain(&embedded.object).cloned().collect();
    jobs::warn(&jobs::run(config, "files", jobs)?);

    // The archive, and cargo's instructions for it.
    let mut archive = cc::Build::new();
    archive.cargo_warnings(false).objects(outputs).try_compile("candle_rocm").map_err(|error| {
        format!(
            "libcandle_rocm.a cannot be made: {error}; where the program ar is missing, install it (Debian, Ubuntu, \
             Fedora and Arch: the package binutils), or name one in AR; where the disk of {} is full, {}",
            config.out_dir.display(),
            config::FULL_DISK
        )
    })?;
    println!("cargo::metadata=include={}", config.root.join("include").display());
    println!("cargo::metadata=library={}", config.out_dir.display());

    // C programs link zstd too: its archive is copied into the folder of this library's archive. There is none where
    // zstd-sys uses the system's library.
    let name = if config.target_env == "msvc" { "zstd.lib" } else { "libzstd.a" };
    let mut zstd =
        config.zstd_folder.iter().flat_map(|folder| ["", "lib", "lib64"].map(|sub| folder.join(sub).join(name)));
    let copy = config.out_dir.join(name);
    match zstd.find(|archive| archive.is_file()) {
        Some(archive) => config::write(&copy, config::read_bytes(&archive)?)?,
        None => drop(std::fs::remove_file(copy)),
    }
    Ok(())
}

/// The C files of this build. Files of csrc/os for other systems are left out. Without the feature `cpu`,
/// csrc/driver/none.c replaces csrc/driver/cpu.
fn c_sources(config: &Config) -> Result<Vec<PathBuf>> {
    let core = config.root.join("csrc");
    let mut sources = files(&core, &["c"], true)?;
    sources.retain(|source| {
        if source.starts_with(core.join("driver/cpu")) {
            return config.cpu;
        }
        match source.file_stem().unwrap_or_default().to_string_lossy().as_ref() {
            "posix" => config.target_unix,
            "windows" => config.target_os == "windows",
            "none" => !config.cpu,
            _ => true,
        }
    });
    Ok(sources)
}

/// The folders in which the compilers look for headers, in their order.
const C_FOLDERS: &[&str] = &["include", "csrc", "kernels"];
const KERNEL_FOLDERS: &[&str] = &["include", "kernels"];

/// The settings that all compilers of this file share.
fn compiler(config: &Config, folders: &[&str]) -> cc::Build {
    let mut build = cc::Build::new();
    // Its warnings are those of a missing compiler, for which Compiler::new has an error.
    build.cargo_metadata(true).cargo_warnings(false).warnings(false).extra_warnings(false);
    build.includes(folders.iter().map(|folder| config.root.join(folder)));
    build.warnings_into_errors(config.strict);
    build
}

fn c_compiler(config: &Config) -> cc::Build {
    let mut build = compiler(config, C_FOLDERS);
    build.includes(config.zstd_include.iter().filter(|folder| !folder.as_os_str().is_empty()));
    // Optimised in every profile, so that debug builds of a dependant have fast launchers.
    build.std("c11").warnings(true).extra_warnings(true).opt_level(2);
    if build.get_compiler().is_like_msvc() {
        build.flag("/experimental:c11atomics");
    } else {
        for warning in ["shadow", "strict-prototypes", "missing-prototypes", "undef", "vla"] {
            build.flag(format!("-W{warning}"));
        }
    }
    build.define("CRK_VERSION", format!("\"{}\"", config.version).as_str());
    for (built, name) in [(config.rocm, "CRK_WITH_ROCM"), (config.cuda, "CRK_WITH_CUDA")] {
        if built {
            build.define(name, None);
        }
    }
    build
}

/// The compiler of kernels for the CPU: C++ without its library.
///
/// A profile that optimises has -O2: with -O3 the compiler takes half as long again, for kernels that are some 8 %
/// faster at most. Any other has -Og, which takes half the time. The results are the same to the bit, but for the sign
/// of a NaN. There is no debug information, which takes minutes for thousands of instances.
/// The compiler must not contract a product and a sum, because the kernels write fma where they mean it. errno and the
/// floating-point flags are given up, so that functions such as sqrt become one instruction.
fn host_kernel_compiler(config: &Config) -> cc::Build {
    let mut build = compiler(config, KERNEL_FOLDERS);
    let msvc = build.get_compiler().is_like_msvc();
    build.cpp(true).cpp_link_stdlib(None).std("c++17").warnings(true).extra_warnings(true);
    build.debug(false).force_frame_pointer(false);
    if config.optimised {
        build.opt_level(2);
    } else {
        build.opt_level_str(if msvc { "1" } else { "g" }).define("CRK_LITTLE_OPTIMISED", None);
    }
    if msvc {
        for flag in ["/TP", "/fp:precise", "/GR-", "/Zc:threadSafeInit-"] {
            build.flag(flag);
        }
    } else {
        for flag in [
            "-xc++",
            "-ffp-contract=off",
            "-fno-math-errno",
            "-fno-trapping-math",
            "-fno-exceptions",
            "-fno-rtti",
            "-fno-threadsafe-statics",
            "-fvisibility=hidden",
        ] {
            build.flag(flag);
        }
    }
    build
}

#[derive(Clone, Copy, PartialEq)]
pub enum Language {
    C,
    Cpp,
}

/// A compiler with its flags.
pub struct Compiler {
    tool: cc::Tool,
    /// What its output depends on besides its command: the target, which some compilers have by default, its version,
    /// and its text where it is a script.
    identity: String,
}

impl Compiler {
    /// Fails where the compiler cannot be run.
    pub fn new(config: &Config, build: &cc::Build, language: Language) -> Result<Compiler> {
        let tool = build.try_get_compiler().map_err(|error| error.to_string())?;
        let mut identity = format!("{}\n", config.target);
        // The whole command, because a launcher such as `CXX="launcher g++"` asks the compiler. cl.exe tells its
        // version on standard error.
        let output = tool.to_command().arg("--version").output();
        let output = output.map_err(|error| missing(config, tool.path(), language, &error))?;
        identity.push_str(&String::from_utf8_lossy(&output.stdout));
        identity.push_str(&String::from_utf8_lossy(&output.stderr));
        let path = tool.path();
        let path = if path.is_file() { Some(path.to_owned()) } else { in_path(config, &path.to_string_lossy()) };
        if let Some(script) = path.and_then(|path| std::fs::read_to_string(path).ok()) {
            identity.push_str(&script);
        }
        Ok(Compiler { tool, identity })
    }

    fn command(&self, source: &Path, output: &Path) -> Command {
        let mut command = self.tool.to_command();
        if self.tool.is_like_msvc() {
            command.arg("/c").arg(source).arg(format!("/Fo{}", output.display()));
        } else {
            command.arg("-c").arg(source).arg("-o").arg(output);
        }
        command
    }

    /// The job that compiles one source to one object.
    fn job(&self, config: &Config, source: &Path, objects: &Path, inputs: Vec<PathBuf>) -> Job {
        let name = source.strip_prefix(&config.root).or(source.strip_prefix(&config.out_dir)).unwrap_or(source);
        let output = objects.join(format!("{}.o", name.to_string_lossy().replace(['/', '\\'], "-")));
        Job {
            label: name.display().to_string(),
            command: self.command(source, &output),
            outputs: vec![output],
            inputs,
            identity: self.identity.clone(),
            finish: None,
            shared: false,
        }
    }
}

/// The sentence for a compiler that cannot be run: what to install, and the other ways out.
fn missing(config: &Config, program: &Path, language: Language, error: &std::io::Error) -> String {
    let (name, variable, gcc, fedora) = match language {
        Language::C => ("C", "CC", "gcc", "gcc"),
        Language::Cpp => ("C++", "CXX", "g++", "gcc-c++"),
    };
    // Such as aarch64-linux-gnu-g++ of Debian's package g++-aarch64-linux-gnu.
    let file_name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let prefix = file_name.strip_suffix(gcc).and_then(|prefix| prefix.strip_suffix('-'));
    let is_musl = prefix.is_some_and(|prefix| prefix.contains("musl"));
    let install = match prefix {
        Some(prefix) if prefix.contains("mingw") => "install it (Debian, Ubuntu: the package mingw-w64)".to_owned(),
        Some(_) if is_musl => "install it (Debian, Ubuntu: the package musl-tools)".to_owned(),
        Some(prefix) => format!("install it (Debian, Ubuntu: the package {gcc}-{})", prefix.replace('_', "-")),
        None if cfg!(windows) => "install Visual Studio's Build Tools with \"Desktop development with C++\"".to_owned(),
        None if cfg!(target_os = "macos") => "install it (xcode-select --install)".to_owned(),
        None => format!("install it (Debian, Ubuntu: the package {gcc}; Fedora: {fedora}; Arch: gcc)"),
    };
    let variable = match &config.cross_target {
        Some(target) => format!("{variable}_{}", target.replace('-', "_")),
        None => variable.to_owned(),
    };
    let without = if language == Language::Cpp { ", or build without the feature `cpu`" } else { "" };
    // No distribution's package has a C++ compiler for musl.
    let ways = match is_musl && language == Language::Cpp {
        true => "name a musl C++ compiler".to_owned(),
        false => format!("{install}, or name another one"),
    };
    format!("the {name} compiler {} cannot be run: {error}; {ways} in {variable}{without}", program.display())
}
