// Fusedmax rows: total variation denoising, then projection onto the simplex, both on the few candidates only.
#pragma once

#include <cstdint>
#include <cstring>

#include "buffer.hpp"
#include "candidates.hpp"
#include "problems.hpp"
#include "tv1d.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Whether any of x[from..to) is not removed (-inf).
template <class T>
inline bool any_kept(const T* x, std::int64_t from, std::int64_t to) {
  const T infinity = static_cast<T>(__builtin_inf());
  for (; from < to; ++from)
    if (x[from] != -infinity) return true;
  return false;
}

// Why candidates suffice. The level sets {y > t} of the denoised row solve max_S sum_S (x_i - t) - strength Perimeter(S). An entry with
// x_i <= t - 2 strength is in no such set: taking it out gains 2 strength and costs at most as much. The threshold of the
// projection is at least max x - 1 - 2 strength (take S = {argmax}), so nothing at or below max x - 1 - 4 strength matters except that it is low:
// the other entries fall into runs, and a run with a low neighbour is pulled down by strength at that end.
//
// x - y is a subgradient of the penalty at p = (y - tau)_+, and the penalty is homogeneous, so strength TV(p) = <x - y, p>:
// the value needs no total variation.
template <class T>
void run(const Fusedmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<T>(n + kSlack) + Buffer::size<std::int32_t>(n + kSlack) + 2 * Buffer::size<double>(n) +
                Buffer::size<bool>(n) + TotalVariation::bytes(n));
  T* found = buffer.take<T>(n + kSlack);
  std::int32_t* position = buffer.take<std::int32_t>(n + kSlack);
  double* z = buffer.take<double>(n);
  double* y = buffer.take<double>(n);
  bool* together = buffer.take<bool>(n);
  TotalVariation solver(buffer, n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = problem.scores + row * n;
    T* weights = problem.weights + row * n;
    bool* joined = problem.joined + row * n;
    const double strength = problem.strengths ? problem.strengths[row] : problem.strength;
    const Extent<T> whole = extent(x, n);
    std::memset(joined, 0, n);
    if (fill_degenerate(whole, !valid_strength(strength), weights, problem.value + row, n)) continue;
    const std::int64_t m = gather_above(x, n, whole.top, static_cast<T>(-1 - 4 * strength), found, position);

    for (std::int64_t first = 0; first < m;) {
      std::int64_t last = first;
      z[first] = found[first];
      while (last + 1 < m && (position[last + 1] == position[last] + 1 ||
                              (whole.removed && !any_kept(x, position[last] + 1, position[last + 1])))) {
        ++last;
        z[last] = found[last];
      }
      const bool low_before = first > 0 || (whole.removed ? any_kept(x, 0, position[first]) : position[first] > 0);
      const bool low_after = last + 1 < m || (whole.removed ? any_kept(x, position[last] + 1, n) : position[last] + 1 < n);
      z[first] -= low_before ? strength : 0;
      z[last] -= low_after ? strength : 0;
      solver.solve(z + first, last + 1 - first, strength, y + first, together + first);
      first = last + 1;
    }

    const SimplexThreshold threshold = project_simplex(y, m);
    double value = 0.5;
    if (m < n) std::memset(weights, 0, n * sizeof(T));
    for (std::int64_t k = 0; k < m; ++k) {
      const double p = threshold(y[k]);
      value += p * (y[k] - p / 2);
      weights[position[k]] = static_cast<T>(p);
      joined[position[k]] = together[k] && p > 0;
    }
    problem.value[row] = static_cast<T>(whole.top + value);
  }
}

// On the support: the mean of the direction over each segment, minus its mean over the support.
template <class T>
void run(const FusedmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  constexpr std::int64_t kBlock = 32;
  Buffer buffer(Buffer::size<std::int32_t>(n));
  std::int32_t* support = buffer.take<std::int32_t>(n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* p = problem.weights + row * n;
    const bool* joined = problem.joined + row * n;
    const T* v = problem.direction + row * n;
    T* out = problem.product + row * n;
    std::int64_t size = 0;
    double total = 0;
    for (std::int64_t i = 0; i < n; i += kBlock) {
      const std::int64_t stop = i + kBlock < n ? i + kBlock : n;
      int hits = 0;
#pragma omp simd reduction(| : hits)
      for (std::int64_t j = i; j < stop; ++j) {
        hits |= p[j] != 0;  // NaN counts as support, so that a NaN row stays NaN
        out[j] = 0;
      }
      if (hits == 0) continue;
      for (std::int64_t j = i; j < stop; ++j) {
        const bool in = p[j] != 0;
        support[size] = static_cast<std::int32_t>(j);
        size += in;
        total += in ? v[j] + 0 * p[j] : 0;
      }
    }
    const double mean = size > 0 ? total / static_cast<double>(size) : 0;
    for (std::int64_t start = 0; start < size;) {
      double sum = v[support[start]];
      std::int64_t stop = start + 1;
      for (; stop < size && joined[support[stop]]; ++stop) sum += v[support[stop]];
      const T centred = static_cast<T>(sum / static_cast<double>(stop - start) - mean);
      for (; start < stop; ++start) out[support[start]] = centred;
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
