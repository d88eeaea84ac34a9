// What SparseMAP needs from code that is compiled once per instruction set: an oracle, which finds the best vertex of a
// polytope for given scores, and the algebra of its active set.
#pragma once

#include <cstdint>

namespace omegamax {

struct EqualitySystem;

// A vertex as its non-zero entries, in ascending order of place; there is room for all parts.
struct Vertex {
  static constexpr std::int64_t kInfeasible = -1;  // no vertex has a score above -inf
  static constexpr std::int64_t kNotANumber = -2;  // the scores of this item are NaN or +inf

  std::int32_t* places;
  double* values;
  std::int64_t size;
};

enum class OracleKind : int { kLattice, kChain, kProjective, kConstituency, kArborescence, kMatching, kSelection };

// Which oracle, and the plain data it reads: each class of oracle says what it expects.
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

// What the active set computes with vectors and upper triangular matrices R, row by row at a stride.
struct DenseAlgebra {
  void (*solve_lower)(const double* factor, std::int64_t stride, std::int64_t n, double* x);  // x = R'^-1 x
  void (*solve_upper)(const double* factor, std::int64_t stride, std::int64_t n, double* x);  // x = R^-1 x
  void (*rotate)(double* a, double* b, std::int64_t n, double c, double s);  // (a, b) = (c a + s b, c b - s a)
  // Rows first <= i < last of R, which hold rows of G from their own column on, lose what the rows above account for:
  // row i -= sum over k < first of R[k, i] R[k, :].
  void (*subtract_rows)(double* factor, std::int64_t stride, std::int64_t first, std::int64_t last, std::int64_t n);
  double (*gather_dot)(const std::int32_t* places, const double* values, std::int64_t n, const double* numbers);
};

}  // namespace omegamax
