/* crk::shared_bytes for machines that load from any address, and no asynchronous copies. A part of
 * platform/hip/memory.h and platform/host/memory.h. */
#ifndef CRK_PLATFORM_GENERIC_SHARED_BYTES_H
#define CRK_PLATFORM_GENERIC_SHARED_BYTES_H

namespace crk {

inline constexpr bool words_anywhere = true;
template <uint32_t>
struct shared_bytes {
  const unsigned char *from;
  CRK_FN shared_bytes(const unsigned char *room, uint32_t offset) : from(room + offset) {}
  CRK_FN shared_bytes behind(uint32_t bytes) const { return {from, bytes}; }
  template <int N, int Usual = 2>
  CRK_FN pack<uint32_t, N> words(uint32_t offset) const {
    return load_words<N, Usual>(from + offset);
  }
  CRK_FN int8_t byte(uint32_t offset) const { return static_cast<int8_t>(from[offset]); }
  CRK_FN uint16_t half(uint32_t offset) const { return *reinterpret_cast<const uint16_t *>(from + offset); }
};

struct async_copies {
  static constexpr bool present = false;
};

}  // namespace crk

#endif
