"""The record of a bound, and the catalogue of all records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nlattn.bounds.catalogue.typing import Kind, Trial

__all__ = ["BOUNDS", "Bound", "Statement"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a bound says, and under which hypotheses; `Bound` describes the attributes."""

    id: str
    kind: Kind
    statement: str
    hypotheses: tuple[str, ...]
    source: str
    function: Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound(Statement):
    """What a bound says, under which hypotheses, and how it is measured.

    Attributes
    ----------
    id : str
        The name of its function in ``nlattn.bounds``, and of its proof.
    kind : {"always", "identity", "probability", "mean", "moment"}
        "always" holds in every trial, and "identity" is an equality in every trial. "probability" fails with at most
        the stated probability. "mean" is an inequality between expectations, "moment" an equality.
    statement : str
    hypotheses : tuple of str
        All of them. Where one is not satisfied, the number that the function returns means nothing.
    source : str
    function : callable
        Computes the right-hand side of the statement.
    run : callable
        The experiment: takes a Generator, makes one trial or several, and returns what it measured and the bound.
    trials : int
        How many trials `check` makes unless told otherwise.
    band : tuple of float
        Limits of measured / bound that the tests keep: for the median over the trials, or for "mean" and "moment" the
        ratio of the means. The lower limit says that the bound is not vacuous.
    failure : float
        Failure probability of a trial; 0 unless kind is "probability".
    rounding : float
        Relative slack for rounding errors, for all kinds but "probability".
    """

    run: Trial
    trials: int
    band: tuple[float, float]
    failure: float
    rounding: float

    def __post_init__(self) -> None:
        if (self.kind == "probability") != (self.failure > 0):
            raise ValueError(f"failure must be above 0 for kind 'probability' and 0 for others, got {self.failure}")


#: Every bound, by id.
BOUNDS: dict[str, Bound] = {}
