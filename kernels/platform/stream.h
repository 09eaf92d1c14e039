/* Matrix cores for halves that come straight from global memory.
 *
 * A part of platform/platform.h. The definitions are in platform/hip/stream.h, platform/cuda/stream.h and
 * platform/host/stream.h. */
#ifndef CRK_PLATFORM_STREAM_H
#define CRK_PLATFORM_STREAM_H

namespace crk {

/* Types of numbers/element_types.h. */
struct f16;
struct bf16;

}  // namespace crk

/* CRK_STREAM_CORES: 1 where crk::stream_core exists, else 0. Compile with -DCRK_STREAM_CORES=0 to do without. */

/* constexpr uint32_t stream_waves: waves of a block that reads keys and values from global memory. One block keeps a
 * compute unit's memory busy. */

/* template <class T> struct stream_core: a wave multiplies 16 keys with `rows` query rows, in f16 or bf16, and adds up
 * in f32. A key is a row of numbers in global memory. Each lane loads packs of it, and passes them on as they are. All
 * lanes of the wave must call its functions.
 *
 * A result is `tall` * `columns` numbers per lane: at(k, c) belongs to key result_key(k) and to query row
 * result_row(c). `key_lanes` lanes have the same query rows and different keys.
 *
 *   static constexpr int rows, tall, columns;
 *   struct results { float at(int k, int c); void set(int k, int c, float value); };
 *   static uint32_t result_key(int k), result_row(int c);
 *   template <class Op> static float over_keys(float x, Op op);   joins x of the lanes with the same query rows
 *   static uint32_t keys_of(int k, uint64_t lanes);   the bits of the keys result_key(k) of these lanes (a ballot)
 *
 * Products with keys. A step covers `step` numbers of each key and each query row. For a step, a lane loads `key_packs`
 * packs of 16 bytes: pack p is of key first_key() + next_key(p), from number first_number() + next_number(p) of the
 * step on. It loads `row_packs` packs of query row first_row() in the same way.
 *
 *   template <..> static void add_scores(const pack<uint32_t, 4> (&key)[key_packs],
 *                                        const pack<uint32_t, 4> (&row)[row_packs], results &sums);
 *
 * Products with values. `weights` is a result in T, as an operand. A span is value_lanes * E numbers of each key's
 * value, where E is value_numbers<Width>. For a span, a lane loads E numbers of each of `value_keys` keys: of key
 * first_value_key() + next_value_key(i), from number value_lane() * E of the span on. The span has products<E> results:
 * at(k, c) of result j belongs to number value_number<E>(k) + j of the span and to query row result_row(c).
 *
 *   static weights to_weights(const results &values, void *room);
 *   template <int E> static void add_values(const pack<uint32_t, E / 2> (&value)[value_keys], const weights &weight,
 *                                           results (&sums)[products<E>]);
 *
 * to_weights takes weights times `gain`, and gives the weights, rounded to T with an error of at most a half-unit:
 * where gain is not 1, it rounds toward 0. `room` is shared memory of the wave, 512 bytes.
 *
 * If stages_keys is true, the pieces of a key that an instruction would load for its operands are no whole lines of
 * memory, and keys should be loaded in another order and pass through shared memory.
 *
 * Only cores without stages_keys have next_key.
 *
 * padding is the number of unused elements behind each key or query row in shared memory.
 *
 * most_width is the largest width of a head for which a lane's registers have room, and most_ahead the largest one for
 * which they also have room for keys that are loaded ahead. Up to the width most_first, they have room for the first
 * keys while the query rows are on their way. */

#endif
