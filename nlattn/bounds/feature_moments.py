"""Exact variances of random features with independent directions, relative to the square of what they estimate."""

import math
from typing import Any

import numpy as np

from nlattn.bounds.registry import bound, experiment
from nlattn.sketch._positive import hyperbolic_log_features, positive_log_features
from nlattn.sketch._projections import orthogonal_projection
from nlattn.sketch._trigonometric import trigonometric_features

__all__ = [
    "hyperbolic_variance",
    "positive_variance",
    "relative_errors",
    "trigonometric_variance",
    "weighted_positive_variance",
]

REPLICATES = 20_000
GAUSSIAN = ("the rows of the projection are independent N(0, I_d) vectors",)


@bound(
    "moment",
    "E (k / e^(x.y) - 1)^2 = (e^phi - 1) / m, phi = ||x + y||^2, k from m positive features",
    hypotheses=GAUSSIAN,
    source="arXiv 2009.14794, Lemma 2",
    trials=200_000,
    band=(0.9, 1.1),
)
def positive_variance(phi: Any, features: int) -> Any:
    """Relative variance of the estimate of exp(x.y) by positive features.

    Parameters
    ----------
    phi : float or array
        ||x + y||^2.
    features : int
        m, the number of directions.

    Returns
    -------
    float or array
        (exp(phi) - 1) / m.

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.positive_variance(1.0, 64).round(4))
    0.0268
    """
    return np.expm1(phi) / features


@bound(
    "moment",
    "E (k / e^(x.y) - 1)^2 = (cosh phi - 1) / m, phi = ||x + y||^2, k from hyperbolic features of m directions",
    hypotheses=GAUSSIAN,
    source="arXiv 2009.14794, Lemma 2",
    trials=200_000,
    band=(0.9, 1.1),
)
def hyperbolic_variance(phi: Any, features: int) -> Any:
    """Relative variance of the estimate of exp(x.y) by hyperbolic features.

    Parameters
    ----------
    phi : float or array
        ||x + y||^2.
    features : int
        m, the number of directions; there are twice as many features.

    Returns
    -------
    float or array
        (cosh(phi) - 1) / m.

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.hyperbolic_variance(1.0, 32).round(4))
    0.017
    """
    return 2 * np.sinh(np.asarray(phi) / 2) ** 2 / features


@bound(
    "moment",
    "E (k / e^(-u/2) - 1)^2 = (cosh u - 1) / m, u = ||x - y||^2, k from trigonometric features of m directions",
    hypotheses=GAUSSIAN,
    source="arXiv 2009.14794, Lemma 2",
    trials=200_000,
    band=(0.9, 1.1),
)
def trigonometric_variance(u: Any, features: int) -> Any:
    """Relative variance of the estimate of exp(-||x - y||^2 / 2), or of exp(x.y), by trigonometric features.

    Parameters
    ----------
    u : float or array
        ||x - y||^2.
    features : int
        m, the number of directions; there are twice as many features.

    Returns
    -------
    float or array
        (cosh(u) - 1) / m.

    Examples
    --------
    >>> import nlattn
    >>> float(nlattn.bounds.trigonometric_variance(1.0, 32).round(4))
    0.017
    """
    return 2 * np.sinh(np.asarray(u) / 2) ** 2 / features


@bound(
    "moment",
    "E (k / e^(x.y) - 1)^2 = (prod_l v_l (2 v_l - 1)^(-1/2) e^(z_l^2 / (2 v_l - 1)) - 1) / m, z = x + y, variances v_l",
    hypotheses=(*GAUSSIAN, "all v_l > 1/2"),
    source="arXiv 2205.15317 for equal v_l",
    trials=200_000,
    band=(0.9, 1.1),
)
def weighted_positive_variance(total: Any, features: int, variance: Any, *, opposite: bool = False) -> Any:
    """Relative variance of the estimate of exp(x.y) by positive features with directions of another variance.

    Parameters
    ----------
    total : array, shape (..., d)
        x + y.
    features : int
        m, the number of directions.
    variance : float, or array that broadcasts to `total`
        As in `positive_log_features`.
    opposite : bool, default False
        Of `hyperbolic_log_features`, with each direction and its opposite.

    Returns
    -------
    array, shape (...)

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.weighted_positive_variance(np.ones(4), 64, 1.5).round(3))
    0.13
    """
    variance = np.broadcast_to(variance, np.shape(total))
    rho = 1 / (2 * variance - 1)
    factor = np.prod(variance * np.sqrt(rho), axis=-1)
    second = np.exp(np.sum(rho * total**2, axis=-1))
    if opposite:
        second = (second + np.exp(-np.sum(total**2, axis=-1))) / 2
    return (factor * second - 1) / features


def relative_errors(rng: np.random.Generator, d: int, m: int, norm: float, kind: str, **options: Any) -> Any:
    """Squared relative errors of estimates for one random x and y with ||x +- y||^2 = norm, and what was drawn."""
    half = rng.standard_normal(d)
    half *= math.sqrt(norm / (half @ half)) / 2
    shift = 0.3 * rng.standard_normal(d)
    x, y = (half + shift, shift - half) if kind == "trigonometric" else (half + shift, half - shift)
    W = orthogonal_projection(m, d, batch=(REPLICATES,), rng=rng, **options.pop("projection", {"kind": "iid"}))
    if kind == "trigonometric":
        a, b = (trigonometric_features(p[None, None], W) for p in (x, y))
        exact = math.exp(-norm / 2)
    else:
        function = positive_log_features if kind == "positive" else hyperbolic_log_features
        a, b = (np.exp(function(p[None, None], W, **options)) for p in (x, y))
        exact = math.exp(x @ y)
    return (np.sum(a * b, axis=-1)[:, 0] / exact - 1) ** 2, x, y


@experiment(positive_variance)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    return relative_errors(rng, 5, 8, 0.5, "positive")[0], positive_variance(0.5, 8)


@experiment(hyperbolic_variance)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    return relative_errors(rng, 5, 8, 1.0, "hyperbolic")[0], hyperbolic_variance(1.0, 8)


@experiment(trigonometric_variance)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    return relative_errors(rng, 5, 8, 1.0, "trigonometric")[0], trigonometric_variance(1.0, 8)


@experiment(weighted_positive_variance)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    variance = rng.uniform(0.9, 1.6, 5)
    errors, x, y = relative_errors(rng, 5, 8, 0.5, "positive", variance=variance)
    return errors, weighted_positive_variance(x + y, 8, variance)
