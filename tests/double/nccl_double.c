/* A librccl for the GPUs that hip_double.c simulates, in the same library. With -DNCCL_DOUBLE_ALONE it is a libnccl
 * for cuda_double.c, whose memory is the host's and whose streams do all work at once.
 *
 * Ranks are threads of this process. A collective sends a copy of its source to the others, waits for theirs (for at
 * most ten seconds), and writes its result before it returns. A stream that is captured is accepted, and nothing is
 * done. A non-blocking communicator is in progress for a few questions after each call; to use it then is an error. To
 * use a communicator that was destroyed or aborted ends the process.
 *
 * Calls are counted and made to fail as HIP's are, alone by NCCL_DOUBLE_FAIL. So are these, which are no calls:
 *   ncclState   the state that ncclCommGetAsyncError tells
 *   ncclLost    any code: collectives wait for nobody and do nothing
 *   ncclStuck   any code: a non-blocking communicator stays in progress after a call
 * NCCL_DOUBLE_VERSION is the version, 22800 by default. With NCCL_DOUBLE_KEEPS, ncclCommAbort and ncclCommDestroy of a
 * communicator with captured collectives wait until the process has no graph, for at most twenty seconds. */
#if !defined(_GNU_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "half.h"

#if defined(NCCL_DOUBLE_ALONE)
#include "told.h"
#define API __attribute__((visibility("default")))
static int begin(const char *call) { return told_code("NCCL_DOUBLE_FAIL", call); }
static bool finish(void *stream) {
  (void)stream;
  return true;
}
static bool is_captured(void *stream) {
  (void)stream;
  return false;
}
static bool has_graphs(void) { return false; }
#else
#include "hip_double.h"
#define API HIP_DOUBLE_EXPORT
static int begin(const char *call) { return hip_double_begin(call); }
static bool finish(void *stream) { return hip_double_finish(stream); }
int hipStreamIsCapturing(void *stream, int *status);
static bool is_captured(void *stream) {
  int status = 0;
  return hipStreamIsCapturing(stream, &status) == 0 && status != 0;
}
static bool has_graphs(void) { return hip_double_alive("graphs") + hip_double_alive("executables") > 0; }
#endif

/* Begins the enclosing call, and returns from it if a rule gives a code. */
#define BEGIN(name)                   \
  do {                                \
    const int answer_ = begin(#name); \
    if (answer_ != 0) {               \
      return answer_;                 \
    }                                 \
  } while (0)

enum { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
enum { UINT8 = 1, INT32, UINT32, INT64, F16 = 6, F32, F64, BF16, F8E4M3 };
enum { SUM, PROD, MAX, MIN, AVG };
enum { MAGIC = 0x6e63636c, FREED = 0x66726565, ALL = -1, POLLS = 3, IDS = 64, PATIENCE_SECONDS = 10 };

/* The tags of these structs are those in csrc/comm: the sanitizer compares the types of calls. */
typedef struct crk_comm_id {
  char bytes[128];
} unique_id_t;

/* The layout that version 2.18 defines. */
typedef struct config {
  size_t size;
  uint32_t magic, version;
  int blocking, cluster_size, least_blocks, most_blocks;
  const char *network;
  int shares_split;
} config_t;

/* A copy of a source, on its way to one rank or to all. */
typedef struct item {
  struct item *next;
  int from, to;
  uint64_t number; /* of the sender's collectives, or of its messages to this rank */
  size_t bytes;
  char data[];
} item_t;

typedef struct room {
  unique_id_t id;
  int size, joined;
  bool has_rank[64];
  item_t *items;
} room_t;

typedef struct comm {
  struct comm *next; /* in the list of those that are freed */
  int magic;
  room_t *room;
  int rank, size;
  bool is_blocking, is_finalized, is_captured;
  int pending; /* questions that are answered by "in progress" */
  uint64_t collectives, sent[64], received[64];
} comm_t;

/* What a call has to do once the sources of all ranks are there. */
typedef struct task {
  comm_t *comm;
  const char *name;
  const void *src;
  void *dst;
  size_t count;
  int type, op, peer;
  uint64_t number;
} task_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of it */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static room_t rooms[IDS];
static comm_t *freed; /* their memory stays, so that a later use is found out */
static int room_count, live;
static char log_text[8192];

static _Thread_local int depth;
static _Thread_local task_t tasks[256];
static _Thread_local int task_count;
static _Thread_local int group_error;

static int version(void) {
  const char *told = getenv("NCCL_DOUBLE_VERSION");
  return told != NULL && told[0] != '\0' ? atoi(told) : 22800;
}

/* The communicator; NULL where the handle is none. Ends the process where it was freed. */
static comm_t *alive(void *handle) {
  comm_t *self = handle;
  if (self == NULL) {
    return NULL;
  }
  pthread_mutex_lock(&lock);
  const int magic = self->magic;
  pthread_mutex_unlock(&lock);
  if (magic == FREED) {
    fputs("nccl_double: a call with a communicator that was freed\n", stderr);
    abort();
  }
  return magic == MAGIC ? self : NULL;
}

static size_t size_of(int type) {
  return type == UINT8 || type == F8E4M3 ? 1 : type == F16 || type == BF16 ? 2 : type == INT64 || type == F64 ? 8 : 4;
}

/* ---- values; only F8E4M3 is not computed with */

static double get(const void *from, int type, size_t at) {
  switch (type) {
    case UINT8:
      return ((const uint8_t *)from)[at];
    case INT32:
      return ((const int32_t *)from)[at];
    case UINT32:
      return ((const uint32_t *)from)[at];
    case INT64:
      return (double)((const int64_t *)from)[at];
    case F32:
      return ((const float *)from)[at];
    case F16:
    case BF16:
      return half_value(((const uint16_t *)from)[at], type == F16 ? 10 : 7);
    default:
      return ((const double *)from)[at];
  }
}

static void put(void *to, int type, size_t at, double value) {
  switch (type) {
    case UINT8:
      ((uint8_t *)to)[at] = (uint8_t)(int64_t)value;
      break;
    case INT32:
      ((int32_t *)to)[at] = (int32_t)value;
      break;
    case UINT32:
      ((uint32_t *)to)[at] = (uint32_t)(int64_t)value;
      break;
    case INT64:
      ((int64_t *)to)[at] = (int64_t)value;
      break;
    case F32:
      ((float *)to)[at] = (float)value;
      break;
    case F16:
    case BF16:
      ((uint16_t *)to)[at] = half_code(value, type == F16 ? 10 : 7);
      break;
    default:
      ((double *)to)[at] = value;
  }
}

static double combine(int op, double a, double b) {
  return op == PROD ? a * b : op == MAX ? (a > b ? a : b) : op == MIN ? (a < b ? a : b) : a + b;
}

/* ---- communicators */

API int ncclGetVersion(int *out) {
  BEGIN(ncclGetVersion);
  *out = version();
  return SUCCESS;
}

API int ncclGetUniqueId(unique_id_t *id) {
  BEGIN(ncclGetUniqueId);
  static atomic_int ids;
  memset(id, 0x5a, sizeof *id);
  snprintf(id->bytes, sizeof id->bytes, "double %d", ++ids);
  return SUCCESS;
}

API const char *ncclGetErrorString(int result) {
  static const char *const names[] = {"no error",         "unhandled cuda error", "unhandled system error",
                                      "internal error",   "invalid argument",     "invalid usage",
                                      "remote process exited", "in progress"};
  return result >= 0 && result <= IN_PROGRESS ? names[result] : NULL;
}

API const char *ncclGetLastError(void *comm) {
  (void)comm;
  return "the double's last words";
}

/* Waits until `is_done`, with the lock held. False after ten seconds. */
static bool wait_until(bool (*is_done)(const void *), const void *context) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE_SECONDS;
  while (!is_done(context)) {
    if (pthread_cond_timedwait(&changed, &lock, &until) != 0) {
      return is_done(context);
    }
  }
  return true;
}

static bool is_full(const void *context) {
  const room_t *room = context;
  return room->joined == room->size;
}

static int join(void **out, int size, unique_id_t id, int rank, bool is_blocking) {
  if (out == NULL || size < 1 || size > 64 || rank < 0 || rank >= size) {
    return INVALID_ARGUMENT;
  }
  comm_t *self = calloc(1, sizeof *self);
  pthread_mutex_lock(&lock);
  int at = 0;
  while (at < room_count && memcmp(&rooms[at].id, &id, sizeof id) != 0) {
    at++;
  }
  room_t *room = &rooms[at];
  if (at == room_count) {
    room_count++;
    room->id = id;
    room->size = size;
  }
  const bool fits = room->size == size && !room->has_rank[rank];
  int result = fits ? SUCCESS : INVALID_USAGE;
  if (fits) {
    room->has_rank[rank] = true;
    room->joined++;
    live++;
    *self = (comm_t){.magic = MAGIC, .room = room, .rank = rank, .size = size, .is_blocking = is_blocking};
    *out = self;
    pthread_cond_broadcast(&changed);
    if (is_blocking && !wait_until(is_full, room)) {
      result = SYSTEM_ERROR;
    }
  }
  pthread_mutex_unlock(&lock);
  if (!fits) {
    free(self);
  }
  return result;
}

API int ncclCommInitRank(void **comm, int size, unique_id_t id, int rank) {
  BEGIN(ncclCommInitRank);
  return join(comm, size, id, rank, true);
}

API int ncclCommInitRankConfig(void **comm, int size, unique_id_t id, int rank, config_t *config) {
  BEGIN(ncclCommInitRankConfig);
  if (config == NULL || config->size < sizeof *config || config->magic != 0xcafebeef || config->version < 21800 ||
      config->blocking != 0 || config->cluster_size != INT_MIN || config->least_blocks != INT_MIN ||
      config->most_blocks != INT_MIN || config->network != NULL || config->shares_split != INT_MIN) {
    return INVALID_ARGUMENT;
  }
  const int result = join(comm, size, id, rank, false);
  return result == SUCCESS ? IN_PROGRESS : result;
}

API int ncclCommGetAsyncError(void *comm, int *state) {
  BEGIN(ncclCommGetAsyncError);
  comm_t *self = alive(comm);
  if (self == NULL || state == NULL) {
    return INVALID_ARGUMENT;
  }
  const int told = begin("ncclState");
  const bool stuck = begin("ncclStuck") != 0;
  pthread_mutex_lock(&lock);
  *state = told;
  if (told == SUCCESS && (!is_full(self->room) || self->pending > 0)) {
    *state = IN_PROGRESS;
    self->pending -= self->pending > 0 && !stuck;
  }
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

static void wait_for_graphs(void) {
  enum { POLLS_OF_GRAPHS = 20000 };
  const struct timespec pause = {.tv_nsec = 1000000};
  for (int i = 0; i < POLLS_OF_GRAPHS && has_graphs(); i++) {
    nanosleep(&pause, NULL);
  }
}

/* Also makes a thread return that waits in a call. */
static int end(void *comm) {
  comm_t *self = alive(comm);
  if (self == NULL) {
    return INVALID_ARGUMENT;
  }
  pthread_mutex_lock(&lock);
  const bool keeps = self->is_captured && getenv("NCCL_DOUBLE_KEEPS") != NULL;
  pthread_mutex_unlock(&lock);
  if (keeps) {
    wait_for_graphs();
  }
  pthread_mutex_lock(&lock);
  self->magic = FREED;
  self->next = freed;
  freed = self;
  live--;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

API int ncclCommFinalize(void *comm) {
  BEGIN(ncclCommFinalize);
  comm_t *self = alive(comm);
  if (self == NULL || self->is_finalized || self->pending > 0) {
    return INVALID_USAGE;
  }
  self->is_finalized = true;
  self->pending = POLLS;
  return self->is_blocking ? SUCCESS : IN_PROGRESS;
}

/* A communicator that is still in progress must be aborted. */
API int ncclCommDestroy(void *comm) {
  BEGIN(ncclCommDestroy);
  const comm_t *self = alive(comm);
  return self == NULL || self->pending > 0 ? INVALID_USAGE : end(comm);
}

API int ncclCommAbort(void *comm) {
  BEGIN(ncclCommAbort);
  return end(comm);
}

/* ---- collectives */

/* Sends bytes to one rank or to all. The caller holds the lock. */
static void post(comm_t *self, int to, uint64_t number, const void *src, size_t bytes) {
  item_t *item = malloc(sizeof *item + bytes);
  *item = (item_t){self->room->items, self->rank, to, number, bytes};
  if (bytes > 0) {
    memcpy(item->data, src, bytes);
  }
  self->room->items = item;
  pthread_cond_broadcast(&changed);
}

typedef struct wanted {
  const comm_t *comm;
  int from, to;
  uint64_t number;
} wanted_t;

static const item_t *find(const wanted_t *wanted) {
  const item_t *item = wanted->comm->room->items;
  while (item != NULL && (item->from != wanted->from || item->to != wanted->to || item->number != wanted->number)) {
    item = item->next;
  }
  return item;
}

static bool is_there(const void *context) {
  return find(context) != NULL || ((const wanted_t *)context)->comm->magic == FREED;
}

/* The bytes of a rank, which are waited for; NULL where they do not come or have another size. */
static const char *take(const task_t *task, int from, int to, size_t bytes) {
  const wanted_t wanted = {task->comm, from, to, task->number};
  const item_t *item = wait_until(is_there, &wanted) ? find(&wanted) : NULL;
  return item != NULL && item->bytes == bytes ? item->data : NULL;
}

static int reduce(const task_t *task, size_t skipped, size_t total) {
  const bool computes = task->type != F8E4M3;
  if (!computes && task->comm->size > 1) {
    return INTERNAL_ERROR;
  }
  const size_t bytes = size_of(task->type);
  double *results = calloc(task->count + 1, sizeof *results);
  int result = SUCCESS;
  for (int rank = 0; rank < task->comm->size && result == SUCCESS; rank++) {
    const char *src = take(task, rank, ALL, total * bytes);
    result = src == NULL ? REMOTE_ERROR : SUCCESS;
    if (!computes && src != NULL) {
      memcpy(task->dst, src + skipped * bytes, task->count * bytes);
    }
    for (size_t i = 0; computes && src != NULL && i < task->count; i++) {
      const double value = get(src + skipped * bytes, task->type, i);
      results[i] = rank == 0 ? value : combine(task->op, results[i], value);
    }
  }
  for (size_t i = 0; computes && result == SUCCESS && i < task->count; i++) {
    put(task->dst, task->type, i, task->op == AVG ? results[i] / task->comm->size : results[i]);
  }
  free(results);
  return result;
}

/* Does the part of a call that needs the other ranks. The caller holds the lock. */
static int complete(const task_t *task) {
  const size_t bytes = task->count * size_of(task->type);
  const char *src = NULL;
  if (strcmp(task->name, "ncclAllReduce") == 0) {
    return reduce(task, 0, task->count);
  }
  if (strcmp(task->name, "ncclReduce") == 0) {
    return task->comm->rank == task->peer ? reduce(task, 0, task->count) : SUCCESS;
  }
  if (strcmp(task->name, "ncclReduceScatter") == 0) {
    return reduce(task, (size_t)task->comm->rank * task->count, (size_t)task->comm->size * task->count);
  }
  if (strcmp(task->name, "ncclAllGather") == 0) {
    for (int rank = 0; rank < task->comm->size; rank++) {
      src = take(task, rank, ALL, bytes);
      if (src == NULL) {
        return REMOTE_ERROR;
      }
      memcpy((char *)task->dst + (size_t)rank * bytes, src, bytes);
    }
    return SUCCESS;
  }
  if (strcmp(task->name, "ncclSend") == 0) {
    return SUCCESS;
  }
  src = strcmp(task->name, "ncclBroadcast") == 0 ? take(task, task->peer, ALL, bytes)
                                                 : take(task, task->peer, task->comm->rank, bytes);
  if (src != NULL) {
    memcpy(task->dst, src, bytes);
  }
  return src != NULL ? SUCCESS : REMOTE_ERROR;
}

static int run_tasks(void) {
  int result = group_error;
  const bool lost = begin("ncclLost") != 0;
  bool is_blocking = true;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < task_count && result == SUCCESS && !lost; i++) {
    result = complete(&tasks[i]);
  }
  for (int i = 0; i < task_count; i++) {
    if (!tasks[i].comm->is_blocking) {
      is_blocking = false;
      tasks[i].comm->pending = POLLS;
    }
  }
  pthread_mutex_unlock(&lock);
  const bool waits = task_count > 0 && !is_blocking;
  task_count = 0;
  group_error = SUCCESS;
  return result == SUCCESS && waits ? IN_PROGRESS : result;
}

API int ncclGroupStart(void) {
  BEGIN(ncclGroupStart);
  depth++;
  return SUCCESS;
}

API int ncclGroupEnd(void) {
  const int told = begin("ncclGroupEnd");
  if (depth == 0) {
    return INVALID_USAGE;
  }
  depth--;
  if (told != SUCCESS) {
    group_error = told;
  }
  return depth == 0 ? run_tasks() : SUCCESS;
}

/* Checks a call and sends its source. The rest is done at once, or at the end of the group. */
static int call(task_t task, size_t sent_bytes, void *stream) {
  comm_t *self = task.comm;
  if (self == NULL || task.count == 0 || task.type < 0 || task.type > (version() >= 22400 ? 11 : 9) || task.op < SUM ||
      task.op > AVG || task.peer < 0 || task.peer >= self->size || (!finish(stream) && !is_captured(stream))) {
    return INVALID_ARGUMENT;
  }
  if (self->pending > 0 || self->is_finalized || !is_full(self->room)) {
    return INVALID_USAGE;
  }
  pthread_mutex_lock(&lock);
  const size_t used = strlen(log_text);
  snprintf(log_text + used, sizeof log_text - used, "%s rank=%d count=%zu type=%d op=%d peer=%d\n", task.name,
           self->rank, task.count, task.type, task.op, task.peer);
  if (is_captured(stream)) {
    self->is_captured = true;
  } else {
    if (strcmp(task.name, "ncclSend") == 0) {
      post(self, task.peer, self->sent[task.peer]++, task.src, sent_bytes);
    } else if (strcmp(task.name, "ncclRecv") == 0) {
      task.number = self->received[task.peer]++;
    } else {
      task.number = self->collectives++;
      post(self, ALL, task.number, task.src, sent_bytes);
    }
    tasks[task_count++] = task;
  }
  pthread_mutex_unlock(&lock);
  return depth == 0 ? run_tasks() : SUCCESS;
}

API int ncclAllReduce(const void *src, void *dst, size_t count, int type, int op, void *comm, void *stream) {
  BEGIN(ncclAllReduce);
  return call((task_t){alive(comm), "ncclAllReduce", src, dst, count, type, op, 0, 0}, count * size_of(type), stream);
}

API int ncclReduce(const void *src, void *dst, size_t count, int type, int op, int root, void *comm, void *stream) {
  BEGIN(ncclReduce);
  return call((task_t){alive(comm), "ncclReduce", src, dst, count, type, op, root, 0}, count * size_of(type), stream);
}

API int ncclBroadcast(const void *src, void *dst, size_t count, int type, int root, void *comm, void *stream) {
  BEGIN(ncclBroadcast);
  const comm_t *self = alive(comm);
  const size_t bytes = self != NULL && self->rank == root ? count * size_of(type) : 0;
  return call((task_t){alive(comm), "ncclBroadcast", src, dst, count, type, 0, root, 0}, bytes, stream);
}

API int ncclAllGather(const void *src, void *dst, size_t count, int type, void *comm, void *stream) {
  BEGIN(ncclAllGather);
  return call((task_t){alive(comm), "ncclAllGather", src, dst, count, type, 0, 0, 0}, count * size_of(type), stream);
}

API int ncclReduceScatter(const void *src, void *dst, size_t count, int type, int op, void *comm, void *stream) {
  BEGIN(ncclReduceScatter);
  const comm_t *self = alive(comm);
  const size_t bytes = count * size_of(type) * (self != NULL ? (size_t)self->size : 0);
  return call((task_t){alive(comm), "ncclReduceScatter", src, dst, count, type, op, 0, 0}, bytes, stream);
}

API int ncclSend(const void *src, size_t count, int type, int peer, void *comm, void *stream) {
  BEGIN(ncclSend);
  return call((task_t){alive(comm), "ncclSend", src, NULL, count, type, 0, peer, 0}, count * size_of(type), stream);
}

API int ncclRecv(void *dst, size_t count, int type, int peer, void *comm, void *stream) {
  BEGIN(ncclRecv);
  return call((task_t){alive(comm), "ncclRecv", NULL, dst, count, type, 0, peer, 0}, 0, stream);
}

/* The collectives since the last nccl_double_log, one per line. */
API void nccl_double_log(char *text, size_t size);
API void nccl_double_log(char *text, size_t size) {
  pthread_mutex_lock(&lock);
  snprintf(text, size, "%s", log_text);
  log_text[0] = '\0';
  pthread_mutex_unlock(&lock);
}

/* The number of live communicators. */
API int nccl_double_alive(void);
API int nccl_double_alive(void) {
  pthread_mutex_lock(&lock);
  const int alive = live;
  pthread_mutex_unlock(&lock);
  return alive;
}
