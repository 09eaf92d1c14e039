//! Shows and extracts the code objects for AMD GPUs in this binary.
//!
//! - `cargo run --features rocm --example hsaco -- list` prints one line per code object: module, architecture, bytes,
//!   kernels.
//! - `cargo run --features rocm --example hsaco -- table [--arch ARCH] [--module MODULE]` prints the resources that
//!   kernels use: registers, static shared memory, scratch, spills, waves that a SIMD unit holds at once, bytes of
//!   code. There is one line per code object with the worst figure of its kernels and the sum of the bytes. With
//!   `--module` there is one line per kernel.
//! - `cargo run --features rocm --example hsaco -- extract DIR` writes each as `DIR/<module>.<arch>.hsaco`, an ELF.
#[path = "support/code_object.rs"]
#[allow(dead_code)] // the tests use the rest
mod code_object;

use candle_rocm_sys::MODULES;
use code_object::Kernel;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const NOTHING: &str = "this binary has no code objects for AMD GPUs: build it with --features rocm";

const HELP: &str = "\
Shows and extracts the code objects for AMD GPUs in this binary.

usage: hsaco [list]                                one line per code object
       hsaco table [--arch ARCH] [--module MODULE] the resources that kernels use
       hsaco extract DIR                           writes each code object as DIR/MODULE.ARCH.hsaco
       hsaco --help                                this text
";

#[derive(Default)]
struct Options {
    /// The command and what it needs.
    words: Vec<String>,
    arch: Option<String>,
    module: Option<String>,
    help: bool,
}

fn options() -> Result<Options, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        let of_table = options.words.first().is_some_and(|word| word == "table");
        match argument {
            Long("arch") if of_table => options.arch = Some(parser.value()?.string()?),
            Long("module") if of_table => options.module = Some(parser.value()?.string()?),
            Value(word) => options.words.push(word.string()?),
            Short('h') | Long("help") => options.help = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

fn run() -> Result<(), String> {
    let options = options().map_err(|error| format!("{error}\n\n{HELP}"))?;
    if options.help {
        print(HELP);
        return Ok(());
    }
    let words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    match words[..] {
        [] | ["list"] => list(),
        ["extract", folder] => extract(Path::new(folder)),
        ["table"] => table(options.arch.as_deref(), options.module.as_deref()),
        _ => Err(format!("{} is no command\n\n{HELP}", words.join(" "))),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> Result<(), String> {
    let mut table = String::new();
    let (mut objects, mut bytes) = (0, 0);
    for module in MODULES {
        for object in code_object::code_objects(module.hsaco())? {
            let kernels = code_object::kernels(object.elf)?.len();
            table += &format!("{:<10} {:<12} {:>10} {:>8}\n", module.name(), object.arch, object.elf.len(), kernels);
            objects += 1;
            bytes += object.elf.len();
        }
    }
    let text = match objects {
        0 => format!("{NOTHING}\n"),
        _ => format!(
            "{:<10} {:<12} {:>10} {:>8}\n{table}{objects} code objects, {bytes} bytes\n",
            "module", "arch", "bytes", "kernels"
        ),
    };
    print(&text);
    Ok(())
}

fn table(arch: Option<&str>, module: Option<&str>) -> Result<(), String> {
    let mut text = format!(
        "{:<10} {:<44} {:>5} {:>5} {:>6} {:>7} {:>6} {:>5} {:>9}\n",
        "arch", "kernel", "VGPRs", "SGPRs", "LDS", "scratch", "spills", "waves", "bytes"
    );
    let heading = text.len();
    for id in MODULES.into_iter().filter(|id| module.is_none_or(|name| name == id.name())) {
        let objects = code_object::code_objects(id.hsaco())?;
        for object in objects.iter().filter(|object| arch.is_none_or(|name| name == object.arch)) {
            let simd = object.architecture()?.simd;
            let mut kernels = code_object::kernels(object.elf)?;
            kernels.sort_by(|a, b| a.name.cmp(&b.name));
            let mut row = |name: &str, kernels: &[Kernel]| {
                let most = |of: fn(&Kernel) -> u64| kernels.iter().map(of).max().unwrap_or(0);
                let waves = kernels.iter().map(|kernel| kernel.waves_per_simd(&simd)).min().unwrap_or(0);
                text += &format!(
                    "{:<10} {name:<44} {:>5} {:>5} {:>6} {:>7} {:>6} {waves:>5} {:>9}\n",
                    object.arch,
                    most(|kernel| kernel.vgprs),
                    most(|kernel| kernel.sgprs),
                    most(|kernel| kernel.lds),
                    most(|kernel| kernel.scratch),
                    most(|kernel| kernel.spills.0 + kernel.spills.1),
                    kernels.iter().map(|kernel| kernel.code_bytes).sum::<u64>()
                );
            };
            if module.is_some() {
                kernels.iter().for_each(|kernel| row(&kernel.name, std::slice::from_ref(kernel)));
            }
            row(&format!("{}: {} kernels", id.name(), kernels.len()), &kernels);
        }
    }
    if text.len() == heading {
        return Err(match (arch, module) {
            (None, None) => NOTHING.to_owned(),
            _ => "this binary has no such code object: `list` shows those that it has".to_owned(),
        });
    }
    print(&text);
    Ok(())
}

/// Ignores a closed pipe, such as one to `head`.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn extract(folder: &Path) -> Result<(), String> {
    let mut written = 0;
    for module in MODULES {
        for object in code_object::code_objects(module.hsaco())? {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            // Not every system allows a colon (as in gfx90a:xnack-) in a file's name.
            let name = format!("{}.{}.hsaco", module.name(), object.arch.replace(':', "_"));
            let path = folder.join(name);
            std::fs::write(&path, object.elf).map_err(|e| format!("{}: {e}", path.display()))?;
            println!("{}", path.display());
            written += 1;
        }
    }
    match written {
        0 => Err(NOTHING.to_owned()),
        _ => Ok(()),
    }
}
