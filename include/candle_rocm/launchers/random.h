/* candle_rocm/launchers/random.h: random numbers.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011). The state of a
 * generator is device memory of the caller, aligned to 8: the seed, and the number of steps that its draws have used. A
 * draw reads the state and advances it, on the device, in its one launch. So a captured draw gives new numbers each
 * time the graph is launched: those that it would give without a graph. No scratch memory.
 *
 * The numbers depend only on the seed and on the earlier draws. They are the same bit for bit on every device and every
 * wave width. They differ from those of NVIDIA's cuRAND and of Candle's other devices.
 *
 * A step gives four numbers, two in f64. A draw uses whole steps, and the rest of its last step is lost. So a draw of n
 * and a following draw of m give the numbers of one draw of n + m where n is a multiple of four (f64: of two).
 *
 * dtypes F32, F64, F16 and BF16. A draw of no numbers succeeds, launches nothing and leaves the state. `dst` and
 * `state` must not overlap. All fail with CRK_INVALID_ARGUMENT (a NULL, an unknown dtype, a view that is not aligned,
 * memory that overlaps, and the cases below), CRK_OUT_OF_BOUNDS (a view is too small), CRK_UNSUPPORTED (no kernel for
 * the dtype) or CRK_DEVICE. */
#ifndef CANDLE_ROCM_LAUNCHERS_RANDOM_H
#define CANDLE_ROCM_LAUNCHERS_RANDOM_H

#include "candle_rocm/device.h"
#include "candle_rocm/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CRK_RANDOM_STATE_BYTES 32

/* Begins a generator in `state`, or begins it anew. Equal seeds give equal numbers. One launch. Memory holds a
 * generator only after this call. */
CRK_API crk_status_t crk_random_seed(crk_device_t self, crk_view_t state, uint64_t seed);

/* dst[i] = fma(u, hi - lo, lo) for i below `numel`, where u is uniform in [0, 1): a multiple of 2^-53 in f64, else of
 * 2^-24. lo and hi are rounded to the dtype first. f64 is computed in f64; the other dtypes are computed in f32, and
 * f16 and bf16 are rounded once. lo <= dst[i] < hi: where rounding would give hi, the result is the greatest number
 * below hi. Where lo and hi are equal, or become equal by rounding, every element is lo.
 *
 * Fails with CRK_INVALID_ARGUMENT also where lo or hi is not a finite number of the dtype, where lo is above hi, and
 * where hi - lo overflows (f32, f64). */
CRK_API crk_status_t crk_random_uniform(crk_device_t self, crk_dtype_t dtype, crk_view_t dst, size_t numel, double lo,
                                        double hi, crk_view_t state);

/* dst[i] = fma(z, std, mean) for i below `numel`, where z is normal with mean 0 and variance 1, by the Box-Muller
 * transform. The magnitude of z is at most 8.58 in f64, else 6.67. Its error against the formula is at most 5 units in
 * the last place. f64 is computed in f64; the other dtypes are computed in f32, and f16 and bf16 are rounded once. A
 * result beyond the dtype's range is infinite. A std of 0 gives `mean`; a negative std gives mirrored numbers.
 *
 * Fails with CRK_INVALID_ARGUMENT also where mean or std is not finite in f32 (f64). */
CRK_API crk_status_t crk_random_normal(crk_device_t self, crk_dtype_t dtype, crk_view_t dst, size_t numel, double mean,
                                       double std, crk_view_t state);

#ifdef __cplusplus
}
#endif
#endif
