// SparseMAP over a batch: items are independent, and each thread has an oracle of its own.
#include "solvers.hpp"

#include <algorithm>

#include "team.hpp"

namespace omegamax {
namespace {

struct Batch {
  const OracleTable* oracle;
  const DenseAlgebra* algebra;
  const OracleSpec* spec;
  const SparsemapOptions* options;
  const double* scores;
  const SparsemapStart* starts;  // per item, or null
  std::vector<SparsemapItem>* found;

  static void range(const void* self, std::int64_t begin, std::int64_t end) {
    const Batch& batch = *static_cast<const Batch*>(self);
    struct Open {
      const OracleTable& table;
      void* oracle;
      ~Open() { table.close(oracle); }
    } open{*batch.oracle, batch.oracle->open(*batch.spec)};
    for (std::int64_t item = begin; item < end; ++item) {
      const SparsemapStart start = batch.starts ? batch.starts[item] : SparsemapStart{};
      (*batch.found)[item] = SparsemapSearch::run(
          *batch.algebra, batch.scores + item * batch.options->n_parts, *batch.options, start,
          [&](const double* scores, Vertex& vertex) { open.table.best(open.oracle, item, scores, vertex); });
    }
  }
};

}  // namespace

std::vector<SparsemapItem> sparsemap(const OracleTable& oracle, const DenseAlgebra& algebra, const OracleSpec& spec, const SparsemapOptions& options,
                                     const double* scores, std::int64_t n_items, const SparsemapStart* starts,
                                     int threads) {
  std::vector<SparsemapItem> found(n_items);
  const Batch batch{&oracle, &algebra, &spec, &options, scores, starts, &found};
  Team::run(n_items, 1, threads, &Batch::range, &batch);
  return found;
}

SparsemapItem sparsemap_item(const DenseAlgebra& algebra, const double* scores, const SparsemapOptions& options, const SparsemapStart& start,
                             const std::function<void(const double*, Vertex&)>& ask) {
  return SparsemapSearch::run(algebra, scores, options, start, [&](const double* s, Vertex& vertex) { ask(s, vertex); });
}

}  // namespace omegamax
