// The support of a block of queries, as it grows.
#pragma once

#include <cstdlib>

#include "attention/candidate_solver.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
inline void append(SupportBlock<T>& block, std::int64_t row, const typename CandidateSolver<T>::Support& found,
                   bool labelled) {
  if (block.size + found.count > block.capacity) {
    const std::int64_t capacity = 2 * block.capacity + found.count + 1024;
    const auto grow = [&](auto*& array) {
      void* larger_array = std::realloc(array, static_cast<std::size_t>(capacity) * sizeof(*array));
      if (larger_array == nullptr) throw std::bad_alloc();
      array = static_cast<std::remove_reference_t<decltype(array)>>(larger_array);
    };
    grow(block.indices);
    grow(block.weights);
    if (labelled) grow(block.labels);
    block.capacity = capacity;
  }
  const std::size_t n = static_cast<std::size_t>(found.count);
  if (n > 0) {
    __builtin_memcpy(block.indices + block.size, found.indices, n * sizeof(std::int32_t));
    __builtin_memcpy(block.weights + block.size, found.weights, n * sizeof(T));
    if (labelled) __builtin_memcpy(block.labels + block.size, found.labels, n * sizeof(std::int32_t));
  }
  block.size += found.count;
  block.counts[row] = static_cast<std::int32_t>(found.count);
}

template <class T>
inline void release(SupportBlock<T>& block) {
  std::free(block.indices);
  std::free(block.weights);
  std::free(block.labels);
  block = SupportBlock<T>{};
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
