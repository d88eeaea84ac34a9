// Sweeps over charts of spans, compiled once per instruction set; see fill.hpp.
#include "constituency.hpp"
#include "projective.hpp"
#include "fill.hpp"

OMEGAMAX_FILL(tree, OMEGAMAX_TREE_KERNELS)
