// Sparsemax rows: the threshold problem of order one, and its Jacobian.
#pragma once

#include "problems.hpp"
#include "lockstep.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
void run(const Sparsemax<T>& problem, std::int64_t begin, std::int64_t end) {
  threshold_rows<Linear>(problem.scores, problem.weights, problem.value, problem.columns, begin, end);
}

// Centres the direction on the support. NaN counts as support, so that a NaN row stays NaN.
template <class T>
inline void sparsemax_product_row(const T* p, const T* v, T* out, std::int64_t n) {
  const Vector<T> zero{};
  const bool skip = n >= 256;  // long rows: do not read the direction where there is no weight
  LongSum<T> sums;
  std::int64_t size = 0;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>) {
    Vector<T> sum{};
    each_vector<T>(n - i < kBlockSize<T> ? n - i : kBlockSize<T>, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> weights = load_lanes(p + i + at, lanes, T(0));
      const auto positive = where_greater(weights, zero);
      if (skip && positive == 0) return;
      sum += weights > zero ? load_lanes(v + i + at, lanes, T(0)) : zero;
      size += __builtin_popcount(positive);
    });
    sums.add(sum);
  }
  const bool nan_row = p[0] != p[0];  // a NaN row is NaN throughout
  const T mean = size > 0 ? static_cast<T>(sums.total() / static_cast<double>(size)) : T(0);
  each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) {
    const Vector<T> weights = load_lanes(p + i, lanes, T(0));
    if (skip && where_greater(weights, zero) == 0 && !nan_row)
      return store_lanes<T>(out + i, lanes, zero);
    // 0 * weights hands on a NaN
    const Vector<T> centred = (load_lanes(v + i, lanes, T(0)) - mean) + T(0) * weights;
    store_lanes<T>(out + i, lanes, weights != zero ? centred : zero);
  });
}

template <class T>
void run(const SparsemaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  for (std::int64_t row = begin; row < end; ++row)
    sparsemax_product_row(problem.weights + row * n, problem.direction + row * n, problem.product + row * n, n);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
