// The Jacobian of a threshold problem times a direction: s (v - <s, v> / sum s), with a slope s > 0 on the support of p
// and zero elsewhere. Only the vectors of the row that hold some weight are read and computed with.
#pragma once

#include "core/rows.hpp"
#include "core/transpose.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Which vectors of a row to compute with: all of them, or those with some weight, by their offsets. Both call
// f(offset, lanes) for the vectors numbered first..last.
template <class T>
struct Everywhere {
  std::int64_t count;

  template <class F>
  void each(std::int64_t first, std::int64_t last, std::int64_t n, F f) const {
    const std::int64_t from = first * kLanes<T>, to = last * kLanes<T> < n ? last * kLanes<T> : n;
    each_vector<T>(to - from, [&](std::int64_t at, std::int64_t lanes) { f(from + at, lanes); });
  }
};

template <class T>
struct Listed {
  std::int64_t count;
  const std::int32_t* offsets;

  template <class F>
  void each(std::int64_t first, std::int64_t last, std::int64_t n, F f) const {
    for (std::int64_t k = first; k < last; ++k) {
      const std::int64_t i = offsets[k];
      if (i + kLanes<T> <= n) f(i, std::int64_t(kLanes<T>));
      else f(i, n - i);
    }
  }
};

// Finds the supports of a few rows at a time, and prefetches the direction there. The processor cannot foresee where a
// row has weight, and waiting for the direction row by row would take longer than computing with it.
template <class T>
class Supports {
 public:
  explicit Supports(std::int64_t n)
      : n_(n), vectors_((n + kLanes<T> - 1) / kLanes<T>), rows_(n < kElements ? kElements / n : 1),
        offsets_(rows_ * vectors_), counts_(rows_) {}

  // Calls f(row, support) for the rows begin..end, with zeros written to `out` off the support.
  template <class F>
  void each(const T* p, const T* v, T* out, std::int64_t begin, std::int64_t end, F f) {
    const Everywhere<T> everywhere{vectors_};
    if (n_ <= kBlockSize<T>) {  // to look for the support would cost more than it saves
      for (std::int64_t row = begin; row < end; ++row) f(row, everywhere);
      return;
    }
    std::int64_t* const counts = counts_.get();
    for (std::int64_t first = begin; first < end; first += rows_) {
      const std::int64_t last = first + rows_ < end ? first + rows_ : end;
      const auto offsets_of = [&](std::int64_t row) { return offsets_.get() + (row - first) * vectors_; };
      for (std::int64_t row = first; row < last; ++row)
        counts[row - first] = find(p + row * n_, v + row * n_, out + row * n_, offsets_of(row));
      for (std::int64_t row = first; row < last; ++row)
        if (counts[row - first] == kFull) f(row, everywhere);
        else f(row, Listed<T>{counts[row - first], offsets_of(row)});
    }
  }

 private:
  static constexpr std::int64_t kElements = 2048, kFull = -1;

  std::int64_t find(const T* p, const T* v, T* out, std::int32_t* offsets) const {
    if (starts_full(p)) return kFull;
    std::int64_t count = 0;
    each_vector<T>(n_, [&](std::int64_t i, std::int64_t lanes) {
      const bool some = where_greater(load_lanes(p + i, lanes, T(0)), Vector<T>{}) != 0;
      offsets[count] = static_cast<std::int32_t>(i);  // no branch, which could not be predicted
      count += some;
      __builtin_prefetch(some ? v + i : p + i);
    });
    each_vector<T>(n_, [&](std::int64_t i, std::int64_t lanes) { store_lanes(out + i, lanes, Vector<T>{}); });
    return count;
  }

  // Whether each vector of the first block has some weight: then so have most, and there is nothing to gain.
  static bool starts_full(const T* p) {
    bool full = true;
    for (int k = 0; k < kBlock; ++k) full &= where_greater(load(p + k * kLanes<T>), Vector<T>{}) != 0;
    return full;
  }

  std::int64_t n_, vectors_, rows_;
  Scratch<std::int32_t> offsets_;
  Scratch<std::int64_t> counts_;
};

// `Slope` maps positive weights to s; what it makes of zeros does not matter. A cheap one is computed twice.
template <class T, class Support, class Slope>
OMEGAMAX_INLINE void centred_row(const T* p, const T* v, T* out, std::int64_t n, Support support, Slope slope) {
  if (p[0] != p[0]) {  // a NaN row is NaN throughout
    for (std::int64_t i = 0; i < n; ++i) out[i] = p[0];
    return;
  }
  const Vector<T> zero{};
  Vector<T> sum = zero, product = zero;
  const auto add = [&](std::int64_t i, std::int64_t lanes) {
    const Vector<T> weights = load_lanes(p + i, lanes, T(0)), along = load_lanes(v + i, lanes, T(0));
    const Vector<T> s = weights > zero ? slope(weights) : zero;
    sum += s;
    product += weights > zero ? s * along : zero;
    if constexpr (!Slope::kCheap) store_lanes(out + i, lanes, s);
  };
  T mean;
  if (n <= kBlockSize<T>) {
    support.each(0, support.count, n, add);
    const T total = sum_lanes<T>(sum);
    mean = total > 0 ? sum_lanes<T>(product) / total : T(0);
  } else {
    LongSum<T> sums, products;
    for (std::int64_t k = 0; k < support.count; k += kBlock) {
      sum = product = zero;
      support.each(k, k + kBlock < support.count ? k + kBlock : support.count, n, add);
      sums.add(sum);
      products.add(product);
    }
    mean = static_cast<T>(products.total() / sums.total());
  }
  support.each(0, support.count, n, [&](std::int64_t i, std::int64_t lanes) {
    const Vector<T> saved = load_lanes(Slope::kCheap ? p + i : out + i, lanes, T(0));
    const Vector<T> along = load_lanes(v + i, lanes, T(0));
    const Vector<T> s = Slope::kCheap ? slope(saved) : saved;
    store_lanes(out + i, lanes, saved > zero ? s * (along - mean) : zero);
  });
}

// Rows of at most a block, as many at a time as a vector has lanes: their means come from one fold of all their sums.
template <class T, class Shape, class Slope>
inline void centred_short_rows(const T* p, const T* v, T* out, RowLength<T, Shape> n, std::int64_t count, Slope slope) {
  const Vector<T> zero{};
  alignas(kVectorBytes) T sums[kLanes<T> * kLanes<T>], products[kLanes<T> * kLanes<T>], means[kLanes<T>];
  for (std::int64_t row = 0; row < kLanes<T>; ++row) {
    Vector<T> sum = zero, product = zero;
    if (row < count)
      n.each_vector([&](std::int64_t at, std::int64_t lanes) {
        const std::int64_t i = row * n + at;
        const Vector<T> weights = load_lanes(p + i, lanes, T(0)), along = load_lanes(v + i, lanes, T(0));
        const Vector<T> s = weights > zero ? slope(weights) : zero;
        sum += s;
        product += weights > zero ? s * along : zero;
        if constexpr (!Slope::kCheap) store_lanes(out + i, lanes, s);
      });
    store(sums + row * kLanes<T>, sum);
    store(products + row * kLanes<T>, product);
  }
  const Vector<T> total = sums_of_lanes(sums);
  store(means, total > zero ? sums_of_lanes(products) / total : zero);
  for (std::int64_t row = 0; row < count; ++row) {
    if (p[row * n] != p[row * n]) {
      for (std::int64_t i = row * n; i < (row + 1) * n; ++i) out[i] = p[row * n];
      continue;
    }
    const T mean = means[row];
    n.each_vector([&](std::int64_t at, std::int64_t lanes) {
      const std::int64_t i = row * n + at;
      const Vector<T> saved = load_lanes(Slope::kCheap ? p + i : out + i, lanes, T(0));
      const Vector<T> along = load_lanes(v + i, lanes, T(0));
      const Vector<T> s = Slope::kCheap ? slope(saved) : saved;
      store_lanes(out + i, lanes, saved > zero ? s * (along - mean) : zero);
    });
  }
}

// The same for all rows of a problem.
template <template <class> class Problem, class T, class Slope>
inline void centred_rows(const Problem<T>& problem, std::int64_t begin, std::int64_t end, Slope slope) {
  const std::int64_t n = problem.columns;
  if (n <= kBlockSize<T>)
    return with_shape<T>(n, [&](auto shape) {
      const RowLength<T, decltype(shape)> length(n);
      for (std::int64_t row = begin; row < end; row += kLanes<T>)
        centred_short_rows(problem.weights + row * n, problem.direction + row * n, problem.product + row * n, length,
                           end - row < kLanes<T> ? end - row : std::int64_t(kLanes<T>), slope);
    });
  Supports<T> supports(n);
  supports.each(problem.weights, problem.direction, problem.product, begin, end, [&](std::int64_t row, auto support) {
    centred_row(problem.weights + row * n, problem.direction + row * n, problem.product + row * n, n, support, slope);
  });
}

struct UnitSlope {
  static constexpr bool kCheap = true;
  template <class V>
  V operator()(V) const {
    return V{} + typename Traits<V>::Number(1);
  }
};

struct RootSlope {
  static constexpr bool kCheap = false;
  template <class V>
  V operator()(V weights) const {
    return nearly_root(weights);
  }
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
