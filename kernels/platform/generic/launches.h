/* From launch to launch, where a launch begins only after the one before has ended. A part of platform/hip/threads.h
 * and platform/host/threads.h. */
#ifndef CRK_PLATFORM_GENERIC_LAUNCHES_H
#define CRK_PLATFORM_GENERIC_LAUNCHES_H

#define CRK_EARLY()        ((void)0)
#define CRK_BEGINS_EARLY() ((void)0)

namespace crk {

CRK_FN void wait_for_launch_before() {}
CRK_FN void let_next_launch_begin() {}

inline constexpr bool has_prefetch = false;
CRK_FN void prefetch(const void *) {}

}  // namespace crk

#endif
