"""A pytest plugin (`-p sanitized_kernels`): the kernels in $OMEGAMAX_SANITIZED take the place of the installed ones.

An editable install is found before anything on PYTHONPATH, so the module is loaded here, before the library imports it.
"""

import importlib.util
import os
import pathlib
import sys

(path,) = pathlib.Path(os.environ["OMEGAMAX_SANITIZED"]).glob("_native*.so")
spec = importlib.util.spec_from_file_location("omegamax._native", path)
sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])


def pytest_configure():
    """Checks that the library uses these kernels."""
    from omegamax import routing

    assert routing.native is sys.modules[spec.name]
