//! Events: marks in streams, which order streams and measure time.
use crate::error::check;
use crate::{Device, Result, Status, sys};

/// A mark in the stream of a handle on the device that it was made for. Handles on any device can wait for it.
pub struct Event {
    raw: sys::crk_event_t,
    // Keeps the handle open: the event must be destroyed first.
    _device: Device,
}

// SAFETY: the C header allows calls on an event from any thread.
unsafe impl Send for Event {}
// SAFETY: as above; the event's record is behind a lock of the C core.
unsafe impl Sync for Event {}

impl Device {
    /// An event for handles on this device, without a mark.
    pub fn event(&self) -> Result<Event> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a live handle; `raw` is written on success.
        check(unsafe { sys::crk_event_create(self.raw(), &mut raw) })?;
        Ok(Event { raw, _device: self.clone() })
    }

    /// Makes later work of this handle wait for the event's mark, which may be another device's. The host waits only
    /// for events of another backend, and on the CPU device.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: both are live.
        check(unsafe { sys::crk_device_wait(self.raw(), event.raw) })
    }
}

impl Event {
    /// Marks the present end of the handle's work.
    pub fn record(&self, device: &Device) -> Result<()> {
        // SAFETY: both are live.
        check(unsafe { sys::crk_event_record(self.raw, device.raw()) })
    }

    /// Whether the work before the mark is done. True where nothing was recorded.
    pub fn is_done(&self) -> Result<bool> {
        // SAFETY: a live event.
        let status = unsafe { sys::crk_event_query(self.raw) };
        if status == Status::NotReady {
            return Ok(false);
        }
        check(status).map(|()| true)
    }

    /// Waits until the work before the mark is done.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: a live event.
        check(unsafe { sys::crk_event_synchronize(self.raw) })
    }

    /// Milliseconds of device time from the mark of `start` to this one. Fails where either has no mark, or its work is
    /// not done.
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: both are live; `milliseconds` is written on success.
        check(unsafe { sys::crk_event_elapsed(start.raw, self.raw, &mut milliseconds) })?;
        Ok(milliseconds)
    }

    /// The C event, for calls of [`sys`]. It stays this object's.
    pub fn raw(&self) -> sys::crk_event_t {
        self.raw
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by crk_event_create and destroyed once.
        unsafe { sys::crk_event_destroy(self.raw) }
    }
}
