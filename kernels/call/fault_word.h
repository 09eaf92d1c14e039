/* The word in which a kernel reports an id that is out of range. Kernels write it through `report` of
 * elementwise/walk.h; csrc/fault.h and csrc/fault.c read it. Plain C. crk_fault_t is passed to kernels by value. */
#ifndef CRK_FAULT_WORD_H
#define CRK_FAULT_WORD_H

#include <stdint.h>

typedef struct crk_fault {
  uint64_t *word; /* the handle's word, in host memory that the device can write; NULL: kernels report nothing */
  uint64_t op; /* the launcher and its argument: a number of CRK_FAULT_MAP in csrc/fault.h, below 256 */
} crk_fault_t;

/* The value of `word` after a report. The low 8 bits are the launcher's number; the bits above are the low 56 bits of
 * the id. The last report wins. 0 means that nothing was reported. */
#define CRK_FAULT_WORD(op, id)  ((uint64_t)(op) | (uint64_t)(id) << 8)
#define CRK_FAULT_WORD_OP(word) ((word) & 0xff)
#define CRK_FAULT_WORD_ID(word) ((int64_t)(word) >> 8)

#endif
