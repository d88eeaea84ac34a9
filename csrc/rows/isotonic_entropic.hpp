// Isotonic optimisation with exponential blocks: the dual of the entropic projection onto a permutahedron.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/buffer.hpp"
#include "core/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Non-increasing v that minimises sum_i exp(s_i - v_i) + exp(w_i) v_i. On a block B the optimum is
// log sum_B exp(s) - log sum_B exp(w), which is pooled like a mean: sums stay logarithms, so nothing overflows.
class EntropicPooling {
 public:
  struct Block {
    double top, bottom;  // log sum exp of s and of w; the bottom may be -inf, then the level is +inf
    std::int64_t stop;   // one past its last entry
    double level() const { return top - bottom; }
  };

  static std::int64_t bytes(std::int64_t n) { return Buffer::size<Block>(n + 1); }
  EntropicPooling(Buffer& buffer, std::int64_t n) : blocks_(buffer.take<Block>(n + 1)) {}

  template <class T>
  void run(const T* s, const T* w, std::int64_t n, T* solution, bool* joined) {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      Block block{static_cast<double>(s[i]), static_cast<double>(w[i]), i + 1};
      while (count > 0 && blocks_[count - 1].level() < block.level()) {
        const Block& before = blocks_[--count];
        block.top = log_add(before.top, block.top);
        block.bottom = log_add(before.bottom, block.bottom);
      }
      blocks_[count++] = block;
    }
    std::int64_t start = 0;
    for (std::int64_t b = 0; b < count; ++b) {
      const T level = static_cast<T>(blocks_[b].level());
      for (std::int64_t i = start; i < blocks_[b].stop; ++i) {
        solution[i] = level;
        joined[i] = i > start;
      }
      start = blocks_[b].stop;
    }
  }

 private:
  static double log_add(double a, double b) {
    const double high = a > b ? a : b, low = a > b ? b : a;
    return low == -__builtin_inf() ? high : high + std::log1p(std::exp(low - high));
  }

  Block* blocks_;
};

template <class T>
void run(const IsotonicEntropic<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(EntropicPooling::bytes(n));
  EntropicPooling pooling(buffer, n);
  const T infinity = static_cast<T>(__builtin_inf());
  for (std::int64_t row = begin; row < end; ++row) {
    const T *s = problem.rows + row * n, *w = problem.targets + row * n;
    T* solution = problem.solution + row * n;
    bool* joined = problem.joined + row * n;
    bool valid = true;  // w may be -inf, not before a finite one of its block is there
    for (std::int64_t i = 0; i < n; ++i) valid &= s[i] < infinity && s[i] > -infinity && w[i] < infinity;
    if (n > 0) valid &= w[0] > -infinity;
    if (valid) {
      pooling.run(s, w, n, solution, joined);
      continue;
    }
    for (std::int64_t i = 0; i < n; ++i) solution[i] = static_cast<T>(__builtin_nan(""));
    std::memset(joined, 0, n);
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
