"""The settings of `omegamax train babi`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.operator_table import for_attention
from omegamax.recipes.settings.attention import AttentionSettings
from omegamax.training.settings import check_field, check_fields, option


@dataclass(frozen=True)
class BabiSettings(AttentionSettings):
    """A memory network that answers questions about stories; data=None generates them."""

    attention: str = option("softmax", f"normalizer: {', '.join(f.function for f in for_attention())}")
    data: str | None = option(
        None,
        "a directory of bAbI with qa1_NAME_train.txt, qa1_NAME_test.txt, ..., also .gz or .xz; generated if left out",
        metavar="PATH",
    )
    tasks: str = option(
        "", "numbers of tasks, comma-separated (1,2,3), learned together; left out, all", metavar="LIST"
    )
    n_hops: int = option(3, "how often the memory is read", least=1, most=100)
    size: int = option(
        20, "features of a word; the paper has 20 for one task and 50 for all together", least=1, most=65_536
    )
    sharing: str = option(
        "adjacent",
        "which hops share tables: the output of one is the input of the next, or all have the same",
        choices=("adjacent", "layer-wise"),
    )
    encoding: str = option(
        "centred",
        "how words make a sentence: weighed by their positions as in the authors' program (centred) or as in the paper "
        "(position), or all alike (bag)",
        choices=("centred", "position", "bag"),
    )
    empty_slots: str = option(
        "yes",
        "whether a hop may read nothing: slots of the memory without a sentence",
        choices=("yes", "no"),
        before="no",
    )
    max_sentences: int = option(
        50,
        "longer stories are cut to their last sentences; the memory has no more slots than the longest training story",
        least=1,
        most=10_000,
    )
    linear_start: int = option(20, "first epochs without the normalizer", least=0, most=1_000_000)
    time_noise: float = option(0.1, "probability of an empty sentence before each one in training")
    questions: int = option(
        2000, "training questions to generate; a tenth as many for dev and test each", least=1, most=1_000_000
    )
    data_seed: int = option(0, "seed of the generated stories", least=-(2**63), most=2**63 - 1)

    def __post_init__(self) -> None:
        check_fields(self)
        check_field(self, "time_noise", 0 <= self.time_noise <= 1, "a probability, from 0 to 1")
        numbers = [part.strip() for part in self.tasks.split(",") if part.strip()]
        fine = all(part.isascii() and part.isdigit() and 1 <= int(part[:9]) < 1000 for part in numbers)
        check_field(self, "tasks", fine, "numbers of tasks with commas between them")

    @property
    def task_numbers(self) -> tuple[int, ...]:
        """The tasks to learn, each once; none stands for all."""
        return tuple(dict.fromkeys(int(part) for part in self.tasks.split(",") if part.strip()))
