//! The form of a hook, which is one change to one file, and of a package's list of hooks.

use crate::rules::Backend::{self, Cuda};
use crate::rules::Rule::{self, Beginnings, Functions, Text};
use crate::rules::{self, Edit, Place};
use anyhow::{Result, bail};

pub struct Package {
    pub name: &'static str,
    pub hooks: &'static [Hook],
    /// Whole files that have a twin: how often they name CUDA.
    pub copies: &'static [(&'static str, usize)],
    pub features: &'static [(&'static str, &'static [&'static str])],
    /// Whether candle/rocm_backend becomes a part of it, which calls candle-rocm-sys.
    pub has_backend: bool,
}

/// A change to one file.
pub struct Hook {
    pub file: &'static str,
    /// How many places the rule must find.
    pub count: usize,
    pub rule: Rule,
    /// Whose places are the model.
    pub of: Backend,
    /// Functions and types that a place must be in one of, and those that it must not be in; all, and none, if empty.
    pub inside: &'static [&'static str],
    pub outside: &'static [&'static str],
    /// What a place's text must contain, and what it must not.
    pub with: &'static str,
    pub without: &'static [&'static str],
    /// The body of the twin, where it is not the model's with the names changed.
    pub body: Option<&'static str>,
    /// Texts of the model that the twin has others for. Each is there once; in their order.
    pub replaced: &'static [(&'static str, &'static str)],
}

pub const fn twins(file: &'static str, count: usize, rule: Rule, of: Backend) -> Hook {
    Hook { file, count, rule, of, inside: &[], outside: &[], with: "", without: &[], body: None, replaced: &[] }
}

pub const fn text(file: &'static str, count: usize, old: &'static str, new: &'static str) -> Hook {
    twins(file, count, Text(old, new), Cuda)
}

/// A custom op's `rocm_fwd`.
pub const fn op(file: &'static str, name: &'static [&'static str], body: &'static str) -> Hook {
    twins(file, 1, Functions, Cuda).inside(name).body(body)
}

/// What the function of that name that is compiled for CUDA begins with.
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

    /// Its edits of a source, as many as it expects.
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
