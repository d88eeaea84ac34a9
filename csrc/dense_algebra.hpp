// What the active set of SparseMAP computes with vectors and upper triangular matrices R, row by row at a stride.
#pragma once

#include <cstdint>

namespace omegamax {

struct DenseAlgebra {
  void (*solve_lower)(const double* factor, std::int64_t stride, std::int64_t n, double* x);  // x = R'^-1 x
  void (*solve_upper)(const double* factor, std::int64_t stride, std::int64_t n, double* x);  // x = R^-1 x
  void (*rotate)(double* a, double* b, std::int64_t n, double c, double s);  // (a, b) = (c a + s b, c b - s a)
  // Rows first <= i < last of R, which hold rows of G from their own column on, lose what the rows above account for:
  // row i -= sum over k < first of R[k, i] R[k, :].
  void (*subtract_rows)(double* factor, std::int64_t stride, std::int64_t first, std::int64_t last, std::int64_t n);
  double (*gather_dot)(const std::int32_t* places, const double* values, std::int64_t n, const double* numbers);
};

}  // namespace omegamax
