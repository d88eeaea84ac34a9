// Sparsemax rows (first version: simple and correct).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
void run(const Sparsemax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  const T infinity = std::numeric_limits<T>::infinity();
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = problem.scores + row * n;
    T* p = problem.weights + row * n;
    T top = -infinity;
    bool bad = false;
    for (std::int64_t i = 0; i < n; ++i) {
      bad |= !(x[i] < infinity);
      top = x[i] > top ? x[i] : top;
    }
    if (bad || top == -infinity) {
      const T fill = bad ? std::numeric_limits<T>::quiet_NaN() : T(0);
      for (std::int64_t i = 0; i < n; ++i) p[i] = fill;
      problem.value[row] = bad ? fill : -infinity;
      continue;
    }
    T threshold = -1;
    for (std::int64_t before = -1;;) {
      std::int64_t size = 0;
      T sum = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const bool in = x[i] - top > threshold;
        size += in;
        sum += in ? x[i] - top : 0;
      }
      threshold = (sum - 1) / T(size);
      if (size == before) break;
      before = size;
    }
    T value = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const T shifted = x[i] - top;
      p[i] = shifted > threshold ? shifted - threshold : 0;
      value += p[i] > 0 ? p[i] * (shifted - p[i] / 2) : 0;
    }
    problem.value[row] = top + value + T(0.5);
  }
}

template <class T>
void run(const SparsemaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  for (std::int64_t row = begin; row < end; ++row) {
    const T* p = problem.weights + row * n;
    const T* v = problem.direction + row * n;
    T* out = problem.product + row * n;
    T sum = 0, size = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const bool in = p[i] != 0;  // NaN counts as support, so that a NaN row stays NaN
      size += in;
      sum += in ? v[i] + 0 * p[i] : 0;
    }
    const T mean = size > 0 ? sum / size : 0;
    for (std::int64_t i = 0; i < n; ++i) out[i] = p[i] != 0 ? v[i] - mean : 0;
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
