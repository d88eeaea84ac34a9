"""Whole networks as plain modules: what a recipe trains."""

from omegamax.models.aligners import (
    Aligner,
    MatchingAligner,
    Reading,
    RowAligner,
    SequenceAligner,
    StructuredAligner,
    WordAlignment,
)
from omegamax.models.attentive_lstm import AttentiveLSTM
from omegamax.models.beam_search import BeamSearchResult, beam_search
from omegamax.models.biaffine import ArcLabels, Biaffine, BiaffineParser, ParserScores, WordStates
from omegamax.models.bidirectional_lstm import BidirectionalLSTM
from omegamax.models.copying_lstm import CopyingLSTM
from omegamax.models.crf import CRF
from omegamax.models.decomposable_attention import DecomposableAttention
from omegamax.models.encoder_decoder import EncoderDecoder
from omegamax.models.esim import ESIM
from omegamax.models.lstm_encoder_decoder import LSTMEncoderDecoder
from omegamax.models.pair_classifier import PairBatch, PairClassifier, PairOutput
from omegamax.models.pretrained_encoder import PieceBatch, PretrainedEncoder
from omegamax.models.readers import FixedReader, HardReader, Reader, ReaderOutput, SoftReader
from omegamax.models.recurrent_encoder import RecurrentEncoder, SourceStates
from omegamax.models.sequence_model import DecoderStep, SequenceModel
from omegamax.models.sequence_tagger import SequenceTagger, WordReader
from omegamax.models.token_distribution import TokenDistribution
from omegamax.models.transformer_encoder_decoder import TransformerEncoderDecoder
from omegamax.models.word_by_word_lstm import WordByWordLSTM
from omegamax.models.word_features import CharacterCNN, CharacterLSTM, WordBatch, WordFeatures
from omegamax.spelling import install as _install

__all__ = [
    "CRF",
    "ESIM",
    "Aligner",
    "ArcLabels",
    "AttentiveLSTM",
    "BeamSearchResult",
    "Biaffine",
    "BiaffineParser",
    "BidirectionalLSTM",
    "CharacterCNN",
    "CharacterLSTM",
    "CopyingLSTM",
    "DecoderStep",
    "DecomposableAttention",
    "EncoderDecoder",
    "FixedReader",
    "HardReader",
    "LSTMEncoderDecoder",
    "MatchingAligner",
    "PairBatch",
    "PairClassifier",
    "PairOutput",
    "ParserScores",
    "PieceBatch",
    "PretrainedEncoder",
    "Reader",
    "ReaderOutput",
    "Reading",
    "RecurrentEncoder",
    "RowAligner",
    "SequenceAligner",
    "SequenceModel",
    "SequenceTagger",
    "SoftReader",
    "SourceStates",
    "StructuredAligner",
    "TokenDistribution",
    "TransformerEncoderDecoder",
    "WordAlignment",
    "WordBatch",
    "WordByWordLSTM",
    "WordFeatures",
    "WordReader",
    "WordStates",
    "beam_search",
]

_install(__name__)
