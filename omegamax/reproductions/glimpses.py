"""Hard attention to images as the lecture states it: what an image costs does not grow with its size."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from omegamax.models.glimpse_classifier import DifferentiableClassifier, GlimpseClassifier, RetinaClassifier
from omegamax.models.image_readers import GridReader, Retina
from omegamax.operators.shannon import Shannon
from omegamax.reproductions.claim import Outcome, Published, Row, at_least, at_most

_SIDES = (60, 120, 240)
_LOOKS, _PATCH, _SCALES = 3, 4, 2


def cost_of_an_image(published: Published) -> Outcome:
    """Counts the pixels on which the answer depends: those with a derivative that is not zero."""
    sizes: dict[str, Any] = {"feature_size": 16, "hidden_size": 16, "n_glimpses": _LOOKS}
    rows: list[Row] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        retina = RetinaClassifier(10, Retina(16, patch_size=_PATCH, n_scales=_SCALES), **sizes)
        soft = DifferentiableClassifier(10, GridReader(16, 4, 16, normalizer=Shannon()), **sizes)
        most = _LOOKS * (_PATCH * 2 ** (_SCALES - 1) + 1) ** 2  # a patch between pixels touches one row more
        for side in _SIDES:
            image = torch.rand(1, side, side)
            rows.append(at_most(f"pixels read by {_LOOKS} glimpses, side {side}", most, _pixels_read(retina, image)))
            name = f"share of pixels read by soft attention, side {side}"
            rows.append(at_least(name, 0.99, _pixels_read(soft, image) / side**2))
    return Outcome(rows)


def _pixels_read(model: GlimpseClassifier, image: torch.Tensor) -> int:
    image = image.double().requires_grad_()
    nn.Module.double(model)
    (gradient,) = torch.autograd.grad(model.answers(image)[0, 0], image)
    return int((gradient != 0).sum())
