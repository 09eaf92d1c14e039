/* Helpers shared by the kernels of mixtures of experts. `routes` has the lists of tokens and experts. expert_at,
 * run_at, token_at and input_of read an entry and check it. Ids come from device memory, so the kernels check them. A
 * wrong id is left out, and one thread (`teller`) reports it. */
#ifndef CRK_MOE_H
#define CRK_MOE_H

#include "call/moe_call.h"
#include "elementwise/walk.h"

namespace crk {

/* The lists, with `positions` entries each. If `tokens` is null, the token is the position; if `scales` is null, the
 * scale is 1. */
struct routes {
  const int32_t *tokens, *experts;
  const float *scales; /* indexed by token */
};

/* The expert at a position. If the list's id is not an expert, the result is shape.experts or more, and the thread with
 * `teller` reports it. */
CRK_FN uint32_t expert_at(const routes &r, const crk_moe_t &shape, uint32_t at, crk_fault_t fault, bool teller) {
  const int32_t id = r.experts[at];
  const uint32_t expert = static_cast<uint32_t>(id);
  if (expert >= shape.experts && teller) {
    const uint32_t upper = static_cast<uint32_t>(id >> 31) & shape.sign;
    report(fault, static_cast<uint64_t>(upper) << 32 | expert);
  }
  return expert;
}

/* The tokens of one expert, from a position on. `count` is 0 if no run begins there, or if the id is not an expert. */
struct run {
  uint32_t expert, count;
};

template <uint32_t Most>
CRK_FN run run_at(const routes &r, const crk_moe_t &shape, uint32_t at, crk_fault_t fault, bool teller) {
  const int32_t id = r.experts[at];
  const uint32_t place = at % Most;
  if (place != 0 && r.experts[at - 1] == id) {
    return {0, 0};
  }
  const uint32_t expert = expert_at(r, shape, at, fault, teller);
  if (expert >= shape.experts) {
    return {0, 0};
  }
  const uint32_t left = shape.positions - at, most = left < Most - place ? left : Most - place;
  uint32_t count = 1;
  while (count < most && r.experts[at + count] == id) {
    count++;
  }
  return {expert, count};
}

/* The token at a position. If the list's id is not a token, the result is `positions`, and `teller` reports it under
 * the fault's next number. */
CRK_FN uint32_t token_at(const routes &r, const crk_moe_t &shape, uint32_t at, crk_fault_t fault, bool teller) {
  if (r.tokens == nullptr) {
    return at;
  }
  const int32_t id = r.tokens[at];
  const uint32_t token = static_cast<uint32_t>(id);
  if (token >= shape.positions) {
    if (teller) {
      report(crk_fault_t{fault.word, fault.op + 1}, id);
    }
    return shape.positions;
  }
  return token;
}

/* The row of x that a token reads; row 0 if the token is invalid. */
CRK_FN uint32_t input_of(const crk_moe_t &shape, uint32_t token) {
  const uint32_t present = token < shape.positions ? token : 0;
  return (mulhi(present, shape.input_mul) + present) >> shape.input_shift;
}

/* Applies the token's scale to a sum. */
CRK_FN float scaled(const routes &r, uint32_t token, float sum) {
  return r.scales != nullptr ? sum * r.scales[token] : sum;
}

}  // namespace crk

#endif
