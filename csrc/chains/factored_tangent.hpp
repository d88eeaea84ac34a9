// The Hessian product of factored.hpp. With V = W * (direction of the transitions), b' the moves of the node
// values and r = visits / s, h = (moves of visits - u' visits) / s:
//
//     up     u'_j = (sum_i A_i b'_i W_ij + sum_i A_i V_ij) / s_j
//     down   flow'_ij = A_i b'_i W_ij r_j + A_i V_ij r_j + A_i W_ij h_j
//
// Only the products with W wait for those of the place next to them; the others are taken for several places at once.
#pragma once

#include "chains/factored_down.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

template <class T>
void factored_tangent(const ChainTangent<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags), square = tags * width, few = kTogether * width;
  SoftNodes<T> nodes(tags, width);
  const SoftTransitions<T>& transitions = nodes.transitions;
  SoftPlaces<T> places(width);
  SoftVisits<T> visits(tags, width);
  FaintColumns<T> columns(tags, width);
  Scratch<T> rows(6 * width), matrices(5 * square), products(3 * few), all_moves(2 * p.n_places * width);
  T *b = rows.get(), *a = b + width, *x = a + width, *last = x + width, *moved = last + width;
  T* moved_before = moved + width;
  T *v = matrices.get(), *v_transposed = v + square;
  T *still = v_transposed + square, *moving = still + square, *faint = moving + square;  // sums of outer products
  T *y = products.get(), *weighted = y + few, *moved_shares = weighted + few;
  T *moves = all_moves.get(),
    *means = moves + p.n_places * width;  // of the values with, and without, emissions: b', u'
  const Vector<T> zero{};
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain = chain_of(p, item), along = direction_of(p, item);
    ChainOutput<T> out = output_of(p, item, chain);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    nodes.of(chain, p.levels + item * chain.state_row(p.n_places));
    if (chain.length > 1) {
      fill(v_transposed, square, T(0));
      for (std::int64_t i = 0; i < tags; ++i)
        each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
          const Vector<T> w = load(transitions.weights() + i * width + j);
          const Vector<T> d = load_lanes(along.transitions + i * tags + j, lanes, T(0));
          store<T>(v + i * width + j, w > zero ? w * d : zero);
        });
      transitions.transpose(v, v_transposed);
    }
    fill(still, 3 * square, T(0));
    bool any_faint = false;

    // A b' of the place before row r, where A is not zero.
    const auto weigh_moves = [&](int r) {
      const T *weight = places.a(r), *move = moves + (places.first + r - 1) * width;
      for (std::int64_t i = 0; i < width; i += kLanes<T>) {
        const Vector<T> w = load(weight + i);
        store<T>(weighted + r * width + i, w > zero ? w * load(move + i) : zero);
      }
    };
    // For a faint column: the moves of its scores, where they have weight.
    const auto row_moves = [&](std::int64_t place, std::int64_t i, std::int64_t j, std::int64_t lanes,
                               Vector<T> weight) {
      const Vector<T> d = moves[(place - 1) * width + i] + load_lanes(along.transitions + i * tags + j, lanes, T(0));
      return weight > zero ? d : zero;
    };

    along.first_scores(moves, T(0));
    for (std::int64_t first = 1; first < chain.length; first += kTogether) {
      const int count = static_cast<int>(chain.length - first < kTogether ? chain.length - first : kTogether);
      places.read(chain, nodes, first, count);
      combine_rows(places.a(0), count, v, tags, width, y);
      for (int r = 0; r < count; ++r) {
        const std::int64_t place = first + r;
        T *mean = means + place * width, *move = moves + place * width;
        weigh_moves(r);
        combine(weighted + r * width, transitions.weights(), tags, width, x);
        for (std::int64_t j = 0; j < width; j += kLanes<T>)
          store<T>(mean + j, (load(x + j) + load(y + r * width + j)) * load(places.inverse(r) + j));
        if (places.any_faint[r])
          columns.each(chain, nodes, place, nullptr, [&](std::int64_t j, std::int64_t lanes, Vector<T> of_power) {
            Vector<T> sum = load(mean + j);
            for (std::int64_t i = 0; i < tags; ++i) {
              const Vector<T> weight = columns.power(i) * of_power;
              sum += weight * row_moves(place, i, j, lanes, weight);
            }
            store(mean + j, sum);
          });
        add_rows(move, mean, along.emissions(place), tags, T(0));
      }
    }

    nodes.read(chain.length - 1, b, a);
    chain.last_scores(b, last);
    weigh_softly(last, width);
    add_rows(moved, moves + (chain.length - 1) * width, along.end, tags, T(0));
    move_softly(last, moved, width);
    write_row(out.end, moved, tags);
    for (std::int64_t end_place = chain.length; end_place > 1; end_place = places.first) {
      const int count = places_before(end_place);
      places.read(chain, nodes, end_place - count, count);
      read_row(visits.at(count - 1), last, width, T(0));
      visits.down(chain, nodes, places, columns, nullptr);
      combine_rows(visits.shares(0), count, v_transposed, tags, width, y);
      for (int r = count - 1; r >= 0; --r) {
        const std::int64_t place = places.first + r;
        const T *mean = means + place * width, *here = visits.at(r);
        T* shares = moved_shares + r * width;
        write_row(out.at(place), moved, tags);
        weigh_moves(r);
        for (std::int64_t j = 0; j < width; j += kLanes<T>)
          store<T>(shares + j, (load(moved + j) - load(mean + j) * load(here + j)) * load(places.inverse(r) + j));
        combine(shares, transitions.transposed(), tags, width, x);
        for (std::int64_t i = 0; i < width; i += kLanes<T>)
          store<T>(moved_before + i, load(weighted + r * width + i) * load(visits.arriving(r) + i) +
                                         load(places.a(r) + i) * (load(y + r * width + i) + load(x + i)));
        if (places.any_faint[r])
          any_faint |=
              columns.each(chain, nodes, place, here, [&](std::int64_t j, std::int64_t lanes, Vector<T> of_power) {
                const Vector<T> in = load(here + j), moved_in = load(moved + j);
                for (std::int64_t i = 0; i < tags; ++i) {
                  const Vector<T> weight = columns.power(i) * of_power;
                  const Vector<T> d = row_moves(place, i, j, lanes, weight) - load(mean + j);
                  const Vector<T> flow = weight > zero ? weight * (d * in + moved_in) : zero;
                  moved_before[i] += sum_lanes<T>(flow);
                  store<T>(faint + i * width + j, load(faint + i * width + j) + flow);
                }
              });
        exchange(moved_before, moved);
      }
      for (int r = count; r < kTogether; ++r) {
        fill(weighted + r * width, width, T(0));
        fill(moved_shares + r * width, width, T(0));
      }
      add_outer(places.a(0), visits.shares(0), tags, width, still);
      add_outer(weighted, visits.shares(0), tags, width, moving);
      add_outer(places.a(0), moved_shares, tags, width, moving);
      read_row(last, visits.at(-1), width, T(0));
    }
    out.begin(moved);
    out.nothing_from(chain.length);
    for (std::int64_t i = 0; i < tags; ++i)
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const std::int64_t at = i * width + j;
        Vector<T> sum{};
        if (chain.length > 1)
          sum = load(v + at) * load(still + at) + load(transitions.weights() + at) * load(moving + at);
        if (any_faint) sum += load(faint + at);
        store_lanes<T>(out.transitions + i * tags + j, lanes, sum);
      });
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
