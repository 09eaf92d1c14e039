/* The code objects embedded in this build, packed (unpack.h), in the order of csrc/modules.h; build.rs generates the
 * tables. An entry is {NULL, 0} where this build has none. */
#ifndef CRK_IMAGES_H
#define CRK_IMAGES_H

#include "candle_rocm.h"
#include "modules.h"

extern const crk_image_t crk_priv_images_hip[CRK_MODULE_COUNT];
extern const crk_image_t crk_priv_images_cuda[CRK_MODULE_COUNT];

#endif
