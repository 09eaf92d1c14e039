//! What a program's Cargo.toml needs to use the copies: the dependencies with their features, and `[patch]`.

use crate::manifest::{dependency_tables, published_name};
use anyhow::{Context, Result, bail};
use semver::{Version, VersionReq};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value, value};

/// Candle's repository, on which programs that follow its main branch depend.
const REPOSITORY: &str = "https://github.com/huggingface/candle";

/// The copies that were written, as a program asks for them.
pub struct Copies {
    pub dir: PathBuf,
    /// The packages, by Candle's names.
    pub packages: Vec<&'static str>,
    pub version: String,
    /// Features to turn on in each package.
    pub features: Vec<String>,
    /// Whether they are of a checkout. Programs then depend on Candle by git.
    pub checkout: bool,
    /// The prefix of their names if they are to be published. Programs then need no `[patch]`.
    pub prefix: Option<String>,
}

impl Copies {
    fn place(&self, name: &str) -> Value {
        let path = self.dir.join(name).to_string_lossy().into_owned();
        InlineTable::from_iter([("path", path)]).into()
    }

    /// The lines for a program that names every package.
    pub fn lines(&self) -> String {
        let mut lines = String::from("[dependencies]\n");
        for name in &self.packages {
            let mut dependency = InlineTable::new();
            if let Some(prefix) = &self.prefix {
                dependency.insert("package", published_name(prefix, name).into());
            }
            if self.checkout {
                dependency.insert("git", REPOSITORY.into());
            } else {
                dependency.insert("version", self.version.as_str().into());
            }
            dependency.insert("features", Array::from_iter(&self.features).into());
            lines += &format!("{name} = {dependency}\n");
        }
        if self.prefix.is_none() {
            let source = if self.checkout { format!("\"{REPOSITORY}\"") } else { "crates-io".into() };
            lines += &format!("\n[patch.{source}]\n");
            for name in &self.packages {
                lines += &format!("{name} = {}\n", self.place(name));
            }
        }
        lines
    }

    /// Edits a program's manifest: every dependency on one of the packages gets the features, and the workspace's
    /// manifest gets `[patch]`. Returns the files that changed.
    pub fn write(&self, manifest: &Path) -> Result<Vec<PathBuf>> {
        let manifest = manifest.canonicalize().with_context(|| manifest.display().to_string())?;
        let root = workspace_manifest(&manifest)?;
        let mut changed = Vec::new();
        let mut program = read(&manifest)?;
        let mut uses = self.turn_on(&mut program).with_context(|| manifest.display().to_string())?;
        if uses.names.is_empty() {
            // A library that the program uses may use Candle. Only the program can turn the feature on.
            let mut dependency = InlineTable::new();
            let version = if self.checkout { ("git", REPOSITORY) } else { ("version", self.version.as_str()) };
            dependency.insert(version.0, version.1.into());
            program["dependencies"].or_insert(toml_edit::table())["candle-core"] = value(dependency);
            uses = self.turn_on(&mut program)?;
        }
        if root != manifest {
            let mut workspace = read(&root)?;
            uses.sources.extend(self.sources_of_workspace(&mut workspace, &uses)?);
            self.patch(&mut workspace, &uses)?;
            save(&root, &workspace, &mut changed)?;
        } else {
            self.patch(&mut program, &uses)?;
        }
        save(&manifest, &program, &mut changed)?;
        Ok(changed)
    }

    /// Adds the features to every dependency on one of the packages.
    fn turn_on(&self, manifest: &mut DocumentMut) -> Result<Uses> {
        let mut uses = Uses::default();
        for table in dependency_tables(manifest) {
            for (key, item) in table.iter_mut() {
                let Some(name) = self.named(key.get(), item) else { continue };
                if let Some(version) = item.as_str().map(str::to_owned) {
                    *item = value(InlineTable::from_iter([("version", version)]));
                }
                let dependency = item.as_table_like_mut().context("a dependency is no table")?;
                uses.names.insert(name);
                uses.sources.extend(self.source(name, dependency)?);
                if let Some(prefix) = &self.prefix {
                    for other in ["git", "branch", "rev", "tag", "path", "workspace"] {
                        dependency.remove(other);
                    }
                    dependency.insert("package", value(published_name(prefix, name)));
                    dependency.insert("version", value(self.version.as_str()));
                }
                let features = dependency.entry("features").or_insert(value(Array::new()));
                let features = features.as_array_mut().context("features are no array")?;
                for feature in &self.features {
                    if !features.iter().any(|there| there.as_str() == Some(feature)) {
                        features.push(feature);
                    }
                }
                // Otherwise a space would stay before the new comma.
                if let Some(dependency) = item.as_inline_table_mut() {
                    dependency.fmt();
                }
            }
        }
        Ok(uses)
    }

    /// The package that a dependency is on, if it is one of these.
    fn named(&self, key: &str, item: &Item) -> Option<&'static str> {
        let package = item.as_table_like().and_then(|table| table.get("package")).and_then(Item::as_str);
        let package = package.unwrap_or(key);
        let same = |name: &&&'static str| {
            let published = self.prefix.as_ref().map(|prefix| published_name(prefix, name));
            **name == package || published.as_deref() == Some(package)
        };
        self.packages.iter().find(same).copied()
    }

    /// The source that `[patch]` must name for a dependency. None if the workspace's manifest tells it.
    fn source(&self, name: &str, dependency: &dyn TableLike) -> Result<Option<String>> {
        let field = |field: &str| dependency.get(field).and_then(Item::as_str);
        if self.prefix.is_some() || dependency.contains_key("workspace") {
            return Ok(None);
        }
        if let Some(url) = field("git") {
            return Ok(Some(url.to_owned()));
        }
        if let Some(path) = field("path") {
            bail!("{name} is taken from the path {path}: ask for it by version or git, so that [patch] can replace it");
        }
        let asked = field("version").unwrap_or("*");
        let fits = VersionReq::parse(asked).with_context(|| format!("{name}: version {asked}"))?;
        let version = Version::parse(&self.version).with_context(|| format!("{name}: version {}", self.version))?;
        if !fits.matches(&version) {
            bail!(
                "it asks for {name} {asked}, and the copies are of {version}: make them with --release, or change the \
                 version"
            );
        }
        Ok(Some("crates-io".to_owned()))
    }

    fn sources_of_workspace(&self, workspace: &mut DocumentMut, uses: &Uses) -> Result<BTreeSet<String>> {
        let mut sources = BTreeSet::new();
        for table in dependency_tables(workspace) {
            for (key, item) in table.iter_mut() {
                let Some(name) = self.named(key.get(), item) else { continue };
                let mut table = Table::new();
                if let Some(version) = item.as_str() {
                    table["version"] = value(version);
                }
                if uses.names.contains(name) {
                    sources.extend(self.source(name, item.as_table_like().unwrap_or(&table))?);
                }
            }
        }
        Ok(sources)
    }

    fn patch(&self, root: &mut DocumentMut, uses: &Uses) -> Result<()> {
        if self.prefix.is_some() {
            return Ok(());
        }
        // A package's own dependencies come before it in the list, and need the patch too.
        let last = self.packages.iter().rposition(|name| uses.names.contains(name)).unwrap_or(0);
        let patch = root["patch"].or_insert(Item::Table(Table::new()));
        let patch = patch.as_table_mut().context("[patch] is no table")?;
        patch.set_implicit(true);
        for source in &uses.sources {
            let section = patch.entry(source).or_insert(toml_edit::table());
            for name in &self.packages[..=last] {
                section[*name] = value(self.place(name));
            }
        }
        Ok(())
    }
}

/// The packages that a program names, and where it takes them from.
#[derive(Default)]
struct Uses {
    names: BTreeSet<&'static str>,
    sources: BTreeSet<String>,
}

fn read(path: &Path) -> Result<DocumentMut> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.parse().with_context(|| path.display().to_string())
}

fn save(path: &Path, manifest: &DocumentMut, changed: &mut Vec<PathBuf>) -> Result<()> {
    let (text, old) = (manifest.to_string(), std::fs::read_to_string(path)?);
    if text != old {
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
        changed.push(path.to_owned());
    }
    Ok(())
}

/// The manifest of the workspace that a program belongs to. Cargo reads `[patch]` only there.
fn workspace_manifest(manifest: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&cargo)
        .args(["locate-project", "--workspace", "--message-format=plain", "--manifest-path"])
        .arg(manifest)
        .output()
        .with_context(|| format!("{} cannot be run", cargo.to_string_lossy()))?;
    if !output.status.success() {
        bail!("{}: {}", manifest.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    let root = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    root.canonicalize().with_context(|| root.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies() -> Copies {
        Copies {
            dir: "/there".into(),
            packages: vec!["candle-core", "candle-nn", "candle-transformers"],
            version: "0.11.1".into(),
            features: vec!["rocm-backend".into()],
            checkout: false,
            prefix: None,
        }
    }

    /// A program in a folder of its own, with these lines after `[package]`.
    struct Program(PathBuf);

    impl Program {
        fn new(name: &str, lines: &str) -> Program {
            let folder = std::env::temp_dir().join(format!("candle-rocm-patch-{name}-{}", std::process::id()));
            std::fs::create_dir_all(folder.join("src")).unwrap();
            std::fs::write(folder.join("src/main.rs"), "fn main() {}\n").unwrap();
            let package = "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n";
            std::fs::write(folder.join("Cargo.toml"), format!("{package}{lines}")).unwrap();
            Program(folder)
        }

        fn manifest(&self) -> PathBuf {
            self.0.join("Cargo.toml")
        }

        /// What stands after `[package]`.
        fn lines(&self) -> String {
            let text = std::fs::read_to_string(self.manifest()).unwrap();
            text.split_once("\n\n").unwrap().1.to_owned()
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn lines_for_a_program() {
        let expected = "\
[dependencies]
candle-core = { version = \"0.11.1\", features = [\"rocm-backend\"] }
candle-nn = { version = \"0.11.1\", features = [\"rocm-backend\"] }

[patch.crates-io]
candle-core = { path = \"/there/candle-core\" }
candle-nn = { path = \"/there/candle-nn\" }
";
        let mut copies = Copies { packages: vec!["candle-core", "candle-nn"], ..copies() };
        assert_eq!(copies.lines(), expected);
        copies.checkout = true;
        let by_git = expected
            .replace("version = \"0.11.1\"", "git = \"https://github.com/huggingface/candle\"")
            .replace("crates-io", "\"https://github.com/huggingface/candle\"");
        assert_eq!(copies.lines(), by_git);
        let published = Copies { prefix: Some("my".into()), checkout: false, ..copies };
        let line = "candle-nn = { package = \"my-nn\", version = \"0.11.1\", features = [\"rocm-backend\"] }\n";
        assert!(published.lines().ends_with(line), "{}", published.lines());
    }

    #[test]
    fn a_program_by_version() {
        let program = Program::new(
            "version",
            "[dependencies]\n# Kept.\ncandle = { package = \"candle-core\", version = \"0.11\" }\n\
            candle-nn = \"0.11.1\"\n",
        );
        assert_eq!(copies().write(&program.manifest()).unwrap().len(), 1);
        let expected = "\
[dependencies]
# Kept.
candle = { package = \"candle-core\", version = \"0.11\", features = [\"rocm-backend\"] }
candle-nn = { version = \"0.11.1\", features = [\"rocm-backend\"] }

[patch.crates-io]
candle-core = { path = \"/there/candle-core\" }
candle-nn = { path = \"/there/candle-nn\" }
";
        assert_eq!(program.lines(), expected);
        assert!(copies().write(&program.manifest()).unwrap().is_empty(), "written twice");

        let old = Program::new("old", "[dependencies]\ncandle-core = \"0.10\"\n");
        let refusal = format!("{:#}", copies().write(&old.manifest()).unwrap_err());
        assert!(refusal.contains("asks for candle-core 0.10, and the copies are of 0.11.1"), "{refusal}");
    }

    #[test]
    fn a_program_by_git_or_without_candle() {
        let git = Program::new("git", "[dependencies.candle-nn]\ngit = \"https://github.com/me/candle\"\n");
        copies().write(&git.manifest()).unwrap();
        let lines = git.lines();
        assert!(lines.contains("features = [\"rocm-backend\"]\n"), "{lines}");
        assert!(lines.contains("[patch.\"https://github.com/me/candle\"]\ncandle-core = "), "{lines}");

        let other = Program::new("other", "[dependencies]\nuses-candle = \"1\"\n");
        copies().write(&other.manifest()).unwrap();
        let line = "candle-core = { version = \"0.11.1\", features = [\"rocm-backend\"] }\n";
        assert!(other.lines().contains(line), "{}", other.lines());
    }

    #[test]
    fn a_member_of_a_workspace() {
        let root = Program::new(
            "workspace",
            "[workspace]\nmembers = [\"one\"]\n\n[workspace.dependencies]\ncandle-core = \"0.11.1\"\n",
        );
        let member = root.0.join("one");
        std::fs::create_dir_all(member.join("src")).unwrap();
        std::fs::write(member.join("src/lib.rs"), "").unwrap();
        let text = "[package]\nname = \"one\"\nversion = \"0.0.0\"\n\n[dependencies]\ncandle-core.workspace = true\n";
        std::fs::write(member.join("Cargo.toml"), text).unwrap();
        assert_eq!(copies().write(&member.join("Cargo.toml")).unwrap().len(), 2);
        let patch = "[patch.crates-io]\ncandle-core = { path = \"/there/candle-core\" }\n";
        assert!(root.lines().ends_with(patch), "{}", root.lines());
        let text = std::fs::read_to_string(member.join("Cargo.toml")).unwrap();
        assert!(text.contains("candle-core.features = [\"rocm-backend\"]"), "{text}");
    }
}
