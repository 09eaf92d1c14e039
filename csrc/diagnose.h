/* diagnose.h: what crk_diagnose shares with the rest of the core. */
#ifndef CRK_PRIV_DIAGNOSE_H
#define CRK_PRIV_DIAGNOSE_H

#include "candle_rocm.h"
#include "os/kfd.h"

/* crk_diagnose for a machine that may be made up. `visit` is not NULL. */
void crk_priv_diagnose(const crk_machine_t *machine, crk_finding_fn visit, void *user);

/* Writes "SENTENCE: REMEDY" of the first problem that keeps the HIP runtime from showing a GPU. Call it only after the
 * driver's `load` has succeeded, and where there is no device: then there is always such a problem. */
void crk_priv_no_hip_device(const crk_machine_t *machine, char *text, size_t size);

/* ---- device.c, for diagnose.c */

/* Whether this build has kernels for a backend. */
bool crk_priv_has_kernels(crk_backend_t backend);

/* Called for a backend that CRK_BACKEND_AUTO skips. `why` is without a full stop. */
typedef void crk_skipped_t(void *user, crk_backend_t backend, const char *why);

/* Chooses the backend for CRK_BACKEND_AUTO, and the ordinal if CANDLE_ROCM_DEVICE names a device. `skipped` may be
 * NULL. Fails where the variable names no device, and where a backend fails otherwise than by having no device. */
crk_status_t crk_priv_choose_backend(crk_skipped_t *skipped, void *user, crk_backend_t *backend, int32_t *ordinal);

#endif
