// The threshold problem for a panel of rows: Newton's method runs in lockstep, one row per lane, first on the peaks and
// then on the candidates. A lane that has arrived stays where it is.
#pragma once

#include "rows/panel_rows.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
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

template <class T, class Shape>
class Panel {
 public:
  explicit Panel(std::int64_t n) : n_(n), rows_(n) {}

  // Solves `count` rows, at most kLanes; `value` may be null.
  template <class Power>
  void run(const T* x, T* weights, T* value, std::int64_t count) {
    constexpr T scale = T(1 / Power::kOrder), order = T(Power::kOrder);
    const bool is_long = rows_.is_long();
    const Vector<T> zero{};
    Vector<T>* const y = rows_.columns();
    const auto [top, n_peaks, good] = rows_.find_peaks(x, count);

    // The threshold of some of the scores is a lower bound for all of them, and the peaks are the likeliest.
    Vector<T> tau = splat(T(-1));
    for (std::int64_t j = 0; j < n_peaks; ++j) y[j] = (y[j] - top) * scale;
    for (int iteration = 0; iteration < (is_long ? 2 : 1); ++iteration)  // more save less than they cost
      tau = larger(tau + lockstep_step<Power, T>(y, n_peaks, tau), tau);
    tau += 4 * std::numeric_limits<T>::epsilon() * tau;

    alignas(kVectorBytes) T shifts[kLane], floors[kLane], highs[kLane], lows[kLane];
    store(shifts, top);
    store(floors, just_below(top + tau * order));
    // A row of which most are candidates is left to the end, and read where it lies.
    alignas(kVectorBytes) T bounds[kLane];
    store(bounds, tau);
    unsigned whole = 0;
    for (std::int64_t row = 0; row < (is_long ? count : 0); ++row)
      if (((good >> row) & 1u) != 0 && is_crowded(x + row * n_, floors[row])) {
        whole |= 1u << row;
        floors[row] = kInfinity<T>;
      }
    std::int64_t counts[kLane];
    const std::int64_t padded =  // long sums take whole vectors of terms
        is_long ? rows_.find_candidates(x, count, floors, weights, counts)
                : rows_.template find_candidates<kLane / 2>(x, count, floors, weights, counts);
    for (std::int64_t j = 0; j < padded; ++j) y[j] = (y[j] - top) * scale;

    unsigned guessed = 0, added;
    const Vector<T> lowest = tau;
    if (is_long && padded > 2 * kSample) {         // where there are many, some of them give a guess
      alignas(kVectorBytes) T shares[kLane] = {};  // of the candidates that are looked at for a guess
      for (std::int64_t row = 0; row < count; ++row)
        shares[row] = counts[row] > 2 * kSample ? T(counts[row]) / T(kSample) : T(0);
      const Vector<T> share = load(shares);
      Vector<T> guess = tau;
      for (int iteration = 0; iteration < 3; ++iteration) guess += lockstep_step<Power, T>(y, kSample, guess, share);
      guessed = where_greater(share, zero) & where_greater(guess, lowest);
      tau = choose<T>(guessed, guess, tau);
    }
    const Vector<T> enough = splat(Power::template enough<T>(n_));
    Vector<T> step;
    for (;;) {
      // The length of the row decides, not the number of candidates, which is the largest number of all neighbours.
      step = is_long ? long_lockstep_step<Power, T>(y, padded, tau) : lockstep_step<Power, T>(y, padded, tau);
      // A guess may be too high: then the step is down, to below the root, from where all others are up.
      const Vector<T> next = larger(tau + step, lowest), size = choose<T>(guessed, absolute(step), step);
      added = where_greater(size, larger((-2 * std::numeric_limits<T>::epsilon()) * tau, enough));
      const unsigned moving = added & (where_greater(next, tau) | where_greater(tau, next)) & good;
      tau = choose<T>(added, next, tau);
      if (moving == 0) break;
      guessed = 0;
    }
    step = choose<T>(added, zero, step);

    if (value != nullptr) {
      Vector<T> moments[4] = {};
      for (std::int64_t j = 0; j < padded; j += 4)
        for (int k = 0; k < 4; ++k) {
          const Vector<T> z = larger((y[j + k] - tau) - step, zero);
          moments[k] += Power::weight(z) * z;
        }
      const Vector<T> moment = (moments[0] + moments[1]) + (moments[2] + moments[3]);
      const Vector<T> above = order * (T(1) + tau) + tau + (order + 1) * step + moment;
      store_lanes(value, count, top + above * (order / (order + 1)));
    }
    store(highs, tau);
    store(lows, step);
    for (std::int64_t row = 0; row < count; ++row) {
      const T shift = shifts[row], high = highs[row], low = lows[row];
      const T* from = x + row * n_;
      T* to = weights + row * n_;
      T unwanted, *own = value != nullptr ? value + row : &unwanted;
      if (((good >> row) & 1u) == 0) {
        fill_unusual(has_bad(from, n_), to, own, n_);
        continue;
      }
      if ((whole >> row) & 1u) {
        const auto threshold = find_crowded<Power>(WholeRow<T>{from, n_, shift, scale}, bounds[row]);
        write_row<Power>(from, to, own, n_, shift, threshold, [](std::int64_t) { return false; });
        continue;
      }
      n_.each_vector([&](std::int64_t i, std::int64_t width) {
        const Vector<T> scaled = (load_lanes(from + i, width, -kInfinity<T>) - shift) * scale;
        store_lanes(to + i, width, Power::weight(larger((scaled - high) - low, zero)));
      });
    }
  }

 private:
  static constexpr int kLane = kLanes<T>;
  static constexpr std::int64_t kSample = 4 * kLane;

  // Guesses from some of the scores. The guess may be too high, but a step from anywhere ends below the root.
  template <class Power>
  static Threshold<T> find_crowded(WholeRow<T> scores, T bound) {
    const T share = T(scores.count) / T(kSample);
    T guess = bound;
    for (int iteration = 0; iteration < 3; ++iteration) {
      Vector<T> sum{}, slope{};
      for (int k = 0; k < kSample; k += kLane) {
        const Vector<T> z = larger(scores.at(k) - guess, Vector<T>{});
        sum += Power::weight(z);
        slope += Power::slope(z, splat(T(1)));
      }
      guess += Power::step(share * sum_lanes<T>(sum), share * sum_lanes<T>(slope));
    }
    if (guess > bound) bound = larger(guess + newton_step<Power>(scores, guess), bound);
    return find_threshold<Power>(scores, bound);
  }

  // Whether most of the first scores are above the floor.
  static bool is_crowded(const T* x, T floor) {
    int above = 0;
    for (int k = 0; k < kSample; k += kLane) above += __builtin_popcount(where_greater(load(x + k), splat(floor)));
    return 4 * above > 3 * kSample;
  }

  RowLength<T, Shape> n_;
  PanelRows<T, Shape> rows_;
};
#else
template <class T, class>
class Panel {
 public:
  explicit Panel(std::int64_t) {}
  template <class Power>
  void run(const T*, T*, T*, std::int64_t) {}
};
#endif

// `value` may be null.
template <class Power, class T>
inline void threshold_rows(const T* x, T* weights, T* value, std::int64_t n, std::int64_t begin, std::int64_t end) {
  if (kHasPanels && n <= kPanelColumns)
    return with_shape<T>(n, [&](auto shape) {
      Panel<T, decltype(shape)> panel(n);
      for (std::int64_t row = begin; row < end; row += kLanes<T>) {
        const std::int64_t count = end - row < kLanes<T> ? end - row : std::int64_t(kLanes<T>);
        panel.template run<Power>(x + row * n, weights + row * n, value != nullptr ? value + row : nullptr, count);
      }
    });
  const Scratch<T> peaks(peaks_size<T>(n)), candidates(candidates_size<T>(n) + peaks_size<T>(n));
  T unwanted;
  for (std::int64_t row = begin; row < end; ++row)
    threshold_row<Power>(x + row * n, weights + row * n, value != nullptr ? value + row : &unwanted, n, peaks.get(),
                         candidates.get());
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
