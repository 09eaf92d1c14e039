//! Finds the released packages, which cargo downloads.

use crate::hooks;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of candle-core and candle-nn. Cargo downloads them if they are not there yet.
pub fn find() -> Result<[PathBuf; 2]> {
    let folder = std::env::temp_dir().join(format!("candle-rocm-patch-{}", std::process::id()));
    let found = ask_cargo(&folder);
    // A folder that cannot be removed does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    let metadata = found?;
    let locate = |name| locate(&metadata, name).with_context(|| format!("cargo metadata names no {name}"));
    Ok([locate("candle-core")?, locate("candle-nn")?])
}

/// Runs `cargo metadata` for a package whose only dependencies are the two released packages.
fn ask_cargo(folder: &Path) -> Result<serde_json::Value> {
    let dependencies: String =
        hooks::PACKAGES.iter().map(|package| format!("{} = \"={}\"\n", package.name, hooks::VERSION)).collect();
    let manifest = folder.join("Cargo.toml");
    std::fs::create_dir_all(folder.join("src"))?;
    std::fs::write(folder.join("src/lib.rs"), "")?;
    let package = "[package]\nname = \"released\"\nversion = \"0.0.0\"\nedition = \"2021\"\n";
    std::fs::write(&manifest, format!("{package}\n[workspace]\n\n[dependencies]\n{dependencies}"))?;

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&cargo)
        .args(["metadata", "--format-version=1", "--manifest-path"])
        .arg(&manifest)
        .output()
        .with_context(|| format!("{} cannot be run", cargo.to_string_lossy()))?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr);
        bail!("cargo metadata failed; --candle-core and --candle-nn take copies that are there already\n{messages}");
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata is no JSON")
}

fn locate(metadata: &serde_json::Value, name: &str) -> Option<PathBuf> {
    let mut packages = metadata["packages"].as_array()?.iter();
    let package = packages.find(|package| package["name"] == name)?;
    Some(Path::new(package["manifest_path"].as_str()?).parent()?.to_owned())
}
