// Which keys of a row can have weight, told from approximate scores.
//
// An approximate score x of a key in group g lies within e_g + kRelative |x| of the score c that the solver would see
// (quantisation.hpp). The threshold of entmax does not fall when scores rise, so the threshold of the lower bounds
// x - e_g - kRelative |x| is at most that of the scores; and the threshold of some of them, such as the largest of each
// lane of each group, is at most that of all. A key whose upper bound does not exceed such a threshold has no weight.
// The same holds for the k-th largest score. structured_screening.hpp says what oscarmax and fusedmax add to the
// threshold of sparsemax.
#pragma once

#include <cstddef>

#include "attention/best_scores.hpp"
#include "attention/integer_product.hpp"
#include "attention/row_inputs.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

class Screening {
 public:
  Screening(Buffer& buffer, std::int64_t keys) {
    const std::int64_t n = padded(keys);
    lows_ = buffer.take<float>(n);
    bounds_ = buffer.take<float>(n / kKeyGroup);
    list_ = buffer.take<float>(n + kRoom);
    scores_ = buffer.take<float>(n + kRoom);
    indices_ = buffer.take<std::int32_t>(n + kRoom);
    others_ = buffer.take<std::int32_t>(n + kRoom);
  }
  static std::int64_t bytes(std::int64_t keys) {
    const std::int64_t n = padded(keys);
    return Buffer::size<float>(n) + Buffer::size<float>(n / kKeyGroup) + 2 * Buffer::size<float>(n + kRoom) +
           2 * Buffer::size<std::int32_t>(n + kRoom);
  }

  std::int32_t* indices() const { return indices_; }

  enum class Found { kSome, kNothing, kUnknown };  // unknown: the approximate scores are no use

  // Takes products x with keys, up to the scale of the query, and their peaks. Where there is a mask or a bias, they
  // are turned into approximate scores, -inf where not allowed.
  template <class T>
  Found prepare(float* x, float* peaks, const Allowed& allowed, const BiasRow<T>& bias, const Quantised& query,
                const float* residual, const float* length) {
    const Vector<float> infinity = splat(kInfinity<float>);
    groups_ = (allowed.limit + kKeyGroup - 1) / kKeyGroup;
    x_ = x;
    peaks_ = peaks;
    factor_ = query.scale;
    unsigned good = ~0u;
    const bool adjusted =
        allowed.mask != nullptr || bias.some() || factor_ == 0;  // 0 times the -inf below would be NaN
    if (adjusted) {
      adjust(x, allowed, bias, factor_);
      factor_ = 1;
    }
    for (std::int64_t j = allowed.limit; j < groups_ * kKeyGroup; ++j) x[j] = -kInfinity<float>;
    for (std::int64_t group = adjusted || groups_ == 0 ? 0 : groups_ - 1; group < groups_; ++group) {
      for (std::int64_t v = 0; v < kKeyGroup; v += kLanes<float>)
        good &= where_greater(infinity, load(x + group * kKeyGroup + v));
      store(peaks + group * kLanes<float>, peaks_of(x + group * kKeyGroup));
    }
    Vector<float> top = -infinity;
    const Vector<float> factors = splat(factor_);
    for (std::int64_t group = 0; group < groups_; ++group) {
      const float bound = (query.length * residual[group] + query.residual * length[group]) * kRoundUp + kTiny;
      bounds_[group] = bound;
      const Vector<float> low = lowered(load(peaks + group * kLanes<float>) * factors, bound);
      store(lows_ + group * kLanes<float>, low);
      top = larger(low, top);
    }
    top_ = largest_lane<float>(top);
    if ((good & kAllLanes<float>) != kAllLanes<float>) return Found::kUnknown;
    return top_ > -kInfinity<float> ? Found::kSome : Found::kNothing;
  }

  // Whether a key is out of the row, after `prepare`.
  bool is_removed(std::int64_t key) const { return x_[key] == -kInfinity<float>; }

  // Lists the keys that may have weight by the operator, after `prepare`; returns how many.
  std::int64_t list(const AttentionOperator& op, double parameter, std::int64_t n_allowed, const Allowed& allowed) {
    if (op.kind == kOscarAttention) return list_oscar(parameter, static_cast<double>(n_allowed));
    if (op.kind == kFusedAttention) return list_fused(static_cast<float>(parameter), allowed);
    const double e = parameter - 1;
    float floor = -kInfinity<float>;
    if (op.kind == kTopAttention) floor = top_floor(lows_, groups_ * kLanes<float>, parameter);
    else if (e == 1) floor = peaks_floor<Linear>();
    else if (e == 0.5) floor = peaks_floor<Square>();
    else if (e > 0) floor = top_ - static_cast<float>(1 / e) - kSlack;
    const std::int64_t count = collect(floor);
    if (count <= kTightenFrom) return count;
    for (std::int64_t i = 0; i < count; ++i) list_[i] = lowered(scores_[i], bounds_[indices_[i] / kKeyGroup]);
    if (op.kind == kTopAttention) return filter(count, top_floor(list_, count, parameter));
    if (e == 1) return filter(count, power_floor<Linear>(list_, count));
    if (e == 0.5) return filter(count, power_floor<Square>(list_, count));
    if (e > 0 && e < 1) return filter(count, below_two_floor(list_, count, e));
    return count;
  }

 private:
  static constexpr std::int64_t kRoom = (kBlock + 1) * kLanes<float>;
  static constexpr std::int64_t kTightenFrom = 24;  // candidates from which a second bound is worth its time
  static constexpr double kSumsFrom = 64;           // candidates of oscarmax from which sums of all scores pay
  static constexpr float kSlack = 1e-4f;            // more than rounding takes from a threshold, in units of scores

  static std::int64_t padded(std::int64_t keys) { return (keys + kKeyGroup - 1) / kKeyGroup * kKeyGroup; }

  template <class V>
  static V lowered(V x, float bound) {
    return x - larger(x, -x) * kRelative - bound;
  }

  template <class T>
  static void adjust(float* x, const Allowed& allowed, const BiasRow<T>& bias, float factor) {
    const std::int64_t n = allowed.limit;
    if (bias.some() && bias.stride == 1) {
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) x[j] = x[j] * factor + static_cast<float>(bias.first[j]);
    } else if (bias.some()) {
      const float number = static_cast<float>(*bias.first);
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) x[j] = x[j] * factor + number;
    } else {
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) x[j] *= factor;
    }
    if (allowed.mask == nullptr) return;
    if (allowed.stride == 0) {
      if (!*allowed.mask)
        for (std::int64_t j = 0; j < n; ++j) x[j] = -kInfinity<float>;
      return;
    }
    const bool* mask = allowed.mask;
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) x[j] = mask[j] ? x[j] : -kInfinity<float>;
  }

  // In structured_screening.hpp.
  struct Excess {  // by how much scores exceed a level, added up: at least and at most; and how many surely do
    double count, low, high;
  };
  std::int64_t list_oscar(double strength, double n);
  std::int64_t list_fused(float strength, const Allowed& allowed);
  void bound_oscar(double strength, double& tau, double& m) const;
  Excess excess_over(float level) const;
  double mean_score() const;
  static double margin(double x) { return kSlack + (x < 0 ? -x : x) * 4 * kRelative; }

  // The threshold of the peaks, from that of the largest of several.
  template <class Power>
  float peaks_floor() {
    constexpr std::int64_t kFolded = 16;
    const std::int64_t n = groups_ * kLanes<float>;
    float start = -1;
    if (groups_ > 2 * kFolded) {
      for (std::int64_t v = 0; v < kFolded; ++v) {
        Vector<float> peak = load(lows_ + v * kLanes<float>);
        for (std::int64_t group = v + kFolded; group < groups_; group += kFolded)
          peak = larger(load(lows_ + group * kLanes<float>), peak);
        store(list_ + v * kLanes<float>, peak);
      }
      start = threshold<Power>(list_, kFolded * kLanes<float>, start) - kSlack;
    }
    return top_ + threshold<Power>(lows_, n, start) * static_cast<float>(Power::kOrder) - kSlack;
  }

  // The threshold of numbers of which `top_` is the largest, relative to it, from a lower bound; overwrites the list.
  template <class Power>
  float threshold(const float* x, std::int64_t count, float start) {
    constexpr float scale = static_cast<float>(1 / Power::kOrder);
    const std::int64_t kept = pad(list_, relative(x, count, scale, start), -4.0f);
    return find_threshold<Power>(Listing<float>{list_, kept}, start).high;
  }

  template <class Power>
  float power_floor(const float* x, std::int64_t count) {
    return top_ + threshold<Power>(x, count, -1.0f) * static_cast<float>(Power::kOrder) - kSlack;
  }

  float below_two_floor(const float* x, std::int64_t count, double e) {
    const std::int64_t kept = pad(list_, relative(x, count, static_cast<float>(e), -1.0f), -4.0f);
    const double level =
        below_two_level(list_, kept, e) * 1.001;  // of which Newton's method stops short of the last digits
    return top_ - static_cast<float>((level < 1 ? level : 1) / e) - kSlack;
  }

  // Lists (x - top) * scale where that is above `floor`; x may be the list itself.
  std::int64_t relative(const float* x, std::int64_t count, float scale, float floor) {
    std::int64_t kept = 0;
    const Vector<float> floors = splat(floor);
    each_vector<float>(count, [&](std::int64_t i, std::int64_t lanes) {
      const Vector<float> y = (load_lanes(x + i, lanes, -kInfinity<float>) - top_) * scale;
      const unsigned bits = where_greater(y, floors);
      if (bits != 0) kept += compress<float>(list_ + kept, y, bits);
    });
    return kept;
  }

  float top_floor(const float* lows, std::int64_t count, double k) {
    if (static_cast<double>(count) < k) return -kInfinity<float>;
    const float least = nearly_kth_largest(lows, count, k, k / 8 + 1);
    return least - larger(least, -least) * kRelative - kTiny;
  }

  // Above which an approximate score in a group may belong to a score above the floor: if x is at most this, then
  // x + e + kRelative |x| <= floor, since that rises with x.
  float level(float floor, std::int64_t group) const {
    const float bound = bounds_[group];
    return floor - bound - 2 * kRelative * (larger(floor, -floor) + bound);
  }

  // How many keys may have a score above the floor.
  std::int64_t count_above(float floor) const {
    std::int64_t count = 0;
    const Vector<float> factors = splat(factor_);
    for (std::int64_t group = 0; group < groups_; ++group) {
      const Vector<float> levels = splat(level(floor, group));
      for (std::int64_t v = 0; v < kKeyGroup; v += kLanes<float>)
        count += __builtin_popcount(where_greater(load(x_ + group * kKeyGroup + v) * factors, levels));
    }
    return count;
  }

  std::int64_t collect(float floor) {
    std::int64_t count = 0;
    const Vector<float> factors = splat(factor_);
    for (std::int64_t group = 0; group < groups_; ++group) {
      const Vector<float> levels = splat(level(floor, group));
      if (where_greater(load(peaks_ + group * kLanes<float>) * factors, levels) == 0) continue;
      for (std::int64_t v = 0; v < kKeyGroup; v += kLanes<float>) {
        const std::int64_t at = group * kKeyGroup + v;
        const Vector<float> score = load(x_ + at) * factors;
        unsigned bits = where_greater(score, levels);
        if (bits == 0) continue;
#if defined(__AVX512F__)
        const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        const __m512i places = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(at)));
        _mm512_storeu_si512(indices_ + count, _mm512_maskz_compress_epi32(static_cast<__mmask16>(bits), places));
        count += compress<float>(scores_ + count, score, bits);
#else
        for (; bits != 0; bits &= bits - 1, ++count) {
          const int lane = __builtin_ctz(bits);
          indices_[count] = static_cast<std::int32_t>(at + lane);
          scores_[count] = score[lane];
        }
#endif
      }
    }
    return count;
  }

  // Keeps the listed keys that may have a score above the floor.
  std::int64_t filter(std::int64_t count, float floor) {
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t index = indices_[i];
      const float score = scores_[i];
      indices_[kept] = index;
      scores_[kept] = score;
      kept += score > level(floor, index / kKeyGroup);
    }
    return kept;
  }

  float *lows_, *bounds_, *list_, *scores_;
  const float *x_ = nullptr, *peaks_ = nullptr;
  float factor_ = 1;
  std::int32_t *indices_, *others_;
  std::int64_t groups_ = 0;
  float top_ = 0;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
