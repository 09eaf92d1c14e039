/* <stddef.h> for a compiler at run time. */
#ifndef CRK_CUDA_PORT_STDDEF_H
#define CRK_CUDA_PORT_STDDEF_H

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#ifndef NULL
#define NULL __null
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif

#endif
