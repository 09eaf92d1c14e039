/* Events, and the gate that keeps them away from captures.
 *
 * On HIP runtimes up to early 2026 an event remembers the stream that it was recorded on, and asking the runtime about it
 * (hipEventQuery, hipEventSynchronize, hipStreamWaitEvent) spoils a capture that goes on there, however long ago the event
 * was recorded (clr: hip_event.cpp, hip_stream.cpp). A capture begins with an idle stream. So each stream has a gate that
 * counts its captures: an event that was recorded before the latest of them is done, and the runtime is not asked. */
#ifndef CRK_EVENT_H
#define CRK_EVENT_H

#include <stdatomic.h>

#include "candle_rocm.h"
#include "os/os.h"

/* Of a stream. Events refer to it, also when the stream is gone. */
typedef struct crk_gate {
  atomic_uint references;
  crk_mutex_t lock;
  crk_condition_t changed;
  uint64_t epoch;  /* how often the stream was made idle by crk_priv_gate_close and crk_priv_gate_open */
  uint32_t asking; /* threads that call the driver about an event of the stream */
  bool is_closed;
} crk_gate_t;

/* NULL without host memory. */
crk_gate_t *crk_priv_gate_create(void);
void crk_priv_gate_release(crk_gate_t *gate);

/* Waits until no thread asks about the stream's events, and lets no other begin until the gate is opened. `is_idle`: the
 * stream was waited for meanwhile; all events that were recorded on it are done for good. */
void crk_priv_gate_close(crk_gate_t *gate);
void crk_priv_gate_open(crk_gate_t *gate, bool is_idle);

/* The driver is asked about events of the stream only between `enter` and `leave`. Both kinds of `enter` give the epoch. Where
 * the gate is closed, `enter` waits and `try_enter` returns false. */
uint64_t crk_priv_gate_enter(crk_gate_t *gate);
bool crk_priv_gate_try_enter(crk_gate_t *gate, uint64_t *epoch);
void crk_priv_gate_leave(crk_gate_t *gate);

/* As crk_event_create, without checks of its arguments. */
crk_status_t crk_priv_event_create(crk_device_t device, crk_event_t *event);

/* As crk_event_record, for who has entered the gate of the handle's stream in this epoch and found no capture. */
crk_status_t crk_priv_event_record(crk_event_t self, crk_device_t device, uint64_t epoch);

#endif
