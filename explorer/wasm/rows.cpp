// Rows as the page calls them: one row of float32 at a time, by the number of an operator.
#include <cstdint>
#include <limits>

#include "core/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
extern const Table table;
}

namespace {

using OMEGAMAX_ARCH::table;

// The same numbers as in src/kernels/rows.ts.
enum Operator { kHardmax, kSoftmax, kEntmax, kSparsemax, kSqpnormmax, kNormmax, kFusedmax, kOscarmax, kGroupmax };

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

extern "C" {

// Writes the weights of a row, the value of its maximum, and what the Jacobian needs: `joined` (fusedmax) says of each
// position whether it is in the segment of the one before, `labels` (oscarmax) the cluster of each supported position.
__attribute__((export_name("omegamax_row"))) void omegamax_row(int kind, const float* scores,
                                                               const std::int64_t* groups, double parameter,
                                                               int columns, float* weights, float* value,
                                                               bool* joined, std::int32_t* labels) {
  switch (kind) {
    case kHardmax: return table.Hardmax_float({scores, weights, {value}, columns}, 0, 1);
    case kSoftmax: return table.Softmax_float({scores, weights, {value}, columns}, 0, 1);
    case kEntmax: return table.Entmax_float({scores, nullptr, parameter, weights, value, columns}, 0, 1);
    case kSparsemax: return table.Sparsemax_float({scores, weights, value, columns}, 0, 1);
    case kSqpnormmax: return table.Sqpnormmax_float({scores, nullptr, parameter, weights, {value}, columns}, 0, 1);
    case kNormmax: return table.Normmax_float({scores, nullptr, parameter, weights, {value}, columns}, 0, 1);
    case kFusedmax:
      return table.Fusedmax_float({scores, nullptr, parameter, weights, {value}, {joined}, columns}, 0, 1);
    case kOscarmax:
      return table.Oscarmax_float({scores, nullptr, parameter, kInfinity, weights, {value}, labels, columns}, 0, 1);
    case kGroupmax:
      return table.Groupmax_float({scores, groups, nullptr, parameter, weights, {value}, columns}, 0, 1);
  }
}

// The Jacobian at a row that `omegamax_row` has solved, times a direction.
__attribute__((export_name("omegamax_row_product"))) void omegamax_row_product(
    int kind, const float* weights, const float* direction, const std::int64_t* groups, double parameter, int columns,
    const bool* joined, const std::int32_t* labels, float* product) {
  switch (kind) {
    case kHardmax:
      for (int i = 0; i < columns; ++i) product[i] = 0;
      return;
    case kSoftmax: return table.SoftmaxProduct_float({weights, direction, product, columns}, 0, 1);
    case kEntmax:
      return table.EntmaxProduct_float({weights, direction, nullptr, parameter, product, columns}, 0, 1);
    case kSparsemax: return table.SparsemaxProduct_float({weights, direction, product, columns}, 0, 1);
    case kSqpnormmax: return table.SqpnormmaxProduct_float({weights, direction, parameter, product, columns}, 0, 1);
    case kNormmax:
      return table.NormmaxProduct_float({weights, direction, nullptr, parameter, product, columns}, 0, 1);
    case kFusedmax: return table.FusedmaxProduct_float({weights, joined, direction, product, columns}, 0, 1);
    case kOscarmax: return table.OscarmaxProduct_float({weights, labels, direction, product, columns}, 0, 1);
    case kGroupmax:
      return table.GroupmaxProduct_float({weights, direction, groups, nullptr, parameter, product, columns}, 0, 1);
  }
}

}  // extern "C"

}  // namespace omegamax
