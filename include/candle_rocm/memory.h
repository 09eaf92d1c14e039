/* candle_rocm/memory.h: device memory and its cache, pinned host memory, and copies. */
#ifndef CANDLE_ROCM_MEMORY_H
#define CANDLE_ROCM_MEMORY_H

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Device memory
 * ------------------------------------------------------------------------------------------------------------------ */

/* `bytes` of device memory, aligned to 256 bytes, contents undefined. 0 bytes give NULL and succeed.
 *
 * The GPU's cache of freed memory serves the call without waiting, where it has room. Memory that this handle freed is
 * reused in stream order. Memory that another handle freed is used only after an event has shown that the other stream
 * has passed the free. The cache takes large segments from the driver and gives out parts of them, so that few calls
 * reach the driver and little memory stays unused.
 *
 * Where the device has no memory left, the call waits for the work of all handles on the GPU except captured ones. Then
 * it returns unused segments of the cache to the driver, and tries once more. Fails with CRK_OUT_OF_MEMORY after that;
 * no memory is lost. During a capture only the cache can serve the call, and it fails with CRK_CAPTURE otherwise (see
 * crk_memory_reserve). */
CRK_API crk_status_t crk_alloc(crk_device_t self, size_t bytes, void **ptr);

/* Gives back memory from crk_alloc of the same handle; NULL does nothing. Never waits. The block may be given out again
 * at once, to work that comes later in the stream. Order work of other handles that uses the block before the free, by
 * events.
 *
 * A block that a capture gave out belongs to that graph. So does a block that any thread freed during the capture. Such
 * a block is given out again after all graphs that use it are destroyed.
 *
 * Fails with CRK_INVALID_ARGUMENT where `ptr` is not the beginning of a live allocation of this handle. During a
 * capture it fails with CRK_OUT_OF_MEMORY where the host has no memory to note that the graph uses the block; the block
 * then stays allocated. */
CRK_API crk_status_t crk_free(crk_device_t self, void *ptr);

/* Makes sure that the cache can serve one crk_alloc of up to `bytes` without the driver. Call it before a capture, once
 * for each allocation that will be live at the same time. An allocation takes the reserved memory when the cache has
 * nothing else for it. Outside a capture it does so only where at most a fifth of the memory stays unused. */
CRK_API crk_status_t crk_memory_reserve(crk_device_t self, size_t bytes);

/* Sets the bound on freed memory that stays cached on the GPU, for all its handles together. The default is half of the
 * device's memory.
 *
 * Above the bound whole segments go back to the driver, the earliest emptied first. A segment with a live block cannot
 * go back. This call returns segments at once, and waits for the work of all handles. Later segments go back in
 * crk_free, crk_device_synchronize or crk_copy_to_host, when all streams of the GPU are idle: a driver may wait for the
 * whole GPU when it frees.
 *
 * Below the bound, segments of 8 MiB and more go back in two cases: no call used them for some synchronisations (4 to
 * 8 the first time, and after each time four times as many, up to 256 to 512), or a new large segment takes their
 * place. Both stop when twice the peak (peak_driver_bytes) has gone back in this way. So a loop cannot return and take
 * the same memory for ever. Reserve the memory for a capture that needs much.
 *
 * With a bound of 0 each allocation is a driver allocation of its own. Its size is rounded up to 512 bytes, and beyond
 * 1 MiB to 64 KiB. This mode is for tools that watch the driver's allocations. */
CRK_API crk_status_t crk_memory_set_cache_limit(crk_device_t self, size_t bytes);

/* Returns the GPU's cached memory to the driver: every segment without a live block. Waits for the work of all handles
 * on the GPU except captured ones. Fails with CRK_CAPTURE while this handle is captured. */
CRK_API crk_status_t crk_memory_trim(crk_device_t self);

/* Figures of a handle's memory. Fields are added at the end only: see `struct_bytes` in candle_rocm.h. */
typedef struct crk_memory_stats {
  size_t struct_bytes; /* set by the caller: sizeof(crk_memory_stats_t) */
  uint64_t live_bytes; /* of the handle: given out and not yet freed */
  uint64_t cached_bytes; /* of the GPU: freed, or reserved; kept for later calls of crk_alloc of any handle */
  uint64_t live_allocations; /* of the handle */
  uint64_t driver_allocations; /* of the handle: calls to the driver's allocator so far */
  uint64_t peak_live_bytes; /* of the handle: the largest `live_bytes` so far */
  uint64_t retired_bytes; /* of the GPU: freed, kept for graphs */
  uint64_t driver_bytes; /* of the GPU: all that the allocator has from the driver; contains the others */
  uint64_t peak_driver_bytes; /* of the GPU: the largest `driver_bytes` so far */
} crk_memory_stats_t;

/* How much memory is in which state. The caller sets stats->struct_bytes. The figures leave out kernel code, BLAS
 * workspaces and parameter caches. */
CRK_API crk_status_t crk_memory_stats(crk_device_t self, crk_memory_stats_t *stats);

/* ------------------------------------------------------------------------------------------------------------------
 * Host memory and copies
 * ------------------------------------------------------------------------------------------------------------------ */

/* Pinned host memory: the device copies from and to it without a staging buffer. Free it with crk_host_free, which
 * waits for the handle's stream. Both fail with CRK_CAPTURE during a capture; the memory then stays allocated. */
CRK_API crk_status_t crk_host_alloc(crk_device_t self, size_t bytes, void **ptr);
CRK_API crk_status_t crk_host_free(crk_device_t self, void *ptr);

/* Copies host memory to the device. Returns as soon as `src` may be changed. For at most 64 KiB that is mostly before
 * the copy is done, so another stream must wait for an event before it uses `dst`. Fails with CRK_CAPTURE during a
 * capture. */
CRK_API crk_status_t crk_copy_to_device(crk_device_t self, crk_view_t dst, const void *src, size_t bytes);

/* Copies device memory to the host. Returns when the data has arrived. Fails with CRK_CAPTURE during a capture, and
 * with CRK_OUT_OF_RANGE as crk_device_synchronize does; the data has arrived in that case too. */
CRK_API crk_status_t crk_copy_to_host(crk_device_t self, void *dst, crk_const_view_t src, size_t bytes);

/* The same copies without waiting. The host memory must stay as it is until the stream has done the copy. It should
 * come from crk_host_alloc: with other memory the driver may wait, and refuses the copy during a capture. */
CRK_API crk_status_t crk_copy_to_device_async(crk_device_t self, crk_view_t dst, const void *src, size_t bytes);
CRK_API crk_status_t crk_copy_to_host_async(crk_device_t self, void *dst, crk_const_view_t src, size_t bytes);

/* Copies within the device. The ranges may be the same, but must not overlap otherwise (CRK_INVALID_ARGUMENT). */
CRK_API crk_status_t crk_copy(crk_device_t self, crk_view_t dst, crk_const_view_t src, size_t bytes);

/* Copies to another device. The copy comes after the earlier work of both handles, and before the later work of both.
 * The host waits only between devices of different backends, where the copy goes through host memory, and on the CPU.
 * Between GPUs of one backend the copy is direct where crk_device_peer_access allows it. On one device the ranges may
 * be the same, but must not overlap otherwise. Fails with CRK_CAPTURE while either handle is captured. */
CRK_API crk_status_t crk_copy_between(crk_device_t dst_device, crk_view_t dst, crk_device_t src_device,
                                      crk_const_view_t src, size_t bytes);

/* Sets each of the first `bytes` bytes of the view to `value`. */
CRK_API crk_status_t crk_memset(crk_device_t self, crk_view_t dst, uint8_t value, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
