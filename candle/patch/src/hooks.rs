//! The changes to parts of Candle's lines, one line per change: the file, the number of places, and the rule (see
//! rules.rs).
//!
//! If the number of places found differs, the program fails and names the line. Candle has then changed, and the line
//! must be checked against it. `.or(..)` are the numbers of other releases, and `.when(..)` is a text of the sources
//! without which a hook has nothing to do.
//!
//! Most changes to candle-transformers replace whole lines. They are in the folder `changes`, as diffs.

use crate::hook::{Hook, Package, SOME, op, start, text, twins};
use crate::rules::Backend::{Cuda, Metal};
use crate::rules::Rule::*;

/// The releases whose sources these hooks were compared with. The newest is last. A checkout was: main of 2026-08-14.
pub const RELEASES: &[&str] = &["0.9.2", "0.10.2", "0.11.0", "0.11.1"];

/// Files of the folder `changes`.
macro_rules! diffs {
    [$($name:literal),* $(,)?] => {
        &[$((concat!($name, ".diff"), include_str!(concat!("../changes/", $name, ".diff")))),*]
    };
}

pub static PACKAGES: &[Package] = &[
    Package {
        name: "candle-core",
        released: true,
        hooks: CORE,
        changes: &[],
        // The stand-ins for a backend that is not compiled in.
        copies: &[("src/dummy_cuda_backend.rs", 54..=54), ("src/quantized/dummy_cuda.rs", 29..=32)],
        features: &[
            // The backend with code objects for AMD GPUs.
            ("rocm", &["_rocm", "candle-rocm-sys/rocm"]),
            // The backend with the kernels compiled for the CPU.
            ("rocm-backend", &["_rocm", "candle-rocm-sys/cpu"]),
            // Collectives, beside one of the two above.
            ("rccl", &["_rocm"]),
            // What the code of the backend asks for; programs name one of the first two.
            ("_rocm", &["dep:candle-rocm-sys"]),
        ],
        added: &[("quantized.rs", "src/quantized/rocm.rs"), ("*", "src/rocm_backend/")],
    },
    Package {
        name: "candle-nn",
        released: true,
        hooks: NN,
        changes: &[],
        copies: &[],
        features: &[
            ("rocm", &["_rocm", "candle/rocm"]),
            ("rocm-backend", &["_rocm", "candle/rocm-backend"]),
            ("_rocm", &["candle/_rocm"]),
        ],
        added: &[
            ("moe.rs", "src/moe/rocm.rs"),
            ("fused.rs", "src/fused.rs"),
            ("fused_attention.rs", "src/fused/attention.rs"),
            ("products.rs", "src/fused/products.rs"),
        ],
    },
    Package {
        name: "candle-flash-attn",
        released: true,
        hooks: FLASH_ATTN,
        changes: &[],
        copies: &[],
        features: &[
            ("rocm", &["_rocm", "candle/rocm"]),
            ("rocm-backend", &["_rocm", "candle/rocm-backend"]),
            ("_rocm", &["candle/_rocm"]),
        ],
        added: &[("flash_attn.rs", "src/rocm.rs"), ("flash_attn_build.rs", "build_rocm.rs")],
    },
    Package {
        name: "candle-transformers",
        released: true,
        hooks: TRANSFORMERS,
        changes: diffs![
            "attention",
            "attention_encoders",
            "sampling",
            "rope",
            "rope_norms",
            "rope_quantized",
            "products",
            "gates",
            "group_norms",
            "norms",
            "residuals",
            "residuals_quantized",
            "experts",
        ],
        copies: &[],
        features: &[
            ("rocm", &["candle/rocm", "candle-nn/rocm", "candle-flash-attn?/rocm"]),
            ("rocm-backend", &["candle/rocm-backend", "candle-nn/rocm-backend", "candle-flash-attn?/rocm-backend"]),
        ],
        added: &[],
    },
    Package {
        name: "candle-examples",
        released: false,
        hooks: EXAMPLES,
        changes: &[],
        copies: &[],
        features: &[
            (
                "rocm",
                &["_rocm", "candle/rocm", "candle-nn/rocm", "candle-transformers/rocm", "candle-flash-attn?/rocm"],
            ),
            (
                "rocm-backend",
                &[
                    "_rocm",
                    "candle/rocm-backend",
                    "candle-nn/rocm-backend",
                    "candle-transformers/rocm-backend",
                    "candle-flash-attn?/rocm-backend",
                ],
            ),
            ("_rocm", &[]),
        ],
        added: &[],
    },
    Package {
        name: "candle-pyo3",
        released: false,
        hooks: PYO3,
        changes: &[],
        copies: &[],
        features: &[("rocm", &["candle/rocm"]), ("rocm-backend", &["candle/rocm-backend"])],
        added: &[],
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
    // 0.11.1 has one function for custom in-place ops of any number of sources, with an `InplaceOpN`.
    twins("src/storage.rs", 34, Arms, Cuda).or(&[36]),
    twins("src/tensor.rs", 7, Arms, Cuda),
    text("src/tensor.rs", 1, "\nimpl Tensor {\n", WITH_LAYOUT),
    twins("src/storage.rs", 1, Beginnings, Cuda).or(&[3]).inside(INPLACE).with("&mut self").body(WRITTEN),
    twins("src/display.rs", 2, Arms, Cuda),
    twins("src/error.rs", 2, Variants, Cuda),
    twins("src/utils.rs", 1, Functions, Cuda),
    twins("src/lib.rs", 5, Items, Cuda).without(&["cudnn", "cutile"]),
    // Weights go from a file to a device through pinned memory.
    text("src/quantized/gguf_file.rs", 1, "        let mut raw_data = vec![0u8; size_in_bytes];\n", GGUF_READ),
    // Output sizes that panic. A transposed convolution with padding subtracts before it adds, and underflows although
    // the result is positive. A pool with stride 0 divides by zero. Both changes are made only in builds with the
    // feature.
    twins("src/conv.rs", 1, Beginnings, Cuda).inside(&["l_out"]).with("self.output_padding").body(CONV_SIZE),
    // All groups of a convolution in one call, where Candle makes one for each group and joins the results.
    text("src/conv.rs", 1, ONE_CONV1D[0], ONE_CONV1D[1]),
    text("src/conv.rs", 1, ONE_CONV2D[0], ONE_CONV2D[1]),
    text("src/conv.rs", 1, ONE_CONV_TRANSPOSE1D[0], ONE_CONV_TRANSPOSE1D[1]),
    text("src/tensor.rs", 2, "is larger than the input size {h},{w}\")\n        }\n", POOL_STRIDE),
    // Custom ops, and the one custom op of candle-core itself.
    twins("src/custom_op.rs", 1, Names, Cuda),
    // UgIOp1 gets no twin: its kernels are CUDA's. It belongs to the feature `ug`, which 0.11.1 has no more. On a ROCm
    // device the op gives an error.
    twins("src/custom_op.rs", 8, Functions, Cuda).or(&[6]).outside(&["UgIOp1"]),
    twins("src/custom_op.rs", 3, Invocations, Cuda).when("InplaceOpN"),
    twins("src/sort.rs", 1, Functions, Cuda).inside(&["ArgSort"]).body("{ storage.arg_sort(layout, self.asc) }"),
    // Dtypes that are only stored, not computed with.
    twins("src/safetensors.rs", 2, Arms, Cuda)
        .with("CudaStorageSlice")
        .body("Storage::Rocm(device.storage_from_bytes(data, dtype)?),"),
    twins("src/safetensors.rs", 2, Arms, Cuda).with("support not compiled"),
    // Quantized tensors.
    twins("src/quantized/mod.rs", 3, Items, Cuda),
    twins("src/quantized/mod.rs", 1, Variants, Cuda),
    twins("src/quantized/mod.rs", 17, Arms, Cuda).or(&[16]).outside(&["indexed_moe_forward"]),
    twins("src/quantized/mod.rs", 1, Arms, Cuda)
        .inside(&["indexed_moe_forward"])
        .replacing(&[("panic!(\"Non-cuda indexed_moe_forward is not implemented!\")", MIXED_MOE)]),
    text("src/quantized/mod.rs", 1, "panic!(\"indexed_moe_forward is not implemented in this platform!\")", OTHER_MOE),
    text("src/quantized/mod.rs", 1, "panic!(\"Not implemented!\")", FLOAT_MOE),
    // Quantization must see the elements of a view, not the whole storage behind it.
    text("src/quantized/mod.rs", 4, ".flatten_all()?;\n        let elem_count", FLAT),
    twins("src/quantized/mod.rs", 1, Functions, Cuda)
        .inside(&["cuda_fwd"])
        .replacing(&[("unreachable!(\"Cannot call cuda matmul on non cuda QTensor\")", WEIGHTS_ELSEWHERE)]),
    // This function is compiled for CUDA only. Its match must be complete with both backends.
    twins("src/quantized/mod.rs", 1, Arms, Metal).inside(&["device_ptr_with_guard"]).when("device_ptr_with_guard"),
    text("src/quantized/mod.rs", 1, "crate::bail!(\"Invalid storage\")", WEIGHTS_NOT_ON_CPU),
    twins("src/quantized/ggml_file.rs", 1, Arms, Cuda),
    // Tests. `test_device!` with four names still works, for users' tests. candle/test counts the tests.
    text("src/test_utils.rs", 1, "macro_rules! test_device {\n", TEST_DEVICE),
    twins("tests/bilinear_tests.rs", SOME, Tests, Cuda),
    twins("tests/conv_tests.rs", SOME, Tests, Cuda),
    twins("tests/grad_tests.rs", SOME, Tests, Cuda),
    twins("tests/layout_tests.rs", SOME, Tests, Cuda),
    twins("tests/matmul_tests.rs", SOME, Tests, Cuda),
    twins("tests/pool_tests.rs", SOME, Tests, Cuda),
    twins("tests/quantized_tests.rs", SOME, Tests, Cuda),
    text("tests/quantized_tests.rs", 1, "$fn_name_metal: ident,", "$fn_name_metal: ident, $fn_name_rocm: ident,"),
    text("tests/quantized_tests.rs", 1, "$fn_name_metal);", "$fn_name_metal, $fn_name_rocm);"),
    // The s of a block of activations is the sum of its codes here, as on the CPU, and that of its values with CUDA.
    twins("tests/quantized_tests.rs", 1, Arms, Cuda).inside(&["quantized_matmul"]).replacing(&[
        ("84866.0, 214045.0, 344676.0, 473707.0", "85118.0, 214553.0, 345440.0, 474727.0"),
        ("213425.0, 604313.0, 1000431.0, 1387960.0", "213487.0, 604503.0, 1000749.0, 1388406.0"),
    ]),
    twins("tests/quantized_tests.rs", 1, Arms, Cuda).inside(&["quantized_matmul_neg"]).replacing(&[
        ("243740.0, -19762.0, -285476.0, -550498.0", "243527.0, -19596.0, -285054.0, -549819.0"),
        ("-196045.0, 63030.0, 324120.0, 587079.0", "-196493.0, 63028.0, 324626.0, 587969.0"),
    ]),
    twins("tests/quantized_tests.rs", 3, Questions, Cuda),
    twins("tests/tensor_tests.rs", SOME, Tests, Cuda),
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
    // Metal is the model: attention has no CUDA code here.
    twins("src/ops.rs", 1, Functions, Metal).inside(&["Sdpa"]).body(SDPA),
    // Mixtures of experts. With CUDA, its functions pass tensors on a ROCm device to ours. Without CUDA, ours replace
    // them.
    start("src/moe.rs", &["moe_gemm"], MOE_GEMM),
    start("src/moe.rs", &["moe_gemm_gguf"], MOE_GEMM_GGUF),
    text("src/moe.rs", 2, "#[cfg(not(feature = \"cuda\"))]", NEITHER),
    text("src/moe.rs", 1, "use candle::{Result, Tensor};\n", MOE_NAMES),
    // Ops that models do together. `ConcatKvCache::append` stays as it is, because programs may need the contiguous
    // tensors that it returns; `append_normed` grows in place. The other two caches have memory, which
    // `append_rotated` writes to without a copy.
    text("src/lib.rs", 1, "pub mod func;\n", "pub mod func;\npub mod fused;\n"),
    text("src/layer_norm.rs", 1, "\nimpl RmsNorm {\n", NORM_SUM),
    text("src/batch_norm.rs", 1, "fn forward_eval(&self, x: &Tensor) -> Result<Tensor> {\n", BATCH_NORM),
    text("src/group_norm.rs", 1, "let x_dtype = x.dtype();\n", GROUP_NORM),
    text("src/group_norm.rs", 1, "impl crate::Module for GroupNorm {\n", GROUP_NORM_SILU),
    text("src/kv_cache.rs", 1, "impl ConcatKvCache {\n", APPEND_NORMED).or(&[0]),
    text("src/kv_cache.rs", 1, "impl Cache {\n", SLOT),
    text("src/kv_cache.rs", 1, "impl RotatingCache {\n", ROTATING_SLOT),
    text("src/kv_cache.rs", 2, "pub fn k(&self) -> Result<Option<Tensor>> {\n", APPEND_ROTATED),
    twins("tests/ops.rs", SOME, Tests, Cuda),
    twins("tests/sdpa.rs", 1, Items, Metal),
    twins("benches/benchmarks/mod.rs", 2, Arms, Cuda),
    twins("benches/benchmarks/mod.rs", 1, ElseIfs, Cuda),
];

const FLASH_ATTN: &[Hook] = &[
    text("src/lib.rs", 1, "mod ffi;\n", FLASH_MODULES),
    text("src/lib.rs", 1, "\nuse candle::cuda_backend::", "\n#[cfg(feature = \"cuda\")]\nuse candle::cuda_backend::"),
    text("src/lib.rs", 2, "\nimpl FlashAttn", "\n#[cfg(feature = \"cuda\")]\nimpl FlashAttn"),
    text("src/lib.rs", 2, "fn cuda_fwd(", FLASH_FWD),
    // Some releases have no paged caches.
    text("src/lib.rs", 1, "\nstruct FlashAttnVarLen {", FLASH_PAGES).when("page_block_size"),
    text("src/lib.rs", 1, "\nstruct FlashAttnVarLen {", FLASH_NO_PAGES).when("driver::DevicePtr;"),
    text("build.rs", 1, "fn main() ->", "pub fn main() ->"),
    // The tests take the device that is there.
    text(
        "tests/flash_attn_tests.rs",
        5,
        "Device::new_cuda(0)?",
        "Device::new_cuda(0).or_else(|_| Device::new_rocm(0))?",
    )
    .or(&[3]),
];

// The models of candle-transformers call the functions of `candle_nn::fused`, which are one launch each on a ROCm
// device and the ops that they replace elsewhere.
const TRANSFORMERS: &[Hook] = &[
    // Where Candle asks for Metal.
    twins("src/", SOME, Questions, Metal),
    // Caches of keys and values grow in place, in every model that is written in these words.
    text("src/models/", SOME, "Tensor::cat(&[prev_k, ", "candle_nn::fused::grow(&[prev_k, "),
    text("src/models/", SOME, "Tensor::cat(&[prev_v, ", "candle_nn::fused::grow(&[prev_v, "),
    text("src/models/", SOME, "Tensor::cat(&[k_cache, ", "candle_nn::fused::grow(&[k_cache, "),
    text("src/models/", SOME, "Tensor::cat(&[v_cache, ", "candle_nn::fused::grow(&[v_cache, "),
    text("src/models/", SOME, "Tensor::cat(&[cache_k, &k], 2)?.contiguous()?", GROW_CACHE_K),
    text("src/models/", SOME, "Tensor::cat(&[cache_v, &v], 2)?.contiguous()?", GROW_CACHE_V),
    text("src/models/", 1, "Tensor::cat(&[k_cache, &k], 2)?.contiguous()?", GROW_K_CACHE).or(&[0]),
    text("src/models/", 1, "Tensor::cat(&[v_cache, &v], 2)?.contiguous()?", GROW_V_CACHE).or(&[0]),
];

const EXAMPLES: &[Hook] = &[
    twins("src/lib.rs", 1, Names, Cuda),
    twins("src/lib.rs", 1, ElseIfs, Cuda),
    // The dtypes that programs choose for a GPU, and the settings of the quantized products.
    twins("examples/", SOME, Questions, Cuda),
    twins("examples/", SOME, Calls, Cuda),
    // Examples that look for a device themselves.
    text("examples/mnist-training/", 2, "candle::Device::cuda_if_available(0)?", "candle_examples::device(false)?"),
    text("examples/voxtral/model.rs", 1, "} else {\n            Device::Cpu\n", VOXTRAL_DEVICE),
    text(
        "examples/voxtral/main.rs",
        1,
        "#[cfg(feature = \"cuda\")]",
        "#[cfg(any(feature = \"cuda\", feature = \"_rocm\"))]",
    ),
    text("examples/voxtral/main.rs", 1, "#[cfg(not(feature = \"cuda\"))]", NEITHER),
];

const PYO3: &[Hook] = &[
    twins("src/lib.rs", 1, Items, Cuda),
    twins("src/lib.rs", 1, Variants, Cuda),
    twins("src/lib.rs", 4, Arms, Cuda),
    twins("src/lib.rs", 1, Functions, Cuda),
    text("src/lib.rs", 1, "    m.add_function(wrap_pyfunction!(cuda_is_available, m)?)?;\n", PY_FUNCTIONS),
];

const INPLACE: &[&str] = &["inplace_op", "inplace_op1", "inplace_op2", "inplace_op3"];

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

const NEITHER: &str = "#[cfg(not(any(feature = \"cuda\", feature = \"_rocm\")))]";

const WEIGHTS_NOT_ON_CPU: &str = "\
if cfg!(feature = \"_rocm\") {
                crate::bail!(\"quantized matmul: the weights are on {:?}, x on Cpu\", self.device().location())
            } else {
                crate::bail!(\"Invalid storage\")
            }";

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

const OTHER_MOE: &str = "\
if cfg!(feature = \"_rocm\") {
                    crate::bail!(
                        \"indexed_moe_forward: the weights are on {:?}, x on {:?} and ids on {:?}, not on one GPU\",
                        self.device().location(),
                        x.device().location(),
                        ids.device().location()
                    )
                } else {
                    panic!(\"indexed_moe_forward is not implemented in this platform!\")
                }";

const FLOAT_MOE: &str = "\
if cfg!(feature = \"_rocm\") {
                    crate::bail!(\"indexed_moe_forward: the weights are plain floats, not quantized blocks\")
                } else {
                    panic!(\"Not implemented!\")
                }";

const FLAT: &str = "\
.flatten_all()?;
        #[cfg(feature = \"_rocm\")]
        let src = src.force_contiguous()?;
        let elem_count";

const CONV_SIZE: &str = "\
if cfg!(feature = \"_rocm\") {
            let span = self.dilation * (self.k_size - 1) + self.output_padding + 1;
            return (self.l_in - 1) * self.stride + span - 2 * self.padding;
        }
";

/// The beginning of the choice between one group and several, and what stands there in its place.
macro_rules! one_convolution {
    ($single:literal, $params:literal, $outputs:literal) => {
        [
            concat!("        if groups == 1 {\n            self.", $single, "("),
            concat!(
                "        #[cfg(feature = \"_rocm\")]\n",
                "        let (params, groups) = match crate::rocm_backend::takes_groups(self, kernel) {\n",
                "            true => (",
                $params,
                " { ",
                $outputs,
                ", ..params }, 1),\n",
                "            false => (params, groups),\n",
                "        };\n",
                "        if groups == 1 {\n            self.",
                $single,
                "("
            ),
        ]
    };
}
const ONE_CONV1D: [&str; 2] = one_convolution!("conv1d_single_group", "ParamsConv1D", "c_out");
const ONE_CONV2D: [&str; 2] = one_convolution!("conv2d_single_group", "ParamsConv2D", "c_out");
const ONE_CONV_TRANSPOSE1D: [&str; 2] =
    one_convolution!("conv_transpose1d_single_group", "ParamsConvTranspose1D", "c_out: c_out * groups");

const WITH_LAYOUT: &str = "
impl Tensor {
    /// The tensor of another layout in the same storage.
    #[cfg(feature = \"_rocm\")]
    pub(crate) fn with_layout(&self, layout: Layout) -> Self {
        let tensor_ = Tensor_ {
            id: TensorId::new(),
            storage: self.storage.clone(),
            layout,
            op: BackpropOp::none(),
            is_variable: false,
            dtype: self.dtype,
            device: self.device.clone(),
        };
        Tensor(Arc::new(tensor_))
    }

";

const APPEND_NORMED: &str = "\
impl ConcatKvCache {
    /// Normalises the heads of queries and keys, rotates them, and appends the keys and the values:
    /// `fused::norm_rope_grow`. Tensors are (batch, heads, tokens, d). Returns the queries, and all keys and values,
    /// which may not be contiguous.
    pub fn append_normed(
        &mut self,
        qkv: [&Tensor; 3],
        norms: [crate::fused::Norm<'_>; 2],
        angles: [&Tensor; 2],
    ) -> Result<(Tensor, Tensor, Tensor)> {
        if self.dim != 2 {
            candle::bail!(\"append_normed: the cache grows along dim {}, not 2\", self.dim)
        }
        let kept = self.k.as_ref().zip(self.v.as_ref());
        let [q, k, v] = crate::fused::norm_rope_grow(qkv, norms, angles, kept)?;
        (self.k, self.v) = (Some(k.detach()), Some(v.detach()));
        Ok((q, k, v))
    }

";

const SLOT: &str = "\
impl Cache {
    /// The memory of the next `count` rows. None if the cache has none, and where dim 2 does not count the rows.
    fn slot(&self, count: usize) -> Result<Option<Tensor>> {
        let fits = self.dim == 2 && self.current_seq_len + count <= self.max_seq_len;
        let data = self.all_data.as_ref().filter(|_| fits);
        data.map(|data| data.narrow(self.dim, self.current_seq_len, count)).transpose()
    }

    /// All rows, after the slot of `count` rows was written.
    fn filled(&mut self, count: usize) -> Result<Tensor> {
        self.current_seq_len += count;
        Ok(self.current_data()?.expect(\"a cache with a slot\"))
    }

";

const ROTATING_SLOT: &str = "\
impl RotatingCache {
    /// The memory of the next `count` rows. None if the cache has none in one piece, and where dim 2 does not count the
    /// rows.
    fn slot(&self, count: usize) -> Result<Option<Tensor>> {
        let fits = self.dim == 2 && count < self.max_seq_len && self.offset + count <= self.max_seq_len;
        let data = self.all_data.as_ref().filter(|_| fits);
        data.map(|data| data.narrow(self.dim, self.offset, count)).transpose()
    }

    /// All rows, after the slot of `count` rows was written.
    fn filled(&mut self, count: usize) -> Result<Tensor> {
        self.offset = (self.offset + count) % self.max_seq_len;
        self.current_seq_len += count;
        Ok(self.current_data()?.expect(\"a cache with a slot\"))
    }

";

const APPEND_ROTATED: &str = "\
/// Rotates new queries and keys, normalised first with `norms`, and appends the keys and the values. Tensors are
    /// (batch, heads, tokens, d). Returns the queries, and the keys and values that `append` returns.
    pub fn append_rotated(
        &mut self,
        qkv: [&Tensor; 3],
        norms: Option<[crate::fused::Norm<'_>; 2]>,
        angles: [&Tensor; 2],
    ) -> Result<[Tensor; 3]> {
        let count = qkv[1].dim(self.k.dim)?;
        let slots = self.k.slot(count)?.zip(self.v.slot(count)?);
        let (written, [q, k, v]) = crate::fused::rope_into(qkv, norms, angles, slots)?;
        let (k, v) = if written { (self.k.filled(count)?, self.v.filled(count)?) } else { self.append(&k, &v)? };
        Ok([q, k, v])
    }

    /// `append_rotated` of the queries, keys and values that three layers make of `x` (batch, tokens, k). `heads` are
    /// the numbers of heads of queries and of keys.
    pub fn append_products(
        &mut self,
        layers: [&dyn crate::fused::Product; 3],
        x: &Tensor,
        heads: [usize; 2],
        angles: [&Tensor; 2],
    ) -> Result<[Tensor; 3]> {
        let count = x.dim(1)?;
        let slots = self.k.slot(count)?.zip(self.v.slot(count)?);
        if let Some(q) = crate::fused::products_rope_into(layers, x, heads, angles, slots)? {
            return Ok([q, self.k.filled(count)?, self.v.filled(count)?]);
        }
        let [q, k, v] = crate::fused::products_of_heads(layers, x, heads)?;
        self.append_rotated([&q, &k, &v], None, angles)
    }

    pub fn k(&self) -> Result<Option<Tensor>> {
";

const GROW_CACHE_K: &str = "candle_nn::fused::grow_contiguous(&[cache_k, &k], 2)?";
const GROW_CACHE_V: &str = "candle_nn::fused::grow_contiguous(&[cache_v, &v], 2)?";
const GROW_K_CACHE: &str = "candle_nn::fused::grow_contiguous(&[k_cache, &k], 2)?";
const GROW_V_CACHE: &str = "candle_nn::fused::grow_contiguous(&[v_cache, &v], 2)?";

const NORM_SUM: &str = "
impl RmsNorm {
    /// `x + residual`, and the norm of that sum.
    pub fn forward_sum(&self, x: &Tensor, residual: &Tensor) -> Result<(Tensor, Tensor)> {
        crate::fused::add_rms_norm(x, residual, &self.0.weight, self.0.eps)
    }

    /// Its factors and epsilon.
    pub fn parameters(&self) -> crate::fused::Norm<'_> {
        crate::fused::Norm { weight: &self.0.weight, eps: self.0.eps }
    }

";

const BATCH_NORM: &str = "\
fn forward_eval(&self, x: &Tensor) -> Result<Tensor> {
        let (mean, var) = (self.running_mean.as_detached_tensor(), self.running_var.as_detached_tensor());
        let affine = self.weight_and_bias.as_ref().map(|(weight, bias)| [weight, bias]);
        if let Some(normed) = crate::fused::batch_norm_once(x, [&mean, &var], affine, self.eps)? {
            return Ok(normed);
        }
";

const GROUP_NORM_SILU: &str = "\
impl GroupNorm {
    /// Silu of the norm.
    pub fn forward_silu(&self, x: &Tensor) -> Result<Tensor> {
        if x.rank() > 2 && x.dim(1)? == self.num_channels {
            let affine = [&self.weight, &self.bias];
            if let Some(normed) = crate::fused::group_norm_once(x, self.num_groups, true, affine, self.eps)? {
                return Ok(normed);
            }
        }
        crate::ops::silu(&crate::Module::forward(self, x)?)
    }
}

impl crate::Module for GroupNorm {
";

const GROUP_NORM: &str = "\
let affine = [&self.weight, &self.bias];
        if let Some(normed) = crate::fused::group_norm_once(x, self.num_groups, false, affine, self.eps)? {
            return Ok(normed);
        }
        let x_dtype = x.dtype();
";

const WRITTEN: &str = "\
#[cfg(feature = \"_rocm\")]
        if let Storage::Rocm(storage) = self {
            storage.written();
        }
";

const POOL_STRIDE: &str = "\
is larger than the input size {h},{w}\")
        }
        if cfg!(feature = \"_rocm\") && (stride.0 == 0 || stride.1 == 0) {
            bail!(\"stride {stride:?} has a 0\")
        }
";

const SDPA: &str = "\
{
        let scoring = candle::rocm_backend::Scoring {
            mask: self.mask.as_ref(),
            causal: self.do_causal,
            left: None,
            scale: self.scale,
            softcap: Some(self.softcapping).filter(|cap| *cap != 1.0),
        };
        q.sdpa(q_l, (k, k_l), (v, v_l), &scoring)
    }";

const FLASH_MODULES: &str = "\
#![allow(clippy::too_many_arguments)]
#![cfg_attr(not(feature = \"cuda\"), allow(dead_code, unused_imports))]

#[cfg(feature = \"cuda\")]
mod ffi;
#[cfg(feature = \"_rocm\")]
mod rocm;
";

const FLASH_FWD: &str = "\
#[cfg(feature = \"_rocm\")]
    fn rocm_fwd(
        &self,
        q: &candle::RocmStorage,
        q_l: &Layout,
        k: &candle::RocmStorage,
        k_l: &Layout,
        v: &candle::RocmStorage,
        v_l: &Layout,
    ) -> Result<(candle::RocmStorage, Shape)> {
        self.on_rocm((q, q_l), (k, k_l), (v, v_l))
    }

    #[cfg(feature = \"cuda\")]
    fn cuda_fwd(";

const FLASH_PAGES: &str = "
#[cfg(feature = \"_rocm\")]
impl FlashAttnVarLen {
    fn pages(&self) -> rocm::Pages<'_> {
        rocm::Pages {
            block_table: self.block_table.as_ref(),
            block: self.page_block_size,
            prefixes: self.mm_prefix_ranges.as_ref(),
        }
    }
}

struct FlashAttnVarLen {";

const FLASH_NO_PAGES: &str = "
#[cfg(feature = \"_rocm\")]
impl FlashAttnVarLen {
    fn pages(&self) -> rocm::Pages<'_> {
        rocm::Pages::default()
    }
}

struct FlashAttnVarLen {";

const MOE_GEMM: &str = "\
#[cfg(feature = \"_rocm\")]
    if input.device().is_rocm() {
        return rocm::moe_gemm(
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

const GGUF_READ: &str = r#"        #[cfg(feature = "_rocm")]
        if let Device::Rocm(device) = device {
            reader.seek(std::io::SeekFrom::Start(tensor_data_offset.saturating_add(self.offset)))?;
            let read = super::rocm::QRocmStorage::read(device, self.ggml_dtype, size_in_bytes, reader)?;
            if let Some(storage) = read {
                return QTensor::new(super::QStorage::Rocm(storage), self.shape.clone());
            }
        }
        let mut raw_data = vec![0u8; size_in_bytes];
"#;
const MOE_GEMM_GGUF: &str = "\
#[cfg(feature = \"_rocm\")]
    if input.device().is_rocm() {
        return rocm::moe_gemm_gguf(
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

#[cfg(feature = \"_rocm\")]
mod rocm;
#[cfg(feature = \"_rocm\")]
pub(crate) use rocm::{gate_gguf, sum_gguf};
#[cfg(all(feature = \"_rocm\", not(feature = \"cuda\")))]
pub use rocm::{moe_gemm, moe_gemm_gguf};
";

const VOXTRAL_DEVICE: &str = "\
} else if !use_cpu && utils::rocm_is_available() {
            Device::new_rocm(0).context(\"Failed to create ROCm device\")?
        } else {
            Device::Cpu
";

const PY_FUNCTIONS: &str = "    m.add_function(wrap_pyfunction!(cuda_is_available, m)?)?;
    m.add_function(wrap_pyfunction!(rocm_is_available, m)?)?;
";
