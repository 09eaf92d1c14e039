/* Launches of the gate of a feed-forward layer with quantized weights (kernels/quantized/matvec_gate.h). */
#include "launch/elementwise.h"
#include "launch/product.h"

/* crk_mul_mat_vec_gate's arguments, checked. */
typedef struct gate_call {
  crk_gate_op_t op;
  crk_quant_t quant;
  const crk_quant_info_t *info;
  crk_dtype_t dtype;
  size_t rows, k, columns;
  crk_const_view_t gate, up, x;
  crk_view_t dst, blocks; /* blocks.ptr is NULL if none are wanted */
} gate_call_t;

/* A block of threads can quantize groups of CRK_GATE_ROWS rows, but then there are fewer blocks. NVIDIA GPUs take
 * groups if they give each unit a block. AMD GPUs take groups if they give at least LEAST_QUARTERS quarters of the
 * blocks that single rows give, since a block of four waves is few for a unit (not measured). All take groups whose
 * weights are at most GROUP_BYTES, which a block reads in less time than a launch takes. Else a second launch
 * quantizes. */
enum { LEAST_QUARTERS = 3, GROUP_BYTES = 32 << 10 };

uint32_t crk_priv_divide_gate(crk_device_t self, crk_function_t function, const crk_quant_info_t *info,
                              uint64_t products, bool quantizes, crk_vec_product_t *product, bool *in_groups) {
  const uint32_t blocks = crk_priv_divide_rows(self, function, products, 1, product);
  *in_groups = false;
  if (quantizes) {
    crk_vec_product_t grouped = *product;
    const uint32_t groups = crk_priv_divide_rows(self, function, products, CRK_GATE_ROWS, &grouped);
    const uint64_t group_bytes = (uint64_t)2 * CRK_GATE_ROWS * product->row_blocks * info->bytes;
    const bool are_enough = self->driver->backend == CRK_BACKEND_CUDA
                                ? groups * products >= crk_priv_units(self)
                                : (uint64_t)groups * 4 >= (uint64_t)blocks * LEAST_QUARTERS;
    *in_groups = are_enough || group_bytes <= GROUP_BYTES;
    if (*in_groups) {
      *product = grouped;
      return groups;
    }
  }
  return blocks;
}

static crk_status_t quantize_result(crk_device_t self, const gate_call_t *call) {
  return crk_priv_quantize_q8_1(self, call->dtype, call->columns, call->rows, call->rows, CRK_SUM_OF_CODES,
                                call->dst.ptr, call->blocks.ptr);
}

/* One column of f32. */
static crk_status_t launch_gate(crk_device_t self, const gate_call_t *call) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_GATE_MAT_VEC + call->info->index, CRK_MODULE_QUANTIZED_VEC, &function,
                         "gate_mat_vec_%s", call->info->name));
  crk_vec_gate_t gate = {.product = {.x = call->x.ptr,
                                     .rows = call->rows,
                                     .columns = 1,
                                     .row_blocks = (uint32_t)(call->k / call->info->elements)},
                         .gelu = call->op == CRK_GATE_GELU};
  gate.product.parts[0] = (crk_vec_part_t){call->gate.ptr, call->dst.ptr, call->rows, call->rows, NULL};
  gate.product.parts[1] = (crk_vec_part_t){call->up.ptr, NULL, call->rows, call->rows, NULL};
  bool in_groups;
  const uint32_t blocks =
      crk_priv_divide_gate(self, function, call->info, 1, call->blocks.ptr != NULL, &gate.product, &in_groups);
  gate.blocks = in_groups ? call->blocks.ptr : NULL;
  const crk_dim3_t block = {CRK_VEC_WAVES * self->context->info.wave_size, 1, 1};
  const void *args[] = {&gate};
  CRK_TRY(crk_priv_launch_blocks(self, function, (crk_dim3_t){blocks, 1, 1}, block, 0, args));
  return call->blocks.ptr != NULL && !in_groups ? quantize_result(self, call) : CRK_OK;
}

crk_status_t crk_priv_gate_results(crk_device_t self, crk_gate_op_t op, crk_dtype_t dtype, size_t columns, size_t rows,
                                   crk_const_view_t gate, crk_const_view_t up, crk_view_t dst, crk_view_t blocks) {
  if (blocks.ptr != NULL) {
    return crk_gate_columns(self, op, dtype, columns, rows, gate, up, dst, blocks);
  }
  const size_t numel = columns * rows;
  crk_layout_t layout;
  CRK_TRY(crk_layout_contiguous(&numel, 1, &layout));
  return crk_gate(self, op, dtype, &layout, gate, &layout, up, dst);
}

/* Both products in one launch, to scratch memory, and then the gate. */
static crk_status_t launch_apart(crk_device_t self, const gate_call_t *call) {
  const size_t numel = call->columns * call->rows, bytes = numel * crk_dtype_size(call->dtype),
               up_at = (size_t)crk_priv_round_up(bytes, CRK_SCRATCH_ALIGNMENT);
  void *scratch;
  CRK_TRY(crk_alloc(self, up_at + bytes, &scratch));
  const crk_view_t gate = {scratch, bytes}, up = {(char *)scratch + up_at, bytes};
  const crk_grouped_product_t products[] = {{call->rows, call->gate, gate, call->rows, {NULL, 0}},
                                            {call->rows, call->up, up, call->rows, {NULL, 0}}};
  crk_status_t status = crk_mul_mat_vec_grouped(self, call->quant, call->dtype, call->k, call->columns, products, 2,
                                                call->x, call->k / CRK_Q8_1_BLOCK);
  if (status == CRK_OK) {
    status = crk_priv_gate_results(self, call->op, call->dtype, call->columns, call->rows, crk_const(gate),
                                   crk_const(up), call->dst, call->blocks);
  }
  return crk_priv_free_after(self, status, scratch);
}

crk_status_t crk_mul_mat_vec_gate(crk_device_t self, crk_gate_op_t op, crk_quant_t quant, crk_dtype_t dtype,
                                  size_t rows, size_t k, size_t columns, crk_const_view_t gate, crk_const_view_t up,
                                  crk_const_view_t x, crk_view_t dst, crk_view_t blocks) {
  static const char where[] = "crk_mul_mat_vec_gate";
  CRK_CHECK_HANDLE(self, DEVICE, where);
  const bool quantizes = crk_priv_is_given(crk_const(blocks));
  gate_call_t call = {.op = op,
                      .quant = quant,
                      .dtype = dtype,
                      .rows = rows,
                      .k = k,
                      .columns = columns,
                      .gate = gate,
                      .up = up,
                      .x = x,
                      .dst = dst,
                      .blocks = blocks};
  uint32_t type;
  CRK_TRY(crk_priv_gate_check(where, op));
  CRK_TRY(crk_priv_check_vec_columns(where, columns));
  CRK_TRY(crk_priv_quant_get_product(where, quant, &call.info));
  CRK_TRY(crk_priv_activation_index(where, dtype, &type));
  CRK_TRY(crk_priv_check_blocks(where, "k", k, call.info));
  CRK_TRY(crk_priv_check_count(where, "k", k));
  size_t numel;
  CRK_TRY(crk_priv_checked_product(where, "elements of dst", columns, rows, &numel));
  if (numel == 0) {
    return CRK_OK;
  }
  struct {
    size_t gate, up, x, dst, blocks;
  } bytes = {0};
  const uint32_t element = (uint32_t)crk_dtype_size(dtype);
  CRK_TRY(crk_priv_check_elements(where, "dst", crk_const(dst), numel, element));
  bytes.dst = numel * element;
  if (quantizes) {
    CRK_TRY(crk_priv_check_columns(where, "blocks", columns, "rows", rows, blocks, &bytes.blocks));
  }
  if (k != 0) {
    CRK_TRY(crk_priv_check_weights(where, "gate", gate, rows, k, call.info, &bytes.gate));
    CRK_TRY(crk_priv_check_weights(where, "up", up, rows, k, call.info, &bytes.up));
    CRK_TRY(crk_priv_checked_product(where, "bytes of x", columns * (k / CRK_Q8_1_BLOCK), CRK_Q8_1_BYTES, &bytes.x));
    CRK_TRY(crk_priv_check_elements(where, "x", x, bytes.x / 4, 4));
  }
  const crk_region_t sources[] = {{"gate", gate.ptr, bytes.gate}, {"up", up.ptr, bytes.up}, {"x", x.ptr, bytes.x}},
                     results[] = {{"dst", dst.ptr, bytes.dst}, {"blocks", blocks.ptr, bytes.blocks}};
  CRK_TRY(crk_priv_check_all_apart(where, results, 2, sources, 3));
  const bool fused = columns == 1 && k != 0 && dtype == CRK_DTYPE_F32 && crk_priv_gate_has_kernels(op);
  return fused ? launch_gate(self, &call) : launch_apart(self, &call);
}
