// include/ fnv1a ebabd06d47290ba0d41cb2ba4fe8877c
// Made by tools/bindings; build/bindings.rs has the options.

/// The roots of CRK_UNARY_MAP.
pub const CRK_UNARY_ROOTS: [&str; 24] = ["ucopy", "uneg", "urecip", "uexp", "ulog", "usin", "ucos", "utanh", "uerf", "uceil", "ufloor", "uround", "unormcdf", "uabs", "usqr", "usqrt", "ugelu", "ugelu_erf", "urelu", "usilu", "usign", "usigmoid", "uelu", "upowf"];
/// The roots of CRK_BINARY_MAP.
pub const CRK_BINARY_ROOTS: [&str; 6] = ["badd", "bsub", "bmul", "bdiv", "bmaximum", "bminimum"];
/// The roots of CRK_CMP_MAP.
pub const CRK_CMP_ROOTS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
/// The roots of CRK_REDUCE_MAP.
pub const CRK_REDUCE_ROOTS: [&str; 5] = ["fast_sum", "fast_min", "fast_max", "fast_argmin", "fast_argmax"];
#[allow(non_upper_case_globals)]
impl crk_comm_op {
    /// `CRK_COMM_OP_SUM`.
    pub const Sum: Self = Self::CRK_COMM_OP_SUM;
    /// `CRK_COMM_OP_PROD`.
    pub const Prod: Self = Self::CRK_COMM_OP_PROD;
    /// `CRK_COMM_OP_MAX`.
    pub const Max: Self = Self::CRK_COMM_OP_MAX;
    /// `CRK_COMM_OP_MIN`.
    pub const Min: Self = Self::CRK_COMM_OP_MIN;
    /// `CRK_COMM_OP_AVG`.
    pub const Avg: Self = Self::CRK_COMM_OP_AVG;
}
#[allow(non_upper_case_globals)]
impl crk_backend {
    /// `CRK_BACKEND_AUTO`.
    pub const Auto: Self = Self::CRK_BACKEND_AUTO;
    /// `CRK_BACKEND_HIP`.
    pub const Hip: Self = Self::CRK_BACKEND_HIP;
    /// `CRK_BACKEND_CUDA`.
    pub const Cuda: Self = Self::CRK_BACKEND_CUDA;
    /// `CRK_BACKEND_CPU`.
    pub const Cpu: Self = Self::CRK_BACKEND_CPU;
}
#[allow(non_upper_case_globals)]
impl crk_severity {
    /// `CRK_SEVERITY_OK`.
    pub const Ok: Self = Self::CRK_SEVERITY_OK;
    /// `CRK_SEVERITY_NOTE`.
    pub const Note: Self = Self::CRK_SEVERITY_NOTE;
    /// `CRK_SEVERITY_PROBLEM`.
    pub const Problem: Self = Self::CRK_SEVERITY_PROBLEM;
}
#[allow(non_upper_case_globals)]
impl crk_topic {
    /// `CRK_TOPIC_KERNELS`.
    pub const Kernels: Self = Self::CRK_TOPIC_KERNELS;
    /// `CRK_TOPIC_VARIABLE`.
    pub const Variable: Self = Self::CRK_TOPIC_VARIABLE;
    /// `CRK_TOPIC_WSL`.
    pub const Wsl: Self = Self::CRK_TOPIC_WSL;
    /// `CRK_TOPIC_CONTAINER`.
    pub const Container: Self = Self::CRK_TOPIC_CONTAINER;
    /// `CRK_TOPIC_KFD`.
    pub const Kfd: Self = Self::CRK_TOPIC_KFD;
    /// `CRK_TOPIC_KERNEL_GPU`.
    pub const KernelGpu: Self = Self::CRK_TOPIC_KERNEL_GPU;
    /// `CRK_TOPIC_RENDER`.
    pub const Render: Self = Self::CRK_TOPIC_RENDER;
    /// `CRK_TOPIC_HIP_RUNTIME`.
    pub const HipRuntime: Self = Self::CRK_TOPIC_HIP_RUNTIME;
    /// `CRK_TOPIC_HIP_DEVICES`.
    pub const HipDevices: Self = Self::CRK_TOPIC_HIP_DEVICES;
    /// `CRK_TOPIC_GPU`.
    pub const Gpu: Self = Self::CRK_TOPIC_GPU;
    /// `CRK_TOPIC_UNTRIED`.
    pub const Untried: Self = Self::CRK_TOPIC_UNTRIED;
    /// `CRK_TOPIC_BLAS`.
    pub const Blas: Self = Self::CRK_TOPIC_BLAS;
    /// `CRK_TOPIC_CUDA_DRIVER`.
    pub const CudaDriver: Self = Self::CRK_TOPIC_CUDA_DRIVER;
    /// `CRK_TOPIC_CUDA_DEVICES`.
    pub const CudaDevices: Self = Self::CRK_TOPIC_CUDA_DEVICES;
    /// `CRK_TOPIC_CHOICE`.
    pub const Choice: Self = Self::CRK_TOPIC_CHOICE;
}
#[allow(non_upper_case_globals)]
impl crk_pool_op {
    /// `CRK_POOL_AVG`.
    pub const Avg: Self = Self::CRK_POOL_AVG;
    /// `CRK_POOL_MAX`.
    pub const Max: Self = Self::CRK_POOL_MAX;
}
#[allow(non_upper_case_globals)]
impl crk_unary_op {
    /// `CRK_UNARY_COPY`.
    pub const Copy: Self = Self::CRK_UNARY_COPY;
    /// `CRK_UNARY_NEG`.
    pub const Neg: Self = Self::CRK_UNARY_NEG;
    /// `CRK_UNARY_RECIP`.
    pub const Recip: Self = Self::CRK_UNARY_RECIP;
    /// `CRK_UNARY_EXP`.
    pub const Exp: Self = Self::CRK_UNARY_EXP;
    /// `CRK_UNARY_LOG`.
    pub const Log: Self = Self::CRK_UNARY_LOG;
    /// `CRK_UNARY_SIN`.
    pub const Sin: Self = Self::CRK_UNARY_SIN;
    /// `CRK_UNARY_COS`.
    pub const Cos: Self = Self::CRK_UNARY_COS;
    /// `CRK_UNARY_TANH`.
    pub const Tanh: Self = Self::CRK_UNARY_TANH;
    /// `CRK_UNARY_ERF`.
    pub const Erf: Self = Self::CRK_UNARY_ERF;
    /// `CRK_UNARY_CEIL`.
    pub const Ceil: Self = Self::CRK_UNARY_CEIL;
    /// `CRK_UNARY_FLOOR`.
    pub const Floor: Self = Self::CRK_UNARY_FLOOR;
    /// `CRK_UNARY_ROUND`.
    pub const Round: Self = Self::CRK_UNARY_ROUND;
    /// `CRK_UNARY_NORMCDF`.
    pub const Normcdf: Self = Self::CRK_UNARY_NORMCDF;
    /// `CRK_UNARY_ABS`.
    pub const Abs: Self = Self::CRK_UNARY_ABS;
    /// `CRK_UNARY_SQR`.
    pub const Sqr: Self = Self::CRK_UNARY_SQR;
    /// `CRK_UNARY_SQRT`.
    pub const Sqrt: Self = Self::CRK_UNARY_SQRT;
    /// `CRK_UNARY_GELU`.
    pub const Gelu: Self = Self::CRK_UNARY_GELU;
    /// `CRK_UNARY_GELU_ERF`.
    pub const GeluErf: Self = Self::CRK_UNARY_GELU_ERF;
    /// `CRK_UNARY_RELU`.
    pub const Relu: Self = Self::CRK_UNARY_RELU;
    /// `CRK_UNARY_SILU`.
    pub const Silu: Self = Self::CRK_UNARY_SILU;
    /// `CRK_UNARY_SIGN`.
    pub const Sign: Self = Self::CRK_UNARY_SIGN;
    /// `CRK_UNARY_SIGMOID`.
    pub const Sigmoid: Self = Self::CRK_UNARY_SIGMOID;
    /// `CRK_UNARY_ELU`.
    pub const Elu: Self = Self::CRK_UNARY_ELU;
    /// `CRK_UNARY_POWF`.
    pub const Powf: Self = Self::CRK_UNARY_POWF;
}
#[allow(non_upper_case_globals)]
impl crk_binary_op {
    /// `CRK_BINARY_ADD`.
    pub const Add: Self = Self::CRK_BINARY_ADD;
    /// `CRK_BINARY_SUB`.
    pub const Sub: Self = Self::CRK_BINARY_SUB;
    /// `CRK_BINARY_MUL`.
    pub const Mul: Self = Self::CRK_BINARY_MUL;
    /// `CRK_BINARY_DIV`.
    pub const Div: Self = Self::CRK_BINARY_DIV;
    /// `CRK_BINARY_MAXIMUM`.
    pub const Maximum: Self = Self::CRK_BINARY_MAXIMUM;
    /// `CRK_BINARY_MINIMUM`.
    pub const Minimum: Self = Self::CRK_BINARY_MINIMUM;
}
#[allow(non_upper_case_globals)]
impl crk_cmp_op {
    /// `CRK_CMP_EQ`.
    pub const Eq: Self = Self::CRK_CMP_EQ;
    /// `CRK_CMP_NE`.
    pub const Ne: Self = Self::CRK_CMP_NE;
    /// `CRK_CMP_LT`.
    pub const Lt: Self = Self::CRK_CMP_LT;
    /// `CRK_CMP_LE`.
    pub const Le: Self = Self::CRK_CMP_LE;
    /// `CRK_CMP_GT`.
    pub const Gt: Self = Self::CRK_CMP_GT;
    /// `CRK_CMP_GE`.
    pub const Ge: Self = Self::CRK_CMP_GE;
}
#[allow(non_upper_case_globals)]
impl crk_gate_op {
    /// `CRK_GATE_SILU`.
    pub const Silu: Self = Self::CRK_GATE_SILU;
    /// `CRK_GATE_GELU`.
    pub const Gelu: Self = Self::CRK_GATE_GELU;
    /// `CRK_GATE_GELU_ERF`.
    pub const GeluErf: Self = Self::CRK_GATE_GELU_ERF;
    /// `CRK_GATE_RELU`.
    pub const Relu: Self = Self::CRK_GATE_RELU;
    /// `CRK_GATE_SIGMOID`.
    pub const Sigmoid: Self = Self::CRK_GATE_SIGMOID;
}
#[allow(non_upper_case_globals)]
impl crk_quant {
    /// `CRK_QUANT_Q4_0`.
    pub const Q4_0: Self = Self::CRK_QUANT_Q4_0;
    /// `CRK_QUANT_Q4_1`.
    pub const Q4_1: Self = Self::CRK_QUANT_Q4_1;
    /// `CRK_QUANT_Q5_0`.
    pub const Q5_0: Self = Self::CRK_QUANT_Q5_0;
    /// `CRK_QUANT_Q5_1`.
    pub const Q5_1: Self = Self::CRK_QUANT_Q5_1;
    /// `CRK_QUANT_Q8_0`.
    pub const Q8_0: Self = Self::CRK_QUANT_Q8_0;
    /// `CRK_QUANT_Q2_K`.
    pub const Q2_K: Self = Self::CRK_QUANT_Q2_K;
    /// `CRK_QUANT_Q3_K`.
    pub const Q3_K: Self = Self::CRK_QUANT_Q3_K;
    /// `CRK_QUANT_Q4_K`.
    pub const Q4_K: Self = Self::CRK_QUANT_Q4_K;
    /// `CRK_QUANT_Q5_K`.
    pub const Q5_K: Self = Self::CRK_QUANT_Q5_K;
    /// `CRK_QUANT_Q6_K`.
    pub const Q6_K: Self = Self::CRK_QUANT_Q6_K;
    /// `CRK_QUANT_Q8_K`.
    pub const Q8_K: Self = Self::CRK_QUANT_Q8_K;
}
#[allow(non_upper_case_globals)]
impl crk_mmq {
    /// `CRK_MMQ_D4`.
    pub const D4: Self = Self::CRK_MMQ_D4;
    /// `CRK_MMQ_DS4`.
    pub const DS4: Self = Self::CRK_MMQ_DS4;
    /// `CRK_MMQ_D2S6`.
    pub const D2S6: Self = Self::CRK_MMQ_D2S6;
}
#[allow(non_upper_case_globals)]
impl crk_reduce_op {
    /// `CRK_REDUCE_SUM`.
    pub const Sum: Self = Self::CRK_REDUCE_SUM;
    /// `CRK_REDUCE_MIN`.
    pub const Min: Self = Self::CRK_REDUCE_MIN;
    /// `CRK_REDUCE_MAX`.
    pub const Max: Self = Self::CRK_REDUCE_MAX;
    /// `CRK_REDUCE_ARGMIN`.
    pub const Argmin: Self = Self::CRK_REDUCE_ARGMIN;
    /// `CRK_REDUCE_ARGMAX`.
    pub const Argmax: Self = Self::CRK_REDUCE_ARGMAX;
}
#[allow(non_upper_case_globals)]
impl crk_rope_kind {
    /// `CRK_ROPE_KIND_ROPE`.
    pub const Rope: Self = Self::CRK_ROPE_KIND_ROPE;
    /// `CRK_ROPE_KIND_ROPE_I`.
    pub const RopeI: Self = Self::CRK_ROPE_KIND_ROPE_I;
    /// `CRK_ROPE_KIND_ROPE_THD`.
    pub const RopeThd: Self = Self::CRK_ROPE_KIND_ROPE_THD;
}
#[allow(non_upper_case_globals)]
impl crk_dtype {
    /// `CRK_DTYPE_U8`.
    pub const U8: Self = Self::CRK_DTYPE_U8;
    /// `CRK_DTYPE_U32`.
    pub const U32: Self = Self::CRK_DTYPE_U32;
    /// `CRK_DTYPE_I16`.
    pub const I16: Self = Self::CRK_DTYPE_I16;
    /// `CRK_DTYPE_I32`.
    pub const I32: Self = Self::CRK_DTYPE_I32;
    /// `CRK_DTYPE_I64`.
    pub const I64: Self = Self::CRK_DTYPE_I64;
    /// `CRK_DTYPE_BF16`.
    pub const BF16: Self = Self::CRK_DTYPE_BF16;
    /// `CRK_DTYPE_F16`.
    pub const F16: Self = Self::CRK_DTYPE_F16;
    /// `CRK_DTYPE_F32`.
    pub const F32: Self = Self::CRK_DTYPE_F32;
    /// `CRK_DTYPE_F64`.
    pub const F64: Self = Self::CRK_DTYPE_F64;
    /// `CRK_DTYPE_F8E4M3`.
    pub const F8E4M3: Self = Self::CRK_DTYPE_F8E4M3;
}
#[allow(non_upper_case_globals)]
impl crk_status {
    /// `CRK_OK`.
    pub const Ok: Self = Self::CRK_OK;
    /// `CRK_INVALID_ARGUMENT`.
    pub const InvalidArgument: Self = Self::CRK_INVALID_ARGUMENT;
    /// `CRK_OUT_OF_BOUNDS`.
    pub const OutOfBounds: Self = Self::CRK_OUT_OF_BOUNDS;
    /// `CRK_UNSUPPORTED`.
    pub const Unsupported: Self = Self::CRK_UNSUPPORTED;
    /// `CRK_NOT_FOUND`.
    pub const NotFound: Self = Self::CRK_NOT_FOUND;
    /// `CRK_OUT_OF_MEMORY`.
    pub const OutOfMemory: Self = Self::CRK_OUT_OF_MEMORY;
    /// `CRK_NO_RUNTIME`.
    pub const NoRuntime: Self = Self::CRK_NO_RUNTIME;
    /// `CRK_NO_DEVICE`.
    pub const NoDevice: Self = Self::CRK_NO_DEVICE;
    /// `CRK_INVALID_IMAGE`.
    pub const InvalidImage: Self = Self::CRK_INVALID_IMAGE;
    /// `CRK_WRONG_ARCHITECTURE`.
    pub const WrongArchitecture: Self = Self::CRK_WRONG_ARCHITECTURE;
    /// `CRK_CAPTURE`.
    pub const Capture: Self = Self::CRK_CAPTURE;
    /// `CRK_NOT_READY`.
    pub const NotReady: Self = Self::CRK_NOT_READY;
    /// `CRK_DEVICE`.
    pub const Device: Self = Self::CRK_DEVICE;
    /// `CRK_OUT_OF_RANGE`.
    pub const OutOfRange: Self = Self::CRK_OUT_OF_RANGE;
    /// `CRK_PEER_LOST`.
    pub const PeerLost: Self = Self::CRK_PEER_LOST;
}


pub const CRK_VERSION_MAJOR: u32 = 0;
pub const CRK_VERSION_MINOR: u32 = 1;
pub const CRK_VERSION_PATCH: u32 = 0;
pub const CRK_MAX_RANK: u32 = 8;
pub const CRK_COMM_ID_BYTES: u32 = 128;
pub const CRK_COMM_FOREVER: u32 = 4294967295;
pub const CRK_ATTENTION_UNLIMITED: i32 = -1;
pub const CRK_ATTENTION_MOST_DIM: u32 = 512;
pub const CRK_MOST_GROUPED: u32 = 3;
pub const CRK_NORM_ROPE_LEAST_BYTES: u32 = 32;
pub const CRK_NORM_ROPE_MOST_BYTES: u32 = 512;
pub const CRK_Q8_1_BLOCK: u32 = 32;
pub const CRK_MOST_VEC_COLUMNS: u32 = 8;
pub const CRK_MOST_ROUTED_EXPERTS: u32 = 512;
pub const CRK_MOST_ROUTED_TOPK: u32 = 32;
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
    pub const CRK_PEER_LOST: crk_status = crk_status(14);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_status(pub ::core::ffi::c_uint);
pub use self::crk_status as crk_status_t;
unsafe extern "C" {
    /// The name of a status, such as "CRK_OUT_OF_MEMORY"; "CRK_UNKNOWN" for a value that this build does not know.
    pub fn crk_status_name(status: crk_status_t) -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    /// The general sentence of a status. The text is static and never NULL.
    pub fn crk_status_message(status: crk_status_t) -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    /** The sentence of this thread's last failed call: the function, the argument, its value, and the driver's answer. Never
 NULL; "" before the first failure. Valid until the thread's next failure.*/
    pub fn crk_last_error() -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    /** The driver's own error number (a hipError_t or CUresult; of collectives an ncclResult_t) of this thread's last
 CRK_DEVICE, else 0.*/
    pub fn crk_last_device_error() -> ::core::ffi::c_int;
}
unsafe extern "C" {
    /// The library's version, "MAJOR.MINOR.PATCH". The text is static.
    pub fn crk_version() -> *const ::core::ffi::c_char;
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
/// A handle on a device. Each handle has one stream.
pub type crk_device_t = *mut crk_device;
/** The properties of a device. Fields are added at the end only: see `struct_bytes` in candle_rocm.h.

 compute_units is HIP's count. On RDNA, HIP counts a workgroup processor (two compute units) as one, unless
 GPU_ENABLE_WGP_MODE is 0. simd_units is the same in both cases.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_device_info {
    /// set by the caller: sizeof(crk_device_info_t)
    pub struct_bytes: usize,
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
    /// the driver's own number; 0 for the CPU
    pub runtime_version: u32,
    /// threads of a grid along one dimension: 2^32 - 1 on HIP
    pub max_grid_threads: u64,
    /// of the device
    pub memory_bytes: u64,
    /// shared memory (LDS) of a block
    pub shared_bytes: u64,
    /// the architecture with its features, in the driver's form: "gfx90a:sramecc+:xnack-"
    pub target: [::core::ffi::c_char; 128usize],
    /// threads of a block along x, y and z
    pub max_block: [u32; 3usize],
    /// blocks of a grid along x, y and z
    pub max_grid: [u32; 3usize],
    /// the PCI address, which lspci shows as domain:bus:device.function;
    pub pci_domain: u32,
    /// all three are 0 for the CPU, and for a runtime that does not tell
    pub pci_bus: u32,
    pub pci_device: u32,
    /// 2 per RDNA compute unit, 4 per other compute unit or multiprocessor; CPU threads
    pub simd_units: u32,
    /// threads that each of compute_units holds at once
    pub unit_threads: u32,
    /// shared memory (LDS) of each of compute_units
    pub unit_shared_bytes: u64,
    /** L2 caches, to which the blocks of a launch go in turn: 8 for a whole MI300X, by HIP 7 and later; 1 where the
 runtime does not tell. The CPU has two, so that its tests take the order of blocks for several caches.*/
    pub l2_caches: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_device_info"][::core::mem::size_of::<crk_device_info>() - 568usize];
    [
        "Alignment of crk_device_info",
    ][::core::mem::align_of::<crk_device_info>() - 8usize];
    [
        "Offset of field: crk_device_info::struct_bytes",
    ][::core::mem::offset_of!(crk_device_info, struct_bytes) - 0usize];
    [
        "Offset of field: crk_device_info::backend",
    ][::core::mem::offset_of!(crk_device_info, backend) - 8usize];
    [
        "Offset of field: crk_device_info::ordinal",
    ][::core::mem::offset_of!(crk_device_info, ordinal) - 12usize];
    [
        "Offset of field: crk_device_info::name",
    ][::core::mem::offset_of!(crk_device_info, name) - 16usize];
    [
        "Offset of field: crk_device_info::architecture",
    ][::core::mem::offset_of!(crk_device_info, architecture) - 272usize];
    [
        "Offset of field: crk_device_info::wave_size",
    ][::core::mem::offset_of!(crk_device_info, wave_size) - 336usize];
    [
        "Offset of field: crk_device_info::compute_units",
    ][::core::mem::offset_of!(crk_device_info, compute_units) - 340usize];
    [
        "Offset of field: crk_device_info::max_block_threads",
    ][::core::mem::offset_of!(crk_device_info, max_block_threads) - 344usize];
    [
        "Offset of field: crk_device_info::runtime_version",
    ][::core::mem::offset_of!(crk_device_info, runtime_version) - 348usize];
    [
        "Offset of field: crk_device_info::max_grid_threads",
    ][::core::mem::offset_of!(crk_device_info, max_grid_threads) - 352usize];
    [
        "Offset of field: crk_device_info::memory_bytes",
    ][::core::mem::offset_of!(crk_device_info, memory_bytes) - 360usize];
    [
        "Offset of field: crk_device_info::shared_bytes",
    ][::core::mem::offset_of!(crk_device_info, shared_bytes) - 368usize];
    [
        "Offset of field: crk_device_info::target",
    ][::core::mem::offset_of!(crk_device_info, target) - 376usize];
    [
        "Offset of field: crk_device_info::max_block",
    ][::core::mem::offset_of!(crk_device_info, max_block) - 504usize];
    [
        "Offset of field: crk_device_info::max_grid",
    ][::core::mem::offset_of!(crk_device_info, max_grid) - 516usize];
    [
        "Offset of field: crk_device_info::pci_domain",
    ][::core::mem::offset_of!(crk_device_info, pci_domain) - 528usize];
    [
        "Offset of field: crk_device_info::pci_bus",
    ][::core::mem::offset_of!(crk_device_info, pci_bus) - 532usize];
    [
        "Offset of field: crk_device_info::pci_device",
    ][::core::mem::offset_of!(crk_device_info, pci_device) - 536usize];
    [
        "Offset of field: crk_device_info::simd_units",
    ][::core::mem::offset_of!(crk_device_info, simd_units) - 540usize];
    [
        "Offset of field: crk_device_info::unit_threads",
    ][::core::mem::offset_of!(crk_device_info, unit_threads) - 544usize];
    [
        "Offset of field: crk_device_info::unit_shared_bytes",
    ][::core::mem::offset_of!(crk_device_info, unit_shared_bytes) - 552usize];
    [
        "Offset of field: crk_device_info::l2_caches",
    ][::core::mem::offset_of!(crk_device_info, l2_caches) - 560usize];
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
/** The properties of a device. Fields are added at the end only: see `struct_bytes` in candle_rocm.h.

 compute_units is HIP's count. On RDNA, HIP counts a workgroup processor (two compute units) as one, unless
 GPU_ENABLE_WGP_MODE is 0. simd_units is the same in both cases.*/
pub type crk_device_info_t = crk_device_info;
unsafe extern "C" {
    /** The number of a backend's devices. CRK_BACKEND_CPU has two: ordinal 0 with wave width 32 and ordinal 1 with 64.
 CRK_BACKEND_AUTO counts the devices of the backend that crk_device_open would choose.

 Fails with CRK_NO_RUNTIME where the backend's runtime is missing, and for the CPU where this build has no kernels for
 it.*/
    pub fn crk_device_count(backend: crk_backend_t, count: *mut i32) -> crk_status_t;
}
unsafe extern "C" {
    /** Reads the name of a device, in any case of letters:

   hip:N, rocm:N    HIP device N; hip and rocm alone are device 0
   cuda:N           CUDA device N; cuda alone is device 0
   cpu:32, cpu:64   the CPU with waves of 32 or of 64 lanes; cpu alone is cpu:32
   gfx1100          the first HIP device of this architecture, or of a member of this generic one (gfx11-generic)

 Gives crk_device_open's arguments. Only the name of an architecture opens a runtime; an ordinal is not checked.

 Fails with CRK_INVALID_ARGUMENT for any other name. For an architecture it fails with CRK_NO_DEVICE where no device
 has it, and as crk_device_open where the devices cannot be listed.*/
    pub fn crk_device_from_name(
        name: *const ::core::ffi::c_char,
        backend: *mut crk_backend_t,
        ordinal: *mut i32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Opens a device; close it with crk_device_close. Two handles that are opened on one device share only the GPU's cache
 of freed memory.

 CRK_BACKEND_AUTO takes the device that the environment variable CANDLE_ROCM_DEVICE names (crk_device_from_name has
 the names; `ordinal` is then ignored). Without the variable it takes HIP, else CUDA, else the CPU. It skips a backend
 that has no runtime, no kernels in this build or no device. It does not skip a backend that fails otherwise.
 crk_diagnose tells the choice and its reasons.

 A GPU that is named opens even where this build has no kernels for it, so that the caller's own code can run there.
 This library's kernels then fail with CRK_NO_RUNTIME.

 Fails with CRK_NO_RUNTIME, CRK_NO_DEVICE (the ordinal is out of range), CRK_INVALID_ARGUMENT (an unknown backend, or
 an environment variable that names no device) or CRK_DEVICE. Where HIP has no device, the sentence says why, with
 crk_diagnose's first problem.*/
    pub fn crk_device_open(
        backend: crk_backend_t,
        ordinal: i32,
        device: *mut crk_device_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** A second handle on the same device, with a stream of its own. The two share modules and the cache of freed memory.
 Order their work with events (crk_device_wait). Close each; the order of closing does not matter.*/
    pub fn crk_device_clone(
        self_: crk_device_t,
        device: *mut crk_device_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** A second handle on the same GPU that works in the caller's `stream`, a hipStream_t or a CUstream. NULL is the legacy
 default stream. Otherwise the handle behaves like one from crk_device_clone.

 Order: the handle's work and the work that the caller puts into the stream run in the order of the calls. Events that
 are recorded on the handle, and crk_device_synchronize, cover the caller's work in the stream too.

 Ownership: the stream is borrowed. It must be a stream of this GPU and must live until the new handle is closed;
 crk_device_close waits for the stream's work and does not destroy it. While crk_graph_begin captures the handle, the
 caller's work in the stream is recorded too. The caller must not capture the stream by other means.

 Fails with CRK_INVALID_ARGUMENT where a live handle already works in this stream. NULL counts as one stream, also
 with several GPUs. Fails with it also for the default stream per thread, because that is another stream in each
 thread. Fails with CRK_UNSUPPORTED on the CPU, and with CRK_OUT_OF_MEMORY where the host has no memory for a handle.
 The legacy default stream cannot be captured: crk_graph_begin fails with CRK_DEVICE.

 While a handle on the legacy stream lives, do not capture a stream that waits for the legacy stream (one made without
 the flag "non-blocking"): an event on the legacy stream ends such a capture.*/
    pub fn crk_device_clone_on_stream(
        self_: crk_device_t,
        stream: *mut ::core::ffi::c_void,
        device: *mut crk_device_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Waits for the handle's work, then releases everything that belongs to the handle. Its allocations are released too:
 pointers from its crk_alloc are invalid from here on. A handle and its clones share modules and functions; these are
 released when the last of the handles is closed.*/
    pub fn crk_device_close(self_: crk_device_t);
}
unsafe extern "C" {
    /// Describes the device. The caller sets info-\>struct_bytes.
    pub fn crk_device_info(
        self_: crk_device_t,
        info: *mut crk_device_info_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Free and total bytes of device memory, as the driver reports them now. Memory in this library's cache is not free.
    pub fn crk_device_memory(
        self_: crk_device_t,
        free_bytes: *mut usize,
        total_bytes: *mut usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Whether kernels and copies of `self` reach the memory of the GPU of `peer` directly, over a link of the GPUs or over
 PCIe. The first call asks the runtime for this access; it then holds for all memory of that GPU. Without it copies
 between the two work too (crk_copy_between), through host memory. True on one device and between CPU devices, false
 between backends. Fails with CRK_DEVICE where the runtime can grant the access and fails to.*/
    pub fn crk_device_peer_access(
        self_: crk_device_t,
        peer: crk_device_t,
        has_access: *mut bool,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The handle's stream as the driver knows it (a hipStream_t or CUstream), for code that launches by itself. It stays
 the handle's, or the caller's after crk_device_clone_on_stream.*/
    pub fn crk_device_stream(
        self_: crk_device_t,
        stream: *mut *mut ::core::ffi::c_void,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The library that crk_matmul tries first on this handle, where the layouts allow it: "hipBLASLt", "rocBLAS" or
 "cuBLAS". "own kernels" where no such library is installed (always on the CPU), where none supports the device's
 architecture, and where CANDLE_ROCM_BLAS is "0". `name` is static text.

 Opens the libraries and creates their handles for this device handle, where that has not happened yet. While any
 device handle on the GPU is captured, the creation may wait; the library counts as absent until then. A creation may
 have failed because device memory was too short, even without the caches. Then this function tries it again; products
 do not.*/
    pub fn crk_device_blas(
        self_: crk_device_t,
        name: *mut *const ::core::ffi::c_char,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Does now what the first calls would do: loads all modules of this build, opens the BLAS libraries (crk_device_blas),
 and makes small products in BF16, F16 and F32 and of quantized weights, since these libraries load their kernels with
 the first product of a kind. On NVIDIA GPUs that takes some 0.4 s in all. A program may call it in a thread of its
 own while it loads a model. Calls in other threads go on meanwhile, and wait only for what they need themselves. A
 program may call it again.

 It uses a stream of its own and a few MiB of memory. Afterwards one set of handles of the BLAS libraries is ready,
 for the next device handle on this GPU that multiplies. On a CPU device it loads modules.

 Fails with CRK_NO_RUNTIME or CRK_WRONG_ARCHITECTURE where a module has no code for the device, and as
 crk_device_clone and crk_matmul do. What was prepared until then stays so.*/
    pub fn crk_device_prepare(self_: crk_device_t) -> crk_status_t;
}
unsafe extern "C" {
    /** Waits until all work given to the handle is done.

 Fails with CRK_DEVICE where any of the work failed, and with CRK_CAPTURE while the handle is captured. Fails with
 CRK_OUT_OF_RANGE where a launcher's kernel met an id out of range since the last synchronisation. The sentence names
 the launcher, the id and the number of the operation (crk_device_operations); no memory out of bounds was touched,
 and the handle stays usable. If several kernels met such an id, it is about the last one. Fails also with the first
 failure since the last synchronisation of a function that returns nothing (Candle's static launchers, ffi.h).

 With CANDLE_ROCM_SYNC=1 in the environment when the handle is opened, every call waits for its own work and returns
 these failures itself, with the name of the kernel. That is slow, and finds the call at fault. Calls that are
 captured do not wait. A call that launches no kernel with ids, and no graph, returns no reports: those of another
 thread's call stay for that call.*/
    pub fn crk_device_synchronize(self_: crk_device_t) -> crk_status_t;
}
unsafe extern "C" {
    /** The number of operations given to the handle so far. An operation is a launch of a kernel, a copy, crk_memset, a
 product of a BLAS library, or the launch of a graph; a launcher makes one or a few. The operations that a graph
 records have the numbers of the recording. The copies of crk_params_acquire do not count. If several threads use a
 handle at the same time, an error's number may be that of a neighbouring operation.*/
    pub fn crk_device_operations(self_: crk_device_t, count: *mut u64) -> crk_status_t;
}
unsafe extern "C" {
    /** The number of launches so far that the handle gave to the runtime in graphs. A program that launches the same kernels
 again and again, as a model does for each token, needs less of the host's time so: launches are kept until the graph
 is complete. A launch is kept until the handle's next copy, event or wait, and for some milliseconds at most. A
 failure is returned by a later call, at the latest by crk_device_synchronize; launches behind it run all the same.
 A handle on a stream of the caller's keeps none, nor does a handle whose stream the caller has got
 (crk_device_stream). The runtime's own synchronisation does not know of launches that are kept. So a program that
 shares memory with another library takes the stream, or waits by crk_device_synchronize. NVIDIA's driver must be of
 CUDA 12.4 or later; with older ones the number stays 0.*/
    pub fn crk_device_replays(self_: crk_device_t, launches: *mut u64) -> crk_status_t;
}
unsafe extern "C" {
    /** Switches these graphs on or off for the handle. Without this call CANDLE_ROCM_REPLAY in the environment says it when
 the handle is opened, 0 or 1. Without the variable they are on for NVIDIA GPUs. Fails with CRK_UNSUPPORTED where a
 handle that cannot keep launches is to do it: on a stream of the caller's, with its stream given away, with
 CANDLE_ROCM_SYNC=1, without the runtime's calls, or without host memory for it.*/
    pub fn crk_device_set_replay(self_: crk_device_t, on: bool) -> crk_status_t;
}
unsafe extern "C" {
    /** Separate reports of ids out of range, for users of one handle that must not see each other's mistakes. A handle has
 reports of its own, with the number 0. This function gives the number of further ones. Each handle has 63; if all are
 in use, the number is 0. Give it back with crk_reports_destroy: what kernels report to it from then on is lost.*/
    pub fn crk_reports_create(self_: crk_device_t, reports: *mut u32) -> crk_status_t;
}
unsafe extern "C" {
    pub fn crk_reports_destroy(self_: crk_device_t, reports: u32);
}
unsafe extern "C" {
    /** Chooses the reports that the calling thread uses from now on; 0 at first. Kernels that the thread launches or records
 report to them, and its synchronisations (crk_device_synchronize, crk_copy_to_host) return and clear only them; so do
 its calls with CANDLE_ROCM_SYNC=1. A thread that never calls this function shares number 0 with all others that do
 not. Returns the number that was used before. On a handle that has given no such number, it counts as 0.*/
    pub fn crk_reports_use(reports: u32) -> u32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_event {
    _unused: [u8; 0],
}
/// A mark in a stream.
pub type crk_event_t = *mut crk_event;
unsafe extern "C" {
    /// An event for handles on the device of `self`. Destroy it with crk_event_destroy before the handle is closed.
    pub fn crk_event_create(
        self_: crk_device_t,
        event: *mut crk_event_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    pub fn crk_event_destroy(self_: crk_event_t);
}
unsafe extern "C" {
    /// Marks the present end of the device handle's work. Replaces the event's earlier mark.
    pub fn crk_event_record(self_: crk_event_t, device: crk_device_t) -> crk_status_t;
}
unsafe extern "C" {
    /** CRK_OK where the work before the mark is done or nothing was ever recorded, CRK_NOT_READY where it is not done yet. A
 capture begins with an idle stream, so a mark from before a capture of the handle counts as done.*/
    pub fn crk_event_query(self_: crk_event_t) -> crk_status_t;
}
unsafe extern "C" {
    /// Waits until the work before the mark is done.
    pub fn crk_event_synchronize(self_: crk_event_t) -> crk_status_t;
}
unsafe extern "C" {
    /** Milliseconds of device time from `start` to `end`. Fails with CRK_INVALID_ARGUMENT where one was never recorded, and
 with CRK_NOT_READY where the work before one is not done.*/
    pub fn crk_event_elapsed(
        start: crk_event_t,
        end: crk_event_t,
        milliseconds: *mut f32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Later work of `self` waits for the event's mark, which may be one of another device. The host waits only for an event
 of another backend, and on the CPU.*/
    pub fn crk_device_wait(self_: crk_device_t, event: crk_event_t) -> crk_status_t;
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
    /// Candle's name of a dtype, such as "bf16"; NULL for a value that is not a dtype.
    pub fn crk_dtype_name(dtype: crk_dtype_t) -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    /// Bytes of one element; 0 for a value that is not a dtype.
    pub fn crk_dtype_size(dtype: crk_dtype_t) -> usize;
}
unsafe extern "C" {
    /** The dtype of a name. "f8_e4m3" and "fp8_e4m3" also mean F8E4M3. Fails with CRK_INVALID_ARGUMENT for an unknown
 name.*/
    pub fn crk_dtype_from_name(
        name: *const ::core::ffi::c_char,
        dtype: *mut crk_dtype_t,
    ) -> crk_status_t;
}
/** Memory that a function writes: its address and its size. Memory of any origin can be viewed. A view of 0 bytes may
 have a NULL pointer. `ptr` must be aligned to the dtype that the view is used with.*/
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
/** Memory that a function writes: its address and its size. Memory of any origin can be viewed. A view of 0 bytes may
 have a NULL pointer. `ptr` must be aligned to the dtype that the view is used with.*/
pub type crk_view_t = crk_view;
/// Memory that a function only reads. The rules of crk_view_t hold.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_const_view {
    pub ptr: *const ::core::ffi::c_void,
    pub bytes: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_const_view"][::core::mem::size_of::<crk_const_view>() - 16usize];
    ["Alignment of crk_const_view"][::core::mem::align_of::<crk_const_view>() - 8usize];
    [
        "Offset of field: crk_const_view::ptr",
    ][::core::mem::offset_of!(crk_const_view, ptr) - 0usize];
    [
        "Offset of field: crk_const_view::bytes",
    ][::core::mem::offset_of!(crk_const_view, bytes) - 8usize];
};
impl Default for crk_const_view {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/// Memory that a function only reads. The rules of crk_view_t hold.
pub type crk_const_view_t = crk_const_view;
/** How a tensor lies in a buffer: element (i0, i1, ...) is at offset + i0 \* strides\[0\] + i1 \* strides\[1\] + ... A stride
 of 0 broadcasts. Rank 0 is a single element; a dim of 0 makes the tensor empty.*/
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
/** How a tensor lies in a buffer: element (i0, i1, ...) is at offset + i0 \* strides\[0\] + i1 \* strides\[1\] + ... A stride
 of 0 broadcasts. Rank 0 is a single element; a dim of 0 makes the tensor empty.*/
pub type crk_layout_t = crk_layout;
unsafe extern "C" {
    /** The contiguous layout (row-major, offset 0) of dims\[0 .. rank\]. Fails with CRK_INVALID_ARGUMENT for a rank above
 CRK_MAX_RANK or a number of elements that size_t cannot hold.*/
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
    /** Whether the elements of a layout follow each other without gaps, in row-major order from its offset on. This is
 Candle's definition: strides of dims of size 1 do not matter.*/
    pub fn crk_layout_is_contiguous(
        layout: *const crk_layout_t,
        contiguous: *mut bool,
    ) -> crk_status_t;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_comm {
    _unused: [u8; 0],
}
/// One rank of a communicator.
pub type crk_comm_t = *mut crk_comm;
/// The name of a communicator that is to be created. Plain bytes, which a program sends to its ranks by any means.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_comm_id {
    pub bytes: [u8; 128usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_comm_id"][::core::mem::size_of::<crk_comm_id>() - 128usize];
    ["Alignment of crk_comm_id"][::core::mem::align_of::<crk_comm_id>() - 1usize];
    [
        "Offset of field: crk_comm_id::bytes",
    ][::core::mem::offset_of!(crk_comm_id, bytes) - 0usize];
};
impl Default for crk_comm_id {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/// The name of a communicator that is to be created. Plain bytes, which a program sends to its ranks by any means.
pub type crk_comm_id_t = crk_comm_id;
impl crk_comm_op {
    pub const CRK_COMM_OP_SUM: crk_comm_op = crk_comm_op(0);
    pub const CRK_COMM_OP_PROD: crk_comm_op = crk_comm_op(1);
    pub const CRK_COMM_OP_MAX: crk_comm_op = crk_comm_op(2);
    pub const CRK_COMM_OP_MIN: crk_comm_op = crk_comm_op(3);
    pub const CRK_COMM_OP_AVG: crk_comm_op = crk_comm_op(4);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_comm_op(pub ::core::ffi::c_uint);
pub use self::crk_comm_op as crk_comm_op_t;
unsafe extern "C" {
    /** The library of the device's collectives: "RCCL", "NCCL" or "threads" (the CPU device). `version` is the library's
 number, such as 22304 for 2.23.4; 0 for the CPU device. The name is static text. Opens the library.

 Fails with CRK_NO_RUNTIME where no usable library of version 2.18 or later is found. The sentence says where it was
 looked for and what to install.*/
    pub fn crk_comm_library(
        device: crk_device_t,
        name: *mut *const ::core::ffi::c_char,
        version: *mut i32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** A new id, for one communicator. One rank calls this. A GPU's id is of the library of that GPU; it keeps a thread in
 this process, which must live until all ranks have been created.

 Fails as crk_comm_library does, and with CRK_DEVICE.*/
    pub fn crk_comm_id_create(
        device: crk_device_t,
        id: *mut crk_comm_id_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Creates rank `rank` of `size`, and waits for the other ranks for at most `timeout_ms` milliseconds. `id` is the same
 on all ranks, and all ranks use this function or all use crk_comm_create_async. Each rank needs a device of its own;
 on the CPU device, a handle of its own. Destroy the communicator with crk_comm_destroy before the handle is closed.

 The same timeout bounds each step of later calls that waits for other ranks: on the CPU device each collective, on a
 GPU the connection that the first collective makes, and crk_comm_destroy.

 CRK_COMM_FOREVER waits without a bound, and lets GPUs start each collective some tens of microseconds earlier: the
 library then needs no thread per call. With it only crk_comm_wait and crk_comm_wait_event find lost ranks, once the
 collective has started.

 The bound needs ncclCommInitRankConfig and ncclCommGetAsyncError. With a library without them the call waits without
 a bound.

 Fails as crk_comm_library does, and with CRK_INVALID_ARGUMENT for a size of 0, a rank that is not below the size, or
 a timeout of 0. Fails with CRK_PEER_LOST where a rank does not come in time, with CRK_CAPTURE while the handle is
 captured, and with CRK_DEVICE for the library's own failures. On the CPU device it fails with CRK_INVALID_ARGUMENT
 where the rank exists already or another rank gave another size.*/
    pub fn crk_comm_create(
        device: crk_device_t,
        id: *const crk_comm_id_t,
        rank: u32,
        size: u32,
        timeout_ms: u32,
        comm: *mut crk_comm_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same, without waiting for the other ranks: crk_comm_query tells when they are there. Until then collectives fail
 with CRK_NOT_READY. One thread may so create several ranks. The timeout begins here.

 Fails also with CRK_UNSUPPORTED where the library lacks a function for this; the sentence names it.*/
    pub fn crk_comm_create_async(
        device: crk_device_t,
        id: *const crk_comm_id_t,
        rank: u32,
        size: u32,
        timeout_ms: u32,
        comm: *mut crk_comm_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Waits for the work that this communicator's stream still has, for at most the communicator's timeout, and releases
 the communicator. The other ranks do so too; one that does not is waited for no longer than that timeout. It has no
 effect on work that is captured: first destroy graphs that use the communicator. On a GPU this call may wait for such
 a graph without a bound.*/
    pub fn crk_comm_destroy(self_: crk_comm_t);
}
unsafe extern "C" {
    /** Ends the communicator at once, on this rank. Its work in the stream ends too, with undefined results. Later calls
 fail with CRK_PEER_LOST. May be called while another thread waits in a call of this communicator; that call then
 fails. Does nothing where the communicator has ended already. If graphs with collectives of the communicator live,
 the call returns after a second, and the library's part ends with the last graph: destroy them first.*/
    pub fn crk_comm_abort(self_: crk_comm_t) -> crk_status_t;
}
unsafe extern "C" {
    /** CRK_OK where the communicator is ready and no failure is known. CRK_NOT_READY while other ranks are missing, or while
 another thread starts a collective. Otherwise fails with the failure that has ended the communicator. Waits for
 nothing.*/
    pub fn crk_comm_query(self_: crk_comm_t) -> crk_status_t;
}
unsafe extern "C" {
    /** Waits until the communicator is ready and the work that its device handle has now is done. Looks for failures of the
 communicator meanwhile.

 Fails with CRK_PEER_LOST, and has then aborted the communicator, where a failure is known or `timeout_ms`
 milliseconds are over. So a rank that is lost ends in an error on every rank that waits, whatever work is in the
 stream; crk_device_synchronize would wait for ever. With CRK_COMM_FOREVER only a failure that the library notices
 ends the wait. Fails also as crk_device_synchronize does. Fails with CRK_CAPTURE while the handle is captured. An
 abort lasts up to a second longer while graphs with collectives of the communicator live; destroy them then.*/
    pub fn crk_comm_wait(self_: crk_comm_t, timeout_ms: u32) -> crk_status_t;
}
unsafe extern "C" {
    /** The same for the work that came before `event` was recorded in a stream of the communicator's device. Later work may
 be under way: so a program gives its device the next step before it reads the results of this one. What kernels of
 later work have reported may be returned too.*/
    pub fn crk_comm_wait_event(
        self_: crk_comm_t,
        event: crk_event_t,
        timeout_ms: u32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The calling thread's later collectives of this communicator run in the stream of `side`, another handle of the
 communicator's device, such as one of crk_device_clone. So a sum may be under way while the device computes something
 else. NULL means the own handle again. A thread has one communicator at a time that runs beside. All ranks run the
 same collectives beside. `side` stays open until the communicator is destroyed.

 The caller orders the two streams, by crk_event_record and crk_device_wait: the collective after the work that makes
 its `src`, and whatever uses or frees its memory after the collective. A collective waits for the communicator's last
 one in another stream, unless either stream is captured: the caller orders graphs of collectives and collectives in
 other streams. crk_comm_wait waits for the own handle's work and for the last collective.

 Fails with CRK_INVALID_ARGUMENT where `side` is on another device.*/
    pub fn crk_comm_run_beside(self_: crk_comm_t, side: crk_device_t) -> crk_status_t;
}
unsafe extern "C" {
    /// The rank of this communicator, and the number of ranks.
    pub fn crk_comm_rank(self_: crk_comm_t, rank: *mut u32) -> crk_status_t;
}
unsafe extern "C" {
    pub fn crk_comm_size(self_: crk_comm_t, size: *mut u32) -> crk_status_t;
}
unsafe extern "C" {
    /** Between these two calls, the calling thread's collectives are checked and collected. crk_comm_group_end starts them
 together. Messages in both directions between two ranks need a group, else both wait. One thread that has several
 ranks needs a group for each collective. Several collectives in a group are faster than one after the other. No
 collective of a group may read what another one writes.

 Groups may be nested; the last end starts the work. A communicator must not be destroyed within a group. On GPUs,
 communicators that were created with CRK_COMM_FOREVER and others cannot be in the same group.
 crk_comm_group_end fails with CRK_INVALID_ARGUMENT where the thread has no group. A collective that was refused does
 not end the group; the others are started.*/
    pub fn crk_comm_group_begin() -> crk_status_t;
}
unsafe extern "C" {
    pub fn crk_comm_group_end() -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = op over all ranks r of src_r\[i\], on every rank, for i \< count. `src` may be `dst`.

 This library does some sums of F32, F16 and BF16 by itself, among 2 to 8 GPUs of one host that reach each other's
 memory. AMD GPUs also need fine-grained memory, which they have on PCIe only with HSA_FORCE_FINE_GRAIN_PCIE=1.
 crk_comm_create must have created the ranks, and a group must have no other call of the communicator. Sums of up to
 128 KiB are one launch. Among two NVIDIA GPUs, or two AMD GPUs of CDNA 2 or later, sums of up to 32 MiB are a launch
 for each 16 MiB. With crk_comm_run_beside they are copies and two launches for each 8 MiB instead, of any size from 1
 MiB on, unless they are captured. All other sums are left to RCCL or NCCL. The elements of rank 0, 1, 2, ... are
 added in this order, in f32, and rounded once. The environment variable CANDLE_ROCM_COMM_PEERS=0, on one rank, leaves
 all sums to RCCL or NCCL.*/
    pub fn crk_comm_all_reduce(
        self_: crk_comm_t,
        dtype: crk_dtype_t,
        op: crk_comm_op_t,
        src: crk_const_view_t,
        dst: crk_view_t,
        count: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** sum = residual + s, where s is the sum over all ranks of x_r, and dst = crk_rms_norm of sum: what follows a layer
 that is split among ranks. s and sum are rounded to the dtype. All tensors but `alpha` are `rows` rows of `cols`
 elements, contiguous from the beginning of their views; `alpha` has `cols`. `x` is undefined afterwards. sum and dst
 must not overlap each other or a source, and x no other source.

 One launch where this library does small sums by itself, rows are whole pieces of 8 bytes, and few: a row of up to 8
 KiB counts as whole pieces of 2 KiB, one of up to 16 KiB as pieces of 4 KiB, and all rows together have at most 128
 KiB. A launch for each 16 MiB among two GPUs as in crk_comm_all_reduce, without crk_comm_run_beside, where rows are
 whole pieces of 16 bytes, and 2 to 32 KiB; a row counts as whole pieces of 8 KiB. Else crk_comm_all_reduce in place
 and crk_add_rms_norm. The dtype is F32, F16 or BF16. Not within a group: fails there with CRK_INVALID_ARGUMENT.*/
    pub fn crk_comm_add_rms_norm(
        self_: crk_comm_t,
        dtype: crk_dtype_t,
        rows: usize,
        cols: usize,
        x: crk_view_t,
        residual: crk_const_view_t,
        alpha: crk_const_view_t,
        sum: crk_view_t,
        dst: crk_view_t,
        eps: f32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// The same as crk_comm_all_reduce on rank `root` only. Other ranks' `dst` is not used and may be empty.
    pub fn crk_comm_reduce(
        self_: crk_comm_t,
        dtype: crk_dtype_t,
        op: crk_comm_op_t,
        src: crk_const_view_t,
        dst: crk_view_t,
        count: usize,
        root: u32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = src_root\[i\] on every rank, for i \< count. `src` is used on rank `root` only, and may be empty on others.
 There `src` may be `dst`.*/
    pub fn crk_comm_broadcast(
        self_: crk_comm_t,
        dtype: crk_dtype_t,
        src: crk_const_view_t,
        dst: crk_view_t,
        count: usize,
        root: u32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[r \* count + i\] = src_r\[i\] on every rank, for every rank r and i \< count: `count` is that of one rank. `src` may
 be the part of `dst` that it becomes, from element rank \* count on.*/
    pub fn crk_comm_all_gather(
        self_: crk_comm_t,
        dtype: crk_dtype_t,
        src: crk_const_view_t,
        dst: crk_view_t,
        count: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = op over all ranks r of src_r\[rank \* count + i\], for i \< count: `src` has size \* count elements. `dst` may be
 that part of `src`, from element rank \* count on.*/
    pub fn crk_comm_reduce_scatter(
        self_: crk_comm_t,
        dtype: crk_dtype_t,
        op: crk_comm_op_t,
        src: crk_const_view_t,
        dst: crk_view_t,
        count: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[r \* count + i\] = src_r\[rank \* count + i\], for every rank r and i \< count: rank r gets the r-th part of each
 `src`. Both views have size \* count elements.*/
    pub fn crk_comm_all_to_all(
        self_: crk_comm_t,
        dtype: crk_dtype_t,
        src: crk_const_view_t,
        dst: crk_view_t,
        count: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Sends `count` elements to rank `peer`, which receives as many of the same dtype. Messages from one rank to another
 are received in the order in which they were sent. A rank may send to itself within a group that also receives.*/
    pub fn crk_comm_send(
        self_: crk_comm_t,
        dtype: crk_dtype_t,
        src: crk_const_view_t,
        count: usize,
        peer: u32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Receives `count` elements from rank `peer`.
    pub fn crk_comm_recv(
        self_: crk_comm_t,
        dtype: crk_dtype_t,
        dst: crk_view_t,
        count: usize,
        peer: u32,
    ) -> crk_status_t;
}
impl crk_severity {
    pub const CRK_SEVERITY_OK: crk_severity = crk_severity(0);
    pub const CRK_SEVERITY_NOTE: crk_severity = crk_severity(1);
    pub const CRK_SEVERITY_PROBLEM: crk_severity = crk_severity(2);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_severity(pub ::core::ffi::c_uint);
pub use self::crk_severity as crk_severity_t;
impl crk_topic {
    pub const CRK_TOPIC_KERNELS: crk_topic = crk_topic(0);
    pub const CRK_TOPIC_VARIABLE: crk_topic = crk_topic(1);
    pub const CRK_TOPIC_WSL: crk_topic = crk_topic(2);
    pub const CRK_TOPIC_CONTAINER: crk_topic = crk_topic(3);
    pub const CRK_TOPIC_KFD: crk_topic = crk_topic(4);
    pub const CRK_TOPIC_KERNEL_GPU: crk_topic = crk_topic(5);
    pub const CRK_TOPIC_RENDER: crk_topic = crk_topic(6);
    pub const CRK_TOPIC_HIP_RUNTIME: crk_topic = crk_topic(7);
    pub const CRK_TOPIC_HIP_DEVICES: crk_topic = crk_topic(8);
    pub const CRK_TOPIC_GPU: crk_topic = crk_topic(9);
    pub const CRK_TOPIC_UNTRIED: crk_topic = crk_topic(10);
    pub const CRK_TOPIC_BLAS: crk_topic = crk_topic(11);
    pub const CRK_TOPIC_CUDA_DRIVER: crk_topic = crk_topic(12);
    pub const CRK_TOPIC_CUDA_DEVICES: crk_topic = crk_topic(13);
    pub const CRK_TOPIC_CHOICE: crk_topic = crk_topic(14);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_topic(pub ::core::ffi::c_uint);
pub use self::crk_topic as crk_topic_t;
/** One finding. The texts are UTF-8, never NULL, and valid during the visit only: a byte of a path or a variable that is
 not UTF-8 becomes '?'.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_finding {
    pub topic: crk_topic_t,
    pub severity: crk_severity_t,
    /// without a full stop
    pub sentence: *const ::core::ffi::c_char,
    /// what to do, with the command to type; "" where nothing needs to be done
    pub remedy: *const ::core::ffi::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_finding"][::core::mem::size_of::<crk_finding>() - 24usize];
    ["Alignment of crk_finding"][::core::mem::align_of::<crk_finding>() - 8usize];
    [
        "Offset of field: crk_finding::topic",
    ][::core::mem::offset_of!(crk_finding, topic) - 0usize];
    [
        "Offset of field: crk_finding::severity",
    ][::core::mem::offset_of!(crk_finding, severity) - 4usize];
    [
        "Offset of field: crk_finding::sentence",
    ][::core::mem::offset_of!(crk_finding, sentence) - 8usize];
    [
        "Offset of field: crk_finding::remedy",
    ][::core::mem::offset_of!(crk_finding, remedy) - 16usize];
};
impl Default for crk_finding {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/** One finding. The texts are UTF-8, never NULL, and valid during the visit only: a byte of a path or a variable that is
 not UTF-8 becomes '?'.*/
pub type crk_finding_t = crk_finding;
/// Receives one finding. `user` is what crk_diagnose got.
pub type crk_finding_fn = ::core::option::Option<
    unsafe extern "C" fn(user: *mut ::core::ffi::c_void, finding: *const crk_finding_t),
>;
unsafe extern "C" {
    /** Examines the machine, the environment and this build, and calls `visit` once for each finding, in the calling thread.
 A cause comes before its consequences: the first problem is the one to solve first. The last findings, of the topic
 `choice`, say which device crk_device_open takes for CRK_BACKEND_AUTO, and why it skips the backends before.

 Needs no GPU, no runtime and no device handle. What is missing is a finding, not a failure. Opens the runtimes and
 the BLAS libraries as crk_device_open and crk_matmul do, and the process keeps them. May change the thread's current
 HIP device and the text of crk_last_error. On other systems than Linux there is no finding of the topics wsl,
 container, kfd, kernel_gpu and render.

 Fails with CRK_INVALID_ARGUMENT where `visit` is NULL.*/
    pub fn crk_diagnose(
        visit: crk_finding_fn,
        user: *mut ::core::ffi::c_void,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The text of a severity ("problem") and the key of a topic ("kfd"); "unknown" for a value that this build does not
 know. The texts are static.*/
    pub fn crk_severity_name(severity: crk_severity_t) -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    pub fn crk_topic_name(topic: crk_topic_t) -> *const ::core::ffi::c_char;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_graph {
    _unused: [u8; 0],
}
/// The recorded work of one handle.
pub type crk_graph_t = *mut crk_graph;
unsafe extern "C" {
    /** Begins a capture: from here to crk_graph_end the handle's work is recorded and not run. Work that other threads give
 to the handle is recorded too. Their calls that wait for the handle, such as crk_copy_to_host, fail with CRK_CAPTURE;
 those that began earlier are waited for first. The graph reserves the memory that any thread frees during the capture
 and the parameters that it uses, until the graph is destroyed.*/
    pub fn crk_graph_begin(self_: crk_device_t) -> crk_status_t;
}
unsafe extern "C" {
    /** Ends the capture and gives its graph. A failure ends the capture too and releases all that it recorded. The one
 exception is a NULL `graph`: the call fails and the capture goes on.*/
    pub fn crk_graph_end(self_: crk_device_t, graph: *mut crk_graph_t) -> crk_status_t;
}
unsafe extern "C" {
    /// Runs the recorded work on the handle that recorded it. May be called any number of times.
    pub fn crk_graph_launch(self_: crk_graph_t) -> crk_status_t;
}
unsafe extern "C" {
    /** A number that grows when a capture begins or ends and when a graph has been launched, on any handle of the
 process. What a program keeps of a tensor's contents, such as a copy in another format, is of the same contents
 only while this number and the tensor are unchanged: a replay writes to memory that no call names.*/
    pub fn crk_graph_epoch() -> u64;
}
unsafe extern "C" {
    /** Waits for the handle's work, then releases the graph and all that it reserved. Call it before the handle is
 closed.*/
    pub fn crk_graph_destroy(self_: crk_graph_t);
}
unsafe extern "C" {
    /** `bytes` of device memory, aligned to 256 bytes, contents undefined. 0 bytes give NULL and succeed.

 The GPU's cache of freed memory serves the call without waiting, where it has room. Memory that this handle freed is
 reused in stream order. Memory that another handle freed is used only after an event has shown that the other stream
 has passed the free. The cache takes large segments from the driver and gives out parts of them, so that few calls
 reach the driver and little memory stays unused.

 Where the device has no memory left, the call waits for the work of all handles on the GPU except captured ones. Then
 it returns unused segments of the cache to the driver, and tries once more. Fails with CRK_OUT_OF_MEMORY after that;
 no memory is lost. During a capture only the cache can serve the call, and it fails with CRK_CAPTURE otherwise (see
 crk_memory_reserve).*/
    pub fn crk_alloc(
        self_: crk_device_t,
        bytes: usize,
        ptr: *mut *mut ::core::ffi::c_void,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Gives back memory from crk_alloc of the same handle; NULL does nothing. Never waits. The block may be given out again
 at once, to work that comes later in the stream. Order work of other handles that uses the block before the free, by
 events.

 A block that a capture gave out belongs to that graph. So does a block that any thread freed during the capture. Such
 a block is given out again after all graphs that use it are destroyed.

 Fails with CRK_INVALID_ARGUMENT where `ptr` is not the beginning of a live allocation of this handle. During a
 capture it fails with CRK_OUT_OF_MEMORY where the host has no memory to note that the graph uses the block; the block
 then stays allocated.*/
    pub fn crk_free(self_: crk_device_t, ptr: *mut ::core::ffi::c_void) -> crk_status_t;
}
unsafe extern "C" {
    /** Makes sure that the cache can serve one crk_alloc of up to `bytes` without the driver. Call it before a capture, once
 for each allocation that will be live at the same time. An allocation takes the reserved memory when the cache has
 nothing else for it. Outside a capture it does so only where at most a fifth of the memory stays unused.*/
    pub fn crk_memory_reserve(self_: crk_device_t, bytes: usize) -> crk_status_t;
}
unsafe extern "C" {
    /** Sets the bound on freed memory that stays cached on the GPU, for all its handles together. The default is half of the
 device's memory.

 Above the bound whole segments go back to the driver, the earliest emptied first. A segment with a live block cannot
 go back. This call returns segments at once, and waits for the work of all handles. Later segments go back in
 crk_free, crk_device_synchronize or crk_copy_to_host, when all streams of the GPU are idle: a driver may wait for the
 whole GPU when it frees.

 Below the bound, segments of 8 MiB and more go back in two cases: no call used them for some synchronisations (4 to
 8 the first time, and after each time four times as many, up to 256 to 512), or a new large segment takes their
 place. Both stop when twice the peak (peak_driver_bytes) has gone back in this way. So a loop cannot return and take
 the same memory for ever. Reserve the memory for a capture that needs much.

 With a bound of 0 each allocation is a driver allocation of its own. Its size is rounded up to 512 bytes, and beyond
 1 MiB to 64 KiB. This mode is for tools that watch the driver's allocations.*/
    pub fn crk_memory_set_cache_limit(self_: crk_device_t, bytes: usize) -> crk_status_t;
}
unsafe extern "C" {
    /** Returns the GPU's cached memory to the driver: every segment without a live block. Waits for the work of all handles
 on the GPU except captured ones. Fails with CRK_CAPTURE while this handle is captured.*/
    pub fn crk_memory_trim(self_: crk_device_t) -> crk_status_t;
}
/// Figures of a handle's memory. Fields are added at the end only: see `struct_bytes` in candle_rocm.h.
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct crk_memory_stats {
    /// set by the caller: sizeof(crk_memory_stats_t)
    pub struct_bytes: usize,
    /// of the handle: given out and not yet freed
    pub live_bytes: u64,
    /// of the GPU: freed, or reserved; kept for later calls of crk_alloc of any handle
    pub cached_bytes: u64,
    /// of the handle
    pub live_allocations: u64,
    /// of the handle: calls to the driver's allocator so far
    pub driver_allocations: u64,
    /// of the handle: the largest `live_bytes` so far
    pub peak_live_bytes: u64,
    /// of the GPU: freed, kept for graphs
    pub retired_bytes: u64,
    /// of the GPU: all that the allocator has from the driver; contains the others
    pub driver_bytes: u64,
    /// of the GPU: the largest `driver_bytes` so far
    pub peak_driver_bytes: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_memory_stats"][::core::mem::size_of::<crk_memory_stats>() - 72usize];
    [
        "Alignment of crk_memory_stats",
    ][::core::mem::align_of::<crk_memory_stats>() - 8usize];
    [
        "Offset of field: crk_memory_stats::struct_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, struct_bytes) - 0usize];
    [
        "Offset of field: crk_memory_stats::live_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, live_bytes) - 8usize];
    [
        "Offset of field: crk_memory_stats::cached_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, cached_bytes) - 16usize];
    [
        "Offset of field: crk_memory_stats::live_allocations",
    ][::core::mem::offset_of!(crk_memory_stats, live_allocations) - 24usize];
    [
        "Offset of field: crk_memory_stats::driver_allocations",
    ][::core::mem::offset_of!(crk_memory_stats, driver_allocations) - 32usize];
    [
        "Offset of field: crk_memory_stats::peak_live_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, peak_live_bytes) - 40usize];
    [
        "Offset of field: crk_memory_stats::retired_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, retired_bytes) - 48usize];
    [
        "Offset of field: crk_memory_stats::driver_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, driver_bytes) - 56usize];
    [
        "Offset of field: crk_memory_stats::peak_driver_bytes",
    ][::core::mem::offset_of!(crk_memory_stats, peak_driver_bytes) - 64usize];
};
/// Figures of a handle's memory. Fields are added at the end only: see `struct_bytes` in candle_rocm.h.
pub type crk_memory_stats_t = crk_memory_stats;
unsafe extern "C" {
    /** How much memory is in which state. The caller sets stats-\>struct_bytes. The figures leave out kernel code, BLAS
 workspaces and parameter caches.*/
    pub fn crk_memory_stats(
        self_: crk_device_t,
        stats: *mut crk_memory_stats_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Pinned host memory: the device copies from and to it without a staging buffer. Free it with crk_host_free, which
 waits for the handle's stream. Both fail with CRK_CAPTURE during a capture; the memory then stays allocated.*/
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
    /** Copies host memory to the device. Returns as soon as `src` may be changed. For at most 64 KiB that is mostly before
 the copy is done, so another stream must wait for an event before it uses `dst`. Fails with CRK_CAPTURE during a
 capture.*/
    pub fn crk_copy_to_device(
        self_: crk_device_t,
        dst: crk_view_t,
        src: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Copies device memory to the host. Returns when the data has arrived. Fails with CRK_CAPTURE during a capture, and
 with CRK_OUT_OF_RANGE as crk_device_synchronize does; the data has arrived in that case too.*/
    pub fn crk_copy_to_host(
        self_: crk_device_t,
        dst: *mut ::core::ffi::c_void,
        src: crk_const_view_t,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same copies without waiting. The host memory must stay as it is until the stream has done the copy. It should
 come from crk_host_alloc: with other memory the driver may wait, and refuses the copy during a capture.*/
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
        src: crk_const_view_t,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Copies within the device. The ranges may be the same, but must not overlap otherwise (CRK_INVALID_ARGUMENT).
    pub fn crk_copy(
        self_: crk_device_t,
        dst: crk_view_t,
        src: crk_const_view_t,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Copies to another device. The copy comes after the earlier work of both handles, and before the later work of both.
 The host waits only between devices of different backends, where the copy goes through host memory, and on the CPU.
 Between GPUs of one backend the copy is direct where crk_device_peer_access allows it. On one device the ranges may
 be the same, but must not overlap otherwise. Fails with CRK_CAPTURE while either handle is captured.*/
    pub fn crk_copy_between(
        dst_device: crk_device_t,
        dst: crk_view_t,
        src_device: crk_device_t,
        src: crk_const_view_t,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Sets each of the first `bytes` bytes of the view to `value`.
    pub fn crk_memset(
        self_: crk_device_t,
        dst: crk_view_t,
        value: u8,
        bytes: usize,
    ) -> crk_status_t;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_function {
    _unused: [u8; 0],
}
/// A kernel on a device. It belongs to its module. It lives until the handle that gave it and all clones are closed.
pub type crk_function_t = *mut crk_function;
/// A compiled kernel module that is embedded in this binary.
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
/// A compiled kernel module that is embedded in this binary.
pub type crk_image_t = crk_image;
unsafe extern "C" {
    /** The number of modules in this build ("affine", "binary", ...), and the name of each; NULL for an index out of range.
 Candle's eleven come first, then the modules that only launchers use.*/
    pub fn crk_module_count() -> usize;
}
unsafe extern "C" {
    pub fn crk_module_name(index: usize) -> *const ::core::ffi::c_char;
}
unsafe extern "C" {
    /** The embedded code of a module, for every architecture of this build. It is compressed in the binary: the first call
 decompresses it into memory that stays valid until the process ends. Devices do not need this copy.

 Fails with CRK_NOT_FOUND for an unknown module, and CRK_NO_RUNTIME where this build has no image for the backend.
 Fails with CRK_INVALID_ARGUMENT for a backend other than HIP and CUDA: the CPU's kernels are linked in and have no
 image. Fails with CRK_OUT_OF_MEMORY where the host has no memory for the copy, and CRK_INVALID_IMAGE where the binary
 is damaged.*/
    pub fn crk_module_image(
        module: *const ::core::ffi::c_char,
        backend: crk_backend_t,
        image: *mut crk_image_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** A kernel by Candle's name; Candle's `get_or_load_func`. The first use loads the module, which stays loaded. F8E4M3
 may be spelt "f8e4m3", "f8_e4m3" or "fp8_e4m3" in any name. The function works with this handle and its clones.

 Fails with CRK_NOT_FOUND (no such module, or no such kernel in it), CRK_NO_RUNTIME, CRK_WRONG_ARCHITECTURE (no
 embedded code for this GPU) or CRK_DEVICE.*/
    pub fn crk_function_get(
        self_: crk_device_t,
        module: *const ::core::ffi::c_char,
        kernel: *const ::core::ffi::c_char,
        function: *mut crk_function_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Loads the caller's code object under a name, for crk_function_get. For HIP it is an ELF code object or an offload
 bundle, plain or compressed by zstd. For CUDA it is a cubin, a fatbin or NUL-terminated PTX. For the CPU it is a
 shared object that was compiled from a .hip file against this library's kernel headers. `data` may be freed after the
 call. A name can be loaded once; the names of this build's modules are refused (CRK_INVALID_ARGUMENT).

 Fails with CRK_INVALID_IMAGE for data that is truncated, empty or of another kind, CRK_WRONG_ARCHITECTURE for code
 that this device cannot run, and CRK_CAPTURE during a capture.*/
    pub fn crk_module_load(
        self_: crk_device_t,
        module: *const ::core::ffi::c_char,
        data: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Compiles the caller's source for the handle's GPU and loads the result under a name, as crk_module_load does. For an
 AMD GPU the source is HIP and hipRTC compiles it (libhiprtc, or the runtime in use where that has its calls). For an
 NVIDIA GPU the source is CUDA and NVRTC compiles it. The library is opened at run time.

 `options` are the compiler's own, such as "-O3" or "-DN=4". The GPU's architecture is added unless an option names
 one. `source` and `options` may be freed after the call. Kernels that are declared extern "C" are found by their
 names. Other threads are not blocked. Where several threads compile the same name at once, one succeeds.

 Fails with CRK_INVALID_IMAGE for source that does not compile; the sentence holds the compiler's log from the first
 error on, as far as there is room. Fails with CRK_NO_RUNTIME where the library is missing, and CRK_UNSUPPORTED on the
 CPU. Fails with CRK_INVALID_ARGUMENT for a NULL, an empty source or name, a name that is taken, or an option that the
 compiler refuses. Fails with CRK_WRONG_ARCHITECTURE for an option that names another AMD GPU, and as
 crk_module_load does.*/
    pub fn crk_module_compile(
        self_: crk_device_t,
        module: *const ::core::ffi::c_char,
        source: *const ::core::ffi::c_char,
        options: *const *const ::core::ffi::c_char,
        option_count: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same for CUDA source. For an AMD GPU, hipRTC compiles it with headers of this library's own for what HIP lacks or
 means otherwise: cuda_fp16.h, cuda_bf16.h, cuda_runtime.h, cooperative_groups.h, the functions of a warp, __ldg,
 __dp4a. kernels/cuda_port/detail/port.h in the sources describes them. Of C's headers there are stdint.h, stddef.h,
 math.h, float.h, limits.h and assert.h.

 A warp has 32 lanes on every GPU; a wave of 64 lanes then holds two warps. With the option "-DCRK_CUDA_WARP=64" a
 warp is a wave of 64 lanes: masks have 64 bits, and what names half of such a warp does not compile. Options follow
 "-std=c++17". __CUDA_ARCH__ is 800 unless an option defines it, and CANDLE_ROCM is defined.

 On gfx11 and gfx12, LLVM 21 may lose 16-bit values that it keeps in halves of registers. The kernels of this library
 and those of candle-rocm-build are compiled without ("-Xclang", "-target-feature", "-Xclang", "-real-true16"); here
 these options are the caller's choice, since older compilers do not know them.

 Fails as crk_module_compile does, in whose name the compiler's errors are told. Also fails with CRK_INVALID_IMAGE,
 and the line, for PTX in place of source, for inline assembly, and for CRK_CUDA_WARP=64 where waves have 32 lanes.*/
    pub fn crk_module_compile_cuda(
        self_: crk_device_t,
        module: *const ::core::ffi::c_char,
        source: *const ::core::ffi::c_char,
        options: *const *const ::core::ffi::c_char,
        option_count: usize,
    ) -> crk_status_t;
}
/// One argument in a kernel's signature.
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct crk_param {
    pub bytes: u32,
    /// also false where the driver does not tell
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
/// One argument in a kernel's signature.
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
    /// the address of the value's `bytes` bytes; NULL where the value is in `value`
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
    /** Runs a kernel on the handle's stream: `grid` blocks of `block` threads with `shared_bytes` of dynamic shared memory.
 A grid of 0 blocks succeeds and launches nothing.

 Checks the arguments against the kernel's signature: their number, the size of each, and pointer against value where
 the driver tells. Checks the geometry against the device. Fails with CRK_INVALID_ARGUMENT, naming the kernel and the
 argument, or with CRK_DEVICE. The caller must make sure that the pointers point at memory that the kernel may use.*/
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
/// Numbers in device memory: a kernel by name reads its layout from them. Candle calls this `SlicePtrOrNull`.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_params {
    /// u64 numbers on the device, or NULL; the kernel's argument `info`
    pub ptr: *const ::core::ffi::c_void,
    /// for the cache's own use
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
/// Numbers in device memory: a kernel by name reads its layout from them. Candle calls this `SlicePtrOrNull`.
pub type crk_params_t = crk_params;
unsafe extern "C" {
    /** Puts `count` numbers (at most CRK_MAX_RANK \* 4) on the device: dims and strides as the kernel wants them. A bounded
 cache of the handle serves the call. A miss copies asynchronously; during a capture the copy becomes part of the
 graph. The stream never waits. The host waits only where the copies of all entries are still under way. Release the
 parameters with crk_params_release after the launches that read them have been made.

 Fails with CRK_OUT_OF_MEMORY where every entry is held, or where no memory for the cache is left.*/
    pub fn crk_params_acquire(
        self_: crk_device_t,
        numbers: *const u64,
        count: usize,
        params: *mut crk_params_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The parameters of a layout, as Candle's params_from_layout gives them: NULL for a contiguous layout, else dims and
 strides. Release them as those of crk_params_acquire.*/
    pub fn crk_params_from_layout(
        self_: crk_device_t,
        layout: *const crk_layout_t,
        params: *mut crk_params_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// Gives parameters back to the handle's cache.
    pub fn crk_params_release(self_: crk_device_t, params: crk_params_t);
}
/** The arguments of crk_attention. Begin with crk_attention_defaults(), and set what the call needs. Fields may be added
 at the end: see `struct_bytes` in candle_rocm.h.

 A tensor is a layout and the view of its memory. A layout of NULL leaves an optional tensor out. A stride of 0
 broadcasts. The stride of a dim of size 1 does not matter.

 A sequence has `queries` queries and `keys` keys, in `heads` heads. Without starts, the sequences are the batch, and
 all have the same lengths. With starts (q_starts and k_starts), the batch dim of q, dst, k and v is 1, their tokens
 are those of all sequences, one after the other, and sequence s has the queries q_starts\[s\] to q_starts\[s + 1\] - 1
 and the keys k_starts\[s\] to k_starts\[s + 1\] - 1. Unless q is empty, `sequences` and `max_queries` are at least 1
 then. With a block table, k and v are a cache of blocks, and key j of sequence s is row j % block of block
 block_table\[s\]\[j / block\]; k_starts then only gives the lengths. A block table needs starts. A mask has max_queries
 rows and max_keys columns for each sequence then.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_attention {
    /// set by the caller: sizeof(crk_attention_t)
    pub struct_bytes: usize,
    /// of q, k, v and dst: F16, BF16 or F32
    pub dtype: crk_dtype_t,
    /// (batch, heads, queries, d); the last dim is contiguous
    pub q_layout: *const crk_layout_t,
    pub q: crk_const_view_t,
    /// (batch, kv heads, keys, d), or (blocks, kv heads, block, d); as q
    pub k_layout: *const crk_layout_t,
    pub k: crk_const_view_t,
    /// (batch, kv heads, keys, dv), or (blocks, kv heads, block, dv); as q
    pub v_layout: *const crk_layout_t,
    pub v: crk_const_view_t,
    /** (batch, heads, queries, dv); as q. Each stride passes all elements of the dims
 with smaller strides*/
    pub dst_layout: *const crk_layout_t,
    pub dst: crk_view_t,
    /// of the scores; any finite number
    pub scale: f32,
    /// a score s becomes softcap \* tanh(s / softcap); 0 for none
    pub softcap: f32,
    /// the same as a `right` of 0
    pub causal: bool,
    /// keys that a query sees before and after its own place; CRK_ATTENTION_UNLIMITED for all
    pub left: usize,
    /// keys that a query sees before and after its own place; CRK_ATTENTION_UNLIMITED for all
    pub right: usize,
    /// optional, f32: (sequences, heads), ALiBi's slopes
    pub slopes_layout: *const crk_layout_t,
    pub slopes: crk_const_view_t,
    /// optional: (sequences, heads, queries, keys); any strides
    pub mask_layout: *const crk_layout_t,
    /// `dtype` or F32: is added to the scores. U8: 0 hides the key
    pub mask_dtype: crk_dtype_t,
    pub mask: crk_const_view_t,
    /// the number of sequences if there are starts, else 0
    pub sequences: usize,
    /// optional, u32: sequences + 1 numbers each, which do not fall
    pub q_starts: crk_const_view_t,
    /// optional, u32: sequences + 1 numbers each, which do not fall
    pub k_starts: crk_const_view_t,
    /// with starts: no sequence is longer. Else 0
    pub max_queries: usize,
    /// with starts: no sequence is longer. Else 0
    pub max_keys: usize,
    /// optional, u32: (sequences, blocks per sequence); rows are contiguous
    pub block_table_layout: *const crk_layout_t,
    pub block_table: crk_const_view_t,
    /// optional, i32: (sequences, ranges, 2), contiguous: \[begin, end) each
    pub prefixes_layout: *const crk_layout_t,
    pub prefixes: crk_const_view_t,
    /// optional, f32, contiguous: (batch, heads, queries); with starts (heads, tokens)
    pub lse: crk_view_t,
    /// optional: crk_quantize_columns of dst, whose tokens are the columns; see below
    pub columns: crk_view_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_attention"][::core::mem::size_of::<crk_attention>() - 336usize];
    ["Alignment of crk_attention"][::core::mem::align_of::<crk_attention>() - 8usize];
    [
        "Offset of field: crk_attention::struct_bytes",
    ][::core::mem::offset_of!(crk_attention, struct_bytes) - 0usize];
    [
        "Offset of field: crk_attention::dtype",
    ][::core::mem::offset_of!(crk_attention, dtype) - 8usize];
    [
        "Offset of field: crk_attention::q_layout",
    ][::core::mem::offset_of!(crk_attention, q_layout) - 16usize];
    [
        "Offset of field: crk_attention::q",
    ][::core::mem::offset_of!(crk_attention, q) - 24usize];
    [
        "Offset of field: crk_attention::k_layout",
    ][::core::mem::offset_of!(crk_attention, k_layout) - 40usize];
    [
        "Offset of field: crk_attention::k",
    ][::core::mem::offset_of!(crk_attention, k) - 48usize];
    [
        "Offset of field: crk_attention::v_layout",
    ][::core::mem::offset_of!(crk_attention, v_layout) - 64usize];
    [
        "Offset of field: crk_attention::v",
    ][::core::mem::offset_of!(crk_attention, v) - 72usize];
    [
        "Offset of field: crk_attention::dst_layout",
    ][::core::mem::offset_of!(crk_attention, dst_layout) - 88usize];
    [
        "Offset of field: crk_attention::dst",
    ][::core::mem::offset_of!(crk_attention, dst) - 96usize];
    [
        "Offset of field: crk_attention::scale",
    ][::core::mem::offset_of!(crk_attention, scale) - 112usize];
    [
        "Offset of field: crk_attention::softcap",
    ][::core::mem::offset_of!(crk_attention, softcap) - 116usize];
    [
        "Offset of field: crk_attention::causal",
    ][::core::mem::offset_of!(crk_attention, causal) - 120usize];
    [
        "Offset of field: crk_attention::left",
    ][::core::mem::offset_of!(crk_attention, left) - 128usize];
    [
        "Offset of field: crk_attention::right",
    ][::core::mem::offset_of!(crk_attention, right) - 136usize];
    [
        "Offset of field: crk_attention::slopes_layout",
    ][::core::mem::offset_of!(crk_attention, slopes_layout) - 144usize];
    [
        "Offset of field: crk_attention::slopes",
    ][::core::mem::offset_of!(crk_attention, slopes) - 152usize];
    [
        "Offset of field: crk_attention::mask_layout",
    ][::core::mem::offset_of!(crk_attention, mask_layout) - 168usize];
    [
        "Offset of field: crk_attention::mask_dtype",
    ][::core::mem::offset_of!(crk_attention, mask_dtype) - 176usize];
    [
        "Offset of field: crk_attention::mask",
    ][::core::mem::offset_of!(crk_attention, mask) - 184usize];
    [
        "Offset of field: crk_attention::sequences",
    ][::core::mem::offset_of!(crk_attention, sequences) - 200usize];
    [
        "Offset of field: crk_attention::q_starts",
    ][::core::mem::offset_of!(crk_attention, q_starts) - 208usize];
    [
        "Offset of field: crk_attention::k_starts",
    ][::core::mem::offset_of!(crk_attention, k_starts) - 224usize];
    [
        "Offset of field: crk_attention::max_queries",
    ][::core::mem::offset_of!(crk_attention, max_queries) - 240usize];
    [
        "Offset of field: crk_attention::max_keys",
    ][::core::mem::offset_of!(crk_attention, max_keys) - 248usize];
    [
        "Offset of field: crk_attention::block_table_layout",
    ][::core::mem::offset_of!(crk_attention, block_table_layout) - 256usize];
    [
        "Offset of field: crk_attention::block_table",
    ][::core::mem::offset_of!(crk_attention, block_table) - 264usize];
    [
        "Offset of field: crk_attention::prefixes_layout",
    ][::core::mem::offset_of!(crk_attention, prefixes_layout) - 280usize];
    [
        "Offset of field: crk_attention::prefixes",
    ][::core::mem::offset_of!(crk_attention, prefixes) - 288usize];
    [
        "Offset of field: crk_attention::lse",
    ][::core::mem::offset_of!(crk_attention, lse) - 304usize];
    [
        "Offset of field: crk_attention::columns",
    ][::core::mem::offset_of!(crk_attention, columns) - 320usize];
};
impl Default for crk_attention {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/** The arguments of crk_attention. Begin with crk_attention_defaults(), and set what the call needs. Fields may be added
 at the end: see `struct_bytes` in candle_rocm.h.

 A tensor is a layout and the view of its memory. A layout of NULL leaves an optional tensor out. A stride of 0
 broadcasts. The stride of a dim of size 1 does not matter.

 A sequence has `queries` queries and `keys` keys, in `heads` heads. Without starts, the sequences are the batch, and
 all have the same lengths. With starts (q_starts and k_starts), the batch dim of q, dst, k and v is 1, their tokens
 are those of all sequences, one after the other, and sequence s has the queries q_starts\[s\] to q_starts\[s + 1\] - 1
 and the keys k_starts\[s\] to k_starts\[s + 1\] - 1. Unless q is empty, `sequences` and `max_queries` are at least 1
 then. With a block table, k and v are a cache of blocks, and key j of sequence s is row j % block of block
 block_table\[s\]\[j / block\]; k_starts then only gives the lengths. A block table needs starts. A mask has max_queries
 rows and max_keys columns for each sequence then.*/
pub type crk_attention_t = crk_attention;
unsafe extern "C" {
    /** For each query i of a head, over the keys j that it sees:

   score\[j\] = scale \* (the dot product of q\[i\] and k\[j\]), then capped by `softcap`
            + mask\[i\]\[j\] - slope \* |place - j|
   dst\[i\] = the sum over j of v\[j\] \* e^(score\[j\] - lse\[i\])
   lse\[i\] = log(the sum over j of e^score\[j\])

 place = i + keys - queries aligns the last query with the last key. Query i sees key j if place - left \<= j, j \<=
 place + right, and the mask does not hide it. It also sees a key outside its window if one of the sequence's prefixes
 contains both `place` and j. A query that sees no key gets zeros and an lse of -infinity. (The online softmax is that
 of Dao et al., "FlashAttention", 2022, and Dao, "FlashAttention-2", 2023; ALiBi is that of Press et al., "Train
 short, test long", 2022.)

 heads is a multiple of kv heads: query head h uses kv head h / (heads / kv heads). d and dv are multiples of 8, from
 8 to CRK_ATTENTION_MOST_DIM. Numbers of tokens are below 2^31; memory may have any size. Sizes of a block of the
 cache: any.

 Products are added up in f32. For f16 and bf16, e^(score - maximum) is rounded to the dtype before the second
 product, but not in lse. The result is rounded once. The error is at most 2 half-units of the result's dtype, plus
 (2^-11 for f16, 2^-8 for bf16 or 2^-20 for f32, and 2^-24 per key) times the sum of |v\[j\]| \* e^(score\[j\] - lse), plus
 the effect of the scores' errors. The error of a score is at most

   2^-23 \* d \* |scale| \* the sum of |q\[i\] \* k\[j\]| + 2^-20 \* softcap + 2^-21 \* (|mask\[i\]\[j\]| + |slope \* (place - j)|)

 In f16, a key whose e^(score - maximum) is below 2^-20 may add an error of 2^-30 \* |v\[j\]|, because smaller halves
 have fewer bits. gfx90a's matrix cores take an f16 below 2^-14 for 0. There, such a key may add 2^-20 \* |v\[j\]|, and a
 q, k or v below 2^-14 may count as 0. In every dtype, an e^(score - maximum) below 2^-126 may count as 0, and so may
 a bf16 below 2^-126.

 lse has the largest error of its scores, plus 2^-20, 2^-22 \* |lse| and 2^-28 \* keys. The order of a sum depends on
 the sizes and the device, and is the same in each call. NaN propagates. A hidden key may be NaN. Its weight is 0, so
 its value must be finite. A mask below -2^127 counts as -infinity. In f32 on NVIDIA GPUs, an infinite value that is
 seen may give NaN, and numbers of 2^128 - 2^116 and more may count as infinite.

 With `columns`, dst also becomes activations of crk_mul_mat_vec_q8_1: batch \* queries columns of heads \* dv elements,
 crk_columns_bytes(batch \* queries, heads \* dv) bytes, aligned to 4. They have the bits of crk_quantize_columns. Then
 dst is (batch, queries, heads, dv) without gaps, heads \* dv is a multiple of 32, and there are no starts. With few
 queries and a dv that is a multiple of 32, this takes no further launch.

 One launch, and no scratch memory. Where queries are few, or at most a quarter of the keys, the keys are shared out:
 one or two launches, and scratch memory from crk_alloc, freed before the return. It is at most 4 \* (dv + 2) bytes
 per query, head and part; parts are at most 2 per compute unit. Before a capture, reserve it (crk_memory_reserve) or
 run the call once. A graph reads starts, block tables and masks when it is replayed, so lengths may change up to
 max_queries and max_keys.

 A start, length or block out of range is the caller's mistake that this function cannot see: it must not happen.

 An empty dst succeeds and launches nothing. Fails with CRK_INVALID_ARGUMENT (a NULL, an unknown dtype, dims that do
 not fit each other, a last dim that is not contiguous, a view that is not aligned, a dst whose elements may share
 memory, a dst or an lse that overlaps another argument), CRK_OUT_OF_BOUNDS (a layout reaches beyond its view),
 CRK_UNSUPPORTED (another dtype, a d or dv without a kernel, 2^31 tiles of queries or more, a field of a newer version
 that is not 0), CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or CRK_DEVICE.*/
    pub fn crk_attention(
        self_: crk_device_t,
        call: *const crk_attention_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The output size of a dim of `size` elements in a convolution, im2col or pool (padding 0, dilation 1):
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
    /** The output size of a dim in a transposed convolution, and in col2im1d (no padding, dilation 1):
 (size - 1) \* stride + dilation \* (window - 1) + output_padding + 1 - 2 \* padding. Fails also where `size` is 0, and
 where the padding is more than the rest.*/
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
    /** dst\[b, o, x\] = the sum over c and k of src\[b, c, x \* stride + k \* dilation - padding\] \* kernel\[o, c, k\], for a source
 (b, c_in, l), a kernel (c_out, c_in, k) and dst (b, c_out, crk_conv_size(l, k, ...)).

 With `groups` above 1, this is a convolution of each group by itself: the input channels are cut into that many
 equal parts, and so are the output channels. The outputs of a part are computed from the inputs of the same part. The
 kernel is (c_out, c_in / groups, k). All groups are computed in the same launches, unless the windows are written to
 memory (below): there the groups of an image are. Below, c_in and c_out are the channels of a group.

 f16 and bf16 are matrix products if c_in \* c_out is at least 64. For windows of at least 9 elements 16 is enough, but
 not for c_in = 1 in several groups. f32 is a matrix product from 64 on, on CDNA, on NVIDIA GPUs of compute capability
 8.0, 9.0 and 10.0, and on the CPU device. Sizes must fit the kernels: the image of a group, the copy (below) and the
 positions of dst have fewer than 2^30 numbers (an image of f32 2^29). Sums are in f32, in an order that is the same
 in each call, and are rounded once. Before the rounding the error of a sum is at most k \* (c_in rounded up to a
 multiple of 8) \* 2^-23 times the sum of the products' magnitudes. NaN and infinities propagate. Zeros outside of the
 image are multiplied too: an infinite weight gives NaN there. crk_matmul says when a tiny number may count as 0.

 Other convolutions of f32 and f64, with at least 64 for c_in \* c_out, are products too. Their windows are written to
 scratch memory, as crk_im2col1d writes them. crk_matmul multiplies the kernel by them, and its error bound holds.
 Each part of up to 256 MiB of windows, of several images or of several groups of an image, takes these two launches.
 A row of windows of an image is never cut, even if it is larger. An image with more windows is cut into parts of
 several rows, and each part takes a third launch. A kernel that is not contiguous takes one more launch.

 All else is computed output by output. The sum runs over k, and for each k over c. Products are fused into the sum;
 f16, bf16 and f8e4m3 are added up in f32 and rounded once; integers wrap. Nothing is added outside of the image. So
 the result equals that of the kernel by name bit for bit.

 The products without windows in memory read operands with channels last, in pieces of 16 bytes: 8 channels, or 4 of
 f32. Channels then have stride 1 and are whole pieces; the operand and its other strides are aligned to 16 bytes; the
 kernel has no gaps within an output channel. Any other operand is copied first, in one more launch, to scratch memory
 from crk_alloc, which is freed before the return. The copy has the size of the operand, with the channels of each
 group rounded up to whole pieces. Where outputs are few, k is cut into parts. This takes one more launch and up to
 256 KiB of scratch memory for every four SIMD units.

 Windows of one element, with stride 1 and no padding, are a product of crk_matmul. It reads images as they lie, if
 pixels or channels are neighbours, pixels are whole pieces, and lines are aligned to 16 bytes.

 Before a capture, reserve the scratch memory (crk_memory_reserve) or run the call once. Products fail also with
 CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory).*/
    pub fn crk_conv1d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_const_view_t,
        kernel_layout: *const crk_layout_t,
        kernel: crk_const_view_t,
        dst: crk_view_t,
        stride: usize,
        padding: usize,
        dilation: usize,
        groups: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same over two dims: src (b, c_in, h, w), kernel (c_out, c_in / groups, h_k, w_k), dst (b, c_out, h_out, w_out).
 Stride, padding and dilation hold for both dims. For products h_k \* w_k takes the place of k. Output by output, the
 sum runs over the window's columns, for each column over its rows, and for each element over the channels.*/
    pub fn crk_conv2d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_const_view_t,
        kernel_layout: *const crk_layout_t,
        kernel: crk_const_view_t,
        dst: crk_view_t,
        stride: usize,
        padding: usize,
        dilation: usize,
        groups: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b, o, i \* stride + k \* dilation - padding\] += src\[b, c, i\] \* kernel\[c, o, k\] for every c, i and k with a place in
 dst. The sums begin at 0. src is (b, c_in, l), kernel (c_in, c_out, k) and dst
 (b, c_out, crk_conv_transpose_size(l, k, ...)). With `groups`, the kernel is (c_in, c_out / groups, k), and the rest
 is as in crk_conv1d.

 f16, bf16 and f32 are matrix products under the conditions of crk_conv1d, if also c_in \* c_out is at least 64, and
 dst has at least `stride` positions, or one position and no padding. f32 is computed output by output on devices
 without those kernels. Each phase, which is every stride-th position, is a product with the taps that reach it, all
 in one launch. So no zeros between the elements of src are multiplied. Zeros outside of src are, with the taps of the
 phase: an infinite weight gives NaN there. The bound, the copies and the parts of k are those of crk_conv1d, but the
 kernel is always copied. All else is computed output by output, as in crk_conv1d.*/
    pub fn crk_conv_transpose1d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_const_view_t,
        kernel_layout: *const crk_layout_t,
        kernel: crk_const_view_t,
        dst: crk_view_t,
        stride: usize,
        padding: usize,
        output_padding: usize,
        dilation: usize,
        groups: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same over two dims: src (b, c_in, h, w), kernel (c_in, c_out / groups, h_k, w_k), dst (b, c_out, h_out, w_out).
 For products the condition on positions holds for each dim of dst, and h_k \* w_k takes the place of k.*/
    pub fn crk_conv_transpose2d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_const_view_t,
        kernel_layout: *const crk_layout_t,
        kernel: crk_const_view_t,
        dst: crk_view_t,
        stride: usize,
        padding: usize,
        output_padding: usize,
        dilation: usize,
        groups: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b, x, c, i\] = src\[b, c, x \* stride + i \* dilation - padding\] for i below `k`: the windows of a signal (b, c, l)
 become the rows of matrices (b, l_out, c \* k), with l_out = crk_conv_size(l, k, ...). Their product with a transposed
 kernel (c_out, c_in \* k) is the convolution as (b, l_out, c_out).*/
    pub fn crk_im2col1d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
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
        src: crk_const_view_t,
        dst: crk_view_t,
        h_k: usize,
        w_k: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b, c, i \* stride + j\] += src\[b, i, c, j\] for every i and j; the sums begin at 0. It turns the matrices
 (b, l_in, c, k) of a transposed convolution into its result (b, c, l_out), with
 l_out = crk_conv_transpose_size(l_in, k, stride, 0, 0, 1). The sum is rounded to the dtype at every step, from the
 greatest i to the least.*/
    pub fn crk_col2im1d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
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
    /** dst\[b, c, y, x\] is the average or the greatest of src\[b, c, y \* h_stride + i, x \* w_stride + j\] for i below `h_k` and
 j below `w_k`. src is (b, c, h, w) and dst (b, c, h_out, w_out), with h_out = crk_conv_size(h, h_k, h_stride, 0, 1)
 and w_out = crk_conv_size(w, w_k, w_stride, 0, 1). Candle calls the arguments k.0, k.1, stride.0 and stride.1, in
 this order.

 AVG: the sum, row by row from 0 (f16, bf16 and f8e4m3 in f32), times 1 / (h_k \* w_k), rounded once. u8 and u32: the
 sum wraps, is multiplied with the factor in f32, and the result is truncated. i16, i32 and i64: 0 unless the window
 has one element, as on Candle's CPU.
 MAX: a NaN is the result in f16 and bf16, and is skipped in f32 and f64. In f8e4m3 it is the result where it is the
 first element of a window.*/
    pub fn crk_pool2d(
        self_: crk_device_t,
        op: crk_pool_op_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
        dst: crk_view_t,
        h_k: usize,
        w_k: usize,
        h_stride: usize,
        w_stride: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b, c, y, x\] = src\[b, c, (size_t)(y \* (h / h_out)), (size_t)(x \* (w / w_out))\], bit for bit. The positions are
 computed in f64 and kept within the source. src is (b, c, h, w), dst (b, c, h_out, w_out); sizes may grow or shrink.
 Fails also where the source is empty and dst is not.*/
    pub fn crk_upsample_nearest2d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
        dst: crk_view_t,
        h_out: usize,
        w_out: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Bilinear interpolation, as in PyTorch and Candle: src (b, c, h, w), dst (b, c, h_out, w_out). With align_corners
 output y lies at y \* (h - 1) / (h_out - 1). Else it lies at (y + 0.5) \* step - 0.5, where step is 1 / h_factor,
 or h / h_out for an h_factor of 0. A position before the first element counts as the first; beyond the last element
 the last one continues. The same holds for x. Computed in f64 and rounded once; integers are truncated. Fails also
 where the source is empty and dst is not, and for a factor that is negative, infinite or NaN.*/
    pub fn crk_upsample_bilinear2d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
        dst: crk_view_t,
        h_out: usize,
        w_out: usize,
        align_corners: bool,
        h_factor: f64,
        w_factor: f64,
    ) -> crk_status_t;
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
    /** dst\[i\] = op(src\[i\]) for every element i of `layout`. ELU and POWF have a parameter and need crk_unary_param.

 Float dtypes have every op. Integer dtypes have COPY, ABS, CEIL, FLOOR, ROUND, RELU and SIGN. They also have ERF,
 GELU, GELU_ERF and SILU, which give 0 for integers as Candle's CPU backend does.*/
    pub fn crk_unary(
        self_: crk_device_t,
        op: crk_unary_op_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** ELU: dst\[i\] = src\[i\] \> 0 ? src\[i\] : param \* (exp(src\[i\]) - 1). POWF: dst\[i\] = src\[i\] ^ param. `param` is rounded to
 the dtype first. Float dtypes only.*/
    pub fn crk_unary_param(
        self_: crk_device_t,
        op: crk_unary_op_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
        dst: crk_view_t,
        param: f64,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = fma(src\[i\], mul, add). `mul` and `add` are converted to the dtype as Candle's `from_f64` does; integers
 wrap.*/
    pub fn crk_affine(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
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
    /// The op of a kernel root such as "badd". Fails with CRK_INVALID_ARGUMENT.
    pub fn crk_binary_op_from_root(
        root: *const ::core::ffi::c_char,
        op: *mut crk_binary_op_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = lhs\[i\] op rhs\[i\]. Both layouts have the same dims; broadcast with strides of 0. An integer divided by 0
 gives an unspecified value and does not fault.*/
    pub fn crk_binary(
        self_: crk_device_t,
        op: crk_binary_op_t,
        dtype: crk_dtype_t,
        lhs_layout: *const crk_layout_t,
        lhs: crk_const_view_t,
        rhs_layout: *const crk_layout_t,
        rhs: crk_const_view_t,
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
    /// The op of a kernel root such as "eq". Fails with CRK_INVALID_ARGUMENT.
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
        lhs: crk_const_view_t,
        rhs_layout: *const crk_layout_t,
        rhs: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
impl crk_gate_op {
    pub const CRK_GATE_SILU: crk_gate_op = crk_gate_op(0);
    pub const CRK_GATE_GELU: crk_gate_op = crk_gate_op(1);
    pub const CRK_GATE_GELU_ERF: crk_gate_op = crk_gate_op(2);
    pub const CRK_GATE_RELU: crk_gate_op = crk_gate_op(3);
    pub const CRK_GATE_SIGMOID: crk_gate_op = crk_gate_op(4);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct crk_gate_op(pub ::core::ffi::c_uint);
pub use self::crk_gate_op as crk_gate_op_t;
unsafe extern "C" {
    /** dst\[i\] = op(gate\[i\]) \* up\[i\]: the gate of a feed-forward layer, in one launch. Both layouts have the same dims. The
 activation is rounded to the dtype first: the result is that of crk_unary and crk_binary, within two units in the
 last place. BF16, F16, F32 and F64 only (CRK_UNSUPPORTED).*/
    pub fn crk_gate(
        self_: crk_device_t,
        op: crk_gate_op_t,
        dtype: crk_dtype_t,
        gate_layout: *const crk_layout_t,
        gate: crk_const_view_t,
        up_layout: *const crk_layout_t,
        up: crk_const_view_t,
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
        src: crk_const_view_t,
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
        ids: crk_const_view_t,
        true_layout: *const crk_layout_t,
        on_true: crk_const_view_t,
        false_layout: *const crk_layout_t,
        on_false: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = value for i below `numel`. `value` points at one element of `dtype` on the host; it is read before the call
 returns.*/
    pub fn crk_fill(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        dst: crk_view_t,
        numel: usize,
        value: *const ::core::ffi::c_void,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Sets every element of `layout` in `dst` to `value`, which is read as for crk_fill. Elements outside the layout
 stay.*/
    pub fn crk_const_set(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        dst: crk_view_t,
        value: *const ::core::ffi::c_void,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[dst_offset + i \* dst_stride + j\] = src\[src_offset + i \* src_stride + j\] for i below `rows` and j below `cols`.
 Strides and offsets are in elements. Rows of `dst` must not overlap: dst_stride is at least `cols`, unless rows is
 1.*/
    pub fn crk_copy2d(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        rows: usize,
        cols: usize,
        src: crk_const_view_t,
        src_stride: usize,
        src_offset: usize,
        dst: crk_view_t,
        dst_stride: usize,
        dst_offset: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// dst\[dst_offset + i\] = src\[i\] for every element i of `layout`, bit for bit: makes a strided tensor contiguous.
    pub fn crk_copy_strided(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
        dst: crk_view_t,
        dst_offset: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[l, n, r\] = src\[l, ids\[n\], r\], bit for bit. `l` stands for the coordinates before dim number `dim`, `r` for those
 after it. `src` and `ids`, which has rank 1, may have any layout. `dst` is contiguous from the beginning of its view.
 Its dims are those of src, with the length of ids in the indexed dim. The call is fastest where the dims after `dim`
 are contiguous in `src`, like the rows of an embedding.*/
    pub fn crk_index_select(
        self_: crk_device_t,
        ids_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_const_view_t,
        ids_layout: *const crk_layout_t,
        ids: crk_const_view_t,
        dim: usize,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[l, n, r\] = src\[l, ids\[l, n, r\], r\], bit for bit. `src` and `ids` have the same rank and any layout. No dim of ids
 may be longer than that of src, except the indexed one. `dst` has the dims of ids and is contiguous from the
 beginning of its view.*/
    pub fn crk_gather(
        self_: crk_device_t,
        ids_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_const_view_t,
        ids_layout: *const crk_layout_t,
        ids: crk_const_view_t,
        dim: usize,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[l, ids\[l, n, r\], r\] = src\[l, n, r\] for n in order, bit for bit. Where several elements have one id, the last of
 them stays. Elements of `dst` that no id names stay as they were. `ids` and `src` have the same dims; `dst` has these
 dims too, except for the indexed one. All three are contiguous from their layouts' offsets.*/
    pub fn crk_scatter(
        self_: crk_device_t,
        ids_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        ids_layout: *const crk_layout_t,
        ids: crk_const_view_t,
        src_layout: *const crk_layout_t,
        src: crk_const_view_t,
        dim: usize,
        dst_layout: *const crk_layout_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[l, ids\[l, n, r\], r\] += src\[l, n, r\] for n in order, so the sums are the same in every run. f16 and bf16 round
 after every addition. f8e4m3 adds in f32 and rounds after every addition. Integers wrap. Tensors as for
 crk_scatter.*/
    pub fn crk_scatter_add(
        self_: crk_device_t,
        ids_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        ids_layout: *const crk_layout_t,
        ids: crk_const_view_t,
        src_layout: *const crk_layout_t,
        src: crk_const_view_t,
        dim: usize,
        dst_layout: *const crk_layout_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[l, ids\[n\], r\] += src\[l, n, r\] for n in order; sums as for crk_scatter_add. `ids` has rank 1, any stride, and the
 length of src's indexed dim. `src` and `dst` as for crk_scatter.*/
    pub fn crk_index_add(
        self_: crk_device_t,
        ids_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        ids_layout: *const crk_layout_t,
        ids: crk_const_view_t,
        src_layout: *const crk_layout_t,
        src: crk_const_view_t,
        dim: usize,
        dst_layout: *const crk_layout_t,
        dst: crk_view_t,
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
    /** Rotates each pair (a, b) of a token by its angle: dst = (a \* c - b \* s, a \* s + b \* c). c and s are the elements of
 `cos` and `sin` for the token and the pair (Su et al., "RoFormer", 2021). Every dtype rounds as Candle's kernels do:
 fma(a, c, -round(b \* s)) and fma(a, s, round(b \* c)).

 `src_layout` has rank 4 and an even last dim d. `cos` and `sin` are (tokens, d / 2) for all batches together, or
 (batch, tokens, d / 2) with one table per batch. They may have more tokens than `src`; the first ones are used. All
 three are contiguous from their offsets on. `dst` is contiguous from the beginning of its view. It may be the view
 `src` if src_layout has offset 0. Otherwise it must not overlap `src`, and it must never overlap `cos` or `sin`. One
 launch, no scratch memory. dtypes BF16, F16, F32 and F64.

 Fails as the element-wise launchers do: CRK_INVALID_ARGUMENT for dims that do not fit each other, CRK_UNSUPPORTED for
 other dtypes.*/
    pub fn crk_rope(
        self_: crk_device_t,
        kind: crk_rope_kind_t,
        dtype: crk_dtype_t,
        src_layout: *const crk_layout_t,
        src: crk_const_view_t,
        cos_layout: *const crk_layout_t,
        cos: crk_const_view_t,
        sin_layout: *const crk_layout_t,
        sin: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
/** A tensor (batch, heads, tokens, d) and where its result goes: any layouts whose last dim is contiguous. Each stride
 of dst passes all elements of the dims with smaller strides. So no two of its elements share memory.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_rope_rows {
    pub src_layout: *const crk_layout_t,
    pub src: crk_const_view_t,
    /// the dims of src_layout
    pub dst_layout: *const crk_layout_t,
    pub dst: crk_view_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_rope_rows"][::core::mem::size_of::<crk_rope_rows>() - 48usize];
    ["Alignment of crk_rope_rows"][::core::mem::align_of::<crk_rope_rows>() - 8usize];
    [
        "Offset of field: crk_rope_rows::src_layout",
    ][::core::mem::offset_of!(crk_rope_rows, src_layout) - 0usize];
    [
        "Offset of field: crk_rope_rows::src",
    ][::core::mem::offset_of!(crk_rope_rows, src) - 8usize];
    [
        "Offset of field: crk_rope_rows::dst_layout",
    ][::core::mem::offset_of!(crk_rope_rows, dst_layout) - 24usize];
    [
        "Offset of field: crk_rope_rows::dst",
    ][::core::mem::offset_of!(crk_rope_rows, dst) - 32usize];
};
impl Default for crk_rope_rows {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/** A tensor (batch, heads, tokens, d) and where its result goes: any layouts whose last dim is contiguous. Each stride
 of dst passes all elements of the dims with smaller strides. So no two of its elements share memory.*/
pub type crk_rope_rows_t = crk_rope_rows;
unsafe extern "C" {
    /** Rotates the queries and the keys of a layer as crk_rope does, and copies its values, in one launch. The results may
 lie in caches: dst is then the part of the cache that the new tokens take. rows\[0\] are the queries, rows\[1\] the keys,
 rows\[2\] the values; all have the same batch, tokens and d. kind is ROPE or ROPE_I. cos and sin as for crk_rope. No
 dst overlaps another dst, a src, cos or sin. One launch without scratch memory; fewer than 2^31 pairs
 (CRK_UNSUPPORTED). Fails as crk_rope does.*/
    pub fn crk_rope_qkv(
        self_: crk_device_t,
        kind: crk_rope_kind_t,
        dtype: crk_dtype_t,
        rows: *const crk_rope_rows_t,
        cos_layout: *const crk_layout_t,
        cos: crk_const_view_t,
        sin_layout: *const crk_layout_t,
        sin: crk_const_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** crk_rope_qkv where each head is normalised first: queries and keys become their RMS norms, as by crk_rms_norm with
 q_alpha or k_alpha (d factors) and eps. Then all three are cast from `src_dtype` to `dtype`. Each src and alpha has
 src_dtype; each dst, cos and sin has dtype. The results have the bits of the separate launches. src_dtype is F32 and
 dtype F32, F16 or BF16; or both are F16, or both BF16. kind is ROPE.

 One launch without scratch memory. A row of a src is 32, 64, 128, 256 or 512 bytes. Addresses and strides are
 multiples of 16 bytes, those of F16 or BF16 beside a src of F32 of 8 bytes. Other rows and dtypes are
 CRK_UNSUPPORTED. Fails otherwise as crk_rope_qkv does.*/
    pub fn crk_norm_rope_qkv(
        self_: crk_device_t,
        src_dtype: crk_dtype_t,
        dtype: crk_dtype_t,
        rows: *const crk_rope_rows_t,
        q_alpha: crk_const_view_t,
        k_alpha: crk_const_view_t,
        eps: f32,
        cos_layout: *const crk_layout_t,
        cos: crk_const_view_t,
        sin_layout: *const crk_layout_t,
        sin: crk_const_view_t,
    ) -> crk_status_t;
}
/** The heads of queries, of keys or of values of one token, as crk_mul_mat_vec_rope and crk_matmul_rope make them. The
 kind of the rotation is ROPE or ROPE_I. heads \* d is less than 2^31, and may be 0. A dst overlaps no other view, from
 its first to its last element: two caches must not lie between each other's heads.*/
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_head_weights {
    pub heads: usize,
    /// of the weights, (heads \* d, k); NULL if they are quantized
    pub layout: *const crk_layout_t,
    pub weights: crk_const_view_t,
    /// heads \* d contiguous elements, or {NULL, 0} for none
    pub bias: crk_const_view_t,
    /// heads of d contiguous elements
    pub dst: crk_view_t,
    /// elements of dst from one head to the next, at least d
    pub head_stride: usize,
    /// false: the launch stores the heads as they are, as it does with values
    pub rotates: bool,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of crk_head_weights"][::core::mem::size_of::<crk_head_weights>() - 80usize];
    [
        "Alignment of crk_head_weights",
    ][::core::mem::align_of::<crk_head_weights>() - 8usize];
    [
        "Offset of field: crk_head_weights::heads",
    ][::core::mem::offset_of!(crk_head_weights, heads) - 0usize];
    [
        "Offset of field: crk_head_weights::layout",
    ][::core::mem::offset_of!(crk_head_weights, layout) - 8usize];
    [
        "Offset of field: crk_head_weights::weights",
    ][::core::mem::offset_of!(crk_head_weights, weights) - 16usize];
    [
        "Offset of field: crk_head_weights::bias",
    ][::core::mem::offset_of!(crk_head_weights, bias) - 32usize];
    [
        "Offset of field: crk_head_weights::dst",
    ][::core::mem::offset_of!(crk_head_weights, dst) - 48usize];
    [
        "Offset of field: crk_head_weights::head_stride",
    ][::core::mem::offset_of!(crk_head_weights, head_stride) - 64usize];
    [
        "Offset of field: crk_head_weights::rotates",
    ][::core::mem::offset_of!(crk_head_weights, rotates) - 72usize];
};
impl Default for crk_head_weights {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/** The heads of queries, of keys or of values of one token, as crk_mul_mat_vec_rope and crk_matmul_rope make them. The
 kind of the rotation is ROPE or ROPE_I. heads \* d is less than 2^31, and may be 0. A dst overlaps no other view, from
 its first to its last element: two caches must not lie between each other's heads.*/
pub type crk_head_weights_t = crk_head_weights;
unsafe extern "C" {
    /** dst\[b.., i, j\] = the sum over l of lhs\[b.., i, l\] \* rhs\[b.., l, j\]. lhs is (b.., m, k), rhs is (b.., k, n) and dst is
 (b.., m, n). The layouts have the same rank, at least 2, and the same batch dims; strides of 0 broadcast a batch.
 Strides and offsets may have any value, and no layout needs a copy: row-major, column-major, with gaps, broadcast.
 `dst` is contiguous from the beginning of its view. dtypes BF16, F16, F32 and F64.

 Products are added up in f32 (f64 in f64), and the sum is rounded to the dtype once. The order depends on the sizes,
 the layouts and the device, and is the same in each call. Before the rounding the error of a sum is at most
 k \* 2^-23 (f64: k \* 2^-52) times the sum of the products' magnitudes. NaN and infinities propagate. A sum may
 overflow before a later product of the other sign is added. A bf16 below 2^-126 may count as 0, and so may an f16
 below 2^-14 on gfx90a, whose matrix cores take it for 0.

 A BLAS library computes the product where there is one (crk_device_blas) and the layouts fit it. They fit where one
 of the last two dims of each operand has stride 1, the batch dims act as one dim, and sizes are below 2^31. This
 library's own kernels compute all other products. They also take over where the BLAS library fails, and where it
 would have to be opened while a handle on the GPU is captured. A product with a single row or column uses them too,
 where they are faster for its layout, and so do large products of f32 on NVIDIA GPUs with fast TF32. Both can be
 captured in a graph. (On these, an f32 of 2^128 - 2^116 or more counts as infinite where a tile has a sum that is NaN
 or infinite, and so does a NaN whose upper 10 bits of mantissa are 0.)

 One launch (more only where a grid would exceed the device's limit) and no scratch memory; a BLAS library allocates
 at its first product. Where outputs are few and k is long, this library's kernels take two launches and scratch
 memory from crk_alloc, which is freed before the return. It is at most 4 KiB for every four SIMD units, 8 KiB for
 f64. Before a capture, reserve this memory (crk_memory_reserve) or run the call once.

 k of 0 gives zeros. An empty dst succeeds and launches nothing. Fails with CRK_INVALID_ARGUMENT (a NULL, an unknown
 dtype, a rank below 2 or above CRK_MAX_RANK, dims that do not fit each other, 2^62 or more elements, a view that is
 not aligned, a dst that overlaps the span of an operand), CRK_OUT_OF_BOUNDS (a layout reaches beyond its view, or dst
 is too small), CRK_UNSUPPORTED (another dtype), CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or
 CRK_DEVICE.*/
    pub fn crk_matmul(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        lhs_layout: *const crk_layout_t,
        lhs: crk_const_view_t,
        rhs_layout: *const crk_layout_t,
        rhs: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
/// A matrix of weights, (n, k) in any layout, the place of its n results, and what is added to them.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_matmul_weights {
    pub layout: *const crk_layout_t,
    pub weights: crk_const_view_t,
    /// contiguous from the beginning of the view
    pub dst: crk_view_t,
    /// n contiguous elements, or {NULL, 0} for none
    pub bias: crk_const_view_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of crk_matmul_weights",
    ][::core::mem::size_of::<crk_matmul_weights>() - 56usize];
    [
        "Alignment of crk_matmul_weights",
    ][::core::mem::align_of::<crk_matmul_weights>() - 8usize];
    [
        "Offset of field: crk_matmul_weights::layout",
    ][::core::mem::offset_of!(crk_matmul_weights, layout) - 0usize];
    [
        "Offset of field: crk_matmul_weights::weights",
    ][::core::mem::offset_of!(crk_matmul_weights, weights) - 8usize];
    [
        "Offset of field: crk_matmul_weights::dst",
    ][::core::mem::offset_of!(crk_matmul_weights, dst) - 24usize];
    [
        "Offset of field: crk_matmul_weights::bias",
    ][::core::mem::offset_of!(crk_matmul_weights, bias) - 40usize];
};
impl Default for crk_matmul_weights {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/// A matrix of weights, (n, k) in any layout, the place of its n results, and what is added to them.
pub type crk_matmul_weights_t = crk_matmul_weights;
unsafe extern "C" {
    /** dst\[i\] = bias\[i\] + the sum over l of weights\[i, l\] \* x\[l\], for each of `count` matrices, 1 to CRK_MOST_GROUPED: a row
 of activations times the transposed weights of several linear layers, such as the layers of q, k and v. x is k
 contiguous elements. dtypes BF16, F16, F32 and F64. Each sum is as exact as that of crk_matmul. The bias is added
 before the sum is rounded to the dtype, or after that where there is more than one launch. No dst overlaps another
 dst, x, weights or a bias.

 One launch without scratch memory, if on a GPU all weights are contiguous along k, rows have at least 1024 bytes, and
 x and all rows are aligned to 16 bytes. Where all weights have at most 4 MiB each, 16 bytes are enough, or 16 per
 lane of a wave if there is one matrix. Otherwise each matrix is multiplied by crk_matmul, and crk_binary adds the
 bias.

 Fails as crk_matmul does; CRK_INVALID_ARGUMENT also for another `count`.*/
    pub fn crk_matmul_grouped(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        k: usize,
        x: crk_const_view_t,
        weights: *const crk_matmul_weights_t,
        count: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The heads of a token: products of a row x of k contiguous elements with `count` matrices, 1 to CRK_MOST_GROUPED, and
 their rotary embeddings. Each result goes to its place in dst, which may be a row of a cache. d is even; cos and sin
 have d / 2 contiguous elements. dtypes BF16, F16, F32 and F64, the same for all views. The results have the bits of
 crk_matmul_grouped and crk_rope_qkv.

 One launch under the conditions of crk_matmul_grouped. Otherwise the products of crk_matmul in scratch memory, and a
 rotation for two parts that are rotated and one that is not. Fails as crk_matmul_grouped and crk_rope_qkv do.*/
    pub fn crk_matmul_rope(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        kind: crk_rope_kind_t,
        d: usize,
        k: usize,
        x: crk_const_view_t,
        parts: *const crk_head_weights_t,
        count: usize,
        cos: crk_const_view_t,
        sin: crk_const_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = op(the sum over l of gate\[i, l\] \* x\[l\]) \* (the sum over l of up\[i, l\] \* x\[l\]): the first half of a gated
 feed-forward layer, for a row of activations. gate and up are weights (n, k), x is k contiguous elements, and dst is
 n contiguous elements. dtypes BF16, F16, F32 and F64. Both sums are rounded to the dtype as by crk_matmul, and go
 through crk_gate. dst overlaps neither x nor weights.

 One launch without scratch memory under the conditions of crk_matmul_grouped, except in F64. Otherwise two products
 and a gate, and scratch memory of 2 \* n elements from crk_alloc, which is freed before the return.

 Fails as crk_matmul and crk_gate do.*/
    pub fn crk_matmul_gate(
        self_: crk_device_t,
        op: crk_gate_op_t,
        dtype: crk_dtype_t,
        k: usize,
        x: crk_const_view_t,
        gate_layout: *const crk_layout_t,
        gate: crk_const_view_t,
        up_layout: *const crk_layout_t,
        up: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Allows a BLAS library to round the operands of f32 products to TF32, which has 10 bits of mantissa in place of 23;
 sums stay f32. It is off at first. The setting is of the whole process, and products that a graph has recorded keep
 theirs. It has an effect with hipBLASLt on GPUs with such products (gfx942; gfx950 imitates them), and with cuBLAS;
 NVIDIA GPUs then give all f32 products to cuBLAS. Other products stay as they are. The error of a sum is then at most
 2^-9 times the sum of the products' magnitudes.*/
    pub fn crk_matmul_allow_tf32(allowed: bool);
}
unsafe extern "C" {
    /// Whether it is allowed.
    pub fn crk_matmul_is_tf32_allowed() -> bool;
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
    /// The format's name, such as "q4_K"; NULL for a value that is not a format.
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
    /// Elements and bytes of a block; 0 for a value that is not a format.
    pub fn crk_quant_block_elements(quant: crk_quant_t) -> usize;
}
unsafe extern "C" {
    pub fn crk_quant_block_bytes(quant: crk_quant_t) -> usize;
}
unsafe extern "C" {
    /** dst\[i\] = the value of element i of src, for i below `numel`, which is a multiple of the block. `dtype` of dst is F32,
 F16 or BF16.

 Computed in f32: q4_0 as d \* code - 8 \* d, as in Candle's kernel; the others as in kernels/quantized/blocks.h in the
 sources. Two steps round: the difference in q2_K, q4_K, q5_K, q4_1 and q5_1, and the product in q8_K. All other steps
 are exact. So a value rounds at most once, and once more to dtype.*/
    pub fn crk_dequantize(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        numel: usize,
        src: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\]\[j\] = src\[ids\[i\]\]\[j\] for i below `count` and j below `hidden`, for a quantized table of `rows` rows. `ids` are
 u32; dst is f32 and contiguous. An id of UINT32_MAX gives zeros. Any other id that is not a row gives zeros too, and
 the next synchronisation reports it (crk_device_synchronize). Values as for crk_dequantize, but q4_0 as
 d \* (code - 8), as in Candle's kernel.*/
    pub fn crk_get_rows(
        self_: crk_device_t,
        quant: crk_quant_t,
        rows: usize,
        hidden: usize,
        count: usize,
        src: crk_const_view_t,
        ids: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// The same for a table of floats: `dtype` of src is F32, F16 or BF16. Rows may have any length.
    pub fn crk_get_rows_float(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        rows: usize,
        hidden: usize,
        count: usize,
        src: crk_const_view_t,
        ids: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Bytes of `rows` rows of `k` activations as q8_1 blocks: rows \* (k rounded up to a multiple of 512) / 32 \* 36; 0 where
 size_t cannot hold the number.*/
    pub fn crk_q8_1_bytes(rows: usize, k: usize) -> usize;
}
unsafe extern "C" {
    /** Quantizes activations to 8 bits for the products below. Each row of `k` elements of x is padded with zeros to a
 multiple of 512. Each 32 elements become a block of 36 bytes (ggml's q8_1): f16 d, f16 s, 32 codes. d is the largest
 magnitude / 127. A code is x / d rounded to nearest, halves away from zero. s is the sum of the 32 numbers. `dtype`
 of x is F32, F16 or BF16; any k. dst has crk_q8_1_bytes(rows, k) bytes and is aligned to 4.

 A NaN has no part in d and its code is 0. The sum s adds each four neighbours pairwise, then the eight sums in a
 butterfly. Candle's kernel of this name adds the 32 numbers in a butterfly.*/
    pub fn crk_quantize_q8_1(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        x: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Bytes of `columns` columns of `k` activations for crk_mul_mat_vec_q8_1: columns \* k / 32 \* 36; 0 where size_t cannot
 hold the number.*/
    pub fn crk_columns_bytes(columns: usize, k: usize) -> usize;
}
unsafe extern "C" {
    /** The first launch of crk_mul_mat_vec: activations that several products share are quantized once. Blocks as those of
 crk_quantize_q8_1, but s is d times the sum of the codes, k is a multiple of 32, and rows are not padded.
 crk_mul_mat_vec_q8_1 with an x_stride of k / 32 then gives the bits of crk_mul_mat_vec. dst has
 crk_columns_bytes(columns, k) bytes and is aligned to 4.*/
    pub fn crk_quantize_columns(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        columns: usize,
        k: usize,
        x: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst = crk_gate of two contiguous tensors of `columns` rows of `k` elements, and `blocks` = crk_quantize_columns of
 dst. `dtype` is F32, F16 or BF16. One launch where gate, up and dst are aligned to 16 bytes, else two.*/
    pub fn crk_gate_columns(
        self_: crk_device_t,
        op: crk_gate_op_t,
        dtype: crk_dtype_t,
        columns: usize,
        k: usize,
        gate: crk_const_view_t,
        up: crk_const_view_t,
        dst: crk_view_t,
        blocks: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = the sum over j of src\[i\]\[j\] \* y\[j\], for i below `rows` and j below `k`, which is a multiple of the block.
 The weights become numbers, and the activations are not quantized. `dtype` of y is F32, F16 or BF16; dst is f32. Sums
 are f32: groups of 8 elements first, each multiplied by the block's scale, then the parts of 32 lanes in a
 butterfly.*/
    pub fn crk_dequantize_mul_mat_vec(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        src: crk_const_view_t,
        y: crk_const_view_t,
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
        weights: crk_const_view_t,
        x: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same for activations that are quantized already: dst\[c \* dst_stride + i\] = the sum over j of
 weights\[i\]\[j\] \* x\[c\]\[j\]. One launch, no scratch memory. A minimum, and the offset of q4_0 and q5_0, multiplies the s
 of each block in the formats of 32 elements; in the others d times the sum of the codes. Column c of x is k / 32 q8_1
 blocks (crk_quantize_q8_1). It begins c \* x_stride blocks after the beginning of x. x is aligned to 4. `dtype` is
 that of dst. With several columns x_stride is at least k / 32, and dst_stride, in elements, at least `rows`. Memory
 between the columns is neither read nor written.*/
    pub fn crk_mul_mat_vec_q8_1(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        columns: usize,
        weights: crk_const_view_t,
        x: crk_const_view_t,
        x_stride: usize,
        dst: crk_view_t,
        dst_stride: usize,
    ) -> crk_status_t;
}
/// One matrix of a grouped product: weights of `rows` rows, and the arguments that crk_mul_mat_vec_q8_1 has for them.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct crk_grouped_product {
    pub rows: usize,
    pub weights: crk_const_view_t,
    pub dst: crk_view_t,
    /// in elements, at least `rows`; unused with one column
    pub dst_stride: usize,
    /// `rows` elements of F32, added to each column's sums; or {NULL, 0} for none
    pub bias: crk_const_view_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of crk_grouped_product",
    ][::core::mem::size_of::<crk_grouped_product>() - 64usize];
    [
        "Alignment of crk_grouped_product",
    ][::core::mem::align_of::<crk_grouped_product>() - 8usize];
    [
        "Offset of field: crk_grouped_product::rows",
    ][::core::mem::offset_of!(crk_grouped_product, rows) - 0usize];
    [
        "Offset of field: crk_grouped_product::weights",
    ][::core::mem::offset_of!(crk_grouped_product, weights) - 8usize];
    [
        "Offset of field: crk_grouped_product::dst",
    ][::core::mem::offset_of!(crk_grouped_product, dst) - 24usize];
    [
        "Offset of field: crk_grouped_product::dst_stride",
    ][::core::mem::offset_of!(crk_grouped_product, dst_stride) - 40usize];
    [
        "Offset of field: crk_grouped_product::bias",
    ][::core::mem::offset_of!(crk_grouped_product, bias) - 48usize];
};
impl Default for crk_grouped_product {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
/// One matrix of a grouped product: weights of `rows` rows, and the arguments that crk_mul_mat_vec_q8_1 has for them.
pub type crk_grouped_product_t = crk_grouped_product;
unsafe extern "C" {
    /** crk_mul_mat_vec_q8_1 of the same activations with `count` matrices, at most CRK_MOST_GROUPED, in one launch: those of
 queries, keys and values. All have one format and one k. The results have the bits of separate products; a bias is
 added in f32, before the sum is rounded to the dtype. A dst overlaps no other view.*/
    pub fn crk_mul_mat_vec_grouped(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        k: usize,
        columns: usize,
        products: *const crk_grouped_product_t,
        count: usize,
        x: crk_const_view_t,
        x_stride: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[c\]\[i\] = op(sum over j of gate\[i\]\[j\] \* x\[c\]\[j\]) \* (sum over j of up\[i\]\[j\] \* x\[c\]\[j\]): the products and the gate of
 a feed-forward layer. gate and up have `rows` rows of `k` elements, and dst is `columns` times `rows` elements
 without gaps. x is crk_quantize_columns' blocks for `columns` columns, at most 8. If `blocks` is not {NULL, 0}, it
 becomes crk_quantize_columns of dst, and `rows` is a multiple of 32. The results equal, to the bit, the
 results of crk_mul_mat_vec_q8_1 and crk_gate.

 One launch for one column of F32 with CRK_GATE_SILU or CRK_GATE_GELU. `blocks` take a second launch if the rows are
 too few to give the GPU work in groups of 32. Otherwise there are two launches, three for `blocks` that are not
 aligned as crk_gate_columns asks, and scratch memory for the results of gate and up.*/
    pub fn crk_mul_mat_vec_gate(
        self_: crk_device_t,
        op: crk_gate_op_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        columns: usize,
        gate: crk_const_view_t,
        up: crk_const_view_t,
        x: crk_const_view_t,
        dst: crk_view_t,
        blocks: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The heads of a token: products of one column with `count` matrices, 1 to CRK_MOST_GROUPED, and their rotary
 embeddings, in one launch without scratch memory. Each result goes to its place in dst, which may be a row of a
 cache. weights have heads \* d rows of k elements, d is even, and k is not 0. x is one column of crk_quantize_columns.
 bias, dst, cos and sin are F32; cos and sin have d / 2 contiguous elements. The results have the bits of
 crk_mul_mat_vec_grouped and crk_rope_qkv.*/
    pub fn crk_mul_mat_vec_rope(
        self_: crk_device_t,
        quant: crk_quant_t,
        kind: crk_rope_kind_t,
        d: usize,
        k: usize,
        parts: *const crk_head_weights_t,
        count: usize,
        x: crk_const_view_t,
        cos: crk_const_view_t,
        sin: crk_const_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// crk_mul_mat_vec for any number of columns. Up to 8 columns it is crk_mul_mat_vec.
    pub fn crk_mul_mat(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        columns: usize,
        weights: crk_const_view_t,
        x: crk_const_view_t,
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
    /** The layout that crk_mul_mat_mmq needs for a format: DS4 for q4_0, q4_1, q5_1, q4_K and q5_K, D2S6 for q2_K, D4 for
 q5_0, q8_0, q3_K and q6_K. Fails with CRK_INVALID_ARGUMENT, or CRK_UNSUPPORTED for q8_K.*/
    pub fn crk_mmq_of_quant(quant: crk_quant_t, layout: *mut crk_mmq_t) -> crk_status_t;
}
/// Rows that become columns of mmq blocks. Strides are in elements of x. Candle's names are in brackets.
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
    /// a multiple of 128, at least k: zeros follow a row's elements \[ne0\]
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
/// Rows that become columns of mmq blocks. Strides are in elements of x. Candle's names are in brackets.
pub type crk_mmq_rows_t = crk_mmq_rows;
unsafe extern "C" {
    /** Bytes of the mmq blocks of `rows`:
 samples \* channels \* columns \* (padded_k rounded up to a multiple of 512) / 128 \* 144; 0 where `rows` is NULL or
 size_t cannot hold the number.*/
    pub fn crk_mmq_bytes(rows: *const crk_mmq_rows_t) -> usize;
}
unsafe extern "C" {
    /** Quantizes rows of x to mmq blocks. In dst, block b of column j of channel c of sample s has the number
 (s \* channels + c) \* columns \* (padded_k rounded up to 512) / 128 + b \* columns + j. It holds the elements 128 b to
 128 b + 127 of the row of x at s \* sample_stride + c \* channel_stride + r \* row_stride. r is j. With `ids`, which are
 i32, r is ids\[j\]; {NULL, 0} stands for no ids. `dtype` of x is F32, F16 or BF16; any k and strides. dst has
 crk_mmq_bytes(rows) bytes and is aligned to 4.

 An id that names no row of x (with a row_stride of 0: any id except 0) leaves its blocks unchanged, and the next
 synchronisation reports it (crk_device_synchronize).

 In each group that shares a d, let m be its largest magnitude. A code is x \* (127 / m), rounded to nearest, halves
 away from zero; d is 1 / (127 / m), in f32. A group of zeros has codes 0 and d 0. A NaN has no part in m and its code
 is 0. With an infinity d is infinite and the codes are 0. s is the sum of the group's numbers in f32: each four
 neighbours from the first on, then a butterfly of these sums. An f16 d or s beyond 65504 is infinite. The result
 equals that of Candle's kernel bit for bit.*/
    pub fn crk_quantize_mmq(
        self_: crk_device_t,
        layout: crk_mmq_t,
        dtype: crk_dtype_t,
        rows: *const crk_mmq_rows_t,
        x: crk_const_view_t,
        ids: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[c \* dst_stride + i\] = the sum over j of weights\[i\]\[j\] \* column c of y, for i below `rows` and c below `columns`.
 This is the second launch of crk_mul_mat above 8 columns, for any number of columns, but with the s that y has. One
 launch, no scratch memory.

 A row of weights begins every `weight_stride` blocks. y is mmq blocks in the layout of the format (crk_mmq_of_quant),
 with block b of column c at b \* columns + c, and is aligned to 4; elements beyond k do not count. `dtype` of dst is
 F32, F16 or BF16. dst_stride, in elements, is at least `rows`. k of 0 gives zeros.*/
    pub fn crk_mul_mat_mmq(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        rows: usize,
        k: usize,
        columns: usize,
        weights: crk_const_view_t,
        weight_stride: usize,
        y: crk_const_view_t,
        dst: crk_view_t,
        dst_stride: usize,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The product in integers. x has `dtype` F32, F16 or BF16; dst is f32. Every format except q8_K; k is a multiple of the
 format's block. Sums and their accuracy are those of crk_mul_mat_vec. Then the scale multiplies, which rounds once.

 Two launches: x is quantized first, as for crk_mul_mat_vec, into crk_q8_1_bytes(inputs, k) bytes of scratch memory.
 That memory is allocated and freed in stream order; in a capture it must be reserved (crk_memory_reserve) or cached.
 inputs is tokens, or tokens / topk without topk_weights. The bytes must be below 2^32 (CRK_UNSUPPORTED).*/
    pub fn crk_moe_gguf(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        experts: usize,
        rows: usize,
        k: usize,
        tokens: usize,
        topk: usize,
        weights: crk_const_view_t,
        x: crk_const_view_t,
        sorted_token_ids: crk_const_view_t,
        expert_ids: crk_const_view_t,
        topk_weights: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The same for activations that are quantized already: x has crk_columns_bytes(inputs, k) bytes, made by
 crk_quantize_columns, and is aligned to 4. Results have the bits of crk_moe_gguf. One launch, no scratch memory.*/
    pub fn crk_moe_gguf_columns(
        self_: crk_device_t,
        quant: crk_quant_t,
        experts: usize,
        rows: usize,
        k: usize,
        tokens: usize,
        topk: usize,
        weights: crk_const_view_t,
        x: crk_const_view_t,
        sorted_token_ids: crk_const_view_t,
        expert_ids: crk_const_view_t,
        topk_weights: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = the sum over the `topk` results of crk_moe_gguf_columns for one token, in the order of the results' numbers:
 dst has `rows` elements. x has topk rows, one per result, and so do the lists. One launch; scratch memory of
 topk \* rows floats, which is allocated and freed in stream order. sorted_token_ids has each result once. If it has
 not, dst is undefined; also if an id is wrong, which the next synchronisation reports. topk is 1 to 65535, and k
 above 0 (CRK_INVALID_ARGUMENT).*/
    pub fn crk_moe_gguf_sum(
        self_: crk_device_t,
        quant: crk_quant_t,
        experts: usize,
        rows: usize,
        k: usize,
        topk: usize,
        weights: crk_const_view_t,
        x: crk_const_view_t,
        sorted_token_ids: crk_const_view_t,
        expert_ids: crk_const_view_t,
        topk_weights: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[token\] = op(product with gate) \* (product with up), the gate of each token's expert; both products as those of
 crk_moe_gguf_columns without scales, with the same experts and x. If `blocks` is not {NULL, 0}, it becomes
 crk_quantize_columns of dst's tokens, and `rows` is a multiple of 32. The results equal, to the bit,
 the results of the two products and crk_gate.

 Rows of dst and of `blocks` are undefined for tokens that are skipped or not listed.

 One launch with CRK_GATE_SILU or CRK_GATE_GELU and at most one token per expert on average, tokens \<= experts; a
 second launch for `blocks` where that is faster. Otherwise there are up to four launches, and scratch memory of twice
 the size of dst. It is allocated and freed in stream order; in a capture it must be reserved or cached.*/
    pub fn crk_moe_gguf_gate(
        self_: crk_device_t,
        op: crk_gate_op_t,
        quant: crk_quant_t,
        experts: usize,
        rows: usize,
        k: usize,
        tokens: usize,
        topk: usize,
        gate: crk_const_view_t,
        up: crk_const_view_t,
        x: crk_const_view_t,
        sorted_token_ids: crk_const_view_t,
        expert_ids: crk_const_view_t,
        dst: crk_view_t,
        blocks: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The product in floating point, for many tokens per expert. The weights become numbers of `dtype`, F16 or BF16, which
 is also the dtype of x; dst is f32. Every format except q8_K; k is a multiple of the format's block.

 AMD GPUs: one launch without scratch memory. Other devices make numbers of the weights first, from 4 tokens per
 expert on average: two launches for each 256 MiB of numbers, which are scratch memory as above. If that memory
 lacks, they do as AMD GPUs.

 The numbers are those of Candle's kernel. For q2_K to q6_K they are computed in f16, and every step rounds. The steps
 are d times the group's scale, dmin times its minimum, and then scale times code minus minimum, fused. q3_K and q6_K
 have no minimum. q2_K and q6_K multiply scale and code first, and then d with their product. That product is exact,
 except where that of q6_K is above 2048. The result is converted to `dtype`. The other formats are computed in f32
 and rounded to dtype.

 Products are added up in f32, in the kernel's own order. The error is at most 1e-5 of the sum of the absolute
 products, for k up to 2^16. The matrix cores of gfx90a may take an f16 below 2^-14 for 0.*/
    pub fn crk_moe_gguf_prefill(
        self_: crk_device_t,
        quant: crk_quant_t,
        dtype: crk_dtype_t,
        experts: usize,
        rows: usize,
        k: usize,
        tokens: usize,
        topk: usize,
        weights: crk_const_view_t,
        x: crk_const_view_t,
        sorted_token_ids: crk_const_view_t,
        expert_ids: crk_const_view_t,
        topk_weights: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** The product with weights that are not quantized: weights, x and dst have `dtype`, F16 or BF16; k is a multiple of 8.
 Sums are f32 as in crk_moe_gguf_prefill, then the scale multiplies, and dst rounds once more. A bf16 below 2^-126 may
 count as 0 (kernels/platform/hip/maths.h in the sources explains where), and so may an f16 below 2^-14 on gfx90a,
 whose matrix cores take it for 0.

 expert_counts\[e\] becomes the number of times that e is in expert_ids. expert_offsets\[e\] becomes the sum of the counts
 before e, and expert_offsets\[experts\] the sum of all. Both are i32, and either may be {NULL, 0}. One launch where
 both are, else two. No scratch memory.*/
    pub fn crk_moe_gemm(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        experts: usize,
        rows: usize,
        k: usize,
        tokens: usize,
        topk: usize,
        weights: crk_const_view_t,
        x: crk_const_view_t,
        sorted_token_ids: crk_const_view_t,
        expert_ids: crk_const_view_t,
        topk_weights: crk_const_view_t,
        dst: crk_view_t,
        expert_counts: crk_view_t,
        expert_offsets: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Chooses the `topk` experts of each of `tokens` tokens. logits are f32, `experts` per token. p is their softmax.
 topk_weights (f32) and topk_ids (u32), both topk per token, get the largest p and their experts, largest first; of
 equal p, the first expert. With `normalise`, a token's weights are divided by their sum. A token with NaN or +inf
 among its logits gets weights of NaN.

 sorted_token_ids and expert_ids (u32, tokens \* topk) get the numbers m of the results and topk_ids\[m\], sorted by
 expert and then by m, as the products above take them. Both may be {NULL, 0}.

 One launch. More than 256 sorted results also take the launches of crk_argsort, and more than 8192 its scratch
 memory: the call then fails as crk_argsort does. At most CRK_MOST_ROUTED_EXPERTS experts, and a topk of at most
 CRK_MOST_ROUTED_TOPK (CRK_UNSUPPORTED) and of at most experts. All views are contiguous, and no two may overlap.*/
    pub fn crk_moe_route(
        self_: crk_device_t,
        experts: usize,
        tokens: usize,
        topk: usize,
        normalise: bool,
        logits: crk_const_view_t,
        topk_weights: crk_view_t,
        topk_ids: crk_view_t,
        sorted_token_ids: crk_view_t,
        expert_ids: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** crk_moe_route of one token whose logits are products: logits\[e\] = the sum over j of weights\[e\]\[j\] \* x\[j\]. weights
 have `experts` rows of k elements; x has k. Both have `dtype`, F32, F16 or BF16. Sums are f32, in the kernel's own
 order; in F16 and BF16 each logit is rounded to dtype, as crk_matmul would. The result is the same in each call.

 It is one launch if k elements are a whole number of 16 bytes, and weights and x are aligned to 16 bytes. Otherwise
 it launches what crk_matmul, crk_cast (unless dtype is F32) and crk_moe_route launch. Scratch memory of up to
 6 \* experts + 4 bytes is allocated and freed in stream order; in a capture it must be reserved or cached. With a topk
 of 0 nothing happens. Limits of experts and topk are those of crk_moe_route. All views are contiguous, and no two may
 overlap, except weights and x.*/
    pub fn crk_moe_router(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        experts: usize,
        k: usize,
        topk: usize,
        normalise: bool,
        weights: crk_const_view_t,
        x: crk_const_view_t,
        topk_weights: crk_view_t,
        topk_ids: crk_view_t,
        sorted_token_ids: crk_view_t,
        expert_ids: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Groups tokens by expert. sorted_token_ids gets the numbers m below `count` with topk_ids\[m\] = 0, in order. They are
 followed by the value `count` up to a multiple of block_size. Then come the numbers with topk_ids\[m\] = 1, and so on.
 After the last expert the rest of the `padded` entries is filled with `count`.

 expert_ids\[b\] becomes the expert of block b, which has block_size entries; -1 after the last block. It has one entry
 for each block of `padded` entries, rounded up. cumsum has experts + 1 entries: entry e is the position where the
 tokens of expert e end, without the padding. The last entry and num_tokens_post_pad\[0\] are the number of entries of
 all blocks. All
 tensors are i32. Two launches, no scratch memory; the result is the same in each call.

 The next synchronisation reports an id that is not an expert; such an id is skipped. It also reports a `padded` that
 is too small; the entries beyond it are not written. count + min(count, experts) \* (block_size - 1) entries are
 always enough. No two views may overlap.*/
    pub fn crk_moe_align(
        self_: crk_device_t,
        experts: usize,
        block_size: usize,
        count: usize,
        padded: usize,
        topk_ids: crk_const_view_t,
        sorted_token_ids: crk_view_t,
        expert_ids: crk_view_t,
        num_tokens_post_pad: crk_view_t,
        cumsum: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[b\]\[t\]\[i\] = the sum over j of weights\[ids\[b\]\[t\]\]\[i\]\[j\] \* x\[b\]\[t or 0\]\[j\], in integers as crk_moe_gguf. ids are
 u32, of batch \* topk elements. x has batch \* inputs \* k elements; `inputs` is topk, or 1 where all experts of a batch
 share one row. `dtype` is that of x and dst. The outputs of an id that is not an expert stay unchanged, and the next
 synchronisation reports it.*/
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
        weights: crk_const_view_t,
        x: crk_const_view_t,
        ids: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = exp(src\[i\] - m) / s, where m is the largest element of the row and s is the sum of exp(src\[j\] - m) over it.
 Large numbers do not overflow. A row of -inf only becomes NaN, and so does a row with +inf or NaN in it.*/
    pub fn crk_softmax(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = src\[i\] / sqrt(mean(src^2) + eps) \* alpha\[i\]. `alpha` has the length of the last dim, is contiguous and must
 not overlap `dst`; {NULL, 0} stands for ones.*/
    pub fn crk_rms_norm(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
        alpha: crk_const_view_t,
        dst: crk_view_t,
        eps: f32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** sum\[i\] = x\[i\] + residual\[i\], rounded to the dtype, and dst = crk_rms_norm of sum: a layer's residual and its next
 norm. {NULL, 0} as `residual` and as `sum` makes dst = crk_rms_norm of x. x, residual, sum and dst are `rows` rows of
 `cols` elements, contiguous from the beginning of their views. sum, dst and columns must not overlap each other or a
 source. The results have the bits of crk_binary and crk_rms_norm of tensors that are aligned alike.

 With `columns`, dst also becomes activations of crk_mul_mat_vec_q8_1, as by crk_quantize_columns: crk_columns_bytes
 bytes, aligned to 4. {NULL, 0} stands for none. Then cols is a multiple of 32, and dtype is not F64.

 One launch where rows are whole packs of 16 bytes, at most 2048 of them, all tensors are aligned to 16 bytes, and the
 dtype is not F64; else up to three.*/
    pub fn crk_add_rms_norm(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        rows: usize,
        cols: usize,
        x: crk_const_view_t,
        residual: crk_const_view_t,
        alpha: crk_const_view_t,
        sum: crk_view_t,
        dst: crk_view_t,
        columns: crk_view_t,
        eps: f32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** sum = crk_rms_norm of x by x_alpha, plus residual; dst = crk_rms_norm of sum by alpha. For layers that normalise what
 they add, such as Gemma's. Each step rounds to the dtype, and both norms have the same `eps`. residual and sum must
 be given; {NULL, 0} as `x_alpha` stands for ones. The rest is as for crk_add_rms_norm, but with up to four
 launches.*/
    pub fn crk_norm_add_rms_norm(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        rows: usize,
        cols: usize,
        x: crk_const_view_t,
        x_alpha: crk_const_view_t,
        residual: crk_const_view_t,
        alpha: crk_const_view_t,
        sum: crk_view_t,
        dst: crk_view_t,
        columns: crk_view_t,
        eps: f32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = (src\[i\] - m) / sqrt(mean((src - m)^2) + eps) \* alpha\[i\] + beta\[i\], where m is the row's mean. The variance
 is the sum of the squared differences, so that nothing cancels. `alpha` and `beta` as `alpha` above; {NULL, 0} as
 `beta` stands for zeros.*/
    pub fn crk_layer_norm(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
        alpha: crk_const_view_t,
        beta: crk_const_view_t,
        dst: crk_view_t,
        eps: f32,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Batch norm with given statistics: dst\[b\]\[c\]\[i\] = (x\[b\]\[c\]\[i\] - mean\[c\]) \* s + bias\[c\], where
 s = weight\[c\] / sqrt(var\[c\] + eps) is computed first. `layout` is that of x and has at least two dims: the batch, the
 channels, and others, which i counts. mean, var, weight and bias have an element per channel, are contiguous and must
 not overlap `dst`. {NULL, 0} stands for ones as `weight`, and for zeros as `bias`. eps is rounded to f32 unless dtype
 is F64.*/
    pub fn crk_batch_norm(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        x: crk_const_view_t,
        mean: crk_const_view_t,
        var: crk_const_view_t,
        weight: crk_const_view_t,
        bias: crk_const_view_t,
        dst: crk_view_t,
        eps: f64,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Group norm: dst\[b\]\[c\]\[i\] = (x\[b\]\[c\]\[i\] - m) \* s + bias\[c\], where m and v are mean and variance of the elements of the
 channel's group in image b, and s = weight\[c\] / sqrt(v + eps). `layout` is that of x and has at least two dims: the
 batch, the channels, and others, which i counts. The `groups` groups divide the channels. weight and bias have an
 element per channel, are contiguous and must not overlap `dst`; {NULL, 0} stands for ones and for zeros. With `silu`,
 dst is silu of that, rounded to the dtype before and after. Statistics are f32, or f64 if dtype is F64; eps is
 rounded to that type. They are joined in a fixed order, so results repeat bit for bit on a device. At most 2^31 - 1
 channels.

 Two launches, or three where groups are long. Scratch memory is 16 bytes per image and channel, and at most 64 KiB
 more; twice as much for F64. Fails with CRK_OUT_OF_MEMORY, and in a capture with CRK_CAPTURE, if there is no
 memory for it.*/
    pub fn crk_group_norm(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        groups: usize,
        silu: bool,
        x: crk_const_view_t,
        weight: crk_const_view_t,
        bias: crk_const_view_t,
        dst: crk_view_t,
        eps: f64,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Begins a generator in `state`, or begins it anew. Equal seeds give equal numbers. One launch. Memory holds a
 generator only after this call.*/
    pub fn crk_random_seed(
        self_: crk_device_t,
        state: crk_view_t,
        seed: u64,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** dst\[i\] = fma(u, hi - lo, lo) for i below `numel`, where u is uniform in \[0, 1): a multiple of 2^-53 in f64, else of
 2^-24. lo and hi are rounded to the dtype first. f64 is computed in f64; the other dtypes are computed in f32, and
 f16 and bf16 are rounded once. lo \<= dst\[i\] \< hi: where rounding would give hi, the result is the greatest number
 below hi. Where lo and hi are equal, or become equal by rounding, every element is lo.

 Fails with CRK_INVALID_ARGUMENT also where lo or hi is not a finite number of the dtype, where lo is above hi, and
 where hi - lo overflows (f32, f64).*/
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
    /** dst\[i\] = fma(z, std, mean) for i below `numel`, where z is normal with mean 0 and variance 1, by the Box-Muller
 transform. The magnitude of z is at most 8.58 in f64, else 6.67. Its error against the formula is at most 5 units in
 the last place. f64 is computed in f64; the other dtypes are computed in f32, and f16 and bf16 are rounded once. A
 result beyond the dtype's range is infinite. A std of 0 gives `mean`; a negative std gives mirrored numbers.

 Fails with CRK_INVALID_ARGUMENT also where mean or std is not finite in f32 (f64).*/
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
    /// The op of a kernel root such as "fast_sum". Fails with CRK_INVALID_ARGUMENT.
    pub fn crk_reduce_op_from_root(
        root: *const ::core::ffi::c_char,
        op: *mut crk_reduce_op_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Reduces `layout` over some of its dims. The list reduced_dims\[0 .. reduced_count\] has the numbers of these dims, in
 any order, each once. dst\[o\] is the op over all elements with the coordinates o in the kept dims. The outputs are in
 row-major order of the kept dims. Without reduced dims each element is reduced by itself. All dtypes.

 `dst` is contiguous from the beginning of its view and has `dtype`. For ARGMIN and ARGMAX it is u32 and holds a
 position among the reduced elements: their row-major order in the layout, whatever the order of reduced_dims.

 SUM: bf16, f16 and f8e4m3 are added up in f32 and rounded once; integers wrap. The order of the additions is not that
 of Candle's kernels. It depends on the shape, the strides, the alignment, and, where several blocks share an output,
 on the number of compute units. It does not depend on the wave width, and it is the same in each call. The error of a
 sum of n elements is at most n / 8 + 32 half units in the last place, in f32 or f64, of the sum of their magnitudes.
 MIN, MAX: in f32, f64 and f8e4m3 a NaN is skipped. Where all elements are NaN, MIN gives +inf and MAX -inf, and in
 f8e4m3 the greatest and the least number. In f16 and bf16 a NaN is the result. -0 is less than +0.
 ARGMIN, ARGMAX: the first of equal elements. A NaN is skipped, but where the first element is NaN, the result is 0,
 as in Candle's CPU backend. At most 2^32 - 1 elements per output (CRK_UNSUPPORTED).

 One launch without scratch memory. Few outputs of many elements take two launches, and scratch memory from crk_alloc,
 which is freed before the return. Several blocks then share an output, and each stores 4 to 16 bytes for it. There
 are at most as many blocks as the device holds at once, of 256 threads each. A block has one output where a reduced
 dim is contiguous, else at most 256 outputs. With 128 compute units of 2048 threads, an f32 sum takes at most 4 KiB
 in the first case and 512 KiB in the second. Before a capture, reserve this memory (crk_memory_reserve) or run the
 call once.

 `dst` and the elements of `src` must not overlap. Without outputs the call succeeds and launches nothing. With
 outputs of no elements, SUM gives zeros and the others fail with CRK_INVALID_ARGUMENT.

 Fails with CRK_INVALID_ARGUMENT (a NULL, an unknown op or dtype, a rank above CRK_MAX_RANK, a reduced dim that the
 layout does not have or that is named twice, memory that overlaps), CRK_OUT_OF_BOUNDS (the layout reaches beyond
 `src`, or `dst` is too small), CRK_UNSUPPORTED, CRK_OUT_OF_MEMORY or CRK_CAPTURE (no scratch memory), or
 CRK_DEVICE.*/
    pub fn crk_reduce(
        self_: crk_device_t,
        op: crk_reduce_op_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
        reduced_dims: *const usize,
        reduced_count: usize,
        dst: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /** Sorts each row of the last dim, which has at most 2^32 - 1 columns. Row r of `dst` becomes the positions of row r of
 `src` in the order of their elements; `dst` is u32, contiguous, with the number of elements of `layout`. Row r of
 `values` becomes the elements in that order, bit for bit; `values` has `dtype` and is contiguous with as many
 elements. {NULL, 0} as `values` leaves them out. `layout` is contiguous from its offset on and has at least rank 1.
 All dtypes.

 The sort is stable: equal elements keep their order, also when descending. -0 equals +0. A NaN of any sign and
 payload equals every other NaN and is larger than every number: last when ascending, first when descending.

 Rows of up to 8192 columns (4096 for dtypes of 8 bytes) take one launch and no scratch memory. Longer rows take
 several launches and scratch memory from crk_alloc, which is given back before the return. It is 16 bytes per element
 (24 for dtypes of 8 bytes) for the rows that are sorted together, and up to 1 KiB more. Rows of up to 2^23 elements
 in all are sorted together; a longer row is sorted alone. For a capture reserve the memory before
 (crk_memory_reserve), or run the call once.

 `dst`, `values` and the elements of `src` must not overlap. An empty layout succeeds and launches nothing.
 Fails with CRK_INVALID_ARGUMENT (a NULL, an unknown dtype, a layout of rank 0 or above CRK_MAX_RANK or that is not
 contiguous, too many columns, memory that overlaps), CRK_OUT_OF_BOUNDS (a view is too small), CRK_OUT_OF_MEMORY or
 CRK_CAPTURE (no scratch memory), or CRK_DEVICE.*/
    pub fn crk_argsort(
        self_: crk_device_t,
        dtype: crk_dtype_t,
        layout: *const crk_layout_t,
        src: crk_const_view_t,
        ascending: bool,
        dst: crk_view_t,
        values: crk_view_t,
    ) -> crk_status_t;
}
unsafe extern "C" {
    /// crk_quantize_q8_1 for `num_rows` rows of `kx` elements, padded to `kx_padded`, a multiple of 32.
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
    /** crk_moe_gguf for f32 activations: `size_m` tokens, and per expert `size_n` rows of `size_k` elements. topk_weights
 may be NULL. It allocates crk_moe_gguf's scratch memory for the quantized activations.*/
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
    /// crk_moe_gguf_prefill for activations of f16 (input_dtype 0) or bf16 (1). expert_ids are device memory.
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
    /// crk_moe_gemm for f16 (dtype 0) or bf16 (1); is_prefill is ignored. expert_ids are device memory.
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
    /// crk_moe_align for `numel` ids. Returns a crk_status_t at once, 0 for success, and keeps no failure.
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
