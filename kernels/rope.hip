/* Kernels of the module `rope`: rotary embeddings for the launcher crk_rope (reduce/rope_pairs.h). This file only names
 * the instances. */
#include "elementwise/instances.h"
#include "reduce/rope_pairs.h"

#define CRK_ROPE_PAIRS(root, suffix, T, way, V, H, interleaved)                                                      \
  CRK_ELEMENTWISE(root##_##suffix##_##way, CRK_LAUNCHED_THREADS,                                                     \
                  (crk_nd_t nd, const T *src, const T *cos, const T *sin, T *dst, uint64_t half, uint64_t head_step, \
                   uint32_t threads)) {                                                                              \
    crk::rope_pairs<V, H, interleaved>(CRK_ND_ARGUMENT(nd), threads, src, cos, sin, dst, half, head_step);           \
  }
#define CRK_ROPE_WAYS(root, suffix, T, interleaved)                       \
  CRK_ROPE_PAIRS(root, suffix, T, pair, 1, 1, interleaved)                \
  CRK_ROPE_PAIRS(root, suffix, T, heads1, 16 / sizeof(T), 1, interleaved) \
  CRK_ROPE_PAIRS(root, suffix, T, heads2, 16 / sizeof(T), 2, interleaved)
#define CRK_ROPE_LAUNCHED(suffix, T)    \
  CRK_ROPE_WAYS(rope, suffix, T, false) \
  CRK_ROPE_WAYS(rope_i, suffix, T, true)
CRK_FLOAT_TYPES(CRK_ROPE_LAUNCHED)
CRK_ROPE_PAIRS(rope, f32, float, heads4, 4, 4, false)
CRK_ROPE_PAIRS(rope_i, f32, float, heads4, 4, 4, true)
CRK_ROPE_PAIRS(rope, f64, double, heads4, 2, 4, false)
CRK_ROPE_PAIRS(rope_i, f64, double, heads4, 2, 4, true)

/* Both pieces of a row at once: vec takes 16 bytes of each, pair one element. */
#define CRK_ROPE_QKV(root, suffix, T, way, V, interleaved)                                                           \
  CRK_ELEMENTWISE(root##_qkv_##suffix##_##way, CRK_LAUNCHED_THREADS, (crk_rope_qkv_call_t call, uint32_t threads)) { \
    CRK_EARLY();                                                                                                     \
    crk::rope_qkv<V, interleaved, T>(CRK_ND_ARGUMENT(call), threads);                                                \
  }
#define CRK_ROPE_QKVS(suffix, T)                            \
  CRK_ROPE_QKV(rope, suffix, T, pair, 1, false)             \
  CRK_ROPE_QKV(rope, suffix, T, vec, 16 / sizeof(T), false) \
  CRK_ROPE_QKV(rope_i, suffix, T, pair, 1, true)            \
  CRK_ROPE_QKV(rope_i, suffix, T, vec, 16 / sizeof(T), true)
CRK_FLOAT_TYPES(CRK_ROPE_QKVS)

#define CRK_NORM_ROPE_QKV(from, S, to, T)                              \
  CRK_COOPERATIVE(norm_rope_qkv_##from##_##to, CRK_LAUNCHED_THREADS,   \
                  (crk_norm_rope_qkv_call_t call, uint32_t threads)) { \
    CRK_EARLY();                                                       \
    crk::norm_rope_qkv<S, T>(CRK_ND_ARGUMENT(call), threads);          \
  }
CRK_NORM_ROPE_QKV(f32, float, f32, float)
CRK_NORM_ROPE_QKV(f32, float, f16, crk::f16)
CRK_NORM_ROPE_QKV(f32, float, bf16, crk::bf16)
CRK_NORM_ROPE_QKV(f16, crk::f16, f16, crk::f16)
CRK_NORM_ROPE_QKV(bf16, crk::bf16, bf16, crk::bf16)

CRK_MODULE(rope)
