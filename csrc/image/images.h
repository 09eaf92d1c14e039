/* images.h: the modules' names, and the code objects embedded in this build, in the order of csrc/modules.h. They are
 * packed (unpack.h). The build script generates their tables. An entry is {NULL, 0} if this build has no code for the
 * module. */
#ifndef CRK_IMAGES_H
#define CRK_IMAGES_H

#include "candle_rocm.h"
#include "modules.h"

/* Same as crk_module_name of an index below CRK_MODULE_COUNT. */
static inline const char *crk_priv_module_name(size_t index) {
  static const char *const names[] = {
#define XX(upper, lower) #lower,
      CRK_MODULE_MAP(XX)
#undef XX
  };
  return names[index];
}

extern const crk_image_t crk_priv_images_hip[CRK_MODULE_COUNT];
extern const crk_image_t crk_priv_images_cuda[CRK_MODULE_COUNT];

#endif
