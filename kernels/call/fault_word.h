/* The words in which a kernel reports an id that is out of range. Kernels write them through `report` of
 * elementwise/walk.h; csrc/fault.h and csrc/fault.c read them. Plain C. crk_fault_t is passed to kernels by value. */
#ifndef CRK_FAULT_WORD_H
#define CRK_FAULT_WORD_H

#include <stdint.h>

typedef struct crk_fault {
  uint64_t *word; /* two words, in host memory that the device can write; NULL: kernels report nothing */
  /* Low 8 bits: the launcher and its argument, a number of CRK_FAULT_MAP in csrc/fault.h. The bits above: the number of
   * the operation. */
  uint64_t op;
} crk_fault_t;

/* The value of word[0] after a report. The low 8 bits are the launcher's number; the bits above are the low 56 bits of
 * the id. 0 means that nothing was reported. word[1] is the number of the operation, the same for all threads of a
 * kernel. The kernels of a stream run one after another, and the last report wins: so both words are of one kernel. */
#define CRK_FAULT_WORD(op, id)  (((uint64_t)(op) & 0xff) | (uint64_t)(id) << 8)
#define CRK_FAULT_NUMBER(op)    ((op) >> 8)
#define CRK_FAULT_WORD_OP(word) ((word) & 0xff)
#define CRK_FAULT_WORD_ID(word) ((int64_t)(word) >> 8)

#endif
