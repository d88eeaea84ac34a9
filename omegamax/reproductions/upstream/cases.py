"""The table of reported bugs. It loads no PyTorch, so that listing them is quick."""

from __future__ import annotations

from omegamax.reproductions.upstream.case import UpstreamCase

_CASES = (
    UpstreamCase(
        "torch-mha-masked-rows",
        "torch",
        ("pytorch/pytorch#41508", "pytorch/pytorch#27968", "pytorch/pytorch#24816"),
        "A query of `nn.MultiheadAttention` that may attend to nothing gives NaN, and the gradients of all parameters "
        "become NaN, even if the loss does not read that query.",
        "attention:masked_rows",
    ),
    UpstreamCase(
        "torch-mha-masked-head",
        "torch",
        ("pytorch/pytorch#160064",),
        "If `attn_mask` masks one head of `nn.MultiheadAttention` and weights are returned, the whole output is NaN.",
        "attention:masked_head",
    ),
    UpstreamCase(
        "torch-mha-masks-and-dropout",
        "torch",
        ("pytorch/pytorch#152028",),
        "`nn.MultiheadAttention` with masks and dropout gives NaN in training. The report is about CUDA; here the same "
        "call runs on the CPU.",
        "attention:masks_and_dropout",
    ),
    UpstreamCase(
        "torch-sdpa-masked-rows",
        "torch",
        ("pytorch/pytorch#103749", "pytorch/pytorch#103963"),
        "`scaled_dot_product_attention` with a boolean mask gives NaN for a query that may attend to nothing.",
        "attention:sdpa_masked_rows",
        note="PyTorch has repaired this one since.",
    ),
    UpstreamCase(
        "torch-sdpa-nan-in-padding",
        "torch",
        ("pytorch/pytorch#101967",),
        "`scaled_dot_product_attention` gives NaN for all queries if a masked key holds NaN.",
        "attention:nan_in_padding",
    ),
    UpstreamCase(
        "transformers-vanished-mask",
        "transformers",
        ("huggingface/transformers#45811",),
        "A custom attention function that is registered without a mask function gets no mask, so that a causal model "
        "sees the future, without an error.",
        "hugging_face:vanished_mask",
        note="The pull request adds a warning to the documentation; the behaviour is the same.",
    ),
    UpstreamCase(
        "torch-ctc-double-backward",
        "torch",
        ("pytorch/pytorch#70108",),
        "The gradient of `ctc_loss` cannot be differentiated.",
        "losses:ctc_double_backward",
    ),
    UpstreamCase(
        "torch-ctc-infeasible",
        "torch",
        ("pytorch/pytorch#14335", "pytorch/pytorch#14401"),
        "Training with `CTCLoss` becomes NaN. One cause: a target that is longer than its input costs inf, and its "
        "gradient is NaN.",
        "losses:ctc_infeasible",
    ),
    UpstreamCase(
        "torch-ctc-wrong-gradient",
        "torch",
        ("pytorch/pytorch#82545", "pytorch/pytorch#181534"),
        "The gradient of `ctc_loss` with respect to the log-probabilities it takes is not the derivative of its value.",
        "losses:ctc_wrong_gradient",
    ),
    UpstreamCase(
        "entmax-at-one",
        "entmax",
        ("deep-spin/entmax#24", "deep-spin/entmax#23"),
        "`entmax_bisect` with α = 1 gives equal weights instead of softmax; close to 1 its gradient in α is lost.",
        "rows:entmax_at_one",
    ),
    UpstreamCase(
        "entmax-large-alpha",
        "entmax",
        ("deep-spin/entmax#36",),
        "`entmax_bisect` with a large α is not monotone in its scores: float32 noise.",
        "rows:entmax_large_alpha",
    ),
    UpstreamCase(
        "entmax-nothing-allowed",
        "entmax",
        ("deep-spin/entmax#19",),
        "A row of −inf makes `entmax15` fail for the whole batch.",
        "rows:entmax_nothing_allowed",
    ),
    UpstreamCase(
        "entmax-ignore-index",
        "entmax",
        ("deep-spin/entmax#21",),
        "A negative `ignore_index` is not honoured by the losses: the index is out of bounds.",
        "rows:entmax_ignore_index",
    ),
    UpstreamCase(
        "pytorch-crf-holes",
        "pytorch-crf",
        ("kmkurn/pytorch-crf#122",),
        "With a mask that has holes the loss becomes negative: probabilities of tags do not sum to one.",
        "structures:crf_holes",
    ),
    UpstreamCase(
        "torch-struct-large-scores",
        "torch-struct",
        ("harvardnlp/pytorch-struct#61",),
        "`DependencyCRF.log_prob` is positive when scores are large.",
        "structures:large_scores",
    ),
    UpstreamCase(
        "torch-struct-semi-markov-batches",
        "torch-struct",
        ("harvardnlp/pytorch-struct#110",),
        "An item of a `SemiMarkovCRF` batch gets another result if other items of the batch are shorter.",
        "structures:semi_markov_batches",
        note="Repaired in its repository; 0.5 is what the package index has.",
    ),
    UpstreamCase(
        "torch-struct-matrix-tree",
        "torch-struct",
        (),
        "The log-partition of `NonProjectiveDependencyCRF` is wrong at large scores, and off by the 1e-5 that is added "
        "to the weight of every arc.",
        "structures:matrix_tree",
    ),
    UpstreamCase(
        "tslearn-second-derivatives",
        "tslearn",
        (),
        "The gradient of `SoftDTWLossPyTorch` cannot be differentiated: a gradient penalty loses its soft-DTW part.",
        "structures:soft_dtw_second_derivatives",
    ),
    UpstreamCase(
        "tslearn-unequal-lengths",
        "tslearn",
        ("tslearn-team/tslearn#473",),
        "`SoftDTWLossPyTorch(normalize=True)` fails for series of different lengths.",
        "structures:soft_dtw_unequal",
    ),
    UpstreamCase(
        "softdtw-cuda-bandwidth",
        "pytorch-softdtw-cuda",
        ("Maghoumi/pytorch-softdtw-cuda#18", "Maghoumi/pytorch-softdtw-cuda#8"),
        "A bandwidth makes the cost of series of different lengths infinite.",
        "structures:soft_dtw_bandwidth",
        note="The package has no distribution, so it is never installed here. `compat.softdtw.SoftDTW` keeps its "
        "definition of the band, under which no path exists; `soft_dtw` with `SakoeChiba` follows the diagonal.",
    ),
    UpstreamCase(
        "torchsparseattn-oscarmax",
        "torchsparseattn",
        (),
        "Oscarmax as published composes two projections, and does not solve its own problem when scores have mixed "
        "signs.",
        "rows:oscarmax_optimality",
        note="The package does not run on this version of PyTorch; the composition is written out here.",
    ),
)

CASES: dict[str, UpstreamCase] = {case.id: case for case in _CASES}
