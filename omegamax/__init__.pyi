"""The public names: about a hundred, each with the module that defines it.

`__init__.py` reads this list when a name is first used; type checkers and editors read it as a stub. Everything else is
reached through its room, as in `om.attention.DrawAttention`.
"""

__version__: str

# The operators on rows of scores.
from omegamax.functional import hardmax as hardmax
from omegamax.functional import softmax as softmax
from omegamax.functional import sparsemax as sparsemax
from omegamax.functional import entmax15 as entmax15
from omegamax.functional import entmax as entmax
from omegamax.functional import sqpnormmax as sqpnormmax
from omegamax.functional import normmax as normmax
from omegamax.functional import fusedmax as fusedmax
from omegamax.functional import oscarmax as oscarmax
from omegamax.functional import groupmax as groupmax
from omegamax.functional import smooth_max as smooth_max
from omegamax.functional import smooth_argmax as smooth_argmax
from omegamax.functional import gate as gate
from omegamax.sampling import sample as sample
from omegamax.sampling import gumbel_argmax as gumbel_argmax
from omegamax.sampling import straight_through_argmax as straight_through_argmax
from omegamax.proximal import project_simplex as project_simplex
from omegamax.proximal import prox_tv1d as prox_tv1d
from omegamax.proximal import prox_oscar as prox_oscar
from omegamax.proximal import prox_owl as prox_owl
from omegamax.proximal import prox_group as prox_group
from omegamax.proximal import isotonic_regression as isotonic_regression
from omegamax.soft_sorting import soft_sort as soft_sort
from omegamax.soft_sorting import soft_rank as soft_rank
from omegamax.soft_sorting import soft_topk_mask as soft_topk_mask
from omegamax.soft_sorting import soft_quantile as soft_quantile

# The regularizers Ω, and what every smoothed maximum offers.
from omegamax.smoothmax import SmoothMax as SmoothMax
from omegamax.operators import Regularizer as Regularizer
from omegamax.operators import Hard as Hard
from omegamax.operators import Shannon as Shannon
from omegamax.operators import SquaredNorm as SquaredNorm
from omegamax.operators import Tsallis as Tsallis
from omegamax.operators import SquaredPNorm as SquaredPNorm
from omegamax.operators import NormEntropy as NormEntropy
from omegamax.operators import Fused as Fused
from omegamax.operators import Oscar as Oscar
from omegamax.operators import GroupLasso as GroupLasso
from omegamax.operators import GridTV as GridTV
from omegamax.operators import Differentiable as Differentiable
from omegamax.operators import Scaled as Scaled

# The operators as layers.
from omegamax.modules import Hardmax as Hardmax
from omegamax.modules import Softmax as Softmax
from omegamax.modules import Sparsemax as Sparsemax
from omegamax.modules import Entmax15 as Entmax15
from omegamax.modules import Entmax as Entmax
from omegamax.modules import SqPNormMax as SqPNormMax
from omegamax.modules import Normmax as Normmax
from omegamax.modules import Fusedmax as Fusedmax
from omegamax.modules import Oscarmax as Oscarmax
from omegamax.modules import Groupmax as Groupmax
from omegamax.modules import Above as Above

# The structures.
from omegamax.structures import Structure as Structure
from omegamax.structures import Chain as Chain
from omegamax.structures import SemiMarkov as SemiMarkov
from omegamax.structures import CTC as CTC
from omegamax.structures import Alignment as Alignment
from omegamax.structures import BandedAlignment as BandedAlignment
from omegamax.structures import GlobalAlignment as GlobalAlignment
from omegamax.structures import LocalAlignment as LocalAlignment
from omegamax.structures import Dag as Dag
from omegamax.structures import Hypergraph as Hypergraph
from omegamax.structures import HypergraphBuilder as HypergraphBuilder
from omegamax.structures import ConstituencyTree as ConstituencyTree
from omegamax.structures import Pcfg as Pcfg
from omegamax.structures import Grammar as Grammar
from omegamax.structures import ProjectiveTree as ProjectiveTree
from omegamax.structures import Arborescence as Arborescence
from omegamax.structures import Matching as Matching
from omegamax.structures import Subset as Subset
from omegamax.structures import Budget as Budget
from omegamax.structures import FactorGraph as FactorGraph
from omegamax.structures import FactorGraphBuilder as FactorGraphBuilder
from omegamax.structures import Polytope as Polytope
from omegamax.structures import Smoothed as Smoothed
from omegamax.structures import SparseMAP as SparseMAP
from omegamax.structures import Sinkhorn as Sinkhorn
from omegamax.structures import allowed_transitions as allowed_transitions
from omegamax.structures import ctc_loss as ctc_loss
from omegamax.structures import edit_distance as edit_distance
from omegamax.structures import soft_dtw as soft_dtw
from omegamax.structures import soft_dtw_alignment as soft_dtw_alignment
from omegamax.structures import soft_dtw_divergence as soft_dtw_divergence
from omegamax.structures import soft_dtw_barycenter as soft_dtw_barycenter

# The losses.
from omegamax.losses import FenchelYoungLoss as FenchelYoungLoss
from omegamax.losses import SoftmaxLoss as SoftmaxLoss
from omegamax.losses import SparsemaxLoss as SparsemaxLoss
from omegamax.losses import Entmax15Loss as Entmax15Loss
from omegamax.losses import EntmaxLoss as EntmaxLoss
from omegamax.losses import SqPNormMaxLoss as SqPNormMaxLoss
from omegamax.losses import NormmaxLoss as NormmaxLoss
from omegamax.losses import FusedmaxLoss as FusedmaxLoss
from omegamax.losses import OscarmaxLoss as OscarmaxLoss
from omegamax.losses import GroupmaxLoss as GroupmaxLoss
from omegamax.losses import PerceptronLoss as PerceptronLoss
from omegamax.losses import CRFLoss as CRFLoss
from omegamax.losses import SparseMAPLoss as SparseMAPLoss
from omegamax.losses import PartialLoss as PartialLoss
from omegamax.losses import MarginLoss as MarginLoss
from omegamax.losses import MarginSparseMAPLoss as MarginSparseMAPLoss
from omegamax.losses import CTCLoss as CTCLoss
from omegamax.losses import SoftDTWLoss as SoftDTWLoss
from omegamax.losses import SoftDTWDivergenceLoss as SoftDTWDivergenceLoss
from omegamax.losses import fenchel_young_loss as fenchel_young_loss

# The main attention layers, and a model.
from omegamax.attention import Attention as Attention
from omegamax.attention import MultiheadAttention as MultiheadAttention
from omegamax.attention import HardAttention as HardAttention
from omegamax.attention import sparse_attention as sparse_attention
from omegamax.attention import sparse_attention_with_weights as sparse_attention_with_weights
from omegamax.attention import Additive as Additive
from omegamax.attention import Bilinear as Bilinear
from omegamax.attention import Cosine as Cosine
from omegamax.attention import DotProduct as DotProduct
from omegamax.attention import ScaledDotProduct as ScaledDotProduct
from omegamax.attention import Transformer as Transformer
from omegamax.attention import TransformerEncoder as TransformerEncoder
from omegamax.attention import TransformerDecoder as TransformerDecoder
from omegamax.attention import CausalTransformer as CausalTransformer
from omegamax.models import CRF as CRF

# The rooms.
from omegamax import attention as attention
from omegamax import comparisons as comparisons
from omegamax import compat as compat
from omegamax import data as data
from omegamax import functional as functional
from omegamax import inference as inference
from omegamax import integrations as integrations
from omegamax import kernels as kernels
from omegamax import losses as losses
from omegamax import models as models
from omegamax import modules as modules
from omegamax import operators as operators
from omegamax import plots as plots
from omegamax import proximal as proximal
from omegamax import recipes as recipes
from omegamax import registry as registry
from omegamax import reproductions as reproductions
from omegamax import sampling as sampling
from omegamax import smoothmax as smoothmax
from omegamax import soft_sorting as soft_sorting
from omegamax import spans as spans
from omegamax import structures as structures
from omegamax import training as training
