/* The module `comm`: sums among the GPUs of one host, for csrc/comm/one_shot.c, csrc/comm/marked.c
 * and csrc/comm/copied.c. */
#include "comm/marked.h"
#include "comm/meet.h"
#include "comm/one_shot.h"
#include "comm/one_shot_norm.h"

#define CRK_ONE_SHOT(suffix, T)                                                         \
  CRK_COOPERATIVE(one_shot_sum_##suffix, CRK_CHUNK_LINES, (crk_peer_sum_call_t call)) { \
    CRK_EARLY();                                                                        \
    crk::one_shot_sum<T>(CRK_ND_ARGUMENT(call));                                        \
  }
CRK_ONE_SHOT(f32, float)
CRK_ONE_SHOT(f16, crk::f16)
CRK_ONE_SHOT(bf16, crk::bf16)

#define CRK_ONE_SHOT_NORM(suffix, T, lines)                                                               \
  CRK_COOPERATIVE(one_shot_norm_##suffix##_##lines, CRK_MOST_NORM_THREADS, (crk_peer_norm_call_t call)) { \
    CRK_EARLY();                                                                                          \
    crk::one_shot_norm<T, lines>(CRK_ND_ARGUMENT(call));                                                  \
  }
#define CRK_ONE_SHOT_NORMS(suffix, T) \
  CRK_ONE_SHOT_NORM(suffix, T, 1)     \
  CRK_ONE_SHOT_NORM(suffix, T, 2)
CRK_ONE_SHOT_NORMS(f32, float)
CRK_ONE_SHOT_NORMS(f16, crk::f16)
CRK_ONE_SHOT_NORMS(bf16, crk::bf16)

#define CRK_MARKED(suffix, T)                                                                 \
  CRK_COOPERATIVE(marked_sum_##suffix, CRK_PART_THREADS, (crk_peer_sum_call_t call)) {        \
    crk::marked_sum<T>(CRK_ND_ARGUMENT(call));                                                \
  }                                                                                           \
  CRK_COOPERATIVE(marked_norm_##suffix, CRK_MOST_NORM_THREADS, (crk_peer_norm_call_t call)) { \
    crk::marked_norm<T>(CRK_ND_ARGUMENT(call));                                               \
  }
CRK_MARKED(f32, float)
CRK_MARKED(f16, crk::f16)
CRK_MARKED(bf16, crk::bf16)

CRK_KERNEL(meet, CRK_MEET_THREADS, (crk_meet_call_t call)) {
  const crk_meet_call_t &argument = CRK_ND_ARGUMENT(call);
  crk::meet(argument.ranks, argument.piece);
}

CRK_MODULE(comm)
