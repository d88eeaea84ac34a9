// Sparse attention, compiled once per instruction set; see core/problems.hpp.
#include "attention/backward.hpp"
#include "attention/decode_solver.hpp"
#include "attention/dense_backward.hpp"
#include "attention/dense_forward.hpp"
#include "core/problems.hpp"

OMEGAMAX_FILL(attention, OMEGAMAX_ATTENTION_KERNELS)
