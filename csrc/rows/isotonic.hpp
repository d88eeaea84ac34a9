// Isotonic regression by pooling adjacent violators.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "rows/checks.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// argmin ||y - z||^2 over non-increasing y. Blocks are kept on a stack; each entry is pushed once and pooled at most
// once, so the time is linear. Equal neighbours do not violate and stay apart.
class Pooling {
 public:
  static std::int64_t bytes(std::int64_t n) { return Buffer::size<Block>(n + 1); }
  Pooling(Buffer& buffer, std::int64_t n) : blocks_(buffer.take<Block>(n + 1)) {}

  struct Block {
    double sum, size;
    std::int64_t stop;  // one past its last entry
  };

  // The blocks, in order; their means do not increase.
  struct Blocks {
    Block *first, *last;
    Block* begin() const { return first; }
    Block* end() const { return last; }
  };
  Blocks pool(const double* z, std::int64_t n) { return pool(z, n, {0, 0, n}); }

  // The same where the entries from `known.stop - known.size` to `known.stop` are known to be in one block: they need
  // not be in order, and only their sum is read.
  Blocks pool(const double* z, std::int64_t n, const Block& known) {
    const std::int64_t start = known.stop - static_cast<std::int64_t>(known.size);
    Block* top = blocks_;  // a sentinel that nothing violates
    *top = {__builtin_inf(), 1, 0};
    for (std::int64_t i = 0; i < start; ++i) top = push(top, {z[i], 1, i + 1});
    if (known.size > 0) top = push(top, known);
    for (std::int64_t i = known.stop; i < n; ++i) top = push(top, {z[i], 1, i + 1});
    return {blocks_ + 1, top + 1};
  }

  void non_increasing(const double* z, std::int64_t n, double* y, bool* joined) {
    std::int64_t start = 0;
    for (const Block& block : pool(z, n)) {
      const double mean = block.sum / block.size;
      for (std::int64_t i = start; i < block.stop; ++i) {
        y[i] = mean;
        joined[i] = i > start;
      }
      start = block.stop;
    }
  }

 private:
  static Block* push(Block* top, Block block) {
    // mean(top) < mean(block), without dividing
    while (top->sum * block.size < block.sum * top->size) {
      block.sum += top->sum;
      block.size += top->size;
      --top;
    }
    *++top = block;
    return top;
  }

  Block* blocks_;
};

template <class T>
void run(const Isotonic<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(2 * Buffer::size<double>(n) + Pooling::bytes(n));
  double* z = buffer.take<double>(n);
  double* y = buffer.take<double>(n);
  Pooling pooling(buffer, n);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = problem.rows + row * n;
    T* out = problem.solution + row * n;
    bool* joined = problem.joined + row * n;
    if (!all_finite(x, n)) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(__builtin_nan(""));
      std::memset(joined, 0, n);
      continue;
    }
    for (std::int64_t i = 0; i < n; ++i) z[i] = -static_cast<double>(x[i]);  // non-decreasing: turn it upside down
    pooling.non_increasing(z, n, y, joined);
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(-y[i]);
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
