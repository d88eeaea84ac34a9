"""Attention: score functions × normalizers, and the layers made from them."""

from omegamax.attention.attention import Attended as Attended
from omegamax.attention.attention import Attention as Attention
from omegamax.attention.estimators import Chosen as Chosen
from omegamax.attention.estimators import Estimator as Estimator
from omegamax.attention.estimators import Marginalize as Marginalize
from omegamax.attention.estimators import Mixed as Mixed
from omegamax.attention.estimators import MovingAverage as MovingAverage
from omegamax.attention.estimators import Reinforce as Reinforce
from omegamax.attention.estimators import StraightThrough as StraightThrough
from omegamax.attention.hard import Glimpses as Glimpses
from omegamax.attention.hard import HardAttention as HardAttention
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
