"""What random directions of one and the same length estimate instead of exp(x.y), and with which variance."""

import math
from typing import Any

import numpy as np
from scipy.special import hyp0f1

from nlattn.bounds.orthogonal_features import pair_fraction
from nlattn.bounds.registry import bound, experiment
from nlattn.sketch._positive import positive_log_features
from nlattn.sketch._projections import orthogonal_projection

__all__ = ["regularised_softmax", "regularised_softmax_variance"]

REPLICATES = 20_000


@bound(
    "always",
    "1 - E k / e^(x.y) <= 1 - e^(-phi^2 / (4 d)), phi = ||x + y||^2, k from positive features of sphere directions",
    hypotheses=("each direction is uniformly distributed on the sphere of radius d^(1/2)",),
    source="Derived; arXiv 2009.14794, Theorem 1, has an asymptotic form",
    trials=200,
    band=(0.5, 1.0),
)
def regularised_softmax(phi: Any, dimension: int) -> Any:
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
    return -np.expm1(-(np.asarray(phi) ** 2) / (4 * dimension))


@bound(
    "moment",
    "E (k / E k - 1)^2 = (0F1(d/2; d phi) / K^2 - 1) / m + p (0F1(d/2; d phi / 2) / K^2 - 1), K = 0F1(d/2; d phi / 4), "
    "p the fraction of the m^2 pairs of rows that are in one block",
    hypotheses=(
        "the projection is made of independent blocks of d rows, the last one cut: rows of Haar orthogonal matrices",
        "all rows have length d^(1/2)",
    ),
    source="Derived",
    trials=100_000,
    band=(0.9, 1.1),
)
def regularised_softmax_variance(phi: Any, features: int, dimension: int) -> Any:
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
    phi, half = np.asarray(phi), dimension / 2
    square = hyp0f1(half, dimension * phi / 4) ** 2
    single = hyp0f1(half, dimension * phi) / square - 1
    pair = hyp0f1(half, dimension * phi / 2) / square - 1
    return single / features + pair_fraction(features, dimension) * pair


@experiment(regularised_softmax)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    d = int(rng.integers(1, 200))
    phi = math.sqrt(d) * rng.random()
    return 1 - hyp0f1(d / 2, d * phi / 4) * math.exp(-phi / 2), regularised_softmax(phi, d)


@experiment(regularised_softmax_variance)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    d, m = 6, 8
    x, y = rng.standard_normal((2, d)) / 4
    W = orthogonal_projection(m, d, lengths="sqrt", batch=(REPLICATES,), rng=rng)
    a, b = (np.exp(positive_log_features(p[None, None], W)) for p in (x, y))
    phi = float((x + y) @ (x + y))
    mean = math.exp(-(x @ x + y @ y) / 2) * hyp0f1(d / 2, d * phi / 4)
    errors = (np.sum(a * b, axis=-1)[:, 0] / mean - 1) ** 2
    return errors, regularised_softmax_variance(phi, m, d)
