// Rows as the page calls them: rows of float32, by the number of an operator.
#include <cstdint>
#include <limits>

#include "core/buffer.hpp"
#include "rows/entmax.hpp"
#include "rows/fusedmax.hpp"
#include "rows/fusedmax_product.hpp"
#include "rows/groupmax.hpp"
#include "rows/groupmax_product.hpp"
#include "rows/hardmax.hpp"
#include "rows/normmax.hpp"
#include "rows/oscarmax.hpp"
#include "rows/softmax.hpp"
#include "rows/sqpnormmax.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

namespace {

// The same numbers as in src/kernels/rows.ts.
enum Operator { kHardmax, kSoftmax, kEntmax, kSparsemax, kSqpnormmax, kNormmax, kFusedmax, kOscarmax, kGroupmax };

// The groups as the kernels read them.
class Groups {
 public:
  Groups(const std::int32_t* groups, int columns) : wide_(columns) {
    for (int i = 0; i < columns; ++i) wide_.get()[i] = groups[i];
  }
  const std::int64_t* get() const { return wide_.get(); }

 private:
  Scratch<std::int64_t> wide_;
};

}  // namespace

extern "C" {

// Writes the weights of all rows, the values of their maxima, and what the Jacobian needs: `joined` (fusedmax) says of
// each position whether it is in the segment of the one before, `labels` (oscarmax) the cluster of each supported one.
__attribute__((export_name("omegamax_rows"))) void omegamax_rows(int kind, const float* scores,
                                                                 const std::int32_t* groups, double parameter, int rows,
                                                                 int columns, float* weights, float* value,
                                                                 bool* joined, std::int32_t* labels) {
  const Groups wide(groups, kind == kGroupmax ? columns : 0);
  switch (kind) {
    case kHardmax: return run(Hardmax<float>{scores, weights, {value}, columns}, 0, rows);
    case kSoftmax: return run(Softmax<float>{scores, weights, {value}, columns}, 0, rows);
    case kEntmax: return run(Entmax<float>{scores, nullptr, parameter, weights, value, columns}, 0, rows);
    case kSparsemax: return run(Sparsemax<float>{scores, weights, value, columns}, 0, rows);
    case kSqpnormmax: return run(Sqpnormmax<float>{scores, nullptr, parameter, weights, {value}, columns}, 0, rows);
    case kNormmax: return run(Normmax<float>{scores, nullptr, parameter, weights, {value}, columns}, 0, rows);
    case kFusedmax:
      return run(Fusedmax<float>{scores, nullptr, parameter, weights, {value}, {joined}, columns}, 0, rows);
    case kOscarmax:
      return run(Oscarmax<float>{scores, nullptr, parameter, kInfinity<double>, weights, {value}, labels, columns}, 0,
                 rows);
    case kGroupmax:
      return run(Groupmax<float>{scores, wide.get(), nullptr, parameter, weights, {value}, columns}, 0, rows);
  }
}

// The Jacobian at a row that `omegamax_rows` has solved, times a direction.
__attribute__((export_name("omegamax_row_product"))) void omegamax_row_product(
    int kind, const float* weights, const float* direction, const std::int32_t* groups, double parameter, int columns,
    const bool* joined, const std::int32_t* labels, float* product) {
  const Groups wide(groups, kind == kGroupmax ? columns : 0);
  switch (kind) {
    case kHardmax:
      for (int i = 0; i < columns; ++i) product[i] = 0;
      return;
    case kSoftmax: return run(SoftmaxProduct<float>{weights, direction, product, columns}, 0, 1);
    case kEntmax: return run(EntmaxProduct<float>{weights, direction, nullptr, parameter, product, columns}, 0, 1);
    case kSparsemax: return run(SparsemaxProduct<float>{weights, direction, product, columns}, 0, 1);
    case kSqpnormmax: return run(SqpnormmaxProduct<float>{weights, direction, parameter, product, columns}, 0, 1);
    case kNormmax: return run(NormmaxProduct<float>{weights, direction, nullptr, parameter, product, columns}, 0, 1);
    case kFusedmax: return run(FusedmaxProduct<float>{weights, joined, direction, product, columns}, 0, 1);
    case kOscarmax: return run(OscarmaxProduct<float>{weights, labels, direction, product, columns}, 0, 1);
    case kGroupmax:
      return run(GroupmaxProduct<float>{weights, direction, wide.get(), nullptr, parameter, product, columns}, 0, 1);
  }
}

}  // extern "C"

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
