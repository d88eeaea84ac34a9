// The columns of each row of a band, for a grid of m rows and n columns; see omegamax/structures/bands.py.
#pragma once

#include <cstdint>

#include "series/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

inline std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {  // b > 0
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

// Writes the first and the last column of every row, from 0 to n - 1. Both never decrease, and there is always a path.
inline void band_rows(SeriesBand kind, double reach, std::int64_t m, std::int64_t n, std::int32_t* first,
                      std::int32_t* last) {
  const std::int64_t longest = (m > n ? m : n) - 1, step = 2 * (m - 1);
  double width = kind == SeriesBand::kSakoeChiba ? 2 * reach : 0;
  width = width < 1                                        ? 1
          : width > 2.0 * static_cast<double>(longest) + 2 ? 2.0 * static_cast<double>(longest) + 2
                                                           : width;
  const std::int64_t far = static_cast<std::int64_t>(width) * longest;
  for (std::int64_t i = 0; i < m; ++i) {
    std::int64_t begin = 0, end = n - 1;
    if (kind != SeriesBand::kNone && step > 0) {
      begin = -floor_quotient(far - 2 * i * (n - 1), step);
      end = floor_quotient(far + 2 * i * (n - 1), step);
    }
    if (kind == SeriesBand::kItakura) {
      const double x = static_cast<double>(i) / static_cast<double>(m > 1 ? m - 1 : 1);
      const double size = static_cast<double>(n - 1), slack = 1e-9 * static_cast<double>(n);
      const double low_a = x / reach, low_b = 1 - reach * (1 - x), high_a = reach * x, high_b = 1 - (1 - x) / reach;
      const double low = (low_a > low_b ? low_a : low_b) * size - slack;
      const double high = (high_a < high_b ? high_a : high_b) * size + slack;
      std::int64_t inner = static_cast<std::int64_t>(low);  // towards zero
      inner += static_cast<double>(inner) < low ? 1 : 0;
      std::int64_t outer = static_cast<std::int64_t>(high);
      outer -= static_cast<double>(outer) > high ? 1 : 0;
      begin = inner < begin ? inner : begin;
      end = outer > end ? outer : end;
    }
    first[i] = static_cast<std::int32_t>(begin < 0 ? 0 : begin);
    last[i] = static_cast<std::int32_t>(end > n - 1 ? n - 1 : end);
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
