// Products with, and sums of, a few rows of a matrix, given by their numbers.
#pragma once

#include "attention/row_inputs.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Asks for a few rows before they are needed: where they are cannot be foreseen by the processor.
template <class T>
inline void prefetch_rows(const T* rows, std::int64_t size, const std::int32_t* indices, std::int64_t count) {
  constexpr std::int64_t kMost = 64, kLine = 64 / static_cast<std::int64_t>(sizeof(T));
  if (size > 16 * kLine) return;
  for (std::int64_t i = 0; i < count && i < kMost; ++i)
    for (std::int64_t f = 0; f < size; f += kLine)
      __builtin_prefetch(rows + static_cast<std::int64_t>(indices[i]) * size + f);
}

// out[i] = <x, row indices[i] of rows>.
template <class T>
inline void gathered_products(const T* x, const T* rows, std::int64_t size, const std::int32_t* indices,
                              std::int64_t count, T* out) {
  constexpr std::int64_t kAtOnce = 4;
  const std::int64_t whole = size / kLanes<T> * kLanes<T>, rest = size - whole;
  std::int64_t i = 0;
  for (; i < count; i += kAtOnce) {
    const T* at[kAtOnce];
    for (std::int64_t r = 0; r < kAtOnce; ++r)
      at[r] = rows + static_cast<std::int64_t>(indices[i + r < count ? i + r : count - 1]) * size;
    Vector<T> s0{}, s1{}, s2{}, s3{};
    for (std::int64_t f = 0; f < whole; f += kLanes<T>) {
      const Vector<T> q = load(x + f);
      s0 += q * load(at[0] + f);
      s1 += q * load(at[1] + f);
      s2 += q * load(at[2] + f);
      s3 += q * load(at[3] + f);
    }
    if (rest > 0) {
      const Vector<T> q = load_some(x + whole, rest, T(0));
      s0 += q * load_some(at[0] + whole, rest, T(0));
      s1 += q * load_some(at[1] + whole, rest, T(0));
      s2 += q * load_some(at[2] + whole, rest, T(0));
      s3 += q * load_some(at[3] + whole, rest, T(0));
    }
    const T sums[kAtOnce] = {sum_lanes<T>(s0), sum_lanes<T>(s1), sum_lanes<T>(s2), sum_lanes<T>(s3)};
    for (std::int64_t r = 0; r < kAtOnce && i + r < count; ++r) out[i + r] = sums[r];
  }
}

// out = sum of weights[i] * row indices[i] of rows.
template <class T>
inline void gathered_sum(const T* weights, const T* rows, std::int64_t size, const std::int32_t* indices,
                         std::int64_t count, T* out) {
  constexpr std::int64_t kWide = 4 * kLanes<T>;
  std::int64_t f = 0;
  for (; f + kWide <= size; f += kWide) {
    Vector<T> s0{}, s1{}, s2{}, s3{};
    for (std::int64_t i = 0; i < count; ++i) {
      const T* row = rows + static_cast<std::int64_t>(indices[i]) * size + f;
      const Vector<T> w = splat(weights[i]);
      s0 += w * load(row);
      s1 += w * load(row + kLanes<T>);
      s2 += w * load(row + 2 * kLanes<T>);
      s3 += w * load(row + 3 * kLanes<T>);
    }
    store(out + f, s0);
    store(out + f + kLanes<T>, s1);
    store(out + f + 2 * kLanes<T>, s2);
    store(out + f + 3 * kLanes<T>, s3);
  }
  each_vector<T>(size - f, [&](std::int64_t at, std::int64_t lanes) {
    Vector<T> sum{};
    for (std::int64_t i = 0; i < count; ++i)
      sum += splat(weights[i]) * load_lanes(rows + static_cast<std::int64_t>(indices[i]) * size + f + at, lanes, T(0));
    store_lanes(out + f + at, lanes, sum);
  });
}

// to += weight * from.
template <class T>
inline void add_scaled(T* to, T weight, const T* from, std::int64_t size) {
  const Vector<T> w = splat(weight);
  each_vector<T>(size, [&](std::int64_t at, std::int64_t lanes) {
    store_lanes(to + at, lanes, load_lanes(to + at, lanes, T(0)) + w * load_lanes(from + at, lanes, T(0)));
  });
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
