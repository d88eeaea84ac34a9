"""What is chosen: chains, alignments, trees, and users' own hypergraphs, one file per structure."""

from omegamax.structures.alignment import Alignment as Alignment
from omegamax.structures.banded_alignment import BandedAlignment as BandedAlignment
from omegamax.structures.bands import Band as Band
from omegamax.structures.bands import Itakura as Itakura
from omegamax.structures.bands import SakoeChiba as SakoeChiba
from omegamax.structures.chain import Chain as Chain
from omegamax.structures.chain import FactoredChain as FactoredChain
from omegamax.structures.dag import Dag as Dag
from omegamax.structures.edit_distance import edit_distance as edit_distance
from omegamax.structures.gapped_alignment import GappedScores as GappedScores
from omegamax.structures.gapped_alignment import GlobalAlignment as GlobalAlignment
from omegamax.structures.gapped_alignment import LocalAlignment as LocalAlignment
from omegamax.structures.hypergraph import Hypergraph as Hypergraph
from omegamax.structures.hypergraph import HypergraphBuilder as HypergraphBuilder
from omegamax.structures.lists import Marginal as Marginal
from omegamax.structures.lists import Support as Support
from omegamax.structures.lists import TopK as TopK
from omegamax.structures.measures import Backpointers as Backpointers
from omegamax.structures.smoothed import Smoothed as Smoothed
from omegamax.structures.soft_dtw import soft_dtw as soft_dtw
from omegamax.structures.soft_dtw import soft_dtw_alignment as soft_dtw_alignment
from omegamax.structures.soft_dtw import soft_dtw_divergence as soft_dtw_divergence
from omegamax.structures.soft_dtw import soft_dtw_from_costs as soft_dtw_from_costs
from omegamax.structures.soft_dtw import squared_euclidean as squared_euclidean
from omegamax.structures.structure import Structure as Structure
