// Entmax for 1 < alpha < 2 on a panel of rows, each with its own order: the search for the level c and the powers of
// the weights run in lockstep, one row per lane, on candidates alone.
#pragma once

#include <type_traits>

#include "rows/entmax_below_two.hpp"
#include "rows/panel_rows.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
// What Newton's method takes off c in each lane; the number of columns is even.
template <class Quality, class T>
inline Vector<T> below_two_step(const Vector<T>* y, std::int64_t padded, Vector<T> c, Vector<T> e, Vector<T> order) {
  Vector<T> low[2] = {}, high[2] = {};
  const Vector<T> r = T(1) / c, below = order - T(1);
  for (std::int64_t j = 0; j < padded; j += 2)
    for (int k = 0; k < 2; ++k) {
      const Vector<T> u = larger(T(1) + y[j + k] * r, Vector<T>{});
      const Vector<T> power = Quality::power(u, below);
      low[k] += power;
      high[k] += power * u;
    }
  return PowerSums<Vector<T>>{low[0] + low[1], high[0] + high[1]}.step(c, e);
}

template <class T>
class EntmaxPanel {
 public:
  explicit EntmaxPanel(std::int64_t n) : n_(n), rows_(n) {}

  // Solves `count` rows, at most kLanes, row k with alpha = 1 + es[k] in (1, 2); `value` may be null.
  void run(const T* x, T* weights, T* value, std::int64_t count, const double* es) {
    Vector<T> e, slack;
    for (int lane = 0; lane < kLane; ++lane) {
      e[lane] = static_cast<T>(es[lane]);
      slack[lane] = tolerance<T>(es[lane]);
    }
    const Vector<T> order = T(1) / e;
    const auto [top, n_peaks, good] = rows_.find_peaks(x, count);
    const Vector<T> c0 = level_of_peaks(top, n_peaks, e, order);

    alignas(kVectorBytes) T tops[kLane], floors[kLane];
    store(tops, top);
    store(floors, just_below(top - T(1.01) * c0 * order));  // c falls from here, but for the error of a fair power
    std::int64_t counts[kLane];
    const std::int64_t padded = rows_.find_candidates(x, count, floors, weights, counts);
    distances_below(top, padded, e);
    const Vector<T> c = find_level(padded, c0, e, order, slack, good);
    const Sums sums = write_powers(padded, T(1) / c, order);
    rows_.spread(x, weights, count, floors, padded, sums.inverse());
    if (value != nullptr) write_values(sums, es, tops, value, count);
    for (std::int64_t row = 0; row < count; ++row)
      if (T unwanted; ((good >> row) & 1u) == 0)
        fill_unusual(has_bad(x + row * n_, n_), weights + row * n_, value != nullptr ? value + row : &unwanted, n_);
  }

 private:
  static constexpr int kLane = kLanes<T>;
  using Rough = std::conditional_t<sizeof(T) == 4, Fair, Good>;

  // sum u^q and sum y u^q
  struct Sums {
    LongSum<T> powers, excesses;
    Vector<T> inverse() const {
      if constexpr (sizeof(T) == 8) return 1.0 / powers.low();
      else return narrow(1.0 / powers.low(), 1.0 / powers.high());
    }
  };

  // y in the place of x; what is far below counts as less far, and weighs nothing.
  void distances_below(Vector<T> top, std::int64_t padded, Vector<T> e) const {
    Vector<T>* const y = rows_.columns();
    for (std::int64_t j = 0; j < padded; ++j) y[j] = larger((y[j] - top) * e, splat(T(-4)));
  }

  // The level of some of the scores is an upper bound for all of them, and the peaks are the likeliest.
  Vector<T> level_of_peaks(Vector<T> top, std::int64_t n_peaks, Vector<T> e, Vector<T> order) const {
    distances_below(top, n_peaks, e);
    Vector<T> c = splat(T(1));
    for (int iteration = 0; iteration < 2; ++iteration)  // more would leave out few more
      c -= larger(below_two_step<Rough, T>(rows_.columns(), n_peaks, c, e, order), Vector<T>{});
    return c;
  }

  Vector<T> find_level(std::int64_t padded, Vector<T> c, Vector<T> e, Vector<T> order, Vector<T> slack,
                       unsigned good) const {
    const Vector<T>* const y = rows_.columns();
    const auto advance = [&](Vector<T> step, Vector<T> least, unsigned moving) {
      c = choose<T>(moving, c - step, c);  // lanes that have arrived keep their c
      return moving & where_greater(step, least * c);
    };
    unsigned moving = good;
    if constexpr (sizeof(T) == 4)
      for (int iteration = 0; iteration < 8 && moving != 0; ++iteration) {
        const Vector<T> step = below_two_step<Fair, T>(y, padded, c, e, order);
        moving = advance(step, splat(T(0.02)), moving & where_greater(step, Vector<T>{}));
      }
    moving = good;
    for (int iteration = 0; iteration < 100 && moving != 0; ++iteration) {
      const Vector<T> step = below_two_step<Good, T>(y, padded, c, e, order);
      const unsigned rising = iteration == 0 ? where_greater(-step, slack * c) & moving : 0u;
      moving = advance(step, slack, moving) | rising;
    }
    return c;
  }

  // u^q in the place of y.
  Sums write_powers(std::int64_t padded, Vector<T> r, Vector<T> order) const {
    Vector<T>* const y = rows_.columns();
    Sums sums;
    for (std::int64_t j = 0; j < padded; j += kLane) {
      Vector<T> sum[2] = {}, excess[2] = {};
      for (int k = 0; k < kLane; ++k) {
        const Vector<T> power = full_power(y[j + k] * r, order);
        sum[k % 2] += power;
        excess[k % 2] += power * y[j + k];
        y[j + k] = power;
      }
      sums.powers.add(sum[0] + sum[1]);
      sums.excesses.add(excess[0] + excess[1]);
    }
    return sums;
  }

  // max_Omega = max x + ((1 - c)/e + sum p y)/alpha with c = (1/sum)^e
  static void write_values(const Sums& sums, const double* es, const T* tops, T* value, std::int64_t count) {
    const auto write_half = [&](std::int64_t first, Doubles sum, Doubles excess) {
      const Doubles e = load(es + first);
      const Doubles mass = -expm1_of<Doubles>(-e * log_normal<Doubles>(sum)) / e;
      const Doubles above = (mass + excess / sum) / (1.0 + e);
      for (std::int64_t lane = 0; lane < kLanes<double> && first + lane < count; ++lane)
        value[first + lane] = tops[first + lane] + static_cast<T>(above[lane]);
    };
    write_half(0, sums.powers.low(), sums.excesses.low());
    if constexpr (sizeof(T) == 4) write_half(kLanes<double>, sums.powers.high(), sums.excesses.high());
  }

  std::int64_t n_;
  PanelRows<T, AnyRow> rows_;
};
#else
template <class T>
class EntmaxPanel {
 public:
  explicit EntmaxPanel(std::int64_t) {}
  void run(const T*, T*, T*, std::int64_t, const double*) {}
};
#endif

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
