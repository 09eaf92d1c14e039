/* fault.h: errors that the next synchronisation of a handle returns. There are two kinds: ids out of range, which
 * kernels report through fault words (kernels/call/fault_word.h), and deferred failures of functions that return
 * nothing. */
#ifndef CRK_FAULT_H
#define CRK_FAULT_H

#include <stdatomic.h>

#include "call/fault_word.h"
#include "candle_rocm.h"

/* XX(NAME, value, text): the launchers that can report an id. The text names the public function and its argument. The
 * value is in the fault word. In a mixture of experts, the value for tokens is the value for experts plus 1. */
#define CRK_FAULT_MAP(XX)                                                  \
  XX(INDEX_SELECT, 1, "crk_index_select: ids")                             \
  XX(GATHER, 2, "crk_gather: ids")                                         \
  XX(SCATTER, 3, "crk_scatter: ids")                                       \
  XX(SCATTER_ADD, 4, "crk_scatter_add: ids")                               \
  XX(INDEX_ADD, 5, "crk_index_add: ids")                                   \
  XX(GET_ROWS, 6, "crk_get_rows: ids")                                     \
  XX(INDEXED_MOE, 7, "crk_indexed_moe: ids")                               \
  XX(QUANTIZE_MMQ, 8, "crk_quantize_mmq: ids")                             \
  XX(MOE_GGUF, 9, "crk_moe_gguf: expert_ids")                              \
  XX(MOE_GGUF_TOKEN, 10, "crk_moe_gguf: sorted_token_ids")                 \
  XX(MOE_GGUF_PREFILL, 11, "crk_moe_gguf_prefill: expert_ids")             \
  XX(MOE_GGUF_PREFILL_TOKEN, 12, "crk_moe_gguf_prefill: sorted_token_ids") \
  XX(MOE_GEMM, 13, "crk_moe_gemm: expert_ids")                             \
  XX(MOE_GEMM_TOKEN, 14, "crk_moe_gemm: sorted_token_ids")                 \
  XX(MOE_ALIGN, 15, "crk_moe_align: topk_ids")                             \
  XX(MOE_ALIGN_TOTAL, 16, "crk_moe_align: num_tokens_post_pad")            \
  XX(MOE_GGUF_COLUMNS, 17, "crk_moe_gguf_columns: expert_ids")             \
  XX(MOE_GGUF_COLUMNS_TOKEN, 18, "crk_moe_gguf_columns: sorted_token_ids") \
  XX(MOE_GGUF_SUM, 19, "crk_moe_gguf_sum: expert_ids")                     \
  XX(MOE_GGUF_SUM_TOKEN, 20, "crk_moe_gguf_sum: sorted_token_ids")         \
  XX(MOE_GGUF_GATE, 21, "crk_moe_gguf_gate: expert_ids")                   \
  XX(MOE_GGUF_GATE_TOKEN, 22, "crk_moe_gguf_gate: sorted_token_ids")       \
  XX(GET_ROWS_FLOAT, 23, "crk_get_rows_float: ids")

typedef enum crk_fault_op {
#define XX(name, value, text) CRK_FAULT_##name = value,
  CRK_FAULT_MAP(XX)
#undef XX
} crk_fault_op_t;

/* A handle has this many reports: number 0 is its own, crk_reports_create gives the others. */
enum { CRK_REPORTS = 64 };

/* What a handle keeps of its reports. */
typedef struct crk_faults {
  _Atomic(_Atomic(uint64_t) *) words; /* two for each of the CRK_REPORTS; NULL until first needed */
  _Atomic(uint64_t) taken; /* a bit for each number that crk_reports_create gave */
  _Atomic(uint64_t) since[CRK_REPORTS]; /* the handle's last operation before the reports were created */
} crk_faults_t;

/* Fills in the struct that the handle's next operation passes to its kernel. The reports are those that the thread uses
 * (crk_reports_use). Allocates the handle's fault words on first use; crk_graph_begin allocates them before a
 * capture. */
crk_status_t crk_priv_fault_get(crk_device_t self, crk_fault_op_t op, crk_fault_t *fault);

/* Allocates the handle's fault words if there are none. The caller holds the handle's lock. */
crk_status_t crk_priv_fault_prepare(crk_device_t self);

/* The first deferred failure since the handle's last synchronisation. */
typedef struct crk_deferred {
  atomic_int status; /* CRK_OK: none */
  char sentence[512];
} crk_deferred_t;

/* Keeps a failure for the handle's next synchronisation, together with this thread's last error sentence. An earlier
 * one that is still kept stays. */
void crk_priv_error_defer(crk_device_t self, crk_status_t status);

/* Clears what kernels reported to the reports that the thread uses. Returns CRK_OUT_OF_RANGE if there was anything. The
 * stream is idle. */
crk_status_t crk_priv_fault_take(crk_device_t self);

/* The thread's next operation may report. crk_priv_fault_get says so too. */
void crk_priv_fault_expect(void);

/* Whether the thread's last operation may have reported. Asked once for each operation that is waited for. */
bool crk_priv_fault_is_expected(void);

/* Waits for the handle's stream. The sentence of a failure says that an earlier operation is at fault. */
crk_status_t crk_priv_stream_wait(crk_device_t self);

/* The same, by crk_priv_heap_synchronize. */
crk_status_t crk_priv_idle_wait(crk_device_t self);

/* The same. Then returns and clears the failure of a launch that was kept (replay.h), or else the deferred failure, or
 * else what crk_priv_fault_take returns. */
crk_status_t crk_priv_errors_wait(crk_device_t self);

/* The same without the wait. The caller has waited for the work whose errors it wants. */
crk_status_t crk_priv_errors_take(crk_device_t self);

void crk_priv_fault_deinit(crk_device_t self);

#endif
