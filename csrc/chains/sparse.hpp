// Chains under the squared norm (q = 1) and Tsallis' entropy of order 1.5 (q = 2): every node solves the threshold
// problem of threshold.hpp over the tags before it,
//
//     p = (y - tau)_+^q,  sum p = 1,      y_i = (b_i + matrix_ij - top_j)/q.
//
// The first sweep solves a vector of columns in lockstep. So do the others where every place has a matrix of its own
// (sparse_dense.hpp); where all share one (sparse_factored.hpp) they visit few nodes, each as a row.
#pragma once

#include "chains/values.hpp"
#include "core/threshold.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

// max_Omega from the dual function, whose slope is zero at tau: an error in tau hardly matters.
template <class Power, class V>
inline V dual_value(V top, V tau, V moment) {
  using T = typename Traits<V>::Number;
  constexpr T q = T(Power::kOrder);
  return top + (q * tau + (moment + q) * T(q / (q + 1)));
}

// A row of scores: its best and its threshold.
template <class Power, class T>
struct SparseRow {
  T top, tau;

  SparseRow(const T* y, std::int64_t width) : top(largest_of_row(y, width)), tau(-1) {
    if (!(top > -kInfinity<T>)) return;
    const Vector<T> one = splat(T(1));
    for (;;) {
      Vector<T> sum{}, slope{};
      for (std::int64_t i = 0; i < width; i += kLanes<T>) {
        const Vector<T> z = excess(load(y + i));
        sum += Power::weight(z);
        slope += Power::slope(z, one);
      }
      const T step = Power::step(sum_lanes<T>(sum), sum_lanes<T>(slope));
      tau += step;
      if (!(step > 2 * std::numeric_limits<T>::epsilon() * -tau)) return;
    }
  }
  SparseRow(T best, T threshold) : top(best), tau(threshold) {}

  Vector<T> excess(Vector<T> y) const { return larger((y - top) * T(1 / Power::kOrder) - tau, Vector<T>{}); }

  T value(const T* y, std::int64_t width) const {
    if (!(top > -kInfinity<T>)) return top;
    Vector<T> moment{};
    for (std::int64_t i = 0; i < width; i += kLanes<T>) {
      const Vector<T> z = excess(load(y + i));
      moment += Power::weight(z) * z;
    }
    return dual_value<Power>(top, tau, sum_lanes<T>(moment));
  }

  // The weights, and the slopes s of the weights: J = diag(s) - s s' / sum s.
  void weigh(const T* y, std::int64_t width, T* p, T* s) const {
    for (std::int64_t i = 0; i < width; i += kLanes<T>) {
      const Vector<T> z = excess(load(y + i));
      store(p + i, Power::weight(z));
      if (s) store(s + i, Power::slope(z, splat(T(1))));
    }
  }
};

// The K largest of each lane, in order.
template <class T, int K>
struct Best {
  Vector<T> rank[K];
  Best() {
    for (int k = 0; k < K; ++k) rank[k] = splat(-kInfinity<T>);
  }
  void add(Vector<T> y) {
    for (int k = 0; k < K; ++k) {
      const Vector<T> above = larger(rank[k], y);
      if (k + 1 < K) y = smaller(rank[k], y);
      rank[k] = above;
    }
  }
  static Vector<T> smaller(Vector<T> a, Vector<T> b) {
#if defined(__AVX512F__)  // the compiler does not find this instruction in a choice between vectors
    if constexpr (sizeof(T) == 4) return (Floats)_mm512_min_ps((__m512)a, (__m512)b);
    else return (Doubles)_mm512_min_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4) return (Floats)_mm256_min_ps((__m256)a, (__m256)b);
    else return (Doubles)_mm256_min_pd((__m256d)a, (__m256d)b);
#else
    return a < b ? a : b;
#endif
  }
};

// max_Omega of a vector of columns. Some of the scores have a threshold below that of all of them: the few largest
// usually are the support, and then it is the same; Newton's method does the rest.
template <class Power, class T>
class SparseColumns {
 public:
  void add(Vector<T> y) { best_.add(y); }

  // Scores up to here have no weight in any of the first `lanes` columns, whatever else is added.
  T floor(std::int64_t lanes) {
    bound();
    const Vector<T> limit =
        safe_ + tau_ * T(Power::kOrder) - 8 * std::numeric_limits<T>::epsilon() * (larger(safe_, -safe_) + T(2));
    T lowest = kInfinity<T>;
    T each[kLanes<T>];
    store<T>(each, best_.rank[0] > splat(-kInfinity<T>) ? limit : splat(-kInfinity<T>));
    for (std::int64_t lane = 0; lane < lanes; ++lane) lowest = each[lane] < lowest ? each[lane] : lowest;
    return lowest;
  }

  // `each_row(f)` calls f(scores) for every row that was added.
  template <class F>
  void finish(F each_row, T* u, T* level) {
    const Vector<T> zero{}, one = splat(T(1));
    bound();
    Vector<T> moment{};
    for (int k = 0; k < kBest; ++k) {
      const Vector<T> z = larger((k ? best_.rank[k] - safe_ : zero) * T(1 / Power::kOrder) - tau_, zero);
      moment += Power::weight(z) * z;
    }
    if (where_greater((best_.rank[kBest - 1] - safe_) * T(1 / Power::kOrder), tau_) != 0) {
      for (;;) {
        Vector<T> sum{}, slope{};
        moment = zero;
        each_row([&](Vector<T> y) {
          const Vector<T> z = larger((y - safe_) * T(1 / Power::kOrder) - tau_, zero);
          sum += Power::weight(z);
          slope += Power::slope(z, one);
          moment += Power::weight(z) * z;
        });
        const Vector<T> step = Power::step(sum, slope);  // NaN where there is nothing to choose
        const unsigned moves = where_greater(step, 2 * std::numeric_limits<T>::epsilon() * -tau_);
        tau_ = step == step ? tau_ + step : tau_;
        if (moves == 0) break;
      }
    }
    store(u, dual_value<Power>(best_.rank[0], tau_, moment));
    store(level, tau_);
  }

 private:
  static constexpr bool kLinear = Power::kOrder == 1;
  static constexpr int kBest = kLinear ? 6 : 4;

  // The threshold of the largest alone.
  void bound() {
    const Vector<T> zero{};
    safe_ = best_.rank[0] > splat(-kInfinity<T>) ? best_.rank[0] : zero;
    tau_ = splat(T(-1));
    Vector<T> sum{}, squares{};
    for (int k = 1; k < kBest; ++k) {
      const Vector<T> y = (best_.rank[k] - safe_) * T(1 / Power::kOrder);
      sum += y;
      if constexpr (kLinear) {
        tau_ = larger((sum - T(1)) * T(1.0 / (k + 1)), tau_);
      } else {  // the root of sum (y - tau)^2 = 1, where y is above the threshold so far
        squares += y * y;
        const Vector<T> mean = sum * T(1.0 / (k + 1)), rest = (T(1) - (squares - sum * mean)) * T(1.0 / (k + 1));
        tau_ = y > tau_ ? mean - root(larger(rest, zero)) : tau_;
      }
    }
  }

  Best<T, kBest> best_;
  Vector<T> safe_, tau_;
};

template <class Power, class T>
class SparseLocal {
 public:
  SparseLocal(std::int64_t tags, std::int64_t width)
      : tags_(tags), width_(width), peaks_(width / kLanes<T> * width), numbers_(width), rows_(width + kLanes<T>),
        scores_(width * kLanes<T>) {
    for (std::int64_t i = 0; i < width; ++i) numbers_.get()[i] = static_cast<T>(i);
  }

  void solve(const T* b, const T* matrix, T* u, T* level) {
    for (std::int64_t j = 0; j < width_; j += kLanes<T>) {
      const auto each_row = [&](auto f) {
        for (std::int64_t i = 0; i < tags_; ++i) f(b[i] + load(matrix + i * width_ + j));
      };
      SparseColumns<Power, T> columns;
      each_row([&](Vector<T> y) { columns.add(y); });
      columns.finish(each_row, u + j, level + j);
    }
  }

  // Where many places share a matrix, it pays to store the best score of each row in each vector of columns.
  void prepare(const T* matrix) {
    for (std::int64_t j = 0; j < width_ && tags_ > kFewRows; j += kLanes<T>) {
      T* peaks = peaks_.get() + j / kLanes<T> * width_;
      for (std::int64_t i = 0; i < width_; ++i)
        peaks[i] = i < tags_ ? largest_lane<T>(load(matrix + i * width_ + j)) : -kInfinity<T>;
    }
  }
  // As `solve`, for the matrix that was prepared: of many rows most are too low to matter.
  void solve_prepared(const T* b, const T* matrix, T* u, T* level) {
    if (tags_ <= kFewRows) return solve(b, matrix, u, level);
    for (std::int64_t j = 0; j < width_; j += kLanes<T>) {
      const T* peaks = peaks_.get() + j / kLanes<T> * width_;
      T *rows = rows_.get(), *scores = scores_.get();
      Vector<T> best = splat(-kInfinity<T>);
      for (std::int64_t i = 0; i < width_; i += kLanes<T>) best = larger(load(b + i) + load(peaks + i), best);
      // The promising rows come first; their threshold says which of the others can matter.
      SparseColumns<Power, T> columns;
      std::int64_t count = 0;
      T low = largest_lane<T>(best) - T(2.25 * Power::kOrder), high = kInfinity<T>;
      for (int part = 0; part < 2 && low < high; ++part) {
        std::int64_t k = count;
        for (std::int64_t i = 0; i < width_; i += kLanes<T>) {
          best = load(b + i) + load(peaks + i);
          const unsigned between = where_greater(best, splat(low)) & ~where_greater(best, splat(high));
          count += compress<T>(rows + count, load(numbers_.get() + i), between);
        }
        for (; k < count; ++k) {
          const std::int64_t i = static_cast<std::int64_t>(rows[k]);
          const Vector<T> y = b[i] + load(matrix + i * width_ + j);
          store(scores + k * kLanes<T>, y);
          columns.add(y);
        }
        high = low;
        low = columns.floor(tags_ - j < kLanes<T> ? tags_ - j : kLanes<T>);
      }
      const auto each_row = [&](auto f) {
        for (std::int64_t k = 0; k < count; ++k) f(load(scores + k * kLanes<T>));
      };
      columns.finish(each_row, u + j, level + j);
    }
  }
  static T last(const T* y, std::int64_t width) { return SparseRow<Power, T>(y, width).value(y, width); }

 private:
  static constexpr std::int64_t kFewRows = 40;

  std::int64_t tags_, width_;
  Scratch<T> peaks_, numbers_, rows_, scores_;
};

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
