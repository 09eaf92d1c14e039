/* Reads /dev/kfd, /dev/dri and /sys; kfd.h describes the result. */
#include "os/kfd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024, TEXT_BYTES = 8192 };

static const char nodes[] = "/sys/class/kfd/kfd/topology/nodes", pci_devices[] = "/sys/bus/pci/devices";

crk_machine_t crk_priv_machine(void) {
  const crk_machine_t machine = {"", crk_priv_file_usable, crk_priv_file_permitted, crk_priv_in_group, crk_priv_user()};
  return machine;
}

/* ---- files */

static bool is_file(const crk_machine_t *machine, const char *path) {
  char full[PATH_BYTES];
  uint32_t group, mode;
  snprintf(full, sizeof full, "%s%s", machine->root, path);
  return crk_priv_file_group(full, &group, &mode);
}

/* Reads a small file. Returns false if it cannot be read. */
static bool read_text(const crk_machine_t *machine, const char *path, char *text, size_t size) {
  char full[PATH_BYTES];
  snprintf(full, sizeof full, "%s%s", machine->root, path);
  FILE *file = fopen(full, "r");
  if (file == NULL) {
    return false;
  }
  const size_t read = fread(text, 1, size - 1, file);
  text[read] = '\0';
  fclose(file);
  return read != 0;
}

/* The number after `key` at the beginning of a line; 0 if there is none. */
static uint64_t number_of(const char *text, const char *key) {
  const size_t length = strlen(key);
  const char *line = text;
  while (line != NULL && strncmp(line, key, length) != 0) {
    line = strchr(line, '\n');
    line = line != NULL ? line + 1 : NULL;
  }
  return line != NULL ? strtoull(line + length, NULL, 0) : 0;
}

/* Cuts `line` off at the next colon, or at its end. Returns the rest; NULL if there is none. */
static char *next_field(char *line) {
  char *end = line != NULL ? line + strcspn(line, ":\n") : NULL;
  if (end == NULL || *end == '\0') {
    return NULL;
  }
  *end = '\0';
  return end + 1;
}

/* ---- users and groups. /etc/passwd has lines NAME:x:UID:..., /etc/group has lines NAME:x:GID:MEMBER,MEMBER */

/* Finds the line with a number in its third field. Writes its name to `name`, and its fourth field to `rest`. */
static void find_account(const crk_machine_t *machine, const char *path, uint32_t number, char *name, size_t name_size,
                         char *rest, size_t rest_size) {
  char full[PATH_BYTES], line[4096];
  snprintf(full, sizeof full, "%s%s", machine->root, path);
  FILE *file = fopen(full, "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    char *password = next_field(line), *id = next_field(password), *last = next_field(id);
    if (last != NULL && strtoull(id, NULL, 10) == number && *id != '\0') {
      next_field(last);
      snprintf(name, name_size, "%.*s", (int)name_size - 1, line);
      snprintf(rest, rest_size, "%.*s", (int)rest_size - 1, last);
      break;
    }
  }
  if (file != NULL) {
    fclose(file);
  }
}

static bool has_member(const char *members, const char *user) {
  const size_t length = strlen(user);
  while (length != 0 && *members != '\0') {
    const size_t next = strcspn(members, ",");
    if (next == length && strncmp(members, user, length) == 0) {
      return true;
    }
    members += next;
    members += *members == ',';
  }
  return false;
}

static void look_at_file(const crk_machine_t *machine, const char *user, crk_device_file_t *file) {
  char full[PATH_BYTES], members[4096] = "";
  snprintf(full, sizeof full, "%s%s", machine->root, file->path);
  file->is_there = crk_priv_file_group(full, &file->group, &file->mode);
  if (file->is_there) {
    file->is_usable = machine->is_usable(full);
    file->is_permitted = machine->is_permitted(full);
    file->in_group = machine->in_group(file->group);
    find_account(machine, "/etc/group", file->group, file->group_name, sizeof file->group_name, members,
                 sizeof members);
    file->is_member = has_member(members, user);
  }
}

/* ---- the kernel driver's list */

void crk_priv_architecture_name(uint64_t version, char *name, size_t size) {
  snprintf(name, size, "gfx%u%x%x", (unsigned)(version / 10000), (unsigned)(version / 100 % 100),
           (unsigned)(version % 100));
}

typedef struct look {
  const crk_machine_t *machine;
  crk_kfd_t *kfd;
} look_t;

static bool visit_node(void *context, const char *entry) {
  const look_t *self = context;
  char path[PATH_BYTES], text[TEXT_BYTES];
  char *end;
  const unsigned long node = strtoul(entry, &end, 10);
  snprintf(path, sizeof path, "%s/%s/properties", nodes, entry);
  if (*end != '\0' || end == entry || !read_text(self->machine, path, text, sizeof text)) {
    return false;
  }
  const uint64_t version = number_of(text, "gfx_target_version ");
  if (version == 0) { /* a CPU */
    return false;
  }
  crk_kernel_gpu_t *gpu = &self->kfd->gpus[self->kfd->count++];
  gpu->node = (uint32_t)node;
  crk_priv_architecture_name(version, gpu->architecture, sizeof gpu->architecture);
  const uint64_t minor = number_of(text, "drm_render_minor ");
  if (minor != 0) {
    snprintf(gpu->render.path, sizeof gpu->render.path, "/dev/dri/renderD%u", (unsigned)minor);
    look_at_file(self->machine, self->kfd->user, &gpu->render);
  }
  snprintf(path, sizeof path, "%s/%s/name", nodes, entry);
  if (read_text(self->machine, path, text, sizeof text)) {
    text[strcspn(text, "\n")] = '\0';
    snprintf(gpu->name, sizeof gpu->name, "%.63s", text);
  }
  return self->kfd->count == CRK_KERNEL_GPUS;
}

static int compare_gpus(const void *left, const void *right) {
  const crk_kernel_gpu_t *a = left, *b = right;
  return (a->node > b->node) - (a->node < b->node);
}

/* Looks for AMD's vendor number and the class of a display controller (03) or of an accelerator (12). */
static bool visit_pci(void *context, const char *entry) {
  const look_t *self = context;
  char path[PATH_BYTES], text[TEXT_BYTES];
  snprintf(path, sizeof path, "%s/%s/vendor", pci_devices, entry);
  if (entry[0] == '.' || !read_text(self->machine, path, text, sizeof text)) {
    return false;
  }
  self->kfd->has_pci = true;
  if (strtoul(text, NULL, 0) != 0x1002) {
    return false;
  }
  snprintf(path, sizeof path, "%s/%s/class", pci_devices, entry);
  const unsigned long class = read_text(self->machine, path, text, sizeof text) ? strtoul(text, NULL, 0) >> 16 : 0;
  const bool is_gpu = class == 0x03 || class == 0x12;
  if (is_gpu) {
    snprintf(self->kfd->pci, sizeof self->kfd->pci, "%.63s", entry);
  }
  return is_gpu;
}

/* Docker and Podman leave a file. Kubernetes sets a variable in each container. Others show in the control group of the
 * first process, if the container sees the host's names of groups. */
static bool is_container(const crk_machine_t *machine) {
  static const char *const words[] = {"docker", "containerd", "kubepods", "libpod", "crio", "lxc"};
  char groups[TEXT_BYTES], unused[2];
  bool found = is_file(machine, "/.dockerenv") || is_file(machine, "/run/.containerenv") ||
               crk_priv_variable("KUBERNETES_SERVICE_HOST", unused, sizeof unused);
  if (!found && read_text(machine, "/proc/1/cgroup", groups, sizeof groups)) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
      found = found || strstr(groups, words[i]) != NULL;
    }
  }
  return found;
}

void crk_priv_kfd_look(const crk_machine_t *machine, crk_kfd_t *kfd) {
  char path[PATH_BYTES], unused[2];
  look_t look = {machine, kfd};
  memset(kfd, 0, sizeof *kfd);
  kfd->is_wsl = is_file(machine, "/dev/dxg");
  kfd->is_container = is_container(machine);
  find_account(machine, "/etc/passwd", machine->user, kfd->user, sizeof kfd->user, unused, sizeof unused);
  strcpy(kfd->file.path, "/dev/kfd");
  look_at_file(machine, kfd->user, &kfd->file);
  snprintf(path, sizeof path, "%s%s", machine->root, nodes);
  crk_priv_folder_visit(path, visit_node, &look);
  qsort(kfd->gpus, kfd->count, sizeof *kfd->gpus, compare_gpus);
  snprintf(path, sizeof path, "%s%s", machine->root, pci_devices);
  crk_priv_folder_visit(path, visit_pci, &look);
}
