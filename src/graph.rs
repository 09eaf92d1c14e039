//! Graphs: work that is recorded once and launched many times.
use crate::error::check;
use crate::{Device, Result, sys};

/// Recorded work of a handle. Memory that the recording freed, and parameters that it read, stay reserved while it
/// lives.
pub struct Graph {
    raw: sys::crk_graph_t,
    // Keeps the handle open: the graph must be destroyed first.
    device: Device,
}

// SAFETY: a graph belongs to its handle, which may be used from any thread.
unsafe impl Send for Graph {}
// SAFETY: as above; launches are ordered by the handle's stream.
unsafe impl Sync for Graph {}

impl Device {
    /// Records the work that `work` gives to this handle, instead of running it. Work of other threads on the handle is
    /// recorded too, and memory that they free is kept for the graph. Calls that wait for the handle, such as a
    /// download, fail meanwhile in every thread; those that began earlier are waited for first. Where `work` fails, its
    /// error is returned and the recording is thrown away; a panic throws it away too. Memory that `work` allocates
    /// must be cached or reserved ([`Device::reserve`]): reserve it, or run `work` once before.
    pub fn capture<T, E: From<crate::Error>>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<(Graph, T), E> {
        // SAFETY: a live handle.
        check(unsafe { sys::crk_graph_begin(self.raw()) })?;
        let recording = Recording(self);
        let done = work();
        let graph = recording.end();
        let value = done?;
        Ok((graph?, value))
    }
}

/// A number that grows with each capture and each launch of a graph in this process: `crk_graph_epoch`.
pub fn graph_epoch() -> u64 {
    // SAFETY: the function takes no arguments.
    unsafe { sys::crk_graph_epoch() }
}

/// A handle that is being captured. Dropping this ends the capture, also after a panic.
struct Recording<'a>(&'a Device);

impl Recording<'_> {
    fn end(self) -> Result<Graph> {
        let device = std::mem::ManuallyDrop::new(self).0;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a live handle; `raw` is written on success.
        check(unsafe { sys::crk_graph_end(device.raw(), &mut raw) })?;
        Ok(Graph { raw, device: device.clone() })
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        drop(Recording(self.0).end());
    }
}

impl Graph {
    /// The handle that runs it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Runs the recorded work on the handle that recorded it.
    ///
    /// # Safety
    /// All memory that the recorded work reads and writes is still allocated, except memory that it allocated itself.
    /// The communicators of recorded collectives are alive.
    pub unsafe fn launch(&self) -> Result<()> {
        // SAFETY: a live graph; the rest is the caller's promise.
        self.device.reporting(|| check(unsafe { sys::crk_graph_launch(self.raw) }))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by crk_graph_end; nothing uses it any more.
        unsafe { sys::crk_graph_destroy(self.raw) }
    }
}
