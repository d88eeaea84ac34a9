"""Describes a picture in words: a grid of vectors, an LSTM that writes, and a look at the grid before each word.

    v_i = [convolutions(picture)_i; position of i]        a cell of the grid for 4 × 4 pixels
    s_t = LSTM(s_{t−1}, [y_{t−1}; c_{t−1}])
    p_t = argmax_Ω(s_tᵀ W v_i)                            on the simplex over the grid
    scores of y_t given c_t = V tanh(C [c_t; s_t])

What is read, c_t, is

    soft        Σ_i p_ti v_i
    sampled     v_i with i ~ p_t, learned by REINFORCE; once learned, the cell where p_t is largest
    exact       every cell of the support: p(y_t) = Σ_i p_ti p(y_t | v_i), where s_{t+1} is given Σ_i p_ti v_i
    none        the mean of all v_i, for every word

Xu et al., "Show, attend and tell", ICML 2015. Their vectors come from a network that was trained on other pictures, and
their scores from a layer of tanh units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from omegamax import checks
from omegamax.attention.estimators import Choices, Estimator, Marginalize, SoftStart, row_entropy
from omegamax.attention.grid import GridAttention
from omegamax.attention.hard import HardAttentionOutput
from omegamax.attention.normalizers import Normalizer
from omegamax.attention.scores import DotProduct
from omegamax.attention.transformer.embeddings import SinusoidalPositions
from omegamax.models.sequence_model import DecoderStep, SequenceModel

STRIDE = 4  # pixels of a cell, up and across
# The captions of a batch are about equally long, so its pictures have as many digits: the running averages need many
# batches. The default momentum, 0.1, would leave them to the last few.
_MOMENTUM = 0.02
_POSITION, _WAVELENGTH = 16, 100.0  # features of a cell's row and of its column, and their scale


class GridEncoder(nn.Module):
    """Four convolutions of 3 × 3, two of which take every other pixel: a cell sees 17 × 17 pixels around it.

    Each is normalized over the batch: without that, digits are not told apart in the time that a run has. In training,
    the padding of a batch counts too.

    Arguments:
        out_features: of a cell's vector
    """

    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features
        widths = [1, max(1, out_features // 4), max(1, out_features // 2), out_features, out_features]
        self.layers = nn.ModuleList(
            nn.Conv2d(one, other, 3, stride=stride, padding=1)
            for one, other, stride in zip(widths, widths[1:], (1, 2, 2, 1))
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(width, momentum=_MOMENTUM) for width in widths[1:])

    def forward(self, pictures: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes pictures (B, H, W) of `sizes` (B, 2) as cells (B, h, w, out_features), and returns their sizes."""
        x = torch.where(within(sizes, *pictures.shape[1:]), pictures, 0).unsqueeze(1)
        for layer, norm in zip(self.layers, self.norms):
            assert isinstance(layer, nn.Conv2d)
            sizes = sizes if layer.stride == (1, 1) else (sizes + 1) // 2
            x = norm(layer(x)).relu()
            x = torch.where(within(sizes, *x.shape[2:]).unsqueeze(1), x, 0)  # as the padding of a picture alone
        return x.movedim(1, -1), sizes


def within(sizes: Tensor, height: int, width: int) -> Tensor:
    """Returns which cells (B, height, width) are within the rows and columns of each picture, (B, 2)."""
    rows, columns = (torch.arange(count, device=sizes.device) for count in (height, width))
    return (rows.unsqueeze(-1) < sizes[:, :1, None]) & (columns < sizes[:, 1:, None])


class EncodedPictures(NamedTuple):
    """What the decoder needs to know of pictures."""

    vectors: Tensor  # (B, h, w, features), one for each cell; zero beyond the size
    keys: Tensor  # (B, h, w, hidden), W v: what a decoder's state is multiplied with
    allowed: Tensor  # (B, h, w), True where there is a cell
    mean: Tensor  # (B, features), of the vectors


class CaptionState(NamedTuple):
    """The decoder between two words."""

    hidden: Tensor  # (B, hidden)
    cell: Tensor
    read: Tensor  # (B, features), c_{t−1}


class _Decoded(NamedTuple):
    read: Tensor  # (B, T, features)
    hidden: Tensor  # (B, T, hidden)
    weights: Tensor | None  # (B, T, h, w); None if nothing attends
    chosen: Sequence[HardAttentionOutput]  # of each word, if cells are sampled


class Captioner(SequenceModel):
    """Reads pictures (B, H, W) with rows and columns (B, 2) and writes words.

    Arguments:
        encoder: of pictures
        n_target: how many words there are
        normalizer: of the attention over the grid; None reads the mean of all cells before every word
        estimator: how hard attention learns: `Marginalize()` reads every cell of the support, others sample one;
            None is soft attention
        n_samples: how often the cells of a caption are drawn for a step of training, if cells are sampled
        rewards_rest: whether the reward of a choice is the likelihood of the words from there on, which are all that it
            changes, or that of the whole caption
        embedding_size: features of a word
        hidden_size: features of the decoder
        dropout: the share of features that training drops
        padding: the word that fills up short captions
    """

    def __init__(
        self,
        encoder: GridEncoder,
        n_target: int,
        *,
        normalizer: Normalizer | None,
        estimator: Estimator | None = None,
        n_samples: int = 1,
        rewards_rest: bool = False,
        embedding_size: int = 32,
        hidden_size: int = 128,
        dropout: float = 0.0,
        padding: int = 0,
    ) -> None:
        super().__init__()
        if normalizer is None and estimator is not None:
            raise ValueError(
                f"Captioner: estimator must be None without attention, got {type(estimator).__name__}; "
                "give a normalizer too"
            )
        checks.check_count("Captioner", "n_samples", n_samples)
        self.encoder, self.estimator, self.padding = encoder, estimator, padding
        self.n_samples, self.rewards_rest = n_samples, rewards_rest
        self.attention = None if normalizer is None else GridAttention(DotProduct(), normalizer=normalizer)
        self.positions = SinusoidalPositions(_WAVELENGTH)
        self.norm = nn.LayerNorm(encoder.out_features)
        features = encoder.out_features + 2 * _POSITION
        self.key = None if normalizer is None else nn.Linear(features, hidden_size, bias=False)
        self.embedding = nn.Embedding(n_target, embedding_size)
        self.first_state = nn.Linear(features, 2 * hidden_size)
        self.cell = nn.LSTMCell(embedding_size + features, hidden_size)
        self.combine = nn.Linear(features + hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, n_target)
        self.dropout = nn.Dropout(dropout)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Computes the log-likelihood of each word of `target` after the first.

        In training that samples cells it is that of the words given the cells, a mean over the samples. The other terms
        of the estimator's objective are added to each word if the reward of its choice is the likelihood of the words
        from there on, and to the first if the reward of all choices is that of the caption, log p(caption | choices).
        """
        if not (self.samples and self.training):
            return self.log_likelihood(source, lengths, target)
        assert self.estimator is not None
        soft = isinstance(self.estimator, SoftStart) and self.estimator.is_soft
        count = 1 if soft else self.n_samples  # of the captions that are drawn for each one, (n · B, ...)
        encoded = EncodedPictures(*(torch.cat([part] * count) for part in self.encode(source, lengths)))
        targets = torch.cat([target] * count)
        decoded = self._decode(encoded, targets)
        found = HardAttentionOutput.join(decoded.chosen)  # (1, n · B, T, ...)
        written = targets[:, 1:] != self.padding
        words, log_prob, entropy = (
            torch.where(written, each, 0).unflatten(0, (count, -1))
            for each in (self._of_target(decoded, encoded, targets), found.chosen.log_prob[0], found.entropy)
        )
        chosen = Choices(found.chosen.choices[0].unflatten(0, (count, -1)), log_prob, torch.ones_like(log_prob) / count)
        reward = words.detach().flip(-1).cumsum(-1).flip(-1)  # (n, B, T), of the words from each one on
        if self.rewards_rest:
            more = self.estimator.objective(reward, chosen, entropy.mean(0)) - reward.mean(0)
        else:
            whole = reward[..., 0]
            more = self.estimator.objective(whole, chosen, entropy.mean(0)) - whole.mean(0)
            more = nn.functional.pad(more.unsqueeze(-1), (0, words.shape[-1] - 1))
        return words.mean(0) + more

    @property
    def samples(self) -> bool:
        """Whether training draws cells."""
        return self.estimator is not None and not self.exact

    @property
    def exact(self) -> bool:
        """Whether the words' probabilities are sums over all cells of the support."""
        return isinstance(self.estimator, Marginalize)

    def log_likelihood(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        encoded = self.encode(source, lengths)
        return self._of_target(self._decode(encoded, target), encoded, target)

    def attend(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor | None:
        """Computes the weights (B, T, h, w) of the cells behind each word of `target` after the first."""
        return self._decode(self.encode(source, lengths), target).weights

    def encode(self, source: Tensor, lengths: Tensor | None) -> EncodedPictures:
        """Computes the vectors of the cells, and their mean."""
        if lengths is None:
            lengths = torch.tensor([source.shape[1:]], device=source.device).expand(len(source), 2)
        seen, sizes = self.encoder(source, lengths)
        height, width = seen.shape[1:3]
        real = within(sizes, height, width)
        rows, columns = (self.positions(seen.new_zeros(count, _POSITION)) for count in (height, width))
        where = torch.cat([rows.unsqueeze(1).expand(-1, width, -1), columns.expand(height, -1, -1)], -1)
        parts = [self.dropout(self.norm(seen)), where.expand(len(source), -1, -1, -1)]
        vectors = torch.where(real.unsqueeze(-1), torch.cat(parts, -1), 0)
        keys = vectors if self.key is None else self.key(vectors)
        return EncodedPictures(vectors, keys, real, vectors.sum((1, 2)) / sizes.prod(-1, keepdim=True))

    def start(self, encoded: EncodedPictures) -> CaptionState:
        hidden, cell = self.first_state(encoded.mean).tanh().chunk(2, -1)
        return CaptionState(hidden, cell, torch.zeros_like(encoded.mean))

    def step(self, token: Tensor, state: CaptionState, encoded: EncodedPictures) -> DecoderStep:
        """Predicts the next word; cells are no tokens of a source, so that the step has no weights."""
        state, weights, _ = self._advance(self.dropout(self.embedding(token)), state, encoded)
        if weights is not None and self.exact:
            return DecoderStep(self._marginal(weights, state.hidden, encoded.vectors.flatten(1, 2)), state)
        return DecoderStep(self._log_probs(state.read, state.hidden), state)

    def _decode(self, encoded: EncodedPictures, target: Tensor) -> _Decoded:
        state, read, hidden, weights, chosen = self.start(encoded), [], [], [], []
        for embedded in self.dropout(self.embedding(target[:, :-1])).unbind(1):
            state, looked, choice = self._advance(embedded, state, encoded)
            read.append(state.read)
            hidden.append(state.hidden)
            weights += [] if looked is None else [looked]
            chosen += [] if choice is None else [choice]
        return _Decoded(
            torch.stack(read, 1), torch.stack(hidden, 1), torch.stack(weights, 1) if weights else None, chosen
        )

    def _advance(
        self, embedded: Tensor, state: CaptionState, encoded: EncodedPictures
    ) -> tuple[CaptionState, Tensor | None, HardAttentionOutput | None]:
        """Takes a word and reads; returns the new state, the weights (B, h, w), and the choice if one was drawn."""
        hidden, cell = self.cell(torch.cat([embedded, state.read], -1), (state.hidden, state.cell))
        if self.attention is None:
            return CaptionState(hidden, cell, encoded.mean), None, None
        found = self.attention(
            hidden.unsqueeze(1), encoded.keys, encoded.vectors, mask=encoded.allowed.unsqueeze(1), need_weights=True
        )
        weights = found.weights.squeeze(1)
        if not self.samples:
            return CaptionState(hidden, cell, found.output.squeeze(1)), weights, None
        assert self.estimator is not None
        cells, vectors = weights.flatten(1).unsqueeze(1), encoded.vectors.flatten(1, 2)  # (B, 1, K), (B, K, features)
        if not self.training:
            likeliest = nn.functional.one_hot(cells.argmax(-1), cells.shape[-1]).to(cells.dtype)
            return CaptionState(hidden, cell, (likeliest @ vectors).squeeze(1)), weights, None
        choice = self.estimator.choose(cells)
        read = choice.choices @ vectors  # (1, B, 1, features)
        glimpse = HardAttentionOutput(read, cells, choice, row_entropy(cells))
        return CaptionState(hidden, cell, read[0].squeeze(1)), weights, glimpse

    def _of_target(self, decoded: _Decoded, encoded: EncodedPictures, target: Tensor) -> Tensor:
        """Computes the log-likelihood of the words of a caption, (B, T)."""
        if decoded.weights is not None and self.exact:
            log_probs = self._marginal(decoded.weights, decoded.hidden, encoded.vectors.flatten(1, 2))
        else:
            log_probs = self._log_probs(decoded.read, decoded.hidden)
        return log_probs.gather(-1, target[:, 1:].unsqueeze(-1)).squeeze(-1)

    def _marginal(self, weights: Tensor, hidden: Tensor, vectors: Tensor) -> Tensor:
        """Computes log Σ_i p_i p(y | v_i) of every word y, (..., words), for weights (B, ..., h, w)."""
        assert self.estimator is not None
        cells = weights.flatten(-2)
        if cells.dim() == 2:
            return self._marginal(weights.unsqueeze(1), hidden.unsqueeze(1), vectors).squeeze(1)
        chosen = self.estimator.choose(cells)  # choices (n, B, T, K)
        # C [v_i; s_t] is a sum of two terms, each computed once for a cell or a word, not for every pair of them.
        of_cell, of_state = self.combine.weight.split([vectors.shape[-1], hidden.shape[-1]], -1)
        read = torch.einsum("nbtk,bkh->nbth", chosen.choices, nn.functional.linear(vectors, of_cell))
        log_probs = self._of_combined(read + nn.functional.linear(hidden, of_state, self.combine.bias))
        prior = torch.where(chosen.share > 0, chosen.log_prob, -torch.inf)
        return (prior.unsqueeze(-1) + log_probs).logsumexp(0)

    def _log_probs(self, read: Tensor, hidden: Tensor) -> Tensor:
        return self._of_combined(self.combine(torch.cat([read, hidden], -1)))

    def _of_combined(self, combined: Tensor) -> Tensor:
        return self.out(self.dropout(combined.tanh())).log_softmax(-1)
