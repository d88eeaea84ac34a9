// Sweeps over chains, compiled once per instruction set; see core/problems.hpp.
#include "chains/chain.hpp"
#include "chains/kept_order.hpp"
#include "chains/spans.hpp"
#include "core/problems.hpp"

OMEGAMAX_FILL(chain, OMEGAMAX_CHAIN_KERNELS)
