/* Streams, events and graphs of the HIP driver. Their handles are those of the runtime. */
#include "driver/hip/hip_calls.h"
#include "driver/hip/hip_driver.h"

crk_status_t crk_priv_hip_stream_create(crk_driver_device_t *device, crk_driver_stream_t **stream) {
  CRK_TRY(crk_priv_hip_bind(device));
  void *fresh = NULL;
  HIP_TRY(crk_priv_hip.hipStreamCreateWithFlags(&fresh, HIP_STREAM_NON_BLOCKING), "hipStreamCreateWithFlags(device %d)",
          device->ordinal);
  *stream = fresh;
  return CRK_OK;
}

void crk_priv_hip_stream_destroy(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  RELEASE(device, crk_priv_hip.hipStreamDestroy(stream));
}

crk_status_t crk_priv_hip_stream_synchronize(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  CRK_TRY(crk_priv_hip_bind(device));
  HIP_TRY(crk_priv_hip.hipStreamSynchronize(stream), "hipStreamSynchronize");
  return CRK_OK;
}

crk_status_t crk_priv_hip_stream_wait(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                      crk_driver_event_t *event) {
  CRK_TRY(crk_priv_hip_bind(device));
  HIP_TRY(crk_priv_hip.hipStreamWaitEvent(stream, event, 0), "hipStreamWaitEvent");
  return CRK_OK;
}

crk_status_t crk_priv_hip_event_create(crk_driver_device_t *device, crk_driver_event_t **event) {
  CRK_TRY(crk_priv_hip_bind(device));
  void *fresh = NULL;
  /* The event records times, for crk_priv_hip_event_elapsed. */
  HIP_TRY(crk_priv_hip.hipEventCreateWithFlags(&fresh, HIP_EVENT_DEFAULT), "hipEventCreateWithFlags(device %d)",
          device->ordinal);
  *event = fresh;
  return CRK_OK;
}

void crk_priv_hip_event_destroy(crk_driver_device_t *device, crk_driver_event_t *event) {
  RELEASE(device, crk_priv_hip.hipEventDestroy(event));
}

crk_status_t crk_priv_hip_event_record(crk_driver_device_t *device, crk_driver_event_t *event,
                                       crk_driver_stream_t *stream) {
  CRK_TRY(crk_priv_hip_bind(device));
  HIP_TRY(crk_priv_hip.hipEventRecord(event, stream), "hipEventRecord");
  return CRK_OK;
}

crk_status_t crk_priv_hip_event_query(crk_driver_device_t *device, crk_driver_event_t *event) {
  CRK_TRY(crk_priv_hip_bind(device));
  const int code = crk_priv_hip.hipEventQuery(event);
  if (code == HIP_NOT_READY) { /* not a failure here, but the runtime keeps it as one */
    crk_priv_hip_forget_error();
    return CRK_NOT_READY;
  }
  HIP_TRY(code, "hipEventQuery");
  return CRK_OK;
}

crk_status_t crk_priv_hip_event_synchronize(crk_driver_device_t *device, crk_driver_event_t *event) {
  CRK_TRY(crk_priv_hip_bind(device));
  HIP_TRY(crk_priv_hip.hipEventSynchronize(event), "hipEventSynchronize");
  return CRK_OK;
}

crk_status_t crk_priv_hip_event_elapsed(crk_driver_device_t *device, crk_driver_event_t *start, crk_driver_event_t *end,
                                        float *milliseconds) {
  NEED(hipEventElapsedTime);
  CRK_TRY(crk_priv_hip_bind(device));
  float elapsed = 0;
  const int code = crk_priv_hip.hipEventElapsedTime(&elapsed, start, end);
  if (code == HIP_NOT_READY) {
    crk_priv_hip_forget_error();
    return crk_priv_error(CRK_NOT_READY, "hipEventElapsedTime answers %d: the work before an event is not done yet",
                          code);
  }
  HIP_TRY(code, "hipEventElapsedTime");
  *milliseconds = elapsed;
  return CRK_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Graphs
 * ------------------------------------------------------------------------------------------------------------------ */

crk_status_t crk_priv_hip_capture_begin(crk_driver_device_t *device, crk_driver_stream_t *stream) {
  NEED(hipStreamBeginCapture);
  NEED(hipStreamEndCapture);
  NEED(hipGraphInstantiate);
  NEED(hipGraphLaunch);
  NEED(hipGraphExecDestroy);
  NEED(hipGraphDestroy);
  CRK_TRY(crk_priv_hip_bind(device));
  HIP_TRY(crk_priv_hip.hipStreamBeginCapture(stream, HIP_CAPTURE_RELAXED), "hipStreamBeginCapture");
  return CRK_OK;
}

/* Makes a stream usable again after its capture failed. HIP leaves such a stream "invalidated", and it then refuses all
 * work. A new capture that records nothing ends that state. On a stream in another state it changes nothing. */
static void hip_mend_stream(crk_driver_stream_t *stream) {
  void *empty = NULL;
  if (crk_priv_hip.hipStreamBeginCapture(stream, HIP_CAPTURE_RELAXED) == HIP_SUCCESS &&
      crk_priv_hip.hipStreamEndCapture(stream, &empty) == HIP_SUCCESS && empty != NULL) {
    crk_priv_hip.hipGraphDestroy(empty);
  }
  crk_priv_hip_forget_error();
}

crk_status_t crk_priv_hip_capture_end(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                      crk_driver_graph_t **graph) {
  /* The capture ends also if this fails: the stream knows its device. */
  crk_status_t status = crk_priv_hip_bind(device);
  void *recording = NULL, *exec = NULL;
  int code = crk_priv_hip.hipStreamEndCapture(stream, &recording);
  if (code != HIP_SUCCESS) {
    status = crk_priv_hip_failed(code, "hipStreamEndCapture");
    hip_mend_stream(stream);
    return status;
  }
  if (graph != NULL && status == CRK_OK) {
    code = crk_priv_hip.hipGraphInstantiate(&exec, recording, NULL, NULL, 0);
    status = code == HIP_SUCCESS ? CRK_OK : crk_priv_hip_failed(code, "hipGraphInstantiate");
  }
  if (crk_priv_hip.hipGraphDestroy(recording) != HIP_SUCCESS) { /* the instantiated graph has copies of what it needs */
    crk_priv_hip_forget_error();
  }
  if (graph != NULL && status == CRK_OK) {
    *graph = exec;
  }
  return status;
}

crk_status_t crk_priv_hip_graph_launch(crk_driver_device_t *device, crk_driver_graph_t *graph,
                                       crk_driver_stream_t *stream) {
  CRK_TRY(crk_priv_hip_bind(device));
  HIP_TRY(crk_priv_hip.hipGraphLaunch(graph, stream), "hipGraphLaunch");
  return CRK_OK;
}

void crk_priv_hip_graph_destroy(crk_driver_device_t *device, crk_driver_graph_t *graph) {
  RELEASE(device, crk_priv_hip.hipGraphExecDestroy(graph));
}
