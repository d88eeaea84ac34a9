"""The interfaces of other libraries, computed by omegamax: moving is a matter of one import.

    compat.entmax           the `entmax` package, 1.3
    compat.torchcrf         `pytorch-crf`, 0.7.2
    compat.torch_struct     the distributions of `torch-struct`, 0.5
    compat.softdtw          `SoftDTWLossPyTorch` of tslearn and `SoftDTW` of pytorch-softdtw-cuda
    compat.torchsparseattn  the layers of `torchsparseattn`, 0.3

Arguments have the names, the order and the defaults of the original. Values and gradients are ours: exact, with masks
and −inf, and twice differentiable. Where the original is wrong, the docstring says how, and ours is right.
"""

from omegamax.compat import entmax as entmax
from omegamax.compat import softdtw as softdtw
from omegamax.compat import torch_struct as torch_struct
from omegamax.compat import torchcrf as torchcrf
from omegamax.compat import torchsparseattn as torchsparseattn
