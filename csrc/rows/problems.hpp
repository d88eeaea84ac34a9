// What the kernels on rows read and write: pointers to row-major rows. The fields are, in this order, inputs (scores,
// or weights and what belongs to them, and a direction), parameters, results, and `columns`.
#pragma once

#include <cstdint>

#include "core/arguments.hpp"

namespace omegamax {

// Sparsemax: the Euclidean projection of each row onto the simplex.
template <class T>
struct Sparsemax {
  const T* scores;
  T* weights;
  T* value;  // one per row, or nullptr: not wanted
  std::int64_t columns;
};

// Its Jacobian times a direction: centre the direction on the support, zero elsewhere.
template <class T>
struct SparsemaxProduct {
  const T* weights;
  const T* direction;
  T* product;
  std::int64_t columns;
};

// Hardmax: one at the first largest score.
template <class T>
struct Hardmax {
  const T* scores;
  T* weights;
  PerRow<T> value;
  std::int64_t columns;
};

// Softmax and its log-partition.
template <class T>
struct Softmax {
  const T* scores;
  T* weights;
  PerRow<T> value;
  std::int64_t columns;
};

template <class T>
struct SoftmaxProduct {
  const T* weights;
  const T* direction;
  T* product;
  std::int64_t columns;
};

// Entmax of order alpha >= 1: one for all rows, or one per row where `alphas` is not null.
template <class T>
struct Entmax {
  const T* scores;
  const double* alphas;
  double alpha;
  T* weights;
  T* value;  // or nullptr
  std::int64_t columns;
};

template <class T>
struct EntmaxProduct {
  const T* weights;
  const T* direction;
  const double* alphas;
  double alpha;
  T* product;
  std::int64_t columns;
};

// How the Tsallis entropy and its gradient move with alpha.
template <class T>
struct EntmaxSlope {
  const T* weights;
  const double* alphas;
  double alpha;
  T* slope;  // one per row
  T* gradient;
  std::int64_t columns;
};

// The Jacobian times a direction, and the inner product of that with the gradient's slope.
template <class T>
struct EntmaxPull {
  const T* weights;
  const T* direction;
  const double* alphas;
  double alpha;
  T* product;
  T* along;  // one per row
  std::int64_t columns;
};

// Squared p-norm regularization, 1 < p <= 2.
template <class T>
struct Sqpnormmax {
  const T* scores;
  const double* ps;  // always nullptr: one p serves all rows
  double p;
  T* weights;
  PerRow<T> value;
  std::int64_t columns;
};

template <class T>
struct SqpnormmaxProduct {
  const T* weights;
  const T* direction;
  double p;
  T* product;
  std::int64_t columns;
};

// Regularization by the alpha-norm, 1 < alpha < inf: one for all rows, or one per row where `alphas` is not null.
template <class T>
struct Normmax {
  const T* scores;
  const double* alphas;
  double alpha;
  T* weights;
  PerRow<T> value;
  std::int64_t columns;
};

template <class T>
struct NormmaxProduct {
  const T* weights;
  const T* direction;
  const double* alphas;
  double alpha;
  T* product;
  std::int64_t columns;
};

// Total variation denoising of each row, and its segments (joined[i]: i is in the segment of i - 1).
template <class T>
struct ProxTv1d {
  const T* rows;
  const double* strengths;  // one per row, or nullptr: then `strength`
  double strength;
  T* solution;
  bool* joined;
  std::int64_t columns;
};

// The mean of the direction over each segment.
template <class T>
struct SegmentMean {
  const bool* joined;
  const T* direction;
  T* mean;
  std::int64_t columns;
};

// Fusedmax: the projection onto the simplex of the denoised row.
template <class T>
struct Fusedmax {
  const T* scores;
  const double* strengths;  // one per row, or nullptr: then `strength`
  double strength;
  T* weights;
  PerRow<T> value;
  PerEntry<bool> joined;
  std::int64_t columns;
};

template <class T>
struct FusedmaxProduct {
  const T* weights;
  const bool* joined;
  const T* direction;
  T* product;
  std::int64_t columns;
};

// Non-decreasing least squares.
template <class T>
struct Isotonic {
  const T* rows;
  T* solution;
  bool* joined;
  std::int64_t columns;
};

// Non-increasing v, on each block log sum exp(rows) - log sum exp(targets).
template <class T>
struct IsotonicEntropic {
  const T* rows;
  const T* targets;
  T* solution;
  bool* joined;
  std::int64_t columns;
};

// Oscarmax, with the cluster of each supported entry (-1 elsewhere) where `labels` is not null.
template <class T>
struct Oscarmax {
  const T* scores;
  const double* strengths;  // one per row, or nullptr: then `strength`
  double strength;
  double most;  // of strength times the number of positions that are not removed: a row of more takes less strength
  T* weights;
  PerRow<T> value;
  std::int32_t* labels;
  std::int64_t columns;
};

template <class T>
struct OscarmaxProduct {
  const T* weights;
  const std::int32_t* labels;
  const T* direction;
  T* product;
  std::int64_t columns;
};

// The proximal operator of the ordered weighted l1 norm.
template <class T>
struct ProxOwl {
  const T* rows;
  const T* owl_weights;
  std::int64_t owl_stride;  // 0: one set of weights for all rows; `columns`: one per row
  T* solution;
  std::int32_t* labels;
  std::int64_t columns;
};

template <class T>
struct OwlProduct {
  const T* solution;
  const std::int32_t* labels;
  const T* direction;
  T* product;
  std::int64_t columns;
};

// Groupmax: whole groups of positions are selected or dropped.
template <class T>
struct Groupmax {
  const T* scores;
  const std::int64_t* groups;  // the group of each position, shared by all rows
  const double* strengths;     // one per row, or nullptr: then `strength`
  double strength;
  T* weights;
  PerRow<T> value;
  std::int64_t columns;
};

template <class T>
struct GroupmaxProduct {
  const T* weights;
  const T* direction;
  const std::int64_t* groups;
  const double* strengths;
  double strength;
  T* product;
  std::int64_t columns;
};

}  // namespace omegamax
