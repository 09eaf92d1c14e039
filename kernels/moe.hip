/* The launchers' mixtures of experts: kernels/common/matvec_fast.h. */
#include "common/instance.h"
#include "common/matvec_fast.h"

#define CRK_INDEXED_MOE_FAST(type)                                                                               \
  CRK_COOPERATIVE(                                                                                               \
      indexed_moe_##type, CRK_LAUNCHED_THREADS,                                                                  \
      (const crk::block_##type *weights, const uint32_t *packed, const uint32_t *ids, void *dst, uint32_t dtype, \
       uint64_t experts, uint64_t rows, uint64_t row_blocks, uint64_t batch, uint64_t topk, uint64_t inputs,     \
       uint64_t groups, uint32_t blocks_y, uint32_t blocks_z, crk_fault_t fault)) {                              \
    const crk::moe_shape shape = {experts, rows, row_blocks, batch, topk, inputs, groups, blocks_y, blocks_z};   \
    crk::indexed_moe_fast<crk::block_##type, 2>(weights, packed, ids, dst, dtype, shape, fault);                 \
  }
CRK_MATRIX_BLOCKS(CRK_INDEXED_MOE_FAST)

CRK_MODULE(moe)
