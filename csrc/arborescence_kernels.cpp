// Non-projective trees: the best, the expected, random ones; compiled once per instruction set; see fill.hpp.
#include "arborescence.hpp"
#include "matrix_tree.hpp"
#include "wilson.hpp"
#include "fill.hpp"

OMEGAMAX_FILL(arborescence, OMEGAMAX_ARBORESCENCE_KERNELS)
