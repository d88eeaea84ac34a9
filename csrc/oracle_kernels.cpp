// The oracles, and the algebra of active sets, compiled once per instruction set.
#include <type_traits>

#include "arborescence_oracle.hpp"
#include "matching.hpp"
#include "oracles.hpp"
#include "problems.hpp"
#include "selection.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace {

// An oracle whose kind is known only when it is opened.
struct Opened {
  OracleKind kind;
  void* oracle;
};

// Calls f(pointer to the oracle's class) for a kind.
template <class F>
auto with_class(OracleKind kind, F f) {
  switch (kind) {
    case OracleKind::kChain: return f(static_cast<ChainOracle*>(nullptr));
    case OracleKind::kProjective: return f(static_cast<ProjectiveOracle*>(nullptr));
    case OracleKind::kConstituency: return f(static_cast<ConstituencyOracle*>(nullptr));
    case OracleKind::kArborescence: return f(static_cast<ArborescenceOracle*>(nullptr));
    case OracleKind::kMatching: return f(static_cast<MatchingOracle*>(nullptr));
    case OracleKind::kSelection: return f(static_cast<SelectionOracle*>(nullptr));
    default: return f(static_cast<LatticeOracle*>(nullptr));
  }
}

void* open(const OracleSpec& spec) {
  return with_class(spec.kind, [&](auto* kind) -> void* {
    using Kind = std::remove_pointer_t<decltype(kind)>;
    return new Opened{spec.kind, new Kind(spec)};
  });
}

void best(void* self, std::int64_t item, const double* scores, Vertex& found) {
  const Opened& opened = *static_cast<Opened*>(self);
  with_class(opened.kind, [&](auto* kind) { static_cast<decltype(kind)>(opened.oracle)->best(item, scores, found); });
}

void close(void* self) {
  Opened* opened = static_cast<Opened*>(self);
  with_class(opened->kind, [&](auto* kind) { delete static_cast<decltype(kind)>(opened->oracle); });
  delete opened;
}

double dot(const double* a, const double* b, std::int64_t n) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) total += a[i] * b[i];
  return total;
}

void times(const double* matrix, std::int64_t stride, std::int64_t n, const double* x, double* product) {
  for (std::int64_t i = 0; i < n; ++i) product[i] = dot(matrix + i * stride, x, n);
}

void solve_lower(const double* factor, std::int64_t stride, std::int64_t n, double* x) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = (x[i] - dot(factor + i * stride, x, i)) / factor[i * stride + i];
}

void solve_upper(const double* factor, std::int64_t stride, std::int64_t n, double* x) {
  for (std::int64_t i = n - 1; i >= 0; --i) {
    const double* row = factor + i * stride;
    const double found = x[i] /= row[i];
#pragma omp simd
    for (std::int64_t j = 0; j < i; ++j) x[j] -= row[j] * found;
  }
}

}  // namespace

void fill_oracle(Table& table) {
  table.oracle = {open, best, close};
  table.algebra = {times, solve_lower, solve_upper};
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
