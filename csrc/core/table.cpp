// The table of one instruction set (OMEGAMAX_ARCH), gathered from the files that compile its kernels.
#include "core/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

#define OMEGAMAX_STRING_(x) #x
#define OMEGAMAX_STRING(x) OMEGAMAX_STRING_(x)

void fill_row(Table&);
void fill_chain(Table&);
void fill_grid(Table&);
void fill_tree(Table&);
void fill_oracle(Table&);
void fill_arborescence(Table&);
void fill_selection(Table&);
void fill_attention(Table&);

static Table filled() {
  Table table{};
  table.arch = OMEGAMAX_STRING(OMEGAMAX_ARCH);
  fill_row(table);
  fill_chain(table);
  fill_grid(table);
  fill_tree(table);
  fill_oracle(table);
  fill_arborescence(table);
  fill_selection(table);
  fill_attention(table);
  return table;
}

extern const Table table;
const Table table = filled();

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
