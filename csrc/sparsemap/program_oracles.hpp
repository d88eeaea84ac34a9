// The oracles that are known by kind: dynamic programs under the hard maximum, one item at a time. They call kernels of
// the same instruction set through its table, which are compiled elsewhere.
#pragma once

#include <cstdint>
#include <limits>

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "hypergraphs/lattice_oracle.hpp"
#include "sparsemap/equality_polytope.hpp"
#include "sparsemap/oracle.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

extern const Table table;

// The non-zero entries of a structure written out.
inline void gather(const double* dense, std::int64_t n_parts, Vertex& found) {
  found.size = 0;
  for (std::int64_t i = 0; i < n_parts; ++i) {
    if (dense[i] == 0) continue;
    found.places[found.size] = static_cast<std::int32_t>(i);
    found.values[found.size++] = dense[i];
  }
}

// Whether there is a structure; says so in the vertex where there is none.
inline bool feasible(double value, Vertex& found) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (value == -infinity) found.size = Vertex::kInfeasible;
  else if (!(value < infinity)) found.size = Vertex::kNotANumber;
  else return true;
  return false;
}

// Viterbi. sizes: places, tags, whether factored; integers: lengths.
class ChainOracle {
 public:
  explicit ChainOracle(const OracleSpec& spec)
      : places_(spec.sizes[0]), tags_(spec.sizes[1]), factored_(spec.sizes[2] != 0), n_parts_(spec.n_parts),
        lengths_(spec.integers[0]), values_(places_ * tags_), weights_(n_parts_) {}

  void best(std::int64_t item, const double* scores, Vertex& found) {
    double value, total;
    const std::int64_t n_first = factored_ ? places_ * tags_ : n_parts_;
    const double* rest = scores + n_first;
    const ChainParts<double> parts{scores,
                                   factored_ ? rest : nullptr,
                                   factored_ ? rest + tags_ * tags_ : nullptr,
                                   factored_ ? rest + tags_ * tags_ + tags_ : nullptr,
                                   0,
                                   0,
                                   0,
                                   0};
    double* more = weights_.get() + n_first;
    const ChainPointers<double> weights{weights_.get(), factored_ ? more : nullptr,
                                        factored_ ? more + tags_ * tags_ : nullptr,
                                        factored_ ? more + tags_ * tags_ + tags_ : nullptr};
    table.ChainValue_double(
        {parts, lengths_ + item, nullptr, Omega::kHard, places_, tags_, &value, &total, values_.get(), nullptr, 0}, 0, 1);
    if (!feasible(value, found)) return;
    table.ChainMarginals_double(
        {parts, lengths_ + item, nullptr, &total, values_.get(), nullptr, Omega::kHard, places_, tags_, weights, 0}, 0, 1);
    gather(weights_.get(), n_parts_, found);
  }

  // One unit enters the first place, and what flows into a tag flows out of it. Emissions, which several transitions
  // share, have no such equations.
  bool equalities(std::int64_t item, EqualitySystem& found) const {
    if (factored_) return false;
    const std::int64_t n = lengths_[item], c = tags_;
    found.right.assign(1 + (n - 1) * c, 0.0);
    found.right[0] = 1;
    for (std::int64_t place = 0; place < n; ++place)
      for (std::int64_t from = 0; from < (place == 0 ? 1 : c); ++from)
        for (std::int64_t to = 0; to < c; ++to) {
          found.begin(static_cast<std::int32_t>((place * c + from) * c + to));
          if (place == 0) found.put(0, 1);
          else found.put(1 + (place - 1) * c + from, -1);
          if (place + 1 < n) found.put(1 + place * c + to, 1);
          found.end();
        }
    return true;
  }

 private:
  std::int64_t places_, tags_;
  bool factored_;
  std::int64_t n_parts_;
  const std::int64_t* lengths_;
  Scratch<double> values_, weights_;
};

// Charts of spans. sizes: size, single_root or labels, arrays of a chart, arrays of visits, slack; integers: lengths.
class ChartOracle {
 protected:
  explicit ChartOracle(const OracleSpec& spec)
      : size_(spec.sizes[0]), option_(spec.sizes[1]), n_parts_(spec.n_parts), lengths_(spec.integers[0]),
        charts_(spec.sizes[2] * size_ * (size_ + spec.sizes[4])),
        visits_(spec.sizes[3] * size_ * (size_ + spec.sizes[4])), weights_(n_parts_) {}

  std::int64_t size_, option_, n_parts_;
  const std::int64_t* lengths_;
  Scratch<double> charts_, visits_, weights_;
};

class ProjectiveOracle : private ChartOracle {
 public:
  explicit ProjectiveOracle(const OracleSpec& spec) : ChartOracle(spec) {}
  void best(std::int64_t item, const double* scores, Vertex& found) {
    double value;
    table.ProjectiveValue_double({scores, lengths_ + item, size_, option_, Omega::kHard, charts_.get(), &value, 0}, 0,
                                 1);
    if (!feasible(value, found)) return;
    table.ProjectiveMarginals_double(
        {lengths_ + item, charts_.get(), size_, option_, Omega::kHard, visits_.get(), weights_.get(), 0}, 0, 1);
    gather(weights_.get(), n_parts_, found);
  }
};

class ConstituencyOracle : private ChartOracle {
 public:
  explicit ConstituencyOracle(const OracleSpec& spec) : ChartOracle(spec) {}
  void best(std::int64_t item, const double* scores, Vertex& found) {
    double value;
    table.ConstituencyValue_double({scores, lengths_ + item, size_, option_, Omega::kHard, charts_.get(), &value, 0}, 0,
                                   1);
    if (!feasible(value, found)) return;
    table.ConstituencyMarginals_double(
        {scores, lengths_ + item, charts_.get(), size_, option_, Omega::kHard, visits_.get(), weights_.get(), 0}, 0, 1);
    gather(weights_.get(), n_parts_, found);
  }
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
