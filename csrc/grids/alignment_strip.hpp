// A strip of an alignment grid: some rows of one item, a row per vector lane, swept by anti-diagonals.
//
// At step t lane r is in column `left + t - r`, so that its three tails were computed one step ago (left: same lane;
// up: the lane before) and two steps ago (diagonal: the lane before). Scores are read and marginals written in tiles of
// a few steps, since a column of lanes is an anti-diagonal of the matrix.
#pragma once

#include "core/problems.hpp"
#include "core/simd.hpp"
#include "core/transpose.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
constexpr int kStripRows = 128 / static_cast<int>(sizeof(T));  // the same for all instruction sets
constexpr int kTile = 16;
constexpr int kAhead = 2 * kTile;  // steps to prefetch ahead: the processor does not follow so many rows itself

template <class T>
struct GridItem {
  GridItem(const AlignmentGrid<T>& grid, std::int64_t item)
      : scores(grid.scores + item * grid.item_stride), row_stride(grid.row_stride),
        m(grid.lengths == nullptr ? grid.rows : grid.lengths[2 * item]),
        n(grid.lengths == nullptr ? grid.grid_columns : grid.lengths[2 * item + 1]), packed(grid.packed != 0),
        first_(grid.first == nullptr ? nullptr : grid.first + item * grid.band_stride),
        last_(grid.last == nullptr ? nullptr : grid.last + item * grid.band_stride) {}

  std::int64_t begin(std::int64_t i) const { return first_ == nullptr ? 0 : first_[i]; }
  std::int64_t end(std::int64_t i) const { return first_ == nullptr ? n : last_[i] + 1; }
  std::int64_t shift(std::int64_t i) const { return packed ? first_[i] : 0; }  // column of the first stored entry

  const T* scores;
  std::int64_t row_stride, m, n;
  bool packed;

 private:
  const std::int32_t *first_, *last_;
};

template <class T>
struct Strip {
  Strip(const GridItem<T>& item_, std::int64_t number) : item(item_), top(number * kStripRows<T>) {
    height = item.m - top < kStripRows<T> ? item.m - top : kStripRows<T>;
    left = item.begin(top);
    steps = item.end(top + height - 1) - left + height - 1;
  }
  std::int64_t column(std::int64_t t, std::int64_t r) const { return left + t - r; }

  // tile[s][r] = scale times the entry of `matrix` in row r at step t + s; `fill` outside the grid. `lanes` rows are
  // written. (Were the product left to the sweeps, the compiler would fuse it with a sum in some and not in others.)
  void read(const T* matrix, std::int64_t row_stride, T scale, T fill, std::int64_t t, int lanes, T* tile) const {
    for (int r = 0; r < lanes; ++r) {
      if (r % kLanes<T> == 0 && is_whole(t, r)) {
        Vector<T> block[kLanes<T>];
        for (int s = 0; s < kTile; s += kLanes<T>) {
          for (int k = 0; k < kLanes<T>; ++k) {
            const T* from = row_of(matrix, row_stride, r + k) + column(t, r + k) + s;
            __builtin_prefetch(from + kAhead);
            block[k] = load(from);
          }
          transpose<T>(block);
          for (int k = 0; k < kLanes<T>; ++k) store<T>(tile + (s + k) * lanes + r, block[k] * scale);
        }
        r += kLanes<T> - 1;
        continue;
      }
      if (r >= height) {
        for (int s = 0; s < kTile; ++s) tile[s * lanes + r] = fill;
        continue;
      }
      const std::int64_t i = top + r, j = column(t, r), begin = item.begin(i), end = item.end(i);
      const T* row = row_of(matrix, row_stride, r);
      for (int s = 0; s < kTile; ++s) tile[s * lanes + r] = j + s >= begin && j + s < end ? row[j + s] * scale : fill;
    }
  }

  // The inverse, inside the grid only.
  void write(const T* tile, std::int64_t t, int lanes, T* matrix, std::int64_t row_stride) const {
    for (int r = 0; r < lanes && r < height; ++r) {
      if (r % kLanes<T> == 0 && is_whole(t, r)) {
        Vector<T> block[kLanes<T>];
        for (int s = 0; s < kTile; s += kLanes<T>) {
          for (int k = 0; k < kLanes<T>; ++k) block[k] = load(tile + (s + k) * lanes + r);
          transpose<T>(block);
          for (int k = 0; k < kLanes<T>; ++k) {
            T* to = row_of(matrix, row_stride, r + k) + column(t, r + k) + s;
            __builtin_prefetch(to - kAhead, 1);
            store(to, block[k]);
          }
        }
        r += kLanes<T> - 1;
        continue;
      }
      const std::int64_t i = top + r, j = column(t, r), begin = item.begin(i), end = item.end(i);
      T* row = row_of(matrix, row_stride, r);
      const std::int64_t from = begin > j ? begin - j : 0, to = end - j < kTile ? end - j : kTile;
      for (std::int64_t s = from; s < to; ++s) row[j + s] = tile[s * lanes + r];
    }
  }

 private:
  template <class P>
  P* row_of(P* matrix, std::int64_t row_stride, std::int64_t r) const {
    return matrix + (top + r) * row_stride - item.shift(top + r);
  }

  // Whether all steps of a tile lie in the grid, for the vector of rows that begins at r.
  bool is_whole(std::int64_t t, std::int64_t r) const {
    if (!kHasTranspose || r + kLanes < T >> height) return false;
    for (std::int64_t k = r; k < r + kLanes<T>; ++k)
      if (column(t, k) < item.begin(top + k) || column(t, k) + kTile > item.end(top + k)) return false;
    return true;
  }

 public:
  const GridItem<T>& item;
  std::int64_t top, height, left, steps;
};

// The lanes of x, one further; the first comes from the last of `before`.
template <class T>
inline Vector<T> move_up(Vector<T> before, Vector<T> x) {
  constexpr int lanes = kLanes<T>;
#if defined(__clang__)
  Vector<T> y;
  for (int lane = 1; lane < lanes; ++lane) y[lane] = x[lane - 1];
  y[0] = before[lanes - 1];
  return y;
#else
  typename Traits<Vector<T> >::Integer from;
  for (int lane = 0; lane < lanes; ++lane) from[lane] = lanes + lane - 1;
  return __builtin_shuffle(before, x, from);
#endif
}

// The lanes of x, one back; the last comes from the first of `after`.
template <class T>
inline Vector<T> move_down(Vector<T> x, Vector<T> after) {
  constexpr int lanes = kLanes<T>;
#if defined(__clang__)
  Vector<T> y;
  for (int lane = 1; lane < lanes; ++lane) y[lane - 1] = x[lane];
  y[lanes - 1] = after[0];
  return y;
#else
  typename Traits<Vector<T> >::Integer from;
  for (int lane = 0; lane < lanes; ++lane) from[lane] = lane + 1;
  return __builtin_shuffle(x, after, from);
#endif
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
