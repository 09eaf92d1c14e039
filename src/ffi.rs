//! Candle's static launchers: the functions of candle-kernels' module of this name, with the same names and arguments.
//!
//! Candle's quantized matrices and its mixtures of experts call these. The last argument is what `crk_device_stream` gave for a
//! live handle. The contracts are the comments of `include/candle_rocm.h`, where the names have `crk_` before them.

pub use crate::sys::{
    crk_launch_mmq_gguf_q2_k as launch_mmq_gguf_q2_k, crk_launch_mmq_gguf_q3_k as launch_mmq_gguf_q3_k,
    crk_launch_mmq_gguf_q4_0 as launch_mmq_gguf_q4_0, crk_launch_mmq_gguf_q4_1 as launch_mmq_gguf_q4_1,
    crk_launch_mmq_gguf_q4_k as launch_mmq_gguf_q4_k, crk_launch_mmq_gguf_q5_0 as launch_mmq_gguf_q5_0,
    crk_launch_mmq_gguf_q5_1 as launch_mmq_gguf_q5_1, crk_launch_mmq_gguf_q5_k as launch_mmq_gguf_q5_k,
    crk_launch_mmq_gguf_q6_k as launch_mmq_gguf_q6_k, crk_launch_mmq_gguf_q8_0 as launch_mmq_gguf_q8_0,
    crk_launch_mmq_quantize_q8_1_D2S6 as launch_mmq_quantize_q8_1_D2S6,
    crk_launch_mmq_quantize_q8_1_D4 as launch_mmq_quantize_q8_1_D4,
    crk_launch_mmq_quantize_q8_1_DS4 as launch_mmq_quantize_q8_1_DS4,
    crk_launch_mmvq_gguf_quantize_q8_1_bf16 as launch_mmvq_gguf_quantize_q8_1_bf16,
    crk_launch_mmvq_gguf_quantize_q8_1_f16 as launch_mmvq_gguf_quantize_q8_1_f16,
    crk_launch_mmvq_gguf_quantize_q8_1_f32 as launch_mmvq_gguf_quantize_q8_1_f32,
};
