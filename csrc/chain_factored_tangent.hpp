// The Hessian product of chain_factored.hpp. With V = W * (direction of the transitions), b' the moves of the node
// values and r = visits / s, h = (moves of visits - u' visits) / s:
//
//     up     u'_j = (sum_i A_i b'_i W_ij + sum_i A_i V_ij) / s_j
//     down   flow'_ij = A_i b'_i W_ij r_j + A_i V_ij r_j + A_i W_ij h_j
#pragma once

#include "chain_factored.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

template <class T>
void factored_tangent(const ChainTangent<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  SoftTransitions<T> transitions(tags, width);
  OuterSum<T> still(tags, width), moving(tags, width);
  Scratch<T> rows(13 * width), matrices(3 * tags * width), block(2 * tags * kLanes<T>), nodes(2 * p.n_places * width);
  T *b = rows.get(), *a = b + width, *visits = a + width, *before = visits + width, *shares = before + width;
  T *moved = shares + width, *moved_before = moved + width, *moved_shares = moved_before + width;
  T *weighted = moved_shares + width, *x = weighted + width, *y = x + width, *z = y + width, *last = z + width;
  T *v = matrices.get(), *v_turned = v + tags * width, *faint = v_turned + tags * width;
  T *powers = block.get(), *moved_flows = powers + tags * kLanes<T>;
  T *moves = nodes.get(), *means = moves + p.n_places * width;  // of the values with, and without, emissions: b', u'
  const T* prepared = nullptr;
  const Vector<T> zero{};
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain(p.parts, item, tags, p.lengths[item]), along(p.direction, item, tags, p.lengths[item]);
    ChainOutput<T> out(p.weights, item, tags, p.n_places);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    const T* levels = p.levels + item * p.n_places * tags;
    if (chain.length > 1) {
      if (prepared != chain.transitions) transitions.prepare(prepared = chain.transitions);
      fill(v_turned, tags * width, T(0));
      for (std::int64_t i = 0; i < tags; ++i)
        each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
          const Vector<T> w = load(transitions.weights() + i * width + j);
          const Vector<T> d = load_lanes(along.transitions + i * tags + j, lanes, T(0));
          store<T>(v + i * width + j, w > zero ? w * d : zero);
        });
      transitions.turn(v, v_turned);
    }
    still.begin();
    moving.begin();
    bool any_faint = false;

    // A b', where A is not zero.
    const auto weigh_moves = [&](std::int64_t place) {
      for (std::int64_t i = 0; i < width; i += kLanes<T>) {
        const Vector<T> weight = load(a + i);
        store<T>(weighted + i, weight > zero ? weight * load(moves + place * width + i) : zero);
      }
    };
    // For a faint column: the moves of its scores, where they have weight.
    const auto row_moves = [&](std::int64_t place, std::int64_t i, std::int64_t j, std::int64_t lanes,
                               Vector<T> weight) {
      const Vector<T> d = moves[(place - 1) * width + i] + load_lanes(along.transitions + i * tags + j, lanes, T(0));
      return weight > zero ? d : zero;
    };

    along.first_scores(moves, T(0));
    for (std::int64_t place = 1; place < chain.length; ++place) {
      read_nodes(chain, transitions.tops(), levels, place - 1, b, a);
      weigh_moves(place - 1);
      combine(weighted, transitions.weights(), tags, width, x);
      combine(a, v, tags, width, y);
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const Inverse<T> inverse(load_lanes(levels + place * tags + j, lanes, T(0)), splat(T(1)));
        Vector<T> mean = (load(x + j) + load(y + j)) * inverse.usual;
        if (inverse.any_faint) {
          const Vector<T> share = weigh_block(b, transitions.logs() + j, tags, width, powers) * inverse.faint_visits;
          for (std::int64_t i = 0; i < tags; ++i) {
            const Vector<T> weight = load(powers + i * kLanes<T>) * share;
            mean += weight * row_moves(place, i, j, lanes, weight);
          }
        }
        store(means + place * width + j, mean);
        const Vector<T> e = load_lanes(along.emissions(place) + j, lanes, T(0));
        store<T>(moves + place * width + j, mean + e);
      });
    }
    read_nodes(chain, transitions.tops(), levels, chain.length - 1, b, a);
    chain.last_scores(b, visits);
    weigh_softly(visits, width);
    add_rows(moved, moves + (chain.length - 1) * width, along.end, tags, T(0));
    move_softly(visits, moved, width);
    write_row(out.end, moved, tags);
    for (std::int64_t place = chain.length - 1; place > 0; --place) {
      write_row(out.first + place * tags, moved, tags);
      read_nodes(chain, transitions.tops(), levels, place - 1, b, a);
      weigh_moves(place - 1);
      bool faint_here = false;
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const Inverse<T> inverse(load_lanes(levels + place * tags + j, lanes, T(0)), load(visits + j));
        store<T>(shares + j, load(visits + j) * inverse.usual);
        const Vector<T> h = load(moved + j) - load(means + place * width + j) * load(visits + j);
        store<T>(moved_shares + j, h * inverse.usual);
        faint_here |= inverse.any_faint;
      });
      combine(shares, transitions.turned(), tags, width, x);
      combine(shares, v_turned, tags, width, y);
      combine(moved_shares, transitions.turned(), tags, width, z);
      for (std::int64_t i = 0; i < width; i += kLanes<T>) {
        const Vector<T> weight = load(a + i), in = load(x + i);
        store<T>(before + i, weight * in);
        store<T>(moved_before + i, load(weighted + i) * in + weight * (load(y + i) + load(z + i)));
      }
      still.add(a, shares);
      moving.add(weighted, shares);
      moving.add(a, moved_shares);
      if (faint_here) {
        if (!any_faint) fill(faint, tags * width, T(0));
        any_faint = true;
        each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
          const Inverse<T> inverse(load_lanes(levels + place * tags + j, lanes, T(0)), load(visits + j));
          if (!inverse.any_faint) return;
          const Vector<T> one = weigh_block(b, transitions.logs() + j, tags, width, powers);
          const Vector<T> here = inverse.faint_visits, mean = load(means + place * width + j);
          const Vector<T> moved_here = here > zero ? load(moved + j) : zero;
          for (std::int64_t i = 0; i < tags; ++i) {
            const Vector<T> weight = load(powers + i * kLanes<T>) * one;
            const Vector<T> d = row_moves(place, i, j, lanes, weight) - mean;
            const Vector<T> flow = weight > zero ? weight * (d * here + moved_here) : zero;
            store(powers + i * kLanes<T>, weight * here);
            store(moved_flows + i * kLanes<T>, flow);
            store<T>(faint + i * width + j, load(faint + i * width + j) + flow);
          }
          add_lanes(before, powers, tags);
          add_lanes(moved_before, moved_flows, tags);
        });
      }
      exchange(before, visits);
      exchange(moved_before, moved);
    }
    out.begin(moved);
    out.nothing_from(chain.length);
    still.flush();
    moving.flush();
    for (std::int64_t i = 0; i < tags; ++i)
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const std::int64_t at = i * width + j;
        Vector<T> sum{};
        if (chain.length > 1)
          sum = load(v + at) * load(still.sums() + at) + load(transitions.weights() + at) * load(moving.sums() + at);
        if (any_faint) sum += load(faint + at);
        store_lanes<T>(out.transitions + i * tags + j, lanes, sum);
      });
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
