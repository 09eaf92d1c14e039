/* moe.h: arguments of the launchers of mixtures of experts. */
#ifndef CRK_LAUNCH_MOE_H
#define CRK_LAUNCH_MOE_H

#include "launch/launcher.h"

/* A contiguous tensor argument. */
typedef struct crk_moe_argument {
  const char *name;
  crk_const_view_t view;
  size_t bytes; /* the tensor's size; 0 until it is checked */
} crk_moe_argument_t;

/* Sets the argument's size, and fails where its view is smaller. */
static inline crk_status_t crk_priv_moe_check(const char *where, crk_moe_argument_t *argument, size_t elements,
                                              uint32_t element_bytes) {
  argument->bytes = elements * element_bytes;
  return crk_priv_check_elements(where, argument->name, argument->view, elements, element_bytes);
}

/* Fails where a written argument overlaps one of `count` others. */
static inline crk_status_t crk_priv_moe_check_apart(const char *where, const crk_moe_argument_t *written,
                                                    const crk_moe_argument_t *others, size_t count) {
  for (size_t i = 0; i < count; i++) {
    CRK_TRY(crk_priv_check_apart(where, written->name, written->view.ptr, written->bytes, others[i].name,
                                 others[i].view.ptr, others[i].bytes));
  }
  return CRK_OK;
}

#endif
