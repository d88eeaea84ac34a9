// Total variation denoising of many sequences: by the sweeps of taut_lanes.hpp where there are any, because these are
// faster, but not on every input; by the dynamic program of tv_program.hpp otherwise.
#pragma once

#include <cstdint>

#include "core/buffer.hpp"
#include "rows/taut_pieces.hpp"
#include "rows/tv_program.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// argmin_y 1/2 ||y - x||^2 + strength sum |y_{i+1} - y_i|.
//
// One step of the dynamic program waits for the one before it, so several sequences are solved side by side: the
// processor overlaps them.
class TotalVariation {
 public:
  static constexpr int kLanes = 4;

  using Task = TvTask;

  // For sequences of at most n entries.
  static std::int64_t bytes(std::int64_t n) { return kLanes * TvProgram::bytes(n) + TautPieces::bytes(n); }
  TotalVariation(Buffer& buffer, std::int64_t n) : pieces_(buffer, n) {
    for (TvProgram& lane : lanes_) lane.take(buffer, n);
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

  template <int kTogether>
  void solve_lanes(int used) {
    for (int begin = 0; begin < used; begin += kTogether) {
      TvProgram lanes[kTogether];  // copies, whose members can live in registers
      std::int64_t shortest = lanes_[begin].task.n;
      for (int l = 0; l < kTogether; ++l) {
        lanes[l] = lanes_[begin + l];
        lanes[l].begin();
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
  TvProgram lanes_[kLanes];
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
