/* The launcher that puts tokens in the order of their experts (kernels/moe/moe_order.h). */
#include "call/moe_call.h"
#include "launch/moe.h"
#include "launch/quantized.h"
#include "launch/sliding.h"

/* The most tokens that the list may have once the tokens of each expert are padded to whole blocks. */
static uint64_t most_padded(uint64_t count, uint64_t experts, uint64_t block_size) {
  const uint64_t used = crk_priv_least(count, experts);
  return count + used * (block_size - 1);
}

crk_status_t crk_moe_align(crk_device_t self, size_t experts, size_t block_size, size_t count, size_t padded,
                           crk_const_view_t topk_ids, crk_view_t sorted_token_ids, crk_view_t expert_ids,
                           crk_view_t num_tokens_post_pad, crk_view_t cumsum) {
  static const char where[] = "crk_moe_align";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  CRK_TRY(crk_priv_check_count(where, "experts", experts));
  CRK_TRY(crk_priv_check_count(where, "block_size", block_size));
  CRK_TRY(crk_priv_check_count(where, "count", count));
  CRK_TRY(crk_priv_check_count(where, "padded", padded));
  CRK_REFUSE_IF(block_size == 0, "%s: block_size is 0; it must be at least 1", where);
  const uint64_t most = INT32_MAX - (block_size - 1);
  CRK_REFUSE_IF(most_padded(count, experts, block_size) > most || padded > most,
                "%s: count %zu or padded %zu may be beyond %d in blocks of block_size %zu", where, count, padded,
                INT32_MAX, block_size);
  crk_moe_argument_t ids = {"topk_ids", topk_ids, 0};
  crk_moe_argument_t written[] = {{"sorted_token_ids", crk_const(sorted_token_ids), 0},
                                  {"expert_ids", crk_const(expert_ids), 0},
                                  {"num_tokens_post_pad", crk_const(num_tokens_post_pad), 0},
                                  {"cumsum", crk_const(cumsum), 0}};
  CRK_TRY(crk_priv_moe_check(where, &ids, count, 4));
  const size_t sizes[] = {padded, crk_priv_ceil_div(padded, block_size), 1, experts + 1};
  for (size_t i = 0; i < 4; i++) {
    CRK_TRY(crk_priv_moe_check(where, &written[i], sizes[i], 4));
    CRK_TRY(crk_priv_moe_check_apart(where, &written[i], &ids, 1));
    CRK_TRY(crk_priv_moe_check_apart(where, &written[i], written, i));
  }
  crk_function_t starts, align;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MOE_STARTS, CRK_MODULE_MOE, &starts, "moe_starts"));
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MOE_ALIGN, CRK_MODULE_MOE, &align, "moe_align"));
  crk_fault_t fault;
  CRK_TRY(crk_priv_fault_get(self, CRK_FAULT_MOE_ALIGN, &fault));
  crk_moe_order_t order = {count, experts, padded, {0}};
  crk_priv_divisor_init(&order.by_block, block_size, false);
  const crk_dim3_t block = {CRK_MOE_ORDER_THREADS, 1, 1};
  const void *start_args[] = {&topk_ids.ptr, &cumsum.ptr, &num_tokens_post_pad.ptr, &order, &fault};
  CRK_TRY(crk_priv_launch_blocks(self, starts, (crk_dim3_t){1, 1, 1}, block, 0, start_args));
  uint32_t blocks = crk_priv_grid_blocks(self, experts != 0 ? experts : 1, CRK_MOE_ORDER_THREADS);
  const void *align_args[] = {&topk_ids.ptr, &sorted_token_ids.ptr, &expert_ids.ptr, &cumsum.ptr, &order, &blocks};
  return crk_priv_launch_blocks(self, align, (crk_dim3_t){blocks, 1, 1}, block, 0, align_args);
}
