/* The check that bytes are a shared object which this process can load, before the system's loader reads them. */
#ifndef CRK_CPU_IMAGE_H
#define CRK_CPU_IMAGE_H

#include "candle_rocm.h"

/* Checks that everything that the headers refer to lies within `bytes`. The loader trusts the headers, and crashes the
 * process where a file ends early. Fails with CRK_INVALID_IMAGE, or with CRK_WRONG_ARCHITECTURE for a well-formed file
 * for another machine. `module` is the name in the sentence. */
crk_status_t crk_priv_cpu_image_check(const char *module, const void *data, size_t bytes);

#endif
