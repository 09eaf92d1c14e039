/* A first program in C: opens the best device, runs one kernel by Candle's name and one through a launcher, and reads
 * the results.
 *
 *   cc first.c $(pkg-config --cflags --libs candle_rocm) -o first
 *
 * CMakeLists.txt builds it with CMake. The README says how to install the library.
 *
 * Run it as `first [DEVICE]`, such as `first cpu:32`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "candle_rocm.h"

enum { ROWS = 3, COLS = 4, COUNT = ROWS * COLS };

/* Prints the library's sentence and ends the program where a call failed. */
static void check(crk_status_t status) {
  if (status != CRK_OK) {
    fprintf(stderr, "%s: %s\n", crk_status_name(status), crk_last_error());
    exit(1);
  }
}

/* Prints a finding of crk_diagnose. */
static void show_finding(void *user, const crk_finding_t *finding) {
  (void)user;
  fprintf(stderr, "%-7s  %-12s  %s\n", crk_severity_name(finding->severity), crk_topic_name(finding->topic),
          finding->sentence);
  if (finding->remedy[0] != '\0') {
    fprintf(stderr, "%23s  -> %s\n", "", finding->remedy);
  }
}

static void count_problem(void *user, const crk_finding_t *finding) {
  int *problems = user;
  *problems += finding->severity == CRK_SEVERITY_PROBLEM;
}

/* Opens the device that was named, else the best one. Ends the program where the library is built for a GPU, and only
 * the CPU can be used, for which nobody has asked. */
static crk_device_t open_device(const char *name) {
  crk_backend_t backend = CRK_BACKEND_AUTO;
  int32_t ordinal = 0;
  int problems = 0;
  crk_device_t device;
  crk_device_info_t info = {.struct_bytes = sizeof info};
  if (name != NULL) {
    check(crk_device_from_name(name, &backend, &ordinal));
  }
  check(crk_device_open(backend, ordinal, &device));
  check(crk_device_info(device, &info));
  const char *variable = getenv("CANDLE_ROCM_DEVICE");
  if (info.backend == CRK_BACKEND_CPU && name == NULL && (variable == NULL || variable[0] == '\0')) {
    check(crk_diagnose(count_problem, &problems));
    if (problems > 0) {
      check(crk_diagnose(show_finding, NULL));
      fprintf(stderr, "only the CPU can be used; choose it on purpose: first cpu:32\n");
      exit(1);
    }
  }
  printf("candle_rocm %s on %s (%s), waves of %u%s\n", crk_version(), info.name, info.architecture, info.wave_size,
         info.backend == CRK_BACKEND_CPU ? ": the CPU device, the reference" : "");
  return device;
}

static crk_view_t upload(crk_device_t device, const float *values, size_t count) {
  crk_view_t view = {NULL, count * sizeof *values};
  check(crk_alloc(device, view.bytes, &view.ptr));
  check(crk_copy_to_device(device, view, values, view.bytes));
  return view;
}

/* Prints the numbers on the device. False where they differ from the expected ones. */
static bool show(crk_device_t device, const char *what, crk_const_view_t view, const float *expected) {
  float got[COUNT];
  bool same = true;
  check(crk_copy_to_host(device, got, view, sizeof got));
  printf("%-24s", what);
  for (size_t i = 0; i < COUNT; i++) {
    printf(" %g", (double)got[i]);
    same = same && got[i] == expected[i];
  }
  printf("  %s\n", same ? "ok" : "WRONG");
  return same;
}

int main(int argc, char **argv) {
  const bool is_help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
  if (argc > 2 || is_help || (argc == 2 && argv[1][0] == '-')) {
    fputs("usage: first [DEVICE]\n  DEVICE  hip:0, cuda:0, cpu:32, cpu:64, or an architecture such as gfx1100\n",
          is_help ? stdout : stderr);
    return is_help ? 0 : 2;
  }
  crk_device_t device = open_device(argc == 2 ? argv[1] : NULL);

  float source[COUNT], negated[COUNT], sums[COUNT];
  const float row[COLS] = {10, 20, 30, 40};
  for (size_t i = 0; i < COUNT; i++) {
    source[i] = (float)i;
    /* The expected results: the transposed source negated, and the source with `row` added to each row. */
    negated[i] = -(float)(i % ROWS * COLS + i / ROWS);
    sums[i] = source[i] + row[i % COLS];
  }
  const crk_view_t src = upload(device, source, COUNT), broadcast = upload(device, row, COLS);
  crk_view_t dst = {NULL, sizeof source};
  check(crk_alloc(device, dst.bytes, &dst.ptr));

  /* By name: Candle's kernel with Candle's arguments. Its layout is on the device. */
  crk_layout_t transposed = {.rank = 2, .dims = {COLS, ROWS}, .strides = {1, COLS}, .offset = 0};
  crk_function_t negate;
  crk_params_t params;
  check(crk_function_get(device, "unary", "uneg_f32", &negate));
  check(crk_params_from_layout(device, &transposed, &params));
  const crk_arg_t args[] = {crk_arg_u64(COUNT), crk_arg_u64(transposed.rank), crk_arg_ptr(params.ptr),
                            crk_arg_ptr(src.ptr), crk_arg_ptr(dst.ptr)};
  check(crk_launch(device, negate, (crk_dim3_t){1, 1, 1}, (crk_dim3_t){1024, 1, 1}, 0, args,
                   sizeof args / sizeof args[0]));
  crk_params_release(device, params);
  bool ok = show(device, "uneg_f32, transposed:", crk_const(dst), negated);

  /* Through a launcher, which chooses the kernel and the geometry: adds a row to each row. */
  crk_layout_t flat, repeated;
  const size_t dims[] = {ROWS, COLS};
  check(crk_layout_contiguous(dims, 2, &flat));
  repeated = flat;
  repeated.strides[0] = 0;
  check(crk_binary(device, CRK_BINARY_ADD, CRK_DTYPE_F32, &flat, crk_const(src), &repeated, crk_const(broadcast), dst));
  ok = show(device, "add, row broadcast:", crk_const(dst), sums) && ok;

  /* A layout that reaches outside its buffer is refused, with a sentence. */
  flat.offset = 1;
  const crk_status_t status = crk_affine(device, CRK_DTYPE_F32, &flat, crk_const(src), dst, 2, 0);
  printf("%s: %s\n", crk_status_name(status), crk_last_error());
  ok = ok && status == CRK_OUT_OF_BOUNDS;

  check(crk_free(device, src.ptr));
  check(crk_free(device, broadcast.ptr));
  check(crk_free(device, dst.ptr));
  crk_device_close(device);
  return ok ? 0 : 1;
}
