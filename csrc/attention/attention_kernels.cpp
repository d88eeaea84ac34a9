// Kernels of sparse attention, compiled once per instruction set; see fill.hpp.
#include "attention_backward.hpp"
#include "../fill.hpp"

OMEGAMAX_FILL(attention, OMEGAMAX_ATTENTION_KERNELS)
