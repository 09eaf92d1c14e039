//! The files that a C or HIP source includes, so that a change compiles only what depends on it.

use crate::config::{Config, Result, failed, read, write};
use crate::jobs::Fnv;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Reads each file once.
#[derive(Default)]
pub struct Includes {
    /// The names between quotation marks in the #include lines of a file.
    names: HashMap<PathBuf, Vec<String>>,
    /// The names between angle brackets in these lines.
    system: BTreeSet<String>,
}

impl Includes {
    /// The source and every file that it includes by `#include "..."`, directly or not. Names are looked for as the
    /// compiler does: in the folder of the including file, then in `folders`. Lines that the preprocessor leaves out
    /// count too. Files elsewhere, such as the C library's, do not; see `outside`.
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
            let text = read(file)?;
            self.system.extend(text.lines().filter_map(|line| name(line, '<', '>')).map(str::to_owned));
            let names = text.lines().filter_map(|line| name(line, '"', '"')).map(str::to_owned).collect();
            self.names.insert(file.to_owned(), names);
        }
        Ok(&self.names[file])
    }

    /// The arguments that make a compiler like gcc preprocess. clang warns of `-c` beside `-E`. A strict build would
    /// take that for an error.
    pub const PREPROCESS: &[&str] = &["-E", "-dD", "-Wno-unused-command-line-argument"];

    /// A hash of the headers outside of the project that the files so far include by `#include <...>`. `command` makes
    /// the compiler's command for a source and an output, both in its current folder. `arguments` let it preprocess.
    ///
    /// The preprocessor's own output is hashed, because it has all of each header, those of the C library and of the
    /// compiler alike, in every form that the source can see. `None` where the compiler fails: then no cache is used.
    pub fn outside(
        &self,
        config: &Config,
        arguments: &[&str],
        command: impl FnOnce(&Path, &Path) -> Command,
    ) -> Result<Option<String>> {
        let folder = config.out("outside")?;
        let (source, output) = (Path::new("outside.hip"), Path::new("outside.i"));
        let lines: Vec<_> = self.system.iter().map(|name| format!("#include <{name}>\n")).collect();
        write(&folder.join(source), lines.concat())?;
        match fs::remove_file(folder.join(output)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(&folder.join(output), &error));
            }
            _ => {}
        }
        let result = command(source, output).args(arguments).current_dir(&folder).output();
        let succeeded = result.is_ok_and(|result| result.status.success());
        let text = fs::read(folder.join(output)).ok().filter(|text| succeeded && !text.is_empty());
        Ok(text.map(|text| format!("{:x}", Fnv::of(&text))))
    }
}

/// The name in a line `#include "name"`, or between other marks.
fn name(line: &str, open: char, close: char) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
    rest.trim_start().strip_prefix(open)?.split(close).next()
}
