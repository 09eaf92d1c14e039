/* Kernels that test kernels/platform/platform.h and the code that runs kernels. tests/suites/probe.rs runs them on the
 * CPU and on GPUs.
 *
 * Every kernel writes what it saw, one entry per thread, so that a test can compare it with what each thread should
 * have seen. Kernels named probe_wrong_ must make a launch fail on the CPU. On a GPU they may hang, so they are not run
 * there. */
#include "platform/platform.h"

/* In namespace crk, so that its names take precedence over equal names that nvcc declares. */
namespace crk {

namespace {

CRK_FN uint32_t block_threads() { return block_size().x * block_size().y * block_size().z; }
CRK_FN uint32_t linear_thread() {
  return (thread_index().z * block_size().y + thread_index().y) * block_size().x + thread_index().x;
}
CRK_FN uint64_t linear_block() {
  return (static_cast<uint64_t>(block_index().z) * grid_size().y + block_index().y) * grid_size().x + block_index().x;
}
CRK_FN uint64_t global_thread() { return linear_block() * block_threads() + linear_thread(); }

}  // namespace

/* ------------------------------------------------------------------------------------------------------------------
 * Kernels without barriers and wave operations
 * ------------------------------------------------------------------------------------------------------------------ */

/* out[thread][14]: the thread's position, and the sizes around it. */
CRK_KERNEL(probe_geometry, 1024, (uint32_t *out)) {
  uint32_t *mine = out + global_thread() * 14;
  mine[0] = thread_index().x;
  mine[1] = thread_index().y;
  mine[2] = thread_index().z;
  mine[3] = block_index().x;
  mine[4] = block_index().y;
  mine[5] = block_index().z;
  mine[6] = block_size().x;
  mine[7] = block_size().y;
  mine[8] = block_size().z;
  mine[9] = grid_size().x;
  mine[10] = grid_size().y;
  mine[11] = grid_size().z;
  mine[12] = wave_size();
  mine[13] = lane();
}

/* An argument of 1000 bytes. */
struct wide {
  uint32_t values[250];
};

/* out[thread] = values[thread % 250] + add */
CRK_KERNEL(probe_wide, 1024, (wide values, uint32_t add, uint32_t *out)) {
  out[global_thread()] = values.values[global_thread() % 250] + add;
}

/* As probe_geometry, in a kernel that may use barriers. */
CRK_COOPERATIVE(probe_geometry_cooperative, 1024, (uint32_t *out)) {
  uint32_t *mine = out + global_thread() * 14;
  mine[0] = thread_index().x;
  mine[1] = thread_index().y;
  mine[2] = thread_index().z;
  mine[3] = block_index().x;
  mine[4] = block_index().y;
  mine[5] = block_index().z;
  mine[6] = block_size().x;
  mine[7] = block_size().y;
  mine[8] = block_size().z;
  mine[9] = grid_size().x;
  mine[10] = grid_size().y;
  mine[11] = grid_size().z;
  mine[12] = wave_size();
  mine[13] = lane();
}

/* dst[i] = dst[i] * 3 + src[i] + 1. The result shows an element that is visited twice or never. */
CRK_ELEMENTWISE(probe_elements, 1024, (uint64_t numel, const uint32_t *src, uint32_t *dst)) {
  named_elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    dst[i] = dst[i] * 3 + src[i] + 1;
  }
}

/* Arguments of every width. out[9]. */
CRK_ELEMENTWISE(probe_arguments, 1024,
                (uint8_t a, uint64_t b, uint16_t c, float d, double e, const uint32_t *f, uint32_t g, crk_nd_t nd,
                 uint64_t *out)) {
  named_elements one(1);
  for (uint64_t i = one.first; i < one.end; i += one.step) {
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = bit_cast<uint32_t>(d);
    out[4] = bit_cast<uint64_t>(e);
    out[5] = f[0];
    out[6] = g;
    out[7] = nd.dims[CRK_ND_RANK - 1].size;
    out[8] = nd.strides[CRK_ND_OPERANDS - 1][CRK_ND_RANK - 1];
  }
}

/* u[4]: sum, largest, smallest, cas count; i[2]: largest, smallest of signed; w[1]: sum; f[1], d[1]: sums. */
CRK_KERNEL(probe_atomics, 1024, (uint32_t *u, int32_t *i, uint64_t *w, float *f, double *d)) {
  const uint32_t me = static_cast<uint32_t>(global_thread());
  const int32_t turned = (me & 1) != 0 ? -static_cast<int32_t>(me) : static_cast<int32_t>(me);
  atomic_add(&u[0], me);
  atomic_max(&u[1], me);
  atomic_min(&u[2], me + 7);
  uint32_t seen = 0;
  for (;;) {
    const uint32_t found = atomic_cas(&u[3], seen, seen + 1);
    if (found == seen) {
      break;
    }
    seen = found;
  }
  atomic_max(&i[0], turned);
  atomic_min(&i[1], turned);
  atomic_add(&w[0], static_cast<uint64_t>(me) << 20);
  atomic_add(&f[0], 1.0f);
  atomic_add(&d[0], 0.5);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Kernels with barriers or wave operations
 * ------------------------------------------------------------------------------------------------------------------ */

/* Reverses each block's threads through two arrays of static shared memory. out[thread][2]. */
CRK_COOPERATIVE(probe_static_shared, 1024, (const uint32_t *src, uint32_t *out)) {
  CRK_SHARED(uint32_t, first, 1024);
  CRK_SHARED(uint64_t, second, 1024);
  const uint32_t me = linear_thread(), other = block_threads() - 1 - me;
  const uint64_t at = global_thread();
  first[me] = src[at];
  second[me] = static_cast<uint64_t>(src[at]) << 32;
  barrier();
  out[at * 2] = first[other];
  out[at * 2 + 1] = static_cast<uint32_t>(second[other] >> 32);
}

/* The same through dynamic shared memory, with one word per thread. */
CRK_COOPERATIVE(probe_dynamic_shared, 1024, (const uint32_t *src, uint32_t *out)) {
  uint32_t *words = dynamic_shared<uint32_t>();
  const uint32_t me = linear_thread();
  words[me] = src[global_thread()];
  barrier();
  out[global_thread()] = words[block_threads() - 1 - me];
}

/* out[thread][8]: shuffles by xor, up, down and index, of 4 and of 8 bytes. */
CRK_COOPERATIVE(probe_shuffles, 1024, (const uint32_t *src, uint32_t by, uint64_t *out)) {
  const uint32_t value = src[global_thread()];
  const uint64_t wide = static_cast<uint64_t>(value) << 32 | ~value;
  const uint32_t source = (lane() * 5 + by) % wave_size();
  uint64_t *mine = out + global_thread() * 8;
  mine[0] = shuffle_xor(value, by);
  mine[1] = shuffle_up(value, by);
  mine[2] = shuffle_down(value, by);
  mine[3] = shuffle(value, source);
  mine[4] = shuffle_xor(wide, by);
  mine[5] = bit_cast<uint64_t>(shuffle_up(bit_cast<double>(wide), by));
  mine[6] = bit_cast<uint32_t>(shuffle_down(bit_cast<float>(value), by));
  mine[7] = shuffle(wide, source);
}

/* out[thread][3]: which lanes have a bit of `mask`, whether any has, whether all have. */
CRK_COOPERATIVE(probe_votes, 1024, (const uint32_t *src, uint32_t mask, uint64_t *out)) {
  const bool mine = (src[global_thread()] & mask) != 0;
  out[global_thread() * 3] = ballot(mine);
  out[global_thread() * 3 + 1] = any(mine);
  out[global_thread() * 3 + 2] = all(mine);
}

/* out[block] = the sum of the block's elements, computed in three ways: in waves, then over waves, then in a tree with
 * a barrier per level. All three must agree, else ~0. Blocks need not be a multiple of a wave. */
CRK_COOPERATIVE(probe_sum, 1024, (const uint32_t *src, uint32_t *out)) {
  CRK_SHARED(uint32_t, tree, 1024);
  CRK_SHARED(uint32_t, waves, 32);
  const uint32_t me = linear_thread(), threads = block_threads();
  uint32_t sum = src[global_thread()];
  tree[me] = sum;
  const uint32_t live = threads - me / wave_size() * wave_size();
  for (uint32_t step = wave_size() / 2; step != 0; step /= 2) {
    const uint32_t other = shuffle_down(sum, step);
    sum += lane() + step < (live < wave_size() ? live : wave_size()) ? other : 0;
  }
  if (lane() == 0) {
    waves[me / wave_size()] = sum;
  }
  for (uint32_t width = threads; width > 1; width = (width + 1) / 2) {
    barrier();
    const uint32_t half = (width + 1) / 2;
    if (me < width / 2) {
      tree[me] += tree[me + half];
    }
  }
  barrier();
  if (me == 0) {
    uint32_t total = 0;
    for (uint32_t i = 0; i < (threads + wave_size() - 1) / wave_size(); i++) {
      total += waves[i];
    }
    out[linear_block()] = total == tree[0] ? total : ~0u;
  }
}

/* A histogram of 16 bins, collected in shared memory first. */
CRK_COOPERATIVE(probe_histogram, 1024, (const uint32_t *src, uint32_t *bins)) {
  CRK_SHARED(uint32_t, local, 16);
  const uint32_t me = linear_thread();
  for (uint32_t i = me; i < 16; i += block_threads()) {
    local[i] = 0;
  }
  barrier();
  atomic_add(&local[src[global_thread()] % 16], 1u);
  barrier();
  for (uint32_t i = me; i < 16; i += block_threads()) {
    atomic_add(&bins[i], local[i]);
  }
}

/* Threads with a number that is `leaves` modulo `modulus` return at once; the others use barriers without them.
 * out[thread][3]: the ballot of the remaining threads, the next lane's value, and how many remain in the block. */
CRK_COOPERATIVE(probe_early_exit, 1024, (uint32_t modulus, uint32_t leaves, uint64_t *out)) {
  CRK_SHARED(uint32_t, count, 1);
  const uint32_t me = linear_thread();
  const bool first = me == (leaves == 0 && modulus == 1 ? block_threads() : leaves == 0 ? 1 : 0);
  if (me % modulus == leaves) {
    return;
  }
  if (first) {
    *count = 0;
  }
  barrier();
  atomic_add(count, 1u);
  uint64_t *mine = out + global_thread() * 3;
  mine[0] = ballot(true);
  mine[1] = shuffle_down(me, 1);
  barrier();
  mine[2] = *count;
}

/* Threads leave one after the other, one barrier apart. out[thread] = the number of barriers that it saw. */
CRK_COOPERATIVE(probe_leave_in_turn, 1024, (uint32_t *out)) {
  const uint32_t me = linear_thread();
  uint32_t seen = 0;
  for (uint32_t i = 0; i < me % 17; i++) {
    barrier();
    seen++;
  }
  out[global_thread()] = seen;
}

/* Waves take different paths, which wave operations allow. out[thread] = the sum of the lane numbers over the wave,
 * computed `wave` times. */
CRK_COOPERATIVE(probe_waves_apart, 1024, (uint32_t *out)) {
  const uint32_t wave = linear_thread() / wave_size();
  uint32_t result = 0;
  for (uint32_t i = 0; i <= wave; i++) {
    uint32_t sum = linear_thread();
    for (uint32_t step = wave_size() / 2; step != 0; step /= 2) {
      sum += shuffle_xor(sum, step);
    }
    result = sum;
  }
  barrier();
  out[global_thread()] = result;
}

/* A kernel that may use barriers, but does not. */
CRK_COOPERATIVE(probe_never_meets, 1024, (uint32_t *out)) { out[global_thread()] = linear_thread() * 2 + 1; }

/* Passes a value through shared memory `rounds` times, with two barriers each, to measure the cost of a barrier. */
CRK_COOPERATIVE(probe_rounds, 1024, (uint32_t rounds, uint32_t *out)) {
  CRK_SHARED(uint32_t, words, 1024);
  const uint32_t me = linear_thread(), next = me + 1 == block_threads() ? 0 : me + 1;
  uint32_t value = me;
  for (uint32_t i = 0; i < rounds; i++) {
    words[me] = value;
    barrier();
    value = words[next];
    barrier();
  }
  out[global_thread()] = value;
}

/* A large frame on each thread's stack. */
CRK_COOPERATIVE(probe_stack, 1024, (uint32_t *out)) {
  volatile uint32_t words[2048];
  for (uint32_t i = 0; i < 2048; i++) {
    words[i] = linear_thread() + i;
  }
  barrier();
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 2048; i++) {
    sum += words[i];
  }
  out[global_thread()] = sum;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Kernels that must fail
 * ------------------------------------------------------------------------------------------------------------------ */

/* Half of a wave waits at a barrier, the other half at a shuffle. */
CRK_COOPERATIVE(probe_wrong_meeting, 1024, (uint32_t *out)) {
  uint32_t value = linear_thread();
  if (lane() < wave_size() / 2) {
    barrier();
  } else {
    value = shuffle_xor(value, 1);
  }
  out[global_thread()] = value;
}

/* Half of a wave waits at a shuffle, the other half at a vote. */
CRK_COOPERATIVE(probe_wrong_operation, 1024, (uint32_t *out)) {
  uint32_t value = linear_thread();
  if (lane() < wave_size() / 2) {
    value = shuffle_xor(value, 1);
  } else {
    value = static_cast<uint32_t>(ballot(value != 0));
  }
  out[global_thread()] = value;
}

/* One of many blocks goes wrong. */
CRK_COOPERATIVE(probe_wrong_block, 1024, (uint32_t block, uint32_t *out)) {
  if (linear_block() != block || lane() != 0) {
    barrier();
  } else {
    ballot(true);
  }
  out[global_thread()] = 1;
}

/* A barrier in a kernel that is declared as one without barriers. */
CRK_KERNEL(probe_wrong_barrier, 1024, (uint32_t *out)) {
  barrier();
  out[global_thread()] = 1;
}

CRK_ELEMENTWISE(probe_wrong_shuffle, 1024, (uint64_t numel, uint32_t *out)) {
  named_elements e(numel);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    out[i] = shuffle_xor(1u, 1);
  }
}

CRK_KERNEL(probe_wrong_vote, 1024, (uint32_t *out)) { out[global_thread()] = ballot(true) != 0; }

/* Works with up to 24 KiB of dynamic shared memory. More is too much. */
CRK_COOPERATIVE(probe_wrong_shared, 1024, (uint32_t *out)) {
  CRK_SHARED(uint32_t, words, 40 * 1024 / 4);
  words[linear_thread()] = linear_thread();
  barrier();
  out[global_thread()] = words[block_threads() - 1 - linear_thread()];
}

CRK_KERNEL(probe_wrong_shared_alone, 1024, (uint32_t *out)) {
  CRK_SHARED(uint32_t, words, 40 * 1024 / 4);
  words[0] = linear_thread();
  out[global_thread()] = words[0];
}

}  // namespace crk

CRK_MODULE(probe)
