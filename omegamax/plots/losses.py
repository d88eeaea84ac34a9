"""Draws the losses of two classes against the margin, and their derivatives."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.losses import MarginLoss, fenchel_young_loss
from omegamax.operators import Fused, Hard, Shannon, SquaredNorm, Tsallis
from omegamax.plots.style import colour, figure_style
from omegamax.smoothmax import SmoothMax

_CURVES: dict[str, tuple[SmoothMax, str, str]] = {  # name: Ω, line, label
    "hardmax": (Hard(), ":", "perceptron"),
    "softmax": (Shannon(), "-", "softmax (logistic)"),
    "entmax15": (Tsallis(1.5), "-", "1.5-entmax"),
    "sparsemax": (SquaredNorm(), "-", "sparsemax"),
    "fusedmax": (Fused(0.3), "-.", "fusedmax (0.3)"),
}


def binary_losses() -> Figure:
    """Draws L([t, 0]; first class) and its derivative in t, for t in [-4, 4].

    A sparse Ω has a margin: from there on the loss and its derivative are exactly zero, at 1 for sparsemax and at 2 for
    1.5-entmax, while the logistic loss is never zero. The derivative is a weight minus one: between −1 and 0. The hinge
    is the perceptron's loss with a cost of one added to the wrong class.
    """
    t = torch.linspace(-4, 4, 1601, dtype=torch.float64)
    with figure_style():
        figure = Figure(figsize=(6.6, 2.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        for name, (smooth, line, label) in _CURVES.items():
            value, slope = _along(smooth, t)
            left.plot(t, value, line, color=colour(name), label=label)
            right.plot(t, slope, line, color=colour(name))
        value, slope = _along(MarginLoss(Hard(), reduction="none"), t)
        left.plot(t, value, "--", color=colour("max"), linewidth=1, label="hinge")
        right.plot(t, slope, "--", color=colour("max"), linewidth=1)
        left.set(xlabel="margin $t$", xlim=(-4, 4), ylim=(-0.1, 4.6), xticks=range(-4, 5, 2))
        left.set_title(r"$L_\Omega([t, 0];\, e_1)$")
        left.legend(loc="upper right", borderaxespad=0.2, handlelength=2.2, labelspacing=0.3)
        right.set(xlabel="margin $t$", xlim=(-4, 4), ylim=(-1.05, 0.05), xticks=range(-4, 5, 2))
        right.set_yticks([-1, -0.75, -0.5, -0.25, 0])
        right.set_title(r"$\partial L_\Omega / \partial t = \Pi_\Omega([t, 0])_1 - 1$")
    return figure


def _along(loss: SmoothMax | MarginLoss, t: Tensor) -> tuple[Tensor, Tensor]:
    """Computes the loss of [t, 0] at the first class, and its derivative in t."""
    t = t.clone().requires_grad_()
    pairs = torch.stack((t, torch.zeros_like(t)), -1)
    first = torch.zeros(len(t), dtype=torch.long)
    if isinstance(loss, MarginLoss):
        value = loss(pairs, first)
    else:
        value = fenchel_young_loss(pairs, first, loss, reduction="none")
    (slope,) = torch.autograd.grad(value.sum(), t)
    return value.detach(), slope
