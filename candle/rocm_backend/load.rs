//! Weights on their way from a file to a device.
use super::{RocmDevice, WrapErr};
use crate::Result;
use candle_rocm_sys::{Buffer, Device, Event, HostBuffer};
use std::io::Read;

/// As much as a processor keeps in its cache while a part is read and sent.
const PART_BYTES: usize = 4 << 20;

/// Pinned memory that a file is read into, part by part. While one part is read, the other one is copied to the device.
/// New memory for a whole tensor would cost the system more time than the file's contents.
pub(super) struct Staging {
    parts: [(HostBuffer, Event); 2],
}

impl Staging {
    fn new(device: &Device) -> Result<Self> {
        let part = || Ok::<_, crate::Error>((device.alloc_host(PART_BYTES).w()?, device.event().w()?));
        Ok(Self { parts: [part()?, part()?] })
    }

    fn fill(&mut self, to: &Buffer, reader: &mut impl Read) -> Result<()> {
        for (number, start) in (0..to.bytes()).step_by(PART_BYTES).enumerate() {
            let (part, sent) = &mut self.parts[number % 2];
            let count = PART_BYTES.min(to.bytes() - start);
            sent.synchronize().w()?;
            reader.read_exact(&mut part.as_mut_slice::<u8>()[..count])?;
            // SAFETY: the part came from the buffer's handle. It is written again after the event has passed.
            unsafe { to.range(start..start + count).w()?.write_async(part).w()? };
            sent.record(to.device()).w()?;
        }
        Ok(())
    }
}

impl RocmDevice {
    /// A buffer with the next `bytes` bytes of a file. The reader may itself load to the device.
    pub fn read(&self, bytes: usize, reader: &mut impl Read) -> Result<Buffer> {
        let buffer = self.handle().alloc(bytes).w()?;
        buffer.write::<u8>(&[]).w()?; // refuses a capture, which would record parts that change
        let kept = || self.staging().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // The lock is not held while the reader runs.
        let taken = kept().take();
        let mut staging = taken.map_or_else(|| Staging::new(self.handle()), Ok)?;
        staging.fill(&buffer, reader)?;
        // After a failure it is dropped: an event that was not recorded says nothing about its part. The drop waits
        // until the device has sent it.
        *kept() = Some(staging);
        Ok(buffer)
    }
}
