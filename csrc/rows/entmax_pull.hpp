// Reverse mode of entmax with a learnable order: the Jacobian times a direction, J v, and its inner product with the
// slope d = L^2 h(e L) of the entropy's gradient (entmax_slope.hpp; e = alpha - 1, L = log p).
#pragma once

#include "rows/entmax.hpp"
#include "rows/entmax_slope.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// For orders up to 2, together: with s = p^(2 - alpha), J v = s (v - mean) and <J v, d> = <s d, v> - mean <s d, 1>.
// `slope` returns s and the logarithm of p; it also gives e^(e L) = p/s, which d needs away from zero:
// L^2 h(y) = (1 + (y - 1) e^y)/e^2.
template <class T, class Slope>
inline void pull_row(const T* p, const T* v, double alpha, T* out, T* along, std::int64_t n, Slope slope) {
  const Vector<T> zero{}, one = splat(T(1));
  const T e = static_cast<T>(alpha - 1), inverse_square = T(1) / (e * e);
  LongSum<T> slopes, products, changes, changed_products;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>) {
    Vector<T> sum{}, product{}, change{}, changed_product{};
    each_vector<T>(n - i < kBlockSize<T> ? n - i : kBlockSize<T>, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> weights = load_lanes(p + i + at, lanes, T(0));
      if (where_greater(weights, zero) == 0) {
        sum += weights;  // zeros, or the NaN of a row that has no answer
        return store_lanes(out + i + at, lanes, weights);
      }
      Vector<T> log;
      const Vector<T> s = slope(weights, log), direction = load_lanes(v + i + at, lanes, T(0)), y = e * log;
      const Vector<T> ratio = weights * roughly_inverse(s), exponential = ratio < one ? ratio : one;
      const Vector<T> closed = (T(1) + (y - T(1)) * exponential) * inverse_square;
      const Vector<T> d = y > T(-1) - zero ? log * log * slope_series<Vector<T>>(y) : closed;
      const Vector<T> moved = weights > zero ? s * d : zero;
      sum += s;
      product += s * direction;
      change += moved;
      changed_product += moved * direction;
      store_lanes(out + i + at, lanes, s);
    });
    slopes.add(sum);
    products.add(product);
    changes.add(change);
    changed_products.add(changed_product);
  }
  const double total = slopes.total(), mean = total == 0 ? 0 : products.total() / total;  // NaN stays NaN
  const T centre = static_cast<T>(mean);
  each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) {
    store_lanes(out + i, lanes, load_lanes(out + i, lanes, T(0)) * (load_lanes(v + i, lanes, T(0)) - centre));
  });
  *along = static_cast<T>(changed_products.total() - mean * changes.total());
}

// <product, d> for a product that is known.
template <class T>
inline T along_row(const T* p, const T* product, double alpha, std::int64_t n) {
  const Vector<T> zero{}, one = splat(T(1));
  const T e = static_cast<T>(alpha - 1);
  LongSum<T> sums;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>) {
    Vector<T> sum{};
    each_vector<T>(n - i < kBlockSize<T> ? n - i : kBlockSize<T>, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> weights = load_lanes(p + i + at, lanes, T(0));
      const Vector<T> log = log_of<Vector<T>>(weights > zero ? weights : one), y = e * log;
      sum += load_lanes(product + i + at, lanes, T(0)) * (log * log * slope_factor<Vector<T>>(y, exp_of<Vector<T>>(y)));
    });
    sums.add(sum);
  }
  return static_cast<T>(sums.total());
}

template <class T>
inline void entmax_pull_row(const T* p, const T* v, double alpha, T* out, T* along, std::int64_t n) {
  if (alpha == 1.5) {
    pull_row(p, v, alpha, out, along, n, [](Vector<T> weights, Vector<T>& log) {
      const Vector<T> s = root(weights);
      log = log_of<Vector<T>>(weights > Vector<T>{} ? weights : splat(T(1)));
      return s;
    });
  } else if (alpha > 1 && alpha < 2) {
    const Vector<T> order = splat(static_cast<T>(2 - alpha));
    pull_row(p, v, alpha, out, along, n, [=](Vector<T> weights, Vector<T>& log) {
      const Vector<T> s = Good::power(weights, order, log);
      return weights > Vector<T>{} ? s : weights;
    });
  } else {
    entmax_product_row(p, v, alpha, out, n, Everywhere<T>{(n + kLanes<T> - 1) / kLanes<T>});
    *along = along_row(p, out, alpha, n);
  }
}

template <class T>
void run(const EntmaxPull<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  for (std::int64_t row = begin; row < end; ++row)
    entmax_pull_row(problem.weights + row * n, problem.direction + row * n,
                    problem.alphas != nullptr ? problem.alphas[row] : problem.alpha, problem.product + row * n,
                    problem.along + row, n);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
