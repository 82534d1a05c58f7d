"""Softmax normalisers from some keys that are summed exactly and samples of the others."""

import math

import numpy as np
from numpy.typing import NDArray

from nlattn.arrays.arguments import check_integer
from nlattn.bounds.attention.dense import softmax
from nlattn.bounds.attention.sampling import HYPOTHESES, SIZE, SOURCE, light_keys, sampled_problem
from nlattn.bounds.catalogue.arguments import check_failure
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured

__all__ = ["normaliser_deviation", "normaliser_mean", "normaliser_variance", "normaliser_variance_limit"]

FAILURE = 0.05


@bound("moment", "E d' = d", hypotheses=HYPOTHESES, source=SOURCE)
def normaliser_mean(scores: Floats) -> Floats:
    """Mean of the sampled normalisers: the exact ones.

    Parameters
    ----------
    scores : array, shape (rows, S)

    Returns
    -------
    array, shape (rows,)

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.normaliser_mean(np.log(np.asarray([[1.0, 2.0, 5.0]]))).round(9)
    array([8.])
    """
    return np.sum(np.exp(scores), axis=-1)


@experiment(normaliser_mean, trials=20_000, band=(0.97, 1.03))
def normaliser_mean_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    problem = sampled_problem(rng)
    normalisers, _ = problem.replicates(rng)
    return normalisers, normaliser_mean(problem.scores)


@bound(
    "moment",
    "E (d'/d - 1)^2 = (1/m) (sum_j P_j^2/p_j - (sum_j P_j)^2), sums over the keys that are not heavy, P the softmax",
    hypotheses=HYPOTHESES,
    source=SOURCE,
)
def normaliser_variance(weights: Floats, heavy: NDArray[np.bool], probabilities: Floats, size: int) -> Floats:
    """Relative variance of the sampled normalisers, which are unbiased.

    Parameters
    ----------
    weights : array, shape (rows, S)
        The softmax matrix P.
    heavy : boolean array, shape (rows, S)
        The keys that are summed exactly.
    probabilities : array, shape (S,)
        p; 1/S for uniform sampling.
    size : int
        m.

    Returns
    -------
    array, shape (rows,)

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> P, heavy = np.asarray([[0.5, 0.3, 0.2]]), np.asarray([[True, False, False]])
    >>> nlattn.bounds.normaliser_variance(P, heavy, np.full(3, 1 / 3), 10).round(9)
    array([0.014])
    """
    check_integer("size", size)
    light, ratios = light_keys(weights, heavy, probabilities)
    return (np.sum(light * ratios, axis=-1) - np.sum(light, axis=-1) ** 2) / size


@experiment(normaliser_variance, trials=40_000, band=(0.9, 1.1))
def normaliser_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    error, arguments = _relative_errors(rng)
    return error**2, normaliser_variance(*arguments)


@bound(
    "always",
    "E (d'/d - 1)^2 <= (1/m) max_j P_j/p_j sum_j P_j, over the keys that are not heavy, P the softmax",
    hypotheses=HYPOTHESES,
    source=SOURCE,
)
def normaliser_variance_limit(weights: Floats, heavy: NDArray[np.bool], probabilities: Floats, size: int) -> Floats:
    """A limit of the relative variance by the largest weight of a light key; parameters as in `normaliser_variance`.

    For uniform sampling it is S/m times the largest weight of a light key times the mass of all light keys.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> P, heavy = np.asarray([[0.5, 0.3, 0.2]]), np.asarray([[True, False, False]])
    >>> nlattn.bounds.normaliser_variance_limit(P, heavy, np.full(3, 1 / 3), 10).round(9)
    array([0.045])
    """
    check_integer("size", size)
    light, ratios = light_keys(weights, heavy, probabilities)
    return np.max(ratios, axis=-1) * np.sum(light, axis=-1) / size


@experiment(normaliser_variance_limit, band=(0.15, 0.6))
def normaliser_variance_limit_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    problem = sampled_problem(rng)
    weights, p = problem.weights, problem.probabilities
    terms = np.where(problem.heavy, 0, weights / p)
    variance = np.sum(p * (terms - np.sum(p * terms)) ** 2) / SIZE
    return variance, normaliser_variance_limit(weights, problem.heavy, p, SIZE)


@bound(
    "probability",
    "|d'/d - 1| <= (L b/3 + ((L b/3)^2 + 2 L m s^2)^(1/2))/m, L = log(2/failure), s^2 the relative variance for one "
    "draw and b = max(M - l, l), M = max_j P_j/p_j, l = sum_j P_j over the keys that are not heavy",
    hypotheses=HYPOTHESES,
    source="Bernstein's inequality",
)
def normaliser_deviation(
    weights: Floats, heavy: NDArray[np.bool], probabilities: Floats, size: int, failure: float
) -> Floats:
    """A limit that the relative error of a sampled normaliser rarely exceeds.

    Parameters
    ----------
    weights, heavy, probabilities, size
        As in `normaliser_variance`.
    failure : float
        The bound fails in a given row with at most this probability.

    Returns
    -------
    array, shape (rows,)
        At most e for 2 L (s^2 + b e/3)/e^2 samples or more.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> P, heavy = np.asarray([[0.5, 0.3, 0.2]]), np.asarray([[True, False, False]])
    >>> nlattn.bounds.normaliser_deviation(P, heavy, np.full(3, 1 / 3), 1000, 0.01).round(3)
    array([0.039])
    """
    check_failure(failure)
    light, ratios = light_keys(weights, heavy, probabilities)
    mass = np.sum(light, axis=-1)
    log = math.log(2 / failure)
    share = log / 3 * np.maximum(np.max(ratios, axis=-1) - mass, mass)
    variance = normaliser_variance(weights, heavy, probabilities, size) * size
    return (share + np.sqrt(share**2 + 2 * log * size * variance)) / size


@experiment(normaliser_deviation, trials=4000, band=(0.06, 0.4), failure=FAILURE)
def normaliser_deviation_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    error, arguments = _relative_errors(rng)
    return np.abs(error), normaliser_deviation(*arguments, FAILURE)


def _relative_errors(rng: np.random.Generator) -> tuple[Floats, tuple[Floats, NDArray[np.bool], Floats, int]]:
    """d'/d - 1 of all replicates, and the arguments of the bounds."""
    problem = sampled_problem(rng)
    normalisers, _ = problem.replicates(rng)
    scores = problem.scores
    arguments = softmax(scores), problem.heavy, problem.probabilities, SIZE
    return normalisers / np.sum(np.exp(scores)) - 1, arguments
