//! The kernels that add few elements among GPUs (kernels/comm/one_shot.h), as one rank of many. The test writes the
//! lines of the other ranks into the rank's exchange area, launches, and reads what the kernel sent to their areas. It
//! computes every line itself, from the layout of kernels/call/peers_call.h. tests/comm.rs has ranks that meet.
//!
//! A trial is a dtype on a device: `comm/cpu:64/bf16`.
use crate::support::cases::Rng;
use crate::support::number::{TYPES, Type};
use crate::support::property::{Outcome, each_case};
use crate::support::{Guarded, Target, add_trial};
use candle_rocm_sys::{Arg, Launch};
use libtest_mimic::Trial;
use std::ffi::c_void;

const RANKS: usize = 8;
const LINES: usize = 256;
const CHUNK: usize = LINES * 8;
const CHUNKS: usize = 64;
const COUNTERS: usize = 4096;

/// `crk_one_shot_call_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Call {
    src: *const c_void,
    dst: *mut c_void,
    count: u64,
    rank: u32,
    size: u32,
    stop: *const c_void,
    areas: [*mut c_void; RANKS],
}

/// The ranks of a test, of which one runs a kernel.
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

    fn raw(&self) -> [*mut c_void; RANKS] {
        std::array::from_fn(|rank| self.areas.get(rank).map_or(std::ptr::null_mut(), Guarded::ptr))
    }

    /// Adds `sources`, one of each rank, as rank `self.rank`. Checks the sum, what was sent, and that nothing else was
    /// written.
    fn add(&mut self, target: &Target, t: Type, sources: &[Vec<u8>], shift: usize, in_place: bool) -> Outcome {
        let bytes = sources[0].len();
        let (count, chunks) = (bytes / t.bytes, bytes.div_ceil(CHUNK));
        let mut before = self.areas.iter().map(Guarded::read).collect::<Result<Vec<_>, _>>()?;
        let flags: Vec<u32> = (0..chunks).map(|chunk| counter(&before[self.rank], chunk).wrapping_add(1)).collect();
        for (chunk, &flag) in flags.iter().enumerate() {
            for (from, source) in sources.iter().enumerate().filter(|(from, _)| *from != self.rank) {
                for line in 0..LINES {
                    let at = line_at(self.size, chunk, flag, from, line);
                    before[self.rank][at..][..16].copy_from_slice(&line_of(source, chunk * CHUNK + line * 8, flag));
                }
            }
        }
        self.areas[self.rank].write(&before[self.rank]).map_err(text)?;
        let src = Guarded::new(&target.device, &sources[self.rank], shift * t.bytes).map_err(text)?;
        let dst = Guarded::new(&target.device, &vec![0x77; bytes], shift * t.bytes).map_err(text)?;
        let stop = target.device.upload(&[0u64]).map_err(text)?;
        let to = if in_place { &src } else { &dst };
        let call = Call {
            src: src.ptr(),
            dst: to.ptr(),
            count: count as u64,
            rank: self.rank as u32,
            size: self.size as u32,
            stop: stop.as_ptr().cast(),
            areas: self.raw(),
        };
        launch(target, t, &call, chunks)?;

        let got = to.read()?;
        for i in 0..count {
            let sum = (1..self.size).fold(t.float(t.get(&sources[0], i)) as f32, |sum, rank| {
                sum + t.float(t.get(&sources[rank], i)) as f32
            });
            let (got, wanted) = (t.float(t.get(&got, i)), t.round(sum.into()));
            if got != wanted && !(got.is_nan() && wanted.is_nan()) {
                return Err(format!("element {i} of {count} is {got}, and the sum is {wanted}"));
            }
        }
        if !in_place && src.read()? != sources[self.rank] {
            return Err("src has changed".into());
        }
        for (rank, area) in self.areas.iter().enumerate() {
            let mut expected = std::mem::take(&mut before[rank]);
            for (chunk, &flag) in flags.iter().enumerate() {
                if rank == self.rank {
                    expected[4 * chunk..][..4].copy_from_slice(&flag.to_le_bytes());
                    continue;
                }
                for line in 0..LINES {
                    let at = line_at(self.size, chunk, flag, self.rank, line);
                    expected[at..][..16].copy_from_slice(&line_of(&sources[self.rank], chunk * CHUNK + line * 8, flag));
                }
            }
            let got = area.read().map_err(|problem| format!("the area of rank {rank}: {problem}"))?;
            if let Some(at) = (0..got.len()).find(|&at| got[at] != expected[at]) {
                let (got, expected) = (got[at], expected[at]);
                return Err(format!("byte {at} of the area of rank {rank} is {got:#x}, and should be {expected:#x}"));
            }
        }
        Ok(())
    }
}

fn launch(target: &Target, t: Type, call: &Call, chunks: usize) -> Outcome {
    let function = target.device.function_named("comm", &format!("one_shot_sum_{}", t.name)).map_err(text)?;
    let launch = Launch { grid: [chunks as u32, 1, 1], block: [LINES as u32, 1, 1], shared_bytes: 0 };
    // SAFETY: the struct that the kernel takes, with areas of as many ranks, and as many chunks as the elements need.
    unsafe { function.launch(launch, &[Arg::value(call)]) }.map_err(text)?;
    target.device.synchronize().map_err(text)
}

/// One call after the other in the same areas, of lengths that use other chunks each time.
fn sums(target: &Target, t: Type) -> Outcome {
    each_case(target, "comm", t.name, 9, |rng, index| {
        let size = [2, 3, 8][index % 3];
        let rank = [0, size - 1, size / 2][index / 3];
        // The last launches before the flags start again are among them.
        let first = if index < 6 { 0 } else { u32::MAX - 1 };
        let mut ranks = Ranks::new(target, rank, size, first)?;
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

/// `crk_meet_call_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Meet {
    piece: u64,
    rank: u32,
    size: u32,
    stop: *const c_void,
    areas: [*mut c_void; RANKS],
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
        let call = Meet { piece, rank: rank as u32, size: size as u32, stop: stop.as_ptr().cast(), areas: ranks.raw() };
        let function = target.device.function_named("comm", "meet").map_err(text)?;
        let launch = Launch { grid: [1, 1, 1], block: [64, 1, 1], shared_bytes: 0 };
        // SAFETY: the struct that the kernel takes, with areas of as many ranks.
        unsafe { function.launch(launch, &[Arg::value(&call)]) }.map_err(text)?;
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

/// A rank whose lines never come: the kernel ends where the stop word says so.
fn stops(target: &Target) -> Outcome {
    for t in TYPES.iter().filter(|t| ["f32", "bf16"].contains(&t.name)) {
        let ranks = Ranks::new(target, 1, 2, 0)?;
        let data = target.device.upload(&[0u64; 4]).map_err(text)?;
        let stop = target.device.upload(&[1u64]).map_err(text)?;
        let areas = ranks.raw();
        let (src, dst, stop) = (data.as_ptr().cast(), data.as_ptr().cast(), stop.as_ptr().cast());
        launch(target, *t, &Call { src, dst, count: 3, rank: 1, size: 2, stop, areas }, 1)?;
    }
    Ok(())
}

pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut all = Vec::new();
    for target in targets {
        for t in TYPES.iter().filter(|t| ["f32", "f16", "bf16"].contains(&t.name)) {
            add_trial(&mut all, "comm", target, t.name.into(), Box::new(move |target, _| sums(target, *t)));
        }
        add_trial(&mut all, "comm", target, "meet".into(), Box::new(|target, _| meets(target)));
        add_trial(&mut all, "comm", target, "stop".into(), Box::new(|target, _| stops(target)));
    }
    all
}
