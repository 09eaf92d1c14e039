//! The program `candle-rocm`: a report on this machine's GPU, and the list of its devices.
use candle_rocm::report::{self, Options};
use candle_rocm::{Result, program};
use candle_rocm_sys::{Backend, Device, diagnose};
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Tells whether candle-rocm-sys runs on this machine's GPU, whether it is right, and how fast.

usage: candle-rocm report [--device NAME] [--output FOLDER] [--strict] [--quick]
       candle-rocm devices

  report           checks and times the device; writes report-<gpu>.md, .svg and .json
  devices          lists the devices, and what keeps a GPU from being used
  --device NAME    the device to run on
  --output FOLDER  where the files go (this folder)
  --strict         exit status 1 if a check fails or the card is unknown
  --quick          small sizes, for a test of the program
  --help           this text
";

enum Command {
    Report { options: Options, strict: bool },
    Devices,
    Help,
}

fn command() -> std::result::Result<Command, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_env();
    let mut name: Option<String> = None;
    let mut options = Options { device: None, output: PathBuf::from("."), quick: false };
    let mut strict = false;
    while let Some(argument) = parser.next()? {
        let in_report = name.as_deref() == Some("report");
        match argument {
            Value(word) if name.is_none() => name = Some(word.string()?),
            Long("device") if in_report => options.device = Some(parser.value()?.string()?),
            Long("output") if in_report => options.output = parser.value()?.into(),
            Long("strict") if in_report => strict = true,
            Long("quick") if in_report => options.quick = true,
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    match name.as_deref() {
        Some("report") => Ok(Command::Report { options, strict }),
        Some("devices") => Ok(Command::Devices),
        Some(other) => Err(format!("there is no command {other:?}: report, devices").into()),
        None => Err("a command is missing: report, devices".into()),
    }
}

fn devices() {
    let backends = [(Backend::Hip, "hip"), (Backend::Cuda, "cuda"), (Backend::Cpu, "cpu")];
    for (backend, name) in backends {
        // The diagnosis tells why there are none.
        for ordinal in 0..Device::count(backend).unwrap_or(0) {
            let opened = Device::open(backend, ordinal as i32).and_then(|device| device.info());
            let shown = if name == "cpu" { 32 << ordinal } else { ordinal };
            let line = opened.map_or_else(|error| error.to_string(), |info| program::describe(&info));
            println!("{name}:{shown:<4} {line}");
        }
    }
    println!("\n{}", diagnose());
}

fn report(options: &Options, strict: bool) -> Result<bool> {
    let faults = report::run(options)?.faults(strict);
    faults.iter().for_each(|fault| eprintln!("candle-rocm: {fault}"));
    if !options.quick {
        println!("please send the three files: an issue \"Hardware report\" (docs/report.md)");
    }
    Ok(faults.is_empty() || !strict)
}

fn main() -> ExitCode {
    match command() {
        Ok(Command::Help) => println!("{HELP}\n{}", program::DEVICE_HELP),
        Ok(Command::Devices) => devices(),
        Ok(Command::Report { options, strict }) => match report(&options, strict) {
            Ok(true) => {}
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        },
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
