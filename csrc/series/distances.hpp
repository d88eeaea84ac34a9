// Distances between all series of two lists.
#pragma once

#include "core/interruption.hpp"
#include "series/lanes.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// How many units are swept together, so that recursions need not wait for each other: fewer where a cell is much work.
template <class Omega>
constexpr int kMostUnits = 1;
template <>
inline constexpr int kMostUnits<FiniteThree> = 4;
template <>
inline constexpr int kMostUnits<ShannonThree> = 2;

// One series against units of others that lie side by side.
template <class T, class Omega>
class OneToMany {
  static constexpr int kL = kLanes<T>;
  static constexpr bool kCanStop = Omega::kParts == 1;  // a smoothed value may fall below what it was

 public:
  static constexpr int kMost = kMostUnits<Omega>;

  static std::int64_t bytes(const SeriesPairs<T>& pairs) {
    return Buffer::size<T>((pairs.y_size + 1) * Omega::kParts * kMostUnits<Omega> * kL) +
           2 * Buffer::size<std::int32_t>(pairs.x_size);
  }
  OneToMany(const SeriesPairs<T>& pairs, T scale, Buffer& buffer)
      : pairs_(pairs), scale_(scale), row_(buffer.take<T>((pairs.y_size + 1) * Omega::kParts * kMostUnits<Omega> * kL)),
        first_(buffer.take<std::int32_t>(pairs.x_size)), last_(buffer.take<std::int32_t>(pairs.x_size)) {}

  // write(place, distance) for the series in units begin .. end with a length; false if the sweep was abandoned because
  // no path can cost as little as `most`. At most kMostUnits units.
  template <class Write>
  bool run(const T* x, std::int64_t m, const SeriesUnits<T>& units, std::int64_t begin, std::int64_t end, T most,
           Write write) {
    std::int64_t longest = 0, shortest = pairs_.y_size;
    for (std::int64_t place = begin * kL; place < end * kL; ++place) {
      const std::int64_t n = units.lengths[place];
      longest = n > longest ? n : longest;
      shortest = n > 0 && n < shortest ? n : shortest;
    }
    if (longest == 0) return true;
    if (longest == shortest || pairs_.band == SeriesBand::kNone)
      return sweep(x, m, units, begin, end, longest, false, most, write);
    bool whole = true;  // each length has a band of its own
    for (std::int64_t n = shortest; n <= longest; ++n) {
      bool some = false;
      for (std::int64_t place = begin * kL; place < end * kL; ++place) some |= units.lengths[place] == n;
      if (some) whole &= sweep(x, m, units, begin, end, n, true, most, write);
    }
    return whole;
  }

 private:
  template <class Write>
  bool sweep(const T* x, std::int64_t m, const SeriesUnits<T>& units, std::int64_t begin, std::int64_t end,
             std::int64_t n, bool this_length_only, T most, Write& write) {
    if (m != m_ || n != n_) band_rows(pairs_.band, pairs_.reach, m_ = m, n_ = n, first_, last_);
    const auto go = [&](auto width, auto one) {
      using Own = LaneSweep<T, Omega, decltype(width)::value, decltype(one)::value>;
      const std::int64_t d = pairs_.n_coordinates;
      const T* numbers = units.numbers + begin * units.stride;
      bool whole = true;
      if constexpr (kCanStop) {
        if (most < kInfinity<T>)
          whole = Own::template run<true>(x, m, d, numbers, units.stride, n, first_, last_, scale_, row_, -most);
        else Own::template run<false>(x, m, d, numbers, units.stride, n, first_, last_, scale_, row_, -most);
      } else {
        Own::template run<false>(x, m, d, numbers, units.stride, n, first_, last_, scale_, row_, -most);
      }
      if (!whole) return false;
      for (int lane = 0; lane < Own::kL * decltype(width)::value; ++lane) {
        const std::int64_t place = begin * kL + lane, length = units.lengths[place];
        if (length == 0 || (this_length_only && length != n)) continue;
        const double value = Own::value(row_, length, lane) / static_cast<double>(scale_) + 0.0;
        write(place, units.bad[place] ? kNaN<T> : static_cast<T>(value));
      }
      return true;
    };
    const bool one = pairs_.n_coordinates == 1;
    if constexpr (kMostUnits<Omega> >= 4)
      if (end - begin == 4) return one ? go(Width<4>{}, Flag<true>{}) : go(Width<4>{}, Flag<false>{});
    if constexpr (kMostUnits<Omega> >= 2)
      if (end - begin == 2) return one ? go(Width<2>{}, Flag<true>{}) : go(Width<2>{}, Flag<false>{});
    return one ? go(Width<1>{}, Flag<true>{}) : go(Width<1>{}, Flag<false>{});
  }
  template <int n>
  struct Width {
    static constexpr int value = n;
  };
  template <bool yes>
  struct Flag {
    static constexpr bool value = yes;
  };

  const SeriesPairs<T>& pairs_;
  T scale_;
  T* row_;
  std::int32_t *first_, *last_;
  std::int64_t m_ = -1, n_ = -1;
};

// Calls f(first unit, end) for runs of 4, 2 or 1 units, but no more than `most`.
template <class F>
inline void each_run(std::int64_t begin, std::int64_t end, int most, F f) {
  while (begin < end) {
    const std::int64_t left = end - begin < most ? end - begin : most, some = left >= 4 ? 4 : left >= 2 ? 2 : 1;
    f(begin, begin + some);
    begin += some;
  }
}

template <class T>
inline bool is_finite(const T* numbers, std::int64_t count) {
  bool wrong = false;
  for (std::int64_t e = 0; e < count; ++e) wrong |= !(numbers[e] - numbers[e] == 0);
  return !wrong;
}

template <class T>
void run(const SeriesDistances<T>& problem, std::int64_t begin, std::int64_t end) {
  const SeriesPairs<T>& pairs = problem.pairs;
  const std::int64_t p = pairs.n_others, d = pairs.n_coordinates, kL = kLanes<T>, units_all = (p + kL - 1) / kL;
  const std::int64_t skipped = problem.triangle != 0 ? begin / kL : 0;
  for (std::int64_t i = begin; i < end; ++i)
    for (std::int64_t j = 0; j < p; ++j) problem.distances[i * p + j] = 0;
  if (skipped >= units_all) return;
  const std::int64_t n_units = units_all - skipped;
  const auto go = [&](auto omega) {
    using Many = OneToMany<T, decltype(omega)>;
    Buffer buffer(SeriesUnits<T>::bytes(n_units, pairs.y_size, d) + Many::bytes(pairs));
    SeriesUnits<T> units(n_units, pairs.y_size, d, buffer);
    Many many(pairs, static_cast<T>(problem.scale), buffer);
    for (std::int64_t place = 0; place < n_units * kL; ++place) {
      const std::int64_t j = skipped * kL + place;
      if (j < p) units.put(place, pairs.y + j * pairs.y_size * d, pairs.y_lengths[j]);
      else units.put_nothing(place);
    }
    // A run of units stays in the cache while all series go over it.
    each_run(0, n_units, Many::kMost, [&](std::int64_t unit, std::int64_t after) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t from = problem.triangle != 0 ? i : 0;
        if ((skipped + after) * kL <= from) continue;
        check_interruption();
        const T* x = pairs.x + i * pairs.x_size * d;
        const bool bad = !is_finite(x, pairs.x_lengths[i] * d);
        T* out = problem.distances + i * p;
        const auto write = [&](std::int64_t place, T distance) {
          const std::int64_t j = skipped * kL + place;
          if (j >= from) out[j] = bad ? kNaN<T> : distance;
        };
        // In a triangle the first units of a run may lie before the diagonal.
        const std::int64_t wanted = from / kL - skipped, start = wanted > unit ? wanted : unit;
        each_run(start, after, Many::kMost, [&](std::int64_t u, std::int64_t v) {
          many.run(x, pairs.x_lengths[i], units, u, v, kInfinity<T>, write);
        });
      }
    });
  };
  if (problem.omega == Omega::kHard) go(FiniteThree{});
  else if (problem.omega == Omega::kShannon) go(ShannonThree{});
  else go(SquaredThree{});
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
