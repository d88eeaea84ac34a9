// Short rows as columns, one row per vector lane. Sums run down the lanes, so that there is nothing to
// reduce across them, and one loop serves as many rows as there are lanes. A lane that has arrived stays where it is:
// its result does not depend on its neighbours.
#pragma once

#include "core/threshold.hpp"
#include "core/transpose.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
constexpr bool kHasLockstep = true;
#else
constexpr bool kHasLockstep = false;
#endif
constexpr std::int64_t kLockstepColumns = 128;

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
// a where the lane's bit is set, b elsewhere.
template <class T>
inline Vector<T> choose(unsigned bits, Vector<T> a, Vector<T> b) {
  if constexpr (sizeof(T) == 4) return (Floats)_mm512_mask_blend_ps(static_cast<__mmask16>(bits), (__m512)b, (__m512)a);
  else return (Doubles)_mm512_mask_blend_pd(static_cast<__mmask8>(bits), (__m512d)b, (__m512d)a);
}

inline Floats absolute(Floats x) { return (Floats)_mm512_abs_ps((__m512)x); }
inline Doubles absolute(Doubles x) { return (Doubles)_mm512_abs_pd((__m512d)x); }

// Short rows as columns: y[j] holds score j of each row, up to `padded` with -inf; lanes beyond the rows repeat the
// last.
template <class T>
struct Columns {
  std::int64_t padded;
  Vector<T> top, peaks[8];  // the largest score, and the largest among those whose j leaves the same rest modulo 8
  unsigned good;            // a bit for each row that has an answer
};

// `count` rows, at most kLanes<T>; y has room for n + kLanes<T> vectors.
template <class T>
inline Columns<T> load_columns(const T* x, std::int64_t n, std::int64_t count, Vector<T>* y) {
  constexpr int lanes = kLanes<T>;
  const Vector<T> infinity = splat(kInfinity<T>);
  for (std::int64_t j = 0; j < n; j += lanes) {
    Vector<T> tile[lanes];
    const std::int64_t width = n - j < lanes ? n - j : lanes;
#pragma GCC unroll 16
    for (int row = 0; row < lanes; ++row)
      tile[row] = load_lanes(x + (row < count ? row : count - 1) * n + j, width, -kInfinity<T>);
    transpose<T>(tile);
#pragma GCC unroll 16
    for (int row = 0; row < lanes; ++row) y[j + row] = tile[row];
  }
  Columns<T> columns;
  columns.padded = (n + 7) / 8 * 8;
  unsigned good = kAllLanes<T>;
  Vector<T> tops[8];
  for (int k = 0; k < 8; ++k) tops[k] = -infinity;
  for (std::int64_t j = 0; j < columns.padded; j += 8)
    for (int k = 0; k < 8; ++k) {
      good &= where_greater(infinity, y[j + k]);
      tops[k] = larger(y[j + k], tops[k]);
    }
  columns.top = tops[0];
  for (int k = 0; k < 8; ++k) {
    columns.peaks[k] = tops[k];
    columns.top = larger(columns.top, tops[k]);
  }
  columns.good = good & where_greater(columns.top, -infinity);
  return columns;
}

// How far Newton's method moves from tau in each lane; up to kLockstepColumns terms, a multiple of four, each of which
// stands for `share` terms.
template <class Power, class T>
inline Vector<T> lockstep_step(const Vector<T>* y, std::int64_t padded, Vector<T> tau, Vector<T> share = splat(T(1))) {
  const Vector<T> zero{}, one = splat(T(1));
  Vector<T> sums[4] = {}, slopes[4] = {};
  for (std::int64_t j = 0; j < padded; j += 4)
    for (int k = 0; k < 4; ++k) {
      const Vector<T> z = larger(y[j + k] - tau, zero);
      sums[k] += Power::weight(z);
      slopes[k] += Power::slope(z, one);
    }
  return Power::step(share * ((sums[0] + sums[1]) + (sums[2] + sums[3])),
                     share * ((slopes[0] + slopes[1]) + (slopes[2] + slopes[3])));
}
#endif

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
