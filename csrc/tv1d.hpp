// One-dimensional total variation denoising in linear time on every input: Johnson's dynamic programming (2013).
#pragma once

#include <cstdint>
#include <cstring>

#include "buffer.hpp"
#include "problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// argmin_y 1/2 ||y - x||^2 + strength sum |y_{i+1} - y_i|, for one sequence at a time.
//
// Let f_k(b) be the least cost of the first k + 1 entries with y_k = b. Its derivative is piecewise linear and
// increasing; f'_{k+1}(b) = clip(f'_k(b), -strength, strength) + b - x_{k+1}. The knots of f'_k lie between the two points
// low_k and high_k where f'_k crosses -strength and strength, and a step only removes knots from both ends and adds one at each, so
// all steps together are linear. Backwards, y_k = clip(y_{k+1}, low_k, high_k): strictly inside, the two are joined.
class TotalVariation {
 public:
  static std::int64_t bytes(std::int64_t n) { return Buffer::size<Knot>(2 * n + 10) + Buffer::size<Band>(n); }
  TotalVariation(Buffer& buffer, std::int64_t n)
      : knots_(buffer.take<Knot>(2 * n + 10)), bands_(buffer.take<Band>(n)), middle_(n + 4) {}

  // Works on n entries (at most the size given when made). joined[k] says that k and k - 1 are in one segment.
  void solve(const double* x, std::int64_t n, double strength, double* y, bool* joined) {
    if (n == 0) return;
    joined[0] = false;
    if (n == 1) { y[0] = x[0]; return; }
    if (n == 2) return solve_pair(x, strength, y, joined);
    if (strength == 0) {
      for (std::int64_t i = 0; i < n; ++i) {
        y[i] = x[i];
        joined[i] = false;
      }
      return;
    }
    double centre = 0;
#pragma omp simd reduction(+ : centre)
    for (std::int64_t i = 0; i < n; ++i) centre += x[i];
    centre /= static_cast<double>(n);
    backward(x, n, strength, forward(x, n, strength, centre), y, joined);
  }

 private:
  // To the right of `at` the derivative is (slope + c) b + (offset - s), where c counts the entries seen so far and s is
  // their sum: so a step, which adds b - x_k everywhere, touches no knot but the outermost ones.
  struct Knot { double at, slope, offset; };
  struct Band { double low, high; };

  static void solve_pair(const double* x, double strength, double* y, bool* joined) {
    const double gap = x[1] - x[0];
    joined[1] = gap < 2 * strength && gap > -2 * strength;
    const double pull = gap > 0 ? strength : -strength;
    y[0] = joined[1] ? (x[0] + x[1]) / 2 : x[0] + pull;
    y[1] = joined[1] ? y[0] : x[1] - pull;
  }

  // Fills the bands of all entries but the last; returns the minimiser of f_{n-1}, the value of the last entry.
  //
  // How many knots a step removes at each end cannot be predicted by the processor. So how many of the
  // four outermost are beyond the bound is counted without a branch; more than four are rare.
  double forward(const double* x, std::int64_t n, double strength, double centre) {
    std::memset(knots_ + middle_ - 4, 0, 10 * sizeof(Knot));  // places that are looked at before they are first used
    Knot* first = knots_ + middle_;
    Knot* last = first + 1;
    const double start = x[0] - centre;
    bands_[0] = {start - strength, start + strength};
    first->at = bands_[0].low;
    first->slope = 0;
    first->offset = 0;
    last->at = bands_[0].high;
    double count = 1, sum = start;
    for (std::int64_t k = 1; k < n; ++k) {
      const double entry = x[k] - centre;
      count += 1;
      sum += entry;
      const double outer = sum - entry;
      first[-1].slope = last->slope = 1 - count;  // outside all knots the derivative is b - x_k -+ strength
      first[-1].offset = outer - strength;
      last->offset = outer + strength;
      const auto value = [count, sum](const Knot& knot) { return (knot.slope + count) * knot.at + (knot.offset - sum); };
      if (k + 1 == n) {
        while (first <= last && value(*first) <= 0) ++first;
        return (sum - first[-1].offset) / (first[-1].slope + count);
      }
      const std::int64_t left_1 = value(first[0]) <= -strength, left_2 = left_1 & (value(first[1]) <= -strength);
      const std::int64_t left_3 = left_2 & (value(first[2]) <= -strength), left_4 = left_3 & (value(first[3]) <= -strength);
      const std::int64_t right_1 = value(last[0]) >= strength, right_2 = right_1 & (value(last[-1]) >= strength);
      const std::int64_t right_3 = right_2 & (value(last[-2]) >= strength), right_4 = right_3 & (value(last[-3]) >= strength);
      std::int64_t left = left_1 + left_2 + left_3 + left_4, right = right_1 + right_2 + right_3 + right_4;
      const std::int64_t knots = last + 1 - first;
      if (left == 4) while (left < knots && value(first[left]) <= -strength) ++left;
      if (right == 4) while (right < knots && value(last[-right]) >= strength) ++right;
      left = left < knots ? left : knots;  // what lies beyond are knots removed earlier
      right = right < knots - left ? right : knots - left;
      first += left - 1;
      last -= right;
      const double low = (sum - strength - first->offset) / (first->slope + count);
      const double high = (sum + strength - last->offset) / (last->slope + count);
      first->at = low;
      ++last;
      last->at = high;
      bands_[k] = {low, high};
    }
    return start;
  }

  // The segments come from the bands; their values from the optimality condition, so that they are exact to rounding:
  // mean of x over the segment, moved by strength towards each neighbouring segment.
  void backward(const double* x, std::int64_t n, double strength, double current, double* y, bool* joined) {
    double sum = 0, right = 0;  // right: +-strength towards the following segment, 0 at the end of the sequence
    std::int64_t end = n;
    for (std::int64_t k = n - 1; k >= 0; --k) {
      sum += x[k];
      double left = 0;
      if (k > 0) {
        const Band band = bands_[k - 1];
        if (current > band.low && current < band.high) {
          joined[k] = true;
          continue;
        }
        const bool rising = current >= band.high;
        left = rising ? -strength : strength;
        current = rising ? band.high : band.low;
      }
      joined[k] = false;
      const double mean = (sum + (right + left)) / static_cast<double>(end - k);
      for (std::int64_t i = k; i < end; ++i) y[i] = mean;
      end = k;
      right = -left;
      sum = 0;
    }
  }

  Knot* knots_;
  Band* bands_;
  std::int64_t middle_;
};

template <class T>
inline bool all_finite(const T* x, std::int64_t n) {
  const T infinity = static_cast<T>(__builtin_inf());
  int bad = 0;
#pragma omp simd reduction(| : bad)
  for (std::int64_t i = 0; i < n; ++i) bad |= !(x[i] < infinity) | !(x[i] > -infinity);
  return bad == 0;
}

inline bool valid_strength(double strength) { return strength >= 0 && strength < __builtin_inf(); }

template <class T>
void run(const ProxTv1d<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(2 * Buffer::size<double>(n) + TotalVariation::bytes(n));
  double* x = buffer.take<double>(n);
  double* y = buffer.take<double>(n);
  TotalVariation solver(buffer, n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* in = problem.rows + row * n;
    T* out = problem.solution + row * n;
    bool* joined = problem.joined + row * n;
    const double strength = problem.strengths ? problem.strengths[row] : problem.strength;
    if (!valid_strength(strength) || !all_finite(in, n)) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(__builtin_nan(""));
      std::memset(joined, 0, n);
      continue;
    }
    for (std::int64_t i = 0; i < n; ++i) x[i] = in[i];
    solver.solve(x, n, strength, y, joined);
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(y[i]);
  }
}

template <class T>
void run(const SegmentMean<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  for (std::int64_t row = begin; row < end; ++row) {
    const bool* joined = problem.joined + row * n;
    const T* v = problem.direction + row * n;
    T* out = problem.mean + row * n;
    for (std::int64_t start = 0; start < n;) {
      double sum = v[start];
      std::int64_t stop = start + 1;
      for (; stop < n && joined[stop]; ++stop) sum += v[stop];
      const T mean = static_cast<T>(sum / static_cast<double>(stop - start));
      for (std::int64_t i = start; i < stop; ++i) out[i] = mean;
      start = stop;
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
