/* images.h: the code objects embedded in this build, in the order of csrc/modules.h. They are packed (unpack.h). The
 * build script generates the tables. An entry is {NULL, 0} if this build has no code for the module. */
#ifndef CRK_IMAGES_H
#define CRK_IMAGES_H

#include "candle_rocm.h"
#include "modules.h"

extern const crk_image_t crk_priv_images_hip[CRK_MODULE_COUNT];
extern const crk_image_t crk_priv_images_cuda[CRK_MODULE_COUNT];

#endif
