// All that sparse attention takes from the other folders.
#pragma once

#include "core/buffer.hpp"
#include "core/rows.hpp"
#include "core/simd.hpp"
#include "rows/entmax.hpp"
#include "rows/entmax_pull.hpp"
#include "rows/fusedmax.hpp"
#include "rows/fusedmax_product.hpp"
#include "rows/oscarmax.hpp"
#include "rows/softmax.hpp"
