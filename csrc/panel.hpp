// The threshold problem for as many rows at a time as a vector has lanes. Each row by itself gives its peaks and then
// its candidates, with no branch that depends on the scores; in between and at the end Newton's method runs in
// lockstep, one row per lane. A lane that has arrived stays where it is, and padding adds zeros: the result for a row
// does not depend on its neighbours.
#pragma once

#include "lockstep.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr std::int64_t kPanelColumns = 1024;

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
inline Floats narrow(Doubles low, Doubles high) {
  const __m512 first = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low));
  return (Floats)_mm512_insertf32x8(first, _mm512_cvtpd_ps((__m512d)high), 1);
}

// lockstep_step for long sums; the number of terms is a multiple of the vector length.
template <class Power, class T>
inline Vector<T> long_lockstep_step(const Vector<T>* y, std::int64_t padded, Vector<T> tau) {
  const Vector<T> zero{}, one = splat(T(1));
  LongSum<T> sums, slopes;
  for (std::int64_t j = 0; j < padded; j += kLanes<T>) {
    Vector<T> sum[2] = {}, slope[2] = {};
    for (int k = 0; k < kLanes<T>; ++k) {
      const Vector<T> z = larger(y[j + k] - tau, zero);
      sum[k % 2] += Power::weight(z);
      slope[k % 2] += Power::slope(z, one);
    }
    sums.add(sum[0] + sum[1]);
    slopes.add(slope[0] + slope[1]);
  }
  const Doubles low = Power::step(sums.low(), slopes.low());
  if constexpr (sizeof(T) == 8) return low;
  else return narrow(low, Power::step(sums.high(), slopes.high()));
}

template <class T>
class Panel {
 public:
  explicit Panel(std::int64_t n)
      : n_(n), stride_(n + 2 * kLane), candidates_(kLane * stride_), columns_(kLane * (n + kLane)) {}

  // Solves `count` rows, at most kLanes. While one phase computes, what the next one needs is fetched: the place of
  // the weights, and the rows that come after these, at `ahead`.
  template <class Power>
  void run(const T* x, T* weights, T* value, std::int64_t count, const T* ahead) {
    constexpr T scale = T(1 / Power::kOrder), order = T(Power::kOrder);
    const Vector<T> zero{}, infinity = splat(kInfinity<T>);
    Vector<T>* const y = reinterpret_cast<Vector<T>*>(columns_.get());

    unsigned good = 0;
    for (std::int64_t row = 0; row < count; ++row)
      good |= static_cast<unsigned>(write_peaks(x + row * n_, candidates_.get() + row * stride_)) << row;
    const std::int64_t n_peaks = n_ > kLockstepColumns ? 2 * kLane : kLane;
    for (std::int64_t j = 0; j < n_peaks; j += kLane)
      transpose_tile(y + j, [&](std::int64_t row) { return load(candidates_.get() + row * stride_ + j); }, count);
    Vector<T> tops[4] = {-infinity, -infinity, -infinity, -infinity};
    for (std::int64_t j = 0; j < n_peaks; ++j) tops[j % 4] = larger(y[j], tops[j % 4]);
    const Vector<T> top = larger(larger(tops[0], tops[1]), larger(tops[2], tops[3]));
    good &= where_greater(top, -infinity);

    // The threshold of some of the scores is a lower bound for all of them, and the peaks are the likeliest.
    Vector<T> tau = splat(T(-1));
    for (std::int64_t j = 0; j < n_peaks; ++j) y[j] = (y[j] - top) * scale;
    for (int iteration = 0; iteration < 3; ++iteration)
      tau = larger(tau + lockstep_step<Power, T>(y, n_peaks, tau), tau);
    tau += 4 * std::numeric_limits<T>::epsilon() * tau;

    alignas(kVectorBytes) T shifts[kLane], floors[kLane], highs[kLane], lows[kLane];
    store(shifts, top);
    store(floors, just_below(top + tau * order));
    alignas(kVectorBytes) T shares[kLane] = {};  // of the candidates that are looked at for a guess
    std::int64_t counts[kLane], most = 0;
    for (std::int64_t row = 0; row < count; ++row) {
      counts[row] = write_candidates(x + row * n_, floors[row], shifts[row], scale, candidates_.get() + row * stride_,
                                     weights + row * n_);
      most = counts[row] > most ? counts[row] : most;
      shares[row] = counts[row] > 2 * kSample ? T(counts[row]) / T(kSample) : T(0);
    }
    for (std::int64_t j = 0; j < most; j += kLane)
      transpose_tile(y + j, [&](std::int64_t row) {
        return j < counts[row] ? load(candidates_.get() + row * stride_ + j) : splat(kNothing);
      }, count);
    const std::int64_t padded = (most + kLane - 1) / kLane * kLane;

    unsigned guessed = 0, added;
    const Vector<T> lowest = tau;
    if (most > 2 * kSample) {  // where there are many, some of them tell roughly what all will
      const Vector<T> share = load(shares);
      Vector<T> guess = tau;
      for (int iteration = 0; iteration < 3; ++iteration) guess += lockstep_step<Power, T>(y, kSample, guess, share);
      guessed = where_greater(share, zero) & where_greater(guess, lowest);
      tau = choose<T>(guessed, guess, tau);
    }
    const Vector<T> enough = splat(Power::template enough<T>(n_));
    Vector<T> step;
    for (;;) {
      // The length of the row decides, not the number of candidates, which is that of the neighbour who has most.
      step = n_ > kLockstepColumns ? long_lockstep_step<Power, T>(y, padded, tau)
                                   : lockstep_step<Power, T>(y, padded, tau);
      // A guess may be too high: then the step is down, to below the root, from where all others are up.
      const Vector<T> next = larger(tau + step, lowest), size = choose<T>(guessed, absolute(step), step);
      added = where_greater(size, larger((-2 * std::numeric_limits<T>::epsilon()) * tau, enough));
      const unsigned moving = added & (where_greater(next, tau) | where_greater(tau, next)) & good;
      tau = choose<T>(added, next, tau);
      if (moving == 0) break;
      guessed = 0;
    }
    step = choose<T>(added, zero, step);

    Vector<T> moments[4] = {};
    for (std::int64_t j = 0; j < padded; j += 4)
      for (int k = 0; k < 4; ++k) {
        const Vector<T> z = larger((y[j + k] - tau) - step, zero);
        moments[k] += Power::weight(z) * z;
      }
    const Vector<T> moment = (moments[0] + moments[1]) + (moments[2] + moments[3]);
    store_lanes(value, count, top + (order * (T(1) + tau) + tau + (order + 1) * step + moment) * (order / (order + 1)));
    store(highs, tau);
    store(lows, step);
    for (std::int64_t row = 0; row < count; ++row) {
      const T shift = shifts[row], high = highs[row], low = lows[row];
      const T* from = x + row * n_;
      T* to = weights + row * n_;
      each_vector<T>(n_, [&](std::int64_t i, std::int64_t width) {
        __builtin_prefetch(ahead + row * n_ + i);
        const Vector<T> scaled = (load_lanes(from + i, width, -kInfinity<T>) - shift) * scale;
        store_lanes(to + i, width, Power::weight(larger((scaled - high) - low, zero)));
      });
      if (((good >> row) & 1u) == 0) fill_unusual(has_bad(from, n_), to, value + row, n_);
    }
  }

 private:
  static constexpr int kLane = kLanes<T>;
  static constexpr T kNothing = T(-4);  // below every threshold
  static constexpr std::int64_t kSample = 4 * kLane;

  // The maxima over positions with the same rest modulo 2 kLanes, two vectors of them; returns whether all are numbers.
  bool write_peaks(const T* x, T* peaks) const {
    const Vector<T> infinity = splat(kInfinity<T>);
    Vector<T> first = -infinity, second = -infinity;
    unsigned good = kAllLanes<T>;
    std::int64_t i = 0;
    for (; i + 2 * kLane <= n_; i += 2 * kLane) {
      const Vector<T> a = load(x + i), b = load(x + i + kLane);
      good &= where_greater(infinity, a) & where_greater(infinity, b);
      first = larger(a, first);
      second = larger(b, second);
    }
    each_vector<T>(n_ - i, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> a = load_lanes(x + i + at, lanes, -kInfinity<T>);
      good &= where_greater(infinity, a);
      second = larger(a, second);
    });
    if (n_ <= kLockstepColumns) first = larger(first, second);
    store(peaks, first);
    store(peaks + kLane, second);
    return good == kAllLanes<T>;
  }

  // (x - top) * scale for the scores above `floor`, then a vector of padding; returns how many.
  std::int64_t write_candidates(const T* x, T floor, T top, T scale, T* candidates,
                                const T* weights) const {
    std::int64_t count = 0;
    const Vector<T> floors = splat(floor);
    each_vector<T>(n_, [&](std::int64_t i, std::int64_t lanes) {
      const Vector<T> scores = load_lanes(x + i, lanes, -kInfinity<T>);
      __builtin_prefetch(weights + i, 1);
      count += compress<T>(candidates + count, (scores - top) * scale, where_greater(scores, floors));
    });
    store(candidates + count, splat(kNothing));
    return count;
  }

  // One vector of each row as one vector per position; lanes beyond the rows repeat the last.
  template <class F>
  static void transpose_tile(Vector<T>* y, F vector_of, std::int64_t count) {
    Vector<T> tile[kLane];
#pragma GCC unroll 16
    for (int row = 0; row < kLane; ++row) tile[row] = vector_of(row < count ? row : count - 1);
    transpose<T>(tile);
#pragma GCC unroll 16
    for (int row = 0; row < kLane; ++row) y[row] = tile[row];
  }

  std::int64_t n_, stride_;
  Scratch<T> candidates_, columns_;
};

constexpr bool kHasPanels = true;
#else
template <class T>
class Panel {
 public:
  explicit Panel(std::int64_t) {}
  template <class Power>
  void run(const T*, T*, T*, std::int64_t, const T*) {}
};

constexpr bool kHasPanels = false;
#endif

template <class Power, class T>
inline void threshold_rows(const T* x, T* weights, T* value, std::int64_t n, std::int64_t begin, std::int64_t end) {
  if (kHasPanels && n <= kPanelColumns) {
    Panel<T> panel(n);
    for (std::int64_t row = begin; row < end; row += kLanes<T>) {
      const std::int64_t count = end - row < kLanes<T> ? end - row : std::int64_t(kLanes<T>);
      const std::int64_t next = row + 2 * kLanes<T> <= end ? row + kLanes<T> : row;
      panel.template run<Power>(x + row * n, weights + row * n, value + row, count, x + next * n);
    }
    return;
  }
  const Scratch<T> peaks(peaks_size<T>(n)), candidates(candidates_size<T>(n) + peaks_size<T>(n));
  for (std::int64_t row = begin; row < end; ++row)
    threshold_row<Power>(x + row * n, weights + row * n, value + row, n, peaks.get(), candidates.get());
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
