"""Whole networks as plain modules: what a recipe trains."""

from omegamax.models.beam_search import BeamSearchResult, beam_search
from omegamax.models.crf import CRF
from omegamax.models.encoder_decoder import DecoderStep, EncoderDecoder
from omegamax.models.pretrained_encoder import PieceBatch, PretrainedEncoder
from omegamax.models.readers import FixedReader, HardReader, Reader, ReaderOutput, SoftReader
from omegamax.models.recurrent_encoder import RecurrentEncoder, SourceStates
from omegamax.models.word_features import CharacterCNN, CharacterLSTM, WordBatch, WordFeatures
from omegamax.spelling import install as _install

__all__ = [
    "CRF",
    "BeamSearchResult",
    "CharacterCNN",
    "CharacterLSTM",
    "DecoderStep",
    "EncoderDecoder",
    "FixedReader",
    "HardReader",
    "PieceBatch",
    "PretrainedEncoder",
    "Reader",
    "ReaderOutput",
    "RecurrentEncoder",
    "SoftReader",
    "SourceStates",
    "WordBatch",
    "WordFeatures",
    "beam_search",
]

_install(__name__)
