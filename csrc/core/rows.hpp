// What every row kernel does first and last: find the maximum, refuse what is not a number, collect the candidates.
#pragma once

#include "core/buffer.hpp"
#include "core/simd.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr int kBlock = 8;  // vectors in a block
template <class T>
constexpr std::int64_t kBlockSize = kBlock* kLanes<T>;

// Calls f(offset, lanes) for each vector of a row; lanes is constant but in the last call.
template <class T, class F>
inline void each_vector(std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) f(i, std::int64_t(kLanes<T>));
  if (i < n) f(i, n - i);
}

// A short row has kVectors vectors, of which the last is full or may not be; 0 stands for any number of them.
template <int vectors, bool full>
struct RowShape {
  static constexpr int kVectors = vectors;
  static constexpr bool kFull = full;
};
using AnyRow = RowShape<0, false>;
constexpr int kShortVectors = 4;

// Calls f with the shape of the rows: known to the compiler, it saves up to a fifth of the time.
template <class T, class F>
inline void with_shape(std::int64_t n, F f) {
  const bool full = n % kLanes<T> == 0;
  switch ((n + kLanes<T> - 1) / kLanes<T>) {
    case 1: return full ? f(RowShape<1, true>()) : f(RowShape<1, false>());
    case 2: return full ? f(RowShape<2, true>()) : f(RowShape<2, false>());
    case 3: return full ? f(RowShape<3, true>()) : f(RowShape<3, false>());
    case kShortVectors: return full ? f(RowShape<4, true>()) : f(RowShape<4, false>());
    default: return f(AnyRow());
  }
}

// The length of rows of a shape: a number, of which the compiler knows what the shape tells.
template <class T, class Shape>
class RowLength {
 public:
  explicit RowLength(std::int64_t n) : n_(n) {}
  operator std::int64_t() const { return Shape::kFull ? std::int64_t(Shape::kVectors * kLanes<T>) : n_; }

  template <class F>
  OMEGAMAX_INLINE void each_vector(F f) const {
    if constexpr (Shape::kVectors == 0) return omegamax::OMEGAMAX_ARCH::each_vector<T>(n_, f);
#pragma GCC unroll 4
    for (int k = 0; k < Shape::kVectors; ++k)
      f(k * kLanes<T>, Shape::kFull || k < Shape::kVectors - 1 ? kLanes<T> : n_ - k * kLanes<T>);
  }

 private:
  std::int64_t n_;
};

template <class T>
inline Vector<T> load_lanes(const T* from, std::int64_t lanes, T fill) {
  return lanes == kLanes<T> ? load(from) : load_some(from, lanes, fill);
}

template <class T>
inline void store_lanes(T* to, std::int64_t lanes, Vector<T> x) {
  if (lanes == kLanes<T>) store(to, x);
  else store_some(to, lanes, x);
}

template <class T>
struct Top {
  T score;   // the largest
  bool bad;  // NaN or +inf somewhere
  bool usual() const { return !bad && score > -kInfinity<T>; }
};

// The maximum of a row; for each block of it, `peaks` receives the lane-wise maxima (kLanes of them).
template <class T>
inline Top<T> find_top(const T* x, std::int64_t n, T* peaks) {
  const Vector<T> infinity = splat(kInfinity<T>);
  Vector<T> top = -infinity;
  unsigned good = ~0u;
  std::int64_t i = 0;
  for (; i + kBlockSize<T> <= n; i += kBlockSize<T>) {
    Vector<T> peak = -infinity;
    for (int j = 0; j < kBlock; ++j) {
      const Vector<T> scores = load(x + i + j * kLanes<T>);
      good &= where_greater(infinity, scores);
      peak = larger(scores, peak);
    }
    store(peaks, peak);
    peaks += kLanes<T>;
    top = larger(peak, top);
  }
  if (i < n) {
    Vector<T> peak = -infinity;
    each_vector<T>(n - i, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> scores = load_lanes(x + i + at, lanes, -kInfinity<T>);
      good &= where_greater(infinity, scores);
      peak = larger(scores, peak);
    });
    store(peaks, peak);
    top = larger(peak, top);
  }
  return {largest_lane<T>(top), (good & kAllLanes<T>) != kAllLanes<T>};
}

template <class T>
inline bool has_bad(const T* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    if (!(x[i] < kInfinity<T>)) return true;
  return false;
}

template <class T>
inline std::int64_t block_count(std::int64_t n) {
  return (n + kBlockSize<T> - 1) / kBlockSize<T>;
}

// Room for the peaks of a row, or for all of it as candidates with the slack that `compress` needs.
template <class T>
inline std::int64_t peaks_size(std::int64_t n) {
  return block_count<T>(n) * kLanes<T>;
}
template <class T>
inline std::int64_t candidates_size(std::int64_t n) {
  return n + (kBlock + 1) * kLanes<T>;
}

// A row that has no answer: all masked, or not all numbers.
template <class T>
inline void fill_unusual(bool bad, T* weights, T* value, std::int64_t n) {
  const T fill = bad ? kNaN<T> : T(0);
  for (std::int64_t i = 0; i < n; ++i) weights[i] = fill;
  *value = bad ? fill : -kInfinity<T>;
}

// The next number below: scores above it are those that are at least x. Where a window below the maximum is smaller
// than the resolution of the scores, the maximum and its ties must still be inside.
template <class V>
inline V just_below(V x) {
  using Limits = std::numeric_limits<typename Traits<V>::Number>;
  return x - larger(larger(x, -x) * Limits::epsilon(), V{} + Limits::min());
}

// Puts (x - top) * scale into `candidates` for every score above `floor`; returns how many. Blocks without any are
// recognised by their peaks.
template <class T>
inline std::int64_t collect(const T* x, std::int64_t n, const T* peaks, T floor, T top, T scale, T* candidates) {
  const Vector<T> floors = splat(floor);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; i += kBlockSize<T>, peaks += kLanes<T>) {
    if (where_greater(load(peaks), floors) == 0) continue;
    const std::int64_t size = n - i < kBlockSize<T> ? n - i : kBlockSize<T>;
    each_vector<T>(size, [&](std::int64_t at, std::int64_t lanes) {
      const Vector<T> scores = load_lanes(x + i + at, lanes, -kInfinity<T>);
      const unsigned bits = where_greater(scores, floors);
      count += compress<T>(candidates + count, (scores - top) * scale, bits);
    });
  }
  return count;
}

// Makes the number of candidates a multiple of the vector length; `low` must be too small to matter.
template <class T>
inline std::int64_t pad(T* candidates, std::int64_t count, T low) {
  store(candidates + count, splat(low));
  return (count + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
