//! Memory for layouts with very large strides.
use candle_rocm_sys::sys;

/// Address space that uses memory only where it is touched, for layouts that reach beyond 2^32 elements.
pub struct Sparse {
    pub at: *mut u8,
    bytes: usize,
}

impl Sparse {
    pub fn new(bytes: usize) -> Result<Sparse, String> {
        extern "C" {
            fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
        }
        const READ_WRITE: i32 = 3;
        // MAP_PRIVATE, MAP_ANON, MAP_NORESERVE.
        const FLAGS: i32 = if cfg!(target_os = "linux") { 0x2 | 0x20 | 0x4000 } else { 0x2 | 0x1000 | 0x40 };
        // SAFETY: new anonymous memory.
        let at = unsafe { mmap(std::ptr::null_mut(), bytes, READ_WRITE, FLAGS, -1, 0) };
        if at as isize == -1 { Err(format!("no {bytes} bytes of addresses")) } else { Ok(Sparse { at, bytes }) }
    }

    pub fn view(&self) -> sys::crk_view_t {
        sys::crk_view_t { ptr: self.at.cast(), bytes: self.bytes }
    }
}

impl Drop for Sparse {
    fn drop(&mut self) {
        extern "C" {
            fn munmap(at: *mut u8, bytes: usize) -> i32;
        }
        // SAFETY: this memory comes from mmap.
        unsafe { munmap(self.at, self.bytes) };
    }
}
