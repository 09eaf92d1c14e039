/* <assert.h> for a compiler at run time: a failed assertion stops the kernel. */
#ifndef assert
#define assert(condition) ((condition) ? (void)0 : __builtin_trap())
#endif
