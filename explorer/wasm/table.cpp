// The table of kernels, filled with those of the page: core/table.cpp without attention.
#include "core/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

void fill_row(Table&);
void fill_oracle(Table&);
void fill_arborescence(Table&);
void fill_selection(Table&);

static Table filled() {
  Table table{};
  table.arch = "wasm";
  fill_row(table);
  fill_oracle(table);
  fill_arborescence(table);
  fill_selection(table);
  return table;
}

extern const Table table;
const Table table = filled();

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
