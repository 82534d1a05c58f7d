"""Exact variances of random features with orthogonal directions, and that of positive features is smaller."""

from typing import Any

import numpy as np
from scipy.special import hyp1f1

from nlattn.bounds.feature_moments import (
    hyperbolic_variance,
    positive_variance,
    relative_errors,
    trigonometric_variance,
    weighted_positive_variance,
)
from nlattn.bounds.registry import bound, experiment

__all__ = [
    "orthogonal_hyperbolic_variance",
    "orthogonal_moment",
    "orthogonal_positive_variance",
    "orthogonal_trigonometric_variance",
    "pair_fraction",
]

HAAR = (
    "the projection is made of independent blocks of d rows, the last one cut: rows of Haar orthogonal matrices",
    "the rows have independent chi_d lengths",
)
WHERE = "with p the fraction of the m^2 pairs of rows that are in one block and c(t) = e^(-t) 1F1(d; d/2; t/2) - 1"


@bound(
    "moment",
    f"E (k / e^(x.y) - 1)^2 = (e^phi - 1) / m + p c(phi), phi = ||x + y||^2, {WHERE}",
    hypotheses=HAAR,
    source="Derived; the inequality is Theorem 2 of arXiv 2009.14794",
    trials=100_000,
    band=(0.9, 1.1),
)
def orthogonal_positive_variance(phi: Any, features: int, dimension: int, *, variance: float = 1.0) -> Any:
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
    if variance == 1:
        independent = positive_variance(phi, features)
    else:
        total = np.sqrt(np.asarray(phi)[..., None] / dimension * np.ones(dimension))
        independent = weighted_positive_variance(total, features, variance)
    return independent + pair_fraction(features, dimension) * (_moment(phi, dimension) - 1)


@bound(
    "moment",
    f"E (k / e^(x.y) - 1)^2 = (cosh phi - 1) / m + p c(phi), phi = ||x + y||^2, {WHERE}",
    hypotheses=HAAR,
    source="Derived",
    trials=100_000,
    band=(0.9, 1.1),
)
def orthogonal_hyperbolic_variance(phi: Any, features: int, dimension: int) -> Any:
    """Relative variance of the estimate of exp(x.y) by hyperbolic features with orthogonal directions.

    Parameters
    ----------
    phi : float or array
        ||x + y||^2.
    features : int
        m, the number of directions; there are twice as many features.
    dimension : int
        d.

    Returns
    -------
    float or array

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.orthogonal_hyperbolic_variance(1.0, 64, 64).round(5))
    0.00127
    """
    gain = pair_fraction(features, dimension) * (_moment(phi, dimension) - 1)
    return hyperbolic_variance(phi, features) + gain


@bound(
    "moment",
    f"E (k / e^(-u/2) - 1)^2 = (cosh u - 1) / m + p c(-u), u = ||x - y||^2, {WHERE}",
    hypotheses=HAAR,
    source="Derived",
    trials=100_000,
    band=(0.9, 1.1),
)
def orthogonal_trigonometric_variance(u: Any, features: int, dimension: int) -> Any:
    """Relative variance of the estimate by trigonometric features with orthogonal directions.

    Parameters
    ----------
    u : float or array
        ||x - y||^2. Where it is large, about 9 for d = 8, c(-u) is positive, and independent directions are better.
    features : int
        m, the number of directions; there are twice as many features.
    dimension : int
        d.

    Returns
    -------
    float or array

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.orthogonal_trigonometric_variance(1.0, 64, 64).round(5))
    0.00083
    """
    gain = pair_fraction(features, dimension) * (_moment(-np.asarray(u), dimension) - 1)
    return trigonometric_variance(u, features) + gain


@bound(
    "always",
    "e^(-phi) 1F1(d; d/2; phi/2) <= 1 - 4 / (d + 2) (1 - (1 + phi/2) e^(-phi/2))",
    hypotheses=("d >= 2", "phi >= 0"),
    source="Derived; implies Theorem 2 of arXiv 2009.14794",
    trials=200,
    band=(0.5, 1.0),
)
def orthogonal_moment(phi: Any, dimension: int) -> Any:
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
        At most 1, its value for independent directions: orthogonal ones never have a larger variance.

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.orthogonal_moment(2.0, 6).round(4))
    0.8679
    """
    half = np.asarray(phi) / 2
    return (dimension - 2 + 4 * (1 + half) * np.exp(-half)) / (dimension + 2)


def _moment(phi: Any, dimension: int) -> Any:
    """e^(-phi) 1F1(d; d/2; phi/2), by Kummer's transformation."""
    half = np.asarray(phi) / 2
    return np.exp(-half) * hyp1f1(-dimension / 2, dimension / 2, -half)


def pair_fraction(features: int, dimension: int) -> float:
    """Of the m^2 ordered pairs of rows, those of two different rows of one block."""
    blocks, rest = divmod(features, dimension)
    return (blocks * dimension * (dimension - 1) + rest * (rest - 1)) / features**2


def _errors(rng: np.random.Generator, norm: float, kind: str, **options: Any) -> Any:
    return relative_errors(rng, 6, 8, norm, kind, projection={}, **options)[0]


@experiment(orthogonal_positive_variance)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    variance = rng.uniform(1, 1.3)
    return (
        _errors(rng, 0.5, "positive", variance=variance),
        orthogonal_positive_variance(0.5, 8, 6, variance=variance),
    )


@experiment(orthogonal_hyperbolic_variance)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    return _errors(rng, 1.0, "hyperbolic"), orthogonal_hyperbolic_variance(1.0, 8, 6)


@experiment(orthogonal_trigonometric_variance)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    return _errors(rng, 1.0, "trigonometric"), orthogonal_trigonometric_variance(1.0, 8, 6)


@experiment(orthogonal_moment)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    phi, d = 8 * rng.random(), int(rng.integers(2, 100))
    return np.exp(-phi) * hyp1f1(d, d / 2, phi / 2), orthogonal_moment(phi, d)
