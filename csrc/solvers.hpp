// SparseMAP for the Python module: batches with a compiled oracle, single items with any function.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "interruption.hpp"
#include "oracle.hpp"
#include "sparsemap.hpp"

namespace omegamax {

std::vector<SparsemapItem> sparsemap(const OracleTable& oracle, const DenseAlgebra& algebra, const OracleSpec& spec,
                                     const SparsemapOptions& options, const double* scores, std::int64_t n_items,
                                     const SparsemapStart* starts, int threads, Interruption& interruption);

SparsemapItem sparsemap_item(const DenseAlgebra& algebra, const double* scores, const SparsemapOptions& options,
                             const SparsemapStart& start,
                             const std::function<void(const double*, Vertex&)>& function);

}  // namespace omegamax
