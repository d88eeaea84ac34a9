// The oracles, and the algebra of active sets, compiled once per instruction set.
#include <type_traits>

#include "arborescence_oracle.hpp"
#include "matching.hpp"
#include "oracles.hpp"
#include "problems.hpp"
#include "selection.hpp"
#include "simd.hpp"

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

// Rows are short: the last few numbers go through a vector, too.
double dot(const double* a, const double* b, std::int64_t n) {
  Vector<double> total{};
  std::int64_t i = 0;
  for (; i + kLanes<double> <= n; i += kLanes<double>) total += load(a + i) * load(b + i);
  if (i < n) total += load_some(a + i, n - i, 0.0) * load_some(b + i, n - i, 0.0);
  return sum_lanes<double>(total);
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
    std::int64_t j = 0;
    for (; j + kLanes<double> <= i; j += kLanes<double>) store(x + j, load(x + j) - found * load(row + j));
    if (j < i) store_some(x + j, i - j, load_some(x + j, i - j, 0.0) - found * load_some(row + j, i - j, 0.0));
  }
}

double gather_dot(const std::int32_t* places, const double* values, std::int64_t n, const double* numbers) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) total += values[i] * numbers[places[i]];
  return total;
}

}  // namespace

void fill_oracle(Table& table) {
  table.oracle = {open, best, close};
  table.algebra = {times, solve_lower, solve_upper, gather_dot};
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
