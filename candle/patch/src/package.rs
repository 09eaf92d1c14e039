//! Patches one released package.

use crate::hook::Package;
use crate::hooks::VERSION;
use crate::manifest;
use crate::rules::{self, Backend, Edit};
use anyhow::{Context, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::path::Path;

/// File contents by path; paths are separated by `/`.
pub type Files = BTreeMap<String, Vec<u8>>;

pub struct Patched {
    pub files: Files,
    pub hooks: usize,
    pub places: usize,
}

/// Files that cargo adds to a package, and files of a build.
const LEFT_OUT: [&str; 5] =
    [".cargo-ok", ".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml.orig", ".cargo-checksum.json"];

/// All files below a folder; none if the folder does not exist.
pub fn walk(folder: &Path) -> Result<Vec<String>> {
    fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Result<()> {
        for entry in folder.read_dir()? {
            let entry = entry?;
            let name = entry.file_name();
            let name =
                name.to_str().with_context(|| format!("{}: a name that is not UTF-8", entry.path().display()))?;
            if entry.file_type()?.is_dir() {
                collect(&entry.path(), &format!("{prefix}{name}/"), names)?;
            } else {
                names.push(format!("{prefix}{name}"));
            }
        }
        Ok(())
    }
    let mut names = Vec::new();
    if folder.is_dir() {
        collect(folder, "", &mut names).with_context(|| folder.display().to_string())?;
    }
    names.sort();
    Ok(names)
}

/// Reads the released `package` from `source`, applies its hooks and adds the files of `repository`.
pub fn patch(package: &Package, source: &Path, repository: &Path) -> Result<Patched> {
    let manifest_path = source.join("Cargo.toml");
    let manifest = std::fs::read_to_string(&manifest_path).with_context(|| manifest_path.display().to_string())?;
    manifest::check(&manifest, package, source)?;

    let mut files = Files::new();
    for name in walk(source)? {
        let top = name.split('/').next().unwrap_or_default();
        if !LEFT_OUT.contains(&name.as_str()) && !matches!(top, "target" | ".git") {
            files.insert(name.clone(), std::fs::read(source.join(&name))?);
        }
    }

    let places = hook(package, &mut files)?;
    files.insert("Cargo.toml".into(), manifest::patch(&manifest, package, repository)?.into_bytes());
    if package.has_backend {
        add_backend(&mut files, &repository.join("candle/rocm_backend"))?;
    }
    Ok(Patched { files, hooks: package.hooks.len() + package.copies.len(), places })
}

/// Applies every hook and returns the number of places. All hooks that do not fit are reported together, so that a port
/// to a new release starts from the whole list.
fn hook(package: &Package, files: &mut Files) -> Result<usize> {
    let mut edits: BTreeMap<&str, Vec<Edit>> = BTreeMap::new();
    let mut problems = Vec::new();
    for hook in package.hooks {
        match text(files, hook.file).and_then(|source| hook.edits(source)) {
            Ok(found) => edits.entry(hook.file).or_default().extend(found),
            Err(problem) => problems.push(format!("  {}: {problem:#}", hook.file)),
        }
    }
    let mut places: usize = edits.values().map(Vec::len).sum();
    let mut written = Vec::new();
    for (file, edits) in edits {
        match text(files, file).and_then(|source| rules::apply(source, edits)) {
            Ok(patched) => written.push((file.to_owned(), patched)),
            Err(problem) => problems.push(format!("  {file}: {problem:#}")),
        }
    }
    for (file, expected) in package.copies {
        match text(files, file).map(|source| rules::rename(source, Backend::Cuda)) {
            Ok((twin, count)) if count == *expected => {
                written.push((rules::rename(file, Backend::Cuda).0, twin));
                places += count;
            }
            Ok((_, count)) => problems.push(format!("  {file}: names of CUDA: {expected} expected, {count} found")),
            Err(problem) => problems.push(format!("  {file}: {problem:#}")),
        }
    }
    // A wrong hook could produce a broken source. Parsing reports it here, before the compiler would.
    for (file, source) in written.iter().filter(|(file, _)| file.ends_with(".rs")) {
        if let Err(problem) = syn::parse_file(source) {
            problems.push(format!("  {file}: patched, it is no Rust: {problem}"));
        }
    }
    if !problems.is_empty() {
        bail!("{} is not the {VERSION} that candle/patch/src/hooks.rs is for:\n{}", package.name, problems.join("\n"));
    }
    files.extend(written.into_iter().map(|(file, source)| (file, source.into_bytes())));
    Ok(places)
}

fn text<'a>(files: &'a Files, name: &str) -> Result<&'a str> {
    let bytes = files.get(name).context("there is no such file")?;
    std::str::from_utf8(bytes).map_err(|_| anyhow!("not UTF-8"))
}

/// Adds the backend's sources, in the places that correspond to the CUDA backend's.
fn add_backend(files: &mut Files, folder: &Path) -> Result<()> {
    let names = walk(folder)?;
    let sources: Vec<_> = names.iter().filter(|name| name.ends_with(".rs")).collect();
    if sources.is_empty() {
        bail!("{}: the backend's sources are not there", folder.display());
    }
    for name in sources {
        let place = match name.as_str() {
            "quantized.rs" => "src/quantized/rocm.rs".to_owned(),
            name => format!("src/rocm_backend/{name}"),
        };
        if files.insert(place.clone(), std::fs::read(folder.join(name))?).is_some() {
            bail!("{place} is in the release already");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::PACKAGES;
    use std::path::PathBuf;
    use std::sync::OnceLock;

    fn released() -> &'static [PathBuf; 2] {
        static RELEASED: OnceLock<[PathBuf; 2]> = OnceLock::new();
        RELEASED.get_or_init(|| crate::released::find().unwrap())
    }

    #[test]
    fn the_release_is_patched_and_again_the_same() {
        for (package, source) in PACKAGES.iter().zip(released()) {
            let first = patch(package, source, &crate::repository().unwrap()).unwrap();
            let second = patch(package, source, &crate::repository().unwrap()).unwrap();
            assert!(first.places > 0 && first.files == second.files);
            assert!(!first.files.contains_key("Cargo.toml.orig") && !first.files.contains_key("Cargo.lock"));
            for (name, bytes) in first.files.iter().filter(|(name, _)| name.ends_with(".rs")) {
                syn::parse_file(std::str::from_utf8(bytes).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }

    #[test]
    fn a_source_that_differs_is_named() {
        let (package, source) = (&PACKAGES[0], &released()[0]);
        let mut files = Files::new();
        for name in walk(source).unwrap() {
            files.insert(name.clone(), std::fs::read(source.join(&name)).unwrap());
        }
        let storage = text(&files, "src/storage.rs").unwrap();
        let one_less = storage.replacen("Self::Cuda(storage) =>", "Self::Other(storage) =>", 1).into_bytes();
        files.insert("src/storage.rs".into(), one_less);
        files.remove("src/sort.rs");
        let problem = hook(package, &mut files).unwrap_err().to_string();
        assert!(problem.contains("src/storage.rs: Arms of Cuda: 34 expected, 33 found"), "{problem}");
        assert!(problem.contains("src/sort.rs: there is no such file"), "{problem}");
        assert_eq!(problem.lines().count(), 3, "{problem}");
    }

    #[test]
    fn another_release_is_refused() {
        let folder = std::env::temp_dir().join(format!("candle-rocm-patch-release-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("Cargo.toml"), "[package]\nname = \"candle-core\"\nversion = \"0.12.0\"\n").unwrap();
        let refused = patch(&PACKAGES[0], &folder, Path::new("."));
        assert!(refused.err().unwrap().to_string().starts_with("candle-core 0.12.0 found in "));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
