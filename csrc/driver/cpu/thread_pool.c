/* A list of jobs under one lock. A job lives on the stack of the thread that runs it. Workers join the first job that
 * wants more of them. When no work is left, the caller takes its job off the list and waits for the workers that
 * joined. */
#include "driver/cpu/thread_pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "os/os.h"

#define SPINS 1000

static void pause_briefly(void) {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
  __builtin_ia32_pause();
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
  __asm__ volatile("yield");
#endif
}

typedef struct job {
  struct job *next;
  void (*body)(void *context);
  void *context;
  uint32_t wanted; /* workers that may still join */
  atomic_uint running; /* workers in `body`; only changes with the lock held */
} job_t;

static crk_mutex_t pool_lock = CRK_MUTEX_INIT;
static crk_condition_t work = CRK_CONDITION_INIT; /* signals a new job */
static crk_condition_t done = CRK_CONDITION_INIT; /* signals that a worker left a job */
static job_t *jobs; /* the oldest first */
static bool started;
static uint32_t workers;
static uint32_t width;

static void worker_main(void *unused) {
  (void)unused;
  crk_priv_mutex_lock(&pool_lock);
  for (;;) {
    job_t *job = jobs;
    while (job != NULL && job->wanted == 0) {
      job = job->next;
    }
    if (job == NULL) {
      crk_priv_condition_wait(&work, &pool_lock);
      continue;
    }
    job->wanted--;
    atomic_fetch_add_explicit(&job->running, 1, memory_order_relaxed);
    crk_priv_mutex_unlock(&pool_lock);
    job->body(job->context);
    crk_priv_mutex_lock(&pool_lock);
    /* No work is left in this job, so no other worker needs to join. */
    job->wanted = 0;
    /* The last use of the job. The job's thread may see 0 before this thread unlocks, but it takes the lock before it
     * returns. */
    if (atomic_fetch_sub_explicit(&job->running, 1, memory_order_release) == 1) {
      crk_priv_condition_broadcast(&done);
    }
  }
}

/* crk_priv_pool_width with the lock held. */
static uint32_t width_locked(void) {
  if (width == 0) {
    width = crk_priv_cpu_count();
  }
  return width;
}

uint32_t crk_priv_pool_width(void) {
  crk_priv_mutex_lock(&pool_lock);
  const uint32_t result = width_locked();
  crk_priv_mutex_unlock(&pool_lock);
  return result;
}

void crk_priv_pool_run(uint32_t wanted, void (*body)(void *context), void *context) {
  if (wanted <= 1) {
    body(context);
    return;
  }
  job_t job = {NULL, body, context, wanted - 1, 0};
  crk_priv_mutex_lock(&pool_lock);
  if (!started) {
    /* A thread that cannot be started does not matter: the others do the work. */
    started = true;
    while (workers + 1 < width_locked() && crk_priv_thread_start(worker_main, NULL, NULL)) {
      workers++;
    }
  }
  job_t **link = &jobs;
  while (*link != NULL) {
    link = &(*link)->next;
  }
  *link = &job;
  for (uint32_t i = 0; i < job.wanted && i < workers; i++) {
    crk_priv_condition_signal(&work);
  }
  crk_priv_mutex_unlock(&pool_lock);

  body(context);

  crk_priv_mutex_lock(&pool_lock);
  link = &jobs;
  while (*link != &job) {
    link = &(*link)->next;
  }
  *link = job.next;
  if (atomic_load_explicit(&job.running, memory_order_relaxed) != 0) {
    /* All pieces are taken, so the wait is about the time of one piece, mostly less than a sleep costs. */
    crk_priv_mutex_unlock(&pool_lock);
    for (int i = 0; i < SPINS && atomic_load_explicit(&job.running, memory_order_relaxed) != 0; i++) {
      pause_briefly();
    }
    crk_priv_mutex_lock(&pool_lock);
    while (atomic_load_explicit(&job.running, memory_order_acquire) != 0) {
      crk_priv_condition_wait(&done, &pool_lock);
    }
  }
  crk_priv_mutex_unlock(&pool_lock);
}
