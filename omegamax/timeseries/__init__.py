"""Time series: distances, their matrices, nearest neighbours and estimators, on dynamic time warping."""

from omegamax.timeseries.dask_matrix import dask_cdist
from omegamax.timeseries.distances import (
    DISTANCES,
    alignment_path,
    cost_matrix,
    distance_of,
    dtw,
    expected_alignment,
    make_distance,
    soft_dtw,
    soft_dtw_divergence,
    sparse_dtw,
)
from omegamax.timeseries.gaps import Edit, NeedlemanWunsch, SmithWaterman
from omegamax.timeseries.matrix import cdist
from omegamax.timeseries.measures import Distance, Dtw, SoftDtw, SoftDtwDivergence, SparseDtw
from omegamax.timeseries.neighbours import NearestResult, PruningReport, RadiusResult, nearest, within
from omegamax.timeseries.series import SeriesBatch, as_series

__all__ = [
    "DISTANCES",
    "Distance",
    "Dtw",
    "Edit",
    "NearestResult",
    "NeedlemanWunsch",
    "PruningReport",
    "RadiusResult",
    "SeriesBatch",
    "SmithWaterman",
    "SoftDtw",
    "SoftDtwDivergence",
    "SparseDtw",
    "alignment_path",
    "as_series",
    "cdist",
    "cost_matrix",
    "dask_cdist",
    "distance_of",
    "dtw",
    "expected_alignment",
    "make_distance",
    "nearest",
    "soft_dtw",
    "soft_dtw_divergence",
    "sparse_dtw",
    "within",
]
