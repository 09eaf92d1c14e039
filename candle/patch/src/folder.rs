//! Writes the output folder.

use crate::package::{Files, walk};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// A file with this name marks a folder as made by this program.
const MARK: &str = ".candle-rocm-patch";

/// The files beside the packages.
pub fn mark() -> Files {
    let text = "Made by candle-rocm-patch, which writes and removes files here as it needs.\n";
    Files::from([(MARK.to_owned(), text.as_bytes().to_vec())])
}

/// Makes `dir` hold exactly `files`, beside cargo's lock and builds. Unchanged files are not written, so that cargo
/// does not rebuild them. Returns how many files were written or removed.
pub fn write(dir: &Path, files: &Files) -> Result<usize> {
    let occupied = dir.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if occupied && !dir.join(MARK).is_file() {
        bail!("{} is there, and not made by this program: name a new folder", dir.display());
    }
    let mut changed = 0;
    // The mark sorts first and so is written first. If writing fails halfway, the folder is still known as this
    // program's own.
    for (name, bytes) in files {
        let path = dir.join(name);
        if std::fs::read(&path).is_ok_and(|there| there == *bytes) {
            continue;
        }
        std::fs::create_dir_all(path.parent().unwrap_or(dir))?;
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        changed += 1;
    }
    // What an earlier run wrote may be of another release, or of a checkout.
    for name in walk(dir)? {
        if name != "Cargo.lock" && !files.contains_key(&name) {
            std::fs::remove_file(dir.join(&name)).with_context(|| dir.join(&name).display().to_string())?;
            changed += 1;
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Files {
        names.iter().map(|name| ((*name).to_owned(), name.as_bytes().to_vec())).collect()
    }

    #[test]
    fn written_once_renewed_and_not_over_others() {
        let dir = std::env::temp_dir().join(format!("candle-rocm-patch-folder-{}", std::process::id()));
        let first = files(&[MARK, "Cargo.toml", "candle-core/src/a.rs", "candle-core/src/b.rs", "candle-nn/src/c.rs"]);
        assert_eq!(write(&dir, &first).unwrap(), 5);
        assert_eq!(write(&dir, &first).unwrap(), 0);
        // Files that cargo wrote stay; files of an earlier run are removed.
        std::fs::write(dir.join("Cargo.lock"), "").unwrap();
        std::fs::create_dir_all(dir.join("target")).unwrap();
        std::fs::write(dir.join("target/built"), "").unwrap();
        assert_eq!(write(&dir, &files(&[MARK, "candle-core/src/a.rs"])).unwrap(), 3);
        let there = ["Cargo.toml", "candle-core/src/b.rs", "candle-nn/src/c.rs", "Cargo.lock", "target/built"];
        assert_eq!(there.map(|name| dir.join(name).exists()), [false, false, false, true, true]);

        std::fs::remove_file(dir.join(MARK)).unwrap();
        let refusal = write(&dir, &first).unwrap_err().to_string();
        assert!(refusal.contains("not made by this program"), "{refusal}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
