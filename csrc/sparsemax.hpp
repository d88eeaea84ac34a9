// Sparsemax rows: the threshold problem of order one, and its Jacobian.
#pragma once

#include "centred.hpp"
#include "panel.hpp"
#include "problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
void run(const Sparsemax<T>& problem, std::int64_t begin, std::int64_t end) {
  threshold_rows<Linear>(problem.scores, problem.weights, problem.value, problem.columns, begin, end);
}

// Centres the direction on the support: a slope of one.
template <class T>
inline void sparsemax_product_row(const T* p, const T* v, T* out, std::int64_t n, Support<T>& support) {
  centred_row(p, v, out, n, support, UnitSlope());
}

template <class T>
void run(const SparsemaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Support<T> support(n);
  for (std::int64_t row = begin; row < end; ++row)
    sparsemax_product_row(problem.weights + row * n, problem.direction + row * n, problem.product + row * n, n, support);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
