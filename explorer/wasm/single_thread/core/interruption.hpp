// Stands before csrc/core/interruption.hpp on the include path: a page has one thread and no signals, so nothing ever
// interrupts a kernel.
#pragma once

namespace omegamax {

class Interruption {
 public:
  void check() {}
};

inline void check_interruption() {}

}  // namespace omegamax
