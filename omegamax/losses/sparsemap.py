"""Losses of SparseMAP: a squared norm on the whole polytope, so only the best structure is ever asked for.

    SparseMAPLoss         L(θ; y) = max_μ (<θ, μ> − ½‖μ‖²) + ½‖y‖² − <θ, y>
    MarginSparseMAPLoss   L(θ + c_y; y), with the costs c_y of wrong parts added

Extra scores (transitions, gaps) take part in the inner products and are not regularised.
Niculae, Martins, Blondel & Cardie, ICML 2018.
"""

from __future__ import annotations

from typing import Any

from omegamax.losses.fenchel_young import Loss
from omegamax.losses.margin import Cost, MarginLoss
from omegamax.losses.structured import check_structure
from omegamax.smoothmax import SmoothMax
from omegamax.structures.sparsemap import SparseMAP
from omegamax.structures.structure import Structure


class SparseMAPLoss(Loss):
    """The loss of SparseMAP: zero once the gold structure leads by enough; its gradient is sparse in structures.

    >>> chain = Chain()
    >>> gold = chain.from_tags(torch.tensor([[0, 1, 1]]), 2)
    >>> SparseMAPLoss(chain)(2 * gold, gold)
    tensor(0.)
    """

    def __init__(self, structure: Structure, reduction: str = "mean", *, check: bool = True) -> None:
        super().__init__(reduction=reduction, check=check)
        self.structure = check_structure("SparseMAPLoss", structure)

    def smooth(self, scores: Any) -> SmoothMax:
        """SparseMAP."""
        return SparseMAP(self.structure)


class MarginSparseMAPLoss(Loss):
    """SparseMAP with cost-augmented inference; `cost` and `margin` as in `MarginLoss`."""

    def __init__(
        self,
        structure: Structure,
        cost: Cost | None = None,
        *,
        margin: float = 1.0,
        reduction: str = "mean",
        check: bool = True,
    ) -> None:
        super().__init__(reduction=reduction, check=check)
        self.structure = check_structure("MarginSparseMAPLoss", structure)
        self.augmented = MarginLoss(SparseMAP(structure), cost, margin=margin, reduction=reduction, check=check)

    def smooth(self, scores: Any) -> SmoothMax:
        """SparseMAP."""
        return SparseMAP(self.structure)

    def forward(self, scores: Any, target: Any, *, mask: Any = None, lengths: Any = None, **rest: Any) -> Any:
        """The loss at scores plus costs."""
        return self.augmented(scores, target, mask=mask, lengths=lengths, **rest)
