"""Losses on structures, by the names they are known under.

    PerceptronLoss    max_y <θ, y> − <θ, y_true>                      Collins, EMNLP 2002
    CRFLoss           log Σ_y exp <θ, y> − <θ, y_true>                Lafferty, McCallum & Pereira, ICML 2001

Any other Ω inside the recursion is `FenchelYoungLoss(Smoothed(structure, Ω))` (Mensch & Blondel, ICML 2018).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from omegamax import checks
from omegamax.losses.evaluation import LossOptions
from omegamax.losses.fenchel_young import Loss
from omegamax.module_repr import unless
from omegamax.operators.hard import Hard
from omegamax.operators.scaled import Scaled
from omegamax.operators.shannon import Shannon
from omegamax.smoothmax import SmoothMax
from omegamax.structures.smoothed import Smoothed
from omegamax.structures.structure import Structure, check_structure

if TYPE_CHECKING:
    from typing_extensions import Unpack


class PerceptronLoss(Loss):
    """The difference between the score of the best structure (or class) and that of the gold one.

    It is zero where the gold one is among the best; its gradient is the best (ties: the lowest) minus the gold one.

    Arguments:
        structure: what is chosen among, such as `Chain()`; None is one of the classes of a row
        reduction: "mean", "sum" or "none"
        options: `check` for structures; `dim`, `weight` and `ignore_index` for classes

    >>> PerceptronLoss()(torch.tensor([[1.0, 3.0]]), torch.tensor([0]))
    tensor(2.)
    """

    def __init__(
        self, structure: Structure | None = None, reduction: str = "mean", **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(reduction=reduction, **options)
        if structure is not None:
            check_structure("PerceptronLoss", structure)
            self._check_no_classes()
        self.structure = structure

    def _held(self) -> dict[str, object]:
        return {"structure": self.structure}

    def smooth(self, scores: Any) -> SmoothMax:
        return Hard() if self.structure is None else Smoothed(self.structure, Hard())


class CRFLoss(Loss):
    """The negative log-likelihood of gold structures: log-partition minus score; `gamma` is a temperature.

    Arguments:
        structure: what is chosen among, such as `Chain()`
        reduction: "mean", "sum" or "none"
        gamma: the temperature
        check: whether gold structures are checked; without, a forbidden one costs +inf

    Called with potentials and gold structures or integer labels; see `FenchelYoungLoss`.

    >>> CRFLoss(Chain())(torch.zeros(1, 3, 2, 2), torch.tensor([[0, 1, 1]]))
    tensor(2.0794)
    """

    def __init__(
        self, structure: Structure, reduction: str = "mean", *, gamma: float | Tensor = 1.0, check: bool = True
    ) -> None:
        super().__init__(reduction=reduction, check=check)
        self.structure = check_structure("CRFLoss", structure)
        checks.check_gamma("CRFLoss", gamma)
        self.gamma = gamma

    def _held(self) -> dict[str, object]:
        return {"structure": self.structure, "gamma": unless(self.gamma, 1)}

    def smooth(self, scores: Any) -> SmoothMax:
        plain = isinstance(self.gamma, (int, float)) and self.gamma == 1
        return Smoothed(self.structure, Shannon() if plain else Scaled(Shannon(), self.gamma))
