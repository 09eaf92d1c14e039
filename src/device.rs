//! Device handles. Everything that belongs to a handle shares it.
use crate::buffer::{Buffer, View};
use crate::error::check;
use crate::{Backend, DeviceInfo, Error, Function, MemoryStats, Module, Params, Pod, Result, Status, sys};
use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;

/// A handle on a device, with one stream: its work runs in the order of the calls. Clones share the handle and the
/// stream. The handle closes when its clones and everything that came from it (buffers, functions, events, graphs) are
/// dropped.
#[derive(Clone)]
pub struct Device(Arc<Handle>);

struct Handle {
    raw: sys::crk_device_t,
    /// The number of the reports that the calls use.
    reports: u32,
    /// Set if the handle is another's, and only the reports are this object's.
    of: Option<Device>,
}

// SAFETY: the C header allows calls on a handle from any thread, and from several at once.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: reports of an open handle, or an open handle, which nothing else holds any more.
        unsafe {
            match self.of {
                Some(_) => sys::crk_reports_destroy(self.raw, self.reports),
                None => sys::crk_device_close(self.raw),
            }
        }
    }
}

/// `crk_module_compile` and `crk_module_compile_cuda`.
type Compile =
    unsafe extern "C" fn(sys::crk_device_t, *const c_char, *const c_char, *const *const c_char, usize) -> Status;

impl Device {
    /// Takes over an open handle.
    fn owning(raw: sys::crk_device_t) -> Device {
        Device(Arc::new(Handle { raw, reports: 0, of: None }))
    }

    /// Opens device `ordinal` of a backend.
    pub fn open(backend: Backend, ordinal: i32) -> Result<Device> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is written on success.
        check(unsafe { sys::crk_device_open(backend, ordinal, &mut raw) })?;
        Ok(Device::owning(raw))
    }

    /// Opens a device by its name, as `CANDLE_ROCM_DEVICE` takes it: `"hip:0"`, `"cuda:1"`, `"cpu:32"`, `"cpu:64"`,
    /// `"gfx1100"`. `crk_device_from_name` lists all names.
    pub fn open_named(name: &str) -> Result<Device> {
        let text = c_string(name)?;
        let (mut backend, mut ordinal) = (Backend::Auto, 0);
        // SAFETY: a NUL-terminated string; both are written on success.
        check(unsafe { sys::crk_device_from_name(text.as_ptr(), &mut backend, &mut ordinal) })?;
        Device::open(backend, ordinal)
    }

    /// Opens the device that `CANDLE_ROCM_DEVICE` names, else the best one: HIP, CUDA, CPU. [`crate::diagnose`] tells
    /// why a GPU was not taken.
    pub fn open_best() -> Result<Device> {
        Device::open(Backend::Auto, 0)
    }

    /// How many devices a backend has.
    pub fn count(backend: Backend) -> Result<usize> {
        let mut count = 0;
        // SAFETY: `count` is written on success.
        check(unsafe { sys::crk_device_count(backend, &mut count) })?;
        Ok(count.unsigned_abs() as usize)
    }

    /// A second handle on the same device, with its own stream. The two share kernels, but not buffers. Before one
    /// stream reads what the other writes, it must wait for an event ([`Device::wait`]).
    pub fn new_stream(&self) -> Result<Device> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is written on success.
        check(unsafe { sys::crk_device_clone(self.raw(), &mut raw) })?;
        Ok(Device::owning(raw))
    }

    /// A second handle on the same GPU that works in the caller's `stream`, a `hipStream_t` or a `CUstream`; NULL is
    /// the legacy default stream. The handle's work and the caller's own work in the stream run in the order of the
    /// calls. Fails with `CRK_UNSUPPORTED` on the CPU, and with `CRK_INVALID_ARGUMENT` where a live handle works in the
    /// stream already.
    ///
    /// # Safety
    /// The stream belongs to this GPU and lives until the handle closes. The caller does not capture it by other means
    /// than [`Device::capture`].
    pub unsafe fn on_stream(&self, stream: *mut std::ffi::c_void) -> Result<Device> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a live handle; `raw` is written on success; the rest is the caller's promise.
        check(unsafe { sys::crk_device_clone_on_stream(self.raw(), stream, &mut raw) })?;
        Ok(Device::owning(raw))
    }

    /// The C handle, for calls of [`sys`]. It stays this object's.
    pub fn raw(&self) -> sys::crk_device_t {
        self.0.raw
    }

    /// Whether both are the same handle, and so have the same stream.
    pub fn same_handle(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.raw() == other.raw()
    }

    /// The same handle, stream and memory, for a user who must not see others' mistakes: ids out of range that kernels
    /// meet are reported by the synchronisations and downloads of this object, its clones and its buffers only. A
    /// handle has 63 such reports. If all are in use, this is a clone.
    pub fn with_own_reports(&self) -> Result<Device> {
        let mut reports = 0;
        // SAFETY: a live handle; `reports` is written on success.
        check(unsafe { sys::crk_reports_create(self.raw(), &mut reports) })?;
        Ok(match reports {
            0 => self.clone(),
            _ => Device(Arc::new(Handle { raw: self.raw(), reports, of: Some(self.clone()) })),
        })
    }

    /// Runs a call whose kernels report ids out of range, or that returns such reports. Every method of this crate does
    /// this by itself. Calls of [`crate::ffi`] and [`sys`] need it: without it their reports are those of the handle,
    /// which another object may receive, also with `CANDLE_ROCM_SYNC=1`.
    pub fn reporting<T>(&self, call: impl FnOnce() -> T) -> T {
        /// Goes back to the reports that the thread used before, also if the call panics.
        struct Before(u32);
        impl Drop for Before {
            fn drop(&mut self) {
                // SAFETY: any number is allowed.
                unsafe { sys::crk_reports_use(self.0) };
            }
        }
        // SAFETY: as above. 0 are the handle's own reports.
        let _before = Before(unsafe { sys::crk_reports_use(self.0.reports) });
        call()
    }

    /// The number of operations given to the handle so far: `crk_device_operations`. An error about an id out of range
    /// gives the number of its operation.
    pub fn operations(&self) -> Result<u64> {
        let mut count = 0;
        // SAFETY: a live handle; `count` is written on success.
        check(unsafe { sys::crk_device_operations(self.raw(), &mut count) })?;
        Ok(count)
    }

    /// The number of launches so far that the handle gave to the runtime in graphs: `crk_device_replays`.
    pub fn replays(&self) -> Result<u64> {
        let mut launches = 0;
        // SAFETY: a live handle; `launches` is written on success.
        check(unsafe { sys::crk_device_replays(self.raw(), &mut launches) })?;
        Ok(launches)
    }

    /// Whether launches that repeat are given to the runtime in graphs: `crk_device_set_replay`.
    pub fn set_replay(&self, on: bool) -> Result<()> {
        // SAFETY: a live handle.
        check(unsafe { sys::crk_device_set_replay(self.raw(), on) })
    }

    /// The device's properties.
    pub fn info(&self) -> Result<DeviceInfo> {
        let mut info = DeviceInfo { struct_bytes: size_of::<DeviceInfo>(), ..DeviceInfo::default() };
        // SAFETY: `info` has as many bytes as it says; it is written on success.
        check(unsafe { sys::crk_device_info(self.raw(), &mut info) })?;
        Ok(info)
    }

    /// Loads all kernels of this build and the BLAS libraries now: `crk_device_prepare`. Meant for a thread of its own
    /// while a model is loaded.
    pub fn prepare(&self) -> Result<()> {
        // SAFETY: a live handle.
        check(unsafe { sys::crk_device_prepare(self.raw()) })
    }

    /// Waits until all work given to the handle is done. Fails if a kernel has met an id out of range since the last
    /// synchronisation (`crk_device_synchronize`).
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: a live handle.
        self.reporting(|| check(unsafe { sys::crk_device_synchronize(self.raw()) }))
    }

    /// The handle's stream as the driver knows it, a `hipStream_t` or a `CUstream`. The handle keeps it.
    pub fn stream(&self) -> Result<*mut std::ffi::c_void> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: `stream` is written on success.
        check(unsafe { sys::crk_device_stream(self.raw(), &mut stream) })?;
        Ok(stream)
    }

    /// The free and the total bytes of the device's memory, as the driver reports them now. Memory in this library's
    /// cache is not free.
    pub fn memory(&self) -> Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: a live handle; both numbers are written on success.
        check(unsafe { sys::crk_device_memory(self.raw(), &mut free, &mut total) })?;
        Ok((free, total))
    }

    /// Figures of the handle's allocations, and of the memory that the GPU's allocator caches and has from the driver.
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        let mut stats = MemoryStats { struct_bytes: size_of::<MemoryStats>(), ..MemoryStats::default() };
        // SAFETY: `stats` has as many bytes as it says; it is written on success.
        check(unsafe { sys::crk_memory_stats(self.raw(), &mut stats) })?;
        Ok(stats)
    }

    /// Makes sure that the cache can serve one allocation of up to `bytes` without the driver: call it before a
    /// capture, once for each allocation that will be live at the same time.
    pub fn reserve(&self, bytes: usize) -> Result<()> {
        // SAFETY: a live handle.
        check(unsafe { sys::crk_memory_reserve(self.raw(), bytes) })
    }

    /// Returns the GPU's cached memory to the driver. Waits for the work of all handles on the GPU.
    pub fn trim_memory(&self) -> Result<()> {
        // SAFETY: a live handle.
        check(unsafe { sys::crk_memory_trim(self.raw()) })
    }

    /// `bytes` of device memory, contents undefined.
    pub fn alloc(&self, bytes: usize) -> Result<Buffer> {
        Buffer::new(self, bytes)
    }

    /// A buffer with a copy of `values`.
    pub fn upload<T: Pod>(&self, values: &[T]) -> Result<Buffer> {
        let buffer = self.alloc(std::mem::size_of_val(values))?;
        buffer.write(values)?;
        Ok(buffer)
    }

    /// Copies the whole of `src` to the beginning of `dst`. Both belong to this handle.
    pub fn copy<'a>(&self, dst: impl Into<View<'a>>, src: impl Into<View<'a>>) -> Result<()> {
        let dst = self.view("crk_copy", "dst", dst)?;
        let src: sys::crk_const_view_t = self.view("crk_copy", "src", src)?;
        // SAFETY: `view` has checked that both belong to this handle; the C core checks the sizes.
        check(unsafe { sys::crk_copy(self.raw(), dst, src, src.bytes) })
    }

    /// Whether this GPU reaches the memory of the GPU of `peer` directly: `crk_device_peer_access`.
    pub fn peer_access(&self, peer: &Device) -> Result<bool> {
        let mut has_access = false;
        // SAFETY: live handles; `has_access` is written on success.
        check(unsafe { sys::crk_device_peer_access(self.raw(), peer.raw(), &mut has_access) })?;
        Ok(has_access)
    }

    /// A copy of a buffer of another handle, which may be on another device. The host does not wait, unless the devices
    /// are of different backends.
    pub fn copy_from(&self, src: &Buffer) -> Result<Buffer> {
        let dst = self.alloc(src.bytes())?;
        let (to, from) = (dst.raw_view(), src.raw_view());
        // SAFETY: live handles, and views of their allocations.
        check(unsafe { sys::crk_copy_between(self.raw(), to, src.device().raw(), from.into(), src.bytes()) })?;
        Ok(dst)
    }

    /// A kernel by Candle's name, such as `(&UNARY, "uneg_bf16")`. The first use loads the module, which stays loaded.
    pub fn function(&self, module: &Module, kernel: &str) -> Result<Function> {
        self.function_named(module.name(), kernel)
    }

    /// A kernel of any loaded module, also of the caller's own.
    pub fn function_named(&self, module: &str, kernel: &str) -> Result<Function> {
        let (module, kernel) = (c_string(module)?, c_string(kernel)?);
        let mut raw = std::ptr::null_mut();
        // SAFETY: both strings are NUL-terminated; `raw` is written on success.
        check(unsafe { sys::crk_function_get(self.raw(), module.as_ptr(), kernel.as_ptr(), &mut raw) })?;
        Ok(Function::new(raw, self.clone()))
    }

    /// Loads the caller's code object under a name, for [`Device::function_named`].
    ///
    /// # Safety
    /// The code is trusted: its kernels run without further checks.
    pub unsafe fn load_module(&self, module: &str, image: &[u8]) -> Result<()> {
        let module = c_string(module)?;
        // SAFETY: pointer and length belong together; the library copies what it keeps.
        check(unsafe { sys::crk_module_load(self.raw(), module.as_ptr(), image.as_ptr().cast(), image.len()) })
    }

    /// Compiles HIP source for an AMD GPU, or CUDA source for an NVIDIA GPU, and loads it under a name, for
    /// [`Device::function_named`]: `crk_module_compile`. Kernels are `extern "C"`. Options are the compiler's own.
    pub fn compile_module(&self, module: &str, source: &str, options: &[&str]) -> Result<()> {
        self.compile(sys::crk_module_compile, module, source, options)
    }

    /// Compiles CUDA source for an AMD or an NVIDIA GPU and loads it under a name: `crk_module_compile_cuda`, whose
    /// contract says what CUDA source may use. Kernels are `extern "C"`.
    pub fn compile_cuda_module(&self, module: &str, source: &str, options: &[&str]) -> Result<()> {
        self.compile(sys::crk_module_compile_cuda, module, source, options)
    }

    fn compile(&self, call: Compile, module: &str, source: &str, options: &[&str]) -> Result<()> {
        let module = c_string(module)?;
        let text = |text: &str| {
            let refused =
                |_| Error::new(Status::InvalidArgument, "Device::compile_module: source or an option has a NUL");
            CString::new(text).map_err(refused)
        };
        let source = text(source)?;
        let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>>>()?;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: all are NUL-terminated and outlive the call; pointer and length belong together.
        check(unsafe { call(self.raw(), module.as_ptr(), source.as_ptr(), pointers.as_ptr(), pointers.len()) })
    }

    /// The `info` argument of a kernel by name: NULL for a contiguous layout, else dims and strides on the device.
    pub fn params(&self, layout: &crate::Layout) -> Result<Params> {
        Params::new(self, layout)
    }

    /// The view of a buffer that belongs to this handle, to be written or only read: the type that the call takes.
    /// Another handle's memory is freed and reused in the order of another stream, so it is refused here. [`sys`] takes
    /// any memory.
    pub(crate) fn view<'a, V>(&self, function: &str, argument: &str, view: impl Into<View<'a>>) -> Result<V>
    where
        V: From<sys::crk_view_t>,
    {
        let view = view.into();
        if !self.same_handle(view.device()) {
            let message = format!(
                "{function}: {argument} belongs to another handle (stream) than the one of the call; copy it first"
            );
            return Err(Error::new(Status::InvalidArgument, message));
        }
        Ok(view.raw().into())
    }

    /// The same for an argument that may be absent.
    pub(crate) fn optional<V>(&self, function: &str, argument: &str, view: Option<View<'_>>) -> Result<V>
    where
        V: From<sys::crk_view_t>,
    {
        let absent = sys::crk_view_t { ptr: std::ptr::null_mut(), bytes: 0 };
        view.map_or(Ok(absent.into()), |view| self.view(function, argument, view))
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.info() {
            Ok(info) => write!(f, "Device({} {})", info.name(), info.architecture()),
            Err(error) => write!(f, "Device({error})"),
        }
    }
}

impl sys::crk_device_info {
    /// The device's name.
    pub fn name(&self) -> &str {
        text(&self.name)
    }

    /// The architecture: `"gfx1100"`, `"sm_90"`, `"x86_64"`.
    pub fn architecture(&self) -> &str {
        text(&self.architecture)
    }

    /// The architecture with its features, in the driver's form: `"gfx90a:sramecc+:xnack-"`.
    pub fn target(&self) -> &str {
        text(&self.target)
    }
}

/// The text of a C array, up to its NUL.
fn text(array: &[c_char]) -> &str {
    // SAFETY: c_char is a byte, signed or not.
    let bytes = unsafe { std::slice::from_raw_parts(array.as_ptr().cast::<u8>(), array.len()) };
    CStr::from_bytes_until_nul(bytes).ok().and_then(|text| text.to_str().ok()).unwrap_or("?")
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(Status::InvalidArgument, format!("the name {text:?} has a NUL in it")))
}
