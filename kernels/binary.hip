/* The module `binary`: binary ops and comparisons, dst[i] = op(lhs[i], rhs[i]). A comparison gives 1 or 0 as u8.
 * Kernels with Candle's arguments: b<op>_<type> and <comparison>_<type>. Kernels for csrc/launch/binary.c end in _vec
 * or _nd; arithmetic on floats also has kernels that end in _row.
 *
 * A new op takes a functor here and a line in CRK_ARITHMETIC or CRK_BINARY_OPS below. */
#include "elementwise/instances.h"
#include "elementwise/shared_row.h"

namespace crk {
namespace {

/* The type of the arithmetic: integers wrap, f16 and bf16 round once, f8e4m3 computes in f32. */
struct arithmetic_op {
  template <class T>
  using compute = choose<floating<T>, stepwise<T>, wrapping<T>>;
};

struct add_op : arithmetic_op {
  template <class A>
  CRK_FN static A apply(A a, A b) {
    return a + b;
  }
};

struct sub_op : arithmetic_op {
  template <class A>
  CRK_FN static A apply(A a, A b) {
    return a - b;
  }
};

struct mul_op : arithmetic_op {
  template <class A>
  CRK_FN static A apply(A a, A b) {
    return a * b;
  }
};

struct div_op {
  template <class T>
  using compute = stepwise<T>;
  template <class A>
  CRK_FN static A apply(A a, A b) {
    if constexpr (floating<A>) {
      return a / b;
    } else {
      return divide_integers(a, b);
    }
  }
};

struct maximum_op {
  template <class T>
  using compute = stepwise<T>;
  template <class A>
  CRK_FN static A apply(A a, A b) {
    return maximum(a, b);
  }
};

struct minimum_op {
  template <class T>
  using compute = stepwise<T>;
  template <class A>
  CRK_FN static A apply(A a, A b) {
    return minimum(a, b);
  }
};

template <class Op, class T>
struct binary {
  enum { at_once = same<T, f8e4m3> ? 4 : 0 };

  CRK_FN T operator()(T a, T b) const {
    using A = typename Op::template compute<T>;
    return convert<T>(Op::apply(convert<A>(a), convert<A>(b)));
  }
};

#define CRK_COMPARISON(name, op)                                               \
  template <class T>                                                           \
  struct name {                                                                \
    enum { at_once = same<T, f8e4m3> ? 4 : 0 };                                \
    CRK_FN uint8_t operator()(T a, T b) const {                                \
      return static_cast<uint8_t>(convert<wide<T>>(a) op convert<wide<T>>(b)); \
    }                                                                          \
  };
CRK_COMPARISON(eq_op, ==)
CRK_COMPARISON(ne_op, !=)
CRK_COMPARISON(lt_op, <)
CRK_COMPARISON(le_op, <=)
CRK_COMPARISON(gt_op, >)
CRK_COMPARISON(ge_op, >=)

}  // namespace
}  // namespace crk

#define CRK_BINARY_OF(name, suffix, T, D, ...)                                                                 \
  CRK_ELEMENTWISE(name##_##suffix, CRK_NAMED_THREADS,                                                          \
                  (uint64_t numel, uint64_t rank, const uint64_t *info, const T *lhs, const T *rhs, D *dst)) { \
    crk::map_strided(numel, rank, info, crk::__VA_ARGS__{}, dst, lhs, rhs);                                    \
  }                                                                                                            \
  CRK_ELEMENTWISE(name##_##suffix##_vec, CRK_LAUNCHED_THREADS,                                                 \
                  (uint64_t numel, const T *lhs, const T *rhs, D *dst, uint32_t threads)) {                    \
    crk::map_contiguous(numel, threads, crk::__VA_ARGS__{}, dst, lhs, rhs);                                    \
  }                                                                                                            \
  CRK_ELEMENTWISE(name##_##suffix##_nd, CRK_LAUNCHED_THREADS,                                                  \
                  (crk_nd_t nd, const T *lhs, const T *rhs, D *dst, uint32_t threads)) {                       \
    crk::map_nd(CRK_ND_ARGUMENT(nd), threads, crk::__VA_ARGS__{}, dst, lhs, rhs);                              \
  }
#define CRK_BINARY(op, suffix, T) CRK_BINARY_OF(b##op, suffix, T, T, binary<crk::op##_op, T>)
#define CRK_CMP(op, suffix, T)    CRK_BINARY_OF(op, suffix, T, uint8_t, op##_op<T>)

#define CRK_ARITHMETIC(XX, s, T) \
  XX(add, s, T) XX(sub, s, T) XX(mul, s, T) XX(div, s, T) XX(maximum, s, T) XX(minimum, s, T)

#define CRK_BINARY_OPS(suffix, T)       \
  CRK_ARITHMETIC(CRK_BINARY, suffix, T) \
  CRK_CMP(eq, suffix, T)                \
  CRK_CMP(ne, suffix, T)                \
  CRK_CMP(lt, suffix, T)                \
  CRK_CMP(le, suffix, T)                \
  CRK_CMP(gt, suffix, T)                \
  CRK_CMP(ge, suffix, T)
CRK_ALL_TYPES(CRK_BINARY_OPS)

/* For an operand that is one row shared by all rows (elementwise/shared_row.h). Floats only: models add biases and
 * multiply by scales in these types. */
#define CRK_BINARY_ROW(op, suffix, T)                                                                   \
  CRK_ELEMENTWISE(b##op##_##suffix##_row, CRK_LAUNCHED_THREADS,                                         \
                  (crk_shared_row_t rows, const T *lhs, const T *rhs, T *dst, uint32_t threads)) {      \
    crk::map_shared_row(CRK_ND_ARGUMENT(rows), threads, crk::binary<crk::op##_op, T>{}, dst, lhs, rhs); \
  }
#define CRK_BINARY_ROWS(suffix, T) CRK_ARITHMETIC(CRK_BINARY_ROW, suffix, T)
CRK_FLOAT_TYPES(CRK_BINARY_ROWS)

CRK_MODULE(binary)
