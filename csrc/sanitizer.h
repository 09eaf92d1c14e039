/* sanitizer.h: detects AddressSanitizer (CRK_ASAN) and ThreadSanitizer (CRK_TSAN). The library tells them about its
 * stacks and its free memory; their calls are declared here. The CRK_SAN_ macros do nothing in an ordinary build. */
#ifndef CRK_SANITIZER_H
#define CRK_SANITIZER_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CRK_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define CRK_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define CRK_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define CRK_TSAN 1
#endif

#if defined(CRK_ASAN)
#include <stddef.h>
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t bytes);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **old_bottom, size_t *old_bytes);
void __asan_poison_memory_region(const volatile void *ptr, size_t bytes);
void __asan_unpoison_memory_region(const volatile void *ptr, size_t bytes);
#define CRK_SAN_POISON(ptr, bytes)   __asan_poison_memory_region(ptr, bytes)
#define CRK_SAN_UNPOISON(ptr, bytes) __asan_unpoison_memory_region(ptr, bytes)
#else
#define CRK_SAN_POISON(ptr, bytes)   ((void)(ptr), (void)(bytes))
#define CRK_SAN_UNPOISON(ptr, bytes) ((void)(ptr), (void)(bytes))
#endif

#if defined(CRK_TSAN)
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

/* For the first function of a fiber. It never returns, so ThreadSanitizer would record entries without exits. */
#if defined(CRK_TSAN) && defined(__clang__)
#define CRK_SAN_ENTRY __attribute__((disable_sanitizer_instrumentation))
#elif defined(CRK_TSAN)
#define CRK_SAN_ENTRY __attribute__((no_sanitize_thread))
#else
#define CRK_SAN_ENTRY
#endif

#endif
