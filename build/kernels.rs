//! Code objects for GPUs: one per module and architecture. Each is compiled again when its inputs change. Those for AMD
//! GPUs may come from a file instead (prebuilt.rs).

use crate::bundle;
use crate::config::{self, Config, Result};
use crate::includes::Includes;
use crate::jobs::{self, Job, Outcome, Source};
use crate::pack;
use crate::prebuilt::{self, Object, Prebuilt};
use crate::toolchain::{self, Architectures, Cuda, Hip, file_stem, with_card};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The packed image of each module, in the order of the modules; `None` where this build has none.
pub struct Images {
    pub hip: Vec<Option<PathBuf>>,
    pub cuda: Vec<Option<PathBuf>>,
}

pub fn build(config: &Config, modules: &[String]) -> Result<Images> {
    let mut images = Images { hip: vec![None; modules.len()], cuda: vec![None; modules.len()] };
    if config.no_kernels && (config.rocm || config.cuda) {
        println!("cargo::warning=CANDLE_ROCM_NO_KERNELS is set: this build has no kernels for GPUs");
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

/// Makes OUT_DIR/<module>.hsaco.zst: per module one packed offload bundle, with one ELF per architecture.
fn build_hip(config: &Config, modules: &[String]) -> Result<Vec<PathBuf>> {
    let objects = match &config.code_objects {
        Some(file) => take_hip(config, modules, file)?,
        None => compile_hip(config, modules)?,
    };
    let mut images = Vec::new();
    for module in modules {
        let objects: Vec<_> = objects.iter().filter(|object| object.module == *module).collect();
        let sizes: Vec<_> = objects.iter().map(|object| (object.arch.as_str(), object.bytes)).collect();
        let mut packed = pack::frame(&bundle::table(&sizes))?;
        for object in objects {
            packed.extend(&object.frame);
        }
        let image = config.out_dir.join(format!("{module}.hsaco.zst"));
        config::write(&image, packed)?;
        images.push(image);
    }
    Ok(images)
}

/// The code objects of a file, for all of its architectures or for those that CANDLE_ROCM_ARCHS names.
fn take_hip(config: &Config, modules: &[String], file: &Path) -> Result<Vec<Object>> {
    println!("cargo::rerun-if-changed={}", file.display());
    let Prebuilt { compiler, archs, mut objects } = prebuilt::read(config, modules, file)?;
    let archs = toolchain::prebuilt_architectures(config, file, &archs)?;
    objects.retain(|object| archs.contains(&object.arch));
    println!(
        "cargo::warning=kernels for {}: taken from {}, made by {compiler}; embedded as {:.2} MB",
        archs.join(", "),
        file.display(),
        objects.iter().map(|object| object.frame.len()).sum::<usize>() as f64 / 1e6
    );
    Ok(objects)
}

fn compile_hip(config: &Config, modules: &[String]) -> Result<Vec<Object>> {
    let start = Instant::now();
    let compiler = Hip::find(config)?;
    let Architectures { names: archs, notes } = compiler.architectures(config)?;
    notes.iter().for_each(|note| println!("cargo::warning={note}"));
    let folder = config.out("hip")?;
    let mut includes = Includes::default();

    let mut jobs = Vec::new();
    for arch in &archs {
        for module in modules {
            let source = config.kernel_source(module);
            let output = folder.join(format!("{module}.{}.elf", file_stem(arch)));
            jobs.push(Job {
                label: format!("kernels/{module}.hip for {arch}"),
                command: compiler.command(config, arch, &source, &output),
                outputs: vec![output.clone(), pack::packed_path(&output)],
                inputs: includes.of(&source, &[config.root.join("kernels")])?,
                identity: format!("{}\n{}", compiler.identity, pack::identity()),
                finish: Some(pack::elf),
                shared: true,
            });
        }
    }
    // An architecture's own: with that of another one, its entries in the cache would depend on which others are built.
    for (arch, jobs) in archs.iter().zip(jobs.chunks_mut(modules.len())) {
        let command = |source: &Path, output: &Path| compiler.command(config, arch, source, output);
        jobs::add_outside(jobs, includes.outside(config, Includes::PREPROCESS, command)?);
    }
    let outputs: Vec<PathBuf> = jobs.iter().map(|job| job.outputs[0].clone()).collect();
    let outcomes = jobs::run(config, "kernels", jobs)?;
    for (index, arch) in archs.iter().enumerate() {
        let part = index * modules.len()..(index + 1) * modules.len();
        report(&with_card(arch), &outcomes[part.clone()], &outputs[part])?;
    }
    if jobs::count(&outcomes, Source::Kept) < outcomes.len() {
        total(start, &outcomes, &compiler.path, config.jobs);
    }

    let mut objects = Vec::new();
    let names = archs.iter().flat_map(|arch| modules.iter().map(move |module| (module, arch)));
    for ((module, arch), elf) in names.zip(&outputs) {
        let (module, arch, bytes) = (module.clone(), arch.clone(), config::size(elf)? as usize);
        objects.push(Object { module, arch, bytes, frame: config::read_bytes(&pack::packed_path(elf))? });
    }
    if config.pack_code_objects {
        let packed = prebuilt::encode(config, modules, &compiler.identity, &objects)?;
        config::write(&config.out_dir.join("packed"), packed)?;
    }
    Ok(objects)
}

/// Makes OUT_DIR/cuda/<module>.fatbin.zst: per module one packed fatbin.
fn build_cuda(config: &Config, modules: &[String]) -> Result<Vec<PathBuf>> {
    let start = Instant::now();
    let compiler = Cuda::find(config)?;
    let archs = compiler.architectures(config)?;
    let folder = config.out("cuda")?;
    let mut includes = Includes::default();

    let mut jobs = Vec::new();
    for module in modules {
        let source = config.kernel_source(module);
        let output = folder.join(format!("{module}.fatbin"));
        jobs.push(Job {
            label: format!("kernels/{module}.hip for CUDA"),
            command: compiler.command(config, &archs, &source, &output),
            outputs: vec![output.clone(), pack::packed_path(&output)],
            inputs: includes.of(&source, &[config.root.join("kernels")])?,
            identity: format!("{}\n{}", compiler.identity, pack::identity()),
            finish: Some(pack::fatbin),
            shared: true,
        });
    }
    let outside = includes.outside(config, &[], |source, output| compiler.preprocess(source, output))?;
    jobs::add_outside(&mut jobs, outside);
    let outputs: Vec<PathBuf> = jobs.iter().map(|job| job.outputs[0].clone()).collect();
    let outcomes = jobs::run(config, "kernels", jobs)?;
    let names: Vec<_> = archs.iter().map(|arch| format!("sm_{arch}")).collect();
    report(&names.join(", "), &outcomes, &outputs)?;
    if jobs::count(&outcomes, Source::Kept) < outcomes.len() {
        total(start, &outcomes, &compiler.path, config.jobs);
    }
    Ok(outputs.iter().map(|output| pack::packed_path(output)).collect())
}

/// Prints one line about the modules that were compiled or copied from the cache, and their sizes, or none where all
/// were up to date; then the compiler's messages.
fn report(what: &str, outcomes: &[Outcome], outputs: &[PathBuf]) -> Result<()> {
    let compiled = jobs::count(outcomes, Source::Compiler);
    let copied = jobs::count(outcomes, Source::Cache);
    if compiled + copied > 0 {
        let seconds: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
        let (mut bytes, mut packed) = (0, 0);
        for output in outputs {
            bytes += config::size(output)?;
            packed += config::size(&pack::packed_path(output))?;
        }
        println!(
            "cargo::warning=kernels for {what}: {compiled} of {} modules compiled, {copied} from the cache, in \
             {seconds:.1} s; {:.2} MB, embedded as {:.2} MB",
            outcomes.len(),
            bytes as f64 / 1e6,
            packed as f64 / 1e6
        );
    }
    jobs::warn(outcomes);
    Ok(())
}

fn total(start: Instant, outcomes: &[Outcome], compiler: &Path, parallel: usize) {
    println!(
        "cargo::warning=kernels: {} code objects in {:.1} s, {} at a time, by {}",
        outcomes.len() - jobs::count(outcomes, Source::Kept),
        start.elapsed().as_secs_f64(),
        parallel.min(outcomes.len()),
        compiler.display()
    );
}
