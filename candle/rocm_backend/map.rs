//! Ops that are one generic function over the dtypes, under the names of `cuda_backend`. `map` calls `f` with the type
//! of the storages' elements. It fails if their dtypes differ, or for a dtype that has no kernels.
use super::slice::{DeviceRepr, RocmSlice, ValidAsZeroBits, by_type, by_type_arms, dtypes};
use super::{RocmDevice, RocmError, RocmStorage};
use crate::backend::BackendStorage;
use crate::{DType, Layout, Result, WithDType};
use float8::F8E4M3;
use half::{bf16, f16};

/// An op with one source.
pub trait Map1 {
    /// The result for elements of `T`.
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        src: &RocmSlice<T>,
        dev: &RocmDevice,
        layout: &Layout,
    ) -> Result<RocmSlice<T>>;

    /// The result for any elements.
    fn map(&self, s: &RocmStorage, d: &RocmDevice, l: &Layout) -> Result<RocmStorage> {
        Ok(by_type!(s.dtype(), "Map1", T => RocmStorage::wrap_slice(self.f::<T>(s.as_slice()?, d, l)?, d.clone())))
    }
}

/// An op with two sources of one dtype.
pub trait Map2 {
    /// The result for elements of `T`.
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        src1: &RocmSlice<T>,
        layout1: &Layout,
        src2: &RocmSlice<T>,
        layout2: &Layout,
        dev: &RocmDevice,
    ) -> Result<RocmSlice<T>>;

    /// The result for any elements.
    fn map(&self, s1: &RocmStorage, l1: &Layout, s2: &RocmStorage, l2: &Layout, d: &RocmDevice) -> Result<RocmStorage> {
        Ok(by_type!(s1.dtype(), "Map2", T => {
            RocmStorage::wrap_slice(self.f::<T>(s1.as_slice()?, l1, s2.as_slice()?, l2, d)?, d.clone())
        }))
    }
}

/// An op with three sources of one dtype.
pub trait Map3 {
    /// The result for elements of `T`.
    #[allow(clippy::too_many_arguments)]
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        src1: &RocmSlice<T>,
        layout1: &Layout,
        src2: &RocmSlice<T>,
        layout2: &Layout,
        src3: &RocmSlice<T>,
        layout3: &Layout,
        dev: &RocmDevice,
    ) -> Result<RocmSlice<T>>;

    /// The result for any elements.
    #[allow(clippy::too_many_arguments)]
    fn map(
        &self,
        s1: &RocmStorage,
        l1: &Layout,
        s2: &RocmStorage,
        l2: &Layout,
        s3: &RocmStorage,
        l3: &Layout,
        d: &RocmDevice,
    ) -> Result<RocmStorage> {
        Ok(by_type!(s1.dtype(), "Map3", T => {
            let dst = self.f::<T>(s1.as_slice()?, l1, s2.as_slice()?, l2, s3.as_slice()?, l3, d)?;
            RocmStorage::wrap_slice(dst, d.clone())
        }))
    }
}

/// An op that changes its first argument.
pub trait Map2InPlace {
    /// Changes elements of `T`.
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        dst: &mut RocmSlice<T>,
        dst_l: &Layout,
        src: &RocmSlice<T>,
        src_l: &Layout,
        dev: &RocmDevice,
    ) -> Result<()>;

    /// Changes any elements.
    fn map(
        &self,
        dst: &mut RocmStorage,
        dst_l: &Layout,
        src: &RocmStorage,
        src_l: &Layout,
        d: &RocmDevice,
    ) -> Result<()> {
        by_type!(src.dtype(), "Map2InPlace", T => self.f::<T>(dst.as_slice_mut()?, dst_l, src.as_slice()?, src_l, d))
    }
}

/// An op with one source that chooses the dtype of its result. `wrap` makes a storage of elements of the source's type.
pub trait Map1Any {
    /// The result for elements of `T`.
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits, W: Fn(RocmSlice<T>) -> RocmStorage>(
        &self,
        src: &RocmSlice<T>,
        dev: &RocmDevice,
        layout: &Layout,
        wrap: W,
    ) -> Result<RocmStorage>;

    /// The result for any elements.
    fn map(&self, s: &RocmStorage, d: &RocmDevice, l: &Layout) -> Result<RocmStorage> {
        by_type!(s.dtype(), "Map1Any", T => {
            self.f::<T, _>(s.as_slice()?, d, l, |slice| RocmStorage::wrap_slice(slice, d.clone()))
        })
    }
}

/// An op with two sources of one dtype that chooses the dtype of its result.
pub trait Map2Any {
    /// The result for elements of `T`.
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        src1: &RocmSlice<T>,
        layout1: &Layout,
        src2: &RocmSlice<T>,
        layout2: &Layout,
        dev: &RocmDevice,
    ) -> Result<RocmStorage>;

    /// The result for any elements.
    fn map(&self, s1: &RocmStorage, l1: &Layout, s2: &RocmStorage, l2: &Layout, d: &RocmDevice) -> Result<RocmStorage> {
        by_type!(s1.dtype(), "Map2Any", T => self.f::<T>(s1.as_slice()?, l1, s2.as_slice()?, l2, d))
    }
}
