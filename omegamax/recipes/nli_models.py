"""Makes the classifier of sentence pairs that the settings of `omegamax train nli` name.

    model          attention                  alignment                    NULL, direction
    lstm           any normalizer, or none    -                            -
    word-by-word   any normalizer             -                            -
    decomposable   any normalizer             rows, matching, sequence     yes
    esim           any normalizer             rows, matching, sequence     yes

Matchings and sequences are by SparseMAP, so the normalizer is that of `rows` alone.
"""

from __future__ import annotations

from torch import nn

from omegamax.attention.attention import Attention
from omegamax.attention.scores import Additive
from omegamax.models.aligners import Aligner, MatchingAligner, RowAligner, SequenceAligner
from omegamax.models.attentive_lstm import AttentiveLSTM
from omegamax.models.decomposable_attention import DecomposableAttention
from omegamax.models.esim import ESIM
from omegamax.models.word_by_word_lstm import WordByWordLSTM
from omegamax.recipes.normalizers import HARD, NONE, NORMALIZERS, check_attention, make_normalizer
from omegamax.recipes.settings import NLISettings


def make_classifier(settings: NLISettings, size: int, n_labels: int) -> nn.Module:
    """Returns the classifier of features of this size that the settings name."""
    hidden_size, dropout = settings.hidden_size, settings.dropout
    if settings.model == "lstm":
        attention = None
        if settings.attention != NONE:
            attention = Attention(Additive(hidden_size, hidden_size), normalizer=make_normalizer(settings))
        return AttentiveLSTM(size, n_labels, attention=attention, hidden_size=hidden_size, dropout=dropout)
    if settings.model == "word-by-word":
        normalizer = make_normalizer(settings)
        return WordByWordLSTM(size, n_labels, normalizer=normalizer, hidden_size=hidden_size, dropout=dropout)
    kind = DecomposableAttention if settings.model == "decomposable" else ESIM
    return kind(size, n_labels, aligner=_aligner(settings), hidden_size=hidden_size, dropout=dropout)


def _aligner(settings: NLISettings) -> Aligner:
    null, both_ways = settings.null == "yes", settings.direction == "both"
    if settings.alignment == "rows":
        return RowAligner(make_normalizer(settings), null=null, both_ways=both_ways)
    kind = MatchingAligner if settings.alignment == "matching" else SequenceAligner
    return kind(gamma=settings.gamma, null=null, both_ways=both_ways)


def check_nli_settings(settings: NLISettings) -> None:
    """Raises ValueError for an attention or an alignment that the model does not have."""
    check_attention(settings)
    names = ", ".join(NORMALIZERS)
    if settings.attention == HARD or (settings.attention == NONE and settings.model != "lstm"):
        raise ValueError(
            f"nli: attention must be one of {names}, or none with --model lstm, got {settings.attention!r}; change it"
        )
    if settings.model in ("lstm", "word-by-word") and (settings.alignment != "rows" or settings.null == "yes"):
        how = "once and aligns no words" if settings.model == "lstm" else "for one word at a time"
        raise ValueError(
            f"nli: the model {settings.model} looks at the premise {how}, got an alignment or NULL; choose "
            "--model esim or --model decomposable for them"
        )
    if settings.alignment != "rows" and settings.attention != "softmax":
        raise ValueError(
            f"nli: --alignment {settings.alignment} is by SparseMAP and takes no --attention, got "
            f"{settings.attention}; leave it out"
        )
