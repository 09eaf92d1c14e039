//! Devices.
use super::storage::{bytes_of, dtype_of};
use super::{RocmError, RocmFunc, RocmStorage, WrapErr, elements, kernels};
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

/// An AMD GPU: a handle with one stream. All work of the device runs in that stream's order. Clones are the same
/// device.
///
/// Devices that [`BackendDevice::new`] opens with one ordinal share a stream, so their tensors may be mixed. Each has
/// reports of its own: ids out of range that its ops met are errors of its own synchronisations and downloads, and of
/// no other device's. A device of another ordinal or of [`RocmDevice::new_with_stream`] has another stream; tensors
/// move to it with `to_device`. That holds at one location too: `CANDLE_ROCM_DEVICE=cpu:32` is that of all ordinals.
#[derive(Clone)]
pub struct RocmDevice {
    id: DeviceId,
    gpu_id: usize,
    handle: Device,
    random: Arc<Random>,
    staging: Arc<Mutex<Option<super::load::Staging>>>,
}

/// The random number generator. Its state is on the device, and draws advance it in the stream's order.
struct Random {
    state: Buffer,
    seed: Mutex<u64>,
}

impl std::fmt::Debug for RocmDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RocmDevice({:?}, {:?})", self.id, self.handle)
    }
}

/// Opens the device that replaces the GPUs, or else HIP device `ordinal`.
fn open(ordinal: usize) -> Result<Device> {
    let opened = match RocmDevice::replaced_by() {
        Some(_) => Device::open_best(), // It reads the same variable.
        None => Device::open(Backend::Hip, i32::try_from(ordinal).unwrap_or(i32::MAX)),
    };
    opened.map_err(|error| match error.status() {
        Status::NoRuntime | Status::NoDevice => RocmError::NoGpu(error).into(),
        _ => error.into(),
    })
}

/// An ordinal, and the device that replaces the GPUs.
type Place = (usize, Option<String>);

static HANDLES: LazyLock<Mutex<HashMap<Place, Device>>> = LazyLock::new(Default::default);

/// A handle that is open, else that of device 0, for questions to which every device has the same answer.
#[cfg(feature = "rccl")]
pub(super) fn any() -> Result<Device> {
    let replaced_by = RocmDevice::replaced_by();
    let handles = HANDLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let open = handles.iter().find(|((_, place), _)| *place == replaced_by).map(|(_, handle)| handle.clone());
    drop(handles);
    open.map_or_else(|| shared(0), Ok)
}

/// Returns the handle that all devices of an ordinal share. The handle stays open, as a CUDA context does.
fn shared(ordinal: usize) -> Result<Device> {
    let key = (ordinal, RocmDevice::replaced_by());
    let mut handles = HANDLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(handle) = handles.get(&key) {
        return Ok(handle.clone());
    }
    let handle = open(ordinal)?;
    super::prepare::begin(&handle);
    handles.insert(key, handle.clone());
    Ok(handle)
}

impl RocmDevice {
    /// The device that every `new` opens in place of a GPU: the value of `CANDLE_ROCM_DEVICE`, such as `"cpu:32"`. None
    /// if it is unset or empty, and in every build without the feature `rocm-backend`, which is for tests and for
    /// machines without an AMD GPU. Without that feature device n is HIP device n, whatever the variable says.
    pub fn replaced_by() -> Option<String> {
        if !cfg!(feature = "rocm-backend") {
            return None;
        }
        let name = std::env::var_os("CANDLE_ROCM_DEVICE").filter(|name| !name.is_empty())?;
        Some(name.to_string_lossy().into_owned())
    }

    /// The number of devices; 0 if no runtime is installed.
    pub fn count() -> Result<usize> {
        let backend = match Self::replaced_by() {
            Some(_) => Backend::Auto,
            None => Backend::Hip,
        };
        match Device::count(backend) {
            Err(error) if error.status() == Status::NoRuntime => Ok(0),
            count => count.w(),
        }
    }

    /// A device with a stream of its own.
    pub fn new_with_stream(ordinal: usize) -> Result<Self> {
        Self::from_handle(shared(ordinal)?.new_stream().w()?)
    }

    /// A device on a handle that the program already has. Both report the same ids out of range: whichever
    /// synchronises first returns the error. `handle.with_own_reports()` keeps them apart.
    pub fn from_handle(handle: Device) -> Result<Self> {
        let gpu_id = handle.info().w()?.ordinal.unsigned_abs() as usize;
        let random = Arc::new(Random { state: handle.random_state(FIRST_SEED).w()?, seed: Mutex::new(FIRST_SEED) });
        Ok(Self { id: DeviceId::new(), gpu_id, handle, random, staging: Arc::default() })
    }

    /// The device's number. Every opened device has a different one; clones have the same.
    pub fn id(&self) -> DeviceId {
        self.id
    }

    /// The handle. It gives access to events, memory figures, graphs and the launchers that no op of Candle uses.
    pub fn handle(&self) -> &Device {
        &self.handle
    }

    /// What files are read through; None before the first.
    pub(super) fn staging(&self) -> &Mutex<Option<super::load::Staging>> {
        &self.staging
    }

    /// Allocates `dtype` elements of `shape`, contents undefined.
    pub(crate) fn empty(&self, shape: &Shape, dtype: DType) -> Result<RocmStorage> {
        self.empty_of(elements(shape.dims()), dtype)
    }

    /// Allocates `count` elements of `dtype`, contents undefined.
    pub(crate) fn empty_of(&self, count: usize, dtype: DType) -> Result<RocmStorage> {
        // Saturates as `elements` does: no device has that much memory, so the allocation fails.
        let bytes = count.saturating_mul(dtype_of(dtype, "alloc")?.size());
        Ok(RocmStorage::new(self.handle.alloc(bytes).w()?, dtype, self.clone()))
    }

    /// A storage with these bytes, for any dtype.
    pub fn storage_from_bytes(&self, bytes: &[u8], dtype: DType) -> Result<RocmStorage> {
        Ok(RocmStorage::new(self.handle.upload(bytes).w()?, dtype, self.clone()))
    }

    /// A kernel by Candle's name, such as `("uexp_bf16", &kernels::UNARY)`. Its module is loaded once.
    pub fn get_or_load_func(&self, fn_name: &str, module: &kernels::Module) -> Result<RocmFunc> {
        Ok(self.handle.function(module, fn_name).w()?.into())
    }

    /// A kernel of the program's own, from the text of a CUDA file. It is compiled at run time, on the first call with
    /// this module name. This needs hipRTC, which is part of the ROCm runtime. The contract of
    /// `crk_module_compile_cuda` says which of CUDA's headers and functions there are; a warp has 32 lanes.
    ///
    /// For options such as `-DN=4`, compile with `handle().compile_cuda_module` first.
    pub fn get_or_load_custom_func(&self, fn_name: &str, module_name: &str, source: &str) -> Result<RocmFunc> {
        self.custom(fn_name, module_name, || self.handle.compile_cuda_module(module_name, source, &[]))
    }

    /// The same from HIP code, in which a warp is the GPU's wave of 32 or 64 lanes.
    pub fn get_or_load_custom_hip_func(&self, fn_name: &str, module_name: &str, source: &str) -> Result<RocmFunc> {
        self.custom(fn_name, module_name, || self.handle.compile_module(module_name, source, &[]))
    }

    /// A kernel from a ready code object, which is loaded on the first call with this module name.
    ///
    /// # Safety
    /// The code object's kernels must be sound to run: nothing checks them.
    pub unsafe fn get_or_load_code_object(
        &self,
        fn_name: &str,
        module_name: &str,
        code_object: &[u8],
    ) -> Result<RocmFunc> {
        // SAFETY: the caller promises it.
        self.custom(fn_name, module_name, || unsafe { self.handle.load_module(module_name, code_object) })
    }

    fn custom(&self, fn_name: &str, module_name: &str, load: impl FnOnce() -> kernels::Result<()>) -> Result<RocmFunc> {
        if let Ok(function) = self.handle.function_named(module_name, fn_name) {
            return Ok(function.into());
        }
        // Another thread may have loaded the module meanwhile, and then `load` fails. So the result depends on whether
        // the kernel is there now.
        let loaded = load().w();
        let found = self.handle.function_named(module_name, fn_name).w();
        match (found, loaded) {
            (Err(missing), Err(error)) => Err(error.context(missing)),
            (found, _) => Ok(found?.into()),
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
        draw(dtype_of(dtype, op)?, dst.memory(), shape.elem_count(), &self.random.state).w()?;
        Ok(dst)
    }
}

impl BackendDevice for RocmDevice {
    type Storage = RocmStorage;

    fn new(ordinal: usize) -> Result<Self> {
        Self::from_handle(shared(ordinal)?.with_own_reports().w()?)
    }

    /// The number that HIP has for the opened device. For a device that replaces a GPU it is the number in its own
    /// backend: 0 for `cpu:32`, 1 for `cpu:64`.
    fn location(&self) -> crate::DeviceLocation {
        crate::DeviceLocation::Rocm { gpu_id: self.gpu_id }
    }

    fn same_device(&self, rhs: &Self) -> bool {
        self.id == rhs.id
    }

    fn zeros_impl(&self, shape: &Shape, dtype: DType) -> Result<RocmStorage> {
        let storage = self.empty(shape, dtype)?;
        storage.memory().fill_bytes(0).w()?;
        Ok(storage)
    }

    unsafe fn alloc_uninit(&self, shape: &Shape, dtype: DType) -> Result<RocmStorage> {
        self.empty(shape, dtype)
    }

    fn storage_from_slice<T: crate::WithDType>(&self, values: &[T]) -> Result<RocmStorage> {
        let [value] = values else {
            // SAFETY: elements of tensors are numbers.
            return self.storage_from_bytes(unsafe { bytes_of(values) }, T::DTYPE);
        };
        // A single element, such as a token id, is an argument of a launch. A graph records it as a constant.
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
        super::prepare::finish_preparing();
        self.handle.synchronize().w()
    }
}
