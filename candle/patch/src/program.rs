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
    /// manifest gets `[patch]`. Returns the files that changed. Lines on standard error name features that stay and
    /// need CUDA's compiler, and the command that a Cargo.lock needs.
    pub fn write(&self, manifest: &Path) -> Result<Vec<PathBuf>> {
        let manifest = manifest.canonicalize().with_context(|| manifest.display().to_string())?;
        let root = workspace_manifest(&manifest)?;
        let mut changed = Vec::new();
        let mut program = read(&manifest)?;
        let mut uses = self.turn_on(&mut program).with_context(|| manifest.display().to_string())?;
        if uses.names.is_empty() {
            if !program.contains_key("package") {
                bail!("{}: a workspace that does not name Candle: name a member's Cargo.toml", manifest.display());
            }
            // A library that the program uses may use Candle. Only the program can turn the features on, in each
            // package that has ops for a ROCm device. Few libraries use candle-flash-attn, so the user names it.
            let with_ops = ["candle-core", "candle-nn"];
            let dependencies = program["dependencies"].or_insert(toml_edit::table());
            let dependencies = dependencies.as_table_like_mut().context("[dependencies] is no table")?;
            let version = if self.checkout { ("git", REPOSITORY) } else { ("version", self.version.as_str()) };
            for name in self.packages.iter().filter(|name| with_ops.contains(name)) {
                dependencies.insert(name, value(InlineTable::from_iter([version])));
            }
            uses = self.turn_on(&mut program)?;
        }
        if root != manifest {
            let mut workspace = read(&root)?;
            uses.sources.extend(self.sources_of_workspace(&mut workspace, &uses)?);
            self.patch(&root, &mut workspace, &uses)?;
            save(&root, &workspace, &mut changed)?;
        } else {
            self.patch(&root, &mut program, &uses)?;
        }
        save(&manifest, &program, &mut changed)?;
        if let Some(line) = self.update_of_lock(&root.with_file_name("Cargo.lock"))? {
            eprintln!("{line}");
        }
        for path in BTreeSet::from([manifest, root]) {
            for feature in self.features_of_cuda(&mut read(&path)?) {
                let name = path.display();
                eprintln!("{name}: the feature {feature} stays. It needs CUDA's nvcc: remove it where there is none");
            }
        }
        Ok(changed)
    }

    /// The command for a `lock` that has packages at another version than the copies, which could replace them. With
    /// such a lock, cargo takes the locked package and not its copy, and then says that it `does not have that
    /// feature`.
    fn update_of_lock(&self, lock: &Path) -> Result<Option<String>> {
        if self.prefix.is_some() || !lock.is_file() {
            return Ok(None);
        }
        let document = read(lock)?;
        let locked = document.get("package").and_then(Item::as_array_of_tables).into_iter().flatten();
        let others = locked.filter_map(|package| {
            let field = |field| package.get(field).and_then(Item::as_str);
            let name = self.packages.iter().find(|name| Some(**name) == field("name"))?;
            let version = field("version").filter(|version| *version != self.version)?;
            (fits(version, &self.version) || fits(&self.version, version)).then(|| format!(" -p {name}"))
        });
        let others: BTreeSet<_> = others.collect();
        Ok((!others.is_empty()).then(|| {
            format!(
                "{}: locks another version than {}, the copies'. Run in that folder: cargo update{}",
                lock.display(),
                self.version,
                others.into_iter().collect::<String>()
            )
        }))
    }

    /// The features of a manifest's dependencies on the packages that need CUDA's compiler.
    fn features_of_cuda(&self, manifest: &mut DocumentMut) -> BTreeSet<&'static str> {
        let mut found = BTreeSet::new();
        for table in dependency_tables(manifest) {
            for (_, item) in table.iter_mut().filter(|(key, item)| self.named(key.get(), item).is_some()) {
                let features = item.as_table_like().and_then(|table| table.get("features")).and_then(Item::as_array);
                let names = features.into_iter().flatten().filter_map(|feature| feature.as_str());
                found.extend(names.filter_map(|name| ["cuda", "cudnn", "nccl"].into_iter().find(|f| *f == name)));
            }
        }
        found
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
            if !self.checkout {
                bail!(
                    "it takes {name} from {url}, and the copies are of the release {}: make them with --git and a \
                     checkout",
                    self.version
                );
            }
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

    /// Adds all packages to `[patch]` of a workspace's `manifest`: its libraries may use those that it does not name.
    fn patch(&self, path: &Path, manifest: &mut DocumentMut, uses: &Uses) -> Result<()> {
        if self.prefix.is_some() {
            return Ok(());
        }
        let patch = manifest["patch"].or_insert(Item::Table(Table::new()));
        let patch = patch.as_table_mut().context("[patch] is no table")?;
        patch.set_implicit(true);
        for source in &uses.sources {
            let section = patch.entry(source).or_insert(toml_edit::table());
            let section = section.as_table_like_mut().with_context(|| format!("[patch] of {source} is no table"))?;
            for (key, old) in section.iter().filter(|(key, old)| self.named(key, old).is_some()) {
                let place = old.get("path").and_then(Item::as_str).map(|place| path.with_file_name(place));
                let place = place.map(|place| place.canonicalize().unwrap_or(place));
                if !place.is_some_and(|place| place.starts_with(&self.dir)) {
                    bail!(
                        "{}: [patch] of {source} has {key} = {} already: remove it, or make the copies of that one",
                        path.display(),
                        old.to_string().trim()
                    );
                }
            }
            for name in &self.packages {
                section.insert(name, value(self.place(name)));
            }
        }
        Ok(())
    }
}

/// Whether a package of `version` may stand where `asked` is asked for.
fn fits(asked: &str, version: &str) -> bool {
    let asked = VersionReq::parse(asked);
    asked.is_ok_and(|asked| Version::parse(version).is_ok_and(|version| asked.matches(&version)))
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
    let old = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let text = manifest.to_string();
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

    /// A program in a folder of its own, with these lines after `[package]`. It is its own workspace: the folder for
    /// temporary files may lie in another one.
    struct Program(PathBuf);

    impl Program {
        fn new(name: &str, lines: &str) -> Program {
            let folder = std::env::temp_dir().join(format!("candle-rocm-patch-{name}-{}", std::process::id()));
            std::fs::create_dir_all(folder.join("src")).unwrap();
            std::fs::write(folder.join("src/main.rs"), "fn main() {}\n").unwrap();
            let workspace = if lines.contains("[workspace]") { "" } else { "[workspace]\n" };
            let package = "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n";
            std::fs::write(folder.join("Cargo.toml"), format!("{workspace}{package}{lines}")).unwrap();
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
candle-transformers = { path = \"/there/candle-transformers\" }
";
        assert_eq!(program.lines(), expected);
        assert!(copies().write(&program.manifest()).unwrap().is_empty(), "written twice");

        let old = Program::new("old", "[dependencies]\ncandle-core = \"0.10\"\n");
        let refusal = format!("{:#}", copies().write(&old.manifest()).unwrap_err());
        assert!(refusal.contains("asks for candle-core 0.10, and the copies are of 0.11.1"), "{refusal}");
    }

    #[test]
    fn features_that_need_cuda() {
        let of = |lines: &str| copies().features_of_cuda(&mut lines.parse().unwrap()).into_iter().collect::<Vec<_>>();
        let features = "{ version = \"0.11\", features = [\"cudnn\", \"flash-attn\", \"cuda\"] }";
        assert_eq!(of(&format!("[dependencies]\ncandle-core = {features}\n")), ["cuda", "cudnn"]);
        assert_eq!(of(&format!("[workspace.dependencies]\ncandle-nn = {features}\n")), ["cuda", "cudnn"]);
        assert!(of(&format!("[dependencies]\nother = {features}\ncandle-nn = \"0.11\"\n")).is_empty());
    }

    #[test]
    fn a_lock_with_another_version() {
        let program = Program::new("lock", "[dependencies]\ncandle-core = \"0.11\"\n");
        let lock = program.manifest().with_file_name("Cargo.lock");
        assert_eq!(copies().update_of_lock(&lock).unwrap(), None, "there is no lock");
        let package =
            |name: &str, version: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n");
        let of = |packages: &[(&str, &str)]| {
            let packages: String = packages.iter().map(|(name, version)| package(name, version)).collect();
            std::fs::write(&lock, format!("version = 4\n\n{packages}")).unwrap();
            copies().update_of_lock(&lock).unwrap()
        };
        let found = of(&[("candle-nn", "0.11.0"), ("candle-core", "0.11.0"), ("candle-onnx", "0.11.0")]).unwrap();
        let expected = "than 0.11.1, the copies'. Run in that folder: cargo update -p candle-core -p candle-nn";
        assert!(found.starts_with(&lock.display().to_string()) && found.ends_with(expected), "{found}");
        assert!(of(&[("candle-core", "0.11.1"), ("candle-nn", "0.11.0")]).unwrap().ends_with("update -p candle-nn"));
        assert!(of(&[("candle-core", "0.11.2")]).unwrap().ends_with("update -p candle-core"));
        // No copy can stand in for 0.10.2, which another library may use.
        assert_eq!(of(&[("candle-core", "0.11.1"), ("candle-core", "0.10.2"), ("other", "0.1.0")]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_program_by_git_or_without_candle() {
        let git = Program::new("git", "[dependencies.candle-nn]\ngit = \"https://github.com/me/candle\"\n");
        let refusal = format!("{:#}", copies().write(&git.manifest()).unwrap_err());
        assert!(refusal.contains("it takes candle-nn from https://github.com/me/candle, and the copies"), "{refusal}");
        Copies { checkout: true, ..copies() }.write(&git.manifest()).unwrap();
        let lines = git.lines();
        assert!(lines.contains("features = [\"rocm-backend\"]\n"), "{lines}");
        assert!(lines.contains("[patch.\"https://github.com/me/candle\"]\ncandle-core = "), "{lines}");

        let other = Program::new("other", "[dependencies]\nuses-candle = \"1\"\n");
        copies().write(&other.manifest()).unwrap();
        let lines = "candle-core = { version = \"0.11.1\", features = [\"rocm-backend\"] }\n\
            candle-nn = { version = \"0.11.1\", features = [\"rocm-backend\"] }\n";
        assert!(other.lines().contains(lines), "{}", other.lines());
    }

    #[test]
    fn a_patch_of_the_user() {
        for patch in [
            "candle-core = { git = \"https://github.com/me/candle\" }",
            "candle-nn = { path = \"../candle-nn\" }",
            "mine = { package = \"candle-core\", path = \"/elsewhere/candle-core\" }",
        ] {
            let lines = format!("[dependencies]\ncandle-core = \"0.11\"\n\n[patch.crates-io]\n{patch}\n");
            let program = Program::new("patch", &lines);
            let refusal = format!("{:#}", copies().write(&program.manifest()).unwrap_err());
            assert!(refusal.contains(&format!("[patch] of crates-io has {patch} already")), "{refusal}");
            assert_eq!(program.lines(), lines, "something was changed");
        }
        // Copies that are there already, by a path from the manifest, and a patch of something else.
        let lines = "[dependencies]\ncandle-core = \"0.11\"\n\n[patch.crates-io]\n\
            candle-core = { path = \"there/candle-core\" }\nother = { path = \"other\" }\n";
        let program = Program::new("copies", lines);
        let dir = program.0.canonicalize().unwrap().join("there");
        std::fs::create_dir_all(dir.join("candle-core")).unwrap();
        let copies = Copies { dir: dir.clone(), ..copies() };
        copies.write(&program.manifest()).unwrap();
        let place = format!(
            "candle-core = {{ path = \"{}\" }}\nother = {{ path = \"other\" }}\n",
            dir.join("candle-core").display()
        );
        assert!(program.lines().contains(&place), "{}", program.lines());
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
        let patch = "\n\n[patch.crates-io]\ncandle-core = { path = \"/there/candle-core\" }\n";
        assert!(root.lines().contains(patch), "{}", root.lines());
        let text = std::fs::read_to_string(member.join("Cargo.toml")).unwrap();
        assert!(text.contains("candle-core.features = [\"rocm-backend\"]"), "{text}");
    }

    #[test]
    fn a_workspace_without_a_package() {
        let root = Program::new("virtual", "");
        let member = root.0.join("one");
        std::fs::create_dir_all(member.join("src")).unwrap();
        std::fs::write(member.join("src/lib.rs"), "").unwrap();
        let text = "[package]\nname = \"one\"\nversion = \"0.0.0\"\n\n[dependencies]\ncandle-core = \"0.11.1\"\n";
        std::fs::write(member.join("Cargo.toml"), text).unwrap();
        let workspace = "[workspace]\nmembers = [\"one\"]\n";
        std::fs::write(root.manifest(), workspace).unwrap();
        let refusal = format!("{:#}", copies().write(&root.manifest()).unwrap_err());
        assert!(refusal.contains("name a member's Cargo.toml"), "{refusal}");
        assert_eq!(std::fs::read_to_string(root.manifest()).unwrap(), workspace);
        assert_eq!(copies().write(&member.join("Cargo.toml")).unwrap().len(), 2);

        // Its members may inherit Candle from it.
        std::fs::write(root.manifest(), format!("{workspace}\n[workspace.dependencies]\ncandle-nn = \"0.11\"\n"))
            .unwrap();
        copies().write(&root.manifest()).unwrap();
        let text = std::fs::read_to_string(root.manifest()).unwrap();
        assert!(text.contains("candle-nn = { version = \"0.11\", features = [\"rocm-backend\"] }"), "{text}");
        assert!(text.contains("[patch.crates-io]") && !text.contains("\n[dependencies]"), "{text}");
    }
}
