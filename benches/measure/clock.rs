//! Measures time on the device's stream with events.
use crate::Result;
use candle_rocm_sys::{Device, Event};
use statrs::statistics::{Data, OrderStatistics};

/// Measures sections of the device's stream.
pub struct Clock<'a> {
    device: &'a Device,
    start: Event,
    end: Event,
    reps: usize,
}

/// Launches shorter than this are timed in a queue of [`QUEUED`], because a single launch adds microseconds.
const SHORT: f64 = 200e-6;
const QUEUED: usize = 20;
/// Launches longer than this are repeated at most 5 times.
const LONG: f64 = 20e-3;

/// The median, the tenth and the ninetieth percentile of repetitions, in seconds.
#[derive(Clone, Copy)]
pub struct Time {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Time {
    /// Of samples, at least one.
    pub fn of(samples: Vec<f64>) -> Time {
        let mut samples = Data::new(samples);
        Time { median: samples.median(), low: samples.percentile(10), high: samples.percentile(90) }
    }

    /// Half of the distance between the percentiles, relative to the median.
    pub fn spread(self) -> f64 {
        (self.high - self.low) / 2.0 / self.median
    }
}

impl<'a> Clock<'a> {
    pub fn new(device: &'a Device, reps: usize) -> Result<Clock<'a>> {
        Ok(Clock { device, start: device.event()?, end: device.event()?, reps })
    }

    /// Seconds per launch, in a queue of `count`.
    fn once(&self, count: usize, launch: &mut dyn FnMut(usize) -> Result<()>) -> Result<f64> {
        self.start.record(self.device)?;
        for i in 0..count {
            launch(i)?;
        }
        self.end.record(self.device)?;
        self.end.synchronize()?;
        Ok(f64::from(self.end.milliseconds_since(&self.start)?) * 1e-3 / count as f64)
    }

    /// Times launches. `launch(i)` puts one launch into the stream; it can use `i` to choose among several sets of
    /// buffers.
    pub fn time(&self, mut launch: impl FnMut(usize) -> Result<()>) -> Result<Time> {
        for i in 0..self.reps.min(3) {
            launch(i)?;
        }
        self.device.synchronize()?;
        let one = self.once(1, &mut launch)?;
        let count = if one < SHORT { QUEUED } else { 1 };
        let reps = if one > LONG { self.reps.min(5) } else { self.reps };
        let mut turn = 0;
        let mut times = Vec::with_capacity(reps);
        for _ in 0..reps {
            times.push(self.once(count, &mut |i| launch(turn + i))?);
            turn += count;
        }
        Ok(Time::of(times))
    }
}
