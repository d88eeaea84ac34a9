// The exact weights of a row, given the scores of its candidates.
#pragma once

#include "attention/structured_screening.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
class CandidateSolver {
 public:
  CandidateSolver(Buffer& buffer, std::int64_t keys)
      : scores_(buffer.take<T>(keys + 2 * kLanes<T>)), weights_(buffer.take<T>(keys + 2 * kLanes<T>)),
        row_(buffer.take<T>(keys)), peaks_(buffer.take<T>(peaks_size<T>(keys))),
        work_(buffer.take<T>(2 * candidates_size<T>(keys) + peaks_size<T>(keys))),
        labels_(buffer.take<std::int32_t>(keys)), joined_(buffer.take<bool>(keys)),
        pulled_(buffer.take<double>(keys)), denoised_(buffer.take<double>(keys + kPad)),
        tasks_(buffer.take<TotalVariation::Task>(keys / 3 + 1)), variation_(buffer, keys) {}
  static std::int64_t bytes(std::int64_t keys) {
    return 2 * Buffer::size<T>(keys + 2 * kLanes<T>) + Buffer::size<T>(keys) +
           Buffer::size<T>(peaks_size<T>(keys)) + Buffer::size<T>(2 * candidates_size<T>(keys) + peaks_size<T>(keys)) +
           Buffer::size<std::int32_t>(keys) + Buffer::size<bool>(keys) + Buffer::size<double>(keys) +
           Buffer::size<double>(keys + kPad) + Buffer::size<TotalVariation::Task>(keys / 3 + 1) +
           TotalVariation::bytes(keys);
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
    const std::int64_t wanted = static_cast<std::int64_t>(k);
    T least = nearly_kth_largest(scores_, count, k, 0);
    std::int64_t above = count_larger(count, least);
    if (above > wanted) {
      std::int64_t n = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        row_[n] = scores_[i];
        n += scores_[i] > least;
      }
      least = kth_largest(row_, n, wanted);
      above = count_larger(count, least);
    }
    return keep_from(indices, count, least, wanted - above);
  }

  std::int64_t count_larger(std::int64_t count, T least) const {
    std::int32_t larger_ones = 0;
#pragma omp simd reduction(+ : larger_ones)
    for (std::int64_t i = 0; i < count; ++i) larger_ones += scores_[i] > least;
    return larger_ones;
  }

  // Keeps the scores above the least, and the first `equal` that are equal to it.
  std::int64_t keep_from(std::int32_t* indices, std::int64_t count, T least, std::int64_t equal) {
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const T score = scores_[i];
      const bool edge = score == least;
      const bool keep = score > least || (edge && equal > 0);
      equal -= edge;
      indices[kept] = indices[i];
      scores_[kept] = score;
      kept += keep;
    }
    return kept;
  }

  // Fusedmax looks at neighbours. What is no candidate is in none of the sets of positions whose denoised score exceeds
  // t, for any t from the threshold of the projection on (see `list_fused` in structured_screening.hpp). So candidates
  // fall into runs; where a run ends inside the row, its end has a neighbour outside of all sets, which costs `strength`
  // whenever the end is inside of one: as if its score were less by that. Each run is denoised on its own.
  template <class IsRemoved>
  Support solve_fused(std::int32_t* indices, std::int64_t count, double strength, std::int64_t limit,
                      IsRemoved is_removed) {
    T top = -kInfinity<T>;
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!(scores_[i] < kInfinity<T>)) return {indices, weights_, labels_, 0, true};
      top = larger(scores_[i], top);
      indices[n] = indices[i];
      scores_[n] = scores_[i];
      n += scores_[i] > -kInfinity<T>;
    }
    if (n == 0 || !valid_strength(strength)) return {indices, weights_, labels_, 0, n > 0};
    const auto follows = [&](std::int64_t before, std::int64_t key) {  // whether nothing lies between
      for (++before; before < key && is_removed(before);) ++before;
      return before == key;
    };
    for (std::int64_t i = 0; i < n; ++i) pulled_[i] = static_cast<double>(scores_[i]) - static_cast<double>(top);
    std::int64_t n_tasks = 0;
    for (std::int64_t first = 0, last; first < n; first = last + 1) {
      for (last = first; last + 1 < n && follows(indices[last], indices[last + 1]);) ++last;
      if (first > 0 || !follows(-1, indices[first])) pulled_[first] -= strength;
      if (last + 1 < n || !follows(indices[last], limit)) pulled_[last] -= strength;
      const TotalVariation::Task task{pulled_ + first, last + 1 - first, strength, denoised_ + first, joined_ + first};
      if (!TotalVariation::solve_at_once(task)) tasks_[n_tasks++] = task;
    }
    variation_.solve(tasks_, n_tasks);
    double highest = denoised_[0];  // a great strength pulls all down to where a double has few digits left
    for (std::int64_t i = 1; i < n; ++i) highest = larger(denoised_[i], highest);
    for (std::int64_t i = 0; i < n; ++i) denoised_[i] -= highest;
    const SimplexThreshold threshold = project_simplex(denoised_, n);
    std::int64_t kept = 0;
    std::int32_t label = -1;
    for (std::int64_t i = 0; i < n; ++i) {
      const T weight = static_cast<T>(threshold(denoised_[i]));
      if (!(weight > 0)) continue;
      label += kept == 0 || !joined_[i];
      indices[kept] = indices[i];
      labels_[kept] = label;
      weights_[kept++] = weight;
    }
    return {indices, weights_, labels_, kept, false};
  }

  T *scores_, *weights_, *row_, *peaks_, *work_;
  std::int32_t* labels_;
  bool* joined_;
  double *pulled_, *denoised_;
  TotalVariation::Task* tasks_;
  TotalVariation variation_;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
