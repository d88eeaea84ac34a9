// The proximal operator of the ordered weighted l1 (OWL) norm (Zeng & Figueiredo, 2014).
#pragma once

#include <cstdint>
#include <cstring>

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "rows/checks.hpp"
#include "rows/isotonic.hpp"
#include "rows/ordering.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Sort |x| downwards, subtract the weights, make it non-increasing, clip at zero, give signs and order back.
template <class T>
void run(const ProxOwl<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(2 * Buffer::size<double>(n) + Buffer::size<bool>(n) + Ordering<T>::bytes(n) + Pooling::bytes(n));
  double* z = buffer.take<double>(n);
  double* y = buffer.take<double>(n);
  bool* joined = buffer.take<bool>(n);
  Ordering<T> order(buffer, n);
  Pooling pooling(buffer, n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = problem.rows + row * n;
    const T* w = problem.owl_weights + row * problem.owl_stride;
    T* out = problem.solution + row * n;
    std::int32_t* labels = problem.labels + row * n;
    if (!all_finite(x, n) || !all_finite(w, n)) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(__builtin_nan(""));
      std::memset(labels, 0xff, n * sizeof(std::int32_t));
      continue;
    }
    for (std::int64_t i = 0; i < n; ++i) order.set(i, Ordering<T>::descending(x[i]));
    order.sort(n);
    for (std::int64_t k = 0; k < n; ++k) {
      const T entry = x[order[k]];
      z[k] = static_cast<double>(entry < 0 ? -entry : entry) - static_cast<double>(w[k]);
    }
    pooling.non_increasing(z, n, y, joined);
    std::int32_t label = -1;
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t i = order[k];
      label += !joined[k];
      const T size = static_cast<T>(y[k]);
      const bool zero = !(size > 0);
      out[i] = zero ? T(0) : x[i] < 0 ? -size : size;
      labels[i] = zero ? -1 : label;
    }
  }
}

// sign(y_i) times the mean of sign(y_j) v_j over the cluster of i; zero where y is.
template <class T>
void run(const OwlProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  struct Cluster {
    double sum, size;
  };
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<Cluster>(n));
  Cluster* clusters = buffer.take<Cluster>(n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* y = problem.solution + row * n;
    const std::int32_t* labels = problem.labels + row * n;
    const T* v = problem.direction + row * n;
    T* out = problem.product + row * n;
    bool nan = false;
    for (std::int64_t i = 0; i < n; ++i) {
      nan |= y[i] != y[i];
      if (labels[i] >= 0) clusters[labels[i]] = {0, 0};
    }
    if (nan) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(__builtin_nan(""));
      continue;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      if (labels[i] < 0) continue;
      clusters[labels[i]].sum += y[i] < 0 ? -v[i] : v[i];
      clusters[labels[i]].size += 1;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      if (labels[i] < 0) {
        out[i] = 0;
        continue;
      }
      const double mean = clusters[labels[i]].sum / clusters[labels[i]].size;
      out[i] = static_cast<T>(y[i] < 0 ? -mean : mean);
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
