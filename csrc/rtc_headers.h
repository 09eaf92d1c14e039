/* rtc_headers.h: the headers of kernels/cuda_port and those that they include, as text. The build script writes the
 * tables. A header has every name by which a program may include it: "cuda_port/cuda_fp16.h" and "cuda_fp16.h". */
#ifndef CRK_RTC_HEADERS_H
#define CRK_RTC_HEADERS_H

extern const char *const crk_priv_rtc_names[];
extern const char *const crk_priv_rtc_texts[];
extern const int crk_priv_rtc_header_count;

#endif
