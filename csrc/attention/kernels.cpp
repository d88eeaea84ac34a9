// Sparse attention, compiled once per instruction set; see core/problems.hpp.
#include "attention/backward.hpp"
#include "core/problems.hpp"

OMEGAMAX_FILL(attention, OMEGAMAX_ATTENTION_KERNELS)
