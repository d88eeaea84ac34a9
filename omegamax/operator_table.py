"""The table of operators: one row holds the facts of one operator, and nothing else repeats them.

Regularizers take their traits, defaults and checks from here, and so do functions, layers, losses, the command line,
the names for Hugging Face models, the colours of figures, the lists in tests and the tables in the documentation.
This file imports no PyTorch, so that `omegamax --help` can read it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parameter:
    """A number that an operator takes beside the scores, with its default and its range."""

    name: str
    default: float | None  # None stands for a number that depends on the row; see `default_text`
    meaning: str  # one word for the command line: order, norm, penalty
    least: float
    expected: str  # what an error says of the range
    fix: str  # what an error proposes
    may_equal_least: bool = True
    most: float = math.inf  # the largest value, which is allowed unless it is infinite
    may_be_tensor: bool = True  # one number for each row, and then it can learn
    default_text: str = ""  # where the default is None

    def holds(self, low: float, high: float) -> bool:
        """Says whether numbers from `low` to `high` are in the range."""
        above = low >= self.least if self.may_equal_least else low > self.least
        return above and high <= self.most and high < math.inf


@dataclass(frozen=True)
class OperatorFacts:
    """One operator: argmax over p in the simplex of <p, θ> − γ Ω(p)."""

    function: str  # in omegamax, on the command line, and as attn_implementation of Hugging Face models
    regularizer: str  # the class of Ω in omegamax.operators
    layer: str
    loss: str | None  # its class; None for the plain maximum, whose loss is the perceptron's
    omega: str  # Ω(p)
    colour: str  # in figures
    parameter: Parameter | None = None
    fixed: Any = None  # the value of the parameter, where the function does not take it
    in_lineups: float | None = None  # the value of the parameter in tables and pictures of all operators
    is_listed: bool = True  # in those tables and pictures; False where another row of the same regularizer is
    grouped: bool = False  # takes the `groups` of positions, which belong to rows of one length
    sparse: bool = True  # weights can be exactly zero
    symmetric: bool = True  # Ω does not depend on the order of the row, so dynamic programs take it
    zero_at_corners: bool = True  # Ω vanishes at every corner of the simplex
    zero_stays_zero: bool = True  # adding lower scores to a row gives no weight to an entry that had none
    trains: bool = True  # its derivative is not zero everywhere
    exports: bool = True  # to ONNX: its reference solver has no loop that depends on the data

    @property
    def loss_function(self) -> str | None:
        """The loss as a function of scores and targets."""
        return None if self.loss is None else f"{self.function}_loss"

    @property
    def default(self) -> Any:
        """The default of the parameter."""
        assert self.parameter is not None, f"{self.function} has no parameter"
        return self.parameter.default

    @property
    def options(self) -> tuple[str, ...]:
        """The keywords of the function beside the temperature and the mask."""
        own = () if self.parameter is None or self.fixed is not None else (self.parameter.name,)
        return ("groups", *own) if self.grouped else own

    @property
    def constructor(self) -> str:
        """How the regularizer is written: SquaredPNorm(p)."""
        inside = str(self.fixed) if self.fixed is not None else ", ".join(self.options)
        return f"{self.regularizer}({inside})"


_ALPHA = Parameter(
    "alpha", 1.5, "order", 1.0, "at least 1 and finite", "1 is softmax, 1.5 entmax15, 2 sparsemax"
)  # fmt: skip
_NORM_ALPHA = Parameter(
    "alpha", 2.0, "order", 1.0, "above 1 and finite", "2 is the Euclidean norm, and near 1 it is hardmax",
    may_equal_least=False,
)  # fmt: skip
_P = Parameter(
    "p", 1.5, "norm", 1.0, "in (1, 2]", "2 is sparsemax, 1.5 the paper's choice",
    may_equal_least=False, most=2.0, may_be_tensor=False,
)  # fmt: skip
STRENGTH = Parameter("strength", 0.1, "penalty", 0.0, "non-negative and finite", "0 switches the penalty off")
_OSCAR_STRENGTH = Parameter(
    "strength", None, "penalty", 0.0, STRENGTH.expected, STRENGTH.fix,
    default_text="0.01; in rows of over 100 places, 1/places",
)  # fmt: skip

# The colours are Okabe & Ito's palette, without its yellow, which vanishes on white; brown stands in for it.

HARDMAX = OperatorFacts(
    "hardmax", "Hard", "Hardmax", None, "0", "#000000", trains=False,
)  # fmt: skip
SOFTMAX = OperatorFacts(
    "softmax", "Shannon", "Softmax", "SoftmaxLoss", "Σ p log p", "#0072B2", sparse=False, zero_stays_zero=False,
)  # fmt: skip
ENTMAX15 = OperatorFacts(
    "entmax15", "Tsallis", "Entmax15", "Entmax15Loss", "(Σ p^1.5 − 1) / 0.75", "#009E73", _ALPHA, fixed=1.5,
)  # fmt: skip
SPARSEMAX = OperatorFacts(
    "sparsemax", "SquaredNorm", "Sparsemax", "SparsemaxLoss", "½(‖p‖² − 1)", "#E69F00",
)  # fmt: skip
ENTMAX = OperatorFacts(
    "entmax", "Tsallis", "Entmax", "EntmaxLoss", "(Σ p^α − 1) / (α(α − 1))", "#009E73", _ALPHA, is_listed=False,
)  # fmt: skip
SQPNORMMAX = OperatorFacts(
    "sqpnormmax", "SquaredPNorm", "SqPNormMax", "SqPNormMaxLoss", "½(‖p‖_p² − 1)", "#CC79A7", _P,
)  # fmt: skip
NORMMAX = OperatorFacts(
    "normmax", "NormEntropy", "Normmax", "NormmaxLoss", "‖p‖_α − 1", "#4B5A3C", _NORM_ALPHA,
)  # fmt: skip
FUSEDMAX = OperatorFacts(
    "fusedmax", "Fused", "Fusedmax", "FusedmaxLoss", "½(‖p‖² − 1) + λ Σ |p_{i+1} − p_i|", "#D55E00", STRENGTH,
    in_lineups=0.1, symmetric=False, zero_at_corners=False, zero_stays_zero=False, exports=False,
)  # fmt: skip
OSCARMAX = OperatorFacts(
    "oscarmax", "Oscar", "Oscarmax", "OscarmaxLoss", "½(‖p‖² − 1) + λ Σ_{i<j} max(p_i, p_j)", "#56B4E9",
    _OSCAR_STRENGTH, in_lineups=0.05, zero_at_corners=False,
    zero_stays_zero=False,  # its penalty compares all pairs: enough low scores pull a high one down to their level
)  # fmt: skip
GROUPMAX = OperatorFacts(
    "groupmax", "GroupLasso", "Groupmax", "GroupmaxLoss", "½(‖p‖² − 1) + λ Σ_g ‖p_g‖", "#8C6510", STRENGTH,
    in_lineups=0.4, grouped=True, symmetric=False, zero_at_corners=False, zero_stays_zero=False, exports=False,
)  # fmt: skip

# In the order of tables and pictures.
TABLE: tuple[OperatorFacts, ...] = (
    HARDMAX, SOFTMAX, ENTMAX15, ENTMAX, SPARSEMAX, SQPNORMMAX, NORMMAX, FUSEDMAX, OSCARMAX, GROUPMAX,
)  # fmt: skip
OPERATORS: dict[str, OperatorFacts] = {facts.function: facts for facts in TABLE}


def ungrouped() -> list[OperatorFacts]:
    """Returns the operators that take rows of any length."""
    return [facts for facts in TABLE if not facts.grouped]


def for_attention() -> list[OperatorFacts]:
    """Returns the operators that a model can be trained with on rows of any length."""
    return [facts for facts in ungrouped() if facts.trains]


def regularizers(**traits: bool) -> list[str]:
    """Returns the names of the regularizers with these traits, each once."""
    found = (f.regularizer for f in TABLE if all(getattr(f, trait) is value for trait, value in traits.items()))
    return list(dict.fromkeys(found))


def option_help(name: str) -> str:
    """Describes an option of the command line and its defaults: penalty of fusedmax (0.1) or oscarmax (...)."""
    takers = [facts for facts in for_attention() if name in facts.options]
    parameters = [facts.parameter for facts in takers if facts.parameter is not None]
    defaults = [each.default_text or str(each.default) for each in parameters]
    listed = " or ".join(f"{facts.function} ({default})" for facts, default in zip(takers, defaults, strict=True))
    return f"{parameters[0].meaning} of {listed}"
