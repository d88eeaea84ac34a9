// The best assignment of rows to columns: the twin of kernels/structures/assignment.py, with vectors over the columns.
//
//     minimise  sum over i of costs[i, column(i)]   over one-to-one maps of rows into columns,  rows <= columns
//
// Shortest augmenting paths with prices v of columns (Jonker & Volgenant, Computing 1987; Crouse, IEEE TAES 2016 for
// rectangular problems). Throughout, an assigned pair has the lowest costs - v of its row, and columns without a row
// cost nothing (v = 0) unless all columns will be taken; an assignment of all rows is then optimal. +inf forbids. Ties
// go to the lowest index.
#pragma once

#include <cstdint>

#include "core/buffer.hpp"
#include "core/interruption.hpp"
#include "core/simd.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

class Assignment {
 public:
  static constexpr std::int64_t kFree = -1;

  // For problems of up to so many rows and columns.
  Assignment(std::int64_t most_rows, std::int64_t most_columns)
      : buffer_(Buffer::size<double>(most_rows * padded(most_columns)) +
                3 * Buffer::size<double>(padded(most_columns)) + 2 * Buffer::size<std::int64_t>(padded(most_columns)) +
                Buffer::size<std::int64_t>(most_rows)),
        costs_(buffer_.take<double>(most_rows * padded(most_columns))),
        price_(buffer_.take<double>(padded(most_columns))), distance_(buffer_.take<double>(padded(most_columns))),
        shut_(buffer_.take<double>(padded(most_columns))), owner_(buffer_.take<std::int64_t>(padded(most_columns))),
        came_from_(buffer_.take<std::int64_t>(padded(most_columns))), column_(buffer_.take<std::int64_t>(most_rows)) {}

  // Sets the size; every entry of each row is then to be written. What was known of another problem is forgotten.
  void resize(std::int64_t rows, std::int64_t columns) {
    rows_ = rows;
    columns_ = columns;
    stride_ = padded(columns);
    for (std::int64_t i = 0; i < rows; ++i)  // columns beyond the last are forbidden, so that vectors need no tails
      for (std::int64_t j = columns; j < stride_; ++j) row(i)[j] = kInfinity<double>;
  }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  double* row(std::int64_t i) { return costs_ + i * stride_; }
  std::int64_t column(std::int64_t row) const { return column_[row]; }
  std::int64_t owner(std::int64_t column) const { return owner_[column]; }
  double price(std::int64_t column) const { return price_[column]; }

  // False where every assignment needs a forbidden pair.
  bool solve() {
    for (std::int64_t i = 0; i < rows_; ++i) column_[i] = kFree;
    for (std::int64_t j = 0; j < stride_; ++j) owner_[j] = kFree;
    for (std::int64_t j = 0; j < stride_; ++j) price_[j] = 0;
    if (rows_ == columns_ && !take_cheapest()) return false;
    return complete();
  }

  // The same after the costs have changed. It starts from the present prices, since any will do, and from the pairs
  // that still are the best of their rows, so the result is as optimal as that of `solve`.
  bool solve_again() {
    bool moved = true;
    while (moved) {  // each round removes a price, which does not come back
      for (std::int64_t i = 0; i < rows_; ++i) {
        const std::int64_t j = column_[i];
        // In a row of which all pairs are forbidden, each is as good as the others: none may stay.
        if (j == kFree || (row(i)[j] < kInfinity<double> && row(i)[j] - price_[j] <= lowest_of(i))) continue;
        column_[i] = owner_[j] = kFree;
      }
      moved = false;
      for (std::int64_t j = 0; j < columns_ && rows_ < columns_; ++j) {
        if (owner_[j] != kFree || price_[j] == 0) continue;
        price_[j] = 0;
        moved = true;
      }
    }
    return complete();
  }

 private:
  static constexpr int kWide = kLanes<double>;

  static std::int64_t padded(std::int64_t n) { return (n + kWide - 1) / kWide * kWide; }

  bool complete() {
    for (std::int64_t i = 0; i < rows_; ++i) {
      if (column_[i] != kFree) continue;
      check_interruption();  // a large problem takes seconds
      if (!augment(i)) return false;
    }
    return true;
  }

  double lowest_of(std::int64_t i) {
    const double* costs = row(i);
    Doubles lowest = splat(kInfinity<double>);
    for (std::int64_t j = 0; j < stride_; j += kWide) lowest = smaller(load(costs + j) - load(price_ + j), lowest);
    return -largest_lane<double>(-lowest);
  }

  // Where all columns will be taken they may have a price at once: that of their cheapest row.
  bool take_cheapest() {
    Doubles highest = splat(-kInfinity<double>);
    for (std::int64_t j = 0; j < stride_; j += kWide) {
      Doubles lowest = splat(kInfinity<double>);
      Longs cheapest{};
      for (std::int64_t i = 0; i < rows_; ++i) {
        const Doubles costs = load(row(i) + j);
        cheapest = costs < lowest ? i - Longs{} : cheapest;
        lowest = smaller(costs, lowest);
      }
      store(price_ + j, lowest);
      __builtin_memcpy(came_from_ + j, &cheapest, sizeof cheapest);
    }
    for (std::int64_t j = columns_; j < stride_; ++j) price_[j] = 0;  // inf - inf would not be a number
    for (std::int64_t j = 0; j < stride_; j += kWide) highest = larger(load(price_ + j), highest);
    if (largest_lane<double>(highest) == kInfinity<double>) return false;
    for (std::int64_t j = 0; j < columns_; ++j) {
      const std::int64_t i = came_from_[j];
      if (column_[i] != kFree) continue;
      column_[i] = j;
      owner_[j] = i;
    }
    return true;
  }

  // The cheapest chain of changes that gives a free row a column; prices follow. Dijkstra's algorithm.
  bool augment(std::int64_t start) {
    const double* costs = row(start);
    Doubles lowest = splat(kInfinity<double>);
    for (std::int64_t j = 0; j < stride_; j += kWide) {
      const Doubles left = load(costs + j) - load(price_ + j);
      store(distance_ + j, left);
      store(shut_ + j, Doubles{});
      lowest = smaller(left, lowest);
    }
    for (std::int64_t j = 0; j < stride_; ++j) came_from_[j] = start;
    double level;
    std::int64_t last;
    for (;;) {
      level = -largest_lane<double>(-lowest);
      if (level == kInfinity<double>) return false;
      const std::int64_t column = nearest(level);
      if (owner_[column] == kFree) {
        last = column;
        break;
      }
      shut_[column] = kInfinity<double>;
      lowest = pass_through(owner_[column], column, level);
    }
    for (std::int64_t j = 0; j < columns_; ++j)
      if (shut_[j] != 0) price_[j] += distance_[j] - level;
    for (std::int64_t j = last;;) {
      const std::int64_t i = came_from_[j], before = column_[i];
      column_[i] = j;
      owner_[j] = i;
      if (i == start) return true;
      j = before;
    }
  }

  // Shortens the ways to columns by one through a row's column; returns the lowest of those not yet reached.
  Doubles pass_through(std::int64_t i, std::int64_t column, double level) {
    const double* costs = row(i);
    const double slack = (costs[column] - price_[column]) - level;
    const Longs here = i - Longs{};
    const Doubles floor = splat(level);  // rounding must not lead below what has been reached
    Doubles lowest = splat(kInfinity<double>);
    for (std::int64_t j = 0; j < stride_; j += kWide) {
      const Doubles through = larger((load(costs + j) - load(price_ + j)) - slack, floor), known = load(distance_ + j);
      Longs from;
      __builtin_memcpy(&from, came_from_ + j, sizeof from);
      from = through < known ? here : from;
      __builtin_memcpy(came_from_ + j, &from, sizeof from);
      const Doubles distance = smaller(through, known);
      store(distance_ + j, distance);
      lowest = smaller(distance + load(shut_ + j), lowest);
    }
    return lowest;
  }

  // The first column at this distance that is free; the first that is not yet reached if there is none.
  std::int64_t nearest(double level) const {
    std::int64_t found = kFree;
    const Doubles above = splat(level);
    for (std::int64_t j = 0; j < stride_; j += kWide) {
      unsigned bits = kAllLanes<double> & ~where_greater(load(distance_ + j) + load(shut_ + j), above);
      for (; bits != 0; bits &= bits - 1) {
        const std::int64_t column = j + __builtin_ctz(bits);
        if (owner_[column] == kFree) return column;
        if (found == kFree) found = column;
      }
    }
    return found;
  }

  static Doubles smaller(Doubles a, Doubles b) { return -larger(-a, -b); }

  Buffer buffer_;
  double *costs_, *price_, *distance_, *shut_;
  std::int64_t *owner_, *came_from_, *column_;
  std::int64_t rows_ = 0, columns_ = 0, stride_ = 0;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
