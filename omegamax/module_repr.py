"""The repr of a layer or a loss: its attributes, beside its submodules, which PyTorch shows."""

from __future__ import annotations

from torch import Tensor, nn

_LONGEST = 200  # letters of one value: groups may be as many as there are words


def shown(**held: object) -> str:
    """Lists names and values; leaves out None and modules. A tensor is shown by its shape.

    >>> shown(n_heads=2, mask=None, reduction="sum", weight=torch.ones(3))
    "n_heads=2, reduction='sum', weight=<(3,)>"
    """
    pairs = ((name, value) for name, value in held.items() if value is not None and not isinstance(value, nn.Module))
    return ", ".join(f"{name}={_text(value)}" for name, value in pairs)


def unless(value: object, default: object) -> object:
    """Returns the value, or None, which is not shown, if it is the default."""
    return None if not isinstance(value, Tensor) and value == default else value


def _text(value: object) -> str:
    if isinstance(value, Tensor):
        return f"<{tuple(value.shape)}>" if value.dim() else f"{value.item()}"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
