// The best of many scores, exactly and nearly.
#pragma once

#include "core/rows.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// The k-th largest of n numbers, 1 <= k <= n, without NaN among them; their order is lost.
template <class T>
inline T kth_largest(T* x, std::int64_t n, std::int64_t k) {
  std::int64_t low = 0, high = n - 1, wanted = k - 1;
  while (low < high) {
    const T pivot = x[low + (high - low) / 2];
    std::int64_t i = low, j = high;
    while (i <= j) {
      while (x[i] > pivot) ++i;
      while (x[j] < pivot) --j;
      if (i > j) break;
      const T kept = x[i];
      x[i++] = x[j];
      x[j--] = kept;
    }
    if (wanted <= j) high = j;
    else if (wanted >= i) low = i;
    else return x[wanted];
  }
  return x[wanted];
}

// A number that at least k of n numbers are not below, and at most `spare` more, unless many are nearly equal:
// bisection between bounds that hold at least k numbers, and fewer. -inf where there are not so many finite numbers. No
// NaN or +inf.
template <class T>
inline T nearly_kth_largest(const T* x, std::int64_t n, double k, double spare) {
  constexpr int kBisections = 24;
  const Vector<T> infinity = splat(kInfinity<T>);
  Vector<T> tops = -infinity, bottoms = -infinity;
  each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) {
    const Vector<T> y = load_lanes(x + i, lanes, -kInfinity<T>);
    tops = larger(y, tops);
    bottoms = larger(y > -infinity ? -y : -infinity, bottoms);
  });
  T high = largest_lane<T>(tops), low = -largest_lane<T>(bottoms);
  const auto count_from = [&](T level) {
    const Vector<T> levels = splat(level);
    std::int64_t count = 0;
    each_vector<T>(n, [&](std::int64_t i, std::int64_t lanes) {
      count += __builtin_popcount(kAllLanes<T> & ~where_greater(levels, load_lanes(x + i, lanes, -kInfinity<T>)));
    });
    return static_cast<double>(count);
  };
  if (!(low <= high) || count_from(low) < k) return -kInfinity<T>;
  for (int step = 0; step < kBisections; ++step) {
    const T middle = low / 2 + high / 2;
    if (!(low < middle && middle < high)) break;
    const double count = count_from(middle);
    if (count < k) high = middle;
    else low = middle;
    if (count >= k && count <= k + spare) break;
  }
  return low;
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
