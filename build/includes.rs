//! The files that a C or HIP source includes, so that a change compiles only what depends on it.

use crate::config::{Result, read};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Reads each file once.
#[derive(Default)]
pub struct Includes {
    /// The names between quotation marks in the #include lines of a file.
    names: HashMap<PathBuf, Vec<String>>,
}

impl Includes {
    /// The source and every file that it includes by `#include "..."`, directly or not. Names are looked for as the
    /// compiler does: in the folder of the including file, then in `folders`. Lines that the preprocessor leaves out
    /// count too. Files elsewhere, such as the compiler's own, do not: the compiler's version stands for them.
    pub fn of(&mut self, source: &Path, folders: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let mut found = BTreeSet::from([source.to_owned()]);
        let mut open = vec![source.to_owned()];
        while let Some(file) = open.pop() {
            let beside = file.parent().unwrap_or(Path::new("")).to_owned();
            for name in self.names(&file)? {
                let places = std::iter::once(&beside).chain(folders);
                let Some(path) = places.map(|folder| folder.join(name)).find(|path| path.is_file()) else { continue };
                if found.insert(path.clone()) {
                    open.push(path);
                }
            }
        }
        Ok(found.into_iter().collect())
    }

    fn names(&mut self, file: &Path) -> Result<&[String]> {
        if !self.names.contains_key(file) {
            let names = read(file)?.lines().filter_map(name).map(str::to_owned).collect();
            self.names.insert(file.to_owned(), names);
        }
        Ok(&self.names[file])
    }
}

/// The name in a line `#include "name"`.
fn name(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
    rest.trim_start().strip_prefix('"')?.split('"').next()
}
