"""A normalizer taken apart, as kernels need it: an operator on rows, and the numbers that multiply its scores.

    argmax_Ω(factor · scores / γ₁ / γ₂ ...)

Kernels know Ω only. The temperatures γ and the factor go into the queries, or into the scale of the products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.length_scaled import LengthScaled
from omegamax.attention.sparse_attention_function import NATIVE_OPERATORS
from omegamax.attention.top_k import TopK
from omegamax.kernels.sparse_attention import MAX_SIZE
from omegamax.modules import Above, ArgmaxModule
from omegamax.operators.scaled import Scaled
from omegamax.operators.tsallis import Tsallis

_SAFE_GAMMA = 1e-6  # scores up to 1e30, divided by this, are finite in float32


class RowNormalizer(NamedTuple):
    """The parts of a normalizer of rows."""

    operator: Any  # Ω: the innermost operator, `TopK` or another SmoothMax
    gammas: list[float | Tensor]  # the temperatures around it that are not 1
    factor: Tensor | None  # what `LengthScaled` multiplies scores by, broadcasts to (..., Q, 1)

    @property
    def parameter(self) -> Any:
        """The tensor that is the parameter of Ω, or None."""
        return None if isinstance(self.operator, TopK) else next(iter(self.operator.parameters()), None)

    def has_kernel(self, size: int) -> bool:
        """Says whether native sparse attention knows Ω and takes queries of this size."""
        operator = self.operator
        if type(operator) not in NATIVE_OPERATORS or not 0 < size <= MAX_SIZE:
            return False
        is_softmax = isinstance(operator, Tsallis) and not isinstance(operator.alpha, Tensor) and operator.alpha == 1
        return not is_softmax

    def is_safe(self) -> bool:
        """Says whether scores can be divided by the temperatures without overflow."""
        if not self.gammas:
            return True
        lowest = (float(gamma.detach().min()) if isinstance(gamma, Tensor) else gamma for gamma in self.gammas)
        return all(gamma >= _SAFE_GAMMA for gamma in lowest)

    def applied(self, who: str, query: Tensor, scale: float, like_scores: Tensor) -> tuple[Tensor, float]:
        """Returns the queries and the scale with the temperatures and the factor in them.

        Arguments:
            who: the name that speaks in errors
            query: (..., heads, Q, size)
            scale: what products are multiplied by
            like_scores: any tensor with the shape of the scores, (..., heads, Q, K)
        """
        for gamma in self.gammas:
            if isinstance(gamma, Tensor):
                checks.check_row_parameter(who, "gamma", gamma, like_scores)
                query = query / gamma.to(query.dtype)
            else:
                scale /= gamma
        if self.factor is not None:
            query = query * self.factor.to(query.dtype)
        return query, scale


def take_apart(normalizer: Any, like_scores: Tensor, count_keys: Callable[[], Tensor]) -> RowNormalizer:
    """Reads `LengthScaled`, a layer such as `Entmax()` and any number of `Scaled`, from the outside to the inside.

    Arguments:
        normalizer: what turns scores into weights
        like_scores: any tensor with the shape of the scores, (..., heads, Q, K)
        count_keys: called where the number of keys of each row matters; returns integers that broadcast to (..., Q, 1)
    """
    if not isinstance(normalizer, nn.Module) and type(normalizer) is not Scaled:
        return RowNormalizer(normalizer, [], None)
    gammas: list[float | Tensor] = []
    factor = None
    if isinstance(normalizer, LengthScaled):
        normalizer, factor = normalizer.normalizer, normalizer.factor(like_scores, count_keys())
    if isinstance(normalizer, ArgmaxModule):
        gammas.append(gamma_of(normalizer))
        normalizer = normalizer.regularizer(like_scores)
    while type(normalizer) is Scaled:
        gammas.append(normalizer.gamma)
        normalizer = normalizer.inner
    return RowNormalizer(normalizer, [gamma for gamma in gammas if isinstance(gamma, Tensor) or gamma != 1], factor)


def gamma_of(layer: ArgmaxModule) -> float | Tensor:
    """Returns the temperature that a layer has now."""
    return layer.gamma() if isinstance(layer.gamma, Above) else layer.gamma
