"""The same paper: figures of trained models, tables, and sentences about them."""

from __future__ import annotations

from omegamax.reproductions.claim import Claim

_ENTAILMENT = {"softmax": 81.66, "sparsemax": 82.39, "fusedmax": 82.41, "oscarmax": 81.76}
_METRICS = [f"{data} ROUGE-{kind}" for data in ("DUC 2004", "Gigaword") for kind in "12L"]
_SUMMARIES = {
    "softmax": (27.16, 9.48, 24.47, 35.13, 17.15, 32.92),
    "sparsemax": (27.69, 9.55, 24.96, 36.04, 17.78, 33.64),
    "fusedmax": (28.42, 9.96, 25.55, 36.09, 17.62, 33.69),
    "oscarmax": (27.84, 9.46, 25.14, 35.36, 17.23, 33.03),
    "sq-pnorm-max": (27.94, 9.28, 25.08, 35.94, 17.75, 33.66),
}
_TABLE_2 = {f"{name}: {metric}": value for name, row in _SUMMARIES.items() for metric, value in zip(_METRICS, row)}
_NO_GIGAWORD = (
    "Gigaword and DUC 2004 are licensed and not here; the recipe summarizes other text, so compare ranks only."
)
_NO_WMT = "The 10 language pairs of WMT 2016 are not here; the recipe translates other pairs, so compare ranks only."
_NO_SNLI = "The training split of SNLI (549 000 pairs) is not here; the recipe trains on less, so compare ranks only."


def _claim(id: str, where: str, statement: str, **rest: object) -> Claim:
    return Claim(id, "paper", where, statement, **rest)  # type: ignore[arg-type]


CLAIMS = [
    _claim(
        "datasets",
        "§4",
        "Sizes of the data: pairs of SNLI and of Gigaword, articles of DUC 2004 and summaries of each, language pairs.",
        published={"SNLI": 570_000, "Gigaword": 4_000_000, "DUC 2004": 500, "summaries": 4, "language pairs": 10},
        reason="Of these data only the development and test splits of SNLI are free to be had here.",
    ),
    _claim(
        "fig1",
        "figure 1",
        "Attention of fusedmax, softmax and sparsemax while a sentence is summarized.",
        recipe="seq2seq",
        reason=_NO_GIGAWORD,
    ),
    _claim(
        "table1",
        "table 1",
        "Test accuracy of textual entailment on SNLI (%).",
        published=_ENTAILMENT,
        recipe="nli",
        reason=_NO_SNLI,
    ),
    _claim(
        "table1-ranking",
        "§4.1",
        "Fusedmax reaches the highest accuracy, and oscarmax slightly outperforms softmax.",
        published=_ENTAILMENT,
        run="printed_numbers:entailment",
        remark="Checked on the printed numbers, not on a model of ours.",
    ),
    _claim(
        "snli-time",
        "§4.1",
        "Training time per epoch is essentially the same for the four attentions (on a CPU).",
        published={"tokens per second over softmax, at least": 0.95},
        run="costs:of_training",
        timed=True,
        recipe="nli",
    ),
    _claim(
        "fig3",
        "figure 3",
        "Attention to the text while considering the contradicted hypothesis “No one is dancing.”; fusedmax finds the "
        "segment “band is playing”.",
        recipe="nli",
        reason=_NO_SNLI,
    ),
    _claim(
        "nmt-bleu",
        "§4.2",
        "On 10 language pairs every attention is within 1 BLEU of the best.",
        published={"largest distance from the best, BLEU": 1.0},
        recipe="seq2seq",
        reason=_NO_WMT,
    ),
    _claim(
        "nmt-speed",
        "§4.2",
        "With sparse attention computed on the CPU, tokens per second stay within 3/4 of the softmax pipeline.",
        published={"tokens per second over softmax, at least": 0.75},
        run="costs:of_training",
        timed=True,
        remark="Theirs: attention on the CPU, the rest on a GPU. Ours: all of a small encoder–decoder on this machine.",
        benchmark="benchmarks/attention.py",
    ),
    _claim(
        "nmt-tolerance",
        "§4.2",
        "The projected-gradient solver of sq-pnorm-max can become a bottleneck; its tolerance was set to 10⁻².",
        published={"tolerance": 1e-2},
        remark="omegamax solves sq-pnorm-max to rounding by one root, so there is no tolerance to set.",
        tests=("tests/laws/test_kernels_thresholds.py::test_native_matches_oracle",),
        benchmark="benchmarks/rows.py",
    ),
    _claim(
        "fig4",
        "figure 4",
        "Attention of fusedmax, oscarmax and softmax while translating from French, clusters of oscarmax marked by "
        "dots.",
        recipe="seq2seq",
        reason=_NO_WMT,
    ),
    _claim(
        "table2",
        "table 2",
        "ROUGE of sentence summarization on DUC 2004 and Gigaword.",
        published=_TABLE_2,
        recipe="seq2seq",
        reason=_NO_GIGAWORD,
    ),
    _claim(
        "table2-ranking",
        "§4.3",
        "Fusedmax is the best under nearly all metrics, and always outperforms softmax.",
        published=_TABLE_2,
        run="printed_numbers:summarization",
        remark="Checked on the printed numbers, not on a model of ours.",
    ),
]
