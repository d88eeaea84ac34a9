// The best derivation of any hypergraph: one sweep up, one walk down.
//
// sizes: nodes, leaves, tails of an edge (1 or 2), edges. integers: tails (n_tails, edges), the first edge into each
// node (nodes + 1,), the goal of each item, the first entry of each edge (edges + 1,), the part of each entry. numbers:
// the scale of each entry. Node number `nodes` is a missing tail. Ties go to the first edge.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/buffer.hpp"
#include "sparsemap/equality_polytope.hpp"
#include "sparsemap/oracle.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

class LatticeOracle {
 public:
  explicit LatticeOracle(const OracleSpec& spec)
      : n_nodes_(spec.sizes[0]), n_leaves_(spec.sizes[1]), n_tails_(spec.sizes[2]), n_edges_(spec.sizes[3]),
        n_parts_(spec.n_parts), tails_(spec.integers[0]), first_(spec.integers[1]), goals_(spec.integers[2]),
        first_entry_(spec.integers[3]), part_(spec.integers[4]), scale_(spec.numbers), values_(n_nodes_ + 1),
        chosen_(n_nodes_ + 1), todo_(n_nodes_ + 2), counts_(n_parts_) {
    for (std::int64_t i = 0; i < n_parts_; ++i) counts_.get()[i] = 0;
  }

  void best(std::int64_t item, const double* scores, Vertex& found) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const std::int64_t goal = goals_[item];
    sweep(scores, goal);
    const double value = values_.get()[goal];
    if (value == -infinity) return void(found.size = Vertex::kInfeasible);
    if (!(value < infinity)) return void(found.size = Vertex::kNotANumber);
    walk(goal);
    found.size = 0;
    double* counts = counts_.get();
    for (std::int64_t i = 0; i < n_parts_; ++i) {
      if (counts[i] == 0) continue;
      found.places[found.size] = static_cast<std::int32_t>(i);
      found.values[found.size++] = counts[i];
      counts[i] = 0;
    }
  }

  // The goal is derived once, and every other node as often as it is used. That describes the parts where each edge has
  // a part of its own, which no other edge has.
  bool equalities(std::int64_t item, EqualitySystem& found) const {
    const std::int64_t goal = goals_[item];
    std::vector<char> seen(n_parts_, 0);
    found.right.assign(goal + 1 - n_leaves_, 0.0);
    found.right[goal - n_leaves_] = 1;
    for (std::int64_t node = n_leaves_; node <= goal; ++node)
      for (std::int64_t edge = first_[node]; edge < first_[node + 1]; ++edge) {
        const std::int64_t entry = first_entry_[edge];
        if (first_entry_[edge + 1] != entry + 1 || scale_[entry] != 1 || seen[part_[entry]]++) return false;
        found.begin(static_cast<std::int32_t>(part_[entry]));
        found.put(node - n_leaves_, 1);
        for (std::int64_t t = 0; t < n_tails_; ++t) {
          const std::int64_t tail = tails_[t * n_edges_ + edge];
          if (tail >= n_leaves_ && tail < n_nodes_) found.put(tail - n_leaves_, -1);
        }
        found.end();
      }
    return true;
  }

 private:
  // Nodes after the goal cannot matter: they are in topological order.
  void sweep(const double* scores, std::int64_t goal) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double* values = values_.get();
    values[n_nodes_] = 0;
    for (std::int64_t node = 0; node < n_leaves_; ++node) values[node] = 0;
    for (std::int64_t node = n_leaves_; node <= goal; ++node) {
      double top = -infinity;
      std::int64_t chosen = -1;
      for (std::int64_t edge = first_[node]; edge < first_[node + 1]; ++edge) {
        double score = values[tails_[edge]];
        if (n_tails_ == 2) score += values[tails_[n_edges_ + edge]];
        if (score == -infinity) continue;
        for (std::int64_t entry = first_entry_[edge]; entry < first_entry_[edge + 1]; ++entry) {
          const double part = scores[part_[entry]];
          score += part == -infinity ? part : scale_[entry] * part;  // a forbidden part stays so at scale 0
        }
        if (score > top) top = score, chosen = edge;
        else if (score != score) {
          top = score, chosen = edge;
          break;
        }  // NaN: of everything that follows, too
      }
      values[node] = top;
      chosen_.get()[node] = chosen;
    }
  }

  void walk(std::int64_t goal) {
    std::int64_t* todo = todo_.get();
    std::int64_t n_todo = 0;
    todo[n_todo++] = goal;
    while (n_todo > 0) {
      const std::int64_t node = todo[--n_todo];
      if (node < n_leaves_ || node >= n_nodes_) continue;
      const std::int64_t edge = chosen_.get()[node];
      for (std::int64_t entry = first_entry_[edge]; entry < first_entry_[edge + 1]; ++entry)
        counts_.get()[part_[entry]] += scale_[entry];
      for (std::int64_t t = 0; t < n_tails_; ++t) todo[n_todo++] = tails_[t * n_edges_ + edge];
    }
  }

  std::int64_t n_nodes_, n_leaves_, n_tails_, n_edges_, n_parts_;
  const std::int64_t* tails_;
  const std::int64_t* first_;
  const std::int64_t* goals_;
  const std::int64_t* first_entry_;
  const std::int64_t* part_;
  const double* scale_;
  Scratch<double> values_;
  Scratch<std::int64_t> chosen_, todo_;
  Scratch<double> counts_;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
