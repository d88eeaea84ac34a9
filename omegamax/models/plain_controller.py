"""A controller without a memory, to compare with: an LSTM and its outputs.

h_t, c_t = LSTM(x_t, (h_{t−1}, c_{t−1})),      y_t = W h_t
"""

from __future__ import annotations

from torch import Tensor, nn

from omegamax.attention.memories.external_memory import ControllerOutput, ControllerState
from omegamax.module_repr import shown


class PlainController(nn.Module):
    """An LSTM without a memory, called like a `MemoryController`: (batch, T, input_size) to (batch, T, output_size).

    Arguments:
        input_size: features of an input
        output_size: features of an output
        hidden_size: features of the LSTM
    """

    def __init__(self, input_size: int, output_size: int, *, hidden_size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, inputs: Tensor) -> ControllerOutput:
        """Runs all steps.

        Arguments:
            inputs: (batch, T, input_size)
        """
        states, (hidden, cell) = self.lstm(inputs)
        nothing = inputs.new_zeros(len(inputs), 0)
        return ControllerOutput(self.out(states), ControllerState(hidden[0], cell[0], nothing, None))

    def extra_repr(self) -> str:
        return shown(hidden_size=self.lstm.hidden_size)
