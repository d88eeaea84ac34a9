"""Makes the model that the settings of `translate` and `summarize` name."""

from __future__ import annotations

from omegamax.attention.transformer.embeddings import LearnedPositions, SinusoidalPositions
from omegamax.models import LSTMEncoderDecoder, SequenceModel, TokenDistribution, TransformerEncoderDecoder
from omegamax.recipes.normalizers import HARD, NONE, NORMALIZERS, check_attention, make_normalizer
from omegamax.recipes.settings import AttentionSettings, TranslateSettings
from omegamax.registry import regularizer


def check_model(settings: TranslateSettings) -> None:
    """Raises ValueError for a normalizer that does not exist, or that the model cannot have."""
    if settings.attention == HARD:
        raise ValueError(
            f"attention must be one of {', '.join(NORMALIZERS)} or {NONE}, got {HARD!r}; train seq2seq with it"
        )
    if settings.attention == NONE and settings.model == "transformer":
        raise ValueError(f"attention {NONE} is for the lstm, got the model transformer; choose another --attention")
    check_attention(settings)
    if settings.self_attention not in NORMALIZERS:
        raise ValueError(
            f"self_attention must be one of {', '.join(NORMALIZERS)}, got {settings.self_attention!r}; "
            "change it with --self-attention"
        )
    if settings.self_attention != "softmax" and settings.model != "transformer":
        raise ValueError("self_attention is the transformer's, got the model lstm; add --model transformer")


def sequence_model(settings: TranslateSettings, n_source: int, n_target: int) -> SequenceModel:
    """Returns an LSTM with input feeding or a Transformer.

    Arguments:
        settings: the kind of the model, its sizes, its attention, its output
        n_source: how many source tokens there are
        n_target: how many target tokens there are
    """
    distribution = TokenDistribution(regularizer(settings.output), settings.label_smoothing)
    if settings.model == "transformer":
        return TransformerEncoderDecoder(
            None if settings.vocabulary == "joint" else n_source,
            n_target,
            cross_normalizer=make_normalizer(settings),
            normalizer=make_normalizer(AttentionSettings(attention=settings.self_attention)),
            distribution=distribution,
            size=settings.hidden_size,
            n_heads=settings.n_heads,
            n_layers=settings.n_layers,
            hidden_size=settings.feed_forward_size,
            key_size=settings.key_size or None,
            dropout=settings.dropout,
            positions=SinusoidalPositions()
            if settings.max_positions is None
            else LearnedPositions(settings.max_positions, settings.hidden_size),
        )
    return LSTMEncoderDecoder(
        n_source,
        n_target,
        normalizer=None if settings.attention == NONE else make_normalizer(settings),
        distribution=distribution,
        embedding_size=settings.embedding_size,
        hidden_size=settings.hidden_size,
        n_layers=settings.n_layers,
        dropout=settings.dropout,
        scaled=settings.score == "scaled",
    )
