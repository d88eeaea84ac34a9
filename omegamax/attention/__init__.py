"""Attention: score functions × normalizers, and the layers made from them."""

from omegamax.attention.attention import Attended as Attended
from omegamax.attention.attention import Attention as Attention
from omegamax.attention.multihead import MultiheadAttention as MultiheadAttention
from omegamax.attention.normalizers import NormalizerModule as NormalizerModule
from omegamax.attention.placements import NormPlacement as NormPlacement
from omegamax.attention.placements import PostNorm as PostNorm
from omegamax.attention.placements import PreNorm as PreNorm
from omegamax.attention.positions import LearnedPositions as LearnedPositions
from omegamax.attention.positions import Positions as Positions
from omegamax.attention.positions import SinusoidalPositions as SinusoidalPositions
from omegamax.attention.scores import Additive as Additive
from omegamax.attention.scores import Bilinear as Bilinear
from omegamax.attention.scores import Cosine as Cosine
from omegamax.attention.scores import DotProduct as DotProduct
from omegamax.attention.scores import ScaledDotProduct as ScaledDotProduct
from omegamax.attention.scores import Score as Score
from omegamax.attention.structured import ChainNormalizer as ChainNormalizer
from omegamax.attention.structured import TreeNormalizer as TreeNormalizer
from omegamax.attention.transformer import Transformer as Transformer
from omegamax.attention.transformer import Translated as Translated
from omegamax.attention.transformer_decoder import Decoded as Decoded
from omegamax.attention.transformer_decoder import DecoderCache as DecoderCache
from omegamax.attention.transformer_decoder import Stepped as Stepped
from omegamax.attention.transformer_decoder import TransformerDecoder as TransformerDecoder
from omegamax.attention.transformer_encoder import Encoded as Encoded
from omegamax.attention.transformer_encoder import TransformerEncoder as TransformerEncoder
