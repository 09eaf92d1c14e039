/* The module `cast`: dst[i] = src[i], converted by `convert` of numbers/element_types.h. Kernels: cast_<from>_<to> by
 * Candle's arguments, cast_<from>_<to>_vec and _nd for csrc/launch/cast.c. */
#include "elementwise/instances.h"

namespace crk {
namespace {

template <class To, class From>
struct cast {
  CRK_FN To operator()(From x) const { return convert<To>(x); }
};

}  // namespace
}  // namespace crk

#define CRK_CAST(s, S, d, D)                                                                                          \
  CRK_ELEMENTWISE(cast_##s##_##d, CRK_NAMED_THREADS,                                                                  \
                  (uint64_t numel, uint64_t rank, const uint64_t *info, const S *src, D *dst)) {                      \
    crk::map_strided(numel, rank, info, crk::cast<D, S>{}, dst, src);                                                 \
  }                                                                                                                   \
  CRK_ELEMENTWISE(cast_##s##_##d##_vec, CRK_LAUNCHED_THREADS,                                                         \
                  (uint64_t numel, const S *src, D *dst, uint32_t threads)) {                                         \
    crk::map_contiguous(numel, threads, crk::cast<D, S>{}, dst, src);                                                 \
  }                                                                                                                   \
  CRK_ELEMENTWISE(cast_##s##_##d##_nd, CRK_LAUNCHED_THREADS, (crk_nd_t nd, const S *src, D *dst, uint32_t threads)) { \
    crk::map_nd(CRK_ND_ARGUMENT(nd), threads, crk::cast<D, S>{}, dst, src);                                           \
  }

/* Written out because CRK_ALL_TYPES cannot expand within its own expansion. */
#define CRK_CASTS_FROM(s, S)      \
  CRK_CAST(s, S, u8, uint8_t)     \
  CRK_CAST(s, S, u32, uint32_t)   \
  CRK_CAST(s, S, i16, int16_t)    \
  CRK_CAST(s, S, i32, int32_t)    \
  CRK_CAST(s, S, i64, int64_t)    \
  CRK_CAST(s, S, bf16, crk::bf16) \
  CRK_CAST(s, S, f16, crk::f16)   \
  CRK_CAST(s, S, f32, float)      \
  CRK_CAST(s, S, f64, double)     \
  CRK_CAST(s, S, f8_e4m3, crk::f8e4m3)
CRK_ALL_TYPES(CRK_CASTS_FROM)

CRK_MODULE(cast)
