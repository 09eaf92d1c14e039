//! Edits Cargo.toml: patches a package's manifest and prints the lines for a program's manifest.

use crate::hook::Package;
use crate::hooks::VERSION;
use anyhow::{Context, Result, bail};
use std::path::Path;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, value};

/// Fails unless the manifest is of the package and version that the hooks are for.
pub fn check(text: &str, package: &Package, place: &Path) -> Result<()> {
    let manifest: DocumentMut = text.parse().with_context(|| place.display().to_string())?;
    let field = |name: &str| manifest.get("package").and_then(|package| package.get(name)).and_then(Item::as_str);
    let (name, version) = (field("name").unwrap_or("a package"), field("version").unwrap_or("of no version"));
    if (name, version) != (package.name, VERSION) {
        bail!("{name} {version} found in {}, the hooks are for {} {VERSION}", place.display(), package.name);
    }
    Ok(())
}

/// A released manifest with the package's additional features and its dependency on this repository.
pub fn patch(text: &str, package: &Package, repository: &Path) -> Result<String> {
    let mut manifest: DocumentMut = text.parse()?;
    let features = manifest["features"].as_table_mut().context("no [features]")?;
    for (feature, needs) in package.features {
        if features.contains_key(feature) {
            bail!("there is a feature {feature} already");
        }
        features[*feature] = value(Array::from_iter(needs.iter().copied()));
    }
    if package.has_backend {
        let mut dependency = Table::new();
        dependency["path"] = value(repository.to_str().context("the repository's path is not UTF-8")?);
        dependency["version"] = value(own_version(repository)?);
        dependency["optional"] = value(true);
        // A program for GPUs compiles no kernels for the CPU.
        dependency["default-features"] = value(false);
        manifest["dependencies"]["candle-rocm-sys"] = Item::Table(dependency);
    }
    Ok(manifest.to_string())
}

fn own_version(repository: &Path) -> Result<String> {
    let path = repository.join("Cargo.toml");
    let manifest: DocumentMut = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?.parse()?;
    let package = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let version = package.and_then(|package| package.get("version")).and_then(Item::as_str);
    Ok(version.with_context(|| format!("{}: no version", path.display()))?.to_owned())
}

/// The lines for a program's manifest: `[patch.crates-io]` with the packages in `folder`.
pub fn patch_section(packages: &[Package], folder: &Path) -> String {
    let mut crates_io = Table::new();
    for package in packages {
        let mut place = InlineTable::new();
        place.insert("path", folder.join(package.name).to_string_lossy().into_owned().into());
        crates_io[package.name] = value(place);
    }
    let mut patch = Table::new();
    patch.set_implicit(true);
    patch["crates-io"] = Item::Table(crates_io);
    let mut manifest = DocumentMut::new();
    manifest["patch"] = Item::Table(patch);
    manifest.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::PACKAGES;

    const RELEASED: &str = "[package]\nname = \"candle-core\"\nversion = \"0.11.1\"\n\n[features]\ndefault = []\n\n\
        [dependencies.half]\nversion = \"2\"\n";

    #[test]
    fn another_version_is_refused() {
        check(RELEASED, &PACKAGES[0], Path::new("here")).unwrap();
        let refusal = check(&RELEASED.replace("0.11.1", "0.12.0"), &PACKAGES[0], Path::new("here"));
        let refusal = refusal.unwrap_err().to_string();
        assert_eq!(refusal, "candle-core 0.12.0 found in here, the hooks are for candle-core 0.11.1");
        assert!(check(RELEASED, &PACKAGES[1], Path::new("here")).is_err());
    }

    #[test]
    fn features_and_the_dependency() {
        let patched = patch(RELEASED, &PACKAGES[0], &crate::repository().unwrap()).unwrap();
        assert!(patched.starts_with("[package]\nname = \"candle-core\""), "{patched}");
        assert!(patched.contains("\n_rocm = [\"dep:candle-rocm-sys\"]\n"), "{patched}");
        assert!(patched.contains("\n[dependencies.candle-rocm-sys]\npath = \""), "{patched}");
        assert!(patched.contains("\ndefault-features = false\n"), "{patched}");
        assert!(patch(&patched, &PACKAGES[0], &crate::repository().unwrap()).is_err(), "patched twice");
    }

    #[test]
    fn lines_for_a_program() {
        let lines = patch_section(&PACKAGES, Path::new("/there"));
        let expected = "[patch.crates-io]\ncandle-core = { path = \"/there/candle-core\" }\n\
            candle-nn = { path = \"/there/candle-nn\" }\n";
        assert_eq!(lines, expected);
    }
}
