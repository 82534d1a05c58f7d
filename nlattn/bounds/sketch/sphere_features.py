"""What random directions of one and the same length estimate instead of exp(x.y), and with which variance."""

import math

import numpy as np
from scipy.special import hyp0f1

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Measured, Real
from nlattn.bounds.sketch.feature_trials import DIRECTIONS, kernel_estimates
from nlattn.bounds.sketch.orthogonal_features import HAAR_BLOCKS, pair_fraction

__all__ = ["regularised_softmax", "regularised_softmax_variance"]


@bound(
    "always",
    "1 - E k / e^(x.y) <= 1 - e^(-phi^2 / (4 d)), phi = ||x + y||^2",
    hypotheses=(
        "each direction is uniformly distributed on the sphere of radius d^(1/2)",
        "k is the estimate from positive features of these directions",
    ),
    source="Derived; arXiv 2009.14794, Theorem 1, has an asymptotic form",
)
def regularised_softmax(phi: Real, dimension: int) -> Real:
    """Relative bias of positive features with directions of length sqrt(d), which is never upwards.

    Parameters
    ----------
    phi : float or array
        ||x + y||^2.
    dimension : int
        d.

    Returns
    -------
    float or array
        1 - exp(-phi^2 / (4 d)).

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.regularised_softmax(2.0, 64).round(4))
    0.0155
    """
    return -np.expm1(-(phi**2) / (4 * dimension))


@experiment(regularised_softmax, band=(0.5, 1.0))
def regularised_softmax_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    d = int(rng.integers(1, 200))
    phi = math.sqrt(d) * rng.random()
    return 1 - hyp0f1(d / 2, d * phi / 4) * math.exp(-phi / 2), regularised_softmax(phi, d)


@bound(
    "moment",
    "E (k / E k - 1)^2 = (0F1(d/2; d phi) / K^2 - 1) / m + p (0F1(d/2; d phi / 2) / K^2 - 1), K = 0F1(d/2; d phi / 4), "
    "p the fraction of the m^2 pairs of rows that are in one block",
    hypotheses=(
        HAAR_BLOCKS,
        "all rows have length d^(1/2)",
        "k is the estimate from positive features of m directions",
    ),
    source="Derived",
)
def regularised_softmax_variance(phi: Real, features: int, dimension: int) -> Real:
    """Relative variance of positive features with orthogonal directions of length sqrt(d).

    Parameters
    ----------
    phi : float or array
        ||x + y||^2.
    features : int
        m, the number of directions.
    dimension : int
        d.

    Returns
    -------
    float or array
        Relative to the mean, exp(-(||x||^2 + ||y||^2) / 2) 0F1(d/2; d phi / 4).

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.regularised_softmax_variance(1.0, 64, 64).round(4))
    0.0178
    """
    argument, half = dimension * phi, dimension / 2
    square = hyp0f1(half, argument / 4) ** 2
    single = hyp0f1(half, argument) / square - 1
    pair = hyp0f1(half, argument / 2) / square - 1
    return single / features + pair_fraction(features, dimension) * pair


@experiment(regularised_softmax_variance, trials=100_000, band=(0.9, 1.1))
def regularised_softmax_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    d = 6
    x, y = rng.standard_normal((2, d)) / 4
    phi = float((x + y) @ (x + y))
    mean = math.exp(-(x @ x + y @ y) / 2) * hyp0f1(d / 2, d * phi / 4)
    estimates = kernel_estimates(rng, x, y, "positive", rows="haar", lengths="sqrt")
    return (estimates / mean - 1) ** 2, regularised_softmax_variance(phi, DIRECTIONS, d)
