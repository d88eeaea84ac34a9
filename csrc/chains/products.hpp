// Products of a small matrix with one vector or a few, and sums of outer products: what forward-backward consists of.
// Rows are padded to whole vectors.
#pragma once

#include "core/simd.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

// to = sum over k of x_k matrix_k, for `blocks` vectors of columns; several sums at once hide the latency.
template <int kBlocks, int kWays, class T>
inline void combine_blocks(const T* x, const T* matrix, std::int64_t rows, std::int64_t width, T* to) {
  Vector<T> sum[kWays][kBlocks] = {};
  std::int64_t k = 0;
  for (; k + kWays <= rows; k += kWays)
    for (int way = 0; way < kWays; ++way)
      for (int block = 0; block < kBlocks; ++block)
        sum[way][block] += x[k + way] * load(matrix + (k + way) * width + block * kLanes<T>);
  for (; k < rows; ++k)
    for (int block = 0; block < kBlocks; ++block) sum[0][block] += x[k] * load(matrix + k * width + block * kLanes<T>);
  for (int block = 0; block < kBlocks; ++block) {
    Vector<T> total = sum[0][block];
    for (int way = 1; way < kWays; ++way) total += sum[way][block];
    store(to + block * kLanes<T>, total);
  }
}

template <class T>
inline void combine(const T* x, const T* matrix, std::int64_t rows, std::int64_t width, T* to) {
  std::int64_t j = 0;
  for (; j + 4 * kLanes<T> <= width; j += 4 * kLanes<T>) combine_blocks<4, 2>(x, matrix + j, rows, width, to + j);
  for (; j + 2 * kLanes<T> <= width; j += 2 * kLanes<T>) combine_blocks<2, 4>(x, matrix + j, rows, width, to + j);
  for (; j < width; j += kLanes<T>) combine_blocks<1, 4>(x, matrix + j, rows, width, to + j);
}

constexpr int kTogether = 8;  // places whose products are taken together: a matrix is then read once for several

// The same for kRows vectors x, one after the other.
template <int kRows, int kBlocks, class T>
inline void combine_rows_blocks(const T* x, const T* matrix, std::int64_t rows, std::int64_t width, T* to) {
  Vector<T> sum[kRows][kBlocks] = {};
  for (std::int64_t k = 0; k < rows; ++k)
    for (int block = 0; block < kBlocks; ++block) {
      const Vector<T> row = load(matrix + k * width + block * kLanes<T>);
      for (int r = 0; r < kRows; ++r) sum[r][block] += x[r * width + k] * row;
    }
  for (int r = 0; r < kRows; ++r)
    for (int block = 0; block < kBlocks; ++block) store(to + r * width + block * kLanes<T>, sum[r][block]);
}

// For `count` vectors, rounded up to a multiple of four; at most kTogether.
template <class T>
inline void combine_rows(const T* x, int count, const T* matrix, std::int64_t rows, std::int64_t width, T* to) {
  constexpr int kRows = 4, kBlocks = kVectorBytes == 64 ? 4 : 2;  // as many sums as there are registers
  for (int r = 0; r < count; r += kRows) {
    const T* from = x + r * width;
    T* into = to + r * width;
    std::int64_t j = 0;
    for (; j + kBlocks * kLanes<T> <= width; j += kBlocks * kLanes<T>)
      combine_rows_blocks<kRows, kBlocks>(from, matrix + j, rows, width, into + j);
    for (; j < width; j += kLanes<T>) combine_rows_blocks<kRows, 1>(from, matrix + j, rows, width, into + j);
  }
}

// sums_ij += sum over k of left_ki right_kj, for kTogether vectors on either side.
template <class T>
inline void add_outer(const T* left, const T* right, std::int64_t rows, std::int64_t width, T* sums) {
  for (std::int64_t j = 0; j < width; j += kLanes<T>) {
    Vector<T> r[kTogether];
    for (int k = 0; k < kTogether; ++k) r[k] = load(right + k * width + j);
    for (std::int64_t i = 0; i < rows; ++i) {
      Vector<T> even = load(sums + i * width + j), odd{};
      for (int k = 0; k < kTogether; k += 2) {
        even += left[k * width + i] * r[k];
        odd += left[(k + 1) * width + i] * r[k + 1];
      }
      store<T>(sums + i * width + j, even + odd);
    }
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
