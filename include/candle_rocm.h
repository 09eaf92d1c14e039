/* candle_rocm.h: Candle's kernels on AMD GPUs, from C. Include this file; it includes all the others.
 *
 * Open a device, give it memory, and run kernels: by Candle's exact names (`crk_launch`), or through a launcher that
 * picks the fastest kernel for a layout (`crk_unary`, `crk_binary`, ...). The same calls work on an AMD GPU (HIP), on
 * an NVIDIA GPU (CUDA) and on the CPU.
 *
 * These rules hold for every function:
 * - A function that can fail returns a `crk_status_t`. After a failure `crk_last_error()` holds a sentence about it.
 *   Results leave through out-pointers, which are written on success only.
 * - The library never prints, never exits and never aborts.
 * - A handle may be used from any thread, and from several threads at once. A `_destroy`, `_close` or `_free` must be
 *   the last call on its object; given NULL it does nothing.
 * - A device handle has one stream. Its work runs in the order of the calls. Functions return before the work is done,
 *   unless their comment says otherwise. Buffers that a function takes are borrowed until the stream has run the work.
 * - A call may make the handle's GPU the calling thread's current device (hipSetDevice, or CUDA's current context). It
 *   does not restore the previous one, because that would cost every launch another driver call. Code that calls the
 *   runtime itself must set the device that it needs. This library never relies on the current device.
 * - Sizes and counts are `size_t`. Strides and offsets are in elements, sizes of memory in bytes.
 * - A function may write the memory of a crk_view_t. It only reads that of a crk_const_view_t. crk_const() makes the
 *   second from the first.
 * - These structs do not change before a new major version: crk_view_t, crk_const_view_t, crk_layout_t, crk_arg_t,
 *   crk_dim3_t, crk_image_t, crk_param_t, crk_params_t, crk_mmq_rows_t, crk_grouped_product_t, crk_matmul_weights_t,
 *   crk_rope_rows_t, crk_head_weights_t, crk_finding_t and crk_comm_id_t. The others, crk_device_info_t,
 *   crk_memory_stats_t and crk_attention_t, begin with `struct_bytes` and may grow at their end.
 * - Set `struct_bytes` to the size of your struct before the call. The function writes at most that many bytes; fields
 *   that only the program knows become 0. So a program works with an older and with a newer library. The call fails
 *   with CRK_INVALID_ARGUMENT where struct_bytes is below the size of the struct's first version, or above 4096.
 * - A function that reads such a struct takes fields that the program does not know as 0. It fails with CRK_UNSUPPORTED
 *   where a field that only the program knows is not 0. */
#ifndef CANDLE_ROCM_H
#define CANDLE_ROCM_H

/* The core: devices, memory, kernels, graphs and collectives, and what is wrong where there is no device. */
#include "candle_rocm/comm.h"
#include "candle_rocm/device.h"
#include "candle_rocm/diagnose.h"
#include "candle_rocm/graph.h"
#include "candle_rocm/layout.h"
#include "candle_rocm/memory.h"
#include "candle_rocm/module.h"
#include "candle_rocm/status.h"

/* The launchers: one file per family. */
#include "candle_rocm/launchers/attention.h"
#include "candle_rocm/launchers/conv.h"
#include "candle_rocm/launchers/elementwise.h"
#include "candle_rocm/launchers/indexing.h"
#include "candle_rocm/launchers/matmul.h"
#include "candle_rocm/launchers/moe.h"
#include "candle_rocm/launchers/norm.h"
#include "candle_rocm/launchers/quantized.h"
#include "candle_rocm/launchers/random.h"
#include "candle_rocm/launchers/reduce.h"
#include "candle_rocm/launchers/rope.h"
#include "candle_rocm/launchers/sort.h"

/* Candle's static launchers, under Candle's names. */
#include "candle_rocm/ffi.h"

#endif
