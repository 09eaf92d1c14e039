//! Collectives by `candle_core::rocm_backend::rccl`, and the example llama_parallel: its results with 1, 2 and 4 ranks
//! beside Candle's CPU device, what it reads of launchers, how its ranks meet, and what happens if one is lost. Ranks
//! are threads here. Cases that need more GPUs than there are, or RCCL where it is not, are ignored and say so.
#[path = "../../examples/llama_parallel/config.rs"]
mod config;
#[path = "../../examples/llama_parallel/generate.rs"]
mod generate;
#[path = "../../examples/llama_parallel/launch.rs"]
mod launch;
#[path = "../../examples/llama_parallel/model.rs"]
mod model;
#[path = "../../examples/llama_parallel/options.rs"]
mod options;
#[path = "../../examples/llama_parallel/place.rs"]
mod place;
#[path = "../../examples/llama_parallel/rendezvous.rs"]
mod rendezvous;
#[path = "../../examples/llama_parallel/weights.rs"]
mod weights;

mod collectives;
mod meeting;
mod models;
mod places;

use candle_core::rocm_backend::RocmDevice;
use candle_core::rocm_backend::kernels::{Backend, Device};
use libtest_mimic::{Arguments, Failed, Trial};

type Test = fn() -> anyhow::Result<()>;
type OfRanks = fn(usize) -> anyhow::Result<()>;

/// The most ranks that can meet here, or why there are none.
fn most_ranks() -> Result<usize, String> {
    let name = RocmDevice::replaced_by().unwrap_or_default();
    let backend = match name.split(':').next() {
        Some("cpu") => return Ok(usize::MAX),
        Some("cuda") => Backend::Cuda,
        _ => Backend::Hip,
    };
    let library = launch::open(0).and_then(|device| Ok(device.handle().comm_library()?));
    library.map_err(|error| format!("{error:#}"))?;
    Device::count(backend).map_err(|error| error.to_string())
}

/// The whole chain of causes.
fn failed(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}

fn main() {
    // The double of HIP is one GPU unless it is told otherwise, and has a double of RCCL.
    if std::env::var_os("HIP_DOUBLE_ARCH").is_some() {
        // SAFETY: no other thread runs yet, and no device is open.
        unsafe { std::env::set_var("HIP_DOUBLE_DEVICES", "4") };
    }
    let most = most_ranks();
    let mut trials = Vec::new();
    for (name, test) in places::TESTS.iter().chain(meeting::TESTS).chain(models::TESTS) {
        trials.push(Trial::test(*name, move || test().map_err(failed)));
    }
    for (needs, tests) in [(1, collectives::TESTS), (2, models::OF_RANKS)] {
        for (name, sizes, test) in tests {
            for size in *sizes {
                // A single rank of the example has no communicator.
                let is_ignored = *size >= needs && most.as_ref().map_or(true, |most| size > most);
                let trial = Trial::test(format!("{name}_{size}"), move || test(*size).map_err(failed));
                trials.push(trial.with_ignored_flag(is_ignored));
            }
        }
    }
    match &most {
        Err(why) => eprintln!("collectives are ignored: {why}"),
        Ok(most) if *most < 4 => eprintln!("cases of more ranks than {most}, the number of GPUs, are ignored"),
        Ok(_) => {}
    }
    let is_on_cpu = RocmDevice::replaced_by().is_some_and(|name| name.starts_with("cpu"));
    if is_on_cpu {
        // GPUs find out by their own timeouts, and the double of RCCL does not. Ranks of launchers are for GPUs.
        for (name, test) in collectives::ON_CPU {
            trials.push(Trial::test(*name, move || test().map_err(failed)));
        }
    } else {
        let is_ignored = most.as_ref().map_or(true, |most| *most < 2);
        let trial = Trial::test("launched_ranks_meet", || models::launched_ranks_meet().map_err(failed));
        trials.push(trial.with_ignored_flag(is_ignored));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
