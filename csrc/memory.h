/* The caching allocator of a device handle.
 *
 * Blocks come from the driver in size classes, eight to a power of two, and go back to a list of their class when freed.
 * One handle has one stream, so that a freed block can be given out again at once: whoever gets it works later in the
 * stream. Blocks are kept until the bound on cached bytes (of all handles on the device) is passed; then those that were
 * freed longest ago go back to the driver.
 *
 * A block that is given out or freed while a graph is captured belongs to that graph: once the capture has ended it is not
 * given out again before the graph is destroyed, since a replay uses it. */
#ifndef CRK_MEMORY_H
#define CRK_MEMORY_H

#include "candle_rocm.h"

enum { CRK_SIZE_CLASSES = 8 * 64 };

typedef struct crk_block {
  struct crk_block *next_in_table;
  struct crk_block *next, *previous;   /* in the free list of its class */
  struct crk_block *newer, *older;     /* among all free blocks, by the time of freeing */
  void *ptr;
  size_t bytes;
  crk_graph_t graph; /* the graph whose replays use it, else NULL */
  uint32_t size_class;
  bool is_free;     /* in the lists above */
  bool is_retired;  /* freed by its owner, kept for `graph` */
  bool is_reserved; /* by crk_memory_reserve, not yet used: not evicted */
} crk_block_t;

typedef struct crk_heap {
  crk_block_t *free[CRK_SIZE_CLASSES];
  crk_block_t *newest, *oldest;
  crk_block_t **table; /* all blocks by address: a hash table with chains */
  size_t table_size, block_count;
  crk_memory_stats_t stats;
} crk_heap_t;

/* Memory from the driver, for the driver's `free`. Where there is not enough, all caches on the GPU are given back, and
 * the driver is asked once more. Not to be called while the handle is captured. */
crk_status_t crk_priv_heap_driver_alloc(crk_device_t self, size_t bytes, void **ptr);

/* The end of a capture: the graph's free blocks leave the free lists. */
void crk_priv_heap_capture_end(crk_device_t device, crk_graph_t graph);

/* The end of a graph: its blocks are ordinary ones again. */
void crk_priv_heap_graph_destroy(crk_device_t device, crk_graph_t graph);

/* Returns every block to the driver, live ones too. The stream is idle. */
void crk_priv_heap_deinit(crk_device_t device);

#endif
