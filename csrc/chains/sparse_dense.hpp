// Sweeps down a dense chain under a sparse Omega, and their derivative: a vector of columns at a time, as the matrix
// lies in memory. Of a column only the threshold was kept; its weights follow from that and its best score.
#pragma once

#include "chains/sparse.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

// A vector of columns whose thresholds are known.
template <class Power, class T>
struct SparseBlock {
  Vector<T> top, tau;

  SparseBlock(Vector<T> best, Vector<T> threshold)
      : top(best > splat(-kInfinity<T>) ? best : Vector<T>{}), tau(threshold) {}
  Vector<T> excess(T before, const T* row) const {
    return larger(((before + load(row)) - top) * T(1 / Power::kOrder) - tau, Vector<T>{});
  }
};

template <class Power, class T>
void sparse_marginals(const ChainMarginals<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  Scratch<T> rows(2 * width), sums(width * kLanes<T>), room(width == tags ? 1 : tags * width);
  T *b = rows.get(), *visits = b + width, *sum = sums.get();
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain = chain_of(p, item);
    ChainOutput<T> out = output_of(p, item, chain);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    const T *values = p.values + item * p.n_places * tags, *levels = p.levels + item * p.n_places * tags;
    read_row(b, values + (chain.length - 1) * tags, tags, -kInfinity<T>);
    SparseRow<Power, T>(b, width).weigh(b, width, visits, nullptr);
    const T* scores = chain.matrix(chain.length - 1);
    T* to = out.at(chain.length - 1);
    for (std::int64_t place = chain.length - 1; place > 0; --place) {
      read_row(b, values + (place - 1) * tags, tags, -kInfinity<T>);
      const T* matrix = chain.padded_matrix(scores, room.get());
      const T* scores_before = chain.matrix(place - 1);
      T* to_before = out.at(place - 1);
      fill(sum, width * kLanes<T>, T(0));
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const Vector<T> here = load(visits + j);
        if (where_greater(here, Vector<T>{}) == 0) {
          for (std::int64_t i = 0; i < tags; ++i) store_lanes<T>(to + i * tags + j, lanes, Vector<T>{});
          return;
        }
        const SparseBlock<Power, T> block(top_of_block(b, matrix + j, tags, width),
                                          load_lanes(levels + place * tags + j, lanes, T(0)));
        for (std::int64_t i = 0; i < tags; ++i) {
          const Vector<T> flow = Power::weight(block.excess(b[i], matrix + i * width + j)) * here;
          store_lanes<T>(to + i * tags + j, lanes, flow);
          ask_for_place_before(scores_before + i * tags + j, to_before + i * tags + j);
          store<T>(sum + i * kLanes<T>, load(sum + i * kLanes<T>) + flow);
        }
      });
      sum_rows(visits, sum, width);
      restore_visits(visits, width);
      scores = scores_before;
      to = to_before;
    }
    out.begin(visits);
    out.nothing_from(chain.length);
  }
}

// J = diag(s) - s s' / sum s at every node.
template <class Power, class T>
void sparse_tangent(const ChainTangent<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags), size = p.n_places * width;
  Scratch<T> rows(4 * width), matrices(2 * width * kLanes<T>), room(width == tags ? 1 : tags * width), nodes(3 * size);
  T *b = rows.get(), *visits = b + width, *moved = visits + width, *slopes = moved + width;
  T *sum = matrices.get(), *moved_sum = sum + width * kLanes<T>;
  // Per node: its best score; the move of its value; the mean of the moves of the scores above its threshold.
  T *tops = nodes.get(), *moves = tops + size, *means = moves + size;
  const Vector<T> zero{}, one = splat(T(1));
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain = chain_of(p, item), along = direction_of(p, item);
    ChainOutput<T> out = output_of(p, item, chain);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    const T *values = p.values + item * p.n_places * tags, *levels = p.levels + item * p.n_places * tags;
    const auto block_at = [&](std::int64_t place, std::int64_t j, std::int64_t lanes) {
      return SparseBlock<Power, T>(load(tops + place * width + j), load_lanes(levels + place * tags + j, lanes, T(0)));
    };
    // How a row of scores moves, where it has weight.
    const auto row_moves = [&](const T* directions, std::int64_t place, std::int64_t i, std::int64_t j,
                               std::int64_t lanes, Vector<T> z) {
      const Vector<T> y = moves[(place - 1) * width + i] + load_lanes(directions + i * tags + j, lanes, T(0));
      return z > zero ? y : zero;
    };

    along.first_scores(moves, T(0));
    for (std::int64_t place = 1; place < chain.length; ++place) {
      read_row(b, values + (place - 1) * tags, tags, -kInfinity<T>);
      const T *matrix = chain.padded_matrix(chain.matrix(place), room.get()), *directions = along.matrix(place);
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        store(tops + place * width + j, top_of_block(b, matrix + j, tags, width));
        const SparseBlock<Power, T> block = block_at(place, j, lanes);
        Vector<T> move{}, mean{}, all{};
        for (std::int64_t i = 0; i < tags; ++i) {
          const Vector<T> z = block.excess(b[i], matrix + i * width + j), s = Power::slope(z, one);
          const Vector<T> y = row_moves(directions, place, i, j, lanes, z);
          move += Power::weight(z) * y;
          mean += s * y;
          all += s;
        }
        store(moves + place * width + j, move);
        store<T>(means + place * width + j, all > zero ? mean / all : zero);
      });
    }

    const std::int64_t end_place = chain.length - 1;
    read_row(b, values + end_place * tags, tags, -kInfinity<T>);
    SparseRow<Power, T>(b, width).weigh(b, width, visits, slopes);
    Vector<T> means_at_end{}, all{};
    for (std::int64_t i = 0; i < width; i += kLanes<T>) {
      const Vector<T> s = load(slopes + i);
      means_at_end += s > zero ? s * load(moves + end_place * width + i) : zero;
      all += s;
    }
    const T mean_at_end = sum_lanes<T>(means_at_end) / sum_lanes<T>(all);
    for (std::int64_t i = 0; i < width; i += kLanes<T>) {
      const Vector<T> s = load(slopes + i);
      store<T>(moved + i, s > zero ? s * (load(moves + end_place * width + i) - mean_at_end) : zero);
    }
    const T* scores = chain.matrix(end_place);
    T* to = out.at(end_place);
    for (std::int64_t place = end_place; place > 0; --place) {
      read_row(b, values + (place - 1) * tags, tags, -kInfinity<T>);
      const T *matrix = chain.padded_matrix(scores, room.get()), *directions = along.matrix(place);
      const T* scores_before = chain.matrix(place - 1);
      T* to_before = out.at(place - 1);
      fill(sum, 2 * width * kLanes<T>, T(0));
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const Vector<T> here = load(visits + j);
        if (where_greater(here, zero) == 0) {
          for (std::int64_t i = 0; i < tags; ++i) store_lanes<T>(to + i * tags + j, lanes, zero);
          return;
        }
        const SparseBlock<Power, T> block = block_at(place, j, lanes);
        const Vector<T> moved_here = load(moved + j), mean = load(means + place * width + j);
        for (std::int64_t i = 0; i < tags; ++i) {
          const Vector<T> z = block.excess(b[i], matrix + i * width + j), w = Power::weight(z);
          const Vector<T> y = row_moves(directions, place, i, j, lanes, z) - mean;
          const Vector<T> moving = Power::slope(z, one) * y * here + w * moved_here;
          const Vector<T> flow = here > zero ? moving : zero;  // a direction may be anything where nothing moves
          store_lanes<T>(to + i * tags + j, lanes, flow);
          ask_for_place_before(scores_before + i * tags + j, to_before + i * tags + j);
          store<T>(sum + i * kLanes<T>, load(sum + i * kLanes<T>) + w * here);
          store<T>(moved_sum + i * kLanes<T>, load(moved_sum + i * kLanes<T>) + flow);
        }
      });
      sum_rows(visits, sum, width);
      restore_visits(visits, width);
      sum_rows(moved, moved_sum, width);
      scores = scores_before;
      to = to_before;
    }
    out.begin(moved);
    out.nothing_from(chain.length);
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
