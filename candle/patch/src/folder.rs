//! Writes the output folder.

use crate::package::Files;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;

/// This file marks a folder as made by this program, and lists the files that the program wrote there.
const MARK: &str = ".candle-rocm-patch";
const HEAD: &str = "Made by candle-rocm-patch. It renews and removes the files of this list, and no others:";

/// Writes `files` to `dir`, and removes what an earlier run wrote and this one does not. All other files stay.
/// Unchanged files are not written, so that cargo does not rebuild them. Returns how many files were written or
/// removed.
pub fn write(dir: &Path, files: &Files) -> Result<usize> {
    let mark = dir.join(MARK);
    let occupied = dir.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if occupied && !mark.is_file() {
        bail!("{} is there, and not made by this program: name a new folder", dir.display());
    }
    let old = if occupied {
        std::fs::read_to_string(&mark).with_context(|| mark.display().to_string())?
    } else {
        String::new()
    };
    let new: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    // The first line is the head.
    let gone: BTreeSet<&str> = old.lines().skip(1).filter(|name| !new.contains(name)).collect();

    // If writing fails halfway, the folder is still known as this program's own, and no file is forgotten.
    renew(&mark, list(&new | &gone).as_bytes())?;
    let mut changed = 0;
    for (name, bytes) in files {
        changed += usize::from(renew(&dir.join(name), bytes)?);
    }
    for path in gone.iter().map(|name| dir.join(name)).filter(|path| path.is_file()) {
        std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        changed += 1;
    }
    renew(&mark, list(new).as_bytes())?;
    Ok(changed)
}

fn list(names: BTreeSet<&str>) -> String {
    std::iter::once(HEAD).chain(names).map(|line| format!("{line}\n")).collect()
}

/// Writes a file if it does not hold these bytes already, and says whether it did.
fn renew(path: &Path, bytes: &[u8]) -> Result<bool> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(false);
    }
    std::fs::create_dir_all(path.parent().unwrap_or(path)).with_context(|| path.display().to_string())?;
    std::fs::write(path, bytes).with_context(|| path.display().to_string())?;
    Ok(true)
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
        let first = files(&["Cargo.toml", "candle-core/src/a.rs", "candle-core/src/b.rs", "candle-nn/src/c.rs"]);
        assert_eq!(write(&dir, &first).unwrap(), 4);
        let written = || std::fs::metadata(dir.join(MARK)).unwrap().modified().unwrap();
        let before = written();
        assert_eq!(write(&dir, &first).unwrap(), 0);
        assert_eq!(written(), before, "nothing differs, and the list was written");
        // Files of cargo and of the user stay. Files of an earlier run are removed; one is gone already.
        let others = ["Cargo.lock", "target/built", "candle-core/model.gguf", "mine.rs", ".venv/python"];
        for name in others {
            std::fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            std::fs::write(dir.join(name), "").unwrap();
        }
        std::fs::remove_file(dir.join("candle-nn/src/c.rs")).unwrap();
        assert_eq!(write(&dir, &files(&["candle-core/src/a.rs"])).unwrap(), 2);
        for name in first.keys() {
            assert_eq!(dir.join(name).exists(), name == "candle-core/src/a.rs", "{name}");
        }
        assert!(others.iter().all(|name| dir.join(name).exists()), "a user's file was removed");
        assert_eq!(std::fs::read_to_string(dir.join(MARK)).unwrap(), format!("{HEAD}\ncandle-core/src/a.rs\n"));

        std::fs::remove_file(dir.join(MARK)).unwrap();
        let refusal = write(&dir, &first).unwrap_err().to_string();
        assert!(refusal.contains("not made by this program"), "{refusal}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
