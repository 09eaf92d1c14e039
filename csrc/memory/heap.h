/* heap.h: the folder memory/ is the caching allocator of a GPU, shared by all handles on that GPU.
 *
 *   memory.c         the public functions: crk_alloc, crk_free, crk_memory_*, crk_host_*
 *   heap.c           handles and their fences, returning segments to the driver, graphs
 *   heap_blocks.c    segments, blocks, and the lists and the table that they are in
 *   heap_registry.c  the heaps of the process, one per GPU
 *
 * Segments are allocations from the driver. They are cut into blocks. An allocation gets the smallest free block that
 * holds it, and the part that it does not need is cut off. A freed block is joined with its free neighbours.
 * Allocations of up to 1 MiB have segments of their own, so that they do not break up large blocks.
 *
 * A block that handle A freed can be given to A again at once, because its next use is later in A's stream. Other
 * handles can get it only after an event of A (a fence) has passed; the host never waits for that.
 *
 * A segment without a live block is returned to the driver in three cases: the cache is above its limit, a large
 * segment is needed in its place, or the segment was not used for many synchronisations. It is returned only while all
 * streams of the GPU are idle, because freeing may make the driver wait for the GPU.
 *
 * A graph uses every block that was given out or freed during its capture. Such a block is given out again only after
 * all graphs that use it are destroyed, because a replay would overwrite it. */
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
  struct crk_block *next, *previous; /* free: in a list of `bins`; given out: `next` in the table */
  unsigned char *ptr;
  size_t bytes;
  crk_device_t owner; /* given out: to this handle; free: its stream may still use the block, NULL if none does */
  crk_bins_t *bins;   /* of a free block; else NULL */
  uint64_t stamp;     /* the heap's clock when the block was freed */
  uint32_t graphs;    /* number of graphs that use the block */
  crk_graph_t noted;  /* the graph that added it to its list last */
  bool is_retired;    /* freed, but still used by graphs */
} crk_block_t;

enum { CRK_SIZE_CLASSES = 8 * 64 };

/* Free blocks by size, with eight size classes per power of two. Pool 0 is for small segments, pool 1 for large
 * ones. */
struct crk_bins {
  struct {
    crk_block_t *lists[CRK_SIZE_CLASSES];
    uint64_t occupied[CRK_SIZE_CLASSES / 64]; /* one bit per list, set if it is not empty */
  } pools[2];
};

typedef struct crk_heap {
  struct crk_heap *next; /* in the list of all heaps */
  uint32_t references; /* number of contexts; guarded by the lock of the list of heaps */
  const crk_driver_t *driver;
  crk_driver_device_t *gpu;
  crk_mutex_t lock; /* guards everything below, and the crk_memory_t of each handle on the GPU */
  crk_device_t handles; /* all handles on this GPU */
  crk_bins_t idle; /* free blocks that no stream uses */
  crk_segment_t *segments, *oldest_empty, *newest_empty;
  crk_block_t **table; /* given-out blocks by address: a hash table with chains */
  size_t table_size, table_count;
  uint64_t clock; /* counts fences and waits; a fence or wait gets the new value as its stamp when it begins */
  size_t limit; /* for `cached_bytes`, set by crk_memory_set_cache_limit */
  size_t cached_bytes; /* free blocks, without those of `aside_bytes` */
  size_t aside_bytes; /* blocks reserved, or freed in a running capture */
  size_t retired_bytes;
  uint32_t freeing; /* threads that are returning segments to the driver */
  crk_condition_t freed; /* signalled when such a thread is done */
  size_t segment_bytes[2], peak_segment_bytes; /* of all segments, by pool; the maximum of their sum */
  size_t replaced_bytes; /* of segments returned to make room for others, or because they were unused */
  uint64_t synchronisations; /* calls of crk_priv_heap_synchronize so far */
  uint32_t unused_limit; /* after as many of them an empty segment goes back; 0: none went back yet */
} crk_heap_t;

/* The allocator's part of a device handle. */
typedef struct crk_memory {
  crk_device_t next; /* in the list of handles on the same GPU */
  crk_bins_t bins; /* free blocks that the handle's stream may still use */
  crk_bins_t captured; /* blocks freed in the running capture */
  crk_bins_t reserved; /* blocks set aside by crk_memory_reserve */
  crk_driver_event_t *fence; /* an event on the handle's stream; NULL until first needed */
  uint64_t fence_stamp; /* blocks freed before this stamp are idle when `fence` has passed; 0: fence not recorded */
  crk_memory_stats_t stats;
} crk_memory_t;

/* The blocks that a graph uses. */
typedef struct crk_block_list {
  crk_block_t **blocks;
  size_t count, capacity;
} crk_block_list_t;

/* Returns the heap of a GPU, with one more reference; creates it if there is none. NULL if there is no host memory. */
crk_heap_t *crk_priv_heap_acquire(const crk_driver_t *driver, crk_driver_device_t *gpu, uint64_t memory_bytes);
void crk_priv_heap_release(crk_heap_t *heap);

/* A handle joins its context's heap, and later leaves it; its stream must be idle then. All blocks of a leaving handle
 * become free. When the last handle leaves, all memory is returned to the driver. */
void crk_priv_heap_join(crk_device_t device);
void crk_priv_heap_leave(crk_device_t device);

/* Allocates memory for the library itself from the driver. If the driver is out of memory and the handle is not being
 * captured, empties the GPU's cache, which waits for the GPU, and tries again. */
crk_status_t crk_priv_heap_driver_alloc(crk_device_t self, size_t bytes, void **ptr);
crk_status_t crk_priv_heap_host_alloc(crk_device_t self, size_t bytes, void **ptr);
crk_status_t crk_priv_heap_coherent_alloc(crk_device_t self, size_t bytes, void **ptr); /* host memory */

/* As crk_alloc, for memory that the caller can do without: it empties no cache. Returns false where there is none. */
bool crk_priv_alloc_spare(crk_device_t self, size_t bytes, void **ptr);

/* Waits for the handle's stream, which is not being captured. If the other streams of the GPU are idle too, it then
 * returns segments to the driver: unused ones, and those above the cache's limit. */
crk_status_t crk_priv_heap_synchronize(crk_device_t device);

/* Called before and after a wait for the handle's stream. Blocks freed before `begin` are idle after `end`. */
uint64_t crk_priv_heap_wait_begin(crk_device_t device);
void crk_priv_heap_wait_end(crk_device_t device, uint64_t stamp);

/* Ends a capture in one step: the blocks that it freed are retired, and the handle is no longer being captured. */
void crk_priv_heap_capture_end(crk_device_t device, crk_graph_t graph);

/* Releases the blocks of a graph that is being destroyed: those that no other graph uses can be given out again. */
void crk_priv_heap_graph_destroy(crk_device_t device, crk_graph_t graph);

#endif
