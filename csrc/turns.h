/* turns.h: a lock for threads that take turns. They enter in the order in which they came. A mutex may let one thread
 * in again and again while others wait for seconds. */
#ifndef CRK_TURNS_H
#define CRK_TURNS_H

#include <stdint.h>

#include "os/os.h"

typedef struct crk_turns {
  crk_mutex_t lock; /* guards the rest */
  crk_condition_t changed;
  uint64_t next, now; /* the number that the next thread gets; the number whose thread is inside, or may enter */
} crk_turns_t;

static inline void crk_priv_turns_init(crk_turns_t *self) {
  crk_priv_mutex_init(&self->lock);
  crk_priv_condition_init(&self->changed);
  self->next = self->now = 0;
}

static inline void crk_priv_turns_deinit(crk_turns_t *self) {
  crk_priv_condition_deinit(&self->changed);
  crk_priv_mutex_deinit(&self->lock);
}

static inline void crk_priv_turns_enter(crk_turns_t *self) {
  crk_priv_mutex_lock(&self->lock);
  const uint64_t own = self->next++;
  while (self->now != own) {
    crk_priv_condition_wait(&self->changed, &self->lock);
  }
  crk_priv_mutex_unlock(&self->lock);
}

static inline void crk_priv_turns_leave(crk_turns_t *self) {
  crk_priv_mutex_lock(&self->lock);
  self->now++;
  crk_priv_condition_broadcast(&self->changed);
  crk_priv_mutex_unlock(&self->lock);
}

#endif
