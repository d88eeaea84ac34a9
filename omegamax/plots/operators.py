"""Draws figure 2 of Niculae & Blondel, "A regularized framework for sparse and structured neural attention", 2017."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from omegamax.operators import Fused, Hard, Shannon, SquaredNorm, SquaredPNorm
from omegamax.plots.style import INK, colour, figure_style
from omegamax.smoothmax import SmoothMax

_CURVES: dict[str, tuple[SmoothMax, str]] = {
    "max": (Hard(), ":"),
    "softmax": (Shannon(), "-"),
    "sparsemax": (SquaredNorm(), "-"),
    "sqpnormmax": (SquaredPNorm(1.5), "--"),
    "fusedmax": (Fused(0.1), "-."),
}
_ZOOM = (0.45, 1.3), (0.78, 1.02)


def figure2() -> Figure:
    """Draws max_Ω([t, 0]) and argmax_Ω([t, 0])_1 for t in [-4, 4].

    On the left every curve is shifted by a constant, Ω at a corner of the simplex, so that all of them meet the plain
    maximum far from zero. On the right a box enlarges the place where weights reach 1: sparsemax has a corner there,
    sq-pnorm-max (p = 1.5) bends smoothly, and fusedmax (strength 0.1) arrives later because it first holds both
    weights at one half.
    """
    t = torch.linspace(-4, 4, 1601, dtype=torch.float64)
    with figure_style():
        figure = Figure(figsize=(6.6, 2.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        zoom = right.inset_axes((0.6, 0.13, 0.39, 0.45), xlim=_ZOOM[0], ylim=_ZOOM[1])
        for name, (smooth, line) in _CURVES.items():
            value, weight = _along(smooth, t)
            label = "sq-pnorm-max" if name == "sqpnormmax" else name
            left.plot(t, value, line, color=colour(name), label=label)
            for axes in (right, zoom):
                axes.plot(t, weight, line, color=colour(name))
        left.set(xlabel="$t$", xlim=(-4, 4), ylim=(-0.1, 4.1), xticks=range(-4, 5, 2))
        left.set_title(r"$\mathrm{max}_\Omega([t, 0])$ + constant")
        left.legend(loc="upper left", borderaxespad=0.2, handlelength=2.2, labelspacing=0.3)
        right.set(xlabel="$t$", xlim=(-4, 4), ylim=(-0.03, 1.03), xticks=range(-4, 5, 2))
        right.set_yticks([0, 0.25, 0.5, 0.75, 1])
        right.set_title(r"$\Pi_\Omega([t, 0])_1 = \nabla\,\mathrm{max}_\Omega([t, 0])_1$")
        zoom.set(xticks=[], yticks=[])
        for spine in zoom.spines.values():
            spine.set(visible=True, edgecolor=INK, linewidth=0.6)
        right.indicate_inset_zoom(zoom, edgecolor=INK, linewidth=0.6, alpha=0.6)
    return figure


def _along(smooth: SmoothMax, t: Tensor) -> tuple[Tensor, Tensor]:
    """Computes max_Ω, shifted to meet the plain maximum, and the first weight of argmax_Ω."""
    pairs = torch.stack((t, torch.zeros_like(t)), -1)
    value, weights = smooth.max_and_argmax(pairs)
    return value + smooth.omega(t.new_tensor([1.0, 0.0])), weights[..., 0]
