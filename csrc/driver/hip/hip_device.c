/* The devices of the HIP driver, and their description. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/hip/hip_calls.h"
#include "driver/hip/hip_driver.h"
#include "image/code_object.h"
#include "os/os.h"

/* The byte offsets of two fields in a struct of device properties. There are two such structs. hipGetDeviceProperties
 * fills the struct of HIP 5, in later libraries too. hipGetDevicePropertiesR0600 fills the struct of HIP 6. Both
 * begin with the device's name. */
typedef struct properties_shape {
  size_t total_memory, architecture;
} properties_shape_t;

static const properties_shape_t shape_r0600 = {288, 1160}, shape_5 = {256, 396};

enum {
  NAME_BYTES = 256,
  PROPERTIES_BYTES = 8192 /* 792 in HIP 5, 1472 since HIP 6; the rest is room for later members */
};

static crk_mutex_t devices_lock = CRK_MUTEX_INIT; /* guards `devices` */
static struct crk_driver_device *devices;

crk_status_t crk_priv_hip_device_count(int32_t *count) {
  int found = 0;
  const int code = crk_priv_hip.hipGetDeviceCount(&found);
  if (code == HIP_NO_DEVICE) { /* a runtime without a GPU */
    crk_priv_hip_forget_error();
    found = 0;
  } else {
    HIP_TRY(code, "hipGetDeviceCount");
  }
  *count = found < 0 ? 0 : found;
  return CRK_OK;
}

static crk_status_t hip_attribute(int ordinal, int number, const char *name, uint32_t *value) {
  int answer = 0;
  HIP_TRY(crk_priv_hip.hipDeviceGetAttribute(&answer, number, ordinal), "hipDeviceGetAttribute(%s, device %d)", name,
          ordinal);
  if (answer <= 0) {
    return crk_priv_error(CRK_DEVICE, "hipDeviceGetAttribute(%s, device %d) gives %d; it must be above 0", name,
                          ordinal, answer);
  }
  *value = (uint32_t)answer;
  return CRK_OK;
}

/* Computes SIMD units and shared memory per unit. On RDNA, HIP counts a workgroup processor, which is two compute
 * units, as one multiprocessor; with GPU_ENABLE_WGP_MODE=0 it counts each compute unit (clr: rocdevice.cpp,
 * rocsettings.cpp, paldevice.cpp). Its count of physical multiprocessors is the same. The number of threads per
 * multiprocessor tells the two cases apart. */
static void describe_units(crk_device_info_t *info) {
  const crk_architecture_t *architecture = crk_priv_architecture_find(info->architecture);
  if (architecture == NULL) { /* an architecture that this project has no kernels for */
    info->simd_units = 4 * info->compute_units;
    info->unit_shared_bytes = info->shared_bytes;
    return;
  }
  const uint32_t threads = info->wave_size * architecture->simd.units * architecture->simd.waves;
  const uint32_t counted = info->unit_threads > threads + threads / 2 ? 2 : 1;
  info->simd_units = info->compute_units * counted * architecture->simd.units;
  info->unit_shared_bytes = (uint64_t)counted * architecture->simd.shared_kib << 10;
}

/* The L2 caches that the blocks of a launch go to in turn: one per accelerator die (XCC) of the device's partition.
 * Runtimes before HIP 7 do not know the attribute, and some give 0. */
static void describe_caches(int ordinal, crk_device_info_t *info) {
  int caches = 0;
  if (crk_priv_hip.hipDeviceGetAttribute(&caches, HIP_ATTRIBUTE_NUMBER_OF_XCCS, ordinal) != HIP_SUCCESS) {
    crk_priv_hip_forget_error();
    caches = 0;
  }
  info->l2_caches = caches > 0 ? (uint64_t)caches : 1;
}

/* The PCI address, from a text such as "0000:03:00.0". It stays 0 if the runtime lacks the call, fails, or has another
 * text: a device works without it. */
static void describe_pci(int ordinal, crk_device_info_t *info) {
  char text[64] = "";
  if (crk_priv_hip.hipDeviceGetPCIBusId == NULL) {
    return;
  }
  if (crk_priv_hip.hipDeviceGetPCIBusId(text, (int)sizeof text, ordinal) != HIP_SUCCESS) {
    crk_priv_hip_forget_error();
    return;
  }
  text[sizeof text - 1] = 0;
  unsigned domain, bus, device;
  if (sscanf(text, "%x:%x:%x", &domain, &bus, &device) == 3) {
    info->pci_domain = domain;
    info->pci_bus = bus;
    info->pci_device = device;
  }
}

static crk_status_t hip_describe_device(int ordinal, crk_driver_device_t *device) {
  unsigned char *properties = calloc(1, PROPERTIES_BYTES);
  if (properties == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "hipGetDeviceProperties(device %d): no host memory for the properties",
                          ordinal);
  }
  const bool r0600 = crk_priv_hip.hipGetDevicePropertiesR0600 != NULL;
  const properties_shape_t *shape = r0600 ? &shape_r0600 : &shape_5;
  const int code = r0600 ? crk_priv_hip.hipGetDevicePropertiesR0600(properties, ordinal)
                         : crk_priv_hip.hipGetDeviceProperties(properties, ordinal);
  char name[NAME_BYTES];
  uint64_t memory = 0;
  memcpy(name, properties, sizeof name);
  memcpy(device->target, properties + shape->architecture, sizeof device->target);
  memcpy(&memory, properties + shape->total_memory, sizeof memory);
  free(properties);
  const char *call = r0600 ? "hipGetDevicePropertiesR0600" : "hipGetDeviceProperties";
  HIP_TRY(code, "%s(device %d)", call, ordinal);
  name[sizeof name - 1] = 0;
  device->target[sizeof device->target - 1] = 0;
  crk_device_info_t *info = &device->info;
  const size_t length = strcspn(device->target, ":");
  if (strncmp(device->target, "gfx", 3) != 0 || length >= sizeof info->architecture ||
      strlen(device->target) >= sizeof info->target) {
    return crk_priv_error(CRK_DEVICE, "%s(device %d) gives '%.60s', which is no AMD architecture", call, ordinal,
                          device->target);
  }
  info->backend = CRK_BACKEND_HIP;
  info->ordinal = ordinal;
  memcpy(info->name, name, sizeof info->name);
  memcpy(info->architecture, device->target, length);
  info->architecture[length] = 0;
  strcpy(info->target, device->target);
  uint32_t shared = 0;
  CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_WARP_SIZE, "warp size", &info->wave_size));
  CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT, "multiprocessor count", &info->compute_units));
  CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "threads per block", &info->max_block_threads));
  CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, "threads per multiprocessor",
                        &info->unit_threads));
  CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, "shared memory per block", &shared));
  for (int i = 0; i < 3; i++) {
    CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MAX_BLOCK_DIM_X + i, "dims of a block", &info->max_block[i]));
    CRK_TRY(hip_attribute(ordinal, HIP_ATTRIBUTE_MAX_GRID_DIM_X + i, "dims of a grid", &info->max_grid[i]));
  }
  int version = 0;
  HIP_TRY(crk_priv_hip.hipRuntimeGetVersion(&version), "hipRuntimeGetVersion");
  info->runtime_version = (uint32_t)version;
  info->max_grid_threads = UINT32_MAX; /* the dispatch packet counts the threads along a dim of the grid in 32 bits */
  info->memory_bytes = memory;
  info->shared_bytes = shared;
  describe_units(info);
  describe_caches(ordinal, info);
  describe_pci(ordinal, info);
  device->ordinal = ordinal;
  return CRK_OK;
}

static crk_status_t hip_device_get_locked(int32_t ordinal, crk_driver_device_t **device) {
  for (crk_driver_device_t *known = devices; known != NULL; known = known->next) {
    if (known->ordinal == ordinal) {
      *device = known;
      return CRK_OK;
    }
  }
  crk_driver_device_t *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "device %d: no host memory for its description", ordinal);
  }
  crk_status_t status = hip_describe_device(ordinal, fresh);
  if (status == CRK_OK) {
    status = crk_priv_hip_bind(fresh);
  }
  if (status != CRK_OK) {
    free(fresh);
    return status;
  }
  fresh->next = devices;
  devices = fresh;
  *device = fresh;
  return CRK_OK;
}

crk_status_t crk_priv_hip_device_get(int32_t ordinal, crk_driver_device_t **device) {
  crk_priv_mutex_lock(&devices_lock);
  const crk_status_t status = hip_device_get_locked(ordinal, device);
  crk_priv_mutex_unlock(&devices_lock);
  return status;
}

crk_status_t crk_priv_hip_device_info(crk_driver_device_t *device, crk_device_info_t *info) {
  *info = device->info;
  return CRK_OK;
}

crk_status_t crk_priv_hip_device_memory(crk_driver_device_t *device, size_t *free_bytes, size_t *total_bytes) {
  CRK_TRY(crk_priv_hip_bind(device));
  size_t free_now = 0, total = 0;
  HIP_TRY(crk_priv_hip.hipMemGetInfo(&free_now, &total), "hipMemGetInfo(device %d)", device->ordinal);
  *free_bytes = free_now;
  *total_bytes = total;
  return CRK_OK;
}
