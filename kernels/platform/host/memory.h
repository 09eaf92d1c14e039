/* platform/memory.h for the CPU. */
#ifndef CRK_PLATFORM_HOST_MEMORY_H
#define CRK_PLATFORM_HOST_MEMORY_H

#if !defined(_WIN32)
#include <time.h>
#endif

#include "platform/generic/shared_bytes.h"

/* The address of a variable identifies the array to the driver. */
#define CRK_SHARED(T, name, count)      \
  static const char crk_key_##name = 0; \
  T *const name = static_cast<T *>(crk::host::shared(&crk_key_##name, sizeof(T) * (count)))

namespace crk {

namespace host {

inline void *shared(const void *key, size_t bytes) {
  crk_host_thread_t *self = current;
  void *result = self->services->shared(self, key, bytes);
  current = self;
  return result;
}

}  // namespace host

template <class T>
CRK_FN T *dynamic_shared() {
  return static_cast<T *>(host::current->dynamic_shared);
}

template <class T, int V>
CRK_FN pack<T, V> load_pack(const T *src) {
  pack<T, V> values;
  memcpy(&values, src, sizeof(values));
  return values;
}
template <class T, int V>
CRK_FN pack<T, V> load_aligned(const T *src) {
  return load_pack<T, V>(src);
}
template <class T, int V>
CRK_FN pack<T, V> load_streamed(const T *src) {
  return load_pack<T, V>(src);
}
template <class T, class U, int V>
CRK_FN void store_bits(T *to, const pack<U, V> &values) {
  memcpy(to, &values, sizeof(values));
}
template <class T, int V>
CRK_FN void store_pack(T *dst, const pack<T, V> &values) {
  memcpy(dst, &values, sizeof(values));
}

template <int N, int Usual>
CRK_FN pack<uint32_t, N> load_words(const void *src) {
  pack<uint32_t, N> words;
  memcpy(&words, src, sizeof(words));
  return words;
}

template <int N>
inline constexpr int raw_words = N;
template <int N, int Usual>
CRK_FN pack<uint32_t, N> load_raw(const void *src) {
  return load_words<N, Usual>(src);
}
template <int N>
CRK_FN pack<uint32_t, N> words_of_raw(const pack<uint32_t, N> &raw, const void *) {
  return raw;
}

template <class T>
CRK_FN T load_uniform(const T *src) {
  return *src;
}

namespace host {

/* All atomic operations but atomic_cas: exchanges the word until no other thread has changed it meanwhile. */
template <class T, class F>
CRK_FN T atomic_update(T *address, F next) {
  using bits = choose<sizeof(T) == 4, uint32_t, uint64_t>;
  bits *word = reinterpret_cast<bits *>(address);
  bits seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &seen, bit_cast<bits>(next(bit_cast<T>(seen))), true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {}
  return bit_cast<T>(seen);
}

}  // namespace host

template <class T>
CRK_FN T atomic_add(T *address, T value) {
  return host::atomic_update(address, [value](T old) -> T { return old + value; });
}
template <class T>
CRK_FN T atomic_max(T *address, T value) {
  return host::atomic_update(address, [value](T old) -> T { return old > value ? old : value; });
}
template <class T>
CRK_FN T atomic_min(T *address, T value) {
  return host::atomic_update(address, [value](T old) -> T { return old < value ? old : value; });
}
CRK_FN void publish(uint64_t *p, uint64_t value) { __atomic_store_n(p, value, __ATOMIC_RELAXED); }
CRK_FN void store_for_peers(uint64_t *to, const pack<uint64_t, 2> &words) {
  publish(to, words.v[0]);
  publish(to + 1, words.v[1]);
}
CRK_FN uint64_t load_published(const uint64_t *from) { return __atomic_load_n(from, __ATOMIC_RELAXED); }
CRK_FN pack<uint64_t, 2> load_from_peers(const uint64_t *from) {
  return {{load_published(from), load_published(from + 1)}};
}
CRK_FN void wait_until_sent() {}
CRK_FN void publish_behind(uint64_t *p, uint64_t value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }
CRK_FN uint64_t load_mark(const uint64_t *from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }
/* Another thread writes what this one waits for, and may need its core. */
CRK_FN void pause_wave() {
#if !defined(_WIN32)
  const struct timespec moment = {0, 1000};
  nanosleep(&moment, nullptr);
#endif
}
template <class T>
CRK_FN T atomic_cas(T *address, T expected, T desired) {
  __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

}  // namespace crk

#endif
