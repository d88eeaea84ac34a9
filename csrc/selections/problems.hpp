// What the kernels on matchings and on subsets read and write.
#pragma once

#include <cstdint>

#include "core/arguments.hpp"

namespace omegamax {

// The best matching of each item. `row` and `column` are scores of unmatched ones, or null; `columns_of` gets the
// column of each row or -1; `prices` (the larger of rows and width, zero where unwritten), if not null, those of
// matching.hpp.
template <class T>
struct MatchingBest {
  const T* pairs;  // (rows, width)
  const T* row;
  const T* column;
  const std::int64_t* row_lengths;
  const std::int64_t* column_lengths;
  std::int64_t rows, width;
  T* value;
  std::int64_t* columns_of;
  double* prices;
  std::int64_t columns;
};

// The best lo to hi entries of each item.
template <class T>
struct Selection {
  const T* scores;  // (width)
  const std::int64_t* lengths;
  std::int64_t width, lo, hi;
  T* value;
  T* chosen;  // (width): 0 or 1
  std::int64_t columns;
};

// Sweeps over (position, count), see budget.hpp. `omega` is kShannon or kSquaredNorm; what one sweep leaves to another
// is in double precision whatever the scores are.
template <class T>
struct BudgetUp {
  const T* scores;  // (width)
  const std::int64_t* lengths;
  std::int64_t width, lo, hi;
  Omega omega;
  double* taken;  // (width, hi + 1 padded): probability of having taken the entry, given the count so far
  double* last;   // (hi + 1): values of the counts at the end
  std::int64_t columns;
};

template <class T>
struct BudgetDown {
  const std::int64_t* lengths;
  const double* taken;
  const double* goal;  // (hi + 1): probability of each count at the end
  std::int64_t width, lo, hi;
  T* marginals;  // (width)
  std::int64_t columns;
};

template <class T>
struct BudgetMoveUp {
  const std::int64_t* lengths;
  const double* taken;
  const T* direction;  // (width)
  std::int64_t width, lo, hi;
  Omega omega;
  double* moved;  // as taken: its derivative
  double* last;   // (hi + 1): derivatives of the values
  std::int64_t columns;
};

template <class T>
struct BudgetMoveDown {
  const std::int64_t* lengths;
  const double* taken;
  const double* moved;
  const double* goal;
  const double* moved_goal;
  std::int64_t width, lo, hi;
  T* product;  // (width)
  std::int64_t columns;
};

}  // namespace omegamax
