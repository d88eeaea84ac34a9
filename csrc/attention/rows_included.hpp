// All that sparse attention takes from the other rooms.
#pragma once

#include "../buffer.hpp"
#include "../entmax.hpp"
#include "../entmax_pull.hpp"
#include "../fusedmax.hpp"
#include "../oscarmax.hpp"
#include "../rows.hpp"
#include "../simd.hpp"
#include "../softmax.hpp"
