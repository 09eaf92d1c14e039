//! Times the launchers on a device, beside the device's own copy speed, candle-kernels' own kernels on an NVIDIA GPU,
//! and PyTorch, all in one run.
//!
//! `cargo bench -p candle-rocm --bench ops -- [options] [words that a case's name must contain]`, see [`HELP`].
//! docs/measuring.md explains the figures.
mod graph;

use candle_rocm::cases::{self, Case, Size};
use candle_rocm::measure::bare::Bare;
use candle_rocm::measure::buffers::BEYOND_CACHES;
use candle_rocm::measure::chart::Chart;
use candle_rocm::measure::row::{Bench, Row};
use candle_rocm::measure::torch::Torch;
use candle_rocm::measure::{Clock, copy_speed};
use candle_rocm::{Result, number_of_text, program};
use candle_rocm_sys::{Backend, Device, DeviceInfo};
use serde_json::json;
use std::process::ExitCode;

const HELP: &str = "\
Times the launchers on a device, beside the device's own copy speed.

usage: cargo bench -p candle-rocm --bench ops -- [OPTION...] [WORD...]

  WORD             only the cases with one of these words in their names
  --device NAME    the device to run on
  --sizes LIST     elements of a case, such as 2^28,2^26,odd:2^28 (the default on a GPU; 2^22,odd:2^22 on the CPU)
  --reps N         timed repetitions (30)
  --json FILE      a JSON line a row
  --roofline FILE  an SVG chart of the first size
  --note TEXT      goes into the JSON, for the commit
  --by-name        the second time of a row is that of this crate's own kernel by Candle's name, at Candle's geometry
  --graph          instead of the table: a chain of short launches as one graph, beside the times of its kernels
  --torch PYTHON   a third time is PyTorch's, by this Python, on the same GPU
  --help           this text

  CANDLE_KERNELS_PTX names a folder with PTX modules compiled from candle-kernels, which are timed and compared too.
";

struct Options {
    help: bool,
    device: Option<String>,
    sizes: Option<Vec<Size>>,
    reps: usize,
    json: Option<String>,
    chart: Option<String>,
    note: String,
    by_name: bool,
    graph: bool,
    torch: Option<String>,
    words: Vec<String>,
}

fn size_of_text(text: &str) -> Option<Size> {
    let (text, odd) = text.strip_prefix("odd:").map_or((text, false), |rest| (rest, true));
    let elements = number_of_text(text)?;
    (elements > 0).then_some(Size { elements, odd })
}

fn options() -> std::result::Result<Options, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = Options {
        help: false,
        device: None,
        sizes: None,
        reps: 30,
        json: None,
        chart: None,
        note: String::new(),
        by_name: false,
        graph: false,
        torch: None,
        words: Vec::new(),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("bench") => {} // cargo's
            Long("device") => options.device = Some(parser.value()?.string()?),
            Long("sizes") => {
                let list = parser.value()?.string()?;
                let sizes: Option<Vec<Size>> = list.split(',').map(size_of_text).collect();
                options.sizes = Some(sizes.ok_or_else(|| format!("{list} is no list of sizes"))?);
            }
            Long("reps") => {
                options.reps = parser.value()?.parse_with(|text| match text.parse() {
                    Ok(0) | Err(_) => Err("a number above 0 is needed"),
                    Ok(reps) => Ok(reps),
                })?
            }
            Long("json") => options.json = Some(parser.value()?.string()?),
            Long("roofline") => options.chart = Some(parser.value()?.string()?),
            Long("note") => options.note = parser.value()?.string()?,
            Long("torch") => options.torch = Some(parser.value()?.string()?),
            Long("by-name") => options.by_name = true,
            Long("graph") => options.graph = true,
            Short('h') | Long("help") => options.help = true,
            Value(word) => options.words.push(word.string()?),
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

/// The modules of candle-kernels with the kernels that the cases use.
const CANDLE_MODULES: [&str; 11] =
    ["affine", "binary", "cast", "conv", "fill", "indexing", "quantized", "reduce", "sort", "ternary", "unary"];
const CANDLE: &str = "candle_";

/// Loads each `<module>.ptx` of a folder as the module "candle_<module>".
fn load_candle(device: &Device, folder: &str) -> Result<()> {
    for module in CANDLE_MODULES {
        let path = format!("{folder}/{module}.ptx");
        let mut ptx = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
        ptx.push(0);
        // SAFETY: the user chose the folder and trusts its kernels.
        unsafe { device.load_module(&format!("{CANDLE}{module}"), &ptx) }
            .map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

fn run(options: &Options) -> Result<bool> {
    let device = program::open(options.device.as_deref())?;
    device.set_replay(false)?; // launches one by one are what is timed, or graphs of the bench's own
    let info: DeviceInfo = device.info()?;
    let on_cpu = info.backend == Backend::Cpu;
    let clock = Clock::new(&device, options.reps)?;
    if options.graph {
        println!("{} ({})\n", info.name(), info.architecture());
        return graph::run(&device, &clock);
    }
    let (other, label) = match std::env::var("CANDLE_KERNELS_PTX").ok().filter(|folder| !folder.is_empty()) {
        _ if options.by_name => (Some(""), "by name"),
        Some(folder) => load_candle(&device, &folder).map(|()| (Some(CANDLE), "candle"))?,
        None => (None, ""),
    };
    let size = |elements: usize, odd: bool| Size { elements, odd };
    let sizes = options.sizes.clone().unwrap_or_else(|| {
        if on_cpu {
            vec![size(1 << 22, false), size(1 << 22, true)]
        } else {
            vec![size(1 << 28, false), size(1 << 26, false), size(1 << 28, true)]
        }
    });
    /* A single repetition is a trial run, perhaps on an emulator: one set is enough. */
    let beyond = match (options.reps, on_cpu) {
        (1, _) => 1,
        (_, true) => BEYOND_CACHES / 4,
        (_, false) => BEYOND_CACHES,
    };
    let largest = sizes.iter().map(|size| size.elements).max().unwrap_or(1) * 4;
    let copy_speed = copy_speed(&device, &clock, largest, beyond)?;
    println!(
        "{} ({}, wave {}, {} compute units), its own copy: {:.1} GB/s",
        info.name(),
        info.architecture(),
        info.wave_size,
        info.compute_units,
        copy_speed * 1e-9
    );
    let head = json!({
        "device": info.name(),
        "architecture": info.architecture(),
        "runtime": info.runtime_version,
        "version": env!("CARGO_PKG_VERSION"),
        "copy_gb_s": copy_speed * 1e-9,
        "reps": options.reps,
        "other": label,
        "note": options.note,
    });
    let mut lines = format!("{head}\n");
    let mut bench = Bench {
        device: &device,
        clock,
        compute_units: info.compute_units,
        copy_speed,
        bare: Bare::new(&device),
        other,
        torch: options.torch.as_deref().map(Torch::start).transpose()?,
        beyond,
    };
    let wanted = |case: &Case| options.words.is_empty() || options.words.iter().any(|word| case.name.contains(word));
    let (mut bars, mut right) = (Vec::new(), true);
    for (i, size) in sizes.iter().enumerate() {
        println!();
        Row::print_head(other.map(|_| label), bench.torch.is_some());
        let mut ratios = Vec::new();
        for case in cases::all(*size).iter().filter(|case| wanted(case)) {
            let row = match Row::measure(&mut bench, case) {
                Ok(row) => row,
                Err(error) => {
                    println!("{:<36} FAILED: {error}", case.name);
                    right = false;
                    continue;
                }
            };
            row.print(other.is_some(), bench.torch.is_some());
            lines += &format!("{}\n", row.json());
            right &= row.is_right();
            ratios.extend(row.memory_bound_ratio());
            if i == 0 {
                bars.extend(row.bar());
            }
        }
        if !ratios.is_empty() {
            let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            println!("geometric mean over the {} rows bound by memory: {mean:.2} times {label}", ratios.len());
        }
    }
    if let Some(file) = &options.json {
        std::fs::write(file, lines).map_err(|error| format!("{file}: {error}"))?;
    }
    if let Some(file) = &options.chart {
        let title = format!("{}: share of its own copy speed, {:.0} GB/s", info.name(), copy_speed * 1e-9);
        let chart = Chart { title: &title, other: label, bars: &bars, marks: &[] };
        std::fs::write(file, chart.svg()?).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(right)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if options.help {
        println!("{HELP}\n{}", program::DEVICE_HELP);
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
