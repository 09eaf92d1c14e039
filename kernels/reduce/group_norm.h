/* The statistics of a group norm: mean and variance of rows, and from them what each channel needs. For
 * kernels/norm.hip. Main functions: group_stats, group_stats_join. A row is a group of channels of one image
 * (call/group_norm_call.h). The last launch normalises the rows (elementwise/batch_norm.h).
 *
 * A long row is cut into parts, one block for each; another launch joins them. A thread has a few packs at once. It
 * adds up their differences from the mean of the first, so that little cancels where the mean is far from 0. Such sets,
 * then threads, waves and parts are joined by the formula for two sets (Chan, Golub and LeVeque, "Updating formulae and
 * a pairwise algorithm for computing sample variances", 1979), always in the same order. So the sums stay exact where
 * some elements of a long row are unlike all others. */
#ifndef CRK_GROUP_NORM_H
#define CRK_GROUP_NORM_H

#include "call/group_norm_call.h"
#include "numbers/divisor.h"
#include "numbers/packed.h"
#include "numbers/wave.h"
#include "platform/platform.h"

namespace crk {
namespace {

/* Number and mean of some elements, and the sum of the squares of their differences from the mean. `unused` fills up 4
 * numbers, which are loaded and stored at once. */
template <class A>
struct moments {
  A count, mean, squares, unused;
};

struct join_moments {
  template <class A>
  CRK_FN moments<A> operator()(const moments<A> &mine, const moments<A> &other) const {
    const A count = mine.count + other.count, apart = other.mean - mine.mean;
    const A share = count > A(0) ? other.count / count : A(0);
    /* An empty set changes nothing, however far apart the means are: apart * apart could be infinite. */
    return {count, fma(apart, share, mine.mean), mine.squares + other.squares + apart * (apart * (mine.count * share)),
            A(0)};
  }
};

/* The sums of a few elements. */
template <class A>
struct shifted_sums {
  A count = A(0), shift = A(0), sum = A(0), squares = A(0);

  template <class T, int V>
  CRK_FN void add(const pack<T, V> &x) {
    A values[V], total = A(0);
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      values[j] = convert<A>(x.v[j]);
      total += values[j];
    }
    shift = count == A(0) ? total * (A(1) / V) : shift;
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      const A apart = values[j] - shift;
      sum += apart;
      squares = fma(apart, apart, squares);
    }
    count += V;
  }
  CRK_FN moments<A> result() const {
    const A mean = count > A(0) ? sum / count : A(0), left = squares - sum * mean;
    return {count, shift + mean, left < A(0) ? A(0) : left, A(0)};
  }
};

/* The moments of a thread's packs of a part, and of its element behind the last pack of the row. */
template <class T>
CRK_FN moments<wide<T>> add_part(const crk_group_norm_t &call, const T *row, uint32_t part) {
  constexpr int V = 16 / static_cast<int>(sizeof(T)), depth = CRK_GROUP_NORM_DEPTH;
  constexpr uint32_t threads = CRK_GROUP_NORM_THREADS;
  const uint64_t packs = call.size / V, begin = part * call.part_packs;
  const uint64_t end = begin + call.part_packs < packs ? begin + call.part_packs : packs;
  moments<wide<T>> mine = {};
  CRK_NO_UNROLL
  for (uint64_t p = begin + thread_index().x; p < end; p += threads * depth) {
    pack<T, V> some[depth];
    CRK_UNROLL
    for (int i = 0; i < depth; i++) {
      const uint64_t at = p + i * threads;
      some[i] = load_pack<T, V>(row + (at < end ? at : p) * V);
    }
    shifted_sums<wide<T>> sums;
    CRK_UNROLL
    for (int i = 0; i < depth; i++) {
      if (p + i * threads < end) {
        sums.add(some[i]);
      }
    }
    mine = join_moments()(mine, sums.result());
  }
  if (part + 1 == call.parts.size && thread_index().x < call.size % V) {
    using A = wide<T>;
    mine = join_moments()(mine, {A(1), convert<A>(row[packs * V + thread_index().x]), A(0), A(0)});
  }
  return mine;
}

/* Joins the moments of the block's threads, for all of them. `room` is shared memory for a value per group of lanes,
 * and for the result. */
template <class A>
CRK_FN moments<A> join_block(moments<A> mine, moments<A> *room) {
  constexpr uint32_t groups = CRK_GROUP_NORM_THREADS / group_lanes;
  mine = butterfly<32>(mine, join_moments());
  if (thread_index().x % group_lanes == 0) {
    room[thread_index().x / group_lanes] = mine;
  }
  shared_barrier();
  mine = butterfly<groups>(room[thread_index().x % groups], join_moments());
  if (thread_index().x == 0) {
    room[groups] = mine;
  }
  shared_barrier();
  return room[groups];
}

/* Stores what each channel of the row needs: the mean, the factor and the bias. */
template <class T>
CRK_FN void store_norms(const crk_group_norm_t &call, uint64_t row, const moments<wide<T>> &of) {
  using A = wide<T>;
  const T *const weight = static_cast<const T *>(call.weight), *const bias = static_cast<const T *>(call.bias);
  const A scale = rsqrt(of.squares / of.count + static_cast<A>(call.eps));
  uint64_t image = row;
  const uint64_t first = take_coordinate(image, call.groups) * call.channels;
  CRK_NO_UNROLL
  for (uint32_t c = thread_index().x; c < call.channels; c += CRK_GROUP_NORM_THREADS) {
    const uint64_t channel = first + c;
    const pack<A, 4> norm = {{of.mean, weight != nullptr ? scale * convert<A>(weight[channel]) : scale,
                              bias != nullptr ? convert<A>(bias[channel]) : A(0), A(0)}};
    store_pack<A, 4>(static_cast<A *>(call.norms) + (row * call.channels + c) * 4, norm);
  }
}

/* A block computes a part of a row. If it is the only one, it stores the norms of the row's channels too. */
template <class T>
CRK_FN void group_stats(const crk_group_norm_t &call) {
  using A = wide<T>;
  CRK_SHARED(moments<A>, room, CRK_GROUP_NORM_THREADS / group_lanes + 1);
  const uint64_t block = call.first_block + block_index().x;
  uint64_t row = block;
  const uint32_t part = static_cast<uint32_t>(take_coordinate(row, call.parts));
  const T *const from = static_cast<const T *>(call.x) + row * call.size;
  const moments<A> mine = join_block(add_part(call, from, part), room);
  if (call.parts.size == 1) {
    store_norms<T>(call, row, mine);
  } else if (thread_index().x == 0) {
    static_cast<moments<A> *>(call.states)[block] = mine;
  }
}

/* A block joins the parts of a row, and stores the norms of the row's channels. */
template <class T>
CRK_FN void group_stats_join(const crk_group_norm_t &call) {
  using A = wide<T>;
  CRK_SHARED(moments<A>, room, CRK_GROUP_NORM_THREADS / group_lanes + 1);
  const uint64_t row = call.first_block + block_index().x;
  const moments<A> *const states = static_cast<const moments<A> *>(call.states) + row * call.parts.size;
  moments<A> mine = {};
  CRK_NO_UNROLL
  for (uint32_t p = thread_index().x; p < call.parts.size; p += CRK_GROUP_NORM_THREADS) {
    mine = join_moments()(mine, states[p]);
  }
  store_norms<T>(call, row, join_block(mine, room));
}

}  // namespace
}  // namespace crk

#endif
