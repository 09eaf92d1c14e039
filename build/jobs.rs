//! Runs compilers in parallel. A run is skipped where its inputs have not changed since it last succeeded.

use crate::cache::{Cache, Entry};
use crate::config::{Config, Result, full_disk, read_bytes, write};
use crate::progress::Progress;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// One compiler run.
pub struct Job {
    /// A description of the output, for messages.
    pub label: String,
    pub command: Command,
    /// The files that the job makes: the compiler makes the first, `finish` the others. `<first>.key` beside them has
    /// the hash of all that they depend on.
    pub outputs: Vec<PathBuf>,
    /// Every file that the job may read.
    pub inputs: Vec<PathBuf>,
    /// Other facts that the output depends on, such as the compiler's version.
    pub identity: String,
    /// Runs after the compiler, with the path of its output.
    pub finish: Option<fn(&Path) -> Result<()>>,
    /// Whether the outputs are kept in the user's cache: they contain no paths of this build.
    pub shared: bool,
}

impl Job {
    fn output(&self) -> &Path {
        &self.outputs[0]
    }
}

/// Where the outputs of a job come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// They were up to date.
    Kept,
    /// The user's cache had them.
    Cache,
    Compiler,
}

/// The outcome of a job.
pub struct Outcome {
    pub source: Source,
    pub seconds: f64,
    /// The compiler's output: mostly warnings.
    pub messages: String,
}

/// Runs the jobs with an output that is out of date, `config.jobs` at a time. The outcomes are in the order of the
/// jobs. The error lists every job that failed. The terminal shows the progress; there the outputs are called `what`.
pub fn run(config: &Config, what: &'static str, jobs: Vec<Job>) -> Result<Vec<Outcome>> {
    let mut hashes = HashMap::new();
    let keys = jobs.iter().map(|job| key(config, job, &mut hashes)).collect::<Result<Vec<_>>>()?;
    let cache = config.cache.clone().map(Cache::new);
    let count = jobs.len();
    let progress = Progress::new(config.terminal.as_deref(), what, count);
    let jobs: Vec<Mutex<Job>> = jobs.into_iter().map(Mutex::new).collect();
    let outcomes: Vec<Mutex<Option<Result<Outcome>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..config.jobs.min(count) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || failed.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut job = jobs[index].lock().unwrap();
                    progress.started(&job.label);
                    let outcome = run_one(config, &mut job, &keys[index], cache.as_ref());
                    if let Ok(outcome) = &outcome {
                        progress.finished(&job.label, outcome.source);
                    }
                    failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    *outcomes[index].lock().unwrap() = Some(outcome);
                }
            });
        }
    });
    progress.end();
    let mut done = Vec::new();
    let mut errors = Vec::new();
    for outcome in outcomes {
        match outcome.into_inner().unwrap() {
            Some(Ok(outcome)) => done.push(outcome),
            Some(Err(error)) => errors.push(error),
            None => {}
        }
    }
    if let Some(cache) = cache.filter(|_| done.iter().any(|outcome| outcome.source == Source::Compiler)) {
        cache.prune();
    }
    if errors.is_empty() { Ok(done) } else { Err(errors.join("\n")) }
}

/// Adds what the compiler takes from outside of the project to the keys of jobs. Where that is not known, the cache is
/// not used.
pub fn add_outside(jobs: &mut [Job], outside: Option<String>) {
    for job in jobs {
        match &outside {
            Some(hash) => job.identity.push_str(hash),
            None => job.shared = false,
        }
    }
}

/// The number of jobs with outputs from this source.
pub fn count(outcomes: &[Outcome], source: Source) -> usize {
    outcomes.iter().filter(|outcome| outcome.source == source).count()
}

/// Prints the compilers' messages as warnings, each line once: instances of a template print the same lines.
pub fn warn(outcomes: &[Outcome]) {
    let mut seen = HashSet::new();
    for line in outcomes.iter().flat_map(|outcome| outcome.messages.lines()) {
        if seen.insert(line) {
            println!("cargo::warning={line}");
        }
    }
}

/// The file with the key of an output.
fn key_path(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".key");
    name.into()
}

fn run_one(config: &Config, job: &mut Job, key: &str, cache: Option<&Cache>) -> Result<Outcome> {
    let key_path = key_path(job.output());
    if job.outputs.iter().all(|output| output.exists()) && fs::read_to_string(&key_path).is_ok_and(|old| old == key) {
        return Ok(Outcome { source: Source::Kept, seconds: 0.0, messages: String::new() });
    }
    // Where the compiler is stopped half-way, the output must not look up to date.
    let _ = fs::remove_file(&key_path);
    let start = Instant::now();
    let cache = cache.filter(|_| job.shared && is_portable(&job.command));
    let (source, messages) = match cache.and_then(|cache| cache.get(key)) {
        Some(entry) if entry.files.len() == job.outputs.len() => {
            for (output, contents) in job.outputs.iter().zip(&entry.files) {
                write(output, contents)?;
            }
            (Source::Cache, to_paths(config, &String::from_utf8_lossy(&entry.messages)))
        }
        _ => {
            let messages = compile(job)?;
            if let Some(cache) = cache {
                let files = job.outputs.iter().map(|output| read_bytes(output)).collect::<Result<_>>()?;
                cache.put(key, &Entry { messages: to_roles(config, &messages).into(), files });
            }
            (Source::Compiler, messages)
        }
    };
    write(&key_path, key)?;
    Ok(Outcome { source, seconds: start.elapsed().as_secs_f64(), messages })
}

/// Makes the outputs of a job. Returns the compiler's messages.
fn compile(job: &mut Job) -> Result<String> {
    let output =
        job.command.output().map_err(|e| format!("{}: cannot run {:?}: {e}", job.label, job.command.get_program()))?;
    let mut messages = String::from_utf8_lossy(&output.stdout).into_owned();
    messages.push_str(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        if let Some(sentence) = full_disk(&messages) {
            return Err(format!("{}: {sentence}", job.label));
        }
        return Err(format!("{}: {}\n{}\n{messages}", job.label, output.status, line(&job.command)));
    }
    if !job.output().exists() {
        // hipcc sometimes exits with 0 after an error.
        return Err(format!(
            "{}: the compiler exited with 0 but wrote no output\n{}\n{messages}",
            job.label,
            line(&job.command)
        ));
    }
    if let Some(finish) = job.finish {
        finish(job.output()).map_err(|error| format!("{}: {error}\n{}", job.label, line(&job.command)))?;
    }
    Ok(messages)
}

/// The beginnings of flags that put paths of this checkout into an output: debug information, coverage, profiles.
const PATH_FLAGS: &[&str] = &["-g", "--coverage", "-coverage", "-fcoverage", "-fprofile", "-ftest-coverage"];
/// The beginnings of flags that name files. A job's key has no contents of these.
const FILE_FLAGS: &[&str] = &["@", "--config", "-fplugin", "-imacros", "-include", "-save-temps", "-specs", "--specs"];

/// Whether the outputs of a command serve other checkouts and machines. `-march=native` code may not run elsewhere.
fn is_portable(command: &Command) -> bool {
    !command.get_args().any(|argument| {
        let argument = argument.to_string_lossy();
        let is_own = PATH_FLAGS.iter().chain(FILE_FLAGS).any(|flag| argument.starts_with(flag));
        // -gencode is nvcc's list of architectures, -g0 turns debug information off.
        argument.ends_with("=native") || (is_own && !argument.starts_with("-gencode") && argument != "-g0")
    })
}

/// A command as one would type it, without the environment.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// A text with the folders of the build and of the package replaced by the names of their roles, and the reverse.
/// Keys and kept messages have the roles, so that all checkouts share them.
fn to_roles(config: &Config, text: &str) -> String {
    text.replace(&*config.out_dir.to_string_lossy(), "<out>").replace(&*config.root.to_string_lossy(), "<root>")
}

fn to_paths(config: &Config, text: &str) -> String {
    text.replace("<out>", &config.out_dir.to_string_lossy()).replace("<root>", &config.root.to_string_lossy())
}

/// A job's key: a hash of its command, its identity and the contents of its inputs.
fn key(config: &Config, job: &Job, hashes: &mut HashMap<PathBuf, u128>) -> Result<String> {
    let mut hash = Fnv::new();
    hash.text(&job.command.get_program().to_string_lossy());
    for argument in job.command.get_args() {
        hash.text(&to_roles(config, &argument.to_string_lossy()));
    }
    hash.text(&job.identity);
    for (name, value) in &config.compiler_variables {
        hash.text(name);
        hash.text(&value.to_string_lossy());
    }
    for input in &job.inputs {
        let contents = match hashes.get(input) {
            Some(contents) => *contents,
            None => *hashes.entry(input.clone()).or_insert(Fnv::of(&read_bytes(input)?)),
        };
        hash.text(&to_roles(config, &input.to_string_lossy()));
        hash.bytes(&contents.to_le_bytes());
    }
    Ok(format!("{:032x}", hash.0))
}

/// FNV-1a with 128 bits: small, the same on every machine, and enough to tell versions of a file apart.
pub struct Fnv(pub u128);

impl Fnv {
    pub fn new() -> Fnv {
        Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    pub fn of(bytes: &[u8]) -> u128 {
        let mut hash = Fnv::new();
        hash.bytes(bytes);
        hash.0
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul((1 << 88) + 0x13b);
        }
    }

    /// Adds a text and a terminator, so that ("ab", "c") and ("a", "bc") differ.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0]);
    }
}
