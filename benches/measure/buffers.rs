//! The memory of a case, in enough sets that no cache holds all of them.
use super::check;
use crate::Result;
use crate::cases::{Case, Prepared, Source, by_name::ByName};
use candle_rocm_sys::{Buffer, Device, sys};

/// The total size of the sets, which exceeds every cache.
pub const BEYOND_CACHES: usize = 1 << 30;
pub const MOST_SETS: usize = 16;

pub struct Set {
    pub sources: Vec<Buffer>,
    pub dst: Buffer,
}

/// The length of the pattern that fills a buffer, in elements. It is prime, so that rows differ.
pub const CYCLE: usize = 1_048_583;

/// A buffer of `bytes`, filled with repetitions of `pattern` by copies on the device.
pub fn repeated(device: &Device, pattern: &[u8], bytes: usize) -> Result<Buffer> {
    let buffer = device.alloc(bytes)?;
    let mut filled = pattern.len().min(bytes);
    buffer.write(&pattern[..filled])?;
    while filled < bytes {
        let more = filled.min(bytes - filled);
        let view = |offset: usize| sys::crk_view_t {
            ptr: buffer.as_ptr().cast::<u8>().wrapping_add(offset).cast(),
            bytes: bytes - offset,
        };
        // SAFETY: both ranges are within the buffer and do not overlap.
        unsafe { check(sys::crk_copy(device.raw(), view(filled), view(0).into(), more))? };
        filled += more;
    }
    Ok(buffer)
}

pub fn clear(device: &Device, buffer: &Buffer) -> Result<()> {
    // SAFETY: the whole of a live buffer.
    unsafe { check(sys::crk_memset(device.raw(), buffer.raw_view(), 0xa5, buffer.bytes())) }
}

impl Set {
    fn new(device: &Device, case: &Case, seed: u64) -> Result<Set> {
        let source = |(i, source): (usize, &Source)| {
            let pattern = source.values.bytes(source.dtype, CYCLE.min(source.shape.reach()), seed + i as u64);
            repeated(device, &pattern, source.bytes())
        };
        let sources = case.sources.iter().enumerate().map(source).collect::<Result<_>>()?;
        let dst = device.alloc(case.dst_bytes())?;
        clear(device, &dst)?;
        Ok(Set { sources, dst })
    }

    fn views(&self) -> Vec<sys::crk_const_view_t> {
        self.sources.iter().map(|source| source.raw_view().into()).collect()
    }

    pub fn launch(&self, device: &Device, prepared: &Prepared<'_>) -> Result<()> {
        // SAFETY: a live handle and its own buffers.
        check(unsafe { prepared.launch(device.raw(), &self.views(), self.dst.raw_view()) })
    }

    pub fn launch_by_name(&self, kernels: &ByName<'_>, dst: &Buffer) -> Result<()> {
        // SAFETY: the buffers are on the device and as long as the case says.
        Ok(unsafe { kernels.launch(&self.views(), dst.raw_view()) }?)
    }
}

pub fn sets(device: &Device, case: &Case, beyond: usize) -> Result<Vec<Set>> {
    let one: usize = case.sources.iter().map(Source::bytes).sum::<usize>() + case.dst_bytes();
    let count = beyond.div_ceil(one.max(1)).clamp(1, MOST_SETS);
    (0..count).map(|i| Set::new(device, case, 251 * (i as u64 + 1))).collect()
}
