/* Graphs: capture a stream, replay it. */
#include <stdlib.h>

#include "core.h"

static _Atomic(uint64_t) epoch;

uint64_t crk_graph_epoch(void) { return atomic_load(&epoch); }

/* Makes the stream idle and begins the capture. The caller holds the handle's lock and has closed the stream's gate. */
static crk_status_t capture_begin(crk_device_t self, crk_graph_t graph) {
  const uint64_t stamp = crk_priv_heap_wait_begin(self);
  CRK_TRY(crk_priv_stream_wait(self));
  crk_priv_heap_wait_end(self, stamp);
  CRK_TRY(crk_priv_replay_capture(self, graph));
  atomic_fetch_add(&epoch, 1);
  return CRK_OK;
}

crk_status_t crk_graph_begin(crk_device_t self) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_graph_begin");
  crk_graph_t graph = calloc(1, sizeof *graph);
  if (graph == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_graph_begin: no host memory for a graph");
  }
  graph->device = self;
  crk_priv_blas_capture_begin(self);
  crk_priv_turns_enter(&self->capture_turns);
  crk_priv_mutex_lock(&self->lock);
  crk_status_t status = crk_priv_refuse_capture(self, "crk_graph_begin");
  /* The parameter cache, the fault words and the tickets need allocations, which a capture cannot make. */
  if (status == CRK_OK) {
    status = crk_priv_params_prepare(self);
  }
  if (status == CRK_OK) {
    status = crk_priv_fault_prepare(self);
  }
  if (status == CRK_OK) {
    status = crk_priv_tickets_prepare(self);
  }
  if (status == CRK_OK) {
    crk_priv_gate_close(self->gate);
    status = capture_begin(self, graph);
    crk_priv_gate_open(self->gate, status == CRK_OK);
  }
  crk_priv_mutex_unlock(&self->lock);
  crk_priv_turns_leave(&self->capture_turns);
  if (status != CRK_OK) {
    crk_priv_blas_capture_end(self);
    free(graph);
  }
  return status;
}

/* Returns the memory and the parameter slots that the graph uses. */
static void release_uses(crk_graph_t graph) {
  crk_priv_heap_graph_destroy(graph->device, graph);
  crk_priv_params_graph_destroy(graph->device, graph);
}

crk_status_t crk_graph_end(crk_device_t self, crk_graph_t *graph) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_graph_end");
  CRK_REFUSE_IF(graph == NULL, "crk_graph_end: graph is NULL");
  /* The lock makes this one step for other threads: the capture is running, or it has ended and the graph owns its
   * memory and parameter slots. */
  crk_priv_mutex_lock(&self->lock);
  crk_graph_t capture = atomic_load(&self->capture);
  if (capture == NULL) {
    crk_priv_mutex_unlock(&self->lock);
    return crk_priv_error(CRK_CAPTURE, "crk_graph_end: the handle is not being captured; call crk_graph_begin first");
  }
  const crk_status_t status =
      self->driver->capture_end(self->driver_device, crk_priv_stream(self), &capture->driver_graph);
  crk_priv_blas_capture_end(self);
  crk_priv_heap_capture_end(self, capture);
  atomic_fetch_add(&epoch, 1);
  crk_priv_mutex_unlock(&self->lock);
  if (status != CRK_OK) {
    release_uses(capture);
    free(capture);
    return status;
  }
  capture->magic = CRK_MAGIC_GRAPH;
  *graph = capture;
  return CRK_OK;
}

crk_status_t crk_graph_launch(crk_graph_t self) {
  CRK_CHECK_HANDLE(self, GRAPH, "crk_graph_launch");
  CRK_TRY(crk_priv_refuse_capture(self->device, "crk_graph_launch"));
  crk_device_t device = self->device;
  crk_priv_fault_expect();
  const crk_status_t status =
      device->driver->graph_launch(device->driver_device, self->driver_graph, crk_priv_stream(device));
  /* Only now: what another thread makes of a tensor while the graph is being launched may be older than the graph. */
  atomic_fetch_add(&epoch, 1);
  return crk_priv_operation(device, "crk_graph_launch", status);
}

void crk_graph_destroy(crk_graph_t self) {
  if (self == NULL || self->magic != CRK_MAGIC_GRAPH) {
    return;
  }
  crk_device_t device = self->device;
  self->magic = 0;
  crk_priv_turns_enter(&device->capture_turns);
  if (!crk_priv_capturing(device)) {
    device->driver->stream_synchronize(device->driver_device, crk_priv_stream(device));
  }
  crk_priv_turns_leave(&device->capture_turns);
  device->driver->graph_destroy(device->driver_device, self->driver_graph);
  release_uses(self);
  free(self);
}
