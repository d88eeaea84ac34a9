// One chain of a batch, read place by place. Rows of tags are padded to whole vectors in scratch memory: the tags that
// do not exist score -inf, so that no loop has a tail.
#pragma once

#include "core/problems.hpp"
#include "core/rows.hpp"
#include "core/transpose.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

template <class T>
inline std::int64_t padded(std::int64_t n) {
  return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

// Tells why numbers need special care: some are NaN or +inf, or some are so large that the floats near them are a
// thousandth or more apart, which would round small numbers beside them away (a double has enough digits).
enum : int { kBad = 1, kLarge = 2 };
constexpr float kLargeScore = 16384;

template <class T>
inline int look_at(const T* x, std::int64_t n) {
  int bad = 0, large = 0;
#pragma omp simd reduction(| : bad, large)
  for (std::int64_t i = 0; i < n; ++i) {
    bad |= !(x[i] < kInfinity<T>);
    if constexpr (sizeof(T) == 4) {
      const T size = x[i] < 0 ? -x[i] : x[i];
      large |= (size > kLargeScore) & (size < kInfinity<T>);
    }
  }
  return (bad ? kBad : 0) | (large ? kLarge : 0);
}

template <class T>
inline void fill(T* x, std::int64_t n, T with) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = with;
}

template <class T>
inline void read_row(T* to, const T* from, std::int64_t n, T pad) {
  each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) { store(to + i, load_lanes(from + i, lanes, pad)); });
}

template <class T>
inline void write_row(T* to, const T* from, std::int64_t n) {
  each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) { store_lanes<T>(to + i, lanes, load(from + i)); });
}

// to = a + b; the padding becomes `pad`.
template <class T>
inline void add_rows(T* to, const T* a, const T* b, std::int64_t n, T pad) {
  each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) {
    store<T>(to + i, load_lanes(a + i, lanes, pad) + load_lanes(b + i, lanes, T(0)));
  });
}

template <class T>
inline void exchange(T*& a, T*& b) {
  T* const c = a;
  a = b;
  b = c;
}

template <class T>
inline T largest_of_row(const T* x, std::int64_t width) {
  Vector<T> top = splat(-kInfinity<T>);
  for (std::int64_t i = 0; i < width; i += kLanes<T>) top = larger(load(x + i), top);
  return largest_lane<T>(top);
}

// Shifts the largest to 0 and returns it: numbers stay small, however long the chain.
template <class T>
inline T recentre(T* x, std::int64_t width) {
  const T top = largest_of_row(x, width);
  if (top > -kInfinity<T>)
    for (std::int64_t i = 0; i < width; i += kLanes<T>) store<T>(x + i, load(x + i) - top);
  return top;
}

// Sums over the lanes of `width` vectors, one per row.
template <class T>
inline void sum_rows(T* to, const T* vectors, std::int64_t width) {
  for (std::int64_t i = 0; i < width; i += kLanes<T>) store(to + i, sums_of_lanes(vectors + i * kLanes<T>));
}

// Places are counted among those that are kept. `order` says where each lies in memory; null: where it is counted.
template <class T>
struct ChainItem {
  const T* first;
  const T* transitions;
  const T* start;
  const T* end;
  const std::int32_t* order;
  std::int64_t n_tags, width, length;
  std::int64_t per_place;  // numbers from one place to the next

  ChainItem(const ChainParts<T>& p, std::int64_t item, std::int64_t tags, std::int64_t length_,
            const std::int32_t* order_)
      : first(p.at.first + item * p.strides.first),
        transitions(p.at.transitions ? p.at.transitions + item * p.strides.transitions : nullptr),
        start(p.at.start ? p.at.start + item * p.strides.start : nullptr),
        end(p.at.end ? p.at.end + item * p.strides.end : nullptr), order(order_), n_tags(tags),
        width(padded<T>(tags)), length(length_), per_place(transitions ? tags : tags * tags) {}

  bool dense() const { return transitions == nullptr; }
  const T* at(std::int64_t place) const { return first + (order ? order[place] : place) * per_place; }

  // The state has a row per place. That of a factored chain would be as large as its potentials: every eighth place is
  // left out, and computed again from the one before it.
  bool keeps(std::int64_t place) const { return dense() || place % 8 != 7; }
  std::int64_t state_row(std::int64_t place) const { return (dense() ? place : place - place / 8) * n_tags; }

  const T* emissions(std::int64_t place) const { return at(place); }
  const T* matrix(std::int64_t place) const { return dense() ? at(place) : transitions; }

  // Looks at the first place of a dense item, and at all scores of a factored item.
  int look() const {
    if (dense()) return look_at(matrix(0), n_tags);
    return look_at_emissions() | look_at(start, n_tags) | look_at(end, n_tags) |
           (length > 1 ? look_at(transitions, n_tags * n_tags) : 0);
  }
  // Places that lie next to each other are looked at together.
  int look_at_emissions() const {
    if (!order) return look_at(first, length * n_tags);
    int found = 0;
    for (std::int64_t begin = 0, end_of_run = 0; begin < length; begin = end_of_run) {
      for (end_of_run = begin + 1; end_of_run < length && order[end_of_run] == order[end_of_run - 1] + 1;) ++end_of_run;
      found |= look_at(emissions(begin), (end_of_run - begin) * n_tags);
    }
    return found;
  }
  // The value that marks a special item: an infinite one means that the item must be swept in double.
  static double special(int found) { return found & kBad ? kNaN<double> : kInfinity<double>; }

  void first_scores(T* to, T pad) const {
    if (dense()) read_row(to, matrix(0), n_tags, pad);
    else add_rows(to, emissions(0), start, n_tags, pad);
  }
  void add_emissions(std::int64_t place, T* to) const {
    if (dense()) return;
    const T* e = emissions(place);
    each_vector<T>(n_tags, [&](std::int64_t i, std::int64_t lanes) {
      store<T>(to + i, load(to + i) + load_lanes(e + i, lanes, T(0)));
    });
  }
  void last_scores(const T* values, T* to) const {
    for (std::int64_t i = 0; i < width; i += kLanes<T>) store(to + i, load(values + i));
    if (end) add_rows(to, values, end, n_tags, -kInfinity<T>);
  }

  // A matrix with padded rows: itself where they are whole already, a copy in `room` elsewhere.
  const T* padded_matrix(const T* m, T* room) const {
    if (width == n_tags) return m;
    for (std::int64_t i = 0; i < n_tags; ++i) read_row(room + i * width, m + i * n_tags, n_tags, -kInfinity<T>);
    return room;
  }
  // Column j of the transitions, padded.
  void column(std::int64_t j, T* to) const {
    for (std::int64_t i = 0; i < n_tags; ++i) to[i] = transitions[i * n_tags + j];
    for (std::int64_t i = n_tags; i < width; ++i) to[i] = -kInfinity<T>;
  }
};

// One item of a problem, and the direction of a derivative at it.
template <class Problem>
inline auto chain_of(const Problem& p, std::int64_t item) {
  return ChainItem(p.parts, item, p.n_tags, p.lengths[item], p.order ? p.order + item * p.n_places : nullptr);
}
template <class T>
inline ChainItem<T> direction_of(const ChainTangent<T>& p, std::int64_t item) {
  return {p.direction, item, p.n_tags, p.lengths[item], p.order ? p.order + item * p.n_places : nullptr};
}

// Where the weights of one item go.
template <class T>
struct ChainOutput {
  T* first;
  T* transitions;
  T* start;
  T* end;
  const std::int32_t* order;  // as in ChainItem; the places that are not kept follow those that are
  std::int64_t n_tags, n_places, per_place;

  ChainOutput(const ChainPointers<T>& w, std::int64_t item, const ChainItem<T>& chain, std::int64_t places)
      : first(w.first + item * places * chain.per_place),
        transitions(w.transitions ? w.transitions + item * chain.n_tags * chain.n_tags : nullptr),
        start(w.start ? w.start + item * chain.n_tags : nullptr), end(w.end ? w.end + item * chain.n_tags : nullptr),
        order(chain.order), n_tags(chain.n_tags), n_places(places), per_place(chain.per_place) {}

  bool dense() const { return transitions == nullptr; }
  T* at(std::int64_t place) const { return first + (order ? order[place] : place) * per_place; }

  void fill_places(std::int64_t begin, std::int64_t end_place, T with) {
    if (!order) return fill(first + begin * per_place, (end_place - begin) * per_place, with);
    for (std::int64_t place = begin; place < end_place; ++place) fill(at(place), per_place, with);
  }
  // Writes place 0: all of it in dense form, where only the first row is used, else the start and the first emissions.
  void begin(const T* visits) {
    if (dense()) fill(at(0), n_tags * n_tags, T(0));
    write_row(at(0), visits, n_tags);
    if (start) write_row(start, visits, n_tags);
  }
  void nothing_from(std::int64_t length) { fill_places(length, n_places, T(0)); }
  // Fills an item that has no solution: it has no structure, or its scores are not all numbers.
  void unusual(double total, std::int64_t length) {
    const T with = total == -kInfinity<double> ? T(0) : kNaN<T>;
    if (with == T(0)) fill(first, n_places * per_place, with);  // one stretch of memory, whatever the order
    else fill_places(0, length, with);
    if (dense()) {
      fill(at(0), n_tags * n_tags, T(0));
      fill(at(0), n_tags, with);
    } else {
      fill(transitions, n_tags * n_tags, length > 1 ? with : T(0));
      fill(start, n_tags, with);
      fill(end, n_tags, with);
    }
    if (with != T(0)) nothing_from(length);
  }
};

template <class Problem, class T>
inline ChainOutput<T> output_of(const Problem& p, std::int64_t item, const ChainItem<T>& chain) {
  return {p.weights, item, chain, p.n_places};
}

inline bool usual(double total) { return total > -kInfinity<double> && total < kInfinity<double>; }

// Divides the visits of a place by their sum, which is 1 up to rounding: the error would grow with the chain otherwise.
// The visits of a chain without a choice are exact already.
template <class T>
inline void restore_visits(T* visits, std::int64_t width) {
  Vector<T> sum{};
  for (std::int64_t i = 0; i < width; i += kLanes<T>) sum += load(visits + i);
  const T total = sum_lanes<T>(sum);
  if (total == T(1) || !(total > T(0))) return;
  const T factor = 1 / total;
  for (std::int64_t i = 0; i < width; i += kLanes<T>) store<T>(visits + i, load(visits + i) * factor);
}

// The best score of each of a vector of columns; `matrix` points at the first of them.
template <class T>
inline Vector<T> top_of_block(const T* b, const T* matrix, std::int64_t tags, std::int64_t width) {
  Vector<T> even = splat(-kInfinity<T>), odd = even;
  std::int64_t i = 0;
  for (; i + 1 < tags; i += 2) {
    even = larger(b[i] + load(matrix + i * width), even);
    odd = larger(b[i + 1] + load(matrix + (i + 1) * width), odd);
  }
  if (i < tags) even = larger(b[i] + load(matrix + i * width), even);
  return larger(even, odd);
}

// Prefetches a dense place: going down the chain, the processor does not do so itself.
template <class T>
inline void ask_for_place_before(const T* scores, const T* weights) {
  __builtin_prefetch(scores);
  __builtin_prefetch(weights, 1);
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
