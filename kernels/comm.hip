/* The module `comm`: sums among the GPUs of one host, for csrc/comm/one_shot.c and csrc/comm/copied.c. */
#include "comm/meet.h"
#include "comm/one_shot.h"

#define CRK_ONE_SHOT(suffix, T)                                                         \
  CRK_COOPERATIVE(one_shot_sum_##suffix, CRK_CHUNK_LINES, (crk_one_shot_call_t call)) { \
    crk::one_shot_sum<T>(CRK_ND_ARGUMENT(call));                                        \
  }
CRK_ONE_SHOT(f32, float)
CRK_ONE_SHOT(f16, crk::f16)
CRK_ONE_SHOT(bf16, crk::bf16)

CRK_KERNEL(meet, CRK_MEET_THREADS, (crk_meet_call_t call)) { crk::meet(CRK_ND_ARGUMENT(call)); }

CRK_MODULE(comm)
