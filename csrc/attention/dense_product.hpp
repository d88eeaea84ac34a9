// Products of matrices for blocks of queries of which most keys have weight. One thread computes one block, in tiles
// whose sums stay in registers.
#pragma once

#include "attention/included.hpp"
#include "attention/problems.hpp"
#include "core/transpose.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr int kProductRows = 6;  // of a tile: with its vectors, three quarters of the registers
#if defined(__AVX512F__)
constexpr int kProductVectors = 4;
#else
constexpr int kProductVectors = 2;
#endif

// C = A B or C += A B. A may be transposed: its rows and its steps (which are the rows of B) have strides of their own.
template <class T>
struct MatrixProduct {
  const T* a;
  std::int64_t a_row, a_step;
  const T* b;
  std::int64_t b_step;
  T* c;
  std::int64_t c_row;
  std::int64_t steps;
  bool adds;
};

template <int rows, int vectors, class T>
OMEGAMAX_INLINE void product_tile(const MatrixProduct<T>& p, const T* a, const T* b, T* c, std::int64_t lanes) {
  Vector<T> sums[rows][vectors];
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      sums[r][v] = p.adds ? load_lanes(c + r * p.c_row + v * kLanes<T>, lanes, T(0)) : Vector<T>{};
  for (std::int64_t step = 0; step < p.steps; ++step, a += p.a_step, b += p.b_step) {
    Vector<T> row[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) row[v] = load_lanes(b + v * kLanes<T>, lanes, T(0));
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      const Vector<T> factor = splat(a[r * p.a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] += factor * row[v];
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store_lanes(c + r * p.c_row + v * kLanes<T>, lanes, sums[r][v]);
}

template <int rows, class T>
__attribute__((noinline)) void product_rows(const MatrixProduct<T>& p, const T* a, T* c, std::int64_t columns) {
  constexpr std::int64_t kWide = kProductVectors * kLanes<T>;
  std::int64_t j = 0;
  for (; j + kWide <= columns; j += kWide) product_tile<rows, kProductVectors>(p, a, p.b + j, c + j, kLanes<T>);
  for (; j + kLanes<T> <= columns; j += kLanes<T>) product_tile<rows, 1>(p, a, p.b + j, c + j, kLanes<T>);
  if (j < columns) product_tile<rows, 1>(p, a, p.b + j, c + j, columns - j);
}

template <class T>
inline void multiply(const MatrixProduct<T>& p, std::int64_t rows, std::int64_t columns) {
  std::int64_t i = 0;
  for (; i + kProductRows <= rows; i += kProductRows)
    product_rows<kProductRows>(p, p.a + i * p.a_row, p.c + i * p.c_row, columns);
  for (; i + 2 <= rows; i += 2) product_rows<2>(p, p.a + i * p.a_row, p.c + i * p.c_row, columns);
  if (i < rows) product_rows<1>(p, p.a + i * p.a_row, p.c + i * p.c_row, columns);
}

// Groups of keys (or of their values), each transposed: [group][feature][key of the group], zeros after the last key.
template <class T>
inline void transpose_groups(const T* rows, std::int64_t n, std::int64_t size, T* to) {
  for (std::int64_t first = 0; first < n; first += kKeyGroup, to += size * kKeyGroup) {
    const std::int64_t count = n - first < kKeyGroup ? n - first : kKeyGroup;
    const T* from = rows + first * size;
    std::int64_t f = 0;
    if (kHasTranspose && count == kKeyGroup)
      for (; f + kLanes<T> <= size; f += kLanes<T>)
        for (std::int64_t key = 0; key < kKeyGroup; key += kLanes<T>) {
          Vector<T> tile[kLanes<T>];
          for (int i = 0; i < kLanes<T>; ++i) tile[i] = load(from + (key + i) * size + f);
          transpose<T>(tile);
          for (int i = 0; i < kLanes<T>; ++i) store(to + (f + i) * kKeyGroup + key, tile[i]);
        }
    for (; f < size; ++f)
      for (std::int64_t key = 0; key < kKeyGroup; ++key)
        to[f * kKeyGroup + key] = key < count ? from[key * size + f] : T(0);
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
