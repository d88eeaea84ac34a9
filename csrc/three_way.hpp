// The local problems of an alignment grid, many at once: max_Omega over three tails, its weights and their derivative.
#pragma once

#include "vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class V>
struct Three { V diagonal, up, left; };

// e^x for x <= 0; what would not be a normal number is zero.
template <class V>
inline V exp_below(V x) {
  using T = typename Traits<V>::Number;
  using F = Format<T>;
  const V low = (sizeof(T) == 4 ? T(-87) : T(-708)) - V{};
  const V inside = x < low ? low : x;
  const V shifted = inside * T(1.44269504088896340736) + F::kRounder;
  const auto k = bits_of<V>(shifted) - bits_of<V>(F::kRounder - V{});
  const V whole = shifted - F::kRounder;
  const V r = (inside - whole * F::kLn2High) - whole * F::kLn2Low;
  const V y = (exp_tail(r) * (r * r) + r) + T(1);
  return x < low ? V{} : y * from_bits<V>((k + F::kBias) << F::kFraction);
}

template <class V>
inline V largest_of(const Three<V>& x) { return larger(larger(x.diagonal, x.up), x.left); }

// -inf where nothing is reachable, NaN where something is not a number or +inf.
template <class V>
inline V settled(const Three<V>& x, V top, V value) {
  using T = typename Traits<V>::Number;
  const V infinity = kInfinity<T> - V{}, total = x.diagonal + x.up + x.left;
  value = top == -infinity ? -infinity : value;
  value = top == infinity ? kNaN<T> - V{} : value;
  return total == total ? value : total;
}

struct HardThree {
  template <bool kWeights, class V>
  static inline V solve(const Three<V>& x, Three<V>& q) {
    using T = typename Traits<V>::Number;
    const V top = largest_of(x), one = T(1) - V{}, zero = V{};
    if constexpr (kWeights) {
      q.diagonal = x.diagonal == top ? one : zero;
      q.up = x.up == top ? one - q.diagonal : zero;
      q.left = one - q.diagonal - q.up;
      const V reachable = top == -kInfinity<T> - zero ? zero : one;
      q = {q.diagonal * reachable, q.up * reachable, q.left * reachable};
    }
    return settled(x, top, top);
  }
  template <class V>
  static inline Three<V> moved(const Three<V>&, const Three<V>&, V) { return {V{}, V{}, V{}}; }
};

// The largest of three has the power 1: two exponentials are left.
struct ShannonThree {
  template <bool kWeights, class V>
  static inline V solve(const Three<V>& x, Three<V>& q) {
    using T = typename Traits<V>::Number;
    const V infinity = kInfinity<T> - V{}, one = T(1) - V{};
    const V high = larger(x.diagonal, x.up), low = x.diagonal < x.up ? x.diagonal : x.up;
    const V largest = larger(high, x.left), top = largest == -infinity ? V{} : largest;
    const V middle = high < x.left ? high : x.left;
    const V second = larger(low, middle), third = low < middle ? low : middle;
    const V next = exp_below<V>(second - top), least = exp_below<V>(third - top), sum = one + (next + least);
    if constexpr (kWeights) {
      const V total = x.diagonal + x.up + x.left;
      V share = largest == -infinity ? V{} : one / sum;
      share = total == total ? share : total;
      q.diagonal = share * (x.diagonal == top ? one : x.diagonal == second ? next : least);
      q.up = share * (x.up == top ? one : x.up == second ? next : least);
      q.left = share * (x.left == top ? one : x.left == second ? next : least);
    }
    return settled(x, largest, top + log_normal(sum));
  }
  template <class V>
  static inline Three<V> moved(const Three<V>& q, const Three<V>& d, V mean) {
    return {q.diagonal * (d.diagonal - mean), q.up * (d.up - mean), q.left * (d.left - mean)};
  }
};

// The threshold of the simplex projection is the largest of (sum of the k largest - 1) / k.
struct SquaredThree {
  template <bool kWeights, class V>
  static inline V solve(const Three<V>& x, Three<V>& q) {
    using T = typename Traits<V>::Number;
    const V largest = largest_of(x), top = largest == -kInfinity<T> - V{} ? V{} : largest;
    const V a = x.diagonal - top, b = x.up - top, c = x.left - top;
    const V high = larger(a, b), low = a + b == a + b ? (a < b ? a : b) : a + b;
    const V middle = high < c ? high : c;  // the largest is 0, the smallest is below both others
    const V second = larger(low, middle), third = low < middle ? low : middle;
    V level = larger((second - T(1)) * T(0.5), T(-1) - V{});
    level = larger((second + third - T(1)) * T(1.0 / 3), level);
    q = {larger(a - level, V{}), larger(b - level, V{}), larger(c - level, V{})};
    const V squares = q.diagonal * q.diagonal + q.up * q.up + q.left * q.left;
    return settled(x, largest, top + (T(0.5) * squares + level + T(0.5)));
  }
  template <class V>
  static inline Three<V> moved(const Three<V>& q, const Three<V>& d, V) {
    using T = typename Traits<V>::Number;
    const V zero = V{}, one = T(1) - V{};
    const V a = q.diagonal > zero ? one : zero, b = q.up > zero ? one : zero, c = q.left > zero ? one : zero;
    const V size = larger(a + b + c, one);
    const V mean = (a * d.diagonal + b * d.up + c * d.left) / size;
    return {a * (d.diagonal - mean), b * (d.up - mean), c * (d.left - mean)};
  }
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
