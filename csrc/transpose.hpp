// Square blocks of a matrix turned in registers: as many vectors as a vector has lanes.
#pragma once

#include "simd.hpp"

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

template <int distance, class T>
inline void transpose_stage(Vector<T>* tile) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i)
    if ((i / distance) % 2 == 0) swap_blocks<distance, T>(tile[i], tile[i + distance]);
}

template <class T>
inline void transpose(Vector<T>* tile) {
  transpose_stage<1, T>(tile);
  if constexpr (kLanes<T> > 2) transpose_stage<2, T>(tile);
  if constexpr (kLanes<T> > 4) transpose_stage<4, T>(tile);
  if constexpr (kLanes<T> > 8) transpose_stage<8, T>(tile);
}
#else
constexpr bool kHasTranspose = false;

template <class T>
inline void transpose(Vector<T>*) {}
#endif

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
