"""Products of the softmax matrix with values from sampled keys, in the spectral norm."""

import math

import numpy as np

from nlattn.arrays.arguments import check_integer, check_number
from nlattn.bounds.catalogue.arguments import check_failure
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.linalg import sampled_product
from nlattn.methods.exact import exact_attention

__all__ = ["sampled_attention_spectral", "stable_rank_limit", "stochastic_norm"]

FAILURE = 0.05


@bound(
    "always",
    "||P||_2 <= (max_j sum_i P_ij)^(1/2), and ||P||_2 >= (L/S)^(1/2)",
    hypotheses=("P (L x S) is not negative, with rows that sum to 1",),
    source="The Schur test",
)
def stochastic_norm(weights: Floats) -> float:
    """Spectral norm of a softmax matrix.

    Parameters
    ----------
    weights : array, shape (L, S)
        P.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.stochastic_norm(np.asarray([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]))
    2.0
    """
    return math.sqrt(np.max(np.sum(weights, axis=0)))


@experiment(stochastic_norm, band=(0.6, 0.95))
def stochastic_norm_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    weights = _softmax(rng, 30, 20)
    return np.linalg.norm(weights, 2), stochastic_norm(weights)


@bound(
    "always",
    "||P||_F^2/||P||_2^2 <= (S^2/L) max_j ||P e_j||^2",
    hypotheses=("P (L x S) has rows that sum to 1",),
    source="Elementary; for L = S the right-hand side is the parameter alpha of arXiv 2310.05869",
)
def stable_rank_limit(weights: Floats) -> float:
    """Stable rank of a softmax matrix; parameters as in `stochastic_norm`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.stable_rank_limit(np.full((2, 2), 0.5)))
    1.0
    """
    rows, keys = weights.shape
    return float(keys**2 / rows * np.max(np.sum(weights**2, axis=0)))


@experiment(stable_rank_limit, band=(0.4, 0.8))
def stable_rank_limit_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    weights = _softmax(rng, 30, 20, 0.25)
    return (np.linalg.norm(weights) / np.linalg.norm(weights, 2)) ** 2, stable_rank_limit(weights)


@bound(
    "probability",
    "||C - P V||_F <= (srank(P) srank(V)/(m b failure))^(1/2) ||P||_2 ||V||_2, srank(X) = ||X||_F^2/||X||_2^2, C from "
    "m keys drawn with probabilities p_j >= b ||v_j||^2/||V||_F^2",
    hypotheses=("the m keys are drawn independently; C is the mean of P e_j v_j^T/p_j over them", "0 < b <= 1"),
    source="A second moment and Markov's inequality; the form is that of arXiv 2302.02451 and 2310.05869",
)
def sampled_attention_spectral(
    weights: Floats, values: Floats, size: int, failure: float, quality: float = 1.0
) -> float:
    """Error of the product of exact softmax weights with sampled values.

    Parameters
    ----------
    weights : array, shape (L, S)
        P.
    values : array, shape (S, Ev)
        V.
    size : int
        m.
    failure : float
        The probability that the bound does not hold.
    quality : float, default 1
        b.

    Returns
    -------
    float
        A bound of the Frobenius norm of the error, and so of its spectral norm, divided by ``||P||_2 ||V||_2``.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> round(nlattn.bounds.sampled_attention_spectral(np.eye(2), np.eye(2), 100, 0.04), 9)
    1.0
    """
    check_integer("size", size)
    check_failure(failure)
    check_number("quality", quality, above=0, most=1)
    ranks = [(np.linalg.norm(x) / np.linalg.norm(x, 2)) ** 2 for x in (weights, values)]
    return math.sqrt(ranks[0] * ranks[1] / (size * quality * failure))


@experiment(sampled_attention_spectral, trials=400, band=(0.08, 0.25), failure=FAILURE)
def sampled_attention_spectral_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    weights, values = _softmax(rng, 15, 40), rng.standard_normal((40, 3)) * rng.exponential(size=(40, 1))
    error = np.linalg.norm(sampled_product(weights, values, 20, kind="rows", rng=rng) - weights @ values)
    scale = np.linalg.norm(weights, 2) * np.linalg.norm(values, 2)
    return error / scale, sampled_attention_spectral(weights, values, 20, FAILURE)


def _softmax(rng: np.random.Generator, rows: int, keys: int, scale: float = 1.0) -> Floats:
    """A softmax matrix, by attention with the identity for values."""
    query, key = rng.standard_normal((rows, 3)), rng.standard_normal((keys, 3))
    return exact_attention(query, key, np.eye(keys), scale=scale)
