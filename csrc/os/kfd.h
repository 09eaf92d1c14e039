/* kfd.h: what Linux shows of AMD GPUs without their runtime: the device files of the kernel driver amdgpu and its list
 * of GPUs. On other systems there are none of these files. */
#ifndef CRK_KFD_H
#define CRK_KFD_H

#include "os/os.h"

/* The machine that is looked at. Tests make one up. */
typedef struct crk_machine {
  const char *root; /* stands before every path; "" for the machine itself */
  bool (*is_usable)(const char *path); /* crk_priv_file_usable */
  bool (*is_permitted)(const char *path); /* crk_priv_file_permitted */
  bool (*in_group)(uint32_t group); /* crk_priv_in_group */
  uint32_t user; /* crk_priv_user */
} crk_machine_t;

/* This machine, seen by this process. */
crk_machine_t crk_priv_machine(void);

/* A device file, and why it cannot be used. */
typedef struct crk_device_file {
  char path[64]; /* without the root */
  bool is_there, is_usable;
  bool is_permitted; /* owner, group and mode let the process use the file, if it can be opened or not */
  bool in_group; /* the process has the file's group */
  bool is_member; /* /etc/group lists the user in that group */
  uint32_t group, mode;
  char group_name[64]; /* "" if /etc/group has no such group */
} crk_device_file_t;

/* A GPU that the kernel driver lists. */
typedef struct crk_kernel_gpu {
  uint32_t node;
  char architecture[16]; /* "gfx1100" */
  char name[64]; /* as the driver spells it, such as "navi31"; may be "" */
  crk_device_file_t render; /* /dev/dri/renderD128 */
} crk_kernel_gpu_t;

enum { CRK_KERNEL_GPUS = 32 }; /* the most that are read */

typedef struct crk_kfd {
  bool is_wsl, is_container;
  crk_device_file_t file; /* /dev/kfd */
  char user[64]; /* the user's name; "" if /etc/passwd has none */
  bool has_pci; /* the system shows PCI devices */
  char pci[64]; /* the address of the first AMD GPU among them; "" if there is none */
  size_t count;
  crk_kernel_gpu_t gpus[CRK_KERNEL_GPUS];
} crk_kfd_t;

void crk_priv_kfd_look(const crk_machine_t *machine, crk_kfd_t *kfd);

/* Writes the name of an architecture from the kernel driver's number: "gfx90a" for 90010, "gfx1100" for 110000. */
void crk_priv_architecture_name(uint64_t version, char *name, size_t size);

#endif
