//! Measures time on the device's stream with events.
use super::{Result, check};
use candle_rocm_sys::{Device, sys};

/// Measures sections of the device's stream.
pub struct Clock<'a> {
    device: &'a Device,
    start: sys::crk_event_t,
    end: sys::crk_event_t,
    reps: usize,
}

/// Launches shorter than this are timed in a queue of [`QUEUED`], because a single launch adds microseconds.
const SHORT: f64 = 200e-6;
const QUEUED: usize = 20;
/// Launches longer than this are repeated at most 5 times.
const LONG: f64 = 20e-3;

/// The time of one launch in seconds: median, tenth and ninetieth percentile of the repetitions.
#[derive(Clone, Copy)]
pub struct Time {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Time {
    /// Half of the distance between the percentiles, relative to the median.
    pub fn spread(self) -> f64 {
        (self.high - self.low) / 2.0 / self.median
    }
}

impl<'a> Clock<'a> {
    pub fn new(device: &'a Device, reps: usize) -> Result<Clock<'a>> {
        let (mut start, mut end) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a live handle; both are written on success.
        unsafe {
            check(sys::crk_event_create(device.raw(), &mut start))?;
            check(sys::crk_event_create(device.raw(), &mut end))?;
        }
        Ok(Clock { device, start, end, reps })
    }

    /// Seconds per launch, in a queue of `count`.
    fn once(&self, count: usize, launch: &mut dyn FnMut(usize) -> Result<()>) -> Result<f64> {
        let mut milliseconds = 0.0;
        // SAFETY: live events of a live handle.
        unsafe { check(sys::crk_event_record(self.start, self.device.raw()))? };
        for i in 0..count {
            launch(i)?;
        }
        // SAFETY: as above.
        unsafe {
            check(sys::crk_event_record(self.end, self.device.raw()))?;
            check(sys::crk_event_synchronize(self.end))?;
            check(sys::crk_event_elapsed(self.start, self.end, &mut milliseconds))?;
        }
        Ok(f64::from(milliseconds) * 1e-3 / count as f64)
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
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize];
        Ok(Time { median: at(0.5), low: at(0.1), high: at(0.9) })
    }
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`; the handle outlives them.
        unsafe {
            sys::crk_event_destroy(self.start);
            sys::crk_event_destroy(self.end);
        }
    }
}
