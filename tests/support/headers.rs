//! The public headers.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

/// The folder of the headers.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
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
