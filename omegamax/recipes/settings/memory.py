"""The settings of `omegamax train memory`."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.operator_table import for_attention
from omegamax.recipes.settings.attention import AttentionSettings
from omegamax.training.settings import check_field, check_fields, option

MEMORY_TASKS = ("copy", "repeat-copy", "recall", "sort")
MEMORY_MODELS = ("ntm", "dnc", "lstm")
_LONGEST = 1000  # vectors or items


@dataclass(frozen=True)
class MemorySettings(AttentionSettings):
    """A network with a memory that learns an algorithm from generated examples."""

    attention: str = option(
        "softmax",
        f"normalizer of addressing, by content and of shifts: {', '.join(f.function for f in for_attention())}; lstm "
        "has no use for it",
    )
    task: str = option(
        "copy",
        "what to learn: to say a sequence again, several times, to say what followed an item, or to sort by priority",
        choices=MEMORY_TASKS,
    )
    model: str = option(
        "ntm",
        "a neural Turing machine, a differentiable neural computer, or an LSTM without a memory",
        choices=MEMORY_MODELS,
    )
    bits: int = option(6, "of a vector", least=1, most=1000)
    min_length: int = option(
        1, "vectors, or items of recall, of the shortest training sequence", least=1, most=_LONGEST
    )
    max_length: int = option(5, "those of the longest", least=1, most=_LONGEST)
    test_length: str = option("5,10,20", "lengths of test sequences, comma-separated", metavar="LIST")
    max_times: int = option(3, "how often repeat-copy repeats in training, at most", least=1, most=_LONGEST)
    test_times: int = option(3, "how often repeat-copy repeats every test sequence", least=1, most=_LONGEST)
    item_length: int = option(1, "vectors of an item of recall; the paper has 3", least=1, most=_LONGEST)
    n_slots: int = option(32, "slots of the memory", least=1, most=65_536)
    width: int = option(16, "features of a slot", least=1, most=65_536)
    n_reads: int = option(1, "read heads", least=1, most=1000)
    hidden_size: int = option(64, "features of the LSTM", least=1, most=65_536)
    sequences: int = option(
        32_000, "training sequences; a hundredth as many for dev, and for each test length", least=1, most=10_000_000
    )
    data_seed: int = option(0, "seed of the sequences", least=-(2**62), most=2**62)

    def __post_init__(self) -> None:
        check_fields(self)
        parts = [part.strip() for part in self.test_length.split(",")]
        fine = all(part.isascii() and part.isdigit() and 1 <= int(part[:9]) <= _LONGEST for part in parts)
        check_field(self, "test_length", fine, f"numbers up to {_LONGEST} with commas between them")
        check_field(self, "min_length", self.min_length <= self.max_length, "at most max_length")
        if self.task == "recall":
            shortest, longest = min(self.shortest, *self.test_lengths), max(self.max_length, *self.test_lengths)
            check_field(self, "test_length", shortest >= 2, "2 or more items for recall")
            check_field(self, "max_length", self.max_length >= 2, "2 or more items for recall")
            enough = self.bits * self.item_length >= longest.bit_length() + 1
            check_field(self, "bits", enough, f"enough for {longest} different items, and as many again")

    @property
    def test_lengths(self) -> tuple[int, ...]:
        """The lengths of test sequences, each once."""
        return tuple(dict.fromkeys(int(part) for part in self.test_length.split(",")))

    @property
    def shortest(self) -> int:
        """The length of the shortest training sequence; recall needs two items."""
        return max(2, self.min_length) if self.task == "recall" else self.min_length

    @property
    def variant(self) -> str:
        """The choice after which a run is named."""
        return f"{self.task}-{self.model}" + ("" if self.model == "lstm" else f"-{self.attention}")
