// The threshold problem for short rows, one row per vector lane. Sums run down the lanes, so that there is nothing to
// reduce across them, and one loop serves as many rows as there are lanes. A lane that has arrived stays where it is:
// its result does not depend on its neighbours.
#pragma once

#include "threshold.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
constexpr bool kHasLockstep = true;
#else
constexpr bool kHasLockstep = false;
#endif
constexpr std::int64_t kLockstepColumns = 128;

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
// One stage of a transposition: swaps the odd blocks (of `distance` lanes) of a with the even ones of b.
template <int distance, class T>
inline void swap_blocks(Vector<T>& a, Vector<T>& b) {
  using Index = typename Traits<Vector<T>>::Integer;
  constexpr int lanes = kLanes<T>;
  Index first, second;
  for (int lane = 0; lane < lanes; ++lane) {
    const bool odd = (lane / distance) % 2 == 1;
    first[lane] = odd ? lane - distance + lanes : lane;
    second[lane] = odd ? lane + lanes : lane + distance;
  }
  const Vector<T> low = __builtin_shuffle(a, b, first);
  b = __builtin_shuffle(a, b, second);
  a = low;
}

template <int distance, class T>
inline void transpose_stage(Vector<T>* tile) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i)
    if ((i / distance) % 2 == 0) swap_blocks<distance, T>(tile[i], tile[i + distance]);
}

template <class T>
inline void transpose(Vector<T>* tile) {
  transpose_stage<1, T>(tile);
  transpose_stage<2, T>(tile);
  transpose_stage<4, T>(tile);
  if constexpr (kLanes<T> == 16) transpose_stage<8, T>(tile);
}

// a where the lane's bit is set, b elsewhere.
template <class T>
inline Vector<T> choose(unsigned bits, Vector<T> a, Vector<T> b) {
  if constexpr (sizeof(T) == 4)
    return (Floats)_mm512_mask_blend_ps(static_cast<__mmask16>(bits), (__m512)b, (__m512)a);
  else
    return (Doubles)_mm512_mask_blend_pd(static_cast<__mmask8>(bits), (__m512d)b, (__m512d)a);
}

inline Floats absolute(Floats x) { return (Floats)_mm512_abs_ps((__m512)x); }
inline Doubles absolute(Doubles x) { return (Doubles)_mm512_abs_pd((__m512d)x); }

// Short rows as columns: y[j] holds score j of each row, up to `padded` with -inf; lanes beyond the rows repeat the last.
template <class T>
struct Columns {
  std::int64_t padded;
  Vector<T> top, peaks[8];  // the largest score, and the largest among those whose j leaves the same rest modulo 8
  unsigned good;  // a bit for each row that has an answer
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

template <class T>
inline void fill_unusual_rows(const Columns<T>& columns, const T* x, T* weights, T* value, std::int64_t n,
                              std::int64_t count) {
  for (std::int64_t row = 0; row < count; ++row)
    if (((columns.good >> row) & 1u) == 0) fill_unusual(has_bad(x + row * n, n), weights + row * n, value + row, n);
}

template <class Power, class T>
inline Vector<T> lockstep_step(const Vector<T>* y, std::int64_t padded, Vector<T> tau) {
  const Vector<T> zero{}, one = splat(T(1));
  Vector<T> sums[4] = {}, slopes[4] = {};
  for (std::int64_t j = 0; j < padded; j += 4)
    for (int k = 0; k < 4; ++k) {
      const Vector<T> z = larger(y[j + k] - tau, zero);
      sums[k] += Power::weight(z);
      slopes[k] += Power::slope(z, one);
    }
  return Power::step((sums[0] + sums[1]) + (sums[2] + sums[3]), (slopes[0] + slopes[1]) + (slopes[2] + slopes[3]));
}

template <class Power, class T>
inline void lockstep_rows(const T* x, T* weights, T* value, std::int64_t n, std::int64_t count, Vector<T>* y) {
  constexpr T scale = T(1 / Power::kOrder);
  const Vector<T> zero{}, one = splat(T(1));
  const Columns<T> columns = load_columns(x, n, count, y);
  const std::int64_t padded = columns.padded;
  const Vector<T> top = columns.top;
  const unsigned good = columns.good;
  for (std::int64_t j = 0; j < padded; ++j) y[j] = (y[j] - top) * scale;

  // The threshold of some of the scores is a lower bound for all: a start from the peaks saves whole passes.
  Vector<T> tau = -one, step, peaks[8];
  for (int k = 0; k < 8; ++k) peaks[k] = (columns.peaks[k] - top) * scale;
  for (int iteration = 0; iteration < 3; ++iteration)
    tau = larger(tau + lockstep_step<Power, T>(peaks, 8, tau), tau);
  for (;;) {
    step = lockstep_step<Power, T>(y, padded, tau);
    const Vector<T> next = tau + step, least = (-2 * std::numeric_limits<T>::epsilon()) * tau;
    const unsigned moving = where_greater(step, least) & where_greater(next, tau) & good;
    tau = step > least ? next : tau;
    if (moving == 0) break;
  }
  const Vector<T> least = (-2 * std::numeric_limits<T>::epsilon()) * tau;
  step = step > least ? zero : step;  // already added
  Vector<T> moments[4] = {};
  for (std::int64_t j = 0; j < padded; j += 4)
    for (int k = 0; k < 4; ++k) {
      const Vector<T> z = larger((y[j + k] - tau) - step, zero);
      moments[k] += Power::weight(z) * z;
    }
  const Vector<T> moment = (moments[0] + moments[1]) + (moments[2] + moments[3]);
  constexpr T q = T(Power::kOrder);
  const Vector<T> values = top + (q * (T(1) + tau) + tau + (q + 1) * step + moment) * (q / (q + 1));
  store_lanes(value, count, values);
  alignas(kVectorBytes) T shifts[kLanes<T>], highs[kLanes<T>], lows[kLanes<T>];
  store(shifts, top);
  store(highs, tau);
  store(lows, step);
  for (std::int64_t row = 0; row < count; ++row) {
    const T shift = shifts[row], high = highs[row], low = lows[row];
    const T* from = x + row * n;
    T* to = weights + row * n;
    each_vector<T>(n, [&](std::int64_t i, std::int64_t width) {
      const Vector<T> scaled = (load_lanes(from + i, width, -kInfinity<T>) - shift) * scale;
      store_lanes(to + i, width, Power::weight(larger((scaled - high) - low, zero)));
    });
  }
  if ((good & kAllLanes<T>) != kAllLanes<T>) fill_unusual_rows(columns, x, weights, value, n, count);
}
#else
template <class Power, class T>
inline void lockstep_rows(const T*, T*, T*, std::int64_t, std::int64_t, Vector<T>*) {}
#endif

template <class Power, class T>
inline void threshold_rows(const T* x, T* weights, T* value, std::int64_t n, std::int64_t begin, std::int64_t end) {
  if (kHasLockstep && n <= kLockstepColumns) {
    alignas(kVectorBytes) Vector<T> y[kLockstepColumns + kLanes<T>];
    for (std::int64_t row = begin; row < end; row += kLanes<T>)
      lockstep_rows<Power>(x + row * n, weights + row * n, value + row, n,
                           end - row < kLanes<T> ? end - row : std::int64_t(kLanes<T>), y);
    return;
  }
  Buffer buffer(Buffer::size<T>(peaks_size<T>(n)) + Buffer::size<T>(candidates_size<T>(n) + peaks_size<T>(n)));
  T* peaks = buffer.take<T>(peaks_size<T>(n));
  T* candidates = buffer.take<T>(candidates_size<T>(n) + peaks_size<T>(n));
  for (std::int64_t row = begin; row < end; ++row)
    threshold_row<Power>(x + row * n, weights + row * n, value + row, n, peaks, candidates);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
