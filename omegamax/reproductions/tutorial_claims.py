"""Blondel, "Structured attention and differentiable dynamic programming", 2019: the tutorial."""

from __future__ import annotations

from omegamax.reproductions.claim import Claim

_STRUCTURES = "tests/laws/test_structures.py::"
_LOSSES = "tests/laws/test_losses_structures.py::"
_EPOCHS = {
    "softmax": 5200.0,  # 1h 26m 40s
    "softmax ±": 51.0,
    "sparsemax": 5061.0,  # 1h 24m 21s
    "sparsemax ±": 54.0,
    "fusedmax": 5038.0,  # 1h 23m 58s
    "fusedmax ±": 50.0,
    "oscarmax": 4999.0,  # 1h 23m 19s
    "oscarmax ±": 50.0,
}
_LANGUAGES = ("English", "Spanish", "German", "Dutch")
_NER = {
    "CRF loss (entropy)": (90.80, 86.68, 77.35, 87.56),
    "squared norm": (90.86, 85.51, 76.01, 86.58),
    "Lample et al. 2016": (90.96, 85.75, 78.76, 81.74),
}


def _claim(id: str, where: str, statement: str, run: str = "", **rest: object) -> Claim:
    return Claim(f"tutorial-{id}", "tutorial", where, statement, run=run, **rest)  # type: ignore[arg-type]


CLAIMS = [
    _claim(
        "attention",
        "part 1, attention",
        "θ = H q are attention scores, p = softmax(θ) attention probabilities, a = pᵀ H the aggregated vector.",
        "sequences:attention_step",
        tests=("tests/attention/test_attention.py::test_shannon_equals_torch",),
    ),
    _claim(
        "argmax",
        "part 1, differentiable argmax",
        "The one-hot argmax is the argmax of <p, θ> over the corners, and over the whole simplex.",
        "sequences:one_hot",
    ),
    _claim(
        "examples",
        "part 1 and 2, examples",
        "Curves of argmax_Ω([t, 0])₁ and max_Ω([t, 0]): unregularized, with the entropy, with the squared norm.",
        "smoothing:figure_2",
        tests=("tests/laws/test_regularizers.py::test_figure_2_of_the_paper",),
        draws=True,
    ),
    _claim(
        "regularizers",
        "part 1, summary",
        "softmax, sparsemax and fusedmax are argmax_Ω of Shannon's negative entropy, the squared norm, and the squared "
        "norm plus the fused lasso.",
        "sequences:table_of_regularizers",
    ),
    _claim(
        "denoising",
        "part 1, fused lasso",
        "prox_TV(x) = argmin ‖x − y‖² + λ Σ |y_{i+1} − y_i| makes a noisy signal piecewise constant.",
        "sequences:total_variation",
        remark="This display has no factor ½, so its λ is twice that of the paper and of `prox_tv1d`.",
        tests=("tests/plots/test_plots.py::test_denoising_draws_the_prox",),
        draws=True,
    ),
    _claim(
        "fusedmax",
        "part 1, Proposition (Niculae & Blondel, 2017)",
        "fusedmax = sparsemax ∘ prox_TV.",
        "fusion:proposition_2_fusedmax",
    ),
    _claim(
        "not-all",
        "part 1, Proposition",
        "This is not true for all regularizers.",
        "fusion:not_in_general",
        remark="Nor for oscarmax, for which the paper states it (prop2-oscarmax).",
    ),
    _claim(
        "tv-jacobian",
        "part 1, Jacobian of prox_TV",
        "The Jacobian of prox_TV is found from its groups.",
        "jacobians:proposition_3",
        tests=("tests/laws/test_proximal.py::test_total_variation_jacobian_is_proposition_3",),
    ),
    _claim(
        "nmt",
        "part 1, neural machine translation",
        "Romanian–English translation with each attention, WMT 2016 (charts without numbers in the text).",
        recipe="seq2seq",
        reason="WMT 2016 is not here, and the chart's numbers are not in the source.",
    ),
    _claim(
        "summarization",
        "part 1, sentence summarization",
        "Summarization with each attention on Gigaword, and greatly enhanced interpretability (charts and pictures).",
        recipe="seq2seq",
        reason="Gigaword is licensed and not here; the numbers are those of table2.",
    ),
    _claim(
        "epochs",
        "part 1, faster training",
        "Sparse attention trains faster: seconds per epoch.",
        published=_EPOCHS,
        run="printed_numbers:faster_epochs",
        remark="Checked on the printed numbers, not on a model of ours: all three differences exceed their spread.",
        recipe="seq2seq",
    ),
    _claim(
        "paths",
        "part 2, paths",
        "One path in the graph is one tag sequence, or one monotonic alignment of two time series.",
        "programs:paths",
        tests=(_STRUCTURES + "test_enumeration_is_complete",),
    ),
    _claim(
        "alignments",
        "part 2, expected alignment",
        "The hard alignment of DTW, the dense expected alignment of soft-DTW, and the sparse one of quadratic "
        "regularization.",
        "sequences:alignments",
        tests=(
            "tests/structures/test_alignment.py::test_soft_dtw_is_the_published_recursion",
            "tests/structures/test_alignment.py::test_the_gradient_in_costs_is_the_alignment",
            "tests/plots/test_plots.py::test_alignments_show_the_expected_path",
        ),
        draws=True,
    ),
    _claim(
        "bellman",
        "part 2, Bellman's recursion, backtracking",
        "The recursion gives the score of the best path and backtracking gives MAP(θ), which is discontinuous.",
        "programs:bellman",
        tests=(_STRUCTURES + "test_hard_and_shannon_against_all_structures",),
    ),
    _claim(
        "gibbs",
        "part 2, Gibbs distribution",
        "Its marginals are differentiable and completely dense, and follow by a change of semiring: Viterbi becomes "
        "forward–backward, CKY inside–outside, DTW soft-DTW.",
        "programs:gibbs",
        tests=(_STRUCTURES + "test_hard_and_shannon_against_all_structures",),
    ),
    _claim(
        "other-omega",
        "part 2, marginal_Ω",
        "With ½‖p‖² over all structures this is no longer a change of semiring, and difficult to compute exactly.",
        "programs:over_all_structures",
        remark="`marginal` computes it exactly all the same, by lazy k-best: only structures within γ of the best can "
        "enter.",
        tests=(_STRUCTURES + "test_marginal_is_sparsemax_over_all_structures",),
    ),
    _claim(
        "any-dag",
        "part 2, contributions",
        "Smoothed programs work for any shortest path over a DAG, are sparse with quadratic regularization, and stable "
        "in the log domain.",
        "programs:sparse_and_stable",
        tests=(
            "tests/laws/test_structures_random.py::test_values_and_counts",
            "tests/laws/test_structures_edges.py::test_large_scores_in_float32",
        ),
    ),
    _claim(
        "complexity",
        "part 2, contributions, gradient",
        "DP_Ω has the complexity of DP, and the expected path costs as much as DP_Ω, by backpropagation.",
        "costs:of_programs",
        timed=True,
        benchmark="benchmarks/chains.py",
    ),
    _claim(
        "duality",
        "part 2, smoothed max",
        "Ω is strongly convex over the simplex if and only if max_Ω is smooth.",
        "smoothing:smoothness",
        tests=("tests/laws/test_regularizers.py::test_lipschitz_bounds",),
    ),
    _claim(
        "random-walk",
        "part 2, probabilistic backpointers",
        "The local weights are transition matrices, one for each step, of a random walk that is a distribution over "
        "paths.",
        "programs:random_walk",
        tests=(
            "tests/structures/test_chain.py::test_transition_matrices_walk_back_to_the_marginals",
            _STRUCTURES + "test_sampled_frequencies",
        ),
    ),
    _claim(
        "gradient",
        "part 2, Proposition (Mensch & Blondel, 2018)",
        "∇DP_Ω(θ) = E_p[Y], which for the entropy is Σ exp<y, θ> y / Z(θ).",
        "programs:expected_path",
        tests=(_STRUCTURES + "test_expected_structure_is_the_mean_of_the_random_walk",),
    ),
    _claim(
        "convexity",
        "part 2, property 1",
        "DP_Ω is convex; the proof uses that max_Ω is increasing.",
        "programs:convexity",
        tests=(_STRUCTURES + "test_convex_and_increasing",),
    ),
    _claim(
        "bounds",
        "part 2, property 2",
        "(N − 1) L ≤ DP_Ω(θ) − DP(θ) ≤ (N − 1) U for a graph of N nodes, with constants L and U of Ω.",
        "programs:approximation",
        remark="With constants L ≤ 0 ≤ U. The tight ones of ½‖p‖² are both negative, and then N − 1 would have to be "
        "the number of maxima on a path: a chain of four words and three tags at equal scores is above (N − 1) U.",
        tests=(_STRUCTURES + "test_bounds_on_the_smoothing",),
    ),
    _claim(
        "associativity",
        "part 2, property 3",
        "DP_Ω(θ) = max_Ω over the scores of all paths if and only if Ω is Shannon's negative entropy, the only one "
        "whose max_Ω is associative.",
        "programs:associativity",
        remark="Up to its temperature; the plain maximum, Ω = 0, is associative too but not strongly convex.",
        tests=(_STRUCTURES + "test_only_shannon_is_associative",),
    ),
    _claim(
        "losses",
        "part 2, training time",
        "DP(θ) − <θ, y> is the structured perceptron's loss; smoothed by the entropy it is the CRF's, by the squared "
        "norm a new one.",
        "sequences:losses",
        tests=(
            _LOSSES + "test_crf_loss_is_minus_the_log_likelihood",
            _LOSSES + "test_perceptron_and_margin_by_enumeration",
        ),
    ),
    _claim(
        "test-time",
        "part 2, test time",
        "At test time: the MAP solution, the expected solution, or, when it is sparse, a ranking of paths by "
        "probability.",
        "sequences:deciding",
        tests=(_STRUCTURES + "test_support_is_ranked_and_sums_to_one",),
    ),
    _claim(
        "tags",
        "part 2, named entities",
        "Tags are {Location, Organization, Person, Misc} × {Singleton, Begin, Inside, End}, and S-ORG O B-PER E-PER O "
        "O O O S-LOC tags the example.",
        "sequences:entity_tags",
        tests=("tests/structures/test_tagging_scheme.py::test_against_all_sequences",),
    ),
    _claim(
        "ner",
        "part 2, table",
        "F₁ on CoNLL03 in four languages.",
        published={f"{name}, {language}": f1 for name, row in _NER.items() for language, f1 in zip(_LANGUAGES, row)},
        run="taggers:table_of_losses",
        remark="CoNLL03 is licensed and not here, so the distance between the losses is compared: here on generated "
        "sentences, by the benchmark on WNUT17 and NCBI-disease.",
        benchmark="benchmarks/tagger.py",
        recipe="tagger",
    ),
    _claim(
        "convergence",
        "part 2, table",
        "Training converges fast thanks to smoothness, and gives a sparse probabilistic model at test time.",
        "taggers:convergence",
        remark="Shown by no number in the source; here on generated sentences.",
        benchmark="benchmarks/tagger.py",
        recipe="tagger",
    ),
]
