"""Regularizers Ω of one row, and the smoothed maxima that they define, one file per Ω."""

from omegamax.operators.differentiable import Differentiable as Differentiable
from omegamax.operators.fused import Fused as Fused
from omegamax.operators.grid_tv import GridTV as GridTV
from omegamax.operators.group_lasso import GroupLasso as GroupLasso
from omegamax.operators.hard import Hard as Hard
from omegamax.operators.norm_entropy import NormEntropy as NormEntropy
from omegamax.operators.oscar import Oscar as Oscar
from omegamax.operators.regularizer import Regularizer as Regularizer
from omegamax.operators.scaled import Scaled as Scaled
from omegamax.operators.shannon import Shannon as Shannon
from omegamax.operators.solution import Pullback as Pullback
from omegamax.operators.solution import Slope as Slope
from omegamax.operators.solution import Solution as Solution
from omegamax.operators.squared_norm import SquaredNorm as SquaredNorm
from omegamax.operators.squared_pnorm import SquaredPNorm as SquaredPNorm
from omegamax.operators.tsallis import Tsallis as Tsallis
from omegamax.spelling import install as _install

_install(__name__)
