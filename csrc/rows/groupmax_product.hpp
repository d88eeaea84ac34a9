// The Jacobian of groupmax times a direction.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/problems.hpp"
#include "rows/candidates.hpp"
#include "rows/group_blocks.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// J v = M v - M 1 (1'M v)/(1'M 1) on the support, with M_g = keep I + pull p_g p_g', where n = ||p_g||, r = n +
// strength, keep = n/r and pull = strength/r/n^2. Written per group as keep (v - centre) + bend p, from sums over the
// group.
template <class T>
inline void group_product(const GroupBlocks& blocks, const T* p, const T* v, T* out, double* keeps, double* bends,
                          double strength) {
  constexpr int parts = kParts<double, T>;
  const Doubles zero{}, one = splat(1.0);
  Doubles total_along = zero, total_ones = zero;
  double *keep_to = keeps, *bend_to = bends;  // of a lane: keep; then pull <p, v> and pull <p, 1>
  for (const GroupBlock& block : blocks) {
    Doubles squares[parts] = {}, sum[parts] = {}, along[parts] = {}, direction[parts] = {}, count[parts] = {};
    std::int64_t at = std::int64_t(block.start) * kLanes<T>;
    for (std::int32_t d = 0; d < block.depth; ++d, at += kLanes<T>)
      for (int k = 0; k < parts; ++k) {
        const Doubles weight = load_as<double>(p + at + k * kLanes<double>);
        const Doubles inside = weight != zero ? load_as<double>(v + at + k * kLanes<double>) : zero;
        squares[k] += weight * weight;
        sum[k] += weight;
        along[k] += weight * inside;
        direction[k] += inside;
        count[k] += weight != zero ? one : zero;
      }
    double part = 1;
    if (block.whole) {
      share<double>(squares);
      share<double>(sum);
      share<double>(along);
      share<double>(direction);
      share<double>(count);
      part = 1.0 / kLanes<T>;
    }
    for (int k = 0; k < parts; ++k, keep_to += kLanes<double>, bend_to += 2 * kLanes<double>) {
      const Doubles size = larger(splat(1e-300), squares[k]);  // not zero, so that a lane without weights gives zero
      const Doubles norm = root(size), r = norm + strength, keep = norm / r, pull = strength / r / size;
      total_along += part * (keep * direction[k] + pull * sum[k] * along[k]);
      total_ones += part * (keep * count[k] + pull * sum[k] * sum[k]);
      store(keep_to, keep);
      store(bend_to, pull * along[k]);
      store(bend_to + kLanes<double>, pull * sum[k]);
    }
  }
  const double ones = sum_lanes<double>(total_ones), centre = ones == 0 ? 0 : sum_lanes<double>(total_along) / ones;
  for (const GroupBlock& block : blocks) {
    Doubles keep[parts], bend[parts];
    for (int k = 0; k < parts; ++k, keeps += kLanes<double>, bends += 2 * kLanes<double>) {
      keep[k] = load(keeps);
      bend[k] = load(bends) - centre * load(bends + kLanes<double>);
    }
    std::int64_t at = std::int64_t(block.start) * kLanes<T>;
    for (std::int32_t d = 0; d < block.depth; ++d, at += kLanes<T>)
      for (int k = 0; k < parts; ++k) {
        const Doubles weight = load_as<double>(p + at + k * kLanes<double>);
        const Doubles product = keep[k] * (load_as<double>(v + at + k * kLanes<double>) - centre) + bend[k] * weight;
        store_from<double>(out + at + k * kLanes<double>, weight != zero ? product : zero);
      }
  }
}

template <class T>
void run(const GroupmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns, places = GroupBlocks::capacity(n, kLanes<T>);
  Buffer buffer(Buffer::size<std::int32_t>(n + kSlack) + 2 * GroupBlocks::bytes(n) + GroupNumbers::bytes(n) +
                5 * Buffer::size<T>(places) + Buffer::size<double>(places) + Buffer::size<double>(2 * places));
  std::int32_t* support = buffer.take<std::int32_t>(n + kSlack);
  GroupBlocks all(buffer, n, kLanes<T>), some(buffer, n, kLanes<T>);
  GroupNumbers numbers(buffer, problem.groups, n);
  T* p_all = buffer.take<T>(places);
  T* v_all = buffer.take<T>(places);
  T* p_some = buffer.take<T>(places);
  T* v_some = buffer.take<T>(places);
  T* product = buffer.take<T>(places);
  double* keeps = buffer.take<double>(places);
  double* bends = buffer.take<double>(2 * places);
  bool arranged = false;
  for (std::int64_t row = begin; row < end; ++row) {
    const T* p = problem.weights + row * n;
    const T* v = problem.direction + row * n;
    T* out = problem.product + row * n;
    const double strength = problem.strengths ? problem.strengths[row] : problem.strength;
    const std::int64_t size = gather_support(p, n, support);
    if (size > n / 4) {
      if (!arranged) {
        numbers.arrange(all, n, [](std::int64_t i) { return i; });
        for (std::int64_t i = 0; i < all.places(); ++i) p_all[i] = v_all[i] = 0;
        arranged = true;
      }
      const std::int32_t* slot = all.slot();
      for (std::int64_t i = 0; i < n; ++i) {
        p_all[slot[i]] = p[i];
        v_all[slot[i]] = v[i];
      }
      group_product(all, p_all, v_all, product, keeps, bends, strength);
      for (std::int64_t i = 0; i < n; ++i) out[i] = product[slot[i]];
      continue;
    }
    numbers.arrange(some, size, [&](std::int64_t i) { return support[i]; });
    for (std::int64_t i = 0; i < some.places(); ++i) p_some[i] = v_some[i] = 0;
    const std::int32_t* slot = some.slot();
    for (std::int64_t i = 0; i < size; ++i) {
      p_some[slot[i]] = p[support[i]];
      v_some[slot[i]] = v[support[i]];
    }
    group_product(some, p_some, v_some, product, keeps, bends, strength);
    std::memset(out, 0, n * sizeof(T));
    for (std::int64_t i = 0; i < size; ++i) out[support[i]] = product[slot[i]];
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
