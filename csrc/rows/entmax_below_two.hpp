// Entmax for 1 < alpha < 2. With e = alpha - 1, q = 1/e and y = e (x - max x) <= 0, the weights are
//
//     p = P (1 + y/c)_+^q,    P = c^q the largest weight,    sum p = 1.
//
// Writing them relative to the largest keeps every digit as alpha -> 1, where (1 + y/c)^q -> exp(x - max x). The norm
// (sum (c + y)_+^q)^(1/q) is convex in c: Newton's method descends to its level 1 and never passes it.
#pragma once

#include "rows/power.hpp"
#include "rows/softmax.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class V>
struct PowerSums {
  V low, high;  // sums of u^(q-1) and u^q
  // What Newton's method takes off c.
  V step(V c, V e) const {
    using T = typename Traits<V>::Number;
    return (c * high - exp_of<V>((T(1) - e) * log_normal<V>(high))) / low;
  }
};

// How small a step of Newton's method has to be for the next one not to matter. Near alpha = 2 the norm has kinks.
template <class T>
inline T tolerance(double e) {
  return e < 0.75 ? (sizeof(T) == 4 ? T(1.5e-4) : T(5e-9)) : 2 * std::numeric_limits<T>::epsilon();
}

template <class Quality, class T>
inline PowerSums<double> power_sums(const T* y, std::int64_t count, T r, T order) {
  LongSum<T> low, high;
  const Vector<T> orders = splat(order - 1);
  for (std::int64_t i = 0; i < count;) {
    Vector<T> low_block{}, high_block{};
    const std::int64_t end = i + kBlockSize<T> < count ? i + kBlockSize<T> : count;
    for (; i < end; i += kLanes<T>) {
      const Vector<T> u = larger(T(1) + load(y + i) * r, Vector<T>{});
      const Vector<T> power = Quality::power(u, orders);
      low_block += power;
      high_block += power * u;
    }
    low.add(low_block);
    high.add(high_block);
  }
  return {low.total(), high.total()};
}

template <class T>
inline double below_two_level(const T* y, std::int64_t count, double e) {
  const T order = static_cast<T>(1 / e);
  double c = 1;
  if constexpr (sizeof(T) == 4)
    for (int iteration = 0; iteration < 8; ++iteration) {
      const double step = power_sums<Fair>(y, count, static_cast<T>(1 / c), order).step(c, e);
      if (!(step > 0)) break;
      c -= step;
      if (step < 0.02 * c) break;
    }
  for (int iteration = 0; iteration < 100; ++iteration) {
    const double step = power_sums<Good>(y, count, static_cast<T>(1 / c), order).step(c, e);
    c -= step;
    // After the first, which may come from the left, all steps go down; one that does not is noise.
    if (!(step > tolerance<T>(e) * c) && (iteration > 0 || !(-step > tolerance<T>(e) * c))) break;
  }
  return c;
}

// Writes the weights given 1/c; returns sum u^q and sum y u^q.
template <class T>
inline PowerSums<double> write_below_two(const T* x, T top, T e, T r, T order, T floor, T* weights, std::int64_t n,
                                         const T* peaks) {
  LongSum<T> sums, excesses;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>) {
    const std::int64_t size = n - i < kBlockSize<T> ? n - i : kBlockSize<T>;
    if (peaks != nullptr && where_greater(load(peaks + i / kBlock), splat(floor)) == 0) {
      each_vector<T>(size,
                     [&](std::int64_t at, std::int64_t lanes) { store_lanes(weights + i + at, lanes, Vector<T>{}); });
      continue;
    }
    Vector<T> sum{}, excess{};
    each_vector<T>(size, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> scores = load_lanes(x + i + at, lanes, -kInfinity<T>);
      const Vector<T> y = larger((scores - top) * e, splat(T(-4)));
      const Vector<T> power = full_power(y * r, order);
      sum += power;
      excess += power * y;
      store_lanes(weights + i + at, lanes, power);
    });
    sums.add(sum);
    excesses.add(excess);
  }
  const double sum = sums.total();
  scale_row(weights, n, static_cast<T>(1 / sum));
  return {excesses.total(), sum};
}

template <class T>
inline void below_two_row(const T* x, double e, T* weights, T* value, std::int64_t n, T* peaks, T* candidates) {
  const Top<T> found = find_top(x, n, peaks);
  if (!found.usual()) return fill_unusual(found.bad, weights, value, n);
  const T top = found.score, scale = static_cast<T>(e);
  const T floor = just_below(static_cast<T>(top - 1 / e));
  const std::int64_t count = pad(candidates, collect(x, n, peaks, floor, top, scale, candidates), T(-4));
  const T r = static_cast<T>(1 / below_two_level(candidates, count, e));
  const PowerSums<double> sums = write_below_two(x, top, scale, r, static_cast<T>(1 / e), floor, weights, n, peaks);
  // max_Omega = max x + ((1 - c)/e + sum p y)/alpha with c = (1/sum)^e
  const double mass = -__builtin_expm1(-e * log_normal<double>(sums.high)) / e;
  *value = top + static_cast<T>((mass + sums.low / sums.high) / (1 + e));
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
