/* heads.h: shared by the launchers that multiply, rotate and store the heads of a token. */
#ifndef CRK_HEADS_H
#define CRK_HEADS_H

#include "call/rope_call.h"
#include "launch/launcher.h"

/* The names of a matrix's arguments, for errors. */
typedef struct crk_matrix_names {
  const char *layout, *weights, *dst, *bias;
} crk_matrix_names_t;

/* Those of each part. */
extern const crk_matrix_names_t crk_priv_head_names[CRK_MOST_GROUPED];

/* The heads of a token; `parts` and `count` are those of the public functions. */
typedef struct crk_heads {
  const char *where; /* the public function's name */
  crk_dtype_t dtype; /* of dst, bias, cos and sin */
  crk_rope_kind_t kind;
  size_t d;
  const crk_head_weights_t *parts;
  size_t count;
  crk_const_view_t x, cos, sin;
  size_t x_bytes, weights_bytes[CRK_MOST_GROUPED];
  const void *weights[CRK_MOST_GROUPED]; /* the first of the bytes that are read */
} crk_heads_t;

/* Checks kind, d, count and `parts`, cos and sin: all that does not depend on the kind of weights. */
crk_status_t crk_priv_heads_check(const crk_heads_t *heads);

/* Checks that no dst overlaps anything. x_bytes, weights and weights_bytes are set. */
crk_status_t crk_priv_heads_check_apart(const crk_heads_t *heads);

/* The pairs of part `i`. */
static inline size_t crk_priv_head_pairs(const crk_heads_t *heads, size_t i) {
  return heads->parts[i].heads * (heads->d / 2);
}

/* The rotation's part of the kernels' arguments. */
crk_rope_heads_t crk_priv_heads_args(const crk_heads_t *heads);

#endif
