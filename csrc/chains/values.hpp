// The first sweep of a chain, for every Omega whose Local solves the columns of a matrix: value and level of each.
//
//     solve(b, matrix, u, level)             any matrix
//     prepare(matrix), solve_prepared(...)   the same, for a matrix that many places share
#pragma once

#include "chains/item.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

// The transitions of factored chains, padded and prepared by Local.
template <class Local, class T>
class SharedMatrix {
 public:
  SharedMatrix(std::int64_t tags, std::int64_t width) : room_(width == tags ? 1 : tags * width) {}
  const T* of(const ChainItem<T>& chain, Local& local) {
    if (prepared_ != chain.transitions) {
      prepared_ = chain.transitions;
      matrix_ = chain.padded_matrix(chain.transitions, room_.get());
      local.prepare(matrix_);
    }
    return matrix_;
  }

 private:
  Scratch<T> room_;
  const T *prepared_ = nullptr, *matrix_ = nullptr;
};

template <class Local, class T>
void sweep_up(const ChainValue<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  Scratch<T> value(width), solved(width), level(width), room(width == tags ? 1 : tags * width);
  T *b = value.get(), *u = solved.get();
  Local local(tags, width);
  SharedMatrix<Local, T> shared(tags, width);
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain = chain_of(p, item);
    const std::int64_t offset = item * chain.state_row(p.n_places);
    int found = chain.look();
    fill(b, width, -kInfinity<T>);
    chain.first_scores(b, -kInfinity<T>);
    double total = recentre(b, width);
    write_row(p.values + offset, b, tags);
    const T* matrix = found || chain.dense() || chain.length < 2 ? nullptr : shared.of(chain, local);
    for (std::int64_t place = 1; place < chain.length && !found; ++place) {
      if (chain.dense()) {
        const T* scores = chain.matrix(place);
        found = look_at(scores, tags * tags);
        if (found) break;  // the solvers expect numbers
        matrix = chain.padded_matrix(scores, room.get());
      }
      if (!(total > -kInfinity<double>)) continue;  // nothing is feasible, but the scores that follow may be NaN
      if (chain.dense()) local.solve(b, matrix, u, level.get());
      else local.solve_prepared(b, matrix, u, level.get());
      chain.add_emissions(place, u);
      T* const next = u;
      u = b;
      b = next;
      total += recentre(b, width);
      if (chain.keeps(place)) write_row(p.values + offset + chain.state_row(place), b, tags);
      if (p.levels) write_row(p.levels + offset + chain.state_row(place), level.get(), tags);
    }
    chain.last_scores(b, u);
    total += Local::last(u, width);
    p.value[item] = p.total[item] = found ? chain.special(found) : total;
  }
}

// Values of the nodes of any place, from the state that `sweep_up` left.
template <class Local, class T>
class NodeValues {
 public:
  NodeValues(std::int64_t tags, std::int64_t width) : local_(tags, width), shared_(tags, width), rows_(2 * width) {}
  void read(const ChainItem<T>& chain, const T* state, std::int64_t place, T* b) {
    if (chain.keeps(place)) return read_row(b, state + chain.state_row(place), chain.n_tags, -kInfinity<T>);
    T *before = rows_.get(), *level = before + chain.width;
    read_row(before, state + chain.state_row(place - 1), chain.n_tags, -kInfinity<T>);
    local_.solve_prepared(before, shared_.of(chain, local_), b, level);
    chain.add_emissions(place, b);
    recentre(b, chain.width);
  }

 private:
  Local local_;
  SharedMatrix<Local, T> shared_;
  Scratch<T> rows_;
};

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
