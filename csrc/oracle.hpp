// A MAP oracle: the best vertex of a polytope for given scores. What the SparseMAP solver knows of a structure.
#pragma once

#include <cstdint>

namespace omegamax {

struct EqualitySystem;

// A vertex as its non-zero entries, in ascending order of place; there is room for all parts.
struct Vertex {
  static constexpr std::int64_t kInfeasible = -1;   // no vertex has a score above -inf
  static constexpr std::int64_t kNotANumber = -2;  // the scores of this item are NaN or +inf

  std::int32_t* places;
  double* values;
  std::int64_t size;
};

enum class OracleKind : int { kLattice, kChain, kProjective, kConstituency, kArborescence, kMatching, kSelection };

// Which oracle, and the plain data it reads: see csrc/oracles.hpp for what each kind expects.
struct OracleSpec {
  static constexpr int kMost = 8;
  OracleKind kind;
  std::int64_t n_parts;
  std::int64_t sizes[kMost];
  const std::int64_t* integers[kMost];
  const double* numbers;
};

// An oracle as functions: `open` makes one with its own working memory, one per thread.
struct OracleTable {
  void* (*open)(const OracleSpec& spec);
  void (*best)(void* oracle, std::int64_t item, const double* scores, Vertex& found);
  bool (*equalities)(void* oracle, std::int64_t item, EqualitySystem& found);  // false where they are not known
  void (*close)(void* oracle);
};

}  // namespace omegamax
