/* event.h: events, and the gates that keep event calls out of captures.
 *
 * In HIP runtimes up to early 2026 an event remembers the stream that it was recorded on. hipEventQuery,
 * hipEventSynchronize and hipStreamWaitEvent on that event invalidate a capture that is running on this stream. That
 * happens even if the event was recorded long before the capture (clr: hip_event.cpp, hip_stream.cpp).
 *
 * Therefore each stream has a gate, which is closed while a capture begins and while the handle is closed. At that time
 * the core waits for the stream, so all earlier events are done, and increments the gate's epoch. An event with an
 * older epoch is known to be done, without a call to the runtime.
 *
 * hipEventRecord, hipEventDestroy and hipEventElapsedTime look at this stream too. The handle's stream is destroyed
 * while its gate is closed, so no such call meets a stream that is being destroyed. */
#ifndef CRK_EVENT_H
#define CRK_EVENT_H

#include <stdatomic.h>

#include "candle_rocm.h"
#include "os/os.h"

/* The gate of a stream. Reference-counted: events keep it alive after the stream is destroyed. */
typedef struct crk_gate {
  atomic_uint references;
  crk_mutex_t lock;
  crk_condition_t changed;
  uint64_t epoch;  /* how often crk_priv_gate_open was called with `is_idle` */
  uint32_t asking; /* threads between `enter` and `leave` */
  bool is_closed;
} crk_gate_t;

/* Returns NULL if there is no host memory. */
crk_gate_t *crk_priv_gate_create(void);
void crk_priv_gate_release(crk_gate_t *gate);

/* Closes the gate and waits until no thread is inside; none can enter until the gate is opened. `is_idle` says that the
 * caller synchronised the stream while the gate was closed: all events recorded before are done. */
void crk_priv_gate_close(crk_gate_t *gate);
void crk_priv_gate_open(crk_gate_t *gate, bool is_idle);

/* Driver calls about events of the stream are made only between `enter` and `leave`. Both forms of `enter` return the
 * epoch. If the gate is closed, `enter` waits and `try_enter` returns false. A call about two streams uses `try_enter`
 * for the second gate: no thread inside a gate waits for another. */
uint64_t crk_priv_gate_enter(crk_gate_t *gate);
bool crk_priv_gate_try_enter(crk_gate_t *gate, uint64_t *epoch);
void crk_priv_gate_leave(crk_gate_t *gate);

/* Same as crk_event_create, without its argument checks. */
crk_status_t crk_priv_event_create(crk_device_t device, crk_event_t *event);

/* Same as crk_event_destroy of a live event or NULL, without entering a gate. The caller has closed the gate of the
 * stream that the event was last recorded on, or has entered it, or the event was never recorded. */
void crk_priv_event_destroy(crk_event_t self);

/* Same as crk_event_record, without its checks, and without the launches that are kept: the event may be before them.
 * The caller has entered the gate of the handle's stream, which returned
 * `epoch`, and the handle is not being captured. The event was not recorded on another stream before. */
crk_status_t crk_priv_event_record(crk_event_t self, crk_device_t device, uint64_t epoch);

#endif
