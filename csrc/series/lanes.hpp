// Dynamic time warping of one series with many others, a pair per vector lane.
//
// All lanes are in the same cell of their grids. So a cell needs no neighbouring lane, short series waste nothing, and
// the numbers of the one series are the same for all lanes. The others stand side by side in units of kLanes series:
// number j of channel k of a unit is one vector. One row of cells is stored, and a sweep overwrites it.
#pragma once

#include "core/buffer.hpp"
#include "grids/cells.hpp"
#include "series/band.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// The best path of finite scores: HardThree without weights.
struct FiniteThree {
  static constexpr int kParts = 1;
  template <bool, class V>
  static OMEGAMAX_INLINE Cell<V, 1> next(const Three<Cell<V, 1>>& x, V score, Three<V>&) {
    return {{score + larger(larger(x.diagonal.part[0], x.up.part[0]), x.left.part[0])}};
  }
  template <class T>
  static T start(int) {
    return 0;
  }
  template <class T>
  static T none(int) {
    return -kInfinity<T>;
  }
  template <class T>
  static double value(const T* part, std::int64_t) {
    return part[0];
  }
};

// Some series side by side: `units` units of kLanes series, each with room for `size` times and `d` channels.
template <class T>
class SeriesUnits {
  static constexpr int kL = kLanes<T>;

 public:
  static std::int64_t bytes(std::int64_t units, std::int64_t size, std::int64_t d) {
    return Buffer::size<T>(units * size * d * kL) + Buffer::size<std::int64_t>(units * kL) +
           Buffer::size<bool>(units * kL);
  }
  SeriesUnits(std::int64_t units, std::int64_t size, std::int64_t d, Buffer& buffer)
      : d_(d), stride(size * d * kL), numbers(buffer.take<T>(units * stride)),
        lengths(buffer.take<std::int64_t>(units * kL)), bad(buffer.take<bool>(units * kL)) {}

  // Puts a series into a place, with zeros after its end.
  void put(std::int64_t place, const T* series, std::int64_t length) {
    T* to = numbers + place / kL * stride + place % kL;
    bool wrong = false;
    for (std::int64_t e = 0; e < length * d_; ++e) {
      to[e * kL] = series[e];
      wrong |= !(series[e] - series[e] == 0);
    }
    for (std::int64_t e = length * d_; e < stride / kL; ++e) to[e * kL] = 0;
    lengths[place] = length;
    bad[place] = wrong;
  }
  void put_nothing(std::int64_t place) {
    T* to = numbers + place / kL * stride + place % kL;
    for (std::int64_t e = 0; e < stride / kL; ++e) to[e * kL] = 0;
    lengths[place] = 0;
    bad[place] = false;
  }

 private:
  std::int64_t d_;

 public:
  std::int64_t stride;
  T* numbers;
  std::int64_t* lengths;
  bool* bad;
};

// Sweeps the grids of one series x (m, d) and kV units of others, of at most n times.
template <class T, class Omega, int kV, bool kOneChannel>
struct LaneSweep {
  using V = Vector<T>;
  using Cells = Cell<V, Omega::kParts>;
  static constexpr int kL = kLanes<T>, kParts = Omega::kParts, kCell = kParts * kV * kL;

  // `first` and `last` bound the columns of each row. `row` has room for n + 1 columns of kCell numbers; the cells of
  // the last row are left there. With kBounded it returns false as soon as no lane can end above `floor`.
  template <bool kBounded>
  static bool run(const T* x, std::int64_t m, std::int64_t d, const T* units, std::int64_t stride, std::int64_t n,
                  const std::int32_t* first, const std::int32_t* last, T scale, T* row, T floor) {
    for (std::int64_t j = 0; j <= n; ++j)
      for (int part = 0; part < kParts; ++part)
        for (int v = 0; v < kV; ++v)
          store(row + j * kCell + (part * kV + v) * kL,
                splat(j == 0 ? Omega::template start<T>(part) : Omega::template none<T>(part)));
    for (std::int64_t i = 0; i < m; ++i) {
      const std::int64_t begin = first[i], end = last[i] + 1;
      Cells diagonal[kV], left[kV];
      V best[kV];
      for (int v = 0; v < kV; ++v) {
        best[v] = splat(-kInfinity<T>);
        for (int part = 0; part < kParts; ++part) {
          T* border = row + begin * kCell + (part * kV + v) * kL;
          diagonal[v].part[part] = load(border);
          left[v].part[part] = splat(Omega::template none<T>(part));
          store(border, left[v].part[part]);  // left of the band
        }
      }
      const T* xi = x + i * d;
      const V only = splat(xi[0]), factor = splat(scale);
      const T* y = units + begin * d * kL;
      T* cell = row + (begin + 1) * kCell;
      for (std::int64_t j = begin; j < end; ++j) {
        for (int v = 0; v < kV; ++v) {
          const T* number = y + v * stride;
          V sum;
          if constexpr (kOneChannel) {
            const V difference = load(number) - only;
            sum = difference * difference;
          } else {
            sum = V{};
            for (std::int64_t k = 0; k < d; ++k) {
              const V difference = load(number + k * kL) - splat(xi[k]);
              sum += difference * difference;
            }
          }
          Cells up;
          for (int part = 0; part < kParts; ++part) up.part[part] = load(cell + (part * kV + v) * kL);
          Three<V> unused;
          left[v] = Omega::template next<false>(Three<Cells>{diagonal[v], up, left[v]}, sum * factor, unused);
          diagonal[v] = up;
          for (int part = 0; part < kParts; ++part) store(cell + (part * kV + v) * kL, left[v].part[part]);
          if constexpr (kBounded) best[v] = larger(left[v].part[0], best[v]);
        }
        y += d * kL;
        cell += kCell;
      }
      if constexpr (kBounded) {
        V top = best[0];
        for (int v = 1; v < kV; ++v) top = larger(best[v], top);
        if (largest_lane<T>(top) < floor) return false;
      }
    }
    return true;
  }

  // The value of a lane after n columns.
  static double value(const T* row, std::int64_t n, int lane) {
    return Omega::template value<T>(row + n * kCell + lane, kV * kL);
  }
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
