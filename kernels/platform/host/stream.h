/* platform/stream.h for the CPU: there are no matrix cores. */
#ifndef CRK_PLATFORM_HOST_STREAM_H
#define CRK_PLATFORM_HOST_STREAM_H

#define CRK_STREAM_CORES 0

namespace crk {

inline constexpr uint32_t stream_waves = 2;

}  // namespace crk

#endif
