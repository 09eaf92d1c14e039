//! Kernels by name, and their launch.
use crate::error::check;
use crate::{Buffer, Device, Params, Result, sys};
use std::ffi::c_void;
use std::marker::PhantomData;

/// A kernel on a device. Keeps the handle open. Can be launched on the handle that it came from and on its clones.
#[derive(Clone)]
pub struct Function {
    raw: sys::crk_function_t,
    device: Device,
}

// SAFETY: a function belongs to its device and may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// Grid in blocks, block in threads, dynamic shared memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: u32,
}

impl Launch {
    /// Candle's geometry for element-wise kernels: 1024 threads per block, and enough blocks for `numel`.
    pub fn for_num_elems(numel: u32) -> Launch {
        Launch { grid: [numel.div_ceil(1024), 1, 1], block: [1024, 1, 1], shared_bytes: 0 }
    }
}

/// An argument of a launch: a pointer, a number or a struct.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Arg<'a> {
    raw: sys::crk_arg_t,
    borrows: PhantomData<&'a ()>,
}

impl<'a> Arg<'a> {
    fn raw(value: u64, bytes: u32, is_pointer: bool) -> Arg<'a> {
        Arg { raw: sys::crk_arg_t { data: std::ptr::null(), value, bytes, is_pointer }, borrows: PhantomData }
    }

    /// A device address, or NULL.
    pub fn ptr(address: *const c_void) -> Arg<'a> {
        Arg::raw(address as usize as u64, 8, true)
    }

    /// The address `offset` bytes after the beginning of a buffer.
    pub fn buffer(buffer: &'a Buffer, offset: usize) -> Arg<'a> {
        Arg::ptr(buffer.as_ptr().cast::<u8>().wrapping_add(offset).cast())
    }

    /// A value of 1, 2, 4 or 8 bytes, given by its bits. Use it for an f16, for example.
    pub fn bits(bits: u64, bytes: u32) -> Arg<'a> {
        Arg::raw(bits, bytes, false)
    }

    /// A number or a struct by value, such as a `#[repr(C)]` struct that the kernel takes. It is read at the launch.
    pub fn value<T: Copy>(value: &'a T) -> Arg<'a> {
        let data = std::ptr::from_ref(value).cast();
        let raw = sys::crk_arg_t { data, value: 0, bytes: size_of::<T>() as u32, is_pointer: false };
        Arg { raw, borrows: PhantomData }
    }
}

impl<'a> From<&'a Buffer> for Arg<'a> {
    fn from(buffer: &'a Buffer) -> Arg<'a> {
        Arg::buffer(buffer, 0)
    }
}

impl<'a> From<&'a Params> for Arg<'a> {
    fn from(params: &'a Params) -> Arg<'a> {
        Arg::ptr(params.as_ptr())
    }
}

macro_rules! arg_from {
    ($($t:ty: $bits:expr),* $(,)?) => {
        $(impl From<$t> for Arg<'_> {
            fn from(value: $t) -> Self {
                let bits: fn($t) -> u64 = $bits;
                Arg::bits(bits(value), size_of::<$t>() as u32)
            }
        })*
    };
}
arg_from! {
    u8: |v| v.into(),
    i16: |v| (v as u16).into(),
    u32: |v| v.into(),
    i32: |v| (v as u32).into(),
    u64: |v| v,
    i64: |v| v as u64,
    usize: |v| v as u64,
    f32: |v| v.to_bits().into(),
    f64: |v| v.to_bits(),
}

impl Function {
    pub(crate) fn new(raw: sys::crk_function_t, device: Device) -> Function {
        Function { raw, device }
    }

    /// The C handle, for calls of [`sys`].
    pub fn raw(&self) -> sys::crk_function_t {
        self.raw
    }

    /// Runs the kernel on the stream of the handle that it came from. The number and the sizes of the arguments are
    /// checked against the kernel's signature. Pointers are told from values too, where the driver tells.
    ///
    /// # Safety
    /// The pointers in `args` are those that the kernel expects. Their memory is large enough for `launch` and the
    /// counts.
    pub unsafe fn launch(&self, launch: Launch, args: &[Arg<'_>]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_on(&self.device, launch, args) }
    }

    /// The same on another handle of the same device.
    ///
    /// # Safety
    /// As for [`Function::launch`]. The caller also orders the two streams, where both use the memory of the arguments.
    pub unsafe fn launch_on(&self, device: &Device, launch: Launch, args: &[Arg<'_>]) -> Result<()> {
        let dim3 = |[x, y, z]: [u32; 3]| sys::crk_dim3_t { x, y, z };
        let (grid, block) = (dim3(launch.grid), dim3(launch.block));
        // SAFETY: Arg is transparent over crk_arg_t; the rest is the caller's promise.
        check(unsafe {
            sys::crk_launch(device.raw(), self.raw, grid, block, launch.shared_bytes, args.as_ptr().cast(), args.len())
        })
    }
}
