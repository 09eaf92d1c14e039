//! Talks with a language model in a GGUF file: `cargo run --release --example chat -- model.gguf`. Everything comes
//! from the file: the architecture, the tokenizer and the chat template. `--help` lists the options.
//!
//! The text goes to standard output. The progress of loading, and figures about speed, go to standard error.
//! `CANDLE_ROCM_DEVICE=cpu:32` runs it without a GPU.
mod metadata;
mod model;
mod options;
mod run;
mod session;
mod template;
mod tokenizer;

use candle_rocm_tests::gpu;
use std::process::ExitCode;

fn main() -> ExitCode {
    match chat() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn chat() -> anyhow::Result<()> {
    let Some(options) = options::Options::parse(lexopt::Parser::from_env())? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    let (device, description) = gpu(options.device)?;
    eprintln!("{description}");
    run::run(&options, &device, &mut std::io::stdin().lock(), &mut std::io::stdout().lock())
}
