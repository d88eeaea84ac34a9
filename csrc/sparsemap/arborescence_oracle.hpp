// The best arborescence as an oracle. sizes: size, single_root; integers: lengths.
#pragma once

#include "arborescences/arborescence.hpp"
#include "sparsemap/oracle.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

class ArborescenceOracle {
 public:
  explicit ArborescenceOracle(const OracleSpec& spec)
      : size_(spec.sizes[0]), single_root_(spec.sizes[1] != 0), lengths_(spec.integers[0]), best_(size_), heads_(size_),
        starts_(size_ + 1) {}

  void best(std::int64_t item, const double* scores, Vertex& found) {
    const std::int64_t n = lengths_[item];
    std::int32_t *heads = heads_.get(), *starts = starts_.get();
    if (!all_numbers(scores, size_, n)) {
      found.size = Vertex::kNotANumber;
      return;
    }
    if (!best_.solve(scores, n, single_root_, heads)) {
      found.size = Vertex::kInfeasible;
      return;
    }
    // In ascending order: head by head, and below each of them word by word.
    for (std::int64_t h = 0; h <= n + 1; ++h) starts[h] = 0;
    for (std::int64_t m = 1; m <= n; ++m) ++starts[heads[m] + 1];
    for (std::int64_t h = 0; h <= n; ++h) starts[h + 1] += starts[h];
    for (std::int64_t m = 1; m <= n; ++m)
      found.places[starts[heads[m]]++] = static_cast<std::int32_t>(heads[m] * size_ + m);
    for (std::int64_t i = 0; i < n; ++i) found.values[i] = 1;
    found.size = n;
  }

 private:
  std::int64_t size_;
  bool single_root_;
  const std::int64_t* lengths_;
  BestArborescence best_;
  Scratch<std::int32_t> heads_, starts_;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
