/* Finds and reads AMD code objects. Every offset and count that comes from the file is checked against the size of the
 * file before it is used. Numbers are read byte by byte, so alignment and byte order do not matter. */
#include "image/code_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "image/compress.h"
#include "os/os.h"

static const crk_architecture_t architectures[] = {
#define XX(id, name, machine, generic, simd, dot4, dot2, matrix, ...) \
  {name, machine, generic, {CRK_SIMD_##simd}, CRK_MATRIX_##matrix},
    CRK_ARCHITECTURE_MAP(XX)
#undef XX
};

enum { ARCHITECTURE_COUNT = sizeof architectures / sizeof architectures[0] };

/* ELF: byte offsets of fields (64-bit, little endian), and their values. */
enum {
  ELF_HEADER = 64,
  ELF_OSABI = 7,
  ELF_ABIVERSION = 8,
  ELF_TYPE = 16,
  ELF_MACHINE = 18,
  ELF_PHOFF = 32,
  ELF_SHOFF = 40,
  ELF_FLAGS = 48,
  ELF_PHENTSIZE = 54,
  ELF_PHNUM = 56,
  ELF_SHENTSIZE = 58,
  ELF_SHNUM = 60,
  SEGMENT_HEADER = 56,
  SECTION_HEADER = 64,
  MACHINE_AMDGPU = 224,
  TYPE_RELOCATABLE = 1,
  TYPE_SHARED = 3,
  OSABI_AMDGPU_HSA = 64,
  ABI_V3 = 1, /* EI_ABIVERSION of code object version 3 */
  SEGMENT_NOTE = 4,
  SECTION_NOBITS = 8,
  NOTE_METADATA = 32
};

static const char bundle_magic[] = "__CLANG_OFFLOAD_BUNDLE__";
enum { BUNDLE_MAGIC = sizeof bundle_magic - 1 };

static const char compressed_magic[] = "CCOB";
enum { COMPRESSED_MAGIC = sizeof compressed_magic - 1 };

/* ---- bytes */

static uint64_t read_le(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--) {
    value = value << 8 | at[i];
  }
  return value;
}

static uint64_t read_be(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++) {
    value = value << 8 | at[i];
  }
  return value;
}

/* Whether [offset, offset + size) is inside [0, bytes), without overflow. */
static bool inside(uint64_t offset, uint64_t size, uint64_t bytes) { return offset <= bytes && size <= bytes - offset; }

/* ---- target names: "gfx90a:sramecc+:xnack-" */

/* A range of characters, not NUL-terminated. */
typedef struct text {
  const char *data;
  size_t length;
} text_t;

static text_t text_of(const char *string) {
  text_t text = {string, strlen(string)};
  return text;
}

static bool text_is(text_t text, const char *string) {
  return strlen(string) == text.length && memcmp(text.data, string, text.length) == 0;
}

/* Removes the part before the first colon, and the colon, from the front of `rest`. Returns the part. */
static text_t next_part(text_t *rest) {
  const char *colon = rest->length == 0 ? NULL : memchr(rest->data, ':', rest->length);
  text_t part = {rest->data, colon == NULL ? rest->length : (size_t)(colon - rest->data)};
  const size_t skipped = colon == NULL ? part.length : part.length + 1;
  rest->data += skipped;
  rest->length -= skipped;
  return part;
}

/* Returns the setting of a feature in `target`: '+', '-', or 0 if the target does not name the feature. */
static char feature_of(text_t target, text_t feature) {
  next_part(&target);
  while (target.length > 0) {
    const text_t part = next_part(&target);
    if (part.length == feature.length + 1 && memcmp(part.data, feature.data, feature.length) == 0) {
      return part.data[feature.length];
    }
  }
  return 0;
}

static const crk_architecture_t *architecture_by_name(text_t name) {
  for (size_t i = 0; i < ARCHITECTURE_COUNT; i++) {
    if (text_is(name, architectures[i].name)) {
      return &architectures[i];
    }
  }
  return NULL;
}

const crk_architecture_t *crk_priv_architecture_find(const char *name) { return architecture_by_name(text_of(name)); }

static const crk_architecture_t *architecture_by_machine(uint32_t machine) {
  for (size_t i = 0; i < ARCHITECTURE_COUNT; i++) {
    if (architectures[i].machine == machine) {
      return &architectures[i];
    }
  }
  return NULL;
}

static const char *generic_of(text_t name) {
  const crk_architecture_t *known = architecture_by_name(name);
  return known == NULL ? "" : known->generic;
}

/* The least rating of code for the device's own architecture. Each feature that the code names adds 1. */
enum { EXACT_FIT = 100 };

/* Rates how well code for `target` fits a device. 0 means that it does not run there; more is better. If the target
 * names a feature, the device must have it in the same setting. */
static int fitness(text_t target, text_t device) {
  text_t device_rest = device, target_rest = target;
  const text_t device_name = next_part(&device_rest), name = next_part(&target_rest);
  int fit = 0;
  if (name.length == device_name.length && memcmp(name.data, device_name.data, name.length) == 0) {
    fit = EXACT_FIT;
  } else if (name.length > 0 && text_is(name, generic_of(device_name))) {
    fit = 1;
  } else {
    return 0;
  }
  while (target_rest.length > 0) {
    text_t feature = next_part(&target_rest);
    if (feature.length < 2) {
      return 0;
    }
    const char wanted = feature.data[--feature.length];
    if (feature_of(device, feature) != wanted) {
      return 0;
    }
    fit++;
  }
  return fit;
}

/* ---- sentences */

static bool is_compressed(const unsigned char *data, size_t bytes) {
  return bytes >= COMPRESSED_MAGIC && memcmp(data, compressed_magic, COMPRESSED_MAGIC) == 0;
}

/* Names the kind of file that begins with these bytes, for an error sentence. */
static const char *describe(const unsigned char *data, size_t bytes) {
  if (bytes >= 4 && memcmp(data, "\177ELF", 4) == 0) {
    return "an ELF file";
  }
  if (bytes >= 4 && (read_le(data, 4) == 0xba55ed50 || read_le(data, 4) == 0x466243b1)) {
    return "a fatbin for NVIDIA";
  }
  if (bytes >= 4 && memcmp(data, "BC\xc0\xde", 4) == 0) {
    return "LLVM bitcode";
  }
  if (bytes >= 2 && memcmp(data, "MZ", 2) == 0) {
    return "a Windows program";
  }
  if (bytes >= 8 && memcmp(data, "!<arch>\n", 8) == 0) {
    return "an archive";
  }
  if (is_compressed(data, bytes)) {
    return "a compressed offload bundle inside another one";
  }
  for (size_t i = 0; i < bytes && i < 16; i++) {
    if (data[i] != '\n' && data[i] != '\r' && data[i] != '\t' && (data[i] < 32 || data[i] > 126)) {
      return "data of an unknown kind";
    }
  }
  return "text";
}

static const char *machine_name(uint64_t machine) {
  switch (machine) {
    case 3:
      return "x86";
    case 40:
      return "ARM";
    case 62:
      return "x86-64";
    case 183:
      return "AArch64";
    case 190:
      return "NVIDIA CUDA";
    case 243:
      return "RISC-V";
    default:
      return "another machine";
  }
}

/* A list of targets for an error sentence, cut off if it is too long. */
typedef struct target_list {
  char text[400];
  size_t length;
  bool full;
} target_list_t;

/* Leaves room for ", ..." and its NUL. */
static void target_list_add(target_list_t *list, text_t target) {
  const size_t comma = list->length == 0 ? 0 : 2;
  if (list->full || list->length + comma + target.length + 6 > sizeof list->text) {
    if (!list->full) {
      memcpy(list->text + list->length, ", ...", 6);
      list->full = true;
    }
    return;
  }
  memcpy(list->text + list->length, ", ", comma);
  for (size_t i = 0; i < target.length; i++) { /* the name comes from a file and may have any bytes */
    const char c = target.data[i];
    list->text[list->length + comma + i] = c >= 32 && c < 127 ? c : '?';
  }
  list->length += comma + target.length;
  list->text[list->length] = 0;
}

static crk_status_t wrong_architecture(const char *module, const char *what, const char *there, const char *device) {
  text_t rest = text_of(device);
  const text_t name = next_part(&rest);
  const char *generic = generic_of(name);
  return crk_priv_error(
      CRK_WRONG_ARCHITECTURE, "module %s: %s is for %s; this device is a %s and needs code for %.*s%s%s", module, what,
      there[0] == 0 ? "no GPU" : there, device, (int)name.length, name.data, generic[0] == 0 ? "" : " or ", generic);
}

/* ---- ELF */

/* Checks that the ELF is a complete linked AMD code object. */
static crk_status_t check_elf(const char *module, const unsigned char *elf, size_t bytes) {
  if (bytes < ELF_HEADER) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module %s: the ELF file is cut off in its header, after %zu bytes",
                          module, bytes);
  }
  if (elf[4] != 2 || elf[5] != 1) {
    return crk_priv_error(CRK_INVALID_IMAGE,
                          "module %s: the ELF file is not 64-bit little endian, so it is no AMD code object", module);
  }
  const uint64_t machine = read_le(elf + ELF_MACHINE, 2), type = read_le(elf + ELF_TYPE, 2);
  if (machine != MACHINE_AMDGPU) {
    return crk_priv_error(CRK_INVALID_IMAGE,
                          "module %s: the ELF file is for %s (machine %u), not for an AMD GPU (machine %d)", module,
                          machine_name(machine), (unsigned)machine, MACHINE_AMDGPU);
  }
  if (elf[ELF_OSABI] != OSABI_AMDGPU_HSA) {
    return crk_priv_error(
        CRK_INVALID_IMAGE,
        "module %s: the AMD ELF is for another system than ROCm (OS ABI %u, not %d); compile for amdgcn-amd-amdhsa",
        module, elf[ELF_OSABI], OSABI_AMDGPU_HSA);
  }
  if (type != TYPE_SHARED) {
    return crk_priv_error(
        CRK_INVALID_IMAGE, "module %s: the AMD ELF has type %u%s; it must be a linked code object (type %d)", module,
        (unsigned)type, type == TYPE_RELOCATABLE ? " (an object file before linking)" : "", TYPE_SHARED);
  }
  const uint64_t segments_at = read_le(elf + ELF_PHOFF, 8), segments = read_le(elf + ELF_PHNUM, 2);
  const uint64_t sections_at = read_le(elf + ELF_SHOFF, 8), sections = read_le(elf + ELF_SHNUM, 2);
  if ((segments > 0 && read_le(elf + ELF_PHENTSIZE, 2) != SEGMENT_HEADER) ||
      (sections > 0 && read_le(elf + ELF_SHENTSIZE, 2) != SECTION_HEADER)) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module %s: the AMD ELF has headers of an unknown size", module);
  }
  bool whole =
      inside(segments_at, segments * SEGMENT_HEADER, bytes) && inside(sections_at, sections * SECTION_HEADER, bytes);
  for (uint64_t i = 0; whole && i < segments; i++) {
    const unsigned char *segment = elf + segments_at + i * SEGMENT_HEADER;
    whole = inside(read_le(segment + 8, 8), read_le(segment + 32, 8), bytes);
  }
  for (uint64_t i = 0; whole && i < sections; i++) {
    const unsigned char *section = elf + sections_at + i * SECTION_HEADER;
    whole =
        read_le(section + 4, 4) == SECTION_NOBITS || inside(read_le(section + 24, 8), read_le(section + 32, 8), bytes);
  }
  if (!whole) {
    return crk_priv_error(CRK_INVALID_IMAGE,
                          "module %s: the AMD ELF is cut off: its headers reach beyond its %zu bytes", module, bytes);
  }
  if (segments == 0) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module %s: the AMD ELF has no segments, so there is nothing to load",
                          module);
  }
  return CRK_OK;
}

/* Writes the target that the ELF's flags give to `target`. Returns false if this library does not know the machine
 * number. */
static bool elf_target(const unsigned char *elf, char *target, size_t size) {
  static const char *const settings[] = {"", "", "-", "+"}; /* unsupported, any, off, on */
  const uint32_t flags = (uint32_t)read_le(elf + ELF_FLAGS, 4);
  const crk_architecture_t *architecture = architecture_by_machine(flags & 0xff);
  if (architecture == NULL) {
    snprintf(target, size, "an unknown GPU (machine 0x%02x)", (unsigned)(flags & 0xff));
    return false;
  }
  const char *xnack = "", *sramecc = "";
  if (elf[ELF_ABIVERSION] > ABI_V3) {
    xnack = settings[flags >> 8 & 3];
    sramecc = settings[flags >> 10 & 3];
  }
  snprintf(target, size, "%s%s%s%s%s", architecture->name, sramecc[0] == 0 ? "" : ":sramecc", sramecc,
           xnack[0] == 0 ? "" : ":xnack", xnack);
  return true;
}

const char *crk_priv_code_object_generic(crk_image_t elf) {
  const uint32_t flags = (uint32_t)read_le((const unsigned char *)elf.data + ELF_FLAGS, 4);
  const crk_architecture_t *known = architecture_by_machine(flags & 0xff);
  return known != NULL && strstr(known->name, "-generic") != NULL ? known->name : NULL;
}

/* Checks an ELF and its GPU. If this library does not know the ELF's GPU, the runtime decides in two cases: `trusted`
 * says that the bundle's entry fits the device; or the library does not know the device either. */
static crk_status_t accept_elf(const char *module, const char *device, const unsigned char *elf, size_t bytes,
                               bool trusted) {
  CRK_TRY(check_elf(module, elf, bytes));
  char target[64];
  text_t rest = text_of(device);
  if (!elf_target(elf, target, sizeof target)) {
    if (trusted || architecture_by_name(next_part(&rest)) == NULL) {
      return CRK_OK;
    }
  } else if (fitness(text_of(target), text_of(device)) > 0) {
    return CRK_OK;
  }
  return wrong_architecture(module, "the code object", target, device);
}

/* ---- offload bundles: the magic; the number of entries; for each entry its offset, its size, and the length and text
 * of its target */

/* Returns the target in an entry's name: "gfx90a:xnack-" for "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-". Empty for the
 * host's entry and for other devices. */
static text_t entry_target(text_t entry) {
  static const char *const prefixes[] = {"hipv4-amdgcn-amd-amdhsa-", "hip-amdgcn-amd-amdhsa-"};
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
    size_t skip = strlen(prefixes[i]);
    if (entry.length > skip && memcmp(entry.data, prefixes[i], skip) == 0) {
      while (skip < entry.length && entry.length - skip >= 4 && memcmp(entry.data + skip, "-gfx", 4) != 0 &&
             memcmp(entry.data + skip, "gfx", 3) != 0) {
        skip++; /* skips the environment in the triple, which is "unknown" in some compilers */
      }
      skip += skip < entry.length && entry.data[skip] == '-' ? 1 : 0;
      const text_t target = {entry.data + skip, entry.length - skip};
      return target;
    }
  }
  const text_t none = {entry.data, 0};
  return none;
}

/* The entry of a bundle that fits a device best. */
typedef struct best_entry {
  int fit; /* 0 if none fits */
  uint64_t offset, size;
} best_entry_t;

/* Reads the table of a bundle: lists its targets in `there`, and finds the best entry for the device. */
static crk_status_t search_bundle(const char *module, const char *architecture, const void *bundle, size_t bytes,
                                  target_list_t *there, best_entry_t *best) {
  const unsigned char *data = bundle;
  size_t at = BUNDLE_MAGIC;
  if (!inside(at, 8, bytes) || memcmp(data, bundle_magic, BUNDLE_MAGIC) != 0) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module %s: the offload bundle is cut off in its header, after %zu bytes",
                          module, bytes);
  }
  const uint64_t count = read_le(data + at, 8);
  at += 8;
  for (uint64_t i = 0; i < count; i++) {
    if (!inside(at, 24, bytes) || !inside(at + 24, read_le(data + at + 16, 8), bytes)) {
      return crk_priv_error(
          CRK_INVALID_IMAGE,
          "module %s: the offload bundle has %llu entries and is cut off in its table, after %zu bytes", module,
          (unsigned long long)count, bytes);
    }
    const uint64_t offset = read_le(data + at, 8), size = read_le(data + at + 8, 8);
    const text_t entry = {(const char *)data + at + 24, (size_t)read_le(data + at + 16, 8)};
    at += 24 + entry.length;
    const text_t target = entry_target(entry);
    if (target.length == 0 || size == 0) {
      continue;
    }
    target_list_add(there, target);
    const int fit = fitness(target, text_of(architecture));
    if (fit > best->fit) {
      best->fit = fit;
      best->offset = offset;
      best->size = size;
    }
  }
  return CRK_OK;
}

crk_status_t crk_priv_bundle_find(const char *module, const char *architecture, const void *data, size_t bytes,
                                  uint64_t *offset, uint64_t *size) {
  target_list_t there = {"", 0, false};
  best_entry_t best = {0, 0, 0};
  CRK_TRY(search_bundle(module, architecture, data, bytes, &there, &best));
  if (best.fit == 0) {
    return wrong_architecture(module, "the offload bundle", there.text, architecture);
  }
  *offset = best.offset;
  *size = best.size;
  return CRK_OK;
}

static crk_status_t find_in_bundle(const char *module, const char *device, const unsigned char *data, size_t bytes,
                                   crk_image_t *elf) {
  uint64_t offset = 0, size = 0;
  CRK_TRY(crk_priv_bundle_find(module, device, data, bytes, &offset, &size));
  if (!inside(offset, size, bytes)) {
    return crk_priv_error(
        CRK_INVALID_IMAGE,
        "module %s: the offload bundle is cut off after %zu bytes; its code for this device has %llu bytes at "
        "offset %llu",
        module, bytes, (unsigned long long)size, (unsigned long long)offset);
  }
  if (size < 4 || memcmp(data + offset, "\177ELF", 4) != 0) {
    return crk_priv_error(CRK_INVALID_IMAGE,
                          "module %s: the offload bundle's entry for this device is %s, not an ELF file", module,
                          describe(data + offset, (size_t)size));
  }
  CRK_TRY(accept_elf(module, device, data + offset, (size_t)size, true));
  elf->data = data + offset;
  elf->bytes = (size_t)size;
  return CRK_OK;
}

/* ---- compressed bundles: the magic; version and method, 2 bytes each; from version 2 on the size of the file; the
 * size of the bundle; 8 bytes of a hash, which is not checked; the compressed data. Sizes have 4 bytes, from version 3
 * on 8 bytes. */

enum { METHOD_ZLIB = 0, METHOD_ZSTD = 1 };

/* The most decompressed bytes per compressed byte: a zstd block of 4 bytes can repeat one byte 2^17 times. */
static const uint64_t most_per_byte = (uint64_t)1 << 15;

crk_status_t crk_priv_bundle_decompress(const char *module, const void *image, size_t bytes, crk_image_t *bundle) {
  const unsigned char *data = image;
  bundle->data = image;
  bundle->bytes = bytes;
  if (data == NULL || !is_compressed(data, bytes)) {
    return CRK_OK;
  }
  const uint64_t version = inside(4, 2, bytes) ? read_le(data + 4, 2) : 1;
  if (version < 1 || version > 3) {
    return crk_priv_error(
        CRK_INVALID_IMAGE,
        "module %s: the compressed offload bundle has version %u, which this library does not know; compile "
        "it with --no-offload-compress",
        module, (unsigned)version);
  }
  const int size_bytes = version == 3 ? 8 : 4;
  const size_t sizes_at = 8, content_at = sizes_at + (version > 1 ? (size_t)size_bytes : 0);
  const size_t head = content_at + (size_t)size_bytes + 8;
  if (!inside(0, head, bytes)) {
    return crk_priv_error(CRK_INVALID_IMAGE,
                          "module %s: the compressed offload bundle is cut off in its header, after %zu bytes", module,
                          bytes);
  }
  const uint64_t method = read_le(data + 6, 2), content = read_le(data + content_at, size_bytes);
  const uint64_t file = version > 1 ? read_le(data + sizes_at, size_bytes) : bytes;
  if (method != METHOD_ZSTD) {
    return crk_priv_error(
        CRK_INVALID_IMAGE,
        "module %s: the offload bundle is compressed by %s, not by zstd; compile it with a clang that "
        "has zstd, or with --no-offload-compress",
        module, method == METHOD_ZLIB ? "zlib" : "an unknown method");
  }
  if (file < head || file > bytes || content == 0 || content > (file - head + 1) * most_per_byte) {
    return crk_priv_error(
        CRK_INVALID_IMAGE,
        "module %s: the compressed offload bundle is cut off or damaged: its header says %llu bytes, or %llu "
        "decompressed; the image has %zu bytes",
        module, (unsigned long long)file, (unsigned long long)content, bytes);
  }
  void *plain = crk_priv_aligned_alloc((size_t)content);
  if (plain == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "module %s: no host memory for the %llu bytes of its offload bundle",
                          module, (unsigned long long)content);
  }
  const crk_status_t status = crk_priv_zstd_decompress(data + head, (size_t)(file - head), plain, (size_t)content);
  if (status != CRK_OK) {
    crk_priv_aligned_free(plain);
    char why[400];
    snprintf(why, sizeof why, "%s", crk_last_error());
    return crk_priv_error(status, "module %s: the compressed offload bundle is damaged: %s", module, why);
  }
  bundle->data = plain;
  bundle->bytes = (size_t)content;
  return CRK_OK;
}

crk_status_t crk_priv_code_object_find(const char *module, const char *architecture, const void *image, size_t bytes,
                                       crk_image_t *elf) {
  const unsigned char *data = image;
  if (data == NULL || bytes == 0) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module %s: the code object is empty", module);
  }
  if (bytes >= 4 && memcmp(data, "\177ELF", 4) == 0) {
    CRK_TRY(accept_elf(module, architecture, data, bytes, false));
    elf->data = data;
    elf->bytes = bytes;
    return CRK_OK;
  }
  const size_t magic = bytes < BUNDLE_MAGIC ? bytes : (size_t)BUNDLE_MAGIC;
  if (memcmp(data, bundle_magic, magic) == 0) {
    return find_in_bundle(module, architecture, data, bytes, elf);
  }
  return crk_priv_error(
      CRK_INVALID_IMAGE,
      "module %s: %zu bytes that are %s; an AMD ELF code object or an offload bundle of them is needed", module, bytes,
      describe(data, bytes));
}

crk_status_t crk_priv_code_object_targets(const char *module, const char *architecture, const void *image, size_t bytes,
                                          char *targets, size_t size, crk_fit_t *fit) {
  target_list_t there = {"", 0, false};
  best_entry_t best = {0, 0, 0};
  if (bytes >= 4 && memcmp(image, "\177ELF", 4) == 0) {
    char target[64];
    CRK_TRY(check_elf(module, image, bytes));
    elf_target(image, target, sizeof target);
    target_list_add(&there, text_of(target));
    best.fit = fitness(text_of(target), text_of(architecture));
  } else {
    CRK_TRY(search_bundle(module, architecture, image, bytes, &there, &best));
  }
  snprintf(targets, size, "%s", there.text);
  *fit = best.fit >= EXACT_FIT ? CRK_FIT_EXACT : best.fit > 0 ? CRK_FIT_GENERIC : CRK_FIT_NONE;
  return CRK_OK;
}

/* ---- the part of msgpack that the metadata uses */

typedef struct reader {
  const unsigned char *at, *end;
  bool broken;
} reader_t;

typedef enum value_kind { VALUE_OTHER, VALUE_NUMBER, VALUE_STRING, VALUE_ARRAY, VALUE_MAP } value_kind_t;

typedef struct value {
  value_kind_t kind;
  uint64_t number; /* the number, or the count of an array or a map */
  text_t text;
} value_t;

static size_t left_in(const reader_t *reader) { return (size_t)(reader->end - reader->at); }

static uint64_t take_number(reader_t *reader, int bytes) {
  if (reader->broken || left_in(reader) < (size_t)bytes) {
    reader->broken = true;
    return 0;
  }
  const uint64_t number = read_be(reader->at, bytes);
  reader->at += bytes;
  return number;
}

static text_t take_bytes(reader_t *reader, uint64_t length) {
  const text_t nothing = {"", 0};
  if (reader->broken || left_in(reader) < length) {
    reader->broken = true;
    return nothing;
  }
  const text_t text = {(const char *)reader->at, (size_t)length};
  reader->at += length;
  return text;
}

/* Reads the next value. For an array or a map, reads only the head; the elements follow. An element has at least one
 * byte, so a count above the number of bytes left makes the reader broken, and loops over elements end. */
static value_t take_value(reader_t *reader) {
  value_t value = {VALUE_OTHER, 0, {"", 0}};
  const unsigned head = (unsigned)take_number(reader, 1);
  if (reader->broken) {
    return value;
  }
  /* Heads up to 0xbf contain the number, count or length. Most later heads are followed by it, in 1, 2, 4 or 8
   * bytes. */
  if (head <= 0x7f) {
    value.kind = VALUE_NUMBER;
    value.number = head;
  } else if (head <= 0x8f) {
    value.kind = VALUE_MAP;
    value.number = head & 15;
  } else if (head <= 0x9f) {
    value.kind = VALUE_ARRAY;
    value.number = head & 15;
  } else if (head <= 0xbf) {
    value.kind = VALUE_STRING;
    value.text = take_bytes(reader, head & 31);
  } else if (head <= 0xc3) { /* nil, booleans, and 0xc1, which is never used */
    reader->broken = head == 0xc1;
  } else if (head <= 0xc6) { /* binary */
    take_bytes(reader, take_number(reader, 1 << (head - 0xc4)));
  } else if (head <= 0xc9) { /* an extension: its size, one byte for its type, its bytes */
    take_bytes(reader, take_number(reader, 1 << (head - 0xc7)) + 1);
  } else if (head <= 0xcb) { /* floats */
    take_bytes(reader, (uint64_t)4 << (head - 0xca));
  } else if (head <= 0xcf) {
    value.kind = VALUE_NUMBER;
    value.number = take_number(reader, 1 << (head - 0xcc));
  } else if (head <= 0xd3) { /* signed numbers; none is needed */
    take_bytes(reader, (uint64_t)1 << (head - 0xd0));
  } else if (head <= 0xd8) { /* an extension of 1 to 16 bytes, after one byte for its type */
    take_bytes(reader, ((uint64_t)1 << (head - 0xd4)) + 1);
  } else if (head <= 0xdb) {
    value.kind = VALUE_STRING;
    value.text = take_bytes(reader, take_number(reader, 1 << (head - 0xd9)));
  } else if (head <= 0xdd) {
    value.kind = VALUE_ARRAY;
    value.number = take_number(reader, 2 << (head - 0xdc));
  } else if (head <= 0xdf) {
    value.kind = VALUE_MAP;
    value.number = take_number(reader, 2 << (head - 0xde));
  } /* else a small negative number: VALUE_OTHER */
  if ((value.kind == VALUE_ARRAY || value.kind == VALUE_MAP) && value.number > left_in(reader)) {
    reader->broken = true;
  }
  if (reader->broken) {
    value.kind = VALUE_OTHER;
    value.number = 0;
    value.text.length = 0;
  }
  return value;
}

/* Skips the elements of `value`. Without recursion: the elements of a nested array or map are added to the count. */
static void skip_rest(reader_t *reader, value_t value) {
  uint64_t left = value.kind == VALUE_MAP ? 2 * value.number : value.kind == VALUE_ARRAY ? value.number : 0;
  while (left > 0 && !reader->broken) {
    const value_t next = take_value(reader);
    left--;
    left += next.kind == VALUE_MAP ? 2 * next.number : next.kind == VALUE_ARRAY ? next.number : 0;
    if (left > left_in(reader)) {
      reader->broken = true;
    }
  }
}

/* Reads a value that must be of a kind. Another kind makes the reader broken. */
static value_t take_kind(reader_t *reader, value_kind_t kind) {
  const value_t value = take_value(reader);
  if (value.kind != kind) {
    reader->broken = true;
    const value_t nothing = {kind, 0, {"", 0}};
    return nothing;
  }
  return value;
}

/* ---- metadata */

struct crk_code_kernels {
  size_t count;
  crk_code_kernel_t *kernels; /* sorted by name */
  crk_param_t *params;
  char *names;
};

/* The progress of a walk over the metadata. The first walk only counts, with `out` NULL; the second one writes to
 * `out`. */
typedef struct walk {
  size_t kernels, params, name_bytes;
  crk_code_kernels_t *out;
} walk_t;

static bool starts_with(text_t text, const char *prefix) {
  const size_t length = strlen(prefix);
  return text.length >= length && memcmp(text.data, prefix, length) == 0;
}

static void walk_argument(reader_t *reader, walk_t *walk) {
  const value_t map = take_kind(reader, VALUE_MAP);
  text_t kind = {"", 0};
  uint64_t size = 0;
  for (uint64_t i = 0; i < map.number && !reader->broken; i++) {
    const text_t key = take_kind(reader, VALUE_STRING).text;
    if (text_is(key, ".value_kind")) {
      kind = take_kind(reader, VALUE_STRING).text;
    } else if (text_is(key, ".size")) {
      size = take_kind(reader, VALUE_NUMBER).number;
    } else {
      skip_rest(reader, take_value(reader));
    }
  }
  if (kind.length == 0 || size > UINT32_MAX) {
    reader->broken = true;
  }
  if (reader->broken || starts_with(kind, "hidden_")) {
    return;
  }
  if (walk->out != NULL) {
    crk_param_t *param = &walk->out->params[walk->params];
    param->bytes = (uint32_t)size;
    param->is_pointer = text_is(kind, "global_buffer") || text_is(kind, "dynamic_shared_pointer");
  }
  walk->params++;
}

static void walk_kernel(reader_t *reader, walk_t *walk) {
  const value_t map = take_kind(reader, VALUE_MAP);
  text_t name = {"", 0};
  uint64_t max_threads = 0, shared_bytes = 0, registers = 0;
  const size_t first_param = walk->params;
  for (uint64_t i = 0; i < map.number && !reader->broken; i++) {
    const text_t key = take_kind(reader, VALUE_STRING).text;
    if (text_is(key, ".name")) {
      name = take_kind(reader, VALUE_STRING).text;
    } else if (text_is(key, ".max_flat_workgroup_size")) {
      max_threads = take_kind(reader, VALUE_NUMBER).number;
    } else if (text_is(key, ".group_segment_fixed_size")) {
      shared_bytes = take_kind(reader, VALUE_NUMBER).number;
    } else if (text_is(key, ".vgpr_count")) {
      registers = take_kind(reader, VALUE_NUMBER).number;
    } else if (text_is(key, ".args")) {
      const uint64_t count = take_kind(reader, VALUE_ARRAY).number;
      for (uint64_t k = 0; k < count && !reader->broken; k++) {
        walk_argument(reader, walk);
      }
    } else {
      skip_rest(reader, take_value(reader));
    }
  }
  if (name.length == 0 || memchr(name.data, 0, name.length) != NULL || max_threads > UINT32_MAX ||
      shared_bytes > UINT32_MAX || registers > UINT32_MAX) {
    reader->broken = true;
  }
  if (reader->broken) {
    return;
  }
  if (walk->out != NULL) {
    crk_code_kernel_t *kernel = &walk->out->kernels[walk->kernels];
    char *copy = walk->out->names + walk->name_bytes;
    memcpy(copy, name.data, name.length);
    copy[name.length] = 0;
    kernel->name = copy;
    kernel->params = walk->out->params + first_param;
    kernel->param_count = walk->params - first_param;
    kernel->max_threads = (uint32_t)max_threads;
    kernel->shared_bytes = (uint32_t)shared_bytes;
    kernel->registers = (uint32_t)registers;
  }
  walk->kernels++;
  walk->name_bytes += name.length + 1;
}

/* Returns false if the metadata is broken. */
static bool walk_metadata(text_t metadata, walk_t *walk) {
  reader_t reader = {(const unsigned char *)metadata.data, (const unsigned char *)metadata.data + metadata.length,
                     false};
  const value_t map = take_kind(&reader, VALUE_MAP);
  for (uint64_t i = 0; i < map.number && !reader.broken; i++) {
    const text_t key = take_kind(&reader, VALUE_STRING).text;
    if (text_is(key, "amdhsa.kernels")) {
      const uint64_t count = take_kind(&reader, VALUE_ARRAY).number;
      for (uint64_t k = 0; k < count && !reader.broken; k++) {
        walk_kernel(&reader, walk);
      }
    } else {
      skip_rest(&reader, take_value(&reader));
    }
  }
  return !reader.broken;
}

/* Finds the metadata note of an ELF that check_elf has accepted. Returns an empty text if there is none. */
static text_t find_metadata(crk_image_t image) {
  const unsigned char *elf = image.data;
  const uint64_t segments_at = read_le(elf + ELF_PHOFF, 8), segments = read_le(elf + ELF_PHNUM, 2);
  for (uint64_t i = 0; i < segments; i++) {
    const unsigned char *segment = elf + segments_at + i * SEGMENT_HEADER;
    if (read_le(segment, 4) != SEGMENT_NOTE) {
      continue;
    }
    const unsigned char *notes = elf + read_le(segment + 8, 8);
    const uint64_t bytes = read_le(segment + 32, 8);
    /* A note: name size, description size, type; then name and description, each padded to 4 bytes. */
    for (uint64_t at = 0; inside(at, 12, bytes);) {
      const uint64_t name_size = read_le(notes + at, 4), size = read_le(notes + at + 4, 4);
      const uint64_t type = read_le(notes + at + 8, 4), name_at = at + 12,
                     data_at = name_at + ((name_size + 3) & ~(uint64_t)3);
      if (!inside(name_at, name_size, bytes) || !inside(data_at, size, bytes)) {
        break;
      }
      if (type == NOTE_METADATA && name_size == 7 && memcmp(notes + name_at, "AMDGPU", 7) == 0) {
        const text_t metadata = {(const char *)notes + data_at, (size_t)size};
        return metadata;
      }
      at = data_at + ((size + 3) & ~(uint64_t)3);
    }
  }
  const text_t none = {"", 0};
  return none;
}

static int compare_kernels(const void *left, const void *right) {
  return strcmp(((const crk_code_kernel_t *)left)->name, ((const crk_code_kernel_t *)right)->name);
}

crk_status_t crk_priv_code_kernels_create(const char *module, crk_image_t elf, crk_code_kernels_t **kernels) {
  const text_t metadata = find_metadata(elf);
  if (metadata.length == 0) {
    *kernels = NULL;
    return CRK_OK;
  }
  walk_t walk = {0, 0, 0, NULL};
  if (!walk_metadata(metadata, &walk)) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module %s: the code object's metadata (%zu bytes) is broken", module,
                          metadata.length);
  }
  crk_code_kernels_t *out = calloc(1, sizeof *out);
  if (out != NULL) {
    out->count = walk.kernels;
    out->kernels = calloc(walk.kernels + 1, sizeof *out->kernels);
    out->params = calloc(walk.params + 1, sizeof *out->params);
    out->names = calloc(walk.name_bytes + 1, 1);
  }
  if (out == NULL || out->kernels == NULL || out->params == NULL || out->names == NULL) {
    crk_priv_code_kernels_destroy(out);
    return crk_priv_error(CRK_OUT_OF_MEMORY, "module %s: no host memory for the names of %zu kernels", module,
                          walk.kernels);
  }
  walk_t again = {0, 0, 0, out};
  walk_metadata(metadata, &again);
  qsort(out->kernels, out->count, sizeof *out->kernels, compare_kernels);
  *kernels = out;
  return CRK_OK;
}

void crk_priv_code_kernels_destroy(crk_code_kernels_t *kernels) {
  if (kernels != NULL) {
    free(kernels->kernels);
    free(kernels->params);
    free(kernels->names);
    free(kernels);
  }
}

const crk_code_kernel_t *crk_priv_code_kernels_find(const crk_code_kernels_t *kernels, const char *name) {
  const crk_code_kernel_t key = {.name = name};
  return bsearch(&key, kernels->kernels, kernels->count, sizeof *kernels->kernels, compare_kernels);
}
