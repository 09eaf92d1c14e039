/* The CPU driver of a build without the feature `cpu`. */
#include "driver/driver.h"
#include "error.h"

static crk_status_t none_load(void) {
  return crk_priv_error(CRK_NO_RUNTIME, "this build has no kernels for the CPU; build with the cargo feature `cpu`");
}

static crk_status_t none_device_count(int32_t *count) {
  (void)count;
  return none_load();
}

static crk_status_t none_device_get(int32_t ordinal, crk_driver_device_t **device) {
  (void)ordinal;
  (void)device;
  return none_load();
}

static crk_image_t none_builtin(size_t index) {
  (void)index;
  const crk_image_t image = {NULL, 0};
  return image;
}

/* The other calls stay NULL: they need a device, and there is none. */
const crk_driver_t crk_priv_driver_cpu = {
    .backend = CRK_BACKEND_CPU,
    .load = none_load,
    .device_count = none_device_count,
    .device_get = none_device_get,
    .builtin = none_builtin,
};
