//! Compares our results with those of the other side.
use super::check;
use crate::Result;
use crate::cases::Case;
use crate::cases::agreement::{Apart, apart};
use candle_rocm_sys::{Buffer, Device, sys};

/// Compares up to 64 pieces of 1 MiB, evenly spread, both ends included.
pub fn compare(device: &Device, case: &Case, ours: &Buffer, theirs: &Buffer) -> Result<Apart> {
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 64;
    let width = case.dst_dtype.size();
    let bytes = ours.bytes();
    let last = bytes.saturating_sub(PIECE).div_ceil(width) * width;
    let count = bytes.div_ceil(PIECE).min(PIECES);
    let mut all = Apart::Same;
    for index in 0..count {
        let offset = if count > 1 { last / width * index / (count - 1) * width } else { 0 };
        let length = PIECE.min(bytes - offset);
        let read = |buffer: &Buffer| -> Result<Vec<u8>> {
            let mut host = vec![0u8; length];
            let ptr = buffer.as_ptr().cast::<u8>().wrapping_add(offset).cast();
            // SAFETY: `length` bytes from `offset` are within the buffer, and `host` has room for them.
            unsafe {
                let view = sys::crk_const_view_t { ptr, bytes: length };
                check(sys::crk_copy_to_host(device.raw(), host.as_mut_ptr().cast(), view, length))?;
            }
            Ok(host)
        };
        let (a, b) = (read(ours)?, read(theirs)?);
        if a == b {
            continue;
        }
        match apart(case, &a, &b) {
            Apart::Wrong(at) => return Ok(Apart::Wrong(offset / width + at)),
            other => all = all.and(other),
        }
    }
    Ok(all)
}
