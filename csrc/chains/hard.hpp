// The best chain (Viterbi). Ties go to the lowest tag.
#pragma once

#include "chains/values.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

template <class T>
class HardLocal {
 public:
  HardLocal(std::int64_t tags, std::int64_t width) : tags_(tags), width_(width) {}
  void solve(const T* b, const T* matrix, T* u, T*) const {
    constexpr int kSideBySide = 4;  // vectors of columns hide the latency of the maximum
    for (std::int64_t j = 0; j < width_; j += kSideBySide * kLanes<T>) {
      const std::int64_t blocks = (width_ - j) / kLanes<T>;
      if (blocks >= kSideBySide) solve_blocks<kSideBySide>(b, matrix + j, u + j);
      else
        for (std::int64_t k = 0; k < blocks; ++k) solve_blocks<1>(b, matrix + j + k * kLanes<T>, u + j + k * kLanes<T>);
    }
  }
  void prepare(const T*) const {}
  void solve_prepared(const T* b, const T* matrix, T* u, T* level) const { solve(b, matrix, u, level); }
  static T last(const T* y, std::int64_t width) { return largest_of_row(y, width); }

 private:
  template <int kBlocks>
  void solve_blocks(const T* b, const T* matrix, T* u) const {
    Vector<T> top[kBlocks];
    for (int k = 0; k < kBlocks; ++k) top[k] = splat(-kInfinity<T>);
    for (std::int64_t i = 0; i < tags_; ++i)
      for (int k = 0; k < kBlocks; ++k) top[k] = larger(b[i] + load(matrix + i * width_ + k * kLanes<T>), top[k]);
    for (int k = 0; k < kBlocks; ++k) store(u + k * kLanes<T>, top[k]);
  }

  std::int64_t tags_, width_;
};

template <class T>
void hard_marginals(const ChainMarginals<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  Scratch<T> last(width), values(width);
  NodeValues<HardLocal<T>, T> nodes(tags, width);
  T* b = values.get();
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain = chain_of(p, item);
    ChainOutput<T> out = output_of(p, item, chain);
    out.unusual(usual(p.total[item]) ? -kInfinity<double> : p.total[item], chain.length);  // zeros, to begin with
    if (!usual(p.total[item])) continue;
    const T* state = p.values + item * chain.state_row(p.n_places);
    nodes.read(chain, state, chain.length - 1, b);
    chain.last_scores(b, last.get());
    std::int64_t tag = 0;
    for (std::int64_t j = 1; j < tags; ++j)
      if (last.get()[j] > last.get()[tag]) tag = j;
    if (out.end) out.end[tag] = 1;
    for (std::int64_t place = chain.length - 1; place > 0; --place) {
      nodes.read(chain, state, place - 1, b);
      const T* column = chain.matrix(place) + tag;
      std::int64_t from = 0;
      for (std::int64_t i = 1; i < tags; ++i)
        if (b[i] + column[i * tags] > b[from] + column[from * tags]) from = i;
      if (out.dense()) {
        out.at(place)[from * tags + tag] = 1;
      } else {
        out.at(place)[tag] = 1;
        out.transitions[from * tags + tag] += 1;
      }
      tag = from;
    }
    out.at(0)[tag] = 1;
    if (out.start) out.start[tag] = 1;
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
