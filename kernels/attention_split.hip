/* Kernels of the module `attention_split`: attention for few queries (attention/attention_split.h). This file only
 * names the instances. */
#include "attention/attention_split_cores.h"
#include "attention/attention_split_lanes.h"

namespace crk {
namespace {

/* Whether matrix cores serve heads of this width. */
template <class T, int Width>
CRK_FN constexpr bool has_cores() {
#if CRK_STREAM_CORES
  if constexpr (half<T>) {
    return Width <= static_cast<int>(stream_core<T>::most_width);
  }
#endif
  return false;
}

template <class T, int Width, bool General>
CRK_FN void attention_split(const crk_attention_call_t &call) {
  if constexpr (has_cores<T, Width>()) {
#if CRK_STREAM_CORES
    attention_split_cores<T, Width, General>(call);
#endif
  } else {
    wait_for_launch_before();
    attention_split_lanes<T, Width, General>(call);
  }
}

}  // namespace
}  // namespace crk

/* Waves per SIMD unit. The shared memory of the widest kernels leaves room for one block of four waves. */
#define CRK_ATTENTION_SPLIT_WAVES(width) ((width) <= 256 ? 2 : 1)

#define CRK_ATTENTION_SPLIT_OF(suffix, T, width)                                                                    \
  CRK_STREAMING(attention_##suffix##_##width##_split, crk::split_threads, CRK_ATTENTION_SPLIT_WAVES(width),         \
                (crk_attention_call_t call)) {                                                                      \
    CRK_BEGINS_EARLY();                                                                                             \
    crk::attention_split<T, width, false>(CRK_ND_ARGUMENT(call));                                                   \
  }                                                                                                                 \
  CRK_STREAMING(attention_##suffix##_##width##_split_general, crk::split_threads, CRK_ATTENTION_SPLIT_WAVES(width), \
                (crk_attention_call_t call)) {                                                                      \
    CRK_BEGINS_EARLY();                                                                                             \
    crk::attention_split<T, width, true>(CRK_ND_ARGUMENT(call));                                                    \
  }
#define CRK_ATTENTION_COMBINE_OF(suffix, T)                                                                   \
  CRK_COOPERATIVE(attention_##suffix##_combine, CRK_ATTENTION_COMBINE_THREADS, (crk_attention_call_t call)) { \
    CRK_EARLY();                                                                                              \
    crk::attention_combine<T>(CRK_ND_ARGUMENT(call));                                                         \
  }
#define CRK_ATTENTION_SPLIT_F16(width, rows, threads)  CRK_ATTENTION_SPLIT_OF(f16, crk::f16, width)
#define CRK_ATTENTION_SPLIT_BF16(width, rows, threads) CRK_ATTENTION_SPLIT_OF(bf16, crk::bf16, width)
#define CRK_ATTENTION_SPLIT_F32(width, rows, threads)  CRK_ATTENTION_SPLIT_OF(f32, float, width)

CRK_ATTENTION_WIDTHS(CRK_ATTENTION_SPLIT_F16)
CRK_ATTENTION_WIDTHS(CRK_ATTENTION_SPLIT_BF16)
CRK_ATTENTION_WIDTHS(CRK_ATTENTION_SPLIT_F32)
CRK_ATTENTION_COMBINE_OF(f16, crk::f16)
CRK_ATTENTION_COMBINE_OF(bf16, crk::bf16)
CRK_ATTENTION_COMBINE_OF(f32, float)

CRK_MODULE(attention_split)
