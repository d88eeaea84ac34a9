// Squared p-norm rows (Niculae & Blondel, 2017): argmax over the simplex of <y, x> - 1/2 ||y||_p^2, 1 < p <= 2.
//
// With 1/p + 1/q = 1 and z = (x - tau)_+ the weights are z^(q-1) ||z||_q^(2-q). Relative to the largest z, called c,
// u = (1 - d/c)_+ with d = max x - x, they are u^(q-1) divided by its sum A, and c is the root of the increasing function
//
//     c A B^(2/q - 1) = 1,    A = sum u^(q-1), B = sum u^q,    n^(-2/q) <= c <= 1.
#pragma once

#include "problems.hpp"
#include "softmax.hpp"
#include "sparsemax.hpp"
#include "vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// u^(q-2) for p = 1.5, where q = 3.
struct CubicOrder {
  template <class V, class T> static V lowest(V, V u, T) { return u; }
};

struct AnyOrder {
  template <class V, class T> static V lowest(V w, V u, T q) {
    const V inside = u > V{} ? w : V{};
    const V y = exp_of<V>((q - 2) * log1p_normal<V>(inside));
    return u > V{} ? y : V{};
  }
};

struct NormSums {
  double a, b, c;  // of the powers q - 1, q and q - 2
};

// count is a multiple of the vector length; `shifted` holds -d.
template <class Order, class T>
inline NormSums norm_sums(const T* shifted, std::int64_t count, T r, T q) {
  LongSum<T> a, b, c;
  for (std::int64_t i = 0; i < count;) {
    Vector<T> a_block{}, b_block{}, c_block{};
    const std::int64_t end = i + kBlockSize<T> < count ? i + kBlockSize<T> : count;
    for (; i < end; i += kLanes<T>) {
      const Vector<T> w = load(shifted + i) * r, u = larger(T(1) + w, Vector<T>{});
      const Vector<T> lowest = Order::lowest(w, u, q);
      c_block += lowest;
      a_block += lowest * u;
      b_block += lowest * u * u;
    }
    a.add(a_block);
    b.add(b_block);
    c.add(c_block);
  }
  return {a.total(), b.total(), c.total()};
}

template <class Order, class T>
inline double norm_level(const T* shifted, std::int64_t count, double q) {
  double low = exp_of<double>(-2 / q * log_normal<double>(static_cast<double>(count))) / 2, high = 1, c = 1;
  for (int iteration = 0; iteration < 100; ++iteration) {
    const NormSums sums = norm_sums<Order>(shifted, count, static_cast<T>(1 / c), static_cast<T>(q));
    const double excess = c * sums.a - exp_of<double>((1 - 2 / q) * log_normal<double>(sums.b));
    if (excess < 0) low = c;
    else high = c;
    double next = c - excess / ((q - 1) * sums.c - (q - 2) * sums.a * sums.a / sums.b);
    const double step = next > c ? next - c : c - next;
    if (!(step > std::numeric_limits<T>::epsilon() * 0.5 * c)) break;
    if (!(next > low && next < high)) next = (low + high) / 2;
    if (next == c) break;
    c = next;
  }
  return c;
}

template <class Order, class T>
inline void sqpnorm_row(const T* x, T* weights, T* value, std::int64_t n, double q, T* peaks, T* candidates) {
  const Top<T> found = find_top(x, n, peaks);
  if (!found.usual()) return fill_unusual(found.bad, weights, value, n);
  const T top = found.score, floor = just_below(top - 1);
  const std::int64_t count = pad(candidates, collect(x, n, peaks, floor, top, T(1), candidates), T(-4));
  const double c = norm_level<Order>(candidates, count, q);
  const T r = static_cast<T>(1 / c);

  LongSum<T> sums, norms;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>, peaks += kLanes<T>) {
    const std::int64_t size = n - i < kBlockSize<T> ? n - i : kBlockSize<T>;
    if (where_greater(load(peaks), splat(floor)) == 0) {
      each_vector<T>(size, [&](std::int64_t at, std::int64_t lanes) {
        store_lanes(weights + i + at, lanes, Vector<T>{});
      });
      continue;
    }
    Vector<T> sum{}, norm{};
    each_vector<T>(size, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> scores = load_lanes(x + i + at, lanes, -kInfinity<T>);
      const Vector<T> w = larger(scores - top, splat(T(-4))) * r, u = larger(T(1) + w, Vector<T>{});
      const Vector<T> weight = Order::lowest(w, u, static_cast<T>(q)) * u;
      sum += weight;
      norm += weight * u;
      store_lanes(weights + i + at, lanes, weight);
    });
    sums.add(sum);
    norms.add(norm);
  }
  scale_row(weights, n, static_cast<T>(1 / sums.total()));
  const double norm = c * exp_of<double>(log_normal<double>(norms.total()) / q);  // ||z||_q = ||weights||_p
  *value = top + static_cast<T>(0.5 - c + 0.5 * norm * norm);
}

template <class T>
void run(const Sqpnormmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  if (problem.p == 2)
    return threshold_rows<Linear>(problem.scores, problem.weights, problem.value, n, begin, end);
  Buffer buffer(Buffer::size<T>(peaks_size<T>(n)) + Buffer::size<T>(candidates_size<T>(n)));
  T* peaks = buffer.take<T>(peaks_size<T>(n));
  T* candidates = buffer.take<T>(candidates_size<T>(n));
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = problem.scores + row * n;
    T* weights = problem.weights + row * n;
    if (problem.p == 1.5)
      sqpnorm_row<CubicOrder>(x, weights, problem.value + row, n, 3.0, peaks, candidates);
    else
      sqpnorm_row<AnyOrder>(x, weights, problem.value + row, n, problem.p / (problem.p - 1), peaks, candidates);
  }
}

// Jacobian times direction. On the support the Hessian of 1/2 ||y||_p^2 is a diagonal plus a rank-one matrix; its inverse M
// gives J v = M v - M1 (1'M v)/(1'M1). Since J1 = 0 the direction may be centred first, v' = v - <y, v>, and then
//
//     J v = m (v' - <m, v'>/sum m) + (2 - p)/((p - 1) N^2) y v',
//     m = M1 = y/N^2 (1 + (L y^(1-p) - 1)/(p - 1)),    N = ||y||_p, L = N^p.
template <class T>
inline void sqpnormmax_product_row(const T* y, const T* v, T* out, std::int64_t n, double p) {
  const T slope = static_cast<T>(p - 1), steep = static_cast<T>(1 / (p - 1));
  const Vector<T> zero{}, one = splat(T(1));
  const bool by_root = p == 1.5;
  LongSum<T> masses, powers, means;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>) {
    Vector<T> mass{}, power{}, mean{};
    each_vector<T>(n - i < kBlockSize<T> ? n - i : kBlockSize<T>, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> weights = load_lanes(y + i + at, lanes, T(0));
      Vector<T> root_or_log;
      if (by_root) {
        root_or_log = root(weights);
        power += weights * root_or_log;
      } else {
        root_or_log = log_of<Vector<T>>(weights > zero ? weights : one);
        power += weights * expm1_of<Vector<T>>(slope * root_or_log);
      }
      store_lanes(out + i + at, lanes, root_or_log);
      mass += weights;
      mean += weights * load_lanes(v + i + at, lanes, T(0));
    });
    masses.add(mass);
    powers.add(power);
    means.add(mean);
  }
  const double mass = masses.total();
  if (!(mass > 0)) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = mass == 0 ? T(0) : kNaN<T>;
    return;
  }
  const double log_power = by_root ? log_normal<double>(powers.total()) : __builtin_log1p(powers.total());
  const double norm2 = exp_of<double>(2 / p * log_power);
  const T mean = static_cast<T>(means.total() / mass), scale = static_cast<T>(1 / norm2);
  const T log_level = static_cast<T>(log_power), level = static_cast<T>(powers.total());
  LongSum<T> sums, products;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>) {
    Vector<T> sum{}, product{};
    each_vector<T>(n - i < kBlockSize<T> ? n - i : kBlockSize<T>, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> weights = load_lanes(y + i + at, lanes, T(0)), saved = load_lanes(out + i + at, lanes, T(0));
      Vector<T> m;
      if (by_root) m = (T(2) * level * saved - weights) * scale;
      else m = weights * (T(1) + steep * expm1_of<Vector<T>>(log_level - slope * saved)) * scale;
      sum += m;
      product += m * (load_lanes(v + i + at, lanes, T(0)) - mean);
      store_lanes(out + i + at, lanes, m);
    });
    sums.add(sum);
    products.add(product);
  }
  const T inner = static_cast<T>(products.total() / sums.total());
  const T rank_one = static_cast<T>((2 - p) / (p - 1) / norm2);
  each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) {
    const Vector<T> centred = load_lanes(v + i, lanes, T(0)) - mean, m = load_lanes(out + i, lanes, T(0));
    store_lanes(out + i, lanes, m * (centred - inner) + rank_one * load_lanes(y + i, lanes, T(0)) * centred);
  });
}

template <class T>
void run(const SqpnormmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  if (problem.p == 2) return centred_rows(problem, begin, end, UnitSlope());
  const std::int64_t n = problem.columns;
  for (std::int64_t row = begin; row < end; ++row)
    sqpnormmax_product_row(problem.weights + row * n, problem.direction + row * n, problem.product + row * n, n,
                           problem.p);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
