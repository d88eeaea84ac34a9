// Entmax for alpha > 2, where weights leave zero with a vertical tangent and Newton's method on the threshold fails.
//
// With e = alpha - 1 > 1 and y = x - max x, the support is the set of i for which sum_j (e (y_j - y_i))_+^(1/e) < 1.
// Once its smallest member k is known, its weight w solves
//
//     sum_i (w^e + b_i)^(1/e) = 1,    b_i = e (y_i - y_k) >= 0.
//
// Each term is the e-norm of (w, b_i^(1/e)), convex in w: Newton's method descends to the root from w = 1/size.
// All in double precision, since the problem is badly conditioned and the rows have few candidates.
#pragma once

#include "core/rows.hpp"
#include "core/vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

inline Doubles power_or_zero(Doubles z, double order) {
  const Doubles zero{}, inside = z > zero ? z : zero + 1.0;
  return z > zero ? exp_of<Doubles>(order * log_of<Doubles>(inside)) : zero;
}

// sum (e (y - level))_+^(1/e); count is a multiple of the vector length.
inline double power_sum_above(const double* y, std::int64_t count, double level, double e) {
  Doubles sum{};
  for (std::int64_t i = 0; i < count; i += kLanes<double>) sum += power_or_zero(e * (load(y + i) - level), 1 / e);
  return sum_lanes<double>(sum);
}

// The smallest y that has weight: everything between `out` and `in` is undecided; ask one of them at a time.
inline double smallest_member(const double* y, std::int64_t count, double e) {
  double out = -1 / e, in = 0;
  for (;;) {
    double sum = 0, undecided = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool between = y[i] > out && y[i] < in;
      sum += between ? y[i] : 0;
      undecided += between;
    }
    if (undecided == 0) return in;
    const double mean = sum / undecided;
    double asked = in, below = out;  // the first one from the mean upwards; else (by rounding) the last one below
    for (std::int64_t i = 0; i < count; ++i) {
      if (y[i] >= mean && y[i] < asked) asked = y[i];
      if (y[i] < mean && y[i] > below) below = y[i];
    }
    if (asked >= in) asked = below;
    if (power_sum_above(y, count, asked, e) < 1) in = asked;
    else out = asked;
  }
}

template <class T>
inline void above_two_row(const T* x, double e, T* weights, T* value, std::int64_t n, T* peaks, T* candidates) {
  const Top<T> found = find_top(x, n, peaks);
  if (!found.usual()) return fill_unusual(found.bad, weights, value, n);
  const T top = found.score, floor = just_below(static_cast<T>(top - 1 / e));
  std::int64_t count = collect(x, n, peaks, floor, top, T(1), candidates);
  Buffer buffer(Buffer::size<double>(count + 2 * kLanes<double>));
  double* y = buffer.take<double>(count + 2 * kLanes<double>);
  for (std::int64_t i = 0; i < count; ++i) y[i] = candidates[i];
  count = pad(y, count, -4.0);
  const double lowest = smallest_member(y, count, e);

  std::int64_t size = 0;
  for (std::int64_t i = 0; i < count; ++i)
    if (y[i] >= lowest) y[size++] = e * (y[i] - lowest);
  const std::int64_t padded = pad(y, size, -1.0);  // negative: no member
  double w = 1.0 / static_cast<double>(size);
  for (int iteration = 0; iteration < 200; ++iteration) {
    const double we = __builtin_pow(w, e);
    double sum = 0, slope = 0;
    for (std::int64_t i = 0; i < padded; i += kLanes<double>) {
      const Doubles b = load(y + i), zero{};
      const Doubles u = b >= zero ? b + we : zero;
      // where b = 0 the term is w itself, even if w^e underflows
      Doubles term = power_or_zero(u, 1 / e);
      term = b == zero ? w - zero : term;
      Doubles ratio = u > zero ? term / u * (we / w) : zero;  // w^(e-1) u^(1/e-1)
      ratio = b == zero ? 1.0 - zero : ratio;
      sum += sum_lanes<double>(term);
      slope += sum_lanes<double>(ratio);
    }
    const double step = (sum - 1) / slope;
    if (!(step > std::numeric_limits<double>::epsilon() * w) || !(w - step > 0)) break;
    w -= step;
  }
  const double we = __builtin_pow(w, e);
  double sum = 0, lost = 0, excess = 0;  // a compensated sum
  const auto weigh = [&](T score) {
    const double above = e * (static_cast<double>(static_cast<T>(score - top)) - lowest);
    return above > 0 ? __builtin_pow(we + above, 1 / e) : above == 0 ? w : 0.0;
  };
  for (std::int64_t i = 0; i < n; ++i) {
    if (!(x[i] >= floor)) continue;
    const double weight = weigh(x[i]);
    const double term = weight - lost, next = sum + term;
    lost = (next - sum) - term;
    sum = next;
    if (weight > 0) excess += weight * (e * static_cast<double>(static_cast<T>(x[i] - top)));
  }
  for (std::int64_t i = 0; i < n; ++i) weights[i] = x[i] >= floor ? static_cast<T>(weigh(x[i]) / sum) : T(0);
  const double c = we - e * lowest;  // the largest weight to the power e
  *value = top + static_cast<T>(((1 - c) / e + excess / sum) / (1 + e));
}

// s (v - <s, v>/sum s) with s = p^(2 - alpha), huge where p is small: the differences are taken from the direction at
// the smallest weight, which dominates the mean, and its own product is what makes the total zero.
template <class T>
inline void above_two_product_row(const T* p, const T* v, double alpha, T* out, std::int64_t n) {
  std::int64_t pivot = -1;
  bool bad = false;
  for (std::int64_t i = 0; i < n; ++i) {
    bad |= !(p[i] >= 0);
    if (p[i] > 0 && (pivot < 0 || p[i] < p[pivot])) pivot = i;
  }
  if (bad || pivot < 0) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = bad ? kNaN<T> : T(0);
    return;
  }
  const double order = 2 - alpha, at_pivot = v[pivot], least = p[pivot];
  double sum = 0, mean = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (!(p[i] > 0)) continue;
    const double ratio = __builtin_pow(p[i] / least, order);  // at most 1
    sum += ratio;
    mean += ratio * (v[i] - at_pivot);
  }
  mean /= sum;
  double rest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (!(p[i] > 0) || i == pivot) {
      out[i] = 0;
      continue;
    }
    const double product = __builtin_pow(static_cast<double>(p[i]), order) * ((v[i] - at_pivot) - mean);
    out[i] = static_cast<T>(product);
    rest += product;
  }
  out[pivot] = static_cast<T>(-rest);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
