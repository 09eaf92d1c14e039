//! The platform layer as a kernel sees it, tested with a user module: tests/probe/probe.hip.
//!
//! For the CPU the module is the shared library that `CANDLE_ROCM_CPU_PROBE` names. Without that variable it is
//! compiled here, with the C++ compiler that `CXX` names (`c++` otherwise) and the flags in `CXXFLAGS`. For other
//! devices it is the code object that `CANDLE_ROCM_PROBE` names; without that variable their trials are left out. A
//! trial is a feature on a device: `probe/cpu:64/shuffles`.

use crate::support;
use crate::support::paths::SCRATCH;
use crate::support::{Target, cpu_module};
use candle_rocm_sys::{Arg, Backend, Buffer, Device, Launch, Pod, Status, sys};
use libtest_mimic::{Failed, Trial};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

type Outcome = Result<(), String>;

/// A device with the probe module loaded.
struct Probe {
    device: Device,
    wave: u32,
    on_cpu: bool,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Returns the sentence as an error unless `$condition` holds.
macro_rules! ensure {
    ($condition:expr, $($sentence:tt)+) => {
        if !$condition {
            return Err(format!($($sentence)+));
        }
    };
}

impl Probe {
    fn open(target: &Target) -> Result<Probe, String> {
        let device = target.device.clone();
        let info = device.info().map_err(text)?;
        let on_cpu = info.backend == Backend::Cpu;
        let given;
        let image = if on_cpu {
            cpu_module::probe()?
        } else {
            let path = std::env::var_os("CANDLE_ROCM_PROBE").ok_or("CANDLE_ROCM_PROBE names no code object")?;
            given = std::fs::read(&path).map_err(|error| format!("{path:?}: {error}"))?;
            &given
        };
        // SAFETY: compiled from the project's own source.
        unsafe { device.load_module("probe", image) }.map_err(text)?;
        Ok(Probe { device, wave: info.wave_size, on_cpu })
    }

    /// Launches a kernel of the module.
    fn run(&self, kernel: &str, grid: [u32; 3], block: [u32; 3], args: &[Arg<'_>]) -> Outcome {
        self.run_shared(kernel, grid, block, 0, args)
    }

    fn run_shared(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        args: &[Arg<'_>],
    ) -> Outcome {
        let function = self.device.function_named("probe", kernel).map_err(text)?;
        // SAFETY: every test below gives buffers as large as its kernel writes.
        unsafe { function.launch(Launch { grid, block, shared_bytes }, args) }.map_err(text)
    }

    fn upload<T: Pod>(&self, values: &[T]) -> Result<Buffer, String> {
        self.device.upload(values).map_err(text)
    }

    fn download<T: Pod>(buffer: &Buffer) -> Result<Vec<T>, String> {
        buffer.download().map_err(text)
    }
}

/// Numbers that differ in many bits.
fn numbers(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| (i ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b1)).collect()
}

fn product(dims: [u32; 3]) -> usize {
    dims.iter().map(|&dim| dim as usize).product()
}

/// Blocks around every wave width. The kernels treat none of them specially.
const BLOCKS: [[u32; 3]; 12] = [
    [1, 1, 1],
    [2, 1, 1],
    [31, 1, 1],
    [32, 1, 1],
    [33, 1, 1],
    [63, 1, 1],
    [64, 1, 1],
    [65, 1, 1],
    [100, 1, 1],
    [7, 5, 3],
    [1000, 1, 1],
    [16, 8, 8],
];

/// Compares two lists, and reports the first place where they differ.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &[T], expected: &[T]) -> Outcome {
    ensure!(found.len() == expected.len(), "{what}: {} values for {}", found.len(), expected.len());
    match found.iter().zip(expected).position(|(a, b)| a != b) {
        Some(at) => Err(format!("{what}: value {at} is {:?}, not {:?}", found[at], expected[at])),
        None => Ok(()),
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Kernels without barriers and wave operations
// ---------------------------------------------------------------------------------------------------------------------

fn geometry_of(probe: &Probe, kernel: &str, grid: [u32; 3], block: [u32; 3]) -> Outcome {
    let out = probe.upload(&vec![u32::MAX; product(grid) * product(block) * 14])?;
    probe.run(kernel, grid, block, &[(&out).into()])?;
    let mut expected = Vec::new();
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                for thread in 0..product(block) as u32 {
                    expected.extend([thread % block[0], thread / block[0] % block[1], thread / (block[0] * block[1])]);
                    expected.extend([x, y, z]);
                    expected.extend(block);
                    expected.extend(grid);
                    expected.extend([probe.wave, thread % probe.wave]);
                }
            }
        }
    }
    same(&format!("{kernel}, grid {grid:?}, block {block:?}"), &Probe::download::<u32>(&out)?, &expected)
}

fn geometry(probe: &Probe) -> Outcome {
    for kernel in ["probe_geometry", "probe_geometry_cooperative"] {
        for block in BLOCKS {
            for grid in [[1, 1, 1], [5, 1, 1], [3, 4, 5]] {
                geometry_of(probe, kernel, grid, block)?;
            }
        }
    }
    Ok(())
}

/// Every element is visited exactly once, however the work is divided.
fn elements(probe: &Probe) -> Outcome {
    for numel in [0, 1, 63, 64, 65, 1000, 4097, 100_003, 1_000_000, 3_000_001] {
        let values = numbers(numel);
        let before: Vec<u32> = (0..numel as u32).collect();
        let expected: Vec<u32> =
            before.iter().zip(&values).map(|(b, s)| b.wrapping_mul(3).wrapping_add(*s).wrapping_add(1)).collect();
        for (grid, block) in [(1, 1), ((numel as u32).div_ceil(1024).max(1), 1024), (77, 129)] {
            let (src, dst) = (probe.upload(&values)?, probe.upload(&before)?);
            let args = [Arg::from(numel), (&src).into(), (&dst).into()];
            probe.run("probe_elements", [grid, 1, 1], [block, 1, 1], &args)?;
            if numel != 0 {
                let what = format!("{numel} elements, {grid} blocks of {block}");
                same(&what, &Probe::download::<u32>(&dst)?, &expected)?;
            }
        }
    }
    Ok(())
}

fn arguments(probe: &Probe) -> Outcome {
    let mut nd = [0u8; 488];
    nd[184..192].copy_from_slice(&0x1122_3344_5566_7788u64.to_le_bytes());
    nd[392..400].copy_from_slice(&0x99aa_bbcc_ddee_ff00u64.to_le_bytes());
    let (f, out) = (probe.upload(&[0xdead_beefu32])?, probe.upload(&[0u64; 9])?);
    let plain =
        |value: u64, bytes: u32, is_pointer: bool| sys::crk_arg_t { data: std::ptr::null(), value, bytes, is_pointer };
    let args = [
        plain(0xab, 1, false),
        plain(u64::MAX - 5, 8, false),
        plain(0xcdef, 2, false),
        plain(1.5f32.to_bits().into(), 4, false),
        plain((-2.25f64).to_bits(), 8, false),
        plain(f.as_ptr() as u64, 8, true),
        plain(77, 4, false),
        sys::crk_arg_t { data: nd.as_ptr().cast(), value: 0, bytes: 488, is_pointer: false },
        plain(out.as_ptr() as u64, 8, true),
    ];
    let function = probe.device.function_named("probe", "probe_arguments").map_err(text)?;
    let one = sys::crk_dim3_t { x: 1, y: 1, z: 1 };
    // SAFETY: the arguments are the kernel's; `nd` outlives the call.
    support::succeeded(unsafe {
        sys::crk_launch(probe.device.raw(), function.raw(), one, one, 0, args.as_ptr(), args.len())
    })?;
    let expected = [
        0xab,
        u64::MAX - 5,
        0xcdef,
        1.5f32.to_bits().into(),
        (-2.25f64).to_bits(),
        0xdead_beef,
        77,
        0x1122_3344_5566_7788,
        0x99aa_bbcc_ddee_ff00,
    ];
    same("the arguments", &Probe::download::<u64>(&out)?, &expected)
}

fn atomics(probe: &Probe) -> Outcome {
    for (grid, block) in [(1, 1), (3, 100), (64, 256), (300, 1024)] {
        let threads = u64::from(grid * block);
        let (u, i) = (probe.upload(&[0, 0, u32::MAX, 0])?, probe.upload(&[0i32, 0])?);
        let (w, f, d) = (probe.upload(&[0u64])?, probe.upload(&[0f32])?, probe.upload(&[0f64])?);
        let args = [(&u).into(), (&i).into(), (&w).into(), (&f).into(), (&d).into()];
        probe.run("probe_atomics", [grid, 1, 1], [block, 1, 1], &args)?;
        let sum = threads * (threads - 1) / 2;
        let last = threads as i32 - 1;
        let (even, odd) = (last - last % 2, last - 1 + last % 2);
        let what = format!("{grid} blocks of {block}");
        same(&what, &Probe::download::<u32>(&u)?, &[sum as u32, last as u32, 7, threads as u32])?;
        same(&what, &Probe::download::<i32>(&i)?, &[even, -odd.max(0)])?;
        same(&what, &Probe::download::<u64>(&w)?, &[sum << 20])?;
        same(&what, &Probe::download::<f32>(&f)?, &[threads as f32])?;
        same(&what, &Probe::download::<f64>(&d)?, &[threads as f64 * 0.5])?;
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------------------------------------
// Kernels with barriers or wave operations
// ---------------------------------------------------------------------------------------------------------------------

/// Runs `check(grid, block, threads of a block, source values)` for every block, with few and with many blocks.
fn for_blocks(mut check: impl FnMut([u32; 3], [u32; 3], usize, Vec<u32>) -> Outcome) -> Outcome {
    for block in BLOCKS {
        for grid in [[1, 1, 1], [3, 2, 2], [40, 1, 1]] {
            let threads = product(block);
            check(grid, block, threads, numbers(product(grid) * threads))
                .map_err(|error| format!("grid {grid:?}, block {block:?}: {error}"))?;
        }
    }
    Ok(())
}

fn static_shared(probe: &Probe) -> Outcome {
    for_blocks(|grid, block, threads, values| {
        let (src, out) = (probe.upload(&values)?, probe.upload(&vec![0u32; values.len() * 2])?);
        probe.run("probe_static_shared", grid, block, &[(&src).into(), (&out).into()])?;
        let expected: Vec<u32> =
            values.chunks(threads).flat_map(|values| values.iter().rev().flat_map(|&value| [value, value])).collect();
        same("reversed", &Probe::download::<u32>(&out)?, &expected)
    })
}

fn dynamic_shared(probe: &Probe) -> Outcome {
    for_blocks(|grid, block, threads, values| {
        let (src, out) = (probe.upload(&values)?, probe.upload(&vec![0u32; values.len()])?);
        let args = [(&src).into(), (&out).into()];
        probe.run_shared("probe_dynamic_shared", grid, block, threads as u32 * 4, &args)?;
        let expected: Vec<u32> = values.chunks(threads).flat_map(|values| values.iter().rev().copied()).collect();
        same("reversed", &Probe::download::<u32>(&out)?, &expected)
    })
}

fn shuffles(probe: &Probe) -> Outcome {
    let wave = probe.wave as usize;
    for by in [0, 1, 2, 7, 16, 31, 32, 33, 63] {
        for_blocks(|grid, block, threads, values| {
            let (src, out) = (probe.upload(&values)?, probe.upload(&vec![0u64; values.len() * 8])?);
            let args = [(&src).into(), Arg::from(by as u32), (&out).into()];
            probe.run("probe_shuffles", grid, block, &args)?;
            let found = Probe::download::<u64>(&out)?;
            for (thread, found) in found.chunks(8).enumerate() {
                let first = thread - thread % threads % wave;
                let live = wave.min(threads - first % threads);
                let lane = thread - first;
                // A shuffle from a missing lane returns the lane's own value on the CPU, and anything on a GPU.
                let of = |source: usize| match source {
                    source if source >= wave => Some(values[thread]),
                    source if source < live => Some(values[first + source]),
                    _ => probe.on_cpu.then_some(values[thread]),
                };
                let wide = |value: u32| u64::from(value) << 32 | u64::from(!value);
                let (xor, up) = (of(lane ^ by), of(lane.wrapping_sub(by)));
                let (down, index) = (of(lane + by), of((lane * 5 + by) % wave));
                let expected = [
                    xor.map(u64::from),
                    up.map(u64::from),
                    down.map(u64::from),
                    index.map(u64::from),
                    xor.map(wide),
                    up.map(wide),
                    down.map(u64::from),
                    index.map(wide),
                ];
                for (kind, (found, expected)) in found.iter().zip(expected).enumerate() {
                    ensure!(
                        expected.is_none_or(|expected| *found == expected),
                        "shuffle {kind} by {by}: thread {thread} has {found:#x}, not {expected:x?}"
                    );
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The ballot of each thread's wave: `count` threads in blocks of `threads`, in waves of `wave`.
fn ballots(threads: usize, count: usize, wave: usize, predicate: impl Fn(usize) -> bool) -> Vec<u64> {
    let mut ballots = Vec::with_capacity(count);
    while ballots.len() < count {
        let first = ballots.len();
        let live = wave.min(threads - first % threads);
        let bits = (0..live).filter(|lane| predicate(first + lane)).fold(0, |bits, lane| bits | 1u64 << lane);
        ballots.resize(first + live, bits);
    }
    ballots
}

fn votes(probe: &Probe) -> Outcome {
    for mask in [0u32, 1, 0x11, 0xffff_ffff] {
        for_blocks(|grid, block, threads, values| {
            let (src, out) = (probe.upload(&values)?, probe.upload(&vec![0u64; values.len() * 3])?);
            probe.run("probe_votes", grid, block, &[(&src).into(), Arg::from(mask), (&out).into()])?;
            let yes = ballots(threads, values.len(), probe.wave as usize, |i| values[i] & mask != 0);
            let no = ballots(threads, values.len(), probe.wave as usize, |i| values[i] & mask == 0);
            let expected: Vec<u64> =
                yes.iter().zip(no).flat_map(|(&yes, no)| [yes, u64::from(yes != 0), u64::from(no == 0)]).collect();
            same("ballot, any, all", &Probe::download::<u64>(&out)?, &expected)
        })?;
    }
    Ok(())
}

/// A reduction over waves and one over barriers agree. Blocks need not be a multiple of a wave.
fn sums(probe: &Probe) -> Outcome {
    for_blocks(|grid, block, threads, values| {
        let (src, out) = (probe.upload(&values)?, probe.upload(&vec![0u32; product(grid)])?);
        probe.run("probe_sum", grid, block, &[(&src).into(), (&out).into()])?;
        let expected: Vec<u32> = values
            .chunks(threads)
            .map(|values| values.iter().fold(0u32, |sum, value| sum.wrapping_add(*value)))
            .collect();
        same("sums", &Probe::download::<u32>(&out)?, &expected)
    })
}

fn shared_atomics(probe: &Probe) -> Outcome {
    for_blocks(|grid, block, _, values| {
        let (src, bins) = (probe.upload(&values)?, probe.upload(&[0u32; 16])?);
        probe.run("probe_histogram", grid, block, &[(&src).into(), (&bins).into()])?;
        let mut expected = [0u32; 16];
        values.iter().for_each(|value| expected[*value as usize % 16] += 1);
        same("bins", &Probe::download::<u32>(&bins)?, &expected)
    })
}

fn early_exit(probe: &Probe) -> Outcome {
    for (modulus, leaves) in [(2, 0), (2, 1), (3, 2), (5, 0), (64, 63), (1000, 999)] {
        for_blocks(|grid, block, threads, values| {
            if threads < 2 {
                return Ok(());
            }
            let out = probe.upload(&vec![u64::MAX; values.len() * 3])?;
            let args = [Arg::from(modulus as u32), Arg::from(leaves as u32), (&out).into()];
            probe.run("probe_early_exit", grid, block, &args)?;
            let wave = probe.wave as usize;
            let stays = |thread: usize| thread % threads % modulus != leaves;
            let stayed = (0..threads).filter(|&thread| stays(thread)).count();
            let masks = ballots(threads, values.len(), wave, stays);
            for (thread, found) in Probe::download::<u64>(&out)?.chunks(3).enumerate() {
                if !stays(thread) {
                    same("who left", found, &[u64::MAX; 3])?;
                    continue;
                }
                let me = thread % threads;
                let next = me + 1 < threads && (me + 1) % wave != 0 && stays(thread + 1);
                ensure!(found[0] == masks[thread], "thread {thread}: ballot {:#x}, not {:#x}", found[0], masks[thread]);
                let shuffled = if next { me + 1 } else { me } as u64;
                ensure!(
                    found[1] == shuffled || (!next && !probe.on_cpu),
                    "thread {thread}: the next lane's number is {}, not {shuffled}",
                    found[1]
                );
                ensure!(found[2] == stayed as u64, "thread {thread}: {} stayed, not {stayed}", found[2]);
            }
            Ok(())
        })
        .map_err(|error| format!("every {modulus}th thread leaves: {error}"))?;
    }
    Ok(())
}

fn waves_apart(probe: &Probe) -> Outcome {
    let block = [probe.wave * 5, 1, 1];
    let out = probe.upload(&vec![0u32; product(block) * 40])?;
    probe.run("probe_waves_apart", [40, 1, 1], block, &[(&out).into()])?;
    let sum = |thread: u32| {
        let first = thread % block[0] / probe.wave * probe.wave;
        (first..first + probe.wave).sum()
    };
    let expected: Vec<u32> = (0..block[0] * 40).map(sum).collect();
    same("sums", &Probe::download::<u32>(&out)?, &expected)
}

fn never_meets(probe: &Probe) -> Outcome {
    for_blocks(|grid, block, threads, values| {
        let out = probe.upload(&vec![0u32; values.len()])?;
        probe.run("probe_never_meets", grid, block, &[(&out).into()])?;
        let expected: Vec<u32> = (0..values.len()).map(|i| (i % threads) as u32 * 2 + 1).collect();
        same("threads", &Probe::download::<u32>(&out)?, &expected)
    })
}

fn many_barriers(probe: &Probe) -> Outcome {
    for_blocks(|grid, block, threads, values| {
        let out = probe.upload(&vec![0u32; values.len()])?;
        probe.run("probe_rounds", grid, block, &[Arg::from(50u32), (&out).into()])?;
        let expected: Vec<u32> = (0..values.len()).map(|i| ((i % threads + 50) % threads) as u32).collect();
        same("values", &Probe::download::<u32>(&out)?, &expected)
    })
}

fn deep_stacks(probe: &Probe) -> Outcome {
    let out = probe.upload(&[0u32; 3000])?;
    probe.run("probe_stack", [3, 1, 1], [1000, 1, 1], &[(&out).into()])?;
    let expected: Vec<u32> = (0..3000).map(|i| i % 1000 * 2048 + 2047 * 1024).collect();
    same("sums", &Probe::download::<u32>(&out)?, &expected)
}

/// Eight threads launch on one handle, and on handles of their own. Each gets its own results.
fn threads(probe: &Probe) -> Outcome {
    let own = |probe: &Probe, thread: usize| -> Outcome {
        for round in 0..10 {
            let count = 1000 + 321 * thread;
            let values: Vec<u32> = numbers(count * 3).iter().map(|value| value.wrapping_add(thread as u32)).collect();
            let (src, out) = (probe.upload(&values)?, probe.upload(&[0u32; 3])?);
            let block = [250, 1 + thread as u32 % 4, 1];
            let used = product(block) * 3;
            probe.run("probe_sum", [3, 1, 1], block, &[(&src).into(), (&out).into()])?;
            let sum = |values: &[u32]| values.iter().fold(0u32, |sum, value| sum.wrapping_add(*value));
            let expected: Vec<u32> = values[..used].chunks(used / 3).map(sum).collect();
            same(&format!("thread {thread}, round {round}"), &Probe::download::<u32>(&out)?, &expected)?;
            let numel = 200_000 + thread;
            let (src, dst) = (probe.upload(&numbers(numel))?, probe.upload(&vec![thread as u32; numel])?);
            let args = [Arg::from(numel), (&src).into(), (&dst).into()];
            probe.run("probe_elements", [200, 1, 1], [1024, 1, 1], &args)?;
            let expected: Vec<u32> = numbers(numel).iter().map(|s| s.wrapping_add(3 * thread as u32 + 1)).collect();
            same(&format!("thread {thread}, round {round}"), &Probe::download::<u32>(&dst)?, &expected)?;
        }
        Ok(())
    };
    let (own, outcomes) = (&own, std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let outcomes = &outcomes;
            scope.spawn(move || {
                let device = if thread % 2 == 0 { Ok(probe.device.clone()) } else { probe.device.new_stream() };
                let outcome = device
                    .map_err(text)
                    .and_then(|device| own(&Probe { device, wave: probe.wave, on_cpu: probe.on_cpu }, thread));
                outcomes.lock().unwrap().push(outcome);
            });
        }
    });
    let outcomes = outcomes.into_inner().map_err(text)?;
    ensure!(outcomes.len() == 8, "a thread ended early");
    outcomes.into_iter().collect()
}

// ---------------------------------------------------------------------------------------------------------------------
// Tests for the CPU only
// ---------------------------------------------------------------------------------------------------------------------

/// The launch fails with CRK_DEVICE and a sentence with these words, for one block and for many.
fn fails(probe: &Probe, kernel: &str, shared_bytes: u32, block: [u32; 3], words: &[&str]) -> Outcome {
    for grid in [1, 100] {
        let out = probe.upload(&vec![0u32; grid * product(block)])?;
        let args = match kernel {
            "probe_wrong_block" => vec![Arg::from(grid as u32 / 2), (&out).into()],
            "probe_wrong_shuffle" => vec![Arg::from(out.bytes() / 4), (&out).into()],
            _ => vec![(&out).into()],
        };
        match probe.run_shared(kernel, [grid as u32, 1, 1], block, shared_bytes, &args) {
            Ok(()) => return Err(format!("{kernel} succeeds")),
            Err(sentence) => {
                let sure = words.iter().chain([&"CRK_DEVICE", &kernel]).find(|word| !sentence.contains(**word));
                ensure!(sure.is_none(), "{sure:?} is not in: {sentence}");
            }
        }
    }
    Ok(())
}

/// A launch that can never finish fails instead of hanging, says where, and leaves the device usable.
fn divergence(probe: &Probe) -> Outcome {
    for block in [[probe.wave, 1, 1], [100, 1, 1], [1024, 1, 1]] {
        fails(probe, "probe_wrong_meeting", 0, block, &["block (", "wait at a barrier", "wave operation"])?;
        fails(probe, "probe_wrong_operation", 0, block, &["block (", "shuffle", "vote"])?;
        fails(probe, "probe_wrong_block", 0, block, &["block ("])?;
        sums(probe)?;
    }
    Ok(())
}

fn not_cooperative(probe: &Probe) -> Outcome {
    fails(probe, "probe_wrong_barrier", 0, [64, 1, 1], &["barrier", "not declared cooperative"])?;
    fails(probe, "probe_wrong_shuffle", 0, [64, 1, 1], &["shuffle", "not declared cooperative"])?;
    fails(probe, "probe_wrong_vote", 0, [64, 1, 1], &["vote", "not declared cooperative"])?;
    never_meets(probe)
}

fn too_much_shared(probe: &Probe) -> Outcome {
    let out = probe.upload(&[0u32; 256])?;
    probe.run_shared("probe_wrong_shared", [1, 1, 1], [256, 1, 1], 24 * 1024, &[(&out).into()])?;
    let expected: Vec<u32> = (0..256).rev().collect();
    same("reversed", &Probe::download::<u32>(&out)?, &expected)?;
    for kernel in ["probe_wrong_shared", "probe_wrong_shared_alone"] {
        fails(probe, kernel, 24 * 1024 + 16, [256, 1, 1], &["shared memory"])?;
    }
    sums(probe)
}

/// Threads leave one after the other. The remaining threads do not wait for them.
fn leave_in_turn(probe: &Probe) -> Outcome {
    for_blocks(|grid, block, threads, values| {
        let out = probe.upload(&vec![0u32; values.len()])?;
        probe.run("probe_leave_in_turn", grid, block, &[(&out).into()])?;
        let expected: Vec<u32> = (0..values.len()).map(|i| (i % threads % 17) as u32).collect();
        same("barriers", &Probe::download::<u32>(&out)?, &expected)
    })
}

/// A failing launch of one thread does not affect those of the others.
fn failure_among_threads(probe: &Probe) -> Outcome {
    let outcomes = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let outcomes = &outcomes;
            scope.spawn(move || {
                let outcome = probe.device.new_stream().map_err(text).and_then(|device| {
                    let probe = &Probe { device, wave: probe.wave, on_cpu: true };
                    for _ in 0..5 {
                        match thread % 2 {
                            0 => fails(probe, "probe_wrong_meeting", 0, [96, 1, 1], &["barrier"])?,
                            _ => waves_apart(probe)?,
                        }
                    }
                    Ok(())
                });
                outcomes.lock().unwrap().push(outcome);
            });
        }
    });
    let outcomes = outcomes.into_inner().map_err(text)?;
    ensure!(outcomes.len() == 8, "a thread ended early");
    outcomes.into_iter().collect()
}

/// A geometry beyond the device's limits is refused for every kernel.
fn limits(probe: &Probe) -> Outcome {
    let out = probe.upload(&[0u32; 16])?;
    for (block, shared_bytes) in [([1025, 1, 1], 0), ([32, 32, 2], 0), ([u32::MAX; 3], 0), ([1, 1, 1], 65_537)] {
        let outcome = probe.run_shared("probe_never_meets", [1, 1, 1], block, shared_bytes, &[(&out).into()]);
        let sentence = outcome.err().ok_or(format!("a block of {block:?} is accepted"))?;
        ensure!(sentence.contains("CRK_INVALID_ARGUMENT"), "{sentence}");
    }
    let error = probe.device.alloc(usize::MAX / 4).err().ok_or("2^62 bytes can be had")?;
    ensure!(error.status() == Status::OutOfMemory, "{error}");
    Ok(())
}

/// Only complete shared objects for this machine reach the system's loader.
#[cfg(all(target_os = "linux", target_endian = "little", target_pointer_width = "64"))]
fn bad_images(probe: &Probe) -> Outcome {
    let image = cpu_module::probe()?;
    let load = |what: &str, image: &[u8], expected: &[Status]| -> Outcome {
        // SAFETY: an image is either refused or the project's own code.
        let error = unsafe { probe.device.load_module("damaged", image) }.err().ok_or(format!("{what} is accepted"))?;
        ensure!(expected.contains(&error.status()), "{what}: {error}");
        ensure!(error.message().contains("damaged") || image.is_empty(), "{what}: {error}");
        Ok(())
    };
    let invalid = [Status::InvalidImage];
    let elsewhere = [Status::WrongArchitecture];
    load("nothing", &[], &[Status::InvalidImage, Status::InvalidArgument])?;
    load("text", b"this is no shared object, whatever its name says it is and however long it goes on", &invalid)?;
    load("zeros", &[0; 4096], &invalid)?;
    let lengths = (1..256).chain((256..image.len()).step_by(97)).chain(image.len() - 64..image.len());
    for length in lengths {
        // An exact copy, so that a sanitizer sees a read beyond its end.
        let exact = image[..length].to_vec();
        load(&format!("its first {length} bytes"), &exact, &invalid)?;
    }
    let with = |at: usize, bytes: &[u8]| {
        let mut image = image.to_vec();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    };
    load("a 32-bit file", &with(4, &[1]), &elsewhere)?;
    load("a big-endian file", &with(5, &[2]), &elsewhere)?;
    load("a file for AMD GPUs", &with(18, &224u16.to_le_bytes()), &elsewhere)?;
    load("a relocatable file", &with(16, &1u16.to_le_bytes()), &invalid)?;
    load("a program", &with(16, &2u16.to_le_bytes()), &invalid)?;
    load("program headers beyond the end", &with(32, &u64::MAX.to_le_bytes()), &invalid)?;
    load("65534 program headers", &with(56, &65534u16.to_le_bytes()), &invalid)?;
    load("section headers beyond the end", &with(40, &(u64::MAX - 7).to_le_bytes()), &invalid)?;
    load("another module", image, &invalid)
}

/// Modules that were compiled with other headers, or with an inconsistent table, are refused.
#[cfg(all(target_os = "linux", target_endian = "little", target_pointer_width = "64"))]
fn bad_tables(probe: &Probe) -> Outcome {
    let source = PathBuf::from(SCRATCH).join(format!("tables-{}.cc", std::process::id()));
    let code = r#"
        #include "platform/host_abi.h"
        static void run(crk_host_thread_t *, void *const *) {}
        static const crk_host_kernel_t nameless = {nullptr, nullptr, run, nullptr, 0, 0, 1024};
        static const crk_host_kernel_t codeless = {nullptr, "k", nullptr, nullptr, 0, 0, 1024};
        static const crk_host_kernel_t kindless = {nullptr, "k", run, nullptr, 0, 77, 1024};
        #define TABLE(name, version, ...) \
          extern "C" __attribute__((visibility("default"))) const crk_host_module_t crk_host_module_##name; \
          const crk_host_module_t crk_host_module_##name = {version, #name, __VA_ARGS__};
        TABLE(older, CRK_HOST_ABI_VERSION - 1, []() -> const crk_host_kernel_t * { return nullptr; })
        TABLE(listless, CRK_HOST_ABI_VERSION, nullptr)
        TABLE(nameless, CRK_HOST_ABI_VERSION, []() -> const crk_host_kernel_t * { return &nameless; })
        TABLE(codeless, CRK_HOST_ABI_VERSION, []() -> const crk_host_kernel_t * { return &codeless; })
        TABLE(kindless, CRK_HOST_ABI_VERSION, []() -> const crk_host_kernel_t * { return &kindless; })
    "#;
    std::fs::write(&source, code).map_err(text)?;
    let image = cpu_module::compile(&source, "tables.so");
    let _ = std::fs::remove_file(&source);
    let image = image?;
    for name in ["older", "listless", "nameless", "codeless", "kindless"] {
        // SAFETY: these are the tables above; none of their kernels runs.
        let error = unsafe { probe.device.load_module(name, &image) }.err().ok_or(format!("{name} is accepted"))?;
        ensure!(error.status() == Status::InvalidImage && error.message().contains(name), "{name}: {error}");
    }
    Ok(())
}

type Test = fn(&Probe) -> Outcome;

/// Tests for every device.
const TESTS: [(&str, Test); 16] = [
    ("geometry", geometry),
    ("elements", elements),
    ("arguments", arguments),
    ("atomics", atomics),
    ("static_shared", static_shared),
    ("dynamic_shared", dynamic_shared),
    ("shuffles", shuffles),
    ("votes", votes),
    ("sums", sums),
    ("shared_atomics", shared_atomics),
    ("early_exit", early_exit),
    ("waves_apart", waves_apart),
    ("never_meets", never_meets),
    ("many_barriers", many_barriers),
    ("deep_stacks", deep_stacks),
    ("threads", threads),
];

/// Tests of mistakes that are an error on the CPU; elsewhere they would hang.
const CPU_TESTS: &[(&str, Test)] = &[
    ("divergence", divergence),
    ("not_cooperative", not_cooperative),
    ("too_much_shared", too_much_shared),
    ("leave_in_turn", leave_in_turn),
    ("failure_among_threads", failure_among_threads),
    ("limits", limits),
    #[cfg(all(target_os = "linux", target_endian = "little", target_pointer_width = "64"))]
    ("bad_images", bad_images),
    #[cfg(all(target_os = "linux", target_endian = "little", target_pointer_width = "64"))]
    ("bad_tables", bad_tables),
];

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let on_cpu = target.name.starts_with("cpu");
        if !on_cpu && std::env::var_os("CANDLE_ROCM_PROBE").is_none() {
            continue;
        }
        // The first trial that runs opens the device, so that listing the trials compiles nothing.
        let probe: Arc<OnceLock<Result<Probe, String>>> = Arc::default();
        for &(name, test) in TESTS.iter().chain(if on_cpu { CPU_TESTS } else { &[] }) {
            let full = format!("probe/{}/{name}", target.name);
            let repeat = support::repeat_line(&target.name, &full, "");
            let probe = Arc::clone(&probe);
            trials.push(Trial::test(full, move || {
                let probe = probe.get_or_init(|| Probe::open(target)).as_ref().map_err(Clone::clone)?;
                test(probe).map_err(|error| Failed::from(format!("{error}\n{repeat}")))
            }));
        }
    }
    trials
}
