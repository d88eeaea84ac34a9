// The k best derivations of a hypergraph, lazily and in exact order; the twin of kernels/structures/kbest.py.
//
// Every node keeps its derivations found so far, best first, and a heap of candidates. After (edge, i, j) is taken its
// successors are (edge, i, j + 1) and, if j = 0, (edge, i + 1, 0): so each combination has one predecessor, and none is
// met twice. Huang & Chiang, "Better k-best parsing", IWPT 2005.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "core/interruption.hpp"

namespace omegamax {

struct Graph {
  const std::int64_t* tails;  // (n_tails, n_edges); node number n_nodes is a missing tail
  const std::int64_t* first;  // (n_nodes + 1,): the first edge into each node
  std::int64_t n_tails, n_edges, n_leaves, n_nodes;
};

class KBest {
 public:
  // scores (n_edges,), values (n_nodes + 1,): the best score of each node.
  KBest(const Graph& graph, const double* scores, const double* values)
      : graph_(graph), scores_(scores), values_(values), nodes_(graph.n_nodes + 1) {}

  // Appends the k best derivations of the goal; true if there are no others.
  bool top(std::int64_t goal, std::int64_t k, std::vector<double>& scores, std::vector<std::int64_t>& edges,
           std::vector<std::int64_t>& sizes, Interruption& interruption) {
    if (!(values_[goal] > -std::numeric_limits<double>::infinity())) return true;
    for (std::int64_t rank = 0; rank < k; ++rank) {
      interruption.check();
      if (!find(goal, rank)) return true;
      scores.push_back(-at(goal).found[rank].cost);
      const std::size_t before = edges.size();
      collect(goal, rank, edges);
      sizes.push_back(static_cast<std::int64_t>(edges.size() - before));
    }
    return !find(goal, k);
  }

 private:
  struct Derivation {
    double cost;  // minus the score
    std::int64_t edge;
    std::int64_t ranks[2];
  };

  // A heap's top is what compares greatest: the cheapest, then the first edge, then the lowest ranks.
  static bool later(const Derivation& a, const Derivation& b) {
    return std::tie(a.cost, a.edge, a.ranks[0], a.ranks[1]) > std::tie(b.cost, b.edge, b.ranks[0], b.ranks[1]);
  }

  struct Node {
    std::vector<Derivation> found, heap, pending;
  };

  bool is_inner(std::int64_t node) const { return node >= graph_.n_leaves && node < graph_.n_nodes; }

  Node& at(std::int64_t node) {
    if (!nodes_[node]) open(node);
    return *nodes_[node];
  }

  void open(std::int64_t node) {
    nodes_[node] = std::make_unique<Node>();
    Node& here = *nodes_[node];
    if (!is_inner(node)) {  // a leaf, or a missing tail, has one derivation: nothing
      here.found.push_back({0.0, -1, {0, 0}});
      return;
    }
    for (std::int64_t edge = graph_.first[node]; edge < graph_.first[node + 1]; ++edge) {
      double score = scores_[edge];
      for (std::int64_t t = 0; t < graph_.n_tails; ++t) score += values_[tail(t, edge)];
      if (score > -std::numeric_limits<double>::infinity()) here.heap.push_back({-score, edge, {0, 0}});
    }
    std::make_heap(here.heap.begin(), here.heap.end(), later);
  }

  std::int64_t tail(std::int64_t t, std::int64_t edge) const { return graph_.tails[t * graph_.n_edges + edge]; }

  // Finds derivations of a node up to a rank. The stack is explicit: a long chain is a deep recursion.
  bool find(std::int64_t goal, std::int64_t rank) {
    stack_.assign(1, {goal, rank});
    while (!stack_.empty()) {
      const auto [node, wanted] = stack_.back();
      Node& here = at(node);
      std::pair<std::int64_t, std::int64_t> missing;
      if (static_cast<std::int64_t>(here.found.size()) > wanted) {
        stack_.pop_back();
      } else if (!settle(here, missing)) {
        stack_.push_back(missing);
      } else if (here.heap.empty()) {
        stack_.pop_back();
      } else {
        take(here);
      }
    }
    return static_cast<std::int64_t>(at(goal).found.size()) > rank;
  }

  // Pushes the candidates that wait; or says which derivation of which node must be known first.
  bool settle(Node& here, std::pair<std::int64_t, std::int64_t>& missing) {
    while (!here.pending.empty()) {
      Derivation& next = here.pending.back();
      double cost = -scores_[next.edge];
      bool exists = true;
      for (std::int64_t t = 0; t < graph_.n_tails && exists; ++t) {
        const std::int64_t below = tail(t, next.edge);
        Node& node = at(below);
        if (static_cast<std::int64_t>(node.found.size()) > next.ranks[t]) {
          cost += node.found[next.ranks[t]].cost;
        } else if (node.heap.empty() && node.pending.empty()) {
          exists = false;
        } else {
          missing = {below, next.ranks[t]};
          return false;
        }
      }
      if (exists) {
        next.cost = cost;
        here.heap.push_back(next);
        std::push_heap(here.heap.begin(), here.heap.end(), later);
      }
      here.pending.pop_back();
    }
    return true;
  }

  void take(Node& here) {
    std::pop_heap(here.heap.begin(), here.heap.end(), later);
    const Derivation best = here.heap.back();
    here.heap.pop_back();
    here.found.push_back(best);
    if (best.ranks[1] == 0) here.pending.push_back({0.0, best.edge, {best.ranks[0] + 1, 0}});
    if (graph_.n_tails == 2) here.pending.push_back({0.0, best.edge, {best.ranks[0], best.ranks[1] + 1}});
  }

  void collect(std::int64_t goal, std::int64_t rank, std::vector<std::int64_t>& edges) {
    std::vector<std::pair<std::int64_t, std::int64_t>> todo{{goal, rank}};
    while (!todo.empty()) {
      const auto [node, chosen] = todo.back();
      todo.pop_back();
      if (!is_inner(node)) continue;
      find(node, chosen);  // a best one may not have been asked for: its score was known
      const Derivation& derivation = at(node).found[chosen];
      edges.push_back(derivation.edge);
      for (std::int64_t t = 0; t < graph_.n_tails; ++t) todo.push_back({tail(t, derivation.edge), derivation.ranks[t]});
    }
  }

  const Graph graph_;
  const double* scores_;
  const double* values_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::pair<std::int64_t, std::int64_t>> stack_;
};

}  // namespace omegamax
