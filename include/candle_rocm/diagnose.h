/* candle_rocm/diagnose.h: what this machine, this build and the environment have for GPUs, and what keeps a GPU from
 * being used. */
#ifndef CANDLE_ROCM_DIAGNOSE_H
#define CANDLE_ROCM_DIAGNOSE_H

#include "candle_rocm/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* XX(name, value, text). OK: as it should be. NOTE: worth knowing. PROBLEM: this build is for a GPU (it has kernels for
 * it, or the feature `rocm` or `cuda`), and this keeps the GPU from running them. The values are ABI: append, never
 * renumber. */
#define CRK_SEVERITY_MAP(XX) \
  XX(OK, 0, "ok")            \
  XX(NOTE, 1, "note")        \
  XX(PROBLEM, 2, "problem")

typedef enum crk_severity {
#define XX(name, value, text) CRK_SEVERITY_##name = value,
  CRK_SEVERITY_MAP(XX)
#undef XX
} crk_severity_t;

/* XX(name, value, key): what a finding is about. The keys are stable; docs/troubleshooting.md in the sources explains
 * each. The values are ABI: append, never renumber. */
#define CRK_TOPIC_MAP(XX)              \
  XX(KERNELS, 0, "kernels")            \
  XX(VARIABLE, 1, "variable")          \
  XX(WSL, 2, "wsl")                    \
  XX(CONTAINER, 3, "container")        \
  XX(KFD, 4, "kfd")                    \
  XX(KERNEL_GPU, 5, "kernel_gpu")      \
  XX(RENDER, 6, "render")              \
  XX(HIP_RUNTIME, 7, "hip_runtime")    \
  XX(HIP_DEVICES, 8, "hip_devices")    \
  XX(GPU, 9, "gpu")                    \
  XX(UNTRIED, 10, "untried")           \
  XX(BLAS, 11, "blas")                 \
  XX(CUDA_DRIVER, 12, "cuda_driver")   \
  XX(CUDA_DEVICES, 13, "cuda_devices") \
  XX(CHOICE, 14, "choice")

typedef enum crk_topic {
#define XX(name, value, key) CRK_TOPIC_##name = value,
  CRK_TOPIC_MAP(XX)
#undef XX
} crk_topic_t;

/* One finding. The texts are UTF-8, never NULL, and valid during the visit only: a byte of a path or a variable that is
 * not UTF-8 becomes '?'. */
typedef struct crk_finding {
  crk_topic_t topic;
  crk_severity_t severity;
  const char *sentence; /* without a full stop */
  const char *remedy; /* what to do, with the command to type; "" where nothing needs to be done */
} crk_finding_t;

/* Receives one finding. `user` is what crk_diagnose got. */
typedef void (*crk_finding_fn)(void *user, const crk_finding_t *finding);

/* Examines the machine, the environment and this build, and calls `visit` once for each finding, in the calling thread.
 * A cause comes before its consequences: the first problem is the one to solve first. The last findings, of the topic
 * `choice`, say which device crk_device_open takes for CRK_BACKEND_AUTO, and why it skips the backends before.
 *
 * Needs no GPU, no runtime and no device handle. What is missing is a finding, not a failure. Opens the runtimes and
 * the BLAS libraries as crk_device_open and crk_matmul do, and the process keeps them. May change the thread's current
 * HIP device and the text of crk_last_error. On other systems than Linux there is no finding of the topics wsl,
 * container, kfd, kernel_gpu and render.
 *
 * Fails with CRK_INVALID_ARGUMENT where `visit` is NULL. */
CRK_API crk_status_t crk_diagnose(crk_finding_fn visit, void *user);

/* The text of a severity ("problem") and the key of a topic ("kfd"); "unknown" for a value that this build does not
 * know. The texts are static. */
CRK_API const char *crk_severity_name(crk_severity_t severity);
CRK_API const char *crk_topic_name(crk_topic_t topic);

#ifdef __cplusplus
}
#endif
#endif
