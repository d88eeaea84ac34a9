// Kernels on lists of time series, compiled once per instruction set; see series/problems.hpp.
#include "series/banded_soft_dtw.hpp"
#include "series/distances.hpp"
#include "series/search.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

static SeriesTable filled_series() {
  SeriesTable table{};
  OMEGAMAX_SERIES_KERNELS(OMEGAMAX_FILL_ENTRY)
  return table;
}

extern const SeriesTable series_table;
const SeriesTable series_table = filled_series();

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
