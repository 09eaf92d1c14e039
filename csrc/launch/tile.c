/* The tiled copy (kernels/elementwise/tile.h): which copies it suits, and its launch. */
#include "launch/elementwise.h"

enum { SMALLEST_EDGE = 16 /* a dim of fewer elements leaves most of a tile empty */ };

static uint32_t tile_count(uint64_t size, uint32_t edge) {
  return (uint32_t)crk_priv_least((size + edge - 1) / edge, CRK_MOST_GRID_YZ);
}

bool crk_priv_tile_init(const crk_nd_t *nd, uint32_t bytes, const void *src, const void *dst, crk_tile_t *tile) {
  const uint64_t *strides = nd->strides[0];
  if (nd->rank < 2 || strides[0] <= 1 || nd->dims[0].size < SMALLEST_EDGE) {
    return false;
  }
  uint32_t column = 1;
  while (column < nd->rank && strides[column] != 1) {
    column++;
  }
  if (column == nd->rank || nd->dims[column].size < SMALLEST_EDGE) {
    return false;
  }
  const uint32_t vector = CRK_VECTOR_ELEMENTS(bytes);
  bool aligned = (uintptr_t)src % 16 == 0 && (uintptr_t)dst % 16 == 0;
  size_t dims[CRK_ND_RANK], from[CRK_ND_RANK], to[CRK_ND_RANK], numel = 1, dst_stride = 1;
  uint32_t rest = 0;
  for (uint32_t d = 0; d < nd->rank; d++) {
    const size_t size = nd->dims[d].size;
    if (d == column) {
      tile->columns = size;
      tile->column_stride = dst_stride;
    } else if (d != 0) {
      dims[rest] = size;
      from[rest] = strides[d];
      to[rest++] = dst_stride;
      numel *= size;
    }
    aligned = aligned && (d == column ? size : strides[d]) % vector == 0;
    dst_stride *= size;
  }
  tile->rows = nd->dims[0].size;
  tile->row_stride = strides[0];
  tile->by_vectors = aligned && tile->rows % vector == 0;
  const size_t *const both[] = {from, to};
  crk_priv_nd_init(&tile->rest, numel, rest, dims, both, 2, 1);
  return true;
}

crk_status_t crk_priv_tile_launch(crk_device_t self, uint32_t bytes, crk_tile_t *tile, const void *src, void *dst) {
  crk_function_t function;
  CRK_TRY(CRK_KERNEL_GET(self, CRK_SLOT_COPY_TILE + crk_priv_width_index(bytes), CRK_MODULE_UNARY, &function,
                         "ucopy_%s_tile", crk_priv_width_name(bytes)));
  const uint32_t edge = CRK_TILE_EDGE(bytes), threads = CRK_TILE_THREADS(bytes);
  crk_dim3_t grid = {tile_count(tile->rows, edge), tile_count(tile->columns, edge), 1};
  const uint64_t most = self->context->info.max_grid_threads / threads / grid.x / grid.y;
  const uint64_t deep = tile->rest.numel < most ? tile->rest.numel : most;
  grid.z = deep < 1 ? 1 : deep < CRK_MOST_GRID_YZ ? (uint32_t)deep : CRK_MOST_GRID_YZ;
  tile->grid[0] = grid.x;
  tile->grid[1] = grid.y;
  tile->grid[2] = grid.z;
  const void *args[] = {tile, &src, &dst};
  return crk_priv_launch_blocks(self, function, grid, (crk_dim3_t){threads, 1, 1}, 0, args);
}
