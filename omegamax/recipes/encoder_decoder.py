"""The encoder-decoder of `seq2seq` and `dates`: additive attention with any normalizer, hard attention, or none."""

from __future__ import annotations

from omegamax.attention.attention import Attention
from omegamax.attention.estimators import Marginalize
from omegamax.attention.hard import HardAttention
from omegamax.attention.scores import Additive
from omegamax.models import EncoderDecoder, FixedReader, HardReader, Reader, SoftReader
from omegamax.recipes.normalizers import HARD, NONE, make_normalizer
from omegamax.recipes.settings import Seq2SeqSettings


def encoder_decoder(settings: Seq2SeqSettings, n_source: int, n_target: int) -> EncoderDecoder:
    """Returns a model with the reader that the settings name.

    Arguments:
        settings: sizes, dropout and attention
        n_source: how many source tokens there are
        n_target: how many target tokens there are
    """
    return EncoderDecoder(
        n_source,
        n_target,
        reader=_reader(settings),
        embedding_size=settings.embedding_size,
        hidden_size=settings.hidden_size,
        dropout=settings.dropout,
    )


def _reader(settings: Seq2SeqSettings) -> Reader:
    if settings.attention == NONE:
        return FixedReader()
    # Every pair of tokens passes through this layer, so its size is most of the cost of attention.
    score = Additive(settings.hidden_size, settings.hidden_size, settings.hidden_size // 2)
    normalizer = make_normalizer(settings)
    if settings.attention == HARD:
        return HardReader(HardAttention(score, normalizer=normalizer, estimator=Marginalize()))
    return SoftReader(Attention(score, normalizer=normalizer))
