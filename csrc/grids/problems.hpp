// What the kernels on alignment grids read and write.
#pragma once

#include <cstdint>

#include "core/arguments.hpp"

namespace omegamax {

// Alignment grids, one per item: here a row of the batch is an item. scale * scores[i, j] is the score of a cell.
template <class T>
struct AlignmentGrid {
  const T* scores;
  const std::int64_t* lengths;  // two per item, or nullptr for rows and grid_columns
  const std::int32_t* first;    // first and last column of each row of a band, or nullptr
  const std::int32_t* last;
  std::int64_t item_stride;  // of the scores
  std::int64_t row_stride;
  std::int64_t band_stride;  // of the band, between items
  std::int64_t packed;       // whether a stored row begins with the first column of its band
  double scale;
  Omega omega;  // not kTsallis15
  std::int64_t rows;
  std::int64_t width;         // of a stored row
  std::int64_t grid_columns;  // of the grid
  T* checkpoints;             // per item every 128 bytes' worth of rows: (rows - 1) / that, times width, in two parts
};

// Smoothed dynamic time warping; `columns` is the stored size of an item.
template <class T>
struct AlignmentValue {
  AlignmentGrid<T> grid;
  double* value;
  std::int64_t columns;
};

template <class T>
struct AlignmentMarginals {
  AlignmentGrid<T> grid;
  const double* value;
  T* marginals;
  std::int64_t columns;
};

// Value and marginals at once, for grids whose local weights fit in a cache.
template <class T>
struct AlignmentBoth {
  AlignmentGrid<T> grid;
  double* value;
  T* marginals;
  std::int64_t columns;
};

template <class T>
struct AlignmentTangent {
  AlignmentGrid<T> grid;
  const double* value;
  const T* direction;
  T* tangent;
  std::int64_t columns;
};

// Soft-DTW of points x (rows, coordinates) and y (columns, coordinates) under squared distances times `scale`, with its
// gradients where they are wanted.
template <class T>
struct SoftDtw {
  const T* x;
  const T* y;
  const std::int64_t* lengths;  // two per item, or nullptr for rows and grid_columns
  double scale;
  Omega omega;
  std::int64_t rows, grid_columns, n_coordinates;
  double* value;
  T* to_x;  // or nullptr
  T* to_y;
  std::int64_t columns;
};

// Squared distances of the points of two lists; a row is a point of the first.
template <class T>
struct PairwiseSquared {
  const T* x;       // (n_points, n_coordinates) per item
  const T* turned;  // (n_coordinates, columns) per item
  std::int64_t n_points, n_coordinates;
  T* distances;
  std::int64_t columns;
};

}  // namespace omegamax
