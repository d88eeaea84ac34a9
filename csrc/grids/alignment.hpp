// Smoothed dynamic time warping on matrices of scores: value, expected alignment and its derivative.
#pragma once

#include "grids/aligner.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Scores, directions and marginals that are matrices.
template <class T>
struct MatrixGround {
  // Zeros outside the item's grid, and `nothing` inside where there is nothing more to do.
  void prepare(const GridItem<T>& item, bool feasible, T nothing) {
    for (std::int64_t i = 0; i < grid.rows; ++i) {
      const bool is_row = i < item.m;
      const std::int64_t shift = is_row ? item.shift(i) : 0;
      const std::int64_t begin = is_row ? item.begin(i) - shift : 0, end = is_row ? item.end(i) - shift : 0;
      T* row = found + i * grid.width;
      for (std::int64_t j = 0; j < begin; ++j) row[j] = 0;
      for (std::int64_t j = end; j < grid.width; ++j) row[j] = 0;
      if (!feasible)
        for (std::int64_t j = begin; j < end; ++j) row[j] = nothing;
    }
  }
  void enter(const Strip<T>&) {}
  void leave(const Strip<T>&) {}
  void read(const Strip<T>& strip, std::int64_t t, int lanes, T* tile) const {
    strip.read(strip.item.scores, strip.item.row_stride, static_cast<T>(grid.scale), -kInfinity<T>, t, lanes, tile);
  }
  void read_moved(const Strip<T>& strip, std::int64_t t, int lanes, T* tile) const {
    strip.read(direction, grid.width, static_cast<T>(grid.scale), T(0), t, lanes, tile);
  }
  void write(const Strip<T>& strip, std::int64_t t, int lanes, const T* tile) const {
    strip.write(tile, t, lanes, found, grid.width);
  }

  const AlignmentGrid<T>& grid;
  T* found;
  const T* direction;
};

// f(aligner, item, its checkpoints, its number) for every item.
template <class T, class F>
inline void each_item(const AlignmentGrid<T>& grid, std::int64_t begin, std::int64_t end, int stored, F f) {
  with_omega(grid, begin, end, stored, [&](auto& aligner) {
    for (std::int64_t number = begin; number < end; ++number)
      f(aligner, GridItem<T>(grid, number), grid.checkpoints + number * aligner.checkpoints(grid), number);
  });
}

template <class T>
void run(const AlignmentValue<T>& problem, std::int64_t begin, std::int64_t end) {
  MatrixGround<T> ground{problem.grid, nullptr, nullptr};
  each_item(problem.grid, begin, end, 0, [&](auto& aligner, const auto& item, T* rows, std::int64_t number) {
    problem.value[number] = aligner.value(item, rows, ground);
  });
}

template <class T>
void run(const AlignmentMarginals<T>& problem, std::int64_t begin, std::int64_t end) {
  each_item(problem.grid, begin, end, 3, [&](auto& aligner, const auto& item, const T* rows, std::int64_t number) {
    MatrixGround<T> ground{problem.grid, problem.marginals + number * problem.columns, nullptr};
    aligner.marginals(item, problem.value[number], rows, ground);
  });
}

template <class T>
void run(const AlignmentBoth<T>& problem, std::int64_t begin, std::int64_t end) {
  const int strips = static_cast<int>(problem.grid.rows / kStripRows<T> + 1);
  each_item(problem.grid, begin, end, 3 * strips, [&](auto& aligner, const auto& item, T* rows, std::int64_t number) {
    MatrixGround<T> ground{problem.grid, problem.marginals + number * problem.columns, nullptr};
    problem.value[number] = aligner.both(item, rows, ground);
  });
}

template <class T>
void run(const AlignmentTangent<T>& problem, std::int64_t begin, std::int64_t end) {
  each_item(problem.grid, begin, end, 6, [&](auto& aligner, const auto& item, const T* rows, std::int64_t number) {
    MatrixGround<T> ground{problem.grid, problem.tangent + number * problem.columns,
                           problem.direction + number * problem.columns};
    aligner.tangent(item, problem.value[number], rows, ground);
  });
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
