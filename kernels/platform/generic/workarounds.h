/* No-ops in place of the hints that only AMD GPUs need. A part of platform/cuda/workarounds.h and
 * platform/host/workarounds.h. */
#ifndef CRK_PLATFORM_GENERIC_WORKAROUNDS_H
#define CRK_PLATFORM_GENERIC_WORKAROUNDS_H

namespace crk {

CRK_FN uint32_t whole_word(uint32_t word) { return word; }
CRK_FN uint32_t whole_bytes(uint32_t word) { return word; }
template <class T>
CRK_FN uint32_t in_turn(uint32_t word, T) {
  return word;
}
CRK_FN void keep_order() {}
template <class T>
CRK_FN T *uniform_pointer(T *p) {
  return p;
}
template <class T>
CRK_FN const T &reread(const T &argument) {
  return argument;
}

}  // namespace crk

#endif
