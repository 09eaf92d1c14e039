/* How a kernel reports an id that is out of range. Plain C, shared by the core and the kernels; passed by value. */
#ifndef CRK_FAULT_WORD_H
#define CRK_FAULT_WORD_H

#include <stdint.h>

typedef struct crk_fault {
  uint64_t *word; /* the handle's, in host memory that the device reaches; NULL: nobody asks */
  uint64_t op;    /* which launcher: a number of csrc/fault.h below 256 */
} crk_fault_t;

/* What `word` then holds: the launcher, and the low 56 bits of the id. The last report wins. 0 is no report. */
#define CRK_FAULT_WORD(op, id)  ((uint64_t)(op) | (uint64_t)(id) << 8)
#define CRK_FAULT_WORD_OP(word) ((word) & 0xff)
#define CRK_FAULT_WORD_ID(word) ((int64_t)(word) >> 8)

#endif
