//! Compiles a program's own kernels for AMD GPUs. The `main` of its `build.rs` calls
//!
//! ```no_run
//! // in the main function of build.rs
//! candle_rocm_build::Kernels::new().source("kernels/rms.cu").build();
//! ```
//!
//! The program embeds the bundle, and loads the code object in it that is for its device:
//!
//! ```ignore
//! const RMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rms.hsaco"));
//! let kernel = unsafe { device.get_or_load_code_object("rms_f32", "rms", RMS)? }; // Candle's RocmDevice
//! let module = unsafe { device.load_module("rms", RMS)? };                        // candle_rocm_sys::Device
//! ```
//!
//! The compiler and the architectures are those that candle-rocm-sys takes: `HIPCC`, `ROCM_PATH`, `CANDLE_ROCM_ARCHS`
//! and the other variables of docs/building.md. The compiler needs HIP's headers beside it.
#![deny(missing_docs)]

#[allow(dead_code)]
#[path = "../../build/architectures.rs"]
mod architectures;
#[path = "../../build/bundle.rs"]
mod bundle;
#[allow(dead_code)]
#[path = "../../build/cache.rs"]
mod cache;
#[allow(dead_code)]
#[path = "../../build/config.rs"]
mod config;
#[allow(dead_code)]
#[path = "../../build/includes.rs"]
mod includes;
#[allow(dead_code)]
#[path = "../../build/jobs.rs"]
mod jobs;
#[path = "../../build/parts.rs"]
mod parts;
#[path = "../../build/program.rs"]
mod program;
#[allow(dead_code)]
#[path = "../../build/progress.rs"]
mod progress;
#[allow(dead_code)]
#[path = "../../build/toolchain.rs"]
mod toolchain;

use config::{Config, Result};
use includes::Includes;
use jobs::Job;
use std::path::{Path, PathBuf};
use toolchain::{Architectures, Hip, file_stem};

/// The kernels of a program, and how to compile them.
#[derive(Debug, Default)]
pub struct Kernels {
    sources: Vec<PathBuf>,
    includes: Vec<PathBuf>,
    flags: Vec<String>,
}

impl Kernels {
    /// No sources.
    pub fn new() -> Kernels {
        Kernels::default()
    }

    /// Adds a source. A `.cu` file is CUDA, in the form that `crk_module_compile_cuda` takes; any other is HIP.
    /// Each becomes one bundle, `OUT_DIR/<stem>.hsaco`.
    pub fn source(mut self, path: impl Into<PathBuf>) -> Kernels {
        self.sources.push(path.into());
        self
    }

    /// Adds a folder in which the sources find headers. The sources are compiled again when a header of it changes.
    pub fn include(mut self, folder: impl Into<PathBuf>) -> Kernels {
        self.includes.push(folder.into());
        self
    }

    /// Adds a flag of the compiler, such as `-DN=4`.
    pub fn flag(mut self, flag: impl Into<String>) -> Kernels {
        self.flags.push(flag.into());
        self
    }

    /// Compiles all sources for every architecture of this build. An error becomes one of cargo's.
    ///
    /// With `CANDLE_ROCM_NO_KERNELS=1`, and on docs.rs, nothing is compiled and the bundles are empty. Loading one is
    /// then an error. A build script makes one such call at a time: their compilers share a folder.
    pub fn build(&self) {
        if let Err(message) = self.try_build() {
            // The status is 0. With another one, cargo would print the script's whole output after the message.
            message.lines().for_each(|line| println!("cargo::error={line}"));
        }
    }

    /// The same, with the error's text. Returns the bundles in the order of the sources.
    pub fn try_build(&self) -> std::result::Result<Vec<PathBuf>, String> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("candle-rocm-build has no folder")?;
        let config = Config { root: repository.to_owned(), rocm: true, ..Config::from_env()? };
        let bundles: Vec<PathBuf> = self.sources.iter().map(|source| bundle_of(&config, source)).collect();
        for (index, bundle) in bundles.iter().enumerate() {
            if let Some(first) = bundles[..index].iter().position(|other| other == bundle) {
                let [one, two] = [first, index].map(|source| self.sources[source].display());
                return Err(format!("{one} and {two} have one stem, so both would be {}", bundle.display()));
            }
        }
        if !config.builds_code_objects() {
            bundles.iter().try_for_each(|bundle| config::write(bundle, []))?;
            return Ok(bundles);
        }
        let compiler = Hip::find(&config)?;
        let Architectures { names: archs, notes } = compiler.architectures(&config)?;
        notes.iter().for_each(|note| println!("cargo::warning={note}"));

        let folder = config.out("own_kernels")?;
        let mut includes = Includes::default();
        let mut jobs = Vec::new();
        for source in &self.sources {
            let inputs = self.inputs(&config, &mut includes, source)?;
            inputs.iter().for_each(|input| println!("cargo::rerun-if-changed={}", input.display()));
            for arch in &archs {
                let output = folder.join(format!("{}.{}.elf", stem(source), file_stem(arch)));
                let mut command = compiler.program_command(&config, arch, is_cuda(source));
                for include in &self.includes {
                    command.arg("-I").arg(include);
                }
                command.args(&self.flags).arg("-c").arg(source).arg("-o").arg(&output);
                jobs.push(Job {
                    label: format!("{} for {arch}", source.display()),
                    command,
                    outputs: vec![output],
                    inputs: inputs.clone(),
                    identity: compiler.identity.clone(),
                    finish: None,
                    shared: false,
                });
            }
        }
        let outputs: Vec<PathBuf> = jobs.iter().map(|job| job.outputs[0].clone()).collect();
        jobs::warn(&jobs::run(&config, "kernels", jobs)?);
        for (bundle, elfs) in bundles.iter().zip(outputs.chunks(archs.len())) {
            config::write(bundle, bundle_bytes(&archs, elfs)?)?;
        }
        Ok(bundles)
    }

    /// The files that a source includes, the port's among them.
    fn inputs(&self, config: &Config, includes: &mut Includes, source: &Path) -> Result<Vec<PathBuf>> {
        let kernels = config.root.join("kernels");
        let port = kernels.join("cuda_port");
        // In the compiler's order.
        let folders: Vec<_> = [kernels, port.clone()].into_iter().chain(self.includes.iter().cloned()).collect();
        let mut inputs = includes.of(source, &folders)?;
        if is_cuda(source) {
            for header in config::files(&port, &["h"], true)? {
                inputs.extend(includes.of(&header, &folders)?);
            }
        }
        for folder in &self.includes {
            inputs.extend(config::files(folder, &["h", "hpp", "cuh", "inc"], true)?);
        }
        inputs.sort();
        inputs.dedup();
        Ok(inputs)
    }
}

fn is_cuda(source: &Path) -> bool {
    source.extension().is_some_and(|extension| extension == "cu")
}

fn stem(source: &Path) -> String {
    source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn bundle_of(config: &Config, source: &Path) -> PathBuf {
    config.out_dir.join(format!("{}.hsaco", stem(source)))
}

/// One offload bundle with these ELFs.
fn bundle_bytes(archs: &[String], elfs: &[PathBuf]) -> Result<Vec<u8>> {
    let elfs = elfs.iter().map(|elf| config::read_bytes(elf)).collect::<Result<Vec<_>>>()?;
    let sizes: Vec<_> = archs.iter().zip(&elfs).map(|(arch, elf)| (arch.as_str(), elf.len())).collect();
    let mut bytes = bundle::table(&sizes);
    for elf in &elfs {
        bytes.extend(elf);
        bytes.resize(bytes.len().next_multiple_of(bundle::ALIGNMENT), 0);
    }
    Ok(bytes)
}
