"""`torchsparseattn` (version 0.3): its layers and functions, for every device and every version of PyTorch.

The package needs PyTorch 0.4 or older, loops over rows in Python, and has no batches of more than two axes. Its
oscarmax composes two projections, which does not solve its own problem where scores have mixed signs; ours does.
Weights of `Oscarmax` therefore differ from the package's for some scores: `omegamax.oscarmax` says which problem it
solves. The published composition is `project_simplex(prox_oscar(x, strength))`.

`lengths` says how many entries of each row exist; entries beyond have weight zero and no gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from omegamax import checks, functional, proximal


def _mask(who: str, x: Tensor, lengths: Any) -> Tensor | None:
    if lengths is None:
        return None
    checks.check_floating(who, x, name="x")
    found = checks.check_lengths(who, tuple(x.shape[:-1]), lengths).to(x.device)
    return torch.arange(x.shape[-1], device=x.device) < found.unsqueeze(-1)


def sparsemax(x: Tensor, lengths: Any = None) -> Tensor:
    """Computes sparsemax of the rows `x` (..., n), whose first `lengths` (...) entries exist."""
    return functional.sparsemax(x, mask=_mask("sparsemax", x, lengths))


def fusedmax(x: Tensor, alpha: float | Tensor = 1, lengths: Any = None) -> Tensor:
    """Computes fusedmax of strength `alpha` of the rows `x` (..., n), whose first `lengths` (...) entries exist."""
    return functional.fusedmax(x, strength=alpha, mask=_mask("fusedmax", x, lengths))


def oscarmax(x: Tensor, beta: float | Tensor = 1, lengths: Any = None) -> Tensor:
    """Computes oscarmax of strength `beta` of the rows `x` (..., n), whose first `lengths` (...) entries exist."""
    return functional.oscarmax(x, strength=beta, mask=_mask("oscarmax", x, lengths))


def fused_prox(x: Tensor, alpha: float | Tensor = 1) -> Tensor:
    """Computes the proximal operator of `alpha` times the total variation of `x` (..., n).

    It stands for `FusedProxFunction(alpha)(x)`.
    """
    return proximal.prox_tv1d(x, strength=alpha)


def oscar_prox(x: Tensor, alpha: float = 0, beta: float = 1) -> Tensor:
    """Computes the proximal operator of `alpha` ‖x‖₁ + `beta` Σ_{i<j} max(|x_i|, |x_j|) of `x` (..., n).

    It stands for `OscarProxFunction(alpha, beta)(x)`.
    """
    ranks = torch.arange(x.shape[-1] - 1, -1, -1, dtype=x.dtype, device=x.device)
    return proximal.prox_owl(x, alpha + beta * ranks)


class Sparsemax(nn.Module):
    """Sparsemax as a layer."""

    def forward(self, x: Tensor, lengths: Any = None) -> Tensor:
        """Computes the weights of rows `x` (..., n), whose first `lengths` (...) entries exist."""
        return sparsemax(x, lengths)


class Fusedmax(nn.Module):
    """Fusedmax as a layer.

    Arguments:
        alpha: the strength of the penalty; the package's default is 1, ours in `omegamax.fusedmax` the paper's 0.1
    """

    def __init__(self, alpha: float | Tensor = 1) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Tensor, lengths: Any = None) -> Tensor:
        """Computes the weights of rows `x` (..., n), whose first `lengths` (...) entries exist."""
        return fusedmax(x, self.alpha, lengths)


class Oscarmax(nn.Module):
    """Oscarmax as a layer.

    Arguments:
        beta: the strength of the penalty; the package's default is 1
    """

    def __init__(self, beta: float | Tensor = 1) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, x: Tensor, lengths: Any = None) -> Tensor:
        """Computes the weights of rows `x` (..., n), whose first `lengths` (...) entries exist."""
        return oscarmax(x, self.beta, lengths)
