// Oscarmax rows: sort, isotonic regression, projection onto the simplex, all on the few candidates only.
#pragma once

#include <cstdint>
#include <cstring>

#include "buffer.hpp"
#include "candidates.hpp"
#include "isotonic.hpp"
#include "ordering.hpp"
#include "problems.hpp"
#include "strength.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// How low a score x (relative to the largest) can be and still receive weight, among n of which only these matter.
//
// Sort the scores downwards. If m of them are supported, take the last as reference, z_i = x_i - strength (m - i): the
// threshold of the projection is at least (sum_{i <= k} z_i - 1)/k for every k <= m. For the k that sparsemax supports
// that is T - strength (m - (k + 1)/2) with T = (sum_{i <= k} x_i - 1)/k, and the last supported score, z_m = x_m,
// lies above it. So does every supported score, and with fewer scores in question the bound rises: repeat until that
// no longer helps. (k <= m: spreading weight lowers the penalty, so sparsemax supports fewer.)
inline double lowest_useful(double* x, std::int64_t n, double strength) {
  const SimplexThreshold sparse = project_simplex(x, n);
  const double tau = sparse.high + sparse.low;
  const double k = static_cast<double>(sparse.size);
  for (double m = static_cast<double>(n);;) {
    const double level = tau - strength * (m - (k + 1) / 2);
    double above = 0;
#pragma omp simd reduction(+ : above)
    for (std::int64_t i = 0; i < n; ++i) above += x[i] > level ? 1.0 : 0.0;
    if (above > 0.75 * m) return level;
    m = above;
  }
}

// The same bound from k = 1, T = -1, in passes over the row: a window that holds every supported score.
template <class T>
inline double useful_window(const T* x, std::int64_t n, T top, double kept, double strength) {
  for (double m = kept;;) {
    const double window = 1 + strength * (m - 1);
    if (window <= 1.25) return window;
    const T level = static_cast<T>(-window);
    std::int32_t above = 0;
#pragma omp simd reduction(+ : above)
    for (std::int64_t i = 0; i < n; ++i) above += x[i] - top > level;
    if (above > 0.75 * m) return window;
    m = above;
  }
}

// The projection onto the simplex of y that does not increase: the support is as long as its last entry lies above the
// threshold that it implies. A second pass takes up what rounding has left.
inline SimplexThreshold project_descending(const double* y, std::int64_t n) {
  double sum = -1;
  std::int64_t size = 0;
  for (; size < n && static_cast<double>(size) * y[size] > sum; ++size) sum += y[size];
  const double tau = sum / static_cast<double>(size);
  Wide sums = {};  // eight at a time, so that the sum of many is itself exact enough
  std::int64_t i = 0;
  for (; i + kPad <= size; i += kPad) sums += *reinterpret_cast<const Wide*>(y + i) - tau;
  double rest = sum_of(sums) - 1;
  for (; i < size; ++i) rest += y[i] - tau;
  return {tau, rest / static_cast<double>(size), size};
}

constexpr std::int64_t kFew = 24;  // candidates that are sorted in no more time than it takes to find a better bound

// x_i + strength i differs from z_i above by a constant, which the projection does not see and the value takes back.
// As for fusedmax, the value needs no penalty: strength sum max(p_i, p_j) = <x - y, p>.
template <class T>
void run(const Oscarmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<T>(n + kSlack) + Buffer::size<std::int32_t>(n + kSlack) +
                2 * Buffer::size<double>(n + kPad) + Buffer::size<bool>(n) + Ordering<T>::bytes(n) + Pooling::bytes(n));
  T* found = buffer.take<T>(n + kSlack);
  std::int32_t* position = buffer.take<std::int32_t>(n + kSlack);
  double* z = buffer.take<double>(n + kPad);
  double* y = buffer.take<double>(n + kPad);
  bool* joined = buffer.take<bool>(n);
  Ordering<T> order(buffer, n);
  Pooling pooling(buffer, n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = problem.scores + row * n;
    T* weights = problem.weights + row * n;
    std::int32_t* labels = problem.labels ? problem.labels + row * n : nullptr;
    const double strength = problem.strengths ? problem.strengths[row] : problem.strength;
    const Extent<T> whole = extent(x, n);
    if (labels) std::memset(labels, 0xff, n * sizeof(std::int32_t));
    if (fill_degenerate(whole, !valid_strength(strength), weights, problem.value + row, n)) continue;
    std::int64_t kept = n;
    if (whole.removed) {  // the derivative by strength must know how many positions there were
      const T infinity = static_cast<T>(__builtin_inf());
      kept = count_kept(x, n);
      for (std::int64_t i = 0; labels && i < n; ++i) labels[i] = x[i] == -infinity ? -2 : -1;
    }

    const double window = useful_window(x, n, whole.top, static_cast<double>(kept), strength);
    std::int64_t m = gather_above(x, n, whole.top, static_cast<T>(-window), found, position);
    if (strength > 0 && m > kFew) {
      for (std::int64_t i = 0; i < m; ++i) z[i] = found[i];
      const double level = lowest_useful(z, m, strength);
      std::int64_t size = 0;
      for (std::int64_t i = 0; i < m; ++i) {
        found[size] = found[i];
        position[size] = position[i];
        size += found[i] > level;
      }
      m = size;
    }

    for (std::int64_t i = 0; i < m; ++i) order.set(i, Ordering<T>::ascending(found[i]));  // distances below the largest
    order.sort(m);
    for (std::int64_t i = 0; i < m; ++i) z[i] = found[order[i]] + strength * static_cast<double>(i);
    pooling.non_increasing(z, m, y, joined);
    const SimplexThreshold threshold = project_descending(y, m);

    double value = 0.5 - strength * static_cast<double>(kept - 1);
    if (m < n) std::memset(weights, 0, n * sizeof(T));
    std::int32_t label = -1;
    for (std::int64_t i = 0; i < m; ++i) {
      const double p = threshold(y[i]);
      if (!(p > 0)) {  // y does not increase, so nothing more is supported
        if (m == n) for (; i < m; ++i) weights[position[order[i]]] = 0;
        break;
      }
      value += p * (y[i] - p / 2);
      weights[position[order[i]]] = static_cast<T>(p);
      if (!labels) continue;
      // Equal scores are one cluster even where strength is too small to show in z.
      const bool same = i > 0 && (joined[i] || (strength > 0 && found[order[i]] == found[order[i - 1]]));
      label += !same;
      labels[position[order[i]]] = label;
    }
    problem.value[row] = static_cast<T>(whole.top + value);
  }
}

// On the support: the mean of the direction over each cluster, minus its mean over the support.
template <class T>
void run(const OscarmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  struct Cluster { double sum, size; };
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<std::int32_t>(n + kSlack) + Buffer::size<Cluster>(n));
  std::int32_t* support = buffer.take<std::int32_t>(n + kSlack);
  Cluster* clusters = buffer.take<Cluster>(n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* p = problem.weights + row * n;
    const std::int32_t* labels = problem.labels + row * n;
    const T* v = problem.direction + row * n;
    T* out = problem.product + row * n;
    const std::int64_t size = gather_support(p, n, support);
    bool nan = false;
    for (std::int64_t k = 0; k < size; ++k) nan |= p[support[k]] != p[support[k]];
    std::memset(out, 0, n * sizeof(T));
    if (nan) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(__builtin_nan(""));
      continue;
    }
    for (std::int64_t k = 0; k < size; ++k) clusters[labels[support[k]]] = {0, 0};
    double total = 0;
    for (std::int64_t k = 0; k < size; ++k) {
      const std::int32_t i = support[k];
      clusters[labels[i]].sum += v[i];
      clusters[labels[i]].size += 1;
      total += v[i];
    }
    const double mean = size > 0 ? total / static_cast<double>(size) : 0;
    for (std::int64_t k = 0; k < size; ++k) {
      const std::int32_t i = support[k];
      out[i] = static_cast<T>(clusters[labels[i]].sum / clusters[labels[i]].size - mean);
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
