// Any dynamic program as the page calls it: a hypergraph given as data. Its value and expected structure under hardmax,
// softmax or sparsemax at every node, random derivations, and the ranked list of derivations.
#include "lattice.hpp"

#include <cmath>
#include <limits>

#include "hypergraphs/kbest.hpp"
#include "rows/entmax.hpp"
#include "rows/hardmax.hpp"
#include "rows/softmax.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

void solve_local(Omega omega, const double* scores, std::int64_t n, double* weights, double* value) {
  if (omega == Omega::kHard) run(Hardmax<double>{scores, weights, {value}, n}, 0, 1);
  else if (omega == Omega::kShannon) run(Softmax<double>{scores, weights, {value}, n}, 0, 1);
  else run(Sparsemax<double>{scores, weights, value, n}, 0, 1);
}

}  // namespace

PageLattice::PageLattice(int n_nodes, int n_leaves, int n_tails, int n_edges, int n_parts, int goal,
                         const std::int32_t* tails, const std::int32_t* first, const std::int32_t* first_entry,
                         const std::int32_t* part)
    : n_nodes(n_nodes), n_leaves(n_leaves), n_tails(n_tails), n_edges(n_edges), n_parts(n_parts), goal(goal),
      tails(tails, tails + n_tails * n_edges), first(first, first + n_nodes + 1),
      first_entry(first_entry, first_entry + n_edges + 1), part(part, part + first_entry[n_edges]),
      scale(first_entry[n_edges], 1.0), weights(n_edges) {}

// Bottom up: the value of a node is the smoothed maximum over the edges into it.
double PageLattice::sweep(Omega omega, const double* scores) {
  std::vector<double> values(n_nodes + 1, 0.0), local(n_edges);
  for (std::int64_t node = n_leaves; node < n_nodes; ++node) {
    const std::int64_t begin = first[node], end = first[node + 1];
    values[node] = kNothing;
    if (begin == end) continue;
    for (std::int64_t edge = begin; edge < end; ++edge) {
      local[edge] = 0;
      for (std::int64_t t = 0; t < n_tails; ++t) local[edge] += values[tails[t * n_edges + edge]];
      for (std::int64_t entry = first_entry[edge]; entry < first_entry[edge + 1]; ++entry)
        local[edge] += scores[part[entry]];
    }
    solve_local(omega, local.data() + begin, end - begin, weights.data() + begin, &values[node]);
  }
  return values[goal];
}

// Top down: how often each node is derived, and so each edge and each part.
void PageLattice::expect(double* marginals) const {
  std::vector<double> flow(n_nodes + 1, 0.0);
  flow[goal] = 1;
  for (std::int64_t i = 0; i < n_parts; ++i) marginals[i] = 0;
  for (std::int64_t node = n_nodes - 1; node >= n_leaves; --node) {
    if (flow[node] == 0) continue;
    for (std::int64_t edge = first[node]; edge < first[node + 1]; ++edge) {
      const double mass = flow[node] * weights[edge];
      if (mass == 0) continue;
      for (std::int64_t t = 0; t < n_tails; ++t) flow[tails[t * n_edges + edge]] += mass;
      for (std::int64_t entry = first_entry[edge]; entry < first_entry[edge + 1]; ++entry)
        marginals[part[entry]] += mass;
    }
  }
}

void PageLattice::add_edge(std::int64_t edge, double* counts) const {
  for (std::int64_t entry = first_entry[edge]; entry < first_entry[edge + 1]; ++entry) counts[part[entry]] += 1;
}

// A random walk from the goal: every node chooses the edge by which it is derived.
void PageLattice::sample(std::uint64_t& state, double* counts) const {
  for (std::int64_t i = 0; i < n_parts; ++i) counts[i] = 0;
  std::vector<std::int64_t> todo{goal};
  while (!todo.empty()) {
    const std::int64_t node = todo.back();
    todo.pop_back();
    if (node < n_leaves || node >= n_nodes) continue;
    state += 0x9E3779B97F4A7C15ull;  // splitmix64
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    double left = static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
    std::int64_t chosen = -1;
    for (std::int64_t edge = first[node]; edge < first[node + 1]; ++edge) {
      if (weights[edge] == 0) continue;
      chosen = edge;  // the last one that has weight takes what rounding leaves
      left -= weights[edge];
      if (left < 0) break;
    }
    if (chosen < 0) return;
    add_edge(chosen, counts);
    for (std::int64_t t = 0; t < n_tails; ++t) todo.push_back(tails[t * n_edges + chosen]);
  }
}

// The k derivations of the largest score, where edges have these scores.
int PageLattice::top(const double* edge_scores, int k, double* found_scores, double* counts) const {
  std::vector<double> values(n_nodes + 1, 0.0);
  for (std::int64_t node = n_leaves; node < n_nodes; ++node) {
    values[node] = kNothing;
    for (std::int64_t edge = first[node]; edge < first[node + 1]; ++edge) {
      double score = edge_scores[edge];
      for (std::int64_t t = 0; t < n_tails; ++t) score += values[tails[t * n_edges + edge]];
      if (score > values[node]) values[node] = score;
    }
  }
  std::vector<double> best;
  std::vector<std::int64_t> edges, sizes;
  Interruption never;
  const Graph graph{tails.data(), first.data(), n_tails, n_edges, n_leaves, n_nodes};
  KBest(graph, edge_scores, values.data()).top(goal, k, best, edges, sizes, never);
  std::size_t entry = 0;
  for (std::size_t rank = 0; rank < best.size(); ++rank) {
    found_scores[rank] = best[rank];
    double* own = counts + rank * n_parts;
    for (std::int64_t i = 0; i < n_parts; ++i) own[i] = 0;
    for (std::int64_t e = 0; e < sizes[rank]; ++e) add_edge(edges[entry++], own);
  }
  return static_cast<int>(best.size());
}

extern "C" {

__attribute__((export_name("omegamax_lattice_open"))) PageLattice* omegamax_lattice_open(
    int n_nodes, int n_leaves, int n_tails, int n_edges, int n_parts, int goal, const std::int32_t* tails,
    const std::int32_t* first, const std::int32_t* first_entry, const std::int32_t* part) {
  return new PageLattice(n_nodes, n_leaves, n_tails, n_edges, n_parts, goal, tails, first, first_entry, part);
}

__attribute__((export_name("omegamax_lattice_close"))) void omegamax_lattice_close(PageLattice* lattice) {
  delete lattice;
}

__attribute__((export_name("omegamax_lattice_solve"))) double omegamax_lattice_solve(PageLattice* lattice, int omega,
                                                                                     const double* scores,
                                                                                     double* marginals) {
  const double value = lattice->sweep(static_cast<Omega>(omega), scores);
  if (std::isfinite(value)) lattice->expect(marginals);
  else
    for (std::int64_t i = 0; i < lattice->n_parts; ++i) marginals[i] = value == kNothing ? 0 : value - value;
  return value;
}

// After a solve whose value is finite: `n` structures (n, n_parts), reproducible from the seed.
__attribute__((export_name("omegamax_lattice_sample"))) void omegamax_lattice_sample(const PageLattice* lattice,
                                                                                     int seed, int n, double* counts) {
  std::uint64_t state = static_cast<std::uint32_t>(seed);
  for (int i = 0; i < n; ++i) lattice->sample(state, counts + i * lattice->n_parts);
}

// After a solve whose value is finite: the k most probable structures with their probabilities; returns how many.
__attribute__((export_name("omegamax_lattice_ranked"))) int omegamax_lattice_ranked(const PageLattice* lattice, int k,
                                                                                    double* probabilities,
                                                                                    double* counts) {
  std::vector<double> logarithms(lattice->n_edges);
  for (std::int64_t edge = 0; edge < lattice->n_edges; ++edge)
    logarithms[edge] = lattice->weights[edge] > 0 ? std::log(lattice->weights[edge]) : kNothing;
  const int found = lattice->top(logarithms.data(), k, probabilities, counts);
  for (int rank = 0; rank < found; ++rank) probabilities[rank] = std::exp(probabilities[rank]);
  return found;
}

// The k structures of the largest score.
__attribute__((export_name("omegamax_lattice_best"))) int omegamax_lattice_best(const PageLattice* lattice, int k,
                                                                                const double* scores,
                                                                                double* found_scores, double* counts) {
  std::vector<double> edge_scores(lattice->n_edges, 0.0);
  for (std::int64_t edge = 0; edge < lattice->n_edges; ++edge)
    for (std::int64_t entry = lattice->first_entry[edge]; entry < lattice->first_entry[edge + 1]; ++entry)
      edge_scores[edge] += scores[lattice->part[entry]];
  return lattice->top(edge_scores.data(), k, found_scores, counts);
}

}  // extern "C"

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
