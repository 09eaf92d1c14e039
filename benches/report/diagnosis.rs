//! What a report says about the device, the build and the machine.
use super::cards;
use super::private::clean;
use crate::{Result, program};
use candle_rocm_sys::{AFFINE, Backend, Device, DeviceInfo, diagnose};
use serde::Serialize;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// The device under test.
#[derive(Serialize)]
pub struct Card {
    pub backend: &'static str,
    pub name: String,
    pub architecture: String,
    /// With the features, in the driver's form.
    pub target: String,
    pub compute_units: u32,
    pub wave_lanes: u32,
    pub memory_gib: f64,
    /// The driver's own number.
    pub runtime_version: u32,
    pub matrix_products_by: String,
    /// The memory's speed as its maker states it; absent for a card that this program does not know.
    pub stated_memory_gb_per_s: Option<f64>,
    /// What is to be said about the architecture: that no hardware of it has run this code before.
    pub remark: Option<String>,
}

/// A finding of the diagnosis.
#[derive(Serialize)]
pub struct Finding {
    pub severity: &'static str,
    pub topic: &'static str,
    pub sentence: String,
    pub remedy: String,
}

/// The build and the machine.
#[derive(Serialize)]
pub struct Machine {
    pub crate_version: &'static str,
    /// The compiler that made the embedded code objects; absent where there are none.
    pub code_object_compiler: Option<String>,
    pub optimised_build: bool,
    pub os: String,
    pub kernel: String,
    pub cpu: String,
    pub cpu_threads: usize,
    pub memory_gib: f64,
}

const GIB: f64 = (1u64 << 30) as f64;

impl Card {
    pub fn of(device: &Device, info: &DeviceInfo) -> Result<Card> {
        Ok(Card {
            backend: match info.backend {
                Backend::Hip => "hip",
                Backend::Cuda => "cuda",
                _ => "cpu",
            },
            name: clean(info.name()),
            architecture: info.architecture().to_owned(),
            target: info.target().to_owned(),
            compute_units: info.compute_units,
            wave_lanes: info.wave_size,
            memory_gib: info.memory_bytes as f64 / GIB,
            runtime_version: info.runtime_version,
            matrix_products_by: device.blas()?.to_owned(),
            stated_memory_gb_per_s: cards::memory_gb_per_s(info.name()),
            remark: program::remark(info),
        })
    }

    pub fn is_gpu(&self) -> bool {
        self.backend != "cpu"
    }
}

pub fn findings() -> Vec<Finding> {
    let findings = diagnose().findings.into_iter();
    findings
        .map(|finding| Finding {
            severity: finding.severity.name(),
            topic: finding.topic.name(),
            sentence: clean(&finding.sentence),
            remedy: clean(&finding.remedy),
        })
        .collect()
}

/// The text of a compiler in the section `.comment` of the embedded code objects.
fn compiler() -> Option<String> {
    const MARK: &[u8] = b"clang version ";
    let bundle = AFFINE.hsaco();
    let at = bundle.windows(MARK.len()).position(|text| text == MARK)?;
    let is_text = |byte: &u8| (b' '..=b'~').contains(byte);
    let before = bundle[..at].iter().rev().take_while(|byte| is_text(byte)).count();
    let after = bundle[at..].iter().take_while(|byte| is_text(byte)).count();
    Some(clean(&String::from_utf8_lossy(&bundle[at - before..at + after])))
}

impl Machine {
    pub fn this() -> Machine {
        let wanted = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(wanted);
        Machine {
            crate_version: env!("CARGO_PKG_VERSION"),
            code_object_compiler: compiler(),
            optimised_build: !cfg!(debug_assertions),
            os: System::long_os_version().unwrap_or_default(),
            kernel: System::kernel_version().unwrap_or_default(),
            cpu: system.cpus().first().map_or(String::new(), |cpu| cpu.brand().trim().to_owned()),
            cpu_threads: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: system.total_memory() as f64 / GIB,
        }
    }
}
