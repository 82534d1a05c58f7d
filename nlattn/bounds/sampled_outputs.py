"""Attention whose numerator and normaliser come from the same samples."""

from typing import Any

import numpy as np

from nlattn.arrays.arguments import check_integer
from nlattn.bounds.registry import bound, experiment
from nlattn.bounds.sampled_normalisers import HYPOTHESES, SIZE, draws, sampled_attention, sampled_problem
from nlattn.bounds.selection import softmax

__all__ = ["ratio_error", "ratio_identity", "ratio_variance"]

RATIO = ("o' = n'/d', n' from the same keys, draws and weights as d', with the values", *HYPOTHESES)


@bound(
    "identity",
    "o' - o = (sum_j P_j (v_j - o) + sum_s w_s P_s (v_s - o)) / (d'/d), j over the heavy keys, s over the draws of "
    "others, w their weights, P the softmax",
    hypotheses=("o' = n'/d' with n' = sum_j A_j v_j + sum_s w_s A_s v_s, d' = sum_j A_j + sum_s w_s A_s > 0",),
    source="Elementary",
    band=(1 - 1e-9, 1 + 1e-9),
    rounding=1e-8,
)
def ratio_identity(weights: Any, values: Any, heavy: Any, index: Any, sample_weights: Any) -> Any:
    """Error of an output from samples, exactly.

    Parameters
    ----------
    weights : array, shape (S,)
        The softmax P of one row.
    values : array, shape (S, Ev)
    heavy : boolean array, shape (S,)
        The keys that are summed exactly; draws of them are left out.
    index : integer array, shape (..., m)
        The draws.
    sample_weights : array, shape (..., m)
        w: 1/(m p) for unbiased sums, but the identity holds for any.

    Returns
    -------
    array, shape (..., Ev)

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> P, heavy = np.asarray([0.5, 0.3, 0.2]), np.asarray([True, False, False])
    >>> v = np.asarray([[0.0], [1.0], [1.0]])
    >>> nlattn.bounds.ratio_identity(P, v, heavy, np.asarray([1]), np.asarray([3.0])).round(9)
    array([0.14285714])
    """
    offsets = values - weights @ values
    light = np.where(heavy, 0, weights)[index] * sample_weights
    error = np.where(heavy, weights, 0) @ offsets + np.sum(light[..., None] * offsets[index], axis=-2)
    return error / (np.sum(weights[heavy]) + np.sum(light, axis=-1))[..., None]


@bound(
    "moment",
    "E (d'/d)^2 ||o' - o||^2 = (1/m) (sum_j P_j^2 ||v_j - o||^2/p_j - ||sum_j P_j (v_j - o)||^2), sums over the keys "
    "that are not heavy, P the softmax",
    hypotheses=RATIO,
    source="The variance of a sum over independent draws, for the sampling of arXiv 2302.02451 and 2310.05869",
    band=(0.9, 1.1),
    trials=40_000,
)
def ratio_variance(weights: Any, values: Any, heavy: Any, probabilities: Any, size: int) -> Any:
    """Mean squared error of an output from samples, weighted by the squared ratio of the normalisers.

    Parameters
    ----------
    weights : array, shape (rows, S)
        The softmax matrix P.
    values : array, shape (S, Ev)
    heavy : boolean array, shape (rows, S)
        The keys that are summed exactly.
    probabilities : array, shape (S,)
        p; 1/S for uniform sampling.
    size : int
        m.

    Returns
    -------
    array, shape (rows,)
        Where the normalisers are nearly exact, also nearly the mean of ``||o' - o||^2``.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> P, heavy = np.asarray([[0.5, 0.3, 0.2]]), np.asarray([[True, False, False]])
    >>> v = np.asarray([[0.0], [1.0], [1.0]])
    >>> nlattn.bounds.ratio_variance(P, v, heavy, np.full(3, 1 / 3), 10).round(9)
    array([0.0035])
    """
    check_integer("size", size)
    offsets = values[None] - (weights @ values)[:, None]
    light = np.where(heavy, 0, weights)
    ratios = light / np.where(light > 0, probabilities, 1)
    mean = np.sum(light[..., None] * offsets, axis=1)
    return (np.sum(light * ratios * np.sum(offsets**2, axis=-1), axis=-1) - np.sum(mean**2, axis=-1)) / size


@bound(
    "mean",
    "E ||o' - o||^2 <= (1/g^2) E (d'/d)^2 ||o' - o||^2, g = sum of P over the heavy keys + min over all keys j "
    "of P_j/p_j, or 0 for a heavy one",
    hypotheses=RATIO,
    source="Follows from the moment `ratio_variance`",
    band=(0.2, 1.0),
    trials=10_000,
)
def ratio_error(weights: Any, values: Any, heavy: Any, probabilities: Any, size: int) -> Any:
    """Mean squared error of an output from samples; parameters as in `ratio_variance`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> P, heavy = np.asarray([[0.5, 0.3, 0.2]]), np.asarray([[True, False, False]])
    >>> v = np.asarray([[0.0], [1.0], [1.0]])
    >>> nlattn.bounds.ratio_error(P, v, heavy, np.full(3, 1 / 3), 10).round(9)
    array([0.014])
    """
    variance = ratio_variance(weights, values, heavy, probabilities, size)
    light = np.where(heavy, 0, weights)
    ratios = light / np.where(light > 0, probabilities, 1)
    least = np.sum(np.where(heavy, weights, 0), axis=-1) + np.min(ratios, axis=-1)
    return variance / least**2


def _sampled(rng: np.random.Generator, count: int = 4) -> tuple[Any, Any, Any]:
    """d'/d and o' - o of all replicates, and the arguments of the bounds."""
    query, key, values, heavy, probabilities = sampled_problem(rng, count)
    found = sampled_attention(query, key, values, heavy, *draws(probabilities, rng))
    scores = query @ key.T
    ratio = np.exp(found.lse[:, 0]) / np.sum(np.exp(scores))
    weights = softmax(scores)
    return ratio, found.out[:, 0] - weights @ values, (weights, values, heavy, probabilities, SIZE)


@experiment(ratio_identity)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    query, key, values, heavy, probabilities = sampled_problem(rng)
    index, log_weight = (x[:100] for x in draws(probabilities, rng))
    found = sampled_attention(query, key, values, heavy, index, log_weight).out[:, 0]
    weights = softmax(query @ key.T)[0]
    error = ratio_identity(weights, values, heavy[0], index, np.exp(log_weight))
    return np.linalg.norm(found - weights @ values, axis=1), np.linalg.norm(error, axis=1)


@experiment(ratio_variance)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    ratio, error, arguments = _sampled(rng)
    return ratio**2 * np.sum(error**2, axis=1), ratio_variance(*arguments)


@experiment(ratio_error)
def _(rng: np.random.Generator) -> tuple[Any, Any]:
    _, error, arguments = _sampled(rng, 15)
    return np.sum(error**2, axis=1), ratio_error(*arguments)
