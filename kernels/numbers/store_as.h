/* store_as: stores a float in a type that is known only at run time. For every kernel whose launcher chooses the type
 * of dst. */
#ifndef CRK_STORE_AS_H
#define CRK_STORE_AS_H

#include "numbers/element_types.h"

namespace crk {

/* dst[i] = value, as f32 if `dtype` is 0, as f16 if it is 1, else as bf16. */
CRK_FN void store_as(void *dst, uint32_t dtype, uint64_t i, float value) {
  if (dtype == 0) {
    static_cast<float *>(dst)[i] = value;
  } else if (dtype == 1) {
    static_cast<f16 *>(dst)[i] = f16(value);
  } else {
    static_cast<bf16 *>(dst)[i] = bf16(value);
  }
}

}  // namespace crk

#endif
