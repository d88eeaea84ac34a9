// What each row kernel reads and writes: plain data, the same for every instruction set.
//
// A row kernel is three things with one name:
//   1. a struct here (pointers to row-major rows, `columns` last),
//   2. `run(const Problem<T>&, begin, end)` in csrc/<name>.hpp, which handles rows begin..end,
//   3. a line in OMEGAMAX_KERNELS and one in bindings.cpp.
#pragma once

#include <cstdint>

namespace omegamax {

// Sparsemax: the Euclidean projection of each row onto the simplex.
template <class T>
struct Sparsemax {
  const T* scores;
  T* weights;
  T* value;  // one per row
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

// Softmax and its log-partition.
template <class T>
struct Softmax {
  const T* scores;
  T* weights;
  T* value;
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
  T* weights;
  T* value;
  const double* alphas;
  double alpha;
  std::int64_t columns;
};

template <class T>
struct EntmaxProduct {
  const T* weights;
  const T* direction;
  T* product;
  const double* alphas;
  double alpha;
  std::int64_t columns;
};

// How the Tsallis entropy and its gradient move with alpha.
template <class T>
struct EntmaxSlope {
  const T* weights;
  T* slope;  // one per row
  T* gradient;
  const double* alphas;
  double alpha;
  std::int64_t columns;
};

// The Jacobian times a direction, and the inner product of that with the gradient's slope.
template <class T>
struct EntmaxPull {
  const T* weights;
  const T* direction;
  T* product;
  T* along;  // one per row
  const double* alphas;
  double alpha;
  std::int64_t columns;
};

// Squared p-norm regularization, 1 < p <= 2.
template <class T>
struct Sqpnormmax {
  const T* scores;
  T* weights;
  T* value;
  double p;
  std::int64_t columns;
};

template <class T>
struct SqpnormmaxProduct {
  const T* weights;
  const T* direction;
  T* product;
  double p;
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
  T* value;  // one per row
  bool* joined;
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

// Oscarmax, with the cluster of each supported entry (-1 elsewhere).
template <class T>
struct Oscarmax {
  const T* scores;
  const double* strengths;  // one per row, or nullptr: then `strength`
  double strength;
  T* weights;
  T* value;  // one per row
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
  T* value;  // one per row
  std::int64_t columns;
};

template <class T>
struct GroupmaxProduct {
  const T* weights;
  const std::int64_t* groups;
  const double* strengths;
  double strength;
  const T* direction;
  T* product;
  std::int64_t columns;
};

// Trees: an item of the batch is a row. `omega` is 0 (hard), 1 (Shannon) or 2 (squared norm); `lengths` has one entry
// per item; `charts` and `visits` are what one sweep leaves to the next (see csrc/projective.hpp, csrc/constituency.hpp);
// `columns` is the cost of an item, by which threads share the work.
template <class T>
struct ProjectiveValue {
  const T* scores;  // (size, size): head, modifier
  const std::int64_t* lengths;
  T* charts;
  T* value;
  std::int64_t size, single_root, omega, columns;
};

template <class T>
struct ProjectiveMarginals {
  const std::int64_t* lengths;
  T* charts;
  T* visits;
  T* marginals;
  std::int64_t size, single_root, omega, columns;
};

template <class T>
struct ProjectiveTangent {
  const std::int64_t* lengths;
  T* charts;
  T* visits;
  const T* direction;
  T* product;
  std::int64_t size, single_root, omega, columns;
};

template <class T>
struct ConstituencyValue {
  const T* scores;  // (size, size, labels)
  const std::int64_t* lengths;
  T* charts;
  T* value;
  std::int64_t size, labels, omega, columns;
};

template <class T>
struct ConstituencyMarginals {
  const T* scores;
  const std::int64_t* lengths;
  T* charts;
  T* visits;
  T* marginals;
  std::int64_t size, labels, omega, columns;
};

template <class T>
struct ConstituencyTangent {
  const T* scores;
  const std::int64_t* lengths;
  T* charts;
  T* visits;
  const T* direction;
  T* product;
  std::int64_t size, labels, omega, columns;
};

// Alignment grids, one per item: here a row of the batch is an item. scale * scores[i, j] is the score of a cell.
template <class T>
struct AlignmentGrid {
  const T* scores;
  std::int64_t item_stride;
  std::int64_t row_stride;
  double scale;
  const std::int64_t* lengths;  // two per item
  const std::int32_t* first;    // first and last column of each row of a band, or nullptr
  const std::int32_t* last;
  std::int64_t band_stride;  // between items
  std::int64_t packed;       // whether a stored row begins with the first column of its band
  std::int64_t kind;         // 0 Hard, 1 Shannon, 2 SquaredNorm
  std::int64_t rows;
  std::int64_t width;         // of a stored row
  std::int64_t grid_columns;  // of the grid
  T* checkpoints;             // per item every 256 bytes' worth of rows: (rows - 1) / that, times width
};

// Smoothed dynamic time warping; `columns` is the stored size of an item.
template <class T>
struct AlignmentValue {
  AlignmentGrid<T> grid;
  T* value;
  std::int64_t columns;
};

template <class T>
struct AlignmentMarginals {
  AlignmentGrid<T> grid;
  const T* value;
  T* marginals;
  std::int64_t columns;
};

// Value and marginals at once, for grids whose local weights fit in a cache.
template <class T>
struct AlignmentBoth {
  AlignmentGrid<T> grid;
  T* value;
  T* marginals;
  std::int64_t columns;
};

template <class T>
struct AlignmentTangent {
  AlignmentGrid<T> grid;
  const T* value;
  const T* direction;
  T* tangent;
  std::int64_t columns;
};

// Chains (batch items are the rows). `first` is (places, tags, tags) in dense form, where `transitions` is null, and
// the emissions (places, tags) in factored form. A stride is the step from one item to the next; 0: all share one.
template <class T>
struct ChainParts {
  const T* first;
  const T* transitions;
  const T* start;
  const T* end;
  std::int64_t first_stride, transitions_stride, start_stride, end_stride;
};

// Weights in the same form, one after the other.
template <class T>
struct ChainWeights {
  T* first;
  T* transitions;
  T* start;
  T* end;
};

// Which Omega smooths a recursion.
enum ChainOmega : int { kChainHard, kChainShannon, kChainSquaredNorm, kChainTsallis15 };

template <class T>
struct ChainValue {
  ChainParts<T> parts;
  const std::int64_t* lengths;
  T* value;
  T* total;   // the same again, for the sweeps that follow
  T* values;  // (places, tags): of the nodes, the largest of each place shifted to 0; or null
  T* levels;  // (places, tags): what turns scores into local weights; or null
  int omega;
  std::int64_t n_places, n_tags, columns;
};

template <class T>
struct ChainMarginals {
  ChainParts<T> parts;
  const std::int64_t* lengths;
  const T* total;
  const T* values;
  const T* levels;
  ChainWeights<T> weights;
  int omega;
  std::int64_t n_places, n_tags, columns;
};

template <class T>
struct ChainTangent {
  ChainParts<T> parts;
  const std::int64_t* lengths;
  const T* total;
  const T* values;
  const T* levels;
  ChainParts<T> direction;
  ChainWeights<T> weights;
  int omega;
  std::int64_t n_places, n_tags, columns;
};

template <class T>
struct PairwiseSquared {
  const T* x;       // (n_points, n_coordinates) per item
  const T* turned;  // (n_coordinates, columns) per item
  T* distances;
  std::int64_t n_points, n_coordinates, columns;
};

#define OMEGAMAX_KERNELS(X) \
  X(PairwiseSquared)        \
  X(AlignmentValue)         \
  X(AlignmentMarginals)     \
  X(AlignmentBoth)          \
  X(AlignmentTangent)       \
  X(ProjectiveValue)        \
  X(ProjectiveMarginals)    \
  X(ProjectiveTangent)      \
  X(ConstituencyValue)      \
  X(ConstituencyMarginals)  \
  X(ConstituencyTangent)    \
  X(ChainValue)             \
  X(ChainMarginals)         \
  X(ChainTangent)           \
  X(Groupmax)               \
  X(GroupmaxProduct)        \
  X(Sparsemax)              \
  X(SparsemaxProduct)       \
  X(Softmax)                \
  X(SoftmaxProduct)         \
  X(Entmax)                 \
  X(EntmaxProduct)          \
  X(EntmaxSlope)            \
  X(EntmaxPull)             \
  X(Sqpnormmax)             \
  X(SqpnormmaxProduct)      \
  X(ProxTv1d)               \
  X(SegmentMean)            \
  X(Fusedmax)               \
  X(FusedmaxProduct)        \
  X(Isotonic)               \
  X(Oscarmax)               \
  X(OscarmaxProduct)        \
  X(ProxOwl)                \
  X(OwlProduct)

// One entry per kernel and type, filled once per instruction set.
struct Table {
  const char* arch;
#define OMEGAMAX_ENTRY(Name)                                                     \
  void (*Name##_float)(const Name<float>&, std::int64_t begin, std::int64_t end); \
  void (*Name##_double)(const Name<double>&, std::int64_t begin, std::int64_t end);
  OMEGAMAX_KERNELS(OMEGAMAX_ENTRY)
#undef OMEGAMAX_ENTRY
};

}  // namespace omegamax
