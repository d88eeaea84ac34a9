// Matchings, subsets and budgets, compiled once per instruction set; see fill.hpp.
#include "budget.hpp"
#include "matching.hpp"
#include "selection.hpp"
#include "fill.hpp"

OMEGAMAX_FILL(selection, OMEGAMAX_SELECTION_KERNELS)
