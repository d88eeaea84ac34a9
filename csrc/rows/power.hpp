// u^order for 0 <= u <= 1 and order >= 0, zero at zero, in three qualities: Fair and Good to search, `full_power` for
// weights. AVX-512 takes floats apart and puts them together in single instructions, and gets its own path.
#pragma once

#include "core/vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// e^x for x <= 0, with nothing below the smallest normal number.
template <class V>
inline V exp_of_negative(V x) {
  using T = typename Traits<V>::Number;
  using F = Format<T>;
  const V inside = larger(x, (sizeof(T) == 4 ? T(-87) : T(-708)) - V{});
  const V shifted = inside * T(1.44269504088896340736) + F::kRounder;
  const V whole = shifted - F::kRounder;
  const V r = (inside - whole * F::kLn2High) - whole * F::kLn2Low;
  const V y = (exp_tail(r) * (r * r) + r) + T(1);
  return y * from_bits<V>((bits_of<V>(shifted) - bits_of<V>(F::kRounder - V{}) + F::kBias) << F::kFraction);
}

#if defined(__AVX512F__)
// u as m 2^k with 3/4 <= m < 3/2. Zero gives k = -inf.
inline Floats octave(Floats u, Floats& m) {
  m = (Floats)_mm512_getmant_ps((__m512)u, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);
  return (Floats)_mm512_getexp_ps((__m512)(u * 1.33333333f));
}

// log2(1 + f) for -1/4 <= f <= 1/2, relative error 1e-8 (before rounding).
inline Floats log2_near_one(Floats f) {
  Floats y = -0.0629244486f * f + 0.149022754f;
  y = y * f - 0.189880628f;
  y = y * f + 0.209252498f;
  y = y * f - 0.240209182f;
  y = y * f + 0.288380929f;
  y = y * f - 0.360672562f;
  y = y * f + 0.480900769f;
  y = y * f - 0.721347559f;
  return (y * f + 1.44269503f) * f;
}

inline Floats nearest_integer(Floats x) { return (Floats)_mm512_roundscale_ps((__m512)x, 0); }
inline Floats times_power_of_two(Floats x, Floats k) { return (Floats)_mm512_scalef_ps((__m512)x, (__m512)k); }

inline Floats power_of_two(Floats t) {
  const Floats whole = nearest_integer(t), f = t - whole;
  Floats y = 0.000154531629f * f + 0.00133908634f;
  y = y * f + 0.00961808256f;
  y = y * f + 0.0555035711f;
  y = y * f + 0.240226508f;
  y = y * f + 0.693147188f;
  return times_power_of_two(y * f + 1.0f, whole);
}
#endif

// Errors of about 1e-4 in the logarithm and in the result; floats only.
struct Fair {
  static Floats power(Floats u, Floats order) {
#if defined(__AVX512F__)
    const Floats m = (Floats)_mm512_getmant_ps((__m512)u, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
    const Floats k = (Floats)_mm512_getexp_ps((__m512)u);
#else
    const Ints bits = bits_of<Floats>(u);
    const Floats m = from_bits<Floats>((bits & 0x7fffff) | 0x3f800000);
    const Floats k = __builtin_convertvector(bits >> 23, Floats) - 127.0f;
#endif
    Floats log2 = -0.0816174745f * m + 0.645153081f;
    log2 = log2 * m - 2.12070062f;
    log2 = log2 * m + 4.07011729f;
    log2 = log2 * m + (k - 2.51286471f);
    // No power of u <= 1 is above 1: the error of the logarithm, times a large order, must not make it so.
    const Floats product = order * log2, t = product < Floats{} ? product : Floats{};
#if defined(__AVX512F__)
    const Floats whole = nearest_integer(t), f = t - whole;
#else
    const Floats shifted = larger(t, -126.0f - Floats{}) + Format<float>::kRounder;
    const Floats whole = shifted - Format<float>::kRounder, f = t - whole;
#endif
    Floats y = 0.0551713527f * f + 0.24261125f;
    y = y * f + 0.693261078f;
    y = y * f + 0.999928061f;
#if defined(__AVX512F__)
    return u > Floats{} ? times_power_of_two(y, whole) : Floats{};
#else
    const Ints exponent = bits_of<Floats>(shifted) - bits_of<Floats>(Format<float>::kRounder - Floats{});
    return u > Floats{} && t > -126.0f - Floats{} ? y * from_bits<Floats>((exponent + 127) << 23) : Floats{};
#endif
  }
};

// Good to the relative precision of u.
struct Good {
  template <class V>
  static V power(V u, V order) {
    V log;
    return power(u, order, log);
  }
  // With the natural logarithm of u, where u > 0.
  template <class V>
  static V power(V u, V order, V& log) {
    log = log_normal<V>(larger(u, std::numeric_limits<typename Traits<V>::Number>::min() - V{}));
    const V power = exp_of_negative<V>(order * log);
    return u > V{} ? power : V{};
  }
#if defined(__AVX512F__)
  static Floats power(Floats u, Floats order, Floats& log) {
    Floats m;
    const Floats k = octave(u, m), log2 = k + log2_near_one(m - 1.0f);
    log = log2 * 0.693147181f;
    return u > Floats{} ? power_of_two(order * log2) : Floats{};
  }
#endif
};

// The weights themselves: u = 1 + w, and log1p keeps the digits of w.
template <class V, class Order>
inline V full_power(V w, Order order) {
  using T = typename Traits<V>::Number;
  const V u = T(1) + w, inside = u > V{} ? w : V{};
  const V power = exp_of<V>(order * log1p_normal<V>(inside));
  return u > V{} ? power : V{};
}
#if defined(__AVX512F__)
template <class Order>
inline Floats full_power(Floats w, Order order) {
  const Floats u = 1.0f + w;
  Floats m;
  const Floats k = octave(u, m);
  // What 1 + w lost of w, relative to u: so little that an estimate of 1/u will do.
  const Floats lost = (w - (u - 1.0f)) * 1.44269504f * (Floats)_mm512_rcp14_ps((__m512)u);
  return u > Floats{} ? power_of_two(order * (k + (log2_near_one(m - 1.0f) + lost))) : Floats{};
}
#endif

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
