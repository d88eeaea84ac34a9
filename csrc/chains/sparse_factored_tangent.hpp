// The Hessian product of sparse_factored.hpp: J = diag(s) - s s' / sum s at every node that is visited.
#pragma once

#include "chains/sparse_factored.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

template <class Power, class T>
void sparse_factored_tangent(const ChainTangent<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  Columns<T> columns(tags, width), along_columns(tags, width);
  Flows<T> flows(tags, width);
  NodeValues<SparseLocal<Power, T>, T> kept(tags, width);
  SparseRows<Power, T> solved(width);
  const std::int64_t size = p.n_places * width;
  Scratch<T> rows(6 * width), nodes(6 * size);
  T *y = rows.get(), *w = y + width, *s = w + width, *last = s + width, *moved = last + width;
  T* moved_before = moved + width;
  // Per node: its value; best score and threshold; visits; the move of its value; the mean of the moves of the scores
  // above the threshold.
  T *values = nodes.get(), *tops = values + size, *taus = tops + size, *visits = taus + size, *moves = visits + size;
  T* means = moves + size;
  const Vector<T> zero{};
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain = chain_of(p, item), along = direction_of(p, item);
    ChainOutput<T> out = output_of(p, item, chain);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    const T* state = p.values + item * chain.state_row(p.n_places);
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
        const Vector<T> move_of = row_moves(of_values, of_column, i);
        moving += load(w + i) * move_of;
        sum += load(s + i) * move_of;
        size += load(s + i);
      }
      const T all = sum_lanes<T>(size);
      move = sum_lanes<T>(moving);
      mean = all > 0 ? sum_lanes<T>(sum) / all : T(0);
    };

    // The weights of a node that is solved.
    const auto weigh = [&](std::int64_t place, std::int64_t j) {
      columns.add(j, values + (place - 1) * width, y);
      SparseRow<Power, T>(tops[place * width + j], taus[place * width + j]).weigh(y, width, w, s);
    };

    // Only what is visited moves anything, so the visits come first.
    const std::int64_t end_place = chain.length - 1;
    kept.read(chain, state, end_place, values + end_place * width);
    chain.last_scores(values + end_place * width, last);
    const SparseRow<Power, T> at_end(last, width);
    at_end.weigh(last, width, visits + end_place * width, nullptr);
    for (std::int64_t place = end_place; place > 0; --place) {
      T *here = visits + place * width, *before = here - width, *b = values + (place - 1) * width;
      kept.read(chain, state, place - 1, b);
      fill(before, width, T(0));
      const auto flow_from = [&](std::int64_t j, const T* scores, const SparseRow<Power, T>& row) {
        tops[place * width + j] = row.top;
        taus[place * width + j] = row.tau;
        for (std::int64_t i = 0; i < width; i += kLanes<T>)
          store<T>(before + i, load(before + i) + Power::weight(row.excess(load(scores + i))) * here[j]);
      };
      each_visited<Power>(solved, columns, here, b, tags, flow_from);
      restore_visits(before, width);
    }

    along.first_scores(moves, T(0));
    for (std::int64_t place = 1; place < chain.length; ++place) {
      T* here = moves + place * width;
      fill(here, width, T(0));
      for (std::int64_t j = 0; j < tags; ++j) {
        if (visits[place * width + j] == 0) continue;
        weigh(place, j);
        means_of(here - width, along_columns(j), here[j], means[place * width + j]);
      }
      along.add_emissions(place, here);
    }
    at_end.weigh(last, width, w, s);
    read_row(last, along.end, tags, T(0));
    T move, mean;
    const T* const moves_at_end = moves + end_place * width;
    means_of(moves_at_end, last, move, mean);
    for (std::int64_t i = 0; i < width; i += kLanes<T>)
      store<T>(moved + i, load(s + i) * (row_moves(moves_at_end, last, i) - mean));
    write_row(out.end, moved, tags);
    for (std::int64_t place = end_place; place > 0; --place) {
      write_row(out.at(place), moved, tags);
      fill(moved_before, width, T(0));
      for (std::int64_t j = 0; j < tags; ++j) {
        const T here = visits[place * width + j];
        if (here == 0) continue;
        weigh(place, j);
        const T* column = along_columns(j);
        for (std::int64_t i = 0; i < width; i += kLanes<T>) {
          const Vector<T> move_of = row_moves(moves + (place - 1) * width, column, i) - means[place * width + j];
          const Vector<T> f = load(s + i) * move_of * here + load(w + i) * moved[j];
          store<T>(moved_before + i, load(moved_before + i) + f);
          store(w + i, f);
        }
        flows.add(j, w);
      }
      exchange(moved_before, moved);
    }
    out.begin(moved);
    out.nothing_from(chain.length);
    flows.finish(out);
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
