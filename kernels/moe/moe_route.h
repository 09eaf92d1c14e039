/* The routing of tokens to experts: the softmax over a token's experts, the `topk` largest, and for few tokens the
 * lists of results in the order of their experts. A group of 32 lanes has a token. Main functions: moe_route, and
 * route_tokens for moe_router.h. */
#ifndef CRK_MOE_ROUTE_H
#define CRK_MOE_ROUTE_H

#include "call/moe_call.h"
#include "elementwise/walk.h"
#include "numbers/wave.h"

namespace crk {
namespace {

/* An expert as a number that is the greater, the greater its probability p; of equals, the first expert's is greater. p
 * is not negative or it is NaN, so its bits are in its order; NaN is the greatest. 0 stands for an expert that is
 * taken. */
CRK_FN uint64_t route_key(float p, uint32_t expert) {
  return (static_cast<uint64_t>(bit_cast<uint32_t>(p) & 0x7fffffffu) + 1) << 32 | static_cast<uint32_t>(~expert);
}
struct greater_key {
  CRK_FN uint64_t operator()(uint64_t a, uint64_t b) const { return a > b ? a : b; }
};

/* The key of one of the largest experts of a token; lane i has the i-th. Each lane has Share experts: lane, lane + 32,
 * and so on. All lanes of the group must call it. */
template <int Share>
CRK_FN uint64_t largest_experts(const float *logits, uint32_t experts, uint32_t topk, uint32_t place) {
  float p[Share], largest = -__builtin_inff();
  CRK_UNROLL
  for (uint32_t i = 0; i < Share; i++) {
    const uint32_t expert = place + i * group_lanes;
    p[i] = expert < experts ? logits[expert] : -__builtin_inff();
    largest = max_number(largest, p[i]);
  }
  largest = butterfly<32>(largest, larger());
  float sum = 0.0f;
  CRK_UNROLL
  for (int i = 0; i < Share; i++) {
    p[i] = exp(p[i] - largest);
    sum += p[i];
  }
  const float scale = 1.0f / butterfly<32>(sum, plus());
  uint64_t key[Share], mine = 0;
  CRK_UNROLL
  for (uint32_t i = 0; i < Share; i++) {
    const uint32_t expert = place + i * group_lanes;
    key[i] = expert < experts ? route_key(p[i] * scale, expert) : 0;
  }
  for (uint32_t turn = 0; turn < topk; turn++) {
    uint64_t best = 0;
    CRK_UNROLL
    for (int i = 0; i < Share; i++) {
      best = greater_key()(best, key[i]);
    }
    best = butterfly<32>(best, greater_key());
    CRK_UNROLL
    for (int i = 0; i < Share; i++) {
      key[i] = key[i] == best ? 0 : key[i];
    }
    mine = place == turn ? best : mine;
  }
  return mine;
}

/* For each token, weights and ids of its `topk` experts, largest first. If the lists are not null, there is one block,
 * and they get the results sorted by expert, in their order where experts are equal. `logits` are those of all tokens,
 * in global or in shared memory; `block` is the number of this one among call.blocks. */
template <int Share>
CRK_FN void route_tokens(const crk_moe_route_t &call, const float *logits, uint32_t block) {
  CRK_SHARED(uint32_t, all, CRK_MOE_ROUTE_THREADS);
  const uint32_t place = thread_index().x % group_lanes, own = thread_index().x / group_lanes;
  constexpr uint32_t beside = CRK_MOE_ROUTE_THREADS / group_lanes;
  for (uint32_t first = block * beside; first < call.tokens; first += call.blocks * beside) {
    const uint32_t token = first + own < call.tokens ? first + own : call.tokens - 1;
    const uint64_t key =
        largest_experts<Share>(logits + static_cast<uint64_t>(token) * call.experts, call.experts, call.topk, place);
    const bool live = place < call.topk;
    const uint32_t expert = ~static_cast<uint32_t>(key);
    float weight = live ? bit_cast<float>(static_cast<uint32_t>(key >> 32) - 1) : 0.0f;
    const float sum = butterfly<32>(weight, plus());
    if (live && first + own < call.tokens) {
      const uint64_t at = static_cast<uint64_t>(token) * call.topk + place;
      call.weights[at] = call.normalise != 0 ? weight / sum : weight;
      call.ids[at] = expert;
      if (call.sorted_experts != nullptr) {
        all[at] = expert;
      }
    }
  }
  if (call.sorted_experts != nullptr) {
    shared_barrier();
    const uint32_t count = call.tokens * call.topk, mine = thread_index().x;
    if (mine < count) {
      uint32_t before = 0;
      for (uint32_t i = 0; i < count; i++) {
        before += all[i] < all[mine] || (all[i] == all[mine] && i < mine);
      }
      call.sorted_experts[before] = all[mine];
      call.sorted_tokens[before] = mine;
    }
  }
}

template <int Share>
CRK_FN void moe_route(const crk_moe_route_t &call) {
  route_tokens<Share>(call, call.logits, block_index().x);
}

}  // namespace
}  // namespace crk

#endif
