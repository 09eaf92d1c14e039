/* Collectives of the CPU device, among ranks of one process that have threads of their own. For tests, and for programs
 * on one host's CPU.
 *
 * An id names a room. A call of a rank is a post in the room. A collective is complete when each rank's oldest
 * collective is posted, a message when both its sides are. The thread that completes it does the work for all ranks,
 * with no lock held; the others wait. Results are always the same: elements are added in the order of the ranks.
 *
 * A failure of one rank is the room's failure, and so that of all ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/combine.h"
#include "comm/transport.h"
#include "dtype.h"
#include "number.h"

static const char id_prefix[] = "candle-rocm threads ";

typedef enum post_state { POSTED, RUNNING, DONE } post_state_t;

typedef struct post {
  struct post *next; /* of the same member; of the same collective once it is complete */
  const crk_comm_call_t *call;
  post_state_t state;
} post_t;

/* A rank in its room. */
typedef struct member {
  struct room *room;
  uint32_t rank;
  bool has_joined, has_left;
  post_t *collectives, *messages; /* posted, the oldest first */
} member_t;

typedef struct room {
  struct room *next; /* in the list of rooms */
  crk_comm_id_t id;
  uint32_t size;
  uint32_t here; /* members that have not left; guarded by the lock of the list */
  crk_mutex_t lock; /* guards what follows */
  crk_condition_t changed;
  uint32_t joined;
  crk_status_t failure; /* CRK_OK: none */
  char sentence[480];
  member_t members[];
} room_t;

static crk_mutex_t rooms_lock = CRK_MUTEX_INIT; /* guards `rooms` and `ids`; taken before a room's lock */
static room_t *rooms;
static uint64_t ids;

/* ---- rooms */

/* Keeps the room's first failure and wakes all. The caller holds the room's lock. */
static void room_fail(room_t *room, crk_status_t status, const char *sentence) {
  if (room->failure == CRK_OK) {
    room->failure = status;
    snprintf(room->sentence, sizeof room->sentence, "%s", sentence);
  }
  crk_priv_condition_broadcast(&room->changed);
}

static void room_free(room_t *room) {
  crk_priv_condition_deinit(&room->changed);
  crk_priv_mutex_deinit(&room->lock);
  free(room);
}

/* The room of an id, which is made if there is none; NULL without host memory. The caller holds the list's lock. */
static room_t *room_of(const crk_comm_id_t *id, uint32_t size) {
  room_t *room = rooms;
  while (room != NULL && memcmp(&room->id, id, sizeof *id) != 0) {
    room = room->next;
  }
  if (room == NULL) {
    size_t bytes;
    const bool fits = crk_priv_multiply(size, sizeof *room->members, &bytes) && bytes <= SIZE_MAX - sizeof *room;
    room = fits ? calloc(1, sizeof *room + bytes) : NULL;
    if (room != NULL) {
      room->id = *id;
      room->size = size;
      crk_priv_mutex_init(&room->lock);
      crk_priv_condition_init(&room->changed);
      room->next = rooms;
      rooms = room;
    }
  }
  return room;
}

/* Leaves the list's lock. */
static crk_status_t join_locked(crk_comm_t comm, const crk_comm_id_t *id, const char *where) {
  room_t *room = room_of(id, comm->size);
  if (room == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "%s: no host memory for %u ranks", where, (unsigned)comm->size);
  }
  CRK_REFUSE_IF(room->size != comm->size, "%s: size is %u, but another rank of this id gave %u", where,
                (unsigned)comm->size, (unsigned)room->size);
  crk_priv_mutex_lock(&room->lock);
  member_t *member = &room->members[comm->rank];
  const bool is_taken = member->has_joined;
  if (!is_taken) {
    member->room = room;
    member->rank = comm->rank;
    member->has_joined = true;
    room->joined++;
    crk_priv_condition_broadcast(&room->changed);
  }
  crk_priv_mutex_unlock(&room->lock);
  CRK_REFUSE_IF(is_taken, "%s: rank %u of this id exists already; each rank is created once", where,
                (unsigned)comm->rank);
  room->here++;
  comm->handle = member;
  return CRK_OK;
}

static crk_status_t in_process_create(crk_comm_t comm, const crk_comm_id_t *id, bool may_wait, const char *where) {
  (void)may_wait;
  CRK_REFUSE_IF(memcmp(id->bytes, id_prefix, sizeof id_prefix - 1) != 0,
                "%s: id is not of a CPU device; crk_comm_id_create makes one", where);
  crk_priv_mutex_lock(&rooms_lock);
  const crk_status_t status = join_locked(comm, id, where);
  crk_priv_mutex_unlock(&rooms_lock);
  return status;
}

static void in_process_interrupt(crk_comm_t comm) {
  char sentence[96];
  snprintf(sentence, sizeof sentence, "rank %u has ended the communicator", (unsigned)comm->rank);
  crk_priv_mutex_lock(&comm->lock); /* the room lives while the communicator has its handle */
  member_t *member = comm->handle;
  if (member != NULL) {
    crk_priv_mutex_lock(&member->room->lock);
    room_fail(member->room, CRK_PEER_LOST, sentence);
    crk_priv_mutex_unlock(&member->room->lock);
  }
  crk_priv_mutex_unlock(&comm->lock);
}

static void in_process_release(crk_comm_t comm, bool aborts) {
  if (aborts) {
    in_process_interrupt(comm);
  }
  member_t *member = crk_priv_comm_take_handle(comm);
  if (member == NULL) {
    return;
  }
  room_t *room = member->room;
  crk_priv_mutex_lock(&rooms_lock);
  crk_priv_mutex_lock(&room->lock);
  member->has_left = true;
  crk_priv_condition_broadcast(&room->changed);
  crk_priv_mutex_unlock(&room->lock);
  room->here--;
  if (room->here == 0) {
    room_t **link = &rooms;
    while (*link != room) {
      link = &(*link)->next;
    }
    *link = room->next;
    room_free(room);
  }
  crk_priv_mutex_unlock(&rooms_lock);
}

static crk_status_t in_process_poll(crk_comm_t comm, const char *where) {
  room_t *room = ((member_t *)comm->handle)->room;
  crk_priv_mutex_lock(&room->lock);
  crk_status_t status = room->joined == room->size ? CRK_OK : CRK_NOT_READY;
  if (room->failure != CRK_OK) {
    status = crk_priv_error(room->failure, "%s: %s", where, room->sentence);
  }
  crk_priv_mutex_unlock(&room->lock);
  return status;
}

static crk_status_t in_process_library(crk_device_t device, const char *where, const char **name, int32_t *version) {
  (void)device;
  (void)where;
  *name = "threads";
  *version = 0;
  return CRK_OK;
}

static crk_status_t in_process_id_create(crk_device_t device, crk_comm_id_t *id) {
  (void)device;
  crk_comm_id_t fresh = {{0}};
  crk_priv_mutex_lock(&rooms_lock);
  ids++;
  snprintf((char *)fresh.bytes, sizeof fresh.bytes, "%s%llu of process %p", id_prefix, (unsigned long long)ids,
           (void *)&ids);
  crk_priv_mutex_unlock(&rooms_lock);
  *id = fresh;
  return CRK_OK;
}

static crk_status_t in_process_check_reduction(crk_comm_t comm, const char *where, crk_dtype_t dtype) {
  (void)comm;
  (void)where;
  (void)dtype;
  return CRK_OK;
}

/* ---- the work of complete collectives */

static size_t bytes_of(const crk_comm_call_t *call) { return call->count * crk_dtype_size(call->dtype); }

static void move(void *dst, const void *src, size_t bytes) {
  if (dst != src) {
    memcpy(dst, src, bytes);
  }
}

static const post_t *post_of(const post_t *posts, uint32_t rank) {
  while (posts->call->comm->rank != rank) {
    posts = posts->next;
  }
  return posts;
}

/* dst = op of all sources from byte `offset` on; on every rank for ALL_REDUCE, else on `receiver`. */
static void reduce(const post_t *posts, size_t offset, uint32_t receiver) {
  const crk_comm_call_t *call = posts->call;
  const size_t bytes = crk_dtype_size(call->dtype);
  crk_combine_t results;
  double block[CRK_COMBINE_MOST]; /* room for elements of any dtype */
  for (size_t first = 0; first < call->count; first += CRK_COMBINE_MOST) {
    const size_t count = (size_t)crk_priv_least(call->count - first, CRK_COMBINE_MOST);
    for (const post_t *post = posts; post != NULL; post = post->next) {
      const char *src = (const char *)post->call->src + offset + first * bytes;
      if (post == posts) {
        crk_priv_combine_first(&results, call->dtype, src, count);
      } else {
        crk_priv_combine_next(&results, call->dtype, call->op, src, count);
      }
    }
    crk_priv_combine_store(&results, call->dtype, call->op, call->comm->size, block, count);
    for (const post_t *post = posts; post != NULL; post = post->next) {
      if (call->kind == CRK_COMM_ALL_REDUCE || post->call->comm->rank == receiver) {
        memcpy((char *)post->call->dst + first * bytes, block, count * bytes);
      }
    }
  }
}

/* Runs a collective. `posts` has the post of each rank, in the order of the ranks. */
static void run_collective(const post_t *posts) {
  const crk_comm_call_t *call = posts->call;
  const size_t bytes = bytes_of(call);
  switch (call->kind) {
    case CRK_COMM_ALL_REDUCE:
    case CRK_COMM_REDUCE:
      reduce(posts, 0, call->peer);
      break;
    case CRK_COMM_REDUCE_SCATTER:
      for (uint32_t rank = 0; rank < call->comm->size; rank++) {
        reduce(posts, rank * bytes, rank);
      }
      break;
    case CRK_COMM_BROADCAST:
      for (const post_t *post = posts; post != NULL; post = post->next) {
        move(post->call->dst, post_of(posts, call->peer)->call->src, bytes);
      }
      break;
    case CRK_COMM_ALL_GATHER:
    case CRK_COMM_ALL_TO_ALL:
      for (const post_t *to = posts; to != NULL; to = to->next) {
        for (const post_t *from = posts; from != NULL; from = from->next) {
          const size_t part = call->kind == CRK_COMM_ALL_TO_ALL ? to->call->comm->rank * bytes : 0;
          move((char *)to->call->dst + from->call->comm->rank * bytes, (const char *)from->call->src + part, bytes);
        }
      }
      break;
    case CRK_COMM_SEND:
    case CRK_COMM_RECV:
      break;
  }
}

/* Whether two calls belong together. Else writes why not. */
static bool agree(const crk_comm_call_t *a, const crk_comm_call_t *b, char *why, size_t size) {
  const char *first = crk_priv_comm_function(a->kind), *second = crk_priv_comm_function(b->kind);
  const unsigned rank = (unsigned)a->comm->rank, other = (unsigned)b->comm->rank;
  const bool is_message = a->kind == CRK_COMM_SEND;
  if (!is_message && a->kind != b->kind) {
    snprintf(why, size, "rank %u called %s, but rank %u called %s", rank, first, other, second);
  } else if (a->dtype != b->dtype) {
    snprintf(why, size, "dtype is %s in %s of rank %u, but %s in %s of rank %u", crk_dtype_name(a->dtype), first, rank,
             crk_dtype_name(b->dtype), second, other);
  } else if (a->count != b->count) {
    snprintf(why, size, "count is %zu in %s of rank %u, but %zu in %s of rank %u", a->count, first, rank, b->count,
             second, other);
  } else if (a->op != b->op) {
    snprintf(why, size, "op is %d in %s of rank %u, but %d in that of rank %u", (int)a->op, first, rank, (int)b->op,
             other);
  } else if (!is_message && a->peer != b->peer) {
    snprintf(why, size, "root is %u in %s of rank %u, but %u in that of rank %u", (unsigned)a->peer, first, rank,
             (unsigned)b->peer, other);
  } else {
    return true;
  }
  return false;
}

/* ---- posts; the caller holds the room's lock */

static void append(post_t **list, post_t *post) {
  while (*list != NULL) {
    list = &(*list)->next;
  }
  *list = post;
}

static void remove_post(post_t **list, const post_t *post) {
  while (*list != NULL && *list != post) {
    list = &(*list)->next;
  }
  if (*list != NULL) {
    *list = post->next;
  }
}

static bool is_message(const post_t *post) {
  return post->call->kind == CRK_COMM_SEND || post->call->kind == CRK_COMM_RECV;
}

/* The list that the call is posted to. */
static post_t **list_of(const crk_comm_call_t *call) {
  member_t *member = call->comm->handle;
  return call->kind == CRK_COMM_SEND || call->kind == CRK_COMM_RECV ? &member->messages : &member->collectives;
}

/* Takes the oldest collective of every rank; NULL where one has none. */
static post_t *take_collective(room_t *room) {
  for (uint32_t rank = 0; rank < room->size; rank++) {
    if (room->members[rank].collectives == NULL) {
      return NULL;
    }
  }
  post_t *posts = NULL;
  for (uint32_t rank = room->size; rank-- > 0;) {
    post_t *post = room->members[rank].collectives;
    room->members[rank].collectives = post->next;
    post->next = posts;
    post->state = RUNNING;
    posts = post;
  }
  return posts;
}

/* Takes a message: the oldest send from a rank to another, and the oldest receive. The result is the send, followed by
 * the receive. NULL where there is no such pair with `post`. */
static post_t *take_message(room_t *room, post_t *post) {
  const crk_comm_call_t *call = post->call;
  const crk_comm_kind_t wanted = call->kind == CRK_COMM_SEND ? CRK_COMM_RECV : CRK_COMM_SEND;
  /* An older post of the same kind and peer comes first. */
  post_t *oldest = *list_of(call);
  while (oldest->call->kind != call->kind || oldest->call->peer != call->peer) {
    oldest = oldest->next;
  }
  post_t *partner = room->members[call->peer].messages;
  while (partner != NULL && (partner->call->kind != wanted || partner->call->peer != call->comm->rank)) {
    partner = partner->next;
  }
  if (partner == NULL) {
    return NULL;
  }
  remove_post(&((member_t *)call->comm->handle)->messages, oldest);
  remove_post(&room->members[call->peer].messages, partner);
  post_t *send = call->kind == CRK_COMM_SEND ? oldest : partner, *recv = send == oldest ? partner : oldest;
  send->next = recv;
  recv->next = NULL;
  send->state = RUNNING;
  recv->state = RUNNING;
  return send;
}

/* Does the work of complete posts. Releases the lock meanwhile. */
static void run(room_t *room, post_t *posts) {
  char why[320];
  bool agrees = true;
  for (const post_t *post = posts->next; post != NULL && agrees; post = post->next) {
    agrees = agree(posts->call, post->call, why, sizeof why);
  }
  if (!agrees) {
    room_fail(room, CRK_INVALID_ARGUMENT, why);
  } else {
    crk_priv_mutex_unlock(&room->lock);
    if (is_message(posts)) {
      move(posts->next->call->dst, posts->call->src, bytes_of(posts->call));
    } else {
      run_collective(posts);
    }
    crk_priv_mutex_lock(&room->lock);
  }
  while (posts != NULL) {
    post_t *next = posts->next;
    posts->next = NULL;
    posts->state = agrees ? DONE : POSTED;
    posts = next;
  }
  crk_priv_condition_broadcast(&room->changed);
}

/* Posts a call, and runs what it completes. */
static void post_call(post_t *post) {
  room_t *room = ((member_t *)post->call->comm->handle)->room;
  crk_priv_mutex_lock(&room->lock);
  if (room->failure == CRK_OK) {
    append(list_of(post->call), post);
    post_t *complete = is_message(post) ? take_message(room, post) : take_collective(room);
    if (complete != NULL) {
      run(room, complete);
    }
  }
  crk_priv_mutex_unlock(&room->lock);
}

/* Whether a rank that the post waits for has left. Writes which ranks it waits for. */
static bool is_deserted(const room_t *room, const post_t *post, char *missing, size_t size) {
  bool deserted = false;
  size_t used = 0;
  missing[0] = '\0';
  for (uint32_t rank = 0; rank < room->size; rank++) {
    const member_t *member = &room->members[rank];
    if (is_message(post) ? rank == post->call->peer : member->collectives == NULL) {
      deserted = deserted || member->has_left;
      if (used < size) {
        used += (size_t)snprintf(missing + used, size - used, "%s%u%s", used == 0 ? "" : ", ", (unsigned)rank,
                                 member->has_left ? " (which has left)" : "");
      }
    }
  }
  return deserted;
}

/* Waits until a post is done. Else withdraws it, and fails the room. */
static crk_status_t wait_for_post(post_t *post, double deadline) {
  const crk_comm_call_t *call = post->call;
  room_t *room = ((member_t *)call->comm->handle)->room;
  const char *where = crk_priv_comm_function(call->kind);
  char missing[160], sentence[400];
  crk_status_t status = CRK_OK;
  crk_priv_mutex_lock(&room->lock);
  while (post->state != DONE) {
    const double left = crk_priv_comm_left(deadline);
    if (post->state == POSTED && room->failure != CRK_OK) {
      remove_post(list_of(call), post);
      status = crk_priv_error(room->failure, "%s: %s", where, room->sentence);
      break;
    }
    if (post->state == POSTED && (is_deserted(room, post, missing, sizeof missing) || left <= 0.0)) {
      if (left <= 0.0) {
        snprintf(sentence, sizeof sentence, "rank %u waited %u ms for rank(s) %s in %s", (unsigned)call->comm->rank,
                 (unsigned)call->comm->timeout_ms, missing, where);
      } else {
        snprintf(sentence, sizeof sentence, "rank %u waits for rank(s) %s in %s", (unsigned)call->comm->rank, missing,
                 where);
      }
      room_fail(room, CRK_PEER_LOST, sentence);
      continue;
    }
    crk_priv_condition_wait_for(&room->changed, &room->lock, left);
  }
  crk_priv_mutex_unlock(&room->lock);
  return status;
}

/* ---- calls */

/* Makes the posts of some calls and waits for them. The threads of all ranks come here. */
static crk_status_t meet(const crk_comm_call_t *calls, size_t count) {
  crk_comm_set_t set;
  CRK_TRY(crk_priv_comms_take(calls, count, &set));
  post_t few[8];
  post_t *posts = count <= sizeof few / sizeof *few ? few : malloc(count * sizeof *posts);
  if (posts == NULL) {
    return crk_priv_comms_leave(&set, crk_priv_error(CRK_OUT_OF_MEMORY, "crk_comm_group_end: no host memory"));
  }
  for (size_t i = 0; i < count; i++) {
    posts[i] = (post_t){NULL, &calls[i], POSTED};
    post_call(&posts[i]);
  }
  crk_status_t status = CRK_OK;
  for (size_t i = 0; i < count; i++) {
    if (status != CRK_OK) { /* the other communicators of the group end too, and nothing more is waited for */
      in_process_interrupt(calls[i].comm);
    }
    char sentence[640];
    snprintf(sentence, sizeof sentence, "%s", crk_last_error());
    const crk_status_t waited = wait_for_post(&posts[i], crk_priv_comm_deadline(calls[i].comm->timeout_ms));
    if (status == CRK_OK) {
      status = waited;
    } else if (waited != CRK_OK) {
      crk_priv_error(status, "%s", sentence); /* the first failure stays the thread's last error */
    }
  }
  if (posts != few) {
    free(posts);
  }
  return crk_priv_comms_leave(&set, status);
}

/* Calls that run in the streams of several handles: one stream after the other is held, then the threads meet. No
 * capture of a held handle begins meanwhile: a graph would keep the nest, which is on this thread's stack. */
typedef struct nest {
  const crk_comm_call_t *calls;
  size_t count;
  crk_device_t *devices; /* each once, in the order of their addresses */
  size_t device_count, held;
} nest_t;

static crk_status_t hold_next(void *context) {
  nest_t *self = context;
  if (self->held == self->device_count) {
    return meet(self->calls, self->count);
  }
  crk_device_t device = self->devices[self->held++];
  CRK_TRY(crk_priv_capture_bar(device, crk_priv_comm_function(self->calls[0].kind)));
  const crk_status_t status =
      device->driver->call(device->driver_device, crk_priv_stream(device), hold_next, self, sizeof *self);
  crk_priv_turns_leave(&device->capture_turns);
  return status;
}

static crk_status_t start_now(const crk_comm_call_t *calls, size_t count) {
  CRK_TRY(crk_priv_comms_follow(calls, count)); /* a thread that holds a stream would wait for itself */
  crk_device_t few[8];
  crk_device_t *devices = count <= sizeof few / sizeof *few ? few : malloc(count * sizeof *devices);
  if (devices == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_comm_group_end: no host memory for %zu calls", count);
  }
  nest_t nest = {calls, count, devices, 0, 0};
  for (size_t i = 0; i < count; i++) {
    crk_device_t device = calls[i].device;
    size_t at = 0;
    while (at < nest.device_count && (uintptr_t)devices[at] < (uintptr_t)device) {
      at++;
    }
    if (at == nest.device_count || devices[at] != device) {
      memmove(&devices[at + 1], &devices[at], (nest.device_count - at) * sizeof *devices);
      devices[at] = device;
      nest.device_count++;
    }
  }
  const crk_status_t status = hold_next(&nest);
  if (devices != few) {
    free(devices);
  }
  return status;
}

/* Calls that a graph has recorded. */
typedef struct recording {
  size_t count;
  crk_comm_call_t calls[];
} recording_t;

static crk_status_t replay(void *context) {
  const recording_t *self = context;
  crk_priv_comms_replay(self->calls, self->count);
  return meet(self->calls, self->count);
}

/* Copies the calls of one handle to `to`, and returns their number. */
static size_t calls_of(crk_device_t device, const crk_comm_call_t *calls, size_t count, crk_comm_call_t *to) {
  size_t taken = 0;
  for (size_t i = 0; i < count; i++) {
    if (calls[i].device == device) {
      to[taken++] = calls[i];
    }
  }
  return taken;
}

/* Records the calls of one handle that is captured. */
static crk_status_t record(crk_device_t device, const crk_comm_call_t *calls, size_t count) {
  const size_t bytes = sizeof(recording_t) + count * sizeof *calls;
  recording_t *recording = calloc(1, bytes);
  if (recording == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_comm_group_end: no host memory for %zu calls", count);
  }
  recording->count = calls_of(device, calls, count, recording->calls);
  const crk_status_t status =
      device->driver->call(device->driver_device, crk_priv_stream(device), replay, recording, bytes);
  free(recording);
  return status;
}

static crk_status_t in_process_start(const crk_comm_call_t *calls, size_t count) {
  crk_comm_call_t few[8];
  crk_comm_call_t *now = count <= sizeof few / sizeof *few ? few : malloc(count * sizeof *now);
  if (now == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "crk_comm_group_end: no host memory for %zu calls", count);
  }
  size_t now_count = 0;
  crk_status_t status = CRK_OK;
  for (size_t i = 0; i < count && status == CRK_OK; i++) {
    crk_device_t device = calls[i].device;
    size_t first = 0;
    while (calls[first].device != device) {
      first++;
    }
    if (first < i) { /* the handle's calls are recorded or done together: a capture may begin or end meanwhile */
      continue;
    }
    if (crk_priv_capturing(device)) {
      status = record(device, calls, count);
    } else {
      now_count += calls_of(device, calls, count, now + now_count);
    }
  }
  if (status == CRK_OK && now_count > 0) {
    status = start_now(now, now_count);
    if (status == CRK_CAPTURE) { /* a capture began meanwhile, and nothing is done yet */
      status = in_process_start(now, now_count);
    }
  }
  if (now != few) {
    free(now);
  }
  return status;
}

const crk_comm_transport_t crk_priv_comm_in_process = {.library = in_process_library,
                                                       .id_create = in_process_id_create,
                                                       .create = in_process_create,
                                                       .poll = in_process_poll,
                                                       .check_reduction = in_process_check_reduction,
                                                       .start = in_process_start,
                                                       .interrupt = in_process_interrupt,
                                                       .release = in_process_release};
