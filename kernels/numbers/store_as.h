/* Numbers into memory of a dtype that the launch chooses. */
#ifndef CRK_STORE_AS_H
#define CRK_STORE_AS_H

#include "numbers/element_types.h"

namespace crk {

/* dst[i] = value in the dtype that has this place among f32, f16 and bf16. */
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
