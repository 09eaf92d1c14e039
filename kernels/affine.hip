/* The module `affine`: dst[i] = src[i] * mul + add. Float types use one fma, and f8e4m3 computes in f32. Integers wrap.
 * Kernels: affine_<type> with Candle's arguments, affine_<type>_vec and _nd for csrc/launch/affine.c. */
#define CRK_HOST_FMA 1
#include "elementwise/instances.h"

namespace crk {
namespace {

template <class T>
struct affine {
  enum { at_once = same<T, f8e4m3> ? 4 : same<T, bf16> ? 2 : 0 };
  T mul, add;

  CRK_FN T operator()(T x) const {
    if constexpr (floating<T>) {
      using A = stepwise<T>;
      return convert<T>(fma(convert<A>(x), convert<A>(mul), convert<A>(add)));
    } else {
      using W = wrapping<T>;
      return static_cast<T>(static_cast<W>(x) * static_cast<W>(mul) + static_cast<W>(add));
    }
  }
};

}  // namespace
}  // namespace crk

#define CRK_AFFINE(suffix, T)                                                                                  \
  CRK_ELEMENTWISE(affine_##suffix, CRK_NAMED_THREADS,                                                          \
                  (uint64_t numel, uint64_t rank, const uint64_t *info, const T *src, T *dst, T mul, T add)) { \
    crk::map_strided_or_in_place(numel, rank, info, crk::affine<T>{mul, add}, dst, src);                       \
  }                                                                                                            \
  CRK_ELEMENTWISE(affine_##suffix##_vec, CRK_LAUNCHED_THREADS,                                                 \
                  (uint64_t numel, const T *src, T *dst, T mul, T add, uint32_t threads)) {                    \
    crk::map_contiguous(numel, threads, crk::affine<T>{mul, add}, dst, src);                                   \
  }                                                                                                            \
  CRK_ELEMENTWISE(affine_##suffix##_nd, CRK_LAUNCHED_THREADS,                                                  \
                  (crk_nd_t nd, const T *src, T *dst, T mul, T add, uint32_t threads)) {                       \
    crk::map_nd(CRK_ND_ARGUMENT(nd), threads, crk::affine<T>{mul, add}, dst, src);                             \
  }
CRK_ALL_TYPES(CRK_AFFINE)

CRK_MODULE(affine)
