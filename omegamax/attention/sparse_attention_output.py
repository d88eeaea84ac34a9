"""The result of sparse attention, with its weights in CSR form."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor


class SparseAttentionOutput(NamedTuple):
    """The output of attention, and its weights that are not zero."""

    output: Tensor  # (..., heads, Q, features)
    weights: Tensor  # sparse CSR, (rows, K): a row for each query of each head of each item, in that order
    support_sizes: Tensor  # (..., heads, Q): how many weights of each row are not zero

    def head(self, *index: int) -> Tensor:
        """Returns the weights of one head of one item, sparse CSR, (Q, K); `index` has a number for each leading axis.

        >>> x = torch.eye(4).reshape(1, 2, 2, 4)  # one item, two heads, two vectors
        >>> om.sparse_attention_with_weights(x, x, x, SquaredNorm(), scale=2.0).head(0, 1).to_dense()
        tensor([[1., 0.],
                [0., 1.]])
        """
        lead, n_queries = self.output.shape[:-2], self.output.shape[-2]
        if len(index) != len(lead) or not all(-n <= i < n for i, n in zip(index, lead)):
            raise ValueError(
                f"SparseAttentionOutput: head needs one number for each of the axes {tuple(lead)}, got {index}; count "
                "from 0"
            )
        start = 0
        for i, n in zip(index, lead):
            start = start * n + i % n
        offsets = self.weights.crow_indices()[start * n_queries : (start + 1) * n_queries + 1]
        held = slice(int(offsets[0]), int(offsets[-1]))
        columns, weights = self.weights.col_indices()[held], self.weights.values()[held]
        return csr_matrix(offsets - offsets[0], columns, weights, self.weights.shape[1])


def output_with_weights(
    output: Tensor, offsets: Tensor, columns: Tensor, weights: Tensor, n_keys: int
) -> SparseAttentionOutput:
    """Puts the output (..., heads, Q, features) and the weights, given in CSR form, together."""
    csr = csr_matrix(offsets, columns, weights, n_keys)
    return SparseAttentionOutput(output, csr, offsets.diff().reshape(output.shape[:-1]))


def csr_matrix(offsets: Tensor, columns: Tensor, weights: Tensor, n_keys: int) -> Tensor:
    """Builds a sparse CSR tensor (rows, `n_keys`), without the warning that PyTorch gives once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return torch.sparse_csr_tensor(offsets, columns, weights, (len(offsets) - 1, n_keys), check_invariants=False)
