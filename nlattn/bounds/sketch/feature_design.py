"""What the choice of features, of their scaling and of their arguments guarantees."""

import math

import numpy as np

from nlattn.bounds.catalogue.decorators import bound, experiment
from nlattn.bounds.catalogue.typing import Floats, Measured
from nlattn.sketch import (
    balance_query_key,
    optimal_covariance,
    orthogonal_projection,
    positive_log_features,
    stabilised_features,
)

__all__ = ["balanced_mean", "optimal_second_moment", "stabilised_denominator"]


@bound(
    "always",
    "1 / D_i <= 1, D_i the sum over the keys of the products of stabilised features of query i",
    hypotheses=("at least one key is not left out",),
    source="Derived",
)
def stabilised_denominator(rows: int) -> Floats:
    """Inverse denominators of attention by stabilised positive features.

    Parameters
    ----------
    rows : int
        Number of queries.

    Returns
    -------
    array, shape (rows,)
        1 for each: no denominator can be small, whatever the features are.

    Examples
    --------
    >>> import nlattn
    >>> nlattn.bounds.stabilised_denominator(2)
    array([1., 1.])
    """
    return np.ones(rows)


@experiment(stabilised_denominator, band=(0.001, 1.0))
def stabilised_denominator_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    # Sizes from the harmless to the hopeless: the largest scores are those of attention without a scale.
    x, y = 10 ** rng.uniform(-1, 1) * rng.standard_normal((2, 20, 8))
    W = orthogonal_projection(12, 8, rng=rng)
    query, key, _ = stabilised_features(positive_log_features(x, W), positive_log_features(y, W))
    return 1 / np.min(query @ np.sum(key, axis=0)), stabilised_denominator(1)


@bound(
    "always",
    "the mean over pairs of log(E k^2 / e^(2 x.y)) is for the optimal covariance at most that for variances v_l on "
    "axes b_l, which is sum_l (log(v_l (2 v_l - 1)^(-1/2)) + mean ((x + y).b_l)^2 / (2 v_l - 1))",
    hypotheses=(
        "k is the product of two weighted positive features of one direction",
        "all v_l > 1/2",
        "the axes b_l are orthonormal",
    ),
    source="Derived; the covariance is that of arXiv 2302.00787",
)
def optimal_second_moment(x: Floats, y: Floats, variance: Floats, basis: Floats) -> float:
    """Mean of the logarithm of the relative second moment of a product of two positive features.

    Parameters
    ----------
    x : array, shape (n, d)
    y : array, shape (s, d)
    variance : array, shape (d,)
    basis : array, shape (d, d)
        Orthonormal columns.

    Returns
    -------
    float
        The mean over all pairs. No variance and basis make it smaller than those of `optimal_covariance`.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> x = np.asarray([[1.0, 0.0]])
    >>> float(nlattn.bounds.optimal_second_moment(x, x, np.ones(2), np.eye(2)))
    4.0
    """
    rho = 1 / (2 * variance - 1)
    squares = np.mean(((x[:, None, :] + y) @ basis) ** 2, axis=(0, 1))
    return float(np.sum(np.log(variance) + np.log(rho) / 2 + rho * squares))


@experiment(optimal_second_moment, band=(0.5, 1.0))
def optimal_second_moment_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    d = 4
    x, y = (rng.standard_normal((n, d)) * rng.uniform(0.2, 1.5, d) + rng.uniform(0, 0.5, d) for n in (12, 9))
    variance, axes = map(np.asarray, optimal_covariance(x, y))
    # Other choices, near the optimum and far from it.
    step = rng.choice((0.03, 0.3, 1.0))
    turned, _ = np.linalg.qr(axes + step * rng.standard_normal((d, d)))
    other = 0.5 + (variance - 0.5) * np.exp(step * rng.standard_normal(d))
    return optimal_second_moment(x, y, variance, axes), optimal_second_moment(x, y, other, turned)


@bound(
    "identity",
    "the mean of ||x + y||^2 over all pairs of balanced queries and keys is 2 ||M^(1/2) N^(1/2)||_*, M and N the "
    "second moments of the centred queries and keys",
    hypotheses=("queries and keys are centred, and balanced by a full matrix", "M and N have full rank"),
    source="Derived",
)
def balanced_mean(query: Floats, key: Floats) -> float:
    """Mean of ||x + y||^2 over all pairs of balanced queries x and keys y.

    Parameters
    ----------
    query : array, shape (n, d)
    key : array, shape (s, d)
        Before balancing.

    Returns
    -------
    float
        The least value under all shifts and invertible matrices that keep the scores, up to the regularisation of
        rank-deficient moments.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> float(nlattn.bounds.balanced_mean(np.asarray([[3.0], [-3.0]]), np.asarray([[5.0], [6.0]])))
    3.0
    """
    roots = []
    for points in (query, key):
        centred = points - np.mean(points, axis=0)
        _, values, axes = np.linalg.svd(centred / math.sqrt(len(points)), full_matrices=False)
        roots.append((axes.T * values) @ axes)
    return 2 * float(np.sum(np.linalg.svd(roots[0] @ roots[1], compute_uv=False)))


@experiment(balanced_mean, trials=100, band=(1 - 1e-7, 1 + 1e-7), rounding=1e-7)
def balanced_mean_trial(rng: np.random.Generator) -> tuple[Measured, Measured]:
    query, key = (rng.standard_normal((n, 4)) @ rng.standard_normal((4, 4)) + rng.random(4) for n in (30, 20))
    x, y, _, _ = balance_query_key(query, key)
    return np.mean(np.sum((x[:, None, :] + y) ** 2, axis=-1)), balanced_mean(query, key)
