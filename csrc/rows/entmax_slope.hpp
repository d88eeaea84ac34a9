// How the Tsallis entropy of entmax and its gradient move with alpha, at fixed weights.
#pragma once

#include "core/problems.hpp"
#include "core/rows.hpp"
#include "core/vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// h(y) = (1 + (y - 1) e^y)/y^2 for -1 <= y <= 0, where that form cancels: in single precision a polynomial with
// relative error 6e-9, in double the series sum (k + 1)/(k + 2)! y^k.
template <class V>
inline V slope_series(V y) {
  using T = typename Traits<V>::Number;
  if constexpr (sizeof(T) == 4) {
    V h = T(0.000112148184) * y + T(0.00111245015);
    h = h * y + T(0.0068932632);
    h = h * y + T(0.0333158001);
    h = h * y + T(0.124997117);
    h = h * y + T(0.333333164);
    return h * y + T(0.5);
  } else {
    constexpr int terms = 18;
    double factorials[terms];  // (k + 2)!, known to the compiler
    for (int k = 0; k < terms; ++k) factorials[k] = k == 0 ? 2 : (k + 2) * factorials[k - 1];
    V h = V{};
#pragma GCC unroll 18
    for (int k = terms - 1; k >= 0; --k) h = h * y + (k + 1) / factorials[k];
    return h;
  }
}

// h(y) for y <= 0, given e^y.
template <class V>
inline V slope_factor(V y, V exponential) {
  using T = typename Traits<V>::Number;
  const V series = slope_series<V>(y), closed = (T(1) + (y - T(1)) * exponential) / (y * y);
  return y > T(-1) - V{} ? series : closed;
}

// With e = alpha - 1, L = log p and y = e L: gradient = L^2 h(y), slope = (sum p gradient - Omega)/alpha,
// Omega = 1/alpha sum p L g(y), and g(y) = (e^y - 1)/y = e^y - y h(y).
template <class T>
inline void entmax_slope_row(const T* weights, double alpha, T* slope, T* gradient, std::int64_t n) {
  const Vector<T> zero{}, one = splat(T(1));
  const T e = static_cast<T>(alpha - 1);
  LongSum<T> omegas, slopes;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>) {
    Vector<T> omega{}, sum{};
    each_vector<T>(n - i < kBlockSize<T> ? n - i : kBlockSize<T>, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> p = load_lanes(weights + i + at, lanes, T(0));
      if (where_greater(p, zero) == 0) {
        sum += p;  // zeros, or the NaN of a row that has no answer
        return store_lanes(gradient + i + at, lanes, zero);
      }
      const Vector<T> log = log_of<Vector<T>>(p > zero ? p : one), y = e * log;
      const Vector<T> exponential = exp_of<Vector<T>>(y), h = slope_factor<Vector<T>>(y, exponential);
      const Vector<T> change = log * log * h;
      omega += p * log * (exponential - y * h);
      sum += p * change;
      store_lanes<T>(gradient + i + at, lanes, p > zero ? change : zero);
    });
    omegas.add(omega);
    slopes.add(sum);
  }
  *slope = static_cast<T>((slopes.total() - omegas.total() / alpha) / alpha);
}

template <class T>
void run(const EntmaxSlope<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  for (std::int64_t row = begin; row < end; ++row)
    entmax_slope_row(problem.weights + row * n, problem.alphas != nullptr ? problem.alphas[row] : problem.alpha,
                     problem.slope + row, problem.gradient + row * n, n);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
