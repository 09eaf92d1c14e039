/* The module `fill`. fill: dst[i] = value. const_set: the same in a strided tensor. copy2d: copies d1 rows of d2
 * elements. The rows lie src_stride elements apart in src and dst_stride elements apart in dst. All kernels only move
 * bits, so the kernels for csrc/launch/fill.c have one instance per width. */
#include "elementwise/instances.h"

namespace crk {
namespace {

template <class T>
struct constant {
  T value;
  CRK_FN T operator()() const { return value; }
};

template <class T>
CRK_FN void fill(T *dst, T value, uint64_t numel) {
  const named_elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    dst[i] = value;
  }
}

template <class T>
CRK_FN void const_set(uint64_t numel, uint64_t rank, const uint64_t *info, T value, T *dst) {
  const bool contiguous = info == nullptr || is_contiguous(rank, info, info + rank);
  const bool fits = !contiguous && fits_32_bits<1>(numel, rank, info);
  const named_elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t at[1] = {i};
    if (fits) {
      locate<uint32_t>(i, rank, info, at);
    } else if (!contiguous) {
      locate<uint64_t>(i, rank, info, at);
    }
    dst[at[0]] = value;
  }
}

template <class I, class T>
CRK_FN void copy_rows(uint64_t numel, const T *src, T *dst, I width, uint64_t src_stride, uint64_t dst_stride) {
  const named_elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    const I row = static_cast<I>(i) / width, column = static_cast<I>(i) - row * width;
    dst[row * dst_stride + column] = src[row * src_stride + column];
  }
}

template <class T>
CRK_FN void copy2d(const T *src, T *dst, uint32_t d1, uint32_t d2, uint32_t src_stride, uint32_t dst_stride) {
  const uint64_t numel = static_cast<uint64_t>(d1) * d2;
  if (numel <= 0xffffffffu) {
    copy_rows<uint32_t>(numel, src, dst, d2, src_stride, dst_stride);
  } else {
    copy_rows<uint64_t>(numel, src, dst, d2, src_stride, dst_stride);
  }
}

/* The launcher's copy2d, for rows of any length and strides. An element of the space `nd` is a piece of a row: 16
 * aligned bytes of dst. The space counts pieces from the beginning of a row: operand 0 is a piece's offset in src,
 * operand 1 its offset in dst, operand 2 its column. The row may begin between two multiples of 16 bytes. The kernel
 * therefore moves each piece back to the multiple at or before it. `cols` is the number of elements per row. */
template <class T>
CRK_FN void copy_pieces(const crk_nd_t &nd, uint32_t threads, const T *src, T *dst, uint64_t cols) {
  constexpr int V = 16 / sizeof(T);
  const elements e(nd.numel, threads);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t at[3];
    locate(nd, i, at);
    const T *from = src + (at[0] - at[2]);
    T *to = dst + (at[1] - at[2]);
    const uint64_t first = at[2] - reinterpret_cast<uintptr_t>(to) % 16 / sizeof(T);
    if (first < cols && cols - first >= V) {
      store_pack(to + first, load_pack<T, V>(from + first));
    } else {
      CRK_UNROLL
      for (int j = 0; j < V; j++) {
        if (first + j < cols) {
          to[first + j] = from[first + j];
        }
      }
    }
  }
}

}  // namespace
}  // namespace crk

#define CRK_FILL_NAMED(suffix, T)                                                                               \
  CRK_ELEMENTWISE(fill_##suffix, CRK_NAMED_THREADS, (T * dst, T value, uint64_t numel)) {                       \
    crk::fill(dst, value, numel);                                                                               \
  }                                                                                                             \
  CRK_ELEMENTWISE(const_set_##suffix, CRK_NAMED_THREADS,                                                        \
                  (uint64_t numel, uint64_t rank, const uint64_t *info, T value, T *dst)) {                     \
    crk::const_set(numel, rank, info, value, dst);                                                              \
  }                                                                                                             \
  CRK_ELEMENTWISE(copy2d_##suffix, CRK_NAMED_THREADS,                                                           \
                  (const T *src, T *dst, uint32_t d1, uint32_t d2, uint32_t src_stride, uint32_t dst_stride)) { \
    crk::copy2d(src, dst, d1, d2, src_stride, dst_stride);                                                      \
  }
CRK_ALL_TYPES(CRK_FILL_NAMED)

#define CRK_FILL_LAUNCHED(suffix, T)                                                                                  \
  CRK_ELEMENTWISE(fill_##suffix##_vec, CRK_LAUNCHED_THREADS, (uint64_t numel, T value, T *dst, uint32_t threads)) {   \
    crk::map_contiguous(numel, threads, crk::constant<T>{value}, dst);                                                \
  }                                                                                                                   \
  CRK_ELEMENTWISE(const_set_##suffix##_nd, CRK_LAUNCHED_THREADS, (crk_nd_t nd, T value, T * dst, uint32_t threads)) { \
    crk::map_nd<0>(CRK_ND_ARGUMENT(nd), threads, crk::constant<T>{value}, dst);                                       \
  }                                                                                                                   \
  CRK_ELEMENTWISE(copy2d_##suffix##_nd, CRK_LAUNCHED_THREADS,                                                         \
                  (crk_nd_t nd, const T *src, T *dst, uint64_t cols, uint32_t threads)) {                             \
    crk::copy_pieces(CRK_ND_ARGUMENT(nd), threads, src, dst, cols);                                                   \
  }
CRK_BITS_TYPES(CRK_FILL_LAUNCHED)

CRK_MODULE(fill)
