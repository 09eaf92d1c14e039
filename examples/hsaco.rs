//! What this binary carries for AMD GPUs.
//!
//! - `cargo run --features rocm --example hsaco -- list` prints a line a code object: module, architecture, bytes, kernels.
//! - `cargo run --features rocm --example hsaco -- extract DIR` writes each as `DIR/<module>.<arch>.hsaco`, an ELF.
#[path = "support/code_object.rs"]
#[allow(dead_code)] // The tests use the rest.
mod code_object;

use candle_rocm_sys::ALL_IDS;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const NOTHING: &str = "this binary has no code objects for AMD GPUs: build it with --features rocm";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        [] | ["list"] => list(),
        ["extract", folder] => extract(Path::new(folder)),
        _ => Err("usage: hsaco [list | extract DIR]".to_owned()),
    };
    match result {
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
    for module in ALL_IDS.map(|id| id.module()) {
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
    // Whoever closes the pipe early, as `head` does, has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn extract(folder: &Path) -> Result<(), String> {
    let mut written = 0;
    for module in ALL_IDS.map(|id| id.module()) {
        for object in code_object::code_objects(module.hsaco())? {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            // A colon, as in gfx90a:xnack-, cannot be in a file's name everywhere.
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
