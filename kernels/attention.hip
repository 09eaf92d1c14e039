/* Kernels of the module `attention`: fused attention (attention/attention_tile.h). This file only names the
 * instances. */
#include "attention/attention_tile.h"

/* Waves per SIMD unit: two, unless the sums take more registers than two waves of CDNA have. In f32 a step has fewer
 * keys, and two waves have room for it up to a width of 256, or 192 with all options of a score. */
#define CRK_ATTENTION_WAVES(T, width, rows, general) \
  ((sizeof(T) == 4 ? (width) <= ((general) ? 192 : 256) : (width) * (rows) <= 128 * 128) ? 2 : 1)

#define CRK_ATTENTION_TILES(suffix, T, width, rows, threads, name, general)                                   \
  CRK_STREAMING(attention_##suffix##_##width##_##name, threads, CRK_ATTENTION_WAVES(T, width, rows, general), \
                (crk_attention_call_t call)) {                                                                \
    crk::attention_tile<T, width, rows, threads, general>(call);                                              \
  }
#define CRK_ATTENTION_OF(suffix, T, width, rows, threads)            \
  CRK_ATTENTION_TILES(suffix, T, width, rows, threads, tiles, false) \
  CRK_ATTENTION_TILES(suffix, T, width, rows, threads, tiles_general, true)
#if defined(__CUDACC__) && !defined(__HIP__)
#define CRK_ATTENTION_LARGE(suffix, T, width, rows, threads)                          \
  CRK_ATTENTION_OF(suffix, T, width, CRK_ATTENTION_CUDA_ROWS(sizeof(T), width, rows), \
                   (threads) / (CRK_ATTENTION_CUDA_CORES(sizeof(T), width) ? 2 : 1))
#else
#define CRK_ATTENTION_LARGE CRK_ATTENTION_OF
#endif
/* A wave has at least 16 rows, so that four waves of 64 lanes share the rows of a small tile. */
#define CRK_ATTENTION_SMALL_THREADS(T, threads) (crk::near_core<T>::team == 64 ? (threads) : (threads) / 2)
#define CRK_ATTENTION_SMALL(suffix, T, width, threads)                                                              \
  CRK_ATTENTION_TILES(suffix, T, width, CRK_ATTENTION_SMALL_ROWS, CRK_ATTENTION_SMALL_THREADS(T, threads), tiles64, \
                      false)                                                                                        \
  CRK_ATTENTION_TILES(suffix, T, width, CRK_ATTENTION_SMALL_ROWS, CRK_ATTENTION_SMALL_THREADS(T, threads),          \
                      tiles64_general, true)

#define CRK_ATTENTION_BF16(width, rows, threads)       CRK_ATTENTION_LARGE(bf16, crk::bf16, width, rows, threads)
#define CRK_ATTENTION_F16(width, rows, threads)        CRK_ATTENTION_LARGE(f16, crk::f16, width, rows, threads)
#define CRK_ATTENTION_F32(width, rows, threads)        CRK_ATTENTION_LARGE(f32, float, width, rows, threads)
#define CRK_ATTENTION_SMALL_BF16(width, rows, threads) CRK_ATTENTION_SMALL(bf16, crk::bf16, width, threads)
#define CRK_ATTENTION_SMALL_F16(width, rows, threads)  CRK_ATTENTION_SMALL(f16, crk::f16, width, threads)
/* Without the general kernels, of which one would not fit into RDNA 4's instruction cache. */
#define CRK_ATTENTION_SMALL_F32(width, rows, threads)                                                           \
  CRK_ATTENTION_TILES(f32, float, width, CRK_ATTENTION_SMALL_ROWS, CRK_ATTENTION_SMALL_THREADS(float, threads), \
                      tiles64, false)

CRK_ATTENTION_WIDTHS(CRK_ATTENTION_BF16)
CRK_ATTENTION_WIDTHS(CRK_ATTENTION_F16)
CRK_ATTENTION_WIDTHS(CRK_ATTENTION_F32)
CRK_ATTENTION_NARROW_WIDTHS(CRK_ATTENTION_SMALL_BF16)
CRK_ATTENTION_NARROW_WIDTHS(CRK_ATTENTION_SMALL_F16)
CRK_ATTENTION_NARROW_WIDTHS(CRK_ATTENTION_SMALL_F32)
#if !defined(__CUDACC__) || defined(__HIP__)
CRK_ATTENTION_WIDE_WIDTHS(CRK_ATTENTION_SMALL_BF16)
CRK_ATTENTION_WIDE_WIDTHS(CRK_ATTENTION_SMALL_F16)
#endif

CRK_MODULE(attention)
