// Soft-DTW of points: distances are computed where a sweep needs them, and the expected alignment goes into the
// gradients where it is found, so that nothing is as large as the grid.
#pragma once

#include "grids/aligner.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Scores scale |x_i - y_j|^2, and the gradients that marginals E give: 2 sum_j E_ij (x_i - y_j), and the same for y.
//
// At step t lane r is in column t - r. With the columns in reverse order neighbouring lanes read neighbouring numbers.
template <class T>
class PointGround {
  using V = Vector<T>;
  static constexpr int kL = kLanes<T>, kRows = kStripRows<T>, kBefore = kRows + kTile;

 public:
  static std::int64_t bytes(const SoftDtw<T>& problem) {
    const std::int64_t d = problem.n_coordinates;
    return Buffer::size<T>(d * stride(problem)) + Buffer::size<T>(d * problem.grid_columns) +
           3 * Buffer::size<T>(d * kRows);
  }

  PointGround(const SoftDtw<T>& problem, bool banded, Buffer& buffer)
      : problem_(problem), banded_(banded), d_(problem.n_coordinates), stride_(stride(problem)),
        scale_(static_cast<T>(problem.scale)), turned_(buffer.take<T>(d_ * stride_)),
        to_columns_(buffer.take<T>(d_ * problem.grid_columns)), rows_(buffer.take<T>(d_ * kRows)),
        to_rows_(buffer.take<T>(d_ * kRows)), passing_(buffer.take<T>(d_ * kRows)) {}

  void look_at(const GridItem<T>& item, std::int64_t number) {
    const std::int64_t m = problem_.rows, n = problem_.grid_columns;
    x_ = problem_.x + number * m * d_;
    to_x_ = problem_.to_x == nullptr ? nullptr : problem_.to_x + number * m * d_;
    to_y_ = problem_.to_y == nullptr ? nullptr : problem_.to_y + number * n * d_;
    const T* y = problem_.y + number * n * d_;
    origin_ = turned_ + kBefore + item.n - 1;
    for (std::int64_t k = 0; k < d_; ++k) {
      T* to = turned_ + k * stride_;
      for (std::int64_t p = 0; p < kBefore; ++p) to[p] = 0;
      for (std::int64_t j = 0; j < item.n; ++j) to[kBefore + item.n - 1 - j] = y[j * d_ + k];
      for (std::int64_t p = kBefore + item.n; p < stride_; ++p) to[p] = 0;
    }
  }

  // Zeros beyond the item, and `nothing` in it where there is nothing more to do.
  void prepare(const GridItem<T>& item, bool feasible, T nothing) {
    fill(to_x_, problem_.rows, item.m, feasible, nothing);
    fill(to_y_, problem_.grid_columns, item.n, feasible, nothing);
    for (std::int64_t p = 0; p < d_ * problem_.grid_columns; ++p) to_columns_[p] = 0;
  }

  void enter(const Strip<T>& strip) {
    for (std::int64_t k = 0; k < d_; ++k)
      for (std::int64_t r = 0; r < kRows; ++r) {
        rows_[k * kRows + r] = r < strip.height ? x_[(strip.top + r) * d_ + k] : T(0);
        to_rows_[k * kRows + r] = passing_[k * kRows + r] = 0;
      }
  }

  void read(const Strip<T>& strip, std::int64_t t, int lanes, T* tile) const {
    constexpr int kTogether = 4;
    for (int r = 0; r < lanes; r += kL)
      for (int s = 0; s < kTile; s += kTogether) {
        V sum[kTogether] = {};
        for (std::int64_t k = 0; k < d_; ++k) {
          const V x = load(rows_ + k * kRows + r);
          const T* y = origin_ + k * stride_ - strip.left - t - s + r;
          for (int q = 0; q < kTogether; ++q) {
            const V difference = load(y - q) - x;
            sum[q] += difference * difference;
          }
        }
        for (int q = 0; q < kTogether; ++q) store<T>(tile + (s + q) * lanes + r, sum[q] * scale_);
      }
    if (banded_) remove_outside_band(strip, t, lanes, tile);
    else if (t < lanes - 1 || t + kTile > strip.item.n || strip.height < lanes) remove_outside(strip, t, lanes, tile);
  }

  void write(const Strip<T>& strip, std::int64_t t, int lanes, const T* tile) {
    const int steps = static_cast<int>(strip.steps - t < kTile ? strip.steps - t : kTile);
    for (std::int64_t k = 0; k < d_; ++k) {
      const std::int64_t column = strip.left + t;  // of the first lane
      const T* y = origin_ + k * stride_ - column;
      if (to_x_ != nullptr) add_to_rows(k, y, steps, lanes, tile);
      if (to_y_ != nullptr) add_to_columns(k, y, strip.item.n, column, steps, lanes, tile);
    }
  }

  void leave(const Strip<T>& strip) {
    if (to_x_ == nullptr) return;
    for (std::int64_t r = 0; r < strip.height; ++r)
      for (std::int64_t k = 0; k < d_; ++k) to_x_[(strip.top + r) * d_ + k] = T(2) * to_rows_[k * kRows + r];
  }

  // After the last strip, where all was feasible.
  void finish(const GridItem<T>& item) {
    if (to_y_ == nullptr) return;
    for (std::int64_t j = 0; j < item.n; ++j)
      for (std::int64_t k = 0; k < d_; ++k) to_y_[j * d_ + k] = T(2) * to_columns_[k * problem_.grid_columns + j];
  }

 private:
  static std::int64_t stride(const SoftDtw<T>& problem) { return kBefore + problem.grid_columns + kRows + kL; }

  void fill(T* gradient, std::int64_t size, std::int64_t length, bool feasible, T nothing) const {
    if (gradient == nullptr) return;
    for (std::int64_t p = feasible ? length * d_ : 0; p < size * d_; ++p)
      gradient[p] = p < length * d_ ? nothing : T(0);
  }

  // Columns before the first and after the last, and rows below the strip.
  void remove_outside(const Strip<T>& strip, std::int64_t t, int lanes, T* tile) const {
    V lane;
    for (int r = 0; r < kL; ++r) lane[r] = static_cast<T>(r);
    for (int s = 0; s < kTile; ++s) {
      const std::int64_t after = t + s - strip.item.n, last = t + s < strip.height ? t + s : strip.height - 1;
      const T low = static_cast<T>(after < -1 ? -1 : after < lanes ? after : lanes), high = static_cast<T>(last);
      for (int r = 0; r < lanes; r += kL) {
        const V number = lane + static_cast<T>(r), none = splat(-kInfinity<T>);
        V score = load(tile + s * lanes + r);
        score = number > splat(low) ? score : none;
        store<T>(tile + s * lanes + r, number > splat(high) ? none : score);
      }
    }
  }

  // The same in a band, where every row begins and ends elsewhere.
  void remove_outside_band(const Strip<T>& strip, std::int64_t t, int lanes, T* tile) const {
    for (int r = 0; r < lanes; ++r) {
      const bool is_row = r < strip.height;
      const std::int64_t begin = is_row ? strip.item.begin(strip.top + r) : 0;
      const std::int64_t end = is_row ? strip.item.end(strip.top + r) : 0, column = strip.column(t, r);
      if (column >= begin && column + kTile <= end) continue;
      for (int s = 0; s < kTile; ++s)
        if (column + s < begin || column + s >= end) tile[s * lanes + r] = -kInfinity<T>;
    }
  }

  void add_to_rows(std::int64_t k, const T* y, int steps, int lanes, const T* tile) {
    for (int r = 0; r < lanes; r += kL) {
      const V x = load(rows_ + k * kRows + r);
      V sum = load(to_rows_ + k * kRows + r);
      for (int s = 0; s < steps; ++s) sum += load(tile + s * lanes + r) * (x - load(y - s + r));
      store<T>(to_rows_ + k * kRows + r, sum);
    }
  }

  // As steps go back a column moves through the lanes to the first, and has met all rows of the strip there.
  void add_to_columns(std::int64_t k, const T* y, std::int64_t n, std::int64_t t, int steps, int lanes, const T* tile) {
    V x[kRows / kL], passing[kRows / kL];
    const int count = lanes / kL;
    for (int v = 0; v < count; ++v) {
      x[v] = load(rows_ + k * kRows + v * kL);
      passing[v] = load(passing_ + k * kRows + v * kL);
    }
    for (int s = steps - 1; s >= 0; --s) {
      for (int v = 0; v < count; ++v) {
        passing[v] = move_down<T>(passing[v], v + 1 < count ? passing[v + 1] : V{});
        passing[v] += load(tile + s * lanes + v * kL) * (load(y - s + v * kL) - x[v]);
      }
      if (t + s < n) to_columns_[k * problem_.grid_columns + t + s] += passing[0][0];
    }
    for (int v = 0; v < count; ++v) store<T>(passing_ + k * kRows + v * kL, passing[v]);
  }

  const SoftDtw<T>& problem_;
  bool banded_;
  std::int64_t d_, stride_;
  T scale_;
  T *turned_, *to_columns_, *rows_, *to_rows_, *passing_;
  const T *x_ = nullptr, *origin_ = nullptr;
  T *to_x_ = nullptr, *to_y_ = nullptr;
};

// Bytes of local weights up to which they are kept from one sweep to the other.
constexpr std::int64_t kCacheBytes = 1 << 20;
// Bytes up to which the last row of every strip is kept. For more, those of one segment of strips are.
constexpr std::int64_t kRowBytes = 1 << 25;

// `first` and `last` are the columns of each row of a band, `rows` per item, or nullptr. The grid is never written
// down. The rows that are kept are stored as a band is, without what lies outside.
template <class T>
void sweep_points(const SoftDtw<T>& problem, const std::int32_t* first, const std::int32_t* last, std::int64_t begin,
                  std::int64_t end) {
  const std::int64_t n = problem.grid_columns, strips = problem.rows / kStripRows<T> + 1;
  const bool banded = first != nullptr;
  std::int64_t width = banded ? 1 : n;
  for (std::int64_t p = begin * problem.rows; banded && p < end * problem.rows; ++p) {
    const std::int64_t size = last[p] - first[p] + 1;
    width = size > width ? size : width;
  }
  const AlignmentGrid<T> grid{nullptr, problem.lengths, first,         last,         0,     0, problem.rows,
                              banded,  problem.scale,   problem.omega, problem.rows, width, n, nullptr};
  const bool differentiates = problem.to_x != nullptr || problem.to_y != nullptr;
  const bool fits = !banded && 3 * static_cast<std::int64_t>(sizeof(T)) * problem.columns <= kCacheBytes;
  const int stored = !differentiates ? 0 : fits ? static_cast<int>(3 * strips) : 3;
  const std::int64_t row = 2 * width;  // of cells in two parts
  std::int64_t segment = strips;       // strips whose rows are kept at a time
  if (strips * row * static_cast<std::int64_t>(sizeof(T)) > kRowBytes)
    for (segment = 1; segment * segment < strips;) ++segment;
  const std::int64_t segments = (strips + segment - 1) / segment;
  Buffer buffer(PointGround<T>::bytes(problem) + Buffer::size<T>((segment + 1 + segments) * row));
  PointGround<T> ground(problem, banded, buffer);
  T* rows = buffer.take<T>((segment + 1 + segments) * row);
  with_omega(grid, begin, end, stored, [&](auto& aligner) {
    for (std::int64_t number = begin; number < end; ++number) {
      const GridItem<T> item(grid, number);
      ground.look_at(item, number);
      const KeptRows<T> kept{rows, rows + (segment + 1) * row, segment};
      const double value =
          differentiates && fits ? aligner.both(item, rows, ground) : aligner.value(item, kept, ground);
      if (differentiates && !fits) aligner.marginals(item, value, kept, ground);
      if (differentiates && value - value == 0) ground.finish(item);
      problem.value[number] = value;
    }
  });
}

template <class T>
void run(const SoftDtw<T>& problem, std::int64_t begin, std::int64_t end) {
  sweep_points<T>(problem, nullptr, nullptr, begin, end);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
