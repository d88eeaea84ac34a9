// Local problems side by side, one per lane: v = max_Omega over j of x_j, its weights q_j, and their derivative.
//
// A problem is a function j -> x_j (a vector: entry j of every lane's problem). What is kept of a solved problem are
// two numbers per lane, from which q_j is found again when x_j is: memory grows with the nodes of a chart, not with its
// edges. The maximum is kept apart from the rest because scores of 1e4 leave a float no digits for a log-partition.
//
//     Shannon       q = exp(x - top) * scale          v = top + log(1 / scale)
//     squared norm  q = (x - top - scale)_+           v = top + (1 + 2 scale + sum q^2)/2
//     hard          q = [j = scale]                   v = top
//
// A lane without any finite x has q = 0 and v = -inf; one with NaN or +inf has NaN.
#pragma once

#include "core/vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
struct Kept {
  Vector<T> top, scale;
};

// What the tangent keeps of a node: the derivative of its value, and what the directions are centred on.
template <class T>
struct Moved {
  Vector<T> value, centre;
};

template <class T>
inline bool all_zero(Vector<T> x) {
  return where_greater(splat(std::numeric_limits<T>::denorm_min()), x) == kAllLanes<T>;  // visits are >= 0 or NaN
}

template <class T>
inline Vector<T> zero_unless(Vector<T> kept, Vector<T> x) {
  return kept == Vector<T>{} ? Vector<T>{} : x;
}

// Copies the problem into `x` (kLanes per entry) and finds the maxima, which ignore NaN.
template <class T, class Entries>
inline Vector<T> gather_top(const Entries& entries, std::int64_t count, T* x) {
  Vector<T> top = splat(-kInfinity<T>);
  for (std::int64_t j = 0; j < count; ++j) {
    const Vector<T> entry = entries(j);
    store(x + j * kLanes<T>, entry);
    top = larger(entry, top);
  }
  return top;
}

// e^x for x <= 0; below the smallest normal number it is zero, so one factor holds the exponent.
template <class T>
inline Vector<T> exp_below(Vector<T> x) {
  using V = Vector<T>;
  using F = Format<T>;
  const V low = splat(T(sizeof(T) == 4 ? -87.0 : -708.0));
  const V inside = larger(low, x);  // in this order NaN stays
  const V shifted = inside * T(1.44269504088896340736) + F::kRounder;
  const auto k = bits_of<V>(shifted) - bits_of<V>(F::kRounder - V{});
  const V whole = shifted - F::kRounder;
  const V r = (inside - whole * F::kLn2High) - whole * F::kLn2Low;
  const V y = (exp_tail(r) * (r * r) + r) + T(1);
  const V result = y * from_bits<V>((k + F::kBias) << F::kFraction);
  return x < low ? V{} : result;
}

struct ShannonLanes {
  template <class T, class Entries>
  static Vector<T> solve(const Entries& entries, std::int64_t count, T* x, Kept<T>& kept) {
    const Vector<T> zero{}, top = gather_top(entries, count, x);
    kept.top = top == splat(-kInfinity<T>) ? zero : top;
    Vector<T> total{};
    for (std::int64_t j = 0; j < count; ++j) total += exp_below<T>(load(x + j * kLanes<T>) - kept.top);
    kept.scale = total == zero ? zero : T(1) / total;
    return kept.top + log_of<Vector<T>>(total);
  }

  template <class T>
  static Vector<T> weight(Vector<T> x, std::int64_t, const Kept<T>& kept) {
    return exp_below<T>(x - kept.top) * kept.scale;
  }

  template <class T, class Weights, class Along>
  static Moved<T> moved(const Weights& weights, const Along& along, std::int64_t count) {
    Vector<T> value{};
    for (std::int64_t j = 0; j < count; ++j) {
      const Vector<T> q = weights(j);
      value += zero_unless<T>(q, q * along(j));
    }
    return {value, value};
  }

  template <class T>
  static Vector<T> moved_weight(Vector<T> q, Vector<T> along, Vector<T> centre) {
    return zero_unless<T>(q, q * (along - centre));
  }
};

struct SquaredNormLanes {
  // Michelot's algorithm: tau climbs to the threshold from below; a lane that has arrived stays.
  template <class T, class Entries>
  static Vector<T> solve(const Entries& entries, std::int64_t count, T* x, Kept<T>& kept) {
    const Vector<T> zero{}, one = splat(T(1)), top = gather_top(entries, count, x);
    kept.top = top == splat(-kInfinity<T>) ? zero : top;
    for (std::int64_t j = 0; j < count; ++j) store(x + j * kLanes<T>, load(x + j * kLanes<T>) - kept.top);
    Vector<T> tau = -one, step;
    for (;;) {
      Vector<T> sum{}, size{};
      for (std::int64_t j = 0; j < count; ++j) {
        const Vector<T> z = larger(zero, load(x + j * kLanes<T>) - tau);  // in this order NaN stays
        sum += z;
        size += z > zero ? one : zero;
      }
      step = (sum - one) / larger(size, one);
      const Vector<T> enough = T(-2) * std::numeric_limits<T>::epsilon() * tau;
      if (where_greater(step, enough) == 0) break;
      tau = step > enough ? tau + step : tau;  // a larger tau: twice its last digit is more than rounding
    }
    kept.scale = tau + step;
    Vector<T> squares{};
    for (std::int64_t j = 0; j < count; ++j) {
      const Vector<T> q = larger(zero, load(x + j * kLanes<T>) - kept.scale);
      squares += q * q;
    }
    const Vector<T> value = kept.top + T(0.5) * (one + T(2) * kept.scale + squares);
    // No finite entry: minus infinity, but NaN if there is one, which the squares have noticed.
    return top == splat(-kInfinity<T>) ? top + zero * squares : value;
  }

  template <class T>
  static Vector<T> weight(Vector<T> x, std::int64_t, const Kept<T>& kept) {
    return larger(Vector<T>{}, (x - kept.top) - kept.scale);
  }

  template <class T, class Weights, class Along>
  static Moved<T> moved(const Weights& weights, const Along& along, std::int64_t count) {
    const Vector<T> one = splat(T(1));
    Vector<T> value{}, sum{}, size{};
    for (std::int64_t j = 0; j < count; ++j) {
      const Vector<T> q = weights(j), v = along(j);
      value += zero_unless<T>(q, q * v);
      sum += zero_unless<T>(q, v);
      size += zero_unless<T>(q, one);
    }
    return {value, sum / larger(size, one)};
  }

  template <class T>
  static Vector<T> moved_weight(Vector<T> q, Vector<T> along, Vector<T> centre) {
    return zero_unless<T>(q, (along - centre) + T(0) * q);  // keeps NaN
  }
};

struct HardLanes {
  template <class T, class Entries>
  static Vector<T> solve(const Entries& entries, std::int64_t count, T*, Kept<T>& kept) {
    const Vector<T> infinity = splat(kInfinity<T>), nan = splat(kNaN<T>);
    Vector<T> top = -infinity, best = splat(T(-1)), bad{};
    for (std::int64_t j = 0; j < count; ++j) {
      const Vector<T> x = entries(j);
      bad = x < infinity ? bad : nan;
      best = x > top ? splat(static_cast<T>(j)) : best;  // the first of equals
      top = larger(x, top);
    }
    kept.top = top;
    kept.scale = best + bad;
    return top + bad;
  }

  template <class T>
  static Vector<T> weight(Vector<T>, std::int64_t j, const Kept<T>& kept) {
    const Vector<T> one = splat(T(1));
    return (kept.scale == splat(static_cast<T>(j)) ? one : Vector<T>{}) + T(0) * kept.scale;
  }

  template <class T, class Weights, class Along>
  static Moved<T> moved(const Weights& weights, const Along& along, std::int64_t count) {
    return {ShannonLanes::moved<T>(weights, along, count).value, Vector<T>{}};
  }

  template <class T>
  static Vector<T> moved_weight(Vector<T> q, Vector<T>, Vector<T>) {
    return T(0) * q;
  }
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
