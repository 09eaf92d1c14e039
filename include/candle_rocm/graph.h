/* candle_rocm/graph.h: work that is recorded once and launched many times. */
#ifndef CANDLE_ROCM_GRAPH_H
#define CANDLE_ROCM_GRAPH_H

#include "candle_rocm/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The recorded work of one handle. */
typedef struct crk_graph *crk_graph_t;

/* Begins a capture: from here to crk_graph_end the handle's work is recorded and not run. Work that other threads give
 * to the handle is recorded too. Their calls that wait for the handle, such as crk_copy_to_host, fail with CRK_CAPTURE;
 * those that began earlier are waited for first. The graph reserves the memory that any thread frees during the capture
 * and the parameters that it uses, until the graph is destroyed. */
CRK_API crk_status_t crk_graph_begin(crk_device_t self);

/* Ends the capture and gives its graph. A failure ends the capture too and releases all that it recorded. The one
 * exception is a NULL `graph`: the call fails and the capture goes on. */
CRK_API crk_status_t crk_graph_end(crk_device_t self, crk_graph_t *graph);

/* Runs the recorded work on the handle that recorded it. May be called any number of times. */
CRK_API crk_status_t crk_graph_launch(crk_graph_t self);

/* A number that grows when a capture begins or ends and when a graph has been launched, on any handle of the
 * process. What a program keeps of a tensor's contents, such as a copy in another format, is of the same contents
 * only while this number and the tensor are unchanged: a replay writes to memory that no call names. */
CRK_API uint64_t crk_graph_epoch(void);

/* Waits for the handle's work, then releases the graph and all that it reserved. Call it before the handle is
 * closed. */
CRK_API void crk_graph_destroy(crk_graph_t self);

#ifdef __cplusplus
}
#endif
#endif
