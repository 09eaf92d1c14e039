/* platform/threads.h for the CPU. */
#ifndef CRK_PLATFORM_HOST_THREADS_H
#define CRK_PLATFORM_HOST_THREADS_H

namespace crk {

CRK_FN crk_host_dim_t thread_index() { return host::current->thread_index; }
CRK_FN crk_host_dim_t block_index() { return host::current->block_index; }
CRK_FN crk_host_dim_t block_size() { return host::current->block_size; }
CRK_FN crk_host_dim_t grid_size() { return host::current->grid_size; }
CRK_FN uint32_t wave_size() { return host::current->wave_size; }
CRK_FN uint32_t lane() { return host::current->lane; }
inline constexpr uint32_t most_lanes = 64;
CRK_FN uint32_t uniform(uint32_t word) { return word; }
CRK_FN uint32_t wave_in_block() { return thread_index().x / wave_size(); }

/* A contiguous piece, so that the compiler can vectorise the loop over it. Pieces begin at multiples of 64 elements, so
 * no two threads write to one cache line of an aligned output. */
struct named_elements {
  uint64_t first, end;
  static constexpr uint64_t step = 1;

  CRK_FN explicit named_elements(uint64_t count) {
    const crk_host_thread_t *self = host::current;
    const uint64_t share = (count / self->parts + (count % self->parts != 0) + 63) / 64 * 64;
    const bool within = self->part == 0 || share <= (count - 1) / self->part;
    first = count != 0 && within ? share * self->part : count;
    end = count - first > share ? first + share : count;
  }
};

/* The driver has divided the work already, so the launcher's numbers are only checked. With wrong numbers, a GPU would
 * compute the wrong elements; here the piece is empty. */
struct elements : named_elements {
  CRK_FN elements(uint64_t count, uint32_t threads, uint32_t block = CRK_LAUNCHED_THREADS)
      : named_elements(block == block_size().x && threads == static_cast<uint64_t>(grid_size().x) * block ? count : 0) {
  }
};

namespace host {

CRK_FN uint64_t shuffle(uint64_t value, uint32_t source) {
  crk_host_thread_t *self = current;
  const uint64_t result = self->services->shuffle(self, value, source);
  current = self;
  return result;
}

}  // namespace host

CRK_FN void barrier() {
  crk_host_thread_t *self = host::current;
  self->services->barrier(self);
  host::current = self;
}
CRK_FN void shared_barrier() { barrier(); }

CRK_FN uint64_t ballot(bool predicate) {
  crk_host_thread_t *self = host::current;
  const uint64_t result = self->services->ballot(self, predicate);
  host::current = self;
  return result;
}

CRK_FN void wave_barrier() { ballot(true); }

CRK_FN bool any(bool predicate) { return ballot(predicate) != 0; }
CRK_FN bool all(bool predicate) { return ballot(!predicate) == 0; }

template <class T>
CRK_FN T shuffle(T value, uint32_t source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  using bits = choose<sizeof(T) == 4, uint32_t, uint64_t>;
  if (source >= wave_size()) {
    source = lane();
  }
  return bit_cast<T>(static_cast<bits>(host::shuffle(bit_cast<bits>(value), source)));
}
template <class T>
CRK_FN T shuffle_xor(T value, uint32_t mask) {
  return shuffle(value, lane() ^ mask);
}
template <class T>
CRK_FN T shuffle_up(T value, uint32_t distance) {
  return shuffle(value, lane() - distance);
}
template <class T>
CRK_FN T shuffle_down(T value, uint32_t distance) {
  return shuffle(value, lane() + distance);
}

template <uint32_t Lane, class T>
CRK_FN T of_lane(T value) {
  return shuffle(value, Lane);
}

template <int Width, int Index, class T>
CRK_FN T of_group(T value) {
  return shuffle(value, lane() / Width * Width + Index);
}

template <int Mask, class T>
CRK_FN T exchange_xor(T value) {
  return shuffle_xor(value, Mask);
}

/* Counts the pieces of the work: the kernel is called once for each. */
CRK_FN bool last_of_launch(uint32_t *ticket, uint32_t) {
  if (__atomic_add_fetch(ticket, 1, __ATOMIC_ACQ_REL) != host::current->parts) {
    return false;
  }
  *ticket = 0;
  return true;
}

}  // namespace crk

#include "platform/generic/launches.h"

#endif
