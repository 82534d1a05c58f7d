"""Softmax normalisers from some keys that are summed exactly and samples of the others."""

import math
from typing import Any

import numpy as np

from nlattn.arrays.arguments import check_integer, check_number
from nlattn.bounds.registry import bound, experiment
from nlattn.bounds.selection import softmax
from nlattn.linalg import importance_sample
from nlattn.methods.exact import exact_attention
from nlattn.problem.partials import Partial, merge_partials

__all__ = ["normaliser_deviation", "normaliser_mean", "normaliser_variance", "normaliser_variance_limit"]

FAILURE = 0.05
SOURCE = "The variance of a sum over independent draws"
HYPOTHESES = (
    "d' sums the heavy keys of a row exactly, and 1/(m p_l) times each of m keys l that are drawn independently with "
    "probabilities p and are not heavy",
    "p_j > 0 for every key that is not heavy; which keys are heavy does not depend on the draws",
)


@bound("moment", "E d' = d", hypotheses=HYPOTHESES, source=SOURCE, band=(0.97, 1.03), trials=20_000)
def normaliser_mean(scores: Any) -> Any:
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


@bound(
    "moment",
    "E (d'/d - 1)^2 = (1/m) (sum_j P_j^2/p_j - (sum_j P_j)^2), sums over the keys that are not heavy, P the softmax",
    hypotheses=HYPOTHESES,
    source=SOURCE,
    band=(0.9, 1.1),
    trials=40_000,
)
def normaliser_variance(weights: Any, heavy: Any, probabilities: Any, size: int) -> Any:
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
    light = np.where(heavy, 0, weights)
    return (np.sum(light * _ratios(light, probabilities), axis=-1) - np.sum(light, axis=-1) ** 2) / size


@bound(
    "always",
    "E (d'/d - 1)^2 <= (1/m) max_j P_j/p_j sum_j P_j, over the keys that are not heavy, P the softmax",
    hypotheses=HYPOTHESES,
    source=SOURCE,
    band=(0.15, 0.6),
)
def normaliser_variance_limit(weights: Any, heavy: Any, probabilities: Any, size: int) -> Any:
    """A limit of the relative variance that shows what it needs; parameters as in `normaliser_variance`.

    For uniform sampling it is S/m times the largest weight of a light key times the mass of all of them.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> P, heavy = np.asarray([[0.5, 0.3, 0.2]]), np.asarray([[True, False, False]])
    >>> nlattn.bounds.normaliser_variance_limit(P, heavy, np.full(3, 1 / 3), 10).round(9)
    array([0.045])
    """
    check_integer("size", size)
    light = np.where(heavy, 0, weights)
    return np.max(_ratios(light, probabilities), axis=-1) * np.sum(light, axis=-1) / size


@bound(
    "probability",
    "|d'/d - 1| <= (L b/3 + ((L b/3)^2 + 2 L m s^2)^(1/2))/m, L = log(2/failure), s^2 the relative variance for one "
    "draw and b = max(M - l, l), M = max_j P_j/p_j, l = sum_j P_j over the keys that are not heavy",
    hypotheses=HYPOTHESES,
    source="Bernstein's inequality",
    band=(0.06, 0.4),
    failure=FAILURE,
    trials=4000,
)
def normaliser_deviation(weights: Any, heavy: Any, probabilities: Any, size: int, failure: float) -> Any:
    """Relative error of a sampled normaliser.

    Parameters
    ----------
    weights, heavy, probabilities, size
        As in `normaliser_variance`.
    failure : float
        The bound fails in a given row with at most this probability.

    Returns
    -------
    array, shape (rows,)
        It is at most e from 2 L (s^2 + b e/3)/e^2 samples on.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> P, heavy = np.asarray([[0.5, 0.3, 0.2]]), np.asarray([[True, False, False]])
    >>> nlattn.bounds.normaliser_deviation(P, heavy, np.full(3, 1 / 3), 1000, 0.01).round(3)
    array([0.039])
    """
    check_number("failure", failure, above=0, below=1)
    light = np.where(heavy, 0, weights)
    mass = np.sum(light, axis=-1)
    log = math.log(2 / failure)
    share = log / 3 * np.maximum(np.max(_ratios(light, probabilities), axis=-1) - mass, mass)
    variance = normaliser_variance(weights, heavy, probabilities, size) * size
    return (share + np.sqrt(share**2 + 2 * log * size * variance)) / size


def _ratios(light: Any, probabilities: Any) -> Any:
    """P_j/p_j, 0 for heavy keys, whose p_j may be 0."""
    return light / np.where(light > 0, probabilities, 1)


SIZE, REPLICATES = 12, 2000


def sampled_problem(rng: np.random.Generator, count: int = 4) -> tuple[Any, Any, Any, Any, Any]:
    """One query, keys, values, which keys are heavy, `count` of them, and probabilities of the keys."""
    query, key, values = (rng.standard_normal(shape) for shape in ((1, 3), (40, 3), (40, 2)))
    scores = query @ key.T
    return query, key, values, scores >= np.sort(scores)[:, -count, None], rng.dirichlet(np.full(40, 5.0))


def sampled_attention(query: Any, key: Any, values: Any, heavy: Any, index: Any, log_weight: Any) -> Partial:
    """Attention of one query to its heavy keys, and to samples of the light ones: index, log_weight (replicates, m)."""
    part = exact_attention(query, key, values, attn_mask=heavy, scale=1.0, return_lse=True)
    queries = np.broadcast_to(query, (len(index), *query.shape))
    mask = np.where(heavy[0][index], -np.inf, log_weight)[:, None]
    light = exact_attention(queries, key[index], values[index], attn_mask=mask, scale=1.0, return_lse=True)
    return merge_partials(Partial(*(np.broadcast_to(x, y.shape) for x, y in zip(part, light, strict=True))), light)


def draws(probabilities: Any, rng: np.random.Generator) -> Any:
    """Independent samples, (REPLICATES, SIZE): keys and log-weights."""
    sample = importance_sample(probabilities, REPLICATES * SIZE, rng=rng)
    index, log_weight = (x.reshape(REPLICATES, SIZE) for x in sample)
    return index, log_weight + math.log(REPLICATES)


def _sampled(rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """Normalisers, and scores, heavy keys and probabilities."""
    query, key, values, heavy, probabilities = sampled_problem(rng)
    found = sampled_attention(query, key, values, heavy, *draws(probabilities, rng)).lse[:, 0]
    return np.exp(found), query @ key.T, heavy, probabilities


@experiment(normaliser_mean)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    found, scores, _, _ = _sampled(rng)
    return found, normaliser_mean(scores)


@experiment(normaliser_variance)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    found, scores, heavy, probabilities = _sampled(rng)
    error = found / np.sum(np.exp(scores)) - 1
    return error**2, normaliser_variance(softmax(scores), heavy, probabilities, SIZE)


@experiment(normaliser_variance_limit)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    query, key, _, heavy, p = sampled_problem(rng)
    weights = softmax(query @ key.T)
    terms = np.where(heavy, 0, weights / p)
    return np.sum(p * (terms - np.sum(p * terms)) ** 2) / SIZE, normaliser_variance_limit(weights, heavy, p, SIZE)


@experiment(normaliser_deviation)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    found, scores, heavy, probabilities = _sampled(rng)
    error = np.abs(found / np.sum(np.exp(scores)) - 1)
    return error, normaliser_deviation(softmax(scores), heavy, probabilities, SIZE, FAILURE)
