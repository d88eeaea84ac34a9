"""The figures of the golden images: small, without chance, and of every kind."""

from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image

import omegamax as om
from omegamax import plots

GOLDEN = Path(__file__).parent / "golden"
DPI = 50
BLOCK = 3  # pixels on a side that are averaged: the smoothing of letters differs between versions of FreeType


def _scores(*shape: int) -> torch.Tensor:
    """Numbers between −2 and 2 that look random and are the same everywhere."""
    n = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return 2 * (12.9898 * (n + 1) ** 1.3).sin().reshape(shape)


def _maps() -> dict[str, torch.Tensor]:
    scores = _scores(5, 9)
    operators = {"softmax": om.softmax, "sparsemax": om.sparsemax, "fusedmax": om.fusedmax}
    return {**{name: of(scores) for name, of in operators.items()}, "oscarmax": om.oscarmax(scores, strength=0.1)}


def _attention_map() -> Figure:
    weights = om.fusedmax(_scores(5, 9), strength=0.3)
    return plots.attention_map(
        weights, list("abcde"), ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"], title="t"
    )


def _attention_maps() -> Figure:
    maps = _maps()
    return plots.attention_maps(maps, list("abcde"), clusters={"oscarmax": plots.clusters_of(maps["oscarmax"])})


def _attention_bars() -> Figure:
    return plots.attention_bars({name: weights[1] for name, weights in _maps().items()}, list("abcdefghi"))


def _memory_hops() -> Figure:
    weights = om.sparsemax(_scores(5, 3), dim=0)
    return plots.memory_hops(weights, list("abcde"), facts=[2], title="who? ada")


def _sound_attention() -> Figure:
    weights = om.sparsemax(_scores(4, 12))
    return plots.sound_attention(weights, _scores(36, 10), list("abcd"), seconds=0.4, title="sparsemax")


def _frame_attention() -> Figure:
    weights = om.fusedmax(_scores(5, 9), strength=0.3)
    return plots.frame_attention(weights, _scores(9, 6, 8), list("abcde"), marked=weights > 0.2, title="fusedmax")


def _written_text() -> Figure:
    lifted = torch.tensor([0.0, 0, 1, 0, 1, 1, 0, 0, 1]).unsqueeze(1)
    return plots.written_text(torch.cat([_scores(9, 2), lifted], 1), om.sparsemax(_scores(9, 4)), list("a bc"))


def _glimpse_path() -> Figure:
    places, views = torch.linspace(-0.6, 0.7, 6).reshape(3, 2), _scores(3, 8, 9).sigmoid()
    return plots.glimpse_path(_scores(8, 9).sigmoid(), places, views, list("abc"), box=(1, 2, 5, 7), title="retina")


def _grid_attention() -> Figure:
    weights = om.GridTV(0.2).argmax(_scores(4, 3, 4))
    boxes = [None, (0, 4, 6, 7), None, None]
    return plots.grid_attention(weights, _scores(11, 16), list("abcd"), cell=4, boxes=boxes, title="grid-tv")


def _tag_lattice() -> Figure:
    potentials, chain = _scores(4, 3, 3), om.Chain()
    lattices = {"all": chain.argmax(potentials), "few": chain.argmax(potentials, om.SquaredNorm())}
    return plots.tag_lattice(lattices, list("wxyz"), ["A", "B", "C"])


def _matching_maps() -> Figure:
    scores = _scores(4, 4)
    return plots.matching_maps({"best": om.Matching().map(scores), "few": om.Matching().sparsemap(scores).marginals})


def _polytope() -> Figure:
    vertices = torch.stack([torch.eye(3)[list(order)] for order in permutations(range(3))])
    return plots.polytope(vertices, _scores(3, 3) / 3)


def _draw_window() -> Figure:
    window = om.attention.DrawWindow(*map(torch.tensor, (9.0, 7.0, 3.0, 1.0, 1.0)))
    return plots.draw_window(_scores(16, 16).abs(), window, patch_size=4)


def _arcs() -> Figure:
    scores, tree = _scores(5, 5), om.ProjectiveTree()
    return plots.dependency_arcs({"few": tree.sparsemap(scores).marginals}, ["she", "often", "reads", "aloud"])


def _series() -> tuple[torch.Tensor, torch.Tensor]:
    time = torch.linspace(0, 1, 16)
    return torch.sin(6 * time), torch.sin(6 * time[:12] ** 1.5)


def _aligned_series() -> Figure:
    x, y = _series()
    path = [[i, min(i, 11)] for i in range(16)]
    return plots.aligned_series(x, y, path, names=("one", "two"), distance=0.25)


def _bundle() -> list[torch.Tensor]:
    x, y = _series()
    return [x, y, -x, x + 0.3, 0.5 - x]


def _distances() -> torch.Tensor:
    points = _scores(8, 3)
    return torch.cdist(points, points)


FIGURES: dict[str, Callable[[], Figure]] = {
    "accuracy_by_length": lambda: plots.accuracy_by_length({"softmax": {5: 0.9, 10: 0.7}, "none": {5: 0.5, 10: 0.2}}),
    "aligned_series": _aligned_series,
    "alignment_comparison": lambda: plots.alignment_comparison(*_series(), gamma=0.2),
    "argmax_surfaces": lambda: plots.argmax_surfaces({"sparsemax": om.SquaredNorm(), "fusedmax": om.Fused(0.5)}),
    "attention_bars": _attention_bars,
    "attention_lines": lambda: plots.attention_lines(om.sparsemax(_scores(2, 4, 5)), list("abcd"), list("vwxyz")),
    "attention_map": _attention_map,
    "attention_maps": _attention_maps,
    "attention_overview": lambda: plots.attention_overview(om.sparsemax(_scores(2, 3, 8, 10))),
    "binary_losses": plots.binary_losses,
    "denoising": lambda: plots.denoising(_scores(60).cumsum(0) / 4, 1.0),
    "dependency_arcs": _arcs,
    "distance_matrix": lambda: plots.distance_matrix(_distances(), labels=list("abbaabca"), title="t"),
    "draw_window": _draw_window,
    "figure2": plots.figure2,
    "frame_attention": _frame_attention,
    "sound_attention": _sound_attention,
    "written_text": _written_text,
    "glimpse_path": _glimpse_path,
    "grid_attention": _grid_attention,
    "memory_hops": _memory_hops,
    "learning_curves": lambda: plots.learning_curves({"softmax": [0.2, 0.6, 0.8], "mine": [0.1, 0.3]}),
    "matching_maps": _matching_maps,
    "polytope": _polytope,
    "positional_encodings": lambda: plots.positional_encodings(om.attention.SinusoidalPositions()(torch.zeros(24, 16))),
    "reliability_plot": lambda: plots.reliability_plot({"crf": [(9, 0.1, 0.2), (30, 0.8, 0.7)], "l2": [(5, 0.5, 1.0)]}),
    "row_comparison": lambda: plots.row_comparison(_scores(7), regularizers={"fusedmax": om.Fused(0.3)}),
    "screened_row": lambda: plots.screened_row(_scores(16), _scores(40, 16)),
    "series_barycenter": lambda: plots.series_barycenter(_bundle(), {"a": _bundle()[0], "b": _bundle()[1]}),
    "series_clusters": lambda: plots.series_clusters(_bundle(), [0, 0, 1, 0, 1], _bundle()[1:3]),
    "series_dendrogram": lambda: plots.series_dendrogram(_distances(), names=list("abcdefgh"), n_clusters=3),
    "simplex_levels": lambda: plots.simplex_levels(regularizers={"softmax": om.Shannon(), "fusedmax": om.Fused(0.3)}),
    "support_histograms": lambda: plots.support_histograms({"sparsemax": om.sparsemax(_scores(60, 12))}),
    "tag_lattice": _tag_lattice,
}


def rendered(figure: Figure, path: Path) -> np.ndarray:
    """Draws the figure into a file, and returns its pixels."""
    figure.savefig(path, dpi=DPI)
    return pixels(path)


def pixels(path: Path) -> np.ndarray:
    """Height, width, three colours between 0 and 255."""
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"), dtype=float)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Root mean square over blocks of pixels, of 255; infinite where the sizes differ."""
    if one.shape != other.shape:
        return float("inf")
    height, width = (size - size % BLOCK for size in one.shape[:2])
    gap = (one - other)[:height, :width].reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK, 3).mean((1, 3))
    return float(np.sqrt((gap**2).mean()))
