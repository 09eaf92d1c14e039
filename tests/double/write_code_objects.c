/* A program that writes the code objects which the double of libamdhip64 loads: a file <module>.hsaco per module.
 * tools/test-other-systems runs it for Windows, where the tests cannot compile the double.
 *
 * usage: write_code_objects ARCHITECTURE FOLDER */
#include <stdio.h>

#include "hip_double.h"
#include "modules.h"

static const char *const modules[] = {
#define XX(STEM, stem) #stem,
    CRK_MODULE_MAP(XX)
#undef XX
};

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: write_code_objects ARCHITECTURE FOLDER\n");
    return 2;
  }
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
    void *data;
    size_t bytes;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.hsaco", arguments[2], modules[i]);
    if (hip_double_code_object(modules[i], arguments[1], &data, &bytes) != 0) {
      fprintf(stderr, "write_code_objects: no code object of %s for %s\n", modules[i], arguments[1]);
      return 1;
    }
    FILE *file = fopen(path, "wb");
    const bool is_written = file != NULL && fwrite(data, 1, bytes, file) == bytes;
    if (file == NULL || fclose(file) != 0 || !is_written) {
      perror(path);
      return 1;
    }
    hip_double_code_object_free(data);
  }
  return 0;
}
