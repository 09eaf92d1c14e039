//! Reads the bundle of `Module::hsaco()`: its ELF code objects, and the kernels' facts in each ELF.

#[path = "../../build/architectures.rs"]
pub mod architectures;

use architectures::{Architecture, Simd};
use object::{Object, ObjectSection, ObjectSymbol};
use rmpv::Value;
use std::collections::HashMap;

/// A code object of a bundle.
#[derive(Clone, Copy)]
pub struct CodeObject {
    /// The architecture, such as `gfx1100` or `gfx90a:xnack-`.
    pub arch: &'static str,
    pub elf: &'static [u8],
}

/// A kernel's facts from the code object's metadata.
#[derive(Clone, Default)]
pub struct Kernel {
    pub name: String,
    /// The offset and size of each argument in order, without those that the compiler adds.
    pub args: Vec<(u64, u64)>,
    /// The number of arguments that the compiler adds.
    pub hidden_args: usize,
    /// Whether the kernel gets the address of its dispatch packet.
    pub has_packet: bool,
    /// The spilled scalar and vector registers.
    pub spills: (u64, u64),
    /// The bytes of scratch memory per thread.
    pub scratch: u64,
    /// The largest number of threads per block.
    pub max_threads: u64,
    /// Vector registers per lane (of both kinds if they share a file), and scalar registers per wave.
    pub vgprs: u64,
    pub sgprs: u64,
    /// The bytes of static shared memory per block.
    pub lds: u64,
    /// The lanes of a wave.
    pub wave: u64,
    pub code_bytes: u64,
}

/// The version of the clang that compiled an ELF, from its section `.comment`. The section may name several, because
/// the device library may be older; this is the newest. `None` if it names none.
pub fn clang_version(elf: &[u8]) -> Option<u32> {
    const BEFORE: &[u8] = b"clang version ";
    let number = |at: usize| {
        let digits = elf[at + BEFORE.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number: u32, digit| number.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
    };
    elf.windows(BEFORE.len()).enumerate().filter(|(_, text)| *text == BEFORE).map(|(at, _)| number(at)).max()
}

impl CodeObject {
    /// The line of its architecture in the table.
    pub fn architecture(&self) -> Result<Architecture, String> {
        architectures::find(self.arch).ok_or_else(|| format!("kernels/platform/architectures.h has no {}", self.arch))
    }
}

impl Kernel {
    /// The number of its waves that a SIMD unit holds at once, by registers and static shared memory.
    pub fn waves_per_simd(&self, simd: &Simd) -> u64 {
        // For GCN and CDNA. RDNA has enough scalar registers for the maximum number of waves.
        const SGPRS: u64 = 800;
        const SGPR_STEP: u64 = 16;
        let by_vgprs = simd.registers / self.vgprs.max(1).next_multiple_of(simd.register_step);
        let by_sgprs = match simd.lanes {
            64 => SGPRS / self.sgprs.max(1).next_multiple_of(SGPR_STEP),
            _ => simd.waves,
        };
        // Blocks of the kernel's maximum size, distributed over all SIMDs of a compute unit.
        let block_waves = self.max_threads.div_ceil(self.wave.max(1)).max(1);
        let by_lds = match self.lds {
            0 => simd.waves,
            lds => ((simd.shared_kib << 10) / lds * block_waves).div_ceil(simd.units),
        };
        simd.waves.min(by_vgprs).min(by_sgprs).min(by_lds)
    }
}

/// The code objects of a bundle, in order. An empty bundle has none.
pub fn code_objects(bundle: &'static [u8]) -> Result<Vec<CodeObject>, String> {
    if bundle.is_empty() {
        return Ok(Vec::new());
    }
    let rest = bundle.strip_prefix(b"__CLANG_OFFLOAD_BUNDLE__").ok_or("not an offload bundle")?;
    let mut reader = rest;
    let number = |bytes: &mut &'static [u8]| -> Result<usize, String> {
        let (head, tail) = bytes.split_first_chunk::<8>().ok_or("the bundle is truncated")?;
        *bytes = tail;
        usize::try_from(u64::from_le_bytes(*head)).map_err(|e| e.to_string())
    };
    let mut found = Vec::new();
    for _ in 0..number(&mut reader)? {
        let (offset, size, length) = (number(&mut reader)?, number(&mut reader)?, number(&mut reader)?);
        let (name, tail) = reader.split_at_checked(length).ok_or("the bundle is truncated")?;
        reader = tail;
        let name = std::str::from_utf8(name).map_err(|e| e.to_string())?;
        let elf = bundle.get(offset..offset + size).ok_or("the bundle is truncated")?;
        if let Some(arch) = name.strip_prefix("hipv4-amdgcn-amd-amdhsa--") {
            found.push(CodeObject { arch, elf });
        }
    }
    Ok(found)
}

/// The kernels of a code object, from its metadata: the AMDGPU note, in MessagePack.
pub fn kernels(elf: &[u8]) -> Result<Vec<Kernel>, String> {
    let file = object::read::elf::ElfFile64::<object::Endianness>::parse(elf).map_err(|e| e.to_string())?;
    let note = file.section_by_name(".note").ok_or("the code object has no .note section")?;
    let mut metadata = metadata(note.data().map_err(|e| e.to_string())?).ok_or("the code object has no metadata")?;
    let root = rmpv::decode::read_value(&mut metadata).map_err(|e| e.to_string())?;
    let symbols: HashMap<&str, _> =
        file.dynamic_symbols().filter_map(|symbol| Some((symbol.name().ok()?, symbol))).collect();
    let mut kernels = Vec::new();
    for kernel in field(&root, "amdhsa.kernels").and_then(Value::as_array).into_iter().flatten() {
        let (mut args, mut hidden_args) = (Vec::new(), 0);
        for arg in field(kernel, ".args").and_then(Value::as_array).into_iter().flatten() {
            let kind = field(arg, ".value_kind").and_then(Value::as_str).unwrap_or_default();
            if kind.starts_with("hidden_") {
                hidden_args += 1;
            } else {
                args.push((number(arg, ".offset"), number(arg, ".size")));
            }
        }
        let name = field(kernel, ".name").and_then(Value::as_str).unwrap_or_default();
        let descriptor = field(kernel, ".symbol").and_then(Value::as_str).and_then(|symbol| symbols.get(symbol));
        let descriptor = descriptor.ok_or_else(|| format!("{name} has no descriptor"))?;
        kernels.push(Kernel {
            name: name.to_owned(),
            args,
            hidden_args,
            has_packet: has_packet(&file, descriptor.address())?,
            spills: (number(kernel, ".sgpr_spill_count"), number(kernel, ".vgpr_spill_count")),
            scratch: number(kernel, ".private_segment_fixed_size"),
            max_threads: number(kernel, ".max_flat_workgroup_size"),
            vgprs: number(kernel, ".vgpr_count"),
            sgprs: number(kernel, ".sgpr_count"),
            lds: number(kernel, ".group_segment_fixed_size"),
            wave: number(kernel, ".wavefront_size"),
            code_bytes: symbols.get(name).map_or(0, |symbol| symbol.size()),
        });
    }
    Ok(kernels)
}

/// The bit ENABLE_SGPR_DISPATCH_PTR of the kernel descriptor at an address; see "Kernel Descriptor" in LLVM's AMDGPU
/// guide.
fn has_packet<'a>(file: &impl Object<'a>, address: u64) -> Result<bool, String> {
    const DISPATCH_PTR: u16 = 1 << 1;
    const PROPERTIES: std::ops::Range<usize> = 56..58;
    let descriptor = file.sections().find_map(|section| section.data_range(address, 64).ok()?);
    let properties =
        descriptor.and_then(|bytes| bytes.get(PROPERTIES)).ok_or("a kernel's descriptor is in no section")?;
    Ok(u16::from_le_bytes([properties[0], properties[1]]) & DISPATCH_PTR != 0)
}

/// The contents of the note of type NT_AMDGPU_METADATA.
fn metadata(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let (header, rest) = notes.split_first_chunk::<12>()?;
        let word = |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]) as usize;
        let (name, contents, kind) = (word(0), word(4), word(8));
        let (name, rest) = rest.split_at_checked(name.next_multiple_of(4))?;
        if kind == 32 && name.starts_with(b"AMDGPU\0") {
            return rest.get(..contents);
        }
        notes = rest.get(contents.next_multiple_of(4)..)?;
    }
}

fn field<'a>(map: &'a Value, key: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
}

fn number(map: &Value, key: &str) -> u64 {
    field(map, key).and_then(Value::as_u64).unwrap_or(0)
}
