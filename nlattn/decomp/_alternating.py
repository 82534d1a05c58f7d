"""Alternating least squares until the error settles, with line searches, which cost nothing where they help."""

from dataclasses import dataclass

from nlattn.decomp._sweeps import Model, Sweeper

__all__ = ["Rules", "alternate"]

# The step beyond a sweep grows by this factor after one that has lowered the error.
GROWTH = 1.5

# It shrinks by this factor after one that has not.
REDUCTION = 0.25

# It never gets smaller than this fraction of the change that the sweep has made.
LEAST = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When to end, and how to step.

    Attributes
    ----------
    iterations : int
        The most sweeps.
    tol : float
        End after a sweep that has lowered the error by no more than `tol` times the error; 0: make all sweeps.
    rtol : float
        End at this relative error.
    """

    iterations: int
    tol: float
    rtol: float
    line_search: bool
    damping: float


def alternate(sweeper: Sweeper, model: Model, rules: Rules) -> tuple[Model, int, bool]:
    """The best model found, the number of sweeps made, and whether they have settled or reached `rtol`."""
    best, before, step = model, None, 1.0
    for sweep in range(1, rules.iterations + 1):
        start, part = model, None
        if rules.line_search and before is not None:
            trial = _beyond(sweeper, before, model, step)
            part = sweeper.left_part(trial.factors)
            if sweeper.measured(trial, part).error < model.error:
                start, step = trial, step * GROWTH
            else:
                part, step = None, max(step * REDUCTION, LEAST)
        before, model = model, sweeper.sweep(start, rules.damping, part)
        if not model.error >= best.error:
            best = model
        if model.error <= rules.rtol or (rules.tol > 0 and before.error - model.error <= rules.tol * model.error):
            return best, sweep, True
    return best, rules.iterations, rules.tol == 0


def _beyond(sweeper: Sweeper, before: Model, model: Model, step: float) -> Model:
    """The model extrapolated along the change that the last sweep has made."""
    factors = [b + step * (b - a) for a, b in zip(before.factors, model.factors, strict=True)]
    return sweeper.model(model.weights + step * (model.weights - before.weights), factors)
