// The local problems of an alignment grid, many at once: max_Omega over three tails, its weights and their derivative.
//
// `next` gives a cell from its three tails and its score. A cell holds its value in one part or two; `start` and `none`
// are the parts of the values 0 and -inf, and `value` puts the parts together.
#pragma once

#include "grids/power_of_two.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class V>
struct Three {
  V diagonal, up, left;
};

// What a cell hands on to the next: its value, in one part or two.
template <class V, int kParts>
struct Cell {
  V part[kParts];
};

template <class V>
inline V largest_of(const Three<V>& x) {
  return larger(larger(x.diagonal, x.up), x.left);
}

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
  template <class T>
  static T start(int) {
    return 0;
  }
  template <class T>
  static T none(int) {
    return -kInfinity<T>;
  }
  template <class T>
  static double value(const T* part, std::int64_t) {
    return part[0];
  }
};

// Cells that are values in two parts, the second of which holds what the first has rounded away: along a path of a
// thousand cells a float would have three digits left for the differences between its tails. `Own` solves for the
// weights of differences to the largest, and returns how far max_Omega lies above it.
template <class Own>
struct PairedThree {
  static constexpr int kParts = 2;
  template <bool kWeights, class V>
  static inline Cell<V, 2> next(const Three<Cell<V, 2>>& x, V score, Three<V>& q) {
    using T = typename Traits<V>::Number;
    const V nothing = -kInfinity<T> - V{}, zero = V{};
    const Three<V> high{x.diagonal.part[0], x.up.part[0], x.left.part[0]};
    const Three<V> low{x.diagonal.part[1], x.up.part[1], x.left.part[1]};
    const V largest = largest_of(high), top = largest == nothing ? zero : largest;
    const V lowest = largest_of(Three<V>{high.diagonal == top ? low.diagonal : nothing,
                                         high.up == top ? low.up : nothing, high.left == top ? low.left : nothing});
    const V rest = lowest == nothing ? zero : lowest;
    const V above =
        Own::template solve<kWeights>({(high.diagonal - top) + (low.diagonal - rest), (high.up - top) + (low.up - rest),
                                       (high.left - top) + (low.left - rest)},
                                      q);
    // The exact sum of top and score is `sum` + `lost`.
    const V best = settled(high, largest, top), sum = best + score, part = sum - best;
    const V lost = (best - (sum - part)) + (score - part);
    const V more = lost + (rest + above), value = sum + more;
    const V left = more - (value - sum);
    const V finite = value - value;  // zero, or NaN
    return {{finite == zero ? value : sum, finite == zero ? left : zero}};
  }
  template <class T>
  static T start(int) {
    return 0;
  }
  template <class T>
  static T none(int part) {
    return part == 0 ? -kInfinity<T> : T(0);
  }
  template <class T>
  static double value(const T* part, std::int64_t stride) {
    return static_cast<double>(part[0]) + static_cast<double>(part[stride]);
  }
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
  static inline Three<V> moved(const Three<V>&, const Three<V>&, V) {
    return {V{}, V{}, V{}};
  }
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
      // Weights that add up to less than 1 would lose a part of the flow in every cell of a long path. A single tail
      // has weight 1 exactly.
      const V missing = T(1) - (q.diagonal + q.up + q.left);
      q = {q.diagonal + q.diagonal * missing, q.up + q.up * missing, q.left + q.left * missing};
    }
    V k, more;
    const V m = split_octaves(sum * exp_in_octaves(score, k), more);
    return {{m, (top + k) + more}};
  }
  template <class V>
  static inline Three<V> moved(const Three<V>& q, const Three<V>& d, V mean) {
    return {q.diagonal * (d.diagonal - mean), q.up * (d.up - mean), q.left * (d.left - mean)};
  }

  template <class T>
  static T start(int part) {
    return part == 0 ? T(1) : T(0);
  }
  template <class T>
  static T none(int part) {
    return part == 0 ? T(0) : -kInfinity<T>;
  }
  template <class T>
  static double value(const T* part, std::int64_t stride) {
    return log_of_octaves<double>(part[0], part[stride]);
  }
};

// The threshold of the simplex projection is the largest of (sum of the k largest - 1) / k. The tails are given by
// their differences to the largest of them.
struct SquaredThree : PairedThree<SquaredThree> {
  template <bool kWeights, class V>
  static inline V solve(const Three<V>& x, Three<V>& q) {
    using T = typename Traits<V>::Number;
    const V a = x.diagonal, b = x.up, c = x.left;
    const V high = larger(a, b), low = a + b == a + b ? (a < b ? a : b) : a + b;
    const V middle = high < c ? high : c;  // the largest is 0, the smallest is below both others
    const V second = larger(low, middle), third = low < middle ? low : middle;
    V level = larger((second - T(1)) * T(0.5), T(-1) - V{});
    level = larger((second + third - T(1)) * T(1.0 / 3), level);
    q = {larger(a - level, V{}), larger(b - level, V{}), larger(c - level, V{})};
    const V squares = q.diagonal * q.diagonal + q.up * q.up + q.left * q.left;
    return T(0.5) * squares + level + T(0.5);
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
