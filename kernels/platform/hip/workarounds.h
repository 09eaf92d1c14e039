/* platform/workarounds.h for AMD GPUs. */
#ifndef CRK_PLATFORM_HIP_WORKAROUNDS_H
#define CRK_PLATFORM_HIP_WORKAROUNDS_H

#define CRK_UNROLL     _Pragma("unroll")
#define CRK_NO_UNROLL  _Pragma("unroll 1")
#define CRK_ONE_BY_ONE _Pragma("clang loop unroll(disable) vectorize(disable) interleave(disable)")

namespace crk {

/* LLVM knows nothing about a value that an assembler statement returns, even an empty one. */
CRK_FN uint32_t opaque(uint32_t x) {
  __asm__("" : "+v"(x));
  return x;
}

CRK_FN uint32_t whole_word(uint32_t x) {
#if __clang_major__ < 16
  __asm__("" : "+v"(x));
#endif
  return x;
}

CRK_FN uint32_t whole_bytes(uint32_t word) { return opaque(word); }

CRK_FN uint32_t in_step(uint32_t word, uint32_t) { return opaque(word); }

template <class T>
CRK_FN uint32_t in_turn(uint32_t word, T first) {
  static_assert(sizeof(T) == 4, "a register");
#if !defined(__GFX11__) && !defined(__GFX12__)
  __asm__("" : "+v"(word) : "v"(bit_cast<uint32_t>(first)));
#endif
  return word;
}

CRK_FN uint32_t settled(uint32_t x) {
  __asm__("" : "+s"(x));
  return x;
}

CRK_FN void keep_order() { __builtin_amdgcn_sched_barrier(0); }

template <class T>
CRK_FN T *uniform_pointer(T *p) {
  auto *global = (__attribute__((address_space(1))) T *)p;
  __asm__("" : "+s"(global));
  return (T *)global;
}

template <class T>
CRK_FN const T &reread(const T &) {
  const auto *at = (const __attribute__((address_space(4))) T *)__builtin_amdgcn_kernarg_segment_ptr();
  __asm__("" : "+s"(at));
  return *(const T *)at;
}

CRK_FN void swap_if(uint32_t bit, float &a, float &b) {
  const float first = a;
  a = bit != 0 ? b : first;
  b = bit != 0 ? first : b;
}

CRK_FN float product(float a, float b) { return fma(a, b, bit_cast<float>(opaque(0x80000000u))); }
CRK_FN double product(double a, double b) { return a * b; }

}  // namespace crk

#endif
