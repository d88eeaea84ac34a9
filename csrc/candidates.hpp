// The few entries of a row that can receive weight: one pass finds the maximum, one gathers what lies within a window
// below it, and the exact solver then sees only those.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
struct Extent {
  T top;         // the largest entry
  bool bad;      // some entry is NaN or +inf
  bool removed;  // some entry is -inf
};

template <class T>
inline Extent<T> extent(const T* x, std::int64_t n) {
  const T infinity = static_cast<T>(__builtin_inf());
  T top = -infinity;
  int bad = 0, removed = 0;
#pragma omp simd reduction(max : top) reduction(| : bad, removed)
  for (std::int64_t i = 0; i < n; ++i) {
    top = x[i] > top ? x[i] : top;
    bad |= !(x[i] < infinity);
    removed |= x[i] == -infinity;
  }
  return {top, bad != 0, removed != 0};
}

template <class T>
inline std::int64_t count_kept(const T* x, std::int64_t n) {
  const T infinity = static_cast<T>(__builtin_inf());
  std::int64_t kept = 0;
#pragma omp simd reduction(+ : kept)
  for (std::int64_t i = 0; i < n; ++i) kept += x[i] != -infinity;
  return kept;
}

constexpr std::int64_t kSlack = 64;  // room that `gather_above` may write past the last candidate

// Writes (x - top, position) of the entries with x - top > level, in order; returns how many there are.
template <class T>
inline std::int64_t gather_above(const T* x, std::int64_t n, T top, T level, T* value, std::int32_t* position) {
  std::int64_t found = 0, i = 0;
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 4) {
    const __m512 tops = _mm512_set1_ps(top), levels = _mm512_set1_ps(level);
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const auto keep = [&](__m512 shifted, __mmask16 hit, std::int64_t at) {
      // Compressing in a register and storing all of it is much faster than a compressing store on some processors.
      _mm512_storeu_ps(value + found, _mm512_maskz_compress_ps(hit, shifted));
      const __m512i at_lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(at)));
      _mm512_storeu_si512(position + found, _mm512_maskz_compress_epi32(hit, at_lanes));
      found += __builtin_popcount(hit);
    };
    for (; i + 64 <= n; i += 64) {
      const __m512 a = _mm512_sub_ps(_mm512_loadu_ps(x + i), tops), b = _mm512_sub_ps(_mm512_loadu_ps(x + i + 16), tops);
      const __m512 c = _mm512_sub_ps(_mm512_loadu_ps(x + i + 32), tops), d = _mm512_sub_ps(_mm512_loadu_ps(x + i + 48), tops);
      const __mmask16 ha = _mm512_cmp_ps_mask(a, levels, _CMP_GT_OQ), hb = _mm512_cmp_ps_mask(b, levels, _CMP_GT_OQ);
      const __mmask16 hc = _mm512_cmp_ps_mask(c, levels, _CMP_GT_OQ), hd = _mm512_cmp_ps_mask(d, levels, _CMP_GT_OQ);
      if ((ha | hb | hc | hd) == 0) continue;
      if (ha) keep(a, ha, i);
      if (hb) keep(b, hb, i + 16);
      if (hc) keep(c, hc, i + 32);
      if (hd) keep(d, hd, i + 48);
    }
    for (; i < n; i += 16) {
      const __mmask16 there = n - i >= 16 ? 0xffff : static_cast<__mmask16>((1u << (n - i)) - 1);
      const __m512 a = _mm512_sub_ps(_mm512_maskz_loadu_ps(there, x + i), tops);
      const __mmask16 hit = _mm512_mask_cmp_ps_mask(there, a, levels, _CMP_GT_OQ);
      if (hit) keep(a, hit, i);
    }
    return found;
  }
#endif
  constexpr std::int64_t kBlock = 32;
  for (; i < n; i += kBlock) {
    const std::int64_t stop = i + kBlock < n ? i + kBlock : n;
    int hits = 0;
#pragma omp simd reduction(| : hits)
    for (std::int64_t j = i; j < stop; ++j) hits |= x[j] - top > level;
    if (hits == 0) continue;
    for (std::int64_t j = i; j < stop; ++j) {  // no branch: write, and move on only if it counts
      const T shifted = x[j] - top;
      value[found] = shifted;
      position[found] = static_cast<std::int32_t>(j);
      found += shifted > level;
    }
  }
  return found;
}

// The threshold of the projection onto the simplex, p = (y - tau)_+ with sum p = 1, as a pair high + low: one double
// cannot hold tau finely enough for the sum of many small weights to come out as 1.
struct SimplexThreshold {
  double high, low;
  std::int64_t size;  // how many lie above `high`
  double operator()(double y) const {
    const double p = (y - high) - low;
    return y > high && p > 0 ? p : 0;
  }
};

// Newton's method from below on the convex, piecewise linear sum (y - tau)_+ - 1: finite and monotone (Michelot, 1986).
inline SimplexThreshold project_simplex(const double* y, std::int64_t n) {
  double largest = y[0];
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) largest = y[i] > largest ? y[i] : largest;
  double tau = largest - 1;
  std::int64_t size = 0;
  for (;;) {
    double sum = 0, above = 0;
#pragma omp simd reduction(+ : sum, above)
    for (std::int64_t i = 0; i < n; ++i) {
      const double excess = y[i] - tau;
      sum += excess > 0 ? excess : 0;
      above += excess > 0 ? 1.0 : 0.0;
    }
    const double step = (sum - 1) / above;
    const std::int64_t now = static_cast<std::int64_t>(above);
    if (now == size || !(step > 0)) return {tau, step, now};
    size = now;
    tau += step;
  }
}

// What every row of a simplex kernel that has no weights to give looks like. Returns whether the row was such a one.
template <class T>
inline bool fill_degenerate(const Extent<T>& row, bool bad_parameter, T* weights, T* value, std::int64_t n) {
  const T infinity = static_cast<T>(__builtin_inf());
  const bool bad = row.bad || bad_parameter;
  if (!bad && row.top > -infinity) return false;
  const T fill = bad ? static_cast<T>(__builtin_nan("")) : T(0);
  for (std::int64_t i = 0; i < n; ++i) weights[i] = fill;
  *value = bad ? fill : -infinity;
  return true;
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
