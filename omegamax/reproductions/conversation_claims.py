"""NLP Highlights, episode 51: a conversation with Vlad Niculae about the paper."""

from __future__ import annotations

from omegamax.reproductions.claim import Claim


def _claim(id: str, where: str, statement: str, run: str = "", **rest: object) -> Claim:
    return Claim(f"talk-{id}", "conversation", where, statement, run=run, **rest)  # type: ignore[arg-type]


CLAIMS = [
    _claim(
        "dense",
        "01:02",
        "Softmax gives some probability to every word, and in general all weights differ; sparsemax gives exactly zero "
        "to many.",
        "conversation:dense_and_different",
    ),
    _claim(
        "peak",
        "02:56",
        "Sparsemax puts everything on one word only if that word is very prominent.",
        "conversation:prominent_words",
        remark="Prominent means: ahead of every other by γ.",
    ),
    _claim(
        "barrier",
        "06:24",
        "The negative entropy takes the value −∞ at the edge of the simplex and so acts as a barrier; that is why "
        "softmax is dense.",
        "conversation:entropy_barrier",
        holds=False,
        remark="Σ p log p is bounded, between −log d and 0, and 0 at the corners. It is its slope that goes to −∞ at "
        "the edge, and that keeps softmax off it.",
    ),
    _claim(
        "segments",
        "06:39, 07:42, 13:53",
        "Fusedmax gives neighbours exactly, numerically the same weight; its groups need not be specified.",
        "conversation:found_segments",
        tests=("tests/laws/test_edges.py::test_ties_are_equal_to_the_bit",),
    ),
    _claim(
        "group-lasso",
        "07:42",
        "With a group lasso the framework gives an attention that selects all words of a given group together.",
        "conversation:chosen_groups",
        holds=False,
        remark="Whole groups are left out together, but on the simplex a word of a selected group can get exactly "
        "nothing: the penalty removes groups, and the projection still removes words.",
    ),
    _claim(
        "forward-cost",
        "08:39",
        "The forward pass of fusedmax is n log n.",
        "costs:of_operators",
        timed=True,
        benchmark="benchmarks/rows.py",
    ),
    _claim(
        "backward-cost",
        "09:56",
        "The backward pass of fusedmax is a single linear pass; in general a system as small as the support is solved.",
        "costs:of_operators",
        timed=True,
        benchmark="benchmarks/rows.py",
    ),
    _claim(
        "cpu-time",
        "10:56",
        "Entirely on the CPU there is no visible change in running time.",
        "costs:of_training",
        published={"tokens per second over softmax, at least": 0.95},
        timed=True,
        benchmark="benchmarks/attention.py",
    ),
    _claim(
        "gpu-time",
        "11:50",
        "With attention on the CPU and the rest on a GPU, training is about 25 % slower.",
        published={"tokens per second over softmax": 0.75},
        reason="There is no GPU here.",
    ),
    _claim(
        "performance",
        "12:36",
        "With all options left at their defaults results are comparable, and for summarization a little better.",
        recipe="seq2seq",
        remark="The numbers are those of table1 and table2.",
    ),
]
