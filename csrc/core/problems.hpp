// What each kernel reads and writes: plain data, the same for every instruction set.
//
// A kernel is three things with one name:
//   1. a struct in csrc/<room>/problems.hpp (for a structure, an item of the batch plays the role of a row),
//   2. `run(const Problem<T>&, begin, end)` in csrc/<room>/<name>.hpp, which handles rows begin..end,
//   3. a line in one of the lists of kernels below.
// Each list is compiled in a file of its own (csrc/<room>/kernels.cpp), once per instruction set, and bindings.cpp
// gives all of them to Python.
#pragma once

#include <cstdint>

#include "arborescences/problems.hpp"
#include "attention/list.hpp"
#include "chains/problems.hpp"
#include "grids/problems.hpp"
#include "rows/problems.hpp"
#include "selections/problems.hpp"
#include "sparsemap/oracle.hpp"
#include "trees/problems.hpp"

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
  X(Normmax)                    \
  X(NormmaxProduct)             \
  X(ProxTv1d)                   \
  X(SegmentMean)                \
  X(Fusedmax)                   \
  X(FusedmaxProduct)            \
  X(Isotonic)                   \
  X(IsotonicEntropic)           \
  X(Oscarmax)                   \
  X(OscarmaxProduct)            \
  X(ProxOwl)                    \
  X(OwlProduct)

#define OMEGAMAX_CHAIN_KERNELS(X) \
  X(ChainValue)                   \
  X(ChainMarginals)               \
  X(ChainTangent)                 \
  X(KeptOrder)                    \
  X(SpanMass)                     \
  X(SpanMassGradient)

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
  OMEGAMAX_SELECTION_KERNELS(X)

// One entry per kernel and type, filled once per instruction set.
struct Table {
  const char* arch;
#define OMEGAMAX_ENTRY(Name)                                                      \
  void (*Name##_float)(const Name<float>&, std::int64_t begin, std::int64_t end); \
  void (*Name##_double)(const Name<double>&, std::int64_t begin, std::int64_t end);
  OMEGAMAX_KERNELS(OMEGAMAX_ENTRY)
  OMEGAMAX_ATTENTION_KERNELS(OMEGAMAX_ENTRY)  // with bindings of their own
#undef OMEGAMAX_ENTRY
  OracleTable oracle;
  DenseAlgebra algebra;
};

}  // namespace omegamax

// Enters a list of kernels into the table of this instruction set (OMEGAMAX_ARCH). Code compiled per instruction set
// must not use templates of the standard library that the linker could merge across sets: everything lives in its
// namespace.
#define OMEGAMAX_FILL_ENTRY(Name) \
  table.Name##_float = run;       \
  table.Name##_double = run;

#define OMEGAMAX_FILL(kind, KERNELS)                              \
  namespace omegamax {                                            \
  namespace OMEGAMAX_ARCH {                                       \
  void fill_##kind(Table& table) { KERNELS(OMEGAMAX_FILL_ENTRY) } \
  }                                                               \
  }
