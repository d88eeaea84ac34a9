// The exact weights of a row, given the scores of its candidates.
#pragma once

#include "screening.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
class CandidateSolver {
 public:
  CandidateSolver(Buffer& buffer, std::int64_t keys)
      : scores_(buffer.take<T>(keys + 2 * kLanes<T>)), weights_(buffer.take<T>(keys + 2 * kLanes<T>)),
        row_(buffer.take<T>(keys + 2 * kLanes<T>)), peaks_(buffer.take<T>(peaks_size<T>(keys))),
        work_(buffer.take<T>(candidates_size<T>(keys) + peaks_size<T>(keys))),
        labels_(buffer.take<std::int32_t>(keys)), joined_(buffer.take<bool>(keys)) {}
  static std::int64_t bytes(std::int64_t keys) {
    return 3 * Buffer::size<T>(keys + 2 * kLanes<T>) + Buffer::size<T>(peaks_size<T>(keys)) +
           Buffer::size<T>(candidates_size<T>(keys) + peaks_size<T>(keys)) + Buffer::size<std::int32_t>(keys) +
           Buffer::size<bool>(keys);
  }

  T* scores() const { return scores_; }

  struct Support {
    const std::int32_t* indices;
    const T* weights;
    const std::int32_t* labels;
    std::int64_t count;
    bool bad;  // some score is NaN or +inf
  };

  // The support among the candidates whose scores have been written to `scores()`; `indices` is overwritten.
  // is_removed(key) tells which of the first `limit` keys are out of the row.
  template <class IsRemoved>
  Support solve(std::int32_t* indices, std::int64_t count, std::int64_t kind, double parameter, std::int64_t limit,
                IsRemoved is_removed) {
    T value;
    if (count == 0) return {indices, weights_, labels_, 0, false};
    switch (kind) {
      case kEntmaxAttention:
        entmax_row(scores_, weights_, &value, count, parameter, peaks_, work_);
        break;
      case kTopAttention:
        count = keep_best(indices, count, parameter);
        softmax_row(scores_, weights_, &value, count, peaks_);
        break;
      case kOscarAttention: {
        const Oscarmax<T> problem{scores_, nullptr, parameter, kInfinity<double>, weights_, &value, labels_, count};
        run(problem, 0, 1);
        break;
      }
      default:
        return solve_fused(indices, count, parameter, limit, is_removed);
    }
    if (weights_[0] != weights_[0]) return {indices, weights_, labels_, 0, true};
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      indices[kept] = indices[i];
      labels_[kept] = labels_[i];
      const T weight = weights_[i];
      weights_[kept] = weight;
      kept += weight > 0;
    }
    return {indices, weights_, labels_, kept, false};
  }

 private:
  // The k largest scores, in order of their keys; of equal ones the first.
  std::int64_t keep_best(std::int32_t* indices, std::int64_t count, double k) {
    if (static_cast<double>(count) <= k || has_bad(scores_, count)) return count;
    for (std::int64_t i = 0; i < count; ++i) row_[i] = scores_[i];
    const std::int64_t wanted = static_cast<std::int64_t>(k);
    const T least = kth_largest(row_, count, wanted);
    std::int64_t equal = wanted, kept = 0;
    for (std::int64_t i = 0; i < count; ++i) equal -= scores_[i] > least;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool keep = scores_[i] > least || (scores_[i] == least && equal-- > 0);
      indices[kept] = indices[i];
      scores_[kept] = scores_[i];
      kept += keep;
    }
    return kept;
  }

  // Fusedmax looks at neighbours, so the whole row is needed: what is no candidate lies below max - 1 - 4 strength, and
  // clamped to that level it has no weight either and changes none.
  template <class IsRemoved>
  Support solve_fused(std::int32_t* indices, std::int64_t count, double strength, std::int64_t limit,
                      IsRemoved is_removed) {
    T top = -kInfinity<T>;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!(scores_[i] < kInfinity<T>)) return {indices, weights_, labels_, 0, true};
      top = larger(scores_[i], top);
    }
    if (top == -kInfinity<T>) return {indices, weights_, labels_, 0, false};
    const T level = static_cast<T>(top - 1 - 4 * strength);
    for (std::int64_t j = 0; j < limit; ++j) row_[j] = is_removed(j) ? -kInfinity<T> : level;
    for (std::int64_t i = 0; i < count; ++i) row_[indices[i]] = scores_[i];
    T value;
    run(Fusedmax<T>{row_, nullptr, strength, weights_, &value, joined_, limit}, 0, 1);
    std::int64_t kept = 0;
    for (std::int64_t j = 0; j < limit; ++j) {  // kept <= j: in place
      const T weight = weights_[j];
      if (!(weight > 0)) continue;
      indices[kept] = static_cast<std::int32_t>(j);
      labels_[kept] = kept == 0 ? 0 : labels_[kept - 1] + !joined_[j];
      weights_[kept++] = weight;
    }
    return {indices, weights_, labels_, kept, false};
  }

  T *scores_, *weights_, *row_, *peaks_, *work_;
  std::int32_t* labels_;
  bool* joined_;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
