// What a penalty's strength may be.
#pragma once

namespace omegamax {
namespace OMEGAMAX_ARCH {

inline bool valid_strength(double strength) { return strength >= 0 && strength < __builtin_inf(); }

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
