"""The command `omegamax info`, which prints versions, kernels and threads."""

from __future__ import annotations

import argparse
import os
import platform

HELP = "print versions, kernels and threads"
DESCRIPTION = "Prints versions, kernels and threads."
EXAMPLES = """\
examples:
  omegamax info
  OMEGAMAX_KERNELS=reference omegamax info     forces the pure PyTorch kernels"""

_ARCHES = {"baseline": "baseline", "v3": "AVX2", "v4": "AVX-512"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: the command takes no arguments."""


def run(options: argparse.Namespace) -> None:
    """Prints versions, kernels and threads."""
    print(describe())


def describe() -> str:
    """Returns versions, kernels and threads, one per line."""
    import torch

    import omegamax

    lines = {
        "omegamax": omegamax.__version__,
        "torch": torch.__version__,
        "python": f"{platform.python_version()} ({platform.system()}, {platform.machine()})",
        "kernels": _kernels(),
        "processor": _processor(),
        "threads": _threads(),
        "OMEGAMAX_KERNELS": os.environ.get("OMEGAMAX_KERNELS") or "not set",
    }
    return "\n".join(f"{name:<17} {value}" for name, value in lines.items())


def _threads() -> str:
    import torch

    from omegamax import routing

    whose = "PyTorch's" if routing.native is None or routing.native.threads_are_borrowed() else "a pool of our own"
    return f"{torch.get_num_threads()} ({whose})"


def _kernels() -> str:
    from importlib import import_module
    from pkgutil import iter_modules

    from omegamax import kernels, routing
    from omegamax.kernels.kernel import KERNELS

    for module in iter_modules(kernels.__path__):  # a kernel is known once its file is loaded
        import_module(f"omegamax.kernels.{module.name}")
    if routing.native is None:
        if os.environ.get("OMEGAMAX_KERNELS", "").lower() == "reference":
            return "pure PyTorch (asked for by OMEGAMAX_KERNELS)"
        return "pure PyTorch (no compiled kernels; install a C++ compiler and reinstall)"
    native = sum(kernel.native is not None for kernel in KERNELS.values())
    arch = routing.native.arch()
    arch = _ARCHES.get(arch, arch)
    return f"native, {arch} ({native} of {len(KERNELS)} kernels compiled)"


def _processor() -> str:
    from omegamax import routing

    if routing.native is None:
        return platform.machine()
    return "runs " + ", ".join(_ARCHES.get(arch, arch) for arch in routing.native.supported_archs())
