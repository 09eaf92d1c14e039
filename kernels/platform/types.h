/* Arithmetic on types. C++'s library has it, but device code includes no header of that library. A part of
 * platform/platform.h. */
#ifndef CRK_PLATFORM_TYPES_H
#define CRK_PLATFORM_TYPES_H

namespace crk {

/* make_indices<N>::type is indices<0, 1, .., N - 1>. */
template <int... I>
struct indices {};

template <int N, int... I>
struct make_indices : make_indices<N - 1, N - 1, I...> {};
template <int... I>
struct make_indices<0, I...> {
  using type = indices<I...>;
};

/* Whether A and B are one type. */
template <class A, class B>
inline constexpr bool same = false;
template <class A>
inline constexpr bool same<A, A> = true;

/* A if C is true, else B. */
template <bool C, class A, class B>
struct choose_type {
  using type = A;
};
template <class A, class B>
struct choose_type<false, A, B> {
  using type = B;
};
template <bool C, class A, class B>
using choose = typename choose_type<C, A, B>::type;

/* The unsigned integer type of T's size, to hold T's bits. */
template <class T>
using bits_of =
    choose<sizeof(T) == 1, uint8_t, choose<sizeof(T) == 2, uint16_t, choose<sizeof(T) == 4, uint32_t, uint64_t>>>;

}  // namespace crk

#endif
