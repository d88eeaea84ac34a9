// Softmax rows and their Jacobian.
#pragma once

#include "core/problems.hpp"
#include "core/rows.hpp"
#include "core/vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
inline void scale_row(T* weights, std::int64_t n, T factor) {
  each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) {
    store_lanes(weights + i, lanes, load_lanes(weights + i, lanes, T(0)) * factor);
  });
}

template <class T>
inline void softmax_row(const T* x, T* weights, T* value, std::int64_t n, T* peaks) {
  const Top<T> top = find_top(x, n, peaks);
  if (!top.usual()) return fill_unusual(top.bad, weights, value, n);
  LongSum<T> sums;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>) {
    Vector<T> sum{};
    each_vector<T>(n - i < kBlockSize<T> ? n - i : kBlockSize<T>, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> e = exp_of<Vector<T>>(load_lanes(x + i + at, lanes, -kInfinity<T>) - top.score);
      sum += e;
      store_lanes(weights + i + at, lanes, e);
    });
    sums.add(sum);
  }
  const double sum = sums.total();
  scale_row(weights, n, static_cast<T>(1 / sum));
  *value = top.score + static_cast<T>(log_normal<double>(sum));
}

template <class T>
void run(const Softmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<T>(peaks_size<T>(n)));
  T* peaks = buffer.take<T>(peaks_size<T>(n));
  for (std::int64_t row = begin; row < end; ++row)
    softmax_row(problem.scores + row * n, problem.weights + row * n, problem.value + row, n, peaks);
}

// p (v - <p, v>)
template <class T>
inline void softmax_product_row(const T* p, const T* v, T* out, std::int64_t n) {
  LongSum<T> sums;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>) {
    Vector<T> sum{};
    each_vector<T>(n - i < kBlockSize<T> ? n - i : kBlockSize<T>, [&](std::int64_t at, std::int64_t lanes) {
      sum += load_lanes(p + i + at, lanes, T(0)) * load_lanes(v + i + at, lanes, T(0));
    });
    sums.add(sum);
  }
  const T mean = static_cast<T>(sums.total());
  each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) {
    store_lanes(out + i, lanes, load_lanes(p + i, lanes, T(0)) * (load_lanes(v + i, lanes, T(0)) - mean));
  });
}

template <class T>
void run(const SoftmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  for (std::int64_t row = begin; row < end; ++row)
    softmax_product_row(problem.weights + row * n, problem.direction + row * n, problem.product + row * n, n);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
