//! The public headers.
use crate::support::compiler::preprocess;
use crate::support::paths::PROJECT;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of the headers.
pub fn folder() -> PathBuf {
    Path::new(PROJECT).join("include")
}

/// Every header, in the order of the paths.
pub fn all() -> Vec<PathBuf> {
    let (mut headers, mut folders) = (Vec::new(), vec![folder()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() { &mut folders } else { &mut headers }.push(path);
        }
    }
    headers.sort();
    headers
}

pub fn read(header: &Path) -> String {
    std::fs::read_to_string(header).unwrap_or_else(|error| panic!("{}: {error}", header.display()))
}

/// The text of all headers.
pub fn text() -> String {
    all().iter().map(|header| read(header)).collect()
}

/// The names of the functions that code declares and does not define.
pub fn declared(code: &str) -> BTreeSet<String> {
    let mut depth = 0;
    let mut declaration = String::new();
    let mut names = BTreeSet::new();
    for character in code.replace("extern \"C\" {", "").chars() {
        match character {
            '{' => depth += 1,
            // A definition or a type ends here, unless it goes on as a typedef's name.
            '}' => {
                depth -= 1;
                declaration.clear();
            }
            ';' if depth <= 0 => {
                // A type of functions declares none.
                let is_type = declaration.trim_start().starts_with("typedef");
                if let Some((before, _)) = declaration.split_once('(').filter(|_| !is_type) {
                    let name = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
                    names.insert(name.to_owned());
                }
                declaration.clear();
            }
            _ if depth <= 0 => declaration.push(character),
            _ => {}
        }
    }
    names
}

/// The functions of the headers, taken from the preprocessor's output, because macros declare some of them. The names
/// tell them from the functions of system headers.
pub fn functions() -> BTreeSet<String> {
    let code = preprocess(&folder().join("candle_rocm.h"));
    declared(&code).into_iter().filter(|name| name.starts_with("crk_")).collect()
}
