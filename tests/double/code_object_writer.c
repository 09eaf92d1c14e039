/* Writes the code object that a compiler would make from a host module, but without machine code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/code_object.h"
#include "hip_double.h"

typedef struct buffer {
  unsigned char *data;
  size_t bytes, capacity;
} buffer_t;

static void put(buffer_t *buffer, const void *data, size_t bytes) {
  if (buffer->bytes + bytes > buffer->capacity) {
    buffer->capacity = 2 * buffer->capacity + bytes + 4096;
    buffer->data = realloc(buffer->data, buffer->capacity);
    if (buffer->data == NULL) {
      abort();
    }
  }
  memcpy(buffer->data + buffer->bytes, data, bytes);
  buffer->bytes += bytes;
}

static void put_le(buffer_t *buffer, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    const unsigned char byte = (unsigned char)(value >> 8 * i);
    put(buffer, &byte, 1);
  }
}

static void pad(buffer_t *buffer, size_t multiple) {
  while (buffer->bytes % multiple != 0) {
    put_le(buffer, 0, 1);
  }
}

/* ---- msgpack */

static void put_be(buffer_t *buffer, uint64_t value, size_t bytes) {
  for (size_t i = bytes; i-- > 0;) {
    const unsigned char byte = (unsigned char)(value >> 8 * i);
    put(buffer, &byte, 1);
  }
}

static void put_number(buffer_t *buffer, uint64_t value) {
  if (value < 0x80) {
    put_be(buffer, value, 1);
  } else if (value < 0x100) {
    put_be(buffer, 0xcc, 1), put_be(buffer, value, 1);
  } else if (value < 0x10000) {
    put_be(buffer, 0xcd, 1), put_be(buffer, value, 2);
  } else {
    put_be(buffer, 0xce, 1), put_be(buffer, value, 4);
  }
}

static void put_text(buffer_t *buffer, const char *text) {
  const size_t length = strlen(text);
  if (length < 32) {
    put_be(buffer, 0xa0 | length, 1);
  } else {
    put_be(buffer, 0xd9, 1), put_be(buffer, length, 1);
  }
  put(buffer, text, length);
}

static void put_map(buffer_t *buffer, size_t count) {
  if (count < 16) {
    put_be(buffer, 0x80 | count, 1);
  } else {
    put_be(buffer, 0xde, 1), put_be(buffer, count, 2);
  }
}

static void put_array(buffer_t *buffer, size_t count) {
  if (count < 16) {
    put_be(buffer, 0x90 | count, 1);
  } else {
    put_be(buffer, 0xdc, 1), put_be(buffer, count, 2);
  }
}

static void put_entry(buffer_t *buffer, const char *key, uint64_t value) {
  put_text(buffer, key);
  put_number(buffer, value);
}

/* ---- metadata */

static uint64_t align_of(uint32_t bytes) { return bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1; }

static uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

static void put_argument(buffer_t *buffer, uint64_t offset, uint64_t bytes, const char *kind) {
  const int pointer = strcmp(kind, "global_buffer") == 0;
  put_map(buffer, pointer ? 4 : 3);
  if (pointer) {
    put_text(buffer, ".address_space");
    put_text(buffer, "global");
  }
  put_entry(buffer, ".offset", offset);
  put_entry(buffer, ".size", bytes);
  put_text(buffer, ".value_kind");
  put_text(buffer, kind);
}

static void put_kernel(buffer_t *buffer, const crk_host_kernel_t *kernel, uint32_t wave_size) {
  /* The hidden arguments that compilers add for a kernel that asks for its geometry. */
  static const struct {
    const char *kind;
    uint32_t bytes;
  } hidden[] = {{"hidden_block_count_x", 4}, {"hidden_block_count_y", 4},   {"hidden_block_count_z", 4},
                {"hidden_group_size_x", 2},  {"hidden_group_size_y", 2},    {"hidden_group_size_z", 2},
                {"hidden_remainder_x", 2},   {"hidden_global_offset_x", 8}, {"hidden_grid_dims", 2}};
  enum {
    HIDDEN = sizeof hidden / sizeof hidden[0]
  };
  char symbol[256];
  snprintf(symbol, sizeof symbol, "%s.kd", kernel->name);
  uint64_t offset = 0;
  put_map(buffer, 12);
  put_text(buffer, ".args");
  put_array(buffer, kernel->arg_count + HIDDEN);
  for (uint32_t i = 0; i < kernel->arg_count; i++) {
    offset = round_up(offset, align_of(kernel->args[i].bytes));
    put_argument(buffer, offset, kernel->args[i].bytes, kernel->args[i].is_pointer ? "global_buffer" : "by_value");
    offset += kernel->args[i].bytes;
  }
  offset = round_up(offset, 8);
  for (size_t i = 0; i < HIDDEN; i++) {
    offset = round_up(offset, hidden[i].bytes);
    put_argument(buffer, offset, hidden[i].bytes, hidden[i].kind);
    offset += hidden[i].bytes;
  }
  /* The size on CDNA. A compute unit has room for six blocks. */
  put_entry(buffer, ".group_segment_fixed_size", strncmp(kernel->name, "mul_mat_vec_q8_0_x", 18) == 0 ? 9728 : 0);
  put_entry(buffer, ".kernarg_segment_align", 8);
  put_entry(buffer, ".kernarg_segment_size", round_up(offset, 8));
  put_text(buffer, ".language");
  put_text(buffer, "OpenCL C");
  put_entry(buffer, ".max_flat_workgroup_size", kernel->max_threads);
  put_text(buffer, ".name");
  put_text(buffer, kernel->name);
  put_entry(buffer, ".private_segment_fixed_size", 0);
  put_entry(buffer, ".sgpr_count", 16);
  put_text(buffer, ".symbol");
  put_text(buffer, symbol);
  /* About as many registers as a compiler uses for products of up to two columns, and of more columns. */
  const size_t length = strlen(kernel->name);
  const char *end = kernel->name + (length < 3 ? 0 : length - 3);
  const int many = strcmp(end, "_x4") == 0 || strcmp(end, "_x8") == 0;
  put_entry(buffer, ".vgpr_count", (many ? 6144 : 4096) / wave_size);
  put_entry(buffer, ".wavefront_size", wave_size);
}

/* ---- ELF */

static const crk_architecture_t *architecture_of(const char *target) {
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(target, ":"), target);
  return crk_priv_architecture_find(name);
}

/* e_flags of code object version 4, and of version 6 without the generic version; 0 for an unknown architecture. */
static uint32_t flags_of(const char *architecture) {
  const crk_architecture_t *known = architecture_of(architecture);
  if (known == NULL) {
    return 0;
  }
  const char *xnack = strstr(architecture, ":xnack"), *sramecc = strstr(architecture, ":sramecc");
  const uint32_t with_xnack = xnack == NULL ? 0 : xnack[6] == '+' ? 0x300 : 0x200;
  return known->machine | with_xnack | (sramecc == NULL ? 0 : sramecc[8] == '+' ? 0xc00 : 0x800);
}

static void put_section(buffer_t *elf, uint32_t name, uint32_t type, uint64_t flags, uint64_t offset, uint64_t bytes) {
  put_le(elf, name, 4);
  put_le(elf, type, 4);
  put_le(elf, flags, 8);
  put_le(elf, type == 7 ? offset : 0, 8); /* address */
  put_le(elf, offset, 8);
  put_le(elf, bytes, 8);
  put_le(elf, 0, 8); /* link, info */
  put_le(elf, type == 0 ? 0 : 4, 8);
  put_le(elf, 0, 8); /* size of an entry */
}

int hip_double_code_object(const char *module, const char *architecture, void **data, size_t *bytes) {
  const crk_host_module_t *host = hip_double_host_module(module);
  const uint32_t flags = flags_of(architecture);
  if (host == NULL || flags == 0) {
    return -1;
  }
  size_t count = 0;
  for (const crk_host_kernel_t *kernel = host->kernels(); kernel != NULL; kernel = kernel->next) {
    count++;
  }
  const uint32_t wave_size = architecture_of(architecture)->simd.lanes;
  char target[128];
  snprintf(target, sizeof target, "amdgcn-amd-amdhsa--%s", architecture);
  buffer_t metadata = {NULL, 0, 0};
  put_map(&metadata, 3);
  put_text(&metadata, "amdhsa.kernels");
  put_array(&metadata, count);
  for (const crk_host_kernel_t *kernel = host->kernels(); kernel != NULL; kernel = kernel->next) {
    put_kernel(&metadata, kernel, wave_size);
  }
  put_text(&metadata, "amdhsa.target");
  put_text(&metadata, target);
  put_text(&metadata, "amdhsa.version");
  put_array(&metadata, 2);
  put_number(&metadata, 1);
  put_number(&metadata, 1);

  static const char names[] = "\0.note\0.shstrtab";
  const size_t note_at = 64 + 56, note_bytes = 12 + 8 + round_up(metadata.bytes, 4);
  const size_t names_at = note_at + note_bytes, sections_at = (size_t)round_up(names_at + sizeof names, 8);
  /* ROCm; code object version 4, for a generic target 6 */
  const unsigned char version = strstr(architecture, "-generic") != NULL ? 4 : 2;
  const unsigned char ident[16] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 64, version};
  buffer_t elf = {NULL, 0, 0};
  put(&elf, ident, sizeof ident);
  put_le(&elf, 3, 2);   /* linked */
  put_le(&elf, 224, 2); /* AMD GPU */
  put_le(&elf, 1, 4);
  put_le(&elf, 0, 8); /* entry */
  put_le(&elf, 64, 8);
  put_le(&elf, sections_at, 8);
  put_le(&elf, flags, 4);
  put_le(&elf, 64, 2);
  put_le(&elf, 56, 2);
  put_le(&elf, 1, 2);
  put_le(&elf, 64, 2);
  put_le(&elf, 3, 2);
  put_le(&elf, 2, 2);
  put_le(&elf, 4, 4); /* the segment: notes, readable */
  put_le(&elf, 4, 4);
  for (int i = 0; i < 3; i++) {
    put_le(&elf, note_at, 8);
  }
  put_le(&elf, note_bytes, 8);
  put_le(&elf, note_bytes, 8);
  put_le(&elf, 4, 8);
  put_le(&elf, 7, 4); /* the note: sizes, type, name */
  put_le(&elf, metadata.bytes, 4);
  put_le(&elf, 32, 4);
  put(&elf, "AMDGPU\0", 8);
  put(&elf, metadata.data, metadata.bytes);
  pad(&elf, 4);
  put(&elf, names, sizeof names);
  pad(&elf, 8);
  put_section(&elf, 0, 0, 0, 0, 0);
  put_section(&elf, 1, 7, 2, note_at, note_bytes);
  put_section(&elf, 7, 3, 0, names_at, sizeof names);
  free(metadata.data);
  *data = elf.data;
  *bytes = elf.bytes;
  return 0;
}

void hip_double_code_object_free(void *data) { free(data); }
