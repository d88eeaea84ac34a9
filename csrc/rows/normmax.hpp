// Normmax rows: argmax over the simplex of <p, x> - ||p||_alpha, 1 < alpha < inf (Blondel, Martins & Niculae, 2020).
//
// With e = 1/(alpha - 1) and z = (x - tau)_+ the weights are z^e divided by their sum, and tau solves sum z^(1 + e) =
// 1; the value of the maximum is tau + 1. Relative to the largest z, called c, u = (1 - d/c)_+ with d = max x - x, and
// c is where the norm of z,
//
//     c B^(1/(1 + e)) = 1,    B = sum u^(1 + e),    n^(-1/(1 + e)) <= c <= 1,
//
// is 1. The norm is convex and increasing in c, so Newton's method falls to the root from c = 1. All of it is in double
// precision: for large alpha the weights rise steeply where they leave zero, and c has to be known better than a float.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "core/rows.hpp"
#include "core/vector_math.hpp"
#include "rows/candidates.hpp"

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

constexpr std::int64_t kSumBlock = 64;

template <class T>
struct NormmaxBuffers {
  T* peaks;
  T* shifted;  // what `gather_above` writes beside the positions
  std::int32_t* position;
  double* kept;
};

template <class T>
inline void normmax_row(const T* x, T* weights, T* value, std::int64_t n, double alpha, NormmaxBuffers<T> buffers) {
  const Top<T> found = find_top(x, n, buffers.peaks);
  const bool valid = alpha > 1 && alpha < kInfinity<double>;
  if (!valid || !found.usual()) return fill_unusual(!valid || found.bad, weights, value, n);
  const double e = 1 / (alpha - 1), top = found.score;
  const std::int64_t count = gather_above(x, n, found.score, just_below(T(-1)), buffers.shifted, buffers.position);
  double* const kept = buffers.kept;
  for (std::int64_t i = 0; i < count; ++i) kept[i] = x[buffers.position[i]] - top;
  const double c = normmax_level(kept, count, e), r = 1 / c;
  const bool linear = e == 1;
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += kSumBlock) {  // or the rounding of many equal weights adds up
    const std::int64_t last = first + kSumBlock < count ? first + kSumBlock : count;
    double block = 0;
#pragma omp simd reduction(+ : block)
    for (std::int64_t i = first; i < last; ++i) {
      kept[i] = power_above(kept[i] * r, e, linear);
      block += kept[i];
    }
    sum += block;
  }
  const double scale = 1 / sum;
  std::fill(weights, weights + n, T(0));
  for (std::int64_t i = 0; i < count; ++i) weights[buffers.position[i]] = static_cast<T>(kept[i] * scale);
  *value = static_cast<T>(top + (1 - c));
}

template <class T>
void run(const Normmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns, room = n + kSlack;
  Buffer buffer(Buffer::size<T>(peaks_size<T>(n)) + Buffer::size<T>(room) + Buffer::size<std::int32_t>(room) +
                Buffer::size<double>(n));
  NormmaxBuffers<T> buffers{};
  buffers.peaks = buffer.take<T>(peaks_size<T>(n));
  buffers.shifted = buffer.take<T>(room);
  buffers.position = buffer.take<std::int32_t>(room);
  buffers.kept = buffer.take<double>(n);
  for (std::int64_t row = begin; row < end; ++row)
    normmax_row(problem.scores + row * n, problem.weights + row * n, problem.value + row, n,
                problem.alphas != nullptr ? problem.alphas[row] : problem.alpha, buffers);
}

// The positions with weight, in order; NaN counts. Blocks without any are passed over.
template <class T>
inline std::int64_t find_support(const T* weights, std::int64_t n, std::int32_t* position) {
  constexpr std::int64_t kStep = 32;
  std::int64_t count = 0;
  for (std::int64_t first = 0; first < n; first += kStep) {
    const std::int64_t last = first + kStep < n ? first + kStep : n;
    int hits = 0;
#pragma omp simd reduction(| : hits)
    for (std::int64_t i = first; i < last; ++i) hits |= weights[i] != 0;
    if (hits == 0) continue;
    for (std::int64_t i = first; i < last; ++i) {  // no branch: write, and move on only if it counts
      position[count] = static_cast<std::int32_t>(i);
      count += weights[i] != 0;
    }
  }
  return count;
}

// Jacobian times direction. tau moves by <p, v>, so z moves by v' = v - <p, v> on the support and
//
//     J v = m v' - p <m, v'>,    m = p / ((alpha - 1) z) = p (p/N)^(1 - alpha) / (alpha - 1),    N = ||p||_alpha.
//
// The arrays have room for the support of a row.
struct NormmaxProductBuffers {
  double *p, *v, *logs;
  std::int32_t* position;
};

template <class T>
inline void normmax_product_row(const T* weights, const T* direction, T* out, std::int64_t n, double alpha,
                                NormmaxProductBuffers buffers) {
  double *const p = buffers.p, *const v = buffers.v, *const logs = buffers.logs;
  const std::int64_t count = find_support(weights, n, buffers.position);
  double mass = 0, mean = 0, top = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    p[i] = weights[buffers.position[i]];
    v[i] = direction[buffers.position[i]];
    mass += p[i];  // NaN makes the row NaN
  }
  const bool valid = alpha > 1 && alpha < kInfinity<double>;
  std::fill(out, out + n, valid && mass >= 0 ? T(0) : kNaN<T>);
  if (!valid || !(mass > 0)) return;
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
  for (std::int64_t i = 0; i < count; ++i) out[buffers.position[i]] = static_cast<T>(logs[i] - p[i] * inner);
}

template <class T>
void run(const NormmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(3 * Buffer::size<double>(n) + Buffer::size<std::int32_t>(n + 1));
  NormmaxProductBuffers buffers{};
  buffers.p = buffer.take<double>(n);
  buffers.v = buffer.take<double>(n);
  buffers.logs = buffer.take<double>(n);
  buffers.position = buffer.take<std::int32_t>(n + 1);
  for (std::int64_t row = begin; row < end; ++row)
    normmax_product_row(problem.weights + row * n, problem.direction + row * n, problem.product + row * n, n,
                        problem.alphas != nullptr ? problem.alphas[row] : problem.alpha, buffers);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
