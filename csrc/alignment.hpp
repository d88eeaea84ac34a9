// Smoothed dynamic time warping with unit steps: value, expected alignment and its derivative.
//
// The grid is cut into strips of rows. The first sweep keeps only the last row of every strip; the others compute a
// strip again from the row above it and keep its local weights until they are done with it. So the expected alignment
// is the only thing as large as the grid.
#pragma once

#include "alignment_sweeper.hpp"
#include "buffer.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// All strips of one item: what the sweeps need beside the grid, for rows of `columns` columns.
template <class T, class Omega>
class Aligner {
  using V = Vector<T>;
  static constexpr int kMost = kStripRows<T> / kLanes<T>, kFew = kMost >= 4 ? kMost / 4 : 1;
  using Wide = Sweeper<T, Omega, kMost>;
  using Thin = Sweeper<T, Omega, kFew>;

 public:
  // Of all strips of these items: in a band much fewer than columns.
  static std::int64_t most_steps(const AlignmentGrid<T>& grid, std::int64_t begin, std::int64_t end) {
    if (grid.first == nullptr) return grid.grid_columns + kStripRows<T>;
    std::int64_t most = 0;
    for (std::int64_t number = begin; number < end; ++number) {
      const GridItem<T> item(grid, number);
      for (std::int64_t s = 0; s < strips(item); ++s) {
        const std::int64_t steps = Strip<T>(item, s).steps;
        most = steps > most ? steps : most;
      }
    }
    return most;
  }

  // `stored` vectors per step and vector of lanes: 0, 3 or 6.
  static std::int64_t bytes(const AlignmentGrid<T>& grid, std::int64_t steps, int stored) {
    const std::int64_t strips = grid.rows / kStripRows<T> + 1;
    return (2 + 3 * Omega::kParts) * Buffer::size<T>(room_for(steps)) + 4 * Buffer::size<T>(grid.grid_columns + 2) +
           2 * Buffer::size<T>(kTile * kStripRows<T>) + Buffer::size<V>(steps * kMost * stored) +
           (stored == 6 ? Buffer::size<T>(strips * grid.width) : 0);
  }

  Aligner(const AlignmentGrid<T>& grid, std::int64_t steps, Buffer& buffer, int stored)
      : grid_(grid), scale_(static_cast<T>(grid.scale)), stride_(room_for(steps)) {
    const std::int64_t strips = grid.rows / kStripRows<T> + 1;
    T** const by_step[] = {&edge_, &bottom_, &last_};  // cells
    for (T** line : by_step) *line = buffer.take<T>(Omega::kParts * stride_);
    moved_edge_ = buffer.take<T>(stride_);
    moved_bottom_ = buffer.take<T>(stride_);
    T** const by_column[] = {&coming_, &leaving_, &moved_coming_, &moved_leaving_};
    for (T** line : by_column) *line = buffer.take<T>(grid.grid_columns + 2) + 1;
    tile_ = buffer.take<T>(kTile * kStripRows<T>);
    moved_tile_ = buffer.take<T>(kTile * kStripRows<T>);
    weights_ = buffer.take<V>(steps * kMost * stored);
    per_strip_ = steps * kMost * 3;
    if (stored == 6) moved_rows_ = buffer.take<T>(strips * grid.width);
  }

  T value(std::int64_t number) {
    const GridItem<T> item(grid_, number);
    T* rows = checkpoints(number);
    T found = 0;
    for (std::int64_t s = 0; s < strips(item); ++s) {
      const Strip<T> strip(item, s);
      read_values(strip, s, rows);
      const bool ends = s + 1 == strips(item);
      found = ascend<false, false>(strip, ends ? nullptr : bottom_, nullptr, 0, nullptr);
      if (!ends) keep_bottom(strip, s, bottom_, rows);
    }
    found = found == kInfinity<T> ? kNaN<T> : found;
    return found / scale_ + T(0);  // no negative zero from a negative scale
  }

  void marginals(std::int64_t number, T value, T* matrix) {
    const GridItem<T> item(grid_, number);
    if (!prepare(item, value, matrix)) return;
    for (std::int64_t s = strips(item) - 1; s >= 0; --s) {
      const Strip<T> strip(item, s);
      read_values(strip, s, checkpoints(number));
      ascend<true, false>(strip, nullptr, nullptr, 0, nullptr);
      descend<false>(strip, matrix);
    }
  }

  // Both sweeps in one go; the weights of all strips are kept between them.
  T both(std::int64_t number, T* matrix) {
    const GridItem<T> item(grid_, number);
    T* rows = checkpoints(number);
    T found = 0;
    for (std::int64_t s = 0; s < strips(item); ++s) {
      const Strip<T> strip(item, s);
      read_values(strip, s, rows);
      const bool ends = s + 1 == strips(item);
      found = ascend<true, false>(strip, ends ? nullptr : bottom_, nullptr, 0, nullptr);
      weights_ += per_strip_;
      if (!ends) keep_bottom(strip, s, bottom_, rows);
    }
    found = (found == kInfinity<T> ? kNaN<T> : found) / scale_ + T(0);
    const bool feasible = prepare(item, found, matrix);
    for (std::int64_t s = strips(item) - 1; s >= 0; --s) {
      weights_ -= per_strip_;
      if (feasible) descend<false>(Strip<T>(item, s), matrix);
    }
    return found;
  }

  void tangent(std::int64_t number, T value, const T* direction, std::int64_t direction_stride, T* matrix) {
    const GridItem<T> item(grid_, number);
    if (!prepare(item, value, matrix)) return;
    for (std::int64_t s = 0; s + 1 < strips(item); ++s) {
      const Strip<T> strip(item, s);
      read_edges(strip, s, number);
      ascend<false, true>(strip, bottom_, direction, direction_stride, moved_bottom_);
      keep_bottom(strip, s, moved_bottom_, moved_rows_);
    }
    for (std::int64_t s = strips(item) - 1; s >= 0; --s) {
      const Strip<T> strip(item, s);
      read_edges(strip, s, number);
      ascend<true, true>(strip, nullptr, direction, direction_stride, nullptr);
      descend<true>(strip, matrix);
    }
  }

 private:
  // A line by step, in whole vectors.
  static std::int64_t room_for(std::int64_t steps) { return (steps + 2 + kLanes<T>) / kLanes<T> * kLanes<T>; }
  static std::int64_t strips(const GridItem<T>& item) { return (item.m + kStripRows<T> - 1) / kStripRows<T>; }
  T* checkpoints(std::int64_t number) const {
    return grid_.checkpoints + number * ((grid_.rows - 1) / kStripRows<T>) * grid_.width;
  }

  // Zeros outside the item's grid; false where there is nothing more to do.
  bool prepare(const GridItem<T>& item, T value, T* matrix) {
    const bool is_nan = !(value == value), feasible = value - value == T(0);
    for (std::int64_t i = 0; i < grid_.rows; ++i) {
      const bool is_row = i < item.m;
      const std::int64_t shift = is_row ? item.shift(i) : 0;
      const std::int64_t begin = is_row ? item.begin(i) - shift : 0, end = is_row ? item.end(i) - shift : 0;
      T* row = matrix + i * grid_.width;
      for (std::int64_t j = 0; j < begin; ++j) row[j] = 0;
      for (std::int64_t j = end; j < grid_.width; ++j) row[j] = 0;
      if (!feasible)
        for (std::int64_t j = begin; j < end; ++j) row[j] = is_nan ? kNaN<T> : T(0);
    }
    for (std::int64_t j = -1; j <= grid_.grid_columns; ++j)
      coming_[j] = leaving_[j] = moved_coming_[j] = moved_leaving_[j] = 0;
    coming_[item.n - 1] = 1;
    return feasible;
  }

  // What lies above a strip, by step; the corner above the first cell starts everything.
  void read_edge(const Strip<T>& strip, std::int64_t s, const T* rows, T* edge, T nothing) const {
    for (std::int64_t t = 0; t <= strip.steps; ++t) edge[t] = nothing;
    if (s == 0) {
      edge[0] = 0;
      return;
    }
    const std::int64_t i = strip.top - 1, begin = strip.item.begin(i), end = strip.item.end(i);
    const T* row = rows + (s - 1) * grid_.width - strip.item.shift(i);
    for (std::int64_t t = 0; t <= strip.steps; ++t) {
      const std::int64_t j = strip.left + t - 1;
      if (j >= begin && j < end) edge[t] = row[j];
    }
  }
  void read_values(const Strip<T>& strip, std::int64_t s, const T* rows) {
    read_edge(strip, s, rows, edge_, -kInfinity<T>);
    Omega::encode(edge_, strip.steps + 1, stride_);
  }
  void read_edges(const Strip<T>& strip, std::int64_t s, std::int64_t number) {
    read_values(strip, s, checkpoints(number));
    read_edge(strip, s, moved_rows_, moved_edge_, T(0));
  }

  void keep_bottom(const Strip<T>& strip, std::int64_t s, const T* bottom, T* rows) const {
    const std::int64_t r = strip.height - 1, i = strip.top + r;
    T* row = rows + s * grid_.width - strip.item.shift(i);
    for (std::int64_t j = strip.item.begin(i); j < strip.item.end(i); ++j) row[j] = bottom[j - strip.left + r];
  }

  template <bool kWeights, bool kTangent>
  T ascend(const Strip<T>& strip, T* bottom, const T* direction, std::int64_t direction_stride, T* moved_bottom) {
    if (strip.height <= Thin::kRows)
      Thin::template ascend<kWeights, kTangent>(strip, scale_, edge_, bottom, stride_, last_, weights_, direction,
                                                direction_stride, moved_edge_, moved_bottom, tile_, moved_tile_);
    else
      Wide::template ascend<kWeights, kTangent>(strip, scale_, edge_, bottom, stride_, last_, weights_, direction,
                                                direction_stride, moved_edge_, moved_bottom, tile_, moved_tile_);
    if (bottom != nullptr) Omega::decode(bottom, strip.steps, stride_);
    Omega::decode(last_, 1, stride_);
    return last_[0];
  }

  template <bool kTangent>
  void descend(const Strip<T>& strip, T* matrix) {
    if (strip.height <= Thin::kRows)
      Thin::template descend<kTangent>(strip, weights_, coming_, leaving_, moved_coming_, moved_leaving_, matrix,
                                       grid_.width, tile_);
    else
      Wide::template descend<kTangent>(strip, weights_, coming_, leaving_, moved_coming_, moved_leaving_, matrix,
                                       grid_.width, tile_);
    T* line = coming_;
    coming_ = leaving_;
    leaving_ = line;
    line = moved_coming_;
    moved_coming_ = moved_leaving_;
    moved_leaving_ = line;
    for (std::int64_t j = -1; j <= grid_.grid_columns; ++j) leaving_[j] = moved_leaving_[j] = 0;
  }

  const AlignmentGrid<T>& grid_;
  T scale_;
  std::int64_t stride_;
  T *edge_, *bottom_, *last_, *moved_edge_, *moved_bottom_, *coming_, *leaving_, *moved_coming_, *moved_leaving_;
  T *tile_, *moved_tile_, *moved_rows_ = nullptr;
  V* weights_;
  std::int64_t per_strip_;
};

template <class T, class F>
inline void with_omega(const AlignmentGrid<T>& grid, std::int64_t begin, std::int64_t end, int stored, F f) {
  const auto go = [&](auto omega) {
    using Own = Aligner<T, decltype(omega)>;
    const WithoutDenormals flushed;  // far from the best paths marginals are tiny
    const std::int64_t steps = Own::most_steps(grid, begin, end);
    Buffer buffer(Own::bytes(grid, steps, stored));
    Own aligner(grid, steps, buffer, stored);
    f(aligner);
  };
  if (grid.kind == 0) go(HardThree{});
  else if (grid.kind == 1) go(ShannonThree{});
  else go(SquaredThree{});
}

template <class T>
void run(const AlignmentValue<T>& problem, std::int64_t begin, std::int64_t end) {
  with_omega(problem.grid, begin, end, 0, [&](auto& aligner) {
    for (std::int64_t item = begin; item < end; ++item) problem.value[item] = aligner.value(item);
  });
}

template <class T>
void run(const AlignmentMarginals<T>& problem, std::int64_t begin, std::int64_t end) {
  with_omega(problem.grid, begin, end, 3, [&](auto& aligner) {
    for (std::int64_t item = begin; item < end; ++item)
      aligner.marginals(item, problem.value[item], problem.marginals + item * problem.columns);
  });
}

template <class T>
void run(const AlignmentBoth<T>& problem, std::int64_t begin, std::int64_t end) {
  const int strips = static_cast<int>(problem.grid.rows / kStripRows<T> + 1);
  with_omega(problem.grid, begin, end, 3 * strips, [&](auto& aligner) {
    for (std::int64_t item = begin; item < end; ++item)
      problem.value[item] = aligner.both(item, problem.marginals + item * problem.columns);
  });
}

template <class T>
void run(const AlignmentTangent<T>& problem, std::int64_t begin, std::int64_t end) {
  with_omega(problem.grid, begin, end, 6, [&](auto& aligner) {
    for (std::int64_t item = begin; item < end; ++item)
      aligner.tangent(item, problem.value[item], problem.direction + item * problem.columns, problem.grid.width,
                      problem.tangent + item * problem.columns);
  });
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
