//! Pinned host memory, and copies that do not wait.
use crate::error::check;
use crate::{Buffer, Device, Error, Pod, Result, Status, View, sys};
use std::ffi::c_void;

/// Pinned host memory: devices copy from and to it without a staging buffer. Dropping it waits for the handle's work; a
/// drop while the handle is captured leaks the memory.
pub struct HostBuffer {
    ptr: *mut c_void,
    bytes: usize,
    device: Device,
}

// SAFETY: owned host memory.
unsafe impl Send for HostBuffer {}
// SAFETY: shared use only reads; copies that write to it are unsafe calls.
unsafe impl Sync for HostBuffer {}

impl Device {
    /// `bytes` of pinned host memory, filled with zeros.
    pub fn alloc_host(&self, bytes: usize) -> Result<HostBuffer> {
        let mut ptr = std::ptr::null_mut();
        // SAFETY: a live handle; `ptr` is written on success.
        check(unsafe { sys::crk_host_alloc(self.raw(), bytes, &mut ptr) })?;
        if bytes > 0 {
            // SAFETY: the memory is `bytes` long and nobody else has it.
            unsafe { std::ptr::write_bytes(ptr.cast::<u8>(), 0, bytes) };
        }
        Ok(HostBuffer { ptr, bytes, device: self.clone() })
    }
}

impl HostBuffer {
    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its address; NULL for 0 bytes.
    pub fn as_ptr(&self) -> *mut c_void {
        self.ptr
    }

    /// The whole elements of type `T` that fit the memory.
    pub fn as_slice<T: Pod>(&self) -> &[T] {
        let (first, count) = self.elements();
        // SAFETY: `first` is aligned and begins `count` elements, whose bytes are all initialised.
        unsafe { std::slice::from_raw_parts(first, count) }
    }

    /// The same, to be written.
    pub fn as_mut_slice<T: Pod>(&mut self) -> &mut [T] {
        let (first, count) = self.elements();
        // SAFETY: as in `as_slice`; `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(first, count) }
    }

    /// The address and the number of whole elements. Panics where the memory is not aligned for the type.
    fn elements<T: Pod>(&self) -> (*mut T, usize) {
        let count = self.bytes.checked_div(size_of::<T>()).unwrap_or(0);
        if count == 0 {
            return (std::ptr::NonNull::dangling().as_ptr(), 0);
        }
        let first = self.ptr.cast::<T>();
        assert!(first.is_aligned(), "HostBuffer: {first:p} is not aligned for elements of {} bytes", size_of::<T>());
        (first, count)
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated from this handle and freed once. A drop cannot report a failure.
        let _ = unsafe { sys::crk_host_free(self.device.raw(), self.ptr) };
    }
}

impl Buffer {
    /// Copies the whole of `src` to the buffer's beginning, without waiting.
    ///
    /// # Safety
    /// `src` came from the buffer's handle, and its contents do not change until the handle's stream has done the copy.
    /// Where the copy is captured, the same holds for every launch of the graph, which `src` must outlive.
    pub unsafe fn write_async(&self, src: &HostBuffer) -> Result<()> {
        // SAFETY: `src` is as long as it says; the destination's size is checked against its view.
        check(unsafe { sys::crk_copy_to_device_async(self.device().raw(), self.raw_view(), src.ptr, src.bytes) })
    }

    /// Copies the buffer's beginning to the whole of `dst`, without waiting.
    ///
    /// # Safety
    /// `dst` came from the buffer's handle, and nobody reads or writes its contents until the handle's stream has done
    /// the copy. Where the copy is captured, the same holds for every launch of the graph, which `dst` must outlive.
    pub unsafe fn read_async(&self, dst: &HostBuffer) -> Result<()> {
        // SAFETY: `dst` is as long as it says; the source's size is checked against its view.
        check(unsafe { sys::crk_copy_to_host_async(self.device().raw(), dst.ptr, self.raw_view().into(), dst.bytes) })
    }
}

impl View<'_> {
    /// Copies the first bytes of `src`, as many as the view has, to the view, without waiting.
    ///
    /// # Safety
    /// As for [`Buffer::write_async`].
    pub unsafe fn write_async(&self, src: &HostBuffer) -> Result<()> {
        let view = self.raw();
        if view.bytes > src.bytes {
            let message = format!("View::write_async: src has {} bytes, the view {}", src.bytes, view.bytes);
            return Err(Error::new(Status::OutOfBounds, message));
        }
        // SAFETY: both have `view.bytes` bytes.
        check(unsafe { sys::crk_copy_to_device_async(self.device().raw(), view, src.ptr, view.bytes) })
    }
}

impl std::fmt::Debug for HostBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostBuffer({} bytes at {:p})", self.bytes, self.ptr)
    }
}
