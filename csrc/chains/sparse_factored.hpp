// Sweeps down a factored chain under a sparse Omega. Few nodes are visited, and each is solved again, as a row of the
// transposed transitions: thresholds of all nodes would double the state.
#pragma once

#include "chains/sparse_rows.hpp"

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
  void add(std::int64_t j, const T* b, T* to) const {
    const T* column = (*this)(j);
    for (std::int64_t i = 0; i < width_; i += kLanes<T>) store<T>(to + i, load(b + i) + load(column + i));
  }

 private:
  std::int64_t width_;
  Scratch<T> room_;
};

// Calls f(j, scores, row) for every tag j with visits, where `row` knows how to weigh the scores b + column j.
template <class Power, class T, class F>
inline void each_visited(SparseRows<Power, T>& rows, const Columns<T>& columns, const T* visits, const T* b,
                         std::int64_t tags, F f) {
  std::int64_t tag[kLanes<T>];
  rows.begin();
  for (std::int64_t j = 0; j < tags; ++j) {
    if (visits[j] != 0) {
      tag[rows.count()] = j;
      rows.add(b, columns(j));
    }
    if (rows.count() == 0 || !(rows.full() || j + 1 == tags)) continue;
    rows.solve();
    for (int k = 0; k < rows.count(); ++k) f(tag[k], rows.scores(k), rows.row(k));
    rows.begin();
  }
}

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
  NodeValues<SparseLocal<Power, T>, T> nodes(tags, width);
  SparseRows<Power, T> solved(width);
  Scratch<T> rows(4 * width);
  T *b = rows.get(), *flow = b + width, *visits = flow + width, *before = visits + width;
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain = chain_of(p, item);
    ChainOutput<T> out = output_of(p, item, chain);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    const T* state = p.values + item * chain.state_row(p.n_places);
    columns.of(chain);
    flows.begin();
    nodes.read(chain, state, chain.length - 1, b);
    chain.last_scores(b, flow);
    SparseRow<Power, T>(flow, width).weigh(flow, width, visits, nullptr);
    write_row(out.end, visits, tags);
    for (std::int64_t place = chain.length - 1; place > 0; --place) {
      write_row(out.at(place), visits, tags);
      nodes.read(chain, state, place - 1, b);
      fill(before, width, T(0));
      const auto flow_from = [&](std::int64_t j, const T* scores, const SparseRow<Power, T>& row) {
        for (std::int64_t i = 0; i < width; i += kLanes<T>) {
          const Vector<T> f = Power::weight(row.excess(load(scores + i))) * visits[j];
          store(flow + i, f);
          store<T>(before + i, load(before + i) + f);
        }
        flows.add(j, flow);
      };
      each_visited<Power>(solved, columns, visits, b, tags, flow_from);
      restore_visits(before, width);
      exchange(before, visits);
    }
    out.begin(visits);
    out.nothing_from(chain.length);
    flows.finish(out);
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
