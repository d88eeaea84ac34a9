// What the kernels on lists of time series read and write, and the table of functions that one instruction set fills.
//
// They have a table of their own, so that a change here does not compile the kernels of all other rooms again.
#pragma once

#include <cstdint>

#include "core/arguments.hpp"

namespace omegamax {

// Which cells of a grid a path may visit, by the number that Python passes; see omegamax/structures/bands.py.
enum class SeriesBand : std::int64_t { kNone = 0, kSakoeChiba = 1, kItakura = 2 };

// Two lists of series: a row of the batch is a series of the first list.
template <class T>
struct SeriesPairs {
  const T* x;  // (rows, x_size, n_coordinates)
  const T* y;  // (n_others, y_size, n_coordinates)
  const std::int64_t* x_lengths;
  const std::int64_t* y_lengths;
  std::int64_t n_others, x_size, y_size, n_coordinates;
  SeriesBand band;
  double reach;  // the width of the band in steps, or its slope
};

// Smoothed dynamic time warping of all pairs; `scale` times a squared distance is the score of a cell.
template <class T>
struct SeriesDistances {
  SeriesPairs<T> pairs;
  double scale;
  Omega omega;
  std::int64_t triangle;  // whether only pairs j >= i are wanted; the others are zero
  T* distances;           // (rows, n_others)
  std::int64_t columns;
};

// Lower bounds of dynamic time warping: by the first and last numbers, and by the envelope of x.
template <class T>
struct SeriesBounds {
  SeriesPairs<T> pairs;
  T* kim;    // (rows, n_others)
  T* keogh;  // the same
  std::int64_t columns;
};

// The nearest others of each series, and all others within a radius.
template <class T>
struct SeriesSearch {
  SeriesPairs<T> pairs;
  const std::int64_t* order;  // (rows, n_others): by growing bound
  const T* kim;
  const T* bound;  // of each pair, not below kim
  std::int64_t n_neighbors;
  double radius;
  T* nearest;             // (rows, n_neighbors), nearest first; infinite where there are fewer
  std::int64_t* numbers;  // of these; -1 where there are fewer
  T* distances;           // (rows, n_others), infinite where ruled out, or nullptr
  std::int64_t* counts;   // (rows, 4): ruled out by kim, by the bound, abandoned, computed
  std::int64_t columns;
};

// Soft-DTW of points in a band; see SoftDtw.
template <class T>
struct BandedSoftDtw {
  const T* x;
  const T* y;
  const std::int64_t* lengths;  // two per item, or nullptr for rows and grid_columns
  const std::int32_t* first;    // first and last column of each row of a band, `rows` per item
  const std::int32_t* last;
  double scale;
  Omega omega;
  std::int64_t rows, grid_columns, n_coordinates;
  double* value;
  T* to_x;  // or nullptr
  T* to_y;
  std::int64_t columns;
};

#define OMEGAMAX_SERIES_KERNELS(X) \
  X(SeriesDistances)               \
  X(SeriesBounds)                  \
  X(SeriesSearch)                  \
  X(BandedSoftDtw)

struct SeriesTable {
#define OMEGAMAX_ENTRY(Name)                                                      \
  void (*Name##_float)(const Name<float>&, std::int64_t begin, std::int64_t end); \
  void (*Name##_double)(const Name<double>&, std::int64_t begin, std::int64_t end);
  OMEGAMAX_SERIES_KERNELS(OMEGAMAX_ENTRY)
#undef OMEGAMAX_ENTRY
};

}  // namespace omegamax
