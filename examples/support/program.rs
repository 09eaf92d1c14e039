//! What the example and bench programs share: the device, and the end of the program.
#![allow(dead_code)] // no program needs all of it
use candle_rocm_sys::{Backend, Device, DeviceInfo, Status, Topic, diagnose};

/// The part of a program's help that is the same in all.
pub const DEVICE_HELP: &str = "\
The device is hip:N, cuda:N, cpu:32, cpu:64, or an architecture such as gfx1100. Without --device it is the one that
CANDLE_ROCM_DEVICE names, else the first AMD GPU, the first NVIDIA GPU, or the CPU.";

/// Opens the device that the user named, else the best one. A build for GPUs that would take the CPU unasked is an
/// error, which has the diagnosis.
pub fn open(named: Option<&str>) -> Result<Device, String> {
    let opened = named.map_or_else(Device::open_best, Device::open_named);
    let device = opened.map_err(|error| match error.status() {
        Status::NoRuntime | Status::NoDevice | Status::Device => format!("{error}\n\n{}", diagnose()),
        _ => error.to_string(),
    })?;
    let asked = named.is_some() || std::env::var_os("CANDLE_ROCM_DEVICE").is_some_and(|name| !name.is_empty());
    let info = device.info().map_err(|error| error.to_string())?;
    if info.backend == Backend::Cpu && !asked {
        let diagnosis = diagnose();
        if diagnosis.problems().next().is_some() {
            return Err(format!(
                "this build is for a GPU, but only the CPU can be used. Solve the first problem of this list, or \
                 choose the CPU on purpose: CANDLE_ROCM_DEVICE=cpu:32\n\n{diagnosis}"
            ));
        }
    }
    Ok(device)
}

/// One line about a device, for the head of a program's output.
pub fn describe(info: &DeviceInfo) -> String {
    let (units, waves) = (info.compute_units, info.wave_size);
    match info.backend {
        Backend::Cpu => {
            format!("the CPU device: the reference for results, no race ({units} threads, waves of {waves})")
        }
        backend => {
            let driver = if backend == Backend::Hip { "HIP" } else { "CUDA" };
            let (name, architecture) = (info.name(), info.architecture());
            format!("{name} ({architecture}), through the {driver} driver: {units} compute units, waves of {waves}")
        }
    }
}

/// What is to be said about a GPU: whether its architecture has run this code before. None where there is nothing.
pub fn remark(info: &DeviceInfo) -> Option<String> {
    let of_this = format!("{}:", info.architecture());
    let untried = |topic, sentence: &str| topic == Topic::Untried && sentence.starts_with(&of_this);
    let findings = if info.backend == Backend::Hip { diagnose().findings } else { Vec::new() };
    let finding = findings.into_iter().find(|finding| untried(finding.topic, &finding.sentence))?;
    Some(format!("{}, {}", finding.sentence, finding.remedy))
}
