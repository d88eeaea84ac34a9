// Working memory of one call: taken once, aligned for vectors, given back at the end of the scope.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t count) {
    const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64 + 64;
    memory_ = static_cast<T*>(std::aligned_alloc(64, bytes));
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  ~Scratch() { std::free(memory_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* get() const { return memory_; }

 private:
  T* memory_;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
