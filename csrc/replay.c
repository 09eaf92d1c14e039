/* Launches that repeat, as graphs; replay.h explains them. */
#include "replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "number.h"

enum {
  FIRST_LINKS = 8,
  MOST_LINKS = 64,
  LEAST_LINKS = 3, /* of a graph: fewer launches cost as much one by one */
  MOST_CHAINS = 128, /* of a handle; the one that was used longest ago makes room */
  REPETITIONS = 3, /* of a chain before it becomes a graph: to make and upload one takes as long as some replays save */
  MOST_ARGUMENTS = 64,
  ARGUMENT_ALIGNMENT = 16
};

/* A launch of a chain. The arguments are behind each other in the chain's memory, from the byte `args` on. */
typedef struct link {
  crk_function_t function;
  crk_dim3_t grid, block;
  uint32_t shared_bytes;
  uint32_t args, bytes;
} link_t;

/* Launches with copies of their arguments. */
typedef struct sequence {
  link_t *links;
  char *memory;
  uint32_t count;
  uint32_t bytes, capacity; /* of `memory` */
} sequence_t;

typedef struct chain {
  uint64_t hash; /* of its kernels, blocks and shared memory, and of the chains before it; 0 in an empty place */
  uint64_t used; /* when it came last */
  uint32_t times; /* how often it came without a graph */
  uint32_t next; /* the chain that followed it last time */
  uint32_t updates; /* of its graph */
  crk_driver_chain_t *graph; /* NULL: none yet, or none can be made */
  sequence_t given; /* with the arguments that the graph has; empty without a graph */
} chain_t;

/* A failed launch: its status, the driver's code and the sentence. */
typedef struct failure {
  crk_status_t status;
  int device_error;
  char sentence[512];
} failure_t;

struct crk_replay {
  crk_mutex_t lock;
  crk_device_t device;
  crk_replay_t *next_listed; /* guarded by the lock of the keeper, as are the next two */
  uint64_t visited; /* the keeper's last turn that came here */
  uint64_t kept_before; /* what `kept` was then */
  atomic_bool is_on; /* changed with the lock held */
  bool is_forbidden; /* the caller has the stream */
  chain_t chains[MOST_CHAINS];
  uint64_t clock; /* counts chains */
  uint32_t last; /* the chain before the current one */
  uint64_t before; /* its hash; 0 after another use of the stream */
  chain_t *expected; /* the handle keeps launches for this chain; NULL: the driver has them already */
  sequence_t current;
  uint32_t most; /* launches of the current chain */
  uint64_t replayed; /* launches given in graphs */
  _Atomic(uint64_t) kept; /* twice the number of chains so far, and 1 more while launches are kept */
  failure_t failure; /* the first one that nobody has got yet */
};

/* ---- failures */

/* Notes that a call of this thread has just failed with `status`, unless an earlier failure is noted. */
static void failure_note(failure_t *self, crk_status_t status) {
  if (status != CRK_OK && self->status == CRK_OK) {
    self->status = status;
    self->device_error = crk_last_device_error();
    snprintf(self->sentence, sizeof self->sentence, "%s", crk_last_error());
  }
}

/* Makes the failure the last one of this thread, and returns its status. */
static crk_status_t failure_raise(const failure_t *self) {
  switch (self->status) {
    case CRK_OK:
      return CRK_OK;
    case CRK_DEVICE:
      return crk_priv_device_error(self->device_error, "%s", self->sentence);
    default:
      return crk_priv_error(self->status, "%s", self->sentence);
  }
}

/* ---- sequences */

static bool sequence_init(sequence_t *self) {
  self->capacity = MOST_LINKS * 512;
  self->links = malloc(MOST_LINKS * sizeof *self->links);
  self->memory = malloc(self->capacity);
  return self->links != NULL && self->memory != NULL;
}

static void sequence_deinit(sequence_t *self) {
  free(self->links);
  free(self->memory);
  *self = (sequence_t){0};
}

/* Whether the driver says how many bytes each argument has. */
static bool is_known(crk_function_t function) {
  return function->signature.params != NULL && function->signature.count <= MOST_ARGUMENTS;
}

/* Appends a launch. Returns false without memory for its arguments. */
static bool sequence_append(sequence_t *self, const link_t *link, const void *const *args) {
  const crk_signature_t *signature = &link->function->signature;
  uint32_t bytes = 0;
  for (size_t i = 0; i < signature->count; i++) {
    bytes += (uint32_t)crk_priv_round_up(signature->params[i].bytes, ARGUMENT_ALIGNMENT);
  }
  if (self->bytes + bytes > self->capacity) {
    const uint32_t capacity = 2 * (self->bytes + bytes);
    char *memory = realloc(self->memory, capacity);
    if (memory == NULL) {
      return false;
    }
    self->memory = memory;
    self->capacity = capacity;
  }
  link_t *added = &self->links[self->count++];
  *added = *link;
  added->args = self->bytes;
  added->bytes = bytes;
  char *to = self->memory + self->bytes;
  for (size_t i = 0; i < signature->count; i++) {
    const uint32_t size = signature->params[i].bytes, step = (uint32_t)crk_priv_round_up(size, ARGUMENT_ALIGNMENT);
    memcpy(to, args[i], size);
    memset(to + size, 0, step - size); /* arguments are compared as bytes */
    to += step;
  }
  self->bytes += bytes;
  return true;
}

/* The addresses of a link's arguments. */
static void link_arguments(const sequence_t *self, const link_t *link, const void **args) {
  const crk_signature_t *signature = &link->function->signature;
  const char *from = self->memory + link->args;
  for (size_t i = 0; i < signature->count; i++) {
    args[i] = from;
    from += crk_priv_round_up(signature->params[i].bytes, ARGUMENT_ALIGNMENT);
  }
}

static crk_driver_launch_t driver_launch(const sequence_t *self, const link_t *link, const void **args) {
  link_arguments(self, link, args);
  return (crk_driver_launch_t){link->function->driver_function, link->grid, link->block, link->shared_bytes, args};
}

static bool dims_equal(crk_dim3_t a, crk_dim3_t b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

/* Whether a graph's node can be updated from one launch to the other. */
static bool is_alike(const link_t *a, const link_t *b) {
  return a->function == b->function && dims_equal(a->block, b->block) && a->shared_bytes == b->shared_bytes;
}

/* `before` tells the equal layers of a model from each other: each has other arguments and another successor. */
static uint64_t sequence_hash(const sequence_t *self, uint64_t before) {
  uint64_t hash = 1469598103934665603u ^ before; /* FNV-1a */
  for (uint32_t i = 0; i < self->count; i++) {
    const link_t *link = &self->links[i];
    const uint64_t words[] = {(uint64_t)(uintptr_t)link->function, (uint64_t)link->block.x << 32 | link->block.y,
                              (uint64_t)link->block.z << 32 | link->shared_bytes};
    for (int word = 0; word < 3; word++) {
      hash = (hash ^ words[word]) * 1099511628211u;
    }
  }
  return hash | 1;
}

/* ---- chains; the caller holds the handle's lock of replays */

/* Destroys the graph, which may be running. */
static void chain_drop(const crk_replay_t *self, chain_t *chain) {
  if (chain->graph != NULL) {
    self->device->driver->chain_destroy(self->device->driver_device, chain->graph);
  }
  chain->graph = NULL;
  sequence_deinit(&chain->given);
}

/* The chain of this hash, or an empty one in its place. */
static chain_t *chain_find(crk_replay_t *self, uint64_t hash) {
  chain_t *oldest = &self->chains[0];
  for (uint32_t i = 0; i < MOST_CHAINS; i++) {
    chain_t *chain = &self->chains[i];
    if (chain->hash == hash) {
      return chain;
    }
    oldest = chain->used < oldest->used ? chain : oldest;
  }
  chain_drop(self, oldest);
  *oldest = (chain_t){.hash = hash};
  return oldest;
}

/* Copies the current launches, and makes a graph of them. The chain stays without one after a failure. */
static void chain_record(crk_replay_t *self, chain_t *chain) {
  const sequence_t *current = &self->current;
  sequence_t *given = &chain->given;
  const crk_driver_t *driver = self->device->driver;
  const void *args[MOST_LINKS][MOST_ARGUMENTS];
  crk_driver_launch_t launches[MOST_LINKS];
  *given = *current;
  given->links = malloc(current->count * sizeof *given->links);
  given->memory = malloc(current->bytes + 1);
  given->capacity = current->bytes + 1;
  if (given->links != NULL && given->memory != NULL) {
    memcpy(given->links, current->links, current->count * sizeof *given->links);
    memcpy(given->memory, current->memory, current->bytes);
    for (uint32_t i = 0; i < given->count; i++) {
      launches[i] = driver_launch(given, &given->links[i], args[i]);
    }
    if (driver->chain_create(self->device->driver_device, launches, given->count, &chain->graph) != CRK_OK) {
      chain->graph = NULL;
    }
  }
  if (chain->graph == NULL) {
    sequence_deinit(given);
  }
}

/* The current chain has ended, and is `chain`. */
static void chain_ended(crk_replay_t *self, chain_t *chain) {
  const uint32_t index = (uint32_t)(chain - self->chains);
  self->chains[self->last].next = index;
  self->last = index;
  self->before = chain->hash;
  chain->used = ++self->clock;
  self->expected = NULL;
  self->current.count = self->current.bytes = 0;
  self->most = crk_priv_least(2 * self->most, MOST_LINKS);
  atomic_store(&self->kept, 2 * self->clock);
}

/* One of the current launches has failed: they are no chain. */
static void chain_forget(crk_replay_t *self) {
  self->current.count = self->current.bytes = 0;
  self->before = 0;
}

/* The current launches, which are all launched, are a chain. */
static void chain_seen(crk_replay_t *self) {
  chain_t *chain = chain_find(self, sequence_hash(&self->current, self->before));
  chain->times += chain->times < UINT32_MAX;
  if (chain->times == REPETITIONS && self->current.count >= LEAST_LINKS) {
    chain_record(self, chain);
  }
  chain_ended(self, chain);
}

static crk_status_t launch_now(crk_device_t device, const link_t *link, const void *const *args) {
  return device->driver->launch(device->driver_device, device->own_stream, link->function->driver_function, link->grid,
                                link->block, link->shared_bytes, args);
}

/* Launches the first `count` of the current launches one by one, which were kept until now. */
static crk_status_t launch_kept(crk_replay_t *self, uint32_t count) {
  failure_t first;
  first.status = CRK_OK;
  for (uint32_t i = 0; i < count; i++) {
    const void *args[MOST_ARGUMENTS];
    const link_t *link = &self->current.links[i];
    link_arguments(&self->current, link, args);
    failure_note(&first, launch_now(self->device, link, args));
  }
  self->expected = NULL;
  atomic_store(&self->kept, 2 * self->clock);
  return failure_raise(&first);
}

/* Gives the graph the current arguments of the launch `index`, if they differ. */
static crk_status_t chain_update(crk_replay_t *self, chain_t *chain, uint32_t index) {
  const link_t *link = &self->current.links[index];
  link_t *given = &chain->given.links[index];
  char *memory = chain->given.memory + given->args;
  const char *fresh = self->current.memory + link->args;
  if (dims_equal(link->grid, given->grid) && memcmp(memory, fresh, link->bytes) == 0) {
    return CRK_OK;
  }
  const void *args[MOST_ARGUMENTS];
  const crk_driver_launch_t launch = driver_launch(&self->current, link, args);
  CRK_TRY(self->device->driver->chain_update(self->device->driver_device, chain->graph, index, &launch));
  chain->updates++;
  given->grid = link->grid;
  memcpy(memory, fresh, link->bytes);
  return CRK_OK;
}

/* All launches of the expected chain are kept: launches its graph. */
static crk_status_t chain_launch(crk_replay_t *self) {
  crk_device_t device = self->device;
  chain_t *chain = self->expected;
  crk_status_t status = CRK_OK;
  for (uint32_t i = 0; i < self->current.count && status == CRK_OK; i++) {
    status = chain_update(self, chain, i);
  }
  if (status != CRK_OK) { /* a runtime that refuses an update still launches */
    status = launch_kept(self, self->current.count);
    chain_drop(self, chain);
    chain_ended(self, chain);
    return status;
  }
  status = device->driver->chain_launch(device->driver_device, chain->graph, device->own_stream);
  if (status == CRK_OK) {
    self->replayed += self->current.count;
  } else { /* it would fail again */
    chain_drop(self, chain);
    if (status == CRK_OUT_OF_MEMORY) { /* the first launch of a graph takes memory, and launches need none */
      status = launch_kept(self, self->current.count);
    }
  }
  const uint32_t most = device->driver->most_chain_updates;
  if (most != 0 && chain->updates >= most) {
    chain_drop(self, chain);
    chain->updates = 0;
    chain->times = REPETITIONS - 1; /* gets a new graph the next time */
  }
  chain_ended(self, chain);
  return status;
}

/* ---- the keeper: a thread that launches what is kept for long. It ends with the last handle that replays. */

static const double KEEPER_SECONDS = 0.001;
enum {
  KEEPER_TURNS = 100, /* without a kept launch, before it sleeps until it is woken */
  KEEPER_END_TURNS = 500
};

static crk_mutex_t keeper_lock = CRK_MUTEX_INIT;
static crk_condition_t keeper_wakes = CRK_CONDITION_INIT, keeper_ended = CRK_CONDITION_INIT;
static crk_replay_t *keeper_list; /* the handles that replay */
static bool keeper_runs;
static crk_thread_t keeper_thread;
static bool keeper_is_joinable; /* it was started, and nobody has waited for its end */
static atomic_bool keeper_is_awake;

static void end_locked(crk_replay_t *self) {
  if (self->expected != NULL) {
    const crk_status_t status = launch_kept(self, self->current.count);
    failure_note(&self->failure, status);
    if (status != CRK_OK) {
      chain_forget(self);
    }
  }
  if (self->current.count > 0) {
    chain_seen(self);
  }
  self->before = 0;
  self->most = FIRST_LINKS;
}

/* Launches what a handle has kept since the turn before. A handle whose lock is held is launching now. Returns whether
 * launches are kept. Leaves the keeper's lock while it launches, which may take long. The handle's lock keeps the
 * handle meanwhile. */
static bool keeper_visit(crk_replay_t *replay) {
  const uint64_t kept = atomic_load(&replay->kept);
  const bool is_old = kept % 2 == 1 && kept == replay->kept_before;
  replay->kept_before = kept;
  if (is_old && crk_priv_mutex_try(&replay->lock)) {
    crk_priv_mutex_unlock(&keeper_lock);
    if (atomic_load(&replay->kept) == kept) {
      end_locked(replay);
    }
    crk_priv_mutex_unlock(&replay->lock);
    crk_priv_mutex_lock(&keeper_lock);
  }
  return kept % 2 == 1;
}

/* With the keeper's lock held. Begins again after each visit, since the list may have changed. */
static bool keeper_turn(void) {
  static uint64_t turn;
  bool any = false;
  turn++;
  for (crk_replay_t *replay = keeper_list; replay != NULL;) {
    if (replay->visited == turn) {
      replay = replay->next_listed;
    } else {
      replay->visited = turn;
      any = keeper_visit(replay) || any;
      replay = keeper_list;
    }
  }
  return any;
}

static void keeper_main(void *context) {
  (void)context;
  crk_priv_mutex_lock(&keeper_lock);
  for (int quiet = 0; keeper_list != NULL;) {
    quiet = keeper_turn() ? 0 : quiet + 1;
    if (quiet < KEEPER_TURNS) {
      crk_priv_condition_wait_for(&keeper_wakes, &keeper_lock, KEEPER_SECONDS);
      continue;
    }
    /* Who keeps a launch says so first, and then looks whether the keeper is awake. */
    atomic_store(&keeper_is_awake, false);
    if (!keeper_turn()) {
      crk_priv_condition_wait(&keeper_wakes, &keeper_lock);
    }
    atomic_store(&keeper_is_awake, true);
    quiet = 0;
  }
  keeper_runs = false;
  atomic_store(&keeper_is_awake, false);
  crk_priv_condition_broadcast(&keeper_ended);
  crk_priv_mutex_unlock(&keeper_lock);
}

/* Waits until the keeper, which has left its lock for ever, has left the library too. With the lock held. */
static void keeper_join(void) {
  if (keeper_is_joinable) {
    crk_priv_thread_join(keeper_thread);
    keeper_is_joinable = false;
  }
}

/* Returns false where no thread can be started. */
static bool keeper_wake(void) {
  if (atomic_load(&keeper_is_awake)) {
    return true;
  }
  crk_priv_mutex_lock(&keeper_lock);
  if (!keeper_runs) {
    keeper_join();
    keeper_runs = keeper_is_joinable = crk_priv_thread_start(keeper_main, NULL, &keeper_thread);
  }
  const bool runs = keeper_runs;
  atomic_store(&keeper_is_awake, runs);
  crk_priv_condition_signal(&keeper_wakes);
  crk_priv_mutex_unlock(&keeper_lock);
  return runs;
}

static void keeper_list_add(crk_replay_t *replay) {
  crk_priv_mutex_lock(&keeper_lock);
  replay->next_listed = keeper_list;
  keeper_list = replay;
  crk_priv_mutex_unlock(&keeper_lock);
}

/* Waits for the keeper's end after the last handle, since the library may be unloaded then. Not for ever, as the child
 * of a fork has no keeper. */
static void keeper_leave(const crk_replay_t *replay) {
  crk_priv_mutex_lock(&keeper_lock);
  crk_replay_t **link = &keeper_list;
  while (*link != replay) {
    link = &(*link)->next_listed;
  }
  *link = replay->next_listed;
  for (int turn = 0; turn < KEEPER_END_TURNS && keeper_list == NULL && keeper_runs; turn++) {
    crk_priv_condition_broadcast(&keeper_wakes);
    crk_priv_condition_wait_for(&keeper_ended, &keeper_lock, KEEPER_SECONDS);
  }
  if (!keeper_runs) {
    keeper_join();
  }
  crk_priv_mutex_unlock(&keeper_lock);
}

/* ---- handles */

/* Whether the next launch, the first of a chain, is kept. */
static bool begin_expected(crk_replay_t *self, const link_t *link) {
  chain_t *chain = &self->chains[self->chains[self->last].next];
  if (chain->graph == NULL || !is_alike(&chain->given.links[0], link)) {
    return false;
  }
  self->expected = chain;
  atomic_store(&self->kept, 2 * self->clock + 1);
  if (!keeper_wake()) {
    self->expected = NULL;
    atomic_store(&self->is_on, false);
  }
  return self->expected != NULL;
}

/* Launches, and returns the failure of the kept launches before. */
static crk_status_t launch_after(crk_replay_t *self, crk_status_t kept, const link_t *link, const void *const *args) {
  failure_t first;
  first.status = CRK_OK;
  failure_note(&first, kept);
  (void)launch_now(self->device, link, args);
  chain_forget(self);
  return failure_raise(&first);
}

static crk_status_t launch_locked(crk_replay_t *self, const link_t *link, const void *const *args) {
  if (!atomic_load(&self->is_on) || crk_priv_capturing(self->device) || !is_known(link->function) ||
      !sequence_append(&self->current, link, args)) {
    end_locked(self);
    return launch_now(self->device, link, args);
  }
  const uint32_t index = self->current.count - 1;
  crk_status_t kept = CRK_OK;
  if (index == 0) {
    (void)begin_expected(self, link);
  } else if (self->expected != NULL && !is_alike(&self->expected->given.links[index], link)) {
    kept = launch_kept(self, index);
  }
  if (self->expected != NULL) {
    return self->current.count == self->expected->given.count ? chain_launch(self) : CRK_OK;
  }
  if (kept != CRK_OK) {
    return launch_after(self, kept, link, args);
  }
  const crk_status_t status = launch_now(self->device, link, args);
  if (status != CRK_OK) {
    chain_forget(self);
  } else if (self->current.count >= self->most) {
    chain_seen(self);
  }
  return status;
}

crk_status_t crk_priv_launch(crk_device_t self, crk_function_t function, crk_dim3_t grid, crk_dim3_t block,
                             uint32_t shared_bytes, const void *const *args) {
  const link_t link = {.function = function, .grid = grid, .block = block, .shared_bytes = shared_bytes};
  if (!crk_priv_replays(self)) {
    return launch_now(self, &link, args);
  }
  crk_priv_mutex_lock(&self->replay->lock);
  const crk_status_t status = launch_locked(self->replay, &link, args);
  crk_priv_mutex_unlock(&self->replay->lock);
  return status;
}

void crk_priv_replay_end(crk_device_t self) {
  crk_priv_mutex_lock(&self->replay->lock);
  end_locked(self->replay);
  crk_priv_mutex_unlock(&self->replay->lock);
}

bool crk_priv_replay_is_clear(crk_device_t self) {
  if (self->replay == NULL) {
    return true;
  }
  if (!crk_priv_mutex_try(&self->replay->lock)) {
    return false;
  }
  const bool is_clear = self->replay->expected == NULL;
  crk_priv_mutex_unlock(&self->replay->lock);
  return is_clear;
}

bool crk_priv_replays(crk_device_t self) {
  return self->replay != NULL && atomic_load_explicit(&self->replay->is_on, memory_order_relaxed);
}

/* Returns false where the handle may not replay. */
static bool set_replay(crk_replay_t *self, bool on, bool forbid) {
  crk_priv_mutex_lock(&self->lock);
  end_locked(self);
  self->is_forbidden = self->is_forbidden || forbid;
  const bool may = !on || !self->is_forbidden;
  atomic_store(&self->is_on, on && may);
  crk_priv_mutex_unlock(&self->lock);
  return may;
}

void crk_priv_replay_forbid(crk_device_t self) {
  if (self->replay != NULL) {
    (void)set_replay(self->replay, false, true);
  }
}

crk_status_t crk_priv_replay_capture(crk_device_t self, crk_graph_t graph) {
  crk_replay_t *replay = self->replay;
  if (replay != NULL) {
    crk_priv_mutex_lock(&replay->lock);
    end_locked(replay);
  }
  const crk_status_t status = self->driver->capture_begin(self->driver_device, self->own_stream);
  if (status == CRK_OK) {
    atomic_store(&self->capture, graph);
  }
  if (replay != NULL) {
    crk_priv_mutex_unlock(&replay->lock);
  }
  return status;
}

crk_status_t crk_priv_replay_take(crk_device_t self) {
  crk_replay_t *replay = self->replay;
  if (replay == NULL) {
    return CRK_OK;
  }
  crk_priv_mutex_lock(&replay->lock);
  const crk_status_t status = failure_raise(&replay->failure);
  replay->failure.status = CRK_OK;
  crk_priv_mutex_unlock(&replay->lock);
  return status;
}

/* Whether a new handle replays, by the environment. */
static bool is_wanted(crk_device_t self) {
  char setting[8];
  return crk_priv_variable("CANDLE_ROCM_REPLAY", setting, sizeof setting) ? strcmp(setting, "0") != 0
                                                                          : self->driver->backend == CRK_BACKEND_CUDA;
}

void crk_priv_replay_init(crk_device_t self) {
  const bool can = !self->is_stream_borrowed && !self->is_synchronous && self->driver->chain_create != NULL;
  crk_replay_t *replay = can ? calloc(1, sizeof *replay) : NULL;
  if (replay == NULL) {
    return;
  }
  if (!sequence_init(&replay->current)) {
    sequence_deinit(&replay->current);
    free(replay);
    return;
  }
  crk_priv_mutex_init(&replay->lock);
  replay->device = self;
  replay->most = FIRST_LINKS;
  atomic_store(&replay->is_on, is_wanted(self));
  self->replay = replay;
  keeper_list_add(replay);
}

void crk_priv_replay_deinit(crk_device_t self) {
  crk_replay_t *replay = self->replay;
  if (replay == NULL) {
    return;
  }
  keeper_leave(replay);
  crk_priv_mutex_lock(&replay->lock); /* the keeper's last visit has ended */
  crk_priv_mutex_unlock(&replay->lock);
  for (int i = 0; i < MOST_CHAINS; i++) {
    chain_drop(replay, &replay->chains[i]);
  }
  sequence_deinit(&replay->current);
  crk_priv_mutex_deinit(&replay->lock);
  free(replay);
  self->replay = NULL;
}

crk_status_t crk_device_replays(crk_device_t self, uint64_t *launches) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_replays");
  CRK_REFUSE_IF(launches == NULL, "crk_device_replays: launches is NULL");
  *launches = 0;
  if (self->replay != NULL) {
    crk_priv_mutex_lock(&self->replay->lock);
    *launches = self->replay->replayed;
    crk_priv_mutex_unlock(&self->replay->lock);
  }
  return CRK_OK;
}

crk_status_t crk_device_set_replay(crk_device_t self, bool on) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_device_set_replay");
  crk_replay_t *replay = self->replay;
  if (replay != NULL ? !set_replay(replay, on, false) : on) {
    return crk_priv_error(CRK_UNSUPPORTED, "crk_device_set_replay: on, but the handle %s",
                          self->is_synchronous                 ? "waits for each call (CANDLE_ROCM_SYNC)"
                          : self->is_stream_borrowed           ? "works in a stream of the caller's"
                          : replay != NULL                     ? "has given its stream away (crk_device_stream)"
                          : self->driver->chain_create == NULL ? "has a driver without the calls"
                                                               : "had no host memory for it when it was opened");
  }
  return CRK_OK;
}
