// The oracles, and the algebra of active sets, compiled once per instruction set.
#include <type_traits>

#include "core/problems.hpp"
#include "core/simd.hpp"
#include "selections/matching.hpp"
#include "selections/selection.hpp"
#include "sparsemap/arborescence_oracle.hpp"
#include "sparsemap/program_oracles.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace {

// An oracle whose kind is known only when it is opened.
struct Opened {
  OracleKind kind;
  void* oracle;
};

// Calls f(pointer to the oracle's class) for a kind.
template <class F>
auto with_class(OracleKind kind, F f) {
  switch (kind) {
    case OracleKind::kChain: return f(static_cast<ChainOracle*>(nullptr));
    case OracleKind::kProjective: return f(static_cast<ProjectiveOracle*>(nullptr));
    case OracleKind::kConstituency: return f(static_cast<ConstituencyOracle*>(nullptr));
    case OracleKind::kArborescence: return f(static_cast<ArborescenceOracle*>(nullptr));
    case OracleKind::kMatching: return f(static_cast<MatchingOracle*>(nullptr));
    case OracleKind::kSelection: return f(static_cast<SelectionOracle*>(nullptr));
    default: return f(static_cast<LatticeOracle*>(nullptr));
  }
}

void* open(const OracleSpec& spec) {
  return with_class(spec.kind, [&](auto* kind) -> void* {
    using Kind = std::remove_pointer_t<decltype(kind)>;
    return new Opened{spec.kind, new Kind(spec)};
  });
}

void best(void* self, std::int64_t item, const double* scores, Vertex& found) {
  const Opened& opened = *static_cast<Opened*>(self);
  with_class(opened.kind, [&](auto* kind) { static_cast<decltype(kind)>(opened.oracle)->best(item, scores, found); });
}

template <class Kind, class = void>
struct KnowsEqualities : std::false_type {};
template <class Kind>
struct KnowsEqualities<Kind, std::void_t<decltype(&Kind::equalities)>> : std::true_type {};

bool equalities(void* self, std::int64_t item, EqualitySystem& found) {
  const Opened& opened = *static_cast<Opened*>(self);
  return with_class(opened.kind, [&](auto* kind) -> bool {
    if constexpr (KnowsEqualities<std::remove_pointer_t<decltype(kind)>>::value)
      return static_cast<decltype(kind)>(opened.oracle)->equalities(item, found);
    else return false;
  });
}

void close(void* self) {
  Opened* opened = static_cast<Opened*>(self);
  with_class(opened->kind, [&](auto* kind) { delete static_cast<decltype(kind)>(opened->oracle); });
  delete opened;
}

// x -= sum over r < kRows of numbers[r] * rows[r], on the places from..n. Four rows at once read and write x once.
template <int kRows>
void subtract(double* x, const double* const* rows, const double* numbers, std::int64_t from, std::int64_t n) {
  std::int64_t j = from;
  for (; j + kLanes<double> <= n; j += kLanes<double>) {
    Vector<double> total = load(x + j);
    for (int r = 0; r < kRows; ++r) total -= numbers[r] * load(rows[r] + j);
    store(x + j, total);
  }
  for (; j < n; ++j)
    for (int r = 0; r < kRows; ++r) x[j] -= numbers[r] * rows[r][j];
}

double dot(const double* a, const double* b, std::int64_t n) {
  Vector<double> total[4] = {};
  constexpr std::int64_t kStep = 4 * kLanes<double>;
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep)
    for (int part = 0; part < 4; ++part)
      total[part] += load(a + i + part * kLanes<double>) * load(b + i + part * kLanes<double>);
  for (; i + kLanes<double> <= n; i += kLanes<double>) total[0] += load(a + i) * load(b + i);
  if (i < n) total[1] += load_some(a + i, n - i, 0.0) * load_some(b + i, n - i, 0.0);
  return sum_lanes<double>((total[0] + total[1]) + (total[2] + total[3]));
}

void solve_lower(const double* factor, std::int64_t stride, std::int64_t n, double* x) {
  std::int64_t i = 0;
  while (i < n && x[i] == 0) ++i;  // what precedes the first number that is not zero stays zero
  for (; i + 4 <= n; i += 4) {
    const double* rows[4];
    for (int r = 0; r < 4; ++r) {
      rows[r] = factor + (i + r) * stride;
      for (int k = 0; k < r; ++k) x[i + r] -= x[i + k] * rows[k][i + r];
      x[i + r] /= rows[r][i + r];
    }
    subtract<4>(x, rows, x + i, i + 4, n);
  }
  for (; i < n; ++i) {
    const double* row = factor + i * stride;
    x[i] /= row[i];
    subtract<1>(x, &row, x + i, i + 1, n);
  }
}

void solve_upper(const double* factor, std::int64_t stride, std::int64_t n, double* x) {
  for (std::int64_t i = n - 1; i >= 0; --i) {
    const double* row = factor + i * stride;
    x[i] = (x[i] - dot(row + i + 1, x + i + 1, n - i - 1)) / row[i];
  }
}

void rotate(double* a, double* b, std::int64_t n, double c, double s) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double left = a[i], right = b[i];
    a[i] = c * left + s * right;
    b[i] = c * right - s * left;
  }
}

// Columns in pieces that stay in the nearest cache while all rows above pass by.
void subtract_rows(double* factor, std::int64_t stride, std::int64_t first, std::int64_t last, std::int64_t n) {
  constexpr std::int64_t kColumns = 256;
  for (std::int64_t from = first; from < n; from += kColumns) {
    const std::int64_t to = from + kColumns < n ? from + kColumns : n;
    std::int64_t k = 0;
    for (; k + 4 <= first; k += 4) {
      const double* rows[4] = {factor + k * stride, factor + (k + 1) * stride, factor + (k + 2) * stride,
                               factor + (k + 3) * stride};
      for (std::int64_t i = first; i < last; ++i) {
        const double numbers[4] = {rows[0][i], rows[1][i], rows[2][i], rows[3][i]};
        subtract<4>(factor + i * stride, rows, numbers, from, to);
      }
    }
    for (; k < first; ++k) {
      const double* row = factor + k * stride;
      for (std::int64_t i = first; i < last; ++i) subtract<1>(factor + i * stride, &row, row + i, from, to);
    }
  }
}

double gather_dot(const std::int32_t* places, const double* values, std::int64_t n, const double* numbers) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) total += values[i] * numbers[places[i]];
  return total;
}

}  // namespace

void fill_oracle(Table& table) {
  table.oracle = {open, best, equalities, close};
  table.algebra = {solve_lower, solve_upper, rotate, subtract_rows, gather_dot};
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
