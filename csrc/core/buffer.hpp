// Working memory of one call: allocated once, cut into arrays, freed at the end of the scope.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace omegamax {
namespace OMEGAMAX_ARCH {

class Buffer {
 public:
  explicit Buffer(std::int64_t bytes) : memory_(static_cast<char*>(std::malloc(bytes + 64))), next_(memory_) {
    if (memory_ == nullptr) throw std::bad_alloc();
    next_ += (64 - reinterpret_cast<std::uintptr_t>(memory_) % 64) % 64;
  }
  ~Buffer() { std::free(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Bytes that `take<U>(count)` uses.
  template <class U>
  static constexpr std::int64_t size(std::int64_t count) {
    return (count * static_cast<std::int64_t>(sizeof(U)) + 63) / 64 * 64;
  }

  // The next `count` objects of plain type U, aligned to a cache line and not initialised.
  template <class U>
  U* take(std::int64_t count) {
    U* start = reinterpret_cast<U*>(next_);
    next_ += size<U>(count);
    return start;
  }

 private:
  char* memory_;
  char* next_;
};

// A buffer that is one array.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t count) : buffer_(Buffer::size<T>(count)), memory_(buffer_.take<T>(count)) {}
  T* get() const { return memory_; }

 private:
  Buffer buffer_;
  T* memory_;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
