//! Tells the person at the terminal how far the compilers are. Cargo shows a dependency's warnings and output only
//! after a failure.
//!
//! A thread of its own writes, and nobody waits long for it: a terminal that is stopped or gone does not hold up the
//! build.

use crate::jobs::Source;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The shortest time before the first line and between two lines.
const PERIOD: Duration = Duration::from_secs(2);
/// How long the end of the work waits for its line to be written.
const PATIENCE: Duration = Duration::from_millis(200);

pub struct Progress {
    events: Sender<Event>,
    writer: Option<JoinHandle<()>>,
}

enum Event {
    Started(String),
    Finished(String, Source),
}

impl Progress {
    /// Tells of `count` jobs, which make `what`, such as "kernels". Without a terminal nothing is written.
    pub fn new(terminal: Option<&Path>, what: &'static str, count: usize) -> Progress {
        let (events, incoming) = channel();
        let terminal = terminal.map(Path::to_owned);
        let writer = terminal.map(|terminal| std::thread::spawn(move || tell(&terminal, what, count, &incoming)));
        Progress { events, writer }
    }

    pub fn started(&self, label: &str) {
        let _ = self.events.send(Event::Started(label.to_owned()));
    }

    pub fn finished(&self, label: &str, source: Source) {
        let _ = self.events.send(Event::Finished(label.to_owned(), source));
    }

    /// Writes the last line.
    pub fn end(self) {
        drop(self.events);
        let start = Instant::now();
        while self.writer.as_ref().is_some_and(|writer| !writer.is_finished()) && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Writes a line where something happened since the last one, and that one is old enough; and a line at the end.
/// Returns at the first failure to write.
fn tell(terminal: &Path, what: &str, count: usize, events: &Receiver<Event>) {
    let start = Instant::now();
    let (mut compiled, mut copied, mut news) = (0, 0, false);
    let mut running: Vec<String> = Vec::new();
    let mut due = start + PERIOD;
    loop {
        let mut end = false;
        match events.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(event) => {
                news = true;
                match event {
                    Event::Started(label) => running.push(label),
                    Event::Finished(label, source) => {
                        running.retain(|name| *name != label);
                        compiled += usize::from(source == Source::Compiler);
                        copied += usize::from(source == Source::Cache);
                    }
                }
                continue;
            }
            Err(RecvTimeoutError::Timeout) => due = Instant::now() + PERIOD,
            Err(RecvTimeoutError::Disconnected) if start.elapsed() < PERIOD => return,
            Err(RecvTimeoutError::Disconnected) => (end, news) = (true, true),
        }
        if !std::mem::take(&mut news) {
            continue;
        }
        let seconds = start.elapsed().as_secs();
        let time = match seconds / 60 {
            0 => format!("{seconds} s"),
            minutes => format!("{minutes} min {} s", seconds % 60),
        };
        let now = running.last().filter(|_| !end).map_or(String::new(), |label| format!(": {label}"));
        // Cargo may have its progress bar on the line.
        let clear = if cfg!(windows) { "\r" } else { "\r\x1b[K" };
        let line = format!(
            "{clear}candle-rocm-sys: {compiled} of {count} {what} compiled, {copied} from the cache, {time}{now}\n"
        );
        let file = std::fs::File::options().append(true).open(terminal);
        if file.and_then(|mut file| file.write_all(line.as_bytes())).is_err() || end {
            return;
        }
    }
}

/// The terminal on which cargo's own messages appear; `None` in CI.
pub fn terminal() -> Option<PathBuf> {
    if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) {
        return None;
    }
    // Where cargo's messages go to a file, or to an editor that owns the terminal, lines on the terminal would disturb.
    // Linux tells where they go: the parent of a build script is cargo.
    #[cfg(target_os = "linux")]
    {
        use std::io::IsTerminal;
        let messages = std::fs::read_link(format!("/proc/{}/fd/2", std::os::unix::process::parent_id())).ok()?;
        let file = messages.starts_with("/dev").then(|| std::fs::File::options().append(true).open(&messages))?;
        file.is_ok_and(|file| file.is_terminal()).then_some(messages)
    }
    #[cfg(not(target_os = "linux"))]
    Some(PathBuf::from(if cfg!(windows) { "CONOUT$" } else { "/dev/tty" }))
}
