"""Whole networks as plain modules: what a recipe trains."""

from omegamax.models.beam_search import BeamSearchResult, beam_search
from omegamax.models.biaffine import ArcLabels, Biaffine, BiaffineParser, ParserScores, WordStates
from omegamax.models.bidirectional_lstm import BidirectionalLSTM
from omegamax.models.crf import CRF
from omegamax.models.encoder_decoder import DecoderStep, EncoderDecoder
from omegamax.models.pretrained_encoder import PieceBatch, PretrainedEncoder
from omegamax.models.readers import FixedReader, HardReader, Reader, ReaderOutput, SoftReader
from omegamax.models.recurrent_encoder import RecurrentEncoder, SourceStates
from omegamax.models.sequence_tagger import SequenceTagger, WordReader
from omegamax.models.word_features import CharacterCNN, CharacterLSTM, WordBatch, WordFeatures
from omegamax.spelling import install as _install

__all__ = [
    "CRF",
    "ArcLabels",
    "BeamSearchResult",
    "Biaffine",
    "BiaffineParser",
    "BidirectionalLSTM",
    "CharacterCNN",
    "CharacterLSTM",
    "DecoderStep",
    "EncoderDecoder",
    "FixedReader",
    "HardReader",
    "ParserScores",
    "PieceBatch",
    "PretrainedEncoder",
    "Reader",
    "ReaderOutput",
    "RecurrentEncoder",
    "SequenceTagger",
    "SoftReader",
    "SourceStates",
    "WordBatch",
    "WordFeatures",
    "WordReader",
    "WordStates",
    "beam_search",
]

_install(__name__)
