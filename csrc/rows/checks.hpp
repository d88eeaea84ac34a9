// What kernels ask of their inputs: a row that fails comes out as NaN.
#pragma once

#include <cstdint>

namespace omegamax {
namespace OMEGAMAX_ARCH {

inline bool valid_strength(double strength) { return strength >= 0 && strength < __builtin_inf(); }

// Proximal operators take numbers only, not even -inf.
template <class T>
inline bool all_finite(const T* x, std::int64_t n) {
  const T infinity = static_cast<T>(__builtin_inf());
  int bad = 0;
#pragma omp simd reduction(| : bad)
  for (std::int64_t i = 0; i < n; ++i) bad |= !(x[i] < infinity) | !(x[i] > -infinity);
  return bad == 0;
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
