// What each row kernel reads and writes: plain data, the same for every instruction set.
//
// A row kernel is three things with one name:
//   1. a struct here (pointers to row-major rows, `columns` last),
//   2. `run(const Problem<T>&, begin, end)` in csrc/<name>.hpp, which handles rows begin..end,
//   3. a line in OMEGAMAX_KERNELS and one in bindings.cpp.
#pragma once

#include <cstdint>

namespace omegamax {

// Sparsemax: the Euclidean projection of each row onto the simplex.
template <class T>
struct Sparsemax {
  const T* scores;
  T* weights;
  T* value;  // one per row
  std::int64_t columns;
};

// Its Jacobian times a direction: centre the direction on the support, zero elsewhere.
template <class T>
struct SparsemaxProduct {
  const T* weights;
  const T* direction;
  T* product;
  std::int64_t columns;
};

#define OMEGAMAX_KERNELS(X) \
  X(Sparsemax)              \
  X(SparsemaxProduct)

// One entry per kernel and type, filled once per instruction set.
struct Table {
  const char* arch;
#define OMEGAMAX_ENTRY(Name)                                                     \
  void (*Name##_float)(const Name<float>&, std::int64_t begin, std::int64_t end); \
  void (*Name##_double)(const Name<double>&, std::int64_t begin, std::int64_t end);
  OMEGAMAX_KERNELS(OMEGAMAX_ENTRY)
#undef OMEGAMAX_ENTRY
};

}  // namespace omegamax
