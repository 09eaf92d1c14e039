//! The report on one device: what it is, whether its results are right, and how fast it is.
mod cards;
mod checks;
mod diagnosis;
mod families;
mod llama;
mod markdown;
mod private;
mod progress;
mod speed;

use crate::measure::Clock;
use crate::measure::chart::{Bar, Chart};
use crate::{Result, program};
use candle_rocm_sys::{Backend, Device, DeviceInfo};
use private::clean;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Raised where a field of the JSON changes its meaning or goes away.
const SCHEMA: u32 = 1;

pub struct Options {
    pub device: Option<String>,
    pub output: PathBuf,
    pub quick: bool,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// As little as a test needs.
    Quick,
    /// All of it, in sizes for the CPU device.
    Cpu,
    Full,
}

/// What the JSON has. Units are in the fields' names.
#[derive(Serialize)]
pub struct Report {
    schema: u32,
    quick: bool,
    device: String,
    card: diagnosis::Card,
    machine: diagnosis::Machine,
    diagnosis: Vec<diagnosis::Finding>,
    checks: Section<Vec<checks::Suite>>,
    copies: Section<speed::Copies>,
    launches: Section<speed::Launches>,
    replays: Section<speed::Replays>,
    ops: Section<families::Families>,
    llama: Section<llama::Llama>,
    took_s: f64,
}

/// A section, or why it could not be made.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Section<T> {
    Done(T),
    Failed(String),
}

impl<T> Section<T> {
    fn of(result: Result<T>) -> Section<T> {
        result.map_or_else(|error| Section::Failed(clean(&error.to_string())), Section::Done)
    }

    fn done(&self) -> Option<&T> {
        if let Section::Done(section) = self { Some(section) } else { None }
    }

    fn error(&self) -> Option<&str> {
        if let Section::Failed(error) = self { Some(error) } else { None }
    }
}

/// Measures, and prints where the files are. Returns the report.
pub fn run(options: &Options) -> Result<Report> {
    let start = Instant::now();
    std::fs::create_dir_all(&options.output).map_err(|error| format!("{}: {error}", options.output.display()))?;
    let device = program::open(options.device.as_deref())?;
    let info = device.info()?;
    println!("{}", program::describe(&info));
    let report = measure(&device, &info, options.quick, start)?;
    for file in report.write(&options.output)? {
        println!("wrote {}", file.display());
    }
    Ok(report)
}

/// The name that opens the device again.
fn name_of(info: &DeviceInfo) -> String {
    match info.backend {
        Backend::Hip => format!("hip:{}", info.ordinal),
        Backend::Cuda => format!("cuda:{}", info.ordinal),
        _ => format!("cpu:{}", info.wave_size),
    }
}

fn measure(device: &Device, info: &DeviceInfo, quick: bool, start: Instant) -> Result<Report> {
    let depth = match info.backend {
        _ if quick => Depth::Quick,
        Backend::Cpu => Depth::Cpu,
        _ => Depth::Full,
    };
    let name = name_of(info);
    let (reps, bytes, elements, beyond) = match depth {
        Depth::Quick => (2, 1 << 16, 1 << 12, 1),
        Depth::Cpu => (3, 1 << 24, 1 << 18, 1 << 24),
        // Two sets of the largest case are in memory at once, and the small cards have 4 GiB.
        Depth::Full if info.memory_bytes < 6 << 30 => (10, 1 << 27, 1 << 24, 1 << 29),
        Depth::Full => (10, 1 << 28, 1 << 26, 1 << 30),
    };
    let clock = Clock::new(device, reps)?;
    let checks = Section::of(checks::run(device, &name, depth));
    let copies = Section::of(speed::copies(device, &clock, bytes));
    let launches = Section::of(speed::launches(device, &clock, if depth == Depth::Quick { 20 } else { 500 }));
    let replays = Section::of(speed::replays(&name, 96, if depth == Depth::Quick { 6 } else { 100 }));
    let copied = copies.done().map(|copies| copies.device_to_device_gb_per_s * 1e9);
    let ops = Section::of(copied.ok_or("the copies failed".into()).and_then(|copied| {
        families::measure(device, info, Clock::new(device, reps)?, (depth, elements, beyond), copied)
    }));
    let llama = Section::of(llama::measure(device, &name, &clock, depth));
    Ok(Report {
        schema: SCHEMA,
        quick,
        card: diagnosis::Card::of(device, info)?,
        device: name,
        machine: diagnosis::Machine::this(),
        diagnosis: diagnosis::findings(),
        checks,
        copies,
        launches,
        replays,
        ops,
        llama,
        took_s: start.elapsed().as_secs_f64(),
    })
}

impl Report {
    /// What is wrong: sections that failed, results that differ. `strict` counts a card that the program does not know.
    pub fn faults(&self, strict: bool) -> Vec<String> {
        let failed = [
            ("checks", self.checks.error()),
            ("copies", self.copies.error()),
            ("launches", self.launches.error()),
            ("replays", self.replays.error()),
            ("ops", self.ops.error()),
            ("llama", self.llama.error()),
        ];
        let failed = failed.into_iter().filter_map(|(section, error)| Some(format!("{section}: {}", error?)));
        let trials = self.checks.done().into_iter().flatten().flat_map(|suite| &suite.failed);
        let trials = trials.map(|failure| format!("check {}", failure.trial));
        let ops = self.ops.done().into_iter().flat_map(|ops| &ops.failures).cloned();
        let replays = self.replays.done().filter(|replays| !replays.same_bits);
        let replays = replays.map(|_| "replays: launches in graphs have other results".to_owned());
        let llama = self.llama.done().filter(|llama| llama.speed.is_none());
        let llama = llama.map(|llama| format!("llama: its results differ from those of {}", llama.compared_with));
        let unknown = strict && self.card.is_gpu() && self.card.stated_memory_gb_per_s.is_none();
        let unknown =
            unknown.then(|| format!("the card {:?} is unknown: add a line to benches/report/cards.rs", self.card.name));
        failed.chain(trials).chain(ops).chain(replays).chain(llama).chain(unknown).collect()
    }

    /// The name of the files, without an extension.
    fn stem(&self) -> String {
        let name = if self.card.name.is_empty() { &self.card.architecture } else { &self.card.name };
        let name: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' }).collect();
        format!("report-{}", name.split_whitespace().collect::<Vec<_>>().join("-"))
    }

    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let stem = self.stem();
        let chart = format!("{stem}.svg");
        let files = [
            (format!("{stem}.md"), markdown::text(self, &chart)),
            (chart, self.chart()?),
            (format!("{stem}.json"), serde_json::to_string_pretty(self)? + "\n"),
        ];
        let write = |(name, text): (String, String)| {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(path)
        };
        files.into_iter().map(write).collect()
    }

    /// The ops whose limit is memory, as shares of the copy's speed.
    fn chart(&self) -> Result<String> {
        let speed = self.copies.done().map_or(f64::NAN, |copies| copies.device_to_device_gb_per_s);
        let rows = self.ops.done().map_or(&[][..], |ops| &ops.rows);
        let bar =
            |row: &families::Measured| Some(Bar { label: row.op.clone(), ours: row.share_of_copy?, theirs: None });
        let bars: Vec<Bar> = rows.iter().filter_map(bar).collect();
        let mut marks = vec![(format!("copy {speed:.0} GB/s"), 1.0)];
        marks.extend(self.card.stated_memory_gb_per_s.map(|stated| (format!("stated {stated:.0}"), stated / speed)));
        let title = format!("{}: share of its own copy speed, {speed:.0} GB/s", self.card.name);
        Chart { title: &title, other: "", bars: &bars, marks: &marks }.svg()
    }
}
