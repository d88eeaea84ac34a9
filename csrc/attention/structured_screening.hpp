// Which keys of a row can have weight under oscarmax and fusedmax: bounds from the threshold of sparsemax.
#pragma once

#include "attention/screening.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Sorted downwards, x_1 >= x_2 >= ..., oscarmax projects the isotonic regression y of z_i = x_i + strength i onto the
// simplex. Its threshold is the largest, and with m weights the m-th, of
//
//     g(m) = (x_1 + ... + x_m - 1)/m + strength (m + 1)/2.
//
// So with the k that sparsemax supports, g(k) is at least the threshold of sparsemax plus strength. And as the last
// number of a block of y is at least the mean of the block, z_m >= y_m > t for every bound t of the threshold from
// below, or x_m > t - strength m. Begin with all for m, count how many scores may lie above that, and repeat while it
// helps.
inline std::int64_t Screening::list_oscar(double strength, double n) {
  double tau = peaks_floor<Linear>() + strength, m = n;
  const auto floor_of = [&](double size) { return static_cast<float>(tau - strength * size * kRoundUp); };
  const auto count_on = [&] {
    for (bool helps = true; helps && m > kTightenFrom;) {
      const double above = static_cast<double>(count_above(floor_of(m)));
      helps = above < 0.9 * m;
      m = above < m ? above : m;
    }
  };
  count_on();
  if (m > kSumsFrom && strength > 0) {
    bound_oscar(strength, tau, m);
    count_on();
  }
  std::int64_t count = collect(floor_of(m));
  for (std::int64_t before = 0; before != count && count > kTightenFrom;) {
    before = count;
    count = filter(count, floor_of(static_cast<double>(count)));
  }
  return count;
}

// Better bounds of the threshold and of the number m of weights, where many scores are not far below the largest. Let
// E(v) be the sum of what scores exceed v by. Then x_1 + ... + x_m <= m v + E(v), with equality where v lies between
// x_m and x_(m+1). So each v, with scores as small as they may be, gives a bound g(k) from below, k of them above v;
// and with scores as large as they may be
//
//     g(m) <= h(m) = v + (E(v) - 1)/m + strength (m + 1)/2,
//
// which is convex in m: where h is less than the threshold at the largest m in question, it is so down to a root.
inline void Screening::bound_oscar(double strength, double& tau, double& m) const {
  constexpr int kLevels = 6;
  const double step = (tau - mean_score()) / (kLevels - 2);
  if (!(step > 0)) return;
  Excess sums[kLevels];
  float levels[kLevels];
  for (int i = 0; i < kLevels; ++i) {
    levels[i] = static_cast<float>(tau - (i + 1) * step);
    sums[i] = excess_over(levels[i]);
  }
  for (int i = 0; i < kLevels; ++i) {
    const double k = sums[i].count;
    const double bound = levels[i] + (sums[i].low - 1) / k + strength * (k + 1) / 2;
    if (k > 0 && bound - margin(bound) > tau) tau = bound - margin(bound);
  }
  for (int i = kLevels - 1; i >= 0; --i) {
    const double rest = sums[i].high - 1, gap = tau - margin(tau) - levels[i] - strength / 2;
    if (!(rest > 0 && gap > 0 && rest / m + strength * m / 2 < gap)) continue;
    const double root = (gap - __builtin_sqrt(gap * gap - 2 * strength * rest)) / strength;
    if (root + 1 < m) m = root + 1;
  }
}
inline Screening::Excess Screening::excess_over(float level) const {
  const Vector<float> zero{}, factors = splat(factor_), levels = splat(level);
  Vector<float> low = zero, high = zero;
  std::int64_t count = 0;
  for (std::int64_t group = 0; group < groups_; ++group)
    for (std::int64_t v = 0; v < kKeyGroup; v += kLanes<float>) {
      const Vector<float> x = load(x_ + group * kKeyGroup + v) * factors;
      const Vector<float> error = larger(x, -x) * (2 * kRelative) + bounds_[group], least = x - error;
      low += larger(least - levels, zero);
      high += larger(x + error - levels, zero);  // of a removed key, NaN: the second is taken
      count += __builtin_popcount(where_greater(least, levels));
    }
  // Each lane adds up a number for each vector, and all of them are positive.
  const double rounding = static_cast<double>(groups_ * (kKeyGroup / kLanes<float>)+kLanes<float>) * 1.2e-7;
  return {static_cast<double>(count), sum_lanes<float>(low) * (1 - rounding),
          sum_lanes<float>(high) * (1 + rounding)};
}

// Roughly the mean of all scores.
inline double Screening::mean_score() const {
  Vector<float> sum{}, size{};
  for (std::int64_t i = 0; i < groups_ * kKeyGroup; i += kLanes<float>) {
    const Vector<float> x = load(x_ + i), none = splat(-kInfinity<float>);
    sum += x > none ? x : Vector<float>{};
    size += x > none ? splat(1.0f) : Vector<float>{};
  }
  return factor_ * sum_lanes<float>(sum) / larger(sum_lanes<float>(size), 1.0f);
}

// The set S of positions whose denoised score exceeds t, for any t from the threshold on, is the smallest that
// maximises the sum of x - t over S less strength for each end of S inside the row (fusedmax.hpp). With the support
// of sparsemax as S and two ends for each of its positions, the threshold is at least T - 2 strength, where T is that
// of sparsemax. Then
//   - a score of at most t - 2 strength is not in S: to take it out saves that and adds two ends at most;
//   - an interval of S begins and ends with scores above t, but at the ends of the row: else S without them, which has
//     as many ends, would be no worse;
//   - an interval gains more than its ends cost, or S without it would be no worse.
// So the scores above T - 2 strength are joined where all between them are above T - 4 strength, and a run of them in
// which no interval gains enough, with scores as large and t as small as they may be, has no weight. A run of one
// needs a score above T: most runs are dropped.
inline std::int64_t Screening::list_fused(float strength, const Allowed& allowed) {
  const float bound = peaks_floor<Linear>() - 2 * strength * kRoundUp;
  const float least = bound - 2 * kRelative * larger(bound, -bound);
  const std::int64_t count = collect(bound);
  const auto excess = [&](std::int64_t key) {
    const float x = x_[key] * factor_;
    return x + larger(x, -x) * (2 * kRelative) + bounds_[key / kKeyGroup] - least;
  };
  const auto passes = [&](std::int64_t key) { return is_removed(key) || excess(key) > -2 * strength * kRoundUp; };
  float gain = 0, best = 0;  // of the best interval that ends with the last key, and with any
  std::int64_t kept = 0;
  const auto add = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t key = first; key < last; ++key) {
      if (is_removed(key)) continue;
      gain = larger(gain, -strength) + excess(key);
      others_[kept++] = static_cast<std::int32_t>(key);
    }
  };
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t begin = kept;
    std::int64_t key = indices_[i], before = key, after;
    while (i == 0 && before > 0 && passes(before - 1)) --before;
    const bool starts_row = i == 0 && before == 0;
    gain = starts_row ? 0 : -strength;
    add(starts_row ? 0 : key, key);
    for (best = -kInfinity<float>;; key = indices_[i]) {
      add(key, key + 1);
      best = larger(gain, best);
      const std::int64_t next = ++i < count ? indices_[i] : allowed.limit;
      for (after = key + 1; after < next && passes(after);) ++after;
      if (after < next) break;
      add(key + 1, next);
      if (i == count) break;
    }
    const bool ends_row = i == count && after == allowed.limit;
    if (!(best > strength || (ends_row && gain > 0))) kept = begin;
  }
  std::int32_t* const listed = others_;
  others_ = indices_;
  indices_ = listed;
  return kept;
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
