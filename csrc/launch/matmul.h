/* matmul.h: shared by the launchers of matrix products, matmul.c and conv_cores.c. */
#ifndef CRK_LAUNCH_MATMUL_H
#define CRK_LAUNCH_MATMUL_H

#include "call/matmul_call.h"
#include "launch/sliding.h"

/* Numbers the tiles of a matrix: `across` tiles along n, `down` tiles along m. */
void crk_priv_matmul_tiles_init(crk_matmul_t *call, uint64_t across, uint64_t down);

#endif
