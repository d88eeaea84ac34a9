"""Whole networks as plain modules: what a recipe trains."""

from omegamax.models.beam_search import BeamSearchResult, beam_search
from omegamax.models.crf import CRF
from omegamax.models.encoder_decoder import DecoderStep, EncoderDecoder
from omegamax.models.readers import FixedReader, HardReader, Reader, ReaderOutput, SoftReader
from omegamax.models.recurrent_encoder import RecurrentEncoder, SourceStates
from omegamax.spelling import install as _install

__all__ = [
    "CRF",
    "BeamSearchResult",
    "DecoderStep",
    "EncoderDecoder",
    "FixedReader",
    "HardReader",
    "Reader",
    "ReaderOutput",
    "RecurrentEncoder",
    "SoftReader",
    "SourceStates",
    "beam_search",
]

_install(__name__)
