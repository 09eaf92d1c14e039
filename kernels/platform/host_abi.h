/* What a kernel module compiled for the CPU and the CPU driver say to each other. Plain C, shared by both.
 *
 * A module is a table of kernels. It links against nothing of the driver: every service reaches it through the context
 * that the driver passes in, so that a module may be part of this library or a shared object of the user's. */
#ifndef CRK_HOST_ABI_H
#define CRK_HOST_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a struct below changes; a module of another number is refused. */
#define CRK_HOST_ABI_VERSION 1

typedef struct crk_host_dim {
  uint32_t x, y, z;
} crk_host_dim_t;

/* How the driver may run a kernel. */
typedef enum crk_host_kind {
  /* Every element is independent and found through `crk::elements`: `run` is called once for each of `parts` pieces of
   * the work, whatever the geometry, and does its piece as a plain loop. */
  CRK_HOST_ELEMENTWISE = 0,
  /* Threads are independent: `run` is called once a block and loops over the block's threads. */
  CRK_HOST_INDEPENDENT = 1,
  /* Threads meet at barriers, votes or shuffles: `run` is called once a thread, each on a stack of its own. */
  CRK_HOST_COOPERATIVE = 2
} crk_host_kind_t;

struct crk_host_thread;

/* The services behind barriers, wave operations and shared memory. Wave operations take and give 64-bit payloads. All
 * but `shared` are for cooperative kernels only; elsewhere they record an error that fails the launch, and return. */
typedef struct crk_host_services {
  /* Waits for every live thread of the block. */
  void (*barrier)(struct crk_host_thread *self);
  /* Every live lane of the wave gives `value`; the result is the value that lane `source` (within the wave) gave, or
   * `value` where that lane is not live. */
  uint64_t (*shuffle)(struct crk_host_thread *self, uint64_t value, uint32_t source);
  /* Bit i of the result is lane i's `predicate`; lanes that are not live give 0. */
  uint64_t (*ballot)(struct crk_host_thread *self, int predicate);
  /* The block's static shared memory for the variable that `key` names: the same address in every thread of the block,
   * 16-byte aligned, contents undefined at first. */
  void *(*shared)(struct crk_host_thread *self, const void *key, size_t bytes);
} crk_host_services_t;

/* The context of one running kernel thread (or block, or part; see crk_host_kind). The driver owns it. */
typedef struct crk_host_thread {
  const crk_host_services_t *services;
  crk_host_dim_t thread_index, block_index, block_size, grid_size;
  uint32_t lane, wave_size;
  uint32_t part, parts; /* elementwise kernels: piece `part` of `parts` */
  void *dynamic_shared; /* 16-byte aligned; the launch's `shared` bytes */
  void *driver; /* the driver's own; no concern of the kernel's */
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
