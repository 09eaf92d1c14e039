/* rtc.h: source compiled at run time, for AMD GPUs by hipRTC and for NVIDIA's by NVRTC. */
#ifndef CRK_RTC_H
#define CRK_RTC_H

#include "candle_rocm.h"

/* Compiles `source` for a device, as crk_module_compile says; its sentences are that function's. `code`, of `bytes` bytes, is the
 * caller's to free. Holds no lock while the compiler works. */
crk_status_t crk_priv_rtc_compile(const crk_device_info_t *device, const char *module, const char *source,
                                  const char *const *options, size_t option_count, void **code, size_t *bytes);

#endif
