"""A stack of bidirectional LSTMs over padded sequences, computed without packing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omegamax.models.sequence_tagger import SharedDropout


class BidirectionalLSTM(nn.Module):
    """States (B, N, 2 · hidden_size) of sequences (B, N, in_features) with lengths (B,).

    The backward direction is a second LSTM on sequences that are reversed within their lengths, so padding at the end
    is never read, and PyTorch's fused LSTM (oneDNN on a CPU) takes the whole padded batch: about twice as fast as
    packed sequences. Dropout drops the same features at all positions of a sequence (Gal & Ghahramani, NeurIPS 2016).

    Arguments:
        in_features: of the input
        hidden_size: features of each direction
        n_layers: how many layers
        dropout: probability of the features of each layer's input but the first's
    """

    def __init__(self, in_features: int, hidden_size: int, *, n_layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        sizes = [in_features, *[2 * hidden_size] * (n_layers - 1)]
        self.forwards = nn.ModuleList(nn.LSTM(size, hidden_size, batch_first=True) for size in sizes)
        self.backwards = nn.ModuleList(nn.LSTM(size, hidden_size, batch_first=True) for size in sizes)
        self.dropout = SharedDropout(dropout)
        self.out_features = 2 * hidden_size

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Computes the states.

        Arguments:
            inputs: (B, N, in_features)
            lengths: (B,); states beyond the length depend on padding
        """
        turned = reversed_positions(lengths, inputs.shape[1])
        states = inputs
        for number, (ahead, back) in enumerate(zip(self.forwards, self.backwards)):
            if number:
                states = self.dropout(states)
            onward, _ = ahead(states)
            backward, _ = back(_take(states, turned))
            states = torch.cat([onward, _take(backward, turned)], -1)
        return states


def reversed_positions(lengths: Tensor, n: int) -> Tensor:
    """Returns positions (B, n) that reverse each sequence within its length and leave padding where it is.

    >>> reversed_positions(torch.tensor([3, 2]), 3)
    tensor([[2, 1, 0],
            [1, 0, 2]])
    """
    place = torch.arange(n, device=lengths.device)
    length = lengths.unsqueeze(-1)
    return torch.where(place < length, length - 1 - place, place)


def _take(states: Tensor, positions: Tensor) -> Tensor:
    return states.gather(1, positions.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
