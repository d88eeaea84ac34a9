// exp, log and log1p without branches. Each works on a float or a double (in a loop that the compiler vectorises)
// and on the vectors of simd.hpp. Errors are about one unit in the last place; infinities and NaN behave as in <cmath>
// where a comment does not say otherwise.
#pragma once

#include "core/simd.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr int kFraction = 23;
  static constexpr std::int32_t kBias = 127, kSqrtHalf = 0x3f3504f3, kFractionBits = 0x7fffff;
  static constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, held in the low bits
  static constexpr float kTiny = 1.17549435e-38f, kUnTiny = 8388608.0f;  // smallest normal number; 2^23
  static constexpr float kExpLow = -104.0f, kExpHigh = 88.7228394f;
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
};
template <>
struct Format<double> {
  static constexpr int kFraction = 52;
  static constexpr std::int64_t kBias = 1023, kSqrtHalf = 0x3fe6a09e667f3bcdLL, kFractionBits = 0xfffffffffffffLL;
  static constexpr double kRounder = 6755399441055744.0;
  static constexpr double kTiny = 2.2250738585072014e-308, kUnTiny = 4503599627370496.0;
  static constexpr double kExpLow = -746.0, kExpHigh = 709.782712893383973;
  static constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
};

// e^r - 1 - r for |r| <= ln(2)/2, divided by r^2.
template <class V>
inline V exp_tail(V r) {
  using T = typename Traits<V>::Number;
  if constexpr (sizeof(T) == 4) {
    V y = T(1.9875691500e-4) * r + T(1.3981999507e-3);
    y = y * r + T(8.3334519073e-3);
    y = y * r + T(4.1665795894e-2);
    y = y * r + T(1.6666665459e-1);
    return y * r + T(5.0000001201e-1);
  } else {  // Taylor's series to r^13: the rest is below 5e-18
    const V r2 = r * r, r4 = r2 * r2;
    const V a = T(1.0 / 2) + r * T(1.0 / 6) + r2 * (T(1.0 / 24) + r * T(1.0 / 120));
    const V b = T(1.0 / 720) + r * T(1.0 / 5040) + r2 * (T(1.0 / 40320) + r * T(1.0 / 362880));
    const V c = T(1.0 / 3628800) + r * T(1.0 / 39916800) + r2 * (T(1.0 / 479001600) + r * T(1.0 / 6227020800.0));
    return a + r4 * (b + r4 * c);
  }
}

template <class V>
inline V exp_of(V x) {
  using T = typename Traits<V>::Number;
  using F = Format<T>;
  const V low = F::kExpLow - V{}, high = F::kExpHigh - V{}, infinity = kInfinity<T> - V{};
  const V inside = x < low ? low : x > high ? high : x;
  const V shifted = inside * T(1.44269504088896340736) + F::kRounder;
  const auto k = bits_of<V>(shifted) - bits_of<V>(F::kRounder - V{});
  const V whole = shifted - F::kRounder;
  const V r = (inside - whole * F::kLn2High) - whole * F::kLn2Low;
  const V y = (exp_tail(r) * (r * r) + r) + T(1);
  // 2^k in two factors, since k runs from below the smallest to above the largest exponent.
  const auto half = k >> 1;
  const V result =
      y * from_bits<V>((half + F::kBias) << F::kFraction) * from_bits<V>((k - half + F::kBias) << F::kFraction);
  return x > high ? infinity : result;
}

template <class V>
inline V expm1_of(V x) {
  using T = typename Traits<V>::Number;
  const V small = x + x * x * exp_tail(x), large = exp_of(x) - T(1);
  return x > T(0.34) - V{} ? large : x < T(-0.34) - V{} ? large : small;
}

// Splits x > 0 (normal) into m 2^k with m in [sqrt(1/2), sqrt(2)); returns m - 1 and k as a number.
template <class V>
inline V split(V x, V& k) {
  using T = typename Traits<V>::Number;
  using F = Format<T>;
  const auto offset = bits_of<V>(x) - F::kSqrtHalf;
  const auto exponent = offset >> F::kFraction;
  k = from_bits<V>(exponent + bits_of<V>(F::kRounder - V{})) - F::kRounder;
  return from_bits<V>((offset & F::kFractionBits) + F::kSqrtHalf) - T(1);
}

// log x for a positive normal number x; anything else gives garbage.
template <class V>
inline V log_normal(V x) {
  using T = typename Traits<V>::Number;
  using F = Format<T>;
  V k;
  const V f = split(x, k);
  if constexpr (sizeof(T) == 4) {
    V y = T(7.0376836292e-2) * f + T(-1.1514610310e-1);
    y = y * f + T(1.1676998740e-1);
    y = y * f + T(-1.2420140846e-1);
    y = y * f + T(1.4249322787e-1);
    y = y * f + T(-1.6668057665e-1);
    y = y * f + T(2.0000714765e-1);
    y = y * f + T(-2.4999993993e-1);
    y = y * f + T(3.3333331174e-1);
    const V f2 = f * f;
    return k * F::kLn2High + (f + (y * (f * f2) + (k * F::kLn2Low - T(0.5) * f2)));
  } else {  // log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)), s = f / (2 + f)
    const V s = f / (T(2) + f), z = s * s, w = z * z;
    const V odd =
        w * (T(3.999999999940941908e-01) + w * (T(2.222219843214978396e-01) + w * T(1.531383769920937332e-01)));
    const V even =
        z * (T(6.666666666666735130e-01) +
             w * (T(2.857142874366239149e-01) + w * (T(1.818357216161805012e-01) + w * T(1.479819860511658591e-01))));
    const V half = T(0.5) * f * f;
    return k * F::kLn2High - ((half - (s * (half + (odd + even)) + k * F::kLn2Low)) - f);
  }
}

template <class V>
inline V log_of(V x) {
  using T = typename Traits<V>::Number;
  using F = Format<T>;
  const V zero = V{}, infinity = kInfinity<T> - V{}, nan = kNaN<T> - V{};
  const V scaled = x < F::kTiny - zero ? x * F::kUnTiny : x;
  V y = log_normal(scaled);
  y = x < F::kTiny - zero ? y - T(F::kFraction) * T(0.69314718055994530942) : y;
  y = x == infinity ? infinity : y;
  y = x == zero ? -infinity : y;
  return x >= zero ? y : nan;
}

// log(1 + w) for w > -1 with 1 + w a normal number; keeps the digits of a small w.
template <class V>
inline V log1p_normal(V w) {
  using T = typename Traits<V>::Number;
  const V u = T(1) + w;
  return log_normal(u) + (w - (u - T(1))) * roughly_inverse(u);  // the correction is tiny
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
