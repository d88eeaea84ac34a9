// Matchings of rows with columns: every row of the smaller side is matched exactly once or, where being unmatched has a
// score, every row and column at most once. A MAP oracle (sparsemap/oracle.hpp) and the kernel for a batch.
//
// Places are those of pairs (rows, columns), then of unmatched rows, then of unmatched columns. An item with scores for
// the unmatched is an assignment problem of rows + columns on both sides: row i gets a column of its own, which stands
// for being unmatched, column j gets such a row, and the added rows and columns match each other at no cost.
#pragma once

#include "core/problems.hpp"
#include "selections/assignment.hpp"
#include "sparsemap/equality_polytope.hpp"
#include "sparsemap/oracle.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

enum class Found { kNothing, kNaN, kMatching };

class Matching {
 public:
  Matching(std::int64_t rows, std::int64_t columns, bool may_be_alone)
      : rows_(rows), columns_(columns), alone_(may_be_alone),
        search_(sides(rows, columns, may_be_alone, false), sides(rows, columns, may_be_alone, true)) {}

  // Of the first r rows and c columns; `row` and `column` are scores of unmatched ones. `again`: the sizes are those of
  // the call before and the scores are near.
  template <class T>
  Found find(const T* pairs, const T* row, const T* column, std::int64_t r, std::int64_t c, bool again) {
    r_ = r;
    c_ = c;
    transposed_ = !alone_ && r > c;
    if (!again) search_.resize(alone_ ? r + c : smaller_of(r, c), alone_ ? r + c : r + c - smaller_of(r, c));
    if (!(alone_ ? fill_with_alone(pairs, row, column) : fill(pairs))) return Found::kNaN;
    return (again ? search_.solve_again() : search_.solve()) ? Found::kMatching : Found::kNothing;
  }

  // The column of a row, or -1: it is unmatched, or not among the rows of this item.
  std::int64_t column_of(std::int64_t i) const {
    if (i >= r_) return -1;
    const std::int64_t j = transposed_ ? search_.owner(i) : search_.column(i);
    return j < c_ ? j : -1;
  }
  bool column_is_alone(std::int64_t j) const { return search_.owner(j) >= r_; }
  // The price of a column, or of a row where there are more of them; see assignment.hpp.
  double price(std::int64_t place) const { return search_.price(place); }

 private:
  static std::int64_t smaller_of(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
  // Items may have more rows than columns or the reverse: the smaller side has at most so many, the larger as many.
  static std::int64_t sides(std::int64_t rows, std::int64_t columns, bool alone, bool larger_side) {
    if (alone) return rows + columns;
    return larger_side ? rows + columns - smaller_of(rows, columns) : smaller_of(rows, columns);
  }

  template <class T>
  bool fill(const T* pairs) {
    bool fine = true;
    for (std::int64_t i = 0; i < r_; ++i) {
      const T* scores = pairs + i * columns_;
      int spoiled = 0;
#pragma omp simd reduction(| : spoiled)
      for (std::int64_t j = 0; j < c_; ++j) spoiled |= !(scores[j] < kInfinity<T>);
      fine &= spoiled == 0;
      if (transposed_) {
        for (std::int64_t j = 0; j < c_; ++j) search_.row(j)[i] = -static_cast<double>(scores[j]);
      } else {
        double* costs = search_.row(i);
        for (std::int64_t j = 0; j < c_; ++j) costs[j] = -static_cast<double>(scores[j]);
      }
    }
    return fine;
  }

  template <class T>
  bool fill_with_alone(const T* pairs, const T* row, const T* column) {
    transposed_ = false;
    bool fine = fill(pairs);
    for (std::int64_t i = 0; i < r_; ++i) {
      for (std::int64_t j = 0; j < r_; ++j) search_.row(i)[c_ + j] = kInfinity<double>;
      const double cost = search_.row(i)[c_ + i] = -static_cast<double>(row[i]);
      fine &= cost > -kInfinity<double>;
    }
    for (std::int64_t j = 0; j < c_; ++j) {
      double* own = search_.row(r_ + j);
      for (std::int64_t k = 0; k < c_; ++k) own[k] = kInfinity<double>;
      for (std::int64_t i = 0; i < r_; ++i) own[c_ + i] = 0;
      own[j] = -static_cast<double>(column[j]);
      fine &= own[j] > -kInfinity<double>;
    }
    return fine;
  }

  std::int64_t rows_, columns_, r_ = 0, c_ = 0;
  bool alone_, transposed_ = false;
  Assignment search_;
};

// The oracle of SparseMAP, which asks many times for one item, with scores that change little: what was found for them
// is where the next search begins. Another item starts anew, so an item does not depend on those before it.
// sizes: rows, columns, whether they may be unmatched; integers: lengths of rows, of columns.
class MatchingOracle {
 public:
  explicit MatchingOracle(const OracleSpec& spec)
      : rows_(spec.sizes[0]), columns_(spec.sizes[1]), alone_(spec.sizes[2] != 0), row_lengths_(spec.integers[0]),
        column_lengths_(spec.integers[1]), matching_(rows_, columns_, alone_) {}

  void best(std::int64_t item, const double* scores, Vertex& found) {
    const std::int64_t r = row_lengths_[item], c = column_lengths_[item];
    const double *row = scores + rows_ * columns_, *column = row + rows_;
    const Found what = matching_.find(scores, row, column, r, c, known_ == item);
    known_ = what == Found::kMatching ? item : -1;
    if (what != Found::kMatching) {
      found.size = what == Found::kNaN ? Vertex::kNotANumber : Vertex::kInfeasible;
      return;
    }
    found.size = 0;
    for (std::int64_t i = 0; i < r; ++i)
      if (matching_.column_of(i) >= 0) add(found, i * columns_ + matching_.column_of(i));
    if (!alone_) return;
    for (std::int64_t i = 0; i < r; ++i)
      if (matching_.column_of(i) < 0) add(found, rows_ * columns_ + i);
    for (std::int64_t j = 0; j < c; ++j)
      if (matching_.column_is_alone(j)) add(found, rows_ * columns_ + rows_ + j);
  }

  // Rows and columns sum to one. Where a side is larger, or may be unmatched, its sums are bounded only.
  bool equalities(std::int64_t item, EqualitySystem& found) const {
    const std::int64_t n = row_lengths_[item];
    if (alone_ || column_lengths_[item] != n) return false;
    found.right.assign(2 * n, 1.0);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        found.begin(static_cast<std::int32_t>(i * columns_ + j));
        found.put(i, 1);
        found.put(n + j, 1);
        found.end();
      }
    return true;
  }

 private:
  static void add(Vertex& found, std::int64_t place) {
    found.places[found.size] = static_cast<std::int32_t>(place);
    found.values[found.size++] = 1;
  }

  std::int64_t rows_, columns_, known_ = -1;
  bool alone_;
  const std::int64_t *row_lengths_, *column_lengths_;
  Matching matching_;
};

template <class T>
void run(const MatchingBest<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = problem.rows, columns = problem.width, most = rows > columns ? rows : columns;
  const bool alone = problem.row != nullptr;
  Matching matching(rows, columns, alone);
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t r = problem.row_lengths[item], c = problem.column_lengths[item];
    const T* pairs = problem.pairs + item * rows * columns;
    const T* row = alone ? problem.row + item * rows : nullptr;
    const T* column = alone ? problem.column + item * columns : nullptr;
    const Found what = matching.find(pairs, row, column, r, c, false);
    std::int64_t* columns_of = problem.columns_of + item * rows;
    double value = what == Found::kMatching ? 0 : what == Found::kNaN ? kNaN<double> : -kInfinity<double>;
    for (std::int64_t i = 0; i < rows; ++i) {
      columns_of[i] = what == Found::kMatching ? matching.column_of(i) : -1;
      if (what != Found::kMatching || i >= r) continue;
      if (columns_of[i] >= 0) value += static_cast<double>(pairs[i * columns + columns_of[i]]);
      else if (alone) value += static_cast<double>(row[i]);
    }
    if (what == Found::kMatching && alone)
      for (std::int64_t j = 0; j < c; ++j)
        if (matching.column_is_alone(j)) value += static_cast<double>(column[j]);
    problem.value[item] = static_cast<T>(value);
    if (problem.prices != nullptr && what == Found::kMatching)
      for (std::int64_t j = 0; j < (r > c ? r : c); ++j) problem.prices[item * most + j] = matching.price(j);
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
