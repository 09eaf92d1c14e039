/* Findings about the machine, the environment and this build: crk_diagnose. A cause is looked at before its
 * consequences. */
#include "diagnose.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas/blas.h"
#include "core.h"
#include "image/code_object.h"
#include "image/unpack.h"

enum { SENTENCE_BYTES = 1536, REMEDY_BYTES = 768, TARGETS_BYTES = 512 };

/* Architectures of real GPUs that have passed the tests. */
static const char *const tried[] = {NULL};

typedef struct diagnosis {
  crk_finding_fn visit;
  void *user;
  bool wants_hip, wants_cuda; /* this build is for such GPUs */
  bool has_problem; /* a finding of HIP's chain is a problem */
  crk_kfd_t kfd;
  char hiding[160]; /* the first variable that is set and chooses GPUs: "HIP_VISIBLE_DEVICES=1"; "" for none */
  char override[32]; /* the architecture of HSA_OVERRIDE_GFX_VERSION; "" for none */
  int32_t hip_count, cuda_count; /* devices */
  int hip_version;
  bool has_hip; /* the runtime */
} diagnosis_t;

const char *crk_severity_name(crk_severity_t severity) {
#define XX(name, value, text) CRK_TEXT(CRK_SEVERITY_##name, text)
  CRK_TEXT_OF(severity, CRK_SEVERITY_MAP(XX), "unknown");
#undef XX
}

const char *crk_topic_name(crk_topic_t topic) {
#define XX(name, value, text) CRK_TEXT(CRK_TOPIC_##name, text)
  CRK_TEXT_OF(topic, CRK_TOPIC_MAP(XX), "unknown");
#undef XX
}

/* ---- findings */

/* The bytes of the UTF-8 character at `text`; 0 if there is none. */
static size_t character_bytes(const unsigned char *text) {
  const unsigned char first = text[0];
  const size_t bytes = first < 0x80                    ? 1
                       : first >= 0xc2 && first < 0xe0 ? 2
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  for (size_t i = 1; i < bytes; i++) {
    if ((text[i] & 0xc0) != 0x80) {
      return 0;
    }
  }
  const bool is_long = (first == 0xe0 && text[1] < 0xa0) || (first == 0xf0 && text[1] < 0x90);
  const bool is_beyond = (first == 0xed && text[1] > 0x9f) || (first == 0xf4 && text[1] > 0x8f);
  return is_long || is_beyond ? 0 : bytes;
}

/* Replaces what is not UTF-8: paths and variables may have any bytes, and a long value is cut off. */
static void make_utf8(char *text) {
  while (*text != '\0') {
    const size_t bytes = character_bytes((const unsigned char *)text);
    if (bytes == 0) {
      *text = '?';
    }
    text += bytes != 0 ? bytes : 1;
  }
}

/* Gives a finding to the visitor. `remedy` is text; the sentence is formatted. */
static void find(diagnosis_t *self, crk_topic_t topic, crk_severity_t severity, const char *remedy, const char *format,
                 ...) CRK_PRINTF(5, 6);

static void find(diagnosis_t *self, crk_topic_t topic, crk_severity_t severity, const char *remedy, const char *format,
                 ...) {
  char sentence[SENTENCE_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(sentence, sizeof sentence, format, args);
  va_end(args);
  char advice[REMEDY_BYTES];
  snprintf(advice, sizeof advice, "%s", remedy);
  make_utf8(sentence);
  make_utf8(advice);
  const crk_finding_t finding = {topic, severity, sentence, advice};
  self->visit(self->user, &finding);
}

/* The severity of what keeps a backend's GPU from running. In a build that is not for such GPUs it is only a note. */
static crk_severity_t problem(bool is_wanted) { return is_wanted ? CRK_SEVERITY_PROBLEM : CRK_SEVERITY_NOTE; }

/* A finding that keeps an AMD GPU from running. */
static void find_hip_problem(diagnosis_t *self, crk_topic_t topic, const char *remedy, const char *format, ...)
    CRK_PRINTF(4, 5);

static void find_hip_problem(diagnosis_t *self, crk_topic_t topic, const char *remedy, const char *format, ...) {
  char sentence[SENTENCE_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(sentence, sizeof sentence, format, args);
  va_end(args);
  find(self, topic, problem(self->wants_hip), remedy, "%s", sentence);
  self->has_problem = true;
}

/* Gives the last error as a finding, with the remedy that the error has, else with `remedy`. */
static void find_error(diagnosis_t *self, crk_topic_t topic, crk_severity_t severity, const char *remedy) {
  char own[REMEDY_BYTES];
  const char *text = crk_last_error(), *advice = crk_priv_last_remedy();
  const size_t length = advice[0] != '\0' ? (size_t)(advice - text) - strlen("; ") : strlen(text);
  snprintf(own, sizeof own, "%s", advice[0] != '\0' ? advice : remedy);
  find(self, topic, severity, own, "%.*s", (int)length, text);
}

/* ---- the build */

/* Lists the targets of the code for AMD GPUs, and how well it suits `architecture`. Returns false if there is no
 * code. */
static bool hip_targets(const char *architecture, char *targets, size_t size, crk_fit_t *fit) {
  *fit = CRK_FIT_NONE;
  for (size_t i = 0; i < CRK_MODULE_COUNT; i++) {
    const crk_image_t image = crk_priv_driver_hip.builtin(i);
    if (image.data != NULL) {
      return crk_priv_image_targets(crk_module_name(i), architecture, image.data, image.bytes, targets, size, fit) ==
             CRK_OK;
    }
  }
  return false;
}

static void look_at_kernels(diagnosis_t *self) {
  char targets[TARGETS_BYTES], folder[1024];
  crk_fit_t fit;
  const bool is_folder = crk_priv_variable("CANDLE_ROCM_HSACO_DIR", folder, sizeof folder);
  if (hip_targets("", targets, sizeof targets, &fit)) {
    find(self, CRK_TOPIC_KERNELS, CRK_SEVERITY_OK, "", "%s has code for these AMD GPUs: %s",
         is_folder ? "the folder that CANDLE_ROCM_HSACO_DIR names" : "this build", targets);
  } else if (crk_priv_has_kernels(CRK_BACKEND_HIP)) {
    find_error(self, CRK_TOPIC_KERNELS, CRK_SEVERITY_PROBLEM, "build again, or unset CANDLE_ROCM_HSACO_DIR");
  } else if (is_folder) {
    find(self, CRK_TOPIC_KERNELS, CRK_SEVERITY_PROBLEM,
         "unset CANDLE_ROCM_HSACO_DIR, or name a folder with a file MODULE.hsaco per module",
         "CANDLE_ROCM_HSACO_DIR=%.200s has no code for AMD GPUs", folder);
  } else if (self->wants_hip) {
    find(self, CRK_TOPIC_KERNELS, CRK_SEVERITY_PROBLEM, "build again without CANDLE_ROCM_NO_KERNELS",
         "this build has the feature rocm, but no code for AMD GPUs");
  } else {
    find(self, CRK_TOPIC_KERNELS, CRK_SEVERITY_NOTE, "for an AMD GPU, build with --features rocm",
         "this build has no code for AMD GPUs");
  }
  if (crk_priv_has_kernels(CRK_BACKEND_CUDA)) {
    find(self, CRK_TOPIC_KERNELS, CRK_SEVERITY_OK, "", "this build has code for NVIDIA GPUs");
  } else if (self->wants_cuda) {
    find(self, CRK_TOPIC_KERNELS, CRK_SEVERITY_PROBLEM, "build again without CANDLE_ROCM_NO_KERNELS",
         "this build has the feature cuda, but no code for NVIDIA GPUs");
  }
  if (crk_priv_has_kernels(CRK_BACKEND_CPU)) {
    find(self, CRK_TOPIC_KERNELS, CRK_SEVERITY_OK, "",
         "this build has kernels for the CPU: the devices cpu:32 and cpu:64");
  }
}

/* ---- the environment */

/* Variables of the vendors' runtimes: their names, and what each does. The first four choose the GPUs that a runtime
 * shows. */
static const struct {
  const char *name, *effect;
} variables[] = {
    {"HIP_VISIBLE_DEVICES", "it chooses the GPUs that the HIP runtime shows"},
    {"ROCR_VISIBLE_DEVICES", "it chooses the GPUs that the HIP runtime shows"},
    {"GPU_DEVICE_ORDINAL", "it chooses the GPUs that the HIP runtime shows"},
    {"CUDA_VISIBLE_DEVICES", "it chooses the GPUs that the CUDA driver and the HIP runtime show"},
    {"HSA_OVERRIDE_GFX_VERSION", "the HIP runtime reports this architecture for every AMD GPU"},
    {"HSA_ENABLE_DXG_DETECTION", "on WSL, ROCm looks for the GPU behind /dev/dxg"},
};
enum { HIDING_VARIABLES = 4, OVERRIDE_VARIABLE = 4 };

static bool visit_variable(void *context, const char *text) {
  diagnosis_t *self = context;
  if (strncmp(text, "CANDLE_ROCM_", 12) == 0 && strchr(text, '=') != NULL && strchr(text, '=')[1] != '\0') {
    find(self, CRK_TOPIC_VARIABLE, CRK_SEVERITY_NOTE, "", "%.400s is set", text);
  }
  return false;
}

/* Reads the variables that later findings depend on. */
static void read_variables(diagnosis_t *self) {
  char value[64];
  for (size_t i = 0; i < HIDING_VARIABLES && self->hiding[0] == '\0'; i++) {
    /* ROCr takes an empty list as one without a GPU; for the other variables it is as none. */
    const char *list = getenv(variables[i].name);
    if (list != NULL && (list[0] != '\0' || strcmp(variables[i].name, "ROCR_VISIBLE_DEVICES") == 0)) {
      snprintf(self->hiding, sizeof self->hiding, "%s=%.80s", variables[i].name, list);
    }
  }
  unsigned major, minor, step;
  if (crk_priv_variable(variables[OVERRIDE_VARIABLE].name, value, sizeof value) &&
      sscanf(value, "%u.%u.%u", &major, &minor, &step) == 3) {
    crk_priv_architecture_name((uint64_t)major * 10000 + minor * 100 + step, self->override, sizeof self->override);
  }
}

static void look_at_variables(diagnosis_t *self) {
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *value = getenv(variables[i].name);
    if (value != NULL) {
      find(self, CRK_TOPIC_VARIABLE, CRK_SEVERITY_NOTE, "", "%s=%.200s is set: %s", variables[i].name, value,
           variables[i].effect);
    }
  }
  crk_priv_environment_visit(visit_variable, self);
}

/* ---- the kernel driver */

static const char container_remedy[] =
    "start the container with --device /dev/kfd --device /dev/dri and the groups that own these files on the host "
    "(docs/troubleshooting.md has the command)";
static const char driver_remedy[] =
    "sudo modprobe amdgpu, and if that does not help, sudo dmesg | grep -i -e kfd -e amdgpu shows the reason";

/* Tells why a device file that is there cannot be used. */
static void find_no_permission(diagnosis_t *self, crk_topic_t topic, crk_severity_t severity,
                               const crk_device_file_t *file) {
  char remedy[REMEDY_BYTES];
  const char *user = self->kfd.user, *space = user[0] != '\0' ? " " : "", *path = file->path, *group = file->group_name;
  const char *refused_remedy = self->kfd.is_container ? container_remedy : "ask who set up this machine for access";
  if (file->is_permitted) {
    find(self, topic, severity, refused_remedy,
         "no permission on %s, although its mode permits it: the container or the system refuses the device", path);
  } else if (file->in_group && (file->mode & 060) == 060) {
    find(self, topic, severity, refused_remedy,
         "no permission on %s, although user%s%s is in its group: the system or the container forbids it", path, space,
         user);
  } else if (!file->in_group && strcmp(group, "root") == 0) {
    snprintf(remedy, sizeof remedy,
             "sudo chgrp render %s && sudo chmod 0660 %s, or install ROCm's udev rules, which do that at every start",
             path, path);
    find(self, topic, severity, remedy, "no permission on %s: its group is root, which is for administrators", path);
  } else if (file->in_group || (file->mode & 060) != 060) {
    snprintf(remedy, sizeof remedy, "sudo chmod 0660 %s, or install ROCm's udev rules, which do that at every start",
             path);
    find(self, topic, severity, remedy, "no permission on %s: its mode is %04o, so its group may not use it", path,
         (unsigned)file->mode);
  } else if (group[0] == '\0') {
    snprintf(remedy, sizeof remedy,
             self->kfd.is_container ? "start the container with --group-add %u"
                                    : "ask who set up this machine to add you to group %u",
             (unsigned)file->group);
    find(self, topic, severity, remedy, "no permission on %s: user%s%s is not in group %u, which has no name here",
         path, space, user, (unsigned)file->group);
  } else if (file->is_member) {
    snprintf(remedy, sizeof remedy, "log out and in again, or run newgrp %s in this terminal", group);
    find(self, topic, severity, remedy, "no permission on %s: user%s%s was added to group %s after this session began",
         path, space, user, group);
  } else {
    snprintf(remedy, sizeof remedy, "sudo usermod -aG %s $USER, then log in again", group);
    find(self, topic, severity, remedy, "no permission on %s: user%s%s is not in group %s", path, space, user, group);
  }
}

static void look_at_kfd_file(diagnosis_t *self) {
  const crk_kfd_t *kfd = &self->kfd;
  if (kfd->file.is_usable) {
    find(self, CRK_TOPIC_KFD, CRK_SEVERITY_OK, "", "/dev/kfd is there, and this process may read and write it");
  } else if (kfd->file.is_there) {
    find_no_permission(self, CRK_TOPIC_KFD, problem(self->wants_hip), &kfd->file);
    self->has_problem = true;
  } else if (kfd->is_wsl) {
    find(self, CRK_TOPIC_KFD, CRK_SEVERITY_OK, "", "there is no /dev/kfd, and WSL needs none");
  } else if (kfd->is_container && (kfd->pci[0] != '\0' || !kfd->has_pci)) {
    find_hip_problem(self, CRK_TOPIC_KFD, container_remedy, "there is no /dev/kfd in this container");
  } else if (kfd->pci[0] != '\0') {
    find_hip_problem(self, CRK_TOPIC_KFD, driver_remedy,
                     "there is no /dev/kfd, although there is an AMD GPU (PCI %s): the kernel driver amdgpu is not "
                     "loaded, or it does not support the GPU",
                     kfd->pci);
  } else {
    find_hip_problem(self, CRK_TOPIC_KFD,
                     crk_priv_has_kernels(CRK_BACKEND_CPU)
                         ? "CANDLE_ROCM_DEVICE=cpu:32 runs the same kernels on the CPU"
                         : "a build with the cargo feature `cpu` runs the same kernels on the CPU, with "
                           "CANDLE_ROCM_DEVICE=cpu:32",
                     "there is no /dev/kfd, and no AMD GPU among the PCI devices");
  }
}

static void look_at_kernel_gpus(diagnosis_t *self) {
  const crk_kfd_t *kfd = &self->kfd;
  for (size_t i = 0; i < kfd->count; i++) {
    const crk_kernel_gpu_t *gpu = &kfd->gpus[i];
    find(self, CRK_TOPIC_KERNEL_GPU, CRK_SEVERITY_OK, "", "the kernel driver sees a %s%s%s%s at node %u",
         gpu->architecture, gpu->name[0] != '\0' ? " (" : "", gpu->name, gpu->name[0] != '\0' ? ")" : "",
         (unsigned)gpu->node);
  }
  if (kfd->count == 0 && kfd->file.is_there) {
    find_hip_problem(self, CRK_TOPIC_KERNEL_GPU, kfd->is_container ? container_remedy : driver_remedy,
                     "/dev/kfd is there, but the kernel driver lists no GPU in /sys/class/kfd");
  }
}

/* A GPU that is not passed to a container, or that the user may not use, is a problem only if no other can be used. */
static void look_at_render_files(diagnosis_t *self) {
  const crk_kfd_t *kfd = &self->kfd;
  bool is_any = false;
  for (size_t i = 0; i < kfd->count; i++) {
    is_any = is_any || kfd->gpus[i].render.is_usable || kfd->gpus[i].render.path[0] == '\0';
  }
  const crk_severity_t severity = problem(self->wants_hip && !is_any);
  for (size_t i = 0; i < kfd->count; i++) {
    const crk_device_file_t *file = &kfd->gpus[i].render;
    if (file->path[0] == '\0') {
      continue;
    }
    if (file->is_usable) {
      find(self, CRK_TOPIC_RENDER, CRK_SEVERITY_OK, "", "%s is there, and this process may read and write it",
           file->path);
    } else if (file->is_there) {
      find_no_permission(self, CRK_TOPIC_RENDER, severity, file);
    } else {
      find(self, CRK_TOPIC_RENDER, severity, kfd->is_container ? container_remedy : driver_remedy,
           "there is no %s, the file of the GPU at node %u", file->path, (unsigned)kfd->gpus[i].node);
    }
  }
  self->has_problem = self->has_problem || (kfd->count != 0 && !is_any);
}

/* Whether this system has the files of kfd.h. */
#if defined(__linux__)
enum { HAS_KFD = 1 };
#else
enum { HAS_KFD = 0 };
#endif

static void look_at_kernel_driver(diagnosis_t *self) {
  if (!HAS_KFD) {
    return;
  }
  if (self->kfd.is_wsl) {
    find(self, CRK_TOPIC_WSL, CRK_SEVERITY_NOTE, "", "this is WSL: GPUs are behind /dev/dxg");
  }
  if (self->kfd.is_container) {
    find(self, CRK_TOPIC_CONTAINER, CRK_SEVERITY_NOTE, "", "this process runs in a container");
  }
  look_at_kfd_file(self);
  look_at_kernel_gpus(self);
  look_at_render_files(self);
}

/* ---- the HIP runtime */

static void look_at_hip_runtime(diagnosis_t *self) {
  self->has_hip = crk_priv_driver_hip.load() == CRK_OK;
  if (!self->has_hip) {
    find_error(self, CRK_TOPIC_HIP_RUNTIME, problem(self->wants_hip),
               "correct CANDLE_ROCM_HIP_LIBRARY, or unset it to search the usual places");
    self->has_problem = true;
    return;
  }
  const char *path = crk_priv_hip_path(&self->hip_version);
  const int major = CRK_HIP_VERSION_MAJOR(self->hip_version), minor = CRK_HIP_VERSION_MINOR(self->hip_version),
            patch = self->hip_version % 100000;
  if (self->hip_version == 0) {
    find(self, CRK_TOPIC_HIP_RUNTIME, CRK_SEVERITY_NOTE, "", "the HIP runtime is %s; it does not tell its version",
         path);
  } else if (self->hip_version < CRK_HIP_VERSION_OLDEST) {
    find_hip_problem(self, CRK_TOPIC_HIP_RUNTIME,
                     "install a later ROCm, or name its runtime in CANDLE_ROCM_HIP_LIBRARY",
                     "the HIP runtime %s has version %d.%d; this library needs %d.%d or later", path, major, minor,
                     CRK_HIP_VERSION_MAJOR(CRK_HIP_VERSION_OLDEST), CRK_HIP_VERSION_MINOR(CRK_HIP_VERSION_OLDEST));
  } else if (major > CRK_HIP_VERSION_NEWEST_MAJOR) {
    find(self, CRK_TOPIC_HIP_RUNTIME, CRK_SEVERITY_NOTE,
         "if calls fail, name an earlier runtime in CANDLE_ROCM_HIP_LIBRARY, and report it",
         "the HIP runtime is %s, version %d.%d.%d; this library was written for versions up to %d", path, major, minor,
         patch, CRK_HIP_VERSION_NEWEST_MAJOR);
  } else {
    find(self, CRK_TOPIC_HIP_RUNTIME, CRK_SEVERITY_OK, "", "the HIP runtime is %s, version %d.%d.%d", path, major,
         minor, patch);
  }
}

/* Tells why a runtime that works shows no GPU, as far as can be told. */
static void find_no_hip_device(diagnosis_t *self) {
  static const char rocminfo[] = "run rocminfo: it opens the GPU as the runtime does, and says why that fails";
  const crk_kfd_t *kfd = &self->kfd;
  char remedy[REMEDY_BYTES];
  if (self->has_problem) {
    find_hip_problem(self, CRK_TOPIC_HIP_DEVICES, "solve the problem above first", "the HIP runtime shows no GPU");
  } else if (self->hiding[0] != '\0') {
    snprintf(remedy, sizeof remedy, "unset %.*s, and try again", (int)strcspn(self->hiding, "="), self->hiding);
    find_hip_problem(self, CRK_TOPIC_HIP_DEVICES, remedy, "the HIP runtime shows no GPU, and %s chooses what it shows",
                     self->hiding);
  } else if (kfd->is_wsl) {
    find_hip_problem(self, CRK_TOPIC_HIP_DEVICES,
                     "install ROCm for WSL with librocdxg, and set HSA_ENABLE_DXG_DETECTION=1 (docs/troubleshooting.md "
                     "has the link)",
                     "the HIP runtime shows no GPU on WSL");
  } else if (kfd->count != 0) {
    find_hip_problem(self, CRK_TOPIC_HIP_DEVICES, rocminfo,
                     "the kernel driver sees a %s, but the HIP runtime (version %d.%d) shows no GPU",
                     kfd->gpus[0].architecture, CRK_HIP_VERSION_MAJOR(self->hip_version),
                     CRK_HIP_VERSION_MINOR(self->hip_version));
  } else {
    find_hip_problem(self, CRK_TOPIC_HIP_DEVICES, rocminfo, "the HIP runtime shows no GPU");
  }
}

static void look_at_hip_devices(diagnosis_t *self) {
  if (crk_priv_driver_hip.device_count(&self->hip_count) != CRK_OK) {
    find_error(self, CRK_TOPIC_HIP_DEVICES, problem(self->wants_hip),
               self->has_problem ? "solve the problem above first" : "run rocminfo, and check its messages");
    self->has_problem = true;
    self->hip_count = 0;
  } else if (self->hip_count == 0) {
    find_no_hip_device(self);
  } else if ((size_t)self->hip_count < self->kfd.count && self->hiding[0] != '\0') {
    find(self, CRK_TOPIC_HIP_DEVICES, CRK_SEVERITY_NOTE, "", "the HIP runtime shows %d of %zu GPUs, because of %s",
         (int)self->hip_count, self->kfd.count, self->hiding);
  } else {
    find(self, CRK_TOPIC_HIP_DEVICES, CRK_SEVERITY_OK, "", "the HIP runtime shows %d GPU%s", (int)self->hip_count,
         self->hip_count == 1 ? "" : "s");
  }
}

/* Tells whether this build has code for a GPU. `who` is the beginning of the sentence. */
static void look_at_coverage(diagnosis_t *self, const char *who, const char *target) {
  char targets[TARGETS_BYTES], remedy[REMEDY_BYTES];
  crk_fit_t fit;
  const int length = (int)strcspn(target, ":");
  const bool is_old = self->hip_version != 0 && self->hip_version < CRK_HIP_VERSION_GENERIC;
  if (!hip_targets(target, targets, sizeof targets, &fit)) {
    find(self, CRK_TOPIC_GPU, CRK_SEVERITY_NOTE, "", "%s", who); /* look_at_kernels tells that there is no code */
  } else if (fit == CRK_FIT_GENERIC && is_old) {
    snprintf(remedy, sizeof remedy, "update ROCm, or build with CANDLE_ROCM_ARCHS=%.*s", length, target);
    find_hip_problem(self, CRK_TOPIC_GPU, remedy,
                     "%s; this build has code only for its generic target, which needs ROCm %d.%d or later; the HIP "
                     "runtime has version %d.%d",
                     who, CRK_HIP_VERSION_MAJOR(CRK_HIP_VERSION_GENERIC),
                     CRK_HIP_VERSION_MINOR(CRK_HIP_VERSION_GENERIC), CRK_HIP_VERSION_MAJOR(self->hip_version),
                     CRK_HIP_VERSION_MINOR(self->hip_version));
  } else if (fit != CRK_FIT_NONE) {
    find(self, CRK_TOPIC_GPU, CRK_SEVERITY_OK, "", "%s; this build has code for it", who);
  } else {
    snprintf(remedy, sizeof remedy, "build with CANDLE_ROCM_ARCHS=%.*s", length, target);
    find_hip_problem(self, CRK_TOPIC_GPU, remedy, "%s; this build has no code for it, only for %s", who, targets);
  }
}

static void find_untried(diagnosis_t *self, const char *architecture) {
  for (size_t i = 0; tried[i] != NULL; i++) {
    if (strcmp(tried[i], architecture) == 0) {
      return;
    }
  }
  find(self, CRK_TOPIC_UNTRIED, CRK_SEVERITY_NOTE,
       "please send a report: cargo run --release -p candle-rocm --features rocm -- report (docs/report.md)",
       "%s: not run on hardware yet", architecture);
}

static void look_at_hip_gpus(diagnosis_t *self) {
  char who[512];
  for (int32_t i = 0; i < self->hip_count; i++) {
    crk_driver_device_t *device = NULL;
    crk_device_info_t info;
    if (crk_priv_driver_hip.device_get(i, &device) != CRK_OK ||
        crk_priv_driver_hip.device_info(device, &info) != CRK_OK) {
      find_error(self, CRK_TOPIC_GPU, problem(self->wants_hip), "run rocminfo, and check its messages");
      continue;
    }
    snprintf(who, sizeof who, "hip:%d is %s, a %s", (int)i, info.name, info.target);
    look_at_coverage(self, who, info.target);
    find_untried(self, info.architecture);
  }
  /* Without the runtime's answer, the kernel driver's tells what to build for. */
  for (size_t i = 0; self->hip_count == 0 && i < self->kfd.count; i++) {
    const char *real = self->kfd.gpus[i].architecture, *seen = self->override[0] != '\0' ? self->override : real;
    bool is_new = true;
    for (size_t k = 0; k < i; k++) {
      is_new = is_new && strcmp(self->kfd.gpus[k].architecture, real) != 0;
    }
    if (is_new) {
      snprintf(who, sizeof who, seen == real ? "the kernel driver's %s" : "the kernel driver's %s counts as %s", real,
               seen);
      look_at_coverage(self, who, seen);
    }
  }
}

/* ---- BLAS libraries and CUDA */

static void look_at_blas(diagnosis_t *self, crk_backend_t backend, const char *architecture) {
  static const char remedy[] = "products run in this library's own kernels; for more speed install it";
  crk_blas_view_t view;
  for (size_t i = 0; crk_priv_blas_look(backend, i, architecture, &view); i++) {
    if (view.has_kernels) {
      find(self, CRK_TOPIC_BLAS, CRK_SEVERITY_OK, "", "%s is %s", view.name, view.found);
    } else if (view.is_loaded) {
      find(self, CRK_TOPIC_BLAS, CRK_SEVERITY_NOTE, "", "%s is %s, but it has no kernels for %s", view.name, view.found,
           architecture);
    } else {
      find(self, CRK_TOPIC_BLAS, CRK_SEVERITY_NOTE, remedy, "%s is not used: %s", view.name, view.found);
    }
  }
}

static void look_at_hip_blas(diagnosis_t *self) {
  crk_driver_device_t *device = NULL;
  crk_device_info_t info;
  if (self->hip_count > 0 && crk_priv_driver_hip.device_get(0, &device) == CRK_OK &&
      crk_priv_driver_hip.device_info(device, &info) == CRK_OK) {
    look_at_blas(self, CRK_BACKEND_HIP, info.architecture);
  }
}

/* A device of CUDA is not opened, because that would make a context, which takes time and memory. */
static void look_at_cuda(diagnosis_t *self) {
  int version;
  if (crk_priv_driver_cuda.load() != CRK_OK) {
    if (!self->wants_cuda) {
      find(self, CRK_TOPIC_CUDA_DRIVER, CRK_SEVERITY_NOTE, "",
           "the CUDA driver cannot be opened; this build needs none");
      return;
    }
    find_error(self, CRK_TOPIC_CUDA_DRIVER, CRK_SEVERITY_PROBLEM,
               "correct CANDLE_ROCM_CUDA_LIBRARY, or unset it to use the system's driver");
    return;
  }
  const char *path = crk_priv_cuda_path(&version);
  find(self, CRK_TOPIC_CUDA_DRIVER, CRK_SEVERITY_OK, "", "the CUDA driver is %s, for CUDA %d.%d", path, version / 1000,
       version % 1000 / 10);
  if (crk_priv_driver_cuda.device_count(&self->cuda_count) != CRK_OK) {
    find_error(self, CRK_TOPIC_CUDA_DEVICES, problem(self->wants_cuda), "run nvidia-smi, and check its messages");
  } else if (self->cuda_count == 0) {
    find(self, CRK_TOPIC_CUDA_DEVICES, problem(self->wants_cuda),
         "run nvidia-smi, and check CUDA_VISIBLE_DEVICES if it is set", "the CUDA driver shows no GPU");
  } else {
    find(self, CRK_TOPIC_CUDA_DEVICES, CRK_SEVERITY_OK, "", "the CUDA driver shows %d GPU%s", (int)self->cuda_count,
         self->cuda_count == 1 ? "" : "s");
    look_at_blas(self, CRK_BACKEND_CUDA, "");
  }
}

/* ---- the choice */

static const char *backend_name(crk_backend_t backend) {
#define XX(name, value, text) CRK_TEXT(CRK_BACKEND_##name, text)
  CRK_TEXT_OF(backend, CRK_BACKEND_MAP(XX), "unknown");
#undef XX
}

static void find_skipped(void *context, crk_backend_t backend, const char *why) {
  find(context, CRK_TOPIC_CHOICE, CRK_SEVERITY_NOTE, "", "CRK_BACKEND_AUTO skips %s: %s", backend_name(backend), why);
}

static void look_at_choice(diagnosis_t *self) {
  crk_backend_t backend = CRK_BACKEND_AUTO;
  int32_t ordinal = 0;
  char named[64];
  const bool is_named = crk_priv_variable("CANDLE_ROCM_DEVICE", named, sizeof named);
  if (crk_priv_choose_backend(find_skipped, self, &backend, &ordinal) != CRK_OK) {
    find_error(self, CRK_TOPIC_CHOICE, CRK_SEVERITY_PROBLEM, "CANDLE_ROCM_DEVICE=cpu:32 chooses the CPU");
    return;
  }
  const bool is_cpu = backend == CRK_BACKEND_CPU;
  const int number = is_cpu ? 32 << ordinal : (int)ordinal;
  const int32_t count = backend == CRK_BACKEND_HIP ? self->hip_count : self->cuda_count;
  if (is_named && !is_cpu && ordinal >= count) {
    find(self, CRK_TOPIC_CHOICE, CRK_SEVERITY_PROBLEM,
         "name another device, or unset the variable, or choose the CPU: CANDLE_ROCM_DEVICE=cpu:32",
         "CANDLE_ROCM_DEVICE says %s:%d; the number of these devices is %d", backend_name(backend), number, (int)count);
  } else if (is_named) {
    find(self, CRK_TOPIC_CHOICE, CRK_SEVERITY_OK, "", "CRK_BACKEND_AUTO takes %s:%d, as CANDLE_ROCM_DEVICE says",
         backend_name(backend), number);
  } else if (is_cpu && (self->wants_hip || self->wants_cuda)) {
    find(self, CRK_TOPIC_CHOICE, CRK_SEVERITY_PROBLEM,
         "solve the first problem above, or choose the CPU on purpose: CANDLE_ROCM_DEVICE=cpu:32",
         "CRK_BACKEND_AUTO takes the CPU, although this build is for a GPU");
  } else {
    find(self, CRK_TOPIC_CHOICE, CRK_SEVERITY_OK, "", "CRK_BACKEND_AUTO takes %s:%d", backend_name(backend), number);
  }
}

/* ---- */

static void diagnosis_init(diagnosis_t *self, const crk_machine_t *machine, crk_finding_fn visit, void *user) {
  memset(self, 0, sizeof *self);
  self->visit = visit;
  self->user = user;
  crk_priv_kfd_look(machine, &self->kfd);
  read_variables(self);
}

void crk_priv_diagnose(const crk_machine_t *machine, crk_finding_fn visit, void *user) {
  diagnosis_t diagnosis, *self = &diagnosis;
  diagnosis_init(self, machine, visit, user);
  self->wants_hip = crk_priv_has_kernels(CRK_BACKEND_HIP);
  self->wants_cuda = crk_priv_has_kernels(CRK_BACKEND_CUDA);
#if defined(CRK_WITH_ROCM)
  self->wants_hip = true;
#endif
#if defined(CRK_WITH_CUDA)
  self->wants_cuda = true;
#endif
  look_at_kernels(self);
  look_at_variables(self);
  look_at_kernel_driver(self);
  look_at_hip_runtime(self);
  if (self->has_hip) {
    look_at_hip_devices(self);
  }
  look_at_hip_gpus(self);
  look_at_hip_blas(self);
  look_at_cuda(self);
  look_at_choice(self);
}

crk_status_t crk_diagnose(crk_finding_fn visit, void *user) {
  CRK_REFUSE_IF(visit == NULL, "crk_diagnose: visit is NULL");
  const crk_machine_t machine = crk_priv_machine();
  crk_priv_diagnose(&machine, visit, user);
  return CRK_OK;
}

/* ---- one sentence for crk_device_open */

typedef struct first_problem {
  char *text;
  size_t size;
} first_problem_t;

static void keep_first_problem(void *user, const crk_finding_t *finding) {
  const first_problem_t *self = user;
  if (finding->severity == CRK_SEVERITY_PROBLEM && self->text[0] == '\0') {
    snprintf(self->text, self->size, "%s: %s", finding->sentence, finding->remedy);
  }
}

void crk_priv_no_hip_device(const crk_machine_t *machine, char *text, size_t size) {
  first_problem_t first = {text, size};
  diagnosis_t diagnosis;
  text[0] = '\0';
  diagnosis_init(&diagnosis, machine, keep_first_problem, &first);
  diagnosis.wants_hip = true;
  crk_priv_hip_path(&diagnosis.hip_version);
  look_at_kernel_driver(&diagnosis);
  look_at_hip_devices(&diagnosis);
}
