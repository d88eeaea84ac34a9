// The mean over each segment: the Jacobian of total variation denoising and of isotonic regression, times a direction.
#pragma once

#include <cstdint>

#include "core/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
void run(const SegmentMean<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  for (std::int64_t row = begin; row < end; ++row) {
    const bool* joined = problem.joined + row * n;
    const T* v = problem.direction + row * n;
    T* out = problem.mean + row * n;
    for (std::int64_t start = 0; start < n;) {
      double sum = v[start];
      std::int64_t stop = start + 1;
      for (; stop < n && joined[stop]; ++stop) sum += v[stop];
      const T mean = static_cast<T>(sum / static_cast<double>(stop - start));
      for (std::int64_t i = start; i < stop; ++i) out[i] = mean;
      start = stop;
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
