// SparseMAP as the page calls it, and the best matching.
#include "sparsemap/sparsemap.hpp"

#include "core/problems.hpp"
#include "lattice.hpp"
#include "selections/matching.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
extern const Table table;

namespace {

struct Ask {
  void* oracle;
  void operator()(const double* scores, Vertex& vertex) { table.oracle.best(oracle, 0, scores, vertex); }
  bool equalities(EqualitySystem& system) { return table.oracle.equalities(oracle, 0, system); }
};

constexpr std::int64_t kMostCalls = 10000;  // as in Python
constexpr double kTolerance = 0;            // beyond rounding

// Writes up to `room` structures with their probabilities; returns how many there are, or minus the kind of ending.
int solve(const OracleSpec& spec, std::int64_t n_regularized, const double* scores, int room, double* probabilities,
          double* structures, double* gap) {
  Ask ask{table.oracle.open(spec)};
  const SparsemapOptions options{spec.n_parts, n_regularized, kMostCalls, kTolerance, false};
  const SparsemapItem item = SparsemapSearch::run(table.algebra, scores, options, SparsemapStart{}, ask);
  table.oracle.close(ask.oracle);
  *gap = item.gap;
  if (item.ending != Ending::kOptimal && item.ending != Ending::kNotConverged) return -static_cast<int>(item.ending);
  int found = 0;
  for (std::size_t v = 0; v < item.members.size() && found < room; ++v) {
    if (!(item.probabilities[v] > 0)) continue;
    double* own = structures + found * spec.n_parts;
    for (std::int64_t i = 0; i < spec.n_parts; ++i) own[i] = 0;
    for (std::size_t e = 0; e < item.members[v].places.size(); ++e)
      own[item.members[v].places[e]] = item.members[v].values[e];
    probabilities[found++] = item.probabilities[v];
  }
  return found;
}

}  // namespace

extern "C" {

// Of a dynamic program: the first `n_regularized` parts are regularised.
__attribute__((export_name("omegamax_lattice_sparsemap"))) int omegamax_lattice_sparsemap(
    const PageLattice* lattice, int n_regularized, const double* scores, int room, double* probabilities,
    double* structures, double* gap) {
  const OracleSpec spec{
      OracleKind::kLattice,
      lattice->n_parts,
      {lattice->n_nodes, lattice->n_leaves, lattice->n_tails, lattice->n_edges},
      {lattice->tails.data(), lattice->first.data(), &lattice->goal, lattice->first_entry.data(), lattice->part.data()},
      lattice->scale.data()};
  return solve(spec, n_regularized, scores, room, probabilities, structures, gap);
}

// Of perfect matchings of the smaller side.
__attribute__((export_name("omegamax_matching_sparsemap"))) int omegamax_matching_sparsemap(
    int rows, int columns, const double* scores, int room, double* probabilities, double* structures, double* gap) {
  const std::int64_t lengths[2] = {rows, columns};
  const OracleSpec spec{OracleKind::kMatching, rows * columns, {rows, columns, 0}, {lengths, lengths + 1}, nullptr};
  return solve(spec, rows * columns, scores, room, probabilities, structures, gap);
}

// The column of each row, or -1; returns the score, -inf where there is no matching.
__attribute__((export_name("omegamax_matching_best"))) double omegamax_matching_best(int rows, int columns,
                                                                                     const double* scores,
                                                                                     std::int32_t* columns_of) {
  const std::int64_t lengths[2] = {rows, columns};
  std::vector<std::int64_t> found(rows);
  double value;
  run(MatchingBest<double>{scores, nullptr, nullptr, lengths, lengths + 1, rows, columns, &value, found.data(), nullptr,
                           rows * columns},
      0, 1);
  for (int i = 0; i < rows; ++i) columns_of[i] = static_cast<std::int32_t>(found[i]);
  return value;
}

}  // extern "C"

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
