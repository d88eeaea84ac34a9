// The order of the places of a sequence: those that are kept first, then the others, each in their own order.
#pragma once

#include "core/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
void run(const KeptOrder<T>& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t item = begin; item < end; ++item) {
    const std::uint8_t* kept = p.kept + item * p.n_places;
    std::int32_t* order = p.order + item * p.n_places;
    std::int64_t n_kept = 0;
    for (std::int64_t place = 0; place < p.n_places; ++place) n_kept += kept[place] != 0;
    std::int64_t next[2] = {n_kept, 0};  // where the next place goes, if it is left out and if it is kept
    for (std::int64_t place = 0; place < p.n_places; ++place)
      order[next[kept[place] != 0]++] = static_cast<std::int32_t>(place);
    p.lengths[item] = n_kept;
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
