"""How a bound enters the catalogue: a decorated function states it, and a decorated experiment measures it."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from nlattn.bounds.catalogue.record import BOUNDS, Bound, Statement
from nlattn.bounds.catalogue.typing import Kind, Trial

__all__ = ["STATED", "bound", "experiment"]

F = TypeVar("F", bound=Callable[..., Any])

#: Statements by id. Each becomes a record of the catalogue as soon as its experiment is there.
STATED: dict[str, Statement] = {}


def bound(kind: Kind, statement: str, *, hypotheses: tuple[str, ...], source: str) -> Callable[[F], F]:
    """State what the decorated function computes, under the function's own name."""

    def state(function: F) -> F:
        id = function.__name__
        STATED[id] = Statement(
            id=id, kind=kind, statement=statement, hypotheses=hypotheses, source=source, function=function
        )
        return function

    return state


def experiment(
    of: Callable[..., Any],
    *,
    band: tuple[float, float],
    trials: int = 200,
    failure: float = 0.0,
    rounding: float = 1e-9,
) -> Callable[[Trial], Trial]:
    """Enter the bound that `of` computes into the catalogue, with the decorated function as its experiment.

    The other arguments are attributes of `Bound`. The experiment is named after the bound, as in ``dropped_mass`` and
    ``dropped_mass_trial``, so that a traceback shows which bound was measured.
    """
    stated = STATED[of.__name__]

    def enter(run: Trial) -> Trial:
        if run.__name__ != f"{stated.id}_trial":
            raise ValueError(f"the experiment of {stated.id} must be named {stated.id}_trial, got {run.__name__}")
        known = {field.name: getattr(stated, field.name) for field in fields(stated)}
        BOUNDS[stated.id] = Bound(**known, run=run, trials=trials, band=band, failure=failure, rounding=rounding)
        return run

    return enter
