"""One record a bound, made by the decorator on the function that computes it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

__all__ = ["BOUNDS", "Bound", "Experiment", "Kind", "bound", "experiment"]

#: "always": measured <= bound in every trial. "identity": measured == bound in every trial, to rounding.
#: "probability": measured <= bound except with the failure probability. "mean": E measured <= E bound.
#: "moment": E measured == E bound.
Kind = Literal["always", "identity", "probability", "mean", "moment"]

#: One trial, or several at once: what was measured, and the bound for it (floats, or arrays of one axis).
Experiment = Callable[[np.random.Generator], tuple[Any, Any]]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a bound says, under which hypotheses, and how it is measured.

    Attributes
    ----------
    id : str
        The name of its function in ``nlattn.bounds``, and of its proof in ``proofs/``.
    kind : {"always", "identity", "probability", "mean", "moment"}
    statement : str
    hypotheses : tuple of str
        All of them; outside, the number that the function returns means nothing.
    source : str
    function : callable
        The right-hand side.
    trials : int
        How many trials the check makes unless told otherwise.
    band : tuple of float
        Limits of measured / bound that the check keeps: the median over the trials, or for "mean" and "moment" the
        ratio of the means. The lower one says that the bound is not vacuous.
    failure : float
        Failure probability of a trial; 0 unless kind is "probability".
    rounding : float
        Relative slack for "always" and "identity".
    run : callable
        The experiment.
    """

    id: str
    kind: Kind
    statement: str
    hypotheses: tuple[str, ...]
    source: str
    function: Callable[..., Any]
    trials: int
    band: tuple[float, float]
    failure: float = 0.0
    rounding: float = 1e-9
    run: Experiment | None = None


#: Every bound, by id.
BOUNDS: dict[str, Bound] = {}


def bound(
    kind: Kind,
    statement: str,
    *,
    hypotheses: tuple[str, ...],
    source: str,
    band: tuple[float, float],
    trials: int = 200,
    failure: float = 0.0,
    rounding: float = 1e-9,
) -> Callable[[F], F]:
    """Enter the decorated function into the catalogue under its own name."""
    if (kind == "probability") != (failure > 0):
        raise ValueError(f"failure must be positive for kind 'probability' and 0 for others, got {kind!r}, {failure}")

    def enter(function: F) -> F:
        name = function.__name__
        BOUNDS[name] = Bound(
            id=name,
            kind=kind,
            statement=statement,
            hypotheses=hypotheses,
            source=source,
            function=function,
            trials=trials,
            band=band,
            failure=failure,
            rounding=rounding,
        )
        return function

    return enter


def experiment(of: Callable[..., Any]) -> Callable[[Experiment], Experiment]:
    """Attach the decorated experiment to the bound that `of` computes."""

    def attach(run: Experiment) -> Experiment:
        BOUNDS[of.__name__] = replace(BOUNDS[of.__name__], run=run)
        return run

    return attach
