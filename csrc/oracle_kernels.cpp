// The oracles, compiled once per instruction set.
#include <type_traits>

#include "oracles.hpp"
#include "problems.hpp"

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

void close(void* self) {
  Opened* opened = static_cast<Opened*>(self);
  with_class(opened->kind, [&](auto* kind) { delete static_cast<decltype(kind)>(opened->oracle); });
  delete opened;
}

}  // namespace

void fill_oracle(Table& table) { table.oracle = {open, best, close}; }

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
