"""Draws figures from tensors, arrays and lists; nothing here trains. Needs the extra `plot` (matplotlib).

Every function returns a `matplotlib.figure.Figure` that belongs to no window and no pyplot state: save it with
`figure.savefig("name.pdf")`, or let a notebook show it. `explore` and `explore_row` return a live page instead.
"""

from omegamax.extras import how_to_install as _how_to_install

try:
    import matplotlib as _matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError(f"omegamax.plots: matplotlib is needed to draw, got none; {_how_to_install('plot')}") from error

from omegamax.plots.alignments import alignment_comparison as alignment_comparison
from omegamax.plots.alignments import alignment_matrices as alignment_matrices
from omegamax.plots.attention import attention_map as attention_map
from omegamax.plots.attention import attention_maps as attention_maps
from omegamax.plots.attention_bars import attention_bars as attention_bars
from omegamax.plots.attention_lines import attention_lines as attention_lines
from omegamax.plots.attention_overview import attention_overview as attention_overview
from omegamax.plots.denoising import denoising as denoising
from omegamax.plots.distance_matrices import distance_matrix as distance_matrix
from omegamax.plots.distance_matrices import series_dendrogram as series_dendrogram
from omegamax.plots.draw_window import draw_window as draw_window
from omegamax.plots.explore import explore as explore
from omegamax.plots.explore import explore_row as explore_row
from omegamax.plots.frame_attention import frame_attention as frame_attention
from omegamax.plots.glimpse_path import glimpse_path as glimpse_path
from omegamax.plots.grid_attention import grid_attention as grid_attention
from omegamax.plots.groups import clusters_of as clusters_of
from omegamax.plots.lattice import tag_lattice as tag_lattice
from omegamax.plots.learning import learning_curves as learning_curves
from omegamax.plots.lengths import accuracy_by_length as accuracy_by_length
from omegamax.plots.losses import binary_losses as binary_losses
from omegamax.plots.matchings import matching_maps as matching_maps
from omegamax.plots.memory_hops import memory_hops as memory_hops
from omegamax.plots.operators import figure2 as figure2
from omegamax.plots.polytope import polytope as polytope
from omegamax.plots.positions import positional_encodings as positional_encodings
from omegamax.plots.reliability import reliability_plot as reliability_plot
from omegamax.plots.rows import row_comparison as row_comparison
from omegamax.plots.screened_row import screened_row as screened_row
from omegamax.plots.simplex import simplex_levels as simplex_levels
from omegamax.plots.sound_attention import sound_attention as sound_attention
from omegamax.plots.supports import support_histograms as support_histograms
from omegamax.plots.surfaces import argmax_surfaces as argmax_surfaces
from omegamax.plots.time_series import aligned_series as aligned_series
from omegamax.plots.time_series import series_barycenter as series_barycenter
from omegamax.plots.time_series import series_clusters as series_clusters
from omegamax.plots.trees import dependency_arcs as dependency_arcs
from omegamax.plots.written_text import written_text as written_text
from omegamax.spelling import install as _install

_install(__name__)
