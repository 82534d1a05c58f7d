"""Exact variances of random features with independent directions, relative to the square of what they estimate."""

import numpy as np

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured, Real
from nlattn.bounds.sketch.feature_trials import DIRECTIONS, pair_at, squared_relative_errors

__all__ = ["hyperbolic_variance", "positive_variance", "trigonometric_variance", "weighted_positive_variance"]

GAUSSIAN = ("the rows of the projection are independent N(0, I_d) vectors",)
SOURCE = "arXiv 2009.14794, Lemma 2"


@bound(
    "moment",
    "E (k / e^(x.y) - 1)^2 = (e^phi - 1) / m, phi = ||x + y||^2",
    hypotheses=(*GAUSSIAN, "k is the estimate from m positive features"),
    source=SOURCE,
)
def positive_variance(phi: Real, features: int) -> Real:
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


@experiment(positive_variance, trials=200_000, band=(0.9, 1.1))
def positive_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x, y = pair_at(rng, 5, 0.5)
    return squared_relative_errors(rng, x, y, "positive", rows="iid"), positive_variance(0.5, DIRECTIONS)


@bound(
    "moment",
    "E (k / e^(x.y) - 1)^2 = (cosh phi - 1) / m, phi = ||x + y||^2",
    hypotheses=(*GAUSSIAN, "k is the estimate from hyperbolic features of m directions"),
    source=SOURCE,
)
def hyperbolic_variance(phi: Real, features: int) -> Real:
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
    return _cosh_minus_one(phi) / features


@experiment(hyperbolic_variance, trials=200_000, band=(0.9, 1.1))
def hyperbolic_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x, y = pair_at(rng, 5, 1.0)
    return squared_relative_errors(rng, x, y, "hyperbolic", rows="iid"), hyperbolic_variance(1.0, DIRECTIONS)


@bound(
    "moment",
    "E (k / e^(-u/2) - 1)^2 = (cosh u - 1) / m, u = ||x - y||^2",
    hypotheses=(*GAUSSIAN, "k is the estimate from trigonometric features of m directions"),
    source=SOURCE,
)
def trigonometric_variance(u: Real, features: int) -> Real:
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
    return _cosh_minus_one(u) / features


@experiment(trigonometric_variance, trials=200_000, band=(0.9, 1.1))
def trigonometric_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    x, y = pair_at(rng, 5, 1.0, apart=True)
    return squared_relative_errors(rng, x, y, "trigonometric", rows="iid"), trigonometric_variance(1.0, DIRECTIONS)


@bound(
    "moment",
    "E (k / e^(x.y) - 1)^2 = (prod_l v_l (2 v_l - 1)^(-1/2) e^(z_l^2 / (2 v_l - 1)) - 1) / m, z = x + y",
    hypotheses=(*GAUSSIAN, "k is the estimate from m positive features of variances v_l, all v_l > 1/2"),
    source="arXiv 2205.15317 for equal v_l",
)
def weighted_positive_variance(
    total: Floats, features: int, variance: float | Floats, *, opposite: bool = False
) -> Floats:
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
        Whether each direction is used with its opposite, as in `hyperbolic_log_features`.

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


@experiment(weighted_positive_variance, trials=200_000, band=(0.9, 1.1))
def weighted_positive_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    variance = rng.uniform(0.9, 1.6, 5)
    x, y = pair_at(rng, 5, 0.5)
    errors = squared_relative_errors(rng, x, y, "positive", rows="iid", variance=variance)
    return errors, weighted_positive_variance(x + y, DIRECTIONS, variance)


def _cosh_minus_one(t: Real) -> Real:
    """cosh(t) - 1, without cancellation for small t."""
    return 2 * np.sinh(t / 2) ** 2
