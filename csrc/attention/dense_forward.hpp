// Blocks of queries of which most keys can have weight, in the forward pass: all scores are computed in full.
#pragma once

#include "attention/forward.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Rows first .. first + rows from the scores of all keys. Returns whether the support was too large to be kept.
template <class T>
bool ForwardTasks<T>::answer_densely(std::int64_t first, std::int64_t rows) {
  dense_.find_scores(p_, head_, first, rows);
  if (p_.op.kind == kTopAttention) {
    for (std::int64_t r = 0; r < rows; ++r) choose_best(r);
    return false;
  }
  dense_.solve(p_);
  const std::int64_t columns = dense_.columns();
  std::int64_t support = 0, allowed = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* weights = dense_.weights(r);
    std::int32_t count = 0;
#pragma omp simd reduction(+ : count)
    for (std::int64_t j = 0; j < columns; ++j) count += weights[j] > 0;
    support += count;
    allowed += dense_.limit(r);
  }
  const bool too_much = block_ != nullptr && support > p_.budget * rows;
  if (p_.may_refuse == 0 || (2 * support <= allowed && !too_much) || !all_finite()) {
    for (std::int64_t r = 0; r < rows; ++r) write_listed(r);
    return false;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const DropoutFactors factors(p_.dropout, dense_.row() + r, shape_.keys);
    if (factors.some()) factors.apply(dense_.weights(r), columns);
  }
  dense_.multiply_rows(dense_.weights(0), values(), shape_.value_size, p_.output + dense_.row() * shape_.value_size);
  return true;
}

// Whether the keys and values of the head are: zero times what is not finite is no zero.
template <class T>
bool ForwardTasks<T>::all_finite() {
  if (any_wild_) return false;
  if (checked_ != kv_head_) {
    values_finite_ = true;
    for (std::int64_t i = 0; i < shape_.keys * shape_.value_size && values_finite_; i += kBlockSize<T>) {
      const std::int64_t left = shape_.keys * shape_.value_size - i;
      for (std::int64_t j = i; j < i + (left < kBlockSize<T> ? left : kBlockSize<T>); ++j)
        values_finite_ &= values()[j] - values()[j] == 0;
    }
  }
  checked_ = kv_head_;
  return values_finite_;
}

// Lists the weights of a row that are not zero, and averages the values.
template <class T>
void ForwardTasks<T>::write_listed(std::int64_t r) {
  const T* weights = dense_.weights(r);
  std::int32_t* indices = screening_.indices();
  T* listed = dense_.work();
  std::int64_t count = gather_support(weights, dense_.columns(), indices);
  const bool bad = count > 0 && weights[indices[0]] != weights[indices[0]];
  std::int32_t label = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t key = indices[i];
    listed[i] = weights[key];
    if (p_.op.kind == kOscarAttention) listed_labels_[i] = dense_.labels(r)[key];
    if (p_.op.kind == kFusedAttention) listed_labels_[i] = label += i == 0 || !dense_.joined(r)[key];
  }
  typename CandidateSolver<T>::Support support{indices, listed, listed_labels_, count, bad};
  write(dense_.row() + r, r, support, bad ? indices[0] : 0);
}

// Softmax on the best scores of a row.
template <class T>
void ForwardTasks<T>::choose_best(std::int64_t r) {
  const T* x = dense_.scores(r);
  std::int32_t* indices = screening_.indices();
  const std::int64_t n = dense_.limit(r);
  const T least = has_bad(x, n) ? -kInfinity<T> : nearly_kth_largest(x, n, p_.op.parameter, p_.op.parameter / 8 + 1);
  std::int64_t count = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    indices[count] = static_cast<std::int32_t>(j);
    solver_.scores()[count] = x[j];
    count += !(x[j] < least) && x[j] != -kInfinity<T>;
  }
  const std::int32_t first_candidate = count > 0 ? indices[0] : 0;
  auto support = solver_.solve(indices, count, p_.op.kind, p_.op.parameter, n, [](std::int64_t) { return false; });
  write(dense_.row() + r, r, support, first_candidate);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
