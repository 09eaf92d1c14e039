/* Chains of the HIP driver. The nodes belong to the graph, so the graph lives as long as its executable. ROCm 6.2 and
 * later free a running executable when it has ended. */
#include <stdlib.h>

#include "driver/hip/hip_calls.h"
#include "driver/hip/hip_driver.h"

struct crk_driver_chain {
  void *graph, *exec;
  void *nodes[];
};

static crk_hip_node_t node_of(const crk_driver_launch_t *launch) {
  return (crk_hip_node_t){.block = launch->block,
                          .function = launch->function->handle,
                          .grid = launch->grid,
                          .args = crk_priv_driver_args(launch->args),
                          .shared_bytes = launch->shared_bytes};
}

static crk_status_t record(crk_driver_chain_t *chain, const crk_driver_launch_t *launches, size_t count) {
  HIP_TRY(crk_priv_hip.hipGraphCreate(&chain->graph, 0), "hipGraphCreate");
  for (size_t i = 0; i < count; i++) {
    const crk_hip_node_t node = node_of(&launches[i]);
    HIP_TRY(crk_priv_hip.hipGraphAddKernelNode(&chain->nodes[i], chain->graph, i > 0 ? &chain->nodes[i - 1] : NULL,
                                               i > 0, &node),
            "hipGraphAddKernelNode");
  }
  HIP_TRY(crk_priv_hip.hipGraphInstantiate(&chain->exec, chain->graph, NULL, NULL, 0), "hipGraphInstantiate");
  return CRK_OK;
}

void crk_priv_hip_chain_destroy(crk_driver_device_t *device, crk_driver_chain_t *chain) {
  if (chain->exec != NULL) {
    RELEASE(device, crk_priv_hip.hipGraphExecDestroy(chain->exec));
  }
  if (chain->graph != NULL) {
    RELEASE(device, crk_priv_hip.hipGraphDestroy(chain->graph));
  }
  free(chain);
}

crk_status_t crk_priv_hip_chain_create(crk_driver_device_t *device, const crk_driver_launch_t *launches, size_t count,
                                       crk_driver_chain_t **chain) {
  NEED(hipGraphCreate);
  NEED(hipGraphAddKernelNode);
  NEED(hipGraphExecKernelNodeSetParams);
  NEED(hipGraphInstantiate);
  NEED(hipGraphLaunch);
  NEED(hipGraphExecDestroy);
  NEED(hipGraphDestroy);
  int version = 0;
  (void)crk_priv_hip_path(&version);
  if (version < CRK_HIP_VERSION(6, 2)) {
    return crk_priv_error(CRK_UNSUPPORTED, "HIP %d.%d frees a graph that is running; 6.2 and later wait for its end",
                          CRK_HIP_VERSION_MAJOR(version), CRK_HIP_VERSION_MINOR(version));
  }
  CRK_TRY(crk_priv_hip_bind(device));
  crk_driver_chain_t *fresh = calloc(1, sizeof *fresh + count * sizeof *fresh->nodes);
  if (fresh == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "no host memory for a graph of %zu launches", count);
  }
  const crk_status_t status = record(fresh, launches, count);
  if (status != CRK_OK) {
    crk_priv_hip_chain_destroy(device, fresh);
    return status;
  }
  *chain = fresh;
  return CRK_OK;
}

crk_status_t crk_priv_hip_chain_update(crk_driver_device_t *device, crk_driver_chain_t *chain, size_t index,
                                       const crk_driver_launch_t *launch) {
  const crk_hip_node_t node = node_of(launch);
  CRK_TRY(crk_priv_hip_bind(device));
  HIP_TRY(crk_priv_hip.hipGraphExecKernelNodeSetParams(chain->exec, chain->nodes[index], &node),
          "hipGraphExecKernelNodeSetParams");
  return CRK_OK;
}

crk_status_t crk_priv_hip_chain_launch(crk_driver_device_t *device, crk_driver_chain_t *chain,
                                       crk_driver_stream_t *stream) {
  return crk_priv_hip_graph_launch(device, (crk_driver_graph_t *)chain->exec, stream);
}
