// Matchings, subsets and budgets, compiled once per instruction set; see core/problems.hpp.
#include "core/problems.hpp"
#include "selections/budget.hpp"
#include "selections/matching.hpp"
#include "selections/selection.hpp"

OMEGAMAX_FILL(selection, OMEGAMAX_SELECTION_KERNELS)
