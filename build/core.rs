//! libcandle_rocm.a: the C core, the drivers, the kernels for the CPU, and the embedded code objects.

use crate::config::{self, Config, Result, files};
use crate::embed::Embedded;
use crate::includes::Includes;
use crate::jobs::{self, Job};
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn build(config: &Config, modules: &[String], embedded: &Embedded) -> Result<()> {
    let objects = config.out("core")?;
    let mut jobs = Vec::new();
    let mut includes = Includes::default();
    // The kernels take longest, so they start first, and those with most code before the others.
    if config.cpu {
        let folders = ["kernels", "include"].map(|folder| config.root.join(folder));
        let compiler = Compiler::new(&host_kernel_compiler(config));
        for module in modules {
            let source = config.kernel_source(module);
            let inputs = includes.of(&source, &folders)?;
            jobs.push(Job { shared: true, ..compiler.job(config, &source, &objects, inputs) });
        }
    }
    let compiler = Compiler::new(&c_compiler(config));
    let folders = ["csrc", "kernels", "include"].map(|folder| config.root.join(folder));
    for source in c_sources(config)?.iter().chain([&embedded.tables]) {
        jobs.push(compiler.job(config, source, &objects, includes.of(source, &folders)?));
    }
    if let Some((assembly, inputs)) = &embedded.assembly {
        let compiler = Compiler::new(cc::Build::new().warnings(false));
        let inputs = inputs.iter().chain([assembly]).cloned().collect();
        jobs.push(compiler.job(config, assembly, &objects, inputs));
    }

    let outputs: Vec<PathBuf> = jobs.iter().map(|job| job.outputs[0].clone()).collect();
    jobs::warn(&jobs::run(config, "files", jobs)?);

    // The archive, and cargo's instructions for it.
    cc::Build::new().objects(outputs).compile("candle_rocm");
    println!("cargo::metadata=include={}", config.root.join("include").display());

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

/// The settings that all compilers of this file share.
fn compiler(config: &Config) -> cc::Build {
    let mut build = cc::Build::new();
    build.cargo_metadata(true).warnings(false).extra_warnings(false);
    build.include(config.root.join("include"));
    build.warnings_into_errors(config.strict);
    build
}

fn c_compiler(config: &Config) -> cc::Build {
    let mut build = compiler(config);
    for folder in ["csrc", "kernels"] {
        build.include(config.root.join(folder));
    }
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
    for (built, name) in [(config.cpu, "CRK_WITH_CPU"), (config.rocm, "CRK_WITH_ROCM"), (config.cuda, "CRK_WITH_CUDA")]
    {
        if built {
            build.define(name, None);
        }
    }
    build
}

/// The compiler of kernels for the CPU: C++ without its library.
///
/// A profile that optimises has full optimisation, any other the first level, which compiles in a third of the time and
/// gives the same results to the bit. There is no debug information, which takes minutes for thousands of instances.
/// The compiler must not contract a product and a sum, because the kernels
/// write fma where they mean it. errno and the floating-point flags are given up, so that loops vectorise.
fn host_kernel_compiler(config: &Config) -> cc::Build {
    let mut build = compiler(config);
    build.cpp(true).cpp_link_stdlib(None).std("c++17").warnings(true).extra_warnings(true);
    build.opt_level(if config.optimised { 3 } else { 1 }).debug(false).force_frame_pointer(false);
    build.include(config.root.join("kernels"));
    if build.get_compiler().is_like_msvc() {
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
        ] {
            build.flag(flag);
        }
    }
    build
}

/// A compiler with its flags and its version.
struct Compiler {
    tool: cc::Tool,
    version: String,
}

impl Compiler {
    fn new(build: &cc::Build) -> Compiler {
        let tool = build.get_compiler();
        let output = Command::new(tool.path()).arg("--version").output();
        let version = output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
        Compiler { tool, version }
    }

    /// The job that compiles one source to one object.
    fn job(&self, config: &Config, source: &Path, objects: &Path, inputs: Vec<PathBuf>) -> Job {
        let name = source.strip_prefix(&config.root).or(source.strip_prefix(&config.out_dir)).unwrap_or(source);
        let output = objects.join(format!("{}.o", name.to_string_lossy().replace(['/', '\\'], "-")));
        let mut command = self.tool.to_command();
        if self.tool.is_like_msvc() {
            command.arg("/c").arg(source).arg(format!("/Fo{}", output.display()));
        } else {
            command.arg("-c").arg(source).arg("-o").arg(&output);
        }
        Job {
            label: name.display().to_string(),
            command,
            outputs: vec![output],
            inputs,
            identity: self.version.clone(),
            finish: None,
            shared: false,
        }
    }
}
