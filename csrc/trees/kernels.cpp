// Sweeps over charts of spans, compiled once per instruction set; see core/problems.hpp.
#include "core/problems.hpp"
#include "trees/constituency.hpp"
#include "trees/projective.hpp"

OMEGAMAX_FILL(tree, OMEGAMAX_TREE_KERNELS)
