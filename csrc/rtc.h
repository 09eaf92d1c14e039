/* rtc.h: compiles source at run time: by hipRTC for AMD GPUs, by NVRTC for NVIDIA GPUs. */
#ifndef CRK_RTC_H
#define CRK_RTC_H

#include "candle_rocm.h"

/* Compiles `source` for a device. crk_module_compile has the contract, and the error sentences name that function. The
 * caller frees `code`, which has `bytes` bytes. No lock is held while the compiler runs. */
crk_status_t crk_priv_rtc_compile(const crk_device_info_t *device, const char *module, const char *source,
                                  const char *const *options, size_t option_count, void **code, size_t *bytes);

#endif
