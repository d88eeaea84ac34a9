// Fields of problems that are neither pointers to numbers nor numbers.
#pragma once

#include <cstdint>

namespace omegamax {

// The regularizer that smooths a recursion, by the number that Python passes.
enum class Omega : std::int64_t { kHard = 0, kShannon = 1, kSquaredNorm = 2, kTsallis15 = 3 };

// Results that Python may not want. It then passes the address 0, and the kernel gets working memory to write to.
template <class T>
struct PerRow {
  T* at;
  __attribute__((always_inline)) operator T*() const { return at; }
};

template <class T>
struct PerEntry {
  T* at;
  __attribute__((always_inline)) operator T*() const { return at; }
};

}  // namespace omegamax
