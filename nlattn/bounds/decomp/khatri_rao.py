"""Rows of a Khatri-Rao product drawn by the leverage scores of its factors."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.decomp import khatri_rao
from nlattn.decomp._sampling import draw_rows, selected_rows

__all__ = ["khatri_rao_least_squares", "khatri_rao_leverage"]

FAILURE = 0.1


@bound(
    "always",
    "l_(i_1, ..., i_M)(A_1 o ... o A_M) <= l_i_1(A_1) ... l_i_M(A_M), o the Khatri-Rao product",
    hypotheses=("l_i(A) is the squared norm of row i of an orthonormal basis of the range of A",),
    source="arXiv 2006.16438",
)
def khatri_rao_leverage(*scores: Floats) -> Floats:
    """Leverage scores of the rows of a Khatri-Rao product.

    Parameters
    ----------
    *scores : array, shapes (I_1,), ..., (I_M,)
        The leverage scores of the factors.

    Returns
    -------
    array, shape (I_1 * ... * I_M,)
        Upper bounds, in the order of the rows of ``khatri_rao``.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.khatri_rao_leverage(np.asarray([0.5, 1.0]), np.asarray([1.0, 0.25]))
    array([0.5  , 0.125, 1.   , 0.25 ])
    """
    limit: Floats = np.ones(1)
    for factor in scores:
        limit = (limit[:, None] * factor).ravel()
    return limit


@experiment(khatri_rao_leverage, trials=100, band=(0.5, 1.0))
def khatri_rao_leverage_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    # Heavy tails make a few rows matter; one factor has dependent columns.
    factors = [rng.standard_t(2, size=(size, 4)) for size in (6, 7, 8)]
    factors[1][:, 3] = factors[1][:, 0]
    limit = khatri_rao_leverage(*(_leverage(a) for a in factors))
    scores = _leverage(np.asarray(khatri_rao(factors)))
    row = np.argmax(scores / limit)
    return scores[row], limit[row]


@bound(
    "probability",
    "||A X' - B||^2 <= (1 + e) min ||A X - B||^2, X' from s rows of A = A_1 o ... o A_M, drawn by products of leverage",
    hypotheses=(
        "rows are drawn independently with probabilities p_i = prod_m l_i_m(A_m) / R_m, and weighted by (s p_i)^-1/2",
        "R_m is the rank of A_m, and A has R columns",
        "e = 10 K / (9 s delta (1 - t)^2), K = prod R_m, where t + (1 - t) log(1 - t) = K log(10 R / delta) / s",
    ),
    source="Matrix Chernoff (arXiv 1004.4389, Theorem 1.1) and a second moment; the method is that of arXiv 2006.16438",
)
def khatri_rao_least_squares(ranks: Sequence[int], columns: int, samples: int, failure: float = FAILURE) -> float:
    """Excess of the residual of a least-squares problem solved on sampled rows of a Khatri-Rao product.

    Parameters
    ----------
    ranks : sequence of int
        R_m.
    columns : int
        R.
    samples : int
        s.
    failure : float, default 0.1
        delta, the probability that the bound does not hold.

    Returns
    -------
    float
        e, relative to the least squared residual; inf for s <= K log(10 R / delta), where nothing is claimed.

    Examples
    --------
    >>> import nlattn
    >>> round(nlattn.bounds.khatri_rao_least_squares([3, 3], 3, 2000), 3)
    0.082
    """
    product = math.prod(ranks)
    share = product * math.log(10 * columns / failure) / samples
    if share >= 1:
        return math.inf
    # Solved for u = 1 - t, which may be small: with u from 0 to 1 the left side falls from 1 to 0.
    rest = float(brentq(lambda u: 1 - u + u * math.log(u) - share, 1e-300, 1.0))
    return 10 * product / (9 * samples * failure * rest**2)


@experiment(khatri_rao_least_squares, trials=200, band=(0.004, 0.1), failure=FAILURE)
def khatri_rao_least_squares_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    factors = [rng.standard_t(3, size=(size, 3)) for size in (20, 25)]
    a, b = khatri_rao(factors), rng.standard_t(3, size=(500, 4))
    indices, probability = draw_rows(factors, 1000, rng)
    weights = np.sqrt(1 / (1000 * probability))[:, None]
    rows = np.ravel_multi_index(tuple(indices), (20, 25))
    found = np.linalg.lstsq(weights * selected_rows(factors, indices), weights * b[rows])[0]
    least = np.linalg.norm(a @ np.linalg.lstsq(a, b)[0] - b) ** 2
    return np.linalg.norm(a @ found - b) ** 2 / least - 1, khatri_rao_least_squares([3, 3], 3, 1000)


def _leverage(a: Floats) -> Floats:
    """Leverage scores of a matrix of any rank."""
    u, values, _ = np.linalg.svd(a, full_matrices=False)
    return np.sum(u[:, values > 1e-10 * values[0]] ** 2, axis=1)
