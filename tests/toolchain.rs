//! The build script's search for AMD's compilers and device libraries, in folder trees like those of ROCm's packages.
#![cfg(unix)]
#![allow(dead_code)]
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

#[path = "../build/architectures.rs"]
mod architectures;
#[path = "../build/bundle.rs"]
mod bundle;
#[path = "../build/cache.rs"]
mod cache;
#[path = "../build/coff.rs"]
mod coff;
#[path = "../build/config.rs"]
mod config;
#[path = "../build/core.rs"]
mod core_library;
#[path = "../build/embed.rs"]
mod embed;
#[path = "../build/includes.rs"]
mod includes;
#[path = "../build/jobs.rs"]
mod jobs;
#[path = "../build/kernels.rs"]
mod kernels;
#[path = "../build/pack.rs"]
mod pack;
#[path = "../build/parts.rs"]
mod parts;
#[path = "../build/prebuilt.rs"]
mod prebuilt;
#[path = "../build/program.rs"]
mod program;
#[path = "../build/progress.rs"]
mod progress;
use candle_rocm_sys_tests::support::compiler;
#[path = "../build/toolchain.rs"]
mod toolchain;

use config::Config;
use core_library::{Compiler, Language};
use toolchain::Hip;

/// A folder for compilers and device libraries. Only one exists at a time: another thread may start a process while a
/// program is open for writing, and then the program cannot be run.
struct Tree(PathBuf, MutexGuard<'static, ()>);

impl Tree {
    fn new(test: &str) -> Tree {
        static LOCK: Mutex<()> = Mutex::new(());
        let guard = LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Tree(compiler::scratch(&format!("toolchain-{test}")), guard)
    }

    fn path(&self, path: &str) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        path
    }

    /// A program, which is this script.
    fn program(&self, path: &str, script: &str) {
        fs::write(self.path(path), format!("#!/bin/sh\n{script}\n")).expect("a file");
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).expect("a program");
    }

    /// Programs that print a version.
    fn compilers(&self, paths: &[&str]) {
        paths.iter().for_each(|path| self.program(path, "echo clang version 21.0.0"));
    }

    fn device_libraries(&self, folders: &[&str]) {
        folders.iter().for_each(|folder| fs::write(self.path(&format!("{folder}/ocml.bc")), "").expect("a file"));
    }

    /// The configuration of a machine with nothing but this tree installed.
    fn config(&self) -> Config {
        Config { installed: self.0.clone(), out_dir: self.0.join("out"), ..Config::default() }
    }

    fn value(&self, path: &str) -> Option<OsString> {
        Some(self.0.join(path).into_os_string())
    }
}

/// The compiler that is found, and the folder of device libraries that it gets as an argument.
fn found(tree: &Tree, config: &Config) -> (String, Option<String>) {
    let below = |path: &Path| path.strip_prefix(&tree.0).expect("in the tree").to_string_lossy().into_owned();
    let hip = Hip::find(config).unwrap_or_else(|message| panic!("{message}"));
    let command = hip.command(config, "gfx1100", Path::new("in"), Path::new("out"));
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    let mut folders: Vec<_> =
        arguments.filter_map(|a| a.strip_prefix("--rocm-device-lib-path=").map(str::to_owned)).collect();
    assert!(folders.len() <= 1, "{folders:?}");
    (below(&hip.path), folders.pop().map(|folder| below(Path::new(&folder))))
}

#[track_caller]
fn finds(tree: &Tree, config: &Config, compiler: &str, device_libraries: &str) {
    let libraries = Some(device_libraries.to_owned()).filter(|folder| !folder.is_empty());
    assert_eq!(found(tree, config), (compiler.to_owned(), libraries));
}

#[test]
fn rocm_5_to_7_in_a_root_of_their_version() {
    let tree = Tree::new("5-to-7");
    for (version, compiler) in [("5.2.0", "bin/hipcc"), ("6.4.1", "bin/hipcc"), ("7.2.0", "lib/llvm/bin/clang++")] {
        tree.compilers(&[&format!("rocm-{version}/{compiler}")]);
        tree.device_libraries(&[&format!("rocm-{version}/amdgcn/bitcode")]);
        let root = format!("rocm-{version}");
        // The latest installed version; any version can be named by its root.
        finds(&tree, &tree.config(), &format!("{root}/{compiler}"), &format!("{root}/amdgcn/bitcode"));
        let named = Config { rocm_path: tree.value("rocm-5.2.0"), ..tree.config() };
        finds(&tree, &named, "rocm-5.2.0/bin/hipcc", "rocm-5.2.0/amdgcn/bitcode");
    }
    // A folder without a version is the administrator's choice.
    symlink("rocm-6.4.1", tree.path("rocm")).expect("a link");
    finds(&tree, &tree.config(), "rocm/bin/hipcc", "rocm/amdgcn/bitcode");
}

#[test]
fn rocm_10_and_later_in_cores() {
    let tree = Tree::new("cores");
    tree.compilers(&["rocm/core-7.14/lib/llvm/bin/amdclang++", "rocm/core-9.1/lib/llvm/bin/amdclang++"]);
    tree.device_libraries(&["rocm/core-9.1/lib/llvm/amdgcn/bitcode"]);
    finds(&tree, &tree.config(), "rocm/core-9.1/lib/llvm/bin/amdclang++", "rocm/core-9.1/lib/llvm/amdgcn/bitcode");
    tree.compilers(&["rocm/core-10.0/lib/llvm/bin/amdclang++", "rocm/core-10.0/lib/llvm/bin/clang++"]);
    tree.device_libraries(&["rocm/core-10.0/lib/llvm/lib/clang/9/lib/amdgcn/bitcode"]);
    tree.device_libraries(&["rocm/core-10.0/lib/llvm/lib/clang/23/lib/amdgcn/bitcode"]);
    let libraries = "rocm/core-10.0/lib/llvm/lib/clang/23/lib/amdgcn/bitcode";
    finds(&tree, &tree.config(), "rocm/core-10.0/lib/llvm/bin/amdclang++", libraries);
    let named = Config { rocm_path: tree.value("rocm"), ..tree.config() };
    finds(&tree, &named, "rocm/core-10.0/lib/llvm/bin/amdclang++", libraries);
    let core = Config { hip_path: tree.value("rocm/core-9.1"), ..tree.config() };
    finds(&tree, &core, "rocm/core-9.1/lib/llvm/bin/amdclang++", "rocm/core-9.1/lib/llvm/amdgcn/bitcode");
    // The next major version, with a hipcc of its own. Similar folders with another meaning are ignored.
    tree.compilers(&["rocm/core-11.0/bin/hipcc", "rocm/extras-12/bin/hipcc", "rocm/corelib/bin/hipcc"]);
    tree.device_libraries(&["rocm/core-11.0/lib/llvm/amdgcn/bitcode"]);
    finds(&tree, &tree.config(), "rocm/core-11.0/bin/hipcc", "rocm/core-11.0/lib/llvm/amdgcn/bitcode");
    symlink("core-10.0", tree.path("rocm/core")).expect("a link");
    let libraries = "rocm/core/lib/llvm/lib/clang/23/lib/amdgcn/bitcode";
    finds(&tree, &tree.config(), "rocm/core/lib/llvm/bin/amdclang++", libraries);
}

#[test]
fn other_device_libraries_give_another_output() {
    let tree = Tree::new("contents");
    tree.compilers(&["rocm/bin/hipcc"]);
    tree.device_libraries(&["rocm/amdgcn/bitcode", "mine"]);
    let variable = Config { hip_device_lib_path: tree.value("mine"), ..tree.config() };
    for (config, folder) in [(tree.config(), "rocm/amdgcn/bitcode"), (variable, "mine")] {
        let identity = || Hip::find(&config).unwrap_or_else(|message| panic!("{message}")).identity;
        let before = identity();
        assert_eq!(before, identity());
        fs::write(tree.path(&format!("{folder}/ocml.bc")), "another version").expect("a file");
        assert_ne!(before, identity(), "{folder}");
    }
}

#[test]
fn device_libraries_that_are_named_stay() {
    let tree = Tree::new("named");
    tree.compilers(&["rocm/bin/hipcc", "distribution/bin/hipcc"]);
    tree.device_libraries(&["rocm/amdgcn/bitcode", "mine"]);
    let mine = format!("--rocm-device-lib-path={}", tree.0.join("mine").display());
    let flags = Config { hipcc_flags: vec![mine], ..tree.config() };
    finds(&tree, &flags, "rocm/bin/hipcc", "mine");
    let variable = Config { hip_device_lib_path: tree.value("mine"), ..tree.config() };
    finds(&tree, &variable, "rocm/bin/hipcc", "");
    // A compiler outside of AMD's installations knows its own device libraries.
    let distribution = Config { hipcc: tree.value("distribution/bin/hipcc"), ..tree.config() };
    finds(&tree, &distribution, "distribution/bin/hipcc", "");
}

#[test]
fn what_was_looked_for_is_told() {
    let tree = Tree::new("nothing");
    let config = Config { rocm_path: tree.value("rocm-10"), ..tree.config() };
    fs::create_dir_all(tree.path("rocm-10/core-10.0/bin")).expect("a folder");
    let message = Hip::find(&config).err().expect("nothing is there");
    for word in ["rocm-10/core-10.0", "lib/llvm/bin/amdclang++", "HIPCC: not set", "HIP_PATH: not set"] {
        assert!(message.contains(word), "'{word}' is not in: {message}");
    }
}

#[test]
fn a_compiler_that_does_not_run_is_named_with_its_variables() {
    let tree = Tree::new("fails");
    let hipcc = tree.path("distribution/bin/hipcc");
    let message = |config: &Config| Hip::find(config).err().expect("the compiler does not run");
    fs::write(&hipcc, "").expect("a file");
    let named = Config { hipcc: Some(hipcc.clone().into()), ..tree.config() };
    let expected = "cannot be run: Permission denied (os error 13)\nWays out: correct HIPCC, or unset it to search the \
                    usual places";
    assert_eq!(message(&named), format!("{} {expected}", hipcc.display()));
    tree.program("distribution/bin/hipcc", "echo no clang in $ROCM_PATH >&2; exit 1");
    let (path, folder) = (hipcc.parent().map(|path| path.as_os_str().to_owned()), tree.0.join("none"));
    let folders = Config { path, rocm_path: Some(folder.clone().into()), ..tree.config() };
    let expected = format!(
        "{} --version fails (exit status: 1):\nno clang in\nWays out: name another compiler in HIPCC; or correct \
         ROCM_PATH={}, or unset it: hipcc looks for its clang there",
        hipcc.display(),
        folder.display()
    );
    assert_eq!(message(&folders), expected);
}

/// Compilers run in several folders.
#[test]
fn programs_have_absolute_paths() {
    let here = std::env::current_dir().expect("a folder");
    for (name, expected) in [("hipcc", PathBuf::from("hipcc")), ("bin/hipcc", here.join("bin/hipcc"))] {
        assert_eq!(config::program(name.into()), expected);
    }
}

/// The error of a build whose C or C++ compiler is this program.
fn without(program: &str, language: Language, target: Option<&str>) -> String {
    let config = Config { cross_target: target.map(str::to_owned), ..Config::default() };
    let mut build = cc::Build::new();
    build.target("x86_64-unknown-linux-gnu").host("x86_64-unknown-linux-gnu").opt_level(0).compiler(program);
    build.cargo_metadata(false).cpp(language == Language::Cpp);
    Compiler::new(&config, &build, language).err().expect("there is no such program")
}

#[test]
#[cfg(target_os = "linux")]
fn a_missing_compiler_is_one_sentence_with_its_package() {
    let nothing = "cannot be run: No such file or directory (os error 2); install it (Debian, Ubuntu: the package";
    let aarch64 = Some("aarch64-unknown-linux-gnu");
    let windows = Some("x86_64-pc-windows-gnu");
    let musl = Some("x86_64-unknown-linux-musl");
    use Language::{C, Cpp};
    for (program, language, target, package, ways) in [
        ("/none/cc", C, None, "gcc; Fedora: gcc; Arch: gcc)", "another one in CC"),
        (
            "/none/c++",
            Cpp,
            None,
            "g++; Fedora: gcc-c++; Arch: gcc)",
            "another one in CXX, or build without the feature `cpu`",
        ),
        (
            "/none/aarch64-linux-gnu-gcc",
            C,
            aarch64,
            "gcc-aarch64-linux-gnu)",
            "another one in CC_aarch64_unknown_linux_gnu",
        ),
        (
            "/none/aarch64-linux-gnu-g++",
            Cpp,
            aarch64,
            "g++-aarch64-linux-gnu)",
            "another one in CXX_aarch64_unknown_linux_gnu, or build without the feature `cpu`",
        ),
        ("/none/x86_64-w64-mingw32-gcc", C, windows, "mingw-w64)", "another one in CC_x86_64_pc_windows_gnu"),
        ("/none/musl-gcc", C, musl, "musl-tools)", "another one in CC_x86_64_unknown_linux_musl"),
    ] {
        let name = if language == C { "C" } else { "C++" };
        let expected = format!("the {name} compiler {program} {nothing} {package}, or name {ways}");
        assert_eq!(without(program, language, target), expected);
    }
    let expected = "No such file or directory (os error 2); name a musl C++ compiler in \
                    CXX_x86_64_unknown_linux_musl, or build without the feature `cpu`";
    assert!(without("/none/x86_64-linux-musl-g++", Cpp, musl).ends_with(expected));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_named() {
    let message = config::write(Path::new("/dev/full"), "text").expect_err("the device is full");
    assert!(message.starts_with("/dev/full: No space left on device (os error 28); free space there"), "{message}");
    let message = config::write(Path::new("/none/file"), "text").expect_err("there is no such folder");
    assert_eq!(message, "/none/file: No such file or directory (os error 2)");
}

impl Tree {
    /// A compiler that writes its output, except for these architectures.
    fn compiler_without(&self, path: &str, unknown: &str) {
        let text = format!(
            "[ \"$1\" = --version ] && echo \"clang version 15.0.0, without {unknown}\" && exit\n\
             while [ $# -gt 0 ]; do\n\
             case $1 in --offload-arch=*) arch=${{1#*=}};; -o) output=$2;; esac; shift\n\
             done\n\
             case ' {unknown} ' in *\" $arch \"*) echo \"error: what is $arch?\" >&2; exit 1;; esac\n\
             echo > \"$output\""
        );
        self.program(path, &text);
    }

    /// The topology of a machine with these nodes, by `gfx_target_version`; a CPU has 0.
    fn nodes(&self, versions: &[&str]) {
        for (index, version) in versions.iter().enumerate() {
            let text = format!("cpu_cores_count 0\ngfx_target_version {version}\ndevice_id 29772\n");
            fs::write(self.path(&format!("nodes/{index}/properties")), text).expect("a file");
        }
    }

    /// The configuration with a compiler that does not know these architectures, and with this list of the user's.
    fn config_without(&self, unknown: &str, list: Option<&str>) -> Config {
        self.compiler_without("rocm/bin/hipcc", unknown);
        Config { jobs: 2, topology: self.0.join("nodes"), rocm_archs: list.map(str::to_owned), ..self.config() }
    }
}

fn architectures(config: &Config) -> Result<toolchain::Architectures, String> {
    Hip::find(config)?.architectures(config)
}

const COMMON: [&str; 13] = [
    "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1151",
    "gfx1200", "gfx1201",
];

const GENERIC: [&str; 9] = [
    "gfx906",
    "gfx908",
    "gfx90a",
    "gfx9-generic",
    "gfx9-4-generic",
    "gfx10-1-generic",
    "gfx10-3-generic",
    "gfx11-generic",
    "gfx12-generic",
];

#[test]
fn what_an_old_compiler_leaves_out_is_told() {
    let tree = Tree::new("old");
    let common = Some("common");
    let built = architectures(&tree.config_without("", common)).expect("architectures");
    assert_eq!((built.names, built.notes.len()), (COMMON.map(str::to_owned).to_vec(), 0));

    let built = architectures(&tree.config_without("gfx942 gfx950 gfx1201", common)).expect("architectures");
    assert_eq!(built.names.len(), COMMON.len() - 3);
    assert!(!built.names.iter().any(|name| ["gfx942", "gfx950", "gfx1201"].contains(&name.as_str())));
    let [note] = &built.notes[..] else { panic!("one note: {:?}", built.notes) };
    let start = format!(
        "{}/rocm/bin/hipcc cannot compile for gfx942, gfx950, gfx1201, so this build does not run on gfx942 (Instinct \
         MI300), gfx950 (Instinct MI350), gfx1201 (Radeon RX 9070) (gfx942: error: what is gfx942?); name a newer \
         compiler with HIPCC",
        tree.0.display()
    );
    assert!(note.starts_with(&start), "{note}");
    let list = note.split("CANDLE_ROCM_ARCHS=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a list");
    let built = architectures(&tree.config_without("gfx942 gfx950 gfx1201", Some(list))).expect("the list");
    assert!(built.notes.is_empty());

    // An architecture that the user names is not left out, and neither is the last one.
    let config = tree.config_without("gfx1201", Some("common,gfx1201"));
    assert!(architectures(&config).unwrap_err().contains("gfx1201: error: what is gfx1201?"));
    let config = tree.config_without(&COMMON.join(" "), common);
    let message = architectures(&config).unwrap_err();
    assert!(message.contains("for any of the architectures of this build: gfx906, gfx908"), "{message}");
}

/// Then the build fails: it would lack architectures that the compiler knows.
#[test]
fn a_full_disk_is_not_an_unknown_architecture() {
    let tree = Tree::new("full");
    let config = tree.config_without("", None);
    let full = "LLVM ERROR: IO failure on output stream: No space left on device";
    tree.program("rocm/bin/hipcc", &format!("[ \"$1\" = --version ] && exit; echo '{full}' >&2; exit 1"));
    let expected = format!("{}/rocm/bin/hipcc for gfx906: {full}; {}", tree.0.display(), config::FULL_DISK);
    assert_eq!(architectures(&config).unwrap_err(), expected);
}

/// A hipcc may run its clang by a shell, which changes this target folder's path.
#[test]
fn a_target_folder_that_a_shell_changes_is_named() {
    let tree = Tree::new("shell");
    let plain = tree.config_without("", None);
    let config = Config { out_dir: tree.path("my $target/\"out\""), ..tree.config_without("", None) };
    for line in ["lld: error: cannot open output file /my /out/x: No such file or directory", "sh: 1: Syntax error"] {
        tree.program("rocm/bin/hipcc", &format!("[ \"$1\" = --version ] && exit; echo '{line}' >&2; exit 1"));
        let message = architectures(&config).unwrap_err();
        let of_arch = format!("{}/rocm/bin/hipcc for gfx906: {line}; this hipcc passes its", tree.0.display());
        assert!(message.starts_with(&of_arch) && message.ends_with("in CARGO_TARGET_DIR"), "{message}");
        assert!(message.contains(&*config.out_dir.to_string_lossy()), "{message}");
    }
    // In another folder it is no matter of the shell.
    let message = architectures(&plain).unwrap_err();
    assert!(message.contains("cannot compile for any") && !message.contains("CARGO_TARGET_DIR"), "{message}");
}

/// Without a list and without a GPU a build is for the generic targets. For those that the compiler does not know it
/// has code for their common members. The note names the other members.
#[test]
fn generic_targets_that_an_old_compiler_does_not_know() {
    let tree = Tree::new("generic");
    let names = |unknown: &str| architectures(&tree.config_without(unknown, None)).expect("architectures").names;
    assert_eq!(names(""), GENERIC);

    let built = architectures(&tree.config_without("gfx10-3-generic gfx11-generic gfx1150", None)).expect("names");
    assert_eq!(
        built.names,
        [&GENERIC[..6], &["gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1151"], &GENERIC[8..]].concat()
    );
    let [note] = &built.notes[..] else { panic!("one note: {:?}", built.notes) };
    let start = format!(
        "{}/rocm/bin/hipcc cannot compile for gfx10-3-generic, gfx11-generic, gfx1150, so this build does not run on \
         gfx1031 (Radeon RX 6700), gfx1032 (Radeon RX 6600), gfx1034 (Radeon RX 6500), gfx1035 (Ryzen 6000), gfx1036 \
         (Ryzen 7000), gfx1103 (Ryzen 7040 and 8040), gfx1150 (Ryzen AI 300: Strix Point), gfx1152 (Ryzen AI 300: \
         Krackan Point), gfx1153 (Ryzen AI 300, small) (gfx10-3-generic: error: what is gfx10-3-generic?); name a \
         newer compiler",
        tree.0.display()
    );
    assert!(note.starts_with(&start), "{note}");

    // As Debian's clang 15. No member of gfx10-1-generic is common.
    let old =
        format!("{} gfx942 gfx950 gfx1100 gfx1101 gfx1102 gfx1150 gfx1151 gfx1200 gfx1201", GENERIC[3..].join(" "));
    assert_eq!(names(&old), ["gfx906", "gfx908", "gfx90a", "gfx1030"]);
    let config = tree.config_without("gfx11-generic", Some("gfx11-generic"));
    assert!(architectures(&config).unwrap_err().contains("gfx11-generic: error: what is gfx11-generic?"));
}

/// A compiler that writes code object version 6 is asked for version 5, and one that writes version 5 is asked for
/// version 6 where the target is generic.
#[test]
fn single_architectures_get_code_that_older_runtimes_load() {
    let tree = Tree::new("version");
    let arguments = |abi: &str, arch: &str| -> Option<u32> {
        let text = format!("echo '\"-mlink-builtin-bitcode\" \"{}/{abi}\"' >&2", tree.0.display());
        tree.program("rocm/bin/hipcc", &text);
        let config = tree.config();
        let hip = Hip::find(&config).unwrap_or_else(|message| panic!("{message}"));
        let command = hip.command(&config, arch, Path::new("in"), Path::new("out"));
        let version =
            |argument: &std::ffi::OsStr| argument.to_str()?.strip_prefix("-mcode-object-version=")?.parse().ok();
        command.get_args().find_map(version)
    };
    assert_eq!(arguments("oclc_abi_version_600.bc", "gfx1100"), Some(5));
    assert_eq!(arguments("oclc_abi_version_600.bc", "gfx11-generic"), None);
    assert_eq!(arguments("oclc_abi_version_400.bc", "gfx1100"), None);
    assert_eq!(arguments("oclc_abi_version_500.bc", "gfx9-4-generic:xnack-"), Some(6));
}

/// clang leaves an empty folder behind for each source. It must not be below /tmp.
#[test]
fn temporary_files_are_in_the_builds_own_folder() {
    let tree = Tree::new("temporary");
    tree.program("rocm/bin/hipcc", &format!("echo \"$TMPDIR\" >>{}/folders", tree.0.display()));
    let config = tree.config();
    let hip = Hip::find(&config).unwrap_or_else(|message| panic!("{message}"));
    let mut command = hip.command(&config, "gfx1100", Path::new("in"), Path::new("out"));
    assert!(command.status().expect("a program").success());
    let folders = fs::read_to_string(tree.0.join("folders")).expect("a file");
    let [version, libraries, compiled] = folders.lines().collect::<Vec<_>>()[..] else { panic!("{folders}") };
    assert_ne!(version, libraries, "the version needs no files");
    let folder = config.out_dir.join("temporary");
    assert_eq!([libraries, compiled].map(Path::new), [&folder; 2]);
    fs::write(folder.join("left"), "").expect("a file");
    assert!(Hip::find(&config).is_ok());
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0, "what a build has left");
}

/// A compiler outside of AMD's installations finds its own device libraries; `-###` tells which.
#[test]
fn device_libraries_that_the_compiler_finds_itself_count() {
    let tree = Tree::new("own-libraries");
    let folder = tree.path("lib/bitcode/ocml.bc").with_file_name("");
    let text = format!("echo ' \"-mlink-builtin-bitcode\" \"{}ocml.bc\"' >&2", folder.display());
    tree.program("distribution/bin/hipcc", &text);
    let config = Config { hipcc: tree.value("distribution/bin/hipcc"), ..tree.config() };
    let identity = || Hip::find(&config).unwrap_or_else(|message| panic!("{message}")).identity;
    fs::write(folder.join("ocml.bc"), "one").expect("a file");
    let before = identity();
    assert_eq!(before, identity());
    fs::write(folder.join("ocml.bc"), "two").expect("a file");
    assert_ne!(before, identity());
}

#[test]
fn without_a_list_a_build_is_for_the_gpus_of_the_machine() {
    let tree = Tree::new("gpus");
    let names = |config: &Config| architectures(config).expect("architectures").names;
    tree.nodes(&["0"]);
    assert_eq!(names(&tree.config_without("", None)), GENERIC, "a machine without a GPU");

    tree.nodes(&["0", "110000", "90010", "110000"]);
    let built = architectures(&tree.config_without("", None)).expect("architectures");
    assert_eq!(built.names, ["gfx90a", "gfx1100"]);
    let [note] = &built.notes[..] else { panic!("one note: {:?}", built.notes) };
    let start = "CANDLE_ROCM_ARCHS is not set: this build is for the GPUs of this machine, gfx90a (Instinct MI200), \
                 gfx1100 (Radeon RX 7900); set it to `generic`";
    assert!(note.starts_with(start), "{note}");

    for (list, expected) in [
        ("common", &COMMON[..]),
        ("generic", &GENERIC),
        ("native", &["gfx90a", "gfx1100"]),
        ("gfx1201", &["gfx1201"]),
        ("native,gfx1201,gfx90a", &["gfx90a", "gfx1100", "gfx1201"]),
    ] {
        let built = architectures(&tree.config_without("", Some(list))).expect("architectures");
        assert_eq!((built.names, built.notes.len()), (expected.iter().map(|name| name.to_string()).collect(), 0));
    }
    let built = names(&tree.config_without("", Some("gfx1103,common")));
    assert_eq!((built.len(), built[0].as_str()), (COMMON.len() + 1, "gfx1103"));

    // One of two GPUs is too new for the compiler; then both are.
    let built = architectures(&tree.config_without("gfx1100", None)).expect("architectures");
    assert_eq!((built.names, built.notes.len()), (vec!["gfx90a".to_owned()], 2));
    let message = architectures(&tree.config_without("gfx1100 gfx90a", None)).unwrap_err();
    assert!(message.contains("gfx90a, gfx1100") && message.contains("`common`"), "{message}");
    assert!(architectures(&tree.config_without("gfx1100", Some("native"))).is_err());
}

#[test]
fn a_gpu_that_reports_another_architecture_gets_code_for_both() {
    let tree = Tree::new("override");
    let config = |version: &str| Config { gfx_override: Some(version.into()), ..tree.config_without("", None) };
    let names = |version| architectures(&config(version)).expect("architectures").names;
    assert_eq!(names("10.3.0"), GENERIC, "a machine without a GPU");
    tree.nodes(&["0", "100301"]);
    assert_eq!(names("10.3.0"), ["gfx1030", "gfx1031"]);
    assert_eq!(names("9.0.10"), ["gfx90a", "gfx1031"]);
    assert_eq!(names("nonsense"), ["gfx1031"]);
}
