/* The module `indexing`: instances of index_select (is), gather, scatter (s), scatter_add (sa) and index_add (ia).
 * Kernels with Candle's names (indexing/index_named.h) come first, then those for csrc/launch/indexing.c
 * (indexing/indexing.h). Ops that only move bits use an integer of the type's width. */
#include "indexing/indexing.h"

#define CRK_INDEX_NAMED(i, I, suffix, T)                                                                             \
  CRK_ELEMENTWISE(is_##i##_##suffix, CRK_NAMED_THREADS,                                                              \
                  (uint64_t numel, uint64_t rank, const uint64_t *info, const I *ids, const crk::bits_of<T> *src,    \
                   crk::bits_of<T> *dst, uint64_t /* left */, uint64_t src_dim, uint64_t ids_dim, uint64_t right)) { \
    crk::index_select_named(numel, rank, info, ids, src, dst, src_dim, ids_dim, right);                              \
  }                                                                                                                  \
  CRK_ELEMENTWISE(gather_##i##_##suffix, CRK_NAMED_THREADS,                                                          \
                  (uint64_t numel, const I *ids, const crk::bits_of<T> *src, crk::bits_of<T> *dst,                   \
                   uint64_t /* left */, uint64_t src_dim, uint64_t ids_dim, uint64_t right)) {                       \
    crk::gather_named(numel, ids, src, dst, src_dim, ids_dim, right);                                                \
  }                                                                                                                  \
  CRK_ELEMENTWISE(s_##i##_##suffix, CRK_NAMED_THREADS,                                                               \
                  (const I *ids, const crk::bits_of<T> *src, crk::bits_of<T> *dst, uint64_t left, uint64_t src_dim,  \
                   uint64_t dst_dim, uint64_t right)) {                                                              \
    crk::update_named<true, crk::set_op>(ids, src_dim, src, dst, left, dst_dim, right);                              \
  }                                                                                                                  \
  CRK_ELEMENTWISE(                                                                                                   \
      sa_##i##_##suffix, CRK_NAMED_THREADS,                                                                          \
      (const I *ids, const T *src, T *dst, uint64_t left, uint64_t src_dim, uint64_t dst_dim, uint64_t right)) {     \
    crk::update_named<true, crk::add_op>(ids, src_dim, src, dst, left, dst_dim, right);                              \
  }                                                                                                                  \
  CRK_ELEMENTWISE(ia_##i##_##suffix, CRK_NAMED_THREADS,                                                              \
                  (const I *ids, uint64_t ids_dim, const T *src, T *dst, uint64_t left, uint64_t /* src_dim */,      \
                   uint64_t dst_dim, uint64_t right)) {                                                              \
    crk::update_named<false, crk::add_op>(ids, ids_dim, src, dst, left, dst_dim, right);                             \
  }
#define CRK_INDEX_ALL_IDS(suffix, T)        \
  CRK_INDEX_NAMED(u8, uint8_t, suffix, T)   \
  CRK_INDEX_NAMED(u32, uint32_t, suffix, T) \
  CRK_INDEX_NAMED(i16, int16_t, suffix, T)  \
  CRK_INDEX_NAMED(i32, int32_t, suffix, T)  \
  CRK_INDEX_NAMED(i64, int64_t, suffix, T)
CRK_ALL_TYPES(CRK_INDEX_ALL_IDS)

#define CRK_INDEX_LAUNCHED(suffix, T)                                                                               \
  CRK_ELEMENTWISE(index_select_##suffix##_rows, CRK_INDEX_THREADS, (crk_index_select_t call)) {                     \
    CRK_EARLY();                                                                                                    \
    crk::index_select_rows<T>(call);                                                                                \
  }                                                                                                                 \
  CRK_ELEMENTWISE(index_select_##suffix##_pieces, CRK_INDEX_THREADS, (crk_index_select_t call, uint32_t threads)) { \
    crk::index_select<T>(call, threads);                                                                            \
  }                                                                                                                 \
  CRK_ELEMENTWISE(gather_##suffix##_nd, CRK_INDEX_THREADS, (crk_nd_t nd, crk_gather_t call, uint32_t threads)) {    \
    crk::gather<T>(CRK_ND_ARGUMENT(nd), threads, call);                                                             \
  }                                                                                                                 \
  CRK_ELEMENTWISE(scatter_##suffix##_columns, CRK_INDEX_THREADS, (crk_scatter_t call)) {                            \
    crk::scatter<crk::set_op, T>(call);                                                                             \
  }                                                                                                                 \
  CRK_COOPERATIVE(scatter_##suffix##_shared, CRK_INDEX_THREADS, (crk_scatter_t call)) {                             \
    crk::scatter_shared<crk::set_op, T>(CRK_ND_ARGUMENT(call));                                                     \
  }                                                                                                                 \
  CRK_COOPERATIVE(scatter_##suffix##_ranges, CRK_INDEX_THREADS, (crk_index_update_t call)) {                        \
    crk::update_range<crk::set_op, T>(CRK_ND_ARGUMENT(call));                                                       \
  }
CRK_BITS_TYPES(CRK_INDEX_LAUNCHED)

#define CRK_INDEX_ADD_LAUNCHED(suffix, T)                                                      \
  CRK_ELEMENTWISE(scatter_add_##suffix##_columns, CRK_INDEX_THREADS, (crk_scatter_t call)) {   \
    crk::scatter<crk::add_op, T>(call);                                                        \
  }                                                                                            \
  CRK_COOPERATIVE(scatter_add_##suffix##_shared, CRK_INDEX_THREADS, (crk_scatter_t call)) {    \
    crk::scatter_shared<crk::add_op, T>(CRK_ND_ARGUMENT(call));                                \
  }                                                                                            \
  CRK_COOPERATIVE(index_add_##suffix##_ranges, CRK_INDEX_THREADS, (crk_index_update_t call)) { \
    crk::update_range<crk::add_op, T>(CRK_ND_ARGUMENT(call));                                  \
  }
CRK_ALL_TYPES(CRK_INDEX_ADD_LAUNCHED)

CRK_MODULE(indexing)
