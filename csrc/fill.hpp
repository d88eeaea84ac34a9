// Enters a list of kernels into the table of this instruction set (OMEGAMAX_ARCH). Code compiled per instruction set must
// not use templates of the standard library that the linker could merge across sets: everything lives in its namespace.
#pragma once

#include "problems.hpp"

#define OMEGAMAX_FILL_ENTRY(Name) \
  table.Name##_float = run;       \
  table.Name##_double = run;

#define OMEGAMAX_FILL(kind, KERNELS)                                  \
  namespace omegamax {                                                \
  namespace OMEGAMAX_ARCH {                                           \
  void fill_##kind(Table& table) { KERNELS(OMEGAMAX_FILL_ENTRY) }     \
  }                                                                   \
  }
