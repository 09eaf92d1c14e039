/* A switch pushes the callee-saved registers on the stack of the running fiber, and stores the stack pointer in that
 * fiber. It then loads the stack pointer of the other fiber and pops its registers. It does not save the signal mask
 * or the floating-point control words, because kernels do not change them. Saving the mask, as ucontext does, costs a
 * system call. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_STACK */
#endif

#include "driver/cpu/fiber.h"

#include <string.h>

#if defined(CRK_FIBER_WINDOWS)
#if !defined(WIN32_LEAN_AND_MEAN)
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

/* The frames of kernels are small; a sanitizer makes them several times larger. Only pages that are used cost
 * memory. */
#if defined(CRK_ASAN) || defined(CRK_TSAN)
#define STACK_BYTES ((size_t)512 << 10)
#else
#define STACK_BYTES ((size_t)128 << 10)
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * The switch itself
 * ------------------------------------------------------------------------------------------------------------------ */

#if defined(__APPLE__)
#define SYMBOL(name) "_" #name
#define LOCAL(name)  ".private_extern _" #name "\n"
#define TYPE(name)
#define NO_EXECUTABLE_STACK
#else
#define SYMBOL(name)        #name
#define LOCAL(name)         ".hidden " #name "\n"
#define TYPE(name)          ".type " #name ", %function\n"
#define NO_EXECUTABLE_STACK ".section .note.GNU-stack,\"\",%progbits\n.text\n"
#endif
#define FUNCTION(name) ".globl " SYMBOL(name) "\n" LOCAL(name) TYPE(name) SYMBOL(name) ":\n"

#if defined(CRK_FIBER_X86_64) || defined(CRK_FIBER_AARCH64)
/* Stores the stack pointer in *from and continues on the stack at `to`. */
void crk_priv_fiber_swap(void **from, void *to);
/* The first code on a new stack: calls start(fiber). It finds both in registers that prepare_stack put on the stack. */
void crk_priv_fiber_begin(void);
#endif

#if defined(CRK_FIBER_X86_64)
/* The switch jumps instead of `ret`, since the processor's prediction of return addresses would be wrong anyway. */
__asm__(".text\n.p2align 4\n" FUNCTION(crk_priv_fiber_swap)
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  popq %rcx\n"
        "  jmpq *%rcx\n"
        ".p2align 4\n" FUNCTION(crk_priv_fiber_begin)
        "  .cfi_startproc\n  .cfi_undefined %rip\n"
        "  movq %r12, %rdi\n"
        "  callq *%r13\n"
        "  ud2\n"
        "  .cfi_endproc\n" NO_EXECUTABLE_STACK);

static void prepare_stack(crk_fiber_t *self, char *top, void (*start)(crk_fiber_t *)) {
  /* The frame: r15, r14, r13, r12, rbx, rbp and the address to continue at, 56 bytes. The stack above it is aligned. */
  void **frame = (void **)(void *)(top - 64);
  memset(frame, 0, 64);
  frame += 1;
  frame[2] = (void *)(uintptr_t)start;
  frame[3] = self;
  frame[6] = (void *)(uintptr_t)crk_priv_fiber_begin;
  self->stack_pointer = frame;
}
#elif defined(CRK_FIBER_AARCH64)
__asm__(".text\n.p2align 4\n" FUNCTION(crk_priv_fiber_swap)
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n"
        "  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".p2align 4\n" FUNCTION(crk_priv_fiber_begin)
        "  .cfi_startproc\n  .cfi_undefined x30\n"
        "  mov x0, x19\n"
        "  blr x20\n"
        "  brk #1\n"
        "  .cfi_endproc\n" NO_EXECUTABLE_STACK);

static void prepare_stack(crk_fiber_t *self, char *top, void (*start)(crk_fiber_t *)) {
  void **frame = (void **)(void *)(top - 160);
  memset(frame, 0, 160);
  frame[0] = self;
  frame[1] = (void *)(uintptr_t)start;
  frame[11] = (void *)(uintptr_t)crk_priv_fiber_begin;
  self->stack_pointer = frame;
}
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Reports to the sanitizers
 * ------------------------------------------------------------------------------------------------------------------ */

/* Before a switch. */
static void announce_switch(crk_fiber_t *from, crk_fiber_t *to) {
#if defined(CRK_ASAN)
  to->previous = from;
  __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->bytes);
#endif
  (void)from;
  (void)to;
}

/* After a switch, on the stack that the switch continued. */
static void finish_switch(crk_fiber_t *self) {
#if defined(CRK_ASAN)
  /* Returns the bounds of the stack that the switch left. Only the sanitizer knows those of a thread's own stack. */
  __sanitizer_finish_switch_fiber(self->fake_stack, &self->previous->bottom, &self->previous->bytes);
#endif
  (void)self;
}

/* Drops the frames of a fiber that will not continue. */
static void drop_frames(crk_fiber_t *self) {
#if defined(CRK_ASAN)
  if (self->fake_stack != NULL) {
    /* The sanitizer frees a fiber's shadow frames when the fiber announces its last switch. This fiber will not run
     * again, so this code announces the switches for it: one to the fiber, and the last one back. Nothing runs on the
     * fiber in between. */
    void *own = NULL;
    const void *bottom = NULL;
    size_t bytes = 0;
    __sanitizer_start_switch_fiber(&own, self->bottom, self->bytes);
    __sanitizer_finish_switch_fiber(self->fake_stack, &bottom, &bytes);
    __sanitizer_start_switch_fiber(NULL, bottom, bytes);
    __sanitizer_finish_switch_fiber(own, NULL, NULL);
    self->fake_stack = NULL;
  }
  CRK_SAN_UNPOISON(self->bottom, self->bytes);
#endif
#if defined(CRK_TSAN)
  if (self->tsan != NULL) {
    __tsan_destroy_fiber(self->tsan);
    self->tsan = NULL;
  }
#endif
  (void)self;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Fibers
 * ------------------------------------------------------------------------------------------------------------------ */

#if defined(CRK_FIBER_WINDOWS)

static void CALLBACK fiber_main(void *argument) {
  crk_fiber_t *self = argument;
  self->body(self->argument);
}

bool crk_priv_fiber_init(crk_fiber_t *self, uint32_t index, void (*body)(void *argument), void *argument) {
  (void)index;
  memset(self, 0, sizeof *self);
  self->body = body;
  self->argument = argument;
  return crk_priv_fiber_reset(self);
}

bool crk_priv_fiber_reset(crk_fiber_t *self) {
  crk_priv_fiber_deinit(self);
  self->handle = CreateFiberEx((SIZE_T)16 << 10, STACK_BYTES, 0, fiber_main, self);
  return self->handle != NULL;
}

void crk_priv_fiber_deinit(crk_fiber_t *self) {
  drop_frames(self);
  if (self->handle != NULL) {
    DeleteFiber(self->handle);
    self->handle = NULL;
  }
}

/* GetCurrentFiber reads at an offset from a segment register. gcc takes the offset for a null pointer. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
#endif
static void *current_fiber(void) { return GetCurrentFiber(); }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

bool crk_priv_fiber_enter(crk_fiber_t *self) {
  memset(self, 0, sizeof *self);
  if (IsThreadAFiber()) {
    self->handle = current_fiber();
    return true;
  }
  self->handle = ConvertThreadToFiberEx(NULL, 0);
  self->converted = self->handle != NULL;
  return self->converted;
}

void crk_priv_fiber_leave(crk_fiber_t *self) {
  if (self->converted) {
    ConvertFiberToThread();
  }
}

void crk_priv_fiber_switch(crk_fiber_t *from, crk_fiber_t *to) {
  announce_switch(from, to);
  SwitchToFiber(to->handle);
  finish_switch(from);
}

#else

/* The first function on every stack. */
CRK_SAN_ENTRY static void fiber_main(crk_fiber_t *self) {
  finish_switch(self);
  self->body(self->argument);
}

#if defined(CRK_FIBER_UCONTEXT)
/* makecontext passes ints, so the address comes in two halves. */
static void context_main(unsigned high, unsigned low) {
  fiber_main((crk_fiber_t *)(uintptr_t)((uint64_t)high << 32 | low));
}

static void prepare_stack(crk_fiber_t *self, char *top, void (*start)(crk_fiber_t *)) {
  (void)start;
  getcontext(&self->context);
  const size_t guard = (size_t)sysconf(_SC_PAGESIZE);
  self->context.uc_stack.ss_sp = self->stack + guard;
  self->context.uc_stack.ss_size = (size_t)(top - self->stack) - guard;
  self->context.uc_link = NULL;
  const uint64_t address = (uint64_t)(uintptr_t)self;
  makecontext(&self->context, (void (*)(void))(uintptr_t)context_main, 2, (unsigned)(address >> 32), (unsigned)address);
}
#endif

bool crk_priv_fiber_init(crk_fiber_t *self, uint32_t index, void (*body)(void *argument), void *argument) {
  const size_t guard = (size_t)sysconf(_SC_PAGESIZE);
  memset(self, 0, sizeof *self);
  self->body = body;
  self->argument = argument;
  self->stack_bytes = guard + STACK_BYTES;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#if defined(MAP_NORESERVE)
  flags |= MAP_NORESERVE;
#endif
#if defined(MAP_STACK) && !defined(__APPLE__)
  flags |= MAP_STACK;
#endif
  void *stack = mmap(NULL, self->stack_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (stack == MAP_FAILED) {
    self->stack_bytes = 0;
    return false;
  }
  self->stack = stack;
  /* The guard page splits the mapping in two, and the system limits the number of mappings. If the call fails, the
   * stack is used without a guard page. */
  (void)mprotect(stack, guard, PROT_NONE);
  self->begin = (size_t)(index % 16) * 256;
#if defined(CRK_ASAN)
  self->bottom = self->stack + guard;
  self->bytes = STACK_BYTES;
#endif
  return crk_priv_fiber_reset(self);
}

bool crk_priv_fiber_reset(crk_fiber_t *self) {
  drop_frames(self);
#if defined(CRK_TSAN)
  self->tsan = __tsan_create_fiber(0);
#endif
  prepare_stack(self, self->stack + self->stack_bytes - self->begin, fiber_main);
  return true;
}

void crk_priv_fiber_deinit(crk_fiber_t *self) {
  if (self->stack != NULL) {
    drop_frames(self);
    munmap(self->stack, self->stack_bytes);
    self->stack = NULL;
  }
}

bool crk_priv_fiber_enter(crk_fiber_t *self) {
  memset(self, 0, sizeof *self);
#if defined(CRK_TSAN)
  self->tsan = __tsan_get_current_fiber();
#endif
  return true;
}

void crk_priv_fiber_leave(crk_fiber_t *self) { (void)self; }

void crk_priv_fiber_switch(crk_fiber_t *from, crk_fiber_t *to) {
  announce_switch(from, to);
#if defined(CRK_TSAN)
  /* This call is not in a function of its own, because the function would begin on one stack and end on the other. */
  __tsan_switch_to_fiber(to->tsan, 0);
#endif
#if defined(CRK_FIBER_UCONTEXT)
  swapcontext(&from->context, &to->context);
#else
  crk_priv_fiber_swap(&from->stack_pointer, to->stack_pointer);
#endif
  finish_switch(from);
}

#endif
