"""Whole networks as plain modules: what a recipe trains."""

from omegamax.models.beam_search import BeamSearchResult, beam_search
from omegamax.models.copying_lstm import CopyingLSTM
from omegamax.models.crf import CRF
from omegamax.models.encoder_decoder import EncoderDecoder
from omegamax.models.lstm_encoder_decoder import LSTMEncoderDecoder
from omegamax.models.readers import FixedReader, HardReader, Reader, ReaderOutput, SoftReader
from omegamax.models.recurrent_encoder import RecurrentEncoder, SourceStates
from omegamax.models.sequence_model import DecoderStep, SequenceModel
from omegamax.models.token_distribution import TokenDistribution
from omegamax.models.transformer_encoder_decoder import TransformerEncoderDecoder
from omegamax.spelling import install as _install

__all__ = [
    "CRF",
    "BeamSearchResult",
    "CopyingLSTM",
    "DecoderStep",
    "EncoderDecoder",
    "FixedReader",
    "HardReader",
    "LSTMEncoderDecoder",
    "Reader",
    "ReaderOutput",
    "RecurrentEncoder",
    "SequenceModel",
    "SoftReader",
    "SourceStates",
    "TokenDistribution",
    "TransformerEncoderDecoder",
    "beam_search",
]

_install(__name__)
