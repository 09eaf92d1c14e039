//! Every change to the released sources, one line per change: the file, the number of places, and the rule (see
//! rules.rs).
//!
//! If the number of places found differs, the program fails and names the line. The release has then changed, and the
//! line must be checked against it.

use crate::hook::{Hook, Package, op, start, text, twins};
use crate::rules::Backend::{Cuda, Metal};
use crate::rules::Rule::*;

/// The release that the counts belong to.
pub const VERSION: &str = "0.11.1";

pub static PACKAGES: [Package; 2] = [
    Package {
        name: "candle-core",
        hooks: CORE,
        // The stand-ins for a backend that is not compiled in.
        copies: &[("src/dummy_cuda_backend.rs", 54), ("src/quantized/dummy_cuda.rs", 32)],
        features: &[
            // The backend with code objects for AMD GPUs.
            ("rocm", &["_rocm", "candle-rocm-sys/rocm"]),
            // The backend with the kernels compiled for the CPU.
            ("rocm-backend", &["_rocm", "candle-rocm-sys/cpu"]),
            // What the code of the backend asks for; programs name one of the two above.
            ("_rocm", &["dep:candle-rocm-sys"]),
        ],
        has_backend: true,
    },
    Package {
        name: "candle-nn",
        hooks: NN,
        copies: &[],
        features: &[
            ("rocm", &["_rocm", "candle/rocm"]),
            ("rocm-backend", &["_rocm", "candle/rocm-backend"]),
            ("_rocm", &["candle/_rocm"]),
        ],
        has_backend: false,
    },
];

const CORE: &[Hook] = &[
    // The device and its variants.
    twins("src/device.rs", 2, Variants, Cuda),
    twins("src/device.rs", 4, Functions, Cuda).outside(&["as_cuda_device"]),
    twins("src/device.rs", 1, Functions, Cuda).inside(&["as_cuda_device"]).replacing(&[(
        "Self::Cpu =>",
        "Self::Cuda(_) => crate::bail!(\"expected a rocm device, got cuda\"),\n            Self::Cpu =>",
    )]),
    twins("src/device.rs", 1, Arms, Metal).inside(&["as_cuda_device"]),
    twins("src/device.rs", 12, Arms, Cuda).outside(RANDOM),
    // Metal's arms are the model here, because they make f16 and bf16 directly and not through f32.
    twins("src/device.rs", 2, Arms, Metal).inside(RANDOM),
    twins("src/storage.rs", 1, Names, Cuda),
    twins("src/storage.rs", 1, Variants, Cuda),
    twins("src/storage.rs", 34, Arms, Cuda),
    twins("src/tensor.rs", 7, Arms, Cuda),
    twins("src/display.rs", 2, Arms, Cuda),
    twins("src/error.rs", 2, Variants, Cuda),
    twins("src/utils.rs", 1, Functions, Cuda),
    twins("src/lib.rs", 5, Items, Cuda).without(&["cudnn", "cutile"]),
    // Output sizes that panic. A transposed convolution with padding subtracts before it adds, and underflows although
    // the result is positive. A pool with stride 0 divides by zero.
    text("src/conv.rs", 1, " - 2 * self.padding\n            + self.dilation", "\n            + self.dilation"),
    text("src/conv.rs", 1, "            + 1\n    }", "            + 1\n            - 2 * self.padding\n    }"),
    text("src/tensor.rs", 2, "is larger than the input size {h},{w}\")\n        }\n", POOL_STRIDE),
    // Custom ops, and the one custom op of candle-core itself.
    twins("src/custom_op.rs", 1, Names, Cuda),
    twins("src/custom_op.rs", 8, Functions, Cuda),
    twins("src/custom_op.rs", 3, Invocations, Cuda),
    twins("src/sort.rs", 1, Functions, Cuda).inside(&["ArgSort"]).body("{ storage.arg_sort(layout, self.asc) }"),
    // Dtypes that are only stored, not computed with.
    twins("src/safetensors.rs", 2, Arms, Cuda)
        .with("CudaStorageSlice")
        .body("Storage::Rocm(device.storage_from_bytes(data, dtype)?),"),
    twins("src/safetensors.rs", 2, Arms, Cuda).with("support not compiled"),
    // Quantized tensors.
    twins("src/quantized/mod.rs", 3, Items, Cuda),
    twins("src/quantized/mod.rs", 1, Variants, Cuda),
    twins("src/quantized/mod.rs", 17, Arms, Cuda).outside(&["indexed_moe_forward"]),
    twins("src/quantized/mod.rs", 1, Arms, Cuda)
        .inside(&["indexed_moe_forward"])
        .replacing(&[("panic!(\"Non-cuda indexed_moe_forward is not implemented!\")", MIXED_MOE)]),
    text("src/quantized/mod.rs", 1, "panic!(\"indexed_moe_forward is not implemented in this platform!\")", MIXED_MOE),
    text("src/quantized/mod.rs", 1, "panic!(\"Not implemented!\")", FLOAT_MOE),
    // Quantization must see the elements of a view, not the whole storage behind it.
    text("src/quantized/mod.rs", 4, ".flatten_all()?;\n        let elem_count", FLAT),
    twins("src/quantized/mod.rs", 1, Functions, Cuda)
        .inside(&["cuda_fwd"])
        .replacing(&[("unreachable!(\"Cannot call cuda matmul on non cuda QTensor\")", WEIGHTS_ELSEWHERE)]),
    // This function is compiled for CUDA only. Its match must be complete with both backends.
    twins("src/quantized/mod.rs", 1, Arms, Metal).inside(&["device_ptr_with_guard"]),
    text("src/quantized/mod.rs", 1, "crate::bail!(\"Invalid storage\")", WEIGHTS_NOT_ON_CPU),
    twins("src/quantized/ggml_file.rs", 1, Arms, Cuda),
    // Tests. `test_device!` with four names still works, for users' tests.
    text("src/test_utils.rs", 1, "macro_rules! test_device {\n", TEST_DEVICE),
    twins("tests/bilinear_tests.rs", 12, Tests, Cuda),
    twins("tests/conv_tests.rs", 9, Tests, Cuda),
    twins("tests/grad_tests.rs", 9, Tests, Cuda),
    twins("tests/layout_tests.rs", 1, Tests, Cuda),
    twins("tests/matmul_tests.rs", 10, Tests, Cuda),
    twins("tests/pool_tests.rs", 4, Tests, Cuda),
    twins("tests/quantized_tests.rs", 26, Tests, Cuda),
    text("tests/quantized_tests.rs", 1, "$fn_name_metal: ident,", "$fn_name_metal: ident, $fn_name_rocm: ident,"),
    text("tests/quantized_tests.rs", 1, "$fn_name_metal);", "$fn_name_metal, $fn_name_rocm);"),
    twins("tests/quantized_tests.rs", 2, Cases, Cuda),
    twins("tests/quantized_tests.rs", 3, Questions, Cuda),
    twins("tests/tensor_tests.rs", 37, Tests, Cuda),
    twins("tests/tensor_tests.rs", 1, Functions, Cuda).inside(&["transfers_cuda_to_device"]).replacing(&[(
        "cudarc::driver::safe::CudaContext::device_count()\n        .map_err(candle_core::cuda::CudaError::from)?",
        "candle_core::rocm_backend::RocmDevice::count()?",
    )]),
    twins("tests/tensor_tests.rs", 1, Functions, Cuda)
        .inside(&["allocates_twice_when_transferring_to_same_device"])
        .replacing(&[
            ("same_device()", "same_device_rocm()"),
            ("use cudarc::driver::DevicePtr;", ""),
            ("let slice = c.as_cuda_slice::<u32>().unwrap();", ""),
            ("let ptr = slice.device_ptr(slice.stream()).0;\n            ptr", "c.buffer().as_ptr()"),
        ]),
    twins("benches/benchmarks/mod.rs", 2, Arms, Cuda),
    twins("benches/benchmarks/mod.rs", 1, ElseIfs, Cuda),
];

const NN: &[Hook] = &[
    // The ops that have device code of their own.
    op("src/ops.rs", &["Sigmoid"], "{ storage.sigmoid(layout) }"),
    op("src/ops.rs", &["SoftmaxLastDim"], "{ storage.softmax_last_dim(layout) }"),
    op("src/ops.rs", &["RmsNorm"], "{ s1.rms_norm(l1, s2, l2, self.eps) }"),
    op("src/ops.rs", &["LayerNorm"], "{ s1.layer_norm(l1, s2, l2, s3, l3, self.eps) }"),
    op("src/rotary_emb.rs", &["RotaryEmbI"], "{ s1.rope_i(l1, s2, l2, s3, l3) }"),
    op("src/rotary_emb.rs", &["RotaryEmb"], "{ s1.rope(l1, s2, l2, s3, l3) }"),
    op("src/rotary_emb.rs", &["RotaryEmbThd"], "{ s1.rope_thd(l1, s2, l2, s3, l3) }"),
    // Mixtures of experts. With CUDA, its functions pass tensors on a ROCm device to ours. Without CUDA, ours replace
    // them.
    start("src/moe.rs", &["moe_gemm"], MOE_GEMM),
    start("src/moe.rs", &["moe_gemm_gguf"], MOE_GEMM_GGUF),
    text(
        "src/moe.rs",
        2,
        "#[cfg(not(feature = \"cuda\"))]",
        "#[cfg(not(any(feature = \"cuda\", feature = \"_rocm\")))]",
    ),
    text("src/moe.rs", 1, "use candle::{Result, Tensor};\n", MOE_NAMES),
    twins("tests/ops.rs", 10, Tests, Cuda),
    twins("benches/benchmarks/mod.rs", 2, Arms, Cuda),
    twins("benches/benchmarks/mod.rs", 1, ElseIfs, Cuda),
];

const RANDOM: &[&str] = &["rand_uniform_f64", "rand_normal_f64"];

const TEST_DEVICE: &str = "\
macro_rules! test_device {
    ($fn_name: ident, $test_cpu: ident, $test_cuda: ident, $test_metal: ident, $test_rocm: ident) => {
        $crate::test_device!($fn_name, $test_cpu, $test_cuda, $test_metal);

        #[cfg(feature = \"_rocm\")]
        #[test]
        fn $test_rocm() -> Result<()> {
            $fn_name(&Device::new_rocm(0)?)
        }
    };
";

const WEIGHTS_NOT_ON_CPU: &str = "\
crate::bail!(\"quantized matmul: the weights are on {:?}, x on Cpu\", self.device().location())";

const WEIGHTS_ELSEWHERE: &str = "\
crate::bail!(
                \"quantized matmul: the weights are on {:?}, x on {:?}\",
                self.device().location(),
                crate::backend::BackendDevice::location(crate::backend::BackendStorage::device(storage))
            )";

const MIXED_MOE: &str = "\
crate::bail!(
                    \"indexed_moe_forward: the weights are on {:?}, x on {:?} and ids on {:?}, not on one GPU\",
                    self.device().location(),
                    x.device().location(),
                    ids.device().location()
                )";

const FLOAT_MOE: &str = "crate::bail!(\"indexed_moe_forward: the weights are plain floats, not quantized blocks\")";

const FLAT: &str = ".flatten_all()?.force_contiguous()?;\n        let elem_count";

const POOL_STRIDE: &str = "\
is larger than the input size {h},{w}\")
        }
        if stride.0 == 0 || stride.1 == 0 {
            bail!(\"stride {stride:?} has a 0\")
        }
";

const MOE_GEMM: &str = "\
#[cfg(feature = \"_rocm\")]
    if input.device().is_rocm() {
        return candle::rocm_backend::moe_gemm(
            input,
            weights,
            topk_weights,
            sorted_token_ids,
            experts_ids,
            topk,
            is_prefill,
        );
    }
";

const MOE_GEMM_GGUF: &str = "\
#[cfg(feature = \"_rocm\")]
    if input.device().is_rocm() {
        return candle::rocm_backend::moe_gemm_gguf(
            input,
            weights,
            topk_weights,
            sorted_token_ids,
            experts_ids,
            topk,
            is_prefill,
            dtype,
        );
    }
";

const MOE_NAMES: &str = "\
#[allow(unused_imports)]
use candle::{Result, Tensor};

#[cfg(all(feature = \"_rocm\", not(feature = \"cuda\")))]
pub use candle::rocm_backend::{moe_gemm, moe_gemm_gguf};
";
