// What each kernel reads and writes: plain data, the same for every instruction set.
//
// A kernel is three things with one name:
//   1. a struct in one of the files below (for a structure, an item of the batch plays the role of a row),
//   2. `run(const Problem<T>&, begin, end)` in csrc/<name>.hpp, which handles rows begin..end,
//   3. a line in one of the lists of kernels below and one in bindings.cpp.
// Each list is compiled in a file of its own (csrc/<kind>_kernels.cpp), once per instruction set.
#pragma once

#include <cstdint>

#include "arborescence_problems.hpp"
#include "attention/attention_list.hpp"
#include "chain_problems.hpp"
#include "dense_algebra.hpp"
#include "grid_problems.hpp"
#include "oracle.hpp"
#include "row_problems.hpp"
#include "selection_problems.hpp"
#include "tree_problems.hpp"

namespace omegamax {

#define OMEGAMAX_ROW_KERNELS(X) \
  X(Groupmax)                   \
  X(GroupmaxProduct)            \
  X(Sparsemax)                  \
  X(SparsemaxProduct)           \
  X(Hardmax)                    \
  X(Softmax)                    \
  X(SoftmaxProduct)             \
  X(Entmax)                     \
  X(EntmaxProduct)              \
  X(EntmaxSlope)                \
  X(EntmaxPull)                 \
  X(Sqpnormmax)                 \
  X(SqpnormmaxProduct)          \
  X(ProxTv1d)                   \
  X(SegmentMean)                \
  X(Fusedmax)                   \
  X(FusedmaxProduct)            \
  X(Isotonic)                   \
  X(Oscarmax)                   \
  X(OscarmaxProduct)            \
  X(ProxOwl)                    \
  X(OwlProduct)

#define OMEGAMAX_CHAIN_KERNELS(X) \
  X(ChainValue)                   \
  X(ChainMarginals)               \
  X(ChainTangent)

#define OMEGAMAX_GRID_KERNELS(X) \
  X(PairwiseSquared)             \
  X(AlignmentValue)              \
  X(AlignmentMarginals)          \
  X(AlignmentBoth)               \
  X(AlignmentTangent)            \
  X(SoftDtw)

#define OMEGAMAX_TREE_KERNELS(X) \
  X(ProjectiveValue)             \
  X(ProjectiveMarginals)         \
  X(ProjectiveTangent)           \
  X(ConstituencyValue)           \
  X(ConstituencyMarginals)       \
  X(ConstituencyTangent)

#define OMEGAMAX_ARBORESCENCE_KERNELS(X) \
  X(ArborescenceBest)                    \
  X(ArborescenceValue)                   \
  X(ArborescenceMarginals)               \
  X(ArborescenceTangent)                 \
  X(ArborescenceSample)

#define OMEGAMAX_SELECTION_KERNELS(X) \
  X(MatchingBest)                     \
  X(Selection)                        \
  X(BudgetUp)                         \
  X(BudgetDown)                       \
  X(BudgetMoveUp)                     \
  X(BudgetMoveDown)

#define OMEGAMAX_KERNELS(X)        \
  OMEGAMAX_ROW_KERNELS(X)          \
  OMEGAMAX_CHAIN_KERNELS(X)        \
  OMEGAMAX_GRID_KERNELS(X)         \
  OMEGAMAX_TREE_KERNELS(X)         \
  OMEGAMAX_ARBORESCENCE_KERNELS(X) \
  OMEGAMAX_SELECTION_KERNELS(X)    \
  OMEGAMAX_ATTENTION_KERNELS(X)

// One entry per kernel and type, filled once per instruction set.
struct Table {
  const char* arch;
#define OMEGAMAX_ENTRY(Name)                                                     \
  void (*Name##_float)(const Name<float>&, std::int64_t begin, std::int64_t end); \
  void (*Name##_double)(const Name<double>&, std::int64_t begin, std::int64_t end);
  OMEGAMAX_KERNELS(OMEGAMAX_ENTRY)
#undef OMEGAMAX_ENTRY
  OracleTable oracle;
  DenseAlgebra algebra;
};

}  // namespace omegamax
