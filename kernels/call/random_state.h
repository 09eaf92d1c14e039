/* The state of a generator of random numbers, in device memory that the caller owns. Plain C: csrc/launch/random.c knows its size. */
#ifndef CRK_RANDOM_STATE_H
#define CRK_RANDOM_STATE_H

#include <stdint.h>

typedef struct crk_random_state {
  uint64_t seed;
  uint64_t steps; /* used by the draws so far */
  uint32_t ticket; /* of last_of_launch: 0 between launches */
  uint32_t reserved[3];
} crk_random_state_t;

#endif
