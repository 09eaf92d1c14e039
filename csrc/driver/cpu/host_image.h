/* Whether bytes are a shared object that this process can load, asked before the system's loader sees them. */
#ifndef CRK_CPU_IMAGE_H
#define CRK_CPU_IMAGE_H

#include "candle_rocm.h"

/* The loader maps a file by what its headers say and faults where the file ends early, so everything that the headers
 * refer to is held against `bytes` here. Fails with CRK_INVALID_IMAGE, or CRK_WRONG_ARCHITECTURE for a well-formed file
 * of another machine; `module` names it in the sentence. */
crk_status_t crk_priv_cpu_image_check(const char *module, const void *data, size_t bytes);

#endif
