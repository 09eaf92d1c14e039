/* Unpacks embedded images; unpack.h describes the format. */
#include "image/unpack.h"

#include <string.h>

#include "error.h"
#include "image/code_object.h"
#include "image/compress.h"
#include "os/os.h"

enum {
  BUNDLE_ALIGNMENT = 4096, /* entries of a bundle begin at multiples of this (build/bundle.rs), so padding is less */
  TABLE_MOST = 1 << 20     /* the most bytes of a bundle's table */
};

/* A frame of a packed image. */
typedef struct frame {
  const unsigned char *data;
  size_t bytes;
  size_t content; /* decompressed bytes */
} frame_t;

bool crk_priv_is_packed(const void *data, size_t bytes) {
  static const unsigned char magic[] = {0x28, 0xb5, 0x2f, 0xfd};
  return bytes >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

static crk_status_t damaged(const char *module, crk_status_t status) {
  return crk_priv_error(status, "module %s: the packed image is cut off or damaged: %s", module, crk_last_error());
}

/* Reads the sizes of the frame at offset `at` of an image. */
static crk_status_t frame_at(const char *module, const void *data, size_t bytes, size_t at, frame_t *frame) {
  frame->data = (const unsigned char *)data + at;
  const crk_status_t status = crk_priv_zstd_frame(frame->data, bytes - at, &frame->bytes, &frame->content);
  return status == CRK_OK ? CRK_OK : damaged(module, status);
}

/* Decompresses one or more consecutive frames to `frames.content` bytes. */
static crk_status_t decompress(const char *module, frame_t frames, crk_image_t *image) {
  void *content = crk_priv_aligned_alloc(frames.content);
  if (content == NULL) {
    return crk_priv_error(CRK_OUT_OF_MEMORY, "module %s: no host memory for its %zu bytes", module, frames.content);
  }
  const crk_status_t status = crk_priv_zstd_decompress(frames.data, frames.bytes, content, frames.content);
  if (status != CRK_OK) {
    crk_priv_aligned_free(content);
    return damaged(module, status);
  }
  image->data = content;
  image->bytes = frames.content;
  return CRK_OK;
}

static void release(crk_image_t image) { crk_priv_aligned_free((void *)image.data); }

crk_status_t crk_priv_unpack(const char *module, const void *data, size_t bytes, crk_image_t *image) {
  frame_t all = {data, bytes, 0};
  for (size_t at = 0; at < bytes;) {
    frame_t frame;
    CRK_TRY(frame_at(module, data, bytes, at, &frame));
    at += frame.bytes;
    all.content += frame.content;
  }
  return decompress(module, all, image);
}

/* Decompresses the first frame, the table of a bundle. The caller frees its data. */
static crk_status_t unpack_table(const char *module, const void *data, size_t bytes, frame_t *frame,
                                 crk_image_t *table) {
  CRK_TRY(frame_at(module, data, bytes, 0, frame));
  if (frame->content > TABLE_MOST) {
    return crk_priv_error(
        CRK_INVALID_IMAGE,
        "module %s: the first frame of the packed image has %zu bytes, so it is no offload bundle's table", module,
        frame->content);
  }
  return decompress(module, *frame, table);
}

/* Finds the frame of the bundle's entry for a GPU. `elf_bytes` is the size of the ELF, without the zeros after it. */
static crk_status_t find_frame(const char *module, const char *architecture, const void *data, size_t bytes,
                               frame_t *frame, size_t *elf_bytes) {
  crk_image_t table;
  CRK_TRY(unpack_table(module, data, bytes, frame, &table));
  uint64_t offset, size;
  const crk_status_t status = crk_priv_bundle_find(module, architecture, table.data, table.bytes, &offset, &size);
  release(table);
  CRK_TRY(status);
  uint64_t begin = frame->content;
  size_t at = frame->bytes;
  while (at < bytes) {
    CRK_TRY(frame_at(module, data, bytes, at, frame));
    if (begin == offset && frame->content >= size && frame->content - size < BUNDLE_ALIGNMENT) {
      *elf_bytes = (size_t)size;
      return CRK_OK;
    }
    begin += frame->content;
    at += frame->bytes;
  }
  return crk_priv_error(CRK_INVALID_IMAGE,
                        "module %s: the packed image is cut off or damaged: no frame has the %llu bytes at offset %llu",
                        module, (unsigned long long)size, (unsigned long long)offset);
}

crk_status_t crk_priv_unpack_elf(const char *module, const char *architecture, const void *data, size_t bytes,
                                 crk_image_t *elf) {
  frame_t frame;
  size_t elf_bytes = 0;
  CRK_TRY(find_frame(module, architecture, data, bytes, &frame, &elf_bytes));
  crk_image_t content, found;
  CRK_TRY(decompress(module, frame, &content));
  crk_status_t status = crk_priv_code_object_find(module, architecture, content.data, elf_bytes, &found);
  if (status == CRK_OK && found.data != content.data) {
    status =
        crk_priv_error(CRK_INVALID_IMAGE,
                       "module %s: the packed image holds an offload bundle for this device, not an ELF file", module);
  }
  if (status != CRK_OK) {
    release(content);
    return status;
  }
  *elf = found;
  return CRK_OK;
}

crk_status_t crk_priv_image_targets(const char *module, const char *architecture, const void *data, size_t bytes,
                                    char *targets, size_t size, crk_fit_t *fit) {
  crk_image_t plain;
  frame_t frame;
  if (crk_priv_is_packed(data, bytes)) {
    CRK_TRY(unpack_table(module, data, bytes, &frame, &plain));
  } else {
    CRK_TRY(crk_priv_bundle_decompress(module, data, bytes, &plain));
  }
  const crk_status_t status =
      crk_priv_code_object_targets(module, architecture, plain.data, plain.bytes, targets, size, fit);
  if (plain.data != data) {
    release(plain);
  }
  return status;
}
