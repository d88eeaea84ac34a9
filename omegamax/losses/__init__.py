"""Losses from any smoothed maximum: Fenchel–Young on rows and structures, perceptron, CRF, SparseMAP, margins."""

from omegamax.losses.ctc import CTCLoss as CTCLoss
from omegamax.losses.fenchel_young import FenchelYoungLoss as FenchelYoungLoss
from omegamax.losses.fenchel_young import Loss as Loss
from omegamax.losses.fenchel_young import fenchel_young_loss as fenchel_young_loss
from omegamax.losses.functional import entmax15_loss as entmax15_loss
from omegamax.losses.functional import entmax_loss as entmax_loss
from omegamax.losses.functional import fusedmax_loss as fusedmax_loss
from omegamax.losses.functional import groupmax_loss as groupmax_loss
from omegamax.losses.functional import normmax_loss as normmax_loss
from omegamax.losses.functional import oscarmax_loss as oscarmax_loss
from omegamax.losses.functional import softmax_loss as softmax_loss
from omegamax.losses.functional import sparsemax_loss as sparsemax_loss
from omegamax.losses.functional import sqpnormmax_loss as sqpnormmax_loss
from omegamax.losses.margin import MarginLoss as MarginLoss
from omegamax.losses.partial import PartialLoss as PartialLoss
from omegamax.losses.rows import Entmax15Loss as Entmax15Loss
from omegamax.losses.rows import EntmaxLoss as EntmaxLoss
from omegamax.losses.rows import FusedmaxLoss as FusedmaxLoss
from omegamax.losses.rows import GroupmaxLoss as GroupmaxLoss
from omegamax.losses.rows import NormmaxLoss as NormmaxLoss
from omegamax.losses.rows import OscarmaxLoss as OscarmaxLoss
from omegamax.losses.rows import SoftmaxLoss as SoftmaxLoss
from omegamax.losses.rows import SparsemaxLoss as SparsemaxLoss
from omegamax.losses.rows import SqPNormMaxLoss as SqPNormMaxLoss
from omegamax.losses.soft_dtw import SoftDTWDivergenceLoss as SoftDTWDivergenceLoss
from omegamax.losses.soft_dtw import SoftDTWLoss as SoftDTWLoss
from omegamax.losses.sparsemap import MarginSparseMAPLoss as MarginSparseMAPLoss
from omegamax.losses.sparsemap import SparseMAPLoss as SparseMAPLoss
from omegamax.losses.structured import CRFLoss as CRFLoss
from omegamax.losses.structured import PerceptronLoss as PerceptronLoss
from omegamax.spelling import install as _install

_install(__name__)
