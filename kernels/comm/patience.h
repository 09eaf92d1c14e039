/* For the kernels that wait for other ranks. */
#ifndef CRK_PATIENCE_H
#define CRK_PATIENCE_H

#include "call/peers_call.h"
#include "platform/platform.h"

namespace crk {

/* Loads between two looks at `stop`, which is in the host's memory. */
inline constexpr uint32_t patience = on_host ? 1 : 1024;

}  // namespace crk

#endif
