//! The tools of a measurement: memory beyond all caches, a clock on the device's stream, a row, a chart.
pub mod bare;
pub mod buffers;
pub mod chart;
pub mod clock;
mod compare;
pub mod row;
pub mod torch;

pub use clock::{Clock, Time};

use crate::Result;
use crate::cases::{F32, Values};
use buffers::{CYCLE, MOST_SETS, repeated};
use candle_rocm_sys::{Buffer, Device, Status, sys};

/// Turns the status of a C call into a result.
pub fn check(status: Status) -> Result<()> {
    if status == Status::Ok {
        return Ok(());
    }
    // SAFETY: never NULL, valid until the thread's next failure.
    let sentence = unsafe { std::ffi::CStr::from_ptr(sys::crk_last_error()) };
    Err(format!("{}: {}", status.name(), sentence.to_string_lossy()).into())
}

/// The speed of the device's own copy in bytes per second, reads and writes together.
pub fn copy_speed(device: &Device, clock: &Clock<'_>, bytes: usize, beyond: usize) -> Result<f64> {
    let count = beyond.div_ceil(2 * bytes).clamp(1, MOST_SETS);
    let pattern = Values::Any.bytes(F32, CYCLE.min(bytes.div_ceil(4)), 7);
    let pairs: Vec<(Buffer, Buffer)> = (0..count)
        .map(|_| Ok((repeated(device, &pattern, bytes)?, repeated(device, &pattern, bytes)?)))
        .collect::<Result<_>>()?;
    let time = clock.time(|i| Ok(device.copy(&pairs[i % count].1, &pairs[i % count].0)?))?;
    Ok(2.0 * bytes as f64 / time.median)
}
