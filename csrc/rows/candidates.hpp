// The few entries of a row that can receive weight: one pass finds the maximum, one gathers what lies within a window
// below it, and the exact solver then sees only those.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "core/problems.hpp"
#include "core/rows.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
struct Extent {
  T top;         // the largest entry
  bool bad;      // some entry is NaN or +inf
  bool removed;  // some entry is -inf, unless `bad`
};

// This is where kernels first read their scores, so it computes two maxima only: of the scores, and of their bits
// without the sign, which are below those of infinity unless a score is infinite or NaN. From a plain loop with three
// reductions GCC makes slower code, which stores a maximum in every step. Not inlined, it would cost rows of 64 a
// seventh of their time.
template <class T>
OMEGAMAX_INLINE Extent<T> extent(const T* x, std::int64_t n) {
  using Bits = typename Traits<Vector<T>>::Integer;
  const Bits unsign = Bits{} + std::numeric_limits<typename Traits<T>::Integer>::max();
  struct {
    Vector<T> top = splat(-kInfinity<T>);
    Bits largest = {};
  } even, odd;
  const auto look = [&](auto& chain, Vector<T> scores) {
    const Bits bits = bits_of(scores) & unsign;
    chain.top = larger(scores, chain.top);
    chain.largest = bits > chain.largest ? bits : chain.largest;
  };
  std::int64_t i = 0;
  for (; i + 2 * kLanes<T> <= n; i += 2 * kLanes<T>) {
    look(even, load(x + i));
    look(odd, load(x + i + kLanes<T>));
  }
  each_vector<T>(n - i, [&](std::int64_t at, std::int64_t lanes) { look(even, load_lanes(x + i + at, lanes, x[0])); });
  const T top = largest_lane<T>(larger(even.top, odd.top));
  const Bits both = even.largest > odd.largest ? even.largest : odd.largest;
  if (where_greater(splat(kInfinity<T>), from_bits<Vector<T>>(both)) == kAllLanes<T>) return {top, false, false};
  bool nan = false;
  for (int lane = 0; lane < kLanes<T>; ++lane) nan |= both[lane] > bits_of(kInfinity<T>);
  return {top, nan || top == kInfinity<T>, true};
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
      const __m512 a = _mm512_sub_ps(_mm512_loadu_ps(x + i), tops);
      const __m512 b = _mm512_sub_ps(_mm512_loadu_ps(x + i + 16), tops);
      const __m512 c = _mm512_sub_ps(_mm512_loadu_ps(x + i + 32), tops);
      const __m512 d = _mm512_sub_ps(_mm512_loadu_ps(x + i + 48), tops);
      const __mmask16 ha = _mm512_cmp_ps_mask(a, levels, _CMP_GT_OQ), hb = _mm512_cmp_ps_mask(b, levels, _CMP_GT_OQ);
      const __mmask16 hc = _mm512_cmp_ps_mask(c, levels, _CMP_GT_OQ), hd = _mm512_cmp_ps_mask(d, levels, _CMP_GT_OQ);
      if ((ha | hb | hc | hd) == 0) continue;
      keep(a, ha, i);  // storing nothing is cheaper than a branch that cannot be predicted
      keep(b, hb, i + 16);
      keep(c, hc, i + 32);
      keep(d, hd, i + 48);
    }
    for (; i < n; i += 16) {
      const __mmask16 there = n - i >= 16 ? 0xffff : static_cast<__mmask16>((1u << (n - i)) - 1);
      const __m512 a = _mm512_sub_ps(_mm512_maskz_loadu_ps(there, x + i), tops);
      const __mmask16 hit = _mm512_mask_cmp_ps_mask(there, a, levels, _CMP_GT_OQ);
      keep(a, hit, i);
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

constexpr std::int64_t kPad = 8;  // places after the last entry that `project_simplex` may overwrite

// Eight doubles at once on every instruction set (GCC and Clang lower these to what there is).
typedef double Wide __attribute__((vector_size(64), aligned(8), may_alias));
typedef long long WideMask __attribute__((vector_size(64)));

// Lanes are added, compared and counted along the shortest path, because short rows wait for the result.
#ifdef __AVX512F__
inline double sum_of(Wide v) { return _mm512_reduce_add_pd((__m512d)v); }
inline double largest_of(Wide v) { return _mm512_reduce_max_pd((__m512d)v); }
class PositiveCount {
 public:
  void add(Wide v) { total_ += __builtin_popcount(_mm512_cmp_pd_mask((__m512d)v, _mm512_setzero_pd(), _CMP_GT_OQ)); }
  std::int64_t total() const { return total_; }

 private:
  std::int64_t total_ = 0;
};
#else
inline double sum_of(Wide v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }
inline double largest_of(Wide v) {
  double top = v[0];
  for (int l = 1; l < kPad; ++l) top = v[l] > top ? v[l] : top;
  return top;
}
class PositiveCount {
 public:
  void add(Wide v) { counts_ -= v > 0; }
  std::int64_t total() const {
    const WideMask& c = counts_;
    return (c[0] + c[1]) + (c[2] + c[3]) + (c[4] + c[5]) + (c[6] + c[7]);
  }

 private:
  WideMask counts_ = {};
};
#endif
inline Wide where_positive(Wide v) { return reinterpret_cast<Wide>((v > 0) & reinterpret_cast<WideMask>(v)); }

// Newton's method from below on the convex, piecewise linear sum (y - tau)_+ - 1: finite and monotone (Michelot, 1986).
inline SimplexThreshold project_simplex(double* y, std::int64_t n) {
  // Whole vectors only: a short tail would cost more than a short row.
  const std::int64_t blocks = (n + kPad - 1) / kPad;
  for (std::int64_t i = n; i < blocks * kPad; ++i) y[i] = -1.7976931348623157e308;
  const Wide* wide = reinterpret_cast<const Wide*>(y);
  Wide tops = wide[0];
  for (std::int64_t b = 1; b < blocks; ++b) tops = wide[b] > tops ? wide[b] : tops;
  double tau = largest_of(tops) - 1;  // where the largest alone would fill the simplex
  std::int64_t size = 0;
  for (;;) {
    Wide sums = {};
    PositiveCount count;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const Wide excess = wide[b] - tau;
      sums += where_positive(excess);
      count.add(excess);
    }
    const std::int64_t now = count.total();
    const double step = (sum_of(sums) - 1) / static_cast<double>(now);
    if (now == size || !(step > 0)) return {tau, step, now};
    size = now;
    tau += step;
  }
}

// Writes the positions with p != 0, in order; returns how many there are. NaN counts, so that a NaN row stays NaN.
template <class T>
inline std::int64_t gather_support(const T* p, std::int64_t n, std::int32_t* support) {
  std::int64_t found = 0, i = 0;
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 4) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const auto keep = [&](__mmask16 hit, std::int64_t at) {
      const __m512i at_lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(at)));
      _mm512_storeu_si512(support + found, _mm512_maskz_compress_epi32(hit, at_lanes));
      found += __builtin_popcount(hit);
    };
    const auto hits = [&](std::int64_t at) {
      return _mm512_cmp_ps_mask(_mm512_loadu_ps(p + at), _mm512_setzero_ps(), _CMP_NEQ_UQ);
    };
    for (; i + 64 <= n; i += 64) {
      const __mmask16 a = hits(i), b = hits(i + 16), c = hits(i + 32), d = hits(i + 48);
      if ((a | b | c | d) == 0) continue;
      keep(a, i);
      keep(b, i + 16);
      keep(c, i + 32);
      keep(d, i + 48);
    }
    for (; i + 16 <= n; i += 16) keep(hits(i), i);
  }
#endif
  constexpr std::int64_t kBlock = 32;
  for (; i < n; i += kBlock) {
    const std::int64_t stop = i + kBlock < n ? i + kBlock : n;
    int hits = 0;
#pragma omp simd reduction(| : hits)
    for (std::int64_t j = i; j < stop; ++j) hits |= p[j] != 0;
    if (hits == 0) continue;
    for (std::int64_t j = i; j < stop; ++j) {
      support[found] = static_cast<std::int32_t>(j);
      found += p[j] != 0;
    }
  }
  return found;
}

// Fills a row that has no solution: all masked, or not all numbers. Returns whether the row was such a row.
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
