"""Triton kernels for a GPU: rows and sparse attention. Import only where Triton is installed; see `on_gpu`."""
