// Non-projective trees: the best, the expected, random ones; compiled once per instruction set; see core/problems.hpp.
#include "arborescences/arborescence.hpp"
#include "arborescences/matrix_tree.hpp"
#include "arborescences/wilson.hpp"
#include "core/problems.hpp"

OMEGAMAX_FILL(arborescence, OMEGAMAX_ARBORESCENCE_KERNELS)
