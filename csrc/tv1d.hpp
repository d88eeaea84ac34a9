// One-dimensional total variation denoising in linear time on every input: Johnson's dynamic programming (2013), after
// the sweeps of taut_lanes.hpp where there are any: these are faster, but not on every input.
#pragma once

#include <cstdint>
#include <cstring>

#include "buffer.hpp"
#include "problems.hpp"
#include "strength.hpp"
#include "taut_pieces.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// argmin_y 1/2 ||y - x||^2 + strength sum |y_{i+1} - y_i|, for one sequence at a time.
//
// Let f_k(b) be the least cost of the first k + 1 entries with y_k = b. Its derivative is piecewise linear and
// increasing; f'_{k+1}(b) = clip(f'_k(b), -strength, strength) + b - x_{k+1}. The knots of f'_k lie between the two
// points low_k and high_k where f'_k crosses -strength and strength, and a step only removes knots from both ends and
// adds one at each, so all steps together are linear. Backwards, y_k = clip(y_{k+1}, low_k, high_k): strictly inside,
// the two are joined.
//
// One step waits for the one before it, so several sequences are solved side by side: the processor overlaps them.
class TotalVariation {
 public:
  static constexpr int kLanes = 4;

  using Task = TvTask;

  // For sequences of at most n entries.
  static std::int64_t bytes(std::int64_t n) {
    return kLanes * (Buffer::size<Knot>(2 * n + 10) + Buffer::size<Band>(n)) + TautPieces::bytes(n);
  }
  TotalVariation(Buffer& buffer, std::int64_t n) : pieces_(buffer, n), middle_(n + 4) {
    for (Lane& lane : lanes_) {
      lane.knots = buffer.take<Knot>(2 * n + 10);
      lane.bands = buffer.take<Band>(n);
    }
  }

  // The tasks are used up.
  void solve(Task* tasks, std::int64_t count) {
    if constexpr (kHasTautLanes) count = leave_hard(tasks, count);
    int used = 0;
    for (std::int64_t t = 0; t < count; ++t) {
      if (!kHasTautLanes && solve_at_once(tasks[t])) continue;
      lanes_[used].task = tasks[t];
      if (++used == kLanes) {
        solve_lanes<kLanes>(kLanes);
        used = 0;
      }
    }
    solve_lanes<1>(used);
  }

  // Too short or too simple to need the dynamic program.
  static bool solve_at_once(const Task& task) {
    const double* x = task.x;
    double* y = task.y;
    if (task.n == 2) {
      const double gap = x[1] - x[0];
      const bool joined = gap < 2 * task.strength && gap > -2 * task.strength;
      const double pull = gap > 0 ? task.strength : -task.strength;
      y[0] = joined ? (x[0] + x[1]) / 2 : x[0] + pull;
      y[1] = joined ? y[0] : x[1] - pull;
      task.joined[0] = false;
      task.joined[1] = joined;
      return true;
    }
    if (task.n > 2 && task.strength > 0) return is_one_segment(task);
    for (std::int64_t i = 0; i < task.n; ++i) {
      y[i] = x[i];
      task.joined[i] = false;
    }
    return true;
  }

 private:
  // To the right of `at` the derivative is (slope + c) b + (offset - s), where c counts the entries seen so far and s
  // is their sum: so a step, which adds b - x_k everywhere, touches no knot but the outermost ones.
  struct Knot { double at, slope, offset; };
  struct Band { double low, high; };

  // The whole sequence is one segment if the dual, the cumulative sum of x - mean, stays within the strength.
  static bool is_one_segment(const Task& task) {
    const double* x = task.x;
    double mean = 0;
#pragma omp simd reduction(+ : mean)
    for (std::int64_t i = 0; i < task.n; ++i) mean += x[i];
    mean /= static_cast<double>(task.n);
    double dual = 0;
    for (std::int64_t i = 0; i + 1 < task.n; ++i) {
      dual += x[i] - mean;
      if (!(dual < task.strength && dual > -task.strength)) return false;
    }
    for (std::int64_t i = 0; i < task.n; ++i) {
      task.y[i] = mean;
      task.joined[i] = i > 0;
    }
    return true;
  }

  struct Lane {
    Task task;
    Knot* knots;
    Band* bands;
    Knot* first;
    Knot* last;
    double centre, count, sum;

    // Sums of entries centred at their mean stay small.
    void begin(std::int64_t middle) {
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
      if (left == 4) while (left < live && value(first[left]) <= -bound) ++left;
      if (right == 4) while (right < live && value(last[-right]) >= bound) ++right;
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

  template <int kTogether>
  void solve_lanes(int used) {
    for (int begin = 0; begin < used; begin += kTogether) {
      Lane lanes[kTogether];  // copies, whose members can live in registers
      std::int64_t shortest = lanes_[begin].task.n;
      for (int l = 0; l < kTogether; ++l) {
        lanes[l] = lanes_[begin + l];
        lanes[l].begin(middle_);
        shortest = lanes[l].task.n < shortest ? lanes[l].task.n : shortest;
      }
      for (std::int64_t k = 1; k + 1 < shortest; ++k) {
        for (int l = 0; l < kTogether; ++l) {
          lanes[l].add(k);
          lanes[l].clip(k);
        }
      }
      for (int l = 0; l < kTogether; ++l) {
        const std::int64_t last = lanes[l].task.n - 1;
        for (std::int64_t k = shortest - 1; k < last; ++k) {
          lanes[l].add(k);
          lanes[l].clip(k);
        }
        lanes[l].add(last);
        lanes[l].backward(lanes[l].minimiser());
      }
    }
  }

#if defined(__AVX512F__)
  // Solves most, moves those that would take long to the front and returns how many these are.
  std::int64_t leave_hard(Task* tasks, std::int64_t count) {
    const Task *waiting = tasks, *end = tasks + count;
    std::int64_t hard = 0;
    TautLanes().solve(
        [&](Task& task) {
          for (; waiting < end; ++waiting) {
            if (solve_at_once(*waiting)) continue;
            if (waiting->n >= TautPieces::kFrom) {
              if (!pieces_.solve(*waiting)) tasks[hard++] = *waiting;
              continue;
            }
            task = *waiting++;
            return true;
          }
          return false;
        },
        [&](const Task& task) { tasks[hard++] = task; });
    return hard;
  }
#else
  static std::int64_t leave_hard(Task*, std::int64_t count) { return count; }
#endif

  TautPieces pieces_;
  Lane lanes_[kLanes];
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

template <class T>
void run(const ProxTv1d<T>& problem, std::int64_t begin, std::int64_t end) {
  using Task = TotalVariation::Task;
  constexpr int most = 64;
  const std::int64_t n = problem.columns;
  const int together = n <= 512 ? most : 16;  // enough to fill the lanes
  Buffer buffer(2 * Buffer::size<double>(together * n) + TotalVariation::bytes(n));
  double* x = buffer.take<double>(together * n);
  double* y = buffer.take<double>(together * n);
  TotalVariation solver(buffer, n);
  Task tasks[most];
  int used = 0;
  const auto finish = [&] {
    std::int64_t rows[most];
    for (int t = 0; t < used; ++t) rows[t] = tasks[t].joined - problem.joined;
    solver.solve(tasks, used);
    for (int t = 0; t < used; ++t)
      for (std::int64_t i = 0; i < n; ++i) problem.solution[rows[t] + i] = static_cast<T>(y[t * n + i]);
    used = 0;
  };
  for (std::int64_t row = begin; row < end; ++row) {
    const T* in = problem.rows + row * n;
    bool* joined = problem.joined + row * n;
    const double strength = problem.strengths ? problem.strengths[row] : problem.strength;
    if (!valid_strength(strength) || !all_finite(in, n)) {
      for (std::int64_t i = 0; i < n; ++i) problem.solution[row * n + i] = static_cast<T>(__builtin_nan(""));
      std::memset(joined, 0, n);
      continue;
    }
    for (std::int64_t i = 0; i < n; ++i) x[used * n + i] = in[i];
    tasks[used] = {x + used * n, n, strength, y + used * n, joined};
    if (++used == together) finish();
  }
  finish();
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
