// Oscarmax rows: sort, isotonic regression, projection onto the simplex, all on the few candidates only.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "rows/candidates.hpp"
#include "rows/checks.hpp"
#include "rows/isotonic.hpp"
#include "rows/ordering.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// How low a score x (relative to the largest) can be and still receive weight, among n of which only these matter.
//
// Sort the scores downwards. If m of them are supported, take the last as reference, z_i = x_i - strength (m - i): the
// threshold of the projection is at least (sum_{i <= k} z_i - 1)/k for every k <= m. For the k that sparsemax supports
// that is T - strength (m - (k + 1)/2) with T = (sum_{i <= k} x_i - 1)/k, and the last supported score, z_m = x_m,
// lies above it. So does every supported score, and with fewer scores in question the bound rises: repeat while that
// helps. (k <= m: spreading weight lowers the penalty, so sparsemax supports fewer.)
inline double lowest_useful(double* x, std::int64_t n, double strength) {
  const SimplexThreshold sparse = project_simplex(x, n);
  const double tau = sparse.high + sparse.low;
  const double k = static_cast<double>(sparse.size);
  for (double m = static_cast<double>(n);;) {
    const double level = tau - strength * (m - (k + 1) / 2);
    double above = 0;
#pragma omp simd reduction(+ : above)
    for (std::int64_t i = 0; i < n; ++i) above += x[i] > level ? 1.0 : 0.0;
    if (above + 1 + static_cast<double>(n) / 128 > m) return level;  // a pass costs as much as it takes to sort so few
    m = above;
  }
}

// The same bound from k = 1, T = -1, in passes over the row: a window that holds every supported score.
template <class T>
inline double useful_window(const T* x, std::int64_t n, T top, double kept, double strength) {
  for (double m = kept;;) {
    const double window = 1 + strength * (m - 1);
    if (window <= 1.25) return window;
    const T level = static_cast<T>(-window);
    std::int32_t above = 0;
#pragma omp simd reduction(+ : above)
    for (std::int64_t i = 0; i < n; ++i) above += x[i] - top > level;
    if (above > 0.75 * m) return window;
    m = above;
  }
}

// The threshold of the projection onto the simplex of blocks whose means do not increase, and the blocks above it. Sums
// become means there. A second pass takes up what rounding has left.
struct SupportedBlocks {
  double high, low;
  Pooling::Blocks blocks;
};
inline SupportedBlocks project_descending(Pooling::Blocks blocks) {
  double sum = -1, size = 0;
  Pooling::Block* end = blocks.first;
  for (; end < blocks.last && size * end->sum > sum * end->size; ++end) {
    sum += end->sum;
    size += end->size;
  }
  const double tau = sum / size;
  double rest[4] = {-1, 0, 0, 0};  // so that the sum of many is itself exact enough
  for (Pooling::Block* block = blocks.first; block < end; ++block) {
    block->sum /= block->size;
    rest[(block - blocks.first) % 4] += block->size * (block->sum - tau);
  }
  return {tau, ((rest[0] + rest[1]) + (rest[2] + rest[3])) / size, {blocks.first, end}};
}

// Whether d scores get the same weight, if there were no others: the k largest exceed the mean by no more than the
// penalty gains,
//
//     sum_{i <= k} (x_i - mean)  <=  strength k (d - k)/2    for all k,
//
// with the scores sorted downwards. This is decided without sorting, from bounds of the left side: k (max - mean),
// (d - k) (mean - min) and, by Cauchy and Schwarz, sqrt(variance k (d - k)). Some flat rows are not recognised, but a
// row that is not flat is never taken for one.
struct Moments {
  double size, sum, squares, low, high;  // relative to the largest of the row
};
inline bool are_flat(const Moments& scores, double strength) {
  const double size = scores.size, mean = scores.sum / size;
  const double until = size - 2 * (scores.high - mean) / strength;  // of k, by the first two bounds
  const double from = 2 * (mean - scores.low) / strength;
  if (until >= from) return true;
  const double variance = scores.squares / size - mean * mean;
  const double inside = size * size / 4 - 4 * (variance > 0 ? variance : 0) / (strength * strength);
  if (!(inside >= 0)) return false;
  const double reach = __builtin_sqrt(inside);
  return size / 2 - reach <= until && from <= size / 2 + reach;
}

struct Flatness {
  bool flat;
  double mean;  // relative to the largest
};
template <class T>
OMEGAMAX_INLINE Flatness find_flatness(const T* x, std::int64_t n, T top, double kept, double strength) {
  const T infinity = static_cast<T>(__builtin_inf());
  const double most = strength * kept;  // max - mean and mean - min are at most half of it in a flat row
  const T range = static_cast<T>(most * 1.000001);
  constexpr std::int64_t kFirst = 64;
  for (std::int64_t i = 0; i < (n < kFirst ? n : kFirst); ++i)
    if (top - x[i] > range && x[i] != -infinity) return {false, 0};
  double sum = 0, squares = 0, low = 0;
#pragma omp simd reduction(+ : sum, squares) reduction(min : low)
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = x[i] == -infinity ? 0.0 : static_cast<double>(x[i]) - static_cast<double>(top);
    sum += d;
    squares += d * d;
    low = d < low ? d : low;
  }
  return {are_flat({kept, sum, squares, low, 0}, strength), sum / kept};
}

// Scores from `low` to `high` that are flat: they share a block with each other, whatever the scores outside are
// (scores that pool by themselves also do so among others). Rows of many similar scores then need to sort only the
// rest.
constexpr double kLeastMiddle = 32;  // fewer are sorted as quickly
struct Middle {
  double low, high, sum;
  std::int64_t size, above;  // 0: nothing was found; how many are larger
};
template <class T>
inline Middle find_middle(const T* x, std::int64_t n, double strength) {
  double sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum, squares)
  for (std::int64_t i = 0; i < n; ++i) {
    sum += x[i];
    squares += static_cast<double>(x[i]) * x[i];
  }
  const double mean = sum / static_cast<double>(n), variance = squares / static_cast<double>(n) - mean * mean;
  const double deviation = variance > 0 ? __builtin_sqrt(variance) : 0;
  if (static_cast<double>(n) * strength < 2.5 * deviation)
    return {0, 0, 0, 0, 0};  // too thin for the bound on a variance
  constexpr double widths[] = {2.0, 1.5, 1.1, 0.8, 0.5};
  for (const double width : widths) {
    const T low = static_cast<T>(mean - width * deviation), high = static_cast<T>(mean + width * deviation);
    double size = 0, above = 0, total = 0, total_squares = 0;
    T lowest = high, highest = low;
#pragma omp simd reduction(+ : size, above, total, total_squares) reduction(min : lowest) reduction(max : highest)
    for (std::int64_t i = 0; i < n; ++i) {
      const bool in = x[i] >= low && x[i] <= high;
      const double d = in ? static_cast<double>(x[i]) : 0.0;
      size += in ? 1.0 : 0.0;
      above += x[i] > high ? 1.0 : 0.0;
      total += d;
      total_squares += d * d;
      lowest = in && x[i] < lowest ? x[i] : lowest;
      highest = in && x[i] > highest ? x[i] : highest;
    }
    if (size < kLeastMiddle) return {0, 0, 0, 0, 0};
    if (are_flat({size, total, total_squares, lowest, highest}, strength))
      return {low, high, total, static_cast<std::int64_t>(size), static_cast<std::int64_t>(above)};
  }
  return {0, 0, 0, 0, 0};
}

template <class T>
inline void write_flat(const T* x, std::int64_t n, double kept, T* weights, std::int32_t* labels) {
  const T infinity = static_cast<T>(__builtin_inf()), share = static_cast<T>(1 / kept);
  for (std::int64_t i = 0; i < n; ++i) weights[i] = x[i] == -infinity ? T(0) : share;
  for (std::int64_t i = 0; labels && i < n; ++i) labels[i] = x[i] == -infinity ? -2 : 0;
}

// Labels of a row without clusters. The derivative by strength must know which positions are removed. To be called
// after the last pass over the row: writing labels between two passes was a fifth slower where rows come from memory.
template <class T>
inline void clear_labels(const T* x, std::int64_t n, bool removed, std::int32_t* labels) {
  if (!removed) std::memset(labels, 0xff, n * sizeof(std::int32_t));  // -1
  for (std::int64_t i = 0; removed && i < n; ++i) labels[i] = x[i] == -kInfinity<T> ? -2 : -1;
}

constexpr std::int64_t kSortedAtOnce = 24;  // candidates sorted in no more time than it takes to find a better bound

// The candidates of a row, relative to its largest score, with room for as many as the row is long.
template <class T>
struct OscarCandidates {
  T* score;
  std::int32_t* position;
  // Downwards; of scores that are known to share a block only the first and the last need be there.
  T* sorted;
  std::int32_t* place;
  double* z;  // x_i + strength i: see `run`
  double strength;

  static std::int64_t bytes(std::int64_t n) {
    return 2 * Buffer::size<T>(n + kSlack) + 2 * Buffer::size<std::int32_t>(n + kSlack) +
           Buffer::size<double>(n + kPad);
  }
  OscarCandidates(Buffer& buffer, std::int64_t n)
      : score(buffer.take<T>(n + kSlack)), position(buffer.take<std::int32_t>(n + kSlack)),
        sorted(buffer.take<T>(n + kSlack)), place(buffer.take<std::int32_t>(n + kSlack)),
        z(buffer.take<double>(n + kPad)), strength(0) {}

  // The i-th candidate is the k-th in order.
  void put(std::int64_t i, std::int64_t k) const {
    sorted[k] = score[i];
    place[k] = position[i];
    z[k] = score[i] + strength * static_cast<double>(k);
  }

  // Drops the first m candidates that cannot be supported; returns how many are left.
  std::int64_t drop_useless(std::int64_t m) const {
    for (std::int64_t i = 0; i < m; ++i) z[i] = score[i];
    const double level = lowest_useful(z, m, strength);
    std::int64_t useful = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      score[useful] = score[i];
      position[useful] = position[i];
      useful += score[i] > level;
    }
    return useful;
  }

  // Moves the middle to its places in the order, and the other candidates to the front; returns how many those are.
  std::int64_t take_out(const Middle& middle, std::int64_t m) const {
    const T low = static_cast<T>(middle.low), high = static_cast<T>(middle.high);
    std::int64_t next = middle.above, rest = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      const T x = score[i];
      const std::int32_t at = position[i];
      const bool outside = x < low || x > high;
      place[next] = at;
      next += !outside;
      score[rest] = x;
      position[rest] = at;
      rest += outside;
    }
    sorted[middle.above] = sorted[next - 1] = high;
    return rest;
  }
};

// Sorts and pools many candidates. Most rows have few, and `run` is faster for them without this code inside.
template <class T>
__attribute__((noinline)) Pooling::Blocks pool_many(const OscarCandidates<T>& candidates, std::int64_t m,
                                                    Ordering<T>& order, Pooling& pooling) {
  const double strength = candidates.strength;
  const Middle middle = strength > 0 ? find_middle(candidates.score, m, strength) : Middle{0, 0, 0, 0, 0};
  const std::int64_t rest = middle.size > 0 ? candidates.take_out(middle, m) : m;
  const auto put = [&](std::int64_t i, std::int64_t k) { candidates.put(i, k < middle.above ? k : k + middle.size); };
  if (rest <= Ordering<T>::kFew) {
    Ordering<T>::rank_few(candidates.score, rest, put);
  } else {
    for (std::int64_t i = 0; i < rest; ++i) order.set(i, Ordering<T>::ascending(candidates.score[i]));
    order.sort(rest);
    for (std::int64_t k = 0; k < rest; ++k) put(order[k], k);
  }
  if (middle.size == 0) return pooling.pool(candidates.z, m);
  const double above = static_cast<double>(middle.above), within = static_cast<double>(middle.size);
  const double sum = middle.sum + strength * within * (above + (within - 1) / 2);
  return pooling.pool(candidates.z, m, {sum, within, middle.above + middle.size});
}

// x_i + strength i differs from z_i above by a constant, which the projection does not see and the value takes back.
// As for fusedmax, the value needs no penalty: strength sum max(p_i, p_j) = <x - y, p>.
template <class T>
void run(const Oscarmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(OscarCandidates<T>::bytes(n) + Ordering<T>::bytes(n) + Pooling::bytes(n));
  OscarCandidates<T> candidates(buffer, n);
  Ordering<T> order(buffer, n);
  Pooling pooling(buffer, n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = problem.scores + row * n;
    T* weights = problem.weights + row * n;
    std::int32_t* labels = problem.labels ? problem.labels + row * n : nullptr;
    double strength = problem.strengths ? problem.strengths[row] : problem.strength;
    const Extent<T> whole = extent(x, n);
    if (fill_degenerate(whole, !valid_strength(strength), weights, problem.value + row, n)) {
      if (labels) std::memset(labels, 0xff, n * sizeof(std::int32_t));
      continue;
    }

    const double size = static_cast<double>(whole.removed ? count_kept(x, n) : n);
    if (strength * size > problem.most) strength = problem.most / size;
    if (strength > 0) {
      const Flatness flatness = find_flatness(x, n, whole.top, size, strength);
      if (flatness.flat) {
        write_flat(x, n, size, weights, labels);
        problem.value[row] = static_cast<T>(whole.top + (flatness.mean + 0.5 - 0.5 / size - strength * (size - 1) / 2));
        continue;
      }
    }

    candidates.strength = strength;
    const double window = useful_window(x, n, whole.top, size, strength);
    std::int64_t m = gather_above(x, n, whole.top, static_cast<T>(-window), candidates.score, candidates.position);
    if (strength > 0 && m > kSortedAtOnce) m = candidates.drop_useless(m);
    Pooling::Blocks blocks;
    if (m <= Ordering<T>::kFew) {
      Ordering<T>::rank_few(candidates.score, m, [&](std::int64_t i, std::int64_t k) { candidates.put(i, k); });
      blocks = pooling.pool(candidates.z, m);
    } else {
      blocks = pool_many(candidates, m, order, pooling);
    }
    const SupportedBlocks supported = project_descending(blocks);

    double value = 0.5 - strength * (size - 1);
    std::memset(weights, 0, n * sizeof(T));
    if (labels) clear_labels(x, n, whole.removed, labels);
    std::int32_t label = -1;
    std::int64_t k = 0;
    for (const Pooling::Block& block : supported.blocks) {
      const double p = (block.sum - supported.high) - supported.low;
      if (!(p > 0)) break;  // after rounding; means do not increase, so nothing more is supported
      value += block.size * p * (block.sum - p / 2);
      // Equal scores are one cluster even where strength is too small to show in z.
      label += !(strength > 0 && k > 0 && candidates.sorted[k] == candidates.sorted[k - 1]);
      for (; k < block.stop; ++k) {
        weights[candidates.place[k]] = static_cast<T>(p);
        if (labels) labels[candidates.place[k]] = label;
      }
    }
    problem.value[row] = static_cast<T>(whole.top + value);
  }
}

// On the support: the mean of the direction over each cluster, minus its mean over the support.
template <class T>
void run(const OscarmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  struct Cluster {
    double sum, size;
  };
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<std::int32_t>(n + kSlack) + Buffer::size<Cluster>(n));
  std::int32_t* support = buffer.take<std::int32_t>(n + kSlack);
  Cluster* clusters = buffer.take<Cluster>(n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* p = problem.weights + row * n;
    const std::int32_t* labels = problem.labels + row * n;
    const T* v = problem.direction + row * n;
    T* out = problem.product + row * n;
    const std::int64_t size = gather_support(p, n, support);
    bool nan = false;
    for (std::int64_t k = 0; k < size; ++k) nan |= p[support[k]] != p[support[k]];
    std::memset(out, 0, n * sizeof(T));
    if (nan) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(__builtin_nan(""));
      continue;
    }
    for (std::int64_t k = 0; k < size; ++k) clusters[labels[support[k]]] = {0, 0};
    double total = 0;
    for (std::int64_t k = 0; k < size; ++k) {
      const std::int32_t i = support[k];
      clusters[labels[i]].sum += v[i];
      clusters[labels[i]].size += 1;
      total += v[i];
    }
    const double mean = size > 0 ? total / static_cast<double>(size) : 0;
    for (std::int64_t k = 0; k < size; ++k) {
      const std::int32_t i = support[k];
      out[i] = static_cast<T>(clusters[labels[i]].sum / clusters[labels[i]].size - mean);
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
