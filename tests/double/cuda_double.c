/* A test double of libcuda. It has one device of compute capability 9.0 with host memory, and does all work at once.
 * Every module contains `copy(u64 bytes, const u8 *src, u8 *dst)`, and `early`, the same as a kernel that begins early.
 *
 * CUDA_DOUBLE_FAIL=name=code,... makes calls return a code. Compiled with these the double lacks calls, as a driver
 * that is too old does:
 *
 *   -DWITHOUT_GRAPHS      cuGraphLaunch
 *   -DWITHOUT_PARAM_INFO  cuFuncGetParamInfo, before CUDA 12.4
 *   -DWITHOUT_CHAINS      the calls that make graphs of launches
 *   -DWITHOUT_EARLY       cuGraphAddDependencies_v2, before CUDA 12.3 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "told.h"

#define EXPORT __attribute__((visibility("default")))

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_BINARY_FOR_GPU = 209, NOT_FOUND = 500, CAPTURE_INVALIDATED = 901 };

/* Defines a call that CUDA_DOUBLE_FAIL can make fail. */
#define CALL(name, ...)                                    \
  EXPORT int name(__VA_ARGS__);                            \
  EXPORT int name(__VA_ARGS__) {                           \
    const int told = told_code("CUDA_DOUBLE_FAIL", #name); \
    if (told != 0) {                                       \
      return told;                                         \
    }
#define DONE \
  return 0;  \
  }

typedef unsigned long long devptr;

typedef struct copy {
  const void *function;
  size_t bytes;
  const void *src;
  void *dst;
} copy_t;

/* CUDA_KERNEL_NODE_PARAMS */
typedef struct launch {
  void *function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void **args, **extra;
} launch_t;

/* CUlaunchAttribute. Its value has 64 bytes. */
typedef struct attribute {
  int id, padding, value, rest[15];
} attribute_t;

/* CUlaunchConfig */
typedef struct config {
  unsigned grid[3], block[3], shared_bytes;
  struct stream *stream;
  const attribute_t *attributes;
  unsigned count;
} config_t;

/* A node's handle is its address. An instance has copies of the nodes of `origin`. */
typedef struct graph {
  const struct graph *origin;
  size_t count, edges;
  copy_t nodes[64];
} graph_t;

typedef struct stream {
  int capturing;
  copy_t recorded;
} stream_t;

static int context, module, event;
static const char *const kernels[] = {"copy", "early"};

static int is_kernel(const void *function) { return function == &kernels[0] || function == &kernels[1]; }

static int refuse_launch(const launch_t *launch) {
  const int fits = launch->grid_y <= 65535 && launch->grid_z <= 65535 && launch->block_z <= 64;
  return is_kernel(launch->function) && launch->extra == NULL && fits ? 0 : INVALID_VALUE;
}

static copy_t copy_of(const launch_t *launch) {
  return (copy_t){launch->function, *(size_t *)launch->args[0], *(void **)launch->args[1], *(void **)launch->args[2]};
}

CALL(cuInit, unsigned flags)
  if (flags != 0) {
    return INVALID_VALUE;
  }
DONE
CALL(cuDriverGetVersion, int *version)
  *version = 12080;
DONE
EXPORT int cuGetErrorName(int code, const char **name);
EXPORT int cuGetErrorName(int code, const char **name) {
  static char text[64];
  snprintf(text, sizeof text, "CUDA_ERROR_%d", code);
  *name = text;
  return code == 999 ? INVALID_VALUE : 0; /* an error that has no name in this driver */
}
CALL(cuDeviceGetCount, int *count)
  *count = 1;
DONE
CALL(cuDeviceGet, int *device, int ordinal)
  *device = ordinal;
DONE
CALL(cuDeviceGetName, char *name, int bytes, int device)
  snprintf(name, (size_t)bytes, "double %d", device);
DONE
CALL(cuDeviceTotalMem_v2, size_t *bytes, int device)
  *bytes = ((size_t)1 << 30) + (size_t)device;
DONE
CALL(cuDeviceGetAttribute, int *value, int attribute, int device)
  static const int values[][2] = {{1, 1024},  {2, 1024}, {3, 1024},  {4, 64},  {5, 0x7fffffff}, {6, 65535},  {7, 65535},
                                  {10, 32},   {16, 132}, {33, 0x41}, {34, 2},  {39, 2048},      {50, 1},      {75, 9},
                                  {76, 0},    {81, 233472}, {97, 232448}};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    if (values[i][0] == attribute && device == 0) {
      *value = values[i][1];
      return 0;
    }
  }
  return INVALID_VALUE;
}
CALL(cuDevicePrimaryCtxRetain, void **made, int device)
  *made = device == 0 ? &context : NULL;
DONE
static _Thread_local void *current;
CALL(cuCtxGetCurrent, void **bound)
  *bound = current;
DONE
CALL(cuCtxSetCurrent, void *bound)
  if (bound != &context) {
    return INVALID_VALUE;
  }
  current = bound;
DONE
CALL(cuMemGetInfo_v2, size_t *available, size_t *total)
  *available = (size_t)1 << 29;
  *total = (size_t)1 << 30;
DONE
CALL(cuMemAlloc_v2, devptr *ptr, size_t bytes)
  void *got = bytes > (size_t)1 << 30 ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (got == NULL) {
    return OUT_OF_MEMORY;
  }
  *ptr = (devptr)(size_t)got;
DONE
CALL(cuMemFree_v2, devptr ptr)
  free((void *)(size_t)ptr);
DONE
CALL(cuMemHostAlloc, void **ptr, size_t bytes, unsigned flags)
  *ptr = flags == 1 ? malloc(bytes) : NULL;
DONE
CALL(cuMemFreeHost, void *ptr)
  free(ptr);
DONE
CALL(cuMemcpyHtoDAsync_v2, devptr dst, const void *src, size_t bytes, stream_t *stream)
  (void)stream;
  memcpy((void *)(size_t)dst, src, bytes);
DONE
CALL(cuMemcpyDtoHAsync_v2, void *dst, devptr src, size_t bytes, stream_t *stream)
  (void)stream;
  memcpy(dst, (void *)(size_t)src, bytes);
DONE
CALL(cuMemcpyDtoDAsync_v2, devptr dst, devptr src, size_t bytes, stream_t *stream)
  (void)stream;
  memcpy((void *)(size_t)dst, (void *)(size_t)src, bytes);
DONE
CALL(cuMemcpyPeerAsync, devptr dst, void *to, devptr src, void *from, size_t bytes, stream_t *stream)
  (void)stream;
  if (to != &context || from != &context) {
    return INVALID_VALUE;
  }
  memcpy((void *)(size_t)dst, (void *)(size_t)src, bytes);
DONE
CALL(cuDeviceCanAccessPeer, int *can_access, int device, int peer)
  *can_access = device != peer;
DONE
CALL(cuCtxEnablePeerAccess, void *peer, unsigned flags)
  (void)peer;
  return flags == 0 ? 0 : INVALID_VALUE;
}
CALL(cuMemsetD8Async, devptr dst, unsigned char value, size_t bytes, stream_t *stream)
  (void)stream;
  memset((void *)(size_t)dst, value, bytes);
DONE
CALL(cuStreamCreate, stream_t **stream, unsigned flags)
  *stream = flags == 1 ? calloc(1, sizeof **stream) : NULL;
DONE
CALL(cuStreamDestroy_v2, stream_t *stream)
  free(stream);
DONE
CALL(cuStreamSynchronize, stream_t *stream)
  (void)stream;
DONE
CALL(cuStreamWaitEvent, stream_t *stream, void *waited, unsigned flags)
  (void)stream;
  if (waited != &event || flags != 0) {
    return INVALID_VALUE;
  }
DONE
CALL(cuEventCreate, void **made, unsigned flags)
  *made = flags == 0 ? &event : NULL;
DONE
CALL(cuEventDestroy_v2, void *gone)
  (void)gone;
DONE
CALL(cuEventRecord, void *recorded, stream_t *stream)
  (void)recorded, (void)stream;
DONE
CALL(cuEventQuery, void *asked)
  (void)asked;
DONE
CALL(cuEventSynchronize, void *waited)
  (void)waited;
DONE
CALL(cuEventElapsedTime, float *milliseconds, void *start, void *end)
  (void)start, (void)end;
  *milliseconds = 1.5f;
DONE
/* A fatbin with contents that begin with 'W' is for other GPUs. */
CALL(cuModuleLoadDataEx, void **made, const char *image, unsigned count, int *options, void **values)
  if (count != 2 || options[0] != 5 || options[1] != 6 || (size_t)values[1] < 64 || (size_t)image % 8 != 0) {
    return INVALID_VALUE;
  }
  if (memcmp(image, "\x50\xed\x55\xba", 4) == 0 && image[16] == 'W') {
    return NO_BINARY_FOR_GPU;
  }
  if (image[0] == '.' && strstr(image, "nonsense") != NULL) {
    strcpy(values[0], "ptxas says: line 2;\nnonsense\n");
    return 218;
  }
  *made = &module;
DONE
CALL(cuModuleUnload, void *gone)
  (void)gone;
DONE
CALL(cuModuleGetFunction, void **found, void *from, const char *name)
  for (int i = 0; i < 2; i++) {
    if (from == &module && strcmp(name, kernels[i]) == 0) {
      *found = (void *)&kernels[i];
      return 0;
    }
  }
  return NOT_FOUND;
}
CALL(cuFuncGetAttribute, int *value, int attribute, void *function)
  *value = attribute == 0 && is_kernel(function) ? 512 : 64;
DONE
CALL(cuFuncSetAttribute, void *function, int attribute, int value)
  if (!is_kernel(function) || attribute != 8 || value != 232448 - 64) {
    return INVALID_VALUE;
  }
DONE
#ifndef WITHOUT_PARAM_INFO
CALL(cuFuncGetParamInfo, void *function, size_t index, size_t *offset, size_t *bytes)
  if (!is_kernel(function) || index >= 3) {
    return INVALID_VALUE;
  }
  *offset = 8 * index;
  *bytes = 8;
DONE
#endif
CALL(cuLaunchKernel, void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
     unsigned block_y, unsigned block_z, unsigned shared_bytes, stream_t *stream, void **args, void **extra)
  const launch_t launch = {function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, args, extra};
  if (refuse_launch(&launch) != 0) {
    return INVALID_VALUE;
  }
  const copy_t copy = copy_of(&launch);
  if (stream->capturing) {
    stream->recorded = copy;
  } else {
    memcpy(copy.dst, copy.src, copy.bytes);
  }
DONE
CALL(cuModuleGetGlobal_v2, devptr *ptr, size_t *bytes, void *from, const char *name)
  if (from != &module || strcmp(name, "_ZZ5earlyE12begins_early") != 0) {
    return NOT_FOUND;
  }
  *ptr = 4096;
  *bytes = 1;
DONE
CALL(cuLaunchKernelEx, const config_t *config, void *function, void **args, void **extra)
  if (function != &kernels[1] || config->count != 1 || config->attributes->id != 6 || config->attributes->value != 1) {
    return INVALID_VALUE;
  }
  return cuLaunchKernel(function, config->grid[0], config->grid[1], config->grid[2], config->block[0], config->block[1],
                        config->block[2], config->shared_bytes, config->stream, args, extra);
}
CALL(cuStreamBeginCapture_v2, stream_t *stream, int mode)
  if (mode != 2 || stream->capturing) {
    return INVALID_VALUE;
  }
  stream->capturing = 1;
DONE
CALL(cuStreamEndCapture, stream_t *stream, graph_t **graph)
  stream->capturing = 0;
  *graph = calloc(1, sizeof **graph);
  (*graph)->nodes[(*graph)->count++] = stream->recorded;
DONE
#ifndef WITHOUT_CHAINS
CALL(cuGraphCreate, graph_t **graph, unsigned flags)
  if (flags != 0) {
    return INVALID_VALUE;
  }
  *graph = calloc(1, sizeof **graph);
DONE
/* Each node must come behind the one before. The edge is given here, or by cuGraphAddDependencies_v2. */
CALL(cuGraphAddKernelNode, copy_t **node, graph_t *graph, copy_t *const *before, size_t count, const launch_t *launch)
  const int is_behind = graph->count > 0 && count == 1 && before[0] == &graph->nodes[graph->count - 1];
  if ((count > 0 && !is_behind) || graph->count == sizeof graph->nodes / sizeof *graph->nodes ||
      refuse_launch(launch) != 0) {
    return INVALID_VALUE;
  }
  graph->edges += count;
  *node = &graph->nodes[graph->count++];
  **node = copy_of(launch);
DONE
#ifndef WITHOUT_EARLY
/* Only a kernel that waits may begin early. */
CALL(cuGraphAddDependencies_v2, graph_t *graph, copy_t *const *from, copy_t *const *to, const unsigned char *edge,
     size_t count)
  static const unsigned char programmatic[8] = {1, 0, 1};
  const copy_t *last = &graph->nodes[graph->count - 1];
  const int is_chain = count == 1 && *from == last - 1 && *to == last;
  if (!is_chain || last->function != &kernels[1] || memcmp(edge, programmatic, sizeof programmatic) != 0) {
    return INVALID_VALUE;
  }
  graph->edges++;
DONE
#endif
CALL(cuGraphExecKernelNodeSetParams, graph_t *instance, const copy_t *node, const launch_t *launch)
  for (size_t i = 0; i < instance->count; i++) {
    if (node == &instance->origin->nodes[i] && node->function == launch->function && refuse_launch(launch) == 0) {
      instance->nodes[i] = copy_of(launch);
      return 0;
    }
  }
  return INVALID_VALUE;
}
#endif
CALL(cuGraphInstantiateWithFlags, graph_t **instance, const graph_t *graph, unsigned long long flags)
  if (flags != 0 || graph->edges + 1 != graph->count) {
    return INVALID_VALUE;
  }
  *instance = malloc(sizeof **instance);
  **instance = *graph;
  (*instance)->origin = graph;
DONE
CALL(cuGraphDestroy, graph_t *graph)
  free(graph);
DONE
#ifndef WITHOUT_GRAPHS
CALL(cuGraphLaunch, const graph_t *graph, stream_t *stream)
  (void)stream;
  for (size_t i = 0; i < graph->count; i++) {
    memcpy(graph->nodes[i].dst, graph->nodes[i].src, graph->nodes[i].bytes);
  }
DONE
#endif
CALL(cuGraphExecDestroy, graph_t *instance)
  free(instance);
DONE
