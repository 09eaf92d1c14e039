/* How a launch runs on the CPU.
 *
 * An elementwise kernel runs over pieces of the elements, other kernels run block by block. The pool's threads share
 * the pieces or blocks. In a cooperative kernel each thread of a block has a stack of its own (fiber.h). One thread of
 * the system runs all threads of a block, so that a barrier is a switch of stacks and shared memory needs no lock.
 *
 * A cooperative block in detail: one fiber runs one thread after the other until a thread waits. Only then another
 * fiber takes the threads that follow. So a kernel without waits never switches, and a kernel that only waits in its
 * first wave needs one stack per lane of a wave. When no thread is ready and none is left to start, the waiting threads
 * would wait for ever. The launch then fails. */
#include "driver/cpu/exec.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/cpu/fiber.h"
#include "driver/cpu/thread_pool.h"
#include "error.h"
#include "number.h"
#include "os/os.h"
#include "sanitizer.h"

/* A launch uses one more core for each GRAIN threads. On two cores, splitting a launch costs 5 us. A thread of the
 * cheapest elementwise kernels takes 0.4 to 1.6 ns; a thread with a few barriers takes 30 ns or more. */
#define ELEMENTWISE_GRAIN 16384u
#define BLOCK_GRAIN       2048u

#define MIN_WAVE         32u
#define MAX_WAVE         64u
#define SHARED_VARIABLES 64u

/* The gap between two shared variables. AddressSanitizer reports an access that runs from a variable into the gap. */
#if defined(CRK_ASAN)
#define RED_ZONE 32u
#else
#define RED_ZONE 0u
#endif

/* One call of crk_priv_cpu_execute. */
typedef struct launch {
  const crk_host_kernel_t *kernel;
  void *const *args;
  uint32_t wave_size;
  crk_dim3_t grid, block;
  uint32_t block_threads;
  uint32_t shared_bytes;
  uint64_t blocks; /* or pieces of an elementwise kernel */
  uint64_t chunk; /* blocks that a thread takes at once */
  atomic_uint_fast64_t next;
  atomic_int failed; /* 0: no; 1: the sentence is being written; 2: yes */
  crk_status_t status;
  char sentence[320];
} launch_t;

typedef enum operation { OPERATION_SHUFFLE, OPERATION_BALLOT } operation_t;

typedef struct thread thread_t;

/* Threads in the order of their arrival. */
typedef struct queue {
  thread_t *first;
  thread_t *last;
  uint32_t count;
} queue_t;

/* The values that the lanes of a wave exchange in one operation. A wave has two of these. A lane may already give its
 * value to the next operation while other lanes still read the values of this one. It cannot be two operations
 * ahead. */
typedef struct exchange {
  uint64_t values[MAX_WAVE];
  uint64_t given; /* bit i: lane i gave a value */
  uint64_t votes;
} exchange_t;

typedef struct wave {
  uint32_t live;
  uint32_t turn;
  operation_t operation; /* of the waiting threads */
  queue_t waiting;
  exchange_t exchanges[2];
} wave_t;

typedef struct shared_variable {
  const void *key;
  uint32_t offset, bytes;
} shared_variable_t;

/* The state of one thread of the system that runs blocks. */
typedef struct executor {
  struct executor *next;
  launch_t *launch;

  /* Shared memory. Variables keep their places from block to block of a launch. The key of the dynamic part is the
   * address of this executor. */
  char *shared;
  uint32_t shared_used; /* bytes of `shared`, with gaps */
  uint32_t shared_bytes; /* bytes of the block's allowance */
  uint32_t variable_count;
  shared_variable_t variables[SHARED_VARIABLES];
  jmp_buf escape; /* the way out of a kernel that is not cooperative */

  /* A cooperative block. */
  crk_fiber_t own;
  crk_host_thread_t fresh; /* the description of the next thread to start */
  uint32_t started, live;
  thread_t *idle; /* fibers without a thread */
  queue_t ready, barrier;
  bool abandoned;
  uint32_t thread_count;
  thread_t *threads[CRK_CPU_BLOCK_THREADS];
  wave_t waves[CRK_CPU_BLOCK_THREADS / MIN_WAVE];
} executor_t;

/* A fiber and the kernel's thread that it runs. */
struct thread {
  crk_host_thread_t host; /* must be first: services get its address */
  executor_t *executor;
  wave_t *wave;
  thread_t *next;
  crk_fiber_t fiber;
};

/* ------------------------------------------------------------------------------------------------------------------
 * Failure
 * ------------------------------------------------------------------------------------------------------------------ */

static bool has_failed(launch_t *launch) { return atomic_load_explicit(&launch->failed, memory_order_relaxed) != 0; }

/* Keeps the first failure of the launch. Its sentence is read after all threads of the launch are done. */
static void launch_fail(launch_t *launch, crk_status_t status, const char *sentence) {
  int expected = 0;
  if (atomic_compare_exchange_strong(&launch->failed, &expected, 1)) {
    launch->status = status;
    snprintf(launch->sentence, sizeof launch->sentence, "%s", sentence);
    atomic_store(&launch->failed, 2);
  }
}

static void fail_in_block(const crk_host_thread_t *host, launch_t *launch, const char *what) {
  char sentence[sizeof launch->sentence];
  snprintf(sentence, sizeof sentence, "kernel `%s`, block (%u, %u, %u): %s", launch->kernel->name,
           (unsigned)host->block_index.x, (unsigned)host->block_index.y, (unsigned)host->block_index.z, what);
  launch_fail(launch, CRK_DEVICE, sentence);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Shared memory
 * ------------------------------------------------------------------------------------------------------------------ */

static size_t shared_capacity(void) { return CRK_CPU_SHARED_BYTES + (size_t)SHARED_VARIABLES * RED_ZONE; }

/* The room of a variable in shared memory. */
static uint32_t shared_round_up(size_t bytes) { return (uint32_t)crk_priv_round_up(bytes, 16); }

/* A place for a new variable; NULL if the block's shared memory is used up. */
static void *shared_place(executor_t *self, const void *key, size_t bytes) {
  if (bytes > CRK_CPU_SHARED_BYTES || self->shared_bytes + shared_round_up(bytes) > CRK_CPU_SHARED_BYTES ||
      self->variable_count == SHARED_VARIABLES) {
    return NULL;
  }
  shared_variable_t *variable = &self->variables[self->variable_count++];
  variable->key = key;
  variable->offset = self->shared_used;
  variable->bytes = (uint32_t)bytes;
  self->shared_bytes += shared_round_up(bytes);
  self->shared_used += shared_round_up(bytes) + RED_ZONE;
  char *ptr = self->shared + variable->offset;
  CRK_SAN_UNPOISON(ptr, bytes);
  memset(ptr, 0xff, bytes);
  return ptr;
}

static void *shared_find(executor_t *self, const void *key, size_t bytes) {
  for (uint32_t i = 0; i < self->variable_count; i++) {
    if (self->variables[i].key == key) {
      return self->shared + self->variables[i].offset;
    }
  }
  return shared_place(self, key, bytes);
}

/* Begins a launch: forgets all variables and places the dynamic memory. Its key is an address that no variable has. */
static void *shared_open(executor_t *self) {
  self->shared_used = 0;
  self->shared_bytes = 0;
  self->variable_count = 0;
  CRK_SAN_POISON(self->shared, shared_capacity());
  return shared_place(self, self, self->launch->shared_bytes);
}

/* Begins a block: fills shared memory with NaNs of every float type, so that reads before the first write always
 * give the same value. */
static void shared_clear(executor_t *self) {
  for (uint32_t i = 0; i < self->variable_count; i++) {
    memset(self->shared + self->variables[i].offset, 0xff, self->variables[i].bytes);
  }
}

static void shared_sentence(char *sentence, size_t size, const executor_t *self, size_t bytes) {
  snprintf(sentence, size, "no room for %zu bytes of shared memory: %u of %u bytes are taken", bytes,
           (unsigned)self->shared_bytes, CRK_CPU_SHARED_BYTES);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Executors: kept for the next launch
 * ------------------------------------------------------------------------------------------------------------------ */

static crk_mutex_t executors_lock = CRK_MUTEX_INIT;
static executor_t *executors;

/* An idle executor, or a new one; NULL without memory. */
static executor_t *executor_take(launch_t *launch) {
  crk_priv_mutex_lock(&executors_lock);
  executor_t *self = executors;
  if (self != NULL) {
    executors = self->next;
  }
  crk_priv_mutex_unlock(&executors_lock);
  if (self == NULL) {
    self = calloc(1, sizeof *self);
    if (self == NULL) {
      return NULL;
    }
    self->shared = crk_priv_aligned_alloc(shared_capacity());
    if (self->shared == NULL) {
      free(self);
      return NULL;
    }
  }
  self->launch = launch;
  return self;
}

static void executor_give(executor_t *self) {
  self->launch = NULL;
  crk_priv_mutex_lock(&executors_lock);
  self->next = executors;
  executors = self;
  crk_priv_mutex_unlock(&executors_lock);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Kernels with threads that do not wait for each other
 * ------------------------------------------------------------------------------------------------------------------ */

static void refuse_to_meet(crk_host_thread_t *host, const char *what) {
  executor_t *self = host->driver;
  char sentence[128];
  snprintf(sentence, sizeof sentence, "its threads meet at a %s, but the kernel is not declared cooperative", what);
  fail_in_block(host, self->launch, sentence);
}

static void alone_barrier(crk_host_thread_t *host) { refuse_to_meet(host, "barrier"); }

static uint64_t alone_shuffle(crk_host_thread_t *host, uint64_t value, uint32_t source) {
  (void)source;
  refuse_to_meet(host, "shuffle");
  return value;
}

static uint64_t alone_ballot(crk_host_thread_t *host, int predicate) {
  refuse_to_meet(host, "vote");
  return predicate != 0 ? (uint64_t)1 << host->lane : 0;
}

/* Finds a shared variable. If shared memory is too small there is no address to return, so the function leaves the
 * kernel by a jump. */
static void *alone_shared(crk_host_thread_t *host, const void *key, size_t bytes) {
  executor_t *self = host->driver;
  void *ptr = shared_find(self, key, bytes);
  if (ptr == NULL) {
    char sentence[160];
    shared_sentence(sentence, sizeof sentence, self, bytes);
    fail_in_block(host, self->launch, sentence);
    longjmp(self->escape, 1);
  }
  return ptr;
}

static const crk_host_services_t alone_services = {alone_barrier, alone_shuffle, alone_ballot, alone_shared};

static crk_host_dim_t host_dim(crk_dim3_t dim) {
  const crk_host_dim_t result = {dim.x, dim.y, dim.z};
  return result;
}

static crk_host_thread_t host_thread(launch_t *launch, const crk_host_services_t *services, void *driver,
                                     void *dynamic_shared) {
  crk_host_thread_t host;
  memset(&host, 0, sizeof host);
  host.services = services;
  host.block_size = host_dim(launch->block);
  host.grid_size = host_dim(launch->grid);
  host.wave_size = launch->wave_size;
  host.parts = 1;
  host.dynamic_shared = dynamic_shared;
  host.driver = driver;
  return host;
}

static crk_host_dim_t block_index(const launch_t *launch, uint64_t block) {
  crk_host_dim_t index;
  index.x = (uint32_t)(block % launch->grid.x);
  block /= launch->grid.x;
  index.y = (uint32_t)(block % launch->grid.y);
  index.z = (uint32_t)(block / launch->grid.y);
  return index;
}

/* Takes a chunk of blocks, from *first to below *end. False when none are left or the launch has failed. */
static bool take_blocks(launch_t *launch, uint64_t *first, uint64_t *end) {
  if (has_failed(launch)) {
    return false;
  }
  *first = atomic_fetch_add_explicit(&launch->next, launch->chunk, memory_order_relaxed);
  if (*first >= launch->blocks) {
    return false;
  }
  *end = launch->blocks - *first < launch->chunk ? launch->blocks : *first + launch->chunk;
  return true;
}

static void run_pieces(executor_t *self, void *dynamic_shared) {
  launch_t *launch = self->launch;
  crk_host_thread_t host = host_thread(launch, &alone_services, self, dynamic_shared);
  host.parts = (uint32_t)launch->blocks;
  uint64_t piece, end;
  while (take_blocks(launch, &piece, &end)) {
    for (; piece < end; piece++) {
      host.part = (uint32_t)piece;
      launch->kernel->run(&host, launch->args);
    }
  }
}

static void run_blocks(executor_t *self, void *dynamic_shared) {
  launch_t *launch = self->launch;
  crk_host_thread_t host = host_thread(launch, &alone_services, self, dynamic_shared);
  uint64_t block, end;
  while (take_blocks(launch, &block, &end)) {
    for (; block < end && !has_failed(launch); block++) {
      shared_clear(self);
      host.block_index = block_index(launch, block);
      host.thread_index.x = host.thread_index.y = host.thread_index.z = 0;
      host.lane = 0;
      launch->kernel->run(&host, launch->args);
    }
  }
}

static void run_alone(executor_t *self, void *dynamic_shared) {
  if (setjmp(self->escape) != 0) {
    return;
  }
  if (self->launch->kernel->kind == CRK_HOST_ELEMENTWISE) {
    run_pieces(self, dynamic_shared);
  } else {
    run_blocks(self, dynamic_shared);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Cooperative kernels
 * ------------------------------------------------------------------------------------------------------------------ */

static void queue_push(queue_t *self, thread_t *thread) {
  thread->next = NULL;
  if (self->first == NULL) {
    self->first = thread;
  } else {
    self->last->next = thread;
  }
  self->last = thread;
  self->count++;
}

static thread_t *queue_pop(queue_t *self) {
  thread_t *thread = self->first;
  if (thread != NULL) {
    self->first = thread->next;
    self->count--;
  }
  return thread;
}

/* Moves all threads of `from` to the end of `self`. */
static void queue_append(queue_t *self, queue_t *from) {
  if (from->first == NULL) {
    return;
  }
  if (self->first == NULL) {
    self->first = from->first;
  } else {
    self->last->next = from->first;
  }
  self->last = from->last;
  self->count += from->count;
  memset(from, 0, sizeof *from);
}

static void fiber_body(void *argument);

/* A fiber without a thread; NULL without memory for another one. */
static thread_t *idle_take(executor_t *self) {
  thread_t *thread = self->idle;
  if (thread != NULL) {
    self->idle = thread->next;
    return thread;
  }
  thread = calloc(1, sizeof *thread);
  if (thread == NULL) {
    return NULL;
  }
  if (!crk_priv_fiber_init(&thread->fiber, self->thread_count, fiber_body, thread)) {
    free(thread);
    return NULL;
  }
  thread->executor = self;
  self->threads[self->thread_count++] = thread;
  return thread;
}

static void idle_give(executor_t *self, thread_t *thread) {
  thread->next = self->idle;
  self->idle = thread;
}

/* Gives a fiber the block's next thread. */
static void thread_assign(executor_t *self, thread_t *thread) {
  const launch_t *launch = self->launch;
  crk_host_thread_t *fresh = &self->fresh;
  thread->host = *fresh;
  thread->host.driver = thread;
  thread->wave = &self->waves[self->started / launch->wave_size];
  self->started++;
  fresh->lane = fresh->lane + 1 == launch->wave_size ? 0 : fresh->lane + 1;
  if (++fresh->thread_index.x == launch->block.x) {
    fresh->thread_index.x = 0;
    if (++fresh->thread_index.y == launch->block.y) {
      fresh->thread_index.y = 0;
      fresh->thread_index.z++;
    }
  }
}

/* Ends the block after launch_fail. Does not return. */
static void block_abandon(thread_t *self) {
  self->executor->abandoned = true;
  crk_priv_fiber_switch(&self->fiber, &self->executor->own);
}

/* Fails the launch because no thread can continue. Does not return. */
static void block_stuck(thread_t *self) {
  executor_t *executor = self->executor;
  uint32_t in_wave = 0;
  for (uint32_t i = 0; i < CRK_CPU_BLOCK_THREADS / MIN_WAVE; i++) {
    in_wave += executor->waves[i].waiting.count;
  }
  char sentence[160];
  snprintf(sentence, sizeof sentence,
           "%u of its %u threads wait at a barrier and %u at a wave operation, which the other threads never reach",
           (unsigned)executor->barrier.count, (unsigned)executor->launch->block_threads, (unsigned)in_wave);
  fail_in_block(&self->host, executor->launch, sentence);
  block_abandon(self);
}

/* Switches from a thread that is in a queue to one that can continue. Returns when this thread can continue. */
static void thread_wait(thread_t *self) {
  executor_t *executor = self->executor;
  thread_t *other = queue_pop(&executor->ready);
  if (other == NULL) {
    if (executor->started == executor->launch->block_threads) {
      block_stuck(self);
    }
    other = idle_take(executor);
    if (other == NULL) {
      launch_fail(executor->launch, CRK_OUT_OF_MEMORY,
                  "the CPU has no memory left for the stacks of a cooperative kernel");
      block_abandon(self);
    }
    thread_assign(executor, other);
  }
  crk_priv_fiber_switch(&self->fiber, &other->fiber);
}

static void wave_complete(executor_t *self, wave_t *wave) {
  wave->turn++;
  queue_append(&self->ready, &wave->waiting);
}

/* Ends a thread after its kernel returned, and wakes the threads that waited for it alone. Returns when the fiber has
 * another thread to run. */
static void thread_finish(thread_t *self) {
  executor_t *executor = self->executor;
  wave_t *wave = self->wave;
  executor->live--;
  wave->live--;
  if (wave->waiting.count != 0 && wave->waiting.count == wave->live) {
    wave_complete(executor, wave);
  }
  if (executor->barrier.count != 0 && executor->barrier.count == executor->live) {
    queue_append(&executor->ready, &executor->barrier);
  }
  thread_t *other = queue_pop(&executor->ready);
  if (other == NULL && executor->started != executor->launch->block_threads) {
    thread_assign(executor, self);
    return;
  }
  if (other == NULL && executor->live != 0) {
    block_stuck(self);
  }
  idle_give(executor, self);
  crk_priv_fiber_switch(&self->fiber, other != NULL ? &other->fiber : &executor->own);
}

static void fiber_body(void *argument) {
  thread_t *self = argument;
  for (;;) {
    const launch_t *launch = self->executor->launch;
    launch->kernel->run(&self->host, launch->args);
    thread_finish(self);
  }
}

static void barrier(crk_host_thread_t *host) {
  thread_t *self = host->driver;
  executor_t *executor = self->executor;
  if (executor->barrier.count + 1 == executor->live) {
    queue_append(&executor->ready, &executor->barrier);
    return;
  }
  queue_push(&executor->barrier, self);
  thread_wait(self);
}

/* Waits for the live lanes of the wave, and gives their values. The result is valid until the second operation of this
 * lane after this one. */
static const exchange_t *wave_meet(thread_t *self, operation_t operation, uint64_t value, uint64_t vote) {
  wave_t *wave = self->wave;
  exchange_t *exchange = &wave->exchanges[wave->turn % 2];
  const uint64_t bit = (uint64_t)1 << self->host.lane;
  if (wave->waiting.count == 0) {
    wave->operation = operation;
    exchange->given = 0;
    exchange->votes = 0;
  } else if (wave->operation != operation) {
    fail_in_block(&self->host, self->executor->launch,
                  "some lanes of a wave wait at a shuffle while others wait at a vote");
    block_abandon(self);
  }
  exchange->values[self->host.lane] = value;
  exchange->given |= bit;
  exchange->votes |= vote != 0 ? bit : 0;
  if (wave->waiting.count + 1 == wave->live) {
    wave_complete(self->executor, wave);
  } else {
    queue_push(&wave->waiting, self);
    thread_wait(self);
  }
  return exchange;
}

static uint64_t shuffle(crk_host_thread_t *host, uint64_t value, uint32_t source) {
  const exchange_t *exchange = wave_meet(host->driver, OPERATION_SHUFFLE, value, 0);
  return source < MAX_WAVE && (exchange->given >> source & 1) != 0 ? exchange->values[source] : value;
}

static uint64_t ballot(crk_host_thread_t *host, int predicate) {
  return wave_meet(host->driver, OPERATION_BALLOT, 0, predicate != 0)->votes;
}

static void *shared(crk_host_thread_t *host, const void *key, size_t bytes) {
  thread_t *self = host->driver;
  void *ptr = shared_find(self->executor, key, bytes);
  if (ptr == NULL) {
    char sentence[160];
    shared_sentence(sentence, sizeof sentence, self->executor, bytes);
    fail_in_block(host, self->executor->launch, sentence);
    block_abandon(self);
  }
  return ptr;
}

static const crk_host_services_t cooperative_services = {barrier, shuffle, ballot, shared};

/* Makes all fibers idle again after a block that was abandoned. Drops those that cannot be reset (never on POSIX). */
static void fibers_reset(executor_t *self) {
  self->idle = NULL;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < self->thread_count; i++) {
    thread_t *thread = self->threads[i];
    if (crk_priv_fiber_reset(&thread->fiber)) {
      self->threads[kept++] = thread;
      idle_give(self, thread);
    } else {
      free(thread);
    }
  }
  self->thread_count = kept;
}

static void run_cooperative_block(executor_t *self, crk_host_dim_t index) {
  launch_t *launch = self->launch;
  const uint32_t threads = launch->block_threads;
  shared_clear(self);
  self->fresh.block_index = index;
  self->fresh.thread_index.x = self->fresh.thread_index.y = self->fresh.thread_index.z = 0;
  self->fresh.lane = 0;
  self->started = 0;
  self->live = threads;
  memset(&self->ready, 0, sizeof self->ready);
  memset(&self->barrier, 0, sizeof self->barrier);
  for (uint32_t first = 0, i = 0; first < threads; first += launch->wave_size, i++) {
    wave_t *wave = &self->waves[i];
    wave->live = threads - first < launch->wave_size ? threads - first : launch->wave_size;
    wave->turn = 0;
    memset(&wave->waiting, 0, sizeof wave->waiting);
  }
  thread_t *thread = idle_take(self);
  if (thread == NULL) {
    launch_fail(launch, CRK_OUT_OF_MEMORY, "the CPU has no memory left for the stacks of a cooperative kernel");
    return;
  }
  thread_assign(self, thread);
  crk_priv_fiber_switch(&self->own, &thread->fiber);
  if (self->abandoned) {
    self->abandoned = false;
    fibers_reset(self);
  }
}

static void run_cooperative_blocks(executor_t *self, void *dynamic_shared) {
  launch_t *launch = self->launch;
  if (!crk_priv_fiber_enter(&self->own)) {
    launch_fail(launch, CRK_DEVICE, "the system does not let this thread switch stacks");
    return;
  }
  self->fresh = host_thread(launch, &cooperative_services, NULL, dynamic_shared);
  for (uint32_t i = 0; i < CRK_CPU_BLOCK_THREADS / MIN_WAVE; i++) {
    memset(&self->waves[i].waiting, 0, sizeof self->waves[i].waiting);
  }
  uint64_t block, end;
  while (take_blocks(launch, &block, &end)) {
    for (; block < end && !has_failed(launch); block++) {
      run_cooperative_block(self, block_index(launch, block));
    }
  }
  crk_priv_fiber_leave(&self->own);
}

/* ------------------------------------------------------------------------------------------------------------------
 * The launch
 * ------------------------------------------------------------------------------------------------------------------ */

static void run_share(void *argument) {
  launch_t *launch = argument;
  executor_t *self = executor_take(launch);
  if (self == NULL) {
    launch_fail(launch, CRK_OUT_OF_MEMORY, "the CPU has no memory left to run a kernel");
    return;
  }
  void *dynamic_shared = shared_open(self);
  if (launch->kernel->kind == CRK_HOST_COOPERATIVE) {
    run_cooperative_blocks(self, dynamic_shared);
  } else {
    run_alone(self, dynamic_shared);
  }
  executor_give(self);
}

/* a * b, or UINT64_MAX where that is larger. */
static uint64_t mul_saturating(uint64_t a, uint64_t b) {
  return crk_priv_product_fits(a, b, UINT64_MAX) ? a * b : UINT64_MAX;
}

/* Sets how many blocks or pieces a thread takes at once. Returns how many threads of the system share the launch. */
static uint32_t divide_work(launch_t *launch) {
  const uint64_t threads = mul_saturating(launch->blocks, launch->block_threads);
  if (launch->kernel->kind == CRK_HOST_ELEMENTWISE) {
    launch->blocks = 1;
    launch->chunk = 1;
    const uint64_t grains = threads / ELEMENTWISE_GRAIN;
    if (grains < 2) {
      return 1;
    }
    /* More pieces than workers, since a worker may start late or be interrupted. */
    const uint32_t width = (uint32_t)crk_priv_least(crk_priv_pool_width(), grains);
    launch->blocks = width == 1 ? 1 : crk_priv_least((uint64_t)width * 4, grains);
    return width;
  }
  const uint64_t grains = crk_priv_least(threads / BLOCK_GRAIN, launch->blocks);
  launch->chunk = launch->blocks;
  if (grains < 2) {
    return 1;
  }
  const uint32_t width = (uint32_t)crk_priv_least(crk_priv_pool_width(), grains);
  const uint64_t chunks = (uint64_t)width * 16;
  launch->chunk = launch->blocks / chunks != 0 ? launch->blocks / chunks : 1;
  return width;
}

crk_status_t crk_priv_cpu_execute(const crk_host_kernel_t *kernel, uint32_t wave_size, crk_dim3_t grid,
                                  crk_dim3_t block, uint32_t shared_bytes, void *const *args) {
  const uint64_t block_threads = mul_saturating((uint64_t)block.x * block.y, block.z);
  if (block_threads > CRK_CPU_BLOCK_THREADS || (kernel->max_threads != 0 && block_threads > kernel->max_threads)) {
    return crk_priv_error(
        CRK_INVALID_ARGUMENT, "kernel `%s`: a block of %u x %u x %u threads has more than the %u it allows",
        kernel->name, (unsigned)block.x, (unsigned)block.y, (unsigned)block.z,
        (unsigned)(kernel->max_threads != 0 && kernel->max_threads < CRK_CPU_BLOCK_THREADS ? kernel->max_threads
                                                                                           : CRK_CPU_BLOCK_THREADS));
  }
  if (shared_bytes > CRK_CPU_SHARED_BYTES) {
    return crk_priv_error(CRK_INVALID_ARGUMENT, "kernel `%s`: %u bytes of shared memory, at most %u are allowed",
                          kernel->name, (unsigned)shared_bytes, CRK_CPU_SHARED_BYTES);
  }
  launch_t launch;
  launch.kernel = kernel;
  launch.args = args;
  launch.wave_size = wave_size;
  launch.grid = grid;
  launch.block = block;
  launch.block_threads = (uint32_t)block_threads;
  launch.shared_bytes = shared_bytes;
  launch.blocks = mul_saturating((uint64_t)grid.x * grid.y, grid.z);
  launch.status = CRK_OK;
  atomic_init(&launch.next, 0);
  atomic_init(&launch.failed, 0);
  const uint32_t width = divide_work(&launch);
  crk_priv_pool_run(width, run_share, &launch);
  if (has_failed(&launch)) {
    return crk_priv_error(launch.status, "%s", launch.sentence);
  }
  return CRK_OK;
}
