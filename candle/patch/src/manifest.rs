//! Edits the Cargo.toml of Candle's packages.

use crate::hook::Package;
use crate::hooks::PACKAGES;
use crate::package::Files;
use anyhow::{Context, Result, bail};
use std::path::Path;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, value};

const FLASH_ATTN: &str = "candle-flash-attn";

/// The version of candle-core, which a checkout gives to all packages of the workspace.
pub fn version(files: &Files) -> Result<String> {
    let manifest = |name: &str| -> Result<DocumentMut> {
        let bytes = files.get(name).with_context(|| format!("there is no {name}"))?;
        std::str::from_utf8(bytes)?.parse().with_context(|| name.to_owned())
    };
    let core = manifest("candle-core/Cargo.toml")?;
    let package = core.get("package").context("candle-core/Cargo.toml: no [package]")?;
    if package.get("name").and_then(Item::as_str) != Some("candle-core") {
        bail!("candle-core/Cargo.toml is not the manifest of candle-core");
    }
    if let Some(version) = package.get("version").and_then(Item::as_str) {
        return Ok(version.to_owned());
    }
    workspace_version(&manifest("Cargo.toml")?).context("Cargo.toml: no version in [workspace.package]")
}

fn workspace_version(manifest: &DocumentMut) -> Option<String> {
    Some(manifest.get("workspace")?.get("package")?.get("version")?.as_str()?.to_owned())
}

/// A manifest with the package's additional features and its dependency on this repository.
pub fn patch(text: &str, package: &Package, repository: &Path) -> Result<String> {
    let mut manifest: DocumentMut = text.parse()?;
    let features = manifest["features"].or_insert(toml_edit::table());
    let features = features.as_table_mut().with_context(|| format!("{}: [features] is no table", package.name))?;
    for (feature, needs) in package.features {
        if features.contains_key(feature) {
            bail!("{}: there is a feature {feature} already", package.name);
        }
        features[*feature] = value(Array::from_iter(needs.iter().copied()));
    }
    make_cuda_optional(&mut manifest)?;
    if package.has_backend() {
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

/// candle-flash-attn needs CUDA, and so does the feature `flash-attn` of the packages that use it. In the copies, only
/// the feature `cuda` of each of them does.
fn make_cuda_optional(manifest: &mut DocumentMut) -> Result<()> {
    let asks_for_cuda = |feature: &toml_edit::Value| feature.as_str() == Some("cuda");
    let is_flash_attn = manifest["package"]["name"].as_str() == Some(FLASH_ATTN);
    let mut needs = Array::from_iter(["candle/cuda"]);
    if is_flash_attn {
        for dependencies in dependency_tables(manifest) {
            for (_, dependency) in dependencies.iter_mut() {
                let features = dependency.as_table_like_mut().and_then(|table| table.get_mut("features"));
                if let Some(features) = features.and_then(Item::as_array_mut) {
                    features.retain(|feature| !asks_for_cuda(feature));
                }
            }
        }
        let compilers = manifest["build-dependencies"].as_table_like_mut().context("no [build-dependencies]")?;
        for (name, dependency) in compilers.iter_mut() {
            if let Some(version) = dependency.as_str().map(str::to_owned) {
                *dependency = value(InlineTable::from_iter([("version", version)]));
            }
            dependency.as_table_like_mut().context("a dependency is no table")?.insert("optional", value(true));
            needs.push(format!("dep:{}", name.get()));
        }
        manifest["package"]["build"] = value("build_rocm.rs");
        // A release does not have it.
        let version = manifest["package"]["version"].as_str().map(str::to_owned);
        let tests = manifest["dev-dependencies"].or_insert(toml_edit::table());
        if let (None, Some(version)) = (tests.get("candle-nn"), version) {
            tests["candle-nn"] = value(version);
        }
    }
    let features = manifest["features"].as_table_mut().context("[features] is no table")?;
    if is_flash_attn {
        features.insert("cuda", value(needs));
    } else if let Some(users) = features.get_mut("flash-attn").and_then(Item::as_array_mut) {
        users.retain(|feature| !asks_for_cuda(feature));
        let cuda = features.get_mut("cuda").and_then(Item::as_array_mut).context("[features] has no cuda")?;
        cuda.push(format!("{FLASH_ATTN}?/cuda"));
    }
    Ok(())
}

fn own_version(repository: &Path) -> Result<String> {
    let path = repository.join("Cargo.toml");
    let manifest = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?.parse()?;
    workspace_version(&manifest).with_context(|| format!("{}: no version", path.display()))
}

/// The name of a package of Candle under a prefix: `candle-rocm-core` for `candle-core` and `candle-rocm`.
pub fn published_name(prefix: &str, name: &str) -> String {
    format!("{prefix}{}", name.strip_prefix("candle").unwrap_or(name))
}

/// Gives a patched manifest a name of its own under `prefix`, and a version, so that it can be published. It then
/// depends on its fellows by their new names, and on nothing by an absolute path.
pub fn publish(text: &str, prefix: &str, version: &str) -> Result<String> {
    let mut manifest: DocumentMut = text.parse()?;
    let package = manifest["package"].as_table_mut().context("no [package]")?;
    let name = package["name"].as_str().context("no name")?.to_owned();
    package["name"] = value(published_name(prefix, &name));
    package["version"] = value(version);
    package["description"] = value(format!("{name} with a ROCm device for AMD GPUs, by candle-rocm-sys"));
    // The library keeps its name, so that `use candle_core` stays true.
    let library = manifest["lib"].or_insert(toml_edit::table());
    library["name"] = value(name.replace('-', "_"));
    for dependencies in dependency_tables(&mut manifest) {
        for (key, dependency) in dependencies.iter_mut() {
            let Some(dependency) = dependency.as_table_like_mut() else { continue };
            let package = dependency.get("package").and_then(Item::as_str).unwrap_or(key.get()).to_owned();
            if package == "candle-rocm-sys" {
                dependency.remove("path");
            } else if PACKAGES.iter().any(|fellow| fellow.released && fellow.name == package) {
                let fellow = published_name(prefix, &package);
                dependency.insert("path", value(format!("../{fellow}")));
                dependency.insert("package", value(fellow));
                dependency.insert("version", value(version));
            }
        }
    }
    Ok(manifest.to_string())
}

/// Every table of dependencies in a manifest, also those of targets and of a workspace.
pub fn dependency_tables(manifest: &mut DocumentMut) -> Vec<&mut dyn TableLike> {
    const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    fn of(table: &mut dyn TableLike) -> impl Iterator<Item = &mut dyn TableLike> {
        let kinds = table.iter_mut().filter(|(key, _)| KINDS.contains(&key.get()));
        kinds.filter_map(|(_, item)| item.as_table_like_mut())
    }
    let mut tables = Vec::new();
    for (key, item) in manifest.iter_mut() {
        let name = key.get().to_owned();
        let Some(table) = item.as_table_like_mut() else { continue };
        match name.as_str() {
            "target" => {
                let targets = table.iter_mut().filter_map(|(_, item)| item.as_table_like_mut());
                tables.extend(targets.flat_map(of));
            }
            "workspace" => tables.extend(of(table)),
            name if KINDS.contains(&name) => tables.push(table),
            _ => {}
        }
    }
    tables
}

/// The manifest of a workspace with these members.
pub fn workspace(members: &[String]) -> String {
    let mut manifest = DocumentMut::new();
    manifest["workspace"] = toml_edit::table();
    manifest["workspace"]["resolver"] = value("2");
    manifest["workspace"]["members"] = value(Array::from_iter(members.iter().map(String::as_str)));
    manifest.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASED: &str = "[package]\nname = \"candle-nn\"\nversion = \"0.11.1\"\n\n[features]\ndefault = []\n\n\
        [dependencies.candle]\nversion = \"0.11.1\"\npackage = \"candle-core\"\n\n\
        [dependencies.half]\nversion = \"2\"\n";

    #[test]
    fn versions() {
        let files = |core: &str, root: &str| {
            let manifest = |text: &str| text.as_bytes().to_vec();
            Files::from([("candle-core/Cargo.toml".into(), manifest(core)), ("Cargo.toml".into(), manifest(root))])
        };
        let root = "[workspace.package]\nversion = \"1.2.3\"\n";
        assert_eq!(
            version(&files("[package]\nname = \"candle-core\"\nversion.workspace = true", root)).unwrap(),
            "1.2.3"
        );
        assert_eq!(version(&files("[package]\nname = \"candle-core\"\nversion = \"2.0.0\"", root)).unwrap(), "2.0.0");
        assert!(version(&files("[package]\nname = \"other\"\nversion = \"2.0.0\"", root)).is_err());
    }

    #[test]
    fn features_and_the_dependency() {
        let repository = crate::repository().unwrap();
        let patched = patch(RELEASED, &PACKAGES[0], &repository).unwrap();
        assert!(patched.starts_with("[package]\nname = \"candle-nn\""), "{patched}");
        assert!(patched.contains("\n_rocm = [\"dep:candle-rocm-sys\"]\n"), "{patched}");
        assert!(patched.contains("\n[dependencies.candle-rocm-sys]\npath = \""), "{patched}");
        assert!(patched.contains("\ndefault-features = false\n"), "{patched}");
        assert!(patch(&patched, &PACKAGES[0], &repository).is_err(), "patched twice");
    }

    fn package(name: &str) -> &'static Package {
        PACKAGES.iter().find(|package| package.name == name).unwrap()
    }

    #[test]
    fn flash_attention_without_cuda() {
        let repository = crate::repository().unwrap();
        let checkout = "[package]\nname = \"candle-flash-attn\"\nversion = \"0.11.1\"\n\n[dependencies]\n\
            candle = { path = \"../candle-core\", features = [\"cuda\"], package = \"candle-core\" }\n\n\
            [build-dependencies]\nanyhow = { version = \"1\" }\ncudaforge = \"0.1.2\"\n\n\
            [dev-dependencies]\ncandle-nn = { path = \"../candle-nn\", features = [\"cuda\"] }\n\n\
            [features]\ndefault = []\ncudnn = [\"candle/cudnn\"]\n";
        let patched = patch(checkout, package("candle-flash-attn"), &repository).unwrap();
        for line in [
            "candle = { path = \"../candle-core\", features = [], package = \"candle-core\" }",
            "anyhow = { version = \"1\" , optional = true }",
            "cudaforge = { version = \"0.1.2\", optional = true }",
            "candle-nn = { path = \"../candle-nn\", features = [] }",
            "cuda = [\"candle/cuda\", \"dep:anyhow\", \"dep:cudaforge\"]",
            "build = \"build_rocm.rs\"",
        ] {
            assert!(patched.contains(line), "{line} is not in {patched}");
        }
        // The tests need candle-nn, which the manifest of a release does not name.
        let (release, _) = checkout.split_once("[dev-dependencies]").unwrap();
        let patched = patch(release, package("candle-flash-attn"), &repository).unwrap();
        assert!(patched.contains("[dev-dependencies]\ncandle-nn = \"0.11.1\"\n"), "{patched}");

        let user = "[package]\nname = \"candle-transformers\"\n\n[features]\ncuda = [\"candle/cuda\"]\n\
            flash-attn = [\"cuda\", \"dep:candle-flash-attn\"]\n";
        let patched = patch(user, package("candle-transformers"), &repository).unwrap();
        let lines = "cuda = [\"candle/cuda\", \"candle-flash-attn?/cuda\"]\n\
            flash-attn = [ \"dep:candle-flash-attn\"]\n";
        assert!(patched.contains(lines), "{patched}");
    }

    #[test]
    fn names_of_their_own() {
        let patched = patch(RELEASED, &PACKAGES[0], &crate::repository().unwrap()).unwrap();
        let published = publish(&patched, "my-candle", "0.11.2").unwrap();
        for line in [
            "name = \"my-candle-nn\"\nversion = \"0.11.2\"",
            "package = \"my-candle-core\"",
            "path = \"../my-candle-core\"",
            "name = \"candle_nn\"",
        ] {
            assert!(published.contains(line), "{line} is not in {published}");
        }
        assert!(!published.contains("path = \"/"), "{published}");
    }
}
