/* The caching allocator of a GPU, which all handles on it share.
 *
 * Segments come from the driver and are cut into blocks. A freed block is joined with its free neighbours. The block
 * that an allocation gets is the smallest that holds it; what it does not need is cut off again. Allocations of up to
 * 1 MiB have segments of their own, so that they do not break up large blocks.
 *
 * A block that handle A freed may be given to A again at once: its next user works later in A's stream. For the other
 * handles it waits until an event of A has passed (a fence); nobody waits on the host for that. Segments without a
 * live block go back to the driver when the cache is larger than its bound, when a large one is needed, or when they
 * were not used through many synchronisations; and only while all streams of the GPU are idle, since the driver may
 * wait for the GPU when it frees.
 *
 * A block that was given out or freed while a graph was captured is used by that graph. It is given out again only
 * after every graph that uses it was destroyed, since a replay would overwrite it. */
#ifndef CRK_HEAP_H
#define CRK_HEAP_H

#include <stdatomic.h>

#include "candle_rocm.h"
#include "driver/driver.h"
#include "os/os.h"

typedef struct crk_bins crk_bins_t;
typedef struct crk_segment crk_segment_t;

typedef struct crk_block {
  crk_segment_t *segment;
  struct crk_block *left, *right;    /* neighbours in the segment */
  struct crk_block *next, *previous; /* free: in a list of its bins; given out: `next` in the table */
  unsigned char *ptr;
  size_t bytes;
  crk_device_t owner; /* given out: to this handle; free: its stream may still use the block; NULL: no stream does */
  crk_bins_t *bins;   /* the bins that a free block lies in, else NULL */
  uint64_t stamp;     /* the heap's clock when the block was freed */
  uint32_t graphs;    /* graphs that use it */
  crk_graph_t noted;  /* the last of them that took it into its list */
  bool is_retired;    /* freed, kept for `graphs` */
} crk_block_t;

enum { CRK_SIZE_CLASSES = 8 * 64 };

/* Free blocks by size: eight classes to a power of two, one set for small segments and one for large ones. */
struct crk_bins {
  struct {
    crk_block_t *lists[CRK_SIZE_CLASSES];
    uint64_t occupied[CRK_SIZE_CLASSES / 64]; /* a bit for each list that is not empty */
  } pools[2];
};

typedef struct crk_heap {
  struct crk_heap *next; /* in the list of all heaps */
  uint32_t references;   /* contexts; guarded by the list's lock */
  const crk_driver_t *driver;
  crk_driver_device_t *gpu;
  crk_mutex_t lock;     /* everything below, and the crk_memory_t of each handle on the GPU */
  crk_device_t handles; /* on this GPU */
  crk_bins_t idle;      /* blocks that no stream uses */
  crk_segment_t *segments, *oldest_empty, *newest_empty;
  crk_block_t **table; /* blocks that are given out, by address: a hash table with chains */
  size_t table_size, table_count;
  uint64_t clock; /* fences and waits that have begun */
  size_t limit;   /* of `cached_bytes` */
  size_t cached_bytes; /* free; without the next */
  size_t aside_bytes;  /* reserved, or in a capture's hands */
  size_t retired_bytes;
  uint32_t freeing;      /* threads that give segments back to the driver */
  crk_condition_t freed; /* one of them has */
  size_t segment_bytes[2], peak_segment_bytes; /* from the driver: of small and large segments; the most of both */
  size_t replaced_bytes; /* of segments that went back to make room for others, or because they were not used */
  uint64_t synchronisations; /* of handles with the GPU, so far */
} crk_heap_t;

/* The part of a device handle that its heap keeps. */
typedef struct crk_memory {
  crk_device_t next;      /* on the same GPU */
  crk_bins_t bins;        /* free blocks that the handle's stream may still use */
  crk_bins_t captured;    /* freed in the capture that goes on now */
  crk_bins_t reserved;    /* by crk_memory_reserve */
  crk_driver_event_t *fence; /* NULL until first needed */
  uint64_t fence_ticket;  /* blocks freed before this time of the clock are idle once `fence` has passed; 0: none */
  crk_memory_stats_t stats;
} crk_memory_t;

/* The blocks that a graph uses. */
typedef struct crk_block_list {
  crk_block_t **blocks;
  size_t count, capacity;
} crk_block_list_t;

/* The heap of a GPU, made where there is none; a reference of it. NULL without host memory. */
crk_heap_t *crk_priv_heap_acquire(const crk_driver_t *driver, crk_driver_device_t *gpu, uint64_t memory_bytes);
void crk_priv_heap_release(crk_heap_t *heap);

/* A handle joins its context's heap, and leaves it with all its blocks. The stream of one that leaves is idle. With the
 * last handle all memory goes back to the driver. */
void crk_priv_heap_join(crk_device_t device);
void crk_priv_heap_leave(crk_device_t device);

/* Memory for the library itself, from the driver. Out of memory, every cache on the GPU is emptied, which waits, and the
 * driver is asked once more; not while the handle is captured. */
crk_status_t crk_priv_heap_driver_alloc(crk_device_t self, size_t bytes, void **ptr);
crk_status_t crk_priv_heap_host_alloc(crk_device_t self, size_t bytes, void **ptr);
crk_status_t crk_priv_heap_coherent_alloc(crk_device_t self, size_t bytes, void **ptr); /* of the host */

/* Waits for the handle's stream, which is not captured. Then gives the driver what the cache holds above its bound, if the
 * other streams of the GPU are idle, too. */
crk_status_t crk_priv_heap_synchronize(crk_device_t device);

/* Around a wait for the handle's stream: blocks that it had freed before are idle after it. */
uint64_t crk_priv_heap_wait_begin(crk_device_t device);
void crk_priv_heap_wait_end(crk_device_t device, uint64_t ticket);

/* The capture has ended: its graph's free blocks are retired and the handle is no longer captured, in one step. */
void crk_priv_heap_capture_end(crk_device_t device, crk_graph_t graph);

/* The end of a graph: what no other graph uses is ordinary memory again. */
void crk_priv_heap_graph_destroy(crk_device_t device, crk_graph_t graph);

#endif
