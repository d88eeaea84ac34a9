// Kernels on rows, compiled once per instruction set; see fill.hpp.
#include "entmax.hpp"
#include "entmax_pull.hpp"
#include "entmax_slope.hpp"
#include "fusedmax.hpp"
#include "groupmax.hpp"
#include "groupmax_product.hpp"
#include "hardmax.hpp"
#include "isotonic.hpp"
#include "oscarmax.hpp"
#include "owl.hpp"
#include "segment_mean.hpp"
#include "softmax.hpp"
#include "sparsemax.hpp"
#include "sqpnormmax.hpp"
#include "tv1d.hpp"
#include "fill.hpp"

OMEGAMAX_FILL(row, OMEGAMAX_ROW_KERNELS)
