//! The kernels that add among GPUs, as one rank of many: few elements (kernels/comm/one_shot.h), and many of two ranks
//! (kernels/comm/marked.h). The test plays the other ranks: it writes their lines or parts into the rank's exchange
//! area, and launches. Then it reads what the kernel sent to their areas. The test itself computes the place of every
//! byte, from the layout in kernels/call/peers_call.h. In tests/comm_library.rs ranks meet.
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
const PART: usize = 8 << 10;
const PARTS: usize = 2048;
const PART_THREADS: usize = 256;
/// The bytes of the area of two ranks before the parts' counters.
const PIECES_END: usize = COUNTERS + CHUNKS * 2 * 2 * LINES * 16 + 2 * (8 << 20);
const MARKS: usize = PIECES_END + 4 * PARTS;
const SLOTS: usize = MARKS + 2 * 8 * PARTS;

/// `crk_exchange_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Exchange {
    rank: u32,
    size: u32,
    stop: *const c_void,
    areas: [*mut c_void; RANKS],
}

/// `crk_peer_sum_call_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Call {
    ranks: Exchange,
    src: *const c_void,
    dst: *mut c_void,
    count: u64,
}

/// `crk_peer_norm_call_t`.
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
    way: Way,
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

/// How a kernel sends elements: in lines to all ranks, or in marked parts to the other one of two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Lines,
    Parts,
}

impl Way {
    /// The bytes of a chunk or a part.
    fn unit(self) -> usize {
        if self == Way::Lines { CHUNK } else { PART }
    }

    /// The threads of a block for each of them.
    fn threads(self) -> usize {
        if self == Way::Lines { LINES } else { PART_THREADS }
    }

    /// The byte of the counter of a chunk or a part.
    fn counter_at(self, unit: usize) -> usize {
        4 * unit + if self == Way::Lines { 0 } else { PIECES_END }
    }

    fn area_bytes(self, size: usize) -> usize {
        if self == Way::Lines { COUNTERS + CHUNKS * 2 * size * LINES * 16 } else { SLOTS + 2 * PARTS * PART }
    }

    /// Writes to `area` what rank `from` sends in `unit`: `data`, and zeros behind it, to the end of the chunk or of
    /// the last 16 bytes of a part.
    fn put(self, area: &mut [u8], (from, size): (usize, usize), (unit, flag): (usize, u32), data: &[u8]) {
        let slot = (flag & 1) as usize;
        if self == Way::Lines {
            for line in 0..LINES {
                let at = line_at(size, unit, flag, from, line);
                area[at..][..16].copy_from_slice(&line_of(data, line * 8, flag));
            }
        } else {
            let part = &mut area[SLOTS + (slot * PARTS + unit) * PART..][..data.len().next_multiple_of(16)];
            part.fill(0);
            part[..data.len()].copy_from_slice(data);
            area[MARKS + (slot * PARTS + unit) * 8..][..8].copy_from_slice(&u64::from(flag).to_le_bytes());
        }
    }
}

impl Ranks {
    /// The counters begin at `counter`.
    fn new(target: &Target, way: Way, rank: usize, size: usize, counter: u32) -> Result<Ranks, String> {
        let mut area = vec![0; way.area_bytes(size)];
        for unit in 0..if way == Way::Lines { CHUNKS } else { PARTS } {
            area[way.counter_at(unit)..][..4].copy_from_slice(&counter.to_le_bytes());
        }
        let make = |_| Guarded::new(&target.device, &area, 0).map_err(text);
        Ok(Ranks { way, rank, size, areas: (0..size).map(make).collect::<Result<_, _>>()? })
    }

    fn exchange(&self, stop: &Buffer) -> Exchange {
        Exchange {
            rank: self.rank as u32,
            size: self.size as u32,
            stop: stop.as_ptr().cast(),
            areas: std::array::from_fn(|rank| self.areas.get(rank).map_or(std::ptr::null_mut(), Guarded::ptr)),
        }
    }

    /// Writes the other ranks' `sources` to this rank's area. Chunk or part i of a source has the bytes `units[i]`.
    /// Returns what all areas must hold after the launch.
    fn deliver(&self, sources: &[Vec<u8>], units: &[Range<usize>]) -> Result<Vec<Vec<u8>>, String> {
        let mut areas = self.areas.iter().map(Guarded::read).collect::<Result<Vec<_>, _>>()?;
        let counter =
            |unit: usize| -> [u8; 4] { std::array::from_fn(|i| areas[self.rank][self.way.counter_at(unit) + i]) };
        let flags: Vec<u32> = (0..units.len()).map(|i| u32::from_le_bytes(counter(i)).wrapping_add(1)).collect();
        let mut put = |area: usize, from: usize| {
            for (unit, (bytes, &flag)) in units.iter().zip(&flags).enumerate() {
                self.way.put(&mut areas[area], (from, self.size), (unit, flag), &sources[from][bytes.clone()]);
            }
        };
        for other in (0..self.size).filter(|other| *other != self.rank) {
            put(self.rank, other);
            put(other, self.rank);
        }
        self.areas[self.rank].write(&areas[self.rank]).map_err(text)?;
        for (unit, flag) in flags.iter().enumerate() {
            areas[self.rank][self.way.counter_at(unit)..][..4].copy_from_slice(&flag.to_le_bytes());
        }
        Ok(areas)
    }

    /// Whether the areas hold what they must.
    fn hold(&self, expected: &[Vec<u8>]) -> Outcome {
        for (rank, (area, expected)) in self.areas.iter().zip(expected).enumerate() {
            let got = area.read().map_err(|problem| format!("the area of rank {rank}: {problem}"))?;
            if got != *expected {
                let at = (0..got.len()).find(|&at| got[at] != expected[at]).expect("a difference");
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
        let unit = self.way.unit();
        let units: Vec<_> = (0..bytes.div_ceil(unit)).map(|i| i * unit..bytes.min((i + 1) * unit)).collect();
        let areas = self.deliver(sources, &units)?;
        let src = Guarded::new(&target.device, &sources[self.rank], shift * t.bytes).map_err(text)?;
        let dst = Guarded::new(&target.device, &vec![0x77; bytes], shift * t.bytes).map_err(text)?;
        let stop = target.device.upload(&[0u64]).map_err(text)?;
        let to = if in_place { &src } else { &dst };
        let count = bytes / t.bytes;
        let call = Call { ranks: self.exchange(&stop), src: src.ptr(), dst: to.ptr(), count: count as u64 };
        let root = if self.way == Way::Lines { "one_shot_sum" } else { "marked_sum" };
        launch(target, &format!("{root}_{}", t.name), [units.len(), self.way.threads()], &call)?;
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
        let unit = self.way.unit();
        let (lines, name) = if self.way == Way::Lines {
            let lines = row.div_ceil(8 * 1024);
            (lines, format!("one_shot_norm_{}_{lines}", t.name))
        } else {
            (1, format!("marked_norm_{}", t.name))
        };
        let per_row = row.div_ceil(unit * lines) * lines;
        let units: Vec<_> = (0..rows * per_row)
            .map(|i| {
                let first = i / per_row * row;
                let at = |i: usize| first + row.min(i * unit);
                at(i % per_row)..at(i % per_row + 1)
            })
            .collect();
        let areas = self.deliver(&sources, &units)?;
        let memory = |data: &[u8]| Guarded::new(&target.device, data, shift * t.bytes).map_err(text);
        let read = [memory(&sources[self.rank])?, memory(&residual)?, memory(&alpha)?];
        let written = [memory(&vec![0x77; rows * row])?, memory(&vec![0x77; rows * row])?];
        let stop = target.device.upload(&[0u64]).map_err(text)?;
        let threads = per_row / lines * self.way.threads();
        let call = Norm {
            ranks: self.exchange(&stop),
            sources: [0, 1, 2].map(|i: usize| read[i].ptr().cast_const()),
            results: [0, 1].map(|i: usize| written[i].ptr()),
            cols: cols as u32,
            threads: threads as u32,
            eps: 1e-5,
        };
        launch(target, &name, [rows, threads], &call)?;
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
        let ranks = Ranks::new(target, Way::Lines, rank, size, first)?;
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
        let ranks = Ranks::new(target, Way::Lines, index % size, size, if index == 9 { u32::MAX - 1 } else { 0 })?;
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

/// Sums and norms by marked parts. Calls of other lengths, and rows of one, two and four parts, use the same parts.
fn marked(target: &Target, t: Type) -> Outcome {
    each_case(target, "comm", &format!("marked_{}", t.name), 4, |rng, index| {
        let rank = index % 2;
        let ranks = Ranks::new(target, Way::Parts, rank, 2, if index < 2 { 0 } else { u32::MAX - 2 })?;
        let (per_part, per_pack) = (PART / t.bytes, 16 / t.bytes);
        for (call, count) in [1, 3 * per_part - 1, per_part + 1, 2 * per_part, 7].into_iter().enumerate() {
            let sources: Vec<Vec<u8>> = (0..2).map(|_| random(rng, t, count)).collect();
            ranks
                .add(target, t, &sources, call % 3, call % 2 == 1)
                .map_err(|problem| format!("rank {rank}, {count} elements: {problem}"))?;
        }
        for (call, (rows, packs)) in [(3, 512), (5, 7), (2, 513), (1, 2048), (2, 300)].into_iter().enumerate() {
            ranks
                .norm(target, t, rng, (rows, packs * per_pack), call % 3)
                .map_err(|problem| format!("rank {rank}, {rows} rows of {packs} packs: {problem}"))?;
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
        let ranks = Ranks::new(target, Way::Lines, rank, size, 0)?;
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

/// What another rank sends never comes. The kernel ends because the stop word says so.
fn stops(target: &Target) -> Outcome {
    let kernels = [(Way::Lines, "one_shot_sum_f32"), (Way::Lines, "one_shot_sum_bf16"), (Way::Parts, "marked_sum_f32")];
    for (way, name) in kernels {
        let ranks = Ranks::new(target, way, 1, 2, 0)?;
        let data = target.device.upload(&[0u64; 4]).map_err(text)?;
        let stop = target.device.upload(&[1u64]).map_err(text)?;
        let (src, dst) = (data.as_ptr().cast(), data.as_ptr().cast());
        let call = Call { ranks: ranks.exchange(&stop), src, dst, count: 3 };
        launch(target, name, [1, way.threads()], &call)?;
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
            let name = format!("marked_{}", t.name);
            add_trial(&mut all, "comm", target, name, Box::new(move |target, _| marked(target, *t)));
        }
        add_trial(&mut all, "comm", target, "meet".into(), Box::new(|target, _| meets(target)));
        add_trial(&mut all, "comm", target, "stop".into(), Box::new(|target, _| stops(target)));
    }
    all
}
