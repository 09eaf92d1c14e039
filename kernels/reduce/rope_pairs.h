/* Rotary embeddings for the launchers: rope_pairs for one tensor, rope_qkv and norm_rope_qkv for those of a layer. A
 * thread handles V pairs in each of H heads that share their angles. It reads and writes 16 bytes at a time and reads
 * each angle only once. */
#ifndef CRK_ROPE_PAIRS_H
#define CRK_ROPE_PAIRS_H

#include "call/rope_call.h"
#include "elementwise/walk.h"
#include "numbers/divisor.h"
#include "numbers/wave.h"
#include "reduce/rope.h"

namespace crk {
namespace {

/* Returns x with each element in a register of its own, whose origin the compiler does not know. Otherwise LLVM 21
 * combines halves of registers wrongly for gfx11: (c1, s1) became (c0, s1). */
template <class T, int V>
CRK_FN pack<T, V> apart(const pack<T, V> &x) {
  if constexpr (half<T> && V % 2 == 0) {
    const pack<uint32_t, V / 2> words = bit_cast<pack<uint32_t, V / 2>>(x);
    pack<T, V> y;
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      const uint32_t word = opaque(words.v[j / 2] >> 16 * (j % 2));
      y.v[j] = bit_cast<T>(static_cast<uint16_t>(word));
    }
    return y;
  } else {
    return x;
  }
}

/* The same as load_aligned, but a plain load for one element. The compiler may use an instruction for global memory for
 * it. */
template <int V, class T>
CRK_FN pack<T, V> load_pairs(const T *src) {
  if constexpr (V == 1) {
    return {*src};
  } else {
    return load_aligned<T, V>(src);
  }
}

/* The elements between the two packs of a thread, in a row of 2 * half elements. Two single interleaved elements are a
 * pair. */
template <int V, bool Interleaved>
CRK_FN uint64_t between_packs(uint64_t half) {
  return Interleaved && V == 1 ? 1 : half;
}

/* The first angle of a piece, and the cosines or sines of its V pairs. Of interleaved packs, half of the pairs are in
 * the first pack, and the others half a row after it. */
template <int V, bool Interleaved>
CRK_FN uint64_t first_angle(uint64_t piece) {
  return piece * (Interleaved && V > 1 ? V / 2 : V);
}
template <int V, bool Interleaved, class T>
CRK_FN pack<T, V> load_angles(const T *src, uint64_t half) {
  if constexpr (Interleaved && V > 1) {
    const pack<T, V / 2> first = load_aligned<T, V / 2>(src), second = load_aligned<T, V / 2>(src + half / 2);
    pack<T, V> both;
    CRK_UNROLL
    for (int j = 0; j < V / 2; j++) {
      both.v[j] = first.v[j];
      both.v[V / 2 + j] = second.v[j];
    }
    return both;
  } else {
    return load_pairs<V>(src);
  }
}

/* Rotates the V pairs of the packs p and q. An interleaved pair lies within a pack: p has pairs 0 to V / 2 - 1, q the
 * others. */
template <int V, bool Interleaved, class T>
CRK_FN void rotate_packs(const pack<T, V> &p, const pack<T, V> &q, const pack<T, V> &c, const pack<T, V> &s,
                         pack<T, V> *x, pack<T, V> *y) {
  CRK_UNROLL
  for (int j = 0; j < V; j++) {
    if constexpr (Interleaved && V > 1) {
      constexpr int in_pack = V / 2;
      const int k = 2 * (j % in_pack);
      const pack<T, V> &from = j < in_pack ? p : q;
      pack<T, V> &to = j < in_pack ? *x : *y;
      rotate(from.v[k], from.v[k + 1], c.v[j], s.v[j], &to.v[k], &to.v[k + 1]);
    } else {
      rotate(p.v[j], q.v[j], c.v[j], s.v[j], &x->v[j], &y->v[j]);
    }
  }
}

/* Operand 0 of `nd` is src and dst, operand 1 cos, operand 2 sin. A thread's heads are `head_step` elements apart. The
 * second element of a pair is the neighbour of the first (Interleaved), or `half` elements after it. All pointers and
 * strides are multiples of packs. Interleaved angles are aligned to half a pack. A thread issues all its loads before
 * its stores. */
template <int V, int H, bool Interleaved, class T>
CRK_FN void rope_pairs(const crk_nd_t &nd, uint32_t threads, const T *src, const T *cos, const T *sin, T *dst,
                       uint64_t half, uint64_t head_step) {
  const elements e(nd.numel, threads);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    uint64_t at[3];
    locate(nd, i, at);
    const pack<T, V> c = apart(load_angles<V, Interleaved>(cos + at[1], half));
    const pack<T, V> s = apart(load_angles<V, Interleaved>(sin + at[2], half));
    const uint64_t second = between_packs<V, Interleaved>(half);
    pack<T, V> a[H], b[H];
    CRK_UNROLL
    for (int h = 0; h < H; h++) {
      a[h] = load_pairs<V>(src + at[0] + h * head_step);
      b[h] = load_pairs<V>(src + at[0] + h * head_step + second);
    }
    CRK_UNROLL
    for (int h = 0; h < H; h++) {
      const pack<T, V> p = apart(a[h]), q = apart(b[h]);
      pack<T, V> x, y;
      rotate_packs<V, Interleaved>(p, q, c, s, &x, &y);
      store_pack(dst + at[0] + h * head_step, x);
      store_pack(dst + at[0] + h * head_step + second, y);
    }
  }
}

/* A thread's place among the rows of queries, keys and values: a piece of a row, two packs of V elements of S that
 * become packs of T. A row is a head of a token. A token's rows are its heads of queries, then of keys, then of
 * values. */
template <int V, bool Interleaved, class S, class T>
struct qkv_piece {
  const S *src;
  T *dst;
  uint64_t second; /* elements from the first pack to the second */
  const T *cos, *sin;
  uint32_t half, column; /* elements of half a row; the first pack's place in the row */
  bool is_q, is_v;

  CRK_FN qkv_piece(const crk_rope_qkv_call_t &call, uint64_t i) {
    half = static_cast<uint32_t>(call.pieces.size) * V;
    const uint32_t n = static_cast<uint32_t>(i), row = divide(call.pieces, n), place = divide(call.heads, row);
    const uint32_t piece = n - row * static_cast<uint32_t>(call.pieces.size), batch = divide(call.tokens, place);
    const uint32_t token = place - batch * static_cast<uint32_t>(call.tokens.size);
    const uint32_t at = row - place * static_cast<uint32_t>(call.heads.size);
    /* A part's fields are chosen one by one: nvcc would copy an array that a variable indexes to the stack. */
    const crk_rope_part_t &of_q = call.parts[0], &of_k = call.parts[1], &of_v = call.parts[2];
    is_q = at < of_q.heads;
    is_v = at >= of_q.heads + of_k.heads;
    second = between_packs<V, Interleaved>(half);
    column = piece * (Interleaved && V == 1 ? 2 : V);
    const uint32_t head = is_q ? at : is_v ? at - of_q.heads - of_k.heads : at - of_q.heads;
    const auto of_part = [&](auto q, auto k, auto v) { return is_q ? q : is_v ? v : k; };
    const auto offset = [&](const uint64_t *q, const uint64_t *k, const uint64_t *v) {
      return batch * of_part(q[0], k[0], v[0]) + head * of_part(q[1], k[1], v[1]) + token * of_part(q[2], k[2], v[2]) +
             column;
    };
    src = static_cast<const S *>(of_part(of_q.src, of_k.src, of_v.src)) +
          offset(of_q.src_strides, of_k.src_strides, of_v.src_strides);
    dst = static_cast<T *>(of_part(of_q.dst, of_k.dst, of_v.dst)) +
          offset(of_q.dst_strides, of_k.dst_strides, of_v.dst_strides);
    const uint64_t angle = static_cast<uint64_t>(token) * half + first_angle<V, Interleaved>(piece);
    cos = static_cast<const T *>(call.cos) + batch * call.cos_stride + angle;
    sin = static_cast<const T *>(call.sin) + batch * call.sin_stride + angle;
  }
  /* Stores the packs, rotated unless they are values. */
  CRK_FN void store(const pack<T, V> &p, const pack<T, V> &q) const {
    pack<T, V> x = p, y = q;
    if (!is_v) {
      const pack<T, V> c = load_angles<V, Interleaved>(cos, half), s = load_angles<V, Interleaved>(sin, half);
      rotate_packs<V, Interleaved>(apart(p), apart(q), apart(c), apart(s), &x, &y);
    }
    store_pack(dst, x);
    store_pack(dst + second, y);
  }
};

/* Queries, keys and values of a layer: rotates the first two, and copies the third. */
template <int V, bool Interleaved, class T>
CRK_FN void rope_qkv(const crk_rope_qkv_call_t &call, uint32_t threads) {
  const elements e(call.numel, threads);
  for (uint64_t i = e.first; i < e.end; i += e.step) {
    const qkv_piece<V, Interleaved, T, T> piece(call, i);
    piece.store(load_pairs<V>(piece.src), load_pairs<V>(piece.src + piece.second));
  }
}

/* The same for rows of S, whose queries and keys first become their RMS norms, as S. A row's pieces are a power of two,
 * at most 16, so that neighbouring lanes have them. Their squares are added as rms_scale (norm_rows.h) adds those of a
 * row with a pack per lane: a lane has the packs of two lanes that are half of the row apart. */
template <class S, class T>
CRK_FN void norm_rope_qkv(const crk_norm_rope_qkv_call_t &call, uint32_t threads) {
  constexpr int V = 16 / static_cast<int>(sizeof(S));
  const crk_rope_qkv_call_t &rope = call.rope;
  const uint32_t pieces = static_cast<uint32_t>(rope.pieces.size);
  const uint64_t step = threads;
  for (uint64_t first = static_cast<uint64_t>(block_index().x) * CRK_LAUNCHED_THREADS; first < rope.numel;
       first += step) {
    /* All lanes take part in the exchange; those beyond the last piece have it again. */
    const uint64_t i = first + thread_index().x;
    const qkv_piece<V, false, S, T> piece(rope, i < rope.numel ? i : rope.numel - 1);
    pack<S, V> p = load_pairs<V>(piece.src), q = load_pairs<V>(piece.src + piece.second);
    float squares[2] = {0.0f, 0.0f};
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      squares[0] = fma(convert<float>(p.v[j]), convert<float>(p.v[j]), squares[0]);
      squares[1] = fma(convert<float>(q.v[j]), convert<float>(q.v[j]), squares[1]);
    }
    const float sum = lanes_reduce(squares[0] + squares[1], plus(), pieces);
    if (!piece.is_v) {
      const float scale = rsqrt(sum / static_cast<float>(2 * V * pieces) + call.eps);
      const S *alpha = static_cast<const S *>(piece.is_q ? call.q_alpha : call.k_alpha) + piece.column;
      const pack<S, V> a = load_pairs<V>(alpha), b = load_pairs<V>(alpha + piece.second);
      CRK_UNROLL
      for (int j = 0; j < V; j++) {
        p.v[j] = convert<S>(product(convert<float>(p.v[j]) * scale, convert<float>(a.v[j])));
        q.v[j] = convert<S>(product(convert<float>(q.v[j]) * scale, convert<float>(b.v[j])));
      }
    }
    pack<T, V> x, y;
    CRK_UNROLL
    for (int j = 0; j < V; j++) {
      x.v[j] = convert<T>(p.v[j]);
      y.v[j] = convert<T>(q.v[j]);
    }
    if (i < rope.numel) {
      piece.store(x, y);
    }
  }
}

}  // namespace
}  // namespace crk

#endif
