// The Jacobian of a threshold problem times a direction: s (v - <s, v> / sum s), with a slope s > 0 on the support of p
// and zero elsewhere. Only the vectors of the row that hold some weight are read and computed with.
#pragma once

#include "rows.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Room for the offsets of the vectors of a row that hold some weight.
template <class T>
class Support {
 public:
  explicit Support(std::int64_t n) : offsets_((n + kLanes<T> - 1) / kLanes<T>) {}

  // Finds them and returns how many there are.
  std::int64_t find(const T* p, std::int64_t n) {
    std::int64_t* const offsets = offsets_.get();
    std::int64_t count = 0;
    each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) {
      offsets[count] = i;  // no branch, which could not be predicted
      count += where_greater(load_lanes(p + i, lanes, T(0)), Vector<T>{}) != 0;
    });
    return count;
  }

  // Calls f(offset, lanes) for those numbered first..last.
  template <class F>
  void each(std::int64_t first, std::int64_t last, std::int64_t n, F f) const {
    const std::int64_t* const offsets = offsets_.get();
    for (std::int64_t k = first; k < last; ++k) {
      const std::int64_t i = offsets[k];
      if (i + kLanes<T> <= n) f(i, std::int64_t(kLanes<T>));
      else f(i, n - i);
    }
  }

 private:
  Scratch<std::int64_t> offsets_;
};

// `Slope` maps positive weights to s; what it makes of zeros does not matter. A cheap one is computed twice.
template <class T, class Slope>
inline void centred_row(const T* p, const T* v, T* out, std::int64_t n, Support<T>& support, Slope slope) {
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
  const auto write = [&](std::int64_t i, std::int64_t lanes) {
    const Vector<T> saved = load_lanes(Slope::kCheap ? p + i : out + i, lanes, T(0));
    const Vector<T> along = load_lanes(v + i, lanes, T(0));
    const Vector<T> s = Slope::kCheap ? slope(saved) : saved;
    store_lanes(out + i, lanes, saved > zero ? s * (along - mean) : zero);
  };
  if (n <= kBlockSize<T>) {  // to look for the support would cost more than it saves
    each_vector<T>(n, add);
    const T total = sum_lanes<T>(sum);
    mean = total > 0 ? sum_lanes<T>(product) / total : T(0);
    return each_vector<T>(n, write);
  }
  const std::int64_t count = support.find(p, n);
  if (count * kLanes<T> < n)
    each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) { store_lanes(out + i, lanes, zero); });
  LongSum<T> sums, products;
  for (std::int64_t k = 0; k < count; k += kBlock) {
    sum = product = zero;
    support.each(k, k + kBlock < count ? k + kBlock : count, n, add);
    sums.add(sum);
    products.add(product);
  }
  mean = static_cast<T>(products.total() / sums.total());
  support.each(0, count, n, write);
}

struct UnitSlope {
  static constexpr bool kCheap = true;
  template <class V> V operator()(V) const { return V{} + typename Traits<V>::Number(1); }
};

struct RootSlope {
  static constexpr bool kCheap = false;
  template <class V> V operator()(V weights) const { return root(weights); }
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
