/* <assert.h> for a compiler at run time: a failed assertion stops the kernel. */
#ifndef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : __builtin_trap())
#endif
#endif
