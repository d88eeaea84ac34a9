"""Attention: score functions × normalizers, and the layers made from them."""

from omegamax.attention.attention import Attended as Attended
from omegamax.attention.attention import Attention as Attention
from omegamax.attention.draw import DrawAttention as DrawAttention
from omegamax.attention.draw import DrawWindow as DrawWindow
from omegamax.attention.glimpse import GlimpseSensor as GlimpseSensor
from omegamax.attention.grid import GridAttention as GridAttention
from omegamax.attention.multihead import MultiheadAttention as MultiheadAttention
from omegamax.attention.normalizers import NormalizerModule as NormalizerModule
from omegamax.attention.scores import Additive as Additive
from omegamax.attention.scores import Bilinear as Bilinear
from omegamax.attention.scores import Cosine as Cosine
from omegamax.attention.scores import DotProduct as DotProduct
from omegamax.attention.scores import ScaledDotProduct as ScaledDotProduct
from omegamax.attention.scores import Score as Score
from omegamax.attention.structured import ChainNormalizer as ChainNormalizer
from omegamax.attention.structured import TreeNormalizer as TreeNormalizer
