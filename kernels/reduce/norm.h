/* Softmax, RMS norm and layer norm with Candle's kernel names, arguments and order of additions: softmax_named,
 * rmsnorm_named and layernorm_named. They are for callers that launch Candle's own kernels. The launchers use the
 * faster kernels in norm_rows.h and norm_long.h.
 *
 * A row has 32 or 1024 threads. Thread t adds up elements t, t + threads, t + 2 * threads and so on. Then butterflies
 * (offsets 16 down to 1) join the 32 threads of each group, and after that the groups. A group is 32 threads on every
 * wave width, so the order of additions is the same on all of them.
 *
 * fma stands wherever nvcc fuses a product and a sum of Candle's source. These are the sums of squares, the variance
 * and the affine step of layer norm. */
#ifndef CRK_NORM_H
#define CRK_NORM_H

#include "reduce/norm_rows.h"

namespace crk {
namespace {

/* ---- softmax: a block of (1, 32) threads per row ---- */

/* The larger of two values of T, which are held in a type that lanes can exchange. In f16 and bf16 a NaN wins; in f32
 * and f64 it loses. */
template <class T>
struct widened_maximum {
  using A = wide<T>;
  CRK_FN A operator()(A a, A b) const {
    if constexpr (half<T>) {
      return a != a ? a : b != b ? b : max_number(a, b);
    } else {
      return max_number(a, b);
    }
  }
};

/* dst = exp(src - max) / sum. The difference and its exponential are rounded to T. The sum is in f32 (f64: in f64). Its
 * reciprocal is rounded to T, and so is the final product. */
template <class T>
CRK_FN void softmax_named(const T *src, T *dst, int32_t ncols) {
  using A = wide<T>;
  const uint64_t row = static_cast<uint64_t>(block_index().x) * block_size().x + thread_index().x;
  const uint32_t tid = thread_index().y, step = block_size().y, count = static_cast<uint32_t>(ncols);
  src += row * count;
  dst += row * count;

  A largest = -infinity();
  for (uint64_t col = tid; col < count; col += step) {
    largest = widened_maximum<T>()(largest, convert<A>(src[col]));
  }
  largest = butterfly<32>(largest, widened_maximum<T>());

  const T top = convert<T>(largest);
  A sum = 0;
  for (uint64_t col = tid; col < count; col += step) {
    const T value = exp(static_cast<T>(src[col] - top));
    sum += convert<A>(value);
    dst[col] = value;
  }
  const T scale = convert<T>(A(1) / butterfly<32>(sum, plus()));
  for (uint64_t col = tid; col < count; col += step) {
    dst[col] = dst[col] * scale;
  }
}

/* ---- rmsnorm and layernorm: a block of 32 or 1024 threads per row ---- */

/* dst = src * rsqrt(mean(src^2) + eps) * alpha. Statistics are in f32 for every T; a null `alpha` counts as 1. */
template <class T>
CRK_FN void rmsnorm_named(const T *src, T *dst, const T *alpha, int32_t ncols, int32_t block, float eps) {
  CRK_SHARED(float, sums, group_lanes);
  const uint32_t tid = thread_index().x, step = static_cast<uint32_t>(block), count = static_cast<uint32_t>(ncols);
  const uint64_t row = static_cast<uint64_t>(block_index().x) * block_size().y + thread_index().y;
  src += row * count;
  dst += row * count;

  float squares = 0.0f;
  for (uint64_t col = tid; col < count; col += step) {
    const float x = convert<float>(src[col]);
    squares = fma(x, x, squares);
  }
  const float mean = block_reduce(squares, plus(), 0.0f, sums) / static_cast<float>(ncols);
  const float scale = rsqrt(mean + eps);
  for (uint64_t col = tid; col < count; col += step) {
    const float x = convert<float>(src[col]);
    dst[col] = convert<T>(alpha != nullptr ? product(scale * x, convert<float>(alpha[col])) : product(scale, x));
  }
}

template <class T>
CRK_FN void layernorm_named(const T *src, T *dst, const T *alpha, const T *beta, int32_t ncols, int32_t block,
                            float eps) {
  CRK_SHARED(float, sums, group_lanes);
  CRK_SHARED(float, squares_sums, group_lanes);
  const uint32_t tid = thread_index().x, step = static_cast<uint32_t>(block), count = static_cast<uint32_t>(ncols);
  const uint64_t row = static_cast<uint64_t>(block_index().x) * block_size().y + thread_index().y;
  src += row * count;
  dst += row * count;

  float sum = 0.0f, squares = 0.0f;
  for (uint64_t col = tid; col < count; col += step) {
    const float x = convert<float>(src[col]);
    sum += x;
    squares = fma(x, x, squares);
  }
  const float mean = block_reduce(sum, plus(), 0.0f, sums) / static_cast<float>(ncols);
  const float mean_square = block_reduce(squares, plus(), 0.0f, squares_sums) / static_cast<float>(ncols);
  const float scale = rsqrt(fma(-mean, mean, mean_square) + eps);
  for (uint64_t col = tid; col < count; col += step) {
    const float x = convert<float>(src[col]) - mean;
    float y;
    if (alpha == nullptr) {
      y = beta == nullptr ? product(x, scale) : fma(x, scale, convert<float>(beta[col]));
    } else {
      const float scaled = x * scale, a = convert<float>(alpha[col]);
      y = beta == nullptr ? product(scaled, a) : fma(scaled, a, convert<float>(beta[col]));
    }
    dst[col] = convert<T>(y);
  }
}

}  // namespace
}  // namespace crk

#endif
