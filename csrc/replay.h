/* replay.h: launches that repeat, given to the driver as graphs. A model launches the same kernels for each token, with
 * a few other arguments. A graph of them costs the host as much as one launch, and leaves less time between kernels.
 *
 * - A chain is a sequence of up to 64 launches of one handle. It ends where the handle's stream is used for something
 *   else, such as a copy, an event or a wait. The first chain after such a use has at most 8 launches, the next 16, 32
 *   and 64: the device shall begin early.
 * - A chain that comes for the third time, behind the same chains, becomes a graph. Grids and arguments may differ
 *   from time to time, kernels and blocks may not.
 * - Once a chain has ended, the one that followed it last time is expected. While launches are as expected they are
 *   kept, and the last one launches the graph, after those nodes have been updated whose arguments differ. A launch
 *   that is not as expected is launched at once, after the kept ones.
 * - A kept launch begins at the next use of the stream, or some milliseconds later: a thread looks for such launches.
 *   It is one thread for all handles, so it may wait in a launch whose stream is full.
 *
 * Only a handle with a stream of its own replays, until it gives the stream away (crk_device_stream). A driver without
 * the calls (driver.h) does not, nor does a handle of CANDLE_ROCM_SYNC=1. CANDLE_ROCM_REPLAY=0 switches it off, 1 on,
 * and so does crk_device_set_replay. Without the variable it is on for NVIDIA GPUs. HIP's updates of graphs have not
 * run on an AMD GPU yet. */
#ifndef CRK_REPLAY_H
#define CRK_REPLAY_H

#include "candle_rocm.h"

typedef struct crk_replay crk_replay_t;

/* Gives a new handle what it needs to replay. A handle for which there is no memory does not replay. */
void crk_priv_replay_init(crk_device_t self);

/* The stream is idle, and no thread uses the handle. */
void crk_priv_replay_deinit(crk_device_t self);

/* Launches a kernel, or keeps the launch. Fails as the driver's `launch`, also for launches kept before. */
crk_status_t crk_priv_launch(crk_device_t self, crk_function_t function, crk_dim3_t grid, crk_dim3_t block,
                             uint32_t shared_bytes, const void *const *args);

/* Launches what is kept, and ends the chain. A failure stays for crk_priv_replay_take. */
void crk_priv_replay_end(crk_device_t self);

/* Whether nothing is kept. Never waits: false too where another thread launches. The caller is inside the handle's
 * gate, since crk_device_close frees what this reads. */
bool crk_priv_replay_is_clear(crk_device_t self);

/* As crk_priv_replay_end. From then on the handle launches at once, since the caller has its stream. */
void crk_priv_replay_forbid(crk_device_t self);

/* Whether launches may be kept. */
bool crk_priv_replays(crk_device_t self);

/* Begins the capture `graph` of the handle's stream. A launch of another thread comes before it or is recorded. None is
 * kept meanwhile. */
crk_status_t crk_priv_replay_capture(crk_device_t self, crk_graph_t graph);

/* Returns and clears the first failure of launches that were kept. */
crk_status_t crk_priv_replay_take(crk_device_t self);

#endif
