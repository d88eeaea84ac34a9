// Chooses the sweep of a chain by Omega and by its form, dense or factored.
#pragma once

#include "chains/factored_tangent.hpp"
#include "chains/hard.hpp"
#include "chains/sparse_dense.hpp"
#include "chains/sparse_factored_tangent.hpp"
#include "chains/wide.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
void sweep(const ChainValue<T>& p, std::int64_t begin, std::int64_t end) {
  switch (p.omega) {
    case Omega::kHard: return chains::sweep_up<chains::HardLocal<T>>(p, begin, end);
    case Omega::kShannon:
      if (p.parts.at.transitions) return chains::factored_value(p, begin, end);
      return chains::sweep_up<chains::SoftLocal<T>>(p, begin, end);
    case Omega::kSquaredNorm: return chains::sweep_up<chains::SparseLocal<Linear, T>>(p, begin, end);
    default: return chains::sweep_up<chains::SparseLocal<Square, T>>(p, begin, end);
  }
}

template <class T>
void sweep(const ChainMarginals<T>& p, std::int64_t begin, std::int64_t end) {
  switch (p.omega) {
    case Omega::kHard: return chains::hard_marginals(p, begin, end);
    case Omega::kShannon:
      if (p.parts.at.transitions) return chains::factored_marginals(p, begin, end);
      return chains::soft_marginals(p, begin, end);
    case Omega::kSquaredNorm:
      if (p.parts.at.transitions) return chains::sparse_factored_marginals<Linear>(p, begin, end);
      return chains::sparse_marginals<Linear>(p, begin, end);
    default:
      if (p.parts.at.transitions) return chains::sparse_factored_marginals<Square>(p, begin, end);
      return chains::sparse_marginals<Square>(p, begin, end);
  }
}

// The best chain is piecewise constant in the scores, so Hard has no kernel here.
template <class T>
void sweep(const ChainTangent<T>& p, std::int64_t begin, std::int64_t end) {
  switch (p.omega) {
    case Omega::kShannon:
      if (p.parts.at.transitions) return chains::factored_tangent(p, begin, end);
      return chains::soft_tangent(p, begin, end);
    case Omega::kSquaredNorm:
      if (p.parts.at.transitions) return chains::sparse_factored_tangent<Linear>(p, begin, end);
      return chains::sparse_tangent<Linear>(p, begin, end);
    default:
      if (p.parts.at.transitions) return chains::sparse_factored_tangent<Square>(p, begin, end);
      return chains::sparse_tangent<Square>(p, begin, end);
  }
}

template <class T>
void run(const ChainValue<T>& p, std::int64_t begin, std::int64_t end) {
  sweep(p, begin, end);
  if constexpr (sizeof(T) == 4)
    for (std::int64_t number = begin; number < end; ++number) {
      const chains::ChainItem<T> chain = chains::chain_of(p, number);
      const bool large = p.total[number] == kInfinity<double>;
      T* const mark = chains::first_of_state(p, number, chain);
      if (large) *mark = kNaN<T>;
      else if (!p.values) *mark = T(0);  // the state of factored chains begins with a row that is not used otherwise
      if (!large) continue;
      chains::WideItem item(p, chain);
      sweep(item.value(), 0, 1);
      p.value[number] = p.total[number] = item.found();
    }
}

template <class T>
void run(const ChainMarginals<T>& p, std::int64_t begin, std::int64_t end) {
  if constexpr (sizeof(T) == 8) return sweep(p, begin, end);
  else
    chains::each_stretch(
        p, begin, end, [&](std::int64_t from, std::int64_t to) { sweep(p, from, to); },
        [&](std::int64_t number, const chains::ChainItem<T>& chain) {
          chains::WideItem item(p, chain);
          chains::WideParts found(p.n_tags, chain.length, chain.dense());
          sweep(item.value(), 0, 1);
          sweep(item.marginals(found), 0, 1);
          chains::ChainOutput<T> out = chains::output_of(p, number, chain);
          found.write(out);
        });
}

template <class T>
void run(const ChainTangent<T>& p, std::int64_t begin, std::int64_t end) {
  if constexpr (sizeof(T) == 8) return sweep(p, begin, end);
  else
    chains::each_stretch(
        p, begin, end, [&](std::int64_t from, std::int64_t to) { sweep(p, from, to); },
        [&](std::int64_t number, const chains::ChainItem<T>& chain) {
          chains::WideItem item(p, chain);
          chains::WideParts along(p.n_tags, chain.length, chain.dense());
          chains::WideParts found(p.n_tags, chain.length, chain.dense());
          along.read(chains::direction_of(p, number));
          sweep(item.value(), 0, 1);
          sweep(item.tangent(along, found), 0, 1);
          chains::ChainOutput<T> out = chains::output_of(p, number, chain);
          found.write(out);
        });
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
