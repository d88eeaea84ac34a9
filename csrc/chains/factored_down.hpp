// The sweep down of factored.hpp: visits, shares r = visits / s, and the pairs of tags A_i W_ij r_j.
#pragma once

#include "chains/factored.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

// A few neighbouring places of an item: A of the place before each, and 1 / s, zero where s is faint.
template <class T>
class SoftPlaces {
 public:
  explicit SoftPlaces(std::int64_t width) : width_(width), memory_((2 * kTogether + 1) * width) {}
  void read(const ChainItem<T>& chain, SoftNodes<T>& nodes, std::int64_t first_place, int n_places) {
    first = first_place;
    count = n_places;
    const Vector<T> limit = splat(kLogFaint<T>), none = splat(-kInfinity<T>);
    for (int r = 0; r < count; ++r) {
      nodes.read(first + r - 1, memory_.get(), a(r));
      const T* levels = nodes.level(first + r, memory_.get(), a(r));
      unsigned faint = 0;
      each_vector<T>(chain.n_tags, [&](std::int64_t j, std::int64_t lanes) {
        const Vector<T> level = load_lanes(levels + j, lanes, T(0));
        store<T>(inverse(r) + j, level >= limit ? exp_of<Vector<T>>(-level) : Vector<T>{});
        faint |= where_greater(limit, level) & where_greater(level, none);
      });
      any_faint[r] = faint != 0;
    }
    for (int r = count; r < kTogether; ++r) fill(a(r), width_, T(0));
  }
  T* a(int r) const { return memory_.get() + (1 + r) * width_; }
  T* inverse(int r) const { return a(r + kTogether); }

  std::int64_t first = 0;
  int count = 0;
  bool any_faint[kTogether];

 private:
  std::int64_t width_;
  Scratch<T> memory_;
};

// How many places before the end are taken together: to the same place as on the way up, so that of the places that
// the state leaves out, kTogether apart, no two are computed again for one group.
inline int places_before(std::int64_t end_place) { return static_cast<int>((end_place - 2) % kTogether) + 1; }

// A faint column has no 1 / s. Calls f(j, lanes, share) for each vector with such columns that are visited (or any, if
// `visits` is null); their weights are powers * share, and share is zero elsewhere.
template <class T>
class FaintColumns {
 public:
  FaintColumns(std::int64_t tags, std::int64_t width) : rows_(2 * width), powers_(tags * kLanes<T>) {}
  template <class F>
  bool each(const ChainItem<T>& chain, SoftNodes<T>& nodes, std::int64_t place, const T* visits, F f) {
    const Vector<T> limit = splat(kLogFaint<T>), none = splat(-kInfinity<T>), zero{};
    T *b = rows_.get(), *a = b + chain.width;
    const T* levels = nodes.level(place);
    bool found = false;
    each_vector<T>(chain.n_tags, [&](std::int64_t j, std::int64_t lanes) {
      const Vector<T> level = load_lanes(levels + j, lanes, T(0));
      unsigned faint = where_greater(limit, level) & where_greater(level, none);
      if (visits) faint &= where_greater(load(visits + j), zero);
      if (faint == 0) return;
      if (!found) nodes.read(place - 1, b, a);
      found = true;
      const Vector<T> share = weigh_block(b, nodes.transitions.logs() + j, chain.n_tags, chain.width, powers_.get());
      f(j, lanes, level >= limit ? zero : level > none ? share : zero);
    });
    return found;
  }
  Vector<T> power(std::int64_t i) const { return load(powers_.get() + i * kLanes<T>); }

 private:
  Scratch<T> rows_, powers_;
};

// Visits of the places before, from those of the last.
template <class T>
class SoftVisits {
 public:
  SoftVisits(std::int64_t tags, std::int64_t width)
      : tags_(tags), width_(width), memory_((3 * kTogether + 1) * width) {}

  // From the visits of the last of `places` to those of the place before the first; row r of the others is of place
  // first + r. Flows into faint columns are added to `faint`, where it is wanted; returns whether there were any.
  bool down(const ChainItem<T>& chain, SoftNodes<T>& nodes, const SoftPlaces<T>& places, FaintColumns<T>& columns,
            T* faint) {
    bool any = false;
    for (int r = places.count - 1; r >= 0; --r) {
      const T *visits = at(r), *a = places.a(r), *inverse = places.inverse(r);
      T *share = shares(r), *in = arriving(r), *before = at(r - 1);
      for (std::int64_t j = 0; j < width_; j += kLanes<T>) store<T>(share + j, load(visits + j) * load(inverse + j));
      combine(share, nodes.transitions.transposed(), tags_, width_, in);
      for (std::int64_t i = 0; i < width_; i += kLanes<T>) store<T>(before + i, load(in + i) * load(a + i));
      if (places.any_faint[r])
        any |=
            columns.each(chain, nodes, places.first + r, visits, [&](std::int64_t j, std::int64_t, Vector<T> of_power) {
              const Vector<T> here = of_power * load(visits + j);
              for (std::int64_t i = 0; i < tags_; ++i) {
                const Vector<T> flow = columns.power(i) * here;
                before[i] += sum_lanes<T>(flow);
                if (faint) store<T>(faint + i * width_ + j, load(faint + i * width_ + j) + flow);
              }
            });
      restore_visits(before, width_);
    }
    for (int r = places.count; r < kTogether; ++r) fill(shares(r), width_, T(0));
    return any;
  }
  T* at(int r) const { return memory_.get() + (r + 1) * width_; }  // visits; from r = -1
  T* shares(int r) const { return at(r + kTogether); }             // visits / s
  T* arriving(int r) const { return at(r + 2 * kTogether); }       // W shares

 private:
  std::int64_t tags_, width_;
  Scratch<T> memory_;
};

template <class T>
void factored_marginals(const ChainMarginals<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  SoftNodes<T> nodes(tags, width);
  SoftPlaces<T> places(width);
  SoftVisits<T> visits(tags, width);
  FaintColumns<T> columns(tags, width);
  Scratch<T> rows(3 * width), matrices(2 * tags * width);
  T *b = rows.get(), *a = b + width, *last = a + width, *pairs = matrices.get(), *faint = pairs + tags * width;
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain = chain_of(p, item);
    ChainOutput<T> out = output_of(p, item, chain);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    nodes.of(chain, p.levels + item * chain.state_row(p.n_places));
    fill(pairs, 2 * tags * width, T(0));
    nodes.read(chain.length - 1, b, a);
    chain.last_scores(b, last);
    weigh_softly(last, width);
    write_row(out.end, last, tags);
    bool any_faint = false;
    for (std::int64_t end_place = chain.length; end_place > 1; end_place = places.first) {
      const int count = places_before(end_place);
      places.read(chain, nodes, end_place - count, count);
      read_row(visits.at(count - 1), last, width, T(0));
      any_faint |= visits.down(chain, nodes, places, columns, faint);
      add_outer(places.a(0), visits.shares(0), tags, width, pairs);
      for (int r = 0; r < count; ++r) write_row(out.at(places.first + r), visits.at(r), tags);
      read_row(last, visits.at(-1), width, T(0));
    }
    out.begin(last);
    out.nothing_from(chain.length);
    for (std::int64_t i = 0; i < tags; ++i)
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const std::int64_t at = i * width + j;
        Vector<T> sum = chain.length > 1 ? load(nodes.transitions.weights() + at) * load(pairs + at) : Vector<T>{};
        if (any_faint) sum += load(faint + at);
        store_lanes<T>(out.transitions + i * tags + j, lanes, sum);
      });
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
