//! Checks the AMD code without an AMD GPU, for every architecture that this build embeds. It reads the code objects'
//! metadata and, if there is a disassembler (CANDLE_ROCM_OBJDUMP, else llvm-objdump beside the compiler or in PATH),
//! the disassembly.
//!
//! A build without code objects has none of these tests.
#[path = "../examples/support/code_object.rs"]
mod code_object;

use candle_rocm_sys::{MODULES, Module, Status, sys};
use candle_rocm_sys_tests::support::paths::SCRATCH;
use code_object::{CodeObject, Kernel};
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::{HashMap, HashSet};
use std::ffi::{CString, c_char, c_void};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Barrier, OnceLock};

/// Module, kernel and the widths of its arguments, tab-separated: every kernel of candle-kernels 0.11.1.
const PARITY: &str = include_str!("parity/candle-kernels-0.11.1.tsv");

/// A module's code object for one architecture.
struct Subject {
    module: &'static str,
    object: CodeObject,
    /// The disassembler to use, if there is one.
    disassembler: Option<Arc<Disassembler>>,
    disassembly: OnceLock<Result<Disassembly, String>>,
}

/// The instructions of each kernel, one text line each.
type Disassembly = HashMap<String, Vec<String>>;

struct Disassembler {
    path: PathBuf,
}

type Check = fn(&Subject) -> Result<(), Failed>;

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let images = images_asked_for_at_once();
    let mut disassemblers: HashMap<&str, Option<Arc<Disassembler>>> = HashMap::new();
    for module in MODULES {
        let objects = match code_object::code_objects(module.hsaco()) {
            Ok(objects) => objects,
            Err(message) => {
                let name = format!("{}::bundle", module.name());
                trials.push(Trial::test(name, move || Err(message.into())));
                continue;
            }
        };
        for object in objects {
            let disassembler = disassemblers.entry(object.arch).or_insert_with(|| find_disassembler(&object)).clone();
            let subject =
                Arc::new(Subject { module: module.name(), object, disassembler, disassembly: OnceLock::new() });
            let mut add = |name: &str, check: Check| {
                let subject = subject.clone();
                let name = format!("{}::{}::{name}", object.arch, module.name());
                trials.push(Trial::test(name, move || check(&subject)));
            };
            add("is_for_this_architecture", is_for_this_architecture);
            add("is_unpacked_alone", is_unpacked_alone);
            if PARITY.lines().any(|line| line.split('\t').next() == Some(module.name())) {
                add("has_every_kernel_with_its_arguments", has_every_kernel_with_its_arguments);
            }
            add("neither_spills_nor_uses_scratch", neither_spills_nor_uses_scratch);
            add("has_launch_bounds", has_launch_bounds);
            add("reads_no_packet", reads_no_packet);
            add("leaves_room_for_other_waves", leaves_room_for_other_waves);
            add("fits_the_instruction_cache", fits_the_instruction_cache);
            if subject.kernels().is_ok_and(|kernels| kernels.iter().any(|k| k.name.ends_with("_vec"))) {
                add("reads_or_writes_16_bytes_at_once", reads_or_writes_16_bytes_at_once);
            }
            if module.name() == "random" {
                add("writes_16_bytes_at_once", writes_16_bytes_at_once);
            }
            if ["reduce_dims", "norm", "rope"].contains(&module.name()) {
                add("reduces_in_registers", reduces_in_registers);
            }
            add("divides_no_index", divides_no_index);
            add("has_no_flat_memory_access", has_no_flat_memory_access);
            if ["quantized", "quantized_vec", "quantized_mat", "moe"].contains(&module.name()) {
                add(
                    "multiplies_bytes_by_the_instructions_of_its_line",
                    multiplies_bytes_by_the_instructions_of_its_line,
                );
            }
            if module.name() == "matmul" {
                add("adds_two_products_where_its_line_says", adds_two_products_where_its_line_says);
            }
            if ["attention", "conv_cores", "matmul", "moe"].contains(&module.name()) {
                add("multiplies_by_its_matrix_cores", multiplies_by_its_matrix_cores);
            }
        }
    }
    if trials.is_empty() {
        let message = "this build has no code objects: is CANDLE_ROCM_NO_KERNELS set?";
        trials.push(Trial::test("there_are_code_objects", || Err(message.into())));
    } else {
        trials.push(Trial::test("every_thread_gets_the_same_images", move || {
            let same = images.iter().all(|of_thread| *of_thread == images[0]);
            if same { Ok(()) } else { Err(format!("{images:?}").into()) }
        }));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// The address and length of each module's image, as several threads see them. They are the first in this process to
/// ask for it.
fn images_asked_for_at_once() -> Vec<Vec<(usize, usize)>> {
    const THREADS: usize = 8;
    let begin = Barrier::new(THREADS);
    let image = |module: Module| (module.hsaco().as_ptr() as usize, module.hsaco().len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    begin.wait();
                    MODULES.map(image).to_vec()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    })
}

extern "C" {
    static crk_priv_images_hip: [sys::crk_image_t; MODULES.len()];
    fn crk_priv_unpack_elf(
        module: *const c_char,
        architecture: *const c_char,
        data: *const c_void,
        bytes: usize,
        elf: *mut sys::crk_image_t,
    ) -> Status;
    fn crk_priv_aligned_free(ptr: *mut c_void);
}

/// A device of this architecture loads only its own entry of the bundle, which is a small part of it in the binary.
fn is_unpacked_alone(subject: &Subject) -> Result<(), Failed> {
    let index = MODULES.iter().position(|module| module.name() == subject.module).ok_or("no such module")?;
    let architecture = CString::new(subject.object.arch)?;
    let mut elf = sys::crk_image_t { data: std::ptr::null(), bytes: 0 };
    // SAFETY: build.rs embedded the image; the ELF is written on success, and freed once.
    unsafe {
        let packed = crk_priv_images_hip[index];
        let status = crk_priv_unpack_elf(c"test".as_ptr(), architecture.as_ptr(), packed.data, packed.bytes, &mut elf);
        if status != Status::Ok {
            return Err(format!("{status:?}").into());
        }
        let same = std::slice::from_raw_parts(elf.data.cast::<u8>(), elf.bytes) == subject.object.elf;
        crk_priv_aligned_free(elf.data.cast_mut());
        let whole = MODULES[index].hsaco().len();
        match (same, packed.bytes * 3 < whole) {
            (false, _) => Err("other bytes than in the bundle".into()),
            (_, false) => Err(format!("{} bytes of {whole} are embedded", packed.bytes).into()),
            _ => Ok(()),
        }
    }
}

impl Subject {
    fn kernels(&self) -> Result<Vec<Kernel>, Failed> {
        Ok(code_object::kernels(self.object.elf)?)
    }

    /// The instructions of every kernel, by name.
    fn all_kernels(&self) -> Result<Vec<(&str, &[String])>, Failed> {
        let disassembly = self.disassembly.get_or_init(|| match &self.disassembler {
            Some(disassembler) => disassembler.run(&self.object),
            None => Err(format!("no llvm-objdump knows {}; CANDLE_ROCM_OBJDUMP names one", self.object.arch)),
        });
        let disassembly = disassembly.as_ref().map_err(|message| Failed::from(message.clone()))?;
        let mut found: Vec<(&str, &[String])> =
            disassembly.iter().map(|(name, instructions)| (name.as_str(), instructions.as_slice())).collect();
        found.sort();
        Ok(found)
    }

    /// The instructions of the launchers' own kernels, by name.
    fn launched_kernels(&self) -> Result<Vec<(&str, &[String])>, Failed> {
        let named = named_roots();
        Ok(self.all_kernels()?.into_iter().filter(|(name, _)| !named.contains(root_of(name))).collect())
    }
}

/// The ELF's flags name the processor that it is for.
fn is_for_this_architecture(subject: &Subject) -> Result<(), Failed> {
    const EM_AMDGPU: u16 = 224;
    let elf = subject.object.elf;
    let machine = elf.get(18..20).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    let flags = elf.get(48..52).map(|bytes| bytes[0]);
    let expected = subject.object.architecture()?.machine;
    if machine != Some(EM_AMDGPU) || flags != Some(expected) {
        return Err(format!("ELF machine {machine:?}, processor {flags:#x?}, expected {expected:#x}").into());
    }
    Ok(())
}

/// Every kernel of Candle is there by its name, and its arguments have the right sizes and offsets.
fn has_every_kernel_with_its_arguments(subject: &Subject) -> Result<(), Failed> {
    let kernels: HashMap<String, Kernel> = subject.kernels()?.into_iter().map(|k| (k.name.clone(), k)).collect();
    let mut report = Report::default();
    let mut expected = 0;
    for line in PARITY.lines() {
        let mut columns = line.split('\t');
        let (Some(module), Some(name), Some(widths)) = (columns.next(), columns.next(), columns.next()) else {
            return Err(format!("the parity table has a line of other columns: {line}").into());
        };
        if module != subject.module {
            continue;
        }
        expected += 1;
        // Each argument is at the next multiple of its own size.
        let mut offset = 0;
        let mut args = Vec::new();
        for width in widths.split(' ') {
            let size = size_of_width(width)?;
            offset = u64::next_multiple_of(offset, size);
            args.push((offset, size));
            offset += size;
        }
        match kernels.get(name) {
            None => report.add(name, "is missing"),
            Some(kernel) if kernel.args != args => {
                report.add(name, &format!("has arguments (offset, size) {:?}, expected {args:?}", kernel.args));
            }
            Some(_) => {}
        }
    }
    if expected == 0 {
        return Err("the parity table has no kernel of this module".into());
    }
    report.result()
}

fn size_of_width(width: &str) -> Result<u64, Failed> {
    Ok(match width {
        "u8" | "bytes1" => 1,
        "u16" | "bytes2" => 2,
        "u32" | "f32" => 4,
        "u64" | "f64" => 8,
        _ => return Err(format!("the parity table has a width {width:?}").into()),
    })
}

fn neither_spills_nor_uses_scratch(subject: &Subject) -> Result<(), Failed> {
    let mut report = Report::default();
    for kernel in subject.kernels()? {
        let ((scalar, vector), scratch) = (kernel.spills, kernel.scratch);
        if (scalar, vector, scratch) != (0, 0, 0) {
            let text = format!("spills {scalar} scalar and {vector} vector registers, uses {scratch} bytes of scratch");
            report.add(&kernel.name, &text);
        }
    }
    report.result()
}

/// By Candle's name a block may have 1024 threads, as Candle launches it; Candle's quantized kernels have one smaller
/// block size each. The launchers' kernels state their smaller blocks, so that the compiler can give each thread more
/// registers. Only norms of the widest rows need blocks of 1024: with waves of 64 lanes they hold two packs per thread.
fn has_launch_bounds(subject: &Subject) -> Result<(), Failed> {
    let mut report = Report::default();
    let roots = named_roots();
    for kernel in subject.kernels()? {
        let by_name = roots.contains(root_of(&kernel.name));
        let candles_own = by_name && subject.module == "quantized";
        let widest = ["one_shot_norm_", "marked_norm_"].iter().any(|start| kernel.name.starts_with(start))
            || kernel.name.contains("norm_")
                && (kernel.name.ends_with("_few") || kernel.wave == 64 && kernel.name.ends_with("_wide"));
        if !candles_own && (by_name || widest) != (kernel.max_threads == 1024) {
            report.add(&kernel.name, &format!("is for blocks of {} threads", kernel.max_threads));
        }
    }
    report.result()
}

/// The launchers' kernels know their geometry or get it as arguments. So they read neither the dispatch packet, which
/// is in host memory, nor hidden arguments of the compiler with the packet's sizes. Kernels by name get only Candle's
/// arguments and any geometry, so they need the packet to find their elements. Older compilers pass the packet's
/// address even to kernels that do not read it.
fn reads_no_packet(subject: &Subject) -> Result<(), Failed> {
    // These have one block of 32 threads per row, and a block's number is the row's.
    const OF_ONE_GEOMETRY: &str = "dequantize_mul_mat_vec_q5_k";
    let mut report = Report::default();
    let roots = named_roots();
    for kernel in subject.kernels()? {
        let by_name = roots.contains(root_of(&kernel.name));
        if kernel.hidden_args != 0 {
            report.add(&kernel.name, &format!("has {} arguments that the compiler adds", kernel.hidden_args));
        }
        if kernel.has_packet && !by_name && !is_old(subject) {
            report.add(&kernel.name, "reads the launch's packet");
        } else if by_name && !kernel.has_packet && kernel.name != OF_ONE_GEOMETRY {
            report.add(&kernel.name, "does not read its geometry from the launch's packet");
        }
    }
    report.result()
}

/// Whether a compiler before clang 21 made the code object.
fn is_old(subject: &Subject) -> bool {
    code_object::clang_version(subject.object.elf).is_some_and(|version| version < 21)
}

/// The roots of the kernels that are launched by name, without the dtypes: Candle's kernels, and the element-wise ops
/// that Candle lacks.
fn named_roots() -> HashSet<&'static str> {
    let candles = PARITY.lines().filter_map(|line| line.split('\t').nth(1)).map(root_of);
    let own = sys::CRK_UNARY_ROOTS.iter().chain(&sys::CRK_BINARY_ROOTS).chain(&sys::CRK_CMP_ROOTS);
    candles.chain(own.copied()).collect()
}

/// The least number of waves that a SIMD unit must hold at once, which hides the latency of memory. Fields: the
/// architectures (waves of 64 lanes, or 1024 registers per lane as on RDNA 1 and 2 and the small RDNA 3 chips, or all),
/// the module, a part of the kernel's name, the number. The first line that fits counts; all other kernels must reach
/// 8. Half is enough on architectures with 256 registers per lane (GCN, the first CDNA).
const LEAST_WAVES: &[(&str, &str, &str, u64)] = &[
    // A thread has four ids and four elements on their way, and the places of four updates.
    ("64 lanes", "indexing", "_shared", 5),
    // Powers and normal distributions in f64 are limited by arithmetic.
    ("64 lanes", "unary", "_f64_nd", 6),
    // The error function of eight elements: 65 registers.
    ("64 lanes", "gate", "gelu_erf_bf16_nd", 7),
    // The pairs of a row are in registers.
    ("64 lanes", "sort", "argsort_many", 3),
    ("64 lanes", "sort", "argsort_merge", 3),
    // Eight windows of four elements in f32: clang 21 uses 68 registers on gfx906 and gfx908, and 64 elsewhere.
    ("64 lanes", "conv", "avg_pool2d_f8_e4m3_rows", 7),
    // Candle's tiles have 128 threads, each with a column of sums in registers.
    ("64 lanes", "quantized", "mul_mat_q", 1),
    ("", "quantized", "mul_mat_q", 2),
    // Up to eight sums of four rows per thread.
    ("64 lanes", "quantized", "", 3),
    // A tile's sums are in registers, and its operands in shared memory.
    ("64 lanes", "quantized_mat", "", 1),
    ("", "quantized_mat", "_128x64_tiles", 4),
    ("", "quantized_mat", "_128x128_tiles", 4),
    ("1024 registers", "quantized_mat", "_64x32_tiles", 7),
    // A thread's activations are in registers, and those of several columns also in shared memory. There are 2 KiB for
    // each of 32 waves. A step of q8_0, with one piece per lane, is 2176 bytes, and one of q6_K with the sums of two
    // columns is 2064.
    ("64 lanes", "quantized_vec", "_x8", 2),
    ("64 lanes", "quantized_vec", "_x4", 5),
    ("64 lanes", "quantized_vec", "q6_K_x2", 7),
    ("64 lanes", "quantized_vec", "q8_0_x", 6),
    ("64 lanes", "quantized_vec", "gate_mat_vec_q8_0", 6),
    ("64 lanes", "quantized_vec", "rope_mat_vec_q8_0", 6),
    ("64 lanes", "quantized_vec", "rope_i_mat_vec_q8_0", 6),
    ("64 lanes", "moe", "moe_vec_q8_0_1", 6),
    ("64 lanes", "moe", "moe_gate_q8_0", 6),
    // Scalar registers hold the addresses of the rows of an expert or of two matrices.
    ("64 lanes", "quantized_vec", "gate_mat_vec_", 7),
    ("64 lanes", "moe", "moe_gate_", 7),
    ("64 lanes", "moe", "moe_vec_q4_K_1", 7),
    ("64 lanes", "moe", "moe_vec_q6_K_1", 7),
    ("1024 registers", "quantized_vec", "q6_K_x1", 7),
    ("1024 registers", "quantized_vec", "gate_mat_vec_q6_K", 7),
    ("1024 registers", "quantized_vec", "rope_mat_vec_q6_K", 7),
    ("1024 registers", "quantized_vec", "rope_i_mat_vec_q6_K", 7),
    ("1024 registers", "moe", "moe_gate_q6_K", 7),
    ("1024 registers", "quantized_vec", "_x8", 5),
    ("1024 registers", "quantized_vec", "_x4", 5),
    // The probabilities and the keys of sixteen experts per lane. The codes of two rows, and those of four tokens or
    // the sums of eight. Sixteen sums of a tile per thread, and the numbers and addresses of the next tile. Shared
    // memory, for launches of one block.
    ("64 lanes", "moe", "moe_route_16", 6),
    ("64 lanes", "moe", "moe_router_", 6),
    ("64 lanes", "moe", "_4", 4),
    ("64 lanes", "moe", "_8", 4),
    ("64 lanes", "moe", "_64", 2),
    ("64 lanes", "moe", "_128", 2),
    ("64 lanes", "moe", "moe_tiles_", 3),
    ("64 lanes", "moe", "moe_counts", 7),
    ("64 lanes", "moe", "moe_starts", 7),
    ("1024 registers", "moe", "_8", 6),
    ("1024 registers", "moe", "q3_K_4", 7),
    ("1024 registers", "moe", "moe_vec_q6_K_1", 7),
    ("1024 registers", "moe", "moe_tiles_", 4),
    ("", "moe", "moe_tiles_", 6),
    // A tile's sums are in registers, up to 64 per thread, with the next step of both operands.
    ("64 lanes", "matmul", "_128x128", 2),
    ("64 lanes", "matmul", "_64x64", 2),
    // A block is one wave, with 9 KiB of shared memory.
    ("64 lanes", "matmul", "_32x32", 2),
    ("64 lanes", "matmul", "_tiles", 3),
    ("64 lanes", "matmul", "_vec", 5),
    ("64 lanes", "matmul", "matmul_gate_", 7),
    ("64 lanes", "matmul", "_wide_rope", 7),
    ("1024 registers", "matmul", "_tiles", 4),
    ("", "matmul", "_tiles", 6),
    ("64 lanes", "conv_cores", "_cores", 2),
    ("1024 registers", "conv_cores", "_cores", 4),
    ("", "conv_cores", "_cores", 5),
    // The scores, weights and sums of a team's queries are in registers, up to 512 columns of them.
    ("64 lanes", "attention", "_64_tiles", 2),
    ("64 lanes", "attention", "_96_tiles", 2),
    ("64 lanes", "attention", "_tiles64", 2),
    ("64 lanes", "attention", "", 1),
    ("1024 registers", "attention", "", 3),
    ("", "attention", "", 4),
    ("64 lanes", "attention_split", "", 1),
    // A thread has two lines of a row, and waits for those of four ranks. A launch has few blocks, one for each row.
    ("64 lanes", "comm", "one_shot_norm_", 6),
    // The sums of the block's waves meet in 32 KiB of shared memory.
    ("", "attention_split", "_512_split", 2),
    ("", "attention_split", "", 4),
];

/// The same for compilers before clang 21 (tested: clang 15 and 19). For their modules this list is searched first.
const LEAST_WAVES_OF_OLD: &[(&str, &str, &str, u64)] = &[
    ("64 lanes", "unary", "_f64_nd", 4),
    ("64 lanes", "attention", "f32_96_tiles", 1),
    ("64 lanes", "reduce_dims", "_dense", 6),
    ("64 lanes", "reduce_dims", "_u8_even", 6),
    ("64 lanes", "norm", "layernorm_bf16_", 7),
    ("64 lanes", "gate", "gelu_f64_nd", 7),
    ("64 lanes", "gate", "gelu_erf_f64_nd", 4),
    ("64 lanes", "rope", "qkv_bf16_vec", 7),
    ("64 lanes", "rope", "norm_rope_qkv_", 7),
    ("64 lanes", "reduce_dims", "_bf16_even", 6),
    ("64 lanes", "rope", "rope_bf16_heads2", 7),
    ("64 lanes", "rope", "rope_i_bf16_heads2", 7),
    ("64 lanes", "quantized", "mul_mat_vec_q5_K_q8_1_cuda8", 2),
    ("64 lanes", "quantized_vec", "_x4", 4),
    ("64 lanes", "quantized_vec", "q3_K_x1", 7),
    ("64 lanes", "quantized_vec", "q4_K_x1", 7),
    ("64 lanes", "quantized_vec", "q4_K_x2", 7),
    ("64 lanes", "quantized_vec", "q5_K_x1", 7),
    ("64 lanes", "quantized_vec", "q6_K_x1", 7),
    ("64 lanes", "quantized_vec", "q5_K_x2", 7),
    ("64 lanes", "quantized_vec", "q2_K_x2", 7),
    ("64 lanes", "conv_cores", "bf16_160x128", 1),
    ("64 lanes", "moe", "moe_vec_q5_K_1", 7),
    ("64 lanes", "moe", "_128", 1),
    ("1024 registers", "moe", "_4", 7),
    ("64 lanes", "comm", "one_shot_norm_", 5),
];

fn leaves_room_for_other_waves(subject: &Subject) -> Result<(), Failed> {
    let mut report = Report::default();
    let simd = subject.object.architecture()?.simd;
    let few_registers = simd.registers == 256;
    let is_old = is_old(subject);
    for kernel in subject.kernels()? {
        let fits = |(kind, module, part, _): &&(&str, &str, &str, u64)| {
            let of_kind = match *kind {
                "64 lanes" => simd.lanes == 64,
                "1024 registers" => simd.registers == 1024,
                _ => true,
            };
            of_kind && *module == subject.module && kernel.name.contains(part)
        };
        let of_old: &[_] = if is_old { LEAST_WAVES_OF_OLD } else { &[] };
        let least = of_old.iter().chain(LEAST_WAVES).find(fits).map_or(8, |line| line.3);
        let least = if few_registers { (least / 2).max(1) } else { least };
        let waves = kernel.waves_per_simd(&simd);
        if waves < least {
            let (vgprs, sgprs, lds) = (kernel.vgprs, kernel.sgprs, kernel.lds);
            report.add(
                &kernel.name,
                &format!(
                    "leaves room for {waves} waves a SIMD unit, not {least}: {vgprs} vector registers, {sgprs} scalar \
                     ones, {lds} bytes of shared memory"
                ),
            );
        }
    }
    report.result()
}

/// A kernel fits into 32 KiB, the smallest instruction cache here, which two or three compute units share. The tiles of
/// a matrix product are one long unrolled step, which gfx1201's compiler makes a little longer. Attention's kernels
/// with all options of a score have the longest steps.
fn fits_the_instruction_cache(subject: &Subject) -> Result<(), Failed> {
    let mut report = Report::default();
    for kernel in subject.kernels()? {
        let most = match &*kernel.name {
            name if name.starts_with("attention_") && name.ends_with("_general") => 48 << 10,
            name if name.starts_with("attention_") => 44 << 10,
            name if name.ends_with("_tiles") || name.ends_with("_cores") => 36 << 10,
            _ => 32 << 10,
        };
        if kernel.code_bytes == 0 || kernel.code_bytes > most {
            report.add(&kernel.name, &format!("has {} bytes of code", kernel.code_bytes));
        }
    }
    report.result()
}

/// A kernel's name without the dtypes at its end.
fn root_of(kernel: &str) -> &str {
    const DTYPES: &[&str] =
        &["u8", "u32", "i16", "i32", "i64", "bf16", "f16", "f32", "f64", "f8e4m3", "f8_e4m3", "fp8_e4m3"];
    let shorter = |name: &'_ str| DTYPES.iter().find_map(|t| name.strip_suffix(t)?.strip_suffix('_').map(str::len));
    let mut length = kernel.len();
    while let Some(shorter) = shorter(&kernel[..length]) {
        length = shorter;
    }
    &kernel[..length]
}

/// Contiguous kernels read 16 bytes per thread at once, in at least one loop. Kernels that read nothing (a fill, an
/// integer function that is 0) write 16 bytes. A result narrower than its source is written in narrower pieces, and a
/// source half as wide as the result of a cast is read in pieces of 8 bytes: so no access has gaps.
fn reads_or_writes_16_bytes_at_once(subject: &Subject) -> Result<(), Failed> {
    let mut report = Report::default();
    let mut seen = 0;
    for (name, instructions) in subject.launched_kernels()? {
        if !name.ends_with("_vec") {
            continue;
        }
        seen += 1;
        let has = |wanted: &[&str]| instructions.iter().any(|line| wanted.iter().any(|start| line.starts_with(start)));
        let stores_16 = has(&["global_store_dwordx4", "global_store_b128"]);
        let is_narrow = reads_single_bytes(name) || (name.starts_with("cast_") && stores_16);
        if !has(&["global_load_"]) {
            if !stores_16 {
                report.add(name, "reads nothing and has no 128-bit global store");
            }
        } else if !has(&["global_load_dwordx4", "global_load_b128"]) && !is_narrow {
            report.add(name, "has no 128-bit global load");
        }
    }
    if seen == 0 {
        return Err("the module has no contiguous kernel".into());
    }
    report.result()
}

/// Random draws read only their state.
fn writes_16_bytes_at_once(subject: &Subject) -> Result<(), Failed> {
    let mut report = Report::default();
    let draws = ["random_uniform_", "random_normal_"];
    let mut seen = 0;
    for (name, instructions) in subject.all_kernels()? {
        if draws.iter().any(|start| name.starts_with(start)) {
            seen += 1;
            let wide = ["global_store_dwordx4", "global_store_b128"];
            if !instructions.iter().any(|line| wide.iter().any(|start| line.starts_with(start))) {
                report.add(name, "has no 128-bit global store");
            }
        }
    }
    if seen != 8 {
        return Err(format!("the module has {seen} draws").into());
    }
    report.result()
}

/// Lanes exchange values by DPP and similar instructions, not through shared memory. Kernels with more lanes than a
/// group wait for the others at most twice. Rows are read 16 bytes at once.
fn reduces_in_registers(subject: &Subject) -> Result<(), Failed> {
    // These kernels read no tensor, or single elements, or several neighbouring outputs per thread.
    const READ_LESS: &[&str] = &["_join", "_strided", "_columns", "_pair"];
    let mut report = Report::default();
    let launched = subject.launched_kernels()?;
    for (name, instructions) in &launched {
        let count = |starts: &[&str]| {
            instructions.iter().filter(|line| starts.iter().any(|start| line.starts_with(start))).count()
        };
        let barriers = match count(&["s_barrier_wait"]) {
            0 => count(&["s_barrier"]),
            waits => waits,
        };
        if barriers > 2 {
            report.add(name, &format!("has {barriers} barriers"));
        }
        if count(&["ds_bpermute", "ds_permute"]) > 0 {
            report.add(name, "exchanges by ds_bpermute");
        }
        let less = READ_LESS.iter().any(|end| name.ends_with(end));
        if !less && count(&["global_load_dwordx4", "global_load_b128"]) == 0 {
            report.add(name, "has no 128-bit global load");
        }
    }
    if launched.is_empty() {
        return Err("the module has no launcher's kernel".into());
    }
    report.result()
}

/// A cast from one byte to a wider type. It reads only as much at once as lets a wave write without gaps.
fn reads_single_bytes(name: &str) -> bool {
    let from_byte = ["cast_u8_", "cast_f8_e4m3_"].iter().find_map(|source| name.strip_prefix(source));
    from_byte.is_some_and(|to| !to.starts_with("u8") && !to.starts_with("f8"))
}

/// The launchers' kernels find coordinates by multiplication and shift. An integer division by a run-time value leaves
/// known traces: AMD GPUs have no such instruction, so LLVM starts from a floating-point reciprocal of the divisor,
/// `v_rcp_iflag_f32`, or scales one by just below 2^32 or 2^64. Floating-point divisions of elements look different.
fn divides_no_index(subject: &Subject) -> Result<(), Failed> {
    const TRACES: &[&str] = &["v_rcp_iflag_f32", "v_s_rcp_iflag", "0x4f7ffffe", "0x5f7ffffc", "0x5f800000"];
    // The formulas of these kernels contain a division, or a function that is computed with a reciprocal.
    const DIVIDING: &[&str] =
        &["bdiv", "urecip", "usigmoid", "usilu", "ugelu", "utanh", "uerf", "uelu", "upowf", "unormcdf"];
    const INTEGERS: &[&str] = &["u8", "u32", "i16", "i32", "i64"];
    const ELEMENTWISE: &[&str] = &["affine", "binary", "cast", "fill", "ternary"];
    let mut report = Report::default();
    for (name, instructions) in subject.launched_kernels()? {
        let root = name.split('_').next().unwrap_or_default();
        if root == "bdiv" && name.split('_').any(|part| INTEGERS.contains(&part)) {
            continue;
        }
        if let Some(line) = instructions.iter().find(|line| TRACES.iter().any(|trace| line.contains(trace))) {
            report.add(name, &format!("divides integers: {line}"));
        } else if ELEMENTWISE.contains(&subject.module) && !DIVIDING.contains(&root) {
            if let Some(line) =
                instructions.iter().find(|line| line.starts_with("v_rcp_") || line.starts_with("v_s_rcp"))
            {
                report.add(name, &format!("has a reciprocal: {line}"));
            }
        }
    }
    report.result()
}

/// Every access names its memory. A flat instruction finds out itself whether its address is in global or in shared
/// memory, so a kernel waits for both. The compiler uses it where it does not know which memory a pointer points to:
/// for a vector of two pointers, or for a pointer that may be null. gfx7 and gfx8 load from global memory by nothing
/// else. Older compilers know less of pointers.
fn has_no_flat_memory_access(subject: &Subject) -> Result<(), Failed> {
    if is_old(subject) || ["gfx7", "gfx8"].iter().any(|start| subject.object.arch.starts_with(start)) {
        return Ok(());
    }
    let mut report = Report::default();
    for (name, instructions) in subject.all_kernels()? {
        let is_flat = |line: &str| ["flat_load_", "flat_store_", "flat_atomic_"].iter().any(|op| line.starts_with(op));
        let count = instructions.iter().filter(|line| is_flat(line)).count();
        // A block loads each of its query rows once; the pointer of a row that does not exist is null.
        let most = usize::from(subject.module == "attention_split");
        if count > most {
            report.add(name, &format!("has {count} flat accesses"));
        }
    }
    report.result()
}

/// How often an instruction occurs in a kernel. RDNA 3 puts some instructions in pairs on one line.
fn count_of(instructions: &[String], name: &str) -> usize {
    instructions.iter().map(|line| line.matches(name).count()).sum()
}

/// Integer products of quantized weights use the four-byte instruction of the architecture's line in the table, and no
/// other. They contain at least 8 of them in a loop over 32 elements; the module quantized_mat uses the matrix cores'
/// instruction.
fn multiplies_bytes_by_the_instructions_of_its_line(subject: &Subject) -> Result<(), Failed> {
    let line = subject.object.architecture()?;
    let mut report = Report::default();
    let mut seen = 0;
    for (name, instructions) in subject.all_kernels()? {
        if ["mul_mat_", "indexed_moe_", "moe_vec_"].iter().any(|start| name.starts_with(start)) {
            seen += 1;
            let count = |what: &str| count_of(instructions, what);
            let (signed, mixed) = (count("v_dot4_i32_i8") + count("v_dot4c_i32_i8"), count("v_dot4_i32_iu8"));
            let (mfma, wmma) = (count("v_mfma_i32_16x16x"), count("v_wmma_i32_16x16x16_iu8"));
            let (dots, other_dots) = match line.dot4 {
                "SIGNED" => (signed, mixed),
                "MIXED" => (mixed, signed),
                _ => (8, signed + mixed),
            };
            let (matrices, other_matrices) = match line.matrix {
                "MFMA1" | "MFMA2" | "MFMA3" | "MFMA4" => (mfma, wmma),
                "WMMA3" | "WMMA4" => (wmma, mfma),
                _ => (0, mfma + wmma),
            };
            let by_matrix = subject.module == "quantized_mat" && line.matrix != "NONE";
            let enough = if by_matrix { matrices > 0 } else { dots >= 8 };
            if !enough || other_dots + other_matrices > 0 {
                report.add(name, &format!("has {signed} signed and {mixed} mixed dot4, {mfma} MFMA, {wmma} WMMA"));
            }
        }
    }
    if seen == 0 {
        return Err("the module has no integer product".into());
    }
    report.result()
}

/// The products of a row with a matrix in 16-bit floats add two products at once where the architecture's line says so,
/// and nowhere else.
fn adds_two_products_where_its_line_says(subject: &Subject) -> Result<(), Failed> {
    let line = subject.object.architecture()?;
    let mut report = Report::default();
    let mut seen = 0;
    for (name, instructions) in subject.all_kernels()? {
        let expected = match (name, line.dot2) {
            // In the other kernels, neighbours along k are in different words.
            (name, _) if !["_rows_vec", "_wide_vec", "_wide_rope"].iter().any(|end| name.ends_with(end)) => continue,
            (name, dot2) if name.starts_with("matmul_f16_") => dot2 != "NONE",
            (name, dot2) if name.starts_with("matmul_bf16_") => dot2 == "BOTH",
            _ => continue,
        };
        seen += 1;
        let count = instructions.iter().filter(|line| line.contains("dot2")).count();
        if expected != (count > 0) {
            report.add(name, &format!("has {count} sums of two products"));
        }
    }
    if seen == 0 {
        return Err("the module has no product of 16-bit floats".into());
    }
    report.result()
}

/// Attention and the tiles of products use the matrix cores of the architecture's line, for their own type, and no
/// others. In f32 only CDNA has them, in f64 only CDNA 2 and later. Without matrix cores they add two products at once
/// where the line says so, in 16-bit floats.
fn multiplies_by_its_matrix_cores(subject: &Subject) -> Result<(), Failed> {
    let line = subject.object.architecture()?;
    let mut report = Report::default();
    let mut seen = 0;
    for (name, instructions) in subject.all_kernels()? {
        let in_tiles = name.ends_with("_tiles") || name.ends_with("_cores") || name.starts_with("moe_tiles_");
        if subject.module != "attention" && !in_tiles {
            continue;
        }
        // moe_tiles_q4_0_bf16_64, matmul_bf16_64x64_tiles, conv_transpose_bf16_64x64_cores
        let dtype = name.split('_').rfind(|part| ["bf16", "f16", "f32", "f64"].contains(part)).unwrap_or_default();
        seen += 1;
        // v_mfma_f32_16x16x16_f16, v_mfma_f32_16x16x16bf16_1k, v_mfma_f32_16x16x4f32, v_wmma_f32_16x16x16_bf16.
        let is_of_dtype = |line: &&String| {
            let name = line.split_whitespace().next().unwrap_or_default().trim_end_matches("_1k");
            name.ends_with(dtype) && name.ends_with("bf16") == (dtype == "bf16")
        };
        let count = |core: &str| instructions.iter().filter(|line| line.starts_with(core)).filter(is_of_dtype).count();
        let (mfma, wmma) = (count_of(instructions, "v_mfma_"), count_of(instructions, "v_wmma_"));
        let dots = count_of(instructions, "v_dot2");
        let right = match (dtype, line.matrix) {
            ("f32", "MFMA1" | "MFMA2" | "MFMA3" | "MFMA4") => mfma > 0 && count("v_mfma_f32_16x16x4") == mfma,
            ("f64", "MFMA2" | "MFMA3" | "MFMA4") => mfma > 0 && count("v_mfma_f64_16x16x4") == mfma,
            ("f32" | "f64", _) => mfma + wmma + dots == 0,
            (_, "MFMA1" | "MFMA2" | "MFMA3" | "MFMA4") => mfma > 0 && count("v_mfma_f32_16x16x") == mfma,
            (_, "WMMA3" | "WMMA4") => wmma > 0 && count("v_wmma_f32_16x16x16") == wmma,
            _ => {
                let pairs = line.dot2 == "BOTH" || line.dot2 == "F16" && dtype == "f16";
                mfma + wmma == 0 && pairs == (dots > 0)
            }
        };
        if !right {
            report.add(name, &format!("has {mfma} MFMA, {wmma} WMMA and {dots} sums of two products"));
        }
    }
    if seen == 0 {
        return Err("the module has no kernel".into());
    }
    report.result()
}

/// The problems found, one line per kernel. Only the first lines are kept.
#[derive(Default)]
struct Report {
    lines: String,
    count: usize,
}

impl Report {
    fn add(&mut self, kernel: &str, problem: &str) {
        self.count += 1;
        if self.count <= 20 {
            writeln!(self.lines, "{kernel} {problem}").unwrap();
        }
    }

    fn result(self) -> Result<(), Failed> {
        match self.count {
            0 => Ok(()),
            count => Err(format!("{count} kernels:\n{}", self.lines).into()),
        }
    }
}

/// A disassembler that knows the code object's architecture.
fn find_disassembler(object: &CodeObject) -> Option<Arc<Disassembler>> {
    let mut candidates = Vec::new();
    if let Some(path) = std::env::var_os("CANDLE_ROCM_OBJDUMP") {
        candidates.push(PathBuf::from(path));
    } else {
        let mut folders = Vec::new();
        if let Some(folder) = std::env::var_os("HIPCC").as_ref().and_then(|path| Path::new(path).parent()) {
            folders.extend([folder.to_owned(), folder.join("../llvm/bin"), folder.join("../lib/llvm/bin")]);
        }
        for root in ["ROCM_PATH", "HIP_PATH"].iter().filter_map(std::env::var_os).map(PathBuf::from) {
            let below = ["llvm/bin", "lib/llvm/bin", "bin", "core/lib/llvm/bin"];
            folders.extend(below.map(|folder| root.join(folder)));
        }
        let installed = ["/opt/rocm/llvm/bin", "/opt/rocm/lib/llvm/bin", "/opt/rocm/core/lib/llvm/bin"];
        folders.extend(installed.map(PathBuf::from));
        folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
        let names: Vec<String> = std::iter::once("llvm-objdump".to_owned())
            .chain((14..40).rev().map(|version| format!("llvm-objdump-{version}")))
            .collect();
        for folder in folders {
            candidates.extend(names.iter().map(|name| folder.join(name)).filter(|path| path.is_file()));
        }
    }
    let found = candidates.into_iter().map(|path| Disassembler { path }).find(|disassembler| {
        let disassembly = disassembler.run(object).unwrap_or_default();
        !disassembly.is_empty()
            && disassembly.values().all(|lines| {
                lines.iter().any(|line| line.starts_with("s_endpgm"))
                    && !lines.iter().any(|line| line.contains("<unknown>"))
            })
    });
    found.map(Arc::new)
}

impl Disassembler {
    fn run(&self, object: &CodeObject) -> Result<Disassembly, String> {
        let folder = Path::new(SCRATCH);
        // The address makes the file's name unique in this process.
        let path = folder.join(format!("{}-{:p}.elf", std::process::id(), object.elf));
        std::fs::write(&path, object.elf).map_err(|e| format!("{}: {e}", path.display()))?;
        let output = Command::new(&self.path).args(["-d", "--no-show-raw-insn"]).arg(&path).output();
        std::fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let output = output.map_err(|e| format!("{}: {e}", self.path.display()))?;
        if !output.status.success() {
            return Err(format!("{}: {}", self.path.display(), String::from_utf8_lossy(&output.stderr)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut disassembly = Disassembly::new();
        let mut current = None;
        for line in text.lines() {
            // `0000000000001900 <affine_f32>:` begins a function; its instructions are indented.
            if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
                current = Some(disassembly.entry(name.1.to_owned()).or_default());
            } else if let Some(instructions) = current.as_mut().filter(|_| line.starts_with(['\t', ' '])) {
                let instruction = line.split("//").next().unwrap_or_default().trim();
                instructions.push(instruction.to_owned());
            }
        }
        Ok(disassembly)
    }
}
