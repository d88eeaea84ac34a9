// The Hessian product of chain_sparse_factored.hpp: J = diag(s) - s s' / sum s at every node that is visited.
#pragma once

#include "chain_sparse_factored.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

template <class Power, class T>
void sparse_factored_tangent(const ChainTangent<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  Columns<T> columns(tags, width), along_columns(tags, width);
  Flows<T> flows(tags, width);
  Scratch<T> rows(7 * width), nodes(3 * p.n_places * width);
  T *b = rows.get(), *w = b + width, *s = w + width, *zeros = s + width, *last = zeros + width;
  T *moved = last + width, *moved_before = moved + width;
  // Per node: visits; the move of its value; the mean of the moves of the scores above its threshold.
  T *visits = nodes.get(), *moves = visits + p.n_places * width, *means = moves + p.n_places * width;
  fill(zeros, width, T(0));
  const Vector<T> zero{};
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain(p.parts, item, tags, p.lengths[item]), along(p.direction, item, tags, p.lengths[item]);
    ChainOutput<T> out(p.weights, item, tags, p.n_places);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    const T* values = p.values + item * p.n_places * tags;
    const T* levels = p.levels + item * p.n_places * tags;
    columns.of(chain);
    along_columns.of(along);
    flows.begin();

    // How the scores of a row move, by the move of the tags before and of the column; zero where there is no weight.
    const auto row_moves = [&](const T* of_values, const T* of_column, std::int64_t i) {
      return load(s + i) > zero ? load(of_values + i) + load(of_column + i) : zero;
    };
    const auto means_of = [&](const T* of_values, const T* of_column, T& move, T& mean) {
      Vector<T> moving{}, sum{}, size{};
      for (std::int64_t i = 0; i < width; i += kLanes<T>) {
        const Vector<T> y = row_moves(of_values, of_column, i);
        moving += load(w + i) * y;
        sum += load(s + i) * y;
        size += load(s + i);
      }
      const T all = sum_lanes<T>(size);
      move = sum_lanes<T>(moving);
      mean = all > 0 ? sum_lanes<T>(sum) / all : T(0);
    };

    // Only what is visited moves anything, so the visits come first.
    read_row(b, values + (chain.length - 1) * tags, tags, -kInfinity<T>);
    chain.last_scores(b, last);
    weigh_row<Power, T>(last, zeros, SparseRow<Power, T>(last, width).tau, width, visits + (chain.length - 1) * width,
                        nullptr);
    for (std::int64_t place = chain.length - 1; place > 0; --place) {
      T *here = visits + place * width, *before = here - width;
      read_row(b, values + (place - 1) * tags, tags, -kInfinity<T>);
      fill(before, width, T(0));
      for (std::int64_t j = 0; j < tags; ++j) {
        if (here[j] == 0) continue;
        weigh_row<Power, T>(b, columns(j), levels[place * tags + j], width, w, nullptr);
        for (std::int64_t i = 0; i < width; i += kLanes<T>)
          store<T>(before + i, load(before + i) + load(w + i) * here[j]);
      }
    }

    along.first_scores(moves, T(0));
    for (std::int64_t place = 1; place < chain.length; ++place) {
      T* here = moves + place * width;
      fill(here, width, T(0));
      read_row(b, values + (place - 1) * tags, tags, -kInfinity<T>);
      for (std::int64_t j = 0; j < tags; ++j) {
        if (visits[place * width + j] == 0) continue;
        weigh_row<Power, T>(b, columns(j), levels[place * tags + j], width, w, s);
        means_of(here - width, along_columns(j), here[j], means[place * width + j]);
      }
      along.add_emissions(place, here);
    }
    read_row(b, values + (chain.length - 1) * tags, tags, -kInfinity<T>);
    chain.last_scores(b, last);
    weigh_row<Power, T>(last, zeros, SparseRow<Power, T>(last, width).tau, width, w, s);
    read_row(last, along.end, tags, T(0));
    T move, mean;
    const T* const moves_at_end = moves + (chain.length - 1) * width;
    means_of(moves_at_end, last, move, mean);
    for (std::int64_t i = 0; i < width; i += kLanes<T>)
      store<T>(moved + i, load(s + i) * (row_moves(moves_at_end, last, i) - mean));
    write_row(out.end, moved, tags);
    for (std::int64_t place = chain.length - 1; place > 0; --place) {
      write_row(out.first + place * tags, moved, tags);
      read_row(b, values + (place - 1) * tags, tags, -kInfinity<T>);
      fill(moved_before, width, T(0));
      for (std::int64_t j = 0; j < tags; ++j) {
        const T here = visits[place * width + j];
        if (here == 0) continue;
        weigh_row<Power, T>(b, columns(j), levels[place * tags + j], width, w, s);
        const T* column = along_columns(j);
        for (std::int64_t i = 0; i < width; i += kLanes<T>) {
          const Vector<T> y = row_moves(moves + (place - 1) * width, column, i) - means[place * width + j];
          const Vector<T> f = load(s + i) * y * here + load(w + i) * moved[j];
          store<T>(moved_before + i, load(moved_before + i) + f);
          store(w + i, f);
        }
        flows.add(j, w);
      }
      T* const swap = moved_before;
      moved_before = moved;
      moved = swap;
    }
    out.begin(moved);
    out.nothing_from(chain.length);
    flows.finish(out);
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
