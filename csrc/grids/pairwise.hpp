// Squared distances between all pairs of two lists of points. A row is one point of the first list; the second list is
// transposed, so that a vector holds one coordinate of neighbouring points.
#pragma once

#include "core/problems.hpp"
#include "core/rows.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
void run(const PairwiseSquared<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns, d = problem.n_coordinates;
  for (std::int64_t row = begin; row < end; ++row) {
    const T *x = problem.x + row * d, *y = problem.turned + row / problem.n_points * d * n;
    T* to = problem.distances + row * n;
    each_vector<T>(n, [&](std::int64_t j, std::int64_t lanes) {
      Vector<T> sum{};
      for (std::int64_t k = 0; k < d; ++k) {
        const Vector<T> difference = load_lanes(y + k * n + j, lanes, T(0)) - x[k];
        sum += difference * difference;
      }
      store_lanes<T>(to + j, lanes, sum);
    });
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
