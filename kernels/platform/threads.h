/* Threads: their places, their shares of the elements, waves, barriers, shuffles and votes.
 *
 * A part of platform/platform.h. The definitions are in platform/hip/threads.h, platform/cuda/threads.h and
 * platform/host/threads.h.
 *
 * A block's threads run in waves of 32 or 64 lanes (CUDA: warps). Threads that have returned are no longer live. */
#ifndef CRK_PLATFORM_THREADS_H
#define CRK_PLATFORM_THREADS_H

namespace crk {

/* ---- Places. Each is a struct of three uint32_t, .x .y .z. Its type differs between the compilers. ---- */

/* thread_index(), block_index(): this thread's place in its block, and the block's place in the grid. */

/* block_size(), grid_size(): threads of a block along each axis, and blocks of the grid.
 *
 * Only for kernels with Candle's own names, since their callers choose the geometry. AMD GPUs read both sizes from the
 * launch's packet in host memory, which costs a microsecond before the kernel begins. The launchers' kernels know their
 * block size, or a parameter gives it. */

/* struct elements: this thread's share of `count` independent elements.
 *
 *   const elements e(count, threads, block);
 *   for (uint64_t i = e.first; i < e.end; i += e.step) { .. }
 *
 * The grid lies along x and has `threads` threads, in blocks of `block` threads: CRK_LAUNCHED_THREADS by default. */

/* struct named_elements: the same for kernels with Candle's own names. `named_elements e(count)` takes the geometry
 * from the launch. */

/* ---- Waves ---- */

/* wave_size(): lanes of a wave, 32 or 64; a constant on a GPU.
 * constexpr uint32_t most_lanes: the largest wave_size() of this build. */

/* This thread's number in its wave. */
CRK_FN uint32_t lane();

/* Returns `word`, which is the same in all lanes of the wave. The compiler then knows so. */
CRK_FN uint32_t uniform(uint32_t word);

/* The number of this thread's wave in its block. The block's threads lie along x. All lanes of the wave must come. */
CRK_FN uint32_t wave_in_block();

/* ---- Barriers. Only for cooperative kernels. All live threads of the block, or of the wave, must come. ---- */

/* Waits for the block. The block then sees all writes to shared and global memory that its threads made before. */
CRK_FN void barrier();

/* The same for shared memory alone. Loads and stores of global memory stay under way. */
CRK_FN void shared_barrier();

/* Waits for the wave. The wave then sees all writes to shared memory that its lanes made before. */
CRK_FN void wave_barrier();

/* ---- Shuffles and votes. Only for cooperative kernels. All live lanes of the wave must come. ---- */

/* The `value` of lane `source` of the wave, or this lane's own if the wave has no such lane. 4 or 8 bytes. */
template <class T>
CRK_FN T shuffle(T value, uint32_t source);

/* shuffle from lane() ^ mask, lane() - distance and lane() + distance. */
template <class T>
CRK_FN T shuffle_xor(T value, uint32_t mask);
template <class T>
CRK_FN T shuffle_up(T value, uint32_t distance);
template <class T>
CRK_FN T shuffle_down(T value, uint32_t distance);

/* The `value` of lane Lane, a constant below wave_size(), for all lanes. 4 or 8 bytes. */
template <uint32_t Lane, class T>
CRK_FN T of_lane(T value);

/* The `value` of lane Index of each group of Width neighbouring lanes: 1, 2, 4 or 8. 4 bytes. Undefined if that lane is
 * not live. */
template <int Width, int Index, class T>
CRK_FN T of_group(T value);

/* The `value` of lane() ^ Mask, for Mask 1, 2, 4, 8 or 16. 4 or 8 bytes. Undefined if that lane is not live. On a GPU
 * with waves of 64 lanes, the two halves of a wave are independent: one may come without the other. */
template <int Mask, class T>
CRK_FN T exchange_xor(T value);

/* Bit i is lane i's predicate. Lanes that are not live give 0. */
CRK_FN uint64_t ballot(bool predicate);

/* Whether the predicate holds in any live lane, or in all of them. */
CRK_FN bool any(bool predicate);
CRK_FN bool all(bool predicate);

/* ---- From launch to launch: on NVIDIA GPUs from compute capability 9.0 on. Elsewhere these do nothing. ---- */

/* Waits until the stores of all launches before can be seen. For kernels with CRK_BEGINS_EARLY (platform/entry.h): each
 * thread calls it before its first access to global memory. Only prefetch may come before. At least one thread of every
 * launch must call it: so a launch ends behind the one before it, and the next one needs to wait for this one alone. */
CRK_FN void wait_for_launch_before();

/* The next launch may begin when a thread of each block has called this, or the block has ended. It still waits for
 * this launch's stores, but it can take up units that are idle, and prefetch. A thread calls it behind its wait. */
CRK_FN void let_next_launch_begin();

/* ---- The end of a launch ---- */

/* True in one thread of the launch, when all other threads have finished reading.
 *
 * All threads call it, at the end of an elementwise kernel. The grid lies along x and has `threads` threads, in blocks
 * of CRK_LAUNCHED_THREADS. `ticket` is in global memory; it is 0 before the launch and again after it. */
CRK_FN bool last_of_launch(uint32_t *ticket, uint32_t threads);

}  // namespace crk

#endif
