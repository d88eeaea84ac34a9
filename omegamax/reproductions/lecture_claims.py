"""COMP547, lecture 4, "Attention and memory": formulas, examples and sentences that can be computed."""

from __future__ import annotations

from omegamax.reproductions.claim import Claim

_ATTENTION = "tests/attention/"
# Vaswani et al., table 3, as the lecture shows it: BLEU on the development set and millions of parameters.
BLEU = {
    "base": 25.8,
    "(B) d_k = 16": 25.1,
    "(B) d_k = 32": 25.4,
    "(C) N = 2": 23.7,
    "(C) N = 4": 25.3,
    "(C) N = 8": 25.5,
    "(C) d_model = 256": 24.5,
    "(C) d_model = 1024": 26.0,
    "(C) d_ff = 1024": 25.4,
    "(C) d_ff = 4096": 26.2,
    "(D) dropout 0.0": 24.6,
    "(D) dropout 0.2": 25.5,
    "(E) learned positions": 25.7,
    "big": 26.4,
}
_MILLIONS = {
    "base": 65,
    "(B) d_k = 16": 58,
    "(B) d_k = 32": 60,
    "(C) N = 2": 36,
    "(C) N = 4": 50,
    "(C) N = 8": 80,
    "(C) d_model = 256": 28,
    "(C) d_model = 1024": 168,
    "(C) d_ff = 1024": 53,
    "(C) d_ff = 4096": 90,
    "big": 213,
}


def _claim(id: str, where: str, statement: str, run: str = "", **rest: object) -> Claim:
    return Claim(f"lecture-{id}", "lecture", where, statement, run=run, **rest)  # type: ignore[arg-type]


CLAIMS = [
    _claim(
        "soft-attention",
        "soft attention, math and computational aspects",
        "c = Σ α h with α = softmax(e) and e = vᵀ tanh(W s + U h); the cost is quadratic, one score for every pair.",
        "soft_attention:additive",
        tests=(_ATTENTION + "test_attention.py::test_additive_is_a_layer_on_both",),
    ),
    _claim(
        "score-functions",
        "various attention score functions",
        "Perceptron, bilinear, dot product (no parameters, equal sizes), scaled: the scale of dot products grows with "
        "the dimension, dividing by its root fixes it.",
        "soft_attention:score_functions",
        tests=(
            _ATTENTION + "test_attention.py::test_bilinear_and_cosine",
            _ATTENTION + "test_attention.py::test_the_spread_of_scaled_products_does_not_grow",
            _ATTENTION + "test_attention.py::test_sizes_must_agree",
        ),
    ),
    _claim(
        "gaussian-window",
        "Gaussian mixture location-based attention",
        "φ(t, u) = Σ α exp(−β (κ − u)²) with κ_t = κ_{t−1} + exp(κ̂_t): alignments are monotonic.",
        "soft_attention:gaussian_windows",
        tests=(
            _ATTENTION + "test_gaussian_mixture.py::test_formula",
            _ATTENTION + "test_gaussian_mixture.py::test_centres_only_move_forward",
        ),
    ),
    _claim(
        "window-handwriting",
        "Gaussian mixture location-based attention",
        "The window was originally proposed for handwriting synthesis.",
        tests=("tests/models/test_handwriter.py::test_the_window_reads_the_published_formula",),
        recipe="handwriting",
        benchmark="benchmarks/handwriting.py",
        reason="The lecture has no number; docs/handwriting.md measures the window against attention by content.",
    ),
    _claim(
        "location",
        "various soft attentions",
        "Content and location can be mixed; past alignments can be remembered; positions can have embeddings of their "
        "own.",
        tests=(
            _ATTENTION + "test_location_aware.py::test_formula",
            _ATTENTION + "test_coverage.py::test_formula",
            _ATTENTION + "test_gaussian_mixture.py::test_under_shannon_it_is_a_product",
        ),
    ),
    _claim(
        "ctc",
        "CTC",
        "p(l | x) is a sum over all labellings with blanks that collapse to l, computed by forward–backward.",
        "soft_attention:ctc",
        tests=(
            "tests/structures/test_ctc.py::test_values_and_gradients_of_pytorch",
            _ATTENTION + "test_heads.py::test_beam_search_is_exact_when_wide",
        ),
    ),
    _claim(
        "reinforce",
        "a recurrent model of visual attention; hard attention",
        "The gradient is estimated by REINFORCE, and a baseline lowers the variance of the estimate.",
        "hard_attention:score_function",
        tests=(
            _ATTENTION + "test_hard.py::test_reinforce_is_right_on_average",
            _ATTENTION + "test_hard.py::test_reinforce_by_enumeration",
        ),
        benchmark="benchmarks/glimpse.py",
        remark="Beside it, ours: the exact sum over a sparse choice has no variance. The benchmark has both in a model "
        "that was trained.",
    ),
    _claim(
        "jensen",
        "a recurrent model of visual attention; hard attention",
        "The objective Σ p(s | a) log p(y | s, a) is a lower bound of log p(y | a), by Jensen's inequality.",
        "hard_attention:bound",
        tests=(_ATTENTION + "test_hard.py::test_the_bound",),
    ),
    _claim(
        "soft-hard",
        "soft and hard attention",
        "Soft attention is deterministic, has an exact gradient and reads all; hard attention reads one place; a "
        "deterministic hard choice has no gradient.",
        "hard_attention:soft_and_hard",
        tests=(_ATTENTION + "test_hard.py::test_marginalization_is_exact",),
    ),
    _claim(
        "draw",
        "DRAW",
        "A grid of Gaussian filters with centre, stride and precision reads patches: a small stride zooms in, a large "
        "one downsamples.",
        tests=(
            _ATTENTION + "test_draw.py::test_read_and_write_are_the_papers",
            _ATTENTION + "test_draw.py::test_a_sharp_window_of_stride_one_copies_pixels",
        ),
    ),
    _claim(
        "glimpse",
        "a recurrent model of visual attention",
        "A retina-like representation: full resolution in the centre, lower around it.",
        tests=(
            _ATTENTION + "test_glimpse.py::test_the_first_scale_is_a_crop_and_the_next_its_surroundings_pooled",
            _ATTENTION + "test_glimpse.py::test_every_scale_is_a_mean_of_pixels",
        ),
    ),
    _claim(
        "memory",
        "attention on memory elements",
        "Memory networks, neural Turing machines and differentiable neural computers address their memory by "
        "attention.",
        tests=(
            _ATTENTION + "test_memory_network.py::test_published_formula",
            _ATTENTION + "test_addressing.py::test_head_is_the_four_steps",
            _ATTENTION + "test_dnc_memory.py::test_a_step_is_the_published_one",
        ),
    ),
    _claim(
        "memory-tape",
        "attention on memory elements",
        "Recurrent networks cannot remember things for very long; a separate memory module can, such as the tape of a "
        "neural Turing machine.",
        "memories:tape",
        published={"NTM trained up to": 20, "NTM tested up to": 120},  # of Graves et al. (2014), whom the lecture cites
        tests=(_ATTENTION + "test_memories_in_numpy.py::test_a_sequence",),
        benchmark="benchmarks/memory.py",
        remark="With heads set by hand. docs/memory_tasks.md has learned ones.",
    ),
    _claim(
        "gradients",
        "long-term dependencies",
        "A product of Jacobians vanishes with singular values below 1, explodes above 1, and has exponentially growing "
        "variance when random.",
        "soft_attention:long_dependencies",
    ),
    _claim(
        "annotations",
        "regions in convnets, how attention works",
        "14 × 14 × 512 = 196 × 512 annotations (L × D).",
        "soft_attention:grid_annotations",
        published={"L": 196, "D": 512},
        tests=(_ATTENTION + "test_grid.py::test_the_formula",),
    ),
    _claim(
        "lstm",
        "extension of LSTM via the context vector, (1) to (3)",
        "The context vector enters an LSTM beside the last word and the last state: gates, then c and h.",
        "soft_attention:lstm_with_context",
    ),
    _claim(
        "nwgm",
        "soft attention, theoretical arguments",
        "The normalized weighted geometric mean of softmaxes is the softmax of the expected logits, and approximates "
        "the expected softmax.",
        "soft_attention:geometric_mean",
        tests=(_ATTENTION + "test_lecture.py::test_the_normalized_weighted_geometric_mean",),
    ),
    _claim(
        "expected-state",
        "soft attention, theoretical arguments",
        "E[h] equals h computed once with the expected context vector.",
        "soft_attention:expected_state",
        holds=False,
        remark="h = o ⊙ tanh(c) is not linear in the context; the two agree to first order only.",
    ),
    _claim(
        "gru",
        "gated recurrent units to attention",
        "A gated unit unrolled is a weighted sum of candidates: h_t = Σ (Π_{j=i}^{t−i+1} u_j)(Π_{k=1}^{i−1} (1 − u_k)) "
        "h̃_i.",
        "soft_attention:unrolled_gru",
        holds=False,
        remark="The products have the wrong limits; unrolling gives the weights (1 − u_i) Π_{j>i} u_j, which with that "
        "of h_0 sum to one.",
        tests=(_ATTENTION + "test_lecture.py::test_an_unrolled_gru_is_attention",),
    ),
    _claim(
        "dot-product",
        "generalized dot-product attention, multiple heads",
        "A(Q, K, V) = softmax(QKᵀ)V; heads are concatenated and multiplied by W^O.",
        "transformer:dot_product",
        tests=(
            _ATTENTION + "test_attention.py::test_shannon_equals_torch",
            _ATTENTION + "test_multihead.py::test_shannon_equals_torch",
        ),
    ),
    _claim(
        "example",
        "self-attention, steps 2 to 5",
        "q₁·k₁ = 112 and q₁·k₂ = 96, divided by 8 = √64, give 14 and 12 and the weights 0.88 and 0.12.",
        "transformer:worked_example",
        published={
            "q₁·k₁": 112,
            "q₁·k₂": 96,
            "√d_k": 8,
            "first, divided": 14,
            "second, divided": 12,
            "first weight": 0.88,
            "second weight": 0.12,
        },
        tests=(_ATTENTION + "test_attention.py::test_the_lecture_s_example",),
    ),
    _claim(
        "causal",
        "three types of attention; the decoder",
        "Masked self-attention attends to earlier positions only: later ones are set to −∞ before the softmax.",
        "transformer:causal",
        tests=(_ATTENTION + "test_transformer.py::test_the_future_is_never_read",),
    ),
    _claim(
        "sinusoids",
        "positional embeddings",
        "PE(pos, 2i) = sin(pos/10000^(2i/d)) and PE(pos, 2i+1) = cos(pos/10000^(2i/d)).",
        "transformer:sinusoids",
        tests=(
            _ATTENTION + "test_lecture.py::test_sinusoids",
            _ATTENTION + "test_embeddings.py::test_a_shift_is_a_rotation",
        ),
    ),
    _claim(
        "layers",
        "Transformer model; the residuals",
        "Six encoder and six decoder layers; every sub-layer has a residual connection followed by layer "
        "normalization.",
        "transformer:layers",
        published={"layers of the encoder": 6, "layers of the decoder": 6},
        tests=(_ATTENTION + "test_transformer.py::test_the_whole_of_torch_s_transformer",),
    ),
    _claim(
        "parameters",
        "what matters, column params",
        "Millions of parameters of the Transformers of the ablation table.",
        "transformer:sizes",
        published=_MILLIONS,
        remark="Within 7 %: the published counts are rounded, and the size of the vocabulary (about 37 000) is not "
        "exact.",
        tests=(
            _ATTENTION + "test_lecture.py::test_parameters_of_the_ablation_table",
            _ATTENTION + "test_lecture.py::test_the_number_of_heads_costs_nothing",
        ),
    ),
    _claim(
        "what-matters",
        "what matters, rows B to E",
        "Smaller keys hurt, bigger models are better, dropout helps, learned positions do as well as sinusoids.",
        "printed_numbers:what_matters",
        published=BLEU,
        holds=False,
        remark="By the BLEU printed beside it, eight layers (25.5) are not better than six (25.8), though their "
        "perplexity is; the other sentences agree with the table.",
    ),
]
