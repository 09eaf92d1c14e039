/* crk_launch: launches any kernel after checking its arguments. The launchers in csrc/launch/ do not go through it. */
#include "core.h"

enum { MOST_ARGUMENTS = 64 };

static crk_status_t check_geometry(crk_device_t self, crk_function_t function, crk_dim3_t grid, crk_dim3_t block,
                                   uint32_t shared_bytes) {
  const crk_device_info_t *info = &self->context->info;
  CRK_REFUSE_IF(block.x == 0 || block.y == 0 || block.z == 0,
                "crk_launch: '%s': block (%u, %u, %u) has a 0; each size is at least 1", function->name, block.x,
                block.y, block.z);
  const uint32_t most =
      function->signature.max_threads != 0 && function->signature.max_threads < info->max_block_threads
          ? function->signature.max_threads
          : info->max_block_threads;
  const uint32_t blocks[] = {grid.x, grid.y, grid.z}, threads[] = {block.x, block.y, block.z};
  for (int i = 0; i < 3; i++) {
    CRK_REFUSE_IF(threads[i] > info->max_block[i], "crk_launch: '%s': block.%c is %u threads, the most on %s is %u",
                  function->name, 'x' + i, threads[i], info->name, info->max_block[i]);
    CRK_REFUSE_IF(blocks[i] > info->max_grid[i], "crk_launch: '%s': grid.%c is %u blocks, the most on %s is %u",
                  function->name, 'x' + i, blocks[i], info->name, info->max_grid[i]);
  }
  const uint64_t plane = (uint64_t)block.x * block.y; /* two factors: a product of all three could overflow */
  CRK_REFUSE_IF(plane > most || plane * block.z > most, "crk_launch: '%s': block (%u, %u, %u) has more than %u threads",
                function->name, block.x, block.y, block.z, most);
  /* HIP limits the threads of each dimension by itself. Such a product cannot overflow. */
  CRK_REFUSE_IF(
      (uint64_t)grid.x * block.x > info->max_grid_threads || (uint64_t)grid.y * block.y > info->max_grid_threads ||
          (uint64_t)grid.z * block.z > info->max_grid_threads,
      "crk_launch: '%s': grid (%u, %u, %u) of blocks (%u, %u, %u) has more threads than %s allows, %llu per dimension",
      function->name, grid.x, grid.y, grid.z, block.x, block.y, block.z, info->name,
      (unsigned long long)info->max_grid_threads);
  CRK_REFUSE_IF((uint64_t)shared_bytes + function->signature.shared_bytes > info->shared_bytes,
                "crk_launch: '%s': shared_bytes is %u, and the kernel itself takes %u; a block on %s has %llu",
                function->name, shared_bytes, function->signature.shared_bytes, info->name,
                (unsigned long long)info->shared_bytes);
  return CRK_OK;
}

static crk_status_t check_arguments(crk_function_t function, const crk_arg_t *args, size_t arg_count) {
  const crk_signature_t *signature = &function->signature;
  const bool known = signature->params != NULL || signature->count > 0;
  CRK_REFUSE_IF(known && arg_count != signature->count, "crk_launch: '%s' takes %zu arguments, arg_count is %zu",
                function->name, signature->count, arg_count);
  for (size_t i = 0; i < arg_count; i++) {
    CRK_REFUSE_IF(
        args[i].bytes == 0 || (args[i].data == NULL && args[i].bytes > sizeof args[i].value),
        "crk_launch: '%s': args[%zu].bytes is %u; it is at least 1, and at most %zu if args[%zu].data is NULL",
        function->name, i, args[i].bytes, sizeof args[i].value, i);
    if (!known) {
      continue;
    }
    const crk_param_t *param = &signature->params[i];
    CRK_REFUSE_IF(args[i].bytes != param->bytes, "crk_launch: '%s': args[%zu] has %u bytes, the kernel takes %u",
                  function->name, i, args[i].bytes, param->bytes);
    CRK_REFUSE_IF(param->is_pointer && !args[i].is_pointer,
                  "crk_launch: '%s': args[%zu] is a value, the kernel takes a pointer", function->name, i);
  }
  return CRK_OK;
}

crk_status_t crk_launch(crk_device_t self, crk_function_t function, crk_dim3_t grid, crk_dim3_t block,
                        uint32_t shared_bytes, const crk_arg_t *args, size_t arg_count) {
  CRK_CHECK_HANDLE(self, DEVICE, "crk_launch");
  CRK_CHECK_HANDLE(function, FUNCTION, "crk_launch");
  CRK_REFUSE_IF(function->context->driver_device != self->context->driver_device,
                "crk_launch: '%s' is a function of another device (%s) than the handle (%s)", function->name,
                function->context->info.name, self->context->info.name);
  CRK_REFUSE_IF(function->context != self->context,
                "crk_launch: '%s' is a function of another handle, of which this one is no clone", function->name);
  CRK_REFUSE_IF(args == NULL && arg_count > 0, "crk_launch: args is NULL");
  CRK_REFUSE_IF(arg_count > MOST_ARGUMENTS, "crk_launch: '%s': arg_count is %zu, the most is %d", function->name,
                arg_count, MOST_ARGUMENTS);
  CRK_TRY(check_geometry(self, function, grid, block, shared_bytes));
  CRK_TRY(check_arguments(function, args, arg_count));
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return CRK_OK;
  }
  /* The driver copies each argument from its address before it returns. A short value is in the first bytes of
   * args[i].value: all hosts of these runtimes are little-endian. */
  const void *pointers[MOST_ARGUMENTS];
  for (size_t i = 0; i < arg_count; i++) {
    pointers[i] = args[i].data != NULL ? args[i].data : &args[i].value;
  }
  return crk_priv_operation(self, function->name, crk_priv_launch(self, function, grid, block, shared_bytes, pointers));
}
