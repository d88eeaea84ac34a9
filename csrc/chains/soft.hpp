// Chains under Shannon's entropy in dense form: forward-backward in the log domain. A vector of columns is handled at a
// time; the exponentials of its scores, relative to the best of each column, are kept while they are needed.
#pragma once

#include "chains/values.hpp"
#include "core/vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

// log sum exp of each of a vector of columns.
template <class T>
inline Vector<T> soft_block(const T* b, const T* matrix, std::int64_t tags, std::int64_t width) {
  const Vector<T> none = splat(-kInfinity<T>), top = top_of_block(b, matrix, tags, width);
  const Vector<T> safe = top > none ? top : Vector<T>{};
  Vector<T> sum{};
  for (std::int64_t i = 0; i < tags; ++i) sum += exp_of<Vector<T>>((b[i] + load(matrix + i * width)) - safe);
  return top > none ? safe + log_normal(sum) : none;
}

// exp(score - best) of a vector of columns, one vector per row in `powers`; returns 1 / sum, 0 where there is nothing.
template <class T>
inline Vector<T> weigh_block(const T* b, const T* matrix, std::int64_t tags, std::int64_t width, T* powers) {
  const Vector<T> none = splat(-kInfinity<T>), top = top_of_block(b, matrix, tags, width);
  const Vector<T> safe = top > none ? top : Vector<T>{};
  Vector<T> sum{};
  for (std::int64_t i = 0; i < tags; ++i) {
    const Vector<T> power = exp_of<Vector<T>>((b[i] + load(matrix + i * width)) - safe);
    store(powers + i * kLanes<T>, power);
    sum += power;
  }
  return top > none ? T(1) / sum : Vector<T>{};
}

template <class T>
class SoftLocal {
 public:
  SoftLocal(std::int64_t tags, std::int64_t width) : tags_(tags), width_(width) {}
  void solve(const T* b, const T* matrix, T* u, T*) const {
    for (std::int64_t j = 0; j < width_; j += kLanes<T>) store(u + j, soft_block(b, matrix + j, tags_, width_));
  }
  void prepare(const T*) const {}
  void solve_prepared(const T* b, const T* matrix, T* u, T* level) const { solve(b, matrix, u, level); }
  static T last(const T* y, std::int64_t width) {
    const T top = largest_of_row(y, width);
    if (!(top > -kInfinity<T>)) return top;
    Vector<T> sum{};
    for (std::int64_t i = 0; i < width; i += kLanes<T>) sum += exp_of<Vector<T>>(load(y + i) - top);
    return top + log_normal(sum_lanes<T>(sum));
  }

 private:
  std::int64_t tags_, width_;
};

// The weights of a row; its scores are overwritten.
template <class T>
inline void weigh_softly(T* y, std::int64_t width) {
  const T top = largest_of_row(y, width);
  Vector<T> sum{};
  for (std::int64_t i = 0; i < width; i += kLanes<T>) {
    const Vector<T> power = exp_of<Vector<T>>(load(y + i) - top);
    store(y + i, power);
    sum += power;
  }
  const T inverse = 1 / sum_lanes<T>(sum);
  for (std::int64_t i = 0; i < width; i += kLanes<T>) store<T>(y + i, load(y + i) * inverse);
}

// Replaces `moves`, a direction of the scores of a row, by the derivative of its weights p, zero where p is zero.
template <class T>
inline void move_softly(const T* p, T* moves, std::int64_t width) {
  const Vector<T> zero{};
  Vector<T> mean{};
  for (std::int64_t i = 0; i < width; i += kLanes<T>) {
    const Vector<T> weight = load(p + i);
    mean += weight > zero ? weight * load(moves + i) : zero;
  }
  const T centre = sum_lanes<T>(mean);
  for (std::int64_t i = 0; i < width; i += kLanes<T>) {
    const Vector<T> weight = load(p + i);
    store<T>(moves + i, weight > zero ? weight * (load(moves + i) - centre) : zero);
  }
}

template <class T>
void soft_marginals(const ChainMarginals<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  Scratch<T> rows(2 * width), blocks(2 * width * kLanes<T>), room(width == tags ? 1 : tags * width);
  T *b = rows.get(), *visits = b + width, *powers = blocks.get(), *sums = powers + width * kLanes<T>;
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain = chain_of(p, item);
    ChainOutput<T> out = output_of(p, item, chain);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    const T* values = p.values + item * p.n_places * tags;
    read_row(visits, values + (chain.length - 1) * tags, tags, -kInfinity<T>);
    weigh_softly(visits, width);
    const T* scores = chain.matrix(chain.length - 1);
    T* to = out.at(chain.length - 1);
    for (std::int64_t place = chain.length - 1; place > 0; --place) {
      read_row(b, values + (place - 1) * tags, tags, -kInfinity<T>);
      const T* matrix = chain.padded_matrix(scores, room.get());
      const T* scores_before = chain.matrix(place - 1);
      T* to_before = out.at(place - 1);
      fill(sums, width * kLanes<T>, T(0));
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const Vector<T> share = weigh_block(b, matrix + j, tags, width, powers) * load(visits + j);
        for (std::int64_t i = 0; i < tags; ++i) {
          const Vector<T> flow = load(powers + i * kLanes<T>) * share;
          store_lanes<T>(to + i * tags + j, lanes, flow);
          ask_for_place_before(scores_before + i * tags + j, to_before + i * tags + j);
          store<T>(sums + i * kLanes<T>, load(sums + i * kLanes<T>) + flow);
        }
      });
      sum_rows(visits, sums, width);
      restore_visits(visits, width);
      scores = scores_before;
      to = to_before;
    }
    out.begin(visits);
    out.nothing_from(chain.length);
  }
}

template <class T>
void soft_tangent(const ChainTangent<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  Scratch<T> rows(3 * width), blocks(3 * width * kLanes<T>), room(width == tags ? 1 : tags * width);
  Scratch<T> nodes(p.n_places * width);
  T *b = rows.get(), *visits = b + width, *moved = visits + width;
  T *powers = blocks.get(), *sums = powers + width * kLanes<T>, *moved_sums = sums + width * kLanes<T>;
  T* moves = nodes.get();  // of the node's values
  const Vector<T> zero{};
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain = chain_of(p, item), along = direction_of(p, item);
    ChainOutput<T> out = output_of(p, item, chain);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    const T* values = p.values + item * p.n_places * tags;
    // How a row of scores moves, where it has weight.
    const auto row_moves = [&](const T* directions, std::int64_t place, std::int64_t i, std::int64_t j,
                               std::int64_t lanes, Vector<T> weight) {
      const Vector<T> y = moves[(place - 1) * width + i] + load_lanes(directions + i * tags + j, lanes, T(0));
      return weight > zero ? y : zero;
    };
    along.first_scores(moves, T(0));
    for (std::int64_t place = 1; place < chain.length; ++place) {
      read_row(b, values + (place - 1) * tags, tags, -kInfinity<T>);
      const T *matrix = chain.padded_matrix(chain.matrix(place), room.get()), *directions = along.matrix(place);
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const Vector<T> inverse = weigh_block(b, matrix + j, tags, width, powers);
        Vector<T> mean{};
        for (std::int64_t i = 0; i < tags; ++i) {
          const Vector<T> power = load(powers + i * kLanes<T>);
          mean += power * row_moves(directions, place, i, j, lanes, power);
        }
        store<T>(moves + place * width + j, mean * inverse);
      });
    }
    read_row(visits, values + (chain.length - 1) * tags, tags, -kInfinity<T>);
    weigh_softly(visits, width);
    read_row(moved, moves + (chain.length - 1) * width, tags, T(0));
    move_softly(visits, moved, width);
    const T* scores = chain.matrix(chain.length - 1);
    T* to = out.at(chain.length - 1);
    for (std::int64_t place = chain.length - 1; place > 0; --place) {
      read_row(b, values + (place - 1) * tags, tags, -kInfinity<T>);
      const T *matrix = chain.padded_matrix(scores, room.get()), *directions = along.matrix(place);
      const T* scores_before = chain.matrix(place - 1);
      T* to_before = out.at(place - 1);
      fill(sums, 2 * width * kLanes<T>, T(0));
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const Vector<T> inverse = weigh_block(b, matrix + j, tags, width, powers);
        const Vector<T> share = inverse * load(visits + j), mean = load(moves + place * width + j);
        const Vector<T> moved_share = inverse * load(moved + j);
        for (std::int64_t i = 0; i < tags; ++i) {
          const Vector<T> power = load(powers + i * kLanes<T>), flow = power * share;
          const Vector<T> y = row_moves(directions, place, i, j, lanes, power) - mean;
          const Vector<T> moved_flow = power > zero ? flow * y + power * moved_share : zero;
          store_lanes<T>(to + i * tags + j, lanes, moved_flow);
          ask_for_place_before(scores_before + i * tags + j, to_before + i * tags + j);
          store<T>(sums + i * kLanes<T>, load(sums + i * kLanes<T>) + flow);
          store<T>(moved_sums + i * kLanes<T>, load(moved_sums + i * kLanes<T>) + moved_flow);
        }
      });
      sum_rows(visits, sums, width);
      restore_visits(visits, width);
      sum_rows(moved, moved_sums, width);
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
