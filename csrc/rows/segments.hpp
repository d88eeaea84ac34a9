// The last step of total variation denoising: from where the solution falls and rises to the solution.
#pragma once

#include <cstdint>

#include "core/simd.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr unsigned char kFalls = 0, kJoined = 1, kRises = 2;

// Where a segment begins, and whether the solution falls or rises there.
struct TvCut {
  std::int64_t at;
  unsigned char direction;
};

// argmin_y 1/2 ||y - x||^2 + strength sum |y_{i+1} - y_i|
struct TvTask {
  const double* x;
  std::int64_t n;
  double strength;
  double* y;
  bool* joined;  // joined[k]: k and k - 1 are in one segment
  // For a piece of a sequence: solve only up to `limit`, and say where the first segment from there on begins.
  TvCut* cut = nullptr;
  std::int64_t limit = 0;
  // While the task is being solved, marks are kept there: how the solution goes on from k - 1 to k.
  unsigned char* marks() const { return reinterpret_cast<unsigned char*>(joined); }
};

// Each segment's value is the mean of x, moved by strength towards each neighbouring segment: exact to rounding, and
// the same whichever way the segments were found.
#if defined(__AVX512F__)
inline __mmask8 first_lanes(std::int64_t count) {
  return static_cast<__mmask8>(count >= kLanes<double> ? 0xff : (1u << count) - 1);
}

inline void finish_segments(const TvTask& task) {
  constexpr int wide = kLanes<double>;
  unsigned char* marks = task.marks();
  marks[0] = kJoined;
  std::int64_t start = 0;
  double left = 0;
  const auto segment = [&](std::int64_t stop, double right) {
    __m512d sum = _mm512_setzero_pd();
    for (std::int64_t i = start; i < stop; i += wide)
      sum = _mm512_add_pd(sum, _mm512_maskz_loadu_pd(first_lanes(stop - i), task.x + i));
    const double mean = (_mm512_reduce_add_pd(sum) + (left + right)) / static_cast<double>(stop - start);
    for (; start < stop; start += wide)
      _mm512_mask_storeu_pd(task.y + start, first_lanes(stop - start), _mm512_set1_pd(mean));
    start = stop;
    left = -right;
  };
  for (std::int64_t i = 0; i < task.n; i += 64) {
    const __mmask64 there = task.n - i >= 64 ? ~__mmask64(0) : (__mmask64(1) << (task.n - i)) - 1;
    const __m512i block = _mm512_maskz_loadu_epi8(there, marks + i);
    const __mmask64 rises = _mm512_mask_cmpeq_epi8_mask(there, block, _mm512_set1_epi8(kRises));
    const __mmask64 cuts = _mm512_mask_cmpneq_epi8_mask(there, block, _mm512_set1_epi8(kJoined));
    _mm512_mask_storeu_epi8(marks + i, there, _mm512_maskz_set1_epi8(~cuts, 1));
    for (__mmask64 rest = cuts; rest != 0; rest &= rest - 1) {
      const int at = __builtin_ctzll(rest);
      segment(i + at, rises >> at & 1u ? task.strength : -task.strength);
    }
  }
  segment(task.n, 0);
  marks[0] = 0;
}
#endif

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
