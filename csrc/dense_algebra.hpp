// Products and triangular solves with small square matrices, row by row at a stride; products with sparse vectors.
#pragma once

#include <cstdint>

namespace omegamax {

struct DenseAlgebra {
  void (*times)(const double* matrix, std::int64_t stride, std::int64_t n, const double* x, double* product);
  void (*solve_lower)(const double* factor, std::int64_t stride, std::int64_t n, double* x);  // x = L^-1 x
  void (*solve_upper)(const double* factor, std::int64_t stride, std::int64_t n, double* x);  // x = L'^-1 x
  double (*gather_dot)(const std::int32_t* places, const double* values, std::int64_t n, const double* numbers);
};

}  // namespace omegamax
