//! Candle's static launchers: the functions of candle-kernels' module of this name, with the same names and arguments.
//!
//! Candle's quantized matrices and mixtures of experts call these. The last argument is the stream of a live handle
//! ([`crate::Device::stream`]). Ids out of range are reported to the object in whose [`crate::Device::reporting`] the
//! call is made. A call outside it reports to the handle's own reports: the next synchronisation of any object that has
//! none of its own returns them. The contracts are the comments of `include/candle_rocm/ffi.h`, where the names begin
//! with `crk_`.

pub use crate::sys::{
    crk_candle_launch_moe_align as candle_launch_moe_align, crk_launch_mmq_gguf_q2_k as launch_mmq_gguf_q2_k,
    crk_launch_mmq_gguf_q3_k as launch_mmq_gguf_q3_k, crk_launch_mmq_gguf_q4_0 as launch_mmq_gguf_q4_0,
    crk_launch_mmq_gguf_q4_1 as launch_mmq_gguf_q4_1, crk_launch_mmq_gguf_q4_k as launch_mmq_gguf_q4_k,
    crk_launch_mmq_gguf_q5_0 as launch_mmq_gguf_q5_0, crk_launch_mmq_gguf_q5_1 as launch_mmq_gguf_q5_1,
    crk_launch_mmq_gguf_q5_k as launch_mmq_gguf_q5_k, crk_launch_mmq_gguf_q6_k as launch_mmq_gguf_q6_k,
    crk_launch_mmq_gguf_q8_0 as launch_mmq_gguf_q8_0,
    crk_launch_mmq_quantize_q8_1_D2S6 as launch_mmq_quantize_q8_1_D2S6,
    crk_launch_mmq_quantize_q8_1_D4 as launch_mmq_quantize_q8_1_D4,
    crk_launch_mmq_quantize_q8_1_DS4 as launch_mmq_quantize_q8_1_DS4,
    crk_launch_mmvq_gguf_q2_k_bf16_plain as launch_mmvq_gguf_q2_k_bf16_plain,
    crk_launch_mmvq_gguf_q2_k_f16_plain as launch_mmvq_gguf_q2_k_f16_plain,
    crk_launch_mmvq_gguf_q2_k_f32_plain as launch_mmvq_gguf_q2_k_f32_plain,
    crk_launch_mmvq_gguf_q3_k_bf16_plain as launch_mmvq_gguf_q3_k_bf16_plain,
    crk_launch_mmvq_gguf_q3_k_f16_plain as launch_mmvq_gguf_q3_k_f16_plain,
    crk_launch_mmvq_gguf_q3_k_f32_plain as launch_mmvq_gguf_q3_k_f32_plain,
    crk_launch_mmvq_gguf_q4_0_bf16_plain as launch_mmvq_gguf_q4_0_bf16_plain,
    crk_launch_mmvq_gguf_q4_0_f16_plain as launch_mmvq_gguf_q4_0_f16_plain,
    crk_launch_mmvq_gguf_q4_0_f32_plain as launch_mmvq_gguf_q4_0_f32_plain,
    crk_launch_mmvq_gguf_q4_1_bf16_plain as launch_mmvq_gguf_q4_1_bf16_plain,
    crk_launch_mmvq_gguf_q4_1_f16_plain as launch_mmvq_gguf_q4_1_f16_plain,
    crk_launch_mmvq_gguf_q4_1_f32_plain as launch_mmvq_gguf_q4_1_f32_plain,
    crk_launch_mmvq_gguf_q4_k_bf16_plain as launch_mmvq_gguf_q4_k_bf16_plain,
    crk_launch_mmvq_gguf_q4_k_f16_plain as launch_mmvq_gguf_q4_k_f16_plain,
    crk_launch_mmvq_gguf_q4_k_f32_plain as launch_mmvq_gguf_q4_k_f32_plain,
    crk_launch_mmvq_gguf_q5_0_bf16_plain as launch_mmvq_gguf_q5_0_bf16_plain,
    crk_launch_mmvq_gguf_q5_0_f16_plain as launch_mmvq_gguf_q5_0_f16_plain,
    crk_launch_mmvq_gguf_q5_0_f32_plain as launch_mmvq_gguf_q5_0_f32_plain,
    crk_launch_mmvq_gguf_q5_1_bf16_plain as launch_mmvq_gguf_q5_1_bf16_plain,
    crk_launch_mmvq_gguf_q5_1_f16_plain as launch_mmvq_gguf_q5_1_f16_plain,
    crk_launch_mmvq_gguf_q5_1_f32_plain as launch_mmvq_gguf_q5_1_f32_plain,
    crk_launch_mmvq_gguf_q5_k_bf16_plain as launch_mmvq_gguf_q5_k_bf16_plain,
    crk_launch_mmvq_gguf_q5_k_f16_plain as launch_mmvq_gguf_q5_k_f16_plain,
    crk_launch_mmvq_gguf_q5_k_f32_plain as launch_mmvq_gguf_q5_k_f32_plain,
    crk_launch_mmvq_gguf_q6_k_bf16_plain as launch_mmvq_gguf_q6_k_bf16_plain,
    crk_launch_mmvq_gguf_q6_k_f16_plain as launch_mmvq_gguf_q6_k_f16_plain,
    crk_launch_mmvq_gguf_q6_k_f32_plain as launch_mmvq_gguf_q6_k_f32_plain,
    crk_launch_mmvq_gguf_q8_0_bf16_plain as launch_mmvq_gguf_q8_0_bf16_plain,
    crk_launch_mmvq_gguf_q8_0_f16_plain as launch_mmvq_gguf_q8_0_f16_plain,
    crk_launch_mmvq_gguf_q8_0_f32_plain as launch_mmvq_gguf_q8_0_f32_plain,
    crk_launch_mmvq_gguf_quantize_q8_1_bf16 as launch_mmvq_gguf_quantize_q8_1_bf16,
    crk_launch_mmvq_gguf_quantize_q8_1_f16 as launch_mmvq_gguf_quantize_q8_1_f16,
    crk_launch_mmvq_gguf_quantize_q8_1_f32 as launch_mmvq_gguf_quantize_q8_1_f32, crk_moe_gemm_gguf as moe_gemm_gguf,
    crk_moe_gemm_gguf_prefill as moe_gemm_gguf_prefill, crk_moe_gemm_wmma as moe_gemm_wmma,
};
