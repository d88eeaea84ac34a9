// The Jacobian of fusedmax times a direction.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "rows/candidates.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// On the support: the mean of the direction over each segment, minus its mean over the support.
template <class T>
void run(const FusedmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<std::int32_t>(n + kSlack));
  std::int32_t* support = buffer.take<std::int32_t>(n + kSlack);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* p = problem.weights + row * n;
    const bool* joined = problem.joined + row * n;
    const T* v = problem.direction + row * n;
    T* out = problem.product + row * n;
    const std::int64_t size = gather_support(p, n, support);
    std::memset(out, 0, n * sizeof(T));
    double total = 0;
    for (std::int64_t k = 0; k < size; ++k) total += v[support[k]] + 0 * p[support[k]];
    const double mean = size > 0 ? total / static_cast<double>(size) : 0;
    for (std::int64_t start = 0; start < size;) {
      double sum = v[support[start]];
      std::int64_t stop = start + 1;
      for (; stop < size && joined[support[stop]]; ++stop) sum += v[support[stop]];
      const T centred = static_cast<T>(sum / static_cast<double>(stop - start) - mean);
      for (; start < stop; ++start) out[support[start]] = centred;
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
