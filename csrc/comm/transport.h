/* transport.h: communicators inside the core. comm.c has the public functions: checks, groups, the life of a
 * communicator. A transport does the work: nccl.c on GPUs, in_process.c on the CPU device.
 *
 * A communicator is used by one thread at a time: crk_priv_comms_enter takes it, crk_priv_comms_leave gives it back.
 * crk_comm_abort sets the failure first, and the thread inside then leaves soon. No lock is held while a thread waits
 * for other ranks. */
#ifndef CRK_TRANSPORT_H
#define CRK_TRANSPORT_H

#include "call/peers_call.h"
#include "core.h"

/* XX(NAME, public function) */
#define CRK_COMM_KIND_MAP(XX)                   \
  XX(ALL_REDUCE, "crk_comm_all_reduce")         \
  XX(REDUCE, "crk_comm_reduce")                 \
  XX(BROADCAST, "crk_comm_broadcast")           \
  XX(ALL_GATHER, "crk_comm_all_gather")         \
  XX(REDUCE_SCATTER, "crk_comm_reduce_scatter") \
  XX(ALL_TO_ALL, "crk_comm_all_to_all")         \
  XX(SEND, "crk_comm_send")                     \
  XX(RECV, "crk_comm_recv")

typedef enum crk_comm_kind {
#define XX(name, text) CRK_COMM_##name,
  CRK_COMM_KIND_MAP(XX)
#undef XX
} crk_comm_kind_t;

/* The public function of a kind. */
static inline const char *crk_priv_comm_function(crk_comm_kind_t kind) {
#define XX(name, text) CRK_TEXT(CRK_COMM_##name, text)
  CRK_TEXT_OF(kind, CRK_COMM_KIND_MAP(XX), "crk_comm");
#undef XX
}

/* Whether the kind adds, or reduces otherwise. */
static inline bool crk_priv_comm_reduces(crk_comm_kind_t kind) {
  return kind == CRK_COMM_ALL_REDUCE || kind == CRK_COMM_REDUCE || kind == CRK_COMM_REDUCE_SCATTER;
}

/* A checked call with a count above 0. Views that the rank does not use are NULL. */
typedef struct crk_comm_call {
  crk_comm_t comm;
  crk_comm_kind_t kind;
  crk_dtype_t dtype;
  crk_comm_op_t op;
  const void *src;
  void *dst;
  size_t count;
  uint32_t peer; /* or the root */
  crk_device_t device; /* the handle whose stream it runs in: the communicator's, or that of crk_comm_run_beside */
} crk_comm_call_t;

typedef struct crk_comm_transport {
  /* The name and the version of the library, which is opened if it is not open yet. `where` begins the sentences. */
  crk_status_t (*library)(crk_device_t device, const char *where, const char **name, int32_t *version);
  crk_status_t (*id_create)(crk_device_t device, crk_comm_id_t *id);
  /* Begins to create the rank, and sets comm->handle. With `may_wait` it may wait for the other ranks. */
  crk_status_t (*create)(crk_comm_t comm, const crk_comm_id_t *id, bool may_wait, const char *where);
  /* Connects the ranks further, once they are ready. All ranks that may wait in `create` do this; NULL if there is
   * nothing to do. */
  crk_status_t (*connect)(crk_comm_t comm, const char *where);
  /* CRK_OK where the communicator is ready and has no failure; CRK_NOT_READY, without a sentence, where it is not ready
   * yet. Else the failure, with its sentence. Waits for nothing. The caller is inside. */
  crk_status_t (*poll)(crk_comm_t comm, const char *where);
  /* Fails with CRK_UNSUPPORTED for a dtype that cannot be reduced here. */
  crk_status_t (*check_reduction)(crk_comm_t comm, const char *where, crk_dtype_t dtype);
  /* Starts calls of one or more communicators, all of this transport. Enters the communicators. A failure ends all of
   * them. */
  crk_status_t (*start)(const crk_comm_call_t *calls, size_t count);
  /* Makes a thread that is inside the communicator leave soon. The communicator has its failure already. */
  void (*interrupt)(crk_comm_t comm);
  /* Frees the handle, if there is one. With `aborts` it ends the work in the stream, and waits for no other rank. */
  void (*release)(crk_comm_t comm, bool aborts);
} crk_comm_transport_t;

extern const crk_comm_transport_t crk_priv_comm_nccl, crk_priv_comm_in_process;

typedef struct crk_comm_area crk_comm_area_t;

/* The exchange areas of peers.c. Empty where the ranks do not use them. */
typedef struct crk_comm_peers {
  bool is_ready; /* on all ranks */
  bool keeps_order; /* a GPU sees what was written to its area before a word that tells of it; on all ranks */
  uint64_t *host; /* in coherent host memory: host[0] stops the kernels if it is not 0 */
  void *areas[CRK_PEERS]; /* the area of each rank, as this GPU sees it */
  crk_comm_area_t *held[CRK_PEERS]; /* the areas of this process */
  bool is_lent; /* another process may have opened the own area */
  uint64_t piece; /* how many pieces copied.c has sent */
} crk_comm_peers_t;

/* Where the thread inside is: in no call of the library, in a group that it builds, or in a call that may wait for
 * other ranks. Another thread takes the handle only from the last. */
typedef enum crk_comm_step { CRK_COMM_OUTSIDE, CRK_COMM_BUILDING, CRK_COMM_WAITING } crk_comm_step_t;

struct crk_comm {
  uint32_t magic;
  crk_device_t device;
  uint64_t number; /* no other communicator of the process has it */
  const crk_comm_transport_t *transport;
  uint32_t rank, size;
  uint32_t timeout_ms;
  double deadline; /* of the creation */
  bool is_blocking; /* for nccl.c: calls wait in the library; set as the communicator is created, as is the next */
  crk_comm_peers_t peers; /* `piece` is of the thread that is inside */
  crk_event_t mark; /* what crk_comm_wait waits for; of several threads that wait, the last one's */
  crk_mutex_t lock; /* guards what follows */
  crk_condition_t changed;
  crk_device_t last; /* the handle whose stream had the last collective; NULL before the first */
  bool is_busy; /* a thread is inside */
  crk_comm_step_t step; /* of that thread, for nccl.c */
  bool is_ready; /* all ranks are there */
  crk_status_t failure; /* CRK_OK until the communicator has ended */
  int device_error;
  char sentence[640];
  void *handle; /* of the transport; NULL once it is released */
};

/* The time that is left until `deadline`, in seconds; may be below 0. */
static inline double crk_priv_comm_left(double deadline) { return deadline - crk_priv_seconds(); }

/* The deadline after a timeout that begins now. */
static inline double crk_priv_comm_deadline(uint32_t timeout_ms) {
  return timeout_ms == CRK_COMM_FOREVER ? 1e300 : crk_priv_seconds() + timeout_ms * 1e-3;
}

/* The pause between two questions, in a wait that began at `begin`. There is no sleep at first: a sleep takes 50 us,
 * and a model waits for each of its tokens, some milliseconds. */
static inline void crk_priv_comm_pause(double begin) {
  const double waited = crk_priv_seconds() - begin;
  if (waited < 10e-3) {
    crk_priv_yield();
  } else {
    crk_priv_sleep(waited < 0.5 ? 200e-6 : 1e-3);
  }
}

/* Whether the communicator has ended. May be called by any thread. */
bool crk_priv_comm_ended(crk_comm_t self);

/* Fails with what has ended the communicator. */
crk_status_t crk_priv_comm_failure(crk_comm_t self, const char *where);

/* This thread's collectives run in the stream of this handle. */
crk_device_t crk_priv_comm_device(crk_comm_t self);

/* Fails if the calling thread has a group. */
crk_status_t crk_priv_comm_no_group(const char *where);

/* Counts calls that have started. With CANDLE_ROCM_SYNC, waits for their work. */
crk_status_t crk_priv_comm_count(const crk_comm_call_t *calls, size_t count);

/* Returns the handle, and sets it to NULL. */
void *crk_priv_comm_take_handle(crk_comm_t self);

/* Waits for the work in the stream, as crk_comm_wait does, but leaves what kernels reported. */
crk_status_t crk_priv_comm_wait_for_work(crk_comm_t self, const char *where, uint32_t timeout_ms);

/* ---- exchange areas: peers.c */

/* Finds out whether all ranks reach each other's memory, and makes the areas. All ranks of a ready communicator call
 * this. */
crk_status_t crk_priv_peers_connect(crk_comm_t self, const char *where);

/* The arguments of crk_comm_add_rms_norm. */
typedef struct crk_comm_norm {
  crk_dtype_t dtype;
  size_t rows, cols;
  crk_view_t x;
  crk_const_view_t residual, alpha;
  crk_view_t sum, dst;
  float eps;
} crk_comm_norm_t;

/* The ranks, for a kernel's argument. */
crk_exchange_t crk_priv_peers_exchange(crk_comm_t self);

/* The argument of a kernel that adds and norms the rows from row `first` on, by blocks of `threads` threads. */
crk_peer_norm_call_t crk_priv_peers_norm(crk_comm_t self, const crk_comm_norm_t *norm, size_t first, uint32_t threads);

/* Ends the kernels that wait for other ranks. */
void crk_priv_peers_stop(crk_comm_t self);

/* Frees the memory, of a communicator that ends without a failure. */
void crk_priv_peers_release(crk_comm_t self);

/* The same after a failure: the memory stays until the process ends, because kernels may still use it. */
void crk_priv_peers_keep(crk_comm_t self);

/* The types that are added through the areas, and the position of one. Returns false for another type. */
extern const crk_dtype_t crk_priv_peers_types[3];
bool crk_priv_peers_type(crk_dtype_t dtype, uint32_t *type);

/* Gets the kernel <root>_<type>. `slots` is the first of the slots that such kernels have. */
crk_status_t crk_priv_peers_kernel(crk_device_t device, uint32_t slots, const char *root, uint32_t type,
                                   crk_function_t *function);

/* Whether the areas are ready, and the call is a sum of one of these types. */
bool crk_priv_peers_add(const crk_comm_call_t *call);

/* Sums through the areas: of few elements (one_shot.c), and of many by kernels (marked.c) or by the copy engines
 * (copied.c). `load` loads the kernels. `takes` says whether a call is such a sum; the answer is the same on all ranks.
 * `start` puts it into the stream; the caller has entered the communicator. */
crk_status_t crk_priv_one_shot_load(crk_device_t device);
bool crk_priv_one_shot_takes(const crk_comm_call_t *call);
crk_status_t crk_priv_one_shot_start(const crk_comm_call_t *call);

crk_status_t crk_priv_marked_load(crk_device_t device);
bool crk_priv_marked_takes(const crk_comm_call_t *call);
crk_status_t crk_priv_marked_start(const crk_comm_call_t *call);

crk_status_t crk_priv_copied_load(crk_device_t device);
bool crk_priv_copied_takes(const crk_comm_call_t *call);
crk_status_t crk_priv_copied_start(const crk_comm_call_t *call);

/* The same for a sum, the residual and the norm in one launch, or a launch for each piece of the rows; for norm.c. */
bool crk_priv_one_shot_norm_takes(crk_comm_t self, const crk_comm_norm_t *norm);
crk_status_t crk_priv_one_shot_norm_start(crk_comm_t self, crk_device_t device, const crk_comm_norm_t *norm);
bool crk_priv_marked_norm_takes(crk_comm_t self, const crk_comm_norm_t *norm);
crk_status_t crk_priv_marked_norm_start(crk_comm_t self, crk_device_t device, const crk_comm_norm_t *norm);

/* The communicators of some calls, each once, in the order of their addresses. */
typedef struct crk_comm_set {
  crk_comm_t few[8], *all; /* `all` is `few`, or memory of its own */
  size_t count;
} crk_comm_set_t;

/* The streams of the calls wait for the communicators' last collectives, where those ran in other streams. A stream
 * that is captured cannot wait: whoever launches the graph orders it. The caller holds no stream. */
crk_status_t crk_priv_comms_follow(const crk_comm_call_t *calls, size_t count);

/* Notes in which streams the calls of a graph run, for later calls of crk_priv_comms_follow. */
void crk_priv_comms_replay(const crk_comm_call_t *calls, size_t count);

/* Takes all communicators of the calls for the calling thread. Fails, having taken none, where one has ended or is not
 * ready. */
crk_status_t crk_priv_comms_take(const crk_comm_call_t *calls, size_t count, crk_comm_set_t *set);

/* The same, and crk_priv_comms_follow. If that fails, none is taken, and none ends. */
crk_status_t crk_priv_comms_enter(const crk_comm_call_t *calls, size_t count, crk_comm_set_t *set);

/* Gives them back. If `status` is a failure, all of them end with it and with the thread's last error. Returns
 * `status`. */
crk_status_t crk_priv_comms_leave(crk_comm_set_t *set, crk_status_t status);

#endif
