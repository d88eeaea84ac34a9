// Fusedmax rows: total variation denoising, then projection onto the simplex, both on the few candidates only.
#pragma once

#include <cstdint>
#include <cstring>

#include "buffer.hpp"
#include "candidates.hpp"
#include "fused_lockstep.hpp"
#include "problems.hpp"
#include "strength.hpp"
#include "total_variation.hpp"

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
      : problem_(problem), n_(problem.columns), buffer_(bytes(n_)), solver_(buffer_, n_) {
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
    solver_.solve(tasks_, task_count_);
    for (int r = 0; r < used_; ++r) write(rows_[r]);
    task_count_ = 0;
    used_ = 0;
  }

 private:
  using Task = TotalVariation::Task;
  static constexpr int kRows = 64;
  static constexpr double kFew = 0.7;

  // Rows prepared before the solver runs: enough to fill its lanes, also when few runs of a short row need it, but no
  // more than stay in the cache.
  static int rows_at_once(std::int64_t n) { return n <= 256 ? kRows : n <= 1024 ? 32 : n <= 8192 ? 16 : 1; }

  struct Row {
    std::int64_t index, size;
    double top;
    T* found;                // the candidates, relative to the largest score
    std::int32_t* position;  // and where they are
    double *z, *y;           // the same with the ends of runs pulled down; denoised
    bool* together;
  };

  static std::int64_t bytes(std::int64_t n) {
    return rows_at_once(n) * (Buffer::size<T>(n + kSlack) + Buffer::size<std::int32_t>(n + kSlack) +
                              2 * Buffer::size<double>(n + kPad) +
                    Buffer::size<bool>(n)) +
           Buffer::size<Task>(rows_at_once(n) * (n / 3 + 1)) + TotalVariation::bytes(n);
  }

  // Gathers the candidates and cuts them into runs; short runs are solved on the spot. False: the row needs no more.
  bool prepare(Row& row, std::int64_t index) {
    const T* x = problem_.scores + index * n_;
    const double strength = problem_.strengths ? problem_.strengths[index] : problem_.strength;
    const Extent<T> whole = extent(x, n_);
    mark_removed(x, whole.removed, problem_.joined + index * n_);
    if (fill_degenerate(whole, !valid_strength(strength), problem_.weights + index * n_, problem_.value + index, n_))
      return false;
    row.index = index;
    row.top = whole.top;
    std::int64_t m = gather_above(x, n_, whole.top, static_cast<T>(-1 - 4 * strength), row.found, row.position);
    double least = -1 - 2 * strength;
    if (m > 4) {
      const double better = least_threshold(row.found, m, n_, strength);
      // One long run is solved faster than as many short ones, unless these are much shorter together.
      const T level = just_below(static_cast<T>(better - 2 * strength));
      if (count_above(row.found, m, level) < kFew * static_cast<double>(m)) {
        m = gather_above(x, n_, whole.top, level, row.found, row.position);
        least = better;
      }
    }
    row.size = m;
    const std::int32_t* position = row.position;
    for (std::int64_t i = 0; i < m; ++i) row.z[i] = row.found[i];
    for (std::int64_t first = 0; first < m;) {
      std::int64_t last = first;
      while (last + 1 < m && (position[last + 1] == position[last] + 1 ||
                              (whole.removed && !any_kept(x, position[last] + 1, position[last + 1])))) ++last;
      const auto drop = [&](std::int64_t k) {
        row.y[k] = -1 - 8 * strength;  // below every threshold
        row.together[k] = false;
      };
      const bool low_before = first > 0 || (whole.removed ? any_kept(x, 0, position[first]) : position[first] > 0);
      const std::int64_t next = position[last] + 1;
      const bool low_after = last + 1 < m || (whole.removed ? any_kept(x, next, n_) : next < n_);
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
    return true;
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

  void write(const Row& row) {
    T* weights = problem_.weights + row.index * n_;
    bool* joined = problem_.joined + row.index * n_;
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
    problem_.value[row.index] = static_cast<T>(row.top + value);
  }

  const Fusedmax<T>& problem_;
  std::int64_t n_;
  Buffer buffer_;
  TotalVariation solver_;
  Row rows_[kRows];
  Task* tasks_;
  std::int64_t task_count_ = 0;
  int used_ = 0;
};

template <class T>
void run(const Fusedmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  FusedRows<T> general(problem);
  if (kHasLockstep && n <= kLockstepColumns) {
    Buffer buffer(FusedShort<T>::bytes(n));
    FusedShort<T>(problem, buffer).run(begin, end, general);
  } else {
    for (std::int64_t row = begin; row < end; ++row) general.add(row);
  }
  general.finish();
}

// On the support: the mean of the direction over each segment, minus its mean over the support.
template <class T>
void run(const FusedmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<std::int32_t>(n + kSlack));
  std::int32_t* support = buffer.take<std::int32_t>(n + kSlack);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* p = problem.weights + row * n;
    const bool* joined = problem.joined + row * n;
    const T* v = problem.direction + row * n;
    T* out = problem.product + row * n;
    const std::int64_t size = gather_support(p, n, support);
    std::memset(out, 0, n * sizeof(T));
    double total = 0;
    for (std::int64_t k = 0; k < size; ++k) total += v[support[k]] + 0 * p[support[k]];
    const double mean = size > 0 ? total / static_cast<double>(size) : 0;
    for (std::int64_t start = 0; start < size;) {
      double sum = v[support[start]];
      std::int64_t stop = start + 1;
      for (; stop < size && joined[support[stop]]; ++stop) sum += v[support[stop]];
      const T centred = static_cast<T>(sum / static_cast<double>(stop - start) - mean);
      for (; start < stop; ++start) out[support[start]] = centred;
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
