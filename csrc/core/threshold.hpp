// Weights that are a power of the excess over a threshold, for the two powers that need no logarithm:
//
//     p = (y - tau)_+^q,  sum p = 1,      y = (x - max x)/q
//
// q = 1 is sparsemax and q = 2 is 1.5-entmax (Peters, Niculae & Martins, 2019). Newton's method on the q-norm of the
// excess, which is convex in tau and nearly linear, climbs to tau from below and never passes it. For q = 1 it is
// Michelot's (1986) algorithm.
#pragma once

#include "core/rows.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

struct Linear {
  static constexpr double kOrder = 1;
  static constexpr int kPeaksFrom = 2;  // rows of more blocks than this start with their peaks
  template <class V>
  static V slope(V z, V one) {
    return z > V{} ? one : V{};
  }
  template <class V>
  static V weight(V z) {
    return z;
  }
  template <class V>
  static V step(V sum, V slope) {
    return (sum - typename Traits<V>::Number(1)) / slope;
  }
  // The size of a step after which no other is needed. There is none: fewer scores may lie above its end.
  template <class T>
  static T enough(std::int64_t) {
    return 0;
  }
};

struct Square {
  static constexpr double kOrder = 2;
  static constexpr int kPeaksFrom = 4;
  template <class V>
  static V slope(V z, V) {
    return z;
  }
  template <class V>
  static V weight(V z) {
    return z * z;
  }
  template <class V>
  static V step(V sum, V slope) {
    return (sum - root(sum)) / slope;
  }
  // The error after a step is of second order: the sum of the weights is off by at most n times the square of the step.
  template <class T>
  static T enough(std::int64_t n) {
    return root(std::numeric_limits<T>::epsilon() / static_cast<T>(4 * n));
  }
};

// Drops the candidates that are not above tau.
template <class T>
OMEGAMAX_INLINE std::int64_t shrink(T* y, std::int64_t count, T tau) {
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < count; i += kLanes<T>) {
    const Vector<T> block = load(y + i);
    kept += compress<T>(y + kept, block, where_greater(block, splat(tau)));
  }
  return pad(y, kept, T(-4));
}

// Candidates: y itself, padded to a multiple of the vector length. Those that are not above tau can be dropped.
template <class T>
struct Listing {
  T* y;
  std::int64_t count;

  Vector<T> at(std::int64_t i) const { return load(y + i); }
  void drop(T tau) {
    if (count > 8 * kBlockSize<T>) count = shrink(y, count, tau);
  }
};

// All scores of a row, for rows in which nearly all are candidates.
template <class T>
struct WholeRow {
  const T* x;
  std::int64_t count;
  T top, scale;

  Vector<T> at(std::int64_t i) const {
    const std::int64_t lanes = count - i < kLanes<T> ? count - i : std::int64_t(kLanes<T>);
    return (load_lanes(x + i, lanes, -kInfinity<T>) - top) * scale;
  }
  void drop(T) {}
};

// How far Newton's method moves from tau.
template <class Power, class T, class Scores>
OMEGAMAX_INLINE T newton_step(const Scores& scores, T tau) {
  const Vector<T> one = splat(T(1));
  const std::int64_t count = scores.count;
  LongSum<T> sums, slopes;
  std::int64_t i = 0;
  for (;;) {
    Vector<T> sum{}, slope{};
    const std::int64_t end = i + kBlockSize<T> < count ? i + kBlockSize<T> : count;
    for (; i < end; i += kLanes<T>) {
      const Vector<T> z = larger(scores.at(i) - tau, Vector<T>{});
      sum += Power::weight(z);
      slope += Power::slope(z, one);
    }
    if (count <= kBlockSize<T>) return Power::step(sum_lanes<T>(sum), sum_lanes<T>(slope));
    sums.add(sum);
    slopes.add(slope);
    if (i >= count) return static_cast<T>(Power::step(sums.total(), slopes.total()));
  }
}

// tau in two parts: the weights of a long row add up to one only if tau is known to more than its own precision.
template <class T>
struct Threshold {
  T high, low;
};

// The root, from any tau below it.
template <class Power, class T, class Scores>
inline Threshold<T> find_threshold(Scores scores, T tau) {
  const T enough = Power::template enough<T>(scores.count);
  for (;;) {
    const T step = newton_step<Power>(scores, tau);
    const T next = tau + step;
    if (!(step > larger(2 * std::numeric_limits<T>::epsilon() * -tau, enough)) || next == tau) return {tau, step};
    tau = next;
    scores.drop(tau);
  }
}

// Whether most of the peaks are above the floor: then so are many of the scores. Usually the first peaks decide.
template <class T>
inline bool most_above(const T* peaks, std::int64_t count, T floor) {
  std::int64_t above = 0;
  if (where_greater(load(peaks), splat(floor)) != kAllLanes<T>) return false;
  for (std::int64_t i = 0; i < count; i += kLanes<T>)
    above += __builtin_popcount(where_greater(load(peaks + i), splat(floor)));
  return 4 * above > 3 * count;
}

// Writes the weights and the value. is_empty(i) may tell that the block from position i on has no weight.
template <class Power, class T, class IsEmpty>
inline void write_row(const T* x, T* weights, T* value, std::int64_t n, T top, Threshold<T> threshold,
                      IsEmpty is_empty) {
  constexpr T scale = T(1 / Power::kOrder);
  LongSum<T> moments;  // of order q + 1
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>) {
    const std::int64_t size = n - i < kBlockSize<T> ? n - i : kBlockSize<T>;
    if (is_empty(i)) {
      each_vector<T>(size,
                     [&](std::int64_t at, std::int64_t lanes) { store_lanes(weights + i + at, lanes, Vector<T>{}); });
      continue;
    }
    Vector<T> moment{};
    each_vector<T>(size, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> y = (load_lanes(x + i + at, lanes, -kInfinity<T>) - top) * scale;
      const Vector<T> z = larger((y - threshold.high) - threshold.low, Vector<T>{});
      const Vector<T> weight = Power::weight(z);
      moment += weight * z;
      store_lanes(weights + i + at, lanes, weight);
    });
    moments.add(moment);
  }
  // max_Omega = max x + (q (1 + tau) + tau + sum p^(1 + 1/q)) q / (q + 1), from Omega = q^2/(q + 1) (sum p^(1 + 1/q) -
  // 1)
  constexpr double q = Power::kOrder;
  const double exact = static_cast<double>(threshold.high) + threshold.low;
  *value = top + static_cast<T>((q * (1 + exact) + exact + moments.total()) * q / (q + 1));
}

template <class Power, class T>
inline void threshold_row(const T* x, T* weights, T* value, std::int64_t n, T* peaks, T* candidates) {
  const Top<T> found = find_top(x, n, peaks);
  if (!found.usual()) return fill_unusual(found.bad, weights, value, n);
  constexpr T scale = T(1 / Power::kOrder);
  const T top = found.score;
  T tau = -1;
  if (n > Power::kPeaksFrom * kBlockSize<T>) {
    // The threshold of some of the scores is a lower bound for all of them, and the peaks are the likeliest.
    const std::int64_t blocks = peaks_size<T>(n);
    for (std::int64_t i = 0; i < blocks; i += kLanes<T>) store(candidates + i, (load(peaks + i) - top) * scale);
    tau = find_threshold<Power>(Listing<T>{candidates, shrink(candidates, blocks, tau)}, tau).high;
    tau -= 4 * std::numeric_limits<T>::epsilon() * -tau;
  }
  const T floor = just_below(top + tau * T(Power::kOrder));
  const auto listed = [&] {
    const std::int64_t count = collect(x, n, peaks, floor, top, scale, candidates);
    return Listing<T>{candidates, pad(candidates, count, T(-4))};
  };
  const bool whole = n > Power::kPeaksFrom * kBlockSize<T> && most_above(peaks, peaks_size<T>(n), floor);
  const Threshold<T> threshold =
      whole ? find_threshold<Power>(WholeRow<T>{x, n, top, scale}, tau) : find_threshold<Power>(listed(), tau);

  write_row<Power>(x, weights, value, n, top, threshold, [&](std::int64_t i) {
    const Vector<T> peak = load(peaks + i / kBlock);
    return where_greater((peak - top) * scale, splat(threshold.high)) == 0 && threshold.low >= 0;
  });
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
