/* The module `ternary`: where, dst[i] = ids[i] != 0 ? t[i] : f[i]. Kernels: where_<ids>_<type> with Candle's arguments.
 * Since `where` only moves bits, the kernels for csrc/launch/ternary.c have one instance per width:
 * where_<ids>_<width>_vec, _nd and _row. */
#include "elementwise/instances.h"
#include "elementwise/shared_row.h"

namespace crk {
namespace {

struct where_op {
  template <class I, class T>
  CRK_FN T operator()(I id, T t, T f) const {
    return id != 0 ? t : f;
  }
};

}  // namespace
}  // namespace crk

#define CRK_WHERE_NAMED(i, I, suffix, T)                                                                        \
  CRK_ELEMENTWISE(where_##i##_##suffix, CRK_NAMED_THREADS,                                                      \
                  (uint64_t numel, uint64_t rank, const uint64_t *info, const I *ids, const crk::bits_of<T> *t, \
                   const crk::bits_of<T> *f, crk::bits_of<T> *dst)) {                                           \
    crk::map_strided(numel, rank, info, crk::where_op{}, dst, ids, t, f);                                       \
  }
#define CRK_WHERE_ALL_IDS(suffix, T)        \
  CRK_WHERE_NAMED(u8, uint8_t, suffix, T)   \
  CRK_WHERE_NAMED(u32, uint32_t, suffix, T) \
  CRK_WHERE_NAMED(i16, int16_t, suffix, T)  \
  CRK_WHERE_NAMED(i32, int32_t, suffix, T)  \
  CRK_WHERE_NAMED(i64, int64_t, suffix, T)
CRK_INTEGER_TYPES(CRK_WHERE_ALL_IDS)
CRK_FLOAT_TYPES(CRK_WHERE_ALL_IDS)
CRK_WHERE_ALL_IDS(fp8_e4m3, crk::f8e4m3)

#define CRK_WHERE_LAUNCHED(i, I, suffix, T)                                                           \
  CRK_ELEMENTWISE(where_##i##_##suffix##_vec, CRK_LAUNCHED_THREADS,                                   \
                  (uint64_t numel, const I *ids, const T *t, const T *f, T *dst, uint32_t threads)) { \
    crk::map_contiguous(numel, threads, crk::where_op{}, dst, ids, t, f);                             \
  }                                                                                                   \
  CRK_ELEMENTWISE(where_##i##_##suffix##_nd, CRK_LAUNCHED_THREADS,                                    \
                  (crk_nd_t nd, const I *ids, const T *t, const T *f, T *dst, uint32_t threads)) {    \
    crk::map_nd(CRK_ND_ARGUMENT(nd), threads, crk::where_op{}, dst, ids, t, f);                       \
  }
/* For an operand that is one row shared by all rows (elementwise/shared_row.h). ids are bytes, as comparisons make
 * them. With wider ids such a kernel would be no faster. */
#define CRK_WHERE_ROW(suffix, T)                                                                                   \
  CRK_ELEMENTWISE(where_b8_##suffix##_row, CRK_LAUNCHED_THREADS,                                                   \
                  (crk_shared_row_t rows, const uint8_t *ids, const T *t, const T *f, T *dst, uint32_t threads)) { \
    crk::map_shared_row(CRK_ND_ARGUMENT(rows), threads, crk::where_op{}, dst, ids, t, f);                          \
  }
#define CRK_WHERE_ALL_WIDTHS(suffix, T)        \
  CRK_WHERE_LAUNCHED(b8, uint8_t, suffix, T)   \
  CRK_WHERE_LAUNCHED(b16, uint16_t, suffix, T) \
  CRK_WHERE_LAUNCHED(b32, uint32_t, suffix, T) \
  CRK_WHERE_LAUNCHED(b64, uint64_t, suffix, T) \
  CRK_WHERE_ROW(suffix, T)
CRK_BITS_TYPES(CRK_WHERE_ALL_WIDTHS)

CRK_MODULE(ternary)
