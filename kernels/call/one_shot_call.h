/* The argument of the kernels of kernels/comm.hip, and the exchange areas through which they add. Plain C.
 *
 * Each rank has an exchange area in its GPU's memory, and the other ranks' GPUs write to it. The elements are cut into
 * chunks of CRK_CHUNK_BYTES bytes. A chunk has a counter of launches in each rank's area, and two slots, which take
 * turns. A slot has CRK_CHUNK_LINES lines for each rank. A line has 8 bytes of data and a flag beside each half of
 * them, so that whoever reads the line knows whether it has arrived. The protocol is NCCL's LL. */
#ifndef CRK_ONE_SHOT_CALL_H
#define CRK_ONE_SHOT_CALL_H

#include <stdint.h>

enum {
  CRK_ONE_SHOT_RANKS = 8, /* at most */
  CRK_CHUNK_LINES = 256, /* threads of a block too */
  CRK_LINE_DATA = 8,
  CRK_LINE_BYTES = 16,
  CRK_CHUNK_BYTES = CRK_CHUNK_LINES * CRK_LINE_DATA,
  CRK_CHUNKS = 64, /* of an area: 128 KiB of elements */
  CRK_AREA_COUNTERS = 4096 /* bytes before the lines: a u32 for each chunk, and room for the records of csrc/comm */
};

/* The bytes of a chunk's lines, both slots, among `size` ranks; and of a whole area. */
#define CRK_CHUNK_SLOTS(size) ((uint64_t)2 * (size) * CRK_CHUNK_LINES * CRK_LINE_BYTES)
#define CRK_AREA_BYTES(size)  (CRK_AREA_COUNTERS + CRK_CHUNKS * CRK_CHUNK_SLOTS(size))

typedef struct crk_one_shot_call {
  const void *src;
  void *dst; /* may be src */
  uint64_t count; /* elements, at most those of CRK_CHUNKS chunks */
  uint32_t rank, size;
  const uint64_t *stop; /* in host memory; if it is not 0, the kernel waits no longer */
  void *areas[CRK_ONE_SHOT_RANKS]; /* the area of each rank, as this GPU sees it */
} crk_one_shot_call_t;

#endif
