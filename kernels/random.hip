/* The module `random`, for csrc/launch/random.c. random_seed writes a generator's state. random_uniform and
 * random_normal write numel numbers, each a function of the state and of the element's index. They advance the state by
 * the steps that were used. */
#include "elementwise/instances.h"
#include "random/random.h"

namespace crk {
namespace {

/* Uniform numbers from lo to below the bound lo + width. A sum may be rounded up to the bound; `last`, the largest
 * number of dst's type below it, then takes its place. */
template <class A>
struct uniform_numbers {
  A lo, width, last;

  CRK_FN pack<A, step_numbers<A>> operator()(const random_words &w) const {
    pack<A, step_numbers<A>> numbers;
    CRK_UNROLL
    for (int i = 0; i < step_numbers<A>; i++) {
      const A x = fma(unit<A>(w, i), width, lo);
      numbers.v[i] = x < last ? x : last;
    }
    return numbers;
  }
};

/* Normal numbers with this mean and standard deviation. */
template <class A>
struct normal_numbers {
  A mean, std;

  CRK_FN pack<A, step_numbers<A>> operator()(const random_words &w) const {
    pack<A, step_numbers<A>> numbers;
    CRK_UNROLL
    for (int i = 0; i < step_numbers<A> / 2; i++) {
      const direction<A> pair = normal<A>(w, i);
      numbers.v[2 * i] = fma(pair.cosine, std, mean);
      numbers.v[2 * i + 1] = fma(pair.sine, std, mean);
    }
    return numbers;
  }
};

/* 16 bytes of numbers, made from step `step` of the generator and the steps after it. */
template <class T, class F>
CRK_FN pack<T, 16 / sizeof(T)> draw_pack(F numbers, uint64_t seed, uint64_t step) {
  constexpr int each = step_numbers<wide<T>>, steps = 16 / sizeof(T) / each;
  pack<T, 16 / sizeof(T)> result;
  CRK_UNROLL
  for (int s = 0; s < steps; s++) {
    const pack<wide<T>, each> x = numbers(philox(seed, step + s));
    CRK_UNROLL
    for (int i = 0; i < each; i++) {
      result.v[s * each + i] = convert<T>(x.v[i]);
    }
  }
  return result;
}

/* Draws numel numbers to dst. The last thread of the launch advances the state, after all others have read it. */
template <class T, class F>
CRK_FN void draw(uint64_t numel, uint32_t threads, F numbers, T *dst, crk_random_state_t *state) {
  constexpr int V = 16 / sizeof(T), each = step_numbers<wide<T>>;
  const uint64_t seed = state->seed, first = state->steps;
  const uint64_t whole = on_host || reinterpret_cast<uintptr_t>(dst) % 16 == 0 ? numel / V : 0;
  const elements e(numel / V + (numel % V != 0), threads);
  const uint64_t end = e.end < whole ? e.end : whole;
  uint64_t p = e.first;
  for (; p < end; p += e.step) {
    store_pack(dst + p * V, draw_pack<T>(numbers, seed, first + p * (V / each)));
  }
  for (; p < e.end; p += e.step) {
    const pack<T, V> values = draw_pack<T>(numbers, seed, first + p * (V / each));
    CRK_UNROLL
    for (int i = 0; i < V; i++) {
      if (p * V + i < numel) {
        dst[p * V + i] = values.v[i];
      }
    }
  }
  if (last_of_launch(&state->ticket, threads)) {
    state->steps = first + numel / each + (numel % each != 0);
  }
}

}  // namespace
}  // namespace crk

CRK_ELEMENTWISE(random_seed, CRK_LAUNCHED_THREADS, (uint64_t seed, crk_random_state_t *state, uint32_t threads)) {
  const crk::elements e(1, threads);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    *state = {seed, 0, 0, {0, 0, 0}};
  }
}

#define CRK_RANDOM(suffix, T)                                                                                       \
  CRK_ELEMENTWISE(random_uniform_##suffix, CRK_LAUNCHED_THREADS,                                                    \
                  (uint64_t numel, crk::wide<T> lo, crk::wide<T> width, crk::wide<T> last, T *dst,                  \
                   crk_random_state_t *state, uint32_t threads)) {                                                  \
    crk::draw(numel, threads, crk::uniform_numbers<crk::wide<T>>{lo, width, last}, dst, state);                     \
  }                                                                                                                 \
  CRK_ELEMENTWISE(                                                                                                  \
      random_normal_##suffix, CRK_LAUNCHED_THREADS,                                                                 \
      (uint64_t numel, crk::wide<T> mean, crk::wide<T> std, T *dst, crk_random_state_t *state, uint32_t threads)) { \
    crk::draw(numel, threads, crk::normal_numbers<crk::wide<T>>{mean, std}, dst, state);                            \
  }
CRK_FLOAT_TYPES(CRK_RANDOM)

CRK_MODULE(random)
