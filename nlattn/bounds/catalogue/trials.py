"""Trials of a bound, counted against what its statement allows."""

import zlib
from dataclasses import dataclass

import numpy as np
from scipy import stats

from nlattn.arrays.arguments import check_choice, check_integer
from nlattn.arrays.random import private
from nlattn.arrays.typing import RngLike
from nlattn.bounds.catalogue.record import BOUNDS, Bound
from nlattn.bounds.catalogue.typing import Floats

__all__ = ["FALSE_ALARM", "Outcome", "check"]

#: Probability that the check of a true statement fails: with a hundred bounds, one false alarm in ten thousand runs.
FALSE_ALARM = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the trials of a bound showed.

    Attributes
    ----------
    id : str
    trials : int
    bound, median : float
        Medians of the bound and of what was measured.
    worst, worst_ratio : float
        What was measured in the trial whose ratio to its own bound was largest (for identities: farthest from 1), and
        that ratio.
    ratio : float
        Median of measured / bound; for "mean" and "moment" the ratio of the means.
    violations, allowed : float
        Trials above the bound, and the most that a true statement shows except with probability 1e-6. For "mean" and
        "moment": by how many standard errors the mean misses the bound, and the most allowed, by the distribution of
        Student's t. That distribution is exact for normal measurements only. For skewed ones the probability is only
        roughly 1e-6, and comes nearer to it with more trials.
    holds : bool
        violations <= allowed.
    """

    id: str
    trials: int
    bound: float
    median: float
    worst: float
    worst_ratio: float
    ratio: float
    violations: float
    allowed: float
    holds: bool


def check(id: str, *, trials: int | None = None, rng: RngLike = 0) -> Outcome:
    """Measure what a bound is about, and compare.

    Parameters
    ----------
    id : str
        A key of ``nlattn.bounds.BOUNDS``.
    trials : int, default that of the bound
        At least 2. For "mean" and "moment" a few trials allow any mean: the limit of Student's t is then huge, and
        it is approximate where the measurements are skewed.
    rng : None, int, SeedSequence or Generator, default 0
        Each bound has a stream of its own: its outcome does not depend on which others are checked.

    Returns
    -------
    Outcome

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.check("dropped_mass", trials=20).holds
    True
    """
    record = BOUNDS[check_choice("id", id, tuple(BOUNDS))]
    trials = record.trials if trials is None else check_integer("trials", trials, least=2)
    measured, limit = _collect(record, trials, private(rng, zlib.crc32(id.encode())))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(limit == measured, 1.0, measured / limit)
    violations, allowed = _count(record, measured, limit)
    means = record.kind in ("mean", "moment")
    farthest = np.argmax(np.abs(ratios - 1) if record.kind == "identity" else ratios)
    return Outcome(
        id=id,
        trials=trials,
        bound=float(np.median(limit)),
        median=float(np.median(measured)),
        worst=float(measured[farthest]),
        worst_ratio=float(ratios[farthest]),
        ratio=float(np.mean(measured) / np.mean(limit) if means else np.median(ratios)),
        violations=violations,
        allowed=allowed,
        holds=bool(violations <= allowed),
    )


def _collect(record: Bound, trials: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    measured: list[Floats] = []
    limits: list[Floats] = []
    count = 0
    while count < trials:
        found, limit = record.run(rng)
        values = np.atleast_1d(np.asarray(found, np.float64))
        measured.append(values)
        limits.append(np.broadcast_to(np.asarray(limit, np.float64), values.shape))
        count += values.size
    return np.concatenate(measured)[:trials], np.concatenate(limits)[:trials]


def _count(record: Bound, measured: Floats, limit: Floats) -> tuple[float, float]:
    """Violations and how many of them a true statement shows. A NaN is a violation."""
    n = measured.size
    if record.kind == "probability":
        return float(n - np.sum(measured <= limit)), float(stats.binom.isf(FALSE_ALARM, n, record.failure))
    if record.kind == "always":
        return float(n - np.sum(measured <= limit * (1 + record.rounding))), 0.0
    if record.kind == "identity":
        return float(n - np.sum(np.abs(measured - limit) <= record.rounding * np.abs(limit))), 0.0
    excess = measured - limit
    mean, error = np.mean(excess), np.std(excess, ddof=1) / np.sqrt(n)
    rounding = record.rounding * float(np.mean(np.abs(limit)))
    if record.kind == "moment":
        mean = np.abs(mean)
    z = (mean - rounding) / error if error > 0 else np.copysign(np.inf, mean - rounding)
    tail = FALSE_ALARM / 2 if record.kind == "moment" else FALSE_ALARM
    return float(z) if np.isfinite(mean) else np.inf, float(stats.t.isf(tail, n - 1))
