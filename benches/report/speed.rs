//! The speed of copies, and what a launch costs.
use super::progress;
use crate::Result;
use crate::measure::{Clock, Time, copy_speed};
use candle_rocm_sys::{DType, Device};
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
