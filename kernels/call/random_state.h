/* The state of a random number generator. It lies in device memory that the caller owns. Plain C; kernels/random.hip
 * reads and writes it, csrc/launch/random.c only needs its size. */
#ifndef CRK_RANDOM_STATE_H
#define CRK_RANDOM_STATE_H

#include <stdint.h>

typedef struct crk_random_state {
  uint64_t seed; /* key of the generator, set by random_seed */
  uint64_t steps; /* steps of four words that earlier draws have used; the next draw begins here */
  uint32_t ticket; /* counter of last_of_launch (kernels/platform/platform.h), 0 between launches */
  uint32_t reserved[3]; /* always 0 */
} crk_random_state_t;

#endif
