// Chains: which sweep for which Omega and form.
#pragma once

#include "chain_factored_tangent.hpp"
#include "chain_hard.hpp"
#include "chain_sparse_dense.hpp"
#include "chain_sparse_factored_tangent.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
void run(const ChainValue<T>& p, std::int64_t begin, std::int64_t end) {
  switch (p.omega) {
    case kChainHard: return chains::sweep_up<chains::HardLocal<T>>(p, begin, end);
    case kChainShannon:
      if (p.parts.transitions) return chains::factored_value(p, begin, end);
      return chains::sweep_up<chains::SoftLocal<T>>(p, begin, end);
    case kChainSquaredNorm: return chains::sweep_up<chains::SparseLocal<Linear, T>>(p, begin, end);
    default: return chains::sweep_up<chains::SparseLocal<Square, T>>(p, begin, end);
  }
}

template <class T>
void run(const ChainMarginals<T>& p, std::int64_t begin, std::int64_t end) {
  switch (p.omega) {
    case kChainHard: return chains::hard_marginals(p, begin, end);
    case kChainShannon:
      if (p.parts.transitions) return chains::factored_marginals(p, begin, end);
      return chains::soft_marginals(p, begin, end);
    case kChainSquaredNorm:
      if (p.parts.transitions) return chains::sparse_factored_marginals<Linear>(p, begin, end);
      return chains::sparse_marginals<Linear>(p, begin, end);
    default:
      if (p.parts.transitions) return chains::sparse_factored_marginals<Square>(p, begin, end);
      return chains::sparse_marginals<Square>(p, begin, end);
  }
}

// The best chain does not move, so Hard has no kernel here.
template <class T>
void run(const ChainTangent<T>& p, std::int64_t begin, std::int64_t end) {
  switch (p.omega) {
    case kChainShannon:
      if (p.parts.transitions) return chains::factored_tangent(p, begin, end);
      return chains::soft_tangent(p, begin, end);
    case kChainSquaredNorm:
      if (p.parts.transitions) return chains::sparse_factored_tangent<Linear>(p, begin, end);
      return chains::sparse_tangent<Linear>(p, begin, end);
    default:
      if (p.parts.transitions) return chains::sparse_factored_tangent<Square>(p, begin, end);
      return chains::sparse_tangent<Square>(p, begin, end);
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
