// A lower bound for the threshold of fusedmax that is close to it, and the positions above that bound, for as many rows
// at once as two vectors have lanes.
//
// The level sets of the denoised row y solve
//
//     F(t) = max_S  sum_S (x_i - t) - strength Perimeter(S)  =  sum (y_i - t)_+
//
// (the coarea formula), so that the threshold is where F = 1. F is convex and its slope is -|S|: Newton's method climbs
// from below and never passes the threshold. One recursion over the labels "in S" and "not in S" gives F and |S|; its
// state is one number d, how much better it is to be in S. Level sets are nested: positions off S get no weight, and
// each run of S is denoised on its own.
#pragma once

#include <cstdint>

#include "core/buffer.hpp"
#include "core/simd.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

class LevelSets {
 public:
  static constexpr int kVectors = 2, kRows = kVectors * kLanes<double>;

  static std::int64_t bytes(std::int64_t n) {
    return Buffer::size<double>(n * kRows) + 2 * Buffer::size<std::uint16_t>(n);
  }
  LevelSets(Buffer& buffer, std::int64_t n)
      : n_(n), y_(buffer.take<double>(n * kRows)), high_(buffer.take<std::uint16_t>(n)),
        middle_(buffer.take<std::uint16_t>(n)) {}

  // Row `lane`: scores x, their largest, and a bound from which to climb. Lanes that are not set keep what they had.
  template <class T>
  void set(int lane, const T* x, double top, double strength, double bound) {
    strength_[lane] = strength;
    t_[lane] = bound;
    for (std::int64_t i = 0; i < n_; ++i) y_[i * kRows + lane] = static_cast<double>(x[i]) - top;
  }

  // Climbs, for `count` rows.
  void solve(int count) {
    for (int lane = count; lane < kRows; ++lane) {  // lanes without a row
      strength_[lane] = 1;
      t_[lane] = -1;
      for (std::int64_t i = 0; i < n_; ++i) y_[i * kRows + lane] = 0;
    }
    for (int step = 0; step < kSteps; ++step)
      if (!climb(step + 1 == kSteps)) break;
    std::uint16_t after = 0;
    for (int lane = 0; lane < kRows; ++lane) after |= static_cast<std::uint16_t>(ends_[lane]) << lane;
    for (std::int64_t i = n_ - 1; i >= 0; --i) {  // whether i is in S, given whether i + 1 is
      if (i < n_ - 1) after = static_cast<std::uint16_t>(high_[i] | (middle_[i] & after));
      high_[i] = after;
    }
  }

  double bound(int lane) const { return t_[lane]; }
  bool contains(std::int64_t i, int lane) const { return high_[i] >> lane & 1u; }

 private:
  static constexpr int kSteps = 5;  // more of them cost more than they save the solver

  // One step of Newton's method; false if no row moved. The last one only looks at where the rows are.
  bool climb(bool last) {
    const Doubles zero{}, one = splat(1.0), none = splat(-kInfinity<double>);
    Doubles d[kVectors] = {}, total[kVectors] = {}, in[kVectors] = {}, out[kVectors] = {};
    Doubles t[kVectors], strength[kVectors], minus[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      t[v] = load(t_ + v * kLanes<double>);
      strength[v] = load(strength_ + v * kLanes<double>);
      minus[v] = -strength[v];
    }
    const double* y = y_;
    for (std::int64_t i = 0; i < n_; ++i, y += kRows) {
      unsigned highs = 0, middles = 0;
      for (int v = 0; v < kVectors; ++v) {
        const Doubles score = load(y + v * kLanes<double>);
        // A removed position adds nothing, and its neighbours are adjacent.
        const Doubles gain = score > none ? score - t[v] : zero, member = score > none ? one : zero;
        total[v] += larger(d[v] - strength[v], zero);
        const Doubles in_before = d[v] > minus[v] ? in[v] : out[v];
        out[v] = d[v] > strength[v] ? in[v] : out[v];
        in[v] = in_before + member;
        const Doubles least = larger(d[v], minus[v]);
        d[v] = (least < strength[v] ? least : strength[v]) + gain;
        highs |= where_greater(d[v], strength[v]) << (v * kLanes<double>);
        middles |= where_greater(d[v], minus[v]) << (v * kLanes<double>);
      }
      high_[i] = static_cast<std::uint16_t>(highs);
      middle_[i] = static_cast<std::uint16_t>(middles);
    }
    unsigned moved = 0;
    for (int v = 0; v < kVectors; ++v) {
      const Doubles sum = total[v] + larger(d[v], zero), size = d[v] > zero ? in[v] : out[v];
      const Doubles slack = 1e-9 * (one + strength[v]);  // far above what rounding can do, and too little to matter
      const Doubles next = t[v] + (sum - one) / larger(size, one) - slack;
      const unsigned rises = where_greater(next, t[v] + slack);
      for (int lane = 0; lane < kLanes<double>; ++lane) ends_[v * kLanes<double> + lane] = d[v][lane] > 0;
      if (last) continue;
      moved |= rises;
      store(t_ + v * kLanes<double>, next > t[v] + slack ? next : t[v]);
    }
    return moved != 0;
  }

  std::int64_t n_;
  double* y_;
  std::uint16_t *high_, *middle_;  // bits of lanes: d > strength, and d > -strength
  alignas(64) double strength_[kRows], t_[kRows];
  bool ends_[kRows];  // whether the last position is in S
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
