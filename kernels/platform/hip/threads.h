/* platform/threads.h for AMD GPUs. */
#ifndef CRK_PLATFORM_HIP_THREADS_H
#define CRK_PLATFORM_HIP_THREADS_H

#include "platform/hip/workarounds.h"

namespace crk {

struct dim {
  uint32_t x, y, z;
};

CRK_FN dim thread_index() {
  return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()};
}
CRK_FN dim block_index() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()};
}

/* The dispatch packet (HSA's hsa_kernel_dispatch_packet_t) holds both sizes, in threads. Kernels that read it need no
 * hidden arguments, of which a launch would write 256 bytes. */
struct packet {
  uint16_t header, setup, block_x, block_y, block_z, reserved;
  uint32_t grid_x, grid_y, grid_z;
};
CRK_FN const packet &dispatch() {
  return *(const packet *)(const __attribute__((address_space(4))) packet *)__builtin_amdgcn_dispatch_ptr();
}
CRK_FN dim block_size() { return {dispatch().block_x, dispatch().block_y, dispatch().block_z}; }
CRK_FN dim grid_size() {
  return {dispatch().grid_x / dispatch().block_x, dispatch().grid_y / dispatch().block_y,
          dispatch().grid_z / dispatch().block_z};
}

/* A grid has fewer than 2^32 threads on HIP. */
struct named_elements {
  uint64_t first, end, step;

  CRK_FN explicit named_elements(uint64_t count)
      : first(block_index().x * dispatch().block_x + thread_index().x), end(count), step(dispatch().grid_x) {}
};

/* Waves have 64 lanes on GCN and CDNA (gfx8, gfx9), and 32 on RDNA. */
#if CRK_ARCH_LANES == 64
inline constexpr uint32_t most_lanes = 64;
CRK_FN uint32_t lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
#else
inline constexpr uint32_t most_lanes = 32;
CRK_FN uint32_t lane() { return __builtin_amdgcn_mbcnt_lo(~0u, 0); }
#endif
CRK_FN constexpr uint32_t wave_size() { return most_lanes; }
/* lane() in a block of one dim. clang moves it out of loops. It leaves lane() behind assembly, such as a barrier or
 * opaque(), which for clang may not return. */
CRK_FN uint32_t flat_lane() { return thread_index().x % wave_size(); }
CRK_FN uint32_t uniform(uint32_t word) {
  return static_cast<uint32_t>(__builtin_amdgcn_readfirstlane(static_cast<int>(word)));
}
CRK_FN uint32_t wave_in_block() { return uniform(thread_index().x / wave_size()); }

/* 33 is LLVM's code for "not equal". The ballot builtins of later compilers make the same instruction. */
CRK_FN uint64_t ballot(bool predicate) { return __builtin_amdgcn_uicmp(static_cast<uint32_t>(predicate), 0u, 33); }
CRK_FN bool any(bool predicate) { return ballot(predicate) != 0; }
CRK_FN bool all(bool predicate) { return ballot(!predicate) == 0; }

CRK_FN void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* From CDNA 2 on barrier() waits for shared memory alone: a block's waves use one cache. On RDNA its fences wait for
 * all loads and stores. On GPUs before CDNA 2 and on RDNA 3, clang also adds such a wait to s_barrier. The fences here
 * are for the compiler. */
#if CRK_HAS_LIGHT_BARRIER
CRK_FN void shared_barrier() { barrier(); }
#else
CRK_FN void shared_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
#if defined(__GFX12__)
  __asm__ volatile("s_wait_dscnt 0x0\n\ts_barrier_signal -1\n\ts_barrier_wait -1" : : : "memory");
#else
  __asm__ volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" : : : "memory");
#endif
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
#endif

/* The GPU keeps a wave's accesses to shared memory in the program's order. Only the compiler could change it. */
CRK_FN void wave_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

template <class T>
CRK_FN T shuffle(T value, uint32_t source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  const int address = static_cast<int>((source < wave_size() ? source : lane()) * 4);
  struct words {
    int w[sizeof(T) / 4];
  };
  words bits = bit_cast<words>(value);
  CRK_UNROLL
  for (unsigned i = 0; i < sizeof(T) / 4; i++) {
    bits.w[i] = __builtin_amdgcn_ds_bpermute(address, bits.w[i]);
  }
  return bit_cast<T>(bits);
}
template <uint32_t Lane, class T>
CRK_FN T of_lane(T value) {
  struct words {
    int w[sizeof(T) / 4];
  };
  words bits = bit_cast<words>(value);
  CRK_UNROLL
  for (unsigned i = 0; i < sizeof(T) / 4; i++) {
    bits.w[i] = __builtin_amdgcn_readlane(bits.w[i], Lane);
  }
  return bit_cast<T>(bits);
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

/* Data-parallel primitives (DPP): a lane's operand comes from another lane of its row of 16 lanes. The compiler folds
 * this into the instruction that uses the operand if it can. RDNA has instructions for any xor within a row, and for an
 * exchange between two rows. GCN and CDNA combine rotations, mirrors and permutations of four lanes within a row, and
 * use a swizzle between rows. */
template <int Control>
CRK_FN int dpp(int value) {
  return __builtin_amdgcn_mov_dpp(value, Control, 0xf, 0xf, true);
}
template <int Mask>
CRK_FN int exchange_word(int value) {
  static_assert(Mask == 1 || Mask == 2 || Mask == 4 || Mask == 8 || Mask == 16, "one bit of a lane's number");
  if constexpr (Mask == 1) {
    return dpp<0xb1>(value); /* quad_perm [1, 0, 3, 2] */
  } else if constexpr (Mask == 2) {
    return dpp<0x4e>(value); /* quad_perm [2, 3, 0, 1] */
  } else if constexpr (Mask == 8) {
    return dpp<0x128>(value); /* row_ror 8 */
#if CRK_ARCH_LANES == 64
  } else if constexpr (Mask == 4) {
    return dpp<0x1b>(dpp<0x141>(value)); /* row_half_mirror is xor 7, quad_perm [3, 2, 1, 0] xor 3 */
  } else {
    return __builtin_amdgcn_ds_swizzle(value, 0x401f);
  }
#else
  } else if constexpr (Mask == 4) {
    return dpp<0x164>(value); /* row_xmask 4 */
  } else {
    return static_cast<int>(
        __builtin_amdgcn_permlanex16(0u, static_cast<unsigned>(value), 0x76543210u, 0xfedcba98u, false, true));
  }
#endif
}
template <int Mask, class T>
CRK_FN T exchange_xor(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  struct words {
    int w[sizeof(T) / 4];
  };
  words bits = bit_cast<words>(value);
  CRK_UNROLL
  for (unsigned i = 0; i < sizeof(T) / 4; i++) {
    bits.w[i] = exchange_word<Mask>(bits.w[i]);
  }
  return bit_cast<T>(bits);
}

/* Joins the wave's rows of 16 lanes: all lanes with the same lane() % 16 get the result of op on their values. */
template <class Op>
CRK_FN float over_rows16(float value, Op op) {
  value = op(value, exchange_xor<16>(value));
  if constexpr (most_lanes == 64) {
    value = op(value, shuffle_xor(value, 32));
  }
  return value;
}

template <int Width, int Index, class T>
CRK_FN T of_group(T value) {
  static_assert(sizeof(T) == 4 && Index < Width && Width <= 8, "a word of a lane of the group");
  int word = bit_cast<int>(value);
  if constexpr (Width == 8) {
    const int far = exchange_word<4>(word); /* needed once for all Index */
    word = dpp<Index % 4 * 0x55>((lane() & 4) == (Index & 4) ? word : far);
  } else if constexpr (Width == 4) {
    word = dpp<Index * 0x55>(word);
  } else if constexpr (Width == 2) {
    word = dpp<Index * 0x55 + 0xa0>(word);
  }
  return bit_cast<T>(word);
}

/* Needs no fence: only reads must come first, and a read has completed once its value was used. */
CRK_FN bool last_of_launch(uint32_t *ticket, uint32_t threads) {
  barrier();
  if (thread_index().x != 0 || atomic_add(ticket, 1u) + 1 != threads / CRK_LAUNCHED_THREADS) {
    return false;
  }
  *ticket = 0;
  return true;
}

}  // namespace crk

/* Needs thread_index and block_index. */
#include "platform/generic/elements.h"
#include "platform/generic/launches.h"

#endif
