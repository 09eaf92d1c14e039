/* The AMD driver: libamdhip64, opened at run time. This file loads the library, makes its errors sentences, and has the
 * table of the driver's functions.
 *
 * The library is never closed: a second initialisation in a process crashes. */
#include <stdarg.h>
#include <stdio.h>

#include "driver/hip/hip_calls.h"
#include "driver/hip/hip_driver.h"
#include "os/library.h"
#include "os/os.h"

crk_hip_calls_t crk_priv_hip;

crk_status_t crk_priv_hip_failed(int code, const char *format, ...) {
  char call[400];
  va_list args;
  va_start(args, format);
  vsnprintf(call, sizeof call, format, args);
  va_end(args);
  crk_priv_hip_forget_error();
  const char *name = crk_priv_hip.hipGetErrorName == NULL ? NULL : crk_priv_hip.hipGetErrorName(code);
  name = name == NULL ? "no name" : name;
  if (code == HIP_OUT_OF_MEMORY) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "%s answers %d (%s)", call, code, name);
  }
  return crk_priv_device_error(code, "%s answers %d (%s)", call, code, name);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Loading
 * ------------------------------------------------------------------------------------------------------------------ */

/* The names of the calls, in the order of crk_hip_calls_t. */
static const char *const hip_symbols[] = {
    CRK_HIP_REQUIRED_MAP(CRK_SYMBOL) CRK_HIP_OPTIONAL_MAP(CRK_SYMBOL_OPTIONAL) "?hipGetErrorName", NULL};

static crk_mutex_t load_lock = CRK_MUTEX_INIT; /* guards `loaded`, and the calls until they are loaded */
static bool loaded;

#if defined(_WIN32)
static const char remedy[] = "install AMD's driver or HIP SDK";
#else
static const char remedy[] = "install ROCm's HIP runtime, set ROCM_PATH to its root or LD_LIBRARY_PATH to its folder";
#endif

/* False where a required call is missing. */
static bool accept_hip_library(void *context, const char *missing, const char *path, char *why, size_t size) {
  (void)context;
  if (missing == NULL && crk_priv_hip.hipGetDevicePropertiesR0600 == NULL &&
      crk_priv_hip.hipGetDeviceProperties == NULL) {
    missing = "hipGetDevicePropertiesR0600 and hipGetDeviceProperties";
  }
  if (missing != NULL) {
    snprintf(why, size, "%s: %s is missing, so it is no HIP runtime of %d.%d or later", path, missing,
             CRK_HIP_VERSION_MAJOR(CRK_HIP_VERSION_OLDEST), CRK_HIP_VERSION_MINOR(CRK_HIP_VERSION_OLDEST));
  }
  return missing == NULL;
}

static crk_status_t hip_load_locked(void) {
  if (loaded) {
    return CRK_OK;
  }
  char named[4096] = "", why[800] = "";
  const bool is_named = crk_priv_variable("CANDLE_ROCM_HIP_LIBRARY", named, sizeof named);
  const crk_library_t search = {.stem = "amdhip64",
                                .vendor = &crk_priv_rocm,
                                .named = named,
                                .symbols = hip_symbols,
                                .functions = &crk_priv_hip,
                                .accept = accept_hip_library};
  crk_priv_hip.opened =
      crk_priv_library_find(&search, crk_priv_hip.library, sizeof crk_priv_hip.library, why, sizeof why);
  loaded = crk_priv_hip.opened != NULL;
  if (!loaded && is_named) {
    return crk_priv_error(CRK_NO_RUNTIME, "the HIP runtime %s, named by CANDLE_ROCM_HIP_LIBRARY, cannot be used: %s",
                          named, why);
  }
  if (!loaded) {
    return crk_priv_advise(crk_priv_error(CRK_NO_RUNTIME, "no HIP runtime: %s", why),
                           "%s, or name the file in CANDLE_ROCM_HIP_LIBRARY", remedy);
  }
  return CRK_OK;
}

void *crk_priv_hip_library(void) { return crk_priv_hip.opened; }

const char *crk_priv_hip_path(int *version) {
  *version = 0;
  if (crk_priv_hip.hipRuntimeGetVersion(version) != HIP_SUCCESS) {
    crk_priv_hip_forget_error();
    *version = 0;
  }
  return crk_priv_hip.library;
}

static crk_status_t hip_load(void) {
  crk_priv_mutex_lock(&load_lock);
  const crk_status_t status = hip_load_locked();
  crk_priv_mutex_unlock(&load_lock);
  return status;
}

/* ------------------------------------------------------------------------------------------------------------------ */

const crk_driver_t crk_priv_driver_hip = {
    .backend = CRK_BACKEND_HIP,
    .load = hip_load,
    .device_count = crk_priv_hip_device_count,
    .device_get = crk_priv_hip_device_get,
    .device_info = crk_priv_hip_device_info,
    .device_memory = crk_priv_hip_device_memory,
    .bind = crk_priv_hip_bind,
    .alloc = crk_priv_hip_alloc,
    .free = crk_priv_hip_free,
    .host_alloc = crk_priv_hip_host_alloc,
    .peer_alloc = crk_priv_hip_peer_alloc,
    .peer_free = crk_priv_hip_free,
    .peer_writes_in_order = crk_priv_hip_peer_writes_in_order,
    .peer_export = crk_priv_hip_peer_export,
    .peer_open = crk_priv_hip_peer_open,
    .peer_close = crk_priv_hip_peer_close,
    .host_alloc_coherent = crk_priv_hip_host_alloc_coherent,
    .host_free = crk_priv_hip_host_free,
    .copy = crk_priv_hip_copy,
    .copy_peer = crk_priv_hip_copy_peer,
    .peer_access = crk_priv_hip_peer_access,
    .memset = crk_priv_hip_memset,
    .stream_create = crk_priv_hip_stream_create,
    .stream_destroy = crk_priv_hip_stream_destroy,
    .stream_synchronize = crk_priv_hip_stream_synchronize,
    .stream_wait = crk_priv_hip_stream_wait,
    .event_create = crk_priv_hip_event_create,
    .event_destroy = crk_priv_hip_event_destroy,
    .event_record = crk_priv_hip_event_record,
    .event_query = crk_priv_hip_event_query,
    .event_synchronize = crk_priv_hip_event_synchronize,
    .event_elapsed = crk_priv_hip_event_elapsed,
    .builtin = crk_priv_hip_builtin,
    .module_load = crk_priv_hip_module_load,
    .module_unload = crk_priv_hip_module_unload,
    .module_function = crk_priv_hip_module_function,
    .launch = crk_priv_hip_launch,
    .capture_begin = crk_priv_hip_capture_begin,
    .capture_end = crk_priv_hip_capture_end,
    .graph_launch = crk_priv_hip_graph_launch,
    .chain_create = crk_priv_hip_chain_create,
    .chain_update = crk_priv_hip_chain_update,
    .chain_launch = crk_priv_hip_chain_launch,
    .chain_destroy = crk_priv_hip_chain_destroy,
    /* ROCm up to 7 keeps the arguments that an update replaced, some 6 KB, until the graph is destroyed
     * (https://github.com/ROCm/rocm-systems/pull/11434). */
    .most_chain_updates = 1024,
    .graph_destroy = crk_priv_hip_graph_destroy,
};
