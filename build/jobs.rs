//! Runs compilers in parallel. A run is skipped where its inputs have not changed since it last succeeded.

use crate::config::{Result, write};
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
    /// The one file that the job makes. `<output>.key` beside it has the hash of all its inputs.
    pub output: PathBuf,
    /// Every file that the job may read.
    pub inputs: Vec<PathBuf>,
    /// Other facts that the output depends on, such as the compiler's version.
    pub identity: String,
    /// Runs after the compiler and writes files beside the output.
    pub finish: Option<fn(&Path) -> Result<()>>,
}

/// The outcome of a job.
pub struct Outcome {
    /// False where the output was up to date.
    pub ran: bool,
    pub seconds: f64,
    /// The compiler's output: mostly warnings.
    pub messages: String,
}

/// Runs the jobs with an output that is out of date, `parallel` at a time. The outcomes are in the order of the jobs.
/// The error lists every job that failed.
pub fn run(jobs: Vec<Job>, parallel: usize) -> Result<Vec<Outcome>> {
    let mut hashes = HashMap::new();
    let keys = jobs.iter().map(|job| key(job, &mut hashes)).collect::<Result<Vec<_>>>()?;
    let count = jobs.len();
    let jobs: Vec<Mutex<Job>> = jobs.into_iter().map(Mutex::new).collect();
    let outcomes: Vec<Mutex<Option<Result<Outcome>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..parallel.min(count) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || failed.load(Ordering::Relaxed) {
                        return;
                    }
                    let outcome = run_one(&mut jobs[index].lock().unwrap(), &keys[index]);
                    failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    *outcomes[index].lock().unwrap() = Some(outcome);
                }
            });
        }
    });
    let mut done = Vec::new();
    let mut errors = Vec::new();
    for outcome in outcomes {
        match outcome.into_inner().unwrap() {
            Some(Ok(outcome)) => done.push(outcome),
            Some(Err(error)) => errors.push(error),
            None => {}
        }
    }
    if errors.is_empty() { Ok(done) } else { Err(errors.join("\n")) }
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

fn run_one(job: &mut Job, key: &str) -> Result<Outcome> {
    let key_path = key_path(&job.output);
    if job.output.exists() && fs::read_to_string(&key_path).is_ok_and(|old| old == key) {
        return Ok(Outcome { ran: false, seconds: 0.0, messages: String::new() });
    }
    // Where the compiler is stopped half-way, the output must not look up to date.
    let _ = fs::remove_file(&key_path);
    let start = Instant::now();
    let output =
        job.command.output().map_err(|e| format!("{}: cannot run {:?}: {e}", job.label, job.command.get_program()))?;
    let mut messages = String::from_utf8_lossy(&output.stdout).into_owned();
    messages.push_str(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("{}: {}\n{}\n{messages}", job.label, output.status, line(&job.command)));
    }
    if !job.output.exists() {
        // hipcc sometimes exits with 0 after an error.
        return Err(format!(
            "{}: the compiler exited with 0 but wrote no output\n{}\n{messages}",
            job.label,
            line(&job.command)
        ));
    }
    if let Some(finish) = job.finish {
        finish(&job.output).map_err(|error| format!("{}: {error}\n{}", job.label, line(&job.command)))?;
    }
    write(&key_path, key)?;
    Ok(Outcome { ran: true, seconds: start.elapsed().as_secs_f64(), messages })
}

/// A command as one would type it, without the environment.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// A job's key: a hash of its command, its identity and the contents of its inputs.
fn key(job: &Job, hashes: &mut HashMap<PathBuf, u64>) -> Result<String> {
    let mut hash = Fnv::new();
    hash.text(&job.command.get_program().to_string_lossy());
    for argument in job.command.get_args() {
        hash.text(&argument.to_string_lossy());
    }
    hash.text(&job.identity);
    for input in &job.inputs {
        let contents = match hashes.get(input) {
            Some(contents) => *contents,
            None => {
                let bytes = fs::read(input).map_err(|e| format!("{}: {e}", input.display()))?;
                let mut contents = Fnv::new();
                contents.bytes(&bytes);
                *hashes.entry(input.clone()).or_insert(contents.0)
            }
        };
        hash.text(&input.to_string_lossy());
        hash.bytes(&contents.to_le_bytes());
    }
    Ok(format!("{:016x}", hash.0))
}

/// FNV-1a with 64 bits: small, the same on every machine, and enough to tell versions of a file apart.
pub struct Fnv(pub u64);

impl Fnv {
    pub fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds a text and a terminator, so that ("ab", "c") and ("a", "bc") differ.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0]);
    }
}
