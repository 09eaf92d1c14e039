/* The arguments of the kernels of kernels/comm.hip, and the exchange areas through which GPUs add. Plain C.
 *
 * Each rank has an exchange area in its GPU's memory, and the other ranks' GPUs write to it:
 *
 *   CRK_AREA_CHUNKS   u32 counters of the chunks' launches
 *   CRK_AREA_FLAGS    u64 numbers of the pieces that each rank has sent
 *   CRK_AREA_LINES    the lines of the chunks, for few elements (comm/one_shot.h)
 *
 * and for many elements of two ranks:
 *
 *   CRK_AREA_PIECES         two slots of CRK_PIECE_BYTES bytes (csrc/comm/copied.c)
 *   CRK_AREA_PART_COUNTERS  u32 counters of the parts' launches (comm/marked.h)
 *   CRK_AREA_MARKS          u64 marks of the parts, for two slots: the counter of the rank that sent the part
 *   CRK_AREA_PARTS          two slots of CRK_PARTS parts, of CRK_PART_BYTES bytes each
 *
 * Few elements are cut into chunks of CRK_CHUNK_BYTES bytes. A chunk has two slots, which take turns. A slot has
 * CRK_CHUNK_LINES lines for each rank. A line has 8 bytes of data and a flag beside each half of them, so that whoever
 * reads the line knows whether it has arrived. This is the protocol LL of NCCL. */
#ifndef CRK_PEERS_CALL_H
#define CRK_PEERS_CALL_H

#include <stdint.h>

enum {
  CRK_PEERS = 8, /* ranks, at most */
  CRK_CHUNK_LINES = 256, /* threads of a block too */
  CRK_LINE_DATA = 8,
  CRK_LINE_BYTES = 16,
  CRK_CHUNK_BYTES = CRK_CHUNK_LINES * CRK_LINE_DATA,
  CRK_CHUNKS = 64, /* of an area: 128 KiB of elements */
  CRK_PIECE_BYTES = 8 << 20,
  CRK_PACK_BYTES = 16, /* a thread sends so many at once */
  CRK_PART_BYTES = 8 << 10,
  CRK_PARTS = 2048, /* of a launch, at most */
  CRK_PART_THREADS = 256, /* for each part */
  CRK_AREA_CHUNKS = 0,
  CRK_AREA_FLAGS = 2048,
  CRK_AREA_LINES = 4096,
  CRK_MEET_THREADS = 64,
  CRK_MOST_NORM_THREADS = 1024,
  CRK_MOST_NORM_LINES = 2 /* of a thread */
};

/* The bytes of a chunk's lines, both slots, among `size` ranks. */
#define CRK_CHUNK_SLOTS(size) ((uint64_t)2 * (size) * CRK_CHUNK_LINES * CRK_LINE_BYTES)

/* The bytes before each section behind the lines, and of a whole area. */
#define CRK_AREA_PIECES(size)        (CRK_AREA_LINES + CRK_CHUNKS * CRK_CHUNK_SLOTS(size))
#define CRK_AREA_PART_COUNTERS(size) (CRK_AREA_PIECES(size) + 2 * (uint64_t)CRK_PIECE_BYTES)
#define CRK_AREA_MARKS(size)         (CRK_AREA_PART_COUNTERS(size) + (uint64_t)CRK_PARTS * 4)
#define CRK_AREA_PARTS(size)         (CRK_AREA_MARKS(size) + 2 * (uint64_t)CRK_PARTS * 8)
#define CRK_AREA_BYTES(size) \
  ((size) == 2 ? CRK_AREA_PARTS(2) + 2 * (uint64_t)CRK_PARTS * CRK_PART_BYTES : CRK_AREA_PIECES(size))

/* The ranks, as one of them sees them. */
typedef struct crk_exchange {
  uint32_t rank, size;
  const uint64_t *stop; /* in host memory; if it is not 0, kernels wait no longer */
  void *areas[CRK_PEERS];
} crk_exchange_t;

/* For the kernels one_shot_sum_<type>: blocks of CRK_CHUNK_LINES threads, one for each chunk. And for
 * marked_sum_<type>: blocks of CRK_PART_THREADS threads, one for each part. */
typedef struct crk_peer_sum_call {
  crk_exchange_t ranks;
  const void *src;
  void *dst; /* may be src */
  uint64_t count; /* elements, at most those of CRK_CHUNKS chunks or CRK_PARTS parts */
} crk_peer_sum_call_t;

/* For the kernels one_shot_norm_<type>_<lines>: a block for each row, with `lines` lines for each thread. And for
 * marked_norm_<type>: a block for each row, with CRK_PART_THREADS threads for each of its parts. */
typedef struct crk_peer_norm_call {
  crk_exchange_t ranks;
  const void *src, *residual, *alpha;
  void *sum, *dst;
  uint32_t cols, threads; /* the elements of a row; the threads of a block, which has whole chunks or parts */
  float eps;
} crk_peer_norm_call_t;

/* For the kernel `meet`: one block of CRK_MEET_THREADS threads. */
typedef struct crk_meet_call {
  crk_exchange_t ranks;
  uint64_t piece; /* the number of a piece, more than the one before */
} crk_meet_call_t;

#endif
