"""Exact variances of random features with orthogonal directions, and why those of positive features are smaller."""

from typing import Any

import numpy as np
from scipy.special import hyp1f1

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Measured, Real
from nlattn.bounds.sketch.feature_trials import DIRECTIONS, pair_at, squared_relative_errors
from nlattn.bounds.sketch.independent_features import (
    hyperbolic_variance,
    positive_variance,
    trigonometric_variance,
    weighted_positive_variance,
)

__all__ = [
    "HAAR_BLOCKS",
    "orthogonal_hyperbolic_variance",
    "orthogonal_moment",
    "orthogonal_positive_variance",
    "orthogonal_trigonometric_variance",
    "pair_fraction",
]

HAAR_BLOCKS = (
    "the projection is made of independent blocks, each of the d rows of a Haar orthogonal matrix, the last one cut"
)
HYPOTHESES = (HAAR_BLOCKS, "the lengths of the rows are independent, distributed as those of N(0, I_d) vectors")
WHERE = "with p the fraction of the m^2 pairs of rows that are in one block and c(t) = e^(-t) 1F1(d; d/2; t/2) - 1"


@bound(
    "moment",
    f"E (k / e^(x.y) - 1)^2 = (e^phi - 1) / m + p c(phi), phi = ||x + y||^2, {WHERE}",
    hypotheses=(*HYPOTHESES, "k is the estimate from positive features of m directions"),
    source="Derived; the inequality is Theorem 2 of arXiv 2009.14794",
)
def orthogonal_positive_variance(phi: Real, features: int, dimension: int, *, variance: float = 1.0) -> Real:
    """Relative variance of the estimate of exp(x.y) by positive features with orthogonal directions.

    Parameters
    ----------
    phi : float or array
        ||x + y||^2.
    features : int
        m, the number of directions.
    dimension : int
        d.
    variance : float, default 1
        As in `positive_log_features`, the same along all axes. The second term does not depend on it.

    Returns
    -------
    float or array

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.orthogonal_positive_variance(1.0, 64, 64).round(4))
    0.0196
    """
    gain = _gain(phi, features, dimension)
    if variance == 1:
        return positive_variance(phi, features) + gain
    # Only the length of x + y counts, so it may be spread over all axes.
    total = np.sqrt(np.expand_dims(phi, -1) / dimension * np.ones(dimension))
    independent: Any = weighted_positive_variance(total, features, variance)
    return independent + gain


@experiment(orthogonal_positive_variance, trials=100_000, band=(0.9, 1.1))
def orthogonal_positive_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    variance = rng.uniform(1, 1.3)
    errors = squared_relative_errors(rng, *pair_at(rng, 6, 0.5), "positive", rows="haar", variance=variance)
    return errors, orthogonal_positive_variance(0.5, DIRECTIONS, 6, variance=variance)


@bound(
    "moment",
    f"E (k / e^(x.y) - 1)^2 = (cosh phi - 1) / m + p c(phi), phi = ||x + y||^2, {WHERE}",
    hypotheses=(*HYPOTHESES, "k is the estimate from hyperbolic features of m directions"),
    source="Derived",
)
def orthogonal_hyperbolic_variance(phi: Real, features: int, dimension: int) -> Real:
    """Relative variance of the estimate of exp(x.y) by hyperbolic features with orthogonal directions.

    Parameters
    ----------
    phi : float or array
        ||x + y||^2.
    features, dimension : int
        m, the number of directions, of which each gives two features; and d.

    Returns
    -------
    float or array

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.orthogonal_hyperbolic_variance(1.0, 64, 64).round(5))
    0.00127
    """
    return hyperbolic_variance(phi, features) + _gain(phi, features, dimension)


@experiment(orthogonal_hyperbolic_variance, trials=100_000, band=(0.9, 1.1))
def orthogonal_hyperbolic_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    errors = squared_relative_errors(rng, *pair_at(rng, 6, 1.0), "hyperbolic", rows="haar")
    return errors, orthogonal_hyperbolic_variance(1.0, DIRECTIONS, 6)


@bound(
    "moment",
    f"E (k / e^(-u/2) - 1)^2 = (cosh u - 1) / m + p c(-u), u = ||x - y||^2, {WHERE}",
    hypotheses=(*HYPOTHESES, "k is the estimate from trigonometric features of m directions"),
    source="Derived",
)
def orthogonal_trigonometric_variance(u: Real, features: int, dimension: int) -> Real:
    """Relative variance of the estimate by trigonometric features with orthogonal directions.

    Parameters
    ----------
    u : float or array
        ||x - y||^2. Where it is large, about 9 for d = 8, c(-u) is positive, and independent directions are better.
    features, dimension : int
        As in `orthogonal_hyperbolic_variance`.

    Returns
    -------
    float or array

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.orthogonal_trigonometric_variance(1.0, 64, 64).round(5))
    0.00083
    """
    return trigonometric_variance(u, features) + _gain(-u, features, dimension)


@experiment(orthogonal_trigonometric_variance, trials=100_000, band=(0.9, 1.1))
def orthogonal_trigonometric_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    errors = squared_relative_errors(rng, *pair_at(rng, 6, 1.0, apart=True), "trigonometric", rows="haar")
    return errors, orthogonal_trigonometric_variance(1.0, DIRECTIONS, 6)


@bound(
    "always",
    "e^(-phi) 1F1(d; d/2; phi/2) <= 1 - 4 / (d + 2) (1 - (1 + phi/2) e^(-phi/2))",
    hypotheses=("d >= 2", "phi >= 0"),
    source="Derived; implies Theorem 2 of arXiv 2009.14794",
)
def orthogonal_moment(phi: Real, dimension: int) -> Real:
    """Limit of the product moment of two positive features with orthogonal directions, relative to exp(2 x.y).

    Parameters
    ----------
    phi : float or array
        ||x + y||^2.
    dimension : int
        d, at least 2.

    Returns
    -------
    float or array
        At most 1, the value for independent directions: orthogonal ones never have a larger variance.

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.orthogonal_moment(2.0, 6).round(4))
    0.8679
    """
    half = phi / 2
    return (dimension - 2 + 4 * (1 + half) * np.exp(-half)) / (dimension + 2)


@experiment(orthogonal_moment, band=(0.5, 1.0))
def orthogonal_moment_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    phi, d = 8 * rng.random(), int(rng.integers(2, 100))
    return np.exp(-phi) * hyp1f1(d, d / 2, phi / 2), orthogonal_moment(phi, d)


def pair_fraction(features: int, dimension: int) -> float:
    """The fraction of the m^2 ordered pairs of rows that are two different rows of one block."""
    blocks, rest = divmod(features, dimension)
    return (blocks * dimension * (dimension - 1) + rest * (rest - 1)) / features**2


def _gain(t: Real, features: int, dimension: int) -> Real:
    """p c(t): what orthogonality adds to the variance, negative for t > 0."""
    half = t / 2
    # e^(-t) 1F1(d; d/2; t/2) by Kummer's transformation, which does not overflow.
    moment = np.exp(-half) * hyp1f1(-dimension / 2, dimension / 2, -half)
    return pair_fraction(features, dimension) * (moment - 1)
