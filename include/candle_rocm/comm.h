/* candle_rocm/comm.h: collectives between devices: sums, gathers and messages among the ranks of a group.
 *
 * A communicator connects `size` ranks, numbered from 0. Each rank is one device handle. Ranks may be in one process or
 * in many, on one host or on many. The work is done by RCCL on AMD GPUs and by NCCL on NVIDIA GPUs; both are opened at
 * run time. Some sums this library does by itself, see crk_comm_all_reduce. On the CPU device it is done by this
 * library. There all ranks are in one process, each on a thread of its own: it is for tests, and for programs that run
 * on one host's CPU.
 *
 *   rank 0:      crk_comm_id_create(device, &id), then the program sends the 128 bytes to the other ranks
 *   every rank:  crk_comm_create(device, &id, rank, size, 60000, &comm)
 *                crk_comm_all_reduce(comm, CRK_DTYPE_F16, CRK_COMM_OP_SUM, crk_const(x), x, count)
 *                crk_comm_wait(comm, 60000), where a lost rank must not leave the program waiting for ever
 *                crk_comm_destroy(comm)
 *
 * These rules hold for every collective:
 * - All ranks make the same calls in the same order, with the same dtype, count, reduction and root. Two
 *   calls of a communicator that are in one group are so on all ranks. A call is captured on all ranks or on none. On
 *   the CPU device a mistake here ends the communicator, with CRK_INVALID_ARGUMENT on every rank. A GPU may give a
 *   wrong result, or wait until the timeout.
 * - The work runs in the stream of the rank's device handle, in the order of the calls. It may be captured in a graph.
 *   Then the communicator must live until that graph is destroyed. The call returns before the work is done, but on
 *   the CPU device it returns afterwards.
 * - A collective may fill a GPU while it waits for the other ranks. Two rules keep ranks from waiting for each other
 *   for ever. Communicators that share a GPU use one stream on it, and all GPUs have their collectives in the same
 *   order. Before a rank joins a collective, it waits for no other work of the GPUs whose ranks have joined.
 * - RCCL and NCCL keep a communicator until the graphs with its collectives are destroyed. A call that ends a
 *   communicator after a failure then lasts a second longer, and a thread of this library waits for the graphs. Destroy
 *   them before the program ends, or unloads this library.
 * - Tensors are contiguous: `count` elements from the beginning of the view. `src` and `dst` must not overlap, except
 *   as the function's comment says. A count of 0 succeeds at once, and waits for no other rank.
 * - Dtypes: all of crk_dtype_t can be moved. All but I16 can be reduced. F8E4M3 is reduced by NCCL 2.24 or later on
 *   NVIDIA GPUs of compute capability 9.0 or later, by RCCL 2.24 or later on AMD GPUs other than gfx94x, and by the CPU
 *   device.
 * - The order of additions is the library's, and so is the rounding. The CPU device adds rank 0, 1, 2, ... in this
 *   order, in f32 for BF16, F16 and F8E4M3, and rounds once.
 *
 * Failures: a call that is refused has done nothing. The status is then CRK_INVALID_ARGUMENT, CRK_OUT_OF_BOUNDS (a view
 * is too small), CRK_UNSUPPORTED (the dtype), CRK_NOT_READY (ranks are missing) or CRK_CAPTURE. A stream that cannot be
 * made to wait for the one of the last collective (crk_comm_run_beside) gives CRK_DEVICE, and nothing has begun either.
 * Any other failure but CRK_OUT_OF_RANGE ends the communicator: it is aborted, its work in the stream ends, and each
 * later call fails with the same sentence. Device memory and the device handle stay usable. The status is CRK_PEER_LOST
 * where another rank failed, left or did not come in time, else CRK_DEVICE; crk_last_device_error is then an
 * ncclResult_t.
 *
 * On the CPU device the other ranks fail at once. On GPUs they find out by an error of the network, or by their own
 * timeout. */
#ifndef CANDLE_ROCM_COMM_H
#define CANDLE_ROCM_COMM_H

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Communicators
 * ------------------------------------------------------------------------------------------------------------------ */

/* One rank of a communicator. */
typedef struct crk_comm *crk_comm_t;

#define CRK_COMM_ID_BYTES 128

/* A timeout that never ends. */
#define CRK_COMM_FOREVER 0xffffffffu

/* The name of a communicator that is to be created. Plain bytes, which a program sends to its ranks by any means. */
typedef struct crk_comm_id {
  uint8_t bytes[CRK_COMM_ID_BYTES];
} crk_comm_id_t;

/* XX(name, value, text): the reductions. For integers AVG is the sum, in the dtype's own arithmetic, divided by the
 * number of ranks and rounded towards 0. MAX and MIN pass over NaN where another rank has a number. */
#define CRK_COMM_OP_MAP(XX) \
  XX(SUM, 0, "sum")         \
  XX(PROD, 1, "prod")       \
  XX(MAX, 2, "max")         \
  XX(MIN, 3, "min")         \
  XX(AVG, 4, "avg")

typedef enum crk_comm_op {
#define XX(name, value, text) CRK_COMM_OP_##name = value,
  CRK_COMM_OP_MAP(XX)
#undef XX
} crk_comm_op_t;

/* The library of the device's collectives: "RCCL", "NCCL" or "threads" (the CPU device). `version` is the library's
 * number, such as 22304 for 2.23.4; 0 for the CPU device. The name is static text. Opens the library.
 *
 * Fails with CRK_NO_RUNTIME where no usable library of version 2.18 or later is found. The sentence says where it was
 * looked for and what to install. */
CRK_API crk_status_t crk_comm_library(crk_device_t device, const char **name, int32_t *version);

/* A new id, for one communicator. One rank calls this. A GPU's id is of the library of that GPU; it keeps a thread in
 * this process, which must live until all ranks have been created.
 *
 * Fails as crk_comm_library does, and with CRK_DEVICE. */
CRK_API crk_status_t crk_comm_id_create(crk_device_t device, crk_comm_id_t *id);

/* Creates rank `rank` of `size`, and waits for the other ranks for at most `timeout_ms` milliseconds. `id` is the same
 * on all ranks, and all ranks use this function or all use crk_comm_create_async. Each rank needs a device of its own;
 * on the CPU device, a handle of its own. Destroy the communicator with crk_comm_destroy before the handle is closed.
 *
 * The same timeout bounds each step of later calls that waits for other ranks: on the CPU device each collective, on a
 * GPU the connection that the first collective makes, and crk_comm_destroy.
 *
 * CRK_COMM_FOREVER waits without a bound, and lets GPUs start each collective some tens of microseconds earlier: the
 * library then needs no thread per call. With it only crk_comm_wait and crk_comm_wait_event find lost ranks, once the
 * collective has started.
 *
 * The bound needs ncclCommInitRankConfig and ncclCommGetAsyncError. With a library without them the call waits without
 * a bound.
 *
 * Fails as crk_comm_library does, and with CRK_INVALID_ARGUMENT for a size of 0, a rank that is not below the size, or
 * a timeout of 0. Fails with CRK_PEER_LOST where a rank does not come in time, with CRK_CAPTURE while the handle is
 * captured, and with CRK_DEVICE for the library's own failures. On the CPU device it fails with CRK_INVALID_ARGUMENT
 * where the rank exists already or another rank gave another size. */
CRK_API crk_status_t crk_comm_create(crk_device_t device, const crk_comm_id_t *id, uint32_t rank, uint32_t size,
                                     uint32_t timeout_ms, crk_comm_t *comm);

/* The same, without waiting for the other ranks: crk_comm_query tells when they are there. Until then collectives fail
 * with CRK_NOT_READY. One thread may so create several ranks. The timeout begins here.
 *
 * Fails also with CRK_UNSUPPORTED where the library lacks a function for this; the sentence names it. */
CRK_API crk_status_t crk_comm_create_async(crk_device_t device, const crk_comm_id_t *id, uint32_t rank, uint32_t size,
                                           uint32_t timeout_ms, crk_comm_t *comm);

/* Waits for the work that this communicator's stream still has, for at most the communicator's timeout, and releases
 * the communicator. The other ranks do so too; one that does not is waited for no longer than that timeout. It has no
 * effect on work that is captured: first destroy graphs that use the communicator. On a GPU this call may wait for such
 * a graph without a bound. */
CRK_API void crk_comm_destroy(crk_comm_t self);

/* Ends the communicator at once, on this rank. Its work in the stream ends too, with undefined results. Later calls
 * fail with CRK_PEER_LOST. May be called while another thread waits in a call of this communicator; that call then
 * fails. Does nothing where the communicator has ended already. If graphs with collectives of the communicator live,
 * the call returns after a second, and the library's part ends with the last graph: destroy them first. */
CRK_API crk_status_t crk_comm_abort(crk_comm_t self);

/* CRK_OK where the communicator is ready and no failure is known. CRK_NOT_READY while other ranks are missing, or while
 * another thread starts a collective. Otherwise fails with the failure that has ended the communicator. Waits for
 * nothing. */
CRK_API crk_status_t crk_comm_query(crk_comm_t self);

/* Waits until the communicator is ready and the work that its device handle has now is done. Looks for failures of the
 * communicator meanwhile.
 *
 * Fails with CRK_PEER_LOST, and has then aborted the communicator, where a failure is known or `timeout_ms`
 * milliseconds are over. So a rank that is lost ends in an error on every rank that waits, whatever work is in the
 * stream; crk_device_synchronize would wait for ever. With CRK_COMM_FOREVER only a failure that the library notices
 * ends the wait. Fails also as crk_device_synchronize does. Fails with CRK_CAPTURE while the handle is captured. An
 * abort lasts up to a second longer while graphs with collectives of the communicator live; destroy them then. */
CRK_API crk_status_t crk_comm_wait(crk_comm_t self, uint32_t timeout_ms);

/* The same for the work that came before `event` was recorded in a stream of the communicator's device. Later work may
 * be under way: so a program gives its device the next step before it reads the results of this one. What kernels of
 * later work have reported may be returned too. */
CRK_API crk_status_t crk_comm_wait_event(crk_comm_t self, crk_event_t event, uint32_t timeout_ms);

/* The calling thread's later collectives of this communicator run in the stream of `side`, another handle of the
 * communicator's device, such as one of crk_device_clone. So a sum may be under way while the device computes something
 * else. NULL means the own handle again. A thread has one communicator at a time that runs beside. All ranks run the
 * same collectives beside. `side` stays open until the communicator is destroyed.
 *
 * The caller orders the two streams, by crk_event_record and crk_device_wait: the collective after the work that makes
 * its `src`, and whatever uses or frees its memory after the collective. A collective waits for the communicator's last
 * one in another stream, unless either stream is captured: the caller orders graphs of collectives and collectives in
 * other streams. crk_comm_wait waits for the own handle's work and for the last collective.
 *
 * Fails with CRK_INVALID_ARGUMENT where `side` is on another device. */
CRK_API crk_status_t crk_comm_run_beside(crk_comm_t self, crk_device_t side);

/* The rank of this communicator, and the number of ranks. */
CRK_API crk_status_t crk_comm_rank(crk_comm_t self, uint32_t *rank);
CRK_API crk_status_t crk_comm_size(crk_comm_t self, uint32_t *size);

/* ------------------------------------------------------------------------------------------------------------------
 * Groups of calls
 * ------------------------------------------------------------------------------------------------------------------ */

/* Between these two calls, the calling thread's collectives are checked and collected. crk_comm_group_end starts them
 * together. Messages in both directions between two ranks need a group, else both wait. One thread that has several
 * ranks needs a group for each collective. Several collectives in a group are faster than one after the other. No
 * collective of a group may read what another one writes.
 *
 * Groups may be nested; the last end starts the work. A communicator must not be destroyed within a group. On GPUs,
 * communicators that were created with CRK_COMM_FOREVER and others cannot be in the same group.
 * crk_comm_group_end fails with CRK_INVALID_ARGUMENT where the thread has no group. A collective that was refused does
 * not end the group; the others are started. */
CRK_API crk_status_t crk_comm_group_begin(void);
CRK_API crk_status_t crk_comm_group_end(void);

/* ------------------------------------------------------------------------------------------------------------------
 * Collectives
 * ------------------------------------------------------------------------------------------------------------------ */

/* dst[i] = op over all ranks r of src_r[i], on every rank, for i < count. `src` may be `dst`.
 *
 * This library does some sums of F32, F16 and BF16 by itself, among 2 to 8 GPUs of one host that reach each other's
 * memory. AMD GPUs also need fine-grained memory, which they have on PCIe only with HSA_FORCE_FINE_GRAIN_PCIE=1.
 * crk_comm_create must have created the ranks, and a group must have no other call of the communicator. Sums of up to
 * 128 KiB are one launch. Among two NVIDIA GPUs, or two AMD GPUs of CDNA 2 or later, sums of up to 32 MiB are a launch
 * for each 16 MiB. With crk_comm_run_beside they are copies and two launches for each 8 MiB instead, of any size from 1
 * MiB on, unless they are captured. All other sums are left to RCCL or NCCL. The elements of rank 0, 1, 2, ... are
 * added in this order, in f32, and rounded once. The environment variable CANDLE_ROCM_COMM_PEERS=0, on one rank, leaves
 * all sums to RCCL or NCCL. */
CRK_API crk_status_t crk_comm_all_reduce(crk_comm_t self, crk_dtype_t dtype, crk_comm_op_t op, crk_const_view_t src,
                                         crk_view_t dst, size_t count);

/* sum = residual + s, where s is the sum over all ranks of x_r, and dst = crk_rms_norm of sum: what follows a layer
 * that is split among ranks. s and sum are rounded to the dtype. All tensors but `alpha` are `rows` rows of `cols`
 * elements, contiguous from the beginning of their views; `alpha` has `cols`. `x` is undefined afterwards. sum and dst
 * must not overlap each other or a source, and x no other source.
 *
 * One launch where this library does small sums by itself, rows are whole pieces of 8 bytes, and few: a row of up to 8
 * KiB counts as whole pieces of 2 KiB, one of up to 16 KiB as pieces of 4 KiB, and all rows together have at most 128
 * KiB. A launch for each 16 MiB among two GPUs as in crk_comm_all_reduce, without crk_comm_run_beside, where rows are
 * whole pieces of 16 bytes, and 2 to 32 KiB; a row counts as whole pieces of 8 KiB. Else crk_comm_all_reduce in place
 * and crk_add_rms_norm. The dtype is F32, F16 or BF16. Not within a group: fails there with CRK_INVALID_ARGUMENT. */
CRK_API crk_status_t crk_comm_add_rms_norm(crk_comm_t self, crk_dtype_t dtype, size_t rows, size_t cols, crk_view_t x,
                                           crk_const_view_t residual, crk_const_view_t alpha, crk_view_t sum,
                                           crk_view_t dst, float eps);

/* The same as crk_comm_all_reduce on rank `root` only. Other ranks' `dst` is not used and may be empty. */
CRK_API crk_status_t crk_comm_reduce(crk_comm_t self, crk_dtype_t dtype, crk_comm_op_t op, crk_const_view_t src,
                                     crk_view_t dst, size_t count, uint32_t root);

/* dst[i] = src_root[i] on every rank, for i < count. `src` is used on rank `root` only, and may be empty on others.
 * There `src` may be `dst`. */
CRK_API crk_status_t crk_comm_broadcast(crk_comm_t self, crk_dtype_t dtype, crk_const_view_t src, crk_view_t dst,
                                        size_t count, uint32_t root);

/* dst[r * count + i] = src_r[i] on every rank, for every rank r and i < count: `count` is that of one rank. `src` may
 * be the part of `dst` that it becomes, from element rank * count on. */
CRK_API crk_status_t crk_comm_all_gather(crk_comm_t self, crk_dtype_t dtype, crk_const_view_t src, crk_view_t dst,
                                         size_t count);

/* dst[i] = op over all ranks r of src_r[rank * count + i], for i < count: `src` has size * count elements. `dst` may be
 * that part of `src`, from element rank * count on. */
CRK_API crk_status_t crk_comm_reduce_scatter(crk_comm_t self, crk_dtype_t dtype, crk_comm_op_t op, crk_const_view_t src,
                                             crk_view_t dst, size_t count);

/* dst[r * count + i] = src_r[rank * count + i], for every rank r and i < count: rank r gets the r-th part of each
 * `src`. Both views have size * count elements. */
CRK_API crk_status_t crk_comm_all_to_all(crk_comm_t self, crk_dtype_t dtype, crk_const_view_t src, crk_view_t dst,
                                         size_t count);

/* Sends `count` elements to rank `peer`, which receives as many of the same dtype. Messages from one rank to another
 * are received in the order in which they were sent. A rank may send to itself within a group that also receives. */
CRK_API crk_status_t crk_comm_send(crk_comm_t self, crk_dtype_t dtype, crk_const_view_t src, size_t count,
                                   uint32_t peer);

/* Receives `count` elements from rank `peer`. */
CRK_API crk_status_t crk_comm_recv(crk_comm_t self, crk_dtype_t dtype, crk_view_t dst, size_t count, uint32_t peer);

#ifdef __cplusplus
}
#endif
#endif
