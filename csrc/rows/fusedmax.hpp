// Fusedmax rows: total variation denoising, then projection onto the simplex, both on the few candidates only.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "rows/candidates.hpp"
#include "rows/checks.hpp"
#include "rows/fused_levels.hpp"
#include "rows/fused_lockstep.hpp"
#include "rows/total_variation.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Whether any of x[from..to) is not removed (-inf).
template <class T>
inline bool any_kept(const T* x, std::int64_t from, std::int64_t to) {
  const T infinity = static_cast<T>(__builtin_inf());
  for (; from < to; ++from)
    if (x[from] != -infinity) return true;
  return false;
}

// A lower bound for the threshold of fusedmax: any set S of positions gives (sum_S x - strength Perimeter(S) - 1)/|S|.
// Among them are the whole row, and what Newton's method meets on its way to the threshold of sparsemax, which has two
// ends for each of its entries at most. `x`: the m candidates of n.
template <class T>
inline double least_threshold(const T* x, std::int64_t m, std::int64_t n, double strength) {
  double tau = -1, whole = -__builtin_inf();
  for (int iteration = 0; iteration < 5; ++iteration) {
    double sum = 0, count = 0;
#pragma omp simd reduction(+ : sum, count)
    for (std::int64_t i = 0; i < m; ++i) {
      sum += x[i] > tau ? static_cast<double>(x[i]) : 0;
      count += x[i] > tau ? 1.0 : 0.0;
    }
    const double next = (sum - 1) / count;
    if (m == n && count == static_cast<double>(n)) whole = next;
    if (!(next > tau)) break;
    tau = next;
  }
  const double sparse = tau - 2 * strength;
  return (sparse > whole ? sparse : whole) - 1e-12;
}

template <class T>
inline double count_above(const T* x, std::int64_t n, T level) {
  std::int32_t count = 0;
#pragma omp simd reduction(+ : count)
  for (std::int64_t i = 0; i < n; ++i) count += x[i] > level;
  return count;
}

// Why candidates suffice. The level sets {y > t} of the denoised row solve max_S sum_S (x_i - t) - strength
// Perimeter(S). An entry with x_i <= t - 2 strength is in no such set: taking it out gains 2 strength and costs at
// most as much. With a lower bound for the threshold, such as max x - 1 - 2 strength (take S = {argmax}), nothing at or
// below it by 2 strength matters except that it is low: the other entries fall into runs, and a run with a low
// neighbour is pulled down by strength at that end. The end itself, if it lies below the bound, only costs: it is low.
//
// x - y is a subgradient of the penalty at p = (y - tau)_+, and the penalty is homogeneous, so strength TV(p) = <x -
// y, p>: the value needs no total variation.
template <class T>
class FusedRows {
 public:
  explicit FusedRows(const Fusedmax<T>& problem)
      : problem_(problem), n_(problem.columns), buffer_(bytes(n_)), solver_(buffer_, n_),
        levels_(buffer_, n_ <= kLevelColumns ? n_ : 0) {
    for (int r = 0; r < rows_at_once(n_); ++r) {
      Row& row = rows_[r];
      row.found = buffer_.template take<T>(n_ + kSlack);
      row.position = buffer_.template take<std::int32_t>(n_ + kSlack);
      row.z = buffer_.template take<double>(n_);
      row.y = buffer_.template take<double>(n_ + kPad);
      row.together = buffer_.template take<bool>(n_);
    }
    tasks_ = buffer_.template take<Task>(rows_at_once(n_) * (n_ / 3 + 1));
  }

  void add(std::int64_t row) {
    used_ += prepare(rows_[used_], row);
    if (used_ == rows_at_once(n_)) finish();
  }

  // Solves what was added.
  void finish() {
    cut_crowded();
    solver_.solve(tasks_, task_count_);
    for (int r = 0; r < used_; ++r) write(rows_[r]);
    task_count_ = 0;
    used_ = 0;
  }

 private:
  using Task = TotalVariation::Task;
  static constexpr int kRows = 64;
  static constexpr double kFew = 0.7;
  static constexpr double kStrong = 16;                // from here on the denoised row is raised before it is projected
  static constexpr std::int64_t kLevelColumns = 8192;  // columns up to which rows are gathered for `LevelSets`
  static constexpr std::int64_t kCrowd = 24;    // candidates from which that pays, if they are a third of the row
  static constexpr std::int64_t kStretch = 64;  // scores compared before the first look at the result

  // Rows prepared before the solver runs: enough to fill its lanes, also when few runs of a short row need it, but no
  // more than stay in the cache.
  static int rows_at_once(std::int64_t n) { return n <= 256 ? kRows : n <= 1024 ? 32 : n <= 8192 ? 16 : 1; }

  struct Row {
    std::int64_t index, size;
    double top, least;       // the largest score; what no threshold is below, relative to it
    bool removed, crowded;   // some scores are removed; the candidates are many, and not yet cut into runs
    T* found;                // the candidates, relative to the largest score
    std::int32_t* position;  // and where they are
    double *z, *y;           // the same with the ends of runs pulled down; denoised
    bool* together;
  };

  static std::int64_t bytes(std::int64_t n) {
    return rows_at_once(n) * (Buffer::size<T>(n + kSlack) + Buffer::size<std::int32_t>(n + kSlack) +
                              2 * Buffer::size<double>(n + kPad) + Buffer::size<bool>(n)) +
           Buffer::size<Task>(rows_at_once(n) * (n / 3 + 1)) + TotalVariation::bytes(n) +
           (n <= kLevelColumns ? LevelSets::bytes(n) : 0);
  }

  // Gathers the candidates and, if there are few, cuts them into runs. False: the row needs no more.
  bool prepare(Row& row, std::int64_t index) {
    const T* x = problem_.scores + index * n_;
    const double strength = strength_of(index);
    const Extent<T> whole = extent(x, n_);
    mark_removed(x, whole.removed, problem_.joined + index * n_);
    if (fill_degenerate(whole, !valid_strength(strength), problem_.weights + index * n_, problem_.value + index, n_))
      return false;
    if (strength > 0 && !whole.removed && is_constant(x)) {
      write_constant(index, whole.top);
      return false;
    }
    row.index = index;
    row.top = whole.top;
    row.removed = whole.removed;
    std::int64_t m = gather_above(x, n_, whole.top, static_cast<T>(-1 - 4 * strength), row.found, row.position);
    double least = -1 - 2 * strength, better = least;
    if (m > 4) {
      better = least_threshold(row.found, m, n_, strength);
      // One long run is solved faster than as many short ones, unless these are much shorter together.
      const T level = just_below(static_cast<T>(better - 2 * strength));
      if (count_above(row.found, m, level) < kFew * static_cast<double>(m)) {
        m = gather_above(x, n_, whole.top, level, row.found, row.position);
        least = better;
      }
    }
    row.size = m;
    row.least = least;
    row.crowded = m > kCrowd && 3 * m > n_ && strength > 0 && n_ <= kLevelColumns;
    if (row.crowded && is_one_segment(row, strength)) row.crowded = false;
    else if (row.crowded) row.least = better > least ? better : least;
    else cut(row, strength);
    return true;
  }

  // All scores are the same, as where a model has not learnt yet: one segment.
  bool is_constant(const T* x) const {
    for (std::int64_t i = 0; i < n_; i += kStretch) {
      int differs = 0;
      const std::int64_t stop = i + kStretch < n_ ? i + kStretch : n_;
#pragma omp simd reduction(| : differs)
      for (std::int64_t j = i; j < stop; ++j) differs |= x[j] != x[0];
      if (differs) return false;
    }
    return true;
  }

  void write_constant(std::int64_t index, T top) const {
    const double share = 1 / static_cast<double>(n_);
    T* weights = problem_.weights + index * n_;
    for (std::int64_t i = 0; i < n_; ++i) weights[i] = static_cast<T>(share);
    std::memset(problem_.joined + index * n_ + 1, 1, n_ - 1);
    problem_.value[index] = static_cast<T>(top + (0.5 - 0.5 * share));
  }

  double strength_of(std::int64_t index) const {
    return problem_.strengths ? problem_.strengths[index] : problem_.strength;
  }

  // Whether all positions are candidates and turn out to be one segment, as in a constant row: then that is the answer.
  bool is_one_segment(Row& row, double strength) const {
    if (row.size < n_) return false;
    for (std::int64_t i = 0; i < n_; ++i) row.z[i] = row.found[i];
    return TotalVariation::solve_at_once({row.z, n_, strength, row.y, row.together});
  }

  // Finds a better bound for the rows with many candidates, and drops what is below it.
  void cut_crowded() {
    for (int r = 0; r < used_;) {
      int chosen[LevelSets::kRows], count = 0;
      for (; r < used_ && count < LevelSets::kRows; ++r) {
        const Row& row = rows_[r];
        if (!row.crowded) continue;
        levels_.set(count, problem_.scores + row.index * n_, row.top, strength_of(row.index), row.least);
        chosen[count++] = r;
      }
      if (count == 0) return;
      levels_.solve(count);
      for (int lane = 0; lane < count; ++lane) {
        Row& row = rows_[chosen[lane]];
        const T* x = problem_.scores + row.index * n_;
        std::int64_t m = 0;
        for (std::int64_t i = 0; i < n_; ++i) {  // no branch: write, and move on only if it counts
          row.found[m] = static_cast<T>(x[i] - row.top);
          row.position[m] = static_cast<std::int32_t>(i);
          m += levels_.contains(i, lane) & (x[i] > -kInfinity<T>);
        }
        row.size = m;
        row.least = levels_.bound(lane);
        cut(row, strength_of(row.index));
      }
    }
  }

  // Cuts the candidates into runs; short runs are solved on the spot.
  void cut(Row& row, double strength) {
    const T* x = problem_.scores + row.index * n_;
    const std::int64_t m = row.size;
    const double least = row.least;
    const std::int32_t* position = row.position;
    for (std::int64_t i = 0; i < m; ++i) row.z[i] = row.found[i];
    for (std::int64_t first = 0; first < m;) {
      std::int64_t last = first;
      while (last + 1 < m && (position[last + 1] == position[last] + 1 ||
                              (row.removed && !any_kept(x, position[last] + 1, position[last + 1]))))
        ++last;
      const auto drop = [&](std::int64_t k) {
        row.y[k] = -1 - 8 * strength;  // below every threshold
        row.together[k] = false;
      };
      const bool low_before = first > 0 || (row.removed ? any_kept(x, 0, position[first]) : position[first] > 0);
      const std::int64_t next = position[last] + 1;
      const bool low_after = last + 1 < m || (row.removed ? any_kept(x, next, n_) : next < n_);
      const std::int64_t after = last + 1;
      while (low_before && first < last && row.found[first] <= least) drop(first++);
      while (low_after && first < last && row.found[last] <= least) drop(last--);
      row.z[first] -= low_before ? strength : 0;
      row.z[last] -= low_after ? strength : 0;
      if (first == last) {
        row.y[first] = row.z[first];
        row.together[first] = false;
      } else {
        const Task task{row.z + first, last + 1 - first, strength, row.y + first, row.together + first};
        if (!TotalVariation::solve_at_once(task)) tasks_[task_count_++] = task;
      }
      first = after;
    }
  }

  // A removed position shows as joined without weight: the derivative by strength must know where it was.
  void mark_removed(const T* x, bool any, bool* joined) const {
    if (!any) {
      std::memset(joined, 0, n_);
      return;
    }
    const T infinity = static_cast<T>(__builtin_inf());
    for (std::int64_t i = 0; i < n_; ++i) joined[i] = x[i] == -infinity;
  }

  void write(Row& row) {
    T* weights = problem_.weights + row.index * n_;
    bool* joined = problem_.joined + row.index * n_;
    const double lift = strength_of(row.index) > kStrong ? raise(row) : 0;
    const SimplexThreshold threshold = project_simplex(row.y, row.size);
    double value = 0.5;
    if (row.size < n_) {
      std::memset(weights, 0, n_ * sizeof(T));
      for (std::int64_t k = 0; k < row.size; ++k) {
        const double p = threshold(row.y[k]);
        value += p * (row.y[k] - p / 2);
        const T weight = static_cast<T>(p);
        weights[row.position[k]] = weight;
        joined[row.position[k]] = row.together[k] & (weight > 0);
      }
    } else {
#pragma omp simd reduction(+ : value)
      for (std::int64_t k = 0; k < n_; ++k) {
        const double p = threshold(row.y[k]);
        value += p * (row.y[k] - p / 2);
        const T weight = static_cast<T>(p);
        weights[k] = weight;
        joined[k] = row.together[k] & (weight > 0);
      }
    }
    problem_.value[row.index] = static_cast<T>(row.top + lift + value);
  }

  // Takes the largest off the denoised row, and returns it. A great strength pulls the row down by about as much, to
  // where a double has no digits left for weights that sum to 1.
  static double raise(Row& row) {
    double top = row.y[0];
    for (std::int64_t k = 1; k < row.size; ++k) top = row.y[k] > top ? row.y[k] : top;
    for (std::int64_t k = 0; k < row.size; ++k) row.y[k] -= top;
    return top;
  }

  const Fusedmax<T>& problem_;
  std::int64_t n_;
  Buffer buffer_;
  TotalVariation solver_;
  LevelSets levels_;
  Row rows_[kRows];
  Task* tasks_;
  std::int64_t task_count_ = 0;
  int used_ = 0;
};

template <class T>
void run(const Fusedmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  FusedRows<T> general(problem);
  const bool strong = problem.strengths == nullptr && problem.strength > kLockstepStrength;
  if (kHasLockstep && n <= kLockstepColumns && !strong) {
    Buffer buffer(FusedShort<T>::bytes(n));
    FusedShort<T>(problem, buffer).run(begin, end, general);
  } else {
    for (std::int64_t row = begin; row < end; ++row) general.add(row);
  }
  general.finish();
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
