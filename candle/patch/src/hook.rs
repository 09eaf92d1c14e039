//! A hook is one change to one file of a released package. This file defines hooks and the list of hooks of a package.

use crate::rules::Backend::{self, Cuda};
use crate::rules::Rule::{self, Beginnings, Functions, Text};
use crate::rules::{self, Edit, Place};
use anyhow::{Result, bail};

pub struct Package {
    pub name: &'static str,
    pub hooks: &'static [Hook],
    /// Files that are copied whole with CUDA renamed to ROCm, and how often each names CUDA.
    pub copies: &'static [(&'static str, usize)],
    pub features: &'static [(&'static str, &'static [&'static str])],
    /// Whether the package contains the backend: candle/rocm_backend, which calls candle-rocm-sys.
    pub has_backend: bool,
}

/// A change to one file.
pub struct Hook {
    pub file: &'static str,
    /// The number of places that the rule must find.
    pub count: usize,
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
    Hook { file, count, rule, of, inside: &[], outside: &[], with: "", without: &[], body: None, replaced: &[] }
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

    /// The hook's edits of a source. Fails if their number is not `count`.
    pub fn edits(&self, source: &str) -> Result<Vec<Edit>> {
        let edits = if let Rule::Text(old, new) = self.rule {
            let found = source.match_indices(old);
            found.map(|(at, _)| Edit { range: at..at + old.len(), text: new.to_owned() }).collect()
        } else {
            let mut edits = Vec::new();
            for place in rules::places(source, self.rule, self.of)? {
                if self.selects(&place, source) {
                    let text = rules::twin(&place, self.of, self.body, self.replaced)?;
                    edits.push(Edit { range: place.at..place.at, text: place.separator + &text });
                }
            }
            edits
        };
        if edits.len() != self.count {
            bail!("{}: {} expected, {} found", self.describe(), self.count, edits.len());
        }
        Ok(edits)
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
            Rule::Text(old, _) => format!("'{old}'"),
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
