"""How a command says no."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818
    """What a user asked for cannot be done; the message says why and what to do, in one sentence. Exit code 2."""
