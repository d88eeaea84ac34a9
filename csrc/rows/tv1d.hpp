// prox_tv1d: total variation denoising of every row.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "rows/checks.hpp"
#include "rows/total_variation.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
void run(const ProxTv1d<T>& problem, std::int64_t begin, std::int64_t end) {
  using Task = TotalVariation::Task;
  constexpr int most = 64;
  const std::int64_t n = problem.columns;
  const int together = n <= 512 ? most : 16;  // enough to fill the lanes
  Buffer buffer(2 * Buffer::size<double>(together * n) + TotalVariation::bytes(n));
  double* x = buffer.take<double>(together * n);
  double* y = buffer.take<double>(together * n);
  TotalVariation solver(buffer, n);
  Task tasks[most];
  int used = 0;
  const auto finish = [&] {
    std::int64_t rows[most];
    for (int t = 0; t < used; ++t) rows[t] = tasks[t].joined - problem.joined;
    solver.solve(tasks, used);
    for (int t = 0; t < used; ++t)
      for (std::int64_t i = 0; i < n; ++i) problem.solution[rows[t] + i] = static_cast<T>(y[t * n + i]);
    used = 0;
  };
  for (std::int64_t row = begin; row < end; ++row) {
    const T* in = problem.rows + row * n;
    bool* joined = problem.joined + row * n;
    const double strength = problem.strengths ? problem.strengths[row] : problem.strength;
    if (!valid_strength(strength) || !all_finite(in, n)) {
      for (std::int64_t i = 0; i < n; ++i) problem.solution[row * n + i] = static_cast<T>(__builtin_nan(""));
      std::memset(joined, 0, n);
      continue;
    }
    for (std::int64_t i = 0; i < n; ++i) x[used * n + i] = in[i];
    tasks[used] = {x + used * n, n, strength, y + used * n, joined};
    if (++used == together) finish();
  }
  finish();
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
