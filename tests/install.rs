//! `make install`: what it installs, what the libraries export, and programs that are built with them.
//!
//! The libraries are made from the archive of this test's own build, so no kernel is compiled again. A trial that needs
//! a program which this machine lacks is listed as ignored, with the reason in its name.
use candle_rocm_sys_tests::support::compiler;
use candle_rocm_sys_tests::support::headers;
use candle_rocm_sys_tests::support::paths::{LIBRARY, PROJECT, SCRATCH, VERSION};

use compiler::{check_first, compiler, run, scratch};
use libtest_mimic::{Arguments, Trial};
use object::read::archive::ArchiveFile;
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const FOLDER: &str = "an installation";

fn main() {
    let arguments = Arguments::from_args();
    scratch(FOLDER);
    let mut trials = Vec::new();
    let mut add = |name: &str, needs: &[&str], trial: fn()| {
        let missing = missing(needs);
        let reason = missing.as_ref().map_or_else(String::new, |what| format!(" (left out: {what})"));
        let trial = Trial::test(format!("install/{name}{reason}"), move || {
            trial();
            Ok(())
        });
        trials.push(trial.with_ignored_flag(missing.is_some()));
    };
    add("headers", &[], every_header_is_installed);
    add("exports", &[], only_the_headers_functions_are_exported);
    add("soname", &["readelf"], the_soname_follows_the_version);
    add("staged", &[], destdir_is_in_no_file);
    add("letters", &[], a_path_may_have_any_letters);
    add("relative", &[], folders_must_be_absolute);
    add("another_build", &[], features_must_be_those_of_the_build);
    add("pkg_config", &["pkg-config", CPU], first_builds_with_pkg_config);
    add("pkg_config_static", &["pkg-config"], a_cpp_program_links_the_static_library);
    add("cmake", &["cmake", CPU], first_builds_with_cmake);
    add("cmake_static", &["cmake"], a_moved_tree_serves_a_static_cpp_program);
    libtest_mimic::run(&arguments, trials).exit()
}

/// A need of programs that run kernels: the feature `cpu`.
const CPU: &str = "CPU device in this build";

/// Names a need that is not met. Each trial needs Linux, make and objcopy.
fn missing(needs: &[&str]) -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("the Makefile is for Linux".to_owned());
    }
    let unmet = ["make", "objcopy"].iter().chain(needs).find(|need| match **need {
        CPU => !cfg!(feature = "cpu"),
        program => Command::new(program).arg("--version").output().is_err(),
    });
    unmet.map(|need| format!("no {need}"))
}

/// Runs make with these variables, none of which it takes from the environment.
fn make(target: &str, build: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new("make");
    command.current_dir(PROJECT).env_remove("MAKEFLAGS").arg(target);
    command.arg(format!("CC={}", compiler(false).path().display()));
    command.arg(format!("CANDLE_ROCM_LIB={LIBRARY}")).arg(format!("BUILD={}", build.display()));
    let defaults = [("DESTDIR", ""), ("PREFIX", "/usr/local"), ("FEATURES", "")];
    for (name, value) in defaults.iter().chain(variables) {
        command.arg(format!("{name}={value}"));
    }
    for name in ["LIBDIR", "INCLUDEDIR", "CFLAGS", "LDFLAGS"] {
        command.env_remove(name);
    }
    command
}

/// A folder of this program's. Its path has a space.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(SCRATCH).join(FOLDER).join(name);
    fs::create_dir_all(&folder).expect("a folder for a trial");
    folder
}

/// The folder of what `make` builds.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let build = folder("build");
        run(&mut make("all", &build, &[]));
        build
    })
}

/// The prefix of an installation.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = folder("prefix");
        run(&mut make("install", built(), &[("PREFIX", &text(&prefix))]));
        prefix
    })
}

/// The soname's number: the rule of docs/building.md.
fn abi() -> String {
    let parts: Vec<&str> = VERSION.split('.').collect();
    if parts[0] == "0" { parts[..2].join(".") } else { parts[0].to_owned() }
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

fn every_header_is_installed() {
    for header in headers::all() {
        let installed = prefix().join("include").join(header.strip_prefix(headers::folder()).expect("in the folder"));
        assert_eq!(headers::read(&installed), headers::read(&header), "{}", installed.display());
    }
}

fn only_the_headers_functions_are_exported() {
    let functions = headers::functions();
    let library = fs::read(prefix().join("lib/libcandle_rocm.so")).expect("the shared library");
    let file = object::File::parse(&*library).expect("an ELF file");
    let exported = file.dynamic_symbols().filter(|symbol| !symbol.is_undefined() && !symbol.is_local());
    let exported: BTreeSet<String> = exported.map(|symbol| symbol.name().expect("a name").to_owned()).collect();
    equal("libcandle_rocm.so", &exported, &functions);

    let archive = fs::read(prefix().join("lib/libcandle_rocm.a")).expect("the static library");
    let members = ArchiveFile::parse(&*archive).expect("an archive");
    let mut global = BTreeSet::new();
    for member in members.members() {
        let data = member.expect("a member").data(&*archive).expect("its bytes");
        let file = object::File::parse(data).expect("an object");
        let symbols = file.symbols().filter(|symbol| !symbol.is_undefined() && !symbol.is_local());
        global.extend(symbols.map(|symbol| symbol.name().expect("a name").to_owned()));
    }
    // GCC makes this one unique, and objcopy leaves such symbols alone. It is hidden.
    global.remove("_ZN3crk4host7currentE");
    equal("libcandle_rocm.a", &global, &functions);
}

fn equal(library: &str, exported: &BTreeSet<String>, functions: &BTreeSet<String>) {
    let missing: Vec<_> = functions.difference(exported).collect();
    let foreign: Vec<_> = exported.difference(functions).collect();
    assert!(missing.is_empty(), "in the headers and not exported by {library}: {missing:?}");
    assert!(foreign.is_empty(), "exported by {library} and not in the headers: {foreign:?}");
}

fn the_soname_follows_the_version() {
    let lib = prefix().join("lib");
    let soname = format!("libcandle_rocm.so.{}", abi());
    let dynamic = run(Command::new("readelf").arg("-dW").arg(lib.join("libcandle_rocm.so")));
    assert!(dynamic.contains(&format!("soname: [{soname}]")), "{dynamic}");
    for link in ["libcandle_rocm.so", &soname] {
        let target = lib.join(link).canonicalize().unwrap_or_else(|error| panic!("{link}: {error}"));
        assert_eq!(target.file_name(), Some(format!("libcandle_rocm.so.{VERSION}").as_ref()), "{link}");
    }
    // zstd is inside, unless the build used the system's.
    let inside = Path::new(LIBRARY).join("libzstd.a").is_file();
    assert_eq!(dynamic.contains("[libzstd.so"), !inside, "{dynamic}");
    assert!(!dynamic.contains("libstdc++"), "{dynamic}");
}

/// Letters that have a meaning in sed.
fn a_path_may_have_any_letters() {
    let prefix = folder("R&D | C# in\u{e9}dit");
    run(&mut make("install", built(), &[("PREFIX", &text(&prefix))]));
    let file = |name: &str| fs::read_to_string(prefix.join("lib").join(name)).unwrap_or_else(|e| panic!("{e}"));
    let start = format!("prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n", prefix.display());
    assert!(file("pkgconfig/candle_rocm.pc").starts_with(&start), "{}", file("pkgconfig/candle_rocm.pc"));
    let folders = format!("\"{0}/lib\" \"{0}/include\"", prefix.display());
    assert!(file("cmake/candle_rocm/candle_rocm-config.cmake").contains(&folders), "{folders}");
}

fn destdir_is_in_no_file() {
    let staged = folder("staged");
    let variables = [("DESTDIR", &*text(&staged)), ("PREFIX", "/usr"), ("LIBDIR", "/usr/lib/x")];
    run(&mut make("install", built(), &variables));
    let file = |name: &str| fs::read_to_string(staged.join("usr/lib/x").join(name)).unwrap_or_else(|e| panic!("{e}"));
    let pkg_config = file("pkgconfig/candle_rocm.pc");
    assert!(
        pkg_config.starts_with("prefix=/usr\nlibdir=${prefix}/lib/x\nincludedir=${prefix}/include\n"),
        "{pkg_config}"
    );
    for name in ["", "-version"] {
        let text = file(&format!("cmake/candle_rocm/candle_rocm-config{name}.cmake"));
        assert!(!text.contains("staged") && !text.contains('@'), "{text}");
    }
    assert!(staged.join("usr/include/candle_rocm.h").is_file());
}

fn folders_must_be_absolute() {
    let folder = folder("relative");
    for name in ["PREFIX", "LIBDIR", "INCLUDEDIR"] {
        let variables = [("DESTDIR", &*text(&folder)), ("PREFIX", "/usr"), (name, "x/y")];
        let output = make("install", built(), &variables).output().expect("make runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        let expected = format!("{name}=x/y: it must be an absolute path\n");
        assert!(!output.status.success() && errors.starts_with(&expected), "{errors}");
    }
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0, "something was installed");
}

fn features_must_be_those_of_the_build() {
    let prefix = folder("another");
    let variables = [("PREFIX", &*text(&prefix)), ("FEATURES", "cpu,rocm")];
    let output = make("install", built(), &variables).output().expect("make runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("run make FEATURES=cpu,rocm first"), "{errors}");
    let output = make("install", &folder("nothing built"), &variables[..1]).output().expect("make runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("run make first"), "{errors}");
    assert_eq!(fs::read_dir(&prefix).expect("a folder").count(), 0, "something was installed");
}

/// Runs a shell command in the project's folder. pkg-config quotes the spaces of a path, so the shell must read its
/// output twice.
fn shell(line: &str, variables: &[(&str, &Path)]) -> String {
    let mut command = Command::new("sh");
    command.current_dir(PROJECT).args(["-euc", &format!("eval \"{line}\"")]);
    command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")).envs(variables.iter().copied());
    run(&mut command)
}

fn first_builds_with_pkg_config() {
    assert_eq!(shell("pkg-config --modversion candle_rocm", &[]).trim(), VERSION);
    let program = folder("pkg_config").join("first");
    let line = "\\\"$CC\\\" -std=c11 -Wall -Wextra -Werror -pedantic examples/c/first.c \
                $(pkg-config --cflags --libs candle_rocm) -o \\\"$PROGRAM\\\"";
    shell(line, &[("CC", compiler(false).path()), ("PROGRAM", &program)]);
    check_first(Command::new(program).env("LD_LIBRARY_PATH", prefix().join("lib")));
}

/// A C++ program that prints the library's version.
fn version_program(folder: &Path) -> PathBuf {
    let source = folder.join("version.cpp");
    let text = "#include <cstdio>\n#include \"candle_rocm.h\"\nint main() { std::puts(crk_version()); }\n";
    fs::write(&source, text).expect("a source");
    source
}

fn a_cpp_program_links_the_static_library() {
    // This folder has the static library alone, and comes first in the linker's search.
    let folder = folder("pkg_config_static");
    fs::copy(prefix().join("lib/libcandle_rocm.a"), folder.join("libcandle_rocm.a")).expect("a copy");
    let (source, program) = (version_program(&folder), folder.join("version"));
    let line = "\\\"$CXX\\\" \\\"$SOURCE\\\" -L\\\"$FIRST\\\" \
                $(pkg-config --static --cflags --libs candle_rocm) -o \\\"$PROGRAM\\\"";
    let cpp = compiler(true);
    shell(line, &[("CXX", cpp.path()), ("SOURCE", &source), ("FIRST", &folder), ("PROGRAM", &program)]);
    assert_eq!(run(&mut Command::new(program)).trim(), VERSION);
}

/// Configures and builds a CMake project.
fn cmake(source: &Path, build: &Path, arguments: &[String]) {
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source).arg("-B").arg(build).args(arguments);
    configure.env("CC", compiler(false).path()).env("CXX", compiler(true).path());
    run(&mut configure);
    run(Command::new("cmake").arg("--build").arg(build));
}

fn first_builds_with_cmake() {
    let build = folder("cmake");
    let place = format!("-DCMAKE_PREFIX_PATH={}", prefix().display());
    cmake(&Path::new(PROJECT).join("examples/c"), &build, &[place]);
    check_first(&mut Command::new(build.join("first")));
}

fn a_moved_tree_serves_a_static_cpp_program() {
    let moved = folder("moved");
    let variables = [("DESTDIR", &*text(&moved)), ("PREFIX", "/opt/x"), ("LIBDIR", "/opt/x/lib64")];
    run(&mut make("install", built(), &variables));
    let source = folder("cmake_static");
    version_program(&source);
    let next = VERSION.split('.').next().and_then(|major| major.parse::<u32>().ok()).expect("a number") + 1;
    let place = moved.join("opt/x/lib64/cmake/candle_rocm");
    let project = format!(
        "cmake_minimum_required(VERSION 3.10)\n\
         project(version CXX)\n\
         find_package(candle_rocm {} REQUIRED)\n\
         find_package(candle_rocm {VERSION} EXACT REQUIRED)\n\
         add_executable(version version.cpp)\n\
         target_link_libraries(version candle_rocm::static)\n\
         foreach(other 0.0 {next})\n\
           find_package(candle_rocm ${{other}} QUIET)\n\
           if(candle_rocm_FOUND)\n\
             message(FATAL_ERROR \"${{other}} was found\")\n\
           endif()\n\
           set(candle_rocm_DIR \"{}\" CACHE PATH \"\" FORCE)\n\
         endforeach()\n",
        abi(),
        place.display()
    );
    fs::write(source.join("CMakeLists.txt"), project).expect("a project");
    let build = source.join("build");
    cmake(&source, &build, &[format!("-Dcandle_rocm_DIR={}", place.display())]);
    assert_eq!(run(&mut Command::new(build.join("version"))).trim(), VERSION);
}
