//! Graphs: work that is recorded once and launched many times.
use crate::error::check;
use crate::{Device, Result, sys};

/// Work of a handle, recorded. What the recording freed, and the parameters it read, stay reserved while it lives.
pub struct Graph {
    raw: sys::crk_graph_t,
    // Keeps the handle open: a graph ends before it.
    device: Device,
}

// SAFETY: a graph belongs to its handle, which may be used from any thread.
unsafe impl Send for Graph {}
// SAFETY: as above; launches are ordered by the handle's stream.
unsafe impl Sync for Graph {}

impl Device {
    /// Records what `work` gives to this handle instead of running it. What other threads give to the handle meanwhile is
    /// recorded, too; memory that they free is kept for the graph. Where `work` fails, its error is returned, and nothing
    /// remains of the recording; nor where it panics. What `work` asks of the allocator must be cached or reserved: run it
    /// once before.
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

/// A handle that is captured. The capture ends with this, also where the work panics.
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
    /// The memory that the recorded work reads and writes, other than what it allocated itself, is still allocated.
    pub unsafe fn launch(&self) -> Result<()> {
        // SAFETY: a live graph; the rest is the caller's promise.
        check(unsafe { sys::crk_graph_launch(self.raw) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by crk_graph_end; nothing uses it any more.
        unsafe { sys::crk_graph_destroy(self.raw) }
    }
}
