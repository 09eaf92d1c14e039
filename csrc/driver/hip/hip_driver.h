/* hip_driver.h: the functions of the HIP driver. hip.c puts them into its table; driver.h says what each does. */
#ifndef CRK_HIP_DRIVER_H
#define CRK_HIP_DRIVER_H

#include "driver/driver.h"

/* hip_device.c */
crk_status_t crk_priv_hip_device_count(int32_t *count);
crk_status_t crk_priv_hip_device_get(int32_t ordinal, crk_driver_device_t **device);
crk_status_t crk_priv_hip_device_info(crk_driver_device_t *device, crk_device_info_t *info);
crk_status_t crk_priv_hip_device_memory(crk_driver_device_t *device, size_t *free_bytes, size_t *total_bytes);

/* hip_memory.c */
crk_status_t crk_priv_hip_alloc(crk_driver_device_t *device, size_t bytes, void **ptr);
void crk_priv_hip_free(crk_driver_device_t *device, void *ptr);
crk_status_t crk_priv_hip_peer_alloc(crk_driver_device_t *device, size_t bytes, void **ptr);
bool crk_priv_hip_peer_writes_in_order(const crk_driver_device_t *device);
crk_status_t crk_priv_hip_peer_export(crk_driver_device_t *device, void *ptr, crk_peer_handle_t *handle);
crk_status_t crk_priv_hip_peer_open(crk_driver_device_t *device, const crk_peer_handle_t *handle, void **ptr);
void crk_priv_hip_peer_close(crk_driver_device_t *device, void *ptr);
crk_status_t crk_priv_hip_host_alloc(crk_driver_device_t *device, size_t bytes, void **ptr);
crk_status_t crk_priv_hip_host_alloc_coherent(crk_driver_device_t *device, size_t bytes, void **ptr);
void crk_priv_hip_host_free(crk_driver_device_t *device, void *ptr);
crk_status_t crk_priv_hip_copy(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, const void *src,
                               size_t bytes, crk_copy_kind_t kind);
crk_status_t crk_priv_hip_copy_peer(crk_driver_device_t *dst_device, void *dst, crk_driver_device_t *src_device,
                                    const void *src, size_t bytes, crk_driver_stream_t *dst_stream);
crk_status_t crk_priv_hip_peer_access(crk_driver_device_t *device, crk_driver_device_t *peer, bool *has_access);
crk_status_t crk_priv_hip_memset(crk_driver_device_t *device, crk_driver_stream_t *stream, void *dst, uint8_t value,
                                 size_t bytes);

/* hip_streams.c: streams, events and graphs. */
crk_status_t crk_priv_hip_stream_create(crk_driver_device_t *device, crk_driver_stream_t **stream);
void crk_priv_hip_stream_destroy(crk_driver_device_t *device, crk_driver_stream_t *stream);
crk_status_t crk_priv_hip_stream_synchronize(crk_driver_device_t *device, crk_driver_stream_t *stream);
crk_status_t crk_priv_hip_stream_wait(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                      crk_driver_event_t *event);
crk_status_t crk_priv_hip_event_create(crk_driver_device_t *device, crk_driver_event_t **event);
void crk_priv_hip_event_destroy(crk_driver_device_t *device, crk_driver_event_t *event);
crk_status_t crk_priv_hip_event_record(crk_driver_device_t *device, crk_driver_event_t *event,
                                       crk_driver_stream_t *stream);
crk_status_t crk_priv_hip_event_query(crk_driver_device_t *device, crk_driver_event_t *event);
crk_status_t crk_priv_hip_event_synchronize(crk_driver_device_t *device, crk_driver_event_t *event);
crk_status_t crk_priv_hip_event_elapsed(crk_driver_device_t *device, crk_driver_event_t *start, crk_driver_event_t *end,
                                        float *milliseconds);
crk_status_t crk_priv_hip_capture_begin(crk_driver_device_t *device, crk_driver_stream_t *stream);
crk_status_t crk_priv_hip_capture_end(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                      crk_driver_graph_t **graph);
crk_status_t crk_priv_hip_graph_launch(crk_driver_device_t *device, crk_driver_graph_t *graph,
                                       crk_driver_stream_t *stream);
void crk_priv_hip_graph_destroy(crk_driver_device_t *device, crk_driver_graph_t *graph);

/* hip_chain.c */
crk_status_t crk_priv_hip_chain_create(crk_driver_device_t *device, const crk_driver_launch_t *launches, size_t count,
                                       crk_driver_chain_t **chain);
crk_status_t crk_priv_hip_chain_update(crk_driver_device_t *device, crk_driver_chain_t *chain, size_t index,
                                       const crk_driver_launch_t *launch);
crk_status_t crk_priv_hip_chain_launch(crk_driver_device_t *device, crk_driver_chain_t *chain,
                                       crk_driver_stream_t *stream);
void crk_priv_hip_chain_destroy(crk_driver_device_t *device, crk_driver_chain_t *chain);

/* hip_module.c */
crk_image_t crk_priv_hip_builtin(size_t index);
crk_status_t crk_priv_hip_module_load(crk_driver_device_t *device, const char *name, const void *data, size_t bytes,
                                      crk_driver_module_t **module);
void crk_priv_hip_module_unload(crk_driver_device_t *device, crk_driver_module_t *module);
crk_status_t crk_priv_hip_module_function(crk_driver_device_t *device, crk_driver_module_t *module, const char *name,
                                          crk_driver_function_t **function, crk_signature_t *signature);
crk_status_t crk_priv_hip_launch(crk_driver_device_t *device, crk_driver_stream_t *stream,
                                 crk_driver_function_t *function, crk_dim3_t grid, crk_dim3_t block,
                                 uint32_t shared_bytes, const void *const *args);

#endif
