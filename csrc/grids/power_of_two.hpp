// Positive numbers as m 2^k with k a number of the same kind: a range without end, in which sums and products are
// cheap.
#pragma once

#include "core/vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// m 2^k for whole k <= 0 and m of about 1; what would not be a normal number is zero.
template <class V>
inline V times_power_of_two(V m, V k) {
  using T = typename Traits<V>::Number;
  using F = Format<T>;
  const V low = T(2 - F::kBias) - V{};
  const V inside = k < low ? low : k;
  const auto bits = bits_of<V>(inside + F::kRounder) - bits_of<V>(F::kRounder - V{});
  return k < low ? V{} : m * from_bits<V>((bits + F::kBias) << F::kFraction);
}

// m 2^k = y for y > 0, with 1 <= m < 2. Zero gives k = -inf, and NaN two of it.
template <class V>
inline V split_octaves(V y, V& k) {
  using T = typename Traits<V>::Number;
  using F = Format<T>;
  const auto bits = bits_of<V>(y), one = bits_of<V>(T(1) - V{});
  const V whole = from_bits<V>(((bits - one) >> F::kFraction) + bits_of<V>(F::kRounder - V{})) - F::kRounder;
  k = y == V{} ? -kInfinity<T> - V{} : y == y ? whole : y;
  return y == y ? from_bits<V>((bits & F::kFractionBits) + one) : y;
}

#if defined(__AVX512F__)  // which takes numbers apart and puts them together in single instructions
inline Floats times_power_of_two(Floats m, Floats k) { return (Floats)_mm512_scalef_ps((__m512)m, (__m512)k); }
inline Doubles times_power_of_two(Doubles m, Doubles k) { return (Doubles)_mm512_scalef_pd((__m512d)m, (__m512d)k); }
inline Floats split_octaves(Floats y, Floats& k) {
  k = (Floats)_mm512_getexp_ps((__m512)y);
  return (Floats)_mm512_getmant_ps((__m512)y, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
}
inline Doubles split_octaves(Doubles y, Doubles& k) {
  k = (Doubles)_mm512_getexp_pd((__m512d)y);
  return (Doubles)_mm512_getmant_pd((__m512d)y, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
}
#endif

// m 2^k = e^x, with m between about sqrt(1/2) and sqrt(2). Zero has m = 0 and k = -inf; NaN and +inf have m = NaN.
template <class V>
inline V exp_in_octaves(V x, V& k) {
  using T = typename Traits<V>::Number;
  using F = Format<T>;
  k = (x * T(1.44269504088896340736) + F::kRounder) - F::kRounder;
  V r = (x - k * F::kLn2High) - k * F::kLn2Low;
  r = r > T(0.35) - V{} ? T(0.35) - V{} : r;  // where x is so large that k is no whole number
  r = r < T(-0.35) - V{} ? T(-0.35) - V{} : r;
  const V m = (exp_tail(r) * (r * r) + r) + T(1);
  return x == -kInfinity<T> - V{} ? V{} : m;
}

// log(m 2^k).
template <class V>
inline V log_of_octaves(V m, V k) {
  using T = typename Traits<V>::Number;
  using F = Format<T>;
  const V log = k * F::kLn2High + (k * F::kLn2Low + log_normal(m)), none = -kInfinity<T> - V{};
  return m == m ? k == none ? none : log : m;
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
