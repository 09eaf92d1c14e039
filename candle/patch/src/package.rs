//! Patches one of Candle's packages.

use crate::changes;
use crate::hook::{Hook, Package};
use crate::hooks::PACKAGES;
use crate::manifest;
use crate::rules::{self, Backend, Edit};
use anyhow::{Context, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// File contents by path; paths are separated by `/`.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What the hooks of a package made.
#[derive(Default)]
pub struct Patched {
    pub hooks: usize,
    pub places: usize,
    /// The hooks that do not fit, each with its file and the lines of the places that it found.
    pub problems: Vec<String>,
}

/// Files that cargo adds to a package, and files of a build.
const LEFT_OUT: [&str; 5] =
    [".cargo-ok", ".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml.orig", ".cargo-checksum.json"];

/// Reads a package, or a checkout with many packages. Builds and the history are left out. In a checkout,
/// files that git does not track are left out too, such as weights and Python's environments.
pub fn read(source: &Path) -> Result<Files> {
    let mut files = Files::new();
    for name in if source.join(".git").exists() { tracked(source)? } else { walk(source)? } {
        let file = name.rsplit('/').next().unwrap_or_default();
        if !LEFT_OUT.contains(&file) {
            let bytes = std::fs::read(source.join(&name)).with_context(|| source.join(&name).display().to_string())?;
            files.insert(name, bytes);
        }
    }
    Ok(files)
}

/// The files that git tracks and that are there, also those of submodules. Links to folders are left out.
fn tracked(checkout: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    let git = git.arg("-C").arg(checkout).args(["ls-files", "-z", "--recurse-submodules"]);
    let output = git.output().context("git cannot be run")?;
    if !output.status.success() {
        bail!("{}: {}", checkout.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("git ls-files: a name that is not UTF-8")?;
    Ok(names.split_terminator('\0').filter(|name| checkout.join(name).is_file()).map(str::to_owned).collect())
}

/// All files below a folder, without those of builds and of git; none if the folder does not exist. Links to folders
/// are left out.
pub fn walk(folder: &Path) -> Result<Vec<String>> {
    fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Result<()> {
        for entry in folder.read_dir()? {
            let entry = entry?;
            let name = entry.file_name();
            let name =
                name.to_str().with_context(|| format!("{}: a name that is not UTF-8", entry.path().display()))?;
            if entry.file_type()?.is_dir() {
                if matches!(name, "target" | ".git") {
                    continue;
                }
                collect(&entry.path(), &format!("{prefix}{name}/"), names)?;
            } else if entry.path().is_file() {
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

/// Applies the hooks of `package` to its `files`, and adds the backend's sources and the features. `repository` is the
/// root of this repository.
pub fn patch(package: &Package, files: &mut Files, repository: &Path) -> Result<Patched> {
    let patched = hook(package, files)?;
    if patched.problems.is_empty() {
        add_backend(package, files, &repository.join("candle/rocm_backend"))?;
        let manifest = manifest::patch(text(files, "Cargo.toml")?, package, repository)?;
        files.insert("Cargo.toml".into(), manifest.into_bytes());
    }
    Ok(patched)
}

/// Applies every hook. All hooks that do not fit are reported together, so that a port to a new release starts from
/// the whole list; then no file is changed.
fn hook(package: &Package, files: &mut Files) -> Result<Patched> {
    let changes = changes::read(package.changes)?;
    let mut edits: BTreeMap<String, Vec<Edit>> = BTreeMap::new();
    let mut patched =
        Patched { hooks: package.hooks.len() + changes.len() + package.copies.len(), ..Patched::default() };
    let problems = &mut patched.problems;
    for hook in package.hooks.iter().chain(&changes) {
        match found(hook, files) {
            Ok(found) => {
                for (file, edit) in found {
                    edits.entry(file.to_owned()).or_default().push(edit);
                }
            }
            Err(problem) => problems.push(format!("{}: {problem:#}", hook.file)),
        }
    }
    patched.places = edits.values().map(Vec::len).sum();
    let mut written = Vec::new();
    for (file, edits) in edits {
        match text(files, &file).and_then(|source| rules::apply(source, edits)) {
            Ok(patched) => written.push((file, patched)),
            Err(problem) => problems.push(format!("{file}: {problem:#}")),
        }
    }
    for (file, expected) in package.copies {
        match text(files, file).map(|source| rules::rename(source, Backend::Cuda)) {
            Ok((twin, count)) if expected.contains(&count) => {
                written.push((rules::rename(file, Backend::Cuda).0, twin));
                patched.places += count;
            }
            Ok((_, count)) => {
                problems.push(format!("{file}: names of CUDA: {expected:?} expected, {count} found"));
            }
            Err(problem) => problems.push(format!("{file}: {problem:#}")),
        }
    }
    // A wrong hook could produce a broken source. Parsing reports it here, before the compiler would.
    for (file, source) in written.iter().filter(|(file, _)| file.ends_with(".rs")) {
        if let Err(problem) = syn::parse_file(source) {
            problems.push(format!("{file}: patched, it is no Rust: {problem}"));
        }
    }
    if problems.is_empty() {
        files.extend(written.into_iter().map(|(file, source)| (file, source.into_bytes())));
    }
    Ok(patched)
}

/// The edits of a hook in all of its files. Fails if their number is wrong, and names the places.
fn found<'a>(hook: &Hook, files: &'a Files) -> Result<Vec<(&'a str, Edit)>> {
    let mut found = Vec::new();
    let mut places = Vec::new();
    let names: Vec<_> = files.keys().filter(|name| hook.takes(name)).collect();
    if names.is_empty() {
        bail!("there is no such file");
    }
    let mut left_out = true;
    for name in names {
        let source = text(files, name)?;
        if !source.contains(hook.when) {
            continue;
        }
        left_out = false;
        for edit in hook.edits(source).with_context(|| name.clone())? {
            let line = source[..edit.range.start].matches('\n').count() + 1;
            places.push(if hook.file.ends_with('/') { format!("{name}:{line}") } else { line.to_string() });
            found.push((name.as_str(), edit));
        }
    }
    if left_out {
        return Ok(found);
    }
    match hook.complaint(found.len()) {
        None => Ok(found),
        Some(complaint) if places.is_empty() => bail!(complaint),
        Some(complaint) => bail!("{complaint}, in lines {}", places.join(", ")),
    }
}

fn text<'a>(files: &'a Files, name: &str) -> Result<&'a str> {
    let bytes = files.get(name).context("there is no such file")?;
    std::str::from_utf8(bytes).map_err(|_| anyhow!("not UTF-8"))
}

/// Adds the package's part of the backend's sources.
fn add_backend(package: &Package, files: &mut Files, folder: &Path) -> Result<()> {
    let names = walk(folder)?;
    let named = |name: &str| PACKAGES.iter().flat_map(|package| package.added).any(|(file, _)| *file == name);
    for (file, place) in package.added {
        let sources: Vec<_> = match *file {
            "*" => names.iter().filter(|name| name.ends_with(".rs") && !named(name)).collect(),
            file => names.iter().filter(|name| *name == file).collect(),
        };
        if sources.is_empty() {
            bail!("{}: there is no {file}", folder.display());
        }
        for name in sources {
            let place = if place.ends_with('/') { format!("{place}{name}") } else { (*place).to_owned() };
            if files.insert(place.clone(), std::fs::read(folder.join(name))?).is_some() {
                bail!("{}: {place} is there already", package.name);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::{SOME, text as text_hook};
    use crate::hooks::RELEASES;
    use crate::source::{Origin, Source};

    fn newest() -> Source {
        Origin::Release(RELEASES[RELEASES.len() - 1].to_owned()).read().unwrap()
    }

    #[test]
    fn every_known_release_is_patched() {
        let readme = std::fs::read_to_string(crate::repository().unwrap().join("candle/README.md")).unwrap();
        let table = readme.split("## ").find(|section| section.starts_with("Which Candle")).unwrap();
        let words: Vec<&str> = table.split([' ', ',', '|', '`', '\n']).collect();
        for release in RELEASES {
            assert!(words.contains(release), "candle/README.md, 'Which Candle': {release} is not there");
            let mut source = Origin::Release((*release).to_owned()).read().unwrap();
            assert_eq!(source.version, *release);
            crate::patch(&mut source, &crate::repository().unwrap()).unwrap_or_else(|error| panic!("{error}"));
            assert!(source.files.contains_key("candle-core/src/rocm_backend/mod.rs"));
            assert!(source.files.contains_key("candle-nn/src/moe/rocm.rs"));
            assert!(source.files.contains_key("candle-flash-attn/src/rocm.rs"));
            let again = crate::patch(&mut source, &crate::repository().unwrap());
            assert!(again.is_err(), "{release} was patched twice");
        }
    }

    #[test]
    fn a_checkout_is_what_git_tracks() {
        let root = std::env::temp_dir().join(format!("candle-rocm-patch-checkout-{}", std::process::id()));
        let write = |name: &str| {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::fs::write(root.join(name), name).unwrap();
        };
        ["Cargo.toml", "core/a.rs", "core/gone.rs"].into_iter().for_each(write);
        #[cfg(unix)]
        for (to, link) in [("core", "folder"), ("core/a.rs", "file.rs"), ("nowhere", "dangling")] {
            std::os::unix::fs::symlink(to, root.join(link)).unwrap();
        }
        let links: &[&str] = if cfg!(unix) { &["file.rs"] } else { &[] };
        let there = |names: &[&str]| {
            let files = read(&root).unwrap();
            let expected: Vec<_> = names.iter().chain(links).copied().collect();
            assert_eq!(files.keys().map(String::as_str).collect::<Vec<_>>(), expected);
        };
        there(&["Cargo.toml", "core/a.rs", "core/gone.rs"]);

        let git = |arguments: &[&str]| {
            assert!(Command::new("git").arg("-C").arg(&root).args(arguments).output().unwrap().status.success());
        };
        git(&["init"]);
        git(&["add", "."]);
        std::fs::remove_file(root.join("core/gone.rs")).unwrap();
        ["weights.gguf", ".venv/lib/a.py"].into_iter().for_each(write);
        there(&["Cargo.toml", "core/a.rs"]);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn the_sources_decide() {
        static PACKAGE: Package = Package {
            name: "p",
            released: true,
            hooks: &[
                text_hook("src/a.rs", 1, "old", "new").or(&[3]),
                text_hook("src/a.rs", 1, "part()", "parts()").when("mod part"),
                text_hook("examples/", SOME, "cuda()", "any()"),
            ],
            changes: &[],
            copies: &[],
            features: &[],
            added: &[],
        };
        let patched = |a: &str| {
            let mut files = Files::from([
                ("src/a.rs".into(), a.into()),
                ("examples/b/main.rs".into(), "fn b() { cuda(); cuda() }".into()),
                ("examples/c.md".into(), "cuda()".into()),
            ]);
            let problems = hook(&PACKAGE, &mut files).unwrap().problems;
            let read = |name: &str| String::from_utf8(files[name].clone()).unwrap();
            (problems, read("src/a.rs"), read("examples/b/main.rs"), read("examples/c.md"))
        };
        let (problems, a, b, c) = patched("// old");
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!((&*a, &*b, &*c), ("// new", "fn b() { any(); any() }", "cuda()"));
        assert_eq!(patched("// old old old").1, "// new new new");
        assert_eq!(patched("// old\nmod part { fn part() {} }").1, "// new\nmod part { fn parts() {} }");
        // A number between, and a part without its place.
        let (problems, a, b, _) = patched("// old\n// old\nmod part {}");
        let expected =
            ["src/a.rs: 'old': 1 or 3 expected, 2 found, in lines 1, 2", "src/a.rs: 'part()': 1 expected, 0 found"];
        assert_eq!(problems, expected);
        assert!(a.contains("old") && b.contains("cuda"), "something was changed: {a} {b}");
    }

    #[test]
    fn all_that_differs_is_named() {
        let mut source = newest();
        let files = &mut source.files;
        let storage = text(files, "candle-core/src/storage.rs").unwrap();
        let one_less = storage.replacen("Self::Cuda(storage) =>", "Self::Other(storage) =>", 1).into_bytes();
        files.insert("candle-core/src/storage.rs".into(), one_less);
        files.remove("candle-core/src/sort.rs");
        files.remove("candle-nn/src/moe.rs");
        files.insert("candle-transformers/src/models/qwen3_moe.rs".into(), b"fn f() {}".to_vec());
        let problem = crate::patch(&mut source, &crate::repository().unwrap()).unwrap_err().to_string();
        for part in [
            "candle-core/src/storage.rs: Arms of Cuda: 34 or 36 expected, 33 found, in lines ",
            "candle-core/src/sort.rs: there is no such file",
            "candle-nn/src/moe.rs: there is no such file",
            "candle-transformers/src/models/qwen3_moe.rs: experts.diff:",
        ] {
            assert!(problem.contains(part), "{part} is not in {problem}");
        }
    }
}
