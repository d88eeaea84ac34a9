"""Time series: distances, their matrices, nearest neighbours and estimators, on dynamic time warping.

The estimators need scikit-learn and are imported when they are first used; the distances need nothing else.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

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

if _TYPE_CHECKING:
    from omegamax.timeseries.barycenter import SoftDTWBarycenter as SoftDTWBarycenter
    from omegamax.timeseries.forecaster import SoftDTWForecaster as SoftDTWForecaster
    from omegamax.timeseries.k_means import TimeSeriesKMeans as TimeSeriesKMeans
    from omegamax.timeseries.k_neighbors import KNeighborsTimeSeriesClassifier as KNeighborsTimeSeriesClassifier
    from omegamax.timeseries.k_neighbors import KNeighborsTimeSeriesRegressor as KNeighborsTimeSeriesRegressor
    from omegamax.timeseries.learned_window import LearnedWindow as LearnedWindow
    from omegamax.timeseries.learned_window import learn_window as learn_window
    from omegamax.timeseries.nearest_centroid import NearestCentroid as NearestCentroid
    from omegamax.timeseries.soft_dtw_kernel import SoftDTWKernel as SoftDTWKernel

_ESTIMATORS = {  # where each is defined
    "KNeighborsTimeSeriesClassifier": "k_neighbors",
    "KNeighborsTimeSeriesRegressor": "k_neighbors",
    "LearnedWindow": "learned_window",
    "NearestCentroid": "nearest_centroid",
    "SoftDTWBarycenter": "barycenter",
    "SoftDTWForecaster": "forecaster",
    "SoftDTWKernel": "soft_dtw_kernel",
    "TimeSeriesKMeans": "k_means",
    "learn_window": "learned_window",
}


def __getattr__(name: str) -> _Any:
    """Imports an estimator when it is first used."""
    if name not in _ESTIMATORS:
        from omegamax.spelling import no_attribute

        raise no_attribute(__name__, name, [*__all__, *_ESTIMATORS])
    from importlib import import_module

    try:
        globals()[name] = found = getattr(import_module(f"{__name__}.{_ESTIMATORS[name]}"), name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("sklearn", "scipy"):
            raise
        from omegamax.extras import how_to_install

        raise ImportError(f"{__name__}.{name} needs scikit-learn; {how_to_install('timeseries')}") from error
    return found


def __dir__() -> list[str]:
    """Lists all public names, imported or not."""
    return sorted({*globals(), *_ESTIMATORS})
