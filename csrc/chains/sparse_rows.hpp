// Collects rows of scores, one per vector lane: the candidates of each row are stored first, and the thresholds of all
// rows are then solved in lockstep.
#pragma once

#include "chains/sparse.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

template <class Power, class T>
class SparseRows {
 public:
  static constexpr int kMost = kLanes<T>;

  explicit SparseRows(std::int64_t width)
      : width_(width), stride_(width + kLanes<T>), scores_(kMost * width), candidates_(kMost * stride_),
        columns_(kMost * stride_) {}
  void begin() { count_ = 0; }
  bool full() const { return count_ == kMost; }
  int count() const { return count_; }

  // Another row; its scores are b + column.
  void add(const T* b, const T* column) {
    T *y = scores_.get() + count_ * width_, *to = candidates_.get() + count_ * stride_;
    Vector<T> tops = splat(-kInfinity<T>);
    for (std::int64_t i = 0; i < width_; i += kLanes<T>) {
      const Vector<T> score = load(b + i) + load(column + i);
      store(y + i, score);
      tops = larger(score, tops);
    }
    const T top = largest_lane<T>(tops);
    std::int64_t found = 0;
    for (std::int64_t i = 0; i < width_; i += kLanes<T>) {
      const Vector<T> scaled = (load(y + i) - top) * T(1 / Power::kOrder);
      found += compress<T>(to + found, scaled, where_greater(scaled, splat(T(-1))));
    }
    tops_[count_] = top;
    found_[count_] = found;
    ++count_;
  }

  void solve() {
    std::int64_t most = 0;
    for (int k = 0; k < count_; ++k) most = found_[k] > most ? found_[k] : most;
    for (int k = 0; k < count_; ++k)
      for (std::int64_t i = found_[k]; i < most; i += kLanes<T>)
        store(candidates_.get() + k * stride_ + i, splat(-kInfinity<T>));
    transpose_candidates(most);
    const Vector<T> zero{}, one = splat(T(1));
    Vector<T> tau = -one;
    for (;;) {
      Vector<T> sum{}, slope{};
      for (std::int64_t i = 0; i < most; ++i) {
        const Vector<T> z = larger(load(columns_.get() + i * kLanes<T>) - tau, zero);
        sum += Power::weight(z);
        slope += Power::slope(z, one);
      }
      const Vector<T> step = Power::step(sum, slope);  // NaN where there is no row
      const unsigned moves = where_greater(step, 2 * std::numeric_limits<T>::epsilon() * -tau);
      tau = step == step ? tau + step : tau;
      if (moves == 0) break;
    }
    store(taus_, tau);
  }

  SparseRow<Power, T> row(int k) const { return {tops_[k], taus_[k]}; }
  const T* scores(int k) const { return scores_.get() + k * width_; }

 private:
  // Candidate i of every row into vector i.
  void transpose_candidates(std::int64_t most) {
    if (!kHasTranspose) {
      for (std::int64_t i = 0; i < most; ++i)
        for (int k = 0; k < kMost; ++k)
          columns_.get()[i * kMost + k] = k < count_ ? candidates_.get()[k * stride_ + i] : -kInfinity<T>;
      return;
    }
    for (std::int64_t i = 0; i < most; i += kLanes<T>) {
      Vector<T> tile[kLanes<T>];
      for (int k = 0; k < kMost; ++k)
        tile[k] = k < count_ ? load(candidates_.get() + k * stride_ + i) : splat(-kInfinity<T>);
      transpose<T>(tile);
      for (int k = 0; k < kMost; ++k) store(columns_.get() + (i + k) * kLanes<T>, tile[k]);
    }
  }

  std::int64_t width_, stride_;
  int count_ = 0;
  std::int64_t found_[kMost];
  T tops_[kMost], taus_[kMost];
  Scratch<T> scores_, candidates_, columns_;
};

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
