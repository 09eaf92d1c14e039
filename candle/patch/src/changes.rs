//! Reads the changes of whole lines from the folder `changes`. Its README.md says how they are written.

use crate::hook::{Hook, SOME, text};
use crate::rules::Rule;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;

/// A file's name, and its text.
pub type File = (&'static str, &'static str);

#[derive(Default)]
struct Change {
    headers: Vec<Header>,
    old: String,
    new: String,
    /// Empty lines at the end. They are kept lines if others follow, and else no part of the change.
    empty: usize,
    /// A comment ends a change.
    ended: bool,
}

struct Header {
    /// Without its texts.
    hook: Hook,
    name: Option<&'static str>,
    /// The change that `when` names.
    when: Option<&'static str>,
}

/// One hook per header. The texts are leaked, because hooks live as long as the program.
pub fn read(files: &[File]) -> Result<Vec<Hook>> {
    let mut changes = Vec::new();
    for &(file, source) in files {
        let mut of_file = Vec::new();
        for (index, line) in source.lines().enumerate() {
            let at = format!("{file}:{}", index + 1);
            add(&mut of_file, &at, line).with_context(|| at)?;
        }
        changes.append(&mut of_file);
    }
    let (mut headers, mut names) = (Vec::new(), BTreeMap::new());
    for Change { headers: of_change, old, new, .. } in changes {
        let (old, new): (&str, &str) = (old.leak(), new.leak());
        for Header { hook, name, when } in of_change {
            ensure!(!old.is_empty() && old != new, "{}: nothing is replaced", hook.at);
            if name.is_some_and(|name| names.insert(name, old).is_some()) {
                bail!("{}: another change has this name", hook.at);
            }
            headers.push((Hook { rule: Rule::Text(old, new), ..hook }, when));
        }
    }
    for (hook, when) in &mut headers {
        if let Some(name) = when {
            hook.when = names.get(name).with_context(|| format!("{}: no change is named {name}", hook.at))?;
        }
    }
    Ok(headers.into_iter().map(|(hook, _)| hook).collect())
}

/// Adds a line of a file to the changes of that file.
fn add(changes: &mut Vec<Change>, at: &str, line: &'static str) -> Result<()> {
    let prefix = line.chars().next();
    let no_lines = |change: &Change| change.old.is_empty() && change.new.is_empty() && change.empty == 0;
    if prefix == Some('@') && !changes.last().is_some_and(|change| no_lines(change) && !change.ended) {
        changes.push(Change::default());
    }
    match (prefix, changes.last_mut()) {
        (Some('@'), Some(change)) => change.headers.push(header(at, line)?),
        (Some(' ' | '-' | '+'), Some(change)) if !change.ended => {
            let kept = "\n".repeat(std::mem::take(&mut change.empty));
            for (text, other) in [(&mut change.old, '+'), (&mut change.new, '-')] {
                *text += &kept;
                if prefix != Some(other) {
                    *text += &line[1..];
                    text.push('\n');
                }
            }
        }
        (None, change) => change.into_iter().for_each(|change| change.empty += 1),
        (Some('#'), change) => change.into_iter().for_each(|change| change.ended = true),
        _ => bail!("no line of a change, header or comment: {line}"),
    }
    Ok(())
}

/// `@@ [NAME: ]FILE COUNT[ or COUNT ..][ when NAME | when "TEXT"] @@`
fn header(at: &str, line: &'static str) -> Result<Header> {
    let line = line.strip_prefix("@@ ").and_then(|line| line.strip_suffix(" @@")).context("a header is @@ .. @@")?;
    let (line, when) = line.split_once(" when ").map_or((line, None), |(line, when)| (line, Some(when)));
    let (name, line) = line.split_once(": ").map_or((None, line), |(name, line)| (Some(name), line));
    let (file, counts) = line.split_once(' ').context("a header has a file and a count")?;
    let count = |word: &str| match word {
        "some" => Ok(SOME),
        word => word.parse().with_context(|| format!("no count: {word}")),
    };
    let counts: &[usize] = counts.split(" or ").map(count).collect::<Result<Vec<_>>>()?.leak();
    let literal = when.and_then(|when| when.strip_prefix('"')?.strip_suffix('"'));
    let hook = text(file, counts[0], "", "").or(&counts[1..]).when(literal.unwrap_or_default());
    let at = at.to_owned().leak();
    Ok(Header { hook: Hook { at, ..hook }, name, when: when.filter(|_| literal.is_none()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_changes() {
        let one = "# Why.\n\n@@ a.rs 1 or 0 @@\n@@ gate: b/ some when sum @@\n x\n\n-y\n-\n+z\n\n\
            # Why.\n@@ c.rs 2 @@\n+n\n o\n";
        let two = "@@ sum: d.rs 1 when \"fn d();\" @@\n-    s\n+    t\n+\n";
        let hooks = read(&[("one.diff", one), ("two.diff", two)]).unwrap();
        let hooks = hooks.iter().map(|hook| {
            let Rule::Text(old, new) = hook.rule else { panic!("{:?}", hook.rule) };
            (hook.at, hook.file, hook.count, hook.or, hook.when, old, new)
        });
        let expected: [(_, _, _, &[usize], _, _, _); 4] = [
            ("one.diff:3", "a.rs", 1, &[0], "", "x\n\ny\n\n", "x\n\nz\n"),
            ("one.diff:4", "b/", SOME, &[], "    s\n", "x\n\ny\n\n", "x\n\nz\n"),
            ("one.diff:12", "c.rs", 2, &[], "", "o\n", "n\no\n"),
            ("two.diff:1", "d.rs", 1, &[], "fn d();", "    s\n", "    t\n\n"),
        ];
        assert_eq!(hooks.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_file_is_listed() {
        let packages = crate::hooks::PACKAGES.iter().flat_map(|package| package.changes);
        let mut listed: Vec<_> = packages.map(|(file, _)| (*file).to_owned()).collect();
        listed.push("README.md".into());
        let folder = crate::repository().unwrap().join("candle/patch/changes");
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
        let mut there = crate::package::walk(&folder).unwrap();
        assert!(there.iter().all(|file| file == "README.md" || readme.contains(&format!("({file})"))), "{there:?}");
        there.sort();
        listed.sort();
        assert_eq!(there, listed);
    }

    #[test]
    fn mistakes_are_told_with_their_lines() {
        for (source, expected) in [
            ("@@ a.rs 1 when b @@\n-x\n", "f.diff:1: no change is named b"),
            ("@@ n: a.rs 1 @@\n-x\n@@ n: b.rs 1 @@\n-x\n", "f.diff:3: another change has this name"),
            ("@@ a.rs 1 @@\nx\n", "f.diff:2: no line of a change, header or comment: x"),
            ("-x\n", "f.diff:1: no line of a change, header or comment: -x"),
            ("@@ a.rs 1 @@\n-x\n# Why.\n-y\n", "f.diff:4: no line of a change, header or comment: -y"),
            ("@@ a.rs 1 @@\n x\n", "f.diff:1: nothing is replaced"),
            ("@@ a.rs 1 @@\n+x\n", "f.diff:1: nothing is replaced"),
            ("@@ a.rs 1 @@\n\n@@ b.rs 1 @@\n-x\n", "f.diff:1: nothing is replaced"),
            ("@@ a.rs 1\n-x\n", "f.diff:1: a header is @@ .. @@"),
            ("@@ a.rs @@\n-x\n", "f.diff:1: a header has a file and a count"),
            ("@@ a.rs 1 or few @@\n-x\n", "f.diff:1: no count: few: invalid digit found in string"),
        ] {
            assert_eq!(format!("{:#}", read(&[("f.diff", source)]).err().unwrap()), expected);
        }
    }
}
