"""What the repr of a layer or a loss says about what it holds, beside its submodules, which show themselves."""

from __future__ import annotations

from torch import Tensor, nn

_LONGEST = 200  # letters of one value: groups may be as many as there are words


def shown(**held: object) -> str:
    """Names and values in a row; leaves out what is None and what is a module. A tensor shows its shape.

    >>> shown(n_heads=2, mask=None, reduction="sum", weight=torch.ones(3))
    "n_heads=2, reduction='sum', weight=<(3,)>"
    """
    pairs = ((name, value) for name, value in held.items() if value is not None and not isinstance(value, nn.Module))
    return ", ".join(f"{name}={_text(value)}" for name, value in pairs)


def unless(value: object, default: object) -> object:
    """The value; None, which is not shown, where it is the usual one."""
    return None if not isinstance(value, Tensor) and value == default else value


def _text(value: object) -> str:
    if isinstance(value, Tensor):
        return f"<{tuple(value.shape)}>" if value.dim() else f"{value.item()}"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
