// SparseMAP of one item: the search that feeds an active set from a MAP oracle, and the face it ends on.
//
//     maximise over mu in conv(Y)   <scores, mu> - 1/2 ||mu||^2          (mu: the regularised parts)
//
// Each step asks the oracle for the best vertex along the gradient g; the gap <g, vertex> - <g, mu> bounds what is left
// to win. The derivative lives on the face of all vertices that are best along g. Where scores tie, the active set may
// not span it: then MAP calls along g, slightly turned to either side of the hull, bring the missing vertices.
//
// Nearly flat scores end on a face of hundreds of vertices, which come one by one and leave again. Where the polytope
// is known by its equations, the search stops early to solve for mu itself, and takes mu apart into vertices.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "core/interruption.hpp"
#include "sparsemap/active_set.hpp"
#include "sparsemap/equality_polytope.hpp"
#include "sparsemap/oracle.hpp"

namespace omegamax {

enum class Ending : std::int64_t { kOptimal, kInfeasible, kNotANumber, kNotConverged, kBadOracle };

struct SparsemapOptions {
  std::int64_t n_parts, n_regularized, max_calls;
  double atol;
  bool wants_face;  // a derivative will be asked for
  Interruption* interruption = nullptr;
};

// What is known before: vertices with probabilities, or none.
struct SparsemapStart {
  std::int64_t n_vertices;
  const std::int64_t* sizes;
  const std::int32_t* places;
  const double* values;
  const double* probabilities;
};

// Vertices that are being collected, with probabilities.
struct VertexList {
  std::vector<std::int64_t> sizes;
  std::vector<std::int32_t> places;
  std::vector<double> values, probabilities;

  void append(const Vertex& vertex, double probability) {
    sizes.push_back(vertex.size);
    places.insert(places.end(), vertex.places, vertex.places + vertex.size);
    values.insert(values.end(), vertex.values, vertex.values + vertex.size);
    probabilities.push_back(probability);
  }
  std::vector<Vertex> vertices() {
    std::vector<Vertex> found;
    std::int64_t entry = 0;
    for (const std::int64_t size : sizes) {
      found.push_back({places.data() + entry, values.data() + entry, size});
      entry += size;
    }
    return found;
  }
};

struct SparsemapItem {
  Ending ending = Ending::kInfeasible;
  double gap = std::numeric_limits<double>::infinity();
  std::int64_t n_calls = 0;
  std::vector<ActiveSet::Member> members;
  std::vector<double> probabilities;  // zero for members that only span the face
  std::vector<double> factor;         // (members, members): the Cholesky factor of K + 1 1', if a face is wanted
};

class SparsemapSearch {
 public:
  // `ask(scores, vertex)` is the oracle for this item; `ask.equalities(system)` writes the equations of its polytope,
  // if the oracle knows them.
  template <class Ask>
  static SparsemapItem run(const DenseAlgebra& algebra, const double* scores, const SparsemapOptions& options,
                           const SparsemapStart& start, Ask& ask) {
    SparsemapSearch search(algebra, scores, options);
    search.find(start, ask);
    const Ending ending = search.found_.ending;
    if (ending == Ending::kOptimal || ending == Ending::kNotConverged) search.finish(ask);
    return std::move(search.found_);
  }

 private:
  SparsemapSearch(const DenseAlgebra& algebra, const double* scores, const SparsemapOptions& options)
      : scores_(scores), options_(options),
        set_(algebra, scores, options.n_parts, options.n_regularized, options.interruption), turned_(options.n_parts),
        places_(options.n_parts), values_(options.n_parts), vertex_{places_.data(), values_.data(), 0} {}

  template <class Ask>
  void find(const SparsemapStart& start, Ask& ask) {
    if (!begin(start)) {
      ++found_.n_calls;
      if (!answered(ask, scores_)) return;
      set_.add(vertex_);
    }
    double least = std::numeric_limits<double>::infinity(), best = -least;
    std::int64_t n_idle = 0;
    bool may_solve = true;
    while (found_.n_calls < options_.max_calls) {
      ++found_.n_calls;
      if (!answered(ask, set_.gradient().data())) {
        if (found_.ending == Ending::kInfeasible) found_.ending = Ending::kBadOracle;  // it found a vertex before
        return;
      }
      const double gap = along(set_.gradient()) - set_.level(), rounding = set_.rounding() * size_of_terms();
      found_.gap = std::max(0.0, gap);
      if (gap < -1e4 * rounding) {
        found_.gap = gap;  // how much better the mean is
        found_.ending = Ending::kBadOracle;
        return;
      }
      if (gap <= options_.atol + rounding || set_.holds(vertex_)) {
        found_.ending = Ending::kOptimal;
        return;
      }
      // A step gains about the square of the gap, which may be too little to show in the value: allow that a few times.
      const double value = set_.value();
      if (value > best || gap < 0.5 * least) n_idle = 0;
      best = std::max(best, value), least = std::min(least, gap);
      if (++n_idle > (gap <= 8 * rounding ? kIdle : kIdle + set_.size())) {
        found_.ending = gap <= 1e3 * rounding ? Ending::kOptimal : Ending::kNotConverged;
        return;
      }
      set_.add(vertex_);
      if (may_solve && set_.size() >= kMany) {
        may_solve = false;
        solve_equations(ask);
      }
    }
    found_.ending = Ending::kNotConverged;
  }

  // Replaces the active set by the vertices of mu, where mu can be solved for.
  template <class Ask>
  void solve_equations(Ask& ask) {
    EqualitySystem system;
    if (!ask.equalities(system)) return;
    EqualityPolytope polytope(system, scores_);
    std::vector<double> rest(options_.n_parts, 0.0);
    if (polytope.work() > kMostWork || !polytope.nearest(rest.data(), options_.interruption)) return;
    VertexList list;
    take_apart(rest, list, ask);
    if (list.probabilities.empty()) return;
    set_.clear();
    set_.append_all(list.vertices(), list.probabilities);
    set_.restart();
  }

  // Vertices on the support of mu, each with all the probability that mu can spare: then one part of mu is used up, and
  // the later vertices do not have it, so they are linearly independent.
  template <class Ask>
  void take_apart(std::vector<double>& rest, VertexList& list, Ask& ask) {
    constexpr double kDust = 1e-15;  // what Newton's method leaves of a zero
    double left = 1;
    std::vector<double> allowed(options_.n_parts);
    while (left > kDust && found_.n_calls < options_.max_calls) {
      for (std::int64_t i = 0; i < options_.n_parts; ++i)
        allowed[i] = rest[i] > kDust ? rest[i] : -std::numeric_limits<double>::infinity();
      ++found_.n_calls;
      ask(allowed.data(), vertex_);
      if (vertex_.size <= 0) return;
      double step = left;
      for (std::int64_t e = 0; e < vertex_.size; ++e)
        step = std::min(step, rest[vertex_.places[e]] / vertex_.values[e]);
      if (!(step > 0)) return;  // rounding has used up a part that others still need
      for (std::int64_t e = 0; e < vertex_.size; ++e) rest[vertex_.places[e]] -= step * vertex_.values[e];
      list.append(vertex_, step);
      left -= step;
    }
  }

  bool begin(const SparsemapStart& start) {
    std::int64_t entry = 0;
    std::vector<Vertex> vertices;
    std::vector<double> probabilities;
    for (std::int64_t i = 0; i < start.n_vertices; ++i) {
      const Vertex given{const_cast<std::int32_t*>(start.places) + entry, const_cast<double*>(start.values) + entry,
                         start.sizes[i]};
      entry += given.size;
      bool usable = start.probabilities[i] > 0;
      for (std::int64_t e = 0; e < given.size; ++e) usable &= std::isfinite(scores_[given.places[e]]);
      if (usable) vertices.push_back(given), probabilities.push_back(start.probabilities[i]);
    }
    set_.append_all(vertices, probabilities);
    if (set_.size() > 0) set_.restart();
    return set_.size() > 0;
  }

  template <class Ask>
  void finish(Ask& ask) {
    if (options_.wants_face) span_face(ask);
    const std::int64_t n = set_.size();
    found_.probabilities = set_.probabilities();
    if (options_.wants_face) {
      found_.factor.resize(n * n);
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j <= i; ++j) found_.factor[i * n + j] = set_.factor(i, j);
    }
    found_.members = set_.take_members();
  }

  // A generic direction orthogonal to the hull is constant on the face only if the hull spans it: so where both ways of
  // turning the gradient bring nothing new, nothing is missing.
  template <class Ask>
  void span_face(Ask& ask) {
    std::vector<double> side(options_.n_regularized);
    const std::vector<double> gradient = set_.gradient();
    const double level = set_.level();
    while (set_.size() <= options_.n_regularized) {
      for (double& number : side) number = next_random();
      set_.remove_hull(side.data());
      bool grown = false;
      for (const double turn : {kTurn, -kTurn}) {
        grown = turn_to(turn, gradient, side, level, ask);
        if (grown) break;
      }
      if (!grown) return;
    }
  }

  // Turns the gradient, less and less where a vertex just off the face comes first; true if a vertex has entered.
  template <class Ask>
  bool turn_to(double turn, const std::vector<double>& gradient, const std::vector<double>& side, double level,
               Ask& ask) {
    for (int finer = 0; finer < 3; ++finer, turn *= kFiner) {
      turned_ = gradient;
      const double scale = turn * largest_on_members(gradient);
      for (std::int64_t i = 0; i < options_.n_regularized; ++i) turned_[i] += scale * side[i];
      ask(turned_.data(), vertex_);
      if (vertex_.size < 0) return false;  // an oracle that fails now does not undo what was found
      const double tied = kTied * (size_along(gradient) + set_.magnitude() + set_.lift());
      if (along(gradient) >= level - tied) return !set_.holds(vertex_) && set_.append(vertex_, 0.0);
    }
    return false;
  }

  template <class Ask>
  bool answered(Ask& ask, const double* scores) {
    ask(scores, vertex_);
    if (vertex_.size == Vertex::kNotANumber) found_.ending = Ending::kNotANumber;
    else if (vertex_.size < 0) found_.ending = Ending::kInfeasible;
    return vertex_.size >= 0;
  }

  double along(const std::vector<double>& numbers) const {
    double total = 0;
    for (std::int64_t e = 0; e < vertex_.size; ++e) total += vertex_.values[e] * numbers[vertex_.places[e]];
    return total;
  }
  double size_along(const std::vector<double>& numbers) const {
    double total = 0;
    for (std::int64_t e = 0; e < vertex_.size; ++e) total += std::abs(vertex_.values[e] * numbers[vertex_.places[e]]);
    return total;
  }
  // What rounding errors of the gap are relative to. Twice the gap bounds the squared error of mu, which rounding has a
  // part in, too.
  double size_of_terms() const { return size_along(set_.gradient()) + set_.magnitude() + kEpsilon * set_.lift(); }

  // Of the gradient, and of the entries of vertices, which it is made of.
  double largest_on_members(const std::vector<double>& gradient) const {
    double largest = 0;
    for (const ActiveSet::Member& member : set_.members())
      for (std::size_t e = 0; e < member.places.size(); ++e) {
        largest = std::max(largest, std::abs(gradient[member.places[e]]));
        if (static_cast<std::int64_t>(e) < member.n_regularized)
          largest = std::max(largest, std::abs(member.values[e]));
      }
    return largest;
  }

  double next_random() {  // splitmix64, the same for every item, in (-1, 1)
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return static_cast<double>(static_cast<std::int64_t>((z ^ (z >> 31)) >> 11)) * 0x1p-52 - 1;
  }

  static constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  static constexpr double kTied = 1e-11;  // relative: scores closer than this are one score
  static constexpr double kTurn = 1e-7;   // of the gradient: far above rounding ...
  static constexpr double kFiner = 1e-2;  // ... and then less
  static constexpr std::int64_t kIdle = 32;
  static constexpr std::int64_t kMany = 64;  // members, from which on the equations are worth a look
  static constexpr double kMostWork = 1e8;   // multiplications of one step of Newton's method

  const double* scores_;
  const SparsemapOptions options_;
  ActiveSet set_;
  std::vector<double> turned_;
  std::vector<std::int32_t> places_;
  std::vector<double> values_;
  Vertex vertex_;
  SparsemapItem found_;
  std::uint64_t state_ = 0;
};

// A batch with a compiled oracle, and one item with any function; in sparsemap.cpp.
std::vector<SparsemapItem> sparsemap(const OracleTable& oracle, const DenseAlgebra& algebra, const OracleSpec& spec,
                                     const SparsemapOptions& options, const double* scores, std::int64_t n_items,
                                     const SparsemapStart* starts, int threads, Interruption& interruption);

SparsemapItem sparsemap_item(const DenseAlgebra& algebra, const double* scores, const SparsemapOptions& options,
                             const SparsemapStart& start, const std::function<void(const double*, Vertex&)>& function);

}  // namespace omegamax
