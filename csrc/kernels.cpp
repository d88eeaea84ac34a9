// Every row kernel, compiled once per instruction set (OMEGAMAX_ARCH). Code here must not use templates of the
// standard library that the linker could merge across instruction sets: everything lives in the arch's namespace.
#include "constituency.hpp"
#include "alignment.hpp"
#include "chain.hpp"
#include "entmax.hpp"
#include "entmax_pull.hpp"
#include "entmax_slope.hpp"
#include "fusedmax.hpp"
#include "groupmax.hpp"
#include "groupmax_product.hpp"
#include "isotonic.hpp"
#include "oscarmax.hpp"
#include "owl.hpp"
#include "pairwise.hpp"
#include "problems.hpp"
#include "projective.hpp"
#include "segment_mean.hpp"
#include "softmax.hpp"
#include "sparsemax.hpp"
#include "sqpnormmax.hpp"
#include "tv1d.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

#define OMEGAMAX_STRING_(x) #x
#define OMEGAMAX_STRING(x) OMEGAMAX_STRING_(x)

extern const Table table;
const Table table = {
    OMEGAMAX_STRING(OMEGAMAX_ARCH),
#define OMEGAMAX_ENTRY(Name) run, run,
    OMEGAMAX_KERNELS(OMEGAMAX_ENTRY)
#undef OMEGAMAX_ENTRY
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
