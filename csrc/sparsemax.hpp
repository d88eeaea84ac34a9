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
void run(const SparsemaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  centred_rows(problem, begin, end, UnitSlope());
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
