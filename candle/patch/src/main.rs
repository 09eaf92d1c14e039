//! `cargo run -p candle-rocm-patch -- DIR` writes copies of the released candle-core and candle-nn with a ROCm device
//! to DIR.
//!
//! The table in hooks.rs lists the changes to Candle's sources; rules.rs defines how each kind of change is made. The
//! backend that is added is candle/rocm_backend.

mod folder;
mod hook;
mod hooks;
mod manifest;
mod package;
mod released;
mod rules;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: candle-rocm-patch DIR [--candle-core PATH --candle-nn PATH]

Writes copies of candle-core and candle-nn with a ROCm device to DIR/candle-core and DIR/candle-nn, and prints the lines
that make a program use them. Running it again renews them.

  --candle-core PATH, --candle-nn PATH   the released sources, where cargo shall not download them";

struct Options {
    dir: PathBuf,
    /// The sources of candle-core and candle-nn.
    sources: Option<[PathBuf; 2]>,
}

fn options(arguments: impl IntoIterator<Item = String>) -> Result<Options> {
    let (mut dir, mut core, mut nn) = (None, None, None);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let slot = match argument.as_str() {
            "--candle-core" => &mut core,
            "--candle-nn" => &mut nn,
            "-h" | "--help" => {
                println!("{USAGE}");
                std::process::exit(0);
            }
            option if option.starts_with('-') => bail!("there is no option {option}\n\n{USAGE}"),
            _ => {
                if dir.replace(PathBuf::from(&argument)).is_some() {
                    bail!("one DIR, please: {argument} is a second\n\n{USAGE}");
                }
                continue;
            }
        };
        *slot = Some(PathBuf::from(arguments.next().with_context(|| format!("{argument} needs a path\n\n{USAGE}"))?));
    }
    let sources = match (core, nn) {
        (Some(core), Some(nn)) => Some([core, nn]),
        (None, None) => None,
        _ => bail!("--candle-core and --candle-nn go together\n\n{USAGE}"),
    };
    Ok(Options { dir: dir.with_context(|| format!("which DIR?\n\n{USAGE}"))?, sources })
}

/// The root of this repository. `cargo run` tells where it is at run time. The path at build time may belong to another
/// checkout, because checkouts that share a target folder may share this program.
fn repository() -> Result<PathBuf> {
    let run_by_cargo = std::env::var("CARGO_PKG_NAME").is_ok_and(|name| name == env!("CARGO_PKG_NAME"));
    let folder = std::env::var("CARGO_MANIFEST_DIR").ok().filter(|_| run_by_cargo);
    let root = Path::new(folder.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR"))).join("../..");
    root.canonicalize().with_context(|| format!("{}: built from a folder that is gone", root.display()))
}

fn main() -> ExitCode {
    // Prints only the message. The cause is the user's folder or Candle's release, not a bug of this program.
    run().map_or_else(
        |error| {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn run() -> Result<()> {
    let options = options(std::env::args().skip(1))?;
    let repository = repository()?;
    let sources = match options.sources {
        Some(sources) => sources,
        None => released::find()?,
    };

    let mut files = folder::mark();
    for (package, source) in hooks::PACKAGES.iter().zip(&sources) {
        let patched = package::patch(package, source, &repository)?;
        eprintln!("{} {}: {} hooks in {} places", package.name, hooks::VERSION, patched.hooks, patched.places);
        files.extend(patched.files.into_iter().map(|(path, bytes)| (format!("{}/{path}", package.name), bytes)));
    }
    let changed = folder::write(&options.dir, &files)?;
    let dir = options.dir.canonicalize()?;
    eprintln!("{}: {} files, {changed} of them changed. For a program's Cargo.toml:\n", dir.display(), files.len());
    print!("{}", manifest::patch_section(&hooks::PACKAGES, &dir));
    Ok(())
}
