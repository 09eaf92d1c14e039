/* index_select (is), gather, scatter (s), scatter_add (sa), index_add (ia). */
#include "common/indexing.h"

#include "common/instance.h"

/* ---- By name: <op>_<type of the ids>_<type> ---- */

#define CRK_INDEX_SELECT_NAMED(i, I, suffix, T)                                                          \
  CRK_ELEMENTWISE(is_##i##_##suffix, CRK_NAMED_THREADS,                                                  \
                  (uint64_t numel, uint64_t, const uint64_t *, const I *ids, const crk::bits_of<T> *src, \
                   crk::bits_of<T> *dst, uint64_t, uint64_t dim, uint64_t count, uint64_t right)) {      \
    crk::pick_named<false>(numel, ids, src, dst, dim, count, right);                                     \
  }
#define CRK_GATHER_NAMED(i, I, suffix, T)                                                                    \
  CRK_ELEMENTWISE(gather_##i##_##suffix, CRK_NAMED_THREADS,                                                  \
                  (uint64_t numel, const I *ids, const crk::bits_of<T> *src, crk::bits_of<T> *dst, uint64_t, \
                   uint64_t dim, uint64_t count, uint64_t right)) {                                          \
    crk::pick_named<true>(numel, ids, src, dst, dim, count, right);                                          \
  }
#define CRK_SCATTER_NAMED(i, I, suffix, T)                                                                        \
  CRK_ELEMENTWISE(s_##i##_##suffix, CRK_NAMED_THREADS,                                                            \
                  (const I *ids, const crk::bits_of<T> *src, crk::bits_of<T> *dst, uint64_t left, uint64_t count, \
                   uint64_t dim, uint64_t right)) {                                                               \
    crk::put_named<true>(ids, src, dst, left, count, dim, right, crk::replace{});                                 \
  }
#define CRK_SCATTER_ADD_NAMED(i, I, suffix, T)                                                                         \
  CRK_ELEMENTWISE(sa_##i##_##suffix, CRK_NAMED_THREADS,                                                                \
                  (const I *ids, const T *src, T *dst, uint64_t left, uint64_t count, uint64_t dim, uint64_t right)) { \
    crk::put_named<true>(ids, src, dst, left, count, dim, right, crk::add{});                                          \
  }
/* The source's size along the dim is the number of ids: Candle's kernel does not read it. */
#define CRK_INDEX_ADD_NAMED(i, I, suffix, T)                                                                         \
  CRK_ELEMENTWISE(                                                                                                   \
      ia_##i##_##suffix, CRK_NAMED_THREADS,                                                                          \
      (const I *ids, uint64_t count, const T *src, T *dst, uint64_t left, uint64_t, uint64_t dim, uint64_t right)) { \
    crk::put_named<false>(ids, src, dst, left, count, dim, right, crk::add{});                                       \
  }

#define CRK_INDEXING_NAMED(i, I, suffix, T) \
  CRK_INDEX_SELECT_NAMED(i, I, suffix, T)   \
  CRK_GATHER_NAMED(i, I, suffix, T)         \
  CRK_SCATTER_ADD_NAMED(i, I, suffix, T)    \
  CRK_INDEX_ADD_NAMED(i, I, suffix, T)
#define CRK_INDEXING_ALL_IDS(suffix, T)        \
  CRK_INDEXING_NAMED(u8, uint8_t, suffix, T)   \
  CRK_INDEXING_NAMED(u32, uint32_t, suffix, T) \
  CRK_INDEXING_NAMED(i64, int64_t, suffix, T)  \
  CRK_SCATTER_NAMED(u8, uint8_t, suffix, T)    \
  CRK_SCATTER_NAMED(u32, uint32_t, suffix, T)  \
  CRK_SCATTER_NAMED(i64, int64_t, suffix, T)
CRK_ALL_TYPES(CRK_INDEXING_ALL_IDS)
CRK_INDEXING_NAMED(i16, int16_t, f8_e4m3, crk::f8e4m3)
CRK_INDEXING_NAMED(i32, int32_t, f8_e4m3, crk::f8e4m3)

/* ---- Launched. What moves bits goes by width; rows of index_select by the widest piece that divides them. ---- */

#define CRK_GATHER_LAUNCHED(i, I, suffix, T)                               \
  CRK_ELEMENTWISE(gather_##i##_##suffix##_pick, CRK_INDEXING_THREADS,      \
                  (crk_pick_t call, const I *ids, const T *src, T *dst)) { \
    crk::pick_launched<true>(CRK_ND_ARGUMENT(call), ids, src, dst);        \
  }
#define CRK_INDEX_SELECT_LAUNCHED(i, I, suffix, T)                         \
  CRK_ELEMENTWISE(is_##i##_##suffix##_pick, CRK_INDEXING_THREADS,          \
                  (crk_pick_t call, const I *ids, const T *src, T *dst)) { \
    crk::pick_launched<false>(CRK_ND_ARGUMENT(call), ids, src, dst);       \
  }
#define CRK_SCATTER_LAUNCHED(i, I, suffix, T)                                                                      \
  CRK_KERNEL(s_##i##_##suffix##_put, CRK_INDEXING_THREADS, (crk_put_t call, const I *ids, const T *src, T *dst)) { \
    crk::put_launched(CRK_ND_ARGUMENT(call), ids, src, dst, crk::replace{});                                       \
  }
#define CRK_MOVES_LAUNCHED(suffix, T)                 \
  CRK_GATHER_LAUNCHED(u8, uint8_t, suffix, T)         \
  CRK_GATHER_LAUNCHED(u32, uint32_t, suffix, T)       \
  CRK_GATHER_LAUNCHED(i64, int64_t, suffix, T)        \
  CRK_SCATTER_LAUNCHED(u8, uint8_t, suffix, T)        \
  CRK_SCATTER_LAUNCHED(u32, uint32_t, suffix, T)      \
  CRK_SCATTER_LAUNCHED(i64, int64_t, suffix, T)       \
  CRK_INDEX_SELECT_LAUNCHED(u8, uint8_t, suffix, T)   \
  CRK_INDEX_SELECT_LAUNCHED(u32, uint32_t, suffix, T) \
  CRK_INDEX_SELECT_LAUNCHED(i64, int64_t, suffix, T)
CRK_BITS_TYPES(CRK_MOVES_LAUNCHED)
CRK_INDEX_SELECT_LAUNCHED(u8, uint8_t, b128, crk::piece)
CRK_INDEX_SELECT_LAUNCHED(u32, uint32_t, b128, crk::piece)
CRK_INDEX_SELECT_LAUNCHED(i64, int64_t, b128, crk::piece)

#define CRK_ADDS_LAUNCHED(i, I, suffix, T)                                                                          \
  CRK_KERNEL(sa_##i##_##suffix##_put, CRK_INDEXING_THREADS, (crk_put_t call, const I *ids, const T *src, T *dst)) { \
    crk::put_launched(CRK_ND_ARGUMENT(call), ids, src, dst, crk::add{});                                            \
  }                                                                                                                 \
  CRK_COOPERATIVE(ia_##i##_##suffix##_put, CRK_INDEXING_THREADS,                                                    \
                  (crk_put_t call, const I *ids, const T *src, T *dst)) {                                           \
    crk::index_add_launched(CRK_ND_ARGUMENT(call), ids, src, dst);                                                  \
  }
#define CRK_ADDS_ALL_IDS(suffix, T)           \
  CRK_ADDS_LAUNCHED(u8, uint8_t, suffix, T)   \
  CRK_ADDS_LAUNCHED(u32, uint32_t, suffix, T) \
  CRK_ADDS_LAUNCHED(i64, int64_t, suffix, T)
CRK_INTEGER_TYPES(CRK_ADDS_ALL_IDS)
CRK_FLOAT_TYPES(CRK_ADDS_ALL_IDS)
CRK_ADDS_ALL_IDS(f8_e4m3, crk::f8e4m3)

CRK_MODULE(indexing)
