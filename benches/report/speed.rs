//! The speed of copies, and what a launch costs.
use super::progress;
use crate::Result;
use crate::measure::{Clock, Time, copy_speed};
use candle_rocm_sys::{Buffer, DType, Device, Layout, Status};
use serde::Serialize;
use std::time::Instant;

#[derive(Serialize)]
pub struct Copies {
    pub bytes: usize,
    /// Read and written bytes together.
    pub device_to_device_gb_per_s: f64,
    /// From and to pinned memory.
    pub host_to_device_gb_per_s: f64,
    pub device_to_host_gb_per_s: f64,
}

#[derive(Serialize)]
pub struct Launches {
    /// The host's time in a call of a launcher.
    pub host_us: f64,
    /// From one launch to the next, in a queue of them.
    pub queued_us: f64,
    /// The same in a graph.
    pub graph_us: f64,
    /// One launch, and waiting for it.
    pub round_trip_us: f64,
}

/// A step of launches that repeats, one by one and in graphs (`Device::set_replay`).
#[derive(Serialize)]
pub struct Replays {
    pub launches: usize,
    /// From the first call of a step until its work is done.
    pub one_by_one_us: f64,
    /// The same in graphs; nothing where the handle makes none.
    pub in_graphs_us: Option<f64>,
    pub same_bits: bool,
}

/// Memory that no cache holds.
const BEYOND: usize = 1 << 30;

pub fn copies(device: &Device, clock: &Clock<'_>, bytes: usize) -> Result<Copies> {
    let bar = progress::bar("copies", 3);
    let beyond = if bytes < 1 << 26 { 1 } else { BEYOND };
    let within = copy_speed(device, clock, bytes, beyond)?;
    bar.inc(1);
    let (host, memory) = (device.alloc_host(bytes)?, device.alloc(bytes)?);
    // SAFETY: both live until the clock has waited for the copies, and nothing else uses them.
    let to_device = clock.time(|_| Ok(unsafe { memory.write_async(&host) }?))?;
    bar.inc(1);
    // SAFETY: as above.
    let to_host = clock.time(|_| Ok(unsafe { memory.read_async(&host) }?))?;
    bar.finish();
    let speed = |time: Time| bytes as f64 / time.median * 1e-9;
    Ok(Copies {
        bytes,
        device_to_device_gb_per_s: within * 1e-9,
        host_to_device_gb_per_s: speed(to_device),
        device_to_host_gb_per_s: speed(to_host),
    })
}

/// `count` launches in a queue, and in a graph.
pub fn launches(device: &Device, clock: &Clock<'_>, count: usize) -> Result<Launches> {
    const ELEMENTS: usize = 256;
    let bar = progress::bar("launches", 4);
    device.set_replay(false)?;
    let memory = device.alloc(4 * ELEMENTS)?;
    let launch = || device.fill(DType::F32, &memory, ELEMENTS, 1f32);
    launch()?;
    device.synchronize()?;
    let mut host = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        (0..count).try_for_each(|_| launch())?;
        host.push(start.elapsed().as_secs_f64() / count as f64);
        device.synchronize()?;
    }
    bar.inc(1);
    let queued = clock.time(|_| Ok((0..count).try_for_each(|_| launch())?))?;
    bar.inc(1);
    let (graph, ()) = device.capture(|| (0..count).try_for_each(|_| launch()))?;
    // SAFETY: the memory is live.
    let graph = clock.time(|_| Ok(unsafe { graph.launch() }?))?;
    bar.inc(1);
    let mut round_trips = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        launch()?;
        device.synchronize()?;
        round_trips.push(start.elapsed().as_secs_f64());
    }
    bar.finish();
    Ok(Launches {
        host_us: Time::of(host).median * 1e6,
        queued_us: queued.median / count as f64 * 1e6,
        graph_us: graph.median / count as f64 * 1e6,
        round_trip_us: Time::of(round_trips).median * 1e6,
    })
}

/// The results of a step: a chain of ops, each on the result of the one before, with other numbers in each step.
fn step(device: &Device, (a, b): (&Buffer, &Buffer), launches: usize, number: usize) -> Result<Vec<f32>> {
    device.fill(DType::F32, a, STEP_ELEMENTS, number as f32)?;
    for i in 1..launches {
        let (from, to) = if i % 2 == 1 { (a, b) } else { (b, a) };
        let layout = Layout::contiguous(&[STEP_ELEMENTS - i % 3])?;
        device.affine(DType::F32, &layout, from, to, 1.0 + i as f64 * 1e-3, number as f64)?;
    }
    Ok(if launches % 2 == 0 { b } else { a }.download()?)
}

const STEP_ELEMENTS: usize = 4096;

/// Steps of `launches` launches, with waits between them, one by one and in graphs. On a handle of its own: the checks
/// have taken the stream of the report's.
pub fn replays(name: &str, launches: usize, steps: usize) -> Result<Replays> {
    let device = &Device::open_named(name)?;
    let bar = progress::bar("launches that repeat", 2);
    let memory = (device.alloc(4 * STEP_ELEMENTS)?, device.alloc(4 * STEP_ELEMENTS)?);
    let run = || -> Result<(f64, Vec<Vec<f32>>, u64)> {
        let before = device.replays()?;
        let (mut times, mut results) = (Vec::new(), Vec::new());
        for number in 0..steps {
            let start = Instant::now();
            results.push(step(device, (&memory.0, &memory.1), launches, number)?);
            times.push(start.elapsed().as_secs_f64());
        }
        bar.inc(1);
        Ok((Time::of(times).median * 1e6, results, device.replays()? - before))
    };
    device.set_replay(false)?;
    let (one_by_one_us, expected, _) = run()?;
    match device.set_replay(true) {
        Err(error) if error.status() == Status::Unsupported => {
            return Ok(Replays { launches, one_by_one_us, in_graphs_us: None, same_bits: true });
        }
        switched => switched?,
    }
    let (in_graphs_us, results, replayed) = run()?;
    bar.finish();
    let bits = |all: &[Vec<f32>]| all.iter().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
    Ok(Replays {
        launches,
        one_by_one_us,
        in_graphs_us: (replayed > 0).then_some(in_graphs_us),
        same_bits: bits(&results) == bits(&expected),
    })
}
