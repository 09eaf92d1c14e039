//! A file with the packed code objects of a build, which another build takes in place of a compiler for AMD GPUs.
//!
//! The form is that of parts.rs. The first part is text, with a fact per line:
//!
//! ```text
//! version 0.1.0
//! sources 24d2c1...                of all files that the modules include: their names and contents
//! flags -std=c++17 -O3 ...         those on which the code depends
//! further_flags -DX=1              those of CANDLE_ROCM_HIPCC_FLAGS
//! compiler clang version 19.1.7
//! object reduce gfx1100 913416     a module, an architecture, the bytes of the ELF
//! ```
//!
//! Then each line `object` has its part, in the same order: the ELF's frame, as csrc/image/unpack.h describes it.
//! Nothing in the file depends on paths or on the time.

use crate::config::{self, Config, Result};
use crate::includes::Includes;
use crate::jobs::Fnv;
use crate::parts::{self, Damage, Magic};
use crate::toolchain::FLAGS;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

const MAGIC: &Magic = b"crkhsaco";

/// The packed code of one module for one architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub module: String,
    pub arch: String,
    /// The size of the ELF, without the zeros after it.
    pub bytes: usize,
    pub frame: Vec<u8>,
}

/// What a file holds.
#[derive(Debug)]
pub struct Prebuilt {
    /// The compiler's version.
    pub compiler: String,
    /// In the order of the file.
    pub archs: Vec<String>,
    pub objects: Vec<Object>,
}

/// A file's bytes. `compiler` is the compiler's version text.
pub fn encode(config: &Config, modules: &[String], compiler: &str, objects: &[Object]) -> Result<Vec<u8>> {
    let compiler = compiler.lines().find(|line| line.contains("clang version")).unwrap_or("unknown");
    let mut text = String::new();
    for (fact, value) in facts(config, modules)? {
        writeln!(text, "{fact} {value}").unwrap();
    }
    writeln!(text, "compiler {compiler}").unwrap();
    for Object { module, arch, bytes, .. } in objects {
        writeln!(text, "object {module} {arch} {bytes}").unwrap();
    }
    let frames = objects.iter().map(|object| object.frame.as_slice());
    Ok(parts::encode(MAGIC, std::iter::once(text.as_bytes()).chain(frames)))
}

/// Reads the file that CANDLE_ROCM_CODE_OBJECTS names. An error is one sentence with the way out.
pub fn read(config: &Config, modules: &[String], file: &Path) -> Result<Prebuilt> {
    let refuse = |why: String| {
        format!(
            "CANDLE_ROCM_CODE_OBJECTS={}: {why}; make the file again with tools/pack-code-objects from the sources of \
             this version, or unset the variable to compile with hipcc",
            file.display()
        )
    };
    let bytes = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
    let parts = parts::decode(MAGIC, &bytes).map_err(|damage| {
        refuse(match damage {
            Damage::Foreign => format!(
                "expected a file of tools/pack-code-objects, which begins with \"{}\", but found \"{}\"",
                MAGIC.escape_ascii(),
                bytes[..bytes.len().min(MAGIC.len())].escape_ascii()
            ),
            Damage::Incomplete => format!(
                "expected a whole file, but found {} bytes with another hash than the file states, so it is cut off or \
                 damaged",
                bytes.len()
            ),
        })
    })?;
    let (text, frames) = parts.split_first().ok_or_else(|| refuse("the file has no parts".into()))?;
    let text = String::from_utf8_lossy(text);
    let fact = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    for (name, expected) in facts(config, modules)? {
        let found = fact(name).unwrap_or_default();
        // Without flags of its own a build takes the file's.
        if found != expected && !(name == "further_flags" && expected.is_empty()) {
            return Err(refuse(format!("expected {name} \"{expected}\", but found \"{found}\"")));
        }
    }

    let mut objects = Vec::new();
    let mut archs: Vec<String> = Vec::new();
    let lines = text.lines().filter_map(|line| line.strip_prefix("object "));
    for (line, frame) in lines.zip(frames) {
        let [module, arch, bytes] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(refuse(format!("expected a module, an architecture and a size, but found \"{line}\"")));
        };
        let bytes = bytes.parse().map_err(|_| refuse(format!("expected a size, but found \"{line}\"")))?;
        if !archs.iter().any(|known| known == arch) {
            archs.push(arch.to_owned());
        }
        objects.push(Object { module: module.to_owned(), arch: arch.to_owned(), bytes, frame: frame.clone() });
    }
    for arch in &archs {
        for module in modules {
            if !objects.iter().any(|object| object.module == *module && object.arch == *arch) {
                return Err(refuse(format!("expected all modules for {arch}, but found no {module}")));
            }
        }
    }
    if archs.is_empty() {
        return Err(refuse("expected code objects, but found none".into()));
    }
    Ok(Prebuilt { compiler: fact("compiler").unwrap_or("unknown").to_owned(), archs, objects })
}

/// What a file and the build that takes it must have in common.
fn facts(config: &Config, modules: &[String]) -> Result<[(&'static str, String); 4]> {
    Ok([
        ("version", config.version.clone()),
        ("sources", sources(config, modules)?),
        ("flags", FLAGS.map(|flags| flags.join(" ")).join(" ")),
        ("further_flags", config.hipcc_flags.join(" ")),
    ])
}

/// A hash of all files that the modules include: their names below the package's folder, and their contents.
fn sources(config: &Config, modules: &[String]) -> Result<String> {
    let mut includes = Includes::default();
    let mut files = BTreeSet::new();
    for module in modules {
        files.extend(includes.of(&config.kernel_source(module), &[config.root.join("kernels")])?);
    }
    let mut hash = Fnv::new();
    for file in files {
        let name = file.strip_prefix(&config.root).unwrap_or(&file);
        hash.text(&name.to_string_lossy().replace('\\', "/"));
        hash.bytes(&Fnv::of(&config::read_bytes(&file)?).to_le_bytes());
    }
    Ok(format!("{:032x}", hash.0))
}
