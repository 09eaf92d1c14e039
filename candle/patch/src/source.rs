//! Finds the sources of Candle: a release, which cargo downloads, vendored packages, or a checkout of its repository.

use crate::hook::Package;
use crate::hooks::PACKAGES;
use crate::manifest;
use crate::package::{self, Files};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where the sources come from.
pub enum Origin {
    /// A version on crates.io.
    Release(String),
    /// A folder with released packages in folders of their names, as `cargo vendor` makes it.
    Vendored(PathBuf),
    /// A checkout of Candle's repository.
    Checkout(PathBuf),
}

/// Candle's sources in memory.
pub struct Source {
    /// Every file, below the folder of its package.
    pub files: Files,
    pub packages: Vec<&'static Package>,
    /// The version of all packages. A checkout has that of the last release before it.
    pub version: String,
}

impl Origin {
    pub fn read(&self) -> Result<Source> {
        let mut files = Files::new();
        match self {
            Origin::Release(version) => {
                for (package, folder) in download(version)? {
                    add(&mut files, package.name, &folder)?;
                }
            }
            Origin::Vendored(root) => {
                for package in released() {
                    add(&mut files, package.name, &root.join(package.name))?;
                }
            }
            Origin::Checkout(root) => files = package::read(root)?,
        }
        let there = |package: &&Package| files.contains_key(&format!("{}/Cargo.toml", package.name));
        let packages: Vec<_> = PACKAGES.iter().filter(there).collect();
        if packages.first().is_none_or(|package| package.name != "candle-core") {
            bail!("{}: there is no candle-core/Cargo.toml", self.place());
        }
        let version = manifest::version(&files).with_context(|| self.place())?;
        Ok(Source { files, packages, version })
    }

    fn place(&self) -> String {
        match self {
            Origin::Release(version) => format!("Candle {version}"),
            Origin::Vendored(folder) | Origin::Checkout(folder) => folder.display().to_string(),
        }
    }
}

fn add(files: &mut Files, name: &str, folder: &Path) -> Result<()> {
    files.extend(package::read(folder)?.into_iter().map(|(path, bytes)| (format!("{name}/{path}"), bytes)));
    Ok(())
}

fn released() -> impl Iterator<Item = &'static Package> {
    PACKAGES.iter().filter(|package| package.released)
}

/// The folders of the released packages. Cargo downloads them if they are not there yet.
fn download(version: &str) -> Result<Vec<(&'static Package, PathBuf)>> {
    // Threads may ask for the same version.
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("candle-rocm-patch-{}-{call}", std::process::id()));
    let found = ask_cargo(&folder, version);
    // A folder that cannot be removed does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    let metadata = found?;
    let locate = |package: &'static Package| {
        let folder = locate(&metadata, package.name);
        Ok((package, folder.with_context(|| format!("cargo metadata names no {}", package.name))?))
    };
    released().map(locate).collect()
}

/// Runs `cargo metadata` for a package whose only dependencies are the released packages.
fn ask_cargo(folder: &Path, version: &str) -> Result<serde_json::Value> {
    let dependencies: String = released().map(|package| format!("{} = \"={version}\"\n", package.name)).collect();
    let manifest = folder.join("Cargo.toml");
    let package = "[package]\nname = \"released\"\nversion = \"0.0.0\"\nedition = \"2021\"\n";
    std::fs::create_dir_all(folder.join("src"))
        .and_then(|()| std::fs::write(folder.join("src/lib.rs"), ""))
        .and_then(|()| std::fs::write(&manifest, format!("{package}\n[workspace]\n\n[dependencies]\n{dependencies}")))
        .with_context(|| format!("{}, a folder for temporary files", folder.display()))?;

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&cargo)
        .args(["metadata", "--format-version=1", "--manifest-path"])
        .arg(&manifest)
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("{} cannot be run", cargo.to_string_lossy()))?;
    if !output.status.success() {
        bail!("cargo metadata failed; --vendored takes packages that are there already");
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata is no JSON")
}

fn locate(metadata: &serde_json::Value, name: &str) -> Option<PathBuf> {
    let mut packages = metadata["packages"].as_array()?.iter();
    let package = packages.find(|package| package["name"] == name)?;
    Some(Path::new(package["manifest_path"].as_str()?).parent()?.to_owned())
}
