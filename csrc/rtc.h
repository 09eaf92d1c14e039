/* rtc.h: compiles source at run time: by hipRTC for AMD GPUs, by NVRTC for NVIDIA GPUs. */
#ifndef CRK_RTC_H
#define CRK_RTC_H

#include "candle_rocm.h"

/* The language of a source for an AMD GPU. NVRTC compiles both as CUDA. */
typedef enum crk_language { CRK_LANGUAGE_HIP, CRK_LANGUAGE_CUDA } crk_language_t;

/* Compiles `source` for a device. crk_module_compile and crk_module_compile_cuda have the contracts, and the error
 * sentences name the first. The caller frees `code`, which has `bytes` bytes. No lock is held while the compiler runs,
 * but that HIP before 6 compiles one source at a time. */
crk_status_t crk_priv_rtc_compile(const crk_device_info_t *device, crk_language_t language, const char *module,
                                  const char *source, const char *const *options, size_t option_count, void **code,
                                  size_t *bytes);

#endif
