// A dynamic program as data, with the local weights of the last solve.
#pragma once

#include <cstdint>
#include <vector>

#include "core/arguments.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Nodes are in topological order, leaves first; node number n_nodes is a missing tail. The edges into a node are
// first[node] to first[node + 1], and the parts that an edge adds are those of its entries, each once.
struct PageLattice {
  PageLattice(int n_nodes, int n_leaves, int n_tails, int n_edges, int n_parts, int goal, const std::int32_t* tails,
              const std::int32_t* first, const std::int32_t* first_entry, const std::int32_t* part);

  double sweep(Omega omega, const double* scores);
  void expect(double* marginals) const;
  void sample(std::uint64_t& state, double* counts) const;
  int top(const double* edge_scores, int k, double* found_scores, double* counts) const;

  std::int64_t n_nodes, n_leaves, n_tails, n_edges, n_parts, goal;
  std::vector<std::int64_t> tails, first, first_entry, part;
  std::vector<double> scale, weights;  // scale: of entries, all one; weights: of edges at their nodes

 private:
  void add_edge(std::int64_t edge, double* counts) const;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
