// The exact weights of a row, given the scores of its candidates.
#pragma once

#include "attention/screening.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
class CandidateSolver {
 public:
  CandidateSolver(Buffer& buffer, std::int64_t keys)
      : scores_(buffer.take<T>(keys + 2 * kLanes<T>)), weights_(buffer.take<T>(keys + 2 * kLanes<T>)),
        row_(buffer.take<T>(2 * keys + 2 * kLanes<T>)), peaks_(buffer.take<T>(peaks_size<T>(keys))),
        work_(buffer.take<T>(2 * candidates_size<T>(keys) + peaks_size<T>(keys))),
        labels_(buffer.take<std::int32_t>(keys)), joined_(buffer.take<bool>(2 * keys + 2)) {}
  static std::int64_t bytes(std::int64_t keys) {
    return 2 * Buffer::size<T>(keys + 2 * kLanes<T>) + Buffer::size<T>(2 * keys + 2 * kLanes<T>) +
           Buffer::size<T>(peaks_size<T>(keys)) + Buffer::size<T>(2 * candidates_size<T>(keys) + peaks_size<T>(keys)) +
           Buffer::size<std::int32_t>(keys) + Buffer::size<bool>(2 * keys + 2);
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
      case kEntmaxAttention: entmax_row(scores_, parameter, weights_, &value, count, peaks_, work_); break;
      case kTopAttention:
        count = keep_best(indices, count, parameter);
        softmax_row(scores_, weights_, &value, count, peaks_);
        break;
      case kOscarAttention: {
        const Oscarmax<T> problem{scores_, nullptr, parameter, kInfinity<double>, weights_, &value, labels_, count};
        run(problem, 0, 1);
        break;
      }
      default: return solve_fused(indices, count, parameter, limit, is_removed);
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

  // Fusedmax looks at neighbours. What is no candidate lies below L = max - 1 - 4 strength. The set of positions whose
  // denoised score exceeds t, for any t at or above the threshold of the projection, which is at least L + 2 strength,
  // minimises the sum of t - x over the set plus strength for each of its ends; a run of scores at or below L costs at
  // least 2 strength, which is all that it can save, so it is never inside, however long it is. So one score of at
  // most L stands for each run of keys that are no candidates, and the row is as short as the list.
  template <class IsRemoved>
  Support solve_fused(std::int32_t* indices, std::int64_t count, double strength, std::int64_t limit,
                      IsRemoved is_removed) {
    T top = -kInfinity<T>;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!(scores_[i] < kInfinity<T>)) return {indices, weights_, labels_, 0, true};
      top = larger(scores_[i], top);
    }
    if (top == -kInfinity<T>) return {indices, weights_, labels_, 0, false};
    const T level =
        static_cast<T>(top - 2 * (1 + 4 * strength)) - larger(top, -top) / 1024;  // below L in spite of rounding
    std::int64_t columns = 0, next = 0;
    const auto skip_to = [&](std::int64_t key) {
      while (next < key && is_removed(next)) ++next;
      if (next < key) row_[columns++] = level;
      next = key + 1;
    };
    for (std::int64_t i = 0; i < count; ++i) {
      skip_to(indices[i]);
      labels_[i] = static_cast<std::int32_t>(columns);  // where the candidate is, for now
      row_[columns++] = scores_[i];
    }
    skip_to(limit);
    T value;
    run(Fusedmax<T>{row_, nullptr, strength, work_, &value, joined_, columns}, 0, 1);
    std::int64_t kept = 0;
    std::int32_t label = -1;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t column = labels_[i];
      if (!(work_[column] > 0)) continue;
      label += kept == 0 || !joined_[column];
      indices[kept] = indices[i];
      labels_[kept] = label;
      weights_[kept++] = work_[column];
    }
    return {indices, weights_, labels_, kept, false};
  }

  T *scores_, *weights_, *row_, *peaks_, *work_;
  std::int32_t* labels_;
  bool* joined_;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
