"""The distributions of `torch-struct` (version 0.5): the same shapes, properties and methods.

Replace `import torch_struct` by `from omegamax.compat import torch_struct`. What differs:

- `lengths` may be any, none has to equal the size; batches may have more than one axis.
- −inf forbids a part, and large scores are exact: torch-struct puts −1e9 into its charts, and adds 1e-5 to the weight
  of every arc of a non-projective tree, so its log-partition is off by that, and wrong at large scores.
- `NonProjectiveDependencyCRF` has `argmax`, `max`, `sample`, `entropy` and `kl`, which torch-struct does not.
- Whether a `DependencyCRF` has one root is its own; in torch-struct making one changes all others.
- In a batch of unequal lengths each item of a `SemiMarkovCRF` gets what it gets alone; in torch-struct long segments
  of longer items are lost.
- `AlignmentCRF` needs no `genbmm`. Its `local` alignments begin with a match, at any cell, and end at any cell; its
  `max_gap` is the largest |i − j| on a path.
- `sample` takes any shape, and repeats nothing.
- Properties are computed when they are read, with derivatives, of `marginals` too; `log_partition` is `partition`.
- `topk` returns zeros, and `kmax` −inf, where there are fewer than k structures.

Not here: `SentCFG` (see `omegamax.Pcfg`), `gumbel_crf`, `Autoregressive`, and the semirings.
"""

from omegamax.compat.torch_struct.alignment_crf import AlignmentCRF as AlignmentCRF
from omegamax.compat.torch_struct.chains import HMM as HMM
from omegamax.compat.torch_struct.chains import LinearChainCRF as LinearChainCRF
from omegamax.compat.torch_struct.chains import SemiMarkovCRF as SemiMarkovCRF
from omegamax.compat.torch_struct.distribution import StructDistribution as StructDistribution
from omegamax.compat.torch_struct.parts import CKY_CRF as CKY_CRF
from omegamax.compat.torch_struct.parts import Alignment as Alignment
from omegamax.compat.torch_struct.parts import DepTree as DepTree
from omegamax.compat.torch_struct.parts import LinearChain as LinearChain
from omegamax.compat.torch_struct.parts import SemiMarkov as SemiMarkov
from omegamax.compat.torch_struct.trees import DependencyCRF as DependencyCRF
from omegamax.compat.torch_struct.trees import NonProjectiveDependencyCRF as NonProjectiveDependencyCRF
from omegamax.compat.torch_struct.trees import TreeCRF as TreeCRF
