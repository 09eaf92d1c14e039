/* The module `gate`: dst[i] = activation(gate[i]) * up[i], for csrc/launch/gate.c. The kernels are
 * gate_<activation>_<type>_vec and _nd. A kernel whose name ends in _columns also quantizes the result. To add an
 * activation, write a functor and a line in CRK_GATE_OPS, both in elementwise/activations.h. */
#include "elementwise/activations.h"
#include "elementwise/instances.h"
#include "quantized/q8_1.h"

namespace crk {
namespace {

/* dst = gate(x, up) for `packs` packs of 16 bytes, and the same as q8_1 blocks (quantized/q8_1.h). The grid has
 * `blocks` blocks of threads. All pointers are aligned to 16 bytes. */
template <class Op, class T>
CRK_FN void gate_columns(const T *x, const T *up, T *dst, block_q8_1 *columns, uint64_t packs, uint32_t blocks) {
  constexpr int V = 16 / static_cast<int>(sizeof(T));
  for (uint64_t first = static_cast<uint64_t>(block_index().x) * CRK_QUANTIZE_THREADS; first < packs;
       first += static_cast<uint64_t>(blocks) * CRK_QUANTIZE_THREADS) {
    const uint64_t p = first + thread_index().x;
    pack<T, V> y = {};
    if (p < packs) {
      const pack<T, V> a = load_aligned<T, V>(x + p * V), b = load_aligned<T, V>(up + p * V);
      CRK_UNROLL
      for (int i = 0; i < V; i++) {
        y.v[i] = gate<Op, T>()(a.v[i], b.v[i]);
      }
      store_pack(dst + p * V, y);
    }
    const q8_1_share<V> share = quantize_share(y, CRK_SUM_OF_CODES);
    if (p < packs) {
      share.store(columns, p * V);
    }
  }
}

}  // namespace
}  // namespace crk

#define CRK_GATE(op, suffix, T)                                                          \
  CRK_ELEMENTWISE(gate_##op##_##suffix##_vec, CRK_LAUNCHED_THREADS,                      \
                  (uint64_t numel, const T *x, const T *up, T *dst, uint32_t threads)) { \
    crk::map_contiguous(numel, threads, crk::gate<crk::op##_op, T>{}, dst, x, up);       \
  }                                                                                      \
  CRK_WAVES((crk::nd_waves<crk::op##_op, T>))                                            \
  CRK_ELEMENTWISE(gate_##op##_##suffix##_nd, CRK_LAUNCHED_THREADS,                       \
                  (crk_nd_t nd, const T *x, const T *up, T *dst, uint32_t threads)) {    \
    crk::map_nd(CRK_ND_ARGUMENT(nd), threads, crk::gate<crk::op##_op, T>{}, dst, x, up); \
  }
#define CRK_GATES(suffix, T) CRK_GATE_OPS(CRK_GATE, suffix, T)
CRK_FLOAT_TYPES(CRK_GATES)

#define CRK_GATE_COLUMNS(op, suffix, T)                                                                           \
  CRK_COOPERATIVE(gate_##op##_##suffix##_columns, CRK_QUANTIZE_THREADS,                                           \
                  (const T *x, const T *up, T *dst, crk::block_q8_1 *columns, uint64_t packs, uint32_t blocks)) { \
    crk::gate_columns<crk::op##_op>(x, up, dst, columns, packs, blocks);                                          \
  }
CRK_GATE_OPS(CRK_GATE_COLUMNS, f32, float)
CRK_GATE_OPS(CRK_GATE_COLUMNS, f16, crk::f16)
CRK_GATE_OPS(CRK_GATE_COLUMNS, bf16, crk::bf16)

CRK_MODULE(gate)
