// Hardmax rows: the corner of the simplex with the largest score, the first of them where they tie.
#pragma once

#include <cstring>

#include "core/problems.hpp"
#include "core/rows.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Where the first score equal to `top` is; the caller knows that there is one.
template <class T>
inline std::int64_t first_of(const T* x, std::int64_t n, T top) {
  const Vector<T> below = splat(just_below(top));
  for (std::int64_t i = 0; i < n; i += kLanes<T>) {
    const std::int64_t lanes = n - i < kLanes<T> ? n - i : kLanes<T>;
    // Scores above the number just below the top are at least the top: almost always this is the vector that holds it.
    if (where_greater(load_lanes(x + i, lanes, -kInfinity<T>), below) == 0) continue;
    for (std::int64_t j = i; j < i + lanes; ++j)
      if (x[j] == top) return j;
  }
  return 0;
}

template <class T>
void run(const Hardmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<T>(peaks_size<T>(n)));
  T* peaks = buffer.take<T>(peaks_size<T>(n));
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = problem.scores + row * n;
    T* weights = problem.weights + row * n;
    const Top<T> found = find_top(x, n, peaks);
    if (!found.usual()) {
      fill_unusual(found.bad, weights, problem.value + row, n);
      continue;
    }
    std::memset(weights, 0, n * sizeof(T));
    weights[first_of(x, n, found.score)] = 1;
    problem.value[row] = found.score;
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
