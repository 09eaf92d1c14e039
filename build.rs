//! Builds the C core, the kernels for the drivers of the enabled features, and the bindings.
//!
//! The work is in build/, one module per concern. docs/building.md lists the variables that configure it.

#[path = "build/architectures.rs"]
mod architectures;
#[path = "build/bindings.rs"]
mod bindings;
#[path = "build/bundle.rs"]
mod bundle;
#[path = "build/cache.rs"]
mod cache;
#[path = "build/coff.rs"]
mod coff;
#[path = "build/config.rs"]
mod config;
#[path = "build/core.rs"]
mod core;
#[path = "build/embed.rs"]
mod embed;
#[path = "build/includes.rs"]
mod includes;
#[path = "build/jobs.rs"]
mod jobs;
#[path = "build/kernels.rs"]
mod kernels;
#[path = "build/pack.rs"]
mod pack;
#[path = "build/parts.rs"]
mod parts;
#[path = "build/port.rs"]
mod port;
#[path = "build/prebuilt.rs"]
mod prebuilt;
#[path = "build/program.rs"]
mod program;
#[path = "build/progress.rs"]
mod progress;
#[path = "build/toolchain.rs"]
mod toolchain;

use config::{Config, Result};

fn main() {
    if let Err(message) = Config::from_env().and_then(|config| build(&config)) {
        // The status is 0. With another one, cargo would print the script's whole output after the message.
        message.lines().for_each(|line| println!("cargo::error={line}"));
    }
}

fn build(config: &Config) -> Result<()> {
    for folder in ["include", "csrc", "kernels"] {
        println!("cargo::rerun-if-changed={folder}");
    }
    let modules = config::modules(config)?;
    bindings::build(config)?;
    let images = kernels::build(config, &modules)?;
    let embedded = embed::write(config, &modules, &images)?;
    let port = port::write(config)?;
    core::build(config, &modules, &embedded, &port)
}
