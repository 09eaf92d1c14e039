//! `cargo run -p candle-rocm-patch -- DIR` writes copies of Candle's packages with a ROCm device to DIR.
//!
//! The table in hooks.rs and the folder `changes` list the changes to Candle's sources; rules.rs defines how each kind
//! of change is made. The backend that is added is candle/rocm_backend.

mod changes;
mod folder;
mod hook;
mod hooks;
mod manifest;
mod package;
mod program;
mod rules;
mod source;

use anyhow::{Context, Result, bail};
use package::Files;
use program::Copies;
use source::{Origin, Source};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: candle-rocm-patch DIR [--release VERSION | --vendored FOLDER | --git CHECKOUT] [OPTION ..]

Writes copies of Candle's packages with a ROCm device to DIR, and prints the lines that make a program use them. Running
it again renews them, and leaves all other files in DIR as they are.

  --release VERSION     candle-core, -nn, -flash-attn and -transformers of this release; the newest known if left out
  --vendored FOLDER     the same packages in FOLDER/candle-core, .., where cargo shall not download them
  --git CHECKOUT        a checkout of Candle's repository: all files that git tracks

  --features LIST       features of the lines: rocm-backend (if left out), rocm for AMD GPUs, or both with a comma
  --write Cargo.toml    edits this manifest of a program, in place of printing the lines
  --publish PREFIX      makes packages to publish: PREFIX-core, .., without absolute paths
  --publish-as VERSION  their version; Candle's if left out
  --help                this text";

struct Options {
    dir: PathBuf,
    origin: Origin,
    features: Vec<String>,
    write: Option<PathBuf>,
    publish: Option<String>,
    publish_as: Option<String>,
}

/// The options of the command line. None after the help.
fn options(mut parser: lexopt::Parser) -> Result<Option<Options>> {
    use lexopt::prelude::*;
    let (mut dir, mut origin) = (None, None);
    let (mut features, mut write, mut publish, mut publish_as) = (None, None, None, None);
    while let Some(argument) = parser.next()? {
        let chosen = match argument {
            Long("release") => Origin::Release(parser.value()?.string()?),
            Long("vendored") => Origin::Vendored(parser.value()?.into()),
            Long("git") => Origin::Checkout(parser.value()?.into()),
            other => {
                match other {
                    Long("features") => features = Some(parser.value()?.string()?),
                    Long("write") => write = Some(PathBuf::from(parser.value()?)),
                    Long("publish") => publish = Some(parser.value()?.string()?),
                    Long("publish-as") => publish_as = Some(parser.value()?.string()?),
                    Short('h') | Long("help") => {
                        println!("{USAGE}");
                        return Ok(None);
                    }
                    Value(path) if dir.is_none() => dir = Some(PathBuf::from(path)),
                    Value(path) => bail!("one DIR, please: {} is a second\n\n{USAGE}", path.to_string_lossy()),
                    other => bail!("{}\n\n{USAGE}", other.unexpected()),
                }
                continue;
            }
        };
        if origin.replace(chosen).is_some() {
            bail!("one of --release, --vendored and --git, please\n\n{USAGE}");
        }
    }
    let features = features.as_deref().unwrap_or("rocm-backend").split(',').map(str::to_owned).collect::<Vec<_>>();
    if let Some(other) = features.iter().find(|feature| !matches!(feature.as_str(), "rocm" | "rocm-backend")) {
        bail!("--features {other}: there are rocm and rocm-backend\n\n{USAGE}");
    }
    if publish.is_some() && matches!(origin, Some(Origin::Checkout(_))) {
        bail!("--publish takes a release: a checkout's packages are of no version that others know\n\n{USAGE}");
    }
    if publish_as.is_some() && publish.is_none() {
        bail!("--publish-as goes with --publish\n\n{USAGE}");
    }
    let newest = hooks::RELEASES[hooks::RELEASES.len() - 1];
    Ok(Some(Options {
        dir: dir.with_context(|| format!("which DIR?\n\n{USAGE}"))?,
        origin: origin.unwrap_or_else(|| Origin::Release(newest.to_owned())),
        features,
        write,
        publish,
        publish_as,
    }))
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
    let result = options(lexopt::Parser::from_env()).and_then(|options| options.map_or(Ok(()), run));
    result.map_or_else(
        |error| {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn run(options: Options) -> Result<()> {
    if let Some(manifest) = options.write.as_ref().filter(|manifest| !manifest.is_file()) {
        bail!("--write {}: there is no such file; it takes the program's Cargo.toml", manifest.display());
    }
    let mut source = options.origin.read()?;
    patch(&mut source, &repository()?)?;
    let version = options.publish_as.unwrap_or_else(|| source.version.clone());
    let files = match &options.publish {
        Some(prefix) => published(source.files, prefix, &version)?,
        None => source.files,
    };
    let changed = folder::write(&options.dir, &files)?;
    let copies = Copies {
        dir: options.dir.canonicalize().with_context(|| options.dir.display().to_string())?,
        packages: source.packages.iter().filter(|package| package.released).map(|package| package.name).collect(),
        version,
        features: options.features,
        checkout: matches!(options.origin, Origin::Checkout(_)),
        prefix: options.publish,
    };
    eprintln!("{}: {} files, {changed} of them changed", copies.dir.display(), files.len());
    if let Some(program) = options.write {
        for path in copies.write(&program)? {
            eprintln!("{}: edited", path.display());
        }
        return Ok(());
    }
    println!("# For a program's Cargo.toml, without the dependencies that it does not use.");
    println!("# Features: rocm-backend has the kernels for the CPU, rocm those for AMD GPUs; they add up.");
    print!("{}", copies.lines());
    Ok(())
}

/// Applies the hooks of every package. All hooks of all packages that do not fit are told at once.
fn patch(source: &mut Source, repository: &Path) -> Result<()> {
    let mut problems = Vec::new();
    for package in &source.packages {
        let prefix = format!("{}/", package.name);
        let of_package = |name: &String| name.starts_with(&prefix);
        let names: Vec<String> = source.files.keys().filter(|name| of_package(name)).cloned().collect();
        let mut files = Files::new();
        for name in names {
            files
                .extend(source.files.remove_entry(&name).map(|(name, bytes)| (name[prefix.len()..].to_owned(), bytes)));
        }
        let patched = package::patch(package, &mut files, repository)?;
        eprintln!("{} {}: {} hooks in {} places", package.name, source.version, patched.hooks, patched.places);
        problems.extend(patched.problems.into_iter().map(|problem| format!("  {prefix}{problem}")));
        source.files.extend(files.into_iter().map(|(name, bytes)| (prefix.clone() + &name, bytes)));
    }
    if !problems.is_empty() {
        let (list, fit) = (problems.join("\n"), hooks::RELEASES.join(", "));
        bail!(
            "{} of the hooks in candle/patch do not fit these sources of Candle {}; nothing is written\n{list}\n\
             The releases that fit are {fit}",
            problems.len(),
            source.version
        );
    }
    Ok(())
}

/// The files of the packages under names of their own, and a workspace for them.
fn published(files: Files, prefix: &str, version: &str) -> Result<Files> {
    let mut published = Files::new();
    let mut members = Vec::new();
    for (path, mut bytes) in files {
        let Some((package, name)) = path.split_once('/') else { continue };
        let member = manifest::published_name(prefix, package);
        if name == "Cargo.toml" {
            let text = String::from_utf8(bytes).with_context(|| path.clone())?;
            bytes = manifest::publish(&text, prefix, version).with_context(|| path.clone())?.into_bytes();
            members.push(member.clone());
        }
        published.insert(format!("{member}/{name}"), bytes);
    }
    published.insert("Cargo.toml".into(), manifest::workspace(&members).into_bytes());
    Ok(published)
}
