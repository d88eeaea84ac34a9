// The table through which the solver of SparseMAP reaches the page's oracles and algebra. The page calls its other
// kernels directly, so the linker drops those that it does not use.
#include "core/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

void fill_oracle(Table&);

static Table filled() {
  Table table{};
  table.arch = "wasm";
  fill_oracle(table);
  return table;
}

extern const Table table;
const Table table = filled();

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
