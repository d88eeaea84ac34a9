// One-dimensional total variation denoising in linear time on every input: Johnson's dynamic programming (2013).
#pragma once

#include <cstdint>
#include <cstring>

#include "core/buffer.hpp"
#include "rows/segments.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Let f_k(b) be the least cost of the first k + 1 entries with y_k = b. Its derivative is piecewise linear and
// increasing; f'_{k+1}(b) = clip(f'_k(b), -strength, strength) + b - x_{k+1}. The knots of f'_k lie between the two
// points low_k and high_k where f'_k crosses -strength and strength, and a step only removes knots from both ends and
// adds one at each, so all steps together are linear. Backwards, y_k = clip(y_{k+1}, low_k, high_k): strictly inside,
// the two are joined.
struct TvProgram {
  // To the right of `at` the derivative is (slope + c) b + (offset - s), where c counts the entries seen so far and s
  // is their sum: so a step, which adds b - x_k everywhere, touches no knot but the outermost ones.
  struct Knot {
    double at, slope, offset;
  };
  struct Band {
    double low, high;
  };

  // For sequences of at most n entries.
  static std::int64_t bytes(std::int64_t n) { return Buffer::size<Knot>(2 * n + 10) + Buffer::size<Band>(n); }
  void take(Buffer& buffer, std::int64_t n) {
    middle = n + 4;
    knots = buffer.take<Knot>(2 * n + 10);
    bands = buffer.take<Band>(n);
  }

  TvTask task;
  std::int64_t middle;
  Knot* knots;
  Band* bands;
  Knot* first;
  Knot* last;
  double centre, count, sum;

  // Sums of entries centred at their mean stay small.
  void begin() {
    const double* x = task.x;
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < task.n; ++i) total += x[i];
    centre = total / static_cast<double>(task.n);
    std::memset(knots + middle - 4, 0, 10 * sizeof(Knot));  // places that are looked at before they are first used
    first = knots + middle;
    last = first + 1;
    const double start = x[0] - centre;
    bands[0] = {start - task.strength, start + task.strength};
    first->at = bands[0].low;
    last->at = bands[0].high;
    count = 1;
    sum = start;
  }

  __attribute__((always_inline)) double value(const Knot& knot) const {
    return (knot.slope + count) * knot.at + (knot.offset - sum);
  }

  // Outside all knots the derivative is b - x_k -+ strength.
  __attribute__((always_inline)) void add(std::int64_t k) {
    const double before = sum;
    count += 1;
    sum += task.x[k] - centre;
    first[-1].slope = last->slope = 1 - count;
    first[-1].offset = before - task.strength;
    last->offset = before + task.strength;
  }

  // Finds low_k and high_k. How many knots go at each end cannot be predicted by the processor, so how many of the
  // four outermost are beyond the bound is counted without a branch; more than four are rare.
  __attribute__((always_inline)) void clip(std::int64_t k) {
    const double bound = task.strength;
    const std::int64_t left_1 = value(first[0]) <= -bound, left_2 = left_1 & (value(first[1]) <= -bound);
    const std::int64_t left_3 = left_2 & (value(first[2]) <= -bound), left_4 = left_3 & (value(first[3]) <= -bound);
    const std::int64_t right_1 = value(last[0]) >= bound, right_2 = right_1 & (value(last[-1]) >= bound);
    const std::int64_t right_3 = right_2 & (value(last[-2]) >= bound);
    const std::int64_t right_4 = right_3 & (value(last[-3]) >= bound);
    std::int64_t left = left_1 + left_2 + left_3 + left_4, right = right_1 + right_2 + right_3 + right_4;
    const std::int64_t live = last + 1 - first;
    if (left == 4)
      while (left < live && value(first[left]) <= -bound) ++left;
    if (right == 4)
      while (right < live && value(last[-right]) >= bound) ++right;
    left = left < live ? left : live;  // what lies beyond are knots removed earlier
    right = right < live - left ? right : live - left;
    first += left - 1;
    last -= right;
    const double low = (sum - bound - first->offset) / (first->slope + count);
    const double high = (sum + bound - last->offset) / (last->slope + count);
    first->at = low;
    ++last;
    last->at = high;
    bands[k] = {low, high};
  }

  // The minimiser of the last f, which is the value of the last entry.
  double minimiser() {
    while (first <= last && value(*first) <= 0) ++first;
    return (sum - first[-1].offset) / (first[-1].slope + count);
  }

  // Backwards through the bands; where the solution leaves one, a segment ends.
#if defined(__AVX512F__)
  void backward(double current) const {
    unsigned char* marks = task.marks();
    for (std::int64_t i = task.n - 1; i > 0; --i) {
      const Band band = bands[i - 1];
      marks[i] = current >= band.high ? kRises : current <= band.low ? kFalls : kJoined;
      current = current >= band.high ? band.high : current <= band.low ? band.low : current;
    }
    finish_segments(task);
  }
#else
  // The values of the segments are those of segments.hpp.
  void backward(double current) const {
    double total = 0, right = 0;  // right: +-strength towards the following segment, 0 at the end of the sequence
    std::int64_t end = task.n;
    for (std::int64_t k = task.n - 1; k >= 0; --k) {
      total += task.x[k];
      double left = 0;
      if (k > 0) {
        const Band band = bands[k - 1];
        if (current > band.low && current < band.high) {
          task.joined[k] = true;
          continue;
        }
        const bool rising = current >= band.high;
        left = rising ? -task.strength : task.strength;
        current = rising ? band.high : band.low;
      }
      task.joined[k] = false;
      const double mean = (total + (right + left)) / static_cast<double>(end - k);
      for (std::int64_t i = k; i < end; ++i) task.y[i] = mean;
      end = k;
      right = -left;
      total = 0;
    }
  }
#endif
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
