"""Attention whose numerator and normaliser come from the same samples."""

import numpy as np
from numpy.typing import NDArray

from nlattn.arrays.arguments import check_integer
from nlattn.bounds.attention.sampling import (
    HYPOTHESES,
    SIZE,
    SOURCE,
    SampledProblem,
    draw_keys,
    light_keys,
    sampled_problem,
)
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured

__all__ = ["ratio_error", "ratio_identity", "ratio_variance"]

RATIO = (
    "o is the output of a row, and o' = n'/d', where n' sums the values with the weights of the same keys as d'",
    *HYPOTHESES,
)


@bound(
    "identity",
    "o' - o = (sum_j P_j (v_j - o) + sum_s w_s P_s (v_s - o)) / (d'/d), j over the heavy keys, s over the draws of "
    "others, w their weights, P the softmax",
    hypotheses=(
        "o and d are the output and the normaliser of a row with weights A; o' = n'/d' with "
        "n' = sum_j A_j v_j + sum_s w_s A_s v_s and d' = sum_j A_j + sum_s w_s A_s > 0",
    ),
    source="Elementary",
)
def ratio_identity(
    weights: Floats, values: Floats, heavy: NDArray[np.bool], index: NDArray[np.integer], sample_weights: Floats
) -> Floats:
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


@experiment(ratio_identity, band=(1 - 1e-9, 1 + 1e-9), rounding=1e-8)
def ratio_identity_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    problem = sampled_problem(rng)
    index, log_weight = draw_keys(problem.probabilities, rng)
    index, log_weight = index[:100], log_weight[:100]
    _, found = problem.attend(index, log_weight)
    weights = problem.weights[0]
    error = ratio_identity(weights, problem.values, problem.heavy[0], index, np.exp(log_weight))
    return np.linalg.norm(found - weights @ problem.values, axis=1), np.linalg.norm(error, axis=1)


@bound(
    "moment",
    "E (d'/d)^2 ||o' - o||^2 = (1/m) (sum_j P_j^2 ||v_j - o||^2/p_j - ||sum_j P_j (v_j - o)||^2), sums over the keys "
    "that are not heavy, P the softmax",
    hypotheses=RATIO,
    source=f"{SOURCE}, for the sampling of arXiv 2302.02451 and 2310.05869",
)
def ratio_variance(
    weights: Floats, values: Floats, heavy: NDArray[np.bool], probabilities: Floats, size: int
) -> Floats:
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
    light, ratios = light_keys(weights, heavy, probabilities)
    offsets = values[None] - (weights @ values)[:, None]
    mean = np.sum(light[..., None] * offsets, axis=1)
    return (np.sum(light * ratios * np.sum(offsets**2, axis=-1), axis=-1) - np.sum(mean**2, axis=-1)) / size


@experiment(ratio_variance, trials=40_000, band=(0.9, 1.1))
def ratio_variance_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    problem = sampled_problem(rng)
    normalisers, outputs = problem.replicates(rng)
    ratio = normalisers / np.sum(np.exp(problem.scores))
    return ratio**2 * _squared_errors(problem, outputs), ratio_variance(*_arguments(problem))


@bound(
    "mean",
    "E ||o' - o||^2 <= (1/g^2) E (d'/d)^2 ||o' - o||^2, g = sum of P over the heavy keys + min over all keys j "
    "of P_j/p_j, or 0 for a heavy one",
    hypotheses=RATIO,
    source="Follows from the moment `ratio_variance`",
)
def ratio_error(weights: Floats, values: Floats, heavy: NDArray[np.bool], probabilities: Floats, size: int) -> Floats:
    """A limit of the mean squared error of an output from samples; parameters as in `ratio_variance`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> P, heavy = np.asarray([[0.5, 0.3, 0.2]]), np.asarray([[True, False, False]])
    >>> v = np.asarray([[0.0], [1.0], [1.0]])
    >>> nlattn.bounds.ratio_error(P, v, heavy, np.full(3, 1 / 3), 10).round(9)
    array([0.014])
    """
    variance = ratio_variance(weights, values, heavy, probabilities, size)
    _, ratios = light_keys(weights, heavy, probabilities)
    least = np.sum(np.where(heavy, weights, 0), axis=-1) + np.min(ratios, axis=-1)
    return variance / least**2


@experiment(ratio_error, trials=10_000, band=(0.2, 1.0))
def ratio_error_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    problem = sampled_problem(rng, heavy=15)
    _, outputs = problem.replicates(rng)
    return _squared_errors(problem, outputs), ratio_error(*_arguments(problem))


def _squared_errors(problem: SampledProblem, outputs: Floats) -> Floats:
    """||o' - o||^2 of all replicates."""
    return np.sum((outputs - problem.weights @ problem.values) ** 2, axis=1)


def _arguments(problem: SampledProblem) -> tuple[Floats, Floats, NDArray[np.bool], Floats, int]:
    return problem.weights, problem.values, problem.heavy, problem.probabilities, SIZE
