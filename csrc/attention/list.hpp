// The kernels of sparse attention by name; problems.hpp says what they read and write.
#pragma once

#define OMEGAMAX_ATTENTION_KERNELS(X) \
  X(AttentionKeys)                    \
  X(AttentionForward)                 \
  X(AttentionRowGradient)             \
  X(AttentionKeyGradient)             \
  X(AttentionDenseGradient)           \
  X(AttentionPartSum)                 \
  X(QuantisePages)                    \
  X(DecodeSample)                     \
  X(DecodeScan)                       \
  X(DecodeSolve)

namespace omegamax {

#define OMEGAMAX_DECLARE(Name) \
  template <class T>           \
  struct Name;
OMEGAMAX_ATTENTION_KERNELS(OMEGAMAX_DECLARE)
#undef OMEGAMAX_DECLARE

}  // namespace omegamax
