// Squared p-norm rows (Niculae & Blondel, 2017): argmax over the simplex of <y, x> - 1/2 ||y||_p^2, 1 < p <= 2.
//
// With 1/p + 1/q = 1 and z = (x - tau)_+ the weights are z^(q-1) ||z||_q^(2-q). Relative to the largest z, called c,
// u = (1 - d/c)_+ with d = max x - x, they are u^(q-1) divided by its sum A, and c is the root of the increasing
// function
//
//     c A B^(2/q - 1) = 1,    A = sum u^(q-1), B = sum u^q,    n^(-2/q) <= c <= 1.
#pragma once

#include "core/problems.hpp"
#include "core/vector_math.hpp"
#include "rows/entmax.hpp"
#include "rows/softmax.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// u^(q-2) for p = 1.5, where q = 3.
struct CubicOrder {
  static double root(double x, double) { return __builtin_cbrt(x); }
  template <class V, class T>
  static V lowest(V, V u, T) {
    return u;
  }
  // u^(q-2) has a bounded slope, so Newton's error is squared: after a step this small the next would change nothing.
  template <class T>
  static double last_step() {
    return __builtin_sqrt(double(std::numeric_limits<T>::epsilon())) / 8;
  }
};

struct AnyOrder {
  static double root(double x, double q) { return exp_of<double>(log_normal<double>(x) / q); }
  template <class V, class T>
  static V lowest(V w, V u, T q) {
    const V inside = u > V{} ? w : V{};
    const V y = exp_of<V>((q - 2) * log1p_normal<V>(inside));
    return u > V{} ? y : V{};
  }
  template <class T>
  static double last_step() {
    return std::numeric_limits<T>::epsilon() * 0.5;
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
    if (count <= kBlockSize<T>) return {sum_lanes<T>(a_block), sum_lanes<T>(b_block), sum_lanes<T>(c_block)};
    a.add(a_block);
    b.add(b_block);
    c.add(c_block);
  }
  return {a.total(), b.total(), c.total()};
}

constexpr int kNormRows = kLanes<double>;
constexpr std::int64_t kNormGroup =
    4096;  // columns up to which rows are taken together: their candidates must stay near

// The root c of as many rows as a vector has doubles: while one waits for its sums the others go on. A lane that has
// arrived stays where it is, so the result for a row does not depend on its neighbours.
template <class Order, class T>
inline Doubles norm_levels(const T* candidates, std::int64_t stride, const std::int64_t* counts, int rows, double q) {
  alignas(kVectorBytes) double sizes[kNormRows], a[kNormRows], b[kNormRows], slopes[kNormRows], inverse[kNormRows];
  unsigned moving = 0;
  for (int row = 0; row < kNormRows; ++row) {
    const bool used = row < rows && counts[row] > 0;
    sizes[row] = used ? static_cast<double>(counts[row]) : 1;
    a[row] = b[row] = slopes[row] = 1;
    moving |= static_cast<unsigned>(used) << row;
  }
  const Doubles one = splat(1.0), rounding = splat(std::numeric_limits<T>::epsilon() * 0.5);
  Doubles c = one, high = one, low = exp_of<Doubles>(-2 / q * log_normal<Doubles>(load(sizes))) / 2;
  for (int iteration = 0; iteration < 100 && moving != 0; ++iteration) {
    store(inverse, 1 / c);
    for (int row = 0; row < rows; ++row) {
      if (((moving >> row) & 1u) == 0) continue;
      const NormSums sums =
          norm_sums<Order>(candidates + row * stride, counts[row], static_cast<T>(inverse[row]), static_cast<T>(q));
      a[row] = sums.a;
      b[row] = sums.b;
      slopes[row] = (q - 1) * sums.c - (q - 2) * sums.a * sums.a / sums.b;
    }
    const Doubles excess = c * load(a) - exp_of<Doubles>((1 - 2 / q) * log_normal<Doubles>(load(b)));
    low = excess < 0 ? c : low;
    high = excess < 0 ? high : c;
    Doubles next = c - excess / load(slopes);
    const Doubles step = larger(next - c, c - next);
    const unsigned arrived = ~where_greater(step, rounding * c);
    const unsigned inside = where_greater(next, low) & where_greater(high, next);
    const unsigned last = inside & where_greater(Order::template last_step<T>() * c, step);
    next = next > low ? (next < high ? next : (low + high) / 2) : (low + high) / 2;
    alignas(kVectorBytes) double was[kNormRows], now[kNormRows];
    store(was, c);
    store(now, next);
    const unsigned unchanged = ~(where_greater(next, c) | where_greater(c, next));
    for (int row = 0; row < kNormRows; ++row)
      if ((moving & ~arrived) >> row & 1u) was[row] = now[row];
    c = load(was);
    moving &= ~(arrived | last | unchanged);
  }
  return c;
}

// The weights given c, and the value.
template <class Order, class T>
inline void write_norm_row(const T* x, T top, double c, double q, T* weights, T* value, std::int64_t n,
                           const T* peaks) {
  const T r = static_cast<T>(1 / c), floor = just_below(top - 1);
  LongSum<T> sums, norms;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>, peaks += kLanes<T>) {
    const std::int64_t size = n - i < kBlockSize<T> ? n - i : kBlockSize<T>;
    if (where_greater(load(peaks), splat(floor)) == 0) {
      each_vector<T>(size,
                     [&](std::int64_t at, std::int64_t lanes) { store_lanes(weights + i + at, lanes, Vector<T>{}); });
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
  const double norm = c * Order::root(norms.total(), q);  // ||z||_q = ||weights||_p
  *value = top + static_cast<T>(0.5 - c + 0.5 * norm * norm);
}

template <class Order, class T>
inline void sqpnorm_rows(const Sqpnormmax<T>& problem, std::int64_t begin, std::int64_t end, double q) {
  const std::int64_t n = problem.columns, room = peaks_size<T>(n), stride = candidates_size<T>(n);
  const int group = n <= kNormGroup ? kNormRows : 1;
  Buffer buffer(Buffer::size<T>(group * room) + Buffer::size<T>(group * stride));
  T* peaks = buffer.take<T>(group * room);
  T* candidates = buffer.take<T>(group * stride);
  for (std::int64_t first = begin; first < end; first += group) {
    const int rows = static_cast<int>(end - first < group ? end - first : group);
    Top<T> tops[kNormRows];
    std::int64_t counts[kNormRows];
    for (int row = 0; row < rows; ++row) {
      const T* x = problem.scores + (first + row) * n;
      tops[row] = find_top(x, n, peaks + row * room);
      const T top = tops[row].score;
      T* kept = candidates + row * stride;
      counts[row] = tops[row].usual() ? collect(x, n, peaks + row * room, just_below(top - 1), top, T(1), kept) : 0;
      if (counts[row] > 0) counts[row] = pad(kept, counts[row], T(-4));
    }
    alignas(kVectorBytes) double levels[kNormRows];
    store(levels, norm_levels<Order>(candidates, stride, counts, rows, q));
    for (int row = 0; row < rows; ++row) {
      const T* x = problem.scores + (first + row) * n;
      T* weights = problem.weights + (first + row) * n;
      T* value = problem.value + first + row;
      if (tops[row].usual())
        write_norm_row<Order>(x, tops[row].score, levels[row], q, weights, value, n, peaks + row * room);
      else fill_unusual(tops[row].bad, weights, value, n);
    }
  }
}

template <class T>
void run(const Sqpnormmax<T>& problem, std::int64_t begin, std::int64_t end) {
  if (problem.p == 2)
    return threshold_rows<Linear>(problem.scores, problem.weights, problem.value.at, problem.columns, begin, end);
  if (problem.p == 1.5) return sqpnorm_rows<CubicOrder>(problem, begin, end, 3.0);
  sqpnorm_rows<AnyOrder>(problem, begin, end, problem.p / (problem.p - 1));
}

// Jacobian times direction. On the support the Hessian of 1/2 ||y||_p^2 is a diagonal plus a rank-one matrix; its
// inverse M gives J v = M v - M1 (1'M v)/(1'M1). Since J1 = 0 the direction may be centred first, v' = v - <y, v>, and
// then
//
//     J v = m (v' - <m, v'>/sum m) + (2 - p)/((p - 1) N^2) y v',
//     m = M1 = y/N^2 (1 + (L y^(1-p) - 1)/(p - 1)),    N = ||y||_p, L = N^p.
template <class T>
inline void sqpnormmax_product_row(const T* y, const T* v, double p, T* out, std::int64_t n) {
  const T slope = static_cast<T>(p - 1), inverse = static_cast<T>(1 / (p - 1));
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
      else m = weights * (T(1) + inverse * expm1_of<Vector<T>>(log_level - slope * saved)) * scale;
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
    sqpnormmax_product_row(problem.weights + row * n, problem.direction + row * n, problem.p, problem.product + row * n,
                           n);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
