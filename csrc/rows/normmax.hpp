// Normmax rows: argmax over the simplex of <p, x> - ||p||_alpha, 1 < alpha < inf (Blondel, Martins & Niculae, 2020).
//
// With e = 1/(alpha - 1) and z = (x - tau)_+ the weights are z^e divided by their sum, and tau solves sum z^(1 + e) = 1;
// the value of the maximum is tau + 1. Relative to the largest z, called c, u = (1 - d/c)_+ with d = max x - x, and c is
// where the norm of z,
//
//     c B^(1/(1 + e)) = 1,    B = sum u^(1 + e),    n^(-1/(1 + e)) <= c <= 1,
//
// is 1. The norm is convex and increasing in c, so Newton's method falls to the root from c = 1. All of it is in double
// precision: for large alpha the weights rise steeply where they leave zero, and c has to be known better than a float.
#pragma once

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "core/rows.hpp"
#include "core/vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// u^e for u = (1 + w)_+; alpha = 2 needs no logarithm.
inline double power_above(double w, double e, bool linear) {
  const double u = 1 + w, inside = u > 0 ? w : 0;
  const double power = linear ? u : exp_of<double>(e * log1p_normal<double>(inside));
  return u > 0 ? power : 0;
}

// The root c, given x - max x of the scores that can have weight.
inline double normmax_level(const double* shifted, std::int64_t count, double e) {
  const bool linear = e == 1;
  double c = 1;
  for (int iteration = 0; iteration < 200; ++iteration) {
    const double r = 1 / c;
    double powers = 0, sums = 0;
#pragma omp simd reduction(+ : powers, sums)
    for (std::int64_t i = 0; i < count; ++i) {
      const double w = shifted[i] * r, power = power_above(w, e, linear);
      powers += power;
      sums += power * (1 + w);
    }
    const double step = (c * sums - exp_of<double>(e / (1 + e) * log_normal<double>(sums))) / powers;
    if (!(step > std::numeric_limits<double>::epsilon() * c)) break;
    c -= step;
  }
  return c;
}

template <class T>
inline void normmax_row(const T* x, T* weights, T* value, std::int64_t n, double alpha, T* peaks, double* kept) {
  const Top<T> found = find_top(x, n, peaks);
  const bool valid = alpha > 1 && alpha < kInfinity<double>;
  if (!valid || !found.usual()) return fill_unusual(!valid || found.bad, weights, value, n);
  const double e = 1 / (alpha - 1), top = found.score;
  const T floor = just_below(found.score - 1);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) {  // no branch: write, and move on only if it counts
    kept[count] = x[i] - top;
    count += x[i] > floor;
  }
  const double c = normmax_level(kept, count, e), r = 1 / c;
  const bool linear = e == 1;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    kept[i] = power_above(kept[i] * r, e, linear);
    sum += kept[i];
  }
  const double scale = 1 / sum;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const bool inside = x[i] > floor;
    weights[i] = inside ? static_cast<T>(kept[at] * scale) : T(0);
    at += inside;
  }
  *value = static_cast<T>(top + (1 - c));
}

template <class T>
void run(const Normmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<T>(peaks_size<T>(n)) + Buffer::size<double>(n + 1));
  T* peaks = buffer.take<T>(peaks_size<T>(n));
  double* kept = buffer.take<double>(n + 1);
  for (std::int64_t row = begin; row < end; ++row)
    normmax_row(problem.scores + row * n, problem.weights + row * n, problem.value + row, n,
                problem.alphas != nullptr ? problem.alphas[row] : problem.alpha, peaks, kept);
}

// Jacobian times direction. tau moves by <p, v>, so z moves by v' = v - <p, v> on the support and
//
//     J v = m v' - p <m, v'>,    m = p / ((alpha - 1) z) = p (p/N)^(1 - alpha) / (alpha - 1),    N = ||p||_alpha.
//
// `p`, `v` and `logs` have room for the support of a row.
template <class T>
inline void normmax_product_row(const T* weights, const T* direction, T* out, std::int64_t n, double alpha, double* p,
                                double* v, double* logs) {
  std::int64_t count = 0;
  double mass = 0, mean = 0, top = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    p[count] = weights[i];
    v[count] = direction[i];
    count += weights[i] != 0;  // NaN counts, and makes the row NaN
    mass += weights[i];
  }
  const bool valid = alpha > 1 && alpha < kInfinity<double>;
  if (!(mass > 0) || !valid) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = mass == 0 && valid ? T(0) : kNaN<T>;
    return;
  }
#pragma omp simd reduction(+ : mean) reduction(max : top)
  for (std::int64_t i = 0; i < count; ++i) {
    mean += p[i] * v[i];
    top = p[i] > top ? p[i] : top;
  }
  const double log_top = log_of<double>(top);
  double powers = 0;
#pragma omp simd reduction(+ : powers)
  for (std::int64_t i = 0; i < count; ++i) {
    logs[i] = log_of<double>(p[i]) - log_top;
    powers += exp_of<double>(alpha * logs[i]);
  }
  const double log_norm = log_normal<double>(powers) / alpha, steep = 1 / (alpha - 1);  // beyond log_top
  double inner = 0;
#pragma omp simd reduction(+ : inner)
  for (std::int64_t i = 0; i < count; ++i) {
    logs[i] = p[i] * exp_of<double>((1 - alpha) * (logs[i] - log_norm)) * steep * (v[i] - mean);
    inner += logs[i];
  }
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const bool inside = weights[i] != 0;
    out[i] = inside ? static_cast<T>(logs[at] - p[at] * inner) : T(0);
    at += inside;
  }
}

template <class T>
void run(const NormmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(3 * Buffer::size<double>(n + 1));
  double* p = buffer.take<double>(n + 1);
  double* v = buffer.take<double>(n + 1);
  double* logs = buffer.take<double>(n + 1);
  for (std::int64_t row = begin; row < end; ++row)
    normmax_product_row(problem.weights + row * n, problem.direction + row * n, problem.product + row * n, n,
                        problem.alphas != nullptr ? problem.alphas[row] : problem.alpha, p, v, logs);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
