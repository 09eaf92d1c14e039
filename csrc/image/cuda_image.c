/* Checks of images for NVIDIA GPUs: cubins, fatbins and PTX. */
#include "image/cuda_image.h"

#include <stdio.h>
#include <string.h>

#include "error.h"

/* The little-endian number of `bytes` bytes at `data`. */
static uint64_t number_at(const unsigned char *data, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) {
    value = value << 8 | data[i];
  }
  return value;
}

/* Whether `count` entries of `entry` bytes from `offset` on lie within `bytes`, without overflow. */
static bool table_fits(uint64_t offset, uint64_t count, uint64_t entry, uint64_t bytes) {
  return count <= UINT32_MAX && entry <= UINT32_MAX && offset <= bytes && count * entry <= bytes - offset;
}

/* Checks a cubin: a 64-bit ELF with all headers, sections and segments within its bytes. */
static crk_status_t check_cubin(const char *name, const unsigned char *data, size_t bytes) {
  enum {
    ELF_HEADER = 64,
    SEGMENT_HEADER = 56,
    SECTION_HEADER = 64,
    ELFCLASS64 = 2,
    ELFDATA2LSB = 1,
    EM_CUDA = 190,
    SHT_NOBITS = 8
  };
  if (bytes < ELF_HEADER) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module %s: %zu bytes are less than the %d of an ELF header: truncated",
                          name, bytes, ELF_HEADER);
  }
  if (data[4] != ELFCLASS64 || data[5] != ELFDATA2LSB || number_at(data + 18, 2) != EM_CUDA) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module %s: the ELF is for machine %u; it must be for CUDA (%d, 64-bit)",
                          name, (unsigned)number_at(data + 18, 2), EM_CUDA);
  }
  const uint64_t segments = number_at(data + 32, 8), sections = number_at(data + 40, 8);
  const uint64_t segment_bytes = number_at(data + 54, 2), segment_count = number_at(data + 56, 2);
  const uint64_t section_bytes = number_at(data + 58, 2), section_count = number_at(data + 60, 2);
  if (!table_fits(segments, segment_count, segment_bytes, bytes) ||
      !table_fits(sections, section_count, section_bytes, bytes) ||
      (segment_count != 0 && segment_bytes < SEGMENT_HEADER) ||
      (section_count != 0 && section_bytes < SECTION_HEADER)) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module %s: the headers of the ELF reach beyond its %zu bytes: truncated",
                          name, bytes);
  }
  for (uint64_t i = 0; i < segment_count; i++) {
    const unsigned char *const header = data + segments + i * segment_bytes;
    if (!table_fits(number_at(header + 8, 8), 1, number_at(header + 32, 8), bytes)) {
      return crk_priv_error(CRK_INVALID_IMAGE,
                            "module %s: segment %u of the ELF reaches beyond its %zu bytes: truncated", name,
                            (unsigned)i, bytes);
    }
  }
  for (uint64_t i = 0; i < section_count; i++) {
    const unsigned char *const header = data + sections + i * section_bytes;
    if (number_at(header + 4, 4) != SHT_NOBITS &&
        !table_fits(number_at(header + 24, 8), 1, number_at(header + 32, 8), bytes)) {
      return crk_priv_error(CRK_INVALID_IMAGE,
                            "module %s: section %u of the ELF reaches beyond its %zu bytes: truncated", name,
                            (unsigned)i, bytes);
    }
  }
  return CRK_OK;
}

/* A fatbin: magic number (4 bytes), version (2), bytes of this header (2), bytes of what follows (8). */
enum { FATBIN_HEADER = 16 };
static const unsigned char fatbin_magic[4] = {0x50, 0xed, 0x55, 0xba};
static const unsigned char elf_magic[4] = {0x7f, 'E', 'L', 'F'};

static crk_status_t check_fatbin(const char *name, const unsigned char *data, size_t bytes) {
  const uint64_t header = bytes < FATBIN_HEADER ? 0 : number_at(data + 6, 2);
  if (header < FATBIN_HEADER || header > bytes || number_at(data + 8, 8) > bytes - header) {
    return crk_priv_error(CRK_INVALID_IMAGE,
                          "module %s: the fatbin has only %zu bytes, fewer than its header says: truncated", name,
                          bytes);
  }
  if (number_at(data + 8, 8) == 0) {
    return crk_priv_error(CRK_INVALID_IMAGE, "module %s: the fatbin is empty", name);
  }
  return CRK_OK;
}

/* Checks PTX: text with a .version and a .target, and a NUL at its end, within `bytes`. */
static crk_status_t check_ptx(const char *name, const char *text, size_t bytes, int32_t ordinal, int capability) {
  if (memchr(text, '\0', bytes) == NULL) {
    return crk_priv_error(
        CRK_INVALID_IMAGE,
        "module %s: neither a fatbin, nor a cubin, nor PTX, which ends with a NUL within its %zu bytes", name, bytes);
  }
  const char *const target = strstr(text, ".target");
  if (strstr(text, ".version") == NULL || target == NULL) {
    return crk_priv_error(CRK_INVALID_IMAGE,
                          "module %s: neither a fatbin, nor a cubin, nor PTX, which has a .version and a .target",
                          name);
  }
  int wanted = 0;
  if (sscanf(target, ".target sm_%d", &wanted) == 1 && wanted > capability) {
    return crk_priv_error(CRK_WRONG_ARCHITECTURE, "module %s: the PTX is for sm_%d, but device %d is sm_%d", name,
                          wanted, (int)ordinal, capability);
  }
  return CRK_OK;
}

crk_status_t crk_priv_check_cuda_image(const char *name, const void *data, size_t bytes, int32_t ordinal,
                                       int capability) {
  if (bytes >= sizeof elf_magic && memcmp(data, elf_magic, sizeof elf_magic) == 0) {
    return check_cubin(name, data, bytes);
  }
  if (bytes >= sizeof fatbin_magic && memcmp(data, fatbin_magic, sizeof fatbin_magic) == 0) {
    return check_fatbin(name, data, bytes);
  }
  return check_ptx(name, data, bytes, ordinal, capability);
}
