// include/candle_rocm.h fnv1a64 09f80976f9eceae7
// Made by tools/bindings; build/bindings.rs has the options.

/// The roots of CRK_UNARY_MAP.
pub const CRK_UNARY_ROOTS: [&str; 24] = ["ucopy", "uneg", "urecip", "uexp", "ulog", "usin", "ucos", "utanh", "uerf", "uceil", "ufloor", "uround", "unormcdf", "uabs", "usqr", "usqrt", "ugelu", "ugelu_erf", "urelu", "usilu", "usign", "usigmoid", "uelu", "upowf"];
/// The roots of CRK_BINARY_MAP.
pub const CRK_BINARY_ROOTS: [&str; 6] = ["badd", "bsub", "bmul", "bdiv", "bmaximum", "bminimum"];
/// The roots of CRK_CMP_MAP.
pub const CRK_CMP_ROOTS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
/// The roots of CRK_REDUCE_MAP.
pub const CRK_REDUCE_ROOTS: [&str; 5] = ["fast_sum", "fast_min", "fast_max", "fast_argmin", "fast_argmax"];

pub const CRK_MAX_RANK: u32 = 8;
pub const CRK_RANDOM_STATE_BYTES: u32 = 32;
impl crk_status {
    pub const CRK_OK: crk_status = crk_status(0);
    pub const CRK_INVALID_ARGUMENT: crk_status = crk_status(1);
    pub const CRK_OUT_OF_BOUNDS: crk_status = crk_status(2);
    pub const CRK_UNSUPPORTED: crk_status = crk_status(3);
    pub const CRK_NOT_FOUND: crk_status = crk_status(4);
    pub const CRK_OUT_OF_MEMORY: crk_status = crk_status(5);
    pub const CRK_NO_RUNTIME: crk_status = crk_status(6);
    pub const CRK_NO_DEVICE: crk_status = crk_status(7);
    pub const CRK_INVALID_IMAGE: crk_status = crk_status(8);
    pub const CRK_WRONG_ARCHITECTURE: crk_status = crk_status(9);
    pub const CRK_CAPTURE: crk_status = crk_status(10);
    pub const CRK_NOT_READY: crk_status = crk_status(11);
    pub const CRK_DEVICE: crk_status = crk_status(12);
    pub const CRK_OUT_OF_RANGE: crk_status = crk_status(13);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_status(pub ::core::ffi::c_uint);
pub use self::crk_status as crk_status_t;
unsafe extern "C" {
    /// The name of a status, such as "CRK_OUT_OF_MEMORY"; "CRK_UNKNOWN" for a value that this build does not have.
    pub fn crk_status_name(status: crk_status_t) -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    /// The general sentence of a status; static, never NULL.
    pub fn crk_status_message(status: crk_status_t) -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    /** What the last failed call of this thread had to say: which function, which argument, which value, what the driver
 answered. Never NULL; "" before the first failure. Valid until the thread's next failure.*/
    pub fn crk_last_error() -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    /// The driver's own error number behind the last CRK_DEVICE of this thread (a hipError_t or CUresult), else 0.
    pub fn crk_last_device_error() -> ::core::ffi::c_int;
}
unsafe extern "C" {
    /// The library's version, "MAJOR.MINOR.PATCH".
    pub fn crk_version() -> *const ::core::ffi::c_char;
}
impl crk_dtype {
    pub const CRK_DTYPE_U8: crk_dtype = crk_dtype(0);
    pub const CRK_DTYPE_U32: crk_dtype = crk_dtype(1);
    pub const CRK_DTYPE_I16: crk_dtype = crk_dtype(2);
    pub const CRK_DTYPE_I32: crk_dtype = crk_dtype(3);
    pub const CRK_DTYPE_I64: crk_dtype = crk_dtype(4);
    pub const CRK_DTYPE_BF16: crk_dtype = crk_dtype(5);
    pub const CRK_DTYPE_F16: crk_dtype = crk_dtype(6);
    pub const CRK_DTYPE_F32: crk_dtype = crk_dtype(7);
    pub const CRK_DTYPE_F64: crk_dtype = crk_dtype(8);
    pub const CRK_DTYPE_F8E4M3: crk_dtype = crk_dtype(9);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_dtype(pub ::core::ffi::c_uint);
pub use self::crk_dtype as crk_dtype_t;
unsafe extern "C" {
    /// Candle's name of a dtype, such as "bf16"; NULL for a value that is no dtype.
    pub fn crk_dtype_name(dtype: crk_dtype_t) -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    /// Bytes of one element; 0 for a value that is no dtype.
    pub fn crk_dtype_size(dtype: crk_dtype_t) -> usize;
}
unsafe extern "C" {
    /// The dtype of a name; "f8_e4m3" and "fp8_e4m3" mean F8E4M3 too. Fails with CRK_INVALID_ARGUMENT.
    pub fn crk_dtype_from_name(
        name: *const ::core::ffi::c_char,
        dtype: *mut crk_dtype_t,
    ) -> crk_status_t;
}
impl crk_backend {
    pub const CRK_BACKEND_AUTO: crk_backend = crk_backend(0);
    pub const CRK_BACKEND_HIP: crk_backend = crk_backend(1);
    pub const CRK_BACKEND_CUDA: crk_backend = crk_backend(2);
    pub const CRK_BACKEND_CPU: crk_backend = crk_backend(3);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_backend(pub ::core::ffi::c_uint);
pub use self::crk_backend as crk_backend_t;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_device {
    _unused: [u8; 0],
}
pub type crk_device_t = *mut crk_device;
/** compute_units is as HIP counts them: on RDNA two are one, a workgroup processor, unless GPU_ENABLE_WGP_MODE is 0.
 simd_units is the same either way.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_device_info {
    pub backend: crk_backend_t,
    pub ordinal: i32,
    pub name: [::core::ffi::c_char; 256usize],
    /// "gfx1100", "sm_90", "x86_64"; without feature suffixes
    pub architecture: [::core::ffi::c_char; 64usize],
    /// lanes of a wave (warp): 32 or 64
    pub wave_size: u32,
    /// compute units, multiprocessors, or CPU threads
    pub compute_units: u32,
    /// threads of a block (workgroup)
    pub max_block_threads: u32,
    /// as the driver counts it; 0 for the CPU
    pub runtime_version: u32,
    /// threads of a whole grid: 2^32 - 1 on HIP
    pub max_grid_threads: u64,
    /// of the device
    pub memory_bytes: u64,
    /// shared memory (LDS) of a block
    pub shared_bytes: u64,
    /// the architecture with its features, as the driver spells it: "gfx90a:sramecc+:xnack-"
    pub target: [::core::ffi::c_char; 128usize],
    /// threads of a block along x, y and z
    pub max_block: [u32; 3usize],
    /// blocks of a grid along x, y and z
    pub max_grid: [u32; 3usize],
    /// 4 per compute unit or multiprocessor, 2 where it is RDNA's; CPU threads
    pub simd_units: u32,
    /// threads that each of compute_units holds at once
    pub unit_threads: u32,
    /// shared memory (LDS) of each of compute_units
    pub unit_shared_bytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_device_info"][::core::mem::size_of::<crk_device_info>() - 536usize];
    [
        "Alignment of crk_device_info",
    ][::core::mem::align_of::<crk_device_info>() - 8usize];
    [
        "Offset of field: crk_device_info::backend",
    ][::core::mem::offset_of!(crk_device_info, backend) - 0usize];
    [
        "Offset of field: crk_device_info::ordinal",
    ][::core::mem::offset_of!(crk_device_info, ordinal) - 4usize];
    [
        "Offset of field: crk_device_info::name",
    ][::core::mem::offset_of!(crk_device_info, name) - 8usize];
    [
        "Offset of field: crk_device_info::architecture",
    ][::core::mem::offset_of!(crk_device_info, architecture) - 264usize];
    [
        "Offset of field: crk_device_info::wave_size",
    ][::core::mem::offset_of!(crk_device_info, wave_size) - 328usize];
    [
        "Offset of field: crk_device_info::compute_units",
    ][::core::mem::offset_of!(crk_device_info, compute_units) - 332usize];
    [
        "Offset of field: crk_device_info::max_block_threads",
    ][::core::mem::offset_of!(crk_device_info, max_block_threads) - 336usize];
    [
        "Offset of field: crk_device_info::runtime_version",
    ][::core::mem::offset_of!(crk_device_info, runtime_version) - 340usize];
    [
        "Offset of field: crk_device_info::max_grid_threads",
    ][::core::mem::offset_of!(crk_device_info, max_grid_threads) - 344usize];
    [
        "Offset of field: crk_device_info::memory_bytes",
    ][::core::mem::offset_of!(crk_device_info, memory_bytes) - 352usize];
    [
        "Offset of field: crk_device_info::shared_bytes",
    ][::core::mem::offset_of!(crk_device_info, shared_bytes) - 360usize];
    [
        "Offset of field: crk_device_info::target",
    ][::core::mem::offset_of!(crk_device_info, target) - 368usize];
    [
        "Offset of field: crk_device_info::max_block",
    ][::core::mem::offset_of!(crk_device_info, max_block) - 496usize];
    [
        "Offset of field: crk_device_info::max_grid",
    ][::core::mem::offset_of!(crk_device_info, max_grid) - 508usize];
    [
        "Offset of field: crk_device_info::simd_units",
    ][::core::mem::offset_of!(crk_device_info, simd_units) - 520usize];
    [
        "Offset of field: crk_device_info::unit_threads",
    ][::core::mem::offset_of!(crk_device_info, unit_threads) - 524usize];
    [
        "Offset of field: crk_device_info::unit_shared_bytes",
    ][::core::mem::offset_of!(crk_device_info, unit_shared_bytes) - 528usize];
};
impl Default for crk_device_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/** compute_units is as HIP counts them: on RDNA two are one, a workgroup processor, unless GPU_ENABLE_WGP_MODE is 0.
 simd_units is the same either way.*/
pub type crk_device_info_t = crk_device_info;
unsafe extern "C" {
    /** How many devices a backend has; CRK_BACKEND_CPU has two, ordinal 0 with wave width 32 and ordinal 1 with 64.
 CRK_BACKEND_AUTO counts what crk_device_open would choose from.
 Fails with CRK_NO_RUNTIME where the backend's runtime is missing, and for the CPU where this build has no kernels for it.*/
    pub fn crk_device_count(backend: crk_backend_t, count: *mut i32) -> crk_status_t;
}
unsafe extern "C" {
    /** Opens a device; close it with crk_device_close. Opening one device twice gives two handles that share nothing but the
 GPU's cache of freed memory.

 CRK_BACKEND_AUTO means: what the environment variable CANDLE_ROCM_DEVICE names ("hip:0", "cuda:1", "cpu:32", "cpu:64";
 `ordinal` is then ignored), else HIP, else CUDA, else the CPU; it passes over a backend only where that has no runtime,
 no kernels in this build or no device at all, never over one that fails. A GPU that is named opens without kernels in this
 build, too, for code of the user's; kernels of this library's then fail with CRK_NO_RUNTIME.

 Fails with CRK_NO_RUNTIME, CRK_NO_DEVICE (ordinal out of range), CRK_INVALID_ARGUMENT (a backend or an environment
 variable of no meaning) or CRK_DEVICE.*/
    pub fn crk_device_open(
        backend: crk_backend_t,
        ordinal: i32,
        device: *mut crk_device_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** A second handle on the same device: a stream of its own; modules and the cache of freed memory are shared. Order the
 two with events (crk_device_wait). Close it like any other; the order of closing does not matter.*/
    pub fn crk_device_clone(
        self_: crk_device_t,
        device: *mut crk_device_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Waits for the handle's work and releases all that belongs to the handle, its allocations included: pointers from its
 crk_alloc end here. Modules and functions go with the last of a handle and its clones.*/
    pub fn crk_device_close(self_: crk_device_t);
}
unsafe extern "C" {
    /// What the device is.
    pub fn crk_device_info(
        self_: crk_device_t,
        info: *mut crk_device_info_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Free and total bytes of device memory, as the driver tells them now. Memory in this library's cache is not free.
    pub fn crk_device_memory(
        self_: crk_device_t,
        free_bytes: *mut usize,
        total_bytes: *mut usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The handle's stream as the driver knows it (a hipStream_t or CUstream), for code that launches on its own. It belongs to
 the handle.*/
    pub fn crk_device_stream(
        self_: crk_device_t,
        stream: *mut *mut ::core::ffi::c_void,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** What crk_matmul asks first on this handle where the layouts allow: "hipBLASLt", "rocBLAS", "cuBLAS", or "own kernels" where there is
 no such library (always on the CPU), none has anything for the device's architecture, or CANDLE_ROCM_BLAS is "0". Opens the libraries
 and gets handles of theirs for this one, if that has not been done: while any handle on the GPU is captured that may have to wait,
 and what is not there counts as absent. Where device memory was too short for that, even with all caches given back,
 this tries it again, and products do not. `name` is static text.*/
    pub fn crk_device_blas(
        self_: crk_device_t,
        name: *mut *const ::core::ffi::c_char,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Waits until all work given to the handle is done. Fails with CRK_DEVICE where any of it failed, CRK_CAPTURE while a graph
 is captured; and with CRK_OUT_OF_RANGE where a launcher's kernel met an id out of range since the last time it was asked:
 the sentence names the launcher and the id, nothing out of bounds was touched, and the handle works on. Fails too with the
 first failure since then of a function that returns nothing (Candle's static launchers).*/
    pub fn crk_device_synchronize(self_: crk_device_t) -> crk_status_t;
}
/** Memory as a function takes it: where it begins and how many bytes are there. Memory of any origin can be viewed. A view
 of 0 bytes may have a NULL pointer. `ptr` must be aligned to the dtype it is used with.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_view {
    pub ptr: *mut ::core::ffi::c_void,
    pub bytes: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_view"][::core::mem::size_of::<crk_view>() - 16usize];
    ["Alignment of crk_view"][::core::mem::align_of::<crk_view>() - 8usize];
    ["Offset of field: crk_view::ptr"][::core::mem::offset_of!(crk_view, ptr) - 0usize];
    [
        "Offset of field: crk_view::bytes",
    ][::core::mem::offset_of!(crk_view, bytes) - 8usize];
};
impl Default for crk_view {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/** Memory as a function takes it: where it begins and how many bytes are there. Memory of any origin can be viewed. A view
 of 0 bytes may have a NULL pointer. `ptr` must be aligned to the dtype it is used with.*/
pub type crk_view_t = crk_view;
unsafe extern "C" {
    /** `bytes` of device memory, 256-byte aligned, contents undefined; 0 bytes give NULL and succeed. Served from the GPU's
 cache of freed memory where that has room, without waiting: memory that this handle freed is in stream order, memory
 that another handle freed is used only after an event has shown that its stream has passed that point. The cache takes
 segments from the driver and gives out parts of them, so that few calls reach the driver and little is left unused.

 Out of memory, waits for the work of all handles on the GPU (but those that are captured), returns what the cache can
 spare to the driver and tries once more; fails with CRK_OUT_OF_MEMORY then, and nothing is lost.
 While a graph is captured only the cache can serve (CRK_CAPTURE otherwise; see crk_memory_reserve).*/
    pub fn crk_alloc(
        self_: crk_device_t,
        bytes: usize,
        ptr: *mut *mut ::core::ffi::c_void,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Gives back memory from crk_alloc of the same handle; NULL does nothing. The block may be given out again at once, to work
 that is later in the stream. Work on other handles that uses it must be ordered before by events. Never waits.

 A block that a capture gave out, or that was freed during one by whatever thread, is used by that graph: it is given out
 again when all graphs that use it are destroyed.
 Fails with CRK_INVALID_ARGUMENT where `ptr` is not the beginning of a live allocation of this handle; and during a
 capture with CRK_OUT_OF_MEMORY, where the host has none to note that the graph uses the block, which stays allocated.*/
    pub fn crk_free(self_: crk_device_t, ptr: *mut ::core::ffi::c_void) -> crk_status_t;
}
unsafe extern "C" {
    /** Makes sure that one crk_alloc of up to `bytes` can be served without the driver: call before a capture, once for every
 allocation that will be live at the same time. The handle's allocations take what is reserved when the cache has nothing
 else for them.*/
    pub fn crk_memory_reserve(self_: crk_device_t, bytes: usize) -> crk_status_t;
}
unsafe extern "C" {
    /** Bounds the bytes of freed memory that are kept on the GPU, for all its handles together. Above the bound whole segments go
 back to the driver, those that were emptied first: now, for which the work of all handles is waited for, and later at a
 crk_free, crk_device_synchronize or crk_copy_to_host that finds all streams of the GPU idle, since a driver may wait for
 the whole GPU when it frees. A segment with a live block in it cannot go back. Below the bound, segments go back that no
 call used through 24 synchronisations, and those in whose place a new large segment comes; both at most until twice the
 peak has gone back, so that a loop cannot give and take the same memory for ever. The default is half of the device's
 memory. With 0 each allocation is one of the driver's, of its size rounded up to 512 bytes, beyond 1 MiB to 64 KiB: for
 tools that watch the driver's allocations.*/
    pub fn crk_memory_set_cache_limit(self_: crk_device_t, bytes: usize) -> crk_status_t;
}
unsafe extern "C" {
    /** Returns the GPU's cached memory to the driver, all that no segment with a live block has. Waits for the work of all
 handles on the GPU but those that are captured; CRK_CAPTURE while this one is.*/
    pub fn crk_memory_trim(self_: crk_device_t) -> crk_status_t;
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct crk_memory_stats {
    /// of the handle: given out and not yet freed
    pub live_bytes: u64,
    /// of the GPU: freed, kept for later calls of crk_alloc of any handle; or reserved
    pub cached_bytes: u64,
    /// of the handle
    pub live_allocations: u64,
    /// of the handle: calls to the driver's allocator so far
    pub driver_allocations: u64,
    /// of the handle: the most `live_bytes` so far
    pub peak_live_bytes: u64,
    /// of the GPU: freed, kept for graphs
    pub retired_bytes: u64,
    /// of the GPU: what the allocator has from the driver, which is all of the above
    pub driver_bytes: u64,
    /// of the GPU: the most `driver_bytes` so far
    pub peak_driver_bytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_memory_stats"][::core::mem::size_of::<crk_memory_stats>() - 64usize];
    [
        "Alignment of crk_memory_stats",
    ][::core::mem::align_of::<crk_memory_stats>() - 8usize];
    [
        "Offset of field: crk_memory_stats::live_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, live_bytes) - 0usize];
    [
        "Offset of field: crk_memory_stats::cached_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, cached_bytes) - 8usize];
    [
        "Offset of field: crk_memory_stats::live_allocations",
    ][::core::mem::offset_of!(crk_memory_stats, live_allocations) - 16usize];
    [
        "Offset of field: crk_memory_stats::driver_allocations",
    ][::core::mem::offset_of!(crk_memory_stats, driver_allocations) - 24usize];
    [
        "Offset of field: crk_memory_stats::peak_live_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, peak_live_bytes) - 32usize];
    [
        "Offset of field: crk_memory_stats::retired_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, retired_bytes) - 40usize];
    [
        "Offset of field: crk_memory_stats::driver_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, driver_bytes) - 48usize];
    [
        "Offset of field: crk_memory_stats::peak_driver_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, peak_driver_bytes) - 56usize];
};
pub type crk_memory_stats_t = crk_memory_stats;
unsafe extern "C" {
    /// Where the memory is. Kernels' code, BLAS workspaces and parameter caches are not in these figures.
    pub fn crk_memory_stats(
        self_: crk_device_t,
        stats: *mut crk_memory_stats_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Host memory that the device can copy from and to without staging. Free it with crk_host_free.
    pub fn crk_host_alloc(
        self_: crk_device_t,
        bytes: usize,
        ptr: *mut *mut ::core::ffi::c_void,
    ) -> crk_status_t;
}
unsafe extern "C" {
    pub fn crk_host_free(
        self_: crk_device_t,
        ptr: *mut ::core::ffi::c_void,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Copies host memory to a device; returns when `src` may be changed. CRK_CAPTURE during a capture.
    pub fn crk_copy_to_device(
        self_: crk_device_t,
        dst: crk_view_t,
        src: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Copies device memory to the host; returns when it is there. CRK_CAPTURE during a capture. CRK_OUT_OF_RANGE as
 crk_device_synchronize, the copy is made all the same.*/
    pub fn crk_copy_to_host(
        self_: crk_device_t,
        dst: *mut ::core::ffi::c_void,
        src: crk_view_t,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same without waiting: the host memory must stay as it is until the stream has done the copy, and should come from
 crk_host_alloc (with other memory the driver may wait, and refuses during a capture).*/
    pub fn crk_copy_to_device_async(
        self_: crk_device_t,
        dst: crk_view_t,
        src: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    pub fn crk_copy_to_host_async(
        self_: crk_device_t,
        dst: *mut ::core::ffi::c_void,
        src: crk_view_t,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Copies within the device. The ranges must not overlap (CRK_INVALID_ARGUMENT), but may be the same.
    pub fn crk_copy(
        self_: crk_device_t,
        dst: crk_view_t,
        src: crk_view_t,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Copies to another device, which may be of another backend; ordered after the work of both handles, and later work of both
 is ordered after it. May wait. CRK_CAPTURE while either is captured.*/
    pub fn crk_copy_between(
        dst_device: crk_device_t,
        dst: crk_view_t,
        src_device: crk_device_t,
        src: crk_view_t,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Sets every byte of the view's first `bytes` bytes to `value`.
    pub fn crk_memset(
        self_: crk_device_t,
        dst: crk_view_t,
        value: u8,
        bytes: usize,
    ) -> crk_status_t;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_event {
    _unused: [u8; 0],
}
/** ------------------------------------------------------------------------------------------------------------------
 Events
 ------------------------------------------------------------------------------------------------------------------*/
pub type crk_event_t = *mut crk_event;
unsafe extern "C" {
    /// An event for handles on the device of `self`. Destroy it with crk_event_destroy, before the handle is closed.
    pub fn crk_event_create(
        self_: crk_device_t,
        event: *mut crk_event_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    pub fn crk_event_destroy(self_: crk_event_t);
}
unsafe extern "C" {
    /// Marks the present end of the device handle's work.
    pub fn crk_event_record(self_: crk_event_t, device: crk_device_t) -> crk_status_t;
}
unsafe extern "C" {
    /** CRK_OK when the work before the mark is done (or nothing was ever recorded), CRK_NOT_READY when not yet. What was recorded
 before a capture of the handle began is done: a capture begins with an idle stream.*/
    pub fn crk_event_query(self_: crk_event_t) -> crk_status_t;
}
unsafe extern "C" {
    /// Waits until the work before the mark is done.
    pub fn crk_event_synchronize(self_: crk_event_t) -> crk_status_t;
}
unsafe extern "C" {
    /** Milliseconds of device time from `start` to `end`, both recorded and done (else CRK_NOT_READY or
 CRK_INVALID_ARGUMENT).*/
    pub fn crk_event_elapsed(
        start: crk_event_t,
        end: crk_event_t,
        milliseconds: *mut f32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Later work of `self` waits for the event's mark; the host does not wait.
    pub fn crk_device_wait(self_: crk_device_t, event: crk_event_t) -> crk_status_t;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_function {
    _unused: [u8; 0],
}
/// A kernel on a device. Belongs to its module, and lives until the handle that it was got from and all clones are closed.
pub type crk_function_t = *mut crk_function;
/// A compiled kernel module that is part of this binary.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_image {
    /// an offload bundle of ELF code objects (HIP), a fatbin (CUDA); NULL where this build has none
    pub data: *const ::core::ffi::c_void,
    pub bytes: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_image"][::core::mem::size_of::<crk_image>() - 16usize];
    ["Alignment of crk_image"][::core::mem::align_of::<crk_image>() - 8usize];
    [
        "Offset of field: crk_image::data",
    ][::core::mem::offset_of!(crk_image, data) - 0usize];
    [
        "Offset of field: crk_image::bytes",
    ][::core::mem::offset_of!(crk_image, bytes) - 8usize];
};
impl Default for crk_image {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/// A compiled kernel module that is part of this binary.
pub type crk_image_t = crk_image;
unsafe extern "C" {
    /** The modules of this build, "affine", "binary", ...: how many, and the name of each; NULL for an index out of range. Candle's
 eleven come first, then those that only launchers use.*/
    pub fn crk_module_count() -> usize;
}
unsafe extern "C" {
    pub fn crk_module_name(index: usize) -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    /** The embedded code of a module, for every architecture of this build. It is compressed in the binary: the first call
 decompresses it, and it stays where it is until the process ends. Devices do without this copy.

 Fails with CRK_NOT_FOUND for a name of no module, CRK_NO_RUNTIME where this build has nothing for the backend (the CPU's
 kernels are linked in, they have no image), CRK_OUT_OF_MEMORY where the host has no memory for the copy,
 CRK_INVALID_IMAGE where the binary is damaged.*/
    pub fn crk_module_image(
        module: *const ::core::ffi::c_char,
        backend: crk_backend_t,
        image: *mut crk_image_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** A kernel by Candle's name: `get_or_load_func`. Loads the module on first use and keeps it. F8E4M3 may be spelt
 "f8e4m3", "f8_e4m3" or "fp8_e4m3" in any name. The function may be used with this handle and its clones.

 Fails with CRK_NOT_FOUND (no such module, or no such kernel in it), CRK_NO_RUNTIME, CRK_WRONG_ARCHITECTURE (nothing
 embedded for this GPU) or CRK_DEVICE.*/
    pub fn crk_function_get(
        self_: crk_device_t,
        module: *const ::core::ffi::c_char,
        kernel: *const ::core::ffi::c_char,
        function: *mut crk_function_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Loads a code object of the user's under a name, for crk_function_get: an ELF code object or an offload bundle, plain
 or compressed by zstd (HIP), a cubin, fatbin or NUL-terminated PTX (CUDA), a shared object made with kernels/common
 (CPU). `data` may be freed after the call. A name can be loaded once; a name of this build's modules is refused
 (CRK_INVALID_ARGUMENT).

 Fails with CRK_INVALID_IMAGE for what is truncated, empty or of another kind, CRK_WRONG_ARCHITECTURE for code that this
 device cannot run, and with CRK_CAPTURE during a capture.*/
    pub fn crk_module_load(
        self_: crk_device_t,
        module: *const ::core::ffi::c_char,
        data: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Compiles source of the user's for the handle's GPU and loads it under a name, as crk_module_load does. For an AMD GPU it is HIP, and
 hipRTC compiles it (libhiprtc, or the runtime in use where that has its calls); for an NVIDIA GPU CUDA, and NVRTC. The library is opened at
 run time. `options` are the compiler's own, such as "-O3" or "-DN=4"; the GPU's architecture is added unless one of them names
 one. `source` and `options` may be freed after the call. Kernels that are declared extern "C" are found by their names. Other threads
 go on meanwhile; of several that compile the same name at once, one succeeds.

 Fails with CRK_INVALID_IMAGE for source that does not compile: the sentence has the compiler's log from the first error on, as far
 as there is room; CRK_NO_RUNTIME where there is no such library; CRK_UNSUPPORTED on the CPU; CRK_INVALID_ARGUMENT for a NULL, an
 empty source or name, a name that is taken or an option that is none; CRK_WRONG_ARCHITECTURE for an option that names another AMD
 GPU; and as crk_module_load.*/
    pub fn crk_module_compile(
        self_: crk_device_t,
        module: *const ::core::ffi::c_char,
        source: *const ::core::ffi::c_char,
        options: *const *const ::core::ffi::c_char,
        option_count: usize,
    ) -> crk_status_t;
}
/// One argument of a kernel, as its signature has it.
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct crk_param {
    pub bytes: u32,
    /// false also where the driver does not tell
    pub is_pointer: bool,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_param"][::core::mem::size_of::<crk_param>() - 8usize];
    ["Alignment of crk_param"][::core::mem::align_of::<crk_param>() - 4usize];
    [
        "Offset of field: crk_param::bytes",
    ][::core::mem::offset_of!(crk_param, bytes) - 0usize];
    [
        "Offset of field: crk_param::is_pointer",
    ][::core::mem::offset_of!(crk_param, is_pointer) - 4usize];
};
/// One argument of a kernel, as its signature has it.
pub type crk_param_t = crk_param;
unsafe extern "C" {
    /** The number of a kernel's arguments, and the first `capacity` of them in `params` (NULL where capacity is 0).
 Fails with CRK_UNSUPPORTED where the driver cannot tell (CUDA before 12.4).*/
    pub fn crk_function_params(
        self_: crk_function_t,
        count: *mut usize,
        params: *mut crk_param_t,
        capacity: usize,
    ) -> crk_status_t;
}
/// An argument of a launch: a pointer, a number, or bytes by value. Make one with the functions below.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_arg {
    /// where the value is: `value` in this struct when NULL, else `bytes` bytes elsewhere
    pub data: *const ::core::ffi::c_void,
    pub value: u64,
    pub bytes: u32,
    pub is_pointer: bool,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_arg"][::core::mem::size_of::<crk_arg>() - 24usize];
    ["Alignment of crk_arg"][::core::mem::align_of::<crk_arg>() - 8usize];
    ["Offset of field: crk_arg::data"][::core::mem::offset_of!(crk_arg, data) - 0usize];
    [
        "Offset of field: crk_arg::value",
    ][::core::mem::offset_of!(crk_arg, value) - 8usize];
    [
        "Offset of field: crk_arg::bytes",
    ][::core::mem::offset_of!(crk_arg, bytes) - 16usize];
    [
        "Offset of field: crk_arg::is_pointer",
    ][::core::mem::offset_of!(crk_arg, is_pointer) - 20usize];
};
impl Default for crk_arg {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/// An argument of a launch: a pointer, a number, or bytes by value. Make one with the functions below.
pub type crk_arg_t = crk_arg;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct crk_dim3 {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_dim3"][::core::mem::size_of::<crk_dim3>() - 12usize];
    ["Alignment of crk_dim3"][::core::mem::align_of::<crk_dim3>() - 4usize];
    ["Offset of field: crk_dim3::x"][::core::mem::offset_of!(crk_dim3, x) - 0usize];
    ["Offset of field: crk_dim3::y"][::core::mem::offset_of!(crk_dim3, y) - 4usize];
    ["Offset of field: crk_dim3::z"][::core::mem::offset_of!(crk_dim3, z) - 8usize];
};
pub type crk_dim3_t = crk_dim3;
unsafe extern "C" {
    /** Runs a kernel on the handle's stream: `grid` blocks of `block` threads, `shared_bytes` of dynamic shared memory. A grid of
 0 blocks succeeds and launches nothing.

 Checks the arguments against the kernel's signature: their number, the size of each, and pointer against value where the
 driver tells; and the geometry against the device. Fails with CRK_INVALID_ARGUMENT, naming the kernel and the argument,
 or with CRK_DEVICE. What the pointers point at is the caller's responsibility.*/
    pub fn crk_launch(
        self_: crk_device_t,
        function: crk_function_t,
        grid: crk_dim3_t,
        block: crk_dim3_t,
        shared_bytes: u32,
        args: *const crk_arg_t,
        arg_count: usize,
    ) -> crk_status_t;
}
/** How a tensor lies in a buffer: element (i0, i1, ...) is at offset + i0 \* strides\[0\] + i1 \* strides\[1\] + ... A stride of 0
 broadcasts. Rank 0 is a single element; a dim of 0 makes the tensor empty.*/
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct crk_layout {
    /// at most CRK_MAX_RANK
    pub rank: u32,
    pub dims: [usize; 8usize],
    /// in elements
    pub strides: [usize; 8usize],
    /// in elements
    pub offset: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_layout"][::core::mem::size_of::<crk_layout>() - 144usize];
    ["Alignment of crk_layout"][::core::mem::align_of::<crk_layout>() - 8usize];
    [
        "Offset of field: crk_layout::rank",
    ][::core::mem::offset_of!(crk_layout, rank) - 0usize];
    [
        "Offset of field: crk_layout::dims",
    ][::core::mem::offset_of!(crk_layout, dims) - 8usize];
    [
        "Offset of field: crk_layout::strides",
    ][::core::mem::offset_of!(crk_layout, strides) - 72usize];
    [
        "Offset of field: crk_layout::offset",
    ][::core::mem::offset_of!(crk_layout, offset) - 136usize];
};
/** How a tensor lies in a buffer: element (i0, i1, ...) is at offset + i0 \* strides\[0\] + i1 \* strides\[1\] + ... A stride of 0
 broadcasts. Rank 0 is a single element; a dim of 0 makes the tensor empty.*/
pub type crk_layout_t = crk_layout;
unsafe extern "C" {
    /** The contiguous layout (row-major, offset 0) of dims\[0 .. rank\]. Fails with CRK_INVALID_ARGUMENT for a rank above
 CRK_MAX_RANK or a number of elements beyond size_t.*/
    pub fn crk_layout_contiguous(
        dims: *const usize,
        rank: usize,
        layout: *mut crk_layout_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// The number of elements of a layout.
    pub fn crk_layout_numel(
        layout: *const crk_layout_t,
        numel: *mut usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Whether a layout's elements follow each other without gaps in row-major order (from its offset on), as Candle asks it:
 the strides of dims of size 1 do not matter.*/
    pub fn crk_layout_is_contiguous(
        layout: *const crk_layout_t,
        contiguous: *mut bool,
    ) -> crk_status_t;
}
/// Device memory with the numbers that a kernel by name reads its layout from: Candle's `SlicePtrOrNull`.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_params {
    /// u64 numbers on the device, or NULL; pass it on as the kernel's `info`
    pub ptr: *const ::core::ffi::c_void,
    /// the cache's own
    pub entry: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_params"][::core::mem::size_of::<crk_params>() - 16usize];
    ["Alignment of crk_params"][::core::mem::align_of::<crk_params>() - 8usize];
    [
        "Offset of field: crk_params::ptr",
    ][::core::mem::offset_of!(crk_params, ptr) - 0usize];
    [
        "Offset of field: crk_params::entry",
    ][::core::mem::offset_of!(crk_params, entry) - 8usize];
};
impl Default for crk_params {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/// Device memory with the numbers that a kernel by name reads its layout from: Candle's `SlicePtrOrNull`.
pub type crk_params_t = crk_params;
unsafe extern "C" {
    /** `count` numbers (at most CRK_MAX_RANK \* 4) on the device: dims and strides as the kernel wants them. Served from a bounded
 cache of the handle; a miss copies asynchronously, and during a capture becomes part of the graph. Never blocks the
 stream; the host waits only where the copies of all entries are still under way. Give it back with crk_params_release
 once the launches that read it have been made. Fails with CRK_OUT_OF_MEMORY where every entry is held or cannot be had.*/
    pub fn crk_params_acquire(
        self_: crk_device_t,
        numbers: *const u64,
        count: usize,
        params: *mut crk_params_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// As Candle's params_from_layout: NULL for a contiguous layout, else dims and strides.
    pub fn crk_params_from_layout(
        self_: crk_device_t,
        layout: *const crk_layout_t,
        params: *mut crk_params_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    pub fn crk_params_release(self_: crk_device_t, params: crk_params_t);
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_graph {
    _unused: [u8; 0],
}
/** ------------------------------------------------------------------------------------------------------------------
 Graphs
 ------------------------------------------------------------------------------------------------------------------*/
pub type crk_graph_t = *mut crk_graph;
unsafe extern "C" {
    /** From here on the handle's work is recorded instead of run, until crk_graph_end. Use the handle from one thread only while
 it is captured. Memory that the capture frees, and parameters it uses, stay reserved until the graph is destroyed.*/
    pub fn crk_graph_begin(self_: crk_device_t) -> crk_status_t;
}
unsafe extern "C" {
    /// Ends the capture. On failure the capture is over too, and nothing of it remains, unless `graph` is NULL: then it goes on.
    pub fn crk_graph_end(self_: crk_device_t, graph: *mut crk_graph_t) -> crk_status_t;
}
unsafe extern "C" {
    /// Runs the recorded work on the handle that recorded it. May be called any number of times.
    pub fn crk_graph_launch(self_: crk_graph_t) -> crk_status_t;
}
unsafe extern "C" {
    /// Waits for the handle's work, then releases the graph and what it reserved. Before the handle is closed.
    pub fn crk_graph_destroy(self_: crk_graph_t);
}
impl crk_unary_op {
    pub const CRK_UNARY_COPY: crk_unary_op = crk_unary_op(0);
    pub const CRK_UNARY_NEG: crk_unary_op = crk_unary_op(1);
    pub const CRK_UNARY_RECIP: crk_unary_op = crk_unary_op(2);
    pub const CRK_UNARY_EXP: crk_unary_op = crk_unary_op(3);
    pub const CRK_UNARY_LOG: crk_unary_op = crk_unary_op(4);
    pub const CRK_UNARY_SIN: crk_unary_op = crk_unary_op(5);
    pub const CRK_UNARY_COS: crk_unary_op = crk_unary_op(6);
    pub const CRK_UNARY_TANH: crk_unary_op = crk_unary_op(7);
    pub const CRK_UNARY_ERF: crk_unary_op = crk_unary_op(8);
    pub const CRK_UNARY_CEIL: crk_unary_op = crk_unary_op(9);
    pub const CRK_UNARY_FLOOR: crk_unary_op = crk_unary_op(10);
    pub const CRK_UNARY_ROUND: crk_unary_op = crk_unary_op(11);
    pub const CRK_UNARY_NORMCDF: crk_unary_op = crk_unary_op(12);
    pub const CRK_UNARY_ABS: crk_unary_op = crk_unary_op(13);
    pub const CRK_UNARY_SQR: crk_unary_op = crk_unary_op(14);
    pub const CRK_UNARY_SQRT: crk_unary_op = crk_unary_op(15);
    pub const CRK_UNARY_GELU: crk_unary_op = crk_unary_op(16);
    pub const CRK_UNARY_GELU_ERF: crk_unary_op = crk_unary_op(17);
    pub const CRK_UNARY_RELU: crk_unary_op = crk_unary_op(18);
    pub const CRK_UNARY_SILU: crk_unary_op = crk_unary_op(19);
    pub const CRK_UNARY_SIGN: crk_unary_op = crk_unary_op(20);
    pub const CRK_UNARY_SIGMOID: crk_unary_op = crk_unary_op(21);
    pub const CRK_UNARY_ELU: crk_unary_op = crk_unary_op(22);
    pub const CRK_UNARY_POWF: crk_unary_op = crk_unary_op(23);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_unary_op(pub ::core::ffi::c_uint);
pub use self::crk_unary_op as crk_unary_op_t;
unsafe extern "C" {
    /// The op of a kernel root such as "uexp". Fails with CRK_INVALID_ARGUMENT.
    pub fn crk_unary_op_from_root(
        root: *const ::core::ffi::c_char,
        op: *mut crk_unary_op_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = op(src\[i\]) for every element i of `layout`. Not for ELU and POWF, which have a parameter: crk_unary_param.
 Float dtypes have every op. Integers have COPY, ABS, CEIL, FLOOR, ROUND, RELU and SIGN, and ERF, GELU, GELU_ERF and SILU,
 which Candle's CPU backend defines as 0 for them.*/
    pub fn crk_unary(
        self_: crk_device_t,
        op: crk_unary_op_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** ELU: dst\[i\] = src\[i\] \> 0 ? src\[i\] : param \* (exp(src\[i\]) - 1). POWF: dst\[i\] = src\[i\] ^ param. `param` is rounded to the
 dtype first. Float dtypes only.*/
    pub fn crk_unary_param(
        self_: crk_device_t,
        op: crk_unary_op_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
        param: f64,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// dst\[i\] = fma(src\[i\], mul, add), `mul` and `add` converted to the dtype as Candle's `from_f64` does; integers wrap.
    pub fn crk_affine(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
        mul: f64,
        add: f64,
    ) -> crk_status_t;
}
impl crk_binary_op {
    pub const CRK_BINARY_ADD: crk_binary_op = crk_binary_op(0);
    pub const CRK_BINARY_SUB: crk_binary_op = crk_binary_op(1);
    pub const CRK_BINARY_MUL: crk_binary_op = crk_binary_op(2);
    pub const CRK_BINARY_DIV: crk_binary_op = crk_binary_op(3);
    pub const CRK_BINARY_MAXIMUM: crk_binary_op = crk_binary_op(4);
    pub const CRK_BINARY_MINIMUM: crk_binary_op = crk_binary_op(5);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_binary_op(pub ::core::ffi::c_uint);
pub use self::crk_binary_op as crk_binary_op_t;
unsafe extern "C" {
    pub fn crk_binary_op_from_root(
        root: *const ::core::ffi::c_char,
        op: *mut crk_binary_op_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = lhs\[i\] op rhs\[i\]. Both layouts have the same dims; broadcast with strides of 0. An integer divided by 0 gives an
 unspecified value and does not fault.*/
    pub fn crk_binary(
        self_: crk_device_t,
        op: crk_binary_op_t,
        dtype: crk_dtype_t,
        lhs_layout: *const crk_layout_t,
        lhs: crk_view_t,
        rhs_layout: *const crk_layout_t,
        rhs: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
impl crk_cmp_op {
    pub const CRK_CMP_EQ: crk_cmp_op = crk_cmp_op(0);
    pub const CRK_CMP_NE: crk_cmp_op = crk_cmp_op(1);
    pub const CRK_CMP_LT: crk_cmp_op = crk_cmp_op(2);
    pub const CRK_CMP_LE: crk_cmp_op = crk_cmp_op(3);
    pub const CRK_CMP_GT: crk_cmp_op = crk_cmp_op(4);
    pub const CRK_CMP_GE: crk_cmp_op = crk_cmp_op(5);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_cmp_op(pub ::core::ffi::c_uint);
pub use self::crk_cmp_op as crk_cmp_op_t;
unsafe extern "C" {
    pub fn crk_cmp_op_from_root(
        root: *const ::core::ffi::c_char,
        op: *mut crk_cmp_op_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// dst\[i\] = lhs\[i\] op rhs\[i\] ? 1 : 0; `dst` is u8.
    pub fn crk_cmp(
        self_: crk_device_t,
        op: crk_cmp_op_t,
        dtype: crk_dtype_t,
        lhs_layout: *const crk_layout_t,
        lhs: crk_view_t,
        rhs_layout: *const crk_layout_t,
        rhs: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// dst\[i\] = src\[i\] converted to `dst_dtype`.
    pub fn crk_cast(
        self_: crk_device_t,
        src_dtype: crk_dtype_t,
        dst_dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// dst\[i\] = ids\[i\] != 0 ? on_true\[i\] : on_false\[i\]; `ids` has an integer dtype. The three layouts have the same dims.
    pub fn crk_where(
        self_: crk_device_t,
        ids_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        ids_layout: *const crk_layout_t,
        ids: crk_view_t,
        true_layout: *const crk_layout_t,
        on_true: crk_view_t,
        false_layout: *const crk_layout_t,
        on_false: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// dst\[i\] = value for i below `numel`. `value` points at one element of `dtype` on the host; read before the call returns.
    pub fn crk_fill(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        dst: crk_view_t,
        numel: usize,
        value: *const ::core::ffi::c_void,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Every element of `layout` in `dst` becomes `value` (as for crk_fill); elements that the layout does not reach stay.
    pub fn crk_const_set(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        dst: crk_view_t,
        value: *const ::core::ffi::c_void,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[dst_offset + i \* dst_stride + j\] = src\[src_offset + i \* src_stride + j\] for i below `rows`, j below `cols`; strides and
 offsets in elements. Rows of `dst` must not overlap: dst_stride at least `cols` unless rows is 1.*/
    pub fn crk_copy2d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        rows: usize,
        cols: usize,
        src: crk_view_t,
        src_stride: usize,
        src_offset: usize,
        dst: crk_view_t,
        dst_stride: usize,
        dst_offset: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// dst\[dst_offset + i\] = src\[i\] for every element i of `layout`: makes a strided tensor contiguous, bit for bit.
    pub fn crk_copy_strided(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
        dst_offset: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[l, n, r\] = src\[l, ids\[n\], r\], l being the coordinates before dim number `dim` and r those after it, bit for bit. `src` and
 `ids`, of rank 1, have any layout; `dst` is contiguous from the beginning of its view, with src's dims but for ids' length in
 the indexed one. Fastest where the dims after `dim` are contiguous in `src`, as rows of an embedding are.*/
    pub fn crk_index_select(
        self_: crk_device_t,
        ids_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_view_t,
        ids_layout: *const crk_layout_t,
        ids: crk_view_t,
        dim: usize,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[l, n, r\] = src\[l, ids\[l, n, r\], r\], bit for bit. `src` and `ids` have the same rank and any layout; no dim of ids but the
 indexed one is longer than src's. `dst` has the dims of ids and is contiguous from the beginning of its view.*/
    pub fn crk_gather(
        self_: crk_device_t,
        ids_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_view_t,
        ids_layout: *const crk_layout_t,
        ids: crk_view_t,
        dim: usize,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[l, ids\[l, n, r\], r\] = src\[l, n, r\], bit for bit, for n in order: the last of those that share an id stays. What no id leads
 to stays as it was. `ids` and `src` have the same dims, `dst` those but for the indexed one; all three are contiguous from
 their layouts' offsets.*/
    pub fn crk_scatter(
        self_: crk_device_t,
        ids_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        ids_layout: *const crk_layout_t,
        ids: crk_view_t,
        src_layout: *const crk_layout_t,
        src: crk_view_t,
        dim: usize,
        dst_layout: *const crk_layout_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[l, ids\[l, n, r\], r\] += src\[l, n, r\] for n in order: sums are the same in every run. f16 and bf16 round after every addition,
 f8e4m3 adds in f32 and rounds after every addition, integers wrap. Tensors as for crk_scatter.*/
    pub fn crk_scatter_add(
        self_: crk_device_t,
        ids_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        ids_layout: *const crk_layout_t,
        ids: crk_view_t,
        src_layout: *const crk_layout_t,
        src: crk_view_t,
        dim: usize,
        dst_layout: *const crk_layout_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[l, ids\[n\], r\] += src\[l, n, r\] for n in order; sums as for crk_scatter_add. `ids` is of rank 1 with any stride, as long as
 src's indexed dim; `src` and `dst` as for crk_scatter.*/
    pub fn crk_index_add(
        self_: crk_device_t,
        ids_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        ids_layout: *const crk_layout_t,
        ids: crk_view_t,
        src_layout: *const crk_layout_t,
        src: crk_view_t,
        dim: usize,
        dst_layout: *const crk_layout_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
impl crk_reduce_op {
    pub const CRK_REDUCE_SUM: crk_reduce_op = crk_reduce_op(0);
    pub const CRK_REDUCE_MIN: crk_reduce_op = crk_reduce_op(1);
    pub const CRK_REDUCE_MAX: crk_reduce_op = crk_reduce_op(2);
    pub const CRK_REDUCE_ARGMIN: crk_reduce_op = crk_reduce_op(3);
    pub const CRK_REDUCE_ARGMAX: crk_reduce_op = crk_reduce_op(4);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_reduce_op(pub ::core::ffi::c_uint);
pub use self::crk_reduce_op as crk_reduce_op_t;
unsafe extern "C" {
    pub fn crk_reduce_op_from_root(
        root: *const ::core::ffi::c_char,
        op: *mut crk_reduce_op_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Reduces `layout` over the dims whose numbers are reduced_dims\[0 .. reduced_count\], in any order, each once: dst\[o\] = op of the
 elements that have the kept dims' coordinates o, in row-major order of these. No reduced dims: each element by itself. `dst` is
 contiguous from the beginning of its view, of `dtype`; for ARGMIN and ARGMAX it is u32 and holds the position among the reduced
 elements, in row-major order of the reduced dims as the layout has them, whatever the order of reduced_dims. All dtypes.

 SUM: bf16, f16 and f8e4m3 are added up in f32 and rounded once; integers wrap. The order of the additions is not that of Candle's
 kernels and depends on the shape, the strides, the alignment and, where several blocks share an output, on the number of
 compute units; not on the wave width, and it is the same in each call. The sum of n elements is within n / 8 + 32 half
 units in the last place of the sum of their magnitudes, in f32 or f64.
 MIN, MAX: a NaN is passed over in f32, f64 and f8e4m3 (where all are, the result is the infinity that loses, of f8e4m3 the number),
 and is the result in f16 and bf16; -0 is less than +0.
 ARGMIN, ARGMAX: the first of equal ones; a NaN is passed over, but where the first element is one, the result is 0, as in
 Candle's CPU backend. 2^32 - 1 elements an output at most (CRK_UNSUPPORTED).

 One launch and no scratch memory; where outputs are few and long, two launches and scratch memory from crk_alloc, given back
 before the return: 4 to 16 bytes for each block of 256 threads that the device holds at once, at most; for an f32 sum
 16 KiB in all where 128 compute units hold 2048 threads each. In a capture reserve it before (crk_memory_reserve), or
 run once.

 `dst` and the elements of `src` must not overlap. With no outputs, succeeds and launches nothing; with outputs of no elements, SUM
 gives zeros and the others fail with CRK_INVALID_ARGUMENT. Fails with CRK_INVALID_ARGUMENT (a NULL, no op or dtype, a rank above
 CRK_MAX_RANK, a reduced dim that the layout has not or twice, memory that overlaps), CRK_OUT_OF_BOUNDS (the layout reaches beyond
 `src`, or `dst` is too small), CRK_UNSUPPORTED, CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or CRK_DEVICE.*/
    pub fn crk_reduce(
        self_: crk_device_t,
        op: crk_reduce_op_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        reduced_dims: *const usize,
        reduced_count: usize,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = exp(src\[i\] - m) / s: m the largest of the row, s the sum of the row's numerators. Large numbers do not overflow.
 A row of nothing but -inf, or with +inf or NaN in it, becomes NaN.*/
    pub fn crk_softmax(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = src\[i\] / sqrt(mean(src^2) + eps) \* alpha\[i\]. `alpha` is a row of the last dim's elements, contiguous, apart from
 `dst`; {NULL, 0} stands for ones.*/
    pub fn crk_rms_norm(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        alpha: crk_view_t,
        dst: crk_view_t,
        eps: f32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = (src\[i\] - m) / sqrt(mean((src - m)^2) + eps) \* alpha\[i\] + beta\[i\], m the row's mean; the variance is summed up from
 the differences, so that nothing cancels. `alpha` as above, {NULL, 0} as `beta` stands for zeros.*/
    pub fn crk_layer_norm(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        alpha: crk_view_t,
        beta: crk_view_t,
        dst: crk_view_t,
        eps: f32,
    ) -> crk_status_t;
}
impl crk_rope_kind {
    pub const CRK_ROPE_KIND_ROPE: crk_rope_kind = crk_rope_kind(0);
    pub const CRK_ROPE_KIND_ROPE_I: crk_rope_kind = crk_rope_kind(1);
    pub const CRK_ROPE_KIND_ROPE_THD: crk_rope_kind = crk_rope_kind(2);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_rope_kind(pub ::core::ffi::c_uint);
pub use self::crk_rope_kind as crk_rope_kind_t;
unsafe extern "C" {
    /// The kind of a kernel root such as "rope_i". Fails with CRK_INVALID_ARGUMENT.
    pub fn crk_rope_kind_from_root(
        root: *const ::core::ffi::c_char,
        op: *mut crk_rope_kind_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Turns each pair (a, b) of a token by its angle: dst = (a \* c - b \* s, a \* s + b \* c), c and s the elements of `cos` and `sin`
 for the token and the pair (Su et al., "RoFormer", 2021). Rounded as Candle's kernels do, in every dtype:
 fma(a, c, -round(b \* s)) and fma(a, s, round(b \* c)).

 `src_layout` has rank 4 and an even last dim d. `cos` and `sin` are (tokens, d / 2), the same for all batches, or
 (batch, tokens, d / 2), each on its own; they may have more tokens than `src`, whose first ones count then. All three are
 contiguous (from their offsets on). `dst` is contiguous from the beginning of its view; it may be `src` where that has offset
 0, and must not overlap anything otherwise. One launch, no scratch. dtypes BF16, F16, F32 and F64.

 Fails as the element-wise launchers do: CRK_INVALID_ARGUMENT for dims that do not fit each other, CRK_UNSUPPORTED for other
 dtypes.*/
    pub fn crk_rope(
        self_: crk_device_t,
        kind: crk_rope_kind_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_view_t,
        cos_layout: *const crk_layout_t,
        cos: crk_view_t,
        sin_layout: *const crk_layout_t,
        sin: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Sorts the last dim, of up to 2^32 - 1 columns: row r of `dst` (u32, contiguous, numel of `layout`) becomes the positions in row
 r of `src`, in the order of their elements; row r of `values` (of `dtype`, contiguous, as many) becomes the elements in that
 order, bit for bit. `values` may be {NULL, 0}: not wanted. `layout` is contiguous from its offset on and has rank 1 at
 least. All dtypes.

 Stable: equal elements keep their order, descending too. -0 equals +0. NaN, of any sign and payload, equals NaN and is larger
 than every number: last when ascending, first when descending.

 Rows of up to 8192 columns, 4096 of 8-byte dtypes: one launch, no scratch memory. Longer ones: several launches, and scratch
 memory from crk_alloc, given back before the return: 16 bytes (of 8-byte dtypes 24) an element of as many rows as have
 2^23 elements together, or of one row, and up to 1 KiB; in a capture reserve it before (crk_memory_reserve), or run once.

 `dst`, `values` and the elements of `src` must not overlap. An empty layout succeeds and launches nothing.
 Fails with CRK_INVALID_ARGUMENT (a NULL, no dtype, a layout of rank 0 or above CRK_MAX_RANK or not contiguous, too many columns,
 memory that overlaps), CRK_OUT_OF_BOUNDS (a view is too small), CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or
 CRK_DEVICE.*/
    pub fn crk_argsort(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        ascending: bool,
        dst: crk_view_t,
        values: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b.., i, j\] = the sum over l of lhs\[b.., i, l\] \* rhs\[b.., l, j\]: lhs is (b.., m, k), rhs (b.., k, n), dst (b.., m, n). The layouts
 have one rank, 2 at least, and the same batch dims; a batch is broadcast with strides of 0. Any strides and offsets will do, and none
 needs a copy: row-major, column-major, with gaps, broadcast. `dst` is contiguous from the beginning of its view. dtypes BF16, F16,
 F32 and F64.

 Products are added up in f32, of f64 in f64, in an order that depends on the sizes, the layouts and the device, and is the same in
 each call; the sum is rounded to the dtype once. Before that it is within k units in the last place of 1 (2^-23, of f64 2^-52) of
 the exact one, times the sum of the products' magnitudes. NaN and infinities come through; a product that overflows may do so
 before one that would take it back is added. A bf16 below 2^-126 may count as 0, and on gfx90a an f16 below 2^-14 in a BLAS library.

 A BLAS library is used where there is one (crk_device_blas) and the layouts fit it: of the last two dims of each operand one has
 stride 1, the batch dims are as one dim, sizes are below 2^31. Where it fails, where it would have to be opened while a handle on the
 GPU is captured, and for a product with a single row or column that lies well, kernels of this library's own are used. Both can be
 captured in a graph. One launch (more only where a grid would exceed the device's limit), and no scratch memory, but a BLAS library
 allocates at its first product; where outputs are few and k is long, own kernels are two launches and take scratch
 memory from crk_alloc, given back before the return: at most 4 KiB for every four SIMD units, 8 of f64. In a capture
 reserve it before (crk_memory_reserve), or run once.

 k of 0 gives zeros. An empty dst succeeds and launches nothing. Fails with CRK_INVALID_ARGUMENT (a NULL, no dtype, a rank below 2 or
 above CRK_MAX_RANK, dims that do not fit each other, 2^62 or more elements, a view that is not aligned, a dst that overlaps what
 an operand spans), CRK_OUT_OF_BOUNDS (a layout reaches beyond its view, or dst is too small), CRK_UNSUPPORTED (another dtype),
 CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or CRK_DEVICE.*/
    pub fn crk_matmul(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        lhs_layout: *const crk_layout_t,
        lhs: crk_view_t,
        rhs_layout: *const crk_layout_t,
        rhs: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The size that a dim has after a window went over it, in a convolution, im2col or a pool (padding 0, dilation 1):
 (size + 2 \* padding - dilation \* (window - 1) - 1) / stride + 1, rounded down. Fails as the launchers do.*/
    pub fn crk_conv_size(
        size: usize,
        window: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        result: *mut usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same for a transposed convolution and col2im1d (no padding, dilation 1):
 (size - 1) \* stride + dilation \* (window - 1) + output_padding + 1 - 2 \* padding. Fails too where `size` is 0 or the padding
 is more than there is.*/
    pub fn crk_conv_transpose_size(
        size: usize,
        window: usize,
        stride: usize,
        padding: usize,
        output_padding: usize,
        dilation: usize,
        result: *mut usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b, o, x\] = sum over c and k of src\[b, c, x \* stride + k \* dilation - padding\] \* kernel\[o, c, k\], for a source (b, c_in, l),
 a kernel (c_out, c_in, k) and dst (b, c_out, crk_conv_size(l, k, ...)).

 The sum is made over k, in each over c; products are fused into it, f16, bf16 and f8e4m3 are added up in f32 and rounded once,
 integers wrap. So it is equal, bit for bit, to the kernel by name. For a large convolution crk_im2col1d and a matrix product
 are faster.*/
    pub fn crk_conv1d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_view_t,
        kernel_layout: *const crk_layout_t,
        kernel: crk_view_t,
        dst: crk_view_t,
        stride: usize,
        padding: usize,
        dilation: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same over two dims: src (b, c_in, h, w), kernel (c_out, c_in, h_k, w_k), dst (b, c_out, h_out, w_out); stride, padding and
 dilation hold for both. The sum is made over the window's columns, in each over its rows, in each over the channels.*/
    pub fn crk_conv2d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_view_t,
        kernel_layout: *const crk_layout_t,
        kernel: crk_view_t,
        dst: crk_view_t,
        stride: usize,
        padding: usize,
        dilation: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b, o, i \* stride + k \* dilation - padding\] += src\[b, c, i\] \* kernel\[c, o, k\] for every c, i and k that reach into dst, from
 0 on: src (b, c_in, l), kernel (c_in, c_out, k), dst (b, c_out, crk_conv_transpose_size(l, k, ...)). Sums as crk_conv1d's.*/
    pub fn crk_conv_transpose1d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_view_t,
        kernel_layout: *const crk_layout_t,
        kernel: crk_view_t,
        dst: crk_view_t,
        stride: usize,
        padding: usize,
        output_padding: usize,
        dilation: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// The same over two dims: src (b, c_in, h, w), kernel (c_in, c_out, h_k, w_k), dst (b, c_out, h_out, w_out).
    pub fn crk_conv_transpose2d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_view_t,
        kernel_layout: *const crk_layout_t,
        kernel: crk_view_t,
        dst: crk_view_t,
        stride: usize,
        padding: usize,
        output_padding: usize,
        dilation: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b, x, c, i\] = src\[b, c, x \* stride + i \* dilation - padding\] for i below `k`: the windows of a signal (b, c, l) as the rows
 of matrices (b, l_out, c \* k), l_out = crk_conv_size(l, k, ...). The product with a kernel (c_out, c_in \* k), transposed, is
 the convolution as (b, l_out, c_out).*/
    pub fn crk_im2col1d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
        k: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// The same over two dims: src (b, c, h, w), dst (b, h_out, w_out, c \* h_k \* w_k).
    pub fn crk_im2col(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
        h_k: usize,
        w_k: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b, c, i \* stride + j\] += src\[b, i, c, j\] for every i and j, from 0 on: the way back from the matrices (b, l_in, c, k) of a
 transposed convolution to its result (b, c, crk_conv_transpose_size(l_in, k, stride, 0, 0, 1)). Rounded to the dtype at every
 step, from the greatest i to the least.*/
    pub fn crk_col2im1d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
        stride: usize,
    ) -> crk_status_t;
}
impl crk_pool_op {
    pub const CRK_POOL_AVG: crk_pool_op = crk_pool_op(0);
    pub const CRK_POOL_MAX: crk_pool_op = crk_pool_op(1);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_pool_op(pub ::core::ffi::c_uint);
pub use self::crk_pool_op as crk_pool_op_t;
unsafe extern "C" {
    /// The op of a kernel root such as "max_pool2d". Fails with CRK_INVALID_ARGUMENT.
    pub fn crk_pool_op_from_root(
        root: *const ::core::ffi::c_char,
        op: *mut crk_pool_op_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b, c, y, x\] is the average or the greatest of src\[b, c, y \* h_stride + i, x \* w_stride + j\] for i below `h_k`, j below
 `w_k`: src (b, c, h, w), dst (b, c, crk_conv_size(h, h_k, h_stride, 0, 1), crk_conv_size(w, w_k, w_stride, 0, 1)). Candle's
 arguments of this order are called k.0, k.1, stride.0 and stride.1 there.

 AVG: the sum, row by row from 0 (f16, bf16 and f8e4m3 in f32), times 1 / (h_k \* w_k), rounded once. u8 and u32: the sum
 wraps; it times the factor, in f32, is cut off. i16, i32 and i64: 0 unless the window has one element, as on Candle's CPU.
 MAX: a NaN wins in f16 and bf16 and loses in f32 and f64; in f8e4m3 it stays where it is the first of a window.*/
    pub fn crk_pool2d(
        self_: crk_device_t,
        op: crk_pool_op_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
        h_k: usize,
        w_k: usize,
        h_stride: usize,
        w_stride: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b, c, y, x\] = src\[b, c, (size_t)(y \* (h / h_out)), (size_t)(x \* (w / w_out))\] in f64, kept within the source, bit for bit:
 src (b, c, h, w), dst (b, c, h_out, w_out). Sizes may grow or shrink. Fails too where the source is empty and dst is not.*/
    pub fn crk_upsample_nearest2d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
        h_out: usize,
        w_out: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Bilinear interpolation, as PyTorch's and Candle's: src (b, c, h, w), dst (b, c, h_out, w_out). Output y lies at
 y \* (h - 1) / (h_out - 1) with align_corners, else at (y + 0.5) \* step - 0.5, where step is 1 / h_factor, or h / h_out for an
 h_factor of 0; never before the first element, and the last one continues. Likewise x. In f64, rounded once; integers are cut
 off. Fails too where the source is empty and dst is not, and for a factor that is negative, infinite or NaN.*/
    pub fn crk_upsample_bilinear2d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_view_t,
        dst: crk_view_t,
        h_out: usize,
        w_out: usize,
        align_corners: bool,
        h_factor: f64,
        w_factor: f64,
    ) -> crk_status_t;
}
impl crk_quant {
    pub const CRK_QUANT_Q4_0: crk_quant = crk_quant(2);
    pub const CRK_QUANT_Q4_1: crk_quant = crk_quant(3);
    pub const CRK_QUANT_Q5_0: crk_quant = crk_quant(6);
    pub const CRK_QUANT_Q5_1: crk_quant = crk_quant(7);
    pub const CRK_QUANT_Q8_0: crk_quant = crk_quant(8);
    pub const CRK_QUANT_Q2_K: crk_quant = crk_quant(10);
    pub const CRK_QUANT_Q3_K: crk_quant = crk_quant(11);
    pub const CRK_QUANT_Q4_K: crk_quant = crk_quant(12);
    pub const CRK_QUANT_Q5_K: crk_quant = crk_quant(13);
    pub const CRK_QUANT_Q6_K: crk_quant = crk_quant(14);
    pub const CRK_QUANT_Q8_K: crk_quant = crk_quant(15);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_quant(pub ::core::ffi::c_uint);
pub use self::crk_quant as crk_quant_t;
unsafe extern "C" {
    /// The format's name, such as "q4_K"; NULL for a value that is no format.
    pub fn crk_quant_name(quant: crk_quant_t) -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    /// The format of a name, in capitals or not ("Q4_K", "q4_k"). Fails with CRK_INVALID_ARGUMENT.
    pub fn crk_quant_from_name(
        name: *const ::core::ffi::c_char,
        quant: *mut crk_quant_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Elements and bytes of a block; 0 for a value that is no format.
    pub fn crk_quant_block_elements(quant: crk_quant_t) -> usize;
}
unsafe extern "C" {
    pub fn crk_quant_block_bytes(quant: crk_quant_t) -> usize;
}
unsafe extern "C" {
    /** dst\[i\] = the value of element i of src, for i below `numel`, which is a multiple of the block. `dtype` of dst is F32, F16 or BF16.

 Computed in f32: q4_0 as d \* code - 8 \* d, as Candle's kernel does; the others as kernels/quantized/blocks.h says. All but the
 difference of q2_K, q4_K, q5_K, q4_1 and q5_1, and q8_K's product, is exact, so a value rounds once, and once more to dtype.*/
    pub fn crk_dequantize(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        numel: usize,
        src: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\]\[j\] = src\[ids\[i\]\]\[j\] for i below `count`, j below `hidden`: rows of a quantized table of `rows` rows. `ids` are u32, dst is
 f32, contiguous. An id of UINT32_MAX gives zeros; so does another that is no row, and the next synchronisation reports it
 (crk_device_synchronize). Values as of crk_dequantize, but q4_0 as d \* (code - 8), as Candle's kernel does.*/
    pub fn crk_get_rows(
        self_: crk_device_t,
        quant: crk_quant_t,
        rows: usize,
        hidden: usize,
        count: usize,
        src: crk_view_t,
        ids: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// The same of a table of floats: `dtype` of src is F32, F16 or BF16; any row length.
    pub fn crk_get_rows_float(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        rows: usize,
        hidden: usize,
        count: usize,
        src: crk_view_t,
        ids: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Bytes of `rows` rows of `k` activations as q8_1 blocks: rows \* (k rounded up to a multiple of 512) / 32 \* 36; 0 where that is
 beyond size_t.*/
    pub fn crk_q8_1_bytes(rows: usize, k: usize) -> usize;
}
unsafe extern "C" {
    /** Activations in 8 bits, as the quantized products want them: each row of `k` elements of x, padded with zeros to a multiple of
 512, becomes blocks of 32 elements in 36 bytes: f16 d, f16 s, 32 codes (ggml's q8_1). d = the largest magnitude / 127, a code is
 x / d rounded to nearest, halves away from zero, s the sum of the 32 numbers. `dtype` of x is F32, F16 or BF16; any k.
 dst has crk_q8_1_bytes(rows, k) bytes and is aligned to 4.

 A NaN counts nothing in d and has code 0. The order of the sum s: each four neighbours pairwise, then a butterfly of the eight
 sums; Candle's kernel of that name adds the 32 in a butterfly.*/
    pub fn crk_quantize_q8_1(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        x: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = the sum over j of src\[i\]\[j\] \* y\[j\], for i below `rows`, j below `k`, which is a multiple of the block: weights as numbers,
 no rounding of the activations. `dtype` of y is F32, F16 or BF16; dst is f32, and so are the sums: 8 elements at a time, which a
 block's scale multiplies, then the shares of 32 lanes in a butterfly.*/
    pub fn crk_dequantize_mul_mat_vec(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        src: crk_view_t,
        y: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// dst\[c\]\[i\] = the sum over j of weights\[i\]\[j\] \* x\[c\]\[j\], for c below `columns`, at most 8.
    pub fn crk_mul_mat_vec(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        columns: usize,
        weights: crk_view_t,
        x: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same of activations that are quantized: dst\[c \* dst_stride + i\] = the sum over j of weights\[i\]\[j\] \* x\[c\]\[j\], in one launch and
 without scratch memory. Column c of x is k / 32 q8_1 blocks (crk_quantize_q8_1) that begin c \* x_stride blocks after x, which
 is aligned to 4; `dtype` is dst's. With more than one column x_stride is k / 32 at least and dst_stride, in elements, `rows`; nothing
 between the columns is read or written.*/
    pub fn crk_mul_mat_vec_q8_1(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        columns: usize,
        weights: crk_view_t,
        x: crk_view_t,
        x_stride: usize,
        dst: crk_view_t,
        dst_stride: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// crk_mul_mat_vec for any number of columns; up to 8 it is that.
    pub fn crk_mul_mat(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        columns: usize,
        weights: crk_view_t,
        x: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
impl crk_mmq {
    pub const CRK_MMQ_D4: crk_mmq = crk_mmq(0);
    pub const CRK_MMQ_DS4: crk_mmq = crk_mmq(1);
    pub const CRK_MMQ_D2S6: crk_mmq = crk_mmq(2);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_mmq(pub ::core::ffi::c_uint);
pub use self::crk_mmq as crk_mmq_t;
unsafe extern "C" {
    /** The layout that crk_mul_mat_mmq wants for a format: DS4 for q4_0, q4_1, q5_1, q4_K and q5_K, D2S6 for q2_K, D4 for q5_0, q8_0,
 q3_K and q6_K. Fails with CRK_INVALID_ARGUMENT, or CRK_UNSUPPORTED for q8_K.*/
    pub fn crk_mmq_of_quant(quant: crk_quant_t, layout: *mut crk_mmq_t) -> crk_status_t;
}
/// Rows that become columns of mmq blocks; strides are in elements of x. In brackets, Candle's names.
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct crk_mmq_rows {
    /// elements of a row \[ne00\]
    pub k: usize,
    /// \[s01, s02, s03\]
    pub row_stride: usize,
    /// \[s01, s02, s03\]
    pub channel_stride: usize,
    /// \[s01, s02, s03\]
    pub sample_stride: usize,
    /// a multiple of 128, from k up: zeros follow a row's elements \[ne0\]
    pub padded_k: usize,
    /// \[ne1, ne2, ne3\]
    pub columns: usize,
    /// \[ne1, ne2, ne3\]
    pub channels: usize,
    /// \[ne1, ne2, ne3\]
    pub samples: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_mmq_rows"][::core::mem::size_of::<crk_mmq_rows>() - 64usize];
    ["Alignment of crk_mmq_rows"][::core::mem::align_of::<crk_mmq_rows>() - 8usize];
    [
        "Offset of field: crk_mmq_rows::k",
    ][::core::mem::offset_of!(crk_mmq_rows, k) - 0usize];
    [
        "Offset of field: crk_mmq_rows::row_stride",
    ][::core::mem::offset_of!(crk_mmq_rows, row_stride) - 8usize];
    [
        "Offset of field: crk_mmq_rows::channel_stride",
    ][::core::mem::offset_of!(crk_mmq_rows, channel_stride) - 16usize];
    [
        "Offset of field: crk_mmq_rows::sample_stride",
    ][::core::mem::offset_of!(crk_mmq_rows, sample_stride) - 24usize];
    [
        "Offset of field: crk_mmq_rows::padded_k",
    ][::core::mem::offset_of!(crk_mmq_rows, padded_k) - 32usize];
    [
        "Offset of field: crk_mmq_rows::columns",
    ][::core::mem::offset_of!(crk_mmq_rows, columns) - 40usize];
    [
        "Offset of field: crk_mmq_rows::channels",
    ][::core::mem::offset_of!(crk_mmq_rows, channels) - 48usize];
    [
        "Offset of field: crk_mmq_rows::samples",
    ][::core::mem::offset_of!(crk_mmq_rows, samples) - 56usize];
};
/// Rows that become columns of mmq blocks; strides are in elements of x. In brackets, Candle's names.
pub type crk_mmq_rows_t = crk_mmq_rows;
unsafe extern "C" {
    /** Bytes of those blocks: samples \* channels \* columns \* (padded_k rounded up to a multiple of 512) / 128 \* 144; 0 where `rows`
 is NULL or that is beyond size_t.*/
    pub fn crk_mmq_bytes(rows: *const crk_mmq_rows_t) -> usize;
}
unsafe extern "C" {
    /** Block b of column j of channel c of sample s, number (s \* channels + c) \* columns \* (padded_k rounded up to 512) / 128
 + b \* columns + j of dst, becomes the elements 128 b to 128 b + 127 of the row at s \* sample_stride + c \* channel_stride +
 r \* row_stride of x. r is j, or ids\[j\], an i32, where `ids` is not {NULL, 0}. An id of a row that x does not hold (of a
 row_stride of 0: any but 0) leaves its blocks as they are, and the next synchronisation reports it
 (crk_device_synchronize). `dtype` of x is F32, F16 or BF16; any k and strides. dst has crk_mmq_bytes(rows) bytes and is aligned
 to 4.

 In each group that shares a d, with m its largest magnitude: a code is x \* (127 / m), rounded to nearest, halves away from
 zero, and d is 1 / (127 / m), in f32. A group of zeros has codes 0 and d 0. A NaN has no part in m and its code is 0; with an
 infinity d is infinite and the codes are 0. s is the sum of the group's numbers, in f32: each four neighbours from the first
 on, then a butterfly of those. An f16 d or s beyond 65504 is infinite. Bit for bit what Candle's kernel gives.*/
    pub fn crk_quantize_mmq(
        self_: crk_device_t,
        layout: crk_mmq_t,
        dtype: crk_dtype_t,
        rows: *const crk_mmq_rows_t,
        x: crk_view_t,
        ids: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[c \* dst_stride + i\] = the sum over j of weights\[i\]\[j\] \* column c of y, for i below `rows`, c below `columns`: what crk_mul_mat
 does with more than 8 columns once they are quantized, for any number of columns. One launch, no scratch memory. A row of
 weights begins every `weight_stride` blocks. y is mmq blocks in the layout of the format (crk_mmq_of_quant), block b of column
 c at b \* columns + c, and is aligned to 4; what it has beyond k does not count. `dtype` of dst is F32, F16 or BF16; dst_stride, in
 elements, is `rows` at least. k of 0 gives zeros.*/
    pub fn crk_mul_mat_mmq(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        columns: usize,
        weights: crk_view_t,
        weight_stride: usize,
        y: crk_view_t,
        dst: crk_view_t,
        dst_stride: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** In integers: x, of `dtype` F32, F16 or BF16, is quantized first, as by crk_quantize_q8_1, into crk_q8_1_bytes(inputs, k) bytes of
 scratch memory that are allocated and freed in the stream's order, and which a capture must find reserved
 (crk_memory_reserve) or cached; inputs is tokens, or tokens / topk without topk_weights. They are below 2^32
 (CRK_UNSUPPORTED). So these are two launches. dst is f32. Every
 format but q8_K; k is a multiple of the format's block. Sums and their accuracy are those of crk_mul_mat_vec, then the scale
 multiplies, which rounds once.*/
    pub fn crk_moe_gguf(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        experts: usize,
        rows: usize,
        k: usize,
        tokens: usize,
        topk: usize,
        weights: crk_view_t,
        x: crk_view_t,
        sorted_token_ids: crk_view_t,
        expert_ids: crk_view_t,
        topk_weights: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** In floating point, for many tokens an expert: the weights become numbers of `dtype`, F16 or BF16, which x has too; dst is f32. One
 launch, no scratch memory. Every format but q8_K; k is a multiple of the format's block.

 The numbers are those of Candle's kernel: of q2_K to q6_K in f16, every step rounded: d times the group's scale, dmin times
 its minimum, then that scale times the code less that minimum in one fused step (q2_K and q6_K: d times the product of scale
 and code, which rounds first where q6_K's is above 2048), then `dtype`; of the others, f32 rounded to dtype. Products are added up in
 f32 in an order of the kernel's: within 1e-5 of the sum of the absolute products, for k up to 2^16.*/
    pub fn crk_moe_gguf_prefill(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        experts: usize,
        rows: usize,
        k: usize,
        tokens: usize,
        topk: usize,
        weights: crk_view_t,
        x: crk_view_t,
        sorted_token_ids: crk_view_t,
        expert_ids: crk_view_t,
        topk_weights: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same with weights, x and dst of `dtype`, F16 or BF16; k is a multiple of 8. Sums in f32 as above, the scale multiplies, and dst
 rounds once more. Subnormal f16 count; a bf16 below 2^-126 may be 0 (kernels/platform/hip.h says where).

 expert_counts\[e\] is then how many of expert_ids are e, expert_offsets\[e\] the sum of the counts before e, expert_offsets\[experts\]
 of all, as i32; either may have ptr NULL, and with both NULL it is one launch, else two. No scratch memory.*/
    pub fn crk_moe_gemm(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        experts: usize,
        rows: usize,
        k: usize,
        tokens: usize,
        topk: usize,
        weights: crk_view_t,
        x: crk_view_t,
        sorted_token_ids: crk_view_t,
        expert_ids: crk_view_t,
        topk_weights: crk_view_t,
        dst: crk_view_t,
        expert_counts: crk_view_t,
        expert_offsets: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Groups tokens by expert: sorted_token_ids has those m below `count` for which topk_ids\[m\] is 0, in order, then the value `count` up to
 a multiple of block_size, then those of 1 and so on; behind the last expert's, `count` up to `padded` entries. expert_ids\[b\] is the
 expert of block b of block_size entries, -1 behind the last block; it has one for each of `padded`, rounded up. Of cumsum, which
 has experts + 1 entries, the e-th is where e's tokens end, without the padding; the last, and num_tokens_post_pad\[0\], is how
 many entries all blocks have. All are i32. Two launches, no scratch memory; the result is one and the same in each call.

 An id that is no expert is left out, and reported at the next synchronisation; so is a number of entries above `padded`, and those
 beyond are not written. count + min(count, experts) \* (block_size - 1) are always enough. No two views may overlap.*/
    pub fn crk_moe_align(
        self_: crk_device_t,
        experts: usize,
        block_size: usize,
        count: usize,
        padded: usize,
        topk_ids: crk_view_t,
        sorted_token_ids: crk_view_t,
        expert_ids: crk_view_t,
        num_tokens_post_pad: crk_view_t,
        cumsum: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b\]\[t\]\[i\] = the sum over j of weights\[ids\[b\]\[t\]\]\[i\]\[j\] \* x\[b\]\[t or 0\]\[j\], in integers as crk_moe_gguf: ids are u32 of
 batch \* topk, x is batch \* inputs \* k where `inputs` is 1, one row for all of a batch's experts, or topk; `dtype` is that of x
 and of dst. What an id that is no expert would give stays as it is, and the next synchronisation reports it.*/
    pub fn crk_indexed_moe(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        experts: usize,
        rows: usize,
        k: usize,
        batch: usize,
        topk: usize,
        inputs: usize,
        weights: crk_view_t,
        x: crk_view_t,
        ids: crk_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Begins a generator, or begins it anew: equal seeds give equal numbers. One launch; memory that no generator was begun in has none.
    pub fn crk_random_seed(
        self_: crk_device_t,
        state: crk_view_t,
        seed: u64,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = fma(u, hi - lo, lo) for i below `numel`, u uniform in \[0, 1): a multiple of 2^-53 in f64, else of 2^-24. lo and hi are rounded to
 the dtype first; the formula is computed in f64, or in f32, and f16 and bf16 are rounded once. lo \<= dst\[i\] \< hi: what the roundings
 would make hi is the greatest number below it. Where lo and hi are equal, or become so, every element is lo. Fails with
 CRK_INVALID_ARGUMENT too where lo or hi is no finite number of the dtype, lo is above hi, or hi - lo overflows (f32, f64).*/
    pub fn crk_random_uniform(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        dst: crk_view_t,
        numel: usize,
        lo: f64,
        hi: f64,
        state: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = fma(z, std, mean) for i below `numel`, z normal with mean 0 and variance 1, by Box and Muller's transform: of magnitude 8.58 at
 most in f64, else 6.67, and off its formula by 5 units in the last place at most. Computed in f64, or in f32, and f16 and bf16
 rounded once: what is beyond a dtype's range is infinite. A std of 0 gives `mean`, a negative one mirrored numbers. Fails with
 CRK_INVALID_ARGUMENT too where mean or std is not finite in f32 (f64).*/
    pub fn crk_random_normal(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        dst: crk_view_t,
        numel: usize,
        mean: f64,
        std: f64,
        state: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// crk_quantize_q8_1 of `num_rows` rows of `kx` elements, padded to `kx_padded`, a multiple of 32.
    pub fn crk_launch_mmvq_gguf_quantize_q8_1_f32(
        x: *const ::core::ffi::c_void,
        vy: *mut ::core::ffi::c_void,
        kx: i32,
        kx_padded: i32,
        num_rows: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_quantize_q8_1_f16(
        x: *const ::core::ffi::c_void,
        vy: *mut ::core::ffi::c_void,
        kx: i32,
        kx_padded: i32,
        num_rows: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_quantize_q8_1_bf16(
        x: *const ::core::ffi::c_void,
        vy: *mut ::core::ffi::c_void,
        kx: i32,
        kx_padded: i32,
        num_rows: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q4_0_f32_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q4_0_f16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q4_0_bf16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q4_1_f32_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q4_1_f16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q4_1_bf16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q5_0_f32_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q5_0_f16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q5_0_bf16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q5_1_f32_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q5_1_f16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q5_1_bf16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q8_0_f32_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q8_0_f16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q8_0_bf16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q2_k_f32_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q2_k_f16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q2_k_bf16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q3_k_f32_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q3_k_f16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q3_k_bf16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q4_k_f32_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q4_k_f16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q4_k_bf16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q5_k_f32_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q5_k_f16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q5_k_bf16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q6_k_f32_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q6_k_f16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmvq_gguf_q6_k_bf16_plain(
        vx: *const ::core::ffi::c_void,
        vy: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i32,
        nrows_x: i32,
        stride_col_y: i32,
        stride_col_dst: i32,
        b_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_quantize_q8_1_D4(
        x: *const ::core::ffi::c_void,
        ids: *const i32,
        vy: *mut ::core::ffi::c_void,
        type_x: i32,
        ne00: i64,
        s01: i64,
        s02: i64,
        s03: i64,
        ne0: i64,
        ne1: i64,
        ne2: i64,
        ne3: i64,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_quantize_q8_1_DS4(
        x: *const ::core::ffi::c_void,
        ids: *const i32,
        vy: *mut ::core::ffi::c_void,
        type_x: i32,
        ne00: i64,
        s01: i64,
        s02: i64,
        s03: i64,
        ne0: i64,
        ne1: i64,
        ne2: i64,
        ne3: i64,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_quantize_q8_1_D2S6(
        x: *const ::core::ffi::c_void,
        ids: *const i32,
        vy: *mut ::core::ffi::c_void,
        type_x: i32,
        ne00: i64,
        s01: i64,
        s02: i64,
        s03: i64,
        ne0: i64,
        ne1: i64,
        ne2: i64,
        ne3: i64,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_gguf_q4_0(
        tmp_fixup: *mut ::core::ffi::c_void,
        x: *const ::core::ffi::c_void,
        y: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i64,
        nrows_x: i64,
        ncols_y: i64,
        stride_row_x: i64,
        stride_col_dst: i64,
        cc: i32,
        nsm: i32,
        smpbo: i64,
        warp_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_gguf_q4_1(
        tmp_fixup: *mut ::core::ffi::c_void,
        x: *const ::core::ffi::c_void,
        y: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i64,
        nrows_x: i64,
        ncols_y: i64,
        stride_row_x: i64,
        stride_col_dst: i64,
        cc: i32,
        nsm: i32,
        smpbo: i64,
        warp_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_gguf_q5_0(
        tmp_fixup: *mut ::core::ffi::c_void,
        x: *const ::core::ffi::c_void,
        y: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i64,
        nrows_x: i64,
        ncols_y: i64,
        stride_row_x: i64,
        stride_col_dst: i64,
        cc: i32,
        nsm: i32,
        smpbo: i64,
        warp_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_gguf_q5_1(
        tmp_fixup: *mut ::core::ffi::c_void,
        x: *const ::core::ffi::c_void,
        y: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i64,
        nrows_x: i64,
        ncols_y: i64,
        stride_row_x: i64,
        stride_col_dst: i64,
        cc: i32,
        nsm: i32,
        smpbo: i64,
        warp_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_gguf_q8_0(
        tmp_fixup: *mut ::core::ffi::c_void,
        x: *const ::core::ffi::c_void,
        y: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i64,
        nrows_x: i64,
        ncols_y: i64,
        stride_row_x: i64,
        stride_col_dst: i64,
        cc: i32,
        nsm: i32,
        smpbo: i64,
        warp_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_gguf_q2_k(
        tmp_fixup: *mut ::core::ffi::c_void,
        x: *const ::core::ffi::c_void,
        y: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i64,
        nrows_x: i64,
        ncols_y: i64,
        stride_row_x: i64,
        stride_col_dst: i64,
        cc: i32,
        nsm: i32,
        smpbo: i64,
        warp_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_gguf_q3_k(
        tmp_fixup: *mut ::core::ffi::c_void,
        x: *const ::core::ffi::c_void,
        y: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i64,
        nrows_x: i64,
        ncols_y: i64,
        stride_row_x: i64,
        stride_col_dst: i64,
        cc: i32,
        nsm: i32,
        smpbo: i64,
        warp_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_gguf_q4_k(
        tmp_fixup: *mut ::core::ffi::c_void,
        x: *const ::core::ffi::c_void,
        y: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i64,
        nrows_x: i64,
        ncols_y: i64,
        stride_row_x: i64,
        stride_col_dst: i64,
        cc: i32,
        nsm: i32,
        smpbo: i64,
        warp_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_gguf_q5_k(
        tmp_fixup: *mut ::core::ffi::c_void,
        x: *const ::core::ffi::c_void,
        y: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i64,
        nrows_x: i64,
        ncols_y: i64,
        stride_row_x: i64,
        stride_col_dst: i64,
        cc: i32,
        nsm: i32,
        smpbo: i64,
        warp_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    pub fn crk_launch_mmq_gguf_q6_k(
        tmp_fixup: *mut ::core::ffi::c_void,
        x: *const ::core::ffi::c_void,
        y: *const ::core::ffi::c_void,
        dst: *mut ::core::ffi::c_void,
        ncols_x: i64,
        nrows_x: i64,
        ncols_y: i64,
        stride_row_x: i64,
        stride_col_dst: i64,
        cc: i32,
        nsm: i32,
        smpbo: i64,
        warp_size: i32,
        stream: *mut ::core::ffi::c_void,
    );
}
unsafe extern "C" {
    /** crk_moe_gguf of f32 activations: `size_m` tokens, `size_n` rows of `size_k` elements an expert. topk_weights may be NULL. Memory
 to quantize into is that launcher's scratch memory.*/
    pub fn crk_moe_gemm_gguf(
        input: *const f32,
        weights: *const ::core::ffi::c_void,
        sorted_token_ids: *const i32,
        expert_ids: *const i32,
        topk_weights: *const f32,
        output: *mut ::core::ffi::c_void,
        num_experts: i32,
        topk: i32,
        size_m: i32,
        size_n: i32,
        size_k: i32,
        gguf_dtype: i32,
        stream: i64,
    );
}
unsafe extern "C" {
    /// crk_moe_gguf_prefill of activations of f16 (input_dtype 0) or bf16 (1). expert_ids are device memory.
    pub fn crk_moe_gemm_gguf_prefill(
        input: *const ::core::ffi::c_void,
        weights: *const u8,
        sorted_token_ids: *const i32,
        expert_ids: *const i32,
        topk_weights: *const f32,
        output: *mut ::core::ffi::c_void,
        num_experts: i32,
        topk: i32,
        size_m: i32,
        size_n: i32,
        size_k: i32,
        input_dtype: i32,
        gguf_dtype: i32,
        stream: i64,
    );
}
unsafe extern "C" {
    /// crk_moe_gemm of f16 (dtype 0) or bf16 (1); is_prefill means nothing. expert_ids are device memory.
    pub fn crk_moe_gemm_wmma(
        input: *const ::core::ffi::c_void,
        weights: *const ::core::ffi::c_void,
        sorted_token_ids: *const i32,
        expert_ids: *const i32,
        topk_weights: *const f32,
        output: *mut ::core::ffi::c_void,
        expert_counts: *mut i32,
        expert_offsets: *mut i32,
        num_experts: i32,
        topk: i32,
        size_m: i32,
        size_n: i32,
        size_k: i32,
        dtype: i32,
        is_prefill: bool,
        stream: i64,
    );
}
unsafe extern "C" {
    /// crk_moe_align of `numel` ids. Returns a crk_status_t at once, 0 for success, and keeps nothing.
    pub fn crk_candle_launch_moe_align(
        topk_ids: *const i32,
        sorted_token_ids: *mut i32,
        expert_ids: *mut i32,
        num_tokens_post_pad: *mut i32,
        cumsum: *mut i32,
        num_experts: i32,
        block_size: i32,
        numel: i32,
        max_num_tokens_padded: i32,
        stream: *mut ::core::ffi::c_void,
    ) -> i32;
}
