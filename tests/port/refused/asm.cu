// Inline assembly is for NVIDIA GPUs.
extern "C" __global__ void lanes(unsigned *out) {
  unsigned lane;
  asm volatile("mov.u32 %0, %laneid;" : "=r"(lane)); // error: inline assembly is for NVIDIA GPUs
  out[threadIdx.x] = lane;
}
