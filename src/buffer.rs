//! Device memory that frees itself.
use crate::error::check;
use crate::{Device, Error, Layout, Result, Status, sys};
use std::ffi::c_void;

/// Plain types, which device memory can be copied from and to.
///
/// # Safety
/// Every pattern of bytes is a value of the type, and the type has no padding.
pub unsafe trait Pod: Copy + 'static {}

macro_rules! pod {
    ($($t:ty)*) => {
        $(
            // SAFETY: a plain number.
            unsafe impl Pod for $t {}
        )*
    };
}
pod!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);

/// Device memory. Dropping it frees the memory in stream order, without waiting. Keeps its device handle open.
pub struct Buffer {
    ptr: *mut c_void,
    bytes: usize,
    device: Device,
}

// SAFETY: owned device memory that this crate never dereferences; the calls that use it may come from any thread.
unsafe impl Send for Buffer {}
// SAFETY: as above; shared use is ordered by the device's stream.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<Buffer> {
        let mut ptr = std::ptr::null_mut();
        // SAFETY: `ptr` is written on success.
        check(unsafe { sys::crk_alloc(device.raw(), bytes, &mut ptr) })?;
        Ok(Buffer { ptr, bytes, device: device.clone() })
    }

    /// The buffer's size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device address; NULL for a buffer of 0 bytes.
    pub fn as_ptr(&self) -> *mut c_void {
        self.ptr
    }

    /// The handle that it was allocated from.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The buffer as calls of [`sys`] take it. `.into()` gives the view for an argument that is only read.
    pub fn raw_view(&self) -> sys::crk_view_t {
        sys::crk_view_t { ptr: self.ptr, bytes: self.bytes }
    }

    /// Copies `values` to the buffer's beginning. `values` may change after the call.
    pub fn write<T: Pod>(&self, values: &[T]) -> Result<()> {
        View::from(self).write(values)
    }

    /// Sets every byte to `value`.
    pub fn fill_bytes(&self, value: u8) -> Result<()> {
        // SAFETY: a live allocation of this handle.
        check(unsafe { sys::crk_memset(self.device.raw(), self.raw_view(), value, self.bytes) })
    }

    /// Copies the whole buffer to the host, after all earlier work of the handle. The size must be a multiple of `T`'s.
    pub fn download<T: Pod>(&self) -> Result<Vec<T>> {
        // SAFETY: any bytes are values of a Pod type.
        unsafe { self.download_as() }
    }

    /// The same for types that are not [`Pod`], such as another crate's 16-bit floats.
    ///
    /// # Safety
    /// The bytes of the buffer are values of the type.
    pub unsafe fn download_as<T: Copy>(&self) -> Result<Vec<T>> {
        // SAFETY: the caller's promise.
        unsafe { View::from(self).download_as() }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated from this handle, freed once. A drop cannot report a failure; closing the handle frees the
        // rest.
        let _ = unsafe { sys::crk_free(self.device.raw(), self.ptr) };
    }
}

/// A buffer, or a part of one, for arguments without a layout.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    buffer: &'a Buffer,
    offset: usize,
    bytes: usize,
}

impl<'a> From<&'a Buffer> for View<'a> {
    fn from(buffer: &'a Buffer) -> View<'a> {
        View { buffer, offset: 0, bytes: buffer.bytes }
    }
}

impl Buffer {
    /// A part of the buffer, in bytes. Fails with `CRK_OUT_OF_BOUNDS` for a range that is not within it.
    pub fn range(&self, range: std::ops::Range<usize>) -> Result<View<'_>> {
        let (start, end) = (range.start, range.end);
        if start > end || end > self.bytes {
            let message = format!("Buffer::range: {start}..{end} is not within {} bytes", self.bytes);
            return Err(Error::new(Status::OutOfBounds, message));
        }
        Ok(View { buffer: self, offset: start, bytes: end - start })
    }
}

impl View<'_> {
    /// The handle that the buffer was allocated from.
    pub fn device(&self) -> &Device {
        &self.buffer.device
    }

    /// Copies `values` to the view's beginning. `values` may change after the call.
    pub fn write<T: Pod>(&self, values: &[T]) -> Result<()> {
        let bytes = std::mem::size_of_val(values);
        let source = values.as_ptr().cast();
        // SAFETY: `source` is `bytes` long; the C core checks the destination's size.
        check(unsafe { sys::crk_copy_to_device(self.device().raw(), self.raw(), source, bytes) })
    }

    /// Copies the view's beginning to `values`, after all earlier work of the handle.
    pub fn read<T: Pod>(&self, values: &mut [T]) -> Result<()> {
        let bytes = std::mem::size_of_val(values);
        let target = values.as_mut_ptr().cast();
        self.device().reporting(|| {
            // SAFETY: `target` has room for `bytes`, and any bytes are values of a Pod type; the C core checks the
            // source's size.
            check(unsafe { sys::crk_copy_to_host(self.device().raw(), target, self.raw().into(), bytes) })
        })
    }

    /// Copies the whole view to the host, as [`Buffer::download_as`] does.
    ///
    /// # Safety
    /// The bytes of the view are values of the type.
    pub unsafe fn download_as<T: Copy>(&self) -> Result<Vec<T>> {
        let size = size_of::<T>();
        if size == 0 || self.bytes % size != 0 {
            let message = format!(
                "Buffer::download: the buffer's {} bytes are not a multiple of an element's {size}",
                self.bytes
            );
            return Err(Error::new(Status::InvalidArgument, message));
        }
        let count = self.bytes / size;
        let mut values = Vec::<T>::with_capacity(count);
        let target = values.as_mut_ptr().cast();
        // SAFETY: `target` has room for `bytes`. On success all are written, and the caller promises that they are
        // values.
        unsafe {
            self.device().reporting(|| {
                check(sys::crk_copy_to_host(self.device().raw(), target, self.raw().into(), self.bytes))
            })?;
            values.set_len(count);
        }
        Ok(values)
    }

    /// The view as calls of [`sys`] take it. `.into()` gives the view for an argument that is only read.
    pub fn raw(&self) -> sys::crk_view_t {
        sys::crk_view_t { ptr: self.buffer.ptr.wrapping_byte_add(self.offset), bytes: self.bytes }
    }
}

/// C's `crk_const`.
impl From<sys::crk_view_t> for sys::crk_const_view_t {
    fn from(view: sys::crk_view_t) -> sys::crk_const_view_t {
        sys::crk_const_view_t { ptr: view.ptr, bytes: view.bytes }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes at {:p})", self.bytes, self.ptr)
    }
}

/// The `info` argument of a kernel by name: Candle's `SlicePtrOrNull`. Dropping it gives it back to the handle's cache,
/// so keep it until the launch that reads it has been made.
pub struct Params {
    raw: sys::crk_params_t,
    device: Device,
}

// SAFETY: a device address and a mark of the cache; the calls that use them may come from any thread.
unsafe impl Send for Params {}
// SAFETY: as above.
unsafe impl Sync for Params {}

impl Params {
    pub(crate) fn new(device: &Device, layout: &Layout) -> Result<Params> {
        let mut raw = std::mem::MaybeUninit::zeroed();
        // SAFETY: `raw` is written on success.
        check(unsafe { sys::crk_params_from_layout(device.raw(), layout, raw.as_mut_ptr()) })?;
        // SAFETY: written above.
        Ok(Params { raw: unsafe { raw.assume_init() }, device: device.clone() })
    }

    /// The device address, NULL for a contiguous layout.
    pub fn as_ptr(&self) -> *const c_void {
        self.raw.ptr
    }
}

impl Drop for Params {
    fn drop(&mut self) {
        // SAFETY: acquired from this handle, released once.
        unsafe { sys::crk_params_release(self.device.raw(), self.raw) }
    }
}
