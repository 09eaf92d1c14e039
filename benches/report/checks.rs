//! A sample of the project's tests, on the device.
use super::private::clean;
use super::{Depth, progress};
use crate::Result;
use candle_rocm_sys::Device;
use candle_rocm_sys_tests::suites::{self, SUITES};
use candle_rocm_sys_tests::support::{Target, is_sampled};
use libtest_mimic::{Arguments, FormatSetting, Trial};
use serde::Serialize;
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Serialize)]
pub struct Suite {
    pub name: &'static str,
    /// The trials of the suite, and how many of them were run.
    pub trials: usize,
    pub run: usize,
    pub failed: Vec<Failure>,
}

#[derive(Serialize)]
pub struct Failure {
    pub trial: String,
    pub message: String,
}

/// About one trial in so many is run. The choice depends on the names, so it is the same in every run.
fn one_in(depth: Depth) -> usize {
    match depth {
        Depth::Quick => 100,
        Depth::Cpu => 20,
        Depth::Full => 10,
    }
}

pub fn run(device: &Device, name: &str, depth: Depth) -> Result<Vec<Suite>> {
    // The trials keep their target until the process ends.
    let target = Target { name: name.to_owned(), device: device.clone() };
    let targets: &'static [Target] = Box::leak(Box::new([target]));
    let bar = progress::bar("checks", SUITES.len());
    let mut done = Vec::new();
    for suite in SUITES {
        bar.set_message(suite.name);
        done.push(sample(suite, targets, one_in(depth))?);
        bar.inc(1);
    }
    bar.finish_with_message("");
    Ok(done)
}

fn sample(suite: &suites::Suite, targets: &'static [Target], one_in: usize) -> Result<Suite> {
    let mut result = Suite { name: suite.name, trials: 0, run: 0, failed: Vec::new() };
    let trials = match catch_unwind(AssertUnwindSafe(|| suite.trials(targets))) {
        Ok(trials) => trials,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            result
                .failed
                .push(Failure { trial: format!("{} (the list of its trials)", suite.name), message: clean(text) });
            return Ok(result);
        }
    };
    result.trials = trials.len();
    let (mut chosen, mut others): (Vec<_>, Vec<_>) = trials.into_iter().partition(|trial| is_sampled(trial, one_in));
    if chosen.is_empty() {
        chosen.extend(others.pop());
    }
    result.run = chosen.len();
    result.failed = failures(chosen)?;
    Ok(result)
}

/// Runs trials. They print nothing: the library writes a line of JSON per trial to a file.
fn failures(trials: Vec<Trial>) -> Result<Vec<Failure>> {
    let log = tempfile::NamedTempFile::new()?;
    let path = log.path().to_str().ok_or("the folder for temporary files is not named in UTF-8")?;
    let arguments =
        Arguments { logfile: Some(path.to_owned()), format: Some(FormatSetting::Json), ..Arguments::default() };
    let conclusion = libtest_mimic::run(&arguments, trials);
    let lines = std::fs::read_to_string(log.path())?;
    let failed = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter_map(|line| {
        let text = |key: &str| line[key].as_str().unwrap_or_default();
        (text("type") == "test" && text("event") == "failed")
            .then(|| Failure { trial: text("name").to_owned(), message: clean(text("stdout")) })
    });
    let failed: Vec<Failure> = failed.collect();
    if failed.len() as u64 != conclusion.num_failed {
        return Err(format!("{} trials failed, but {} were told", conclusion.num_failed, failed.len()).into());
    }
    Ok(failed)
}
