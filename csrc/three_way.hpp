// The local problems of an alignment grid, many at once: max_Omega over three tails, its weights and their derivative.
//
// `next` gives a cell from its three tails and its score; `encode` and `decode` take rows of values to cells and back.
#pragma once

#include "power_of_two.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class V>
struct Three { V diagonal, up, left; };

// What a cell hands on to the next: its value, in one part or two.
template <class V, int kParts>
struct Cell { V part[kParts]; };

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

// Cells that are values. `Own` solves for max_Omega.
template <class Own>
struct PlainThree {
  static constexpr int kParts = 1;
  template <bool kWeights, class V>
  static inline Cell<V, 1> next(const Three<Cell<V, 1>>& x, V score, Three<V>& q) {
    const Three<V> values{x.diagonal.part[0], x.up.part[0], x.left.part[0]};
    return {{score + Own::template solve<kWeights>(values, q)}};
  }
  template <class T> static void encode(T*, std::int64_t, std::int64_t) {}
  template <class T> static void decode(T*, std::int64_t, std::int64_t) {}
};

struct HardThree : PlainThree<HardThree> {
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

// Cells are e^value = m 2^k, in parts m and k: three of them are added, and multiplied by e^score, without a logarithm.
// k is a number like m, so it may be infinite, and so large that it is not exact, as the value itself would not be.
struct ShannonThree {
  static constexpr int kParts = 2;

  template <bool kWeights, class V>
  static inline Cell<V, 2> next(const Three<Cell<V, 2>>& x, V score, Three<V>& q) {
    using T = typename Traits<V>::Number;
    const V lowest = std::numeric_limits<T>::lowest() - V{};  // where nothing is reachable: -inf has no differences
    const V top = larger(larger(larger(x.diagonal.part[1], x.up.part[1]), x.left.part[1]), lowest);
    const V diagonal = times_power_of_two(x.diagonal.part[0], x.diagonal.part[1] - top);
    const V up = times_power_of_two(x.up.part[0], x.up.part[1] - top);
    const V left = times_power_of_two(x.left.part[0], x.left.part[1] - top);
    const V sum = diagonal + up + left;
    if constexpr (kWeights) {
      const V share = sum == V{} ? V{} : T(1) / sum;
      q = {diagonal * share, up * share, left * share};
    }
    V k, more;
    const V m = split_octaves(sum * exp_in_octaves(score, k), more);
    return {{m, (top + k) + more}};
  }
  template <class V>
  static inline Three<V> moved(const Three<V>& q, const Three<V>& d, V mean) {
    return {q.diagonal * (d.diagonal - mean), q.up * (d.up - mean), q.left * (d.left - mean)};
  }

  // `row` has its parts `stride` apart, room for whole vectors, and values in the first. Beyond `count` there may be
  // anything, which is not looked at: 1 = 1 2^0 stands in for it.
  template <class T>
  static void encode(T* row, std::int64_t count, std::int64_t stride) {
    for (std::int64_t i = 0; i < count; i += kLanes<T>) {
      Vector<T> k;
      store(row + i, exp_in_octaves(load_up_to(row + i, count - i, T(0)), k));
      store(row + stride + i, k);
    }
  }
  template <class T>
  static void decode(T* row, std::int64_t count, std::int64_t stride) {
    for (std::int64_t i = 0; i < count; i += kLanes<T>) {
      const Vector<T> m = load_up_to(row + i, count - i, T(1)), k = load_up_to(row + stride + i, count - i, T(0));
      store(row + i, log_of_octaves(m, k));
    }
  }
  template <class T>
  static Vector<T> load_up_to(const T* from, std::int64_t count, T fill) {
    return count < kLanes<T> ? load_some(from, count, fill) : load(from);
  }
};

// The threshold of the simplex projection is the largest of (sum of the k largest - 1) / k.
struct SquaredThree : PlainThree<SquaredThree> {
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
