//! A Llama on many GPUs, one process for each: `cargo run --release --example llama_parallel -- --ranks 2 FOLDER`.
//! `--help` lists the options; docs/many-gpus.md of the folder above says how it runs on many hosts.
//!
//! The text goes to standard output, by rank 0 alone. Figures about speed go to standard error.
//! `CANDLE_ROCM_DEVICE=cpu:32` runs it without a GPU, with a thread for each rank.
mod config;
mod generate;
mod launch;
mod model;
mod options;
mod place;
mod rendezvous;
mod weights;

use std::process::ExitCode;

fn main() -> ExitCode {
    match parallel() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parallel() -> anyhow::Result<()> {
    let Some(options) = options::Options::parse(lexopt::Parser::from_env())? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    let config = generate::config(&options)?;
    let check = |size| config::Split::new(&config, 0, size).map(drop);
    launch::launch(&options, check, &|rank| generate::run(&options, &config, &rank, &mut std::io::stdout()).map(drop))
}
