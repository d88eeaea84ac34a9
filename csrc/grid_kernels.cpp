// Sweeps over alignment grids, compiled once per instruction set; see fill.hpp.
#include "alignment.hpp"
#include "pairwise.hpp"
#include "soft_dtw.hpp"
#include "fill.hpp"

OMEGAMAX_FILL(grid, OMEGAMAX_GRID_KERNELS)
