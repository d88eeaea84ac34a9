"""Losses from any smoothed maximum: Fenchel–Young on rows and structures, perceptron, CRF, SparseMAP, margins."""

from omegamax.losses.fenchel_young import FenchelYoungLoss as FenchelYoungLoss
from omegamax.losses.fenchel_young import Loss as Loss
from omegamax.losses.fenchel_young import fenchel_young_loss as fenchel_young_loss
