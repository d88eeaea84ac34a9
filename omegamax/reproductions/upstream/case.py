"""A reported bug, and what running it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

NOT_INSTALLED = "not installed"


class Finding(NamedTuple):
    """One quantity: what it should be, what the package gives, and what we give."""

    quantity: str
    right: str
    theirs: str
    ours: str
    theirs_right: bool | None  # None where the package is not installed
    ours_right: bool


@dataclass(frozen=True)
class UpstreamCase:
    """A bug of a package.

    `run` is "module:function" in this room; the function returns the findings. `threads` are "owner/name#number" of
    the public reports; a case without one was found while this library was built.
    """

    id: str
    package: str  # the distribution, as pip names it
    threads: tuple[str, ...]
    reported: str
    run: str
    note: str = ""

    @property
    def links(self) -> list[str]:
        """Returns the addresses of the threads."""
        return [f"https://github.com/{name}/issues/{number}" for name, number in (t.split("#") for t in self.threads)]

    @property
    def installed(self) -> str | None:
        """Returns the version of the package, None where it is not installed."""
        return installed_version(self.package)

    def reproduce(self) -> list[Finding]:
        """Runs the case now, which loads PyTorch."""
        module, function = self.run.split(":")
        return getattr(import_module(f"{__package__}.{module}"), function)()


def installed_version(package: str) -> str | None:
    """Returns the version of a distribution without what follows "+", None where it is not installed."""
    try:
        return version(package).split("+")[0]
    except PackageNotFoundError:
        return None


def find(
    quantity: str,
    right: str,
    theirs: Callable[[], Any],
    ours: Callable[[], Any],
    is_right: Callable[[Any], bool],
    show: Callable[[Any], str] = str,
) -> Finding:
    """Computes both sides; what raises is shown as such, and is not right."""
    told, good = _attempt(theirs, is_right, show)
    mine, fine = _attempt(ours, is_right, show)
    return Finding(quantity, right, told, mine, None if told == NOT_INSTALLED else good, bool(fine))


def _attempt(call: Callable[[], Any], is_right: Callable[[Any], bool], show: Callable[[Any], str]) -> tuple[str, bool]:
    try:
        value = call()
        return show(value), bool(is_right(value))
    except ImportError:
        return NOT_INSTALLED, False
    except Exception as error:  # whatever a package raises is its answer
        line = (str(error).strip().splitlines() or [""])[0]
        return f"raises {type(error).__name__}: {line[:60]}{'…' if len(line) > 60 else ''}", False
