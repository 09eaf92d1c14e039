//! Candle's static launchers: the functions of candle-kernels' module of this name, with the same names and arguments.
//!
//! Candle's quantized matrices and its mixtures of experts call these. The last argument is what `crk_device_stream` gave for a
//! live handle. The contracts are the comments of `include/candle_rocm.h`, where the names have `crk_` before them.

pub use crate::sys::{
    crk_launch_mmvq_gguf_quantize_q8_1_bf16 as launch_mmvq_gguf_quantize_q8_1_bf16,
    crk_launch_mmvq_gguf_quantize_q8_1_f16 as launch_mmvq_gguf_quantize_q8_1_f16,
    crk_launch_mmvq_gguf_quantize_q8_1_f32 as launch_mmvq_gguf_quantize_q8_1_f32,
};
