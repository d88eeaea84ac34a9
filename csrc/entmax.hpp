// Entmax rows of any order alpha >= 1 (Tsallis regularization; Blondel, Martins & Niculae, 2019).
//
// With e = alpha - 1, q = 1/e and y = e (x - max x) <= 0, the weights are
//
//     p = P (1 + y/c)_+^q,    P = c^q the largest weight,    sum p = 1.
//
// Writing them relative to the largest keeps every digit as alpha -> 1, where (1 + y/c)^q -> exp(x - max x).
#pragma once

#include "problems.hpp"
#include "softmax.hpp"
#include "sparsemax.hpp"
#include "steep_entmax.hpp"
#include "lockstep.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// u^q and u^(q - 1) for u = 1 + r y, zero where u <= 0.
template <class V>
struct Powers {
  V low, high;
  template <class T>
  Powers(V y, T r, T order) {
    const V w = y * r, u = T(1) + w;
    const V inside = u > V{} ? w : V{};
    low = exp_of<V>((order - 1) * log1p_normal<V>(inside));
    low = u > V{} ? low : V{};
    high = low * u;
  }
};

struct PowerSums {
  double low, high;
};

template <class T>
inline PowerSums power_sums(const T* y, std::int64_t count, T r, T order) {
  LongSum<T> low, high;
  for (std::int64_t i = 0; i < count;) {
    Vector<T> low_block{}, high_block{};
    const std::int64_t end = i + kBlockSize<T> < count ? i + kBlockSize<T> : count;
    for (; i < end; i += kLanes<T>) {
      const Powers<Vector<T>> powers(load(y + i), r, order);
      low_block += powers.low;
      high_block += powers.high;
    }
    low.add(low_block);
    high.add(high_block);
  }
  return {low.total(), high.total()};
}

// c for 1 < alpha < 2. The norm (sum (c + y)_+^q)^(1/q) is convex in c, so Newton's method descends to its level 1
// from c = 1 and never passes it.
template <class T>
inline double gentle_level(const T* y, std::int64_t count, double e) {
  const T order = static_cast<T>(1 / e);
  double c = 1;
  for (int iteration = 0; iteration < 60; ++iteration) {
    const PowerSums sums = power_sums(y, count, static_cast<T>(1 / c), order);
    const double norm = exp_of<double>((1 - e) * log_normal<double>(sums.high));
    const double step = (c * sums.high - norm) / sums.low;
    if (!(step > std::numeric_limits<T>::epsilon() * 0.25 * c)) break;
    c -= step;
  }
  return c;
}

template <class T>
inline void gentle_row(const T* x, T* weights, T* value, std::int64_t n, double e, T* peaks, T* candidates) {
  const Top<T> found = find_top(x, n, peaks);
  if (!found.usual()) return fill_unusual(found.bad, weights, value, n);
  const T top = found.score, scale = static_cast<T>(e), order = static_cast<T>(1 / e);
  const T floor = just_below(static_cast<T>(top - 1 / e));
  const std::int64_t count = pad(candidates, collect(x, n, peaks, floor, top, scale, candidates), T(-4));
  const T r = static_cast<T>(1 / gentle_level(candidates, count, e));

  LongSum<T> sums, excesses;  // of u^q and of y u^q
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>, peaks += kLanes<T>) {
    const std::int64_t size = n - i < kBlockSize<T> ? n - i : kBlockSize<T>;
    Vector<T> sum{}, excess{};
    if (where_greater(load(peaks), splat(floor)) == 0) {
      each_vector<T>(size, [&](std::int64_t at, std::int64_t lanes) {
        store_lanes(weights + i + at, lanes, Vector<T>{});
      });
      continue;
    }
    each_vector<T>(size, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> scores = load_lanes(x + i + at, lanes, -kInfinity<T>);
      const Vector<T> y = larger((scores - top) * scale, splat(T(-4)));
      const Powers<Vector<T>> powers(y, r, order);
      sum += powers.high;
      excess += powers.high * y;
      store_lanes(weights + i + at, lanes, powers.high);
    });
    sums.add(sum);
    excesses.add(excess);
  }
  const double sum = sums.total();
  scale_row(weights, n, static_cast<T>(1 / sum));
  // max_Omega = max x + ((1 - c)/e + sum p y)/alpha with c = (1/sum)^e
  const double mass = -__builtin_expm1(-e * log_normal<double>(sum)) / e;
  *value = top + static_cast<T>((mass + excesses.total() / sum) / (1 + e));
}

template <class T>
inline void entmax_row(const T* x, T* weights, T* value, std::int64_t n, double alpha, T* peaks, T* candidates) {
  if (!(alpha >= 1) || alpha == kInfinity<double>) return fill_unusual(true, weights, value, n);
  const double e = alpha - 1;
  if (e == 0) softmax_row(x, weights, value, n, peaks);
  else if (e == 0.5) threshold_row<Square>(x, weights, value, n, peaks, candidates);
  else if (e < 1) gentle_row(x, weights, value, n, e, peaks, candidates);
  else if (e == 1) threshold_row<Linear>(x, weights, value, n, peaks, candidates);
  else steep_row(x, weights, value, n, e, peaks, candidates);
}

template <class T>
void run(const Entmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  if (problem.alphas == nullptr && problem.alpha == 1.5)
    return threshold_rows<Square>(problem.scores, problem.weights, problem.value, n, begin, end);
  if (problem.alphas == nullptr && problem.alpha == 2)
    return threshold_rows<Linear>(problem.scores, problem.weights, problem.value, n, begin, end);
  const Scratch<T> peaks(peaks_size<T>(n)), candidates(candidates_size<T>(n) + peaks_size<T>(n));
  for (std::int64_t row = begin; row < end; ++row)
    entmax_row(problem.scores + row * n, problem.weights + row * n, problem.value + row, n,
               problem.alphas != nullptr ? problem.alphas[row] : problem.alpha, peaks.get(), candidates.get());
}

// s (v - <s, v>/sum s) with s given in `out`.
template <class T, class Slope>
inline void centred_row(const T* p, const T* v, T* out, std::int64_t n, Slope slope) {
  LongSum<T> slopes, products;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>) {
    Vector<T> sum{}, product{};
    each_vector<T>(n - i < kBlockSize<T> ? n - i : kBlockSize<T>, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> s = slope(load_lanes(p + i + at, lanes, T(0)));
      sum += s;
      product += s * load_lanes(v + i + at, lanes, T(0));
      store_lanes(out + i + at, lanes, s);
    });
    slopes.add(sum);
    products.add(product);
  }
  const double total = slopes.total();
  const T mean = total == 0 ? T(0) : static_cast<T>(products.total() / total);  // NaN stays NaN
  each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) {
    store_lanes(out + i, lanes, load_lanes(out + i, lanes, T(0)) * (load_lanes(v + i, lanes, T(0)) - mean));
  });
}

// J = diag(s) - s s'/(1's), s = p^(2 - alpha) on the support.
template <class T>
inline void entmax_product_row(const T* p, const T* v, T* out, std::int64_t n, double alpha) {
  if (!(alpha >= 1) || alpha == kInfinity<double>) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = kNaN<T>;
  } else if (alpha == 1) {
    softmax_product_row(p, v, out, n);
  } else if (alpha == 1.5) {
    centred_row(p, v, out, n, [](Vector<T> weights) { return root(weights); });
  } else if (alpha == 2) {
    sparsemax_product_row(p, v, out, n);
  } else if (alpha < 2) {
    const T order = static_cast<T>(2 - alpha);
    centred_row(p, v, out, n, [=](Vector<T> weights) {
      const Vector<T> zero{}, inside = weights > zero ? weights : splat(T(1));
      const Vector<T> s = exp_of<Vector<T>>(order * log_of<Vector<T>>(inside));
      return weights > zero ? s : weights;  // 0, or the NaN of a row that has no answer
    });
  } else {
    steep_product_row(p, v, out, n, alpha);
  }
}

template <class T>
void run(const EntmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  for (std::int64_t row = begin; row < end; ++row)
    entmax_product_row(problem.weights + row * n, problem.direction + row * n, problem.product + row * n, n,
                       problem.alphas != nullptr ? problem.alphas[row] : problem.alpha);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
