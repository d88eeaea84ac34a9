// Sweeps over alignment grids, compiled once per instruction set; see core/problems.hpp.
#include "core/problems.hpp"
#include "grids/alignment.hpp"
#include "grids/pairwise.hpp"
#include "grids/soft_dtw.hpp"

OMEGAMAX_FILL(grid, OMEGAMAX_GRID_KERNELS)
