//! Code objects for GPUs: every module for every architecture, each compiled when its inputs change.

use crate::bundle::bundle;
use crate::config::{self, Config, Result, files};
use crate::jobs::{self, Job, Outcome};
use crate::toolchain::{Cuda, Hip, file_stem, gpu_of};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// A file a module, in the order of the modules; none where this build has none.
pub struct Images {
    pub hip: Vec<Option<PathBuf>>,
    pub cuda: Vec<Option<PathBuf>>,
}

pub fn build(config: &Config, modules: &[String]) -> Result<Images> {
    let mut images = Images { hip: vec![None; modules.len()], cuda: vec![None; modules.len()] };
    if config.no_kernels && (config.rocm || config.cuda) {
        println!("cargo::warning=CANDLE_ROCM_NO_KERNELS is set: this build has no code objects for GPUs");
    }
    if !config.builds_code_objects() {
        return Ok(images);
    }
    if config.rocm {
        images.hip = build_hip(config, modules)?.into_iter().map(Some).collect();
    }
    if config.cuda {
        images.cuda = build_cuda(config, modules)?.into_iter().map(Some).collect();
    }
    Ok(images)
}

/// OUT_DIR/<module>.hsaco: an offload bundle a module, of an ELF an architecture.
fn build_hip(config: &Config, modules: &[String]) -> Result<Vec<PathBuf>> {
    let start = Instant::now();
    let compiler = Hip::find(config)?;
    let archs = compiler.architectures(config)?;
    let folder = config.out("hip")?;
    let headers = files(&config.root.join("kernels"), &["h"], true)?;

    let mut jobs = Vec::new();
    for arch in &archs {
        for module in modules {
            let source = config.kernel_source(module);
            let output = folder.join(format!("{module}.{}.elf", file_stem(arch)));
            jobs.push(Job {
                label: format!("kernels/{module}.hip for {arch}"),
                command: compiler.command(config, arch, &source, &output),
                output,
                inputs: headers.iter().cloned().chain([source]).collect(),
                identity: compiler.identity.clone(),
            });
        }
    }
    let outputs: Vec<PathBuf> = jobs.iter().map(|job| job.output.clone()).collect();
    let outcomes = jobs::run(jobs, config.jobs)?;
    for (arch, outcomes) in archs.iter().zip(outcomes.chunks(modules.len())) {
        report(&format!("{arch} ({})", gpu_of(arch)).replace(" ()", ""), outcomes);
    }
    if outcomes.iter().any(|outcome| outcome.ran) {
        total(start, &outcomes, &compiler.path, config.jobs);
    }

    let mut images = Vec::new();
    for (index, module) in modules.iter().enumerate() {
        let image = config.out_dir.join(format!("{module}.hsaco"));
        let mut objects = Vec::new();
        for (arch, outputs) in archs.iter().zip(outputs.chunks(modules.len())) {
            let path = &outputs[index];
            let elf = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
            if !elf.starts_with(b"\x7fELF") {
                return Err(format!(
                    "{} made {} for {arch}, which is no ELF: a HIP compiler for AMD GPUs is needed",
                    compiler.path.display(),
                    path.display()
                ));
            }
            objects.push((arch.as_str(), elf));
        }
        config::write(&image, bundle(&objects))?;
        images.push(image);
    }
    Ok(images)
}

/// OUT_DIR/cuda/<module>.fatbin.
fn build_cuda(config: &Config, modules: &[String]) -> Result<Vec<PathBuf>> {
    let start = Instant::now();
    let compiler = Cuda::find(config)?;
    let archs = compiler.architectures(config)?;
    let folder = config.out("cuda")?;
    let headers = files(&config.root.join("kernels"), &["h"], true)?;

    let mut jobs = Vec::new();
    for module in modules {
        let source = config.kernel_source(module);
        let output = folder.join(format!("{module}.fatbin"));
        jobs.push(Job {
            label: format!("kernels/{module}.hip for CUDA"),
            command: compiler.command(config, &archs, &source, &output),
            output,
            inputs: headers.iter().cloned().chain([source]).collect(),
            identity: compiler.identity.clone(),
        });
    }
    let outputs = jobs.iter().map(|job| job.output.clone()).collect();
    let outcomes = jobs::run(jobs, config.jobs)?;
    let names: Vec<_> = archs.iter().map(|arch| format!("sm_{arch}")).collect();
    report(&names.join(", "), &outcomes);
    if outcomes.iter().any(|outcome| outcome.ran) {
        total(start, &outcomes, &compiler.path, config.jobs);
    }
    Ok(outputs)
}

/// A line for what was compiled, none where all was up to date; then what the compiler had to say.
fn report(what: &str, outcomes: &[Outcome]) {
    let ran = outcomes.iter().filter(|outcome| outcome.ran).count();
    if ran > 0 {
        let seconds: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
        println!("cargo::warning=kernels for {what}: {ran} of {} modules compiled, {seconds:.1} s", outcomes.len());
    }
    jobs::warn(outcomes);
}

fn total(start: Instant, outcomes: &[Outcome], compiler: &std::path::Path, parallel: usize) {
    println!(
        "cargo::warning=kernels: {} code objects in {:.1} s, {} at a time, by {}",
        outcomes.iter().filter(|outcome| outcome.ran).count(),
        start.elapsed().as_secs_f64(),
        parallel.min(outcomes.len()),
        compiler.display()
    );
}
