/* Launchers of the choice of experts (kernels/moe/moe_route.h and moe_router.h). */
#include "call/moe_call.h"
#include "launch/moe.h"
#include "launch/product.h"

static const uint32_t route_shares[] = {
#define XX(share) share,
    CRK_MOE_ROUTES(XX)
#undef XX
};
enum {
  ROUTES = sizeof route_shares / sizeof *route_shares,
#define XX(share) *0 + share
  LAST_SHARE = 0 CRK_MOE_ROUTES(XX) /* the last one in the list */
#undef XX
};
_Static_assert(32 * LAST_SHARE == CRK_MOST_ROUTED_EXPERTS, "the kernels serve as many experts as the header says");
_Static_assert((int)ROUTES == CRK_SLOTS_OF(MOE_ROUTE), "as the list of slots counts");
_Static_assert((int)CRK_ACTIVATIONS *(int)ROUTES == CRK_SLOTS_OF(MOE_ROUTER), "as the list of slots counts");

/* A choice of experts. */
enum { RESULTS = 4 };
static const char *const result_names[RESULTS] = {"topk_weights", "topk_ids", "sorted_token_ids", "expert_ids"};
typedef struct routing {
  const char *where;
  size_t experts, tokens, topk;
  bool normalise;
  crk_view_t results[RESULTS]; /* in the order of their names; the last two may be {NULL, 0} */
  size_t count; /* numbers of a result; 0: nothing is left to do */
  uint32_t kernel; /* the index of its share */
  bool is_sorted; /* the last two results are given */
} routing_t;

/* Checks the sizes, and sets the last fields. */
static crk_status_t routing_check(routing_t *r) {
  const crk_view_t sorted = r->results[2], of = r->results[3];
  if (r->experts > CRK_MOST_ROUTED_EXPERTS || r->topk > CRK_MOST_ROUTED_TOPK) {
    return crk_priv_error(CRK_UNSUPPORTED, "%s: experts is %zu, at most %d; topk is %zu, at most %d", r->where,
                          r->experts, CRK_MOST_ROUTED_EXPERTS, r->topk, CRK_MOST_ROUTED_TOPK);
  }
  CRK_REFUSE_IF(r->topk > r->experts, "%s: topk is %zu, and experts is %zu", r->where, r->topk, r->experts);
  CRK_TRY(crk_priv_check_count(r->where, "tokens", r->tokens));
  r->count = r->tokens * r->topk;
  CRK_TRY(crk_priv_check_count(r->where, "tokens * topk", r->count));
  r->is_sorted = crk_priv_is_given(crk_const(of));
  CRK_REFUSE_IF(crk_priv_is_given(crk_const(sorted)) != r->is_sorted,
                "%s: sorted_token_ids.ptr is %p (%zu bytes) and expert_ids.ptr is %p (%zu bytes); either both or none "
                "is {NULL, 0}",
                r->where, sorted.ptr, sorted.bytes, of.ptr, of.bytes);
  while (r->experts > 32 * route_shares[r->kernel]) {
    r->kernel++;
  }
  return CRK_OK;
}

/* Checks the results, which must not overlap the sources, nor each other. */
static crk_status_t routing_check_results(const routing_t *r, const crk_moe_argument_t *sources, size_t count) {
  crk_moe_argument_t written[RESULTS];
  for (size_t i = 0; i < (r->is_sorted ? RESULTS : 2); i++) {
    written[i] = (crk_moe_argument_t){result_names[i], crk_const(r->results[i]), 0};
    CRK_TRY(crk_priv_moe_check(r->where, &written[i], r->count, 4));
    CRK_TRY(crk_priv_moe_check_apart(r->where, &written[i], sources, count));
    CRK_TRY(crk_priv_moe_check_apart(r->where, &written[i], written, i));
  }
  return CRK_OK;
}

/* The kernel's arguments, for one block. With `sorts` it makes the sorted results. */
static crk_moe_route_t routing_call(const routing_t *r, const void *logits, bool sorts) {
  return (crk_moe_route_t){.logits = logits,
                           .weights = r->results[0].ptr,
                           .ids = r->results[1].ptr,
                           .sorted_experts = sorts ? r->results[3].ptr : NULL,
                           .sorted_tokens = sorts ? r->results[2].ptr : NULL,
                           .tokens = (uint32_t)r->tokens,
                           .experts = (uint32_t)r->experts,
                           .topk = (uint32_t)r->topk,
                           .normalise = r->normalise,
                           .blocks = 1};
}

crk_status_t crk_moe_route(crk_device_t self, size_t experts, size_t tokens, size_t topk, bool normalise,
                           crk_const_view_t logits, crk_view_t topk_weights, crk_view_t topk_ids,
                           crk_view_t sorted_token_ids, crk_view_t expert_ids) {
  routing_t r = {.where = "crk_moe_route",
                 .experts = experts,
                 .tokens = tokens,
                 .topk = topk,
                 .normalise = normalise,
                 .results = {topk_weights, topk_ids, sorted_token_ids, expert_ids}};
  CRK_CHECK_HANDLE(self, DEVICE, r.where);
  CRK_TRY(routing_check(&r));
  if (r.count == 0) {
    return CRK_OK;
  }
  crk_moe_argument_t source = {"logits", logits, 0};
  CRK_TRY(crk_priv_moe_check(r.where, &source, tokens * experts, 4));
  CRK_TRY(routing_check_results(&r, &source, 1));
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MOE_ROUTE + r.kernel, CRK_MODULE_MOE, &function, "moe_route_%u",
                         (unsigned)route_shares[r.kernel]));
  const bool sorts = r.is_sorted && r.count <= CRK_MOE_ROUTE_THREADS;
  const uint32_t beside = CRK_MOE_ROUTE_THREADS / 32;
  crk_moe_route_t call = routing_call(&r, logits.ptr, sorts);
  if (!sorts) {
    call.blocks = crk_priv_grid_blocks(self, crk_priv_ceil_div(tokens, beside), CRK_MOE_ROUTE_THREADS);
  }
  const void *args[] = {&call};
  CRK_TRY(crk_priv_launch_blocks(self, function, (crk_dim3_t){call.blocks, 1, 1},
                                 (crk_dim3_t){CRK_MOE_ROUTE_THREADS, 1, 1}, 0, args));
  if (!r.is_sorted || sorts) {
    return CRK_OK;
  }
  crk_layout_t row;
  CRK_TRY(crk_layout_contiguous(&r.count, 1, &row));
  return crk_argsort(self, CRK_DTYPE_U32, &row, crk_const(topk_ids), true, sorted_token_ids, expert_ids);
}

/* The product and the choice by launches of their own. `scratch` has room for the logits in f32, and behind them for
 * those in dtype if it is another. */
static crk_status_t router_apart(crk_device_t self, const routing_t *r, crk_dtype_t dtype, size_t k,
                                 crk_const_view_t weights, crk_const_view_t x, void *scratch) {
  const size_t row[] = {1, k}, bytes = r->experts * 4;
  const crk_view_t logits = {scratch, bytes};
  const crk_view_t rounded = {(char *)scratch + bytes, r->experts * crk_dtype_size(dtype)};
  const bool is_f32 = dtype == CRK_DTYPE_F32;
  const crk_layout_t columns = {.rank = 2, .dims = {k, r->experts}, .strides = {1, k}};
  crk_layout_t x_layout, all;
  CRK_TRY(crk_layout_contiguous(row, 2, &x_layout));
  CRK_TRY(crk_matmul(self, dtype, &x_layout, x, &columns, weights, is_f32 ? logits : rounded));
  if (!is_f32) {
    CRK_TRY(crk_layout_contiguous(&r->experts, 1, &all));
    CRK_TRY(crk_cast(self, dtype, CRK_DTYPE_F32, &all, crk_const(rounded), logits));
  }
  return crk_moe_route(self, r->experts, 1, r->topk, r->normalise, crk_const(logits), r->results[0], r->results[1],
                       r->results[2], r->results[3]);
}

/* Both in one launch. `scratch` has room for an even number of logits. */
static crk_status_t router_at_once(crk_device_t self, const routing_t *r, crk_dtype_t dtype, uint32_t type, size_t k,
                                   crk_const_view_t weights, crk_const_view_t x, void *scratch) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_MOE_ROUTER + type * ROUTES + r->kernel, CRK_MODULE_MOE, &function,
                         "moe_router_%s_%u", crk_dtype_name(dtype), (unsigned)route_shares[r->kernel]));
  crk_moe_router_t call = {.x = x.ptr,
                           .weights = weights.ptr,
                           .logits = scratch,
                           .k = k,
                           .route = routing_call(r, NULL, r->is_sorted),
                           .blocks = (uint32_t)crk_priv_ceil_div(r->experts, 2)};
  CRK_TRY(crk_priv_tickets_get(self, &call.ticket));
  const void *args[] = {&call};
  return crk_priv_launch_blocks(self, function, (crk_dim3_t){call.blocks, 1, 1},
                                (crk_dim3_t){CRK_MOE_ROUTE_THREADS, 1, 1}, 0, args);
}

crk_status_t crk_moe_router(crk_device_t self, crk_dtype_t dtype, size_t experts, size_t k, size_t topk, bool normalise,
                            crk_const_view_t weights, crk_const_view_t x, crk_view_t topk_weights, crk_view_t topk_ids,
                            crk_view_t sorted_token_ids, crk_view_t expert_ids) {
  routing_t r = {.where = "crk_moe_router",
                 .experts = experts,
                 .tokens = 1,
                 .topk = topk,
                 .normalise = normalise,
                 .results = {topk_weights, topk_ids, sorted_token_ids, expert_ids}};
  CRK_CHECK_HANDLE(self, DEVICE, r.where);
  uint32_t type;
  CRK_TRY(crk_priv_activation_index(r.where, dtype, &type));
  CRK_TRY(routing_check(&r));
  CRK_TRY(crk_priv_check_count(r.where, "k", k));
  if (r.count == 0) {
    return CRK_OK;
  }
  const uint32_t element = (uint32_t)crk_dtype_size(dtype);
  size_t elements;
  crk_moe_argument_t sources[] = {{"weights", weights, 0}, {"x", x, 0}};
  CRK_TRY(crk_priv_checked_product(r.where, "elements of weights", experts, k, &elements));
  CRK_TRY(crk_priv_moe_check(r.where, &sources[0], elements, element));
  CRK_TRY(crk_priv_moe_check(r.where, &sources[1], k, element));
  CRK_TRY(routing_check_results(&r, sources, 2));
  const bool fits = k != 0 && ((uintptr_t)weights.ptr | (uintptr_t)x.ptr | k * element) % 16 == 0;
  const size_t bytes = fits ? (experts + experts % 2) * 4 : experts * (type == 0 ? 4 : 6);
  void *scratch;
  CRK_TRY(crk_alloc(self, bytes, &scratch));
  const crk_status_t status = fits ? router_at_once(self, &r, dtype, type, k, weights, x, scratch)
                                   : router_apart(self, &r, dtype, k, weights, x, scratch);
  return crk_priv_free_after(self, status, scratch);
}
