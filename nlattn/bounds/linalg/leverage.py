"""Leverage scores and sampling by importance."""

import math

import numpy as np

from nlattn.arrays.arguments import check_integer, check_number
from nlattn.bounds.catalogue.arguments import check_failure
from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.linalg import importance_sample, leverage_scores, product_probabilities, sampled_product
from nlattn.sketch import sketch_operator

__all__ = ["leverage_sampling", "sampled_product_error", "sketched_leverage"]

FAILURE = 0.05


@bound(
    "always",
    "max_i max(t~_i/t_i, t_i/t~_i) <= 1/(1 - e)^2, t~ from the triangular factor of S A, e = max |sigma(S U) - 1|",
    hypotheses=("U is an orthonormal basis of the range of A (n x d, rank d)", "S is any matrix with e < 1"),
    source="arXiv 1109.3843, Lemma 10",
)
def sketched_leverage(distortion: float) -> float:
    """The largest factor between sketched leverage scores and exact ones.

    Parameters
    ----------
    distortion : float
        e: the singular values of the sketched basis lie between 1 - e and 1 + e.

    Returns
    -------
    float
        Ratios lie between ``1 / (1 + e)^2`` and this.

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.sketched_leverage(0.5)
    4.0
    """
    return 1 / (1 - check_number("distortion", distortion, least=0, below=1)) ** 2


@experiment(sketched_leverage, trials=100, band=(0.3, 1.0))
def sketched_leverage_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a = rng.standard_normal((300, 4)) * rng.exponential(size=(300, 1)) ** 2
    seed = int(rng.integers(2**31))
    exact, found = leverage_scores(a), leverage_scores(a, method="sketch", size=60, rng=seed)
    kept = np.linalg.svd(sketch_operator("sparse_sign", 60, 300, rng=seed) @ np.linalg.qr(a)[0], compute_uv=False)
    ratio = found / exact
    return np.max(np.maximum(ratio, 1 / ratio)), sketched_leverage(np.max(np.abs(kept - 1)))


@bound(
    "probability",
    "||U^T S^T S U - I||_2 <= e for m >= (2 k / (b e^2)) (1 + e/3) log(2 k / delta) rows drawn with p_i >= b t_i / k, "
    "except with probability delta",
    hypotheses=(
        "U (n x k) has orthonormal columns and leverage scores t_i = |u_i|^2, which add up to k",
        "S draws m rows independently, with probabilities p_i, and divides them by (m p_i)^(1/2); 0 < b <= 1",
    ),
    source="arXiv 1411.4357, Theorem 17, with constants from the matrix Bernstein inequality, arXiv 1501.01571",
)
def leverage_sampling(rank: int, rows: int, failure: float, quality: float = 1.0) -> float:
    """How well rows that are drawn by leverage scores keep the inner products on a subspace.

    Parameters
    ----------
    rank : int
        k.
    rows : int
        m.
    failure : float
        delta.
    quality : float, default 1
        b.

    Returns
    -------
    float
        The least e that m allows; from 1 on it says nothing.

    Examples
    --------
    >>> import nlattn
    >>> round(nlattn.bounds.leverage_sampling(5, 1000, 0.05), 3)
    0.239
    """
    check_integer("rank", rank)
    check_integer("rows", rows)
    check_failure(failure)
    check_number("quality", quality, above=0, most=1)
    # The positive root of e^2 = c (1 + e/3).
    c = 2 * rank / (quality * rows) * math.log(2 * rank / failure)
    return c / 6 + math.sqrt(c**2 / 36 + c)


@experiment(leverage_sampling, band=(0.1, 0.9), failure=FAILURE)
def leverage_sampling_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    u = np.linalg.qr(rng.standard_normal((500, 4)) * rng.exponential(size=(500, 1)) ** 3)[0]
    index, log_weight = importance_sample(leverage_scores(u), 150, rng=rng)
    sampled = u[index] * np.exp(log_weight / 2)[:, None]
    return np.linalg.norm(sampled.T @ sampled - np.eye(4), 2), leverage_sampling(4, 150, FAILURE)


@bound(
    "moment",
    "E ||C - A B||_F^2 = (1/m) (sum_i |a_i|^2 |b_i|^2/p_i - ||A B||_F^2), C from m terms drawn with probabilities p_i",
    hypotheses=("the terms a_i b_i^T are drawn independently", "p_i > 0 wherever |a_i| |b_i| > 0"),
    source="DOI 10.1137/S0097539704442684, Lemma 4",
)
def sampled_product_error(a: Floats, b: Floats, probabilities: Floats, size: int) -> float:
    """Mean squared error of a product of matrices from sampled terms.

    Parameters
    ----------
    a : array, shape (q, n)
    b : array, shape (n, r)
    probabilities : array, shape (n,)
    size : int
        m.

    Returns
    -------
    float
        Least for p_i proportional to |a_i| |b_i|.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> nlattn.bounds.sampled_product_error(np.ones((1, 2)), np.asarray([[3.0], [1.0]]), np.asarray([0.5, 0.5]), 4)
    1.0
    """
    terms = np.sum(np.abs(a) ** 2, axis=0) * np.sum(np.abs(b) ** 2, axis=1)
    used = terms > 0
    return float((np.sum(terms[used] / probabilities[used]) - np.linalg.norm(a @ b) ** 2) / size)


@experiment(sampled_product_error, trials=3000, band=(0.9, 1.1))
def sampled_product_error_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    a, b = rng.standard_normal((3, 20)), rng.standard_normal((20, 2))
    kind = rng.choice(["optimal", "rows", "uniform"])
    error = np.linalg.norm(sampled_product(a, b, 8, kind=kind, rng=rng) - a @ b) ** 2
    probabilities = np.asarray(product_probabilities(a, b, kind))
    return error, sampled_product_error(a, b, probabilities, 8)
