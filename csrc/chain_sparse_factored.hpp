// Sweeps down a factored chain under a sparse Omega. Few nodes are visited, and each is weighed as a row of the
// transitions, transposed once.
#pragma once

#include "chain_sparse.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

// The transitions of an item with columns as rows.
template <class T>
class Columns {
 public:
  Columns(std::int64_t tags, std::int64_t width) : width_(width), room_(tags * width) {}
  void of(const ChainItem<T>& chain) {
    if (chain.length > 1)
      for (std::int64_t j = 0; j < chain.n_tags; ++j) chain.column(j, room_.get() + j * width_);
  }
  const T* operator()(std::int64_t j) const { return room_.get() + j * width_; }

 private:
  std::int64_t width_;
  Scratch<T> room_;
};

// The sum over places of the flows into tag j, kept transposed.
template <class T>
class Flows {
 public:
  Flows(std::int64_t tags, std::int64_t width) : tags_(tags), width_(width), sums_(tags * width) {}
  void begin() { fill(sums_.get(), tags_ * width_, T(0)); }
  void add(std::int64_t j, const T* flow) {
    T* to = sums_.get() + j * width_;
    for (std::int64_t i = 0; i < width_; i += kLanes<T>) store<T>(to + i, load(to + i) + load(flow + i));
  }
  void finish(ChainOutput<T>& out) const {
    for (std::int64_t i = 0; i < tags_; ++i)
      for (std::int64_t j = 0; j < tags_; ++j) out.transitions[i * tags_ + j] = sums_.get()[j * width_ + i];
  }

 private:
  std::int64_t tags_, width_;
  Scratch<T> sums_;
};

template <class Power, class T>
void sparse_factored_marginals(const ChainMarginals<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  Columns<T> columns(tags, width);
  Flows<T> flows(tags, width);
  Scratch<T> rows(5 * width);
  T *b = rows.get(), *flow = b + width, *zeros = flow + width, *visits = zeros + width, *before = visits + width;
  fill(zeros, width, T(0));
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain(p.parts, item, tags, p.lengths[item]);
    ChainOutput<T> out(p.weights, item, tags, p.n_places);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    const T* values = p.values + item * p.n_places * tags;
    const T* levels = p.levels + item * p.n_places * tags;
    columns.of(chain);
    flows.begin();
    read_row(b, values + (chain.length - 1) * tags, tags, -kInfinity<T>);
    chain.last_scores(b, flow);
    weigh_row<Power, T>(flow, zeros, SparseRow<Power, T>(flow, width).tau, width, visits, nullptr);
    write_row(out.end, visits, tags);
    for (std::int64_t place = chain.length - 1; place > 0; --place) {
      write_row(out.first + place * tags, visits, tags);
      read_row(b, values + (place - 1) * tags, tags, -kInfinity<T>);
      fill(before, width, T(0));
      for (std::int64_t j = 0; j < tags; ++j) {
        const T here = visits[j];
        if (here == 0) continue;
        weigh_row<Power, T>(b, columns(j), levels[place * tags + j], width, flow, nullptr);
        for (std::int64_t i = 0; i < width; i += kLanes<T>) {
          const Vector<T> f = load(flow + i) * here;
          store(flow + i, f);
          store<T>(before + i, load(before + i) + f);
        }
        flows.add(j, flow);
      }
      T* const next = before;
      before = visits;
      visits = next;
    }
    out.begin(visits);
    out.nothing_from(chain.length);
    flows.finish(out);
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
