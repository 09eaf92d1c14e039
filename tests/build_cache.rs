//! The build script's cache of compiled kernels, and its choice of what to compile again, with a compiler that counts
//! its runs.
#![cfg(unix)]
#![allow(dead_code)]
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

#[path = "../build/cache.rs"]
mod cache;
#[path = "../build/config.rs"]
mod config;
#[path = "../build/includes.rs"]
mod includes;
#[path = "../build/jobs.rs"]
mod jobs;
#[path = "../build/parts.rs"]
mod parts;
#[path = "../build/progress.rs"]
mod progress;
use candle_rocm_sys_tests::support::compiler;

use cache::{Cache, Entry};
use config::Config;
use includes::Includes;
use jobs::{Job, Source};

/// A checkout with one kernel, `kernels/a.hip`, which includes `kernels/deep/b.h`, which includes `kernels/c.h`.
/// `kernels/other.h` is not included.
fn checkout(root: &Path) {
    fs::create_dir_all(root.join("kernels/deep")).expect("a folder");
    for (name, text) in [
        ("a.hip", "#include \"deep/b.h\"\n#include <stdint.h>\nint a;\n"),
        ("deep/b.h", "  #  include \"c.h\" // found in kernels/\n"),
        ("c.h", "int c;\n"),
        ("other.h", "int other;\n"),
    ] {
        fs::write(root.join("kernels").join(name), text).expect("a file");
    }
}

/// Compiles the kernel of a checkout. The compiler copies its source, warns, and adds a line to `runs`. Returns where
/// the output came from.
fn build(scratch: &Path, checkout: &str, flag: &str) -> Result<(Source, String), String> {
    let root = scratch.join(checkout);
    let out_dir = root.join("target/out");
    fs::create_dir_all(&out_dir).expect("a folder");
    let config = Config {
        root: root.clone(),
        out_dir: out_dir.clone(),
        jobs: 2,
        cache: Some(scratch.join("cache")),
        ..Config::default()
    };
    let (source, output) = (root.join("kernels/a.hip"), out_dir.join("a.o"));
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg("echo run >> \"$0\"; echo \"$2: a warning for $3\" >&2; cp \"$2\" \"$3\"");
    command.arg(scratch.join("runs")).arg(flag).arg(&source).arg(&output);
    let job = Job {
        label: "a".into(),
        command,
        outputs: vec![output.clone(), out_dir.join("a.o.packed")],
        inputs: Includes::default().of(&source, &[root.join("kernels")])?,
        identity: "compiler 1".into(),
        finish: Some(|path| config::write(&path.with_extension("o.packed"), "packed")),
        shared: true,
    };
    let outcome = jobs::run(&config, "kernels", vec![job])?.remove(0);
    assert_eq!(fs::read(&output).expect("the output"), fs::read(&source).expect("the source"));
    assert_eq!(fs::read(out_dir.join("a.o.packed")).expect("the second output"), b"packed");
    Ok((outcome.source, outcome.messages))
}

fn runs(scratch: &Path) -> usize {
    fs::read_to_string(scratch.join("runs")).unwrap_or_default().lines().count()
}

fn source(scratch: &Path, checkout: &str, flag: &str) -> Source {
    let (source, messages) = build(scratch, checkout, flag).expect("a build");
    // The messages name the files of this checkout, wherever the entry was made.
    let root = scratch.join(checkout);
    let line = format!("{0}/kernels/a.hip: a warning for {0}/target/out/a.o\n", root.display());
    assert_eq!(messages, if source == Source::Kept { String::new() } else { line }, "{source:?}");
    source
}

/// The files of the cache.
fn entries(scratch: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(scratch.join("cache")).expect("the cache").flatten();
    folders
        .flat_map(|folder| fs::read_dir(folder.path()).expect("a folder").flatten().map(|file| file.path()))
        .collect()
}

#[test]
fn checkouts_share_what_is_the_same() {
    let scratch = compiler::scratch("cache-shared");
    checkout(&scratch.join("one"));
    checkout(&scratch.join("a second one"));
    assert!(source(&scratch, "one", "-O3") == Source::Compiler);
    assert!(source(&scratch, "one", "-O3") == Source::Kept);
    assert!(source(&scratch, "a second one", "-O3") == Source::Cache);
    assert!(source(&scratch, "a second one", "-O1") == Source::Compiler, "other flags");
    assert!(source(&scratch, "one", "-O1") == Source::Cache);
    assert_eq!(runs(&scratch), 2);
}

#[test]
fn only_what_a_source_includes_counts() {
    let scratch = compiler::scratch("cache-includes");
    let root = scratch.join("one");
    checkout(&root);
    assert!(source(&scratch, "one", "") == Source::Compiler);
    fs::write(root.join("kernels/other.h"), "int changed;\n").expect("a file");
    assert!(source(&scratch, "one", "") == Source::Kept, "a header that is not included");
    fs::write(root.join("kernels/c.h"), "int changed;\n").expect("a file");
    assert!(source(&scratch, "one", "") == Source::Compiler, "a header that a header includes");
    let found = Includes::default().of(&root.join("kernels/a.hip"), &[root.join("kernels")]).expect("files");
    let names: Vec<_> = found.iter().map(|path| path.strip_prefix(root.join("kernels")).unwrap()).collect();
    assert_eq!(names, [Path::new("a.hip"), Path::new("c.h"), Path::new("deep/b.h")]);
}

#[test]
fn a_damaged_entry_counts_as_missing() {
    let scratch = compiler::scratch("cache-damaged");
    checkout(&scratch.join("one"));
    checkout(&scratch.join("two"));
    assert!(source(&scratch, "one", "") == Source::Compiler);
    let [entry] = &entries(&scratch)[..] else { panic!("not one entry") };
    let whole = fs::read(entry).expect("the entry");
    let out = scratch.join("two/target");
    for bytes in [0, 1, 8, 24, 40, whole.len() - 1] {
        fs::write(entry, &whole[..bytes]).expect("a truncated entry");
        assert!(source(&scratch, "two", "") == Source::Compiler, "{bytes} bytes");
        fs::remove_dir_all(&out).expect("the build's folder");
    }
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        fs::write(entry, bytes).expect("a damaged entry");
        let key = entry.file_name().unwrap().to_str().unwrap();
        assert!(Cache::new(scratch.join("cache")).get(key).is_none(), "byte {place}");
    }
    fs::write(entry, whole).expect("the entry");
    assert!(source(&scratch, "two", "") == Source::Cache);
}

#[test]
fn a_cache_that_cannot_be_used_does_not_fail_the_build() {
    let scratch = compiler::scratch("cache-file");
    checkout(&scratch.join("one"));
    checkout(&scratch.join("two"));
    fs::write(scratch.join("cache"), "a file, not a folder").expect("a file");
    assert!(source(&scratch, "one", "") == Source::Compiler);
    assert!(source(&scratch, "two", "") == Source::Compiler);
}

#[test]
fn what_belongs_to_one_machine_or_checkout_is_not_shared() {
    let own = ["-march=native", "-g", "-g3", "-ggdb", "-gdwarf-4", "-gline-tables-only", "--coverage"];
    let files = ["-fprofile-use=profile", "-include", "-specs=specs", "@flags"];
    let shared = ["-g0", "-gencode=arch=compute_80,code=sm_80", "-march=x86-64-v3"];
    let compiled = own.iter().chain(&files).map(|flag| (flag, Source::Compiler));
    for (flag, expected) in compiled.chain(shared.iter().map(|flag| (flag, Source::Cache))) {
        let scratch = compiler::scratch("cache-own");
        checkout(&scratch.join("one"));
        checkout(&scratch.join("two"));
        assert!(source(&scratch, "one", flag) == Source::Compiler);
        assert_eq!(source(&scratch, "two", flag), expected, "{flag}");
    }
}

#[test]
fn programs_write_one_entry_at_the_same_time() {
    let cache = Cache::new(compiler::scratch("cache-threads"));
    let entry = || Entry { messages: b"messages".to_vec(), files: vec![vec![7; 100_000], Vec::new()] };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    cache.put("00key", &entry());
                    let read = cache.get("00key").expect("an entry, whole at any time");
                    assert_eq!((read.messages, read.files), (entry().messages, entry().files));
                }
            });
        }
    });
}

#[test]
fn an_entry_is_not_written_through_a_link() {
    let scratch = compiler::scratch("cache-link");
    let (key, letter) = ("0f".repeat(16), scratch.join("letter.txt"));
    fs::write(&letter, "text").expect("a file");
    fs::create_dir_all(scratch.join("0f")).expect("a folder");
    // The number in the name counts the entries that this process has written, in all tests.
    for turn in 0..1000 {
        let draft = scratch.join(format!("0f/{key}.{}-{turn}", std::process::id()));
        std::os::unix::fs::symlink(&letter, draft).expect("a link");
    }
    Cache::new(scratch).put(&key, &Entry { messages: Vec::new(), files: Vec::new() });
    assert_eq!(fs::read_to_string(letter).expect("the letter"), "text");
}

#[test]
fn only_entries_are_deleted() {
    let scratch = compiler::scratch("cache-prune");
    let key = "0f".repeat(16);
    let (other, draft) = (format!("{}0", &key[..31]), format!("{key}.123-4"));
    let file = |path: &str, days: u64| {
        let path = scratch.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, "text").expect("a file");
        let used = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
        fs::File::options().append(true).open(&path).and_then(|file| file.set_modified(used)).expect("a date");
        path
    };
    let stays = [
        file(&format!("0f/{other}"), 10),
        file("letters/to-a-friend.txt", 1000),
        file("0f/letter.txt", 1000),
        file(&format!("0e/{key}"), 1000),
        file("letter.txt", 1000),
    ];
    let goes = [file(&format!("0f/{key}"), 61), file(&format!("0f/{draft}"), 61)];
    Cache::new(scratch).prune();
    assert_eq!(stays.iter().filter(|path| !path.is_file()).collect::<Vec<_>>(), <[&PathBuf; 0]>::default());
    assert_eq!(goes.iter().filter(|path| path.is_file()).collect::<Vec<_>>(), <[&PathBuf; 0]>::default());
}

/// A folder is read only if no other user can have written to it.
#[test]
fn a_folder_of_others_is_not_trusted() {
    let folder = compiler::scratch("cache-owner");
    let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("a mode");
    for safe in [0o700, 0o755] {
        mode(safe);
        assert_eq!(cache::distrust(&folder), None);
    }
    for open in [0o775, 0o757] {
        mode(open);
        let why = cache::distrust(&folder).expect("other users can write");
        assert!(why.contains(&format!("can be written by other users (its mode is {open:03o}); run chmod")), "{why}");
    }
    mode(0o755);
    assert_eq!(cache::distrust(&folder.join("not-there-yet")), None);
    // Only root can give a folder away.
    if std::os::unix::fs::chown(&folder, Some(12_345), None).is_ok() {
        let why = cache::distrust(&folder).expect("it belongs to somebody else");
        assert!(why.contains("belongs to the user 12345, not to "), "{why}");
    }
    // The cache makes its folders for this user alone.
    let made = compiler::scratch("cache-mode").join("a/b");
    let key = "0f".repeat(16);
    Cache::new(made.clone()).put(&key, &Entry { messages: Vec::new(), files: Vec::new() });
    for folder in [made.join("0f"), made.clone(), made.with_file_name("")] {
        assert_eq!(fs::metadata(&folder).expect("a folder").permissions().mode() & 0o777, 0o700, "{folder:?}");
    }
}

/// Headers of the system are not inputs of a job. The preprocessor's output stands for them.
#[test]
fn headers_of_the_system_count() {
    let scratch = compiler::scratch("cache-outside");
    let system = scratch.join("system");
    fs::create_dir_all(&system).expect("a folder");
    let outside = |checkout_name: &str, header: Option<&str>| {
        let root = scratch.join(checkout_name);
        checkout(&root);
        fs::write(root.join("kernels/c.h"), "#include <own.h>\n").expect("a file");
        match header {
            Some(text) => fs::write(system.join("own.h"), text).expect("a header"),
            None => fs::remove_file(system.join("own.h")).expect("a header"),
        }
        let config = Config { root: root.clone(), out_dir: root.join("out"), ..Config::default() };
        let mut includes = Includes::default();
        includes.of(&root.join("kernels/a.hip"), &[root.join("kernels")]).expect("files");
        let command = |source: &Path, output: &Path| {
            let mut command = compiler::compiler(false).to_command();
            command.args(["-xc", "-isystem"]).arg(&system).arg("-c").arg(source).arg("-o").arg(output);
            command
        };
        includes.outside(&config, &["-E", "-dD"], command).expect("a hash")
    };
    let one = outside("one", Some("int one;\n"));
    assert!(one.is_some());
    assert_eq!(outside("a second one", Some("int one;\n")), one, "another checkout");
    assert_ne!(outside("one", Some("#define ONE 1\nint one;\n")), one, "another macro");
    assert_eq!(outside("one", None), None, "a header that is not there");
}

#[test]
fn the_folder_follows_the_users_variables() {
    let variables = |set: &'static [(&str, &str)]| {
        move |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, value)| PathBuf::from(value))
    };
    let home: &[_] = &[("HOME", "/home/user")];
    let both: &[_] = &[("HOME", "/home/user"), ("XDG_CACHE_HOME", "/caches")];
    let folder = |named: Option<&str>, set| cache::folder(named.map(Path::new), variables(set));
    assert_eq!(folder(Some("0"), both), Ok(None));
    assert_eq!(folder(Some("/here"), both), Ok(Some("/here".into())));
    let message = folder(Some("target/cache"), both).unwrap_err();
    assert!(message.starts_with("CANDLE_ROCM_CACHE=target/cache: the path must be absolute; "), "{message}");
    assert_eq!(folder(None, &[]), Ok(None));
    assert_eq!(folder(None, &[("HOME", "not/absolute")]), Ok(None));
    if cfg!(target_os = "linux") {
        assert_eq!(folder(None, home), Ok(Some("/home/user/.cache/candle-rocm-sys".into())));
        assert_eq!(folder(None, both), Ok(Some("/caches/candle-rocm-sys".into())));
    }
}

/// Runs jobs that take so many seconds each, one at a time. Returns the lines on the "terminal", each without its time.
fn lines(test: &str, seconds: &[&str], exists: bool) -> Vec<String> {
    let scratch = compiler::scratch(test);
    let terminal = scratch.join("terminal");
    if exists {
        fs::write(&terminal, "").expect("a file");
    }
    let config = Config { out_dir: scratch.clone(), jobs: 1, terminal: Some(terminal.clone()), ..Config::default() };
    let jobs = seconds.iter().enumerate().map(|(index, seconds)| {
        let output = scratch.join(format!("{index}.o"));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep $0; : > $1", seconds]).arg(&output);
        Job {
            label: format!("kernels/{index}.hip for gfx1100"),
            command,
            outputs: vec![output],
            inputs: Vec::new(),
            identity: String::new(),
            finish: None,
            shared: false,
        }
    });
    let outcomes = jobs::run(&config, "kernels", jobs.collect()).expect("the jobs succeed");
    assert_eq!(jobs::count(&outcomes, Source::Compiler), seconds.len());
    let text = fs::read_to_string(&terminal).unwrap_or_default();
    let line = |line: &str| {
        let line = line.strip_prefix("\r\x1b[K").unwrap_or(line);
        let (counts, time) = line.split_once(" the cache, ").expect("counts and a time");
        let (seconds, label) = time.split_once(" s").expect("a time");
        assert!(seconds.parse::<u32>().is_ok_and(|seconds| seconds >= 2), "{line}");
        format!("{counts} the cache{label}")
    };
    text.lines().map(line).collect()
}

#[test]
fn a_terminal_shows_the_progress_of_a_build_that_takes_long() {
    let expected = [
        "candle-rocm-sys: 1 of 2 kernels compiled, 0 from the cache: kernels/1.hip for gfx1100",
        "candle-rocm-sys: 2 of 2 kernels compiled, 0 from the cache",
    ];
    // Nothing happens after the fourth second.
    assert_eq!(lines("progress-long", &["1", "2.2"], true), expected);
    assert_eq!(lines("progress-short", &["0", "0.1"], true), [""; 0]);
}

#[test]
fn a_terminal_that_cannot_be_written_does_not_fail_the_build() {
    assert_eq!(lines("progress-missing", &["2.1", "0.1"], false), [""; 0]);
}

#[test]
fn a_compiler_on_a_full_disk_is_one_sentence() {
    let scratch = compiler::scratch("full-disk");
    let config = Config { out_dir: scratch.clone(), jobs: 1, ..Config::default() };
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo messages; echo Fatal error: /a.o: No space left on device >&2; exit 1"]);
    let job = Job {
        label: "csrc/a.c".into(),
        command,
        outputs: vec![scratch.join("a.o")],
        inputs: Vec::new(),
        identity: String::new(),
        finish: None,
        shared: false,
    };
    let message = jobs::run(&config, "files", vec![job]).err().expect("the compiler fails");
    assert_eq!(message, format!("csrc/a.c: Fatal error: /a.o: No space left on device; {}", config::FULL_DISK));
}
