/* <limits.h> for a compiler at run time. */
#ifndef INT_MAX
#define INT_MAX __INT_MAX__
#endif
#ifndef INT_MIN
#define INT_MIN (-__INT_MAX__ - 1)
#endif
#ifndef UINT_MAX
#define UINT_MAX (__INT_MAX__ * 2u + 1u)
#endif
#ifndef LLONG_MAX
#define LLONG_MAX __LONG_LONG_MAX__
#endif
#ifndef CHAR_BIT
#define CHAR_BIT __CHAR_BIT__
#endif
