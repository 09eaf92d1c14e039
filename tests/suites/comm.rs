//! The kernels that add few elements among GPUs (kernels/comm/one_shot.h), as one rank of many. The test plays the
//! other ranks: it writes their lines into the rank's exchange area, and launches. Then it reads what the kernel sent
//! to their areas. The test makes every line itself, from the layout of kernels/call/peers_call.h.
//! tests/comm_library.rs has ranks that meet.
//!
//! A trial is a dtype on a device: `comm/cpu:64/bf16`.
use crate::support::cases::Rng;
use crate::support::number::{TYPES, Type};
use crate::support::property::{Outcome, each_case};
use crate::support::{Guarded, Target, add_trial};
use candle_rocm_sys::{Arg, Buffer, Launch};
use libtest_mimic::Trial;
use std::ffi::c_void;
use std::ops::Range;

const RANKS: usize = 8;
const LINES: usize = 256;
const CHUNK: usize = LINES * 8;
const CHUNKS: usize = 64;
const COUNTERS: usize = 4096;

/// `crk_exchange_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Exchange {
    rank: u32,
    size: u32,
    stop: *const c_void,
    areas: [*mut c_void; RANKS],
}

/// `crk_one_shot_call_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Call {
    ranks: Exchange,
    src: *const c_void,
    dst: *mut c_void,
    count: u64,
}

/// `crk_one_shot_norm_call_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Norm {
    ranks: Exchange,
    sources: [*const c_void; 3],
    results: [*mut c_void; 2],
    cols: u32,
    threads: u32,
    eps: f32,
}

/// The ranks of a test. One of them runs a kernel.
struct Ranks {
    rank: usize,
    size: usize,
    areas: Vec<Guarded>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The byte of a line of rank `from` in an area.
fn line_at(size: usize, chunk: usize, flag: u32, from: usize, line: usize) -> usize {
    COUNTERS + ((((chunk * 2 + (flag & 1) as usize) * size + from) * LINES) + line) * 16
}

/// The 16 bytes of a line, with the 8 bytes of data from `at` on; zeros behind the end.
fn line_of(data: &[u8], at: usize, flag: u32) -> [u8; 16] {
    let word = |at: usize| -> [u8; 4] { std::array::from_fn(|i| data.get(at + i).copied().unwrap_or(0)) };
    let flag = flag.to_le_bytes();
    let mut line = [0; 16];
    for (part, bytes) in line.chunks_exact_mut(4).zip([word(at), flag, word(at + 4), flag]) {
        part.copy_from_slice(bytes.as_slice());
    }
    line
}

fn counter(area: &[u8], chunk: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| area[4 * chunk + i]))
}

impl Ranks {
    /// The counters of all chunks begin at `counter`.
    fn new(target: &Target, rank: usize, size: usize, counter: u32) -> Result<Ranks, String> {
        let mut area = vec![0; COUNTERS + CHUNKS * 2 * size * LINES * 16];
        for chunk in 0..CHUNKS {
            area[4 * chunk..][..4].copy_from_slice(&counter.to_le_bytes());
        }
        let make = |_| Guarded::new(&target.device, &area, 0).map_err(text);
        Ok(Ranks { rank, size, areas: (0..size).map(make).collect::<Result<_, _>>()? })
    }

    fn exchange(&self, stop: &Buffer) -> Exchange {
        Exchange {
            rank: self.rank as u32,
            size: self.size as u32,
            stop: stop.as_ptr().cast(),
            areas: std::array::from_fn(|rank| self.areas.get(rank).map_or(std::ptr::null_mut(), Guarded::ptr)),
        }
    }

    /// Writes the other ranks' `sources` as lines to this rank's area. Chunk i of a source has the bytes `chunks[i]`.
    /// Returns what all areas must hold after the launch.
    fn deliver(&self, sources: &[Vec<u8>], chunks: &[Range<usize>]) -> Result<Vec<Vec<u8>>, String> {
        let mut areas = self.areas.iter().map(Guarded::read).collect::<Result<Vec<_>, _>>()?;
        let flags: Vec<u32> = (0..chunks.len()).map(|i| counter(&areas[self.rank], i).wrapping_add(1)).collect();
        let mut put = |area: usize, from: usize| {
            for (chunk, (bytes, &flag)) in chunks.iter().zip(&flags).enumerate() {
                for line in 0..LINES {
                    let at = line_at(self.size, chunk, flag, from, line);
                    let data = &sources[from][bytes.clone()];
                    areas[area][at..][..16].copy_from_slice(&line_of(data, line * 8, flag));
                }
            }
        };
        for other in (0..self.size).filter(|other| *other != self.rank) {
            put(self.rank, other);
            put(other, self.rank);
        }
        self.areas[self.rank].write(&areas[self.rank]).map_err(text)?;
        for (chunk, flag) in flags.iter().enumerate() {
            areas[self.rank][4 * chunk..][..4].copy_from_slice(&flag.to_le_bytes());
        }
        Ok(areas)
    }

    /// Whether the areas hold what they must.
    fn hold(&self, expected: &[Vec<u8>]) -> Outcome {
        for (rank, (area, expected)) in self.areas.iter().zip(expected).enumerate() {
            let got = area.read().map_err(|problem| format!("the area of rank {rank}: {problem}"))?;
            if let Some(at) = (0..got.len()).find(|&at| got[at] != expected[at]) {
                let (got, expected) = (got[at], expected[at]);
                return Err(format!("byte {at} of the area of rank {rank} is {got:#x}, and should be {expected:#x}"));
            }
        }
        Ok(())
    }

    /// Adds `sources`, one of each rank, as rank `self.rank`. Checks the sum, what was sent, and that nothing else was
    /// written.
    fn add(&self, target: &Target, t: Type, sources: &[Vec<u8>], shift: usize, in_place: bool) -> Outcome {
        let bytes = sources[0].len();
        let chunks: Vec<_> = (0..bytes.div_ceil(CHUNK)).map(|i| i * CHUNK..bytes.min((i + 1) * CHUNK)).collect();
        let areas = self.deliver(sources, &chunks)?;
        let src = Guarded::new(&target.device, &sources[self.rank], shift * t.bytes).map_err(text)?;
        let dst = Guarded::new(&target.device, &vec![0x77; bytes], shift * t.bytes).map_err(text)?;
        let stop = target.device.upload(&[0u64]).map_err(text)?;
        let to = if in_place { &src } else { &dst };
        let count = bytes / t.bytes;
        let call = Call { ranks: self.exchange(&stop), src: src.ptr(), dst: to.ptr(), count: count as u64 };
        launch(target, &format!("one_shot_sum_{}", t.name), [chunks.len(), LINES], &call)?;
        let got = to.read()?;
        for i in 0..count {
            let (got, wanted) = (t.float(t.get(&got, i)), t.round(sum(t, sources, i).into()));
            if got != wanted && !(got.is_nan() && wanted.is_nan()) {
                return Err(format!("element {i} of {count} is {got}, and the sum is {wanted}"));
            }
        }
        if !in_place && src.read()? != sources[self.rank] {
            return Err("src has changed".into());
        }
        self.hold(&areas)
    }

    /// The same for rows, with a residual and the RMS norm of the sum.
    fn norm(&self, target: &Target, t: Type, rng: &mut Rng, (rows, cols): (usize, usize), shift: usize) -> Outcome {
        let mut moderate = |count: usize| {
            let mut data = vec![0; count * t.bytes];
            for i in 0..count {
                t.put(&mut data, i, t.round_bits((rng.below(4001) as f64 - 2000.0) / 500.0));
            }
            data
        };
        let sources: Vec<Vec<u8>> = (0..self.size).map(|_| moderate(rows * cols)).collect();
        let (residual, alpha) = (moderate(rows * cols), moderate(cols));
        let row = cols * t.bytes;
        let lines = row.div_ceil(8 * 1024);
        let per_row = row.div_ceil(CHUNK * lines) * lines;
        let chunks: Vec<_> = (0..rows * per_row)
            .map(|i| {
                let first = i / per_row * row;
                let at = |chunk: usize| first + row.min(chunk * CHUNK);
                at(i % per_row)..at(i % per_row + 1)
            })
            .collect();
        let areas = self.deliver(&sources, &chunks)?;
        let memory = |data: &[u8]| Guarded::new(&target.device, data, shift * t.bytes).map_err(text);
        let read = [memory(&sources[self.rank])?, memory(&residual)?, memory(&alpha)?];
        let written = [memory(&vec![0x77; rows * row])?, memory(&vec![0x77; rows * row])?];
        let stop = target.device.upload(&[0u64]).map_err(text)?;
        let threads = per_row / lines * LINES;
        let call = Norm {
            ranks: self.exchange(&stop),
            sources: [0, 1, 2].map(|i: usize| read[i].ptr().cast_const()),
            results: [0, 1].map(|i: usize| written[i].ptr()),
            cols: cols as u32,
            threads: threads as u32,
            eps: 1e-5,
        };
        launch(target, &format!("one_shot_norm_{}_{lines}", t.name), [rows, threads], &call)?;
        let (sums, dst) = (written[0].read()?, written[1].read()?);
        for row in 0..rows {
            let x: Vec<f64> = (row * cols..(row + 1) * cols)
                .map(|i| t.round(t.round(sum(t, &sources, i).into()) + t.float(t.get(&residual, i))))
                .collect();
            let mean = x.iter().map(|x| x * x).sum::<f64>() / cols as f64;
            for (col, x) in x.iter().enumerate() {
                let i = row * cols + col;
                let got = t.float(t.get(&sums, i));
                if got != *x {
                    return Err(format!("element {i} of the sum is {got}, and should be {x}"));
                }
                let wanted = x / (mean + 1e-5).sqrt() * t.float(t.get(&alpha, col));
                let got = t.float(t.get(&dst, i));
                // One rounding to the type, and a few in f32 before.
                let unit = if t.bytes == 4 {
                    1e-6
                } else if t.name == "f16" {
                    5e-4
                } else {
                    4e-3
                };
                let close = (got - wanted).abs() <= unit * wanted.abs() + 1e-6; // false for NaN
                if !close {
                    return Err(format!("element {i} of the norm is {got}, and should be {wanted}"));
                }
            }
        }
        self.hold(&areas)
    }
}

/// The sum of element `i` over the ranks, in f32.
fn sum(t: Type, sources: &[Vec<u8>], i: usize) -> f32 {
    let at = |source: &Vec<u8>| t.float(t.get(source, i)) as f32;
    sources[1..].iter().fold(at(&sources[0]), |sum, source| sum + at(source))
}

/// Launches a kernel that takes one struct, with a grid and blocks along x.
fn launch<T: Copy>(target: &Target, name: &str, [grid, block]: [usize; 2], call: &T) -> Outcome {
    let function = target.device.function_named("comm", name).map_err(text)?;
    let launch = Launch { grid: [grid as u32, 1, 1], block: [block as u32, 1, 1], shared_bytes: 0 };
    // SAFETY: the struct that the kernel takes, with areas of as many ranks, and as many chunks as the elements need.
    unsafe { function.launch(launch, &[Arg::value(call)]) }.map_err(text)?;
    target.device.synchronize().map_err(text)
}

/// One call after the other in the same areas, of lengths that use other chunks each time.
fn sums(target: &Target, t: Type) -> Outcome {
    each_case(target, "comm", t.name, 15, |rng, index| {
        // A thread waits for four ranks at once.
        let size = [2, 3, 4, 5, 8][index % 5];
        let rank = [0, size - 1, size / 2][index / 5];
        // The last launches before the flags start again are among them.
        let first = if index < 10 { 0 } else { u32::MAX - 1 };
        let ranks = Ranks::new(target, rank, size, first)?;
        let per_chunk = CHUNK / t.bytes;
        let lengths =
            [1, per_chunk + 1, per_chunk, 3, 3 * per_chunk - 1, if index == 0 { CHUNKS * per_chunk } else { 7 }];
        for (call, count) in lengths.into_iter().enumerate() {
            let sources: Vec<Vec<u8>> = (0..size).map(|_| random(rng, t, count)).collect();
            ranks
                .add(target, t, &sources, call % 3, call % 2 == 1)
                .map_err(|problem| format!("rank {rank} of {size}, call {call}: {problem}"))?;
        }
        Ok(())
    })
}

fn random(rng: &mut Rng, t: Type, count: usize) -> Vec<u8> {
    let mut data = vec![0; count * t.bytes];
    for i in 0..count {
        t.put(&mut data, i, crate::support::property::value(rng, t));
    }
    data
}

/// Rows of one and of two lines for each thread, also such as end within a chunk.
fn norms(target: &Target, t: Type) -> Outcome {
    each_case(target, "comm", &format!("norm_{}", t.name), 10, |rng, index| {
        let size = [2, 3, 4, 5, 8][index % 5];
        let ranks = Ranks::new(target, index % size, size, if index == 9 { u32::MAX - 1 } else { 0 })?;
        let per_line = 8 / t.bytes;
        for (call, (rows, lines)) in
            [(1, 1024), (3, 7), (2, 257), (1, 1300), (4, 2048), (5, 600)].into_iter().enumerate()
        {
            ranks
                .norm(target, t, rng, (rows, lines * per_line), call % 3)
                .map_err(|problem| format!("rank {} of {size}, {rows} rows of {lines} lines: {problem}", ranks.rank))?;
        }
        Ok(())
    })
}

/// `crk_meet_call_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Meet {
    ranks: Exchange,
    piece: u64,
}

/// The kernel `meet` tells each other rank the number of its piece, and ends when all have told theirs, or it is
/// stopped.
fn meets(target: &Target) -> Outcome {
    const FLAGS: usize = 2048;
    for (size, rank, is_stopped) in [(2, 0, false), (2, 1, true), (8, 5, false)] {
        let ranks = Ranks::new(target, rank, size, 0)?;
        let piece = (1u64 << 40) + 7;
        let mut own = ranks.areas[rank].read()?;
        for other in (0..size).filter(|other| *other != rank && !is_stopped) {
            // Another rank may be ahead by a piece.
            own[FLAGS + 8 * other..][..8].copy_from_slice(&(piece + other as u64 % 2).to_le_bytes());
        }
        ranks.areas[rank].write(&own).map_err(text)?;
        let stop = target.device.upload(&[u64::from(is_stopped)]).map_err(text)?;
        launch(target, "meet", [1, 64], &Meet { ranks: ranks.exchange(&stop), piece })?;
        for (other, area) in ranks.areas.iter().enumerate() {
            let mut expected = if other == rank { own.clone() } else { vec![0; own.len()] };
            if other != rank {
                expected[FLAGS + 8 * rank..][..8].copy_from_slice(&piece.to_le_bytes());
            }
            if area.read()? != expected {
                return Err(format!("rank {rank} of {size}: the area of rank {other} has other bytes"));
            }
        }
    }
    Ok(())
}

/// The lines of another rank never come. The kernel ends because the stop word says so.
fn stops(target: &Target) -> Outcome {
    for t in TYPES.iter().filter(|t| ["f32", "bf16"].contains(&t.name)) {
        let ranks = Ranks::new(target, 1, 2, 0)?;
        let data = target.device.upload(&[0u64; 4]).map_err(text)?;
        let stop = target.device.upload(&[1u64]).map_err(text)?;
        let (src, dst) = (data.as_ptr().cast(), data.as_ptr().cast());
        let call = Call { ranks: ranks.exchange(&stop), src, dst, count: 3 };
        launch(target, &format!("one_shot_sum_{}", t.name), [1, LINES], &call)?;
    }
    Ok(())
}

pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut all = Vec::new();
    for target in targets {
        for t in TYPES.iter().filter(|t| ["f32", "f16", "bf16"].contains(&t.name)) {
            add_trial(&mut all, "comm", target, t.name.into(), Box::new(move |target, _| sums(target, *t)));
            let name = format!("norm_{}", t.name);
            add_trial(&mut all, "comm", target, name, Box::new(move |target, _| norms(target, *t)));
        }
        add_trial(&mut all, "comm", target, "meet".into(), Box::new(|target, _| meets(target)));
        add_trial(&mut all, "comm", target, "stop".into(), Box::new(|target, _| stops(target)));
    }
    all
}
