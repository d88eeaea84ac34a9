"""What is chosen: chains, alignments, trees, and users' own hypergraphs, one file per structure."""

from omegamax.structures.chain import Chain as Chain
from omegamax.structures.chain import FactoredChain as FactoredChain
from omegamax.structures.constituency_tree import ConstituencyTree as ConstituencyTree
from omegamax.structures.dag import Dag as Dag
from omegamax.structures.grammar import Grammar as Grammar
from omegamax.structures.grammar import Parse as Parse
from omegamax.structures.grammar import Pcfg as Pcfg
from omegamax.structures.hypergraph import Hypergraph as Hypergraph
from omegamax.structures.hypergraph import HypergraphBuilder as HypergraphBuilder
from omegamax.structures.lists import Marginal as Marginal
from omegamax.structures.lists import Support as Support
from omegamax.structures.lists import TopK as TopK
from omegamax.structures.measures import Backpointers as Backpointers
from omegamax.structures.projective_tree import ProjectiveTree as ProjectiveTree
from omegamax.structures.smoothed import Smoothed as Smoothed
from omegamax.structures.structure import Structure as Structure
