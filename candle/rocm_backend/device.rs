//! Devices.
use super::storage::{bytes_of, dtype_of};
use super::{RocmStorage, WrapErr, elements, kernels};
use crate::backend::{BackendDevice, BackendStorage};
use crate::{CpuStorage, DType, Layout, Result, Shape};
use candle_rocm_sys::{Backend, Buffer, Device, Status};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

/// Candle's seed of a new device.
const FIRST_SEED: u64 = 299792458;

/// Unique identifier for ROCm devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(usize);

impl DeviceId {
    fn new() -> Self {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A kernel, and how to launch it: [`candle_rocm_sys::Function`].
pub type RocmFunc = candle_rocm_sys::Function;

/// An AMD GPU: a handle with one stream, in whose order all its work is done. Clones are the same device.
///
/// Devices that [`BackendDevice::new`] opens on one GPU share the stream, so tensors of them may be mixed; one of
/// [`RocmDevice::new_with_stream`] has its own, and tensors come to it by `to_device`.
#[derive(Clone)]
pub struct RocmDevice {
    id: DeviceId,
    ordinal: usize,
    handle: Device,
    random: Arc<Random>,
}

/// The generator of random numbers. Its state is on the device, where draws advance it in the stream's order.
struct Random {
    state: Buffer,
    seed: Mutex<u64>,
}

impl std::fmt::Debug for RocmDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RocmDevice({:?}, {:?})", self.id, self.handle)
    }
}

/// `CANDLE_ROCM_DEVICE`; empty it is as if not set.
fn named() -> Option<std::ffi::OsString> {
    std::env::var_os("CANDLE_ROCM_DEVICE").filter(|name| !name.is_empty())
}

/// What `CANDLE_ROCM_DEVICE` names, else a HIP device.
fn open(ordinal: usize) -> Result<Device> {
    if named().is_some() {
        return Device::open_best().w();
    }
    let opened = Device::open(Backend::CRK_BACKEND_HIP, i32::try_from(ordinal).unwrap_or(i32::MAX));
    opened.map_err(|error| match error.status() {
        Status::CRK_NO_RUNTIME | Status::CRK_NO_DEVICE => {
            let advice = "without an AMD GPU, CANDLE_ROCM_DEVICE=cpu:32 runs the same kernels on the CPU";
            crate::Error::from(error).context(advice)
        }
        _ => error.into(),
    })
}

/// An ordinal, and what `CANDLE_ROCM_DEVICE` was.
type Place = (usize, Option<std::ffi::OsString>);

/// The one handle that the devices of an ordinal share. It stays open, as a CUDA context does.
fn shared(ordinal: usize) -> Result<Device> {
    static HANDLES: LazyLock<Mutex<HashMap<Place, Device>>> = LazyLock::new(Default::default);
    let key = (ordinal, named());
    let mut handles = HANDLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(handle) = handles.get(&key) {
        return Ok(handle.clone());
    }
    let handle = open(ordinal)?;
    handles.insert(key, handle.clone());
    Ok(handle)
}

impl RocmDevice {
    /// How many devices there are; 0 where no runtime is installed.
    pub fn count() -> Result<usize> {
        let backend = match named() {
            Some(_) => Backend::CRK_BACKEND_AUTO,
            None => Backend::CRK_BACKEND_HIP,
        };
        match Device::count(backend) {
            Err(error) if error.status() == Status::CRK_NO_RUNTIME => Ok(0),
            count => count.w(),
        }
    }

    /// A device with a stream of its own.
    pub fn new_with_stream(ordinal: usize) -> Result<Self> {
        Self::from_handle(shared(ordinal)?.new_stream().w()?, ordinal)
    }

    /// A device on a handle that the program has.
    pub fn from_handle(handle: Device, ordinal: usize) -> Result<Self> {
        let random = Arc::new(Random { state: handle.random_state(FIRST_SEED).w()?, seed: Mutex::new(FIRST_SEED) });
        Ok(Self { id: DeviceId::new(), ordinal, handle, random })
    }

    /// The device's number, one for each that was opened.
    pub fn id(&self) -> DeviceId {
        self.id
    }

    /// The handle, for launchers that Candle has no op for, for events, memory figures, and graphs.
    pub fn handle(&self) -> &Device {
        &self.handle
    }

    /// `dtype` elements of `shape`, contents undefined.
    pub(crate) fn empty(&self, shape: &Shape, dtype: DType) -> Result<RocmStorage> {
        self.empty_of(elements(shape.dims()), dtype)
    }

    /// `count` elements of `dtype`, contents undefined.
    pub(crate) fn empty_of(&self, count: usize, dtype: DType) -> Result<RocmStorage> {
        // As in `elements`: more than there are.
        let bytes = count.saturating_mul(dtype_of(dtype, "alloc")?.size());
        Ok(RocmStorage::new(self.handle.alloc(bytes).w()?, dtype, self.clone()))
    }

    /// A storage of these bytes, whatever the dtype.
    pub fn storage_from_bytes(&self, bytes: &[u8], dtype: DType) -> Result<RocmStorage> {
        Ok(RocmStorage::new(self.handle.upload(bytes).w()?, dtype, self.clone()))
    }

    /// A kernel by Candle's name, such as `("uexp_bf16", &kernels::UNARY)`. Its module is loaded once.
    pub fn get_or_load_func(&self, fn_name: &str, module: &kernels::Module) -> Result<RocmFunc> {
        self.handle.function(module, fn_name).w()
    }

    /// A kernel of a program's own. `source` is HIP, compiled at run time when the module's name is first met; this needs hipRTC, which is
    /// part of the ROCm runtime.
    pub fn get_or_load_custom_func(&self, fn_name: &str, module_name: &str, source: &str) -> Result<RocmFunc> {
        self.custom(fn_name, module_name, || self.handle.compile_module(module_name, source, &[]))
    }

    /// The same of a ready code object, which is loaded when the module's name is first met.
    ///
    /// # Safety
    /// The code object is what it says it is: its kernels run as they are.
    pub unsafe fn get_or_load_code_object(
        &self,
        fn_name: &str,
        module_name: &str,
        code_object: &[u8],
    ) -> Result<RocmFunc> {
        // SAFETY: the caller's promise.
        self.custom(fn_name, module_name, || unsafe { self.handle.load_module(module_name, code_object) })
    }

    fn custom(&self, fn_name: &str, module_name: &str, load: impl FnOnce() -> kernels::Result<()>) -> Result<RocmFunc> {
        if let Ok(function) = self.handle.function_named(module_name, fn_name) {
            return Ok(function);
        }
        // Another thread may have loaded the module meanwhile: what counts is whether the kernel is there.
        let loaded = load().w();
        let found = self.handle.function_named(module_name, fn_name).w();
        match (found, loaded) {
            (Err(missing), Err(error)) => Err(error.context(missing)),
            (found, _) => found,
        }
    }

    fn draw(
        &self,
        shape: &Shape,
        dtype: DType,
        op: &'static str,
        draw: impl FnOnce(kernels::DType, &Buffer, usize, &Buffer) -> kernels::Result<()>,
    ) -> Result<RocmStorage> {
        let dst = self.empty(shape, dtype)?;
        draw(dtype_of(dtype, op)?, dst.buffer(), shape.elem_count(), &self.random.state).w()?;
        Ok(dst)
    }
}

impl BackendDevice for RocmDevice {
    type Storage = RocmStorage;

    fn new(ordinal: usize) -> Result<Self> {
        Self::from_handle(shared(ordinal)?, ordinal)
    }

    fn location(&self) -> crate::DeviceLocation {
        crate::DeviceLocation::Rocm { gpu_id: self.ordinal }
    }

    fn same_device(&self, rhs: &Self) -> bool {
        self.id == rhs.id
    }

    fn zeros_impl(&self, shape: &Shape, dtype: DType) -> Result<RocmStorage> {
        let storage = self.empty(shape, dtype)?;
        storage.buffer().fill_bytes(0).w()?;
        Ok(storage)
    }

    unsafe fn alloc_uninit(&self, shape: &Shape, dtype: DType) -> Result<RocmStorage> {
        self.empty(shape, dtype)
    }

    fn storage_from_slice<T: crate::WithDType>(&self, values: &[T]) -> Result<RocmStorage> {
        let [value] = values else { return self.storage_from_bytes(bytes_of(values), T::DTYPE) };
        // One element, such as a token's id, goes as an argument of a kernel: there is no copy to wait for, and a graph has it as a
        // constant.
        let mut storage = self.empty_of(1, T::DTYPE)?;
        storage.const_set(value.to_scalar(), &Layout::contiguous(1))?;
        Ok(storage)
    }

    fn storage_from_cpu_storage(&self, storage: &CpuStorage) -> Result<RocmStorage> {
        macro_rules! upload {
            ($($dtype:ident)*, only carried: $($carried:ident)*) => { match storage {
                $(CpuStorage::$dtype(values) => self.storage_from_slice(values),)*
                $(CpuStorage::$carried(bytes) => self.storage_from_bytes(bytes, DType::$carried),)*
            } };
        }
        upload!(U8 U32 I16 I32 I64 BF16 F16 F32 F64 F8E4M3, only carried: F6E2M3 F6E3M2 F4 F8E8M0)
    }

    fn storage_from_cpu_storage_owned(&self, storage: CpuStorage) -> Result<RocmStorage> {
        self.storage_from_cpu_storage(&storage)
    }

    fn rand_uniform(&self, shape: &Shape, dtype: DType, lo: f64, up: f64) -> Result<RocmStorage> {
        self.draw(shape, dtype, "rand_uniform", |dtype, dst, count, state| {
            self.handle.random_uniform(dtype, dst, count, lo, up, state)
        })
    }

    fn rand_normal(&self, shape: &Shape, dtype: DType, mean: f64, std: f64) -> Result<RocmStorage> {
        self.draw(shape, dtype, "rand_normal", |dtype, dst, count, state| {
            self.handle.random_normal(dtype, dst, count, mean, std, state)
        })
    }

    fn set_seed(&self, seed: u64) -> Result<()> {
        let mut current = self.random.seed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.handle.random_seed(&self.random.state, seed).w()?;
        *current = seed;
        Ok(())
    }

    fn get_current_seed(&self) -> Result<u64> {
        Ok(*self.random.seed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    fn synchronize(&self) -> Result<()> {
        self.handle.synchronize().w()
    }
}
