// Groupmax rows: weights in which whole groups are zero. One unknown, the multiplier tau of the simplex:
//
//     p_g = u_g (1 - strength/r)_+,   u = (x - tau)_+,   r = ||u_g||,        sum p = 1
//
// Each group's share of sum p is convex and decreasing in tau. (While k entries are positive and add up to s, its slope
// is -k + strength/r (k - s^2/r^2), whose last factor shrinks as tau falls; an entry that joins only steepens it.) So
// Newton's method climbs to the root from below and never passes it, and the root of some of the entries lies below
// that of all.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/problems.hpp"
#include "rows/candidates.hpp"
#include "rows/checks.hpp"
#include "rows/group_blocks.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// tau in two parts, since the weights of a long row add up to one only if it is known to more than its own precision.
// Lanes are groups of one row, and then all are equal, or rows.
template <class C, int parts>
struct GroupLevel {
  Vector<C> high[parts], low[parts], strength[parts];
  Vector<C> excess(Vector<C> y, int k) const { return larger((y - high[k]) - low[k], Vector<C>{}); }
};

// sum p, and minus its slope.
template <class C, int parts>
struct GroupMass {
  Vector<C> total[parts] = {}, slope[parts] = {};
};

template <class C, class T, int parts = kParts<C, T>>
inline GroupMass<C, parts> group_mass(const GroupBlocks& blocks, const T* y, const GroupLevel<C, parts>& level) {
  const Vector<C> zero{}, one = splat(C(1));
  GroupMass<C, parts> mass;
  for (const GroupBlock& block : blocks) {
    Vector<C> count[parts] = {}, sum[parts] = {}, squares[parts] = {};
    const T* at = y + std::int64_t(block.start) * kLanes<T>;
    for (std::int32_t d = 0; d < block.depth; ++d, at += kLanes<T>)
      for (int k = 0; k < parts; ++k) {
        const Vector<C> u = level.excess(load_as<C>(at + k * kLanes<C>), k);
        count[k] += u > zero ? one : zero;
        sum[k] += u;
        squares[k] += u * u;
      }
    C part = 1;  // of a group in each lane
    if (block.whole) {
      share<C>(count);
      share<C>(sum);
      share<C>(squares);
      part = C(1) / kLanes<T>;
    }
    for (int k = 0; k < parts; ++k) {
      const Vector<C> r = root(squares[k]);
      const Vector<C> inverse = r > level.strength[k] ? one / r : zero;
      const Vector<C> keep = (r - level.strength[k]) * inverse, slant = sum[k] * inverse;
      mass.total[k] += part * (sum[k] * keep);
      mass.slope[k] += part * (count[k] * keep + level.strength[k] * inverse * (slant * slant));
    }
  }
  return mass;
}

// Newton's method from below, in the precision of C, until sum p exceeds 1 by no more than `enough`; what is left to go
// is put into `low`. A lane that has arrived stays where it is, so rows side by side do not influence each other.
template <class C, bool one_row, class T, int parts = kParts<C, T>>
inline void climb(const GroupBlocks& blocks, const T* y, GroupLevel<C, parts>& level, C enough) {
  // An earlier climb in less precision may have ended above the root; a step down leads below it.
  constexpr C above = sizeof(C) == 8 ? C(-1e-9) : -kInfinity<C>;
  // r - strength is known to a few roundings of the strength: beyond that there is nothing to approach.
  constexpr C noise = 4 * std::numeric_limits<C>::epsilon();
  for (int step = 0; step < 100; ++step) {
    for (int k = 0; k < parts; ++k) level.low[k] = Vector<C>{};
    GroupMass<C, parts> mass = group_mass<C>(blocks, y, level);
    if constexpr (one_row) {
      share<C>(mass.total);
      share<C>(mass.slope);
    }
    unsigned moving = 0;
    for (int k = 0; k < parts; ++k) {
      const Vector<C> zero{}, excess = mass.total[k] - C(1), start = C(-1) - level.strength[k], here = level.high[k];
      const Vector<C> change = mass.slope[k] > zero ? excess / mass.slope[k] : start - here;  // no group left: restart
      const Vector<C> unknown = noise * level.strength[k];
      const Vector<C> next = excess > enough + unknown          ? here + change
                             : excess < above - C(64) * unknown ? here + change
                                                                : here;
      moving |= where_greater(next, here) | where_greater(here, next);
      level.high[k] = next;
      level.low[k] = next == here ? change : zero;
    }
    if (moving == 0) return;
  }
}

// From the arranged y to the arranged weights p, lane by lane; adds up p, and 1/2 (r - strength)_+^2. Since p_g has
// norm r - strength, max_Omega = 1/2 + tau + the latter sum.
template <class T, int parts = kParts<double, T>>
inline void group_weights(const GroupBlocks& blocks, const T* y, T* p, const GroupLevel<double, parts>& level,
                          Doubles (&total)[parts], Doubles (&half_squares)[parts]) {
  const Doubles zero{};
  for (const GroupBlock& block : blocks) {
    Doubles sum[parts] = {}, squares[parts] = {}, keep[parts];
    const std::int64_t start = std::int64_t(block.start) * kLanes<T>, end = start + block.depth * kLanes<T>;
    for (std::int64_t i = start; i < end; i += kLanes<T>)
      for (int k = 0; k < parts; ++k) {
        const Doubles u = level.excess(load_as<double>(y + i + k * kLanes<double>), k);
        sum[k] += u;
        squares[k] += u * u;
      }
    if (block.whole) share<double>(squares);
    for (int k = 0; k < parts; ++k) {
      const Doubles r = root(squares[k]), rest = larger(r - level.strength[k], zero);
      keep[k] = rest > zero ? rest / r : zero;
      total[k] += keep[k] * sum[k];
      half_squares[k] += (block.whole ? 0.5 / kLanes<T> : 0.5) * (rest * rest);
    }
    for (std::int64_t i = start; i < end; i += kLanes<T>)
      for (int k = 0; k < parts; ++k) {
        const std::int64_t at = i + k * kLanes<double>;
        store_from<double>(p + at, level.excess(load_as<double>(y + at), k) * keep[k]);
      }
  }
}

// Solves what is arranged in y: one row in all lanes, or one row in each. The first steps need no more precision than
// the scores have; strong penalties would overflow it.
template <bool one_row, class T, int parts = kParts<double, T>>
inline void solve_groups(const GroupBlocks& blocks, const T* y, T* p, const double* strengths, double* values) {
  const std::int64_t places = one_row ? blocks.places() : blocks.places() * kLanes<T>;
  GroupLevel<double, parts> level;
  const auto strength_of = [&](int lane) { return strengths[one_row ? 0 : lane]; };
  const auto is_strong = [&](int lane) { return strength_of(lane) > 100; };
  for (int lane = 0; lane < kLanes<T>; ++lane)
    level.strength[lane / kLanes<double>][lane % kLanes<double>] = strength_of(lane);
  for (int k = 0; k < parts; ++k) {
    level.high[k] = -1 - level.strength[k];
    level.low[k] = Doubles{};
  }
  if constexpr (sizeof(T) == 4) {
    Vector<T> strength{};  // a strong lane is computed without its strength, and not used
    for (int lane = 0; lane < kLanes<T>; ++lane)
      strength[lane] = is_strong(lane) ? T(0) : static_cast<T>(strength_of(lane));
    GroupLevel<T, 1> rough{{T(-1) - strength}, {}, {strength}};
    if (!(one_row && is_strong(0))) climb<T, one_row>(blocks, y, rough, T(1e-4));
    for (int lane = 0; lane < kLanes<T>; ++lane)
      if (!is_strong(lane)) level.high[lane / kLanes<double>][lane % kLanes<double>] = rough.high[0][lane];
  }
  climb<double, one_row>(blocks, y, level, 1e-15);
  Doubles total[parts] = {}, half_squares[parts] = {};
  group_weights(blocks, y, p, level, total, half_squares);
  if constexpr (one_row) {
    share<double>(total);
    share<double>(half_squares);
  }
  if constexpr (sizeof(T) == 8) {
    // A strong penalty leaves p_g as a small difference of large norms: what that costs in digits is a common factor.
    const Doubles scale = total[0] > Doubles{} ? 1 / total[0] : Doubles{};
    for (std::int64_t i = 0; i < places; i += kLanes<T>) store(p + i, load(p + i) * scale);
  }
  for (int lane = 0; lane < (one_row ? 1 : kLanes<T>); ++lane) {
    const int k = lane / kLanes<double>, at = lane % kLanes<double>;
    values[lane] = 0.5 + level.high[k][at] + level.low[k][at] + half_squares[k][at];
  }
}

constexpr std::int64_t kShortGroupRow = 128;  // rows up to this length are solved side by side

template <class T>
inline void groupmax_short(const Groupmax<T>& problem, std::int64_t begin, std::int64_t end) {
  constexpr int lanes = kLanes<T>;
  const std::int64_t n = problem.columns;
  Buffer buffer(GroupBlocks::bytes(n) + GroupNumbers::bytes(n) + 2 * Buffer::size<T>(n * lanes));
  GroupBlocks blocks(buffer, n, 1);  // a group for each block, a row for each lane
  GroupNumbers(buffer, problem.groups, n).arrange(blocks, n, [](std::int64_t i) { return i; });
  T* y = buffer.take<T>(n * lanes);
  T* p = buffer.take<T>(n * lanes);
  for (std::int64_t first = begin; first < end; first += lanes) {
    const int count = static_cast<int>(end - first < lanes ? end - first : lanes);
    T tops[lanes] = {};
    double strengths[lanes] = {}, values[lanes];
    bool usual[lanes] = {};
    for (int lane = 0; lane < count; ++lane) {
      const std::int64_t row = first + lane;
      const double strength = problem.strengths ? problem.strengths[row] : problem.strength;
      const Extent<T> whole = extent(problem.scores + row * n, n);
      usual[lane] =
          !fill_degenerate(whole, !valid_strength(strength), problem.weights + row * n, problem.value + row, n);
      if (usual[lane]) tops[lane] = whole.top, strengths[lane] = strength;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      T* column = y + std::int64_t(blocks.slot()[i]) * lanes;
      for (int lane = 0; lane < lanes; ++lane)
        column[lane] = usual[lane] ? problem.scores[(first + lane) * n + i] - tops[lane] : T(0);
    }
    solve_groups<false>(blocks, y, p, strengths, values);
    for (int lane = 0; lane < count; ++lane) {
      if (!usual[lane]) continue;
      T* weights = problem.weights + (first + lane) * n;
      for (std::int64_t i = 0; i < n; ++i) weights[i] = p[std::int64_t(blocks.slot()[i]) * lanes + lane];
      problem.value[first + lane] = static_cast<T>(tops[lane] + values[lane]);
    }
  }
}

template <class T>
void run(const Groupmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  if (n <= kShortGroupRow) return groupmax_short(problem, begin, end);
  const std::int64_t places = GroupBlocks::capacity(n, kLanes<T>);
  Buffer buffer(Buffer::size<T>(n + kSlack) + Buffer::size<std::int32_t>(n + kSlack) + 2 * GroupBlocks::bytes(n) +
                GroupNumbers::bytes(n) + 3 * Buffer::size<T>(places));
  T* found = buffer.take<T>(n + kSlack);
  std::int32_t* position = buffer.take<std::int32_t>(n + kSlack);
  GroupBlocks all(buffer, n, kLanes<T>), some(buffer, n, kLanes<T>);
  GroupNumbers numbers(buffer, problem.groups, n);
  T* y_all = buffer.take<T>(places);
  T* y_some = buffer.take<T>(places);
  T* p = buffer.take<T>(places);
  bool arranged = false;
  for (std::int64_t row = begin; row < end; ++row) {
    const T* scores = problem.scores + row * n;
    T* weights = problem.weights + row * n;
    const double strength = problem.strengths ? problem.strengths[row] : problem.strength;
    const Extent<T> whole = extent(scores, n);
    if (fill_degenerate(whole, !valid_strength(strength), weights, problem.value + row, n)) continue;
    // At tau = max - 1 - strength the largest score alone makes sum p at least 1: nothing below can receive weight. A
    // little slack, since the level is rounded and a candidate too many does no harm.
    const T level = static_cast<T>((-1 - strength) * 1.000001);
    const std::int64_t m = gather_above(scores, n, whole.top, level, found, position);
    double value;
    if (m > n / 4) {
      if (!arranged) {
        numbers.arrange(all, n, [](std::int64_t i) { return i; });
        for (std::int64_t i = 0; i < all.places(); ++i) y_all[i] = -kInfinity<T>;
        arranged = true;
      }
      const std::int32_t* slot = all.slot();
      for (std::int64_t i = 0; i < n; ++i) y_all[slot[i]] = scores[i] - whole.top;
      solve_groups<true>(all, y_all, p, &strength, &value);
      for (std::int64_t i = 0; i < n; ++i) weights[i] = p[slot[i]];
    } else {
      numbers.arrange(some, m, [&](std::int64_t i) { return position[i]; });
      for (std::int64_t i = 0; i < some.places(); ++i) y_some[i] = -kInfinity<T>;
      const std::int32_t* slot = some.slot();
      for (std::int64_t i = 0; i < m; ++i) y_some[slot[i]] = found[i];
      solve_groups<true>(some, y_some, p, &strength, &value);
      std::memset(weights, 0, n * sizeof(T));
      for (std::int64_t i = 0; i < m; ++i) weights[position[i]] = p[slot[i]];
    }
    problem.value[row] = static_cast<T>(whole.top + value);
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
