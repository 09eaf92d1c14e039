/* platform/entry.h for the CPU: any C++17 compiler, without exceptions, RTTI or the C++ runtime.
 *
 * A kernel reaches the driver's services through the crk_host_thread_t that it runs on (platform/host_abi.h). */
#ifndef CRK_PLATFORM_HOST_ENTRY_H
#define CRK_PLATFORM_HOST_ENTRY_H

#include <math.h>
#include <string.h>

#include "platform/host_abi.h"

#if defined(_MSC_VER) && !defined(__clang__)
#define CRK_FN __forceinline
#define CRK_HIDDEN
#define CRK_EXPORT
#else
/* The compiler chooses what it inlines, which takes half the time of inlining everything. Two kinds of modules inline
 * everything. One with CRK_HOST_FMA has an fma of its own, which the linker must not take for that of the others. One
 * with CRK_INLINE_ALWAYS would be slow without, but only in profiles that optimise little: they define
 * CRK_LITTLE_OPTIMISED. */
#if !defined(CRK_HOST_FMA) && !(defined(CRK_INLINE_ALWAYS) && defined(CRK_LITTLE_OPTIMISED))
#define CRK_FN inline
#else
#define CRK_FN __attribute__((always_inline)) inline
#endif
#define CRK_HIDDEN __attribute__((visibility("hidden")))
#define CRK_EXPORT __attribute__((visibility("default")))
#endif

/* CRK_HOST_FMA makes two versions of a kernel, unless all CPUs of the build have the fma instruction. The C library
 * chooses a version while the program is loaded. ThreadSanitizer is not ready by then, and clang does not emit the
 * constructors that such kernels call. Both compile one version. */
#if defined(CRK_HOST_FMA) && defined(__x86_64__) && !defined(__FMA__) && defined(__GLIBC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__)
#define CRK_HOST_CLONES __attribute__((target_clones("fma", "default")))
#define CRK_HOST_CLONED 1
#else
#define CRK_HOST_CLONES
#define CRK_HOST_CLONED 0
#endif

#define CRK_ND_ARGUMENT(nd) (nd)

#define CRK_LARGE_SHARED   0
#define CRK_LONG_STEPS     0
#define CRK_HAS_WIDE_MMQ   1
#define CRK_SEVERAL_CACHES 1

namespace crk {

inline constexpr bool on_host = true;

namespace host {

/* The kernel thread that runs on this operating system thread. Hidden, so that each binary with kernels has its own. A
 * service of the driver may run other kernel threads before it returns. Callers of a service then set this again. */
CRK_HIDDEN inline thread_local crk_host_thread_t *current = nullptr;

template <class T>
inline constexpr uint32_t is_pointer = 0;
template <class T>
inline constexpr uint32_t is_pointer<T *> = 1;

template <class T>
CRK_FN T argument(const void *at) {
  T value;
  memcpy(&value, at, sizeof(value));
  return value;
}

template <auto Function>
struct kernel;

template <class... A, void (*Function)(A...)>
struct kernel<Function> {
  static constexpr crk_host_arg_t args[sizeof...(A)] = {{sizeof(A), is_pointer<A>}...};

  template <int... I>
  static void call(void *const *values, indices<I...>) {
    Function(argument<A>(values[I])...);
  }

  static void run(crk_host_thread_t *self, void *const *values) {
    current = self;
    call(values, typename make_indices<sizeof...(A)>::type());
  }

  static void run_block(crk_host_thread_t *self, void *const *values) {
    current = self;
    uint32_t linear = 0;
    for (uint32_t z = 0; z < self->block_size.z; z++) {
      for (uint32_t y = 0; y < self->block_size.y; y++) {
        for (uint32_t x = 0; x < self->block_size.x; x++) {
          self->thread_index = {x, y, z};
          self->lane = linear++ % self->wave_size;
          call(values, typename make_indices<sizeof...(A)>::type());
        }
      }
    }
  }

  static constexpr crk_host_kernel_t describe(const char *name, crk_host_kind_t kind, uint32_t max_threads) {
    return {nullptr,        name,       kind == CRK_HOST_INDEPENDENT ? run_block : run, args, sizeof...(A),
            (uint32_t)kind, max_threads};
  }
};

struct link {
  link(const crk_host_kernel_t *&head, crk_host_kernel_t &kernel) {
    kernel.next = head;
    head = &kernel;
  }
};

}  // namespace host
}  // namespace crk

/* The kernels of this translation unit, which is one module. */
static const crk_host_kernel_t *crk_module_kernels = nullptr;

#define CRK_HOST_KERNEL(kind, name, max_threads, params)                             \
  CRK_HOST_CLONES static void crk_kernel_##name params;                              \
  static crk_host_kernel_t crk_node_##name =                                         \
      crk::host::kernel<&crk_kernel_##name>::describe(#name, kind, max_threads);     \
  static const crk::host::link crk_link_##name(crk_module_kernels, crk_node_##name); \
  CRK_HOST_CLONES static void crk_kernel_##name params
#define CRK_ELEMENTWISE(name, max_threads, params) CRK_HOST_KERNEL(CRK_HOST_ELEMENTWISE, name, max_threads, params)
#define CRK_KERNEL(name, max_threads, params)      CRK_HOST_KERNEL(CRK_HOST_INDEPENDENT, name, max_threads, params)
#define CRK_COOPERATIVE(name, max_threads, params) CRK_HOST_KERNEL(CRK_HOST_COOPERATIVE, name, max_threads, params)

#define CRK_MODULE(stem)                                                               \
  static const crk_host_kernel_t *crk_module_head(void) { return crk_module_kernels; } \
  extern "C" CRK_EXPORT const crk_host_module_t crk_host_module_##stem;                \
  extern "C" const crk_host_module_t crk_host_module_##stem = {CRK_HOST_ABI_VERSION, #stem, crk_module_head};

#define CRK_WAVES(waves)
#define CRK_STREAMING(name, max_threads, waves, params) CRK_COOPERATIVE(name, max_threads, params)

#endif
