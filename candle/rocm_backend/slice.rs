//! Device memory with a type, for a program's own ops. docs/porting.md shows which call of `cuda_backend` becomes which
//! of these.
use super::{RocmDevice, RocmError, RocmStorage, WrapErr, kernels, layout_of};
use crate::backend::BackendStorage;
use crate::{DType, Layout, Result, WithDType};
use candle_rocm_sys::{Buffer, Params};
use float8::F8E4M3;
use half::{bf16, f16};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// Types that host and device store alike: numbers, and `#[repr(C)]` structs of numbers.
///
/// # Safety
/// Every pattern of bytes is a value of the type, and the type has no padding.
pub unsafe trait DeviceRepr: Copy + 'static {}

/// Types for which bytes of 0 are a value. Every [`DeviceRepr`] is one; the name is for bounds of generic code.
pub trait ValidAsZeroBits {}

impl<T: DeviceRepr> ValidAsZeroBits for T {}

/// A tensor's element type that kernels have.
pub trait RocmDType: WithDType + DeviceRepr {}

impl<T: WithDType + DeviceRepr> RocmDType for T {}

macro_rules! device_repr {
    ($($t:ty)*) => {
        $(
            // SAFETY: a plain number.
            unsafe impl DeviceRepr for $t {}
        )*
    };
}
device_repr!(u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64 f16 bf16 F8E4M3);

/// Calls `$use!` with `$with` and every dtype that kernels have, each with its type.
macro_rules! dtypes {
    ($use:ident $with:tt) => {
        $use! { $with U8 u8, U32 u32, I16 i16, I32 i32, I64 i64, BF16 bf16, F16 f16, F32 f32, F64 f64, F8E4M3 F8E4M3 }
    };
}

/// `by_type!(dtype, "op", T => value)`: the value of the expression in which `T` is the type of the dtype's elements.
/// Fails for a dtype that has no kernels.
macro_rules! by_type {
    ($dtype:expr, $op:expr, $T:ident => $value:expr) => {
        dtypes!(by_type_arms (($dtype) ($op) $T ($value)))
    };
}
macro_rules! by_type_arms {
    ((($dtype:expr) ($op:expr) $T:ident ($value:expr)) $($name:ident $t:ident),*) => {
        match $dtype {
            $(DType::$name => {
                type $T = $t;
                $value
            })*
            dtype => Err(RocmError::UnsupportedDtype { dtype, op: $op })?,
        }
    };
}

/// Host memory as bytes.
fn bytes_of<T: DeviceRepr>(values: &[T]) -> &[u8] {
    // SAFETY: a DeviceRepr has no padding.
    unsafe { super::storage::bytes_of(values) }
}

/// Elements of `T` in device memory. Dropping it frees the memory in stream order.
#[derive(Debug)]
#[repr(transparent)]
pub struct RocmSlice<T> {
    buffer: Buffer,
    elements: PhantomData<T>,
}

/// A part of a [`RocmSlice`].
#[derive(Debug)]
pub struct RocmView<'a, T> {
    buffer: &'a Buffer,
    /// In elements.
    start: usize,
    len: usize,
    elements: PhantomData<&'a T>,
}

/// A part of a [`RocmSlice`] that the holder may write to.
#[derive(Debug)]
pub struct RocmViewMut<'a, T> {
    view: RocmView<'a, T>,
    alone: PhantomData<&'a mut T>,
}

/// Device memory of a type: a [`RocmSlice`] or a part of one.
pub trait DeviceSlice<T> {
    /// All of it.
    fn as_view(&self) -> RocmView<'_, T>;

    /// The number of elements.
    fn len(&self) -> usize {
        self.as_view().len
    }

    /// Whether there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size in bytes.
    fn num_bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }

    /// The address of the first element on the device; NULL for memory of 0 bytes. It is valid while the memory is.
    fn device_ptr(&self) -> *mut T {
        let view = self.as_view();
        view.buffer.as_ptr().cast::<T>().wrapping_add(view.start)
    }
}

/// Device memory that the holder may write to: a [`RocmSlice`] or a [`RocmViewMut`].
pub trait DeviceSliceMut<T>: DeviceSlice<T> {}

impl<T> DeviceSliceMut<T> for RocmSlice<T> {}
impl<T> DeviceSliceMut<T> for RocmViewMut<'_, T> {}

impl<T> DeviceSlice<T> for RocmSlice<T> {
    fn as_view(&self) -> RocmView<'_, T> {
        RocmView { buffer: &self.buffer, start: 0, len: self.buffer.bytes() / size_of::<T>(), elements: PhantomData }
    }
}

impl<T> DeviceSlice<T> for RocmView<'_, T> {
    fn as_view(&self) -> RocmView<'_, T> {
        RocmView { ..*self }
    }
}

impl<T> DeviceSlice<T> for RocmViewMut<'_, T> {
    fn as_view(&self) -> RocmView<'_, T> {
        self.view.as_view()
    }
}

impl<'a, T> RocmView<'a, T> {
    /// The elements of `range`, or None if it is not within the view.
    pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Option<RocmView<'a, T>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.checked_add(1)?,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.checked_add(1)?,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len,
        };
        (start <= end && end <= self.len).then(|| RocmView { start: self.start + start, len: end - start, ..*self })
    }

    /// The elements of `range`. Panics if it is not within the view, as a slice of Rust's does.
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize> + std::fmt::Debug) -> RocmView<'a, T> {
        let len = self.len;
        self.try_slice((range.start_bound().cloned(), range.end_bound().cloned()))
            .unwrap_or_else(|| panic!("{range:?} is not within the {len} elements of the device memory"))
    }

    /// The bytes, as `candle-rocm-sys` takes them.
    pub(super) fn raw(&self) -> Result<kernels::View<'a>> {
        let size = size_of::<T>();
        self.buffer.range(self.start * size..(self.start + self.len) * size).w()
    }
}

impl<T> RocmViewMut<'_, T> {
    /// The elements of `range`. Panics if it is not within the view, as a slice of Rust's does.
    #[track_caller]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize> + std::fmt::Debug) -> RocmViewMut<'_, T> {
        RocmViewMut { view: self.view.slice(range), alone: PhantomData }
    }
}

impl<T> RocmSlice<T> {
    fn new(buffer: Buffer) -> Self {
        Self { buffer, elements: PhantomData }
    }

    /// The buffer as a slice of `T`; the caller has checked that it holds elements of `T`.
    fn of(buffer: &Buffer) -> &Self {
        // SAFETY: the type is transparent over its buffer.
        unsafe { &*std::ptr::from_ref(buffer).cast() }
    }

    /// The same, to write to.
    fn of_mut(buffer: &mut Buffer) -> &mut Self {
        // SAFETY: the type is transparent over its buffer.
        unsafe { &mut *std::ptr::from_mut(buffer).cast() }
    }

    /// The memory as bytes.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The elements of `range`. Panics if it is not within the slice, as a slice of Rust's does.
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize> + std::fmt::Debug) -> RocmView<'_, T> {
        self.as_view().slice(range)
    }

    /// The elements of `range`, or None if it is not within the slice.
    pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Option<RocmView<'_, T>> {
        self.as_view().try_slice(range)
    }

    /// As [`Self::slice`], to write to.
    #[track_caller]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize> + std::fmt::Debug) -> RocmViewMut<'_, T> {
        RocmViewMut { view: self.as_view().slice(range), alone: PhantomData }
    }

    /// As [`Self::try_slice`], to write to.
    pub fn try_slice_mut(&mut self, range: impl RangeBounds<usize>) -> Option<RocmViewMut<'_, T>> {
        Some(RocmViewMut { view: self.as_view().try_slice(range)?, alone: PhantomData })
    }

    /// A copy on the same device.
    pub fn try_clone(&self) -> Result<Self> {
        let device = self.buffer.device();
        let copy = device.alloc(self.buffer.bytes()).w()?;
        device.copy(&copy, &self.buffer).w()?;
        Ok(Self::new(copy))
    }
}

/// Typed memory and copies, under the names of `CudaDevice`.
impl RocmDevice {
    /// Memory for `len` elements.
    ///
    /// # Safety
    /// The contents are undefined until something is written to them.
    pub unsafe fn alloc<T: DeviceRepr>(&self, len: usize) -> Result<RocmSlice<T>> {
        // Saturates: no device has that much memory, so the allocation fails.
        Ok(RocmSlice::new(self.handle().alloc(len.saturating_mul(size_of::<T>())).w()?))
    }

    /// `len` elements whose bytes are 0.
    pub fn alloc_zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<RocmSlice<T>> {
        // SAFETY: the contents are written here.
        let slice = unsafe { self.alloc::<T>(len)? };
        slice.buffer.fill_bytes(0).w()?;
        Ok(slice)
    }

    /// Device memory with a copy of `src`, a slice, an array or a vector.
    pub fn clone_htod<T: DeviceRepr, Src: AsRef<[T]> + ?Sized>(&self, src: &Src) -> Result<RocmSlice<T>> {
        Ok(RocmSlice::new(self.handle().upload(bytes_of(src.as_ref())).w()?))
    }

    /// Copies `src` to the beginning of `dst`, which must not be shorter. `src` may change after the call.
    pub fn memcpy_htod<T: DeviceRepr, Src: AsRef<[T]> + ?Sized>(
        &self,
        src: &Src,
        dst: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        dst.as_view().raw()?.write(bytes_of(src.as_ref())).w()
    }

    /// A copy of `src` on the host. Waits for the device's earlier work.
    pub fn clone_dtoh<T: DeviceRepr>(&self, src: &impl DeviceSlice<T>) -> Result<Vec<T>> {
        // SAFETY: every pattern of bytes is a value of the type.
        unsafe { src.as_view().raw()?.download_as() }.w()
    }

    /// Copies `src` to the beginning of `dst`, which must not be shorter. Waits for the device's earlier work.
    pub fn memcpy_dtoh<T: DeviceRepr, Dst: AsMut<[T]> + ?Sized>(
        &self,
        src: &impl DeviceSlice<T>,
        dst: &mut Dst,
    ) -> Result<()> {
        let (src, dst) = (src.as_view(), dst.as_mut());
        if dst.len() < src.len {
            crate::bail!("memcpy_dtoh: src has {} elements, and dst has room for {}", src.len, dst.len())
        }
        // SAFETY: every pattern of bytes is a value of the type; the length is at most that of `dst`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(dst.as_mut_ptr().cast::<u8>(), src.num_bytes()) };
        src.raw()?.read(bytes).w()
    }

    /// Copies `src` to the beginning of `dst`, which must not be shorter. Both are on this device.
    pub fn memcpy_dtod<T>(&self, src: &impl DeviceSlice<T>, dst: &mut impl DeviceSliceMut<T>) -> Result<()> {
        self.handle().copy(dst.as_view().raw()?, src.as_view().raw()?).w()
    }

    /// The `info` argument of a kernel by Candle's name: NULL for a contiguous layout, else dims and strides on the
    /// device. Keep it until the launch has been made.
    pub fn params_from_layout(&self, layout: &Layout) -> Result<Params> {
        self.handle().params(&layout_of(layout)?).w()
    }
}

macro_rules! storage_slice {
    (() $($dtype:ident $t:ident),*) => {
        /// The elements of a storage with their type: `CudaStorageSlice`.
        #[derive(Debug)]
        pub enum RocmStorageSlice<'a> {
            $(#[doc = concat!("Elements of ", stringify!($t), ".")] $dtype(&'a RocmSlice<$t>),)*
        }

        impl RocmStorage {
            /// The elements, for a `match` over their types. Fails for a dtype that has no kernels.
            pub fn slice(&self) -> Result<RocmStorageSlice<'_>> {
                Ok(match self.dtype() {
                    $(DType::$dtype => RocmStorageSlice::$dtype(RocmSlice::of(self.buffer())),)*
                    dtype => Err(RocmError::UnsupportedDtype { dtype, op: "slice" })?,
                })
            }
        }
    };
}
dtypes!(storage_slice());

/// Typed views, as `CudaStorage` has them.
impl RocmStorage {
    /// A storage of these elements, which are on `device`.
    pub fn wrap_slice<T: RocmDType>(slice: RocmSlice<T>, device: RocmDevice) -> Self {
        Self::new(slice.buffer, T::DTYPE, device)
    }

    /// All elements of the storage. An op's layout says which of them are the tensor's. Fails if the dtype is another.
    pub fn as_slice<T: RocmDType>(&self) -> Result<&RocmSlice<T>> {
        self.expect_dtype(T::DTYPE, "as_slice", "storage")?;
        Ok(RocmSlice::of(self.buffer()))
    }

    /// The same, to write to.
    pub fn as_slice_mut<T: RocmDType>(&mut self) -> Result<&mut RocmSlice<T>> {
        self.expect_dtype(T::DTYPE, "as_slice_mut", "storage")?;
        Ok(RocmSlice::of_mut(self.buffer_mut()))
    }
}

pub(super) use {by_type, by_type_arms, dtypes};
