//! A hook is one change to one file, or to all files of a folder, of one of Candle's packages. This file defines hooks
//! and the list of hooks of a package.
//!
//! One table serves every release. A hook takes a source by what is in it: by the number of places, and for a part of
//! Candle that not every release has by a text (`when`). No code asks for a version.

use crate::changes::File;
use crate::rules::Backend::{self, Cuda};
use crate::rules::Rule::{self, Beginnings, Functions, Text};
use crate::rules::{self, Edit, Place};
use anyhow::Result;
use std::ops::RangeInclusive;

/// As a count of places: any number but 0.
pub const SOME: usize = usize::MAX;

pub struct Package {
    pub name: &'static str,
    /// Whether a release on crates.io has it with a ROCm device of ours. The others are patched in a checkout only.
    pub released: bool,
    pub hooks: &'static [Hook],
    /// Files with more hooks, which replace whole lines.
    pub changes: &'static [File],
    /// Files that are copied whole with CUDA renamed to ROCm, and how often each may name CUDA.
    pub copies: &'static [(&'static str, RangeInclusive<usize>)],
    pub features: &'static [(&'static str, &'static [&'static str])],
    /// The files of candle/rocm_backend that become a part of the package, and where. `*` stands for all files that no
    /// line of any package names.
    pub added: &'static [(&'static str, &'static str)],
}

impl Package {
    /// Whether the package calls candle-rocm-sys itself.
    pub fn has_backend(&self) -> bool {
        self.features.iter().any(|(_, needs)| needs.contains(&"dep:candle-rocm-sys"))
    }
}

/// A change to one file, or to all Rust files of a folder.
pub struct Hook {
    /// The file and line of a change; empty for a hook of hooks.rs.
    pub at: &'static str,
    /// The file, or a folder with a `/` at the end.
    pub file: &'static str,
    /// The number of places that the rule must find, or [`SOME`].
    pub count: usize,
    /// Other numbers, which other releases have.
    pub or: &'static [usize],
    /// If it is not empty, the hook is left out where the file lacks this text.
    pub when: &'static str,
    pub rule: Rule,
    /// The backend that serves as the model.
    pub of: Backend,
    /// Names of functions and types. A place must be inside one of `inside` (if any are given) and in none of
    /// `outside`.
    pub inside: &'static [&'static str],
    pub outside: &'static [&'static str],
    /// Texts that a place must contain (`with`) and must not contain (`without`).
    pub with: &'static str,
    pub without: &'static [&'static str],
    /// The twin's body, if it is not the model's body with the names changed.
    pub body: Option<&'static str>,
    /// Pairs of a text of the model and the twin's text instead. Each text occurs exactly once; the pairs are in order.
    pub replaced: &'static [(&'static str, &'static str)],
}

pub const fn twins(file: &'static str, count: usize, rule: Rule, of: Backend) -> Hook {
    Hook {
        at: "",
        file,
        count,
        or: &[],
        when: "",
        rule,
        of,
        inside: &[],
        outside: &[],
        with: "",
        without: &[],
        body: None,
        replaced: &[],
    }
}

pub const fn text(file: &'static str, count: usize, old: &'static str, new: &'static str) -> Hook {
    twins(file, count, Text(old, new), Cuda)
}

/// Adds `rocm_fwd` to a custom op.
pub const fn op(file: &'static str, name: &'static [&'static str], body: &'static str) -> Hook {
    twins(file, 1, Functions, Cuda).inside(name).body(body)
}

/// Inserts `text` at the beginning of the function of that name that is compiled for CUDA.
pub const fn start(file: &'static str, name: &'static [&'static str], text: &'static str) -> Hook {
    twins(file, 1, Beginnings, Cuda).inside(name).with("#[cfg(feature = \"cuda\")]").body(text)
}

impl Hook {
    pub const fn or(self, or: &'static [usize]) -> Hook {
        Hook { or, ..self }
    }

    pub const fn when(self, when: &'static str) -> Hook {
        Hook { when, ..self }
    }

    pub const fn inside(self, inside: &'static [&'static str]) -> Hook {
        Hook { inside, ..self }
    }

    pub const fn outside(self, outside: &'static [&'static str]) -> Hook {
        Hook { outside, ..self }
    }

    pub const fn with(self, with: &'static str) -> Hook {
        Hook { with, ..self }
    }

    pub const fn without(self, without: &'static [&'static str]) -> Hook {
        Hook { without, ..self }
    }

    pub const fn body(self, body: &'static str) -> Hook {
        Hook { body: Some(body), ..self }
    }

    pub const fn replacing(self, replaced: &'static [(&'static str, &'static str)]) -> Hook {
        Hook { replaced, ..self }
    }

    /// Whether the hook is for this file.
    pub fn takes(&self, file: &str) -> bool {
        if self.file.ends_with('/') { file.starts_with(self.file) && file.ends_with(".rs") } else { file == self.file }
    }

    /// The hook's edits of a source.
    pub fn edits(&self, source: &str) -> Result<Vec<Edit>> {
        if let Rule::Text(old, new) = self.rule {
            let found = source.match_indices(old);
            return Ok(found.map(|(at, _)| Edit { range: at..at + old.len(), text: new.to_owned() }).collect());
        }
        let mut edits = Vec::new();
        for place in rules::places(source, self.rule, self.of)? {
            if self.selects(&place, source) {
                let text = rules::twin(&place, self.of, self.body, self.replaced)?;
                edits.push(place.edit(&text));
            }
        }
        Ok(edits)
    }

    /// What is wrong with the number of places, if it is wrong.
    pub fn complaint(&self, found: usize) -> Option<String> {
        if found == self.count || self.or.contains(&found) || (self.count == SOME && found > 0) {
            return None;
        }
        let mut expected = if self.count == SOME { "some".to_owned() } else { self.count.to_string() };
        for other in self.or {
            expected += &format!(" or {other}");
        }
        Some(format!("{}: {expected} expected, {found} found", self.describe()))
    }

    fn selects(&self, place: &Place, source: &str) -> bool {
        let inside =
            |names: &[&str]| names.iter().any(|name| format!("::{}::", place.path).contains(&format!("::{name}::")));
        let node = &source[place.node.clone()];
        (self.inside.is_empty() || inside(self.inside))
            && !inside(self.outside)
            && node.contains(self.with)
            && !self.without.iter().any(|word| node.contains(word))
    }

    fn describe(&self) -> String {
        let mut text = match self.rule {
            Rule::Text(..) if !self.at.is_empty() => self.at.to_owned(),
            Rule::Text(old, _) => format!("'{}'", old.replace('\n', "\\n")),
            rule => format!("{rule:?} of {:?}", self.of),
        };
        let with = [self.with];
        for (word, names) in
            [("in", self.inside), ("not in", self.outside), ("with", &with[..]), ("without", self.without)]
        {
            if names.iter().any(|name| !name.is_empty()) {
                text += &format!(" {word} {}", names.join(", "));
            }
        }
        text
    }
}
