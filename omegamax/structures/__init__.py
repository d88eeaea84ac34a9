"""What is chosen: chains, alignments, trees, and users' own hypergraphs, one file per structure."""

from omegamax.structures.chain import Chain as Chain
from omegamax.structures.chain import FactoredChain as FactoredChain
from omegamax.structures.chain import TransitionMatrices as TransitionMatrices
from omegamax.structures.dag import Dag as Dag
from omegamax.structures.hypergraph import Hypergraph as Hypergraph
from omegamax.structures.hypergraph import HypergraphBuilder as HypergraphBuilder
from omegamax.structures.lists import Marginal as Marginal
from omegamax.structures.lists import Support as Support
from omegamax.structures.lists import TopK as TopK
from omegamax.structures.measures import Backpointers as Backpointers
from omegamax.structures.semi_markov import SemiMarkov as SemiMarkov
from omegamax.structures.smoothed import Smoothed as Smoothed
from omegamax.structures.structure import Structure as Structure
from omegamax.structures.tagging_scheme import AllowedTransitions as AllowedTransitions
from omegamax.structures.tagging_scheme import allowed_transitions as allowed_transitions
