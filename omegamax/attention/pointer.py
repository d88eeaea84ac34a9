"""Output heads that attend: point at the input, or copy from it.

    PointerHead  p(i)  = argmax_Ω(score(query, key))_i
    CopyHead     P(w)  = g P_vocabulary(w) + (1 − g) Σ_{i: x_i = w} a_i,      g = σ(w_hᵀ h + w_sᵀ s + w_xᵀ x + b)

Vinyals, Fortunato & Jaitly, "Pointer networks", NIPS 2015; See, Liu & Manning, "Get to the point", ACL 2017.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.attention import ScoredAttention
from omegamax.attention.masking import allowed_pairs
from omegamax.attention.normalizers import Normalizer, check_normalizer, normalize
from omegamax.attention.scores import Score
from omegamax.module_repr import shown
from omegamax.operators.shannon import Shannon

_SHANNON = Shannon()


class PointerOutput(NamedTuple):
    """Scores and probabilities of pointing at each key."""

    scores: Tensor  # (..., Q, K), −inf where masked: what a Fenchel–Young loss of the same normalizer takes
    probabilities: Tensor  # (..., Q, K)


class PointerHead(ScoredAttention):
    """A distribution over the keys themselves, however many there are.

    Queries (..., Q, dq) and keys (..., K, dk).

    Arguments:
        score: how queries meet keys: `DotProduct()`, `Additive(...)`, ...; None is the scaled dot product
        normalizer: what turns scores into weights: a regularizer, a structured SmoothMax or a layer such as `Entmax()`

    Train with the loss that belongs to the normalizer, on scores:

    >>> head = PointerHead(DotProduct(), normalizer=SquaredNorm())
    >>> pointed = head(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.0], [-1.0, 0.0]]))
    >>> pointed.probabilities
    tensor([[0.7500, 0.2500, 0.0000]])
    >>> FenchelYoungLoss(SquaredNorm())(pointed.scores, torch.tensor([0]))
    tensor(0.0625)
    """

    def __init__(self, score: Score | None = None, *, normalizer: Normalizer = _SHANNON) -> None:
        super().__init__(score, normalizer)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        causal: bool = False,
    ) -> PointerOutput:
        """Computes scores and probabilities; masks are those of `Attention`, for example of keys already pointed at."""
        allowed = allowed_pairs("PointerHead", query, key, mask=mask, lengths=lengths, causal=causal)
        scores, weights = self.scores_and_weights(query, key, allowed)
        return PointerOutput(scores if allowed is None else torch.where(allowed, scores, -torch.inf), weights)


class CopyOutput(NamedTuple):
    """Probabilities of the next word, from the vocabulary or from the source."""

    probabilities: Tensor  # (..., Q, n_words + n_extra)
    gate: Tensor  # (..., Q, 1), the probability of generating


class CopyHead(nn.Module):
    """A mixture of generating a word and copying one from the source, which may be outside of the vocabulary.

    The decoder's state s (..., Q, state_size), the attended context h (..., Q, context_size) and the decoder's input x
    (..., Q, input_size) decide between the two; V' (V [s; h] + b) + b' scores the words of the vocabulary. Words of the
    source that the vocabulary lacks have the numbers n_words, n_words + 1, ... in this source.

    Arguments:
        state_size: features of the decoder's state
        context_size: features of the attended context
        input_size: features of the decoder's input
        n_words: the size of the vocabulary
        hidden_size: between V and V'; None takes `state_size`
        normalizer: what makes the probabilities of the vocabulary from their scores
    """

    def __init__(
        self,
        state_size: int,
        context_size: int,
        input_size: int,
        n_words: int,
        *,
        hidden_size: int | None = None,
        normalizer: Normalizer = _SHANNON,
    ) -> None:
        super().__init__()
        check_normalizer("CopyHead", normalizer)
        hidden_size = state_size if hidden_size is None else hidden_size
        self.n_words, self.normalizer = n_words, normalizer
        self.generates = nn.Linear(context_size + state_size + input_size, 1)
        self.vocabulary = nn.Sequential(
            nn.Linear(state_size + context_size, hidden_size), nn.Linear(hidden_size, n_words)
        )
        self.state_size, self.context_size, self.input_size = state_size, context_size, input_size

    def extra_repr(self) -> str:
        sizes = {"state_size": self.state_size, "context_size": self.context_size, "input_size": self.input_size}
        return shown(**sizes, n_words=self.n_words, normalizer=self.normalizer)

    def forward(
        self, state: Tensor, context: Tensor, inputs: Tensor, weights: Tensor, source: Tensor, *, n_extra: int = 0
    ) -> CopyOutput:
        """Computes probabilities of n_words + n_extra words from weights (..., Q, K) over the words source (..., K).

        Where the weights of a query are all zero there is nothing to copy, and it generates.

        Arguments:
            state: (..., Q, state_size)
            context: (..., Q, context_size)
            inputs: (..., Q, input_size)
            weights: (..., Q, K), of the attention to the source
            source: integers (..., K), the words of the source
            n_extra: how many words of the source the vocabulary lacks
        """
        n_all = self.n_words + n_extra
        if source.shape[-1] != weights.shape[-1]:
            raise ValueError(
                f"CopyHead: there must be one word of the source for each weight, got {source.shape[-1]} words and "
                f"{weights.shape[-1]} weights; source is (..., K)"
            )
        checks.check_counts("CopyHead", "source", source, n_all - 1, "n_extra is how many words the vocabulary lacks")
        gate = self.generates(torch.cat([context, state, inputs], -1)).sigmoid()  # (..., Q, 1)
        gate = torch.where((weights > 0).any(-1, keepdim=True), gate, 1)
        generated = normalize(self.normalizer, self.vocabulary(torch.cat([state, context], -1)), None)
        generated = nn.functional.pad(gate * generated, (0, n_extra))
        copied = (1 - gate) * weights
        source = source.unsqueeze(-2).expand(*copied.shape[:-2], copied.shape[-2], -1)
        return CopyOutput(generated.scatter_add(-1, source, copied.to(generated.dtype)), gate)
