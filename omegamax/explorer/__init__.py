"""The explorer: one web page in which our kernels, compiled to WebAssembly, show what scores become."""

from omegamax.explorer.page import explorer_page, source_digest

__all__ = ["explorer_page", "source_digest"]
