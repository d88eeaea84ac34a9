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

// Softmax and its log-partition.
template <class T>
struct Softmax {
  const T* scores;
  T* weights;
  T* value;
  std::int64_t columns;
};

template <class T>
struct SoftmaxProduct {
  const T* weights;
  const T* direction;
  T* product;
  std::int64_t columns;
};

// Entmax of order alpha >= 1: one for all rows, or one per row where `alphas` is not null.
template <class T>
struct Entmax {
  const T* scores;
  T* weights;
  T* value;
  const double* alphas;
  double alpha;
  std::int64_t columns;
};

template <class T>
struct EntmaxProduct {
  const T* weights;
  const T* direction;
  T* product;
  const double* alphas;
  double alpha;
  std::int64_t columns;
};

// Squared p-norm regularization, 1 < p <= 2.
template <class T>
struct Sqpnormmax {
  const T* scores;
  T* weights;
  T* value;
  double p;
  std::int64_t columns;
};

template <class T>
struct SqpnormmaxProduct {
  const T* weights;
  const T* direction;
  T* product;
  double p;
  std::int64_t columns;
};

#define OMEGAMAX_KERNELS(X) \
  X(Sparsemax)              \
  X(SparsemaxProduct)       \
  X(Softmax)                \
  X(SoftmaxProduct)         \
  X(Entmax)                 \
  X(EntmaxProduct)          \
  X(Sqpnormmax)             \
  X(SqpnormmaxProduct)

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
