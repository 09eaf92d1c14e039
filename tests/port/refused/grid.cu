// Blocks cannot wait for each other.
#include <cooperative_groups.h>
extern "C" __global__ void wait(int *x) {
  x[0] = 1;
  cooperative_groups::this_grid().sync(); // error: blocks cannot wait for each other here
}
