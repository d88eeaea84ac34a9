// Sweeps over chains, compiled once per instruction set; see fill.hpp.
#include "chain.hpp"
#include "fill.hpp"

OMEGAMAX_FILL(chain, OMEGAMAX_CHAIN_KERNELS)
