//! The architectures of AMD GPUs, read from the table in kernels/platform/architectures.h, which explains its columns.

/// A line of the table.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)] // the build script, the tests and the examples use different fields
pub struct Architecture {
    /// Such as `gfx1100` or `gfx9-4-generic`.
    pub name: &'static str,
    /// The number in `e_flags` of the architecture's ELFs.
    pub machine: u8,
    /// The generic target that covers the architecture, or empty.
    pub generic: &'static str,
    pub simd: Simd,
    pub dot4: &'static str,
    pub dot2: &'static str,
    pub matrix: &'static str,
    pub built: &'static str,
    pub card: &'static str,
}

/// The SIMD units of an architecture.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)]
pub struct Simd {
    /// Lanes of a wave.
    pub lanes: u64,
    /// SIMD units of a compute unit.
    pub units: u64,
    /// Waves that a SIMD unit holds at once.
    pub waves: u64,
    /// Vector registers per lane of a SIMD unit, and the step in which waves get them.
    pub registers: u64,
    pub register_step: u64,
    /// Shared memory of a compute unit, in KiB.
    pub shared_kib: u64,
}

const HEADER: &str = include_str!("../kernels/platform/architectures.h");

/// All architectures, in the table's order. Panics where a line of the table cannot be read.
pub fn all() -> Vec<Architecture> {
    let lines = HEADER.lines().filter_map(|line| line.trim_start().strip_prefix("XX(gfx"));
    lines
        .map(|line| {
            parse(line).unwrap_or_else(|| panic!("kernels/platform/architectures.h: cannot read the line XX(gfx{line}"))
        })
        .collect()
}

/// The architecture of a target. The target may have features (`gfx90a:xnack-`).
#[allow(dead_code)]
pub fn find(target: &str) -> Option<Architecture> {
    let name = target.split(':').next().unwrap_or(target);
    all().into_iter().find(|architecture| architecture.name == name)
}

/// Reads the rest of a line after `XX(gfx`.
fn parse(line: &'static str) -> Option<Architecture> {
    let (columns, card) = line.rsplit_once(", \"")?;
    let (card, _) = card.split_once("\")")?;
    let columns: Vec<&str> = columns.split(", ").map(|column| column.trim_matches('"')).collect();
    let [_, name, machine, generic, simd, dot4, dot2, matrix, built] = columns[..] else { return None };
    let machine = u8::from_str_radix(machine.strip_prefix("0x")?, 16).ok()?;
    Some(Architecture { name, machine, generic, simd: simd_of(simd)?, dot4, dot2, matrix, built, card })
}

/// The numbers of the macro `CRK_SIMD_<kind>`.
fn simd_of(kind: &str) -> Option<Simd> {
    let start = format!("#define CRK_SIMD_{kind} ");
    let numbers = HEADER.lines().find_map(|line| line.strip_prefix(&start))?;
    let numbers: Vec<u64> = numbers.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
    let [lanes, units, waves, registers, register_step, shared_kib] = numbers[..] else { return None };
    Some(Simd { lanes, units, waves, registers, register_step, shared_kib })
}
