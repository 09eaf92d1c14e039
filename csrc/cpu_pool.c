/* A list of jobs under one lock. A job lives on the stack of the thread that runs it; workers join the first job that
 * wants more of them, and a caller that has run out of work takes its job off the list and waits for those that joined. */
#include "cpu_pool.h"

#include <stdbool.h>
#include <stddef.h>

#include "os.h"

typedef struct job {
  struct job *next;
  void (*body)(void *context);
  void *context;
  uint32_t wanted;  /* workers that may still join */
  uint32_t running; /* workers in `body` */
} job_t;

static crk_mutex_t lock = CRK_MUTEX_INIT;
static crk_condition_t work = CRK_CONDITION_INIT; /* a job was added */
static crk_condition_t done = CRK_CONDITION_INIT; /* a worker left a job */
static job_t *jobs;                               /* the oldest first */
static bool started;
static uint32_t workers;
static uint32_t width;

static void worker_main(void *unused) {
  (void)unused;
  crk_priv_mutex_lock(&lock);
  for (;;) {
    job_t *job = jobs;
    while (job != NULL && job->wanted == 0) {
      job = job->next;
    }
    if (job == NULL) {
      crk_priv_condition_wait(&work, &lock);
      continue;
    }
    job->wanted--;
    job->running++;
    crk_priv_mutex_unlock(&lock);
    job->body(job->context);
    crk_priv_mutex_lock(&lock);
    /* There is no more work in this job: nobody else needs to come. */
    job->wanted = 0;
    job->running--;
    if (job->running == 0) {
      crk_priv_condition_broadcast(&done);
    }
  }
}

/* With the lock held. */
static uint32_t width_locked(void) {
  if (width == 0) {
    width = crk_priv_cpu_count();
  }
  return width;
}

uint32_t crk_priv_pool_width(void) {
  crk_priv_mutex_lock(&lock);
  const uint32_t result = width_locked();
  crk_priv_mutex_unlock(&lock);
  return result;
}

void crk_priv_pool_run(uint32_t wanted, void (*body)(void *context), void *context) {
  if (wanted <= 1) {
    body(context);
    return;
  }
  job_t job = {NULL, body, context, wanted - 1, 0};
  crk_priv_mutex_lock(&lock);
  if (!started) {
    /* A thread that cannot be had is not missed: whoever is there does the work. */
    started = true;
    while (workers + 1 < width_locked() && crk_priv_thread_start(worker_main, NULL)) {
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
  crk_priv_mutex_unlock(&lock);

  body(context);

  crk_priv_mutex_lock(&lock);
  link = &jobs;
  while (*link != &job) {
    link = &(*link)->next;
  }
  *link = job.next;
  while (job.running != 0) {
    crk_priv_condition_wait(&done, &lock);
  }
  crk_priv_mutex_unlock(&lock);
}
