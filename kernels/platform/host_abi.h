/* The interface between the CPU driver and kernel modules that are compiled for the CPU. Plain C, shared by both.
 *
 * A module is a list of kernels. It does not link against the driver: it reaches every service through the context that
 * the driver passes in. A module may therefore be part of this library, or a shared object of the user. */
#ifndef CRK_HOST_ABI_H
#define CRK_HOST_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a struct below changes. The driver refuses a module with another number. */
#define CRK_HOST_ABI_VERSION 1

typedef struct crk_host_dim {
  uint32_t x, y, z;
} crk_host_dim_t;

/* How the driver may run a kernel. */
typedef enum crk_host_kind {
  /* Elements are independent, and the kernel finds them through `crk::elements`. The driver divides the work into
   * `parts` pieces, whatever the geometry. It calls `run` once per piece, which is then a plain loop. */
  CRK_HOST_ELEMENTWISE = 0,
  /* Threads are independent. The driver calls `run` once per block, and `run` loops over the block's threads. */
  CRK_HOST_INDEPENDENT = 1,
  /* Threads meet at barriers, votes or shuffles. The driver calls `run` once per thread, each on a stack of its own. */
  CRK_HOST_COOPERATIVE = 2
} crk_host_kind_t;

struct crk_host_thread;

/* The driver's services for barriers, wave operations and shared memory. Wave operations take and return 64-bit values.
 * All but `shared` are for cooperative kernels. In other kernels they record an error that makes the launch fail, and
 * return. */
typedef struct crk_host_services {
  /* Waits for every live thread of the block. */
  void (*barrier)(struct crk_host_thread *self);
  /* Every live lane of the wave gives a `value`. The result is the value of lane `source`, which is within the wave, or
   * this lane's own if that lane is not live. */
  uint64_t (*shuffle)(struct crk_host_thread *self, uint64_t value, uint32_t source);
  /* Bit i of the result is lane i's `predicate`. Lanes that are not live give 0. */
  uint64_t (*ballot)(struct crk_host_thread *self, int predicate);
  /* The block's static shared memory for the variable that `key` identifies. Every thread of the block gets the same
   * address, aligned to 16 bytes. The contents are undefined at first. */
  void *(*shared)(struct crk_host_thread *self, const void *key, size_t bytes);
} crk_host_services_t;

/* The context of one running thread, block or piece of a kernel, by its crk_host_kind. The driver owns it. */
typedef struct crk_host_thread {
  const crk_host_services_t *services;
  crk_host_dim_t thread_index, block_index, block_size, grid_size;
  uint32_t lane, wave_size;
  uint32_t part, parts; /* elementwise kernels: piece `part` of `parts` */
  void *dynamic_shared; /* 16-byte aligned; the launch's `shared` bytes */
  void *driver; /* for the driver alone */
} crk_host_thread_t;

typedef struct crk_host_arg {
  uint32_t bytes;
  uint32_t is_pointer;
} crk_host_arg_t;

typedef struct crk_host_kernel {
  const struct crk_host_kernel *next;
  const char *name;
  void (*run)(crk_host_thread_t *self, void *const *args); /* args[i] points at argument i */
  const crk_host_arg_t *args;
  uint32_t arg_count;
  uint32_t kind; /* a crk_host_kind_t */
  uint32_t max_threads; /* of a block */
} crk_host_kernel_t;

/* A module's one exported symbol is a `const crk_host_module_t` named crk_host_module_<name>. */
typedef struct crk_host_module {
  uint32_t abi_version; /* CRK_HOST_ABI_VERSION of the headers it was compiled with */
  const char *name;
  const crk_host_kernel_t *(*kernels)(void); /* the head of the list */
} crk_host_module_t;

#ifdef __cplusplus
}
#endif
#endif
