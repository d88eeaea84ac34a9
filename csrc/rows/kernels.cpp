// Kernels on rows, compiled once per instruction set; see core/problems.hpp.
#include "rows/entmax.hpp"
#include "rows/entmax_pull.hpp"
#include "rows/entmax_slope.hpp"
#include "rows/fusedmax.hpp"
#include "rows/fusedmax_product.hpp"
#include "rows/groupmax.hpp"
#include "rows/groupmax_product.hpp"
#include "rows/hardmax.hpp"
#include "rows/isotonic.hpp"
#include "rows/oscarmax.hpp"
#include "rows/owl.hpp"
#include "rows/segment_mean.hpp"
#include "rows/softmax.hpp"
#include "rows/sqpnormmax.hpp"
#include "rows/tv1d.hpp"
#include "core/problems.hpp"

OMEGAMAX_FILL(row, OMEGAMAX_ROW_KERNELS)
