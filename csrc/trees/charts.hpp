// Charts of spans, one diagonal per row: entry [d][i] belongs to the span that starts at i and is d longer than one
// word. The pairs of spans that a span of diagonal d is split into are then, for all i at once, the entries of two
// rows:
//
//     pair j of (d, i):  left[j * stride + i]   and   right[-j * (stride - 1) + i]
//
// so a vector holds neighbouring spans of one length and nothing is ever summed across lanes. Rows are longer than the
// chart by a vector: lanes beyond the end of a diagonal compute garbage that no valid lane reads, and receive no
// visits.
#pragma once

#include "core/arguments.hpp"
#include "core/rows.hpp"
#include "trees/local_lanes.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr std::int64_t kChartSlack = 16;  // no vector is longer; the Python layer allocates rows of size + kChartSlack

inline std::int64_t chart_stride(std::int64_t size) { return size + kChartSlack; }

template <class T>
inline void clear(T* to, std::int64_t count) {
  __builtin_memset(to, 0, static_cast<std::size_t>(count) * sizeof(T));
}

// The pairs of one vector of spans in two charts (the same offsets serve values, visits and tangents).
template <class T>
struct Pairs {
  std::int64_t left, right, stride, count;
  bool first_alone;  // in lane 0, pair 0 is the only one: a root without modifiers before its only one

  std::int64_t left_of(std::int64_t j) const { return left + j * stride; }
  std::int64_t right_of(std::int64_t j) const { return right - j * (stride - 1); }

  Vector<T> sum(const T* lefts, const T* rights, std::int64_t j) const {
    return load(lefts + left_of(j)) + load(rights + right_of(j));
  }
  Vector<T> score(const T* lefts, const T* rights, std::int64_t j) const {
    Vector<T> x = sum(lefts, rights, j);
    if (first_alone && j > 0) x[0] = -kInfinity<T>;
    return x;
  }
};

template <class T>
inline Kept<T> kept_at(const T* top, const T* scale, std::int64_t at) {
  return {load(top + at), load(scale + at)};
}

// Up: the value of every span of the vector; what is kept goes to `top` and `scale`.
template <class Lanes, class T>
inline Vector<T> solve_pairs(const Pairs<T>& pairs, const T* lefts, const T* rights, T* x, T* top, T* scale,
                             std::int64_t at) {
  Kept<T> kept;
  const Vector<T> value =
      Lanes::template solve<T>([&](std::int64_t j) { return pairs.score(lefts, rights, j); }, pairs.count, x, kept);
  store(top + at, kept.top);
  store(scale + at, kept.scale);
  return value;
}

// Down: hands the visits of a vector of spans on to its pairs.
template <class Lanes, class T>
inline void visit_pairs(const Pairs<T>& pairs, const T* lefts, const T* rights, const Kept<T>& kept, Vector<T> visits,
                        T* left_visits, T* right_visits) {
  for (std::int64_t j = 0; j < pairs.count; ++j) {
    const Vector<T> q = Lanes::weight(pairs.score(lefts, rights, j), j, kept);
    const Vector<T> flow = zero_unless<T>(visits, q * visits);
    T* left = left_visits + pairs.left_of(j);
    T* right = right_visits + pairs.right_of(j);
    store(left, load(left) + flow);
    store(right, load(right) + flow);
  }
}

// Up again, along a direction.
template <class Lanes, class T>
inline Moved<T> move_pairs(const Pairs<T>& pairs, const T* lefts, const T* rights, const Kept<T>& kept,
                           const T* left_moves, const T* right_moves) {
  return Lanes::template moved<T>([&](std::int64_t j) { return Lanes::weight(pairs.score(lefts, rights, j), j, kept); },
                                  [&](std::int64_t j) { return pairs.sum(left_moves, right_moves, j); }, pairs.count);
}

// And down: the derivative of the visits.
template <class Lanes, class T>
inline void revisit_pairs(const Pairs<T>& pairs, const T* lefts, const T* rights, const Kept<T>& kept, Vector<T> visits,
                          Vector<T> moved_visits, Vector<T> centre, const T* left_moves, const T* right_moves,
                          T* left_visits, T* right_visits) {
  for (std::int64_t j = 0; j < pairs.count; ++j) {
    const Vector<T> q = Lanes::weight(pairs.score(lefts, rights, j), j, kept);
    const Vector<T> moved = Lanes::template moved_weight<T>(q, pairs.sum(left_moves, right_moves, j), centre);
    const Vector<T> flow = zero_unless<T>(visits, moved * visits + q * moved_visits);
    T* left = left_visits + pairs.left_of(j);
    T* right = right_visits + pairs.right_of(j);
    store(left, load(left) + flow);
    store(right, load(right) + flow);
  }
}

// Calls f with the local problem of a regularizer.
template <class F>
inline void with_omega(Omega omega, F f) {
  if (omega == Omega::kHard) f(HardLanes{});
  else if (omega == Omega::kShannon) f(ShannonLanes{});
  else f(SquaredNormLanes{});
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
