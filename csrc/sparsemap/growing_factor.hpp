// The Cholesky factor of a symmetric matrix that gains and loses rows: G = R' R, R upper triangular.
//
// A new row of G costs one triangular solve. Where a row leaves, R loses a column, and rotations of neighbouring rows
// make it triangular again; coordinates a = R'^-1 b of a right-hand side are carried along by the same rotations, so
// they need not be solved for anew. R lies row by row: every step runs along contiguous memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "sparsemap/oracle.hpp"

namespace omegamax {

class GrowingFactor {
 public:
  explicit GrowingFactor(const DenseAlgebra& algebra) : algebra_(algebra) {}

  std::int64_t size() const { return n_; }
  double at(std::int64_t i, std::int64_t j) const { return factor_[i * stride_ + j]; }
  void clear() { n_ = 0; }

  void solve_lower(double* x) const { algebra_.solve_lower(factor_.data(), stride_, n_, x); }  // x = R'^-1 x
  void solve_upper(double* x) const { algebra_.solve_upper(factor_.data(), stride_, n_, x); }  // x = R^-1 x

  // A row of G, solved for, with its pivot.
  void append(const double* solved, double pivot) {
    make_room(n_ + 1);
    for (std::int64_t i = 0; i < n_; ++i) factor_[i * stride_ + n_] = solved[i];
    factor_[n_ * stride_ + n_] = pivot;
    ++n_;
  }

  // Row and column `gone` of G leave. Each of `carried` are coordinates, of which the last becomes meaningless.
  void drop(std::int64_t gone, std::initializer_list<double*> carried) {
    for (std::int64_t i = 0; i < n_; ++i) {
      double* row = &factor_[i * stride_];
      std::move(row + std::max(i, gone + 1), row + n_, row + std::max(i, gone + 1) - 1);
    }
    --n_;
    for (std::int64_t i = gone; i < n_; ++i) {  // row i begins where it should, row i + 1 one place too early
      double *row = &factor_[i * stride_], *next = row + stride_;
      const double a = row[i], b = next[i], length = std::hypot(a, b), c = a / length, s = b / length;
      row[i] = length;
      algebra_.rotate(row + i + 1, next + i + 1, n_ - i - 1, c, s);
      for (double* x : carried) algebra_.rotate(x + i, x + i + 1, 1, c, s);
    }
  }

  // The factor of n rows at once, in blocks; `fill(i, row)` writes row[i..n) of G. False where a pivot, squared, is
  // below `least` times its diagonal entry: then nothing is known.
  template <class Fill>
  bool rebuild(std::int64_t n, double least, Fill fill) {
    constexpr std::int64_t kBlock = 16;
    n_ = 0;
    make_room(n);
    for (std::int64_t first = 0; first < n; first += kBlock) {
      const std::int64_t last = std::min(first + kBlock, n);
      for (std::int64_t i = first; i < last; ++i) fill(i, &factor_[i * stride_]);
      for (std::int64_t i = first; i < last; ++i) diagonal_[i - first] = at(i, i);
      // The rows above reach columns `first` and later: entries below the diagonal of the block are not read again.
      algebra_.subtract_rows(factor_.data(), stride_, first, last, n);
      for (std::int64_t i = first; i < last; ++i) {
        double* row = &factor_[i * stride_];
        if (!(row[i] > least * diagonal_[i - first])) return false;
        const double pivot = std::sqrt(row[i]);
        row[i] = pivot;
        for (std::int64_t j = i + 1; j < n; ++j) row[j] /= pivot;
        for (std::int64_t k = i + 1; k < last; ++k) {
          double* below = &factor_[k * stride_];
          for (std::int64_t j = k; j < n; ++j) below[j] -= row[k] * row[j];
        }
      }
    }
    n_ = n;
    return true;
  }

 private:
  void make_room(std::int64_t n) {
    if (n <= room_) return;
    const std::int64_t room = std::max<std::int64_t>({16, 2 * room_, n}), stride = room + 8;  // no power of two
    std::vector<double> factor(room * stride);
    for (std::int64_t i = 0; i < n_; ++i)
      std::copy(&factor_[i * stride_] + i, &factor_[i * stride_] + n_, &factor[i * stride] + i);
    factor_ = std::move(factor), room_ = room, stride_ = stride;
  }

  const DenseAlgebra& algebra_;
  std::int64_t n_ = 0, room_ = 0, stride_ = 0;
  std::vector<double> factor_;
  double diagonal_[16];
};

}  // namespace omegamax
