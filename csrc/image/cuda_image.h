/* cuda_image.h: the check of an image for NVIDIA GPUs before libcuda reads it. */
#ifndef CRK_CUDA_IMAGE_H
#define CRK_CUDA_IMAGE_H

#include "candle_rocm.h"

/* Checks that an image is a cubin, a fatbin or PTX, and lies within its `bytes`. libcuda is not told the size of an
 * image and trusts its headers. Fails with CRK_INVALID_IMAGE, or with CRK_WRONG_ARCHITECTURE for PTX that needs more
 * than the device's compute capability: 90 is 9.0. `name` is the module's, for the sentence. */
crk_status_t crk_priv_check_cuda_image(const char *name, const void *data, size_t bytes, int32_t ordinal,
                                       int capability);

#endif
