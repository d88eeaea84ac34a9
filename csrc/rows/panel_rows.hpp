// Takes as many rows as a vector has lanes, and gives first their peaks and then their candidates as columns, one row
// per lane. How a row is treated depends on that row alone, and padding is too low to matter, so that its result does
// not depend on its neighbours.
#pragma once

#include "rows/lockstep.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr std::int64_t kPanelColumns = 1024;

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
constexpr bool kHasPanels = true;

inline Floats narrow(Doubles low, Doubles high) {
  const __m512 first = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low));
  return (Floats)_mm512_insertf32x8(first, _mm512_cvtpd_ps((__m512d)high), 1);
}

// The first lanes of x, each in the next place that `bits` marks, and zeros elsewhere: `compress` undone.
template <class T>
inline Vector<T> expand(Vector<T> x, unsigned bits) {
  if constexpr (sizeof(T) == 4) return (Floats)_mm512_maskz_expand_ps(static_cast<__mmask16>(bits), (__m512)x);
  else return (Doubles)_mm512_maskz_expand_pd(static_cast<__mmask8>(bits), (__m512d)x);
}

inline Floats low_halves(Floats a, Floats b) { return (Floats)_mm512_shuffle_f32x4((__m512)a, (__m512)b, 0x44); }
inline Floats high_halves(Floats a, Floats b) { return (Floats)_mm512_shuffle_f32x4((__m512)a, (__m512)b, 0xee); }
inline Doubles low_halves(Doubles a, Doubles b) { return (Doubles)_mm512_shuffle_f64x2((__m512d)a, (__m512d)b, 0x44); }
inline Doubles high_halves(Doubles a, Doubles b) { return (Doubles)_mm512_shuffle_f64x2((__m512d)a, (__m512d)b, 0xee); }

template <class T>
struct Peaks {
  Vector<T> top;       // the largest score of each row
  std::int64_t count;  // columns of peaks
  unsigned good;       // a bit for each row that has an answer
};

// Of the bits those whose lanes have a < b: one instruction, where a comparison and an intersection are two.
inline __mmask16 where_less(__mmask16 bits, Floats a, Floats b) {
  return _mm512_mask_cmp_ps_mask(bits, (__m512)a, (__m512)b, _CMP_LT_OQ);
}
inline __mmask8 where_less(__mmask8 bits, Doubles a, Doubles b) {
  return _mm512_mask_cmp_pd_mask(bits, (__m512d)a, (__m512d)b, _CMP_LT_OQ);
}

// The chosen lanes of x behind the first `count` lanes of the list, up to 63, and -inf behind them; what finds no room
// is dropped.
inline Floats append(Floats list, std::int64_t count, Floats x, unsigned bits) {
  const __m512 padding = (__m512)splat(-kInfinity<float>);
  const __m512 chosen = _mm512_mask_compress_ps(padding, static_cast<__mmask16>(bits), (__m512)x);
  return (Floats)_mm512_mask_expand_ps((__m512)list, static_cast<__mmask16>(std::uint64_t{0xffff} << count), chosen);
}
inline Doubles append(Doubles list, std::int64_t count, Doubles x, unsigned bits) {
  const __m512d padding = (__m512d)splat(-kInfinity<double>);
  const __m512d chosen = _mm512_mask_compress_pd(padding, static_cast<__mmask8>(bits), (__m512d)x);
  return (Doubles)_mm512_mask_expand_pd((__m512d)list, static_cast<__mmask8>(std::uint64_t{0xff} << count), chosen);
}

template <class T, class Shape>
class PanelRows {
 public:
  static constexpr int kLane = kLanes<T>;
  static constexpr bool kShort = Shape::kVectors > 0;

  explicit PanelRows(std::int64_t n)
      : n_(n), stride_(n + 2 * kLane), candidates_(kLane * stride_), columns_(kLane * (n + kLane)) {}

  bool is_long() const { return !kShort && n_ > kLockstepColumns; }
  Vector<T>* columns() const { return reinterpret_cast<Vector<T>*>(columns_.get()); }

  // Fills the columns with the maxima over positions that leave the same rest, modulo half a vector, one or two.
  Peaks<T> find_peaks(const T* x, std::int64_t count) const {
    const Vector<T> infinity = splat(kInfinity<T>);
    Vector<T>* const y = columns();
    const bool few = kShort || n_ <= kShortVectors * kLane;
    Peaks<T> peaks{-infinity, is_long() ? 2 * kLane : !few ? kLane : kLane / 2, 0};
    if (kShort) peaks.good = write_short_peaks(x, count);
    else
      for (std::int64_t row = 0; row < count; ++row)
        peaks.good |= static_cast<unsigned>(write_peaks(x + row * n_, candidates_.get() + row * stride_)) << row;
    if (few)
      transpose_halves(
          y, [&](std::int64_t row) { return load(candidates_.get() + row * stride_); }, count,
          [](auto a, auto b) { return larger(low_halves(a, b), high_halves(a, b)); });
    else
      for (std::int64_t j = 0; j < peaks.count; j += kLane)
        transpose_tile(
            y + j, [&](std::int64_t row) { return load(candidates_.get() + row * stride_ + j); }, count);
    Vector<T> tops[4] = {-infinity, -infinity, -infinity, -infinity};
    for (std::int64_t j = 0; j < peaks.count; ++j) tops[j % 4] = larger(y[j], tops[j % 4]);
    peaks.top = larger(larger(tops[0], tops[1]), larger(tops[2], tops[3]));
    peaks.good &= where_greater(peaks.top, -infinity);
    return peaks;
  }

  // Fills the columns with the scores of each row above its floor, and -inf; returns how many columns, a multiple of
  // `unit`: the vector length or half of it. `counts` receives the numbers of candidates; the place of the weights is
  // fetched.
  template <int unit = kLane>
  std::int64_t find_candidates(const T* x, std::int64_t count, const T* floors, const T* weights,
                               std::int64_t* counts) const {
    std::int64_t most = 0;
    for (std::int64_t row = 0; row < count; ++row) {
      T* const candidates = candidates_.get() + row * stride_;
      counts[row] =
          floors[row] == kInfinity<T> ? 0 : write_candidates(x + row * n_, floors[row], candidates, weights + row * n_);
      most = counts[row] > most ? counts[row] : most;
    }
    for (std::int64_t j = 0; j < most; j += kLane) {
      const auto vector_of = [&](std::int64_t row) {
        return j < counts[row] ? load(candidates_.get() + row * stride_ + j) : splat(-kInfinity<T>);
      };
      if (unit < kLane && most - j <= unit)
        transpose_halves(columns() + j, vector_of, count, [](auto a, auto b) { return low_halves(a, b); });
      else transpose_tile(columns() + j, vector_of, count);
    }
    return (most + unit - 1) / unit * unit;
  }

  // Writes the columns, times `factor`, to the places in the rows that their candidates came from, and zeros elsewhere.
  void spread(const T* x, T* weights, std::int64_t count, const T* floors, std::int64_t padded,
              Vector<T> factor) const {
    for (std::int64_t j = 0; j < padded; j += kLane) {
      Vector<T> tile[kLane];
#pragma GCC unroll 16
      for (int row = 0; row < kLane; ++row) tile[row] = columns()[j + row] * factor;
      transpose<T>(tile);
#pragma GCC unroll 16
      for (int row = 0; row < kLane; ++row) store(candidates_.get() + row * stride_ + j, tile[row]);
    }
    for (std::int64_t row = 0; row < count; ++row) {
      const Vector<T> level = splat(floors[row]);
      const T* next = candidates_.get() + row * stride_;
      n_.each_vector([&](std::int64_t i, std::int64_t lanes) {
        const unsigned bits = where_greater(load_lanes(x + row * n_ + i, lanes, -kInfinity<T>), level);
        store_lanes(weights + row * n_ + i, lanes, expand<T>(load(next), bits));
        next += __builtin_popcount(bits);
      });
    }
  }

 private:
  // The maxima over positions with the same rest modulo kLanes, one vector for each row; returns a bit for each row of
  // numbers. Nearly always that is all of them, which one comparison at the end tells.
  unsigned write_short_peaks(const T* x, std::int64_t count) const {
    const Vector<T> infinity = splat(kInfinity<T>);
    using Bits = std::conditional_t<sizeof(T) == 4, __mmask16, __mmask8>;
    Bits good[kShortVectors];
    for (Bits& bits : good) bits = static_cast<Bits>(kAllLanes<T>);
    for (std::int64_t row = 0; row < count; ++row) {
      Vector<T> peaks = -infinity;
      n_.each_vector([&](std::int64_t i, std::int64_t lanes) {
        const Vector<T> scores = load_lanes(x + row * n_ + i, lanes, -kInfinity<T>);
        good[i / kLane] = where_less(good[i / kLane], scores, infinity);
        peaks = larger(scores, peaks);
      });
      store(candidates_.get() + row * stride_, peaks);
    }
    unsigned rows = (1u << count) - 1;
    if ((good[0] & good[1] & good[2] & good[3]) == kAllLanes<T>) return rows;
    for (std::int64_t row = 0; row < count; ++row)
      if (has_bad(x + row * n_, n_)) rows &= ~(1u << row);
    return rows;
  }

  // The maxima over positions with the same rest modulo 2 kLanes, two vectors of them; returns whether all are numbers.
  bool write_peaks(const T* x, T* peaks) const {
    const Vector<T> infinity = splat(kInfinity<T>);
    Vector<T> first = -infinity, second = -infinity;
    unsigned good = kAllLanes<T>;
    std::int64_t i = 0;
    for (; i + 2 * kLane <= n_; i += 2 * kLane) {
      const Vector<T> a = load(x + i), b = load(x + i + kLane);
      good &= where_greater(infinity, a) & where_greater(infinity, b);
      first = larger(a, first);
      second = larger(b, second);
    }
    each_vector<T>(n_ - i, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> a = load_lanes(x + i + at, lanes, -kInfinity<T>);
      good &= where_greater(infinity, a);
      second = larger(a, second);
    });
    if (!is_long()) first = larger(first, second);
    store(peaks, first);
    store(peaks + kLane, second);
    return good == kAllLanes<T>;
  }

  // The scores above `floor`, then a vector of padding; returns how many.
  std::int64_t write_candidates(const T* x, T floor, T* candidates, const T* weights) const {
    std::int64_t count = 0;
    const Vector<T> floors = splat(floor);
    if constexpr (kShort) {  // mostly one vector holds them all
      Vector<T> list = splat(-kInfinity<T>);
      n_.each_vector([&](std::int64_t i, std::int64_t lanes) {
        const Vector<T> scores = load_lanes(x + i, lanes, -kInfinity<T>);
        const unsigned bits = where_greater(scores, floors);
        list = append(list, count, scores, bits);
        count += __builtin_popcount(bits);
      });
      if (count <= kLane) {
        store(candidates, list);
        return count;
      }
      count = 0;
    }
    n_.each_vector([&](std::int64_t i, std::int64_t lanes) {
      const Vector<T> scores = load_lanes(x + i, lanes, -kInfinity<T>);
      __builtin_prefetch(weights + i, 1);
      count += compress<T>(candidates + count, scores, where_greater(scores, floors));
    });
    store(candidates + count, splat(-kInfinity<T>));
    return count;
  }

  // One vector of each row as one vector per position; lanes beyond the rows repeat the last.
  template <class F>
  static void transpose_tile(Vector<T>* y, F vector_of, std::int64_t count) {
    Vector<T> tile[kLane];
#pragma GCC unroll 16
    for (int row = 0; row < kLane; ++row) tile[row] = vector_of(row < count ? row : count - 1);
    transpose<T>(tile);
#pragma GCC unroll 16
    for (int row = 0; row < kLane; ++row) y[row] = tile[row];
  }

  // Half a vector of each row as columns, in less than half the time. `side_by_side` makes one vector of those of two
  // rows.
  template <class F, class G>
  static void transpose_halves(Vector<T>* y, F vector_of, std::int64_t count, G side_by_side) {
    constexpr int half = kLane / 2;
    Vector<T> tile[half];
#pragma GCC unroll 8
    for (int row = 0; row < half; ++row)
      tile[row] = side_by_side(vector_of(row < count ? row : count - 1),
                               vector_of(row + half < count ? row + half : count - 1));
    transpose_part<T, half>(tile);
#pragma GCC unroll 8
    for (int row = 0; row < half; ++row) y[row] = tile[row];
  }

  RowLength<T, Shape> n_;
  std::int64_t stride_;
  Scratch<T> candidates_, columns_;
};
#else
constexpr bool kHasPanels = false;
#endif

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
