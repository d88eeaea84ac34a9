// Transposes square blocks of a matrix in registers: as many vectors as a vector has lanes.
#pragma once

#include "core/simd.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

#if defined(__GNUC__) && !defined(__clang__)
constexpr bool kHasTranspose = true;

// One stage of a transposition: swaps the odd blocks (of `distance` lanes) of a with the even ones of b.
template <int distance, class T>
inline void swap_blocks(Vector<T>& a, Vector<T>& b) {
  using Index = typename Traits<Vector<T>>::Integer;
  constexpr int lanes = kLanes<T>;
  Index first, second;
  for (int lane = 0; lane < lanes; ++lane) {
    const bool odd = (lane / distance) % 2 == 1;
    first[lane] = odd ? lane - distance + lanes : lane;
    second[lane] = odd ? lane + lanes : lane + distance;
  }
  const Vector<T> low = __builtin_shuffle(a, b, first);
  b = __builtin_shuffle(a, b, second);
  a = low;
}

template <int distance, class T, int size>
inline void transpose_stage(Vector<T>* tile) {
#pragma GCC unroll 16
  for (int i = 0; i < size; ++i)
    if ((i / distance) % 2 == 0) swap_blocks<distance, T>(tile[i], tile[i + distance]);
}

// `size` vectors of one block of that size, or of several, each of which is turned.
template <class T, int size>
inline void transpose_part(Vector<T>* tile) {
  if constexpr (size > 1) transpose_stage<1, T, size>(tile);
  if constexpr (size > 2) transpose_stage<2, T, size>(tile);
  if constexpr (size > 4) transpose_stage<4, T, size>(tile);
  if constexpr (size > 8) transpose_stage<8, T, size>(tile);
}

template <class T>
inline void transpose(Vector<T>* tile) {
  transpose_part<T, kLanes<T>>(tile);
}

// Two rows become one, in which neighbouring blocks of `distance` lanes are added up.
template <int distance, class T>
inline void fold_stage(Vector<T>* tile) {
#pragma GCC unroll 8
  for (int i = 0; i < kLanes<T> / 2 / distance; ++i) {
    Vector<T> a = tile[2 * i], b = tile[2 * i + 1];
    swap_blocks<distance, T>(a, b);
    tile[i] = a + b;
  }
}

// The sums of the lanes of as many vectors, one per lane: fewer instructions than one sum after the other.
template <class T>
inline Vector<T> sums_of_lanes(const T* vectors) {
  Vector<T> tile[kLanes<T>];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) tile[i] = load(vectors + i * kLanes<T>);
  fold_stage<1, T>(tile);
  if constexpr (kLanes < T >> 2) fold_stage<2, T>(tile);
  if constexpr (kLanes < T >> 4) fold_stage<4, T>(tile);
  if constexpr (kLanes < T >> 8) fold_stage<8, T>(tile);
  return tile[0];
}
#else
constexpr bool kHasTranspose = false;

template <class T>
inline void transpose(Vector<T>*) {}

template <class T>
inline Vector<T> sums_of_lanes(const T* vectors) {
  Vector<T> sums;
  for (int i = 0; i < kLanes<T>; ++i) sums[i] = sum_lanes<T>(load(vectors + i * kLanes<T>));
  return sums;
}
#endif

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
