"""Niculae, Martins, Blondel & Cardie, "SparseMAP: differentiable sparse structured inference": the presentation."""

from __future__ import annotations

from omegamax.reproductions.claim import Claim

_LAWS = "tests/laws/test_sparsemap.py::"


def _claim(id: str, where: str, statement: str, run: str = "", **rest: object) -> Claim:
    return Claim(f"sparsemap-{id}", "sparsemap", where, statement, run=run, **rest)  # type: ignore[arg-type]


CLAIMS = [
    _claim(
        "factors",
        "structured inference as argmax",
        "Scores of structures are x = Aᵀη with far more structures than parts; MAP over distributions p is MAP over "
        "the marginals μ = A p.",
        "structured:factored_scores",
    ),
    _claim(
        "map",
        "MAP inference",
        "The best dependency tree is a maximum spanning tree (Chu-Liu/Edmonds), the best matching is found by the "
        "Hungarian algorithm.",
        "structured:map_oracles",
        tests=(
            "tests/structures/test_matching.py::test_the_best_of_all",
            "tests/structures/test_arborescence.py::test_everything_at_any_scale",
        ),
    ),
    _claim(
        "marginals",
        "marginal inference",
        "Marginals of trees follow from the matrix-tree theorem; those of matchings are #P-complete.",
        "structured:marginals",
        tests=("tests/structures/test_arborescence.py::test_large_graphs_against_a_determinant",),
    ),
    _claim(
        "example",
        "marginal inference, η",
        "The scores η = (.3, .8, −.5, .2, −.1, −.2, .7, .6, .1) of a matching of three and three.",
        "structured:slide_example",
        remark="Read row by row: the slide's picture is not in its text, the numbers are.",
        draws=True,
    ),
    _claim(
        "table",
        "deriving SparseMAP",
        "MAP, marginal inference and SparseMAP are argmax, softmax and a sparse projection onto the same polytope; the "
        "penalty is ½‖A p‖², that is ½‖μ‖².",
        "structured:table_of_problems",
        tests=(_LAWS + "test_equals_the_quadratic_program", "tests/structures/test_polytope.py::test_equals_sparsemax"),
    ),
    _claim(
        "points",
        "deriving SparseMAP",
        "(.6, .4, 0) as a sparse and (.5, .3, .2) as a dense distribution over three structures.",
        "structured:printed_points",
    ),
    _claim(
        "active-set",
        "forward pass",
        "The active-set algorithm reaches M only through MAP calls and converges linearly and in finitely many steps.",
        "structured:active_set",
        tests=(_LAWS + "test_the_gap_certifies", _LAWS + "test_a_sparse_distribution_over_structures"),
        benchmark="benchmarks/sparsemap.py",
    ),
    _claim(
        "backward",
        "backward pass",
        "∂μ/∂η costs linear time in dim(M) and in the number of selected structures.",
        "structured:backward_work",
        tests=(_LAWS + "test_derivatives", _LAWS + "test_the_jacobian_is_symmetric_and_positive"),
        benchmark="benchmarks/sparsemap.py",
    ),
    _claim(
        "nli",
        "natural language inference with linear assignment",
        "Three-class accuracy of ESIM with attention by matchings (a chart without numbers in the text).",
        recipe="nli",
        reason="The training split of SNLI is not here, and the chart's numbers are not in the source.",
    ),
    _claim(
        "loss",
        "sparse structured output",
        "The margin-SparseMAP loss is an instance of a structured Fenchel–Young loss, as CRF and SVM losses are.",
        "sparse_output:margin_loss",
        remark="The display leaves out the terms of the gold structure, −<η, μ̄> + ½‖μ̄‖²; with them the loss is zero "
        "at best.",
        tests=("tests/laws/test_losses_structures.py::test_margin_sparsemap_is_sparsemap_at_augmented_scores",),
    ),
    _claim(
        "uas",
        "unlabeled accuracy",
        "UAS on Universal Dependencies (a chart without numbers in the text).",
        "parsers:losses_side_by_side",
        remark="The chart's numbers are not in the source, so losses are compared with each other: here on a generated "
        "treebank, by the benchmark on UD English-EWT.",
        benchmark="benchmarks/parser.py",
        recipe="parser",
    ),
    _claim(
        "sparser",
        "unlabeled accuracy",
        "As models train, inference gets sparser.",
        "sparse_output:training_sparsifies",
        remark="On made-up sentences; the published curve is of parsers of natural language, as the benchmark's is.",
        benchmark="benchmarks/parser.py",
    ),
    _claim(
        "sparser-parser",
        "unlabeled accuracy",
        "As parsers train, inference gets sparser.",
        "parsers:inference_gets_sparser",
        remark="A parser of a generated treebank; docs/parser.md has the same for UD English-EWT.",
        benchmark="benchmarks/parser.py",
        recipe="parser",
    ),
    _claim(
        "ambiguity",
        "unlabeled accuracy",
        "Inference captures linguistic ambiguity: few readings, each with its probability.",
        "sparse_output:ambiguity",
        remark="On a sentence of our own with scores set by hand; the slides' sentences come from trained parsers.",
        tests=(
            "tests/plots/test_plots.py::test_dependency_arcs_draw_what_has_probability",
            "tests/recipes/test_parser.py::test_a_trained_parser_knows_where_it_cannot_know",
        ),
        draws=True,
    ),
]
