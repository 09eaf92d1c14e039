/* sized.h: results and arguments in structs that begin with `struct_bytes` and grow from version to version. */
#ifndef CRK_SIZED_H
#define CRK_SIZED_H

#include "candle_rocm.h"

/* The size of a struct up to the end of `field`: the size of the version in which that field was the last. A version
 * ends with its last field, without padding, so that later fields lie behind it. */
#define CRK_SIZED_UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)NULL)->field))

/* Copies the result `known`, of `known_bytes` bytes, to the caller's struct at `given`, whose size its struct_bytes
 * tells. Writes no more than that size, and keeps struct_bytes. Sets to zero what `known` does not have. Fails with
 * CRK_INVALID_ARGUMENT, and writes nothing, for a size below `first_bytes`, the size of the struct's first version, or
 * above CRK_SIZED_MOST. `where` is the public function and `name` its argument, for the sentence. */
crk_status_t crk_priv_sized_give(const char *where, const char *name, size_t first_bytes, const void *known,
                                 size_t known_bytes, void *given);

/* The same for arguments: copies the caller's struct at `given` to `known`, whose struct_bytes becomes `known_bytes`.
 * Fields that the caller's version lacks become 0. Fails with CRK_UNSUPPORTED where a field that only the caller knows
 * is not 0. */
crk_status_t crk_priv_sized_take(const char *where, const char *name, size_t first_bytes, const void *given,
                                 void *known, size_t known_bytes);

/* A limit on struct_bytes. A struct whose struct_bytes was never set mostly exceeds it. */
enum { CRK_SIZED_MOST = 4096 };

#endif
