"""Losses of SparseMAP, whose Ω is a squared norm on the whole polytope: only the best structure must be computable.

    SparseMAPLoss         L(θ; y) = max_μ (<θ, μ> − ½‖μ‖²) + ½‖y‖² − <θ, y>
    MarginSparseMAPLoss   L(θ + c_y; y), with the costs c_y of wrong parts added

Extra scores (transitions, gaps) take part in the inner products and are not regularised.
Niculae, Martins, Blondel & Cardie, ICML 2018.
"""

from __future__ import annotations

from typing import Any

from omegamax.losses.fenchel_young import Loss
from omegamax.losses.margin import Cost, MarginLoss
from omegamax.smoothmax import SmoothMax
from omegamax.structures.sparsemap import SparseMAP
from omegamax.structures.structure import Structure, check_structure


class SparseMAPLoss(Loss):
    """The loss of SparseMAP: zero once the gold structure leads by enough; its gradient is sparse in structures.

    Arguments:
        structure: what is chosen among, such as `Matching()`
        reduction: "mean", "sum" or "none"
        check: whether gold structures are checked; without, a forbidden one costs +inf

    >>> chain = Chain()
    >>> gold = chain.from_tags(torch.tensor([[0, 1, 1]]), 2)
    >>> SparseMAPLoss(chain)(2 * gold, gold)
    tensor(0.)
    """

    def __init__(self, structure: Structure, reduction: str = "mean", *, check: bool = True) -> None:
        super().__init__(reduction=reduction, check=check)
        self.structure = check_structure("SparseMAPLoss", structure)

    def _held(self) -> dict[str, object]:
        return {"structure": self.structure}

    def smooth(self, scores: Any) -> SmoothMax:
        return SparseMAP(self.structure)


class MarginSparseMAPLoss(Loss):
    """SparseMAP with cost-augmented inference; `cost` and `margin` as in `MarginLoss`.

    Arguments:
        structure: what is chosen among, such as `Matching()`
        cost: what wrong parts cost; None is Hamming's
        margin: what the costs are multiplied by
        reduction: "mean", "sum" or "none"
        check: whether gold structures are checked; without, a forbidden one costs +inf
    """

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

    def _held(self) -> dict[str, object]:
        return {"structure": self.structure}

    def smooth(self, scores: Any) -> SmoothMax:
        return SparseMAP(self.structure)

    def forward(self, scores: Any, target: Any, *, mask: Any = None, lengths: Any = None, **rest: Any) -> Any:
        """Computes the loss at scores plus costs; `rest` may hold `positions` and `target_edges`."""
        return self.augmented(scores, target, mask=mask, lengths=lengths, **rest)
