"""The explorer: one web page in which our kernels, compiled to WebAssembly, show what scores become."""

from omegamax.explorer.frame import ExplorerFrame
from omegamax.explorer.page import explorer_page, source_digest

__all__ = ["ExplorerFrame", "explorer_page", "source_digest"]
